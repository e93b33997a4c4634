//! Which files of a folder are those of its run.

use std::fs;
use std::path::{Path, PathBuf};

use super::checkpoint;
use super::failure::FAILURE;
use super::watched::{HISTOGRAMS, SAMPLES};
use super::{
    ANSWERS, CHECKPOINTS, EVENTS, EXPERIMENT, METRICS, ModelForm, RESULTS, RUN, TASK, TIMING, evaluated_at, lengths,
};
use rtc_base::disk::IoError;
use rtc_base::disk::drafted;

/// The files that a training, `rtc report` and `rtc ablate` write into the folder of a run.
const FILES: [&str; 15] = [
    RUN,
    ModelForm::Spec.file(),
    ModelForm::Graph.file(),
    EXPERIMENT,
    TASK,
    METRICS,
    TIMING,
    EVENTS,
    SAMPLES,
    HISTOGRAMS,
    RESULTS,
    ANSWERS,
    lengths::FILE,
    evaluated_at::FILE,
    FAILURE,
];

/// What is in the folder of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFiles {
    /// The regular files of the run, from its folder: `run.json` is the first.
    pub files: Vec<PathBuf>,
    /// The folders of the run below its folder, each before the one that it lies in.
    pub folders: Vec<PathBuf>,
    /// Files, links and folders that no run has. What is in such a folder is not looked at.
    pub others: Vec<PathBuf>,
}

impl RunFiles {
    /// Looks through the folder of a run. `more` are files that the caller writes beside those of this crate.
    ///
    /// # Errors
    /// The system does not list it.
    pub fn of(folder: &Path, more: &[&str]) -> Result<Self, IoError> {
        let mut parts = Self::default();
        let is_file = |name: &str| {
            let stem_of =
                |file: &str| drafted(name).is_some_and(|stem| Path::new(file).file_stem() == Some(stem.as_ref()));
            FILES.iter().chain(more).any(|file| *file == name || stem_of(file))
        };
        parts.look(folder, Path::new(""), &is_file, &|name| name == CHECKPOINTS)?;
        let checkpoints = PathBuf::from(CHECKPOINTS);
        if parts.folders.contains(&checkpoints) {
            parts.look(folder, &checkpoints, &|_| false, &checkpoint::is_slot)?;
            for slot in parts.folders.clone().iter().filter(|slot| **slot != checkpoints) {
                parts.look(folder, slot, &checkpoint::is_file, &|_| false)?;
            }
        }
        parts.folders.reverse();
        parts.files.sort_by_key(|file| (file != Path::new(RUN), file.clone()));
        parts.others.sort();
        Ok(parts)
    }

    fn look(
        &mut self,
        root: &Path,
        inside: &Path,
        is_file: &dyn Fn(&str) -> bool,
        is_folder: &dyn Fn(&str) -> bool,
    ) -> Result<(), IoError> {
        let folder = root.join(inside);
        let failed = || IoError::at("read", &folder);
        for entry in fs::read_dir(&folder).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            let (kind, name) = (entry.file_type().map_err(failed())?, entry.file_name());
            let (path, name) = (inside.join(&name), name.to_string_lossy());
            match (kind.is_file() && is_file(&name), kind.is_dir() && is_folder(&name)) {
                (true, _) => self.files.push(path),
                (false, true) => self.folders.push(path),
                (false, false) => self.others.push(path),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_run_are_told_from_others() {
        let place = tempfile::tempdir().expect("a folder");
        let write = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, "").expect("a file");
        };
        let own = [
            "run.json",
            "checkpoints/best/weights.safetensors",
            "checkpoints/last.previous/manifest.json",
            "labels.json",
            "results.1f-2a-0.new",
            "spec.rt",
        ];
        let others = ["checkpoints/best/notes.txt", "checkpoints/mine/state.json", "notes.1f-2a-0.new", "notes.md"];
        own.iter().chain(&others).for_each(|name| write(name));
        let found = RunFiles::of(place.path(), &["labels.json"]).expect("readable");
        assert_eq!(found.files, own.map(PathBuf::from));
        // Of a folder that no run has, its name is told.
        let named = ["checkpoints/best/notes.txt", "checkpoints/mine", "notes.1f-2a-0.new", "notes.md"];
        assert_eq!(found.others, named.map(PathBuf::from));
        assert_eq!(found.folders.last(), Some(&PathBuf::from("checkpoints")));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_no_files_of_a_run() {
        let place = tempfile::tempdir().expect("a folder");
        for name in ["run.json", "checkpoints"] {
            std::os::unix::fs::symlink("/", place.path().join(name)).expect("a link");
        }
        let found = RunFiles::of(place.path(), &[]).expect("readable");
        assert_eq!((found.files, found.folders), (vec![], vec![]));
        assert_eq!(found.others, ["checkpoints", "run.json"].map(PathBuf::from));
    }
}
