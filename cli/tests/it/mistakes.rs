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
