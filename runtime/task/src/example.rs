//! One example of a task.

use rtc_base::batch::Given;

/// What stands between the sides of a pair, wherever one is written as text.
pub const SIDES: &str = "|||";

/// One sequence (or a pair of them) with what the model should answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Token ids, indices into the task's vocabulary.
    pub tokens: Vec<u32>,
    /// The second sequence, for tasks on pairs.
    pub second: Option<Vec<u32>>,
    /// The answer.
    pub label: ExampleTarget,
    /// Steps that the task knows the answer to take, where it does.
    pub depth: Option<u32>,
    /// The length as the task counts it (bits of an operand, say), where that is not the number of tokens.
    pub size: Option<u32>,
    /// Further values that come with it, each with the name that a model has for it.
    pub given: Vec<Given>,
    /// Bytes of the text that its scored tokens stand for, where a text is known.
    pub text_bytes: Option<u32>,
}

/// The answer that an example asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum ExampleTarget {
    /// One class for the whole sequence or pair.
    Class(u32),
    /// One class per token, and which of them count (1) or not (0).
    Each {
        /// The class of every token.
        class: Vec<u32>,
        /// Weight of every token in the loss.
        weight: Vec<f32>,
    },
    /// One number for the whole sequence, in the unit of the model ([`Scale`](crate::Scale)).
    Number(f32),
    /// For every label whether it belongs to the sequence.
    Several(Vec<bool>),
}

impl Example {
    /// A sequence with one class.
    pub fn classified(tokens: Vec<u32>, class: u32) -> Self {
        let label = ExampleTarget::Class(class);
        Self { tokens, second: None, label, depth: None, size: None, given: vec![], text_bytes: None }
    }

    /// Bytes that it takes with its lists, and with what the heap keeps beside each of them.
    pub fn bytes(&self) -> usize {
        const BESIDE: usize = 16;
        let list = |bytes: usize| if bytes == 0 { 0 } else { (bytes + BESIDE).next_multiple_of(BESIDE) };
        let label = match &self.label {
            ExampleTarget::Class(_) | ExampleTarget::Number(_) => 0,
            ExampleTarget::Each { class, weight } => list(4 * class.len()) + list(4 * weight.len()),
            ExampleTarget::Several(labels) => list(labels.len()),
        };
        size_of::<Self>()
            + list(4 * self.tokens.len())
            + self.second.as_ref().map_or(0, |second| list(4 * second.len()))
            + label
            + list(size_of_val(&self.given[..]))
            + self.given.iter().map(|given| list(size_of_val(&given.numbers[..]))).sum::<usize>()
    }

    /// Number of tokens; for a pair, of the longer side.
    pub fn length(&self) -> usize {
        self.tokens.len().max(self.second.as_ref().map_or(0, Vec::len))
    }

    /// Number of classes that are predicted for it: one per token where every token has one, one per label (1 or 0) where
    /// there are several, none where a number is predicted.
    pub fn classes(&self) -> usize {
        match &self.label {
            ExampleTarget::Class(_) => 1,
            ExampleTarget::Each { class, .. } => class.len(),
            ExampleTarget::Number(_) => 0,
            ExampleTarget::Several(labels) => labels.len(),
        }
    }

    /// The class that is asked for at each of these places, and its weight.
    pub fn asked(&self) -> Vec<(u32, f32)> {
        match &self.label {
            ExampleTarget::Class(class) => vec![(*class, 1.0)],
            ExampleTarget::Each { class, weight } => class.iter().copied().zip(weight.iter().copied()).collect(),
            ExampleTarget::Number(_) => vec![],
            ExampleTarget::Several(labels) => labels.iter().map(|label| (u32::from(*label), 1.0)).collect(),
        }
    }

    /// What it weighs in the loss of its batch.
    pub fn weight(&self) -> f64 {
        match &self.label {
            ExampleTarget::Class(_) | ExampleTarget::Number(_) => 1.0,
            ExampleTarget::Each { weight, .. } => weight.iter().map(|weight| f64::from(*weight)).sum(),
            ExampleTarget::Several(labels) => labels.len() as f64,
        }
    }

    /// The length by which accuracies are told apart.
    pub fn measured_length(&self) -> usize {
        self.size.map_or_else(|| self.length(), |size| size as usize)
    }

    /// What tells examples apart: the tokens, for a pair those of both sides with a number between that is no token, and the values
    /// that come with them.
    pub fn key(&self) -> Vec<u32> {
        let mut key = self.tokens.clone();
        let mut behind = |numbers: &mut dyn Iterator<Item = u32>| {
            key.push(u32::MAX);
            key.extend(numbers);
        };
        if let Some(second) = &self.second {
            behind(&mut second.iter().copied());
        }
        for given in &self.given {
            let halves = |x: &f64| [x.to_bits() as u32, (x.to_bits() >> 32) as u32];
            behind(&mut given.numbers.iter().flat_map(halves));
        }
        key
    }
}
