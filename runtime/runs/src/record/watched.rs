//! Records that an experiment asks for besides its metrics: texts that the model wrote, and histograms of its parameters, by update.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::append::SealedLines;
use super::history::current;
use super::tensorboard::SummaryValue;
use super::{RunFolder, RunInfo, json_line};
use crate::error::Error;
use crate::record::history::lines;
use rtc_base::disk::beneath;
use rtc_base::disk::{Disk, IoError};

/// The file of sampled texts.
pub(super) const SAMPLES: &str = "samples.jsonl";
/// The file of histograms.
pub(super) const HISTOGRAMS: &str = "histograms.jsonl";

/// Intervals of a histogram, of equal width between the least number and the largest.
pub const BINS: usize = 64;

/// A text that the model wrote after an update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleLine {
    /// Updates done.
    pub update: u64,
    /// The text that it continued.
    pub prompt: String,
    /// The continuation.
    pub text: String,
    /// Why the text ends.
    pub end: SampleEnd,
}

/// Why a sampled text ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleEnd {
    /// All tokens are written.
    #[default]
    Length,
    /// The model wrote the end of an answer.
    Answer,
}

/// Histograms of all parameters after an update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramLine {
    /// Updates done.
    pub update: u64,
    /// The parameters by their names in checkpoints.
    pub parameters: BTreeMap<String, ParameterHistograms>,
}

/// Histograms of a parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ParameterHistograms {
    /// Of its weights after the update.
    pub weights: ArrayHistogram,
    /// Of the gradients of the update, before clipping.
    pub gradients: ArrayHistogram,
}

/// How the numbers of an array are distributed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayHistogram {
    /// The least number.
    pub min: f64,
    /// The largest number.
    pub max: f64,
    /// The sum.
    pub sum: f64,
    /// The root of the mean square.
    pub rms: f64,
    /// Numbers in every interval, of which there are [`BINS`]; of equal numbers all are in the first one.
    pub counts: Vec<u64>,
    /// Numbers that are not finite, which the other fields leave out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub not_finite: u64,
}

pub(super) fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl ArrayHistogram {
    /// Counts the numbers of an array.
    pub fn of(numbers: &[f32]) -> Self {
        let finite = || numbers.iter().filter(|x| x.is_finite()).map(|x| f64::from(*x));
        let count = finite().count();
        if count == 0 {
            return Self { counts: vec![0; BINS], not_finite: numbers.len() as u64, ..Self::default() };
        }
        let (min, max) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), x| (min.min(x), max.max(x)));
        let mut counts = vec![0; BINS];
        for x in finite() {
            let share = if max > min { (x - min) / (max - min) } else { 0.0 };
            counts[((share * BINS as f64) as usize).min(BINS - 1)] += 1;
        }
        let squares: f64 = finite().map(|x| x * x).sum();
        Self {
            min,
            max,
            sum: finite().sum(),
            rms: (squares / count as f64).sqrt(),
            counts,
            not_finite: (numbers.len() - count) as u64,
        }
    }

    /// How many finite numbers there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// A line of a file that an experiment asks for.
pub(super) trait WatchedLine: Serialize + DeserializeOwned {
    /// The file.
    const FILE: &'static str;
    /// Its values for TensorBoard.
    fn values(&self) -> Vec<(String, SummaryValue<'_>)>;
}

impl WatchedLine for SampleLine {
    const FILE: &'static str = SAMPLES;

    fn values(&self) -> Vec<(String, SummaryValue<'_>)> {
        vec![(format!("samples/{}", self.prompt), SummaryValue::Text(&self.text))]
    }
}

impl WatchedLine for HistogramLine {
    const FILE: &'static str = HISTOGRAMS;

    fn values(&self) -> Vec<(String, SummaryValue<'_>)> {
        let mut values = vec![];
        for (name, ParameterHistograms { weights, gradients }) in &self.parameters {
            values.push((format!("weights/{name}"), SummaryValue::Histogram(weights)));
            values.push((format!("gradients/{name}"), SummaryValue::Histogram(gradients)));
        }
        values
    }
}

/// Reads the texts of a run, of which nothing may be there.
///
/// # Errors
/// A file that can't be read; lines that are not those that were written.
pub fn samples(folder: &Path) -> Result<Vec<SampleLine>, Error> {
    read_lines(folder)
}

/// Reads the histograms of a run, of which nothing may be there.
///
/// # Errors
/// As [`samples`].
pub fn histograms(folder: &Path) -> Result<Vec<HistogramLine>, Error> {
    read_lines(folder)
}

fn read_lines<L: WatchedLine>(folder: &Path) -> Result<Vec<L>, Error> {
    if !RunFolder::exists(folder) {
        return Ok(vec![]);
    }
    let info = RunInfo::read(folder)?;
    Ok(lines(folder, L::FILE, &current(folder, L::FILE, &info)?, &info.run)?)
}

/// A file that is made with its first line.
pub(super) struct WatchedFile {
    name: &'static str,
    lines: Option<SealedLines>,
}

impl WatchedFile {
    /// Opens the file in the folder of a run, if it is there.
    pub(super) fn open(disk: &Rc<dyn Disk>, folder: &Path, name: &'static str, run: &str) -> Result<Self, IoError> {
        let path = folder.join(name);
        let lines = beneath::exists(&path).then(|| SealedLines::open(disk, &path, run)).transpose()?;
        Ok(Self { name, lines })
    }

    /// Its length in bytes.
    pub(super) fn position(&self) -> u64 {
        self.lines.as_ref().map_or(0, SealedLines::position)
    }

    /// Makes it durable.
    pub(super) fn sync(&mut self) -> Result<(), IoError> {
        self.lines.as_mut().map_or(Ok(()), SealedLines::sync)
    }

    /// Whether the file is there.
    pub(super) fn exists(&self) -> bool {
        self.lines.is_some()
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Keeps so many bytes, which must be whole lines as they were written.
    pub(super) fn keep(&mut self, length: u64) -> Result<(), Error> {
        match &mut self.lines {
            Some(lines) => lines.keep(length),
            None => Ok(()),
        }
    }

    /// Adds a line.
    pub(super) fn append<L: WatchedLine>(
        &mut self,
        (disk, folder, run): (&Rc<dyn Disk>, &Path, &str),
        line: &L,
    ) -> Result<(), IoError> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            // A new file has no lines to read before the first one is added.
            none => none.insert(SealedLines::open(disk, &folder.join(self.name), run)?),
        };
        lines.append(&json_line(line))
    }
}
