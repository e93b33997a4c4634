//! `answers.json`: how many answers of every example are right, split by split, kept at the end of a training.
//!
//! With it two models are compared example by example without running either. `results.json` holds the file's hash.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ANSWERS, MEASURE, RESULTS, read, sha256};
use crate::error::{CheckpointError, Error};
use crate::statistics::examples::ExampleScore;
use rtc_base::disk::IoError;
use rtc_base::disk::{Disk, write_on};
use rtc_task::Tally;

/// The answers of a run on all its evaluation splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAnswers {
    /// In the order of the experiment.
    pub splits: Vec<SplitAnswers>,
}

/// The answers on one split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitAnswers {
    /// The split.
    split: String,
    /// The fingerprint of its examples.
    data: String,
    /// What is counted: the accuracy, and what the task counts besides.
    measures: BTreeMap<String, ExampleCounts>,
}

/// A count per example, in the order of the split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ExampleCounts {
    /// Right answers.
    right: Vec<u64>,
    /// Answers that count.
    of: Of,
}

/// How many answers count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Of {
    /// As many of every example.
    Same(u64),
    /// Of every example its own.
    Own(Vec<u64>),
}

impl RunAnswers {
    /// Writes them into the folder of a run; gives the hash of the file.
    pub(super) fn write(&self, disk: &dyn Disk, folder: &Path) -> Result<String, IoError> {
        let text = serde_json::to_string(self).expect("names and numbers are valid JSON") + "\n";
        write_on(disk, &folder.join(ANSWERS), &text)?;
        Ok(sha256(text))
    }

    /// Reads those of a finished run; `results` is its `results.json`. Nothing if the file is not there, or not the one that was
    /// written.
    pub fn read(folder: &Path, results: &serde_json::Value) -> Option<Self> {
        let bytes = read(folder, ANSWERS).ok()?;
        let same = results["files"][ANSWERS].as_str() == Some(&sha256(&bytes));
        serde_json::from_slice(&bytes).ok().filter(|_| same)
    }

    /// Refuses answers of a finished run that are not as they were written.
    pub(super) fn check(folder: &Path, results: &serde_json::Value) -> Result<(), Error> {
        let bytes = match read(folder, ANSWERS) {
            Err(error) if error.source.kind() != ErrorKind::NotFound => return Err(error.into()),
            read => read.unwrap_or_default(),
        };
        if results["files"][ANSWERS].as_str() == Some(&sha256(bytes)) {
            return Ok(());
        }
        let reason = format!("its {ANSWERS} is not the one that {RESULTS} was written with; {MEASURE}");
        Err(CheckpointError { path: folder.to_path_buf(), reason, previous: None }.into())
    }

    /// What was made of every example of a split by a measure.
    pub fn get(&self, split: &str, measure: &str) -> Option<Vec<ExampleScore>> {
        self.split(split)?.measures.get(measure).map(ExampleCounts::each)
    }

    /// The fingerprint of the examples of a split.
    pub fn data(&self, split: &str) -> Option<&str> {
        self.split(split).map(|found| found.data.as_str())
    }

    fn split(&self, name: &str) -> Option<&SplitAnswers> {
        self.splits.iter().find(|found| found.split == name)
    }
}

impl SplitAnswers {
    /// The answers on a split from the counts of every example, measure by measure.
    pub fn new<'a>(split: &str, data: String, measures: impl IntoIterator<Item = (&'a str, Vec<Tally>)>) -> Self {
        let measures = measures.into_iter().map(|(name, tallies)| (name.to_owned(), ExampleCounts::new(&tallies)));
        Self { split: split.to_owned(), data, measures: measures.collect() }
    }
}

impl ExampleCounts {
    fn new(tallies: &[Tally]) -> Self {
        let first = tallies.first().map_or(1, |tally| tally.all);
        let of = match tallies.iter().all(|tally| tally.all == first) {
            true => Of::Same(first),
            false => Of::Own(tallies.iter().map(|tally| tally.all).collect()),
        };
        Self { right: tallies.iter().map(|tally| tally.right).collect(), of }
    }

    fn each(&self) -> Vec<ExampleScore> {
        let of = |n: usize| match &self.of {
            Of::Same(all) => *all,
            Of::Own(own) => own.get(n).copied().unwrap_or(0),
        };
        let one = |(n, right): (usize, &u64)| ExampleScore { right: *right as f64, all: of(n) as f64 };
        self.right.iter().enumerate().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;
    use rtc_base::disk::FileSystem;

    #[test]
    fn answers_read_back_and_changed_files_are_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let tally = |right: u64, all: u64| Tally { right, all };
        let split = SplitAnswers::new(
            "test/a",
            "3f2a".to_owned(),
            [("accuracy", vec![tally(1, 2), tally(3, 3)]), ("exact", vec![tally(0, 1), tally(1, 1)])],
        );
        let answers = RunAnswers { splits: vec![split] };
        let hash = answers.write(&FileSystem::below(folder.path()), folder.path()).expect("it can be written");
        let text = fs::read_to_string(folder.path().join(ANSWERS)).expect("it was written");
        let expected = "{\"splits\":[{\"split\":\"test/a\",\"data\":\"3f2a\",\"measures\":{\"accuracy\":{\"right\":[1,3],\"of\":[2,3]},\
                        \"exact\":{\"right\":[0,1],\"of\":1}}}]}\n";
        assert_eq!(text, expected);
        let results = json!({ "files": { "answers.json": hash } });
        assert_eq!(RunAnswers::read(folder.path(), &results).as_ref(), Some(&answers));
        let one = |right: f64, all: f64| ExampleScore { right, all };
        assert_eq!(answers.get("test/a", "accuracy"), Some(vec![one(1.0, 2.0), one(3.0, 3.0)]));
        assert_eq!(answers.get("test/a", "exact"), Some(vec![one(0.0, 1.0), one(1.0, 1.0)]));
        assert_eq!((answers.data("test/a"), answers.data("test")), (Some("3f2a"), None));
        assert_eq!((answers.get("test", "exact"), answers.get("test/a", "loss")), (None, None));
        assert_eq!(RunAnswers::read(folder.path(), &json!({})), None);
        fs::write(folder.path().join(ANSWERS), text.replace("[0,1]", "[1,1]")).expect("it can be written");
        assert_eq!(RunAnswers::read(folder.path(), &results), None);
        fs::remove_file(folder.path().join(ANSWERS)).expect("it was there");
        assert_eq!(RunAnswers::read(folder.path(), &results), None);
    }
}
