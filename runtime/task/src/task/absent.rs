//! Files that an experiment names and that are not there.

use std::path::Path;

use super::{DataSource, TaskSettings};
use crate::error::suggest;
use crate::files::paths::{is_pattern, matching, there};
use crate::reading::entries;
use crate::share::{SplitSource, TRAIN};

/// A file that an experiment names and that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentFile {
    /// The keys that lead to its name in the experiment.
    pub path: Vec<String>,
    /// Its name there.
    pub name: String,
    /// The sentence of an error.
    pub message: String,
}

impl TaskSettings {
    /// Returns the first file that is not there: of the data of some splits, or the tokenizer.
    pub fn absent(&self, splits: &[&str]) -> Option<AbsentFile> {
        let of_tokens = || {
            let file = self.tokens.as_deref().filter(|tokens| tokens.ends_with(".json"))?;
            self.absent_file(&["task", "tokens"], file)
        };
        let found = match &self.data {
            Some(DataSource::Files(_)) => splits.iter().find_map(|split| self.absent_split(split)),
            Some(DataSource::Folder(folder)) => self.absent_folder(folder),
            Some(DataSource::Program(_)) | None => None,
        };
        found.or_else(of_tokens)
    }

    /// The file of a split, or the file of which the split is a share.
    fn absent_split(&self, split: &str) -> Option<AbsentFile> {
        let Some(DataSource::Files(files)) = &self.data else { return None };
        let named = files.get(split).or_else(|| files.get(TRAIN))?;
        let split = if files.contains_key(split) { split } else { TRAIN };
        match SplitSource::parse(named).ok()? {
            SplitSource::File(file) => self.absent_file(&["task", "data", split], file),
            SplitSource::Share(_) if split != TRAIN => self.absent_split(TRAIN),
            SplitSource::Share(_) | SplitSource::Generated => None,
        }
    }

    fn absent_file(&self, path: &[&str], file: &str) -> Option<AbsentFile> {
        let located = self.locate(file);
        if there(&located) {
            return None;
        }
        let is_number = file.trim().parse::<f64>().is_ok();
        let why = match matching(&located) {
            Err(error) if is_pattern(file) => error.message + &format!(": `{file}`"),
            _ if is_number && path.last() != Some(&TRAIN) => {
                format!("`{file}` is the name of no file; a share of the rows of `{TRAIN}` is written as `10%`")
            }
            _ => format!("there is no file `{file}`{}", self.near(file)),
        };
        Some(AbsentFile::new(path, file, &why))
    }

    fn absent_folder(&self, folder: &str) -> Option<AbsentFile> {
        let is_there = self.locate(folder).is_dir();
        let why = || format!("there is no folder `{folder}`{}", self.near(folder));
        (!is_there).then(|| AbsentFile::new(&["task", "data"], folder, &why()))
    }

    /// The end of a sentence about a name that is not there: a similar one, or the places that were tried.
    fn near(&self, file: &str) -> String {
        let name = Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let folders = self.known.folders.iter().map(|folder| folder.join(file)).chain([file.into()]);
        for path in folders {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let beside = entries(folder).unwrap_or_default();
            let names: Vec<&str> = beside.iter().filter_map(|path| path.file_name()?.to_str()).collect();
            if let Some(near) = suggest(&name, names.iter().copied()) {
                return format!("; did you mean `{}`?", Path::new(file).with_file_name(near).display());
            }
        }
        let is_outside = self.known.folders.iter().any(|folder| !folder.as_os_str().is_empty());
        match Path::new(file).is_absolute() {
            true => String::new(),
            false if is_outside => ", neither from the folder of the experiment nor from the current one".to_owned(),
            false => " in the current folder".to_owned(),
        }
    }
}

impl AbsentFile {
    fn new(path: &[&str], name: &str, why: &str) -> Self {
        Self {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            name: name.to_owned(),
            message: format!("`{}`: {why}", path.join(".")),
        }
    }
}
