//! Numbers that may only fall: whoever makes one smaller writes the smaller one here.

use std::collections::BTreeMap;
use std::fs;

use rtc_compiler::ir::ops::Op;

use super::{File, code, none, root, with_extension};

/// Arms `_ =>` in a `match` over ops: a new op would go there in silence.
const ARMS_FOR_ANY_OP: usize = 44;
/// Names that more than one type of the workspace has.
const TYPE_NAMES_USED_AGAIN: usize = 11;
/// Tests that return where something is missing, instead of being ignored by name.
const SILENT_SKIPS: usize = 27;
/// Programs that `cargo test --workspace` links.
const TEST_PROGRAMS: usize = 18;
/// Ops of the graph.
const OPS: usize = 99;
/// Words of rustdoc that stand in the place of a noun, in a thousand.
const VAGUE_WORDS: f64 = 22.4;

/// Compares a count with its ceiling.
fn counted(what: &str, found: usize, ceiling: usize, examples: &[String]) {
    let shown = examples.iter().take(40).cloned().collect::<Vec<_>>().join("\n");
    assert!(found <= ceiling, "{what}: {found}, and at most {ceiling} may be there\n{shown}");
    assert!(found == ceiling, "{what}: only {found} are left of {ceiling}: write the smaller number");
}

/// The files of the crates themselves.
fn sources() -> Vec<File> {
    with_extension(".rs").into_iter().filter(|file| file.path.contains("/src/")).collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[test]
fn no_op_goes_another_way_in_silence() {
    let mut found = vec![];
    for file in sources() {
        let lines: Vec<(usize, &str)> = code(&file).collect();
        for (at, (_, line)) in lines.iter().enumerate() {
            if !line.trim_end().ends_with('{') || !line.contains("match ") {
                continue;
            }
            let own = indent(line);
            let body = lines[at + 1..].iter().take_while(|(_, line)| line.trim().is_empty() || indent(line) > own);
            let arms: Vec<_> = body.filter(|(_, line)| indent(line) == own + 4).collect();
            if arms.iter().any(|(_, line)| line.trim().starts_with("Op::")) {
                let any = arms.iter().filter(|(_, line)| line.trim().starts_with("_ =>"));
                found.extend(any.map(|(n, line)| format!("{}:{n}: {}", file.path, line.trim())));
            }
        }
    }
    counted("arms `_ =>` over ops", found.len(), ARMS_FOR_ANY_OP, &found);
}

/// The name of a type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
    let rest = ["struct ", "enum ", "trait ", "type "].iter().find_map(|word| line.strip_prefix(word))?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

#[test]
fn types_have_names_of_their_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    // A file `no_NAME.rs` has the same types as NAME, for a program without a feature.
    for file in sources().into_iter().filter(|file| !file.path.contains("/no_")) {
        for (n, line) in code(&file) {
            // Words of the whole field may be used again.
            if let Some(name) = defined(line).filter(|name| !["Options", "Error", "Model", "Result"].contains(name)) {
                places.entry(name.to_owned()).or_default().push(format!("{}:{n}", file.path));
            }
        }
    }
    let mut again: Vec<_> = places.into_iter().filter(|(_, at)| at.len() > 1).collect();
    again.sort_by_key(|(_, at)| std::cmp::Reverse(at.len()));
    let told: Vec<_> = again.iter().map(|(name, at)| format!("{name}: {}", at.join(", "))).collect();
    counted("type names that are used again", told.len(), TYPE_NAMES_USED_AGAIN, &told);
}

#[test]
fn what_cannot_run_is_ignored_by_name() {
    let mut found = vec![];
    let skips = format!("{}: ", "skipped");
    for file in with_extension(".rs") {
        let lines = file.text.lines().enumerate().filter(|(_, line)| line.contains(&skips) && line.contains("print"));
        found.extend(lines.map(|(n, line)| format!("{}:{}: {}", file.path, n + 1, line.trim())));
    }
    counted("tests that return in silence", found.len(), SILENT_SKIPS, &found);
}

#[test]
fn test_programs_are_few() {
    let mut found = vec![];
    for manifest in with_extension("Cargo.toml") {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml").filter(|name| !["fuzz", "mutants"].contains(name))
        else {
            continue;
        };
        for kind in ["tests", "benches"] {
            let Ok(entries) = fs::read_dir(root().join(folder).join(kind)) else { continue };
            for entry in entries {
                let path = entry.expect("the folder can be read").path();
                if path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").exists() {
                    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
                    found.push(format!("{folder}/{kind}/{}", name.unwrap_or_default()));
                }
            }
        }
    }
    counted("test programs", found.len(), TEST_PROGRAMS, &found);
}

#[test]
fn ops_are_few() {
    counted("ops", Op::ALL.len(), OPS, &[]);
}

#[test]
fn rustdoc_names_the_thing() {
    let (mut all, mut vague) = (0, 0);
    for file in sources() {
        for line in
            file.text.lines().map(str::trim_start).filter(|line| line.starts_with("///") || line.starts_with("//!"))
        {
            for word in line.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
                all += 1;
                let word = word.to_lowercase();
                vague += usize::from(["what", "who", "those", "such", "where", "nobody", "somebody"].contains(&&*word));
            }
        }
    }
    let share = 1000.0 * f64::from(vague as u32) / f64::from(all.max(1) as u32);
    let told =
        format!("{share:.2} vague words in a thousand of rustdoc, and {VAGUE_WORDS} may be there (docs/adding.md)");
    none(&if share > VAGUE_WORDS { vec![told] } else { vec![] });
}
