//! A baseline: logistic regression on bags of tokens.
//!
//! Features are term frequencies times inverse document frequencies, `log((1 + n) / (1 + d)) + 1` for a token that `d` of `n` training
//! examples hold, scaled to an L2 norm of 1; the sides of a pair have features of their own. The regression minimises
//! `sum_i -log p_i(label) + |W|^2 / 2` over all weights but the intercepts; of two classes the difference of their weights counts in the
//! place of `W`. Both are the defaults of scikit-learn.

use std::collections::BTreeMap;

use super::{Example, ExampleTarget};

/// The most weights of a regression: `features * classes`.
const MOST_WEIGHTS: usize = 1_000_000;
/// The most tokens of a training split.
const MOST_TOKENS: usize = 20_000_000;
/// The most steps of the solver.
const STEPS: usize = 200;
/// The largest slope of a solution.
const TOLERANCE: f64 = 1e-4;
/// Pairs of steps and changes of the gradient that approximate the curvature.
const HISTORY: usize = 8;

/// A classifier that sees which tokens an example has, and not in which order.
#[derive(Clone, Debug)]
pub struct BagOfWords {
    /// The feature of every token, of both sides.
    features: BTreeMap<u32, usize>,
    /// The inverse document frequency of every feature.
    rarity: Vec<f64>,
    classes: usize,
    /// Per feature a weight for every class, then the intercepts.
    weights: Vec<f64>,
}

/// Features with their values.
type SparseRow = Vec<(usize, f64)>;

impl BagOfWords {
    /// Fits a regression; `None` for examples without one class each, with fewer than two classes, and above a million weights or
    /// 20 million tokens.
    pub fn fit(examples: &[Example]) -> Option<Self> {
        let labels: Vec<usize> = examples.iter().map(class).collect::<Option<_>>()?;
        let classes = labels.iter().max().map_or(0, |most| most + 1);
        let tokens: usize = examples.iter().map(|example| sides(example).count()).sum();
        if classes < 2 || tokens > MOST_TOKENS {
            return None;
        }
        let mut documents: BTreeMap<u32, usize> = BTreeMap::new();
        for example in examples {
            counts(example).into_keys().for_each(|token| *documents.entry(token).or_default() += 1);
        }
        if documents.len() * classes > MOST_WEIGHTS {
            return None;
        }
        let rarity = |count: &usize| ((1.0 + examples.len() as f64) / (1.0 + *count as f64)).ln() + 1.0;
        let rarity: Vec<f64> = documents.values().map(rarity).collect();
        let features = documents.into_keys().zip(0..).collect();
        let mut model = Self { features, rarity, classes, weights: vec![] };
        let rows: Vec<SparseRow> = examples.iter().map(|example| model.row(example)).collect();
        model.weights = minimise(vec![0.0; (model.rarity.len() + 1) * classes], |weights, slopes| {
            objective(&rows, &labels, classes, weights, slopes)
        });
        Some(model)
    }

    /// Returns the share of examples whose class is the likeliest one; `None` without an example of one class.
    pub fn accuracy(&self, examples: &[Example]) -> Option<f64> {
        let mut logits = vec![0.0; self.classes];
        let is_right = |example: &Example| {
            let label = class(example)?;
            scores(&self.row(example), &self.weights, &mut logits);
            let best = (0..self.classes).reduce(|best, class| if logits[class] > logits[best] { class } else { best });
            Some(best == Some(label))
        };
        let right: Vec<bool> = examples.iter().map(is_right).collect::<Option<_>>()?;
        (!right.is_empty()).then(|| right.iter().filter(|right| **right).count() as f64 / right.len() as f64)
    }

    /// Returns the features of an example; tokens that training lacks have none.
    fn row(&self, example: &Example) -> SparseRow {
        let value = |(token, count): (u32, usize)| {
            let feature = *self.features.get(&token)?;
            Some((feature, count as f64 * self.rarity[feature]))
        };
        let mut row: SparseRow = counts(example).into_iter().filter_map(value).collect();
        let norm = row.iter().map(|(_, value)| value * value).sum::<f64>().sqrt();
        row.iter_mut().for_each(|(_, value)| *value /= norm.max(f64::MIN_POSITIVE));
        row
    }
}

fn class(example: &Example) -> Option<usize> {
    if let ExampleTarget::Class(class) = example.label { Some(class as usize) } else { None }
}

/// The tokens of both sides; those of the second side are odd numbers.
fn sides(example: &Example) -> impl Iterator<Item = u32> {
    let second = example.second.iter().flatten();
    example.tokens.iter().map(|token| 2 * token).chain(second.map(|token| 2 * token + 1))
}

fn counts(example: &Example) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    sides(example).for_each(|token| *counts.entry(token).or_default() += 1);
    counts
}

/// Computes the score of every class.
fn scores(row: &SparseRow, weights: &[f64], logits: &mut [f64]) {
    let classes = logits.len();
    logits.copy_from_slice(&weights[weights.len() - classes..]);
    for (feature, value) in row {
        let of_feature = &weights[feature * classes..(feature + 1) * classes];
        logits.iter_mut().zip(of_feature).for_each(|(logit, weight)| *logit += value * weight);
    }
}

/// Returns the regularised loss, and writes its gradient.
fn objective(rows: &[SparseRow], labels: &[usize], classes: usize, weights: &[f64], slopes: &mut [f64]) -> f64 {
    let regularised = weights.len() - classes;
    // The weights of two classes are each other's opposite: the square of their difference is twice the sum of their squares.
    let share = if classes == 2 { 2.0 } else { 1.0 };
    let mut loss = share * dot(&weights[..regularised], &weights[..regularised]) / 2.0;
    slopes[..regularised].iter_mut().zip(weights).for_each(|(slope, weight)| *slope = share * weight);
    slopes[regularised..].fill(0.0);
    let mut logits = vec![0.0; classes];
    for (row, label) in rows.iter().zip(labels) {
        scores(row, weights, &mut logits);
        let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit - most).exp()).sum();
        loss += most + sum.ln() - logits[*label];
        logits.iter_mut().for_each(|logit| *logit = (*logit - most).exp() / sum);
        logits[*label] -= 1.0;
        for (feature, value) in row {
            let of_feature = &mut slopes[feature * classes..(feature + 1) * classes];
            of_feature.iter_mut().zip(&logits).for_each(|(slope, gap)| *slope += value * gap);
        }
        slopes[regularised..].iter_mut().zip(&logits).for_each(|(slope, gap)| *slope += gap);
    }
    loss
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Minimises a smooth convex function by L-BFGS with steps that are halved until the function falls enough (Nocedal and Wright 2006,
/// Algorithms 7.4 and 3.1). The function returns its value and writes its gradient.
fn minimise(mut at: Vec<f64>, mut value: impl FnMut(&[f64], &mut [f64]) -> f64) -> Vec<f64> {
    let mut slopes = vec![0.0; at.len()];
    let mut now = value(&at, &mut slopes);
    let mut history: Vec<(Vec<f64>, Vec<f64>)> = vec![];
    for _ in 0..STEPS {
        if slopes.iter().all(|slope| slope.abs() < TOLERANCE) {
            break;
        }
        let direction = descent(&slopes, &history);
        let fall = dot(&direction, &slopes);
        // The first step has no curvature to go by.
        let mut length = if history.is_empty() { 1.0 / dot(&slopes, &slopes).sqrt().max(1.0) } else { 1.0 };
        let mut next_slopes = vec![0.0; at.len()];
        let found = (0..40).find_map(|_| {
            let next: Vec<f64> = at.iter().zip(&direction).map(|(at, by)| at + length * by).collect();
            let then = value(&next, &mut next_slopes);
            let falls = then <= now + 1e-4 * length * fall;
            length /= 2.0;
            falls.then_some((next, then))
        });
        // Rounding hides what is left.
        let Some((next, then)) = found else { break };
        let step: Vec<f64> = next.iter().zip(&at).map(|(next, at)| next - at).collect();
        let change: Vec<f64> = next_slopes.iter().zip(&slopes).map(|(next, slope)| next - slope).collect();
        if dot(&step, &change) > 0.0 {
            history.extend(Some((step, change)));
            history.drain(..history.len().saturating_sub(HISTORY));
        }
        (at, now, slopes) = (next, then, next_slopes);
    }
    at
}

/// Returns the direction of a quasi-Newton step.
fn descent(slopes: &[f64], history: &[(Vec<f64>, Vec<f64>)]) -> Vec<f64> {
    let mut direction: Vec<f64> = slopes.iter().map(|slope| -slope).collect();
    let add = |to: &mut [f64], by: f64, from: &[f64]| to.iter_mut().zip(from).for_each(|(to, from)| *to += by * from);
    let mut shares = vec![];
    for (step, change) in history.iter().rev() {
        let share = dot(step, &direction) / dot(step, change);
        add(&mut direction, -share, change);
        shares.push(share);
    }
    if let Some((step, change)) = history.last() {
        let scale = dot(step, change) / dot(change, change);
        direction.iter_mut().for_each(|x| *x *= scale);
    }
    for ((step, change), share) in history.iter().zip(shares.iter().rev()) {
        let back = dot(change, &direction) / dot(step, change);
        add(&mut direction, share - back, step);
    }
    direction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of twelve words, of which the first two tell the class in most cases.
    fn texts(count: u32) -> Vec<Example> {
        let mut draw = 17_u32;
        let mut next = |most: u32| {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (draw >> 16) % most
        };
        let text = |_| {
            let class = next(3);
            let tell = if next(10) == 0 { next(3) } else { class };
            let mut tokens = vec![tell, tell + 3 * next(2)];
            tokens.extend((0..10).map(|_| 10 + next(50)));
            Example::classified(tokens, class)
        };
        (0..count).map(text).collect()
    }

    #[test]
    fn words_that_tell_a_class_are_found_and_the_solution_is_a_minimum() {
        let train = texts(300);
        let model = BagOfWords::fit(&train).expect("three classes");
        assert!(model.accuracy(&texts(300)[200..]).is_some_and(|share| share > 0.85));
        let rows: Vec<SparseRow> = train.iter().map(|example| model.row(example)).collect();
        let labels: Vec<usize> = train.iter().filter_map(class).collect();
        let mut slopes = vec![0.0; model.weights.len()];
        objective(&rows, &labels, 3, &model.weights, &mut slopes);
        assert!(slopes.iter().all(|slope| slope.abs() < 2.0 * TOLERANCE), "{slopes:?}");
    }

    #[test]
    fn order_is_not_seen_and_sides_are() {
        let examples =
            |order: [u32; 2]| vec![Example::classified(order.to_vec(), 0), Example::classified(vec![1, 2], 1)];
        let model = BagOfWords::fit(&examples([2, 1])).expect("two classes");
        assert_eq!(model.accuracy(&examples([2, 1])), Some(0.5));
        let pair =
            |first, second, class| Example { second: Some(vec![second]), ..Example::classified(vec![first], class) };
        let pairs = [pair(1, 2, 0), pair(2, 1, 1)];
        assert_eq!(BagOfWords::fit(&pairs).and_then(|model| model.accuracy(&pairs)), Some(1.0));
    }

    #[test]
    fn examples_without_one_class_have_no_baseline() {
        let number = Example { label: ExampleTarget::Number(1.0), ..Example::classified(vec![1], 0) };
        assert!(BagOfWords::fit(&[number]).is_none());
        assert!(BagOfWords::fit(&[Example::classified(vec![1], 0)]).is_none(), "one class");
    }
}
