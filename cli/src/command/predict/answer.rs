//! The answer of a model to one sequence, as numbers.

use rtc_exec::learner::BatchAnswers;
use rtc_report::data::RecursionTree;
use rtc_task::{AskedRow, Example, ExampleTarget, SIDES};
use rtc_train::examine::TracedUnit;
use serde_json::Value;

use crate::attention::NamedAttention;

/// The answer to one sequence.
pub(super) struct SequenceAnswer {
    pub(super) text: String,
    /// The tokens; of a pair those of its first side.
    pub(super) tokens: Vec<u32>,
    /// One answer, or one for every token; none where a number is the answer.
    pub(super) items: Vec<SingleAnswer>,
    /// The number, in the unit of the model.
    pub(super) number: Option<f64>,
    /// Accepted steps of the halting recurrence.
    pub(super) steps: Option<f64>,
    pub(super) explanation: Explanation,
    /// The line of the input; 0 of a row that stands alone.
    pub(super) line: usize,
    /// The label of the file.
    pub(super) label: Option<Value>,
    /// Number of its tokens, both sides of a pair counted, and how many of them the vocabulary does not have.
    pub(super) count: usize,
    pub(super) unknown: usize,
    /// Number of tokens that were cut off.
    pub(super) cut: usize,
}

/// One answer.
pub(super) struct SingleAnswer {
    pub(super) class: u32,
    /// Which labels there are, where there are several.
    pub(super) labels: Option<Vec<bool>>,
    /// The probability of the class, or of the least sure of all labels.
    pub(super) confidence: f64,
    /// One logit per class or label.
    pub(super) logits: Vec<f64>,
}

/// How the model came to its answer, where that was asked for.
#[derive(Default)]
pub(super) struct Explanation {
    pub(super) halting: Option<Vec<TracedUnit>>,
    pub(super) trees: Option<Vec<RecursionTree>>,
    pub(super) attention: Option<NamedAttention>,
}

impl SingleAnswer {
    /// The probability of every class, or of each label by itself.
    pub(super) fn probabilities(&self) -> Vec<f64> {
        if self.labels.is_some() {
            return self.logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
        }
        let most = self.logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = self.logits.iter().map(|x| (x - most).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|weight| weight / total).collect()
    }

    /// The most probable classes, at most `count`, with their probabilities; of equal ones the first comes first.
    pub(super) fn top(&self, count: usize) -> Vec<(usize, f64)> {
        let mut ranked: Vec<(usize, f64)> = self.probabilities().into_iter().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(count);
        ranked
    }
}

/// A sequence as it is printed: a pair has [`SIDES`] between its sides, so that columns stay columns.
fn written(text: &str, example: &Example) -> String {
    match text.split_once('\t').filter(|_| example.second.is_some() && !text.contains(SIDES)) {
        Some((first, second)) => format!("{} {SIDES} {}", first.trim(), second.trim()),
        None => text.to_owned(),
    }
}

/// The one answer of a yes or no for every label, whose logit is that of the yes.
fn together(labels: Vec<SingleAnswer>) -> SingleAnswer {
    SingleAnswer {
        class: 0,
        confidence: labels.iter().map(|label| label.confidence).fold(1.0, f64::min),
        logits: labels.iter().filter_map(|label| label.logits.last().copied()).collect(),
        labels: Some(labels.iter().map(|label| label.class == 1).collect()),
    }
}

/// The answers of a batch, row by row.
pub(super) fn answers(rows: &[AskedRow], unknown: Option<u32>, found: &BatchAnswers) -> Vec<SequenceAnswer> {
    let mut items = (0..found.evaluation.predictions.len()).map(|n| SingleAnswer {
        class: found.evaluation.predictions[n],
        labels: None,
        confidence: found.evaluation.confidence[n],
        logits: found.logits[n * found.classes..(n + 1) * found.classes].to_vec(),
    });
    let one = |(n, AskedRow { line, text, example, label, cut }): (usize, &AskedRow)| {
        let own = items.by_ref().take(example.classes()).collect();
        let tokens = || example.tokens.iter().chain(example.second.iter().flatten());
        SequenceAnswer {
            text: written(text, example),
            tokens: example.tokens.clone(),
            items: if matches!(example.label, ExampleTarget::Several(_)) { vec![together(own)] } else { own },
            number: found.evaluation.numbers.get(n).copied(),
            steps: found.steps(n, rows.len()),
            explanation: Explanation::default(),
            line: *line,
            label: label.clone(),
            count: tokens().count(),
            unknown: tokens().filter(|token| Some(**token) == unknown).count(),
            cut: *cut,
        }
    };
    rows.iter().enumerate().map(one).collect()
}
