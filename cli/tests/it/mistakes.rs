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
fn commands_of_other_programs_are_named_as_they_are_here() {
    let place = Place::new();
    for (command, way) in [
        (&["fit", "gut"][..], "`rtc train` trains a model"),
        (&["fine-tune", "gut"], "`rtc train SPEC --weights FILE`"),
        (&["test", "runs/a"], "`rtc eval RUN`"),
        (&["compare", "a", "b"], "`rtc report RUN ..`"),
        (&["init"], "`rtc show NAME > my.rt`"),
    ] {
        place.rtc(command).code(2).says(&format!("tip: {way}")).is_quiet_about("similar subcommand");
    }
    place.rtc(&["trian", "gut"]).code(2).says("'train'");
    // The words of a group are its own.
    place.rtc(&["task", "fit"]).code(2).is_quiet_about("rtc train");
    let rows = place.rtc(&["train", "tiny.rt", "rows.csv"]);
    rows.code(2).says("tip: `rtc task check rows.csv --write rows.yaml` writes an experiment for this file");
    place.rtc(&["ablate", "tiny.yaml", "gut"]).code(2).says("tip: `--row gut` names a row");
    place.rtc(&["train", "tiny.rt", "--experiment", "tyni.yaml"]).code(6).says("did you mean `tiny.yaml`?");
    place.rtc(&["check", "tny.rt"]).says("did you mean `tiny.rt`?");
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
    assert_eq!(lines.len(), expected.len(), "{}", said.stderr);
    let one = text.replace("max_steps: 1", "max_step: 1");
    place.write("one.yaml", &one);
    let said = place.rtc(&["train", "tiny.rt", "--experiment", "one.yaml"]);
    said.code(2)
        .says("unknown field `max_step`; did you mean `max_steps`?\n")
        .is_quiet_about("must say when the run ends");
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

/// A folder with rows of two classes, an experiment on them, and a function that trains in a changed experiment.
fn reviewed() -> (Place, String) {
    let place = Place::new();
    let row = |n: usize| format!("the film {n} was {},{}\n", ["good", "bad"][n % 2], ["pos", "neg"][n % 2]);
    place.write("reviews.csv", &("review,label\n".to_owned() + &(0..60).map(row).collect::<String>()));
    let text = "task:\n  name: table\n  data: { train: reviews.csv, dev: 10% }\n  input: review\n  label: label\n  tokens: words\n\
                optimiser: { learning_rate: 0.003, clip: 1 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nmax_steps: 3\n\
                evaluate: [dev]\n";
    place.write("good.yaml", text);
    (place, text.to_owned())
}

#[test]
fn fields_of_other_blocks_are_led_home_with_their_lines() {
    let (place, good) = reviewed();
    let added = |line: &str, parts: &[&str]| {
        place.write("wrong.yaml", &good.replace("max_steps: 3\n", &format!("max_steps: 3\n{line}\n")));
        let said = place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]);
        said.code(2).says("error: wrong.yaml:11: ");
        for part in parts {
            said.says(part);
        }
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    };
    added("lr: 0.01", &["unknown field `lr`; it is `optimiser.learning_rate`"]);
    // The name that is told has the line of its own, though another block has it, too.
    added("learning_rate: 0.01", &["unknown field `learning_rate`; it is `optimiser.learning_rate`"]);
    added("optimiser.learning_rate: 0.01", &["`optimiser: { learning_rate: .. }`"]);
    added("warmup: 3", &["it is `schedule.warmup`"]);
    added("size: 3", &["it is `batch.size`"]);
    added("batch_size: 3", &["it is `batch.size`"]);
    added("kind: adam", &["it is `optimiser.kind` or `schedule.kind`"]);
    added("dropout: 0.1", &["`set: [dropout=0.1]`"]);
    added("embed: { width: 64 }", &["`set` edits"]);
    added("device: cuda", &["the command line says it, as `--device cuda`"]);
    place.write("wrong.yaml", &good.replace("clip: 1", "clip: 1, epochs: 3"));
    let said = place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]);
    said.code(2).says("wrong.yaml:7: optimiser: unknown field `epochs`; it is `epochs` at the top of the experiment");

    // Both ends of an edit are told from each other.
    let train =
        |edit: &[&str]| place.rtc(&[&["train", "tiny.rt", "--experiment", "good.yaml", "--run", "r"], edit].concat());
    train(&["--with", "dropout=0.2"]).code(2).says("are edited by `--set dropout=0.2`");
    train(&["--with", "embed.width=8"]).code(2).says("are edited by `--set embed.width=8`");
    train(&["--with", "lr=0.2"]).code(2).says("it is `optimiser.learning_rate`");
    train(&["--set", "optimiser.learning_rate=0.1"])
        .code(2)
        .says("a field of experiments: `--with optimiser.learning_rate=0.1` edits it");
    train(&["--set", "optimizzer.learning_rate=0.1"]).code(3);
    train(&["--set", "dropout=0.2", "--set", "embed.width=8", "--with", "optimiser.learning_rate=0.1"]).code(0);
}

#[test]
fn values_are_refused_in_words_of_the_experiment() {
    let (place, good) = reviewed();
    for (from, to, line, why) in [
        ("max_steps: 3", "max_steps: [3]", 10, "max_steps: expected a whole number, 0 or more, got a list"),
        ("size: 16", "size: \"16\"", 9, "got the text `16`: leave the quotation marks out"),
        ("size: 16", "size: 99999999999999", 9, "`size` must be at most 10000000: got 99999999999999"),
        ("clip: 1", "betas: 0.9", 7, "expected a list of two numbers, as in `[0.9, 0.999]`, got the number 0.9"),
        ("clip: 1", "betas: [0.9]", 7, "expected a list of two numbers"),
        ("{ kind: constant }", "constant", 8, "expected a block of fields, got the text `constant`"),
        ("name: table", "name: tabel", 2, "there is no task `tabel`; did you mean `table`?"),
        ("name: table", "name: classification", 2, "on files of your own it is `table`"),
        ("name: table", "name: token-classification", 2, "on files of your own it is `tagging`"),
        ("dev: 10%", "dev: 0.1", 3, "got the number 0.1: a share of the rows of `train` is written as `dev: 10%`"),
        ("dev: 10%", "dev: 10", 3, "a share of the rows of `train` is written as `dev: 10%`"),
    ] {
        let wrong = good.replace(from, to);
        assert_ne!(wrong, good, "{from}");
        place.write("wrong.yaml", &wrong);
        let said = place.rtc(&["train", "tiny.rt", "--experiment", "wrong.yaml"]);
        said.code(2).says(&format!("error: wrong.yaml:{line}: ")).says(why);
        assert_eq!(said.stderr.lines().count(), 1, "{}", said.stderr);
    }
}

#[test]
fn files_that_are_not_there_are_named_by_their_fields() {
    let (place, good) = reviewed();
    std::fs::create_dir(place.path("below")).expect("a new folder");
    let train = |file: &str| place.rtc(&["train", "tiny.rt", "--experiment", file]);
    for (from, to, why) in [
        ("reviews.csv", "review.csv", "`task.data.train`: there is no file `review.csv`; did you mean `reviews.csv`?"),
        ("dev: 10%", "dev: dev.csv", "`task.data.dev`: there is no file `dev.csv`"),
        (
            "dev: 10%",
            "dev: \"0.1\"",
            "`0.1` is the name of no file; a share of the rows of `train` is written as `10%`",
        ),
    ] {
        place.write("wrong.yaml", &good.replace(from, to));
        train("wrong.yaml").code(4).says("error: wrong.yaml:3: ").says(why);
        place.rtc(&["task", "check", "wrong.yaml"]).code(4).says(why);
    }
    place.write("wrong.yaml", &good.replace("tokens: words", "tokens: tokenizer.json"));
    train("wrong.yaml").code(4).says("wrong.yaml:6: `task.tokens`: there is no file `tokenizer.json`");
    place.write("below/wrong.yaml", &good.replace("reviews.csv", "../revews.csv"));
    train("below/wrong.yaml").code(4).says("below/wrong.yaml:3: ").says("did you mean `../reviews.csv`?");
    // An edit has no line in the file.
    place
        .rtc(&["train", "tiny.rt", "--experiment", "good.yaml", "--with", "task.data.train=none.csv"])
        .code(4)
        .says("error: good.yaml: `task.data.train`: there is no file `none.csv`");
    // Texts in the place of classes are counted, not listed.
    let titled = place.read("reviews.csv").replace("review,label", "review,label,title").replace("film ", "film");
    let titled: String = titled
        .lines()
        .enumerate()
        .map(|(n, line)| format!("{line}{}\n", if n == 0 { String::new() } else { format!(",title {n}") }))
        .collect();
    place.write("titled.csv", &titled);
    place.write("wrong.yaml", &good.replace("reviews.csv", "titled.csv").replace("label: label", "label: title"));
    let said = train("wrong.yaml");
    said.code(4).says("the 54 rows for training have 54 classes in `title`").says("another column in `task.label`");
}

#[test]
fn options_that_a_command_lacks_are_found_where_they_are() {
    let (place, _) = reviewed();
    let train = |args: &[&str]| place.rtc(&[&["train", "tiny.rt"], args].concat());
    place.rtc(&["train", "tiny.rt", "--experiment", "good.yaml", "--run", "r"]).code(0);
    let quiet = "to pass '";
    place
        .rtc(&["eval", "r", "--batch-size", "3"])
        .code(2)
        .says("`rtc eval` has no `--batch-size`: `rtc train` takes it, as `--with batch.size=N`")
        .is_quiet_about(quiet);
    place
        .rtc(&["eval", "r", "--with", "batch.size=3"])
        .code(2)
        .says("`rtc train`")
        .is_quiet_about("a similar argument");
    place
        .rtc(&["predict", "r", "a", "--seed", "3"])
        .code(2)
        .says("`rtc predict` has no `--seed`")
        .is_quiet_about(quiet);
    for seed in [&["--seed", "-1"][..], &["--seed=-1"]] {
        train(seed).code(2).says("a whole number, 0 or more, is wanted").is_quiet_about(quiet);
    }
    train(&["--max-steps", "many"]).code(2).says("a whole number, 0 or more, is wanted");
    place.rtc(&["predict", "r", "a", "--top", "0"]).code(2).says("a whole number from 1 on is wanted");
    train(&["--device", "gpu"]).code(2).says("'cuda'").is_quiet_about("a similar value exists: 'cpu'");
    train(&["--precision", "float32"]).code(2).says("a similar value exists: 'f32'");
    train(&["-experiment", "good.yaml"]).code(2).says("two dashes: `--experiment`").is_quiet_about(quiet);
    train(&["good.yaml"]).code(2).says("`--experiment good.yaml` names the experiment");
    place.rtc(&["train", "good.yaml", "tiny.rt"]).code(2).says("`--experiment good.yaml` names the experiment");
    place.rtc(&["train", "--experiment", "tiny.rt"]).code(2).says("tiny.rt is a spec").says("`rtc train tiny.rt");
    place.rtc(&["eval", "tiny.rt"]).code(6).says("this is a spec, and a run is wanted: `rtc train tiny.rt`");
    place.rtc(&["predict", "good.yaml", "a"]).code(6).says("this is an experiment, and a run is wanted");
    place.rtc(&["fmt", "good.yaml"]).code(2).says("good.yaml is an experiment, and a spec is wanted here");
    place
        .rtc(&["eval", "r", "--checkpoint", "bset"])
        .code(7)
        .says("there is no checkpoint `bset`; did you mean `best`?");
    // Numbers below 0 are tokens where texts are asked for.
    place.rtc(&["predict", "r", "-1"]).code(0);
}

#[test]
fn a_warm_up_beyond_the_end_is_said() {
    let (place, good) = reviewed();
    place.write("long.yaml", &good.replace("{ kind: constant }", "{ kind: cosine, warmup: 100000 }"));
    let train = |args: &[&str]| place.rtc(&[&["train", "tiny.rt", "--experiment", "long.yaml"], args].concat());
    train(&[]).code(0).says("the warm-up takes 100,000 updates and the run makes 3").says("`--with schedule.warmup=0`");
    train(&["--with", "schedule.warmup=0"]).code(0).is_quiet_about("warm-up");
    // The draft of a small file has a warm-up that ends.
    place.rtc(&["task", "check", "reviews.csv", "--write", "draft.yaml"]).code(0);
    place.rtc(&["train", "tiny.rt", "--experiment", "draft.yaml"]).code(0).is_quiet_about("warm-up");
}

#[test]
fn a_pair_has_two_sides() {
    let place = Place::new();
    let row = |n: usize| format!("a {n}\tb {n}\t{}\n", ["same", "other"][n % 2]);
    place.write("pairs.tsv", &("premise\thypothesis\tlabel\n".to_owned() + &(0..40).map(row).collect::<String>()));
    place.rtc(&["task", "check", "pairs.tsv", "--write", "pairs.yaml"]).code(0);
    place.rtc(&["train", "tiny.rt", "--experiment", "pairs.yaml", "--max-steps", "1", "--run", "r"]).code(0);
    place.rtc(&["predict", "r", "a ||| b"]).code(0);
    place.rtc(&["predict", "r", "a ||| b ||| c"]).code(4).says("a pair has two sides, and this text has 3");
    place.write("asked.txt", "a ||| b\na ||| b ||| c\n");
    place.rtc(&["predict", "r", "--input", "asked.txt"]).code(4).says("asked.txt:2: a pair has two sides");
    place.rtc_with(&["predict", "r"], "a\tb\tc\n").code(4).says("a tab stands between two sides once");
}

#[test]
fn words_of_other_languages_have_a_line_of_this_one() {
    let place = Place::new();
    let spec = place.read("tiny.rt");
    for (from, to, why) in [
        ("feedforward { hidden: 16 }", "feedforward { hidden: 16, activation: ReLU }", "did you mean `relu`?"),
        ("position: xpos", "causal: true", "`mask: past` sees what came before alone"),
        ("position: xpos", "mask: torch.tril(torch.ones(n, n))", "`mask: past`"),
        ("    embed { width: 16, tokens: start_end }\n", "", "write `embed { width: 64 }`"),
    ] {
        let wrong = spec.replacen(from, to, 1);
        assert_ne!(wrong, spec, "{from}");
        place.write("wrong.rt", &wrong);
        place.rtc(&["check", "wrong.rt"]).code(3).says(why).is_quiet_about("`tril(..)`");
    }
    // The lines that are named can be typed.
    for (from, to) in [
        ("position: xpos", "mask: past"),
        ("feedforward { hidden: 16 }", "feedforward { hidden: 16, activation: relu }"),
        ("    embed { width: 16, tokens: start_end }\n", "    embed { width: 64 }\n"),
        ("    readout end\n", "    readout mean\n"),
    ] {
        place.write(
            "right.rt",
            &spec
                .replacen(from, to, 1)
                .replace("readout end", if to.contains("64") { "readout mean" } else { "readout end" }),
        );
        place.rtc(&["check", "right.rt"]).code(0);
    }
}

/// Files that are no tables by their names, and files whose columns a question must not send in circles.
#[test]
fn questions_about_a_file_end_somewhere() {
    let (place, _) = reviewed();
    let check = |args: &[&str]| place.rtc(&[&["task", "check"], args, &["--write", "new.yaml"]].concat());
    place.write("notes.log", &"a line of a log\n".repeat(400));
    check(&["notes.log"]).code(4).says("`--format` of `rtc task check`");
    check(&["notes.log", "--format", "text"]).code(0);
    assert!(place.read("new.yaml").contains("\n  format: text\n"));
    place.rtc(&["task", "check", "new.yaml"]).code(0);
    place.rtc(&["task", "check", "new.yaml", "--format", "text"]).code(2).says("`--format`");
    std::fs::remove_file(place.path("new.yaml")).expect("it was written");
    place.write("rows.data", &place.read("reviews.csv"));
    check(&["rows.data", "--format", "csv"]).code(0);
    std::fs::remove_file(place.path("new.yaml")).expect("it was written");
    std::fs::create_dir(place.path("folder")).expect("a new folder");
    place.write("folder/a.csv", "a,b\n");
    check(&["folder"]).code(4).says("it is a folder: name a data file of it, as `folder/a.csv`");
    place.write("packed.zip", "PK");
    check(&["packed.zip"]).code(4).says("unpack it");
    // An experiment in another folder names the data from there.
    std::fs::create_dir(place.path("other")).expect("a new folder");
    place.rtc(&["task", "check", "reviews.csv", "--write", "other/far.yaml"]).code(0);
    assert!(place.read("other/far.yaml").contains("train: '../reviews.csv'"), "{}", place.read("other/far.yaml"));
    place.shell("cd other && \"$RTC\" task check far.yaml").code(0);

    let rows = |row: &dyn Fn(usize) -> String| (0..40).map(row).collect::<String>();
    place.write("one.csv", &("text,label\n".to_owned() + &rows(&|n| format!("film number {n},pos\n"))));
    check(&["one.csv"]).code(2).says("one class is nothing to learn").is_quiet_about("--label label");
    check(&["one.csv", "--label", "label"]).code(2).says("`label` is the same in all rows");
    place.write(
        "chat.jsonl",
        &rows(&|n| format!("{{\"messages\": [{{\"role\": \"user\", \"content\": \"hi {n}\"}}]}}\n")),
    );
    check(&["chat.jsonl"]).code(2).says("`messages` holds objects").is_quiet_about("--label messages");
    check(&["chat.jsonl", "--label", "messages"])
        .code(2)
        .says("`messages` holds objects")
        .is_quiet_about("--answer class");
    let list =
        rows(&|n| format!("{}{{\"text\": \"film {n}\", \"label\": \"{}\"}}", if n == 0 { "" } else { ", " }, n % 2));
    place.write("whole.json", &format!("{{\"version\": \"1\", \"data\": [{list}]}}\n"));
    check(&["whole.json"]).code(2).says("one object, whose `data` holds a list of rows");
    place.write("pretty.json", &format!("{{\n \"data\": [{list}]}}\n"));
    check(&["pretty.json"]).code(4).says("write the list alone");
    let squad = |n: usize| {
        format!(
            "{{\"id\": \"k{n}x\", \"title\": \"Films\", \"context\": \"a long text {n}\", \"question\": \"what is {n}?\", \"answers\": {{\"text\": [\"x\"]}}}}\n"
        )
    };
    place.write("squad.jsonl", &rows(&squad));
    check(&["squad.jsonl"]).code(2).says("`--task sequences` with `--input context` and `--label question`");
    let sequences = ["squad.jsonl", "--task", "sequences", "--input", "context", "--label", "question"];
    place.rtc(&[&["task", "check"][..], &sequences].concat()).code(0);
    check(&["squad.jsonl", "--label", "id", "--answer", "class"]).code(2).says("a class of one row is not learned");
    // Columns without a name are left out.
    place.write(
        "tail.csv",
        &("label,text,,,\n".to_owned() + &rows(&|n| format!("{},film number {n},,,\n", ["ham", "spam"][n % 2]))),
    );
    check(&["tail.csv"]).code(0);
    assert!(place.read("new.yaml").contains("input: 'text'"), "{}", place.read("new.yaml"));
}
