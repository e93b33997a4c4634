//! What was measured, and how it is printed: tables of aligned columns.

use serde::Serialize;

use crate::protocol::Answer;

/// Median and the bounds of the middle 80 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of the values are below.
    pub(crate) median: f64,
    /// A tenth of the values are below.
    pub(crate) low: f64,
    /// A tenth of the values are above.
    pub(crate) high: f64,
}

impl Spread {
    /// Of any values; zeros where there is none.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = part * sorted.len().saturating_sub(1) as f64;
            sorted.get(place.round() as usize).copied().unwrap_or(0.0)
        };
        Self { median: at(0.5), low: at(0.1), high: at(0.9) }
    }
}

/// Runs of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Runs {
    /// Milliseconds of each.
    pub(crate) ms: Vec<f64>,
    /// Mean accepted steps, of each round.
    depths: Vec<f64>,
    /// Mean runs of the recurrent block per batch, of each round.
    blocks: Vec<f64>,
    /// Counted operations of a run in 10^9, of each round.
    gflop: Vec<f64>,
}

impl Runs {
    /// Adds the runs of a round.
    pub(crate) fn add(&mut self, answer: Answer) {
        self.ms.extend(answer.ms);
        self.depths.extend(answer.depth);
        self.blocks.extend(answer.runs);
        self.gflop.extend(answer.gflop);
    }

    /// Mean accepted steps, of a model that halts.
    pub(crate) fn depth(&self) -> Option<f64> {
        mean(&self.depths)
    }

    fn median(&self) -> f64 {
        Spread::of(&self.ms).median
    }

    /// Counted operations per second, in 10^9.
    fn rate(&self) -> Option<f64> {
        Some(mean(&self.gflop)? / (self.median() * 1e-3))
    }
}

/// The mean; nothing of nothing.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// What was measured of one program.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Side {
    /// `rtc`, `pytorch` or `compiled`.
    name: &'static str,
    /// Training steps.
    pub(crate) train: Runs,
    /// Forward passes of whole batches.
    infer: Runs,
    /// Forward passes of single rows.
    infer_row: Runs,
    /// From the start of the program to the end of its first training step; data and weights come ready.
    pub(crate) first_step_ms: f64,
    /// The peak of memory in training above that of the program without a model, MiB.
    pub(crate) memory_mib: f64,
}

impl Side {
    /// A program of which nothing was measured yet.
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Forward passes of so many rows.
    pub(crate) fn infer_mut(&mut self, rows: usize) -> &mut Runs {
        if rows == 1 { &mut self.infer_row } else { &mut self.infer }
    }
}

/// Losses of the same weights and batches without dropout.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Losses {
    /// Of every batch.
    pub(crate) rtc: Vec<f64>,
    /// Of every batch.
    pub(crate) pytorch: Vec<f64>,
    /// The largest relative difference.
    pub(crate) difference: f64,
    /// That they are further apart than they may be, as a sentence: the times are of two models then.
    pub(crate) differ: Option<String>,
}

/// A case on a number of threads.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// Its name.
    pub(crate) case: String,
    /// Threads of every program.
    pub(crate) threads: usize,
    /// Rows of a batch.
    pub(crate) batch: usize,
    /// Tokens of a row.
    pub(crate) length: usize,
    /// Compared before anything was timed, unless the programs run different models.
    pub(crate) losses: Option<Losses>,
    /// What products reach at most, 10^9 operations per second.
    pub(crate) peak: f64,
    /// rtc first.
    pub(crate) sides: Vec<Side>,
}

/// rtc's training step at one mean depth.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Depth {
    /// The case.
    pub(crate) case: String,
    /// Threads.
    pub(crate) threads: usize,
    /// What was added to the halting bias.
    pub(crate) shift: f64,
    /// Mean accepted steps.
    pub(crate) depth: f64,
    /// Milliseconds.
    pub(crate) ms: Spread,
}

/// All that a run of the command measured.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// The processor.
    pub(crate) machine: String,
    /// One per case and number of threads.
    pub(crate) lines: Vec<Line>,
    /// One per halting bias.
    pub(crate) depths: Vec<Depth>,
}

impl Line {
    /// Medians of the training steps, to show while the next case runs.
    pub(crate) fn summary(&self) -> String {
        let median = |side: &Side| format!("{} {:.1} ms", side.name, side.train.median());
        self.sides.iter().map(median).collect::<Vec<_>>().join(", ")
    }
}

impl Report {
    /// The tables. A dash stands where nothing was measured.
    pub(crate) fn tables(&self) -> String {
        let tables = [
            ("Losses before timing, first batch", self.losses()),
            ("Training step, ms: median (10-90 %)", self.training()),
            ("Memory above the start, first step, steps of what halts", self.resources()),
            ("Inference, ms: median (10-90 %)", self.inference()),
            ("rtc's training step against mean depth", self.by_depth()),
        ];
        let shown = tables.iter().filter(|(_, rows)| rows.len() > 1);
        shown.map(|(title, rows)| format!("{title}\n\n{}\n", aligned(rows))).collect()
    }

    fn losses(&self) -> Vec<Vec<String>> {
        let mut rows = vec![words(&["case", "threads", "rtc", "pytorch", "difference of all batches"])];
        for line in &self.lines {
            if let Some(losses) = &line.losses {
                let first = |values: &[f64]| number(values.first().copied(), 7);
                let difference = format!("{:.1e}", losses.difference);
                rows.push([name(line), vec![first(&losses.rtc), first(&losses.pytorch), difference]].concat());
            }
        }
        rows
    }

    fn training(&self) -> Vec<Vec<String>> {
        let mut rows = vec![[words(&["case", "threads"]), self.timing_titles()].concat()];
        rows.extend(self.lines.iter().map(|line| [name(line), self.timing(line, line.batch, |s| &s.train)].concat()));
        rows
    }

    fn inference(&self) -> Vec<Vec<String>> {
        let mut rows = vec![[words(&["case", "threads", "batch"]), self.timing_titles()].concat()];
        for line in &self.lines {
            let batch = |n: usize| [name(line), vec![n.to_string()]].concat();
            rows.push([batch(line.batch), self.timing(line, line.batch, |s| &s.infer)].concat());
            if line.sides.iter().any(|side| !side.infer_row.ms.is_empty()) {
                rows.push([batch(1), self.timing(line, 1, |s| &s.infer_row)].concat());
            }
        }
        rows
    }

    fn compiled(&self) -> bool {
        self.lines.iter().any(|line| line.sides.len() > 2)
    }

    fn timing_titles(&self) -> Vec<String> {
        let compiled: &[&str] = if self.compiled() { &["compiled", "ratio"] } else { &[] };
        words(&[&["rtc", "pytorch", "ratio"], compiled, &["tokens/s", "GFLOP/s", "of peak"]].concat())
    }

    /// The columns of [`Self::timing_titles`].
    fn timing(&self, line: &Line, rows: usize, runs: impl Fn(&Side) -> &Runs) -> Vec<String> {
        let Some(rtc) = line.sides.first().map(&runs) else { return vec![] };
        let mut columns = vec![spread(Some(rtc))];
        for place in 1..if self.compiled() { 3 } else { 2 } {
            let other = line.sides.get(place).map(&runs);
            columns.push(spread(other));
            columns.push(number(other.map(|other| other.median() / rtc.median()), 2));
        }
        let tokens = (rows * line.length) as f64 / (rtc.median() * 1e-3);
        let share = rtc.rate().map(|rate| format!("{:.0} %", 100.0 * rate / line.peak));
        columns.extend([number(Some(tokens), 0), number(rtc.rate(), 1), share.unwrap_or(DASH.to_owned())]);
        columns
    }

    fn resources(&self) -> Vec<Vec<String>> {
        let titles = ["case", "threads", "rtc MiB", "pytorch MiB", "ratio", "rtc first ms", "pytorch first ms"];
        let halting = ["rtc accepted", "pytorch accepted", "pytorch block runs"];
        let mut rows = vec![words(&[&titles[..], &halting[..]].concat())];
        for line in &self.lines {
            let of = |n: usize, get: fn(&Side) -> f64| line.sides.get(n).map(get);
            let depth = |n: usize| number(line.sides.get(n).and_then(|side| side.train.depth()), 2);
            let memory = [0, 1].map(|n| of(n, |side| side.memory_mib));
            let ratio = memory[0].zip(memory[1]).map(|(ours, theirs)| ours / theirs);
            let first = [0, 1].map(|n| number(of(n, |side| side.first_step_ms), 0));
            let [rtc, pytorch] = memory.map(|m| number(m, 0));
            let blocks = number(line.sides.get(1).and_then(|side| mean(&side.train.blocks)), 2);
            let columns = vec![rtc, pytorch, number(ratio, 2), first[0].clone(), first[1].clone(), depth(0), depth(1)];
            rows.push([name(line), columns, vec![blocks]].concat());
        }
        rows
    }

    /// Each number of threads is compared with the mean of its own lines.
    fn by_depth(&self) -> Vec<Vec<String>> {
        let titles = ["case", "threads", "bias", "mean depth", "ms", "ms per accepted step", "against the mean"];
        let mut rows = vec![words(&titles)];
        let cost = |d: &Depth| d.ms.median / d.depth;
        for line in &self.depths {
            let alike = self.depths.iter().filter(|d| d.case == line.case && d.threads == line.threads);
            let usual = mean(&alike.map(cost).collect::<Vec<_>>()).unwrap_or(1.0);
            rows.push(vec![
                line.case.clone(),
                line.threads.to_string(),
                format!("{:+}", line.shift),
                number(Some(line.depth), 2),
                of_spread(line.ms),
                number(Some(cost(line)), 2),
                format!("{:+.0} %", 100.0 * (cost(line) / usual - 1.0)),
            ]);
        }
        rows
    }
}

/// Stands for a number that there is not.
const DASH: &str = "-";

fn name(line: &Line) -> Vec<String> {
    vec![line.case.clone(), line.threads.to_string()]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.filter(|v| v.is_finite()).map_or(DASH.to_owned(), |v| format!("{v:.digits$}"))
}

fn spread(runs: Option<&Runs>) -> String {
    runs.filter(|runs| !runs.ms.is_empty()).map_or(DASH.to_owned(), |runs| of_spread(Spread::of(&runs.ms)))
}

/// Three digits or so, whatever the size.
fn of_spread(s: Spread) -> String {
    let digits = if s.median < 10.0 { 2 } else { usize::from(s.median < 100.0) };
    format!("{:.digits$} ({:.digits$}-{:.digits$})", s.median, s.low, s.high)
}

/// Columns of equal width: names to the left, numbers to the right.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let padded = cells.map(|(n, (cell, w))| if n == 0 { format!("{cell:<w$}") } else { format!("{cell:>w$}") });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_sorted_values() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(Spread::of(&values), Spread { median: 50.0, low: 10.0, high: 90.0 });
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [words(&["case", "ms"]), words(&["a", "1234"])];
        assert_eq!(aligned(&rows), "case    ms\na     1234\n");
    }
}
