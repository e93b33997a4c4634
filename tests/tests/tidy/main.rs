//! Rules of the repository that no compiler checks: layers, pages, comments, paths.

mod counts;
mod modules;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rtc_compiler::feature::slots;
use rtc_compiler::ir::ops::Op;
use rtc_task::TASKS;

/// Which modules of the compiler a module may use besides itself. A line less is a dependency less: add none lightly.
const LAYERS: &[(&str, &[&str])] = &[
    ("source", &[]),
    ("expr", &[]),
    ("diag", &["source"]),
    ("syntax", &["diag", "expr", "source"]),
    ("schema", &["diag", "syntax"]),
    ("resolve", &["diag", "expr", "schema", "source", "syntax"]),
    ("spec", &["define", "expr", "feature", "resolve", "schema", "source", "syntax"]),
    ("define", &["diag", "expr", "feature", "ir", "lower", "resolve", "schema", "source", "spec", "syntax"]),
    ("formula", &["define", "diag", "expr", "ir", "source", "syntax"]),
    ("feature", &["define", "diag", "expr", "ir", "lower", "schema", "source", "spec"]),
    ("causality", &["expr", "ir"]),
    (
        "check",
        &[
            "causality",
            "define",
            "diag",
            "expr",
            "feature",
            "ir",
            "lower",
            "resolve",
            "schema",
            "source",
            "spec",
            "syntax",
        ],
    ),
    ("incremental", &["causality", "ir", "plan"]),
    ("ir", &["expr", "source"]),
    ("pass", &["ir"]),
    ("plan", &["expr", "ir"]),
    ("lower", &["define", "diag", "expr", "feature", "ir", "schema", "spec"]),
    ("pipeline", &["causality", "ir", "lower", "pass", "plan", "schema", "source", "spec"]),
];

/// The places that may name a library; everything else goes through them.
const DOORS: &[(&str, &[&str])] = &[
    ("allocator_api2", &["runtime/exec/src/"]),
    ("candle_core", &["runtime/", "candle/", "cli/tests/it/candle.rs", "tests/", "benches/benches/"]),
    ("candle_nn", &["runtime/", "candle/", "cli/tests/it/candle.rs", "tests/", "benches/benches/"]),
    ("cudarc", &["runtime/cuda/src/driver/"]),
    ("divan", &["benches/benches/"]),
    ("clap", &["cli/", "benches/src/main.rs", "benches/src/device.rs"]),
    ("clap_complete", &["cli/"]),
    ("ratatui", &["cli/src/live/screen.rs"]),
    ("libloading", &["tests/src/emulated/"]),
    ("mpi", &["runtime/train/src/ranks/"]),
    ("lsp_server", &["lsp/src/"]),
    ("lsp_types", &["lsp/src/"]),
    ("gemm", &["benches/src/peak.rs"]),
    ("png", &["runtime/task/src/lra/picture.rs", "runtime/task/tests/"]),
    ("pulp", &["runtime/kernel/src/"]),
    ("realfft", &["runtime/kernel/src/fourier.rs", "runtime/kernel/src/scan/"]),
    ("csv", &[]),
    ("parquet", &["runtime/task/src/files/columnar.rs"]),
    ("tokenizers", &["runtime/task/src/own/trained/"]),
    ("prost", &["export/src/onnx/"]),
    ("unicode_normalization", &["runtime/task/src/alike.rs"]),
    ("zip", &["runtime/runs/src/weights/", "runtime/runs/tests/"]),
    ("pest_meta", &["lsp/src/grammar.rs"]),
    ("pest", &["compiler/src/syntax/parse.rs", "compiler/src/syntax/message.rs", "compiler/src/ir/text.rs"]),
    ("pest_derive", &["compiler/src/syntax/parse.rs", "compiler/src/ir/text.rs"]),
    ("petgraph", &["compiler/src/ir/graph.rs"]),
    ("resvg", &["report/src/drawing/", "report/src/font/"]),
    ("schemars", &["runtime/"]),
    ("statrs", &["runtime/runs/src/statistics/"]),
    ("getrandom", &["cli/src/command/report/watch/server.rs"]),
    ("http_body_util", &["cli/src/command/report/watch/server.rs"]),
    ("hyper", &["cli/src/command/report/watch/server.rs"]),
    ("hyper_util", &["cli/src/command/report/watch/server.rs"]),
    ("tokio", &["cli/src/command/report/watch/server.rs"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie inside the workspace").to_owned()
}

/// A file of the repository with its path from the root, parts joined by `/`.
struct File {
    path: String,
    text: String,
}

/// Every text file of the repository. Build outputs and runs are none, and what is not UTF-8 is no text.
fn files() -> Vec<File> {
    let root = root();
    let mut folders = vec![root.clone()];
    let mut found = vec![];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            let from_root = path.strip_prefix(&root).expect("found below the root");
            let parts: Vec<_> = from_root.iter().map(|part| part.to_string_lossy()).collect();
            let name = parts.join("/");
            // `runtime/runs` is a crate; runs lie in the root.
            let skipped = ["target", "__pycache__"].contains(&parts.last().map_or("", |part| part.as_ref()));
            if skipped || ["runs", ".git", ".gpu"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push(File { path: name, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 100, "the repository was not found");
    found
}

fn with_extension(extension: &str) -> Vec<File> {
    files().into_iter().filter(|file| file.path.ends_with(extension)).collect()
}

/// The lines of a source file that are code, with their numbers: no comments, nothing behind `#[cfg(test)]`.
fn code(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = file.text.lines().enumerate().map(|(n, line)| (n + 1, line));
    lines.take_while(|(_, line)| line.trim() != "#[cfg(test)]").filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// The names that follow `prefix` in a line where it begins a path: `crate::ir` gives `ir` for `crate::`.
fn names_after<'a>(line: &'a str, prefix: &str) -> Vec<&'a str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let name = |at: usize| line[at + prefix.len()..].split(|c| !word(c)).next().unwrap_or("");
    let begins = |at: &usize| !line[..*at].ends_with(|c| word(c) || c == ':');
    line.match_indices(prefix).map(|(at, _)| at).filter(begins).map(name).collect()
}

#[track_caller]
fn none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent = |file: &File| !file.text.starts_with("//! ");
    let faults: Vec<_> = with_extension(".rs").into_iter().filter(silent).map(|f| f.path).collect();
    none(&faults);
}

/// Places of one machine mean nothing on another one.
#[test]
fn no_file_names_a_place_of_one_machine() {
    let places: Vec<String> = ["home", "root", "work", "Users"].iter().map(|name| format!("/{name}/")).collect();
    let mut faults = vec![];
    for file in files() {
        for (n, line) in file.text.lines().enumerate() {
            let inside_a_path = |at: usize| line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}".contains(c));
            let named = |place: &String| line.match_indices(place.as_str()).any(|(at, _)| !inside_a_path(at));
            if places.iter().any(named) {
                faults.push(format!("{}:{}: {}", file.path, n + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

/// A commit takes in everything that lies in the tree: downloads, builds and data do not belong into it.
#[test]
fn no_download_is_committed() {
    const MOST: u64 = 256 << 10;
    if !root().join(".git").exists() {
        return;
    }
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().expect("git lists files");
    let names = String::from_utf8(listed.stdout).expect("names are UTF-8");
    let names: Vec<&str> = names.split('\0').filter(|name| !name.is_empty()).collect();
    assert!(names.len() > 100, "the files were not listed");
    let is_large = |name: &&&str| fs::metadata(root().join(name)).is_ok_and(|file| file.len() > MOST);
    let is_built =
        |name: &str| [".whl", ".so", ".a", ".o", ".pyc", ".zip", ".safetensors"].iter().any(|end| name.ends_with(end));
    let faults = names.iter().filter(|name| is_built(name) || is_large(name));
    none(&faults.map(|name| format!("{name} is no source: remove it, or add it to .gitignore")).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_open() {
    let open: Vec<String> = ["todo", "unimplemented", "dbg"].iter().map(|name| format!("{name}!(")).collect();
    let mut faults = vec![];
    for file in with_extension(".rs") {
        for (n, line) in file.text.lines().enumerate() {
            if open.iter().any(|name| line.contains(name.as_str())) {
                faults.push(format!("{}:{}: {}", file.path, n + 1, line.trim()));
            }
        }
    }
    none(&faults);
}

#[test]
fn the_layers_of_the_compiler_hold() {
    let (mut faults, mut seen) = (vec![], BTreeSet::new());
    for file in with_extension(".rs") {
        let Some(inside) = file.path.strip_prefix("compiler/src/") else { continue };
        let module = inside.split(['/', '.']).next().unwrap_or_default();
        if module == "lib" {
            continue;
        }
        let Some((layer, may_use)) = LAYERS.iter().find(|(name, _)| *name == module) else {
            faults.push(format!("{}: `{module}` is not in the table of layers", file.path));
            continue;
        };
        seen.insert(*layer);
        for (n, line) in code(&file) {
            for used in names_after(line, "crate::") {
                if used != module && !may_use.contains(&used) {
                    faults.push(format!("{}:{n}: `{module}` must not use `{used}`", file.path));
                }
            }
        }
    }
    faults.extend(
        LAYERS.iter().filter(|(name, _)| !seen.contains(name)).map(|(name, _)| format!("there is no `{name}`")),
    );
    none(&faults);
}

#[test]
fn libraries_stay_behind_their_doors() {
    let mut faults = vec![];
    for file in with_extension(".rs") {
        for (library, doors) in DOORS {
            if doors.iter().any(|door| file.path.starts_with(door)) {
                continue;
            }
            let path = format!("{library}::");
            let uses = code(&file).filter(|(_, line)| !names_after(line, &path).is_empty());
            faults.extend(uses.map(|(n, _)| format!("{}:{n}: `{library}` belongs to {}", file.path, doors.join(", "))));
        }
    }
    none(&faults);
}

/// The targets of the relative links of a page, without their fragments. What stands between backticks, or between lines that begin
/// with three, is code; the text of a link may hold some.
fn links(text: &str) -> Vec<&str> {
    let is_text = |before: &str| {
        let fences = before.lines().filter(|line| line.trim_start().starts_with("```")).count();
        fences % 2 == 0 && before.lines().next_back().is_none_or(|line| line.matches('`').count() % 2 == 0)
    };
    let cuts =
        text.match_indices("](").filter(|(at, _)| is_text(&text[..*at])).map(|(at, cut)| &text[at + cut.len()..]);
    let targets = cuts.filter_map(|rest| rest.split(')').next());
    let paths = targets.map(|target| target.split('#').next().unwrap_or(target));
    paths.filter(|path| !path.is_empty() && !path.contains("://") && !path.contains(' ')).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut faults = vec![];
    for page in with_extension(".md") {
        let path = root().join(&page.path);
        let folder = path.parent().expect("a page lies in a folder");
        let dead = links(&page.text).into_iter().filter(|link| !folder.join(link).exists());
        faults.extend(dead.map(|link| format!("{}: there is no {link}", page.path)));
    }
    none(&faults);
}

/// Files and folders that pages name in code: `runtime/exec/src/update.rs`, with or without its ending. The lab tells of older sources.
#[test]
fn paths_in_pages_are_there() {
    const FOLDERS: [&str; 12] = [
        "benches", "candle", "cli", "compiler", "export", "lsp", "report", "runtime", "session", "specs", "tests",
        "tools",
    ];
    let plain = |c: char| c.is_alphanumeric() || "_./-".contains(c);
    let mut faults = vec![];
    for page in with_extension(".md").into_iter().filter(|page| !page.path.starts_with("docs/lab/")) {
        let named = page.text.split('`').filter(|code| {
            let folder = code.split_once('/').map(|(folder, _)| folder);
            folder.is_some_and(|folder| FOLDERS.contains(&folder)) && code.chars().all(plain)
        });
        let stands_for_any = |path: &&str| path.contains("..") || path.contains("NAME") || path.contains("TARGET");
        for path in named.filter(|path| !stands_for_any(path)) {
            if !["", ".rs"].iter().any(|ending| root().join(format!("{path}{ending}")).exists()) {
                faults.push(format!("{}: there is no {path}", page.path));
            }
        }
    }
    none(&faults);
}

#[test]
fn every_page_is_in_the_book() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the book has a summary");
    let linked = links(&summary);
    let pages = with_extension(".md");
    let pages = pages.iter().filter_map(|page| page.path.strip_prefix("docs/"));
    let missing: Vec<_> =
        pages.filter(|page| *page != "SUMMARY.md" && !linked.contains(page)).map(str::to_owned).collect();
    none(&missing);
}

#[test]
fn every_spec_is_introduced() {
    let page = |path: &str| fs::read_to_string(root().join(path)).expect("the page exists");
    let pages = page("docs/catalogue.md") + &page("docs/language.md");
    // Families stand on the page of `rtc import`, which a test of theirs reads.
    let is_spec = |path: &String| path.starts_with("specs/") && !path.starts_with("specs/families/");
    let specs = files().into_iter().map(|file| file.path).filter(is_spec);
    let unknown: Vec<_> = specs.filter(|path| !pages.contains(path.as_str())).collect();
    none(&unknown);
}

/// What is wrong with a source: `rtc`, or papers with their years. An arXiv id has four digits, a point and five, four before 2015.
fn misquoted(source: &str) -> Option<String> {
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).count();
    let year = |word: &str| digits(word) == 4 && (word.starts_with("19") || word.starts_with("20"));
    let names = source == "rtc" || source.starts_with("rtc;") || source.split([' ', ',', ';']).any(year);
    let mut ids = source.split("arXiv:").skip(1);
    let number = |text: &str| if text < "15" { 4 } else { 5 };
    let id = |text: &str| digits(text) == 4 && text[4..].starts_with('.') && digits(&text[5..]) == number(text);
    (!names || !ids.all(id)).then(|| format!("`{source}` names no paper with its year, or a wrong arXiv id"))
}

#[test]
fn every_feature_task_kernel_and_spec_names_its_source() {
    let mut sources: Vec<(String, String)> = vec![];
    for feature in slots().iter().flat_map(|slot| &slot.features) {
        sources.push((feature.title(), feature.source.to_string()));
    }
    sources.extend(TASKS.iter().map(|task| (task.name().to_owned(), task.about().source.to_owned())));
    let mark = "/// Source: ";
    let kernel = |file: &File| file.path.starts_with("runtime/kernel/src/").then_some("//! Source: ");
    let spec = |file: &File| (file.path.starts_with("specs/") && file.path.ends_with(".rt")).then_some(mark);
    for file in files() {
        let Some(mark) = kernel(&file).or_else(|| spec(&file)) else { continue };
        let named: Vec<&str> = file.text.lines().filter_map(|line| line.strip_prefix(mark)).collect();
        if named.is_empty() {
            sources.push((file.path.clone(), String::new()));
        }
        sources.extend(named.into_iter().map(|source| (file.path.clone(), source.trim_end_matches('.').to_owned())));
    }
    assert!(sources.len() > 150, "features, tasks, kernels or specs were not found");
    let faults = sources.iter().filter_map(|(place, source)| Some(format!("{place}: {}", misquoted(source)?)));
    none(&faults.collect::<Vec<_>>());
}

#[test]
fn a_wrong_source_is_found() {
    assert_eq!(misquoted("rtc"), None);
    assert_eq!(misquoted("Graves 2016, arXiv:1603.08983; Elman 1990"), None);
    for wrong in ["", "Graves, arXiv:1603.08983", "Graves 2016, arXiv:1603.0898", "Graves 2016, arXiv: 1603.08983"] {
        assert!(misquoted(wrong).is_some(), "{wrong}");
    }
}

#[test]
fn every_op_is_described_in_sentences() {
    let faults: Vec<_> = Op::ALL.iter().filter(|op| !op.def().doc.ends_with('.')).map(ToString::to_string).collect();
    none(&faults);
}

#[test]
fn scripts_are_whole() {
    let folders = ["tests", "tests/gpu", "tools"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).expect(folder));
    let scripts: Vec<_> =
        files.map(|e| e.expect("a file").path()).filter(|p| p.extension().is_some_and(|e| e == "sh")).collect();
    assert!(scripts.len() >= 6, "{scripts:?}");
    for script in scripts {
        let parsed = Command::new("bash").arg("-n").arg(&script).output();
        let parsed = parsed.expect("bash, which runs the scripts, is there");
        assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
        let text = fs::read_to_string(&script).expect("a text");
        let stops = ["set -euo pipefail", "set -eu"].iter().any(|line| text.contains(line));
        assert!(stops, "{}: a failed command must end it", script.display());
    }
}
