//! Metrics that an experiment asks for, over all answers of a split.

use std::collections::BTreeMap;

use rtc_base::batch::Batch;
use rtc_exec::learner::{BatchAnswers, Evaluation, LearnError, Learner};
use rtc_runs::experiment::MetricKind;
use rtc_task::{Example, ExampleTarget, Scale, Tally, whole};

use super::own_metrics::OwnMetrics;

/// Bins of equal width that the calibration error cuts confidence into.
const BINS: usize = 15;

/// The counts behind the asked metrics of a split.
#[derive(Clone, Debug, Default)]
pub(crate) struct AskedMetrics {
    asked: Vec<MetricKind>,
    exact: Tally,
    /// Edits, and labels.
    edits: (u64, u64),
    text: TextLoss,
    bins: [ConfidenceBin; BINS],
    top: BTreeMap<u32, Tally>,
    /// Per class (or per label of several) the probability of every example, and whether the example is of the class.
    scores: Vec<Vec<(f64, bool)>>,
    own: OwnMetrics,
}

/// The loss of a text.
#[derive(Clone, Copy, Debug, Default)]
struct TextLoss {
    nats: f64,
    bytes: u64,
    /// Scored examples of which no text is known.
    unknown: u64,
}

impl TextLoss {
    /// Adds a batch.
    fn add(&mut self, examples: &[&Example], nats: f64) {
        self.nats += nats;
        self.bytes += examples.iter().filter_map(|example| example.text_bytes).map(u64::from).sum::<u64>();
        let is_unknown = |example: &&&Example| example.text_bytes.is_none() && example.weight() > 0.0;
        self.unknown += examples.iter().filter(is_unknown).count() as u64;
    }

    /// Returns the bits per byte; `None` if there is no text, or if not all of it is known.
    fn bits_per_byte(self) -> Option<f64> {
        (self.bytes > 0 && self.unknown == 0).then(|| self.nats / std::f64::consts::LN_2 / self.bytes as f64)
    }
}

/// Answers of similar confidence.
#[derive(Clone, Copy, Debug, Default)]
struct ConfidenceBin {
    answers: u64,
    right: u64,
    confidence: f64,
}

impl AskedMetrics {
    /// Returns the counts before any batch. Formulas may use the names of `classes`, and see numbers in the unit of the data.
    pub(crate) fn new(asked: &[MetricKind], classes: &[String], scale: Scale) -> Self {
        Self { asked: asked.to_vec(), own: OwnMetrics::new(asked, classes, scale), ..Self::default() }
    }

    /// Returns why a formula has no value for one of the answers, if there was such an answer.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.own.failure()
    }

    /// Adds what a batch predicts. Predictions stand in the order of the examples.
    pub(crate) fn add(&mut self, examples: &[&Example], result: &Evaluation) {
        if self.asked.is_empty() {
            return;
        }
        if self.wants(&MetricKind::BitsPerByte) {
            self.text.add(examples, result.loss_sum);
        }
        self.own.add(examples, result);
        let (wants_exact, wants_edits) = (self.wants(&MetricKind::Exact), self.wants(&MetricKind::EditDistance));
        let mut at = 0;
        for (example, own) in apart(examples, &result.predictions) {
            if wants_exact {
                self.exact.add(whole(example, own));
            }
            let asked = example.asked();
            if wants_edits {
                let scored = |(n, _): &(usize, &u32)| asked.get(*n).is_some_and(|(_, weight)| *weight > 0.0);
                let predicted: Vec<u32> = own.iter().enumerate().filter(scored).map(|(_, class)| *class).collect();
                let labels: Vec<u32> =
                    asked.iter().filter(|(_, weight)| *weight > 0.0).map(|(class, _)| *class).collect();
                self.edits.0 += edits(&predicted, &labels);
                self.edits.1 += labels.len() as u64;
            }
            let confidence = result.confidence.get(at..at + own.len()).unwrap_or_default();
            for (((label, weight), class), confidence) in asked.iter().zip(own).zip(confidence) {
                if *weight > 0.0 {
                    // A confidence of 1 belongs to the last bin.
                    let bin = &mut self.bins[((confidence * BINS as f64) as usize).min(BINS - 1)];
                    bin.answers += 1;
                    bin.right += u64::from(label == class);
                    bin.confidence += confidence;
                }
            }
            at += own.len();
        }
    }

    /// Evaluates a batch, and adds the probabilities of all classes.
    ///
    /// # Errors
    /// As [`Learner::answers`].
    pub(crate) fn answered(
        &mut self,
        learner: &mut dyn Learner,
        examples: &[&Example],
        batch: &Batch,
    ) -> Result<Evaluation, LearnError> {
        let answers = learner.answers(batch)?;
        self.add_answers(examples, &answers);
        Ok(answers.evaluation)
    }

    fn add_answers(&mut self, examples: &[&Example], answers: &BatchAnswers) {
        let mut logits = answers.logits.chunks(answers.classes.max(1));
        let tops: Vec<u32> = self
            .asked
            .iter()
            .filter_map(|kind| if let MetricKind::Top(count) = kind { Some(*count) } else { None })
            .collect();
        let wants_curve = self.wants(&MetricKind::Auc);
        for (example, own) in apart(examples, &answers.evaluation.predictions) {
            let is_several = matches!(example.label, ExampleTarget::Several(_));
            let own_logits: Vec<&[f64]> = logits.by_ref().take(own.len()).collect();
            self.own.add_probable(example, own, &own_logits);
            for (n, ((label, weight), logits)) in example.asked().into_iter().zip(own_logits).enumerate() {
                if weight <= 0.0 {
                    continue;
                }
                for count in &tops {
                    let right = rank(logits, label as usize) < *count as usize;
                    self.top.entry(*count).or_default().add(Tally { right: u64::from(right), all: 1 });
                }
                if wants_curve && is_several {
                    self.score(n, logits[1] - logits[0], label == 1);
                } else if wants_curve {
                    let probabilities = softmax(logits);
                    probabilities
                        .into_iter()
                        .enumerate()
                        .for_each(|(class, p)| self.score(class, p, class == label as usize));
                }
            }
        }
    }

    fn score(&mut self, class: usize, score: f64, is_of_it: bool) {
        self.scores.resize_with(self.scores.len().max(class + 1), Vec::new);
        self.scores[class].push((score, is_of_it));
    }

    /// Adds the counts of other examples.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.exact.add(other.exact);
        self.edits = (self.edits.0 + other.edits.0, self.edits.1 + other.edits.1);
        self.text.nats += other.text.nats;
        self.text.bytes += other.text.bytes;
        self.text.unknown += other.text.unknown;
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            bin.answers += other.answers;
            bin.right += other.right;
            bin.confidence += other.confidence;
        }
        self.own.merge(&other.own);
        other.top.iter().for_each(|(count, tally)| self.top.entry(*count).or_default().add(*tally));
        for (class, scores) in other.scores.iter().enumerate() {
            scores.iter().for_each(|(score, is_of_it)| self.score(class, *score, *is_of_it));
        }
    }

    fn wants(&self, kind: &MetricKind) -> bool {
        self.asked.contains(kind)
    }

    /// Returns the metrics that are shares (`true`) or errors, by name, as far as the split allows them.
    pub(crate) fn named(&self, shares: bool) -> impl Iterator<Item = (String, f64)> {
        let asked = self.asked.iter().filter(move |kind| kind.is_share() == shares);
        asked.filter_map(|kind| Some((kind.to_string(), self.value(kind)?)))
    }

    fn value(&self, kind: &MetricKind) -> Option<f64> {
        match kind {
            // The counts of classes say these.
            MetricKind::MacroF1 | MetricKind::BalancedAccuracy => None,
            MetricKind::Exact => self.exact.share(),
            MetricKind::Own(own) => self.own.mean(own.name()),
            MetricKind::Top(count) => self.top.get(count).and_then(|tally| tally.share()),
            MetricKind::EditDistance => (self.edits.1 > 0).then(|| self.edits.0 as f64 / self.edits.1 as f64),
            MetricKind::CalibrationError => {
                let all: u64 = self.bins.iter().map(|bin| bin.answers).sum();
                let gap = |bin: &ConfidenceBin| (bin.confidence - bin.right as f64).abs();
                (all > 0).then(|| self.bins.iter().map(gap).sum::<f64>() / all as f64)
            }
            MetricKind::BitsPerByte => self.text.bits_per_byte(),
            MetricKind::Auc => {
                let areas: Vec<f64> = self.scores.iter().filter_map(|scores| area(scores)).collect();
                (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
            }
        }
    }
}

/// The examples of a batch, each with its own among the predictions.
pub(super) fn apart<'a>(
    examples: &[&'a Example],
    predictions: &'a [u32],
) -> impl Iterator<Item = (&'a Example, &'a [u32])> {
    let mut rest = predictions;
    examples.iter().map(move |example| {
        let (own, others) = rest.split_at(example.classes().min(rest.len()));
        rest = others;
        (*example, own)
    })
}

/// Returns how many classes come before the label, largest logit first and equal ones in their order.
fn rank(logits: &[f64], label: usize) -> usize {
    let own = logits[label];
    logits.iter().enumerate().filter(|(class, logit)| **logit > own || **logit == own && *class < label).count()
}

pub(super) fn softmax(logits: &[f64]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

/// Returns the area under the ROC curve: the share of pairs of an example of the class and another one in which the former has the
/// larger score, equal scores counting half (Mann-Whitney). `None` if there is no such pair.
fn area(scores: &[(f64, bool)]) -> Option<f64> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut pairs, mut own) = (0_u64, 0.0, 0_u64);
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let of_it = equal.iter().filter(|(_, is_of_it)| *is_of_it).count() as u64;
        let others = equal.len() as u64 - of_it;
        pairs += of_it as f64 * (below as f64 + others as f64 / 2.0);
        below += others;
        own += of_it;
    }
    (own > 0 && below > 0).then(|| pairs / (own as f64 * below as f64))
}

/// Returns the fewest insertions, removals and changes that make one sequence of another (Levenshtein).
fn edits(from: &[u32], to: &[u32]) -> u64 {
    let mut row: Vec<u64> = (0..=to.len() as u64).collect();
    for (n, token) in from.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], n as u64 + 1);
        for (m, other) in to.iter().enumerate() {
            let changed = diagonal + u64::from(token != other);
            diagonal = row[m + 1];
            row[m + 1] = changed.min(row[m] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_count_pairs_and_equal_scores_half() {
        let scores = |of: &[(f64, u8)]| of.iter().map(|(score, class)| (*score, *class == 1)).collect::<Vec<_>>();
        assert_eq!(area(&scores(&[(0.1, 0), (0.4, 0), (0.35, 1), (0.8, 1)])), Some(0.75));
        assert_eq!(area(&scores(&[(0.5, 0), (0.5, 1), (0.5, 1)])), Some(0.5));
        assert_eq!(area(&scores(&[(0.1, 1), (0.2, 1)])), None);
    }

    #[test]
    fn edits_are_the_fewest() {
        assert_eq!(edits(&[1, 2, 3], &[1, 2, 3]), 0);
        assert_eq!(edits(&[1, 2, 3, 4], &[2, 3, 4, 5]), 2);
        assert_eq!(edits(&[], &[7, 8]), 2);
        assert_eq!(edits(&[1, 1, 2], &[2, 1]), 2);
    }

    #[test]
    fn ranks_break_ties_as_predictions_do() {
        assert_eq!([0, 1, 2].map(|label| rank(&[0.5, 2.0, 0.5], label)), [1, 0, 2]);
    }

    #[test]
    fn the_calibration_error_is_the_gap_of_the_bins() {
        let mut metrics = AskedMetrics::new(&[MetricKind::CalibrationError], &[], Scale::default());
        let examples = [0, 0, 1, 1].map(|class| Example::classified(vec![1], class));
        let all: Vec<&Example> = examples.iter().collect();
        let result =
            Evaluation { predictions: vec![0, 1, 1, 1], confidence: vec![0.9, 0.9, 0.6, 1.0], ..Evaluation::default() };
        metrics.add(&all, &result);
        // Bins: {0.9 right, 0.9 wrong}, {0.6 right}, {1.0 right}.
        let expected = ((0.9_f64 + 0.9 - 1.0).abs() + (0.6_f64 - 1.0).abs()) / 4.0;
        let found: Vec<(String, f64)> = metrics.named(false).collect();
        assert!(found[0].0 == "calibration_error" && (found[0].1 - expected).abs() < 1e-12, "{found:?}");
    }
}
