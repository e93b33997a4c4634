//! What rank 0 tells the others to do, and what they answer.

use sha2::{Digest, Sha256};

use super::wire::{Wire, fields};
use super::{RankError, Ranks};
use rtc_base::batch::{Batch, Given, Labels};
use rtc_exec::learner::{
    DecayedParameters, Depths, Evaluation, FlatArrays, GroupRule, LearnError, LearnerState, Lookahead, MuonStep,
    OptimiserKind, RemainingState, StepReport, UpdateRule,
};

/// A command of rank 0 to another rank.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a command is made, sent and gone")]
pub(super) enum RankCommand {
    /// Make the model that is described here; what is in it is the affair of the program.
    Begin(String),
    /// Compute the gradients of these micro-batches, of which the first has this number in its update.
    Accumulate(u64, Vec<(Batch, f64)>),
    /// Sum what was handed out in calls that gave so many micro-batches to each rank, and make the update.
    Update(Vec<Vec<u64>>, UpdateRule),
    /// Move the averaged weights, with this decay.
    Average(f64),
    /// Evaluate these batches.
    Evaluate(Vec<Batch>),
    /// Take the state that is broadcast next.
    Restore,
    /// Say what state this is.
    Fingerprint,
    /// End with this exit code.
    End(u8),
}

/// The answer of a rank.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankAnswer<T> {
    /// The results, or why there are none.
    pub(super) outcome: Result<T, LearnError>,
    /// How long it has computed.
    pub(super) seconds: f64,
    /// Whether it was asked to stop.
    pub(super) stopping: bool,
}

/// Reports of micro-batches: for each its report, and the remaining state of its rows.
pub(super) type BatchReports = Vec<(StepReport, RemainingState)>;

/// A number that stands for all numbers of a state.
pub(super) fn fingerprint(state: &LearnerState) -> u64 {
    let digest = Sha256::digest(state.to_bytes());
    digest.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Waits for a message of a rank, and reads it.
pub(super) fn receive<T: Wire>(ranks: &dyn Ranks, from: usize) -> Result<T, RankError> {
    T::from_bytes(&ranks.receive(from)?).ok_or_else(|| RankError::garbled(from))
}

fields! {
    FlatArrays { items }
    Batch { offsets, tokens, labels, width, depths, given }
    Depths { rows, sum, squares }
    Evaluation { loss_sum, scored, correct, predictions, confidence, numbers, depth }
    Given { name, numbers }
    LearnerState { parameters, optimiser, average, updates }
    RemainingState { values, over }
    GroupRule { learning_rate, weight_decay }
    Lookahead { every, follow }
    StepReport { loss, task_loss, halting_cost, mean_depth, correct, scored, gradient_norm }
    UpdateRule {
        kind, learning_rate, groups, beta1, beta2, momentum, muon_step, lookahead, rectify_from, epsilon, weight_decay,
        decayed, clip
    }
}

/// Sends choices as the number that stands before each, and what it holds.
macro_rules! choices {
    ($($name:ident { $($number:literal $choice:ident ($($part:ident),*)),* $(,)? })*) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$choice { $($part),* } => {
                        u8::put(&$number, out);
                        $($part.put(out);)*
                    })*
                }
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                match u8::take(from)? {
                    $($number => {
                        $(let $part = Wire::take(from)?;)*
                        Some(Self::$choice { $($part),* })
                    })*
                    _ => None,
                }
            }
        }
    )*};
}

choices! {
    DecayedParameters { 0 All(), 1 Matrices() }
    MuonStep { 0 Adamw(), 1 Original() }
    OptimiserKind { 0 Adamw(), 1 Adam(), 2 Ranger(), 3 Muon(), 4 AdamAtan2(), 5 Lion(), 6 Sgd(), 7 Formula() }
}

impl Wire for Labels {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Class(class) => (0u8, class.clone()).put(out),
            Self::Each { class, weight } => (1u8, (class.clone(), weight.clone())).put(out),
            Self::Number(numbers) => (2u8, numbers.clone()).put(out),
            Self::Several(labels) => (3u8, labels.clone()).put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Self::Class(Wire::take(from)?),
            1 => Self::Each { class: Wire::take(from)?, weight: Wire::take(from)? },
            2 => Self::Number(Wire::take(from)?),
            3 => Self::Several(Wire::take(from)?),
            _ => return None,
        })
    }
}

impl Wire for LearnError {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::NonFinite { step, node } => (0u8, (*step, node.clone())).put(out),
            Self::Mismatch(message) => (1u8, message.clone()).put(out),
            Self::Batch(message) => (2u8, message.clone()).put(out),
            Self::Device(message) => (3u8, message.clone()).put(out),
            Self::Ranks(message) => (4u8, message.clone()).put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Self::NonFinite { step: Wire::take(from)?, node: Wire::take(from)? },
            1 => Self::Mismatch(Wire::take(from)?),
            2 => Self::Batch(Wire::take(from)?),
            3 => Self::Device(Wire::take(from)?),
            4 => Self::Ranks(Wire::take(from)?),
            _ => return None,
        })
    }
}

impl Wire for RankCommand {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin(how) => (0u8, how.clone()).put(out),
            Self::Accumulate(first, batches) => {
                (1u8, *first).put(out);
                batches.put(out);
            }
            Self::Update(calls, rule) => (2u8, (calls.clone(), *rule)).put(out),
            Self::Average(decay) => (3u8, *decay).put(out),
            Self::Evaluate(batches) => {
                4u8.put(out);
                batches.put(out);
            }
            Self::Restore => 5u8.put(out),
            Self::Fingerprint => 6u8.put(out),
            Self::End(code) => (7u8, *code).put(out),
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::take(from)? {
            0 => Self::Begin(Wire::take(from)?),
            1 => Self::Accumulate(Wire::take(from)?, Wire::take(from)?),
            2 => Self::Update(Wire::take(from)?, Wire::take(from)?),
            3 => Self::Average(Wire::take(from)?),
            4 => Self::Evaluate(Wire::take(from)?),
            5 => Self::Restore,
            6 => Self::Fingerprint,
            7 => Self::End(Wire::take(from)?),
            _ => return None,
        })
    }
}

impl<T: Wire> Wire for RankAnswer<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.outcome.put(out);
        self.seconds.put(out);
        self.stopping.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self { outcome: Wire::take(from)?, seconds: Wire::take(from)?, stopping: Wire::take(from)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(labels: Labels) -> Batch {
        let given = vec![Given { name: "hint".into(), numbers: vec![0.5, f64::NAN.copysign(1.0)] }];
        Batch { offsets: vec![0, 2], tokens: vec![3, 4], labels, width: 5, depths: Some(vec![2]), given }
    }

    #[test]
    fn commands_and_answers_come_back_as_they_were() {
        let labels = [
            Labels::Class(vec![1]),
            Labels::Each { class: vec![1, 2], weight: vec![0.0, 1.0] },
            Labels::Number(vec![0.25]),
            Labels::Several(vec![1, 0]),
        ];
        let rules = OptimiserKind::ALL.map(|kind| UpdateRule { kind, clip: Some(0.1), ..UpdateRule::ADAMW });
        let mut commands = vec![
            RankCommand::Begin("model".to_owned()),
            RankCommand::Average(0.9),
            RankCommand::Restore,
            RankCommand::Fingerprint,
            RankCommand::End(75),
            RankCommand::Evaluate(vec![]),
        ];
        commands.extend(labels.map(|labels| RankCommand::Accumulate(3, vec![(batch(labels), 0.25)])));
        commands.extend(rules.map(|rule| RankCommand::Update(vec![vec![4, 1], vec![0, 2]], rule)));
        for command in commands {
            let bytes = command.to_bytes();
            let read = RankCommand::from_bytes(&bytes).expect("its own bytes");
            // Numbers that are none equal nothing, but their bytes do.
            assert_eq!(read.to_bytes(), bytes, "{command:?}");
        }
        let errors = [
            LearnError::NonFinite { step: 3, node: "%4".to_owned() },
            LearnError::Mismatch("a".to_owned()),
            LearnError::Batch("b".to_owned()),
            LearnError::Device("c".to_owned()),
            LearnError::Ranks("d".to_owned()),
        ];
        for error in errors {
            let answer = RankAnswer::<u64> { outcome: Err(error), seconds: 0.5, stopping: true };
            assert_eq!(RankAnswer::from_bytes(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn a_fingerprint_tells_states_apart() {
        let state = |number: f32| {
            let items = [("w".to_owned(), (vec![1], vec![number]))].into();
            LearnerState { parameters: FlatArrays { items }, ..LearnerState::default() }
        };
        assert_eq!(fingerprint(&state(1.0)), fingerprint(&state(1.0)));
        assert_ne!(fingerprint(&state(1.0)), fingerprint(&state(1.0 + f32::EPSILON)));
        assert_ne!(fingerprint(&state(0.0)), fingerprint(&state(-0.0)));
    }
}
