//! Probes of trained models: accuracy and depth by length, and how chosen inputs halt and fold.

use std::path::{Path, PathBuf};

use rtc_base::disk::beneath::is_owned;
use rtc_exec::learner::LearnError;
use rtc_report::data::{
    AttentionPanel, Cloud, HaltingUnit, InputTrace, Panel, ReportAnswers, SaliencyShares, StepCurve,
};
use rtc_runs::error::Error;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::checkpoint::CheckpointSlot;
use rtc_runs::record::{LengthMeasurements, SavedRun, SplitLengths};
use rtc_session::definition::GraphFacts;
use rtc_session::device::DeviceChoice;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::{ModelChoice, TrainedModel};
use rtc_session::spec_file::read_text;
use rtc_session::versions::program;
use rtc_task::TaskSettings;
use rtc_task::error::DataError;
use rtc_task::{AskedRow, Dataset, Example, ExampleTarget, Tally, WantedSplits, load_wanted, scored, set_text};
use rtc_train::examine::{TracedExample, by_length, trace};

use crate::attention::{NamedAttention, named};

use super::analyses::{ANALYSED, analyse, strings};
use super::answers::answers;
use super::by_step::by_step;
use super::runs::run_name;
use super::{LocatedRun, ProbeError};
use crate::terminal::Terminal;
use crate::trees::trees;

/// How many examples are drawn, and how long they may be.
const DRAWN: usize = 3;
const DRAWN_LENGTH: usize = 80;
/// How many runs of attention are drawn of an input.
const MAPS: usize = 24;

/// The parts of a report besides the records of its runs.
#[derive(Clone, Debug)]
pub(crate) struct ReportOptions {
    /// Examples of every split; 0 for none, and no model.
    pub(crate) examples: usize,
    /// Inputs to draw instead of examples.
    pub(crate) inputs: Option<PathBuf>,
    /// The length of the rows whose states and slopes are drawn; nothing for none.
    pub(crate) analyses: Option<usize>,
    /// Whether maps of attention are drawn.
    pub(crate) attention: bool,
    /// Where the models compute.
    pub(crate) device: DeviceChoice,
}

/// The results of the probes of one run.
#[derive(Default)]
pub(super) struct Probed {
    pub(super) lengths: Vec<SplitLengths>,
    pub(super) traces: Vec<InputTrace>,
    pub(super) clouds: Vec<Cloud>,
    pub(super) saliency: Option<SaliencyShares>,
    pub(super) steps: Vec<StepCurve>,
    pub(super) answers: Option<ReportAnswers>,
    pub(super) note: Option<String>,
}

/// Probes one run after the other; those of one experiment share their data.
pub(super) struct Probe<'a> {
    options: &'a ReportOptions,
    data: Option<LoadedExamples>,
}

/// The first examples of some splits, and which they are.
struct LoadedExamples {
    task: TaskSettings,
    used: Vec<String>,
    splits: Vec<String>,
    set: Dataset,
}

impl<'a> Probe<'a> {
    pub(super) fn new(options: &'a ReportOptions) -> Self {
        Self { options, data: None }
    }

    /// Probes the best checkpoint of a run; with `draw`, also how it halts and folds.
    pub(super) fn run(&mut self, found: &LocatedRun, draw: bool, terminal: &Terminal) -> Result<Probed, ProbeError> {
        let ReportOptions { examples, inputs, analyses, .. } = self.options;
        if *examples == 0 && inputs.is_none() && analyses.is_none() {
            return Ok(Probed::default());
        }
        if !SavedRun::checkpoint(&found.path, CheckpointSlot::Best).is_dir() {
            let note = "nothing is saved yet, so nothing is measured by length".to_owned();
            return Ok(Probed { note: Some(note), ..Probed::default() });
        }
        let choice = ModelChoice { device: self.options.device, ..ModelChoice::of_run(&found.path) };
        let mut trained = TrainedModel::open(&choice)?;
        let lengths = self.lengths(&mut trained, terminal)?;
        let mut seen = Probed { lengths, ..Probed::default() };
        if draw {
            seen.traces = self.traces(&mut trained)?;
            if *examples > 0 {
                let waiting = terminal.waiting("asking for answers");
                let data = self.examples(&trained)?;
                seen.answers = answers(&mut trained, &run_name(&found.path), data)?;
                drop(waiting);
            }
            if *examples > 0 && trained.model.takes_depth() {
                let waiting = terminal.waiting("measuring by step");
                let data = self.examples(&trained)?;
                seen.steps = by_step(&mut trained, data)?;
                drop(waiting);
            }
            if let Some(length) = *analyses {
                let rows = self.rows(&trained, length)?;
                (seen.clouds, seen.saliency) = analyse(&mut trained, &rows)?;
                seen.note = rows.is_empty().then(|| format!("there is no row of up to {length} tokens to analyse"));
            }
        }
        Ok(seen)
    }

    /// The first examples of the evaluation splits.
    fn examples(&mut self, trained: &TrainedModel) -> Result<&Dataset, SessionFailure> {
        let Experiment { task, evaluate, .. } = &trained.experiment;
        let (used, splits) = (trained.experiment.splits(), evaluate.iter().map(String::as_str).collect::<Vec<_>>());
        let known =
            self.data.take().filter(|known| known.task == *task && known.used == used && known.splits == *evaluate);
        let known = match known {
            Some(known) => known,
            None => {
                // Whether the files are those of the training can only be said of whole splits.
                let most = if task.data.is_some() { usize::MAX } else { self.options.examples };
                let mut set = load_wanted(
                    task,
                    WantedSplits { used: &used, splits: &splits, most, whole: false, streamed: false },
                )?;
                if task.data.is_some() {
                    trained.same_rows(&set)?;
                    set.splits.values_mut().for_each(|rows| rows.truncate(self.options.examples));
                }
                let used = used.into_iter().map(str::to_owned).collect();
                LoadedExamples { task: task.clone(), used, splits: evaluate.clone(), set }
            }
        };
        Ok(&self.data.insert(known).set)
    }

    fn lengths(
        &mut self,
        trained: &mut TrainedModel,
        terminal: &Terminal,
    ) -> Result<Vec<SplitLengths>, SessionFailure> {
        if self.options.examples == 0 {
            return Ok(vec![]);
        }
        let (rtc, update, examples) = (program(), trained.state.progress.updates, self.options.examples);
        let run = trained.info.run.clone();
        let fits = |kept: &LengthMeasurements| {
            kept.run == run && kept.rtc == rtc && kept.update == update && kept.examples == examples
        };
        if let Some(kept) = LengthMeasurements::read(&trained.path).filter(fits) {
            return Ok(kept.splits);
        }
        let waiting = terminal.waiting("measuring by length");
        let batch = trained.batch();
        let mut splits = vec![];
        let data = self.examples(trained)?;
        for split in trained.experiment.evaluate.clone() {
            let lengths =
                by_length(&mut *trained.model, data.split(&split), batch).map_err(|error| error.at(&split))?;
            splits.push(SplitLengths { split, lengths });
        }
        drop(waiting);
        let lengths = LengthMeasurements { run, rtc, update, examples, splits };
        // A folder that can't be written to is no reason to show nothing; into one of another user nothing is written.
        if is_owned(&trained.path)
            && let Err(error) = lengths.write(&trained.path)
        {
            terminal.message(&format!("what was measured is not kept: {error}"));
        }
        Ok(lengths.splits)
    }

    /// Rows of one length to analyse: strings of this length where they can be drawn, else the longest examples up to it.
    fn rows(&mut self, trained: &TrainedModel, length: usize) -> Result<Vec<Example>, SessionFailure> {
        if let Some(formal) = trained.task.formal() {
            return Ok(strings(formal, trained, length));
        }
        let splits = trained.experiment.evaluate.clone();
        let data = self.examples(trained)?;
        let all = || splits.iter().flat_map(|split| data.split(split)).filter(|example| example.length() <= length);
        let longest = all().map(Example::length).max().unwrap_or(0);
        Ok(all().filter(|example| example.length() == longest).take(ANALYSED).cloned().collect())
    }

    /// How chosen inputs halt and fold.
    fn traces(&mut self, trained: &mut TrainedModel) -> Result<Vec<InputTrace>, ProbeError> {
        let attention = self.options.attention;
        if (!trained.halts && !trained.folds() && !attention)
            || (self.options.examples == 0 && self.options.inputs.is_none())
        {
            return Ok(vec![]);
        }
        if let Some(path) = &self.options.inputs {
            return inputs(path, trained, attention);
        }
        let chosen = self.chosen(trained)?;
        let traces = chosen.iter().map(|(title, example)| one(trained, title, example, (true, attention)));
        Ok(traces.collect::<Result<_, _>>()?)
    }

    /// Some examples of the first split that has any: the longest that is not too long, and shorter ones.
    fn chosen(&mut self, trained: &TrainedModel) -> Result<Vec<(String, Example)>, SessionFailure> {
        let splits = trained.experiment.evaluate.clone();
        let data = self.examples(trained)?;
        let Some(split) = splits.iter().find(|split| !data.split(split).is_empty()) else { return Ok(vec![]) };
        let mut by_length: Vec<(usize, &Example)> = data.split(split).iter().enumerate().collect();
        by_length.sort_by_key(|(n, example)| (example.length(), *n));
        let short = by_length.iter().filter(|(_, example)| example.length() <= DRAWN_LENGTH).count();
        by_length.truncate(short.max(1));
        let longest = by_length.last().map_or(1, |(_, example)| example.length());
        let mut picked: Vec<usize> = (1..=DRAWN)
            .map(|n| by_length.partition_point(|(_, example)| DRAWN * example.length() < n * longest))
            .collect();
        picked.dedup();
        let example = |at: &usize| {
            let (n, example) = by_length[*at];
            (format!("{split}, example {}", n + 1), example.clone())
        };
        Ok(picked.iter().map(example).collect())
    }
}

/// How the inputs of a file halt and fold: rows of columns, or one per line; what is wrong with one names its line.
fn inputs(path: &Path, trained: &mut TrainedModel, attention: bool) -> Result<Vec<InputTrace>, ProbeError> {
    let file = path.display().to_string();
    let broken = |line, why| SessionFailure::data(file.clone(), Some(line), why);
    let fault = |line: usize, why| ProbeError::Inputs(broken(line, why));
    let asked = match trained.format(path) {
        Some(format) => {
            let failed = |error: DataError| ProbeError::Inputs(error.into());
            trained.rows(path, format).map_err(failed)?.collect::<Result<Vec<AskedRow>, _>>().map_err(failed)?
        }
        None => {
            let text = read_text(path, "file of inputs", broken).map_err(ProbeError::Inputs)?;
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            let row = |(n, line): (usize, &str)| {
                let row = trained.asked(line, true).map_err(|why| fault(n + 1, why))?;
                Ok(AskedRow { line: n + 1, ..row })
            };
            lines.map(row).collect::<Result<_, ProbeError>>()?
        }
    };
    let mut traces = vec![];
    for AskedRow { line, example, .. } in asked {
        let title = format!("{file}:{line}");
        match one(trained, &title, &example, (false, attention)) {
            Ok(trace) => traces.push(trace),
            Err(SessionFailure::Runtime(Error::Learn(LearnError::Batch(why)))) => return Err(fault(line, why)),
            Err(broken) => return Err(broken.into()),
        }
    }
    Ok(traces)
}

/// How one input halts and folds, and where attention looks if `maps` asks; `known` says that its label means something.
fn one(
    trained: &mut TrainedModel,
    title: &str,
    example: &Example,
    (known, maps): (bool, bool),
) -> Result<InputTrace, SessionFailure> {
    let traced = trace(&mut *trained.model, example)?;
    let classes = trained.task.classes(&trained.options);
    let name = |class: u32| classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string());
    let right = |label: String| if known { format!(", right is {label}") } else { String::new() };
    let length = example.length();
    let found = &traced.evaluation;
    let answer = match &example.label {
        ExampleTarget::Class(class) => {
            let said = found.predictions.first().map_or_else(String::new, |said| name(*said));
            let sure = found.confidence.first().map_or(0.0, |sure| 100.0 * sure);
            format!(": answers {said} ({sure:.0} %){}", right(name(*class)))
        }
        ExampleTarget::Each { .. } if known => {
            let Tally { right, all } = scored(example, &found.predictions);
            format!(": {right} of {all} answers right")
        }
        ExampleTarget::Each { .. } => String::new(),
        ExampleTarget::Number(number) => {
            let scale = trained.task.scale(&trained.options);
            let said = found.numbers.first().map_or_else(String::new, |said| scale.text(*said));
            format!(": answers {said}{}", right(scale.text(f64::from(*number))))
        }
        ExampleTarget::Several(labels) => {
            let said = set_text(&classes, found.predictions.iter().map(|label| *label == 1));
            format!(": answers {said}{}", right(set_text(&classes, labels.iter().copied())))
        }
    };
    let plural = if length == 1 { "" } else { "s" };
    let (panels, trees) = (panels(trained, example, &traced), trees(trained, example, &traced.trees));
    let title = format!("{title}, {length} token{plural}{answer}");
    let (attention, notes) = if maps { looked(trained, example, &title)? } else { (vec![], vec![]) };
    Ok(InputTrace { title, panels, trees, attention, notes })
}

/// Where the attentions look in an input, and what the reader must know of the maps.
fn looked(
    trained: &mut TrainedModel,
    example: &Example,
    title: &str,
) -> Result<(Vec<AttentionPanel>, Vec<String>), SessionFailure> {
    let NamedAttention { mut panels, mut notes } = named(trained, example)?;
    if panels.len() > MAPS {
        notes.push(format!("the first {MAPS} of {} runs of attention are drawn", panels.len()));
        panels.truncate(MAPS);
    }
    Ok((panels, notes.into_iter().map(|note| format!("{title}: {note}.")).collect()))
}

/// The units of an example, sorted into the recurrences that they belong to.
fn panels(trained: &TrainedModel, example: &Example, traced: &TracedExample) -> Vec<Panel> {
    let mut found: Vec<(String, usize, Panel)> = vec![];
    for seen in &traced.units {
        let (row, start) = (seen.unit.row, seen.unit.start);
        let same = |(place, of, _): &&mut (String, usize, Panel)| *place == seen.place && *of == row;
        let passes = found.iter().filter(|(place, of, _)| *place == seen.place && *of == row).count();
        // A recurrence inside another one sees the same positions again in each of its steps.
        let open = found
            .iter_mut()
            .rev()
            .find(same)
            .filter(|(.., panel)| panel.units.last().is_none_or(|last| last.start < start));
        let unit = HaltingUnit { start, length: seen.unit.length, weights: seen.unit.weights() };
        if let Some((.., panel)) = open {
            panel.units.push(unit);
            continue;
        }
        let mut place = seen.place.clone();
        if example.second.is_some() {
            place += if row == 0 { ", first sequence" } else { ", second sequence" };
        }
        if passes > 0 {
            place += &format!(", run {}", passes + 1);
        }
        let tokens = if row == 0 { Some(&example.tokens) } else { example.second.as_ref() };
        let positions = trained.positions(tokens.map_or(&[], Vec::as_slice));
        let bound = GraphFacts(trained.model.forward_graph()).bound(&seen.place);
        found.push((seen.place.clone(), row, Panel { place, positions, bound, units: vec![unit] }));
    }
    found.into_iter().map(|(.., panel)| panel).collect()
}
