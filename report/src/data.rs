//! The data of a report: records of runs as the runtime defines them, and plain data. Texts are as the user wrote them and are
//! escaped later.

use rtc_compiler::spec::Spec;
pub use rtc_exec::Beam;
use rtc_runs::grid::TextTable;
use rtc_runs::record::history::{EvaluationLine, StepLine};
use rtc_runs::record::table::ResultsRow;
use rtc_runs::record::watched::{HistogramLine, SampleLine};
use rtc_runs::record::{EditResults, SplitLengths};
use rtc_train::stopping::StepRow;

use crate::scale::number;

/// One run, or several that are compared.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    /// What stands at the top.
    pub title: String,
    /// The runs, in the order in which they are listed.
    pub runs: Vec<ReportRun>,
    /// What is compared, in order: a row per line of the tables, a colour in the charts.
    pub rows: Vec<ReportRow>,
    /// The results of several runs, task by task.
    pub tasks: Vec<TaskResults>,
    /// The different models of the runs, in the order in which they first occur.
    pub models: Vec<Model>,
    /// How long the trainings took together, where that is recorded.
    pub took: Option<String>,
    /// What the reader should know: runs left out, measurements that could not be made.
    pub notes: Vec<String>,
}

/// The results of the rows of one task, which are compared with each other alone.
#[derive(Clone, Debug, Default)]
pub struct TaskResults {
    /// The task; empty in a report of a single one.
    pub task: String,
    /// What was measured, and what that is worth.
    pub tables: Vec<TextTable>,
    /// The columns whose means have intervals.
    pub compared: Vec<ComparedMeans>,
}

/// A column of means with the intervals that they lie in.
#[derive(Clone, Debug, Default)]
pub struct ComparedMeans {
    /// A name for its file, which may be anything.
    pub name: String,
    /// The title: the measure and the split.
    pub title: String,
    /// The measure with its unit.
    pub unit: String,
    /// The rows, from top to bottom.
    pub rows: Vec<MeanInterval>,
}

/// A mean and the interval that it lies in, in the unit of its column.
#[derive(Clone, Debug, Default)]
pub struct MeanInterval {
    /// The name of the row.
    pub name: String,
    /// Which row of the report it is, by index; nothing for the majority.
    pub row: Option<usize>,
    pub mean: f64,
    /// Both ends of the interval of 95 %.
    pub interval: Option<(f64, f64)>,
}

/// Runs that differ in their seeds alone.
#[derive(Clone, Debug, Default)]
pub struct ReportRow {
    /// Its name; different rows of a report have different ones.
    pub name: String,
    /// Its runs, by index.
    pub runs: Vec<usize>,
    /// Its task; empty in a report of a single one.
    pub task: String,
    /// The model as it is called before edits: rows of one are compared over their settings.
    pub family: String,
    /// Settings that are numbers and differ between the rows of its task and model, under their paths.
    pub swept: Vec<(String, f64)>,
}

/// One run.
#[derive(Clone, Debug, Default)]
pub struct ReportRun {
    /// The name of its folder.
    pub name: String,
    /// Which of the models of the report, by index.
    pub model: usize,
    pub seed: u64,
    /// How far it is: `finished`, or how many updates are logged.
    pub state: String,
    /// The name of the split that decides which checkpoint is best.
    pub dev: String,
    /// The longest length of training, where the task has one; as its lengths are measured.
    pub trained_length: Option<usize>,
    /// Number of classes of which one is right, where the task has some.
    pub classes: Option<usize>,
    /// Number of trainable numbers.
    pub parameters: usize,
    /// Seconds that its trainings took, where they are recorded.
    pub seconds: Option<f64>,
    /// Updates of the whole run, if it does not stop early, where that is recorded.
    pub total: Option<u64>,
    /// The command that trains it again.
    pub command: String,
    /// More about it, as pairs of names and values.
    pub facts: Vec<(String, String)>,
    /// The experiment as YAML.
    pub experiment: String,
    /// Logged updates, in order.
    pub steps: Vec<StepLine>,
    /// Measurements on the dev split, in order.
    pub evaluations: Vec<EvaluationLine>,
    /// After which update the checkpoint was saved that counts, and what it was chosen by on the dev split.
    pub best: Option<(u64, Score)>,
    /// The same in a sentence, with what chose it.
    pub chosen: String,
    /// The table of the end, a row per split; empty for a run that is not finished.
    pub results: Vec<ResultsRow>,
    /// Accuracy and depth by length, split by split.
    pub lengths: Vec<SplitLengths>,
    /// Results under edits of the model.
    pub by_edit: Vec<EditResults>,
    /// Texts that it wrote during the training, in order.
    pub samples: Vec<SampleLine>,
    /// Histograms of its parameters, in order.
    pub histograms: Vec<HistogramLine>,
}

impl ReportRun {
    /// Updates that are done. Not every one is logged; the last one is measured.
    pub fn done(&self) -> u64 {
        let (logged, measured) =
            (self.steps.last().map(|step| step.update), self.evaluations.last().map(|one| one.update));
        logged.max(measured).unwrap_or(0)
    }
}

impl RunReport {
    /// The name of the row that a run belongs to.
    pub fn row_of(&self, run: usize) -> &str {
        self.rows.iter().find(|row| row.runs.contains(&run)).map_or("", |row| &row.name)
    }
}

/// What tells how good a run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// A share of right answers.
    Share(f64),
    /// A loss or an error.
    Error(f64),
}

impl Score {
    /// The number.
    pub fn number(self) -> f64 {
        match self {
            Self::Share(number) | Self::Error(number) => number,
        }
    }

    /// The number as text; a share in percent.
    pub fn text(self) -> String {
        match self {
            Self::Share(number) | Self::Error(number) if !number.is_finite() => "-".to_owned(),
            Self::Share(share) => format!("{:.1} %", 100.0 * share),
            Self::Error(error) => format!("{error:.3}"),
        }
    }
}

/// The accuracy of a split, or else the root mean squared error.
pub(crate) fn score(row: &ResultsRow) -> Option<Score> {
    row.accuracy.map(Score::Share).or_else(|| row.numbers.get("rmse").map(|error| Score::Error(*error)))
}

/// A model: what it is, and how it halts and folds on chosen inputs.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name; different models of a report have different ones.
    pub name: String,
    /// The checked spec, with the origins that say which values need not be written; a model that was given as a graph has none.
    pub spec: Option<Spec>,
    /// The complete spec as text, or the graph.
    pub text: String,
    /// Chosen inputs.
    pub traces: Vec<InputTrace>,
    /// What its states stand for, a picture per recurrence.
    pub clouds: Vec<Cloud>,
    /// How much its answer depends on each token.
    pub saliency: Option<SaliencyShares>,
    /// What it answers.
    pub answers: Option<ReportAnswers>,
    /// How it does after every number of steps, a length each; empty but for a model whose depth comes with the examples.
    pub steps: Vec<StepCurve>,
}

/// Answers of a run on the first examples of a split.
#[derive(Clone, Debug, Default)]
pub struct ReportAnswers {
    /// The name of the run.
    pub run: String,
    pub split: String,
    /// Number of examples.
    pub examples: usize,
    /// How often which class was answered for which.
    pub confusion: Option<Confusion>,
    /// Some examples.
    pub shown: Vec<ExampleAnswer>,
}

/// How often which class was answered.
#[derive(Clone, Debug, Default)]
pub struct Confusion {
    /// The names of the classes.
    pub classes: Vec<String>,
    /// For every right class the examples by the class that was answered.
    pub counts: Vec<Vec<u64>>,
}

/// An example and its answer.
#[derive(Clone, Debug, Default)]
pub struct ExampleAnswer {
    /// Which of the split it is, from 1.
    pub number: usize,
    pub input: String,
    /// The right answer.
    pub right: String,
    /// What the model said.
    pub said: String,
    /// The probability of that, where it is a class.
    pub sure: Option<f64>,
    /// Whether it is right; nothing of a number, which never quite is.
    pub is_right: Option<bool>,
}

/// The examples of one length, measured after every number of steps.
#[derive(Clone, Debug, Default)]
pub struct StepCurve {
    /// The length, as the task counts it.
    pub length: usize,
    /// The split of the examples.
    pub split: String,
    /// Number of examples.
    pub examples: u64,
    /// What is measured after 1, 2, ... steps.
    pub after: Vec<StepRow>,
}

/// The states of a recurrence along their first two principal components.
#[derive(Clone, Debug, Default)]
pub struct Cloud {
    /// The place of the recurrence in the spec.
    pub place: String,
    /// The shares of the variance along both.
    pub shares: [f64; 2],
    /// The states that stand for the same, under the name of what that is.
    pub groups: Vec<(String, Vec<[f64; 2]>)>,
}

/// The dependence of an answer on each token.
#[derive(Clone, Debug, Default)]
pub struct SaliencyShares {
    /// Number of examples.
    pub examples: usize,
    /// For every position the mean share of the slopes that lies at it and behind it: falling, from 1.
    pub shares: Vec<f64>,
}

/// Halting and folds of a model on one input.
#[derive(Clone, Debug, Default)]
pub struct InputTrace {
    /// Which input, and what the model answers.
    pub title: String,
    /// What ran on it: a recurrence on a sequence (two for a pair), in the order in which they first ended.
    pub panels: Vec<Panel>,
    /// What its recursions made of it: a tree, or several from which a search chose (for a pair, of both sequences).
    pub trees: Vec<RecursionTree>,
    /// Where its attentions looked, run by run.
    pub attention: Vec<AttentionPanel>,
    /// What the reader should know: attentions without a map, maps that are left out.
    pub notes: Vec<String>,
}

/// The weights of an attention in one of its runs.
#[derive(Clone, Debug, Default)]
pub struct AttentionPanel {
    /// The place of the attention in the spec, with the turn of the loop around it and the side of a pair.
    pub place: String,
    /// Number of heads.
    pub heads: usize,
    /// The names of what asks, and of what is asked.
    pub queries: Vec<String>,
    pub keys: Vec<String>,
    /// The weights, `[heads, queries, keys]`.
    pub weights: Vec<f64>,
}

impl AttentionPanel {
    /// The weights of the keys for every query of a head; nothing where there is no key.
    pub fn rows(&self, head: usize) -> impl Iterator<Item = &[f64]> {
        let size = self.queries.len() * self.keys.len();
        let own = self.weights.get(head * size..(head + 1) * size).unwrap_or_default();
        own.chunks(self.keys.len().max(1))
    }
}

/// The tree that a recursion makes of a sequence.
#[derive(Clone, Debug, Default)]
pub struct RecursionTree {
    /// The place of the recursion in the spec, and the side of a pair.
    pub place: String,
    /// The names of the positions, its leaves.
    pub positions: Vec<String>,
    /// Different trees, the heaviest first.
    pub beams: Vec<Beam>,
}

impl RecursionTree {
    /// Its place, and the share and score of a beam where a search chose it: `beam: 87 %, score -0.35`.
    pub fn describe(&self, beam: &Beam) -> String {
        let Some(score) = beam.score else { return self.place.clone() };
        let of = if beam.count > 1 { format!(", {} beams", beam.count) } else { String::new() };
        let score = number((1000.0 * score).round() / 1000.0);
        format!("{}: {} %, score {score}{of}", self.place, number((1000.0 * beam.weight).round() / 10.0))
    }

    /// The names with a pair of brackets around everything that was joined.
    pub fn bracketed(&self, beam: &Beam) -> String {
        let mut marks = vec![(0, 0); self.positions.len()];
        for &(start, length) in beam.spans.iter().filter(|(_, length)| *length > 0) {
            let end = start.saturating_add(length) - 1;
            if end < marks.len() {
                marks[start].0 += 1;
                marks[end].1 += 1;
            }
        }
        let word = |(name, (open, closed)): (&String, &(usize, usize))| {
            format!("{}{name}{}", "( ".repeat(*open), " )".repeat(*closed))
        };
        self.positions.iter().zip(&marks).map(word).collect::<Vec<_>>().join(" ")
    }
}

/// A recurrence on a sequence.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// The place of the recurrence in the spec, and the side of a pair.
    pub place: String,
    /// The names of the positions; START and END are among them where the model has them.
    pub positions: Vec<String>,
    /// The most steps that a unit can take, if that is a number.
    pub bound: Option<usize>,
    /// Its units from left to right.
    pub units: Vec<HaltingUnit>,
}

/// A unit that halts by itself: a row, a chunk, a position.
#[derive(Clone, Debug, Default)]
pub struct HaltingUnit {
    /// Its first position.
    pub start: usize,
    /// Number of positions.
    pub length: usize,
    /// The weights of the states `H_0 .. H_K` in the output, after `K` accepted steps.
    pub weights: Vec<f64>,
}
