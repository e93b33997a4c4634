//! Specs on the command line: `file.rt` or `file.rt:variant`, read, checked, with their problems printed.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

use rtc_compiler::check::{Loader, check, check_form};
use rtc_compiler::diag::Problems;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::{Source, Sources};
use rtc_compiler::spec::Spec;

use crate::failure::Failure;
use crate::terminal::Terminal;

/// A spec as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpecArg {
    /// The file.
    pub(crate) file: PathBuf,
    /// The model or variant in it; the file's own model without one.
    pub(crate) target: Option<String>,
}

impl SpecArg {
    /// Splits at the first colon behind which the path of a file ends, so that paths may hold colons too.
    pub(crate) fn parse(text: &str) -> Self {
        let whole = Self { file: PathBuf::from(text), target: None };
        if whole.file.exists() {
            return whole;
        }
        let cuts = || text.match_indices(':').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let found = cuts().find(|(file, _)| Path::new(file).is_file());
        let found = found.or_else(|| cuts().find(|(file, _)| file.ends_with(".rt")));
        found.map_or(whole, |(file, target)| Self { file: PathBuf::from(file), target: Some(target.to_owned()) })
    }

    /// The name of the file as reports show it.
    pub(crate) fn name(&self) -> String {
        self.file.display().to_string()
    }

    /// The text of the file.
    pub(crate) fn source(&self) -> Result<Source, Failure> {
        Ok(Source::new(self.name(), read_text(&self.file, "spec")?))
    }

    /// The files that the spec may use: those in its folder.
    pub(crate) fn loader(&self) -> Folder {
        Folder::of(&self.file)
    }

    /// Checks the spec and prints its warnings; its errors are the failure.
    pub(crate) fn check(&self, sets: &[String], catalog: &Catalog, terminal: &Terminal) -> Result<Checked, Failure> {
        let checked = self.check_silently(sets, catalog)?;
        terminal.problems(&checked.problems, &checked.sources);
        Ok(checked)
    }

    /// As `check`, without printing the warnings.
    pub(crate) fn check_silently(&self, sets: &[String], catalog: &Catalog) -> Result<Checked, Failure> {
        Checked::of(check(&self.loader(), self.source()?, self.target.as_deref(), sets, catalog))
    }

    /// As `check_silently`, without the proof that a model which promises to see only the past does.
    pub(crate) fn check_form(&self, sets: &[String], catalog: &Catalog) -> Result<Checked, Failure> {
        Checked::of(check_form(&self.loader(), self.source()?, self.target.as_deref(), sets, catalog))
    }
}

/// A spec without errors.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The spec.
    pub(crate) spec: Spec,
    /// Its warnings.
    pub(crate) problems: Problems,
    /// The texts that it was made of.
    pub(crate) sources: Sources,
}

impl Checked {
    fn of((spec, problems, sources): (Option<Spec>, Problems, Sources)) -> Result<Self, Failure> {
        match spec {
            Some(spec) => Ok(Self { spec, problems, sources }),
            None => Err(Failure::Spec(Box::new((problems, sources)))),
        }
    }
}

/// The most bytes of a file that are read, far more than a spec or an experiment has. What has no end, as a device, is
/// an error so.
const MAX_BYTES: u64 = 1 << 24;

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES { Err(io::Error::other("more than 16 MiB")) } else { Ok(bytes) }
}

/// The text of a file, without the byte order mark that some editors put before it.
fn text_of(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    let text = String::from_utf8(bytes)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Reads a text file. `what` it should be is named where the file is something else.
pub(crate) fn read_text(path: &Path, what: &str) -> Result<String, Failure> {
    let bytes = read_bytes(path).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => Failure::io("read", path, io::Error::other(format!("a folder is no {what}"))),
        _ => Failure::io("read", path, error),
    })?;
    text_of(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        Failure::NoSpec(format!("{}:{line}: this {what} is not UTF-8 text", path.display()))
    })
}

/// Gives the texts of the files in one folder and below it.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The folder in which a file lies.
    pub(crate) fn of(file: &Path) -> Self {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        Self(folder.unwrap_or(Path::new(".")).to_owned())
    }
}

impl Loader for Folder {
    fn load(&self, path: &str) -> Result<String, String> {
        let reason = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => "not found".to_owned(),
            ErrorKind::IsADirectory => "a folder".to_owned(),
            _ => error.to_string(),
        };
        let root = self.0.canonicalize().map_err(reason)?;
        let file = root.join(path).canonicalize().map_err(reason)?;
        if !file.starts_with(&root) {
            return Err("a link out of the folder of the spec".to_owned());
        }
        // A pipe or a device could keep the compiler waiting.
        if !file.is_file() {
            return Err(if file.is_dir() { "a folder" } else { "no plain file" }.to_owned());
        }
        text_of(read_bytes(&file).map_err(reason)?).map_err(|_| "not UTF-8 text".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stands_behind_the_file() {
        let arg = |file: &str, target: Option<&str>| SpecArg { file: file.into(), target: target.map(str::to_owned) };
        assert_eq!(SpecArg::parse("a b/gut.rt"), arg("a b/gut.rt", None));
        assert_eq!(SpecArg::parse("gut.rt:no_gate"), arg("gut.rt", Some("no_gate")));
        assert_eq!(SpecArg::parse("c:d/gut.rt:gut:no_gate"), arg("c:d/gut.rt", Some("gut:no_gate")));
        assert_eq!(SpecArg::parse("gut"), arg("gut", None));
    }
}
