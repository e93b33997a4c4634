//! `extends`: which values an experiment has, and in which file each of them and each mistake stands.

use std::path::Path;

use rtc_runs::experiment::{EMBEDDED, ExperimentFile};

const BASE: &str = "task: { name: listops, sizes: { train: 8, dev: 4 } }\noptimiser:\n  learning_rate: 0.1\n  clip: 1\n\
                    schedule: { kind: constant }\nbatch: { size: 2 }\nepochs: 1\nseeds: [1, 2]\nevaluate: [test]\n\
                    models:\n  gut: { optimiser: { clip: 5 } }\n  ut: { epochs: 3 }\ncompare: [gut, ut]\n";

/// The file `own.yaml` in a folder with others.
fn parse(own: &str, beside: &[(&str, &str)]) -> Result<ExperimentFile, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in beside {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    let read = |path: &Path| {
        let name = path.file_name().unwrap_or_default().display().to_string();
        std::fs::read_to_string(path).map_err(|_| format!("can't read {name}"))
    };
    let own_file = folder.path().join("own.yaml").display().to_string();
    std::fs::write(&own_file, own).expect("it can be written");
    let parsed = ExperimentFile::parse_in(folder.path(), &read, &own_file, own);
    parsed.map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
}

#[test]
fn blocks_are_merged_lists_replaced_and_null_removes() {
    let own = "extends: base\ntask: { sizes: { dev: null, test: 6 } }\nseeds: [3]\noptimiser: { clip: null }\n\
               batch: { size: 4 }\nlog_every: 5\nmodels:\n  ut: null\n  gut: { epochs: 2, optimiser: { clip: null } }\n\
               compare: [gut]\n";
    let file = parse(own, &[("base.yaml", BASE)]).expect("valid");
    let experiment = file.resolve(None, &[]).expect("valid");
    let sizes: Vec<_> = experiment.task.sizes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    assert_eq!(sizes, [("test", 6), ("train", 8)]);
    assert_eq!((experiment.seeds, experiment.optimiser.clip, experiment.batch.size), (vec![3], None, 4));
    assert_eq!((experiment.epochs, experiment.optimiser.learning_rate), (Some(1), 0.1));
    assert_eq!(file.models().collect::<Vec<_>>(), ["gut"]);
    let gut = file.resolve(Some("gut"), &[]).expect("valid");
    assert_eq!((gut.epochs, gut.optimiser.clip), (Some(2), None));
    assert_eq!(file.compare().len(), 1);
    // `null` gives a field its default back.
    let back = parse(
        "extends: own_base.yaml\nlog_every: null\ncompare: null\n",
        &[("own_base.yaml", &own.replace("extends: base", "extends: base.yaml")), ("base.yaml", BASE)],
    );
    let back = back.expect("valid");
    assert_eq!(back.resolve(None, &[]).expect("valid").log_every, 10);
    assert!(back.compare().is_empty());
}

#[test]
fn mistakes_are_placed_in_the_file_that_has_them() {
    let case = |own: &str, base: &str, expected: &str| {
        let error = parse(own, &[("base.yaml", base)]).expect_err(expected);
        assert!(error.starts_with(expected), "{error} should say {expected}");
    };
    let own = "epochs: 2\nextends: base\n";
    case(own, &BASE.replace("clip: 1", "clipp: 1"), "base.yaml:4: optimiser: unknown field `clipp`");
    case(own, &BASE.replace("size: 2", "size: 0"), "base.yaml:6: `size` must be at least 1");
    case(own, &BASE.replace("clip: 5", "clip: -5"), "base.yaml:11: `clip` must be positive");
    case(own, &BASE.replace("clip: 1", "clip: ["), "base.yaml:6: this is not an experiment in YAML");
    case("extends: base\nbatch: { size: 0 }\n", BASE, "own.yaml:2: `size` must be at least 1");
    case("extends: base\noptimiser: { clipp: null }\n", BASE, "own.yaml:2: optimiser: unknown field `clipp`");
    case("extends: base\nepochs: null\n", BASE, "own.yaml:2: `epochs` or `max_steps`");
    case("extends: base\nbaseline: tlb\n", BASE, "own.yaml:2: `baseline`: there is no entry");
    case(
        "epochs: 1\nextends: listop_smoke\n",
        BASE,
        "own.yaml:2: `extends`: there is no experiment `listop_smoke`; did you mean `listops_smoke`?",
    );
    case("extends: other.yaml\n", BASE, "own.yaml:1: `extends`: can't read other.yaml");
    case("extends: ../base.yaml\n", BASE, "own.yaml:1: `extends`: takes the name of an experiment");
    case("extends: [base]\n", BASE, "own.yaml:1: `extends`: takes the name of an experiment");
}

#[test]
fn chains_end() {
    let error = parse("extends: base\n", &[("base.yaml", "epochs: 1\nextends: own\n")]).expect_err("a cycle");
    assert!(error.starts_with("base.yaml:2: `extends`: `own.yaml` extends itself"), "{error}");
    let files: Vec<(String, String)> =
        (0..8).map(|n| (format!("b{n}.yaml"), format!("extends: b{}\n", n + 1))).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let error = parse("extends: b0\n", &files).expect_err("too deep");
    assert!(error.starts_with("b6.yaml:1: `extends`: more than 8 experiments"), "{error}");
}

#[test]
fn the_text_reads_back_as_the_same_experiment() {
    for (name, _) in EMBEDDED {
        let file = ExperimentFile::embedded(name).expect("embedded");
        let text = file.text_with_places().expect("valid");
        let again = ExperimentFile::parse("again", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for model in [None].into_iter().chain(file.models().map(Some)) {
            assert_eq!(again.resolve(model, &[]), file.resolve(model, &[]), "{name}");
        }
        let rows = |file: &ExperimentFile| -> Vec<(String, Vec<String>)> {
            file.compare().iter().map(|row| (row.name.clone(), [row.set.clone(), row.with.clone()].concat())).collect()
        };
        assert_eq!(rows(&again), rows(&file), "{name}");
    }
}

#[test]
fn places_are_those_of_the_file_whose_word_counts() {
    let text =
        "extends: listops_smoke\nbatch: { size: 4 }\npatience: null\nmodels:\n  ut: null\n  gut:\n    epochs: 2\n";
    let file = ExperimentFile::parse("x.yaml", text).expect("valid");
    let settings = file.settings().expect("valid");
    let place = |path: &str| {
        let found = settings.iter().find(|setting| setting.path.join(".") == path)?;
        found.place.as_ref().map(|(file, line)| format!("{file}:{line}"))
    };
    assert_eq!(place("batch.size").as_deref(), Some("x.yaml:2"));
    assert_eq!(place("patience").as_deref(), Some("x.yaml:3"));
    assert_eq!(place("models.gut.epochs").as_deref(), Some("x.yaml:7"));
    assert_eq!(place("batch.accumulate"), None);
    for path in ["batch.buckets", "models.gut:no_gate.set"] {
        let base = place(path).expect("the base has it");
        assert!(base.starts_with("listops_smoke:"), "{base}");
    }
    assert!(settings.iter().all(|setting| !setting.path.join(".").starts_with("models.ut")));
    assert!(!file.text_with_places().expect("valid").contains("extends"));
}
