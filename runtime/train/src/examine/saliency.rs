//! The saliency of the tokens of a row: the gradient of a loss by the vectors of the tokens, summed up from the last token.
//!
//! The table of vectors is replaced by one in which every position of the row has a row of its own. The gradient of this table,
//! which every training step gives, is the gradient by position.

use std::ops::Range;

use rtc_compiler::ir::roles;
use rtc_compiler::plan::Plan;

use rtc_base::rng::Key;
use rtc_exec::aligned_ranges;
use rtc_exec::learner::LearnError;
use rtc_exec::model::{ArrayMemory, Backend, ModelOn, as_learn_error};
use rtc_kernel::Real;
use rtc_kernel::optimiser::{Assign, Set};
use rtc_task::batching::pack;
use rtc_task::{Example, ExampleTarget};

/// Asks one model about rows of one length.
#[derive(Debug)]
pub struct Saliency<B: Backend> {
    executor: B,
    memory: B::Memory,
    /// The weights of the model, with tables for the row that is asked about.
    weights: Vec<B::Number>,
    tables: Vec<EmbeddingTable<B::Number>>,
    length: usize,
    classes: u32,
}

/// A table of vectors of tokens.
#[derive(Debug)]
struct EmbeddingTable<T> {
    /// Its place among the weights of the plan, where it has one vector for every position.
    range: Range<usize>,
    width: usize,
    /// The vectors of the model's tokens.
    vectors: Vec<T>,
}

impl<B: Backend> Saliency<B> {
    /// With the weights of `model`, and the plan of [`rtc_compiler::pipeline::slopes`] for so many tokens as the rows have
    /// positions.
    ///
    /// # Errors
    /// A plan that is not of this model.
    pub fn new(model: &ModelOn<B>, plan: Plan, length: usize, classes: usize) -> Result<Self, LearnError> {
        let misfit = |name: &str| LearnError::Mismatch(format!("the plan of its slopes has another `{name}`"));
        let ranges = aligned_ranges(&plan, B::ALIGN);
        let (executor, memory, own) = model.probe(plan);
        let plan = executor.plan().clone();
        let find = |name: &str| plan.parameters.iter().position(|p| p.name == name).map(|n| ranges[n].clone());
        let of_tokens = roles::token_tables(&plan.graph).filter(|_| length > 0);
        let of_tokens = of_tokens.ok_or_else(|| misfit("table of tokens"))?;
        let mut weights = vec![B::Number::ZERO; ranges.last().map_or(0, |range| range.end)];
        let mut tables = vec![];
        for (name, numbers) in own {
            let range = find(&name).ok_or_else(|| misfit(&name))?;
            if of_tokens.contains(&name.as_str()) && range.len().is_multiple_of(length) {
                tables.push(EmbeddingTable { width: range.len() / length, range, vectors: numbers });
            } else if range.len() == numbers.len() {
                weights[range].copy_from_slice(&numbers);
            } else {
                return Err(misfit(&name));
            }
        }
        Ok(Self { executor, memory, weights, tables, length, classes: classes as u32 })
    }

    /// For every position the share of the slopes that lies at it and behind it: 1 at the first token, falling to the last.
    /// `None` where the gradient is zero for every token, and for an example of another length.
    ///
    /// The slope of a token is the length of the gradient of a loss by its vector, by all its vectors where several tables have one. For one class per row the loss is that of a
    /// class that is not the answer: at a model that is sure the loss of the answer itself is flat, and the slopes of both are
    /// in proportion where there are two classes; of several labels it is that of each one's opposite. For an answer per token it is the
    /// loss of the last one.
    ///
    /// # Errors
    /// An example that the model can't take, and a gradient that is not finite.
    pub fn shares(&mut self, example: &Example) -> Result<Option<Vec<f64>>, LearnError> {
        if example.tokens.len() != self.length || example.second.is_some() {
            return Ok(None);
        }
        for table in &self.tables {
            let rows = self.weights[table.range.clone()].chunks_mut(table.width);
            for (row, token) in rows.zip(&example.tokens) {
                let at = *token as usize * table.width;
                let vector = table.vectors.get(at..at + table.width);
                let outside = || LearnError::Batch(format!("token id {token} is outside the vocabulary"));
                row.copy_from_slice(vector.ok_or_else(outside)?);
            }
        }
        let asked =
            Example { tokens: (0..self.length as u32).collect(), label: self.asked(&example.label), ..example.clone() };
        let ((weights, gradients), all) = (self.executor.arrays(), 0..self.weights.len());
        self.memory.each(&Assign {}, [weights], [&self.memory.keep(self.weights.clone())], &all);
        self.memory.each(&Set { value: 0.0 }, [gradients], [], &all);
        let batch = pack(&[&asked]);
        self.executor.execute(&batch, Key::new(0), &mut || {}).map_err(|fault| as_learn_error(fault, 0))?;
        let gradients = self.memory.numbers(self.executor.arrays().1);
        let mut squares = vec![0.0; self.length];
        for table in &self.tables {
            let slopes = gradients[table.range.clone()].chunks(table.width);
            let own = slopes.map(|row| row.iter().map(|x| x.to_f64() * x.to_f64()).sum::<f64>());
            squares.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
        }
        let lengths: Vec<f64> = squares.into_iter().map(f64::sqrt).collect();
        if lengths.iter().any(|length| !length.is_finite()) {
            return Err(LearnError::NonFinite { step: 0, node: "the gradient of the token vectors".to_owned() });
        }
        Ok(from_the_end(&lengths))
    }

    /// The answer whose loss is asked for.
    fn asked(&self, label: &ExampleTarget) -> ExampleTarget {
        match label {
            ExampleTarget::Class(class) => ExampleTarget::Class((class + 1) % self.classes.max(1)),
            ExampleTarget::Each { class, weight } => {
                let mut last = vec![0.0; weight.len()];
                if let Some(at) = weight.iter().rposition(|weight| *weight != 0.0) {
                    last[at] = 1.0;
                }
                ExampleTarget::Each { class: class.clone(), weight: last }
            }
            // The slopes of a squared error are those of the number, times how far it is from what is asked for.
            ExampleTarget::Number(number) => ExampleTarget::Number(number + 1.0),
            ExampleTarget::Several(labels) => ExampleTarget::Several(labels.iter().map(|label| !label).collect()),
        }
    }
}

/// The share of the sum that lies at every place and behind it.
fn from_the_end(lengths: &[f64]) -> Option<Vec<f64>> {
    let total: f64 = lengths.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let mut shares = lengths.to_vec();
    for n in (1..shares.len()).rev() {
        shares[n - 1] += shares[n];
    }
    let total = shares[0];
    shares.iter_mut().for_each(|share| *share /= total);
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_slopes_are_a_straight_line() {
        assert_eq!(from_the_end(&[2.0; 4]), Some(vec![1.0, 0.75, 0.5, 0.25]));
        assert_eq!(from_the_end(&[0.0, 0.0, 1.0]), Some(vec![1.0, 1.0, 1.0]), "all at the last token");
        assert_eq!(from_the_end(&[0.0, 0.0]), None);
        assert_eq!(from_the_end(&[]), None);
    }
}
