//! Folders of runs as another user may hand them over: links, fifos, devices and long sparse files under every name. Each command ends,
//! and changes nothing outside of what it is asked to write.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::support::{Answer, Place, RTC};

/// Every name below the folder of a run that a command opens or has opened.
const NAMES: [&str; 26] = [
    "run.json",
    "spec.rt",
    "experiment.yaml",
    "metrics.jsonl",
    "timing.jsonl",
    "events.out.tfevents.0.rtc",
    "results.json",
    "answers.json",
    "labels.json",
    "lengths.json",
    "failure.json",
    "report.html",
    ".lock",
    ".labels",
    "labels.new",
    "lengths.new",
    "results.new",
    "report.new",
    "checkpoints",
    "checkpoints/best",
    "checkpoints/last",
    "checkpoints/last.new",
    "checkpoints/best/weights.safetensors",
    "checkpoints/best/optimiser.safetensors",
    "checkpoints/best/state.json",
    "checkpoints/best/manifest.json",
];

/// The commands that open a run, some of which write into it.
const COMMANDS: [&[&str]; 10] = [
    &["report", "runs/r", "--examples", "2"],
    &["eval", "runs/r"],
    &["predict", "runs/r", "[MAX 2 9 ]"],
    &["verify", "runs/r"],
    &["runs", "--json"],
    &["runs", "records", "runs/r"],
    &["runs", "tag", "runs/r", "x"],
    &["export", "runs/r", "--format", "torch", "--output", "exported"],
    &["diff", "runs/r", "runs/other"],
    &["train", "tiny.rt", "--experiment", "tiny.yaml", "--run", "r", "--with", "epochs=2", "--threads", "1"],
];

/// A trap under a name.
#[derive(Clone, Copy, Debug)]
enum Trap {
    /// A link to a file, or for a folder to a folder, outside.
    Link,
    /// A link to a name outside that is free.
    Dangling,
    Fifo,
    /// A link to a device without an end.
    Endless,
    /// A file of four terabytes that takes no place.
    Sparse,
}

impl Trap {
    fn set(self, path: &Path, outside: &Path) {
        let _ = fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
        let to = if path.extension().is_none()
            && path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
        {
            "folder"
        } else {
            "file"
        };
        match self {
            Self::Link => symlink(outside.join(to), path).expect("a link"),
            Self::Dangling => symlink(outside.join("free"), path).expect("a link"),
            Self::Endless => symlink("/dev/zero", path).expect("a link"),
            Self::Fifo => assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success()),
            Self::Sparse => fs::File::create(path).and_then(|file| file.set_len(1 << 42)).expect("a long file"),
        }
    }
}

/// Everything in a folder, with the contents and times of its files. Links are not followed.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, (i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let (path, about) = (entry.path(), entry.path().symlink_metadata().expect("it is there"));
        let content = if about.is_file() { fs::read(&path).expect("readable") } else { vec![] };
        if about.is_dir() {
            found.extend(snapshot(&path));
        }
        found.insert(path, (about.mtime(), about.mtime_nsec(), content));
    }
    found
}

/// Runs a command that must end by itself, with a code that is documented.
fn ends(place: &Place, args: &[&str], told: &str) -> Answer {
    let output = place.command("timeout").args(["60", RTC]).args(args).output().expect("timeout runs");
    let answer = Answer::from(output);
    let code = answer.status().unwrap_or(-1);
    assert!((0..=9).contains(&code), "{told}, {args:?}: code {code}\n{}", answer.stderr);
    answer
}

/// Two short runs `r` and `other`, a copy of `r`, and a folder outside of both.
fn place() -> Place {
    let place = Place::new();
    let train = |run: &str| place.train(&["--run", run, "--with", "epochs=2", "--threads", "1"]).code(0).status();
    assert_eq!([train("r"), train("other")], [Some(0), Some(0)]);
    place.rtc(&["report", "runs/r", "--examples", "2"]).code(0);
    place.shell("cp -a runs/r whole && mkdir -p outside/folder && echo mine > outside/file && echo mine > outside/folder/file").code(0);
    place
}

#[test]
fn no_command_writes_through_a_name_in_a_run() {
    let place = place();
    let outside = place.path("outside");
    let before = snapshot(&outside);
    let trap = |name: &str, trap: Trap, commands: &[&[&str]]| {
        for args in commands {
            place.shell("rm -rf runs/r exported && cp -a whole runs/r").code(0);
            trap.set(&place.path("runs/r").join(name), &outside);
            let told = format!("{trap:?} under {name}");
            ends(&place, args, &told);
            assert_eq!(snapshot(&outside), before, "{told}: {args:?}");
        }
    };
    for name in NAMES {
        trap(name, Trap::Link, &COMMANDS);
        // What hangs or fills memory does so when it is opened, which few commands do differently.
        trap(name, Trap::Fifo, &[COMMANDS[0], COMMANDS[6], COMMANDS[9]]);
    }
    for name in
        ["labels.json", "labels.new", "lengths.new", ".lock", ".labels", "checkpoints/last.new", "metrics.jsonl"]
    {
        trap(name, Trap::Dangling, &COMMANDS);
    }
    for name in [
        "run.json",
        "metrics.jsonl",
        "results.json",
        "lengths.json",
        "labels.json",
        "checkpoints/best/weights.safetensors",
    ] {
        trap(name, Trap::Endless, &[COMMANDS[0], COMMANDS[4]]);
        trap(name, Trap::Sparse, &[COMMANDS[0], COMMANDS[4]]);
    }
    place.shell("rm -rf runs/r").code(0);
}

#[test]
fn a_link_in_a_run_is_named_and_the_run_refused() {
    let place = place();
    let file = place.path("runs/r/results.json");
    fs::rename(&file, place.path("results.json")).expect("it can be moved");
    symlink(place.path("results.json"), &file).expect("a link");
    let why = "results.json: it is a link, and links in the folder of a run or a grid are not followed";
    place.rtc(&["eval", "runs/r"]).code(6).says(why);
    place.rtc(&["report", "runs/r", "--examples", "0", "-o", "x.html"]).says(why);
    let checked = place.rtc(&["verify", "runs/r"]);
    assert!(checked.code(6).stdout.contains(why), "{}", checked.stdout);
    // The folder itself may be reached through a link.
    symlink("other", place.path("runs/named")).expect("a link");
    place.rtc(&["eval", "runs/named"]).code(0);
    place.rtc(&["runs", "tag", "runs/named/", "x"]).code(0);
}

#[test]
fn a_run_of_another_user_is_looked_at_and_not_changed() {
    let place = place();
    let run = place.path("runs/r");
    if fs::metadata(&run).expect("it is there").uid() != 0 {
        rtc_tests::python::skip("only the superuser can give a folder away");
        return;
    }
    fs::remove_file(run.join("lengths.json")).expect("it was measured");
    fs::remove_file(run.join("report.html")).expect("it was written");
    let files: Vec<PathBuf> = snapshot(&run).into_keys().collect();
    files.iter().chain([&run]).for_each(|path| chown(path, Some(12345), Some(12345)).expect("given away"));
    let before = snapshot(&run);
    place.rtc(&["eval", "runs/r"]).code(0);
    place.rtc(&["predict", "runs/r", "[MAX 2 9 ]"]).code(0);
    place.rtc(&["runs", "--json"]).code(0);
    place.rtc(&["runs", "records", "runs/r"]).code(0);
    place.rtc(&["verify", "runs/r"]).code(0);
    place.rtc(&["diff", "runs/r", "runs/other"]);
    assert_eq!(place.rtc(&["report", "runs/r", "--examples", "2"]).code(0).stdout, "report.html\n");
    for edit in [
        &["runs", "tag", "r", "x"][..],
        &["runs", "untag", "r", "x"],
        &["runs", "note", "r", "x"],
        &["runs", "rename", "r", "x"],
        &["runs", "remove", "r", "--yes", "--all-files"],
    ] {
        place.rtc(edit).code(6).says("it belongs to another user");
    }
    assert_eq!(snapshot(&run), before);
}

#[test]
fn tags_that_are_given_at_the_same_time_are_all_kept() {
    let place = place();
    for round in 0..5 {
        let answers: Vec<Answer> = thread::scope(|scope| {
            let tag = |n: usize| place.rtc(&["runs", "tag", "runs/r", &format!("t{round}x{n}")]);
            let all: Vec<_> = (0..20).map(|n| scope.spawn(move || tag(n))).collect();
            all.into_iter().map(|one| one.join().expect("it ends")).collect()
        });
        answers.iter().for_each(|answer| _ = answer.code(0));
    }
    let list = place.rtc(&["runs", "records", "runs/r"]).code(0).json();
    let mut tags: Vec<&str> = list["tags"].as_array().expect("tags").iter().filter_map(|tag| tag.as_str()).collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 100);
}

#[test]
fn a_folder_is_removed_only_as_far_as_it_is_a_run() {
    let place = place();
    place.shell("mkdir runs/mine && echo '{}' > runs/mine/run.json && echo text > runs/mine/thesis.txt").code(0);
    place.rtc(&["runs", "remove", "mine", "--yes", "--all-files"]).code(7).says("run.json");
    place.shell("cat runs/mine/thesis.txt && ln -s ../outside runs/link && ln -s other runs/run").code(0);
    // A slash after a link would lead to the folder.
    for (named, code, why) in [
        ("runs/run/", 2, "runs/run is a link"),
        ("runs/run/.", 2, "runs/run is a link"),
        ("runs/run", 2, "runs/run is a link"),
        ("runs/link/", 6, "there is no run in this folder"),
    ] {
        place.rtc(&["runs", "remove", named, "--yes"]).code(code).says(why);
    }
    place.rtc(&["verify", "runs/other"]).code(0);

    // Files of others stay, and so does the folder.
    place.shell("echo text > runs/r/notes.md && mkdir runs/r/checkpoints/mine && ln -s ../../outside runs/r/checkpoints/out").code(0);
    let before = place.contents("r");
    let others = "checkpoints/mine, checkpoints/out, notes.md";
    place.rtc(&["runs", "remove", "r"]).code(2).says(others).says("`--all-files` removes them, too");
    place.rtc(&["runs", "remove", "r", "--yes"]).code(0).says(others).says("`rtc runs restore` brings it back");
    let left = place.shell("cd runs/r && find . ! -type d | sort").stdout;
    assert_eq!(left, "./checkpoints/out\n./notes.md\n");
    place.rtc(&["eval", "runs/r"]).code(6);
    let list = place.rtc(&["runs", "--json"]).code(0).json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(2), "the other one, and what is no run: {list}");
    assert_eq!(place.rtc(&["runs", "restore", "r"]).code(0).stdout, "runs/r\n");
    place.rtc(&["eval", "runs/r"]).code(0);
    assert_eq!(place.contents("r"), before);
    assert!(!place.path("runs/.removed").exists(), "it is empty");

    // With them, as a whole; and back.
    place.rtc(&["runs", "remove", "runs/r/", "--yes", "--all-files"]).code(0).says("go with it");
    assert!(!place.path("runs/r").exists());
    place.rtc(&["runs", "restore", "runs/r/"]).code(0);
    assert_eq!(place.contents("r"), before);
    assert_eq!(place.read("runs/r/notes.md"), "text\n");

    // Of two with one name the last one comes back; what is emptied does not.
    place.rtc(&["runs", "remove", "r", "--yes", "--all-files"]).code(0);
    place.train(&["--run", "r", "--with", "max_steps=2"]).code(0);
    place.rtc(&["runs", "restore", "r"]).code(2).says("there is a run runs/r already");
    place.rtc(&["runs", "remove", "r", "--yes"]).code(0);
    place.rtc(&["runs", "restore", "r"]).code(0);
    assert!(place.read("runs/r/experiment.yaml").contains("max_steps: 2"));
    place.rtc(&["runs", "purge"]).code(2).says("nothing was removed");
    place.rtc(&["runs", "purge", "--yes"]).code(0);
    place.rtc(&["runs", "restore", "other"]).code(6).says("no removed run has this name");
    place.rtc(&["runs", "purge", "--yes"]).code(0).says("no removed run is kept");
    assert_eq!(place.read("outside/file"), "mine\n", "what a link led to");
    place.rtc(&["verify", "runs/r", "runs/other"]).code(0);
}

#[test]
fn a_removed_run_comes_back_to_its_folder_alone() {
    let place = place();
    let before = place.contents("r");
    // Of one run under many names.
    let named = place.path("runs/r").display().to_string();
    let answer = place.rtc(&["runs", "remove", "r", "runs/other", "./runs/r", "runs/r", &named]);
    assert!(answer.code(2).stdout.contains("2 runs"), "{}", answer.stdout);
    place.rtc(&["runs", "remove", "r", &named, "--yes"]).code(0);
    // A link in its place, or among what was removed, leads nowhere.
    symlink("../outside", place.path("runs/r")).expect("a link");
    place.rtc(&["runs", "restore", "r"]).code(2).says("runs/r is a link");
    fs::remove_file(place.path("runs/r")).expect("a link");
    fs::create_dir_all(place.path("runs/.removed/7")).expect("a folder");
    symlink("../../other", place.path("runs/.removed/7/r")).expect("a link");
    place.rtc(&["runs", "restore", "r"]).code(0);
    assert_eq!(place.contents("r"), before);
    place.rtc(&["verify", "runs/r", "runs/other"]).code(0);
    // What is no run is not purged.
    place.shell("mkdir -p runs/.removed/2024/photos && echo mine > runs/.removed/2024/photos/one").code(0);
    place.rtc(&["runs", "purge", "--yes"]).code(0).says("photos is no run").says("no removed run is kept");
    assert_eq!(place.read("runs/.removed/2024/photos/one"), "mine\n");
    for args in [&["runs", "rename", "r", ".removed"][..], &["runs", "rename", "r", "a/.removed"]] {
        place.rtc(args).code(2);
    }
    place.train(&["--run", ".removed"]).code(2).says("where removed runs are kept");
}

#[test]
fn of_many_that_remove_a_run_one_does() {
    let place = place();
    let before = place.contents("r");
    for _ in 0..4 {
        let answers: Vec<Answer> = thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(|| place.rtc(&["runs", "remove", "r", "--yes"]))).collect();
            all.into_iter().map(|one| one.join().expect("it ends")).collect()
        });
        assert_eq!(answers.iter().filter(|answer| answer.status() == Some(0)).count(), 1);
        assert!(!place.path("runs/r").exists());
        place.rtc(&["runs", "restore", "r"]).code(0);
        assert_eq!(place.contents("r"), before);
    }
}

#[test]
fn what_is_no_file_is_written_into_and_not_replaced() {
    let place = place();
    // The reader ends by itself, should nobody write.
    let read = |line: &str, pipe: &str| {
        place.shell(&format!("mkfifo {pipe} && timeout 60 cat {pipe} > read & sleep 0.5; {line}; wait")).code(0);
        assert!(!fs::symlink_metadata(place.path(pipe)).expect(pipe).is_file(), "{line}");
        place.read("read").len()
    };
    let page = read("timeout 60 \"$RTC\" report runs/r --examples 0 -o page", "page");
    let rows = read("echo '[MAX 2 9 ]' | timeout 60 \"$RTC\" predict runs/r --output rows.jsonl", "rows.jsonl");
    assert!(page > 10_000 && rows > 10, "{page} bytes, {rows} bytes");
}

#[test]
fn a_grid_writes_nothing_behind_a_link() {
    let place = place();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "max_steps: 2");
    place.write("grid.yaml", &format!("{experiment}compare: [tiny.rt, \"tiny.rt:no_gate\"]\n"));
    let before = snapshot(&place.path("outside"));
    for link in ["tiny", "tiny.no_gate", "claims", "launch"] {
        place.shell("rm -rf runs/grid && mkdir runs/grid").code(0);
        symlink("../../outside/folder", place.path("runs/grid").join(link)).expect("a link");
        let args: &[&str] = match link {
            "launch" => &["--launcher", "slurm", "--time", "10", "--detach"],
            _ => &["--jobs", "1"],
        };
        let answer = place.rtc(&[&["ablate", "grid.yaml"], args].concat());
        assert_ne!(answer.status(), Some(0), "{link}");
        answer.says("it is a link");
        assert_eq!(snapshot(&place.path("outside")), before, "{link}");
    }
}
