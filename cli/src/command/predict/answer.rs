//! What a model says of one sequence, as numbers.

use rtc_report::data::Tree;
use rtc_runtime::examine::TracedUnit;
use rtc_runtime::learner::Answers;
use rtc_runtime::task::{Example, SIDES, Target};

use super::source::Line;

/// What a model says of one sequence.
pub(super) struct Answer {
    pub(super) text: String,
    /// The tokens; of a pair those of its first side.
    pub(super) tokens: Vec<u32>,
    /// One answer, or one for every token.
    pub(super) items: Vec<Item>,
    /// Accepted steps of the halting recurrence.
    pub(super) steps: Option<f64>,
    pub(super) closer: Closer,
}

/// One answer.
pub(super) struct Item {
    pub(super) class: u32,
    pub(super) confidence: f64,
    /// One logit per class.
    pub(super) logits: Vec<f64>,
}

/// How the model came to it, where that was asked.
#[derive(Default)]
pub(super) struct Closer {
    pub(super) halting: Option<Vec<TracedUnit>>,
    pub(super) trees: Option<Vec<Tree>>,
}

impl Item {
    /// The probability of every class.
    pub(super) fn probabilities(&self) -> Vec<f64> {
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

/// The answers of a batch, sequence by sequence.
pub(super) fn answers(lines: &[Line], examples: &[Example], found: &Answers) -> Vec<Answer> {
    let mut items = (0..found.evaluation.predictions.len()).map(|n| Item {
        class: found.evaluation.predictions[n],
        confidence: found.evaluation.confidence[n],
        logits: found.logits[n * found.classes..(n + 1) * found.classes].to_vec(),
    });
    let one = |(n, (line, example)): (usize, (&Line, &Example))| {
        let count = match &example.label {
            Target::Class(_) => 1,
            Target::Each { class, .. } => class.len(),
        };
        Answer {
            text: written(&line.text, example),
            tokens: example.tokens.clone(),
            items: items.by_ref().take(count).collect(),
            steps: found.steps(n, examples.len()),
            closer: Closer::default(),
        }
    };
    lines.iter().zip(examples).enumerate().map(one).collect()
}
