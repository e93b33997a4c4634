//! Reads a file and all that it uses.

use std::collections::BTreeSet;

use crate::diag::{Diagnostic, Kind, Problems, list};
use crate::source::{Source, Sources};
use crate::syntax::{self, ast};

/// The most files that one spec may use.
pub const MAX_FILES: usize = 100;

/// Gives the texts of files named by `use`.
pub trait Loader {
    /// The text of a file. The path is relative to the folder of the file that is checked, has `/` between folders,
    /// no `.` or `..` part, and is not absolute; a loader only has to take care that links don't lead out of it.
    /// The error is a short reason, [`NOT_FOUND`] for a file that is not there: then one of the program may stand in its place.
    fn load(&self, path: &str) -> Result<String, String>;
}

/// There are no other files.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, _: &str) -> Result<String, String> {
        Err(NOT_FOUND.to_owned())
    }
}

/// The files of masks and biases that are part of the program, by the path that `use` names them by.
const LIBRARY: &[(&str, &str)] = &[
    ("lib/masks.rt", include_str!("../../../specs/lib/masks.rt")),
    ("lib/pretrained.rt", include_str!("../../../specs/lib/pretrained.rt")),
];

/// How reports and editors call a file that is part of the program: before its path.
pub const OF_PROGRAM: &str = "rtc:";

/// What a loader says of a file that is not there.
pub const NOT_FOUND: &str = "not found";

/// The parsed files: the one asked for comes last, after all that it uses.
pub(super) struct LoadedFiles {
    /// In the order in which their items are listed.
    pub(super) files: Vec<ast::File>,
}

impl LoadedFiles {
    /// The file that was asked for.
    pub(super) fn root(&self) -> &ast::File {
        self.files.last().expect("loading gives at least the file asked for")
    }
}

/// Parses the file and what it uses; `None` if any of them has a syntax error.
pub(super) fn load(
    loader: &dyn Loader,
    root: Source,
    sources: &mut Sources,
    problems: &mut Problems,
) -> Option<LoadedFiles> {
    let (folder, file) = root.name.rsplit_once('/').map_or(("", root.name.as_str()), |(a, b)| (a, b));
    let (folder, file) = (folder.to_owned(), file.to_owned());
    let mut reader = FileCollector {
        loader,
        folder,
        sources,
        problems,
        files: Vec::new(),
        seen: BTreeSet::new(),
        active: Vec::new(),
        complete: true,
    };
    reader.read(root, file);
    let (complete, files) = (reader.complete, reader.files);
    complete.then_some(LoadedFiles { files })
}

struct FileCollector<'a> {
    loader: &'a dyn Loader,
    /// The folder of the root file, for the names shown in reports.
    folder: String,
    sources: &'a mut Sources,
    problems: &'a mut Problems,
    files: Vec<ast::File>,
    seen: BTreeSet<String>,
    /// The paths of the files being read, the root first.
    active: Vec<String>,
    complete: bool,
}

impl FileCollector<'_> {
    fn read(&mut self, source: Source, path: String) {
        let text = source.text.clone();
        let id = self.sources.add(source);
        self.seen.insert(path.clone());
        let Some(file) = syntax::parse(id, &text, self.problems) else {
            self.complete = false;
            return;
        };
        self.active.push(path);
        for item in &file.items {
            if let ast::ItemKind::Use { path } = &item.kind {
                self.include(path);
            }
        }
        self.active.pop();
        self.files.push(file);
    }

    fn include(&mut self, written: &ast::Name) {
        let here = self.active.last().map_or("", String::as_str);
        let Some(path) = join(here, &written.text) else {
            let message = format!("`{}` is outside the folder of the spec", written.text);
            self.fail(
                Diagnostic::new(Kind::IncludeOutsideRoot, written.span, message)
                    .help("paths are relative to this file and stay inside the folder of the checked file"),
            );
            return;
        };
        if self.active.contains(&path) {
            let help = format!("{} uses {path}", self.active.join(" uses "));
            self.fail(
                Diagnostic::new(Kind::CyclicUse, written.span, format!("`{}` uses itself", written.text)).help(help),
            );
            return;
        }
        if self.seen.contains(&path) {
            return;
        }
        if self.seen.len() >= MAX_FILES {
            let message = format!("more than {MAX_FILES} files are used");
            self.fail(Diagnostic::new(Kind::TooLong, written.span, message));
            return;
        }
        match self.loader.load(&path) {
            Ok(text) => {
                let name = if self.folder.is_empty() { path.clone() } else { format!("{}/{path}", self.folder) };
                self.read(Source::new(name, text), path);
            }
            Err(reason) => match LIBRARY.iter().find(|(name, _)| *name == written.text && reason == NOT_FOUND) {
                Some((name, text)) => self.of_program(name, text),
                None => {
                    let message = format!("`{}` can't be read", written.text);
                    let known = LIBRARY.iter().map(|(name, _)| *name);
                    let diagnostic = Diagnostic::new(Kind::MissingFile, written.span, message).label(reason);
                    let help =
                        format!("paths are relative to this file; part of the program is {}", list(known, "and"));
                    self.fail(diagnostic.help(help));
                }
            },
        }
    }

    /// Reads a file of the program, once, whichever folder it is used from.
    fn of_program(&mut self, name: &str, text: &str) {
        let name = format!("{OF_PROGRAM}{name}");
        if !self.seen.contains(&name) {
            self.read(Source::new(name.clone(), text), name);
        }
    }

    fn fail(&mut self, diagnostic: Diagnostic) {
        self.complete = false;
        self.problems.report(diagnostic);
    }
}

/// The path of a file used by `here`, relative to the root folder; `None` if it leaves it.
fn join(here: &str, written: &str) -> Option<String> {
    let refused = written.is_empty() || written.starts_with('/') || written.contains(['\\', ':', '\0']);
    if refused {
        return None;
    }
    let mut parts: Vec<&str> = here.split('/').collect();
    parts.pop();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    if parts.is_empty() { None } else { Some(parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn paths_stay_inside() {
        assert_eq!(join("a.rt", "b.rt"), Some("b.rt".to_owned()));
        assert_eq!(join("lib/a.rt", "../b.rt"), Some("b.rt".to_owned()));
        assert_eq!(join("lib/a.rt", "./c//b.rt"), Some("lib/c/b.rt".to_owned()));
        for outside in ["../b.rt", "lib/../../b.rt", "/etc/passwd", "C:\\b.rt", "a\\..\\b.rt", "", "."] {
            assert_eq!(join("a.rt", outside), None, "{outside}");
        }
    }
}
