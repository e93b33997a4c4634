//! Modules import downwards: no circle in a crate but those of a table, and no crate depends on more than the table says.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, code, none, with_extension};

/// Every crate, with the crates of this repository that it is built of. A name less is a dependency less: add none lightly.
const CRATES: &[(&str, &[&str])] = &[
    ("compiler", &[]),
    ("runtime/base", &[]),
    ("runtime/kernel", &["base", "compiler"]),
    ("runtime/exec", &["base", "compiler", "kernel"]),
    ("runtime/cuda", &["base", "compiler", "exec", "kernel"]),
    ("runtime/tensor", &["base", "compiler", "exec", "kernel"]),
    ("runtime/task", &["base", "compiler"]),
    ("runtime/runs", &["base", "compiler", "exec", "task"]),
    ("runtime/train", &["base", "compiler", "exec", "kernel", "runs", "task"]),
    ("report", &["compiler", "exec", "runs", "train"]),
    ("export", &["compiler"]),
    ("lsp", &["compiler"]),
    ("candle", &["base", "compiler", "cuda", "exec", "kernel", "runs", "session", "task", "tensor"]),
    ("session", &["base", "compiler", "cuda", "exec", "kernel", "runs", "task", "tensor", "train"]),
    (
        "cli",
        &["base", "compiler", "cuda", "exec", "export", "kernel", "lsp", "report", "runs", "session", "task", "train"],
    ),
    ("tests", &["base", "compiler", "cuda", "exec", "export", "kernel", "lsp", "runs", "task", "tensor", "train"]),
    ("benches", &["base", "compiler", "cuda", "exec", "export", "kernel", "task", "tests"]),
];

/// The circles of modules that there still are. Add none.
const CIRCLES: &[(&str, &[&str])] = &[("compiler", &["define", "feature", "lower", "spec"])];

/// Which module a module reads, with a place where it does.
type Imports = BTreeMap<(String, String), String>;

/// The module of a file below `src/`, and how many folders are around it.
fn module_of(inside: &str) -> (&str, usize) {
    (inside.split(['/', '.']).next().unwrap_or_default(), inside.matches('/').count())
}

/// The names that a list in braces begins with: `a` and `b` of `a::X, b::{Y, Z}`.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut current, mut found) = (0, String::new(), vec![]);
    for c in list.chars().chain([',']) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(std::mem::take(&mut current)),
            _ if depth == 0 => current.push(c),
            _ => {}
        }
    }
    let word =
        |text: &String| text.trim().split(|c: char| !(c.is_alphanumeric() || c == '_')).next().map(str::to_owned);
    found.iter().filter_map(word).filter(|name| !name.is_empty()).collect()
}

/// The names that follow a prefix such as `crate::` in some code, those of lists in braces one by one.
fn named(text: &str, prefix: &str) -> Vec<String> {
    let joined = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let mut found = vec![];
    for (at, _) in text.match_indices(prefix).filter(|(at, _)| !joined(*at)) {
        let rest = &text[at + prefix.len()..];
        match rest.strip_prefix('{') {
            // A list ends with the statement; its own closing brace ends no list in it.
            Some(list) => {
                found.extend(heads(list.split(';').next().and_then(|list| list.strip_suffix('}')).unwrap_or("")))
            }
            None => found.extend(heads(rest.split([';', ',', '(', ')', ' ', '\n']).next().unwrap_or_default())),
        }
    }
    found
}

/// The code of a file as one text.
fn text_of(file: &File) -> String {
    code(file).map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

/// What the root of a crate hands on under a name, and the module that it comes from.
fn exports(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let path = path.trim_start_matches("self::").trim_start_matches("crate::");
        let Some((module, items)) = path.split_once("::") else { continue };
        if modules.contains(module) {
            let words = items.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            found.extend(words.map(|word| (word.to_owned(), module.to_owned())));
        }
    }
    found
}

fn imports(files: &[File], name: &str) -> Imports {
    let source = format!("{name}/src/");
    let files: Vec<(&File, &str)> =
        files.iter().filter_map(|file| Some((file, file.path.strip_prefix(&source)?))).collect();
    let modules: BTreeSet<String> = files.iter().map(|(_, inside)| module_of(inside).0.to_owned()).collect();
    let root = if modules.contains("lib") { "lib" } else { "main" };
    let own = files.iter().find(|(_, inside)| module_of(inside).0 == root).map(|(file, _)| text_of(file));
    let own = own.unwrap_or_default();
    let exports = exports(&own, &modules);
    let mut found = Imports::new();
    for (file, inside) in &files {
        let (module, depth) = module_of(inside);
        let text = text_of(file);
        let mut used = named(&text, "crate::");
        match (module == root, depth) {
            (true, _) => used.extend(modules.iter().filter(|module| text.contains(&format!("{module}::"))).cloned()),
            (false, 0) => used.extend(named(&text, "super::")),
            (false, 1) if inside.ends_with("/mod.rs") => used.extend(named(&text, "super::")),
            (false, 1) => used.extend(named(&text, "super::super::")),
            _ => {}
        }
        for name in used {
            let target =
                if modules.contains(&name) { name } else { exports.get(&name).map_or(root, |at| at).to_owned() };
            if target != module {
                found.entry((module.to_owned(), target)).or_insert_with(|| file.path.clone());
            }
        }
    }
    found
}

/// The modules from which one can come back to where one was.
fn in_circles(imports: &Imports) -> BTreeSet<String> {
    let reached = |from: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(at) = open.pop() {
            let next = imports.keys().filter(|(module, _)| *module == at).map(|(_, target)| target.clone());
            open.extend(next.filter(|target| seen.insert(target.clone())));
        }
        seen
    };
    let modules: BTreeSet<&String> = imports.keys().map(|(module, _)| module).collect();
    modules.into_iter().filter(|module| reached(module).contains(*module)).cloned().collect()
}

#[test]
fn no_crate_has_a_circle_of_modules() {
    let files = with_extension(".rs");
    let mut faults = vec![];
    for (name, _) in CRATES {
        let known: BTreeSet<String> = CIRCLES
            .iter()
            .filter(|(of, _)| of == name)
            .flat_map(|(_, circle)| *circle)
            .map(ToString::to_string)
            .collect();
        let imports = imports(&files, name);
        let found = in_circles(&imports);
        if found != known {
            let between = imports.iter().filter(|((a, b), _)| found.contains(a) && found.contains(b));
            let told: Vec<_> = between.map(|((a, b), path)| format!("  {a} reads {b} in {path}")).collect();
            faults.push(format!("{name}: a circle of {found:?}, and {known:?} is known\n{}", told.join("\n")));
        }
    }
    none(&faults);
}

#[test]
fn crates_depend_on_those_below_them() {
    let mut faults = vec![];
    for file in with_extension("Cargo.toml") {
        let name = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, known)) = CRATES.iter().find(|(known, _)| *known == name) else {
            if !["Cargo.toml", "fuzz", "mutants"].contains(&name) {
                faults.push(format!("{name} is not in the table of crates"));
            }
            continue;
        };
        let section = file.text.split("\n[dependencies]\n").nth(1).and_then(|rest| rest.split("\n[").next());
        let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("rtc-"));
        let found: BTreeSet<&str> = rows.filter_map(|row| row.split(['.', ' ']).next()).collect();
        let known: BTreeSet<&str> = known.iter().copied().collect();
        if found != known {
            faults.push(format!("{name} is built of {found:?}, and the table says {known:?}"));
        }
    }
    none(&faults);
}

/// Runs name the code that made them by a hash of these sources.
#[test]
fn the_hash_of_the_code_has_every_crate_that_decides_numbers() {
    let script = std::fs::read_to_string(super::root().join("session/build.rs")).expect("the build script is there");
    let decides =
        CRATES.iter().map(|(name, _)| *name).filter(|name| *name == "compiler" || name.starts_with("runtime/"));
    none(
        &decides.filter(|name| !script.contains(&format!("\"../{name}/src\""))).map(str::to_owned).collect::<Vec<_>>(),
    );
}

#[test]
fn a_circle_is_found() {
    let edge = |a: &str, b: &str| ((a.to_owned(), b.to_owned()), String::new());
    let open = Imports::from([edge("a", "b"), edge("b", "c")]);
    assert!(in_circles(&open).is_empty());
    let closed = Imports::from([edge("a", "b"), edge("b", "c"), edge("c", "b")]);
    assert_eq!(in_circles(&closed), ["b", "c"].map(str::to_owned).into());
    assert_eq!(named("use crate::{a::X, b::{Y, Z}};\nlet x = crate::c::f(super::d);", "crate::"), ["a", "b", "c"]);
}
