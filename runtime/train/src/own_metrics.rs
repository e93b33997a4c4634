//! Metrics of an experiment's own: means of formulas over all scored answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rtc_compiler::formula::NumberFormula;
use rtc_exec::learner::Evaluation;
use rtc_runs::experiment::{CONFIDENCE, LABEL, LENGTH, MetricKind, PREDICTED, PROBABILITY};
use rtc_task::{Example, ExampleTarget, Scale};

use super::scores::{apart, softmax};

/// The sums of all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnMetrics {
    sums: Vec<FormulaSum>,
    /// The numbers of classes by name.
    classes: Arc<BTreeMap<String, f64>>,
    scale: Scale,
    failure: Option<String>,
}

/// The sum of a formula.
#[derive(Clone, Debug)]
struct FormulaSum {
    name: String,
    formula: Arc<NumberFormula>,
    /// Whether it is of the probability of the label, which only some evaluations know.
    of_probability: bool,
    sum: f64,
    answers: u64,
}

/// An answer as formulas see it.
#[derive(Clone, Copy, Debug)]
struct SeenAnswer {
    label: f64,
    predicted: f64,
    confidence: f64,
    probability: f64,
    length: f64,
}

impl OwnMetrics {
    pub(crate) fn new(asked: &[MetricKind], classes: &[String], scale: Scale) -> Self {
        let own = asked.iter().filter_map(|kind| if let MetricKind::Own(own) = kind { Some(own) } else { None });
        let sums = own.map(|own| {
            let formula = own.formula();
            let of_probability = formula.uses(PROBABILITY);
            FormulaSum { name: own.name().to_owned(), formula: Arc::new(formula), of_probability, sum: 0.0, answers: 0 }
        });
        let classes = classes.iter().zip(0_u32..).map(|(name, n)| (name.clone(), f64::from(n))).collect();
        Self { sums: sums.collect(), classes: Arc::new(classes), scale, failure: None }
    }

    /// Adds what a batch predicts, to the formulas that need no probability of the label.
    pub(crate) fn add(&mut self, examples: &[&Example], result: &Evaluation) {
        if self.sums.iter().all(|sum| sum.of_probability) {
            return;
        }
        for (example, predicted) in examples.iter().zip(&result.numbers) {
            if let ExampleTarget::Number(label) = example.label {
                let Scale { mean, deviation } = self.scale;
                let of = |number: f64| mean + deviation * number;
                let (label, predicted) = (of(f64::from(label)), of(*predicted));
                self.count(example, SeenAnswer { label, predicted, ..SeenAnswer::NONE }, false);
            }
        }
        let mut at = 0;
        for (example, own) in apart(examples, &result.predictions) {
            let confidence = result.confidence.get(at..at + own.len()).unwrap_or_default();
            for (((label, weight), class), confidence) in example.asked().into_iter().zip(own).zip(confidence) {
                if weight > 0.0 {
                    let (label, predicted) = (f64::from(label), f64::from(*class));
                    let answer = SeenAnswer { label, predicted, confidence: *confidence, ..SeenAnswer::NONE };
                    self.count(example, answer, false);
                }
            }
            at += own.len();
        }
    }

    /// Adds an example to the formulas that need the probability of the label.
    pub(crate) fn add_probable(&mut self, example: &Example, predicted: &[u32], logits: &[&[f64]]) {
        if !self.sums.iter().any(|sum| sum.of_probability) {
            return;
        }
        for (((label, weight), class), logits) in example.asked().into_iter().zip(predicted).zip(logits) {
            if weight > 0.0 {
                let probabilities = softmax(logits);
                let of = |class: u32| probabilities.get(class as usize).copied().unwrap_or(f64::NAN);
                let (confidence, probability) = (of(*class), of(label));
                let (label, predicted) = (f64::from(label), f64::from(*class));
                let answer = SeenAnswer { label, predicted, confidence, probability, ..SeenAnswer::NONE };
                self.count(example, answer, true);
            }
        }
    }

    fn count(&mut self, example: &Example, answer: SeenAnswer, of_probability: bool) {
        let answer = SeenAnswer { length: example.measured_length() as f64, ..answer };
        let known = |name: &str| match name {
            LABEL => answer.label,
            PREDICTED => answer.predicted,
            CONFIDENCE => answer.confidence,
            PROBABILITY => answer.probability,
            LENGTH => answer.length,
            class => self.classes.get(class).copied().unwrap_or(f64::NAN),
        };
        for sum in self.sums.iter_mut().filter(|sum| sum.of_probability == of_probability) {
            match sum.formula.value(&known) {
                Ok(value) => {
                    sum.sum += value;
                    sum.answers += 1;
                }
                Err(why) => {
                    let (name, label, predicted) = (&sum.name, answer.label, answer.predicted);
                    let told = || {
                        format!(
                            "the metric `{name}` has no value for an answer of label {label} and prediction {predicted}: {why}; \
                             `when(condition, a, b)` computes one side alone"
                        )
                    };
                    self.failure.get_or_insert_with(told);
                }
            }
        }
    }

    /// Adds the sums of other examples.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, other) in self.sums.iter_mut().zip(&other.sums) {
            own.sum += other.sum;
            own.answers += other.answers;
        }
        if self.failure.is_none() {
            self.failure.clone_from(&other.failure);
        }
    }

    /// Returns why a formula has no value for one of the answers, if there was such an answer.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the mean of a formula; `None` if no answer was scored.
    pub(crate) fn mean(&self, name: &str) -> Option<f64> {
        let sum = self.sums.iter().find(|sum| sum.name == name && sum.answers > 0)?;
        Some(sum.sum / sum.answers as f64)
    }
}

impl SeenAnswer {
    /// An answer of which nothing is known: a formula is refused before if it needs more than its answers have.
    const NONE: Self =
        Self { label: f64::NAN, predicted: f64::NAN, confidence: f64::NAN, probability: f64::NAN, length: 0.0 };
}
