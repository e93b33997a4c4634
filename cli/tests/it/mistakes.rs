//! Mistakes that people make who come from other programs: the answer names what is meant.

use crate::support::Place;

const REST: &str = "schedule: { kind: constant }\nbatch: { size: 4 }\nmax_steps: 1\nevaluate: []\n";

#[test]
fn options_of_other_programs_are_named_as_they_are_here() {
    let place = Place::new();
    for (option, way) in [
        ("--lr", "--with optimiser.learning_rate=RATE"),
        ("--learning-rate=0.1", "--with optimiser.learning_rate=RATE"),
        ("--epochs", "--with epochs=N"),
        ("--batch-size", "--with batch.size=N"),
        ("--steps", "--max-steps N"),
        ("--dropout", "--set dropout=SHARE"),
        ("--gpu", "--device cuda"),
        ("--config", "--experiment FILE"),
        ("--output-dir", "--runs DIR"),
    ] {
        place.train(&[option, "3"]).code(2).says(&format!("tip: here it is `{way}`"));
    }
    // The ways that are named exist.
    let ways = [
        "--with",
        "optimiser.learning_rate=0.1",
        "--with",
        "optimiser.weight_decay=0.1",
        "--with",
        "optimiser.kind=adamw",
    ];
    let more = ["--with", "epochs=1", "--with", "batch.size=4", "--with", "schedule.warmup=3", "--set", "dropout=0.2"];
    let last = ["--max-steps", "1", "--device", "cpu", "--runs", "other", "--run", "one"];
    place.train(&[&ways[..], &more, &last].concat()).code(0);
    place.rtc(&["train", "tiny.yaml"]).code(2).says("`--experiment tiny.yaml` names it");
    place.rtc(&["generate", "other/one", "--temperature", "-1"]).code(2).says("a temperature is a number from 0 on");
    place.rtc(&["eval", "other/on"]).code(6).says("there is no such run; did you mean `one`?");
    place.rtc(&["eval", "other/nothing"]).code(6).says("there is no such run").is_quiet_about("did you mean");
}

#[test]
fn fields_of_other_programs_are_named_as_they_are_here() {
    let place = Place::new();
    let wrong = |text: &str, parts: &[&str]| {
        place.write("wrong.yaml", text);
        let said = place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]);
        said.code(2);
        for part in parts {
            said.says(part);
        }
    };
    let task = "task: { name: listops, sizes: { train: 8, dev: 4 } }\n";
    wrong(
        &format!("{task}optimiser: {{ lr: 0.1 }}\n{REST}"),
        &["wrong.yaml:2", "unknown field `lr`", "it is `learning_rate` here"],
    );
    wrong(
        &format!("{task}optimiser: {{ learning_rate: 0.1 }}\nsteps: 3\n{REST}"),
        &["wrong.yaml:3", "it is `max_steps` here"],
    );
    wrong(
        &format!("{task}optimiser: {{ learning_rate: 0.1 }}\nlr_scheduler: x\n{REST}"),
        &["did you mean `schedule`?"],
    );
    wrong("task:\n\tname: listops\n", &["wrong.yaml:2", "a tab indents this line, and YAML takes only blanks"]);
    let both = format!("{task}optimiser: {{ learning_rate: 0.1 }}\noptimizer: {{ learning_rate: 0.1 }}\n{REST}");
    wrong(&both, &["`optimizer` and `optimiser` are one field"]);
    wrong(
        &format!("{task}optimizer: {{ learning_rat: 0.1 }}\n{REST}"),
        &["wrong.yaml:2", "did you mean `learning_rate`?"],
    );

    // Both spellings are one experiment, in files, in the blocks of models, and in edits.
    let right = |name: &str, word: &str| {
        let models = format!("models: {{ tiny: {{ {word}: {{ clip: 2 }} }} }}\n");
        place.write(&format!("{name}.yaml"), &format!("{task}{word}: {{ learning_rate: 0.1 }}\n{models}{REST}"));
        let edit = format!("{word}.epsilon=0.001");
        place
            .rtc(&["train", "tiny.rt", "--experiment", &format!("{name}.yaml"), "--with", &edit, "--run", name])
            .code(0);
        place.read(&format!("runs/{name}/experiment.yaml"))
    };
    assert_eq!(right("american", "optimizer"), right("british", "optimiser"));
}

#[test]
fn all_mistakes_are_told_at_once_with_their_lines() {
    let place = Place::new();
    let text = "task:\n  name: listops\n  sizes: { train: 8, dve: 4, test: 0 }\noptimiser:\n  lr: 0.1\n  weight_decay: much\n  \
                clip: -1\nschedule: { kind: cosin, warmup: 10 }\nbatch: { size: 0 }\nmax_steps: 1\nevaluate: [tset]\nseeds: 1\n\
                checkpoints: { every: 0 }\nmetrics: [macro_f2]\nchoose: lats\n";
    place.write("wrong.yaml", text);
    let said = place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]);
    said.code(2);
    let lines: Vec<&str> = said.stderr.lines().collect();
    let expected = [
        (3, "`dve`; did you mean `dev`?"),
        (3, "the size of `test` must be at least 1"),
        (5, "it is `learning_rate` here"),
        (6, "expected a number"),
        (7, "`clip` must be positive"),
        (8, "did you mean `cosine`?"),
        (9, "`size` must be at least 1"),
        (11, "`tset`; did you mean `test`?"),
        (12, "expected a list"),
        (13, "`every` and `keep` must be at least 1"),
        (14, "did you mean `macro_f1`?"),
        (15, "did you mean `last`?"),
    ];
    for (line, part) in expected {
        let is_said = |said: &&&str| said.starts_with(&format!("error: wrong.yaml:{line}: ")) && said.contains(part);
        assert_eq!(lines.iter().filter(is_said).count(), 1, "{line} {part}: {}", said.stderr);
    }
    // The missing learning rate is the one that is written `lr`.
    assert!(lines.len() <= expected.len() + 1, "{}", said.stderr);
    // Put right, every mistake goes, and no other comes.
    let right = text.replace("dve", "dev").replace("test: 0", "test: 2").replace("lr:", "learning_rate:");
    let right =
        right.replace("much", "0").replace("-1", "1").replace("cosin,", "cosine,").replace("size: 0", "size: 2");
    let right = right.replace("tset", "test").replace("seeds: 1", "seeds: [1]").replace("every: 0", "every: 1");
    let right = right.replace("macro_f2", "macro_f1").replace("lats", "last").replace("max_steps: 1", "max_steps: 12");
    place.write("right.yaml", &right);
    let train = |file: &str, edits: &[&str]| {
        place.rtc(&[&["train", "tiny.rt", "--experiment", file, "--max-steps", "11"][..], edits].concat())
    };
    train("right.yaml", &[]).code(0);

    // Edits of the command line are told apart.
    let edits = ["--with", "epochs=0", "--with", "optimiser.kind=adm", "--with", "batch.size=4", "--with", "seed=3"];
    let said = train("right.yaml", &edits);
    said.code(2);
    for edit in ["epochs=0", "optimiser.kind=adm", "seed=3"] {
        said.says(&format!("the edit `{edit}`: "));
    }
    said.is_quiet_about("batch.size=4");
    assert_eq!(said.stderr.lines().count(), 3, "{}", said.stderr);
    // An edit may need one that stands after it.
    train("right.yaml", &["--with", "optimiser.momentum=0.9", "--with", "optimiser.kind=muon"]).code(0);

    // So are the blocks of models.
    let blocks = "models:\n  tiny: { batch: { size: none }, epochs: 0 }\n  gut: { seed: 3 }\n";
    place.write("models.yaml", &format!("{right}{blocks}"));
    let said = train("models.yaml", &[]);
    said.code(2).says("models.yaml:17: ").says("models.yaml:18: ");
    assert_eq!(said.stderr.lines().count(), 3, "{}", said.stderr);
}
