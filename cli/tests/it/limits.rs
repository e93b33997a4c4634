//! What is not finite, has no end or is too large ends a command with the documented code, and nothing is lost.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use crate::support::Place;

/// Learning rates with which weights stay finite and activations do not: some rows can't be decided about, and may not leave as they came.
#[test]
fn a_halting_model_that_overflows_ends_as_one_that_does_not_halt() {
    let place = Place::new();
    let wild = ["--with", "optimiser.clip=null", "--with", "schedule.warmup=0"];
    for rate in ["1e8", "1e12", "1e25"] {
        let rate = format!("optimiser.learning_rate={rate}");
        for edit in [&["--set", "depthwise.halt=global"][..], &["--set", "depthwise.halt=none"]] {
            let args = [&["--with", &rate, "--run", "wild", "--fresh"], &wild[..], edit].concat();
            place.train(&args).code(5).says("update 2: the first non-finite value is in");
        }
    }
    let token = ["--with", "optimiser.learning_rate=1e12", "--set", "depthwise.halt=token"];
    place.train(&[&token[..], &wild].concat()).code(5).says("row ").says("step ");
}

/// The equation whose numbers are none is told, where it stands, and the row.
#[test]
fn an_equation_without_numbers_is_named() {
    let place = Place::new();
    let equations = "y = linear(state)\nstate = log(y - 100)";
    place.write("none.rt", &format!("model none {{ embed {{ width: 8 }}\n{equations}\nreadout mean }}\n"));
    let args = ["train", "none.rt", "--experiment", "listops_smoke", "--max-steps", "2", "--run", "none"];
    place.rtc(&args).code(5).says("the first non-finite value is in `log(sub(a, 100.0))` of the model").says("row 1");
}

#[test]
fn input_without_an_end_is_refused() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "2"]).code(0);
    place.shell("\"$RTC\" predict r </dev/zero").code(4).says("standard input:1: this line is longer than 16 MiB");
    place.shell("\"$RTC\" predict r --input /dev/zero").code(4).says("/dev/zero:1: this line is longer than 16 MiB");
    for option in ["--weights", "--weights /dev/null --weights-map"] {
        place.shell(&format!("ulimit -v 4000000; \"$RTC\" eval r {option} /dev/zero")).code(6).says("it is no file");
    }
    place
        .shell("printf '3\\n\\xff\\n' | \"$RTC\" predict r")
        .code(4)
        .says("standard input:2: this line is not UTF-8 text");
    // A batch that holds few lines, because they are long, is not the last one.
    let lines = place.shell("yes 3 | head -100 | \"$RTC\" predict r --batch 7");
    assert_eq!(lines.code(0).stdout.lines().count(), 100);
}

#[test]
fn experiments_that_take_the_parser_long_are_refused_at_once() {
    let place = Place::new();
    place.write("deep.yaml", &format!("task: {}", "[".repeat(100_000)));
    let aliases = "*a, ".repeat(5000);
    place.write("aliases.yaml", &format!("a: &a {}\ntask: [{aliases}]\n", "x".repeat(100_000)));
    let ten = |name: &str| format!("[{}]", format!("*{name}, ").repeat(10));
    let nested = [("x-b", "b", "a"), ("x-c", "c", "b"), ("x-d", "d", "c"), ("x-e", "e", "d"), ("task", "f", "e")];
    let nested = nested.map(|(key, name, of)| format!("{key}: &{name} {}\n", ten(of))).concat();
    place.write("nested.yaml", &format!("x-a: &a {}\n{nested}", "x".repeat(60_000)));
    place.write("long.yaml", &"# a comment\n".repeat(100_000));
    let start = Instant::now();
    for (file, said) in [
        ("deep.yaml:1", "brackets are open"),
        ("aliases.yaml", "aliases"),
        ("nested.yaml", "aliases"),
        ("long.yaml", "bytes"),
    ] {
        let name = file.split(':').next().unwrap_or_default();
        place.rtc(&["train", "tiny.rt", "--experiment", name]).code(2).says(file).says(said);
    }
    place.train(&["--run", "r", "--max-steps", "2"]).code(0);
    let experiment = place.read("deep.yaml");
    place.write("runs/r/experiment.yaml", &experiment);
    assert!(!matches!(place.rtc(&["report", "r"]).status(), Some(0) | None));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// A small file that unpacks to many rows: they are counted while they are read.
#[test]
fn packed_rows_are_counted_while_they_are_read() {
    let place = Place::new();
    place.shell("(printf 'text\\tlabel\\n'; yes $'1\\t2\\n3\\t4' | head -8000000) | gzip -1 > rows.tsv.gz").code(0);
    place.write("few.tsv", "text\tlabel\n1\t2\n3\t4\n");
    let task = "task: { name: table, data: { train: rows.tsv.gz, dev: few.tsv }, input: text, label: label }\n";
    let rest = "optimiser: { learning_rate: 0.001 }\nschedule: { kind: constant }\nbatch: { size: 8 }\nepochs: 1\nevaluate: [dev]\n";
    place.write("rows.yaml", &format!("{task}{rest}"));
    place.rtc(&["task", "check", "rows.yaml"]).code(4).says("rows.tsv.gz:").says("more than 1 GiB of memory");
    for command in [&["task", "check", "rows.yaml"][..], &["train", "tiny.rt", "--experiment", "rows.yaml"]] {
        place.rtc(&[command, &["--time-limit", "0.5"]].concat()).code(9).says("not done after 0.5 s");
    }
    // Where the system has less, it refuses.
    place.shell("ulimit -v 900000; \"$RTC\" task check rows.yaml").code(8).says("there is no memory left");
}

/// Its lines stay, and a command that is done in time does not notice its limit.
#[test]
fn a_command_that_takes_too_long_ends() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "2"]).code(0);
    let cut = place.shell("(echo 3; exec sleep 5) | \"$RTC\" predict r --time-limit 2");
    assert_eq!(cut.code(9).says("not done after 2 s").stdout.lines().count(), 1);
    place.shell("(echo 3; exec sleep 2) | \"$RTC\" predict r --time-limit 1e-6 --quiet").code(9).says("--time-limit");
    place.shell("echo 3 | \"$RTC\" predict r --time-limit 600").code(0);
    place.rtc(&["check", "tiny.rt", "--time-limit", "600"]).code(0);
    place.rtc(&["cost", "tiny.rt", "--time-limit", "600"]).code(0);
    place.rtc(&["cost", "tiny.rt", "--time-limit", "1e-6"]).code(9).says("--time-limit");
    place.train(&["--run", "r", "--max-steps", "2", "--time-limit", "600"]).code(0);
    for wrong in ["0", "-1", "nan", "inf", "1e300", "two"] {
        place.rtc(&["report", "r", &format!("--time-limit={wrong}")]).code(2).says("seconds are wanted");
    }
}

#[test]
fn a_limit_of_addresses_is_memory() {
    let place = Place::new();
    let train = "\"$RTC\" train tiny.rt --experiment tiny.yaml --threads 1 --set embed.width=8192";
    place.shell(&format!("ulimit -v 4000000; {train}")).code(8).says("this machine has");
}

#[test]
fn a_file_that_may_not_grow_is_a_failed_write() {
    let place = Place::new();
    place.train(&["--run", "whole", "--threads", "1"]).code(0);
    let train = "\"$RTC\" train tiny.rt --experiment tiny.yaml --run cut --threads 1";
    // The first limit is below all metrics, the second below a checkpoint.
    for kilobytes in [4, 20] {
        place.shell(&format!("ulimit -f {kilobytes}; {train}")).code(6).says("File too large");
    }
    place.shell(train).code(0);
    assert_eq!(place.contents("cut"), place.contents("whole"));
}

/// Layers that only multiply: an expression that takes in all products before it would have a gradient with a term for every path.
#[test]
fn many_layers_of_products_compile_at_once() {
    let place = Place::new();
    let layers = "model deep { embed { width: 8 }\n stack 300 { state = state * state * state }\n readout mean }\n";
    place.write("deep.rt", layers);
    place.write("wide.rt", "model wide { embed { width: 8 }\n stack 300 { attend self { heads: 2 }\n feedforward { hidden: 8 } }\n readout mean }\n");
    let start = Instant::now();
    for spec in ["deep.rt", "wide.rt"] {
        place.rtc(&["compile", spec, "--emit", "plan"]).code(0);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Steps of loops within each other multiply, and so does the time in which costs are counted.
#[test]
fn loops_within_loops_have_limits() {
    let place = Place::new();
    let nested = |count: usize, steps: &str| {
        let loops = format!("loop {{ steps: {steps}\n").repeat(count);
        format!(
            "model m {{ embed {{ width: 8 }}\n{loops}feedforward {{ hidden: 8 }}\n{}readout mean }}\n",
            "}\n".repeat(count)
        )
    };
    place.write("deep.rt", &nested(12, "2"));
    place.write("long.rt", &nested(2, "1001"));
    for (spec, why) in [("deep.rt", "more than 50000 statements"), ("long.rt", "at most 1000000 steps")] {
        for command in [&["check", spec][..], &["cost", spec], &["train", spec, "--experiment", "tiny.yaml"]] {
            place.rtc(command).code(3).says("too-long").says(why);
        }
    }
    place.write("fits.rt", &nested(2, "1000"));
    place.rtc(&["compile", "fits.rt", "-o", "fits.rtir"]).code(0);
    place.rtc(&["cost", "fits.rtir"]).code(0);
    let graph = place.read("fits.rtir").replace("{bound: 1000}", "{bound: 1001}");
    place.write("long.rtir", &graph);
    place.rtc(&["cost", "long.rtir"]).code(3).says("long.rtir:").says("at most 1000000 steps, multiplied");
}

/// Every `*` may end anywhere: only the last one that was met is tried again.
#[test]
fn patterns_of_files_take_no_longer_than_names_are_long() {
    let place = Place::new();
    place.write(&format!("{}.csv", "a".repeat(100)), "text,label\n");
    let task = format!(
        "task: {{ name: table, data: {{ train: \"{}b\", dev: 10% }}, input: text, label: label }}\n",
        "a*".repeat(40)
    );
    let rest = "optimiser: { learning_rate: 0.001 }\nschedule: { kind: constant }\nbatch: { size: 8 }\nepochs: 1\nevaluate: [dev]\n";
    place.write("many.yaml", &format!("{task}{rest}"));
    place.rtc(&["task", "check", "many.yaml"]).code(4).says("no file has such a name");
}

/// The class of a row is not looked for among all others one by one.
#[test]
fn a_column_may_have_many_classes() {
    let place = Place::new();
    let rows = (0..120_000).map(|n| format!("t{n},a-class-with-a-long-name-{:05}\n", n % 60_000)).collect::<String>();
    place.write("many.csv", &format!("text,label\n{rows}"));
    place.write("few.csv", "text,label\na,a-class-with-a-long-name-00000\n");
    let task = "task: { name: table, data: { train: many.csv, dev: few.csv }, input: text, label: label }\n";
    let rest = "optimiser: { learning_rate: 0.001 }\nschedule: { kind: constant }\nbatch: { size: 8 }\nepochs: 1\nevaluate: [dev]\n";
    place.write("many.yaml", &format!("{task}{rest}"));
    place.rtc(&["task", "check", "many.yaml", "--time-limit", "30"]).code(0);
}
