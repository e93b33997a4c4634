//! The statistics of a table: intervals of its numbers, and whether rows differ from a baseline row.
//!
//! Over seeds the question is whether a training with another seed would show the same, over examples whether these
//! trained models would show it on other examples. Both tests are paired: equal seeds, equal examples.

use super::{GridRow, MeasuredRun};
use crate::statistics::examples::{self, ExampleScore, Method};
use crate::statistics::{Interval, holm, mean, seeds};

/// Below this p-value a difference is marked.
pub(super) const MARKED: f64 = 0.05;

/// What is known of the mean of a row besides its deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worth {
    /// Where the mean lies in 95 % of cases, and how that was found.
    pub interval: Option<(Interval, By)>,
    /// The mean less that of the baseline, over the seeds that both have.
    pub difference: Option<f64>,
    /// Where the difference lies in 95 % of cases, and how that was found.
    pub difference_interval: Option<(Interval, By)>,
    /// The p-value of the difference over seeds, corrected for the rows.
    pub seeds: Option<f64>,
    /// The p-value of the difference over examples, corrected for the rows.
    pub examples: Option<f64>,
}

/// How an interval or a p-value was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Over seeds, by Student's t.
    Seeds,
    /// Over seeds, by Student's t of the logit of a share.
    Logit,
    /// Over examples, from counts alone: Wilson's interval, McNemar's exact test.
    Counts,
    /// Over examples, by drawing them again.
    Bootstrap,
}

impl By {
    /// One word for programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Seeds => "student",
            Self::Logit => "logit",
            Self::Counts => "wilson",
            Self::Bootstrap => "bootstrap",
        }
    }
}

impl From<Method> for By {
    fn from(method: Method) -> Self {
        match method {
            Method::Counts => Self::Counts,
            Method::Bootstrap => Self::Bootstrap,
        }
    }
}

impl Worth {
    /// The p-value that decides whether the difference is marked: over seeds where there are several, else over examples.
    pub fn p(&self) -> Option<f64> {
        self.seeds.or(self.examples)
    }

    /// Whether the difference is marked.
    pub fn differs(&self) -> bool {
        self.p().is_some_and(|p| p < MARKED)
    }
}

/// How many runs a sentence names.
const NAMED: usize = 3;

/// The split and the metric whose means a table shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitMetric<'a> {
    /// The split.
    pub(super) split: &'a str,
    /// The measure.
    pub(super) metric: &'a str,
    /// Whether it is a share, between 0 and 1.
    pub(super) share: bool,
}

/// What the means of all rows are worth, and by which tests over examples that was found. The baseline is a row by its index.
pub(super) fn worth(rows: &[GridRow], baseline: usize, asked: SplitMetric<'_>) -> (Vec<Worth>, Vec<By>) {
    let mut found: Vec<Worth> = vec![];
    let mut methods = vec![];
    for (index, row) in rows.iter().enumerate() {
        let mut worth = Worth { interval: interval(row, asked), ..Worth::default() };
        if let Some(base) = rows.get(baseline).filter(|_| index != baseline) {
            against(row, base, asked, &mut worth, &mut methods);
        }
        found.push(worth);
    }
    for (at, p) in holm(&found.iter().map(|worth| worth.seeds).collect::<Vec<_>>()).into_iter().enumerate() {
        found[at].seeds = p;
    }
    for (at, p) in holm(&found.iter().map(|worth| worth.examples).collect::<Vec<_>>()).into_iter().enumerate() {
        found[at].examples = p;
    }
    (found, methods)
}

/// Over seeds where there are several; over examples where there is one.
fn interval(row: &GridRow, asked: SplitMetric<'_>) -> Option<(Interval, By)> {
    let found: Vec<(&MeasuredRun, f64)> =
        row.finished().filter_map(|(_, run)| Some((run, run.get(asked.split, asked.metric)?))).collect();
    match found.as_slice() {
        [(run, _)] => examples::interval(&answers(run, asked)?).map(|(interval, method)| (interval, method.into())),
        _ => {
            let numbers: Vec<f64> = found.iter().map(|(_, number)| *number).collect();
            match asked.share {
                true => seeds::share_interval(&numbers).map(|interval| (interval, By::Logit)),
                false => seeds::interval(&numbers).map(|interval| (interval, By::Seeds)),
            }
        }
    }
}

/// Compares a row with the baseline.
fn against(row: &GridRow, base: &GridRow, asked: SplitMetric<'_>, worth: &mut Worth, methods: &mut Vec<By>) {
    let pairs = pairs(row, base, asked);
    let numbers: Vec<(f64, f64)> = pairs.iter().map(|(_, _, numbers)| *numbers).collect();
    worth.difference = mean(&numbers.iter().map(|(own, other)| own - other).collect::<Vec<_>>());
    let by_examples = by_examples(&pairs, asked);
    if let Some(found) = &by_examples {
        worth.examples = Some(found.p);
        worth.difference_interval = Some((found.interval, By::Bootstrap));
        methods.push(found.method.into());
    }
    if let Some(found) = seeds::paired(&numbers) {
        worth.seeds = Some(found.p);
        // No difference of shares is beyond 1: a wider interval holds nothing more.
        let most = if asked.share { 1.0 } else { f64::INFINITY };
        let Interval { low, high } = found.interval;
        worth.difference_interval = Some((Interval { low: low.max(-most), high: high.min(most) }, By::Seeds));
    }
}

/// A run of a row, the run of the baseline with the same seed, and the number of each.
type SeedPair<'a> = (&'a MeasuredRun, &'a MeasuredRun, (f64, f64));

fn pairs<'a>(row: &'a GridRow, base: &'a GridRow, asked: SplitMetric<'_>) -> Vec<SeedPair<'a>> {
    let number = |run: &MeasuredRun| run.get(asked.split, asked.metric);
    let pair = |(cell, own): (&super::GridCell, &'a MeasuredRun)| {
        let (_, other) = base.finished().find(|(other, _)| other.seed == cell.seed)?;
        Some((own, other, (number(own)?, number(other)?)))
    };
    row.finished().filter_map(pair).collect()
}

/// The test over examples, each with its mean over the seeds. Nothing where a run keeps no answers, or was measured on other
/// examples.
fn by_examples(pairs: &[SeedPair<'_>], asked: SplitMetric<'_>) -> Option<examples::PairedExamples> {
    let data = |run: &MeasuredRun| run.answers.as_ref().and_then(|kept| kept.data(asked.split).map(str::to_owned));
    let same = data(pairs.first()?.0)?;
    if pairs.iter().any(|(own, other, _)| [own, other].iter().any(|run| data(run).as_ref() != Some(&same))) {
        return None;
    }
    let own = together(pairs.iter().map(|(own, ..)| answers(own, asked)))?;
    let other = together(pairs.iter().map(|(_, other, _)| answers(other, asked)))?;
    examples::paired(&own, &other)
}

fn answers(run: &MeasuredRun, asked: SplitMetric<'_>) -> Option<Vec<ExampleScore>> {
    run.answers.as_ref()?.get(asked.split, asked.metric)
}

/// The mean over several runs, example by example; nothing where not all of them were asked the same.
fn together(runs: impl Iterator<Item = Option<Vec<ExampleScore>>>) -> Option<Vec<ExampleScore>> {
    let runs: Vec<Vec<ExampleScore>> = runs.collect::<Option<_>>()?;
    let (first, others) = runs.split_first()?;
    let mut sum = first.clone();
    for run in others {
        if run.len() != sum.len() || run.iter().zip(&sum).any(|(own, sum)| own.all != sum.all) {
            return None;
        }
        sum.iter_mut().zip(run).for_each(|(sum, own)| sum.right += own.right);
    }
    sum.iter_mut().for_each(|one| one.right /= runs.len() as f64);
    Some(sum)
}

/// Sentences on how the intervals and p-values of a table were found.
pub(super) fn remarks(rows: &[GridRow], baseline: &str, found: &[Worth], methods: &[By]) -> Vec<String> {
    let mut out = vec![];
    let by = |wanted: By| found.iter().any(|worth| worth.interval.is_some_and(|(_, by)| by == wanted));
    let named = [
        (By::Seeds, "over seeds by Student's t"),
        (By::Logit, "over seeds by Student's t of the logit"),
        (By::Counts, "over examples by Wilson's formula, where there is one seed"),
        (By::Bootstrap, "over examples by the bootstrap, where there is one seed"),
    ];
    let used: Vec<&str> = named.into_iter().filter(|(method, _)| by(*method)).map(|(_, name)| name).collect();
    if !used.is_empty() {
        out.push(format!("intervals of 95 %: {}", used.join("; ")));
    }
    let compared = found.iter().filter(|worth| worth.difference.is_some()).count();
    if compared > 0 {
        let rests = |wanted: By| found.iter().any(|w| w.difference_interval.is_some_and(|(_, by)| by == wanted));
        let rests: Vec<&str> =
            [(By::Seeds, "over seeds by the paired t-test"), (By::Bootstrap, "over examples by the paired bootstrap")]
                .into_iter()
                .filter(|(by, _)| rests(*by))
                .map(|(_, name)| name)
                .collect();
        let interval = if rests.is_empty() { String::new() } else { format!(", its interval {}", rests.join(" or ")) };
        out.push(format!("difference: mean less that of {baseline} with the same seeds{interval}"));
    }
    out.extend(tests(found, methods));
    out.extend(disagreement(found));
    out.extend(missing(rows));
    out
}

/// How the p-values were found.
fn tests(found: &[Worth], methods: &[By]) -> Option<String> {
    let mut names = vec![];
    if found.iter().any(|worth| worth.seeds.is_some()) {
        names.push("over seeds by the paired t-test");
    }
    if methods.contains(&By::Counts) {
        names.push("over examples by McNemar's exact test");
    }
    if methods.contains(&By::Bootstrap) {
        names.push("over examples by the paired bootstrap");
    }
    let sure = format!("two-sided, corrected for the rows of the table by Holm's method; * below {MARKED}");
    (!names.is_empty()).then(|| format!("p: {}; {sure}", names.join(", ")))
}

/// Why a difference may be marked whose interval holds 0, or not be marked though it does not.
fn disagreement(found: &[Worth]) -> Option<String> {
    let holds_zero = |interval: Interval| interval.low <= 0.0 && 0.0 <= interval.high;
    let disagrees = |worth: &&Worth| {
        let interval = worth.difference_interval.filter(|_| worth.p().is_some());
        interval.is_some_and(|(interval, _)| holds_zero(interval) == worth.differs())
    };
    let some = found.iter().any(|worth| disagrees(&worth));
    some.then(|| {
        "an interval of a difference is that of its row alone, a p-value is corrected for all rows or comes of another test: where \
         they disagree, the p-value decides"
            .to_owned()
    })
}

/// How the remark on runs without answers begins.
pub(super) const NO_EXAMPLES: &str = "nothing over examples for";

/// Runs that can't be compared example by example.
fn missing(rows: &[GridRow]) -> Option<String> {
    let runs = rows.iter().flat_map(|row| row.finished().map(move |(cell, run)| (row, cell, run)));
    let these = runs.filter(|(_, _, run)| run.answers.is_none());
    let cells: Vec<String> = these.map(|(row, cell, _)| format!("{} seed {}", row.name, cell.seed)).collect();
    let more = if cells.len() > NAMED { format!(" and {} more", cells.len() - NAMED) } else { String::new() };
    let named = cells.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let why = "answers.json is missing in the folder of the run, or is not the file that the training wrote";
    (!cells.is_empty()).then(|| format!("{NO_EXAMPLES} {named}{more}: {why}"))
}
