//! Every command that the README, a page or a help prints is run as it stands, each page in a folder of its own, in the
//! order of the page. What a page prints as the answer is compared with the answer, line by line.
//!
//! A folder has a spec `my.rt`, an experiment `my.yaml`, some rows and inputs, and a trained model wherever a command
//! names `runs/NAME`, `runs/A` or `runs/B`. Trainings are the documented ones with few updates and examples: their lines
//! are left as they are, and [`short`] puts edits behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::import::publish;
use crate::support::{Answer, Place, RTC};
use rtc_runs::experiment::ExperimentFile;

/// Programs whose commands build or start something else than `rtc`, and why they are not run here.
const OTHERS: &[(&str, &str)] = &[
    ("cargo", "builds the program, which is what runs here"),
    ("rustup", "installs a compiler"),
    ("mdbook", "shows the pages as a book"),
    ("pip", "installs Python packages"),
    ("python", "needs Python packages; the tests of exports run it where they are at hand"),
    ("rtc-track", "needs Python packages; python/tests/test_track.py runs it"),
    ("WANDB_MODE", "the same"),
    ("python3", "needs Python packages; the tests of exports run it where they are at hand"),
    ("tools/", "a script with its own test"),
    ("tests/", "a script of the tests"),
    (".ci/run", "runs this test"),
    ("RTC_", "a test with reference data"),
    ("mpirun", "needs an MPI library; tests/mpi.sh runs it"),
    ("srun", "needs a cluster"),
];

/// Pages whose commands are not run, and why.
const UNRUN: &[(&str, &str)] = &[
    ("docs/papers.md", "trainings of hours, whose figures stand beside them; `experiments` compiles all of them"),
    ("docs/papers_recursion.md", "the same"),
    ("docs/performance.md", "measurements"),
    ("docs/cuda.md", "needs a GPU"),
    (
        "docs/clusters.md",
        "needs queues; `clusters` runs the launchers with stand-ins, and `tests/clusters.sh` with real ones",
    ),
];

/// The page with a spec, a change of it, and an experiment in two parts.
const TUTORIAL: &str = "docs/tutorial.md";

/// A command with its place, and what the page prints as its answer.
#[derive(Debug)]
struct Documented {
    place: String,
    command: String,
    answer: Vec<String>,
}

/// The commands of a page, from its blocks of shell (each line a command) and of text (commands behind `$ `).
fn commands(page: &str, text: &str) -> Vec<Documented> {
    let mut found: Vec<Documented> = vec![];
    let (mut fence, mut goes_on) = (None, false);
    for (n, line) in text.lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            fence = if fence.is_none() { Some(kind.trim().to_owned()) } else { None };
            continue;
        }
        let new = match fence.as_deref() {
            Some("sh") => Some(line).filter(|line| !line.trim().is_empty() && !line.starts_with('#')),
            Some("text") => line.strip_prefix("$ "),
            _ => None,
        };
        match (new, found.last_mut()) {
            (Some(line), Some(last)) if goes_on => {
                last.command.push_str(line.trim());
            }
            (Some(line), _) => {
                found.push(Documented { place: format!("{page}:{}", n + 1), command: line.to_owned(), answer: vec![] });
            }
            (None, Some(last)) if fence.as_deref() == Some("text") && page_line_follows(last, page, n) => {
                last.answer.push(line.to_owned());
            }
            _ => {}
        }
        if let Some(last) = found.last_mut() {
            goes_on = new.is_some() && last.command.trim_end().ends_with('\\');
            if goes_on {
                last.command.truncate(last.command.trim_end().len() - 1);
            }
        }
    }
    for command in &mut found {
        command.command = without_comment(&command.command);
    }
    found
}

/// Whether line `n` (from 0) is the answer of the command before it: the lines between are, too.
fn page_line_follows(last: &Documented, page: &str, n: usize) -> bool {
    let at = last.place.strip_prefix(page).and_then(|rest| rest.strip_prefix(':')).and_then(|n| n.parse().ok());
    at.is_some_and(|at: usize| at + last.answer.len() == n)
}

/// A command without the explanation behind ` #`.
fn without_comment(line: &str) -> String {
    line.split(" #").next().unwrap_or_default().trim_end().to_owned()
}

/// The examples of a command's help.
fn examples(place: &Place, command: &str) -> Vec<Documented> {
    let help = place.rtc(&[command, "--help"]).stdout;
    let lines = help.lines().skip(1).take_while(|line| !line.trim().is_empty()).map(str::trim);
    let one = |line: &str| Documented {
        place: format!("rtc {command} --help"),
        // Two blanks begin the explanation.
        command: line.split("  ").next().unwrap_or_default().to_owned(),
        answer: vec![],
    };
    lines.filter(|line| line.starts_with("rtc ")).map(one).collect()
}

/// What a folder of the examples holds besides the tiny model.
fn furnish(place: &Place) {
    let spec = place.read("tiny.rt").replace("tiny", "my");
    place.write("my.rt", &spec);
    let experiment = place.read("tiny.yaml").replace(
        "sizes: { train: 160, dev: 32, test: 32 }",
        "sizes: { train: 64, dev: 16, test: 16, 200-300: 4, lra: 2, args-10: 4 }",
    );
    // Rows of a grid are compared where dev is measured.
    let grid = "evaluate_every: 500\ncompare: [my, \"my:no_gate\"]\n";
    place.write("my.yaml", &format!("model: my.rt\n{experiment}{grid}"));
    place.write("sweep.yaml", &first("yaml", "docs/sweeps.md"));
    let motion = first("rt", "docs/own_layers.md");
    place.write("motion.rt", &motion);
    place.write("settling.rt", &block("rt", "docs/own_layers.md", 2));
    place.write(
        "wrong_motion.rt",
        &motion.replace("up = linear(normed) { to: hidden, bias: false }", "up = linear(normed)"),
    );
    let few = first("yaml", "docs/own_layers.md")
        .replace("sizes: { train: 4000, dev: 200, test: 1000 }", "sizes: { train: 16, dev: 8, test: 8 }");
    place.write("motion.yaml", &few.replace("epochs: 3", "epochs: 1"));
    let looper = first("rt", TUTORIAL);
    place.write("typo.rt", &looper.replace("width: 64", "widht: 64"));
    place.write("looper.rt", &format!("{looper}\n{}", block("rt", TUTORIAL, 2)));
    let parity = first("yaml", TUTORIAL) + &block("yaml", TUTORIAL, 2);
    let few = parity.replace("test: 640, 17-64: 480", "test: 16, 17-64: 48").replace("max_steps: 2000", "max_steps: 2");
    place.write("parity.yaml", &few.replace("evaluate_every: 500", "evaluate_every: 2"));
    place.write("wrong.rt", &spec.replace("gate mlp { hidden: 16 }", "gate mlp { hiddn: 16 }"));
    let review =
        |n: usize| format!("the film {n} was {}\n", if n.is_multiple_of(3) { "bad,negative" } else { "good,positive" });
    place.write("reviews.csv", &("text,label\n".to_owned() + &(0..40).map(review).collect::<String>()));
    let rest = "optimiser: { learning_rate: 0.001 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nepochs: 1\nevaluate: [dev]\n";
    place.write("table.yaml", &(first("yaml", "docs/own_data.md") + rest));
    place.write("readers.rt", &first("rt", "docs/own_data.md"));
    place.write("opinions.yaml", &block("yaml", "docs/own_data.md", 2));
    let opinion = |n: usize| {
        let (reader, label) = (n % 12, if n.is_multiple_of(5) { "negative" } else { "positive" });
        format!("the film {n} was good,{reader},{}.5,{label}\n", n % 30)
    };
    place.write(
        "opinions.csv",
        &("text,reader_id,years,label\n".to_owned() + &(0..60).map(opinion).collect::<String>()),
    );
    let order = |n: usize| format!("{n} apples and {} pears,{} pears {n} apples\n", n % 7, n % 7);
    place.write("orders.csv", &("source,target\n".to_owned() + &(0..60).map(order).collect::<String>()));
    place.write("filler.rt", &block("rt", "docs/own_data.md", 2));
    place.write("letters.yaml", &block("yaml", "docs/own_data.md", 4));
    place.write("letters.txt", &(0..60).map(review).collect::<String>());
    place.write("apart.rt", &block("rt", "docs/own_data.md", 3));
    place.write("stories.yaml", &block("yaml", "docs/own_data.md", 5));
    place.write("stories.txt", &(0..60).map(review).collect::<String>());
    place.write("my_rows.tsv", "3\t[MAX 2 3 ]\n2\t[MIN 2 3 ]\n");
    place.write("prompts.txt", "the \n\nROMEO:\n");
    place.write("letter.txt", "the film\nwas good\n");
    place.write("expressions.txt", "[MAX 2 9 [MIN 4 7 ] 0 ]\n[MIN 2 3 ]\n");
    fs::create_dir_all(place.path("folder")).expect("a new folder");
    place.write("folder/basic_test.tsv", "Source\tTarget\n[MAX 2 3 ]\t3\n");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::copy(root.join("specs/gut.rt"), place.path("gut.rt")).expect("it is there");
    for folder in
        ["bin", "home/.local/share/bash-completion/completions", "home/.zfunc", "home/.config/fish/completions"]
    {
        fs::create_dir_all(place.path(folder)).expect("a new folder");
    }
    symlink(RTC, place.path("bin/rtc")).expect("a new link");
    publish(place, "SmolLM2-135M");
    // Graphviz is not needed to test what is sent to it.
    place.write("bin/dot", "#!/bin/sh\nexec cat\n");
    fs::set_permissions(place.path("bin/dot"), fs::Permissions::from_mode(0o755)).expect("the file is there");
}

/// The first block of a language on a page: a file that its commands name.
fn first(language: &str, page: &str) -> String {
    block(language, page, 1)
}

/// Block `n` of a language on a page, counted from 1.
fn block(language: &str, page: &str, n: usize) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(path).expect(page);
    let block = text.split(&format!("```{language}\n")).nth(n).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("{page} has no block {n} of {language}")).to_owned()
}

/// Trained models for `runs/NAME`: what a command holds that needs another model than the tiny one, and the training of that.
const MODELS: &[(&str, &str)] = &[
    ("rtc generate", "train transformer:causal --experiment characters_smoke"),
    ("--inference flat", "train rir_grc --experiment listops_trees_smoke"),
    ("--trees", "train ebt_grc --experiment listops_trees_smoke"),
    ("--stop", "train looped --experiment looped_parity_smoke"),
    ("loop.carry.s", "train huginn --experiment looped_language_smoke"),
    ("loop.steps", "train huginn --experiment looped_language_smoke"),
    ("--steps", "train looped --experiment looped_parity_smoke"),
    ("--depth", "train looped --experiment looped_addition_smoke"),
    ("|||", "train transformer --experiment logic_smoke"),
    ("reviews.csv", "train my.rt --experiment table.yaml"),
    ("letter.txt", "train my.rt --experiment table.yaml"),
];

/// The training behind the `runs/NAME` of a command.
fn model_for(command: &str) -> &'static str {
    let special = MODELS.iter().find(|(word, _)| command.contains(word));
    special.map_or("train my.rt --experiment my.yaml", |(_, training)| training)
}

/// Puts trained models where the command names them. Each is trained once for a folder.
fn provide(place: &Place, known: &mut BTreeMap<&'static str, PathBuf>, command: &str) {
    for name in ["NAME", "A", "B"] {
        if !command
            .split(|c: char| !(c.is_alphanumeric() || "/_-".contains(c)))
            .any(|word| word == format!("runs/{name}") || word.starts_with(&format!("runs/{name}/")))
        {
            continue;
        }
        let training = model_for(command);
        let count = known.len();
        let trained = known.entry(training).or_insert_with(|| {
            let folder = format!("trained/{count}");
            let line = format!("rtc {} --run {folder}", short(&format!("rtc {training}")).trim_start_matches("rtc "));
            run(place, &line).code(0);
            let runs = place.path("runs").join(&folder);
            if runs.exists() { runs } else { place.path(&folder) }
        });
        fs::create_dir_all(place.path("runs")).expect("a new folder");
        let link = place.path("runs").join(name);
        let _ = fs::remove_file(&link);
        // What is moved or removed must be the run itself.
        if ["rtc runs rename", "rtc runs remove"].iter().any(|edit| command.starts_with(edit)) {
            let (from, to) = (trained.display(), link.display());
            run(place, &format!("cp -a '{from}' '{to}'")).code(0);
        } else {
            symlink(trained, link).expect("a new link");
        }
    }
    if command.contains("runs/GRID") && !place.path("runs/GRID").exists() {
        run(place, "rtc ablate my.yaml --grid GRID --jobs 1").code(0);
    }
}

/// A training, with edits behind it that make it short; every other command as it is.
fn short(command: &str) -> String {
    let words: Vec<&str> = command.split_whitespace().collect();
    if !matches!(words.get(1), Some(&("train" | "ablate"))) || command.contains("--table") {
        return command.to_owned();
    }
    let named = words.iter().position(|word| *word == "--experiment").and_then(|at| words.get(at + 1)).copied();
    let own = if words[1] == "ablate" { words.get(2).copied() } else { Some("listops_smoke") };
    let Some(file) = named.or(own).and_then(|name| ExperimentFile::embedded(name).ok()) else {
        return command.to_owned();
    };
    let experiment = file.resolve(None, &[]).expect("it is embedded");
    let measured = &experiment.evaluate[0];
    let stored = experiment.fresh.is_none().then_some(&experiment.train);
    let splits: BTreeSet<&String> = stored.into_iter().chain([&experiment.dev, measured]).collect();
    let sizes: Vec<String> = splits.iter().map(|split| format!("{split}: 8")).collect();
    let mut edits = format!(
        " --with max_steps=2 --with evaluate_every=null --with evaluate=[{measured}] --with 'task.sizes={{{}}}'",
        sizes.join(", ")
    );
    if words[1] == "ablate" && !command.contains("seeds=") {
        edits.push_str(" --with seeds=[1]");
    }
    if experiment.fresh.is_some() {
        edits.push_str(" --with fresh.pass=2");
    }
    format!("{command}{edits}")
}

fn run(place: &Place, line: &str) -> Answer {
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = place.command("bash");
    command.args(["-c", &format!("set -o pipefail; {line}")]).env("PATH", path).env("HOME", place.path("home"));
    command.output().expect("bash runs").into()
}

/// A command that goes on until Ctrl-C, with that after some seconds; every other one as it is.
fn ended(command: String) -> String {
    if command.contains(" --watch") {
        format!("timeout --foreground --preserve-status -s INT 5 {command}")
    } else {
        command
    }
}

/// Whether every line of the page is in the answer, in this order; `...` stands for any lines.
fn compare(documented: &Documented, answer: &Answer) {
    let both = format!("{}{}", answer.stderr, answer.stdout);
    let mut lines = both.lines();
    for wanted in documented.answer.iter().filter(|line| !line.trim().is_empty() && line.trim() != "...") {
        let found = lines.any(|line| line.trim_end() == wanted.trim_end());
        let Documented { place, command, .. } = documented;
        assert!(found, "{place}: `{command}` does not print\n{wanted}\nafter the lines before it, but\n{both}");
    }
}

/// Runs the commands of a page, one after the other.
fn run_all(page: &[Documented]) {
    let place = Place::new();
    furnish(&place);
    let mut known = BTreeMap::new();
    for documented in page {
        let first = documented.command.split_whitespace().next().unwrap_or_default();
        if OTHERS.iter().any(|(other, _)| first.starts_with(other)) {
            continue;
        }
        assert!(
            first == "rtc",
            "{}: `{}` is neither a command of rtc nor in OTHERS",
            documented.place,
            documented.command
        );
        provide(&place, &mut known, &documented.command);
        let answer = run(&place, &ended(short(&documented.command)));
        let expected = if documented.answer.iter().any(|line| line.starts_with("error")) { 3 } else { 0 };
        if answer.status() != Some(expected) {
            panic!("{}: `{}`\n{}{}", documented.place, documented.command, answer.stdout, answer.stderr);
        }
        compare(documented, &answer);
    }
}

fn page(name: &str) -> Vec<Documented> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    commands(name, &fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn the_readme() {
    run_all(&page("README.md"));
}

#[test]
fn the_pages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names: Vec<String> = fs::read_dir(root.join("docs"))
        .expect("the folder can be read")
        .map(|entry| format!("docs/{}", entry.expect("the folder can be read").file_name().to_string_lossy()))
        .filter(|name| name.ends_with(".md") && !UNRUN.iter().any(|(page, _)| page == name))
        .collect();
    names.sort();
    let run = names.iter().map(|name| page(name)).filter(|page| !page.is_empty());
    let count = run.map(|page| run_all(&page)).count();
    assert!(count > 0, "no page has a command");
}

#[test]
fn the_helps() {
    let place = Place::new();
    let help = place.rtc(&["--help"]).stdout;
    let listed =
        help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1).take_while(|line| !line.is_empty());
    let names: Vec<&str> =
        listed.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(names.len() > 10, "{help}");
    for name in names {
        let page = examples(&place, name);
        assert!(!page.is_empty(), "`rtc {name} --help` has no example");
        run_all(&page);
    }
}

#[test]
fn commands_are_found_with_their_answers() {
    let text = "```sh\nrtc a   # why\nrtc b \\\n  -c\n\n# a comment\n```\n```text\n$ rtc d\none\n\ntwo\n$ rtc e\n```\n```rt\nno\n```\n";
    let found = commands("p", text);
    let lines: Vec<(&str, &str, usize)> =
        found.iter().map(|one| (one.place.as_str(), one.command.as_str(), one.answer.len())).collect();
    assert_eq!(lines, [("p:2", "rtc a", 0), ("p:3", "rtc b -c", 0), ("p:9", "rtc d", 3), ("p:13", "rtc e", 0)]);
}
