//! Tasks whose rows a program makes, and answers that are numbers or several labels: the real binary.
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::fs;

use crate::support::{Answer, Place};

/// Prints so many rows of a split: arguments are `--split S --seed N --count K`.
const GENERATOR: &str = r#"touch ran
awk -v part="$2" -v seed="$4" -v count="$6" 'BEGIN {
    for (n = 0; n < count; n++) {
        odd = (n * 7 + seed + length(part)) % 3 == 0
        printf "{\"text\": \"%s row %d %s\", \"label\": \"%s\"}\n", part, n, odd ? "up" : "down", odd ? "yes" : "no"
    }
}'
"#;

const REST: &str = "optimiser: { learning_rate: 0.01, clip: 1 }\nschedule: { kind: constant }\nbatch: { size: 16 }\n\
                    epochs: 3\nlog_every: 1\nevaluate: [test]\n";

fn place(task: &str, generator: &str) -> Place {
    let place = Place::new();
    place.write("gen.sh", generator);
    place.write("mine.yaml", &format!("task: {{ {task} }}\n{REST}"));
    place
}

const TASK: &str = "command: [sh, gen.sh], sizes: { train: 60, dev: 12, test: 20 }, seed: 5";

/// Runs rtc with a cache of its own.
fn rtc(place: &Place, args: &[&str]) -> Answer {
    let mut command = place.command(crate::support::RTC);
    command.env("XDG_CACHE_HOME", place.path("cache")).args(args);
    command.output().expect("the binary runs").into()
}

const TRAIN: [&str; 6] = ["train", "tiny.rt", "--experiment", "mine.yaml", "--run", "r"];

#[test]
fn a_program_runs_where_the_command_line_says_so() {
    let place = place(TASK, GENERATOR);
    for refused in [&TRAIN[..], &["task", "check", "mine.yaml"], &["task", "sample", "mine.yaml"]] {
        rtc(&place, refused).code(2).says("`sh gen.sh --split").says("--run-commands");
        assert!(!place.path("ran").exists(), "{refused:?} runs nothing");
    }
    assert!(!place.path("runs/r").exists(), "a refused training leaves no folder");
    let trained = rtc(&place, &[&TRAIN[..], &["--run-commands", "--json"]].concat());
    let trained = trained.code(0).says("data: train 60, dev 12, test 20").json();
    assert_eq!(trained["splits"][0]["examples"], 20, "{trained:#}");
    // What was printed is kept: nothing runs again, and nothing need be allowed.
    fs::remove_file(place.path("ran")).expect("it ran");
    let again = rtc(&place, &["eval", "runs/r", "--json"]).code(0).json();
    assert_eq!(again["splits"][0]["accuracy"], trained["splits"][0]["accuracy"]);
    let sampled = rtc(&place, &["task", "sample", "mine.yaml", "--split", "dev", "--count", "2"]);
    assert_eq!(sampled.code(0).stdout.lines().count(), 2, "{}", sampled.stdout);
    rtc(&place, &["predict", "runs/r", "train row 3 up"]).code(0);
    assert!(!place.path("ran").exists());
    // A folder of a run is no permission either, where the cache is empty.
    fs::remove_dir_all(place.path("cache")).expect("it was made");
    rtc(&place, &["eval", "runs/r"]).code(2).says("--run-commands");
    assert!(!place.path("ran").exists());
    let anew = rtc(&place, &["eval", "runs/r", "--run-commands", "--json"]).code(0).json();
    assert_eq!(anew["splits"], again["splits"]);
}

#[test]
fn a_program_that_changed_is_another_training() {
    let place = place(&TASK.replace("[sh, gen.sh]", "sh gen.sh"), GENERATOR);
    rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(0);
    place.write("gen.sh", &GENERATOR.replace("% 3", "% 4"));
    rtc(&place, &["eval", "runs/r", "--run-commands"]).code(7).says("its data has changed");
    rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(7).says("data");
}

#[test]
fn what_a_program_does_wrong_is_said() {
    let row = "{\"text\": \"a b\", \"label\": \"yes\"}";
    let other = "{\"text\": \"c d\", \"label\": \"no\"}";
    let print = |rows: &[&str]| {
        format!(
            "n=0; for row in {}; do n=$((n+1)); [ $n -le $6 ] && echo \"$row\"; done; true\n",
            rows.iter().map(|row| format!("'{row}'")).collect::<Vec<_>>().join(" ")
        )
    };
    let unknown = "{\"text\": \"c d\", \"label\": \"perhaps\"}";
    let cases = [
        (print(&[row, other]), "it prints 2 rows, and 4 were asked for"),
        (print(&[row, other, row, "{\"text\": 5"]), "--count 4:4: this line is no JSON"),
        (format!("{}\nexit 3\n", print(&[row, other, row, other])), "it failed after 4 rows (exit status: 3)"),
        (
            format!(
                "[ $2 = train ] && {{ {} }} || {{ {} }}\n",
                print(&[row, other, row, other]).trim().to_owned() + ";",
                print(&[row, unknown, row, other]).trim().to_owned() + ";"
            ),
            ".jsonl:2: there is no class `perhaps`",
        ),
        (print(&[row, "{\"text\": \"c d\"}", row, other]), ".jsonl:2: "),
        ("no_such_program_at_all".to_owned(), "it failed after 0 rows"),
    ];
    for (script, expected) in cases {
        let place = place("command: [sh, gen.sh], sizes: { train: 4, dev: 4, test: 4 }", &script);
        rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(4).says(expected);
    }
    let place = place("command: [no_such_program_at_all], sizes: { train: 4, dev: 4, test: 4 }", "");
    rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(4).says("can't run `no_such_program_at_all`");
    for (task, expected) in [
        ("command: [], sizes: { train: 4, dev: 4, test: 4 }", "`command` is empty"),
        ("command: [sh, gen.sh]", "sizes: { train: 1000, dev: 100 }"),
        ("name: language, command: [sh, gen.sh], sizes: { train: 4, dev: 4, test: 4 }", "`language` reads texts"),
        ("name: listops, command: [sh, gen.sh]", "a program makes rows of your own"),
    ] {
        place.write("mine.yaml", &format!("task: {{ {task} }}\n{REST}"));
        rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(2).says(expected);
    }
}

#[test]
fn pipes_and_devices_that_a_command_names_are_not_opened() {
    let place = place(&TASK.replace("gen.sh]", "gen.sh, named]"), &format!("shift\n{GENERATOR}"));
    place.write("named", "");
    rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat()).code(0);
    let ends = |command: &str| {
        let cache = place.path("cache");
        place.shell(&format!("XDG_CACHE_HOME='{}' timeout 120 \"$RTC\" {command}", cache.display()))
    };
    let train = TRAIN.join(" ").replace("--run r", "--run other");
    let commands = [train.as_str(), "eval runs/r", "task check mine.yaml", "task sample mine.yaml"];
    for change in ["rm named && mkfifo named", "rm named && ln -s /dev/zero named", "rm -r cache"] {
        place.shell(change).code(0);
        for command in commands {
            ends(command).code(2).says("--run-commands");
            ends(&format!("{command} --run-commands"))
                .code(4)
                .says("can't read the argument `named`: no regular file but ");
        }
        // What these print of a run without its data is not the matter here, but that they end.
        for command in ["report runs/r", "verify runs/r --again", "verify runs/r --again --run-commands"] {
            assert_ne!(ends(command).status(), Some(124), "{command} waits for another program");
        }
    }
}

#[test]
fn the_output_of_a_program_ends_with_the_program() {
    let place = place(TASK, &format!("{GENERATOR}\nsleep 600 &\n"));
    let trained = rtc(&place, &[&TRAIN[..], &["--run-commands"]].concat());
    trained.code(0).says("data: train 60, dev 12, test 20");
}

/// Whether a process still does something, where the system says.
#[cfg(target_os = "linux")]
fn is_alive(process: &str) -> bool {
    let found = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
    found.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| !"ZX".contains(state))
}

#[cfg(target_os = "linux")]
#[test]
fn a_program_and_its_children_end_with_rtc() {
    use std::time::{Duration, Instant};
    let place = place(TASK, "sleep 600 & echo $! > child.new; echo $$ > own; mv child.new child; sleep 600\n");
    let mut command = place.command(crate::support::RTC);
    command.env("XDG_CACHE_HOME", place.path("cache")).args(["task", "check", "mine.yaml", "--run-commands"]);
    let mut child = command.spawn().expect("the binary runs");
    let begun = Instant::now();
    let wait = |holds: &dyn Fn() -> bool, what: &str| {
        while !holds() {
            assert!(begun.elapsed() < Duration::from_secs(50), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait(&|| place.path("child").exists(), "the program begins");
    // It can't tell anybody.
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    for process in ["own", "child"] {
        wait(&|| !is_alive(&place.read(process)), "the program ends");
    }
}

/// Rows with a number (how often `up` occurs) and with labels (which words occur).
fn counted(rows: usize, from: usize) -> String {
    let one = |n: usize| {
        let n = n * 13 + from;
        let (ups, downs) = (n % 5, n / 5 % 3);
        let text = ["up "].repeat(ups).concat() + &["down "].repeat(downs).concat() + "end";
        let labels = [(ups > 0, "up"), (downs > 0, "down")]
            .iter()
            .filter(|(there, _)| *there)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>();
        format!("{{\"text\": \"{text}\", \"height\": {}, \"words\": {:?}}}\n", 1000 * ups + 250_000, labels)
    };
    (0..rows).map(one).collect()
}

#[test]
fn numbers_and_labels_are_answers_of_a_table() {
    let place = place("", "");
    place.write("train.jsonl", &counted(180, 0));
    place.write("test.jsonl", &counted(40, 7));
    let files = "name: table, data: { train: train.jsonl, dev: 10%, test: test.jsonl }";
    let rest = REST.replace("epochs: 3", "epochs: 20");
    place.write("number.yaml", &format!("task: {{ {files}, label: height, answer: number }}\n{rest}"));
    place.write("labels.yaml", &format!("task: {{ {files}, label: words, answer: labels }}\n{rest}"));
    let train = |name: &str| {
        let experiment = format!("{name}.yaml");
        rtc(&place, &["train", "tiny.rt", "--experiment", &experiment, "--run", name, "--json"])
    };
    let found = train("number").code(0).says("rmse").json();
    let split = &found["splits"][0];
    let (rmse, r2) =
        (split["numbers"]["rmse"].as_f64().expect("a number"), split["numbers"]["r2"].as_f64().expect("a number"));
    assert!(split.get("accuracy").is_none() && split.get("majority").is_none(), "{found:#}");
    assert!(r2 > 0.5 && rmse < 1000.0, "errors are in the unit of the data, which the model learns: {found:#}");
    let said = rtc(&place, &["predict", "runs/number", "--json", "up up up end"]).code(0).json();
    let number = said["number"].as_f64().expect("a number");
    assert!((250_000.0..255_000.0).contains(&number), "{said:#}");
    let again = rtc(&place, &["eval", "runs/number"]);
    let head = again.code(0).stdout.lines().next().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(head, Some(vec!["split", "examples", "mae", "r2", "rmse", "loss", "depth"]));
    rtc(&place, &["eval", "runs/number", "--steps"]).code(2);
    rtc(&place, &["report", "runs/number"]).code(0);
    rtc(&place, &["task", "check", "number.yaml"]).code(0);

    let found = train("labels").code(0).json();
    let split = &found["splits"][0];
    assert_eq!(split["scored"], 80, "two labels of forty rows");
    assert!(split["accuracy"].as_f64() > split["majority"].as_f64(), "{found:#}");
    assert!(split["metrics"]["f1"].as_f64() > Some(0.8) && split["metrics"]["exact"].is_number(), "{found:#}");
    let said = rtc(&place, &["predict", "runs/labels", "--json", "--probabilities", "up up end"]).code(0).json();
    assert!(said["probabilities"]["up"].as_f64() > said["probabilities"]["down"].as_f64(), "{said:#}");
    rtc(&place, &["report", "runs/labels"]).code(0);
    rtc(&place, &["task", "sample", "labels.yaml", "--count", "3"]).code(0);

    place.write("test.jsonl", "{\"text\": \"up\", \"height\": \"tall\", \"words\": [\"sideways\"]}\n");
    rtc(&place, &["eval", "runs/number"]).code(4).says("test.jsonl:1: `height` is `tall`, which is no number");
    rtc(&place, &["eval", "runs/labels"]).code(4).says("test.jsonl:1: there is no class `sideways`");
}

/// The first block of a kind behind a heading of a page.
fn block(page: &str, heading: &str, kind: &str) -> String {
    let section = page.split_once(heading).expect(heading).1;
    let (_, rest) = section.split_once(&format!("```{kind}\n")).expect(kind);
    rest.split_once("```").expect("it ends").0.to_owned()
}

#[test]
fn the_documented_program_is_trained() {
    let python = std::process::Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|found| found.status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/own_data.md")).expect("the page");
    let part = |kind| block(&page, "## Rows from a program", kind);
    let place = Place::new();
    place.write("parity.py", &part("python"));
    place.write("parity.yaml", &part("yaml"));
    for line in part("bash").lines() {
        let line = line.replace(" gut ", " tiny.rt ");
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        rtc(&place, &words).code(0);
    }
}
