//! Specs as arguments of `rtc`: those of the project, of its pages, and generated ones, with the edits that make them small.

use std::fs;
use std::path::{Path, PathBuf};

use rtc_compiler::check::{check, names};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;

use crate::{generated, models};

/// A spec as an argument of `rtc`.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name for people; names of one origin begin alike.
    pub name: String,
    /// The argument of `rtc train`.
    pub spec: String,
    /// The text, where edits make the model small.
    large: Option<Source>,
}

impl Subject {
    /// Values of `--set` that make the model small.
    pub fn edits(&self) -> Vec<String> {
        let name = self.spec.split_once(".rt:").map_or(self.spec.as_str(), |(_, name)| name);
        self.large.as_ref().map_or_else(Vec::new, |source| models::shrinking(source, name))
    }
}

/// The folder of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The models and variants of a text; each is an argument of `rtc train` behind `path`.
fn of_text(prefix: &str, path: &str, text: &str) -> Vec<Subject> {
    let source = Source::new(path, text);
    let one = |name: String| Subject {
        large: Some(source.clone()),
        spec: format!("{path}:{name}"),
        name: format!("{prefix}{name}"),
    };
    names(&source).into_iter().map(one).collect()
}

/// Writes a text with draws of no size, and gives its subjects: PyTorch's draws are others than rtc's.
fn written(folder: &Path, name: &str, text: &str) -> Vec<Subject> {
    let text = quiet(text);
    let path = folder.join(format!("{name}.rt"));
    fs::write(&path, &text).expect("a file of this test");
    of_text(&format!("{name} "), &path.display().to_string(), &text)
}

/// Every model and variant of `specs/`; those with draws are copied to the folder, with the library.
///
/// # Panics
/// Where a file can't be read or written.
pub fn built_in(folder: &Path) -> Vec<Subject> {
    let specs = root().join("specs");
    let mut files: Vec<PathBuf> = fs::read_dir(&specs).expect("specs/").map(|e| e.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "rt"));
    files.sort();
    let lib = folder.join("lib");
    fs::create_dir_all(&lib).expect("a new folder");
    for file in fs::read_dir(specs.join("lib")).expect("the library") {
        let file = file.expect("a file").path();
        fs::copy(&file, lib.join(file.file_name().expect("a name"))).expect("a copy");
    }
    let one = |file: &PathBuf| {
        let text = fs::read_to_string(file).expect("a spec");
        let drawn = quiet(&text) != text;
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        if drawn { written(folder, &stem, &text) } else { of_text("", &file.display().to_string(), &text) }
    };
    files.iter().flat_map(one).collect()
}

/// The models of the pages: the blocks of a page are one file, those of the page on errors a file each where they are right.
///
/// # Panics
/// Where a file can't be read or written.
pub fn documented(folder: &Path) -> Vec<Subject> {
    let blocks = |page: &str| -> Vec<String> {
        let text = fs::read_to_string(root().join("docs").join(page)).expect(page);
        text.split("```rt\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
    };
    let mut found = vec![];
    for page in ["causality", "language", "looped_models", "own_data", "own_layers", "tutorial"] {
        let all = blocks(&format!("{page}.md"));
        let whole = all.join("\n");
        if is_right(&whole) {
            found.extend(written(folder, page, &whole));
        } else {
            let right = all.iter().enumerate().filter(|(_, block)| is_right(block));
            found.extend(right.flat_map(|(n, block)| written(folder, &format!("{page}_{n}"), block)));
        }
    }
    for (n, block) in blocks("diagnostics.md").iter().enumerate().filter(|(_, block)| is_right(block)) {
        found.extend(written(folder, &format!("diagnostics_{n}"), block));
    }
    found
}

/// Whether every model of a text can be checked.
fn is_right(text: &str) -> bool {
    let source = Source::new("block.rt", text);
    let found = names(&source);
    let right =
        |name: &String| check(&models::library(), source.clone(), Some(name), &[], &Catalog::default()).0.is_some();
    !found.is_empty() && found.iter().all(right)
}

/// The first `count` generated models.
///
/// # Panics
/// Where a file can't be written.
pub fn random(folder: &Path, count: u64) -> Vec<Subject> {
    let one = |number| {
        let model = generated::model(number);
        // No task has a class per row and a number of steps.
        let text = if model.each { model.text } else { model.text.replace("steps: given", "steps: 3") };
        // What sees later tokens answers for those of `tagging`.
        let text = if is_right(&text) { text } else { text.replace("readout each\n", "readout each { sees: all }\n") };
        let found = written(folder, &format!("generated_{number}"), &text);
        found.into_iter().map(|subject| Subject { large: None, ..subject })
    };
    (0..count).flat_map(one).collect()
}

/// The text with draws so small that they change no number.
fn quiet(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = ["normal(", "uniform("].iter().filter_map(|word| Some(rest.find(word)? + word.len())).min() {
        let end = at + closing(&rest[at..]);
        let uniform = rest[..at].ends_with("uniform(");
        // `uniform(1, 3)` is a number of steps, for which its mean stands here.
        let is_number = uniform && rest[at..end].contains(',');
        out += &rest[..end];
        rest = &rest[end..];
        match rest.strip_prefix(" { std: ") {
            Some(after) if !uniform => {
                out += " { std: 1e-20";
                rest = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            }
            // Braces behind it say what stands for the draw outside of training.
            None if uniform && !is_number && !rest.starts_with(" {") => out += " { low: 0, high: 1e-20 }",
            _ => {}
        }
    }
    out + rest
}

/// The end of the brackets that are open at the start of a text.
fn closing(text: &str) -> usize {
    let mut depth = 1;
    let end = text.char_indices().find(|(_, c)| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}
