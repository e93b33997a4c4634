//! Every experiment compiles with every model that it compares or has a block for, and those of the paper's size have the size that the paper's has.

use std::path::{Path, PathBuf};

use rtc_compiler::check::{check, names, resolve_name};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_runs::experiment::{ComparedModel, EMBEDDED, Experiment, ExperimentFile};
use rtc_runs::record::RunInfo;
use rtc_task::{Objective, resolve_options, task_named};
use rtc_tests::models::Folder;

/// What is known of the published models of an experiment.
struct Published {
    experiment: &'static str,
    /// Number of parameters, in the order of `MODELS`.
    parameters: [usize; 5],
    /// Tokens of their vocabulary; padding, separators and unknown words are some of them.
    vocabulary: usize,
    /// Width of the models; that of the last two, which have chunks.
    widths: [usize; 2],
    /// Parameters that theirs have and never use: START and END, or the norm of a memory that is not read out.
    idle: usize,
}

const fn published(
    experiment: &'static str,
    parameters: [usize; 5],
    vocabulary: usize,
    widths: [usize; 2],
) -> Published {
    Published { experiment, parameters, vocabulary, widths, idle: 0 }
}

#[rustfmt::skip]
const PUBLISHED: &[Published] = &[
    published("listops", [8_680_970, 2_641_931, 3_954_187, 8_167_946, 6_592_011], 18, [512, 512]),
    published("logic", [9_463_815, 3_424_776, 4_737_032, 8_945_671, 7_369_736], 14, [512, 512]),
    Published { idle: 1_024, ..published("flip_flop", [19_168_769, 3_680_258, 6_042_114, 16_028_673, 10_251_778], 5, [512, 512]) },
    published("lra_listops", [8_680_970, 2_641_931, 3_954_187, 8_208_906, 6_632_971], 18, [512, 512]),
    published("lra_text", [3_287_297, 987_138, 1_578_242, 2_633_985, 2_239_234], 257, [256, 256]),
    published("lra_retrieval", [889_985, 313_346, 461_442, 727_169, 628_098], 257, [128, 128]),
    published("lra_image", [117_130, 133_771, 183_179, 217_610, 283_659], 256, [128, 128]),
    published("lra_pathfinder", [87_169, 58_178, 78_850, 316_033, 282_498], 256, [64, 128]),
];
const MODELS: [&str; 5] = ["transformer", "ut", "gut", "tlb", "gutlb"];

/// Published numbers of parameters between the token vectors and the head ("Recursion in Recursion", ListOps).
#[rustfmt::skip]
const ENCODERS: [(&str, usize); 13] = [
    ("s4d", 530_432),
    ("bbt_grc", 411_264),
    ("rir_grc", 526_720),
    ("ordered_memory", 444_673),
    ("crvnn", 493_697),
    ("bt_grc:one_soft", 411_393),
    ("ebt_grc", 419_585),
    ("rir_crvnn", 609_409),
    ("rir_om", 577_153),
    ("rir_ebt_grc", 535_041),
    ("rir_ebt_grc:no_s4d", 419_585),
    ("rir_ebt_grc:string", 535_041),
    ("rir_ebt_grc:chunk_10", 535_041),
];

fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs")
}

/// Every file of specs.
fn sources() -> Vec<Source> {
    let entries = std::fs::read_dir(specs()).expect("specs/ exists");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("specs/ can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rt"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a spec is readable");
    paths.iter().map(|path| Source::new(path.display().to_string(), read(path))).collect()
}

/// Number of parameters of a model in an experiment; `name` is that of a block, as `gut:no_gate`.
fn parameters(experiment: &Experiment, name: &str) -> usize {
    // A block of a model is for its causal variant where every token is answered.
    let task = task_named(&experiment.task.name).expect("the experiment was checked");
    let causal = format!("{name}:causal");
    let has = sources().iter().any(|source| names(source).contains(&causal));
    let name = if task.objective() == Objective::Each && has { causal } else { name.to_owned() };
    compiled(experiment, &name, &experiment.set)
}

/// Number of parameters of a compared model, by its block of the experiment and its own edits.
fn compared(file: &ExperimentFile, entry: &ComparedModel) -> usize {
    let (spec, target) = entry.spec.split_once(':').map_or((entry.spec.as_str(), None), |(s, t)| (s, Some(t)));
    let source = sources().into_iter().find(|source| source.name.ends_with(&format!("/{spec}.rt")));
    let source = source.unwrap_or_else(|| panic!("there is no spec `{spec}`"));
    let (name, problems, sources) = resolve_name(&Folder(specs()), source, target);
    let name = name.unwrap_or_else(|| panic!("{}: {}", entry.name, render(&problems, &sources, Style::Plain)));
    let experiment = file.resolve(Some(&name), &entry.with).expect("valid");
    compiled(&experiment, &name, &[experiment.set.as_slice(), &entry.set].concat())
}

/// Number of parameters of a model, named in full, with these edits.
fn compiled(experiment: &Experiment, name: &str, edits: &[String]) -> usize {
    let task = task_named(&experiment.task.name).expect("the experiment was checked");
    let options = resolve_options(task.about().options, &experiment.task.options).expect("the experiment was checked");
    let catalog = Catalog {
        task: Some(task.name().to_owned()),
        vocabulary: Some(task.vocabulary(&options).len()),
        classes: Some(task.classes(&options).len()),
        objective: Some(task.objective()),
        next_token: task.next_token(&options),
    };
    let source = sources().into_iter().find(|source| names(source).iter().any(|known| known == name));
    let source = source.unwrap_or_else(|| panic!("no spec has `{name}`"));
    let (spec, problems, sources) = check(&Folder(specs()), source, Some(name), edits, &catalog);
    let spec = spec.unwrap_or_else(|| panic!("{name}: {}", render(&problems, &sources, Style::Plain)));
    let graph = pipeline::forward(&spec, &Binding::from(&catalog)).expect("it lowers");
    let size = |dims: &[Dim]| dims.iter().filter_map(Dim::fixed).product::<usize>();
    graph.parameters().iter().map(|parameter| size(parameter.ty.dims())).sum()
}

#[test]
fn every_model_of_every_experiment_compiles() {
    for (name, text) in EMBEDDED {
        let file = ExperimentFile::parse(name, text).expect("valid");
        for model in file.models() {
            assert!(parameters(&file.resolve(Some(model), &[]).expect("valid"), model) > 1_000, "{name} {model}");
        }
        for entry in file.compare() {
            assert!(compared(&file, entry) > 1_000, "{name} {}", entry.name);
        }
    }
}

/// Runs of a built-in experiment belong to its resolved settings. A change of these identities makes other runs of it, also of an
/// experiment that extends the one that was edited.
#[test]
fn resolved_experiments_keep_their_identities() {
    let identity = |experiment: &Experiment| RunInfo::default().identity(experiment);
    let mut text = String::new();
    for (name, _) in EMBEDDED {
        let file = ExperimentFile::embedded(name).expect("embedded");
        let of = |model: Option<&str>, edits: &[String]| file.resolve(model, edits).expect("valid");
        text += &format!("{name} {}\n", identity(&of(None, &[])));
        let models: Vec<String> =
            file.models().map(|model| format!("{model} {}", identity(&of(Some(model), &[])))).collect();
        text += &format!("  models: {}\n", models.join(", "));
        let row = |entry: &ComparedModel| {
            let experiment = of(Some(&entry.spec), &entry.with);
            let set = [experiment.set.as_slice(), &entry.set].concat();
            format!("{} {}", entry.name, identity(&Experiment { model: Some(entry.spec.clone()), set, ..experiment }))
        };
        let rows: Vec<String> = file.compare().iter().map(row).collect();
        text += &format!("  compare: {}; {:?} {:?}\n", rows.join(", "), file.baseline(), file.halving());
    }
    insta::assert_snapshot!("identities", text);
}

#[test]
fn experiments_of_the_papers_size_have_the_published_numbers_of_parameters() {
    for published in PUBLISHED {
        let file = ExperimentFile::embedded(published.experiment).expect("embedded");
        for (n, model) in MODELS.iter().enumerate() {
            let experiment = file.resolve(Some(model), &[]).expect("valid");
            let task = task_named(&experiment.task.name).expect("checked");
            let options = resolve_options(task.about().options, &experiment.task.options).expect("checked");
            let fewer = published.vocabulary - task.vocabulary(&options).len();
            let width = published.widths[usize::from(model.ends_with("lb"))];
            let expected = published.parameters[n] - fewer * width - published.idle;
            assert_eq!(parameters(&experiment, model), expected, "{} {model}", published.experiment);
        }
    }
}

#[test]
fn trees_have_the_published_numbers_of_parameters() {
    let file = ExperimentFile::embedded("listops_trees").expect("embedded");
    let (tokens, linear, classifier) = (15 * 128, 128 * 10 + 10, 128 * 128 + 128 + 128 * 10 + 10);
    for (name, encoder) in ENCODERS {
        let entry = file.compare().iter().find(|entry| entry.name == name).unwrap_or_else(|| panic!("{name}"));
        let head = if name == "s4d" { linear } else { classifier };
        assert_eq!(compared(&file, entry), tokens + encoder + head, "{name}");
    }
}

/// One layer of 788,736 parameters, two biases for each of eight heads, what fills a chunk, token vectors and a linear map: the released
/// code has one column more for tokens, which no token uses.
#[test]
fn regular_gpt_has_the_released_number_of_parameters() {
    let file = ExperimentFile::embedded("regular_even_pairs").expect("embedded");
    let experiment = file.resolve(Some("regular_gpt_tree"), &[]).expect("valid");
    let (tokens, head) = (2 * 256, 256 + 1);
    assert_eq!(parameters(&experiment, "regular_gpt_tree"), 788_736 + 2 * 8 + 256 + tokens + head);
}

/// The published code has one bias more, of tokens that it embeds one-hot.
#[test]
fn looped_models_have_the_published_numbers_of_parameters_but_for_a_bias() {
    const WIDTH: usize = 256;
    let cases = [
        ("parity", 793_606, WIDTH),
        ("copy", 1_583_366, WIDTH),
        ("addition", 2_373_126, WIDTH),
        ("multiplication", 3_162_886, WIDTH),
        ("binary_sum", 1_583_366, WIDTH),
        ("unique_set", 2_400_572, 0),
    ];
    for (task, published, tokens) in cases {
        let file = ExperimentFile::embedded(&format!("looped_{task}")).expect("embedded");
        let experiment = file.resolve(Some("looped"), &[]).expect("valid");
        assert_eq!(parameters(&experiment, "looped"), published - tokens, "{task}");
    }
}
