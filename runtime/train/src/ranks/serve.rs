//! What the ranks besides rank 0 do: what they are told, until they are told to end.

use std::sync::atomic::{AtomicBool, Ordering};

use super::message::{RankAnswer, RankCommand, fingerprint, receive};
use super::shared::timed;
use super::sum::exchange;
use super::wire::Wire;
use super::{RankError, Ranks, broadcast};
use rtc_exec::learner::{Distributed, LearnError, LearnerState, UpdateRule};

/// What a rank is told first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// To make the model that is described here.
    Model(String),
    /// To end with this exit code, because there is nothing to train.
    End(u8),
}

/// Waits for the first word of rank 0.
///
/// # Errors
/// Rank 0 has ended, or is another program.
pub fn await_beginning(ranks: &dyn Ranks) -> Result<Beginning, RankError> {
    match receive(ranks, 0)? {
        RankCommand::Begin(how) => Ok(Beginning::Model(how)),
        RankCommand::End(code) => Ok(Beginning::End(code)),
        _ => Err(RankError::garbled(0)),
    }
}

/// Hears on rank 0 whether all ranks could make their models.
///
/// # Errors
/// What the first of them could not do, or that it has ended.
pub fn joined(ranks: &dyn Ranks) -> Result<(), LearnError> {
    let of = |rank| {
        let RankAnswer { outcome, .. } = receive::<RankAnswer<()>>(ranks, rank)?;
        outcome.map_err(|error| LearnError::Ranks(format!("rank {rank}: {error}")))
    };
    // Every answer is read, that nobody waits to be heard.
    let all: Vec<Result<(), LearnError>> = (1..ranks.size()).map(of).collect();
    all.into_iter().collect()
}

/// Does what rank 0 says with the model that was made, or says why there is none; gives the exit code to end with. `stop` is the flag that
/// asks this rank to stop, of which rank 0 is told.
///
/// # Errors
/// Another rank has ended, or is another program.
pub fn serve<L: Distributed + ?Sized>(
    made: Result<&mut L, String>,
    ranks: &dyn Ranks,
    stop: &AtomicBool,
) -> Result<u8, RankError> {
    let mut server = RankServer { ranks, stop };
    match made {
        Ok(learner) => {
            server.answer((Ok(()), 0.0))?;
            server.run(learner)
        }
        Err(message) => {
            server.answer::<()>((Err(LearnError::Ranks(message)), 0.0))?;
            match await_beginning(ranks)? {
                Beginning::End(code) => Ok(code),
                Beginning::Model(_) => Err(RankError::garbled(0)),
            }
        }
    }
}

struct RankServer<'a> {
    ranks: &'a dyn Ranks,
    stop: &'a AtomicBool,
}

impl RankServer<'_> {
    fn run<L: Distributed + ?Sized>(&mut self, learner: &mut L) -> Result<u8, RankError> {
        loop {
            match receive(self.ranks, 0)? {
                RankCommand::Accumulate(first, batches) => {
                    learner.at_leaf(first);
                    self.answer(timed(|| learner.accumulate_all(&batches, &mut || {})))?;
                }
                RankCommand::Update(calls, rule) => {
                    let norm = apply(learner, self.ranks, &calls, &rule)?;
                    self.answer((norm.map(f64::to_bits), 0.0))?;
                }
                RankCommand::Average(decay) => learner.average(decay),
                RankCommand::Evaluate(batches) => self.answer(timed(|| learner.evaluate_all(&batches)))?,
                RankCommand::Restore => {
                    let state = broadcast(self.ranks, None)?;
                    let state = LearnerState::from_bytes(&state).ok_or_else(|| RankError::garbled(0))?;
                    self.answer((learner.restore(&state), 0.0))?;
                }
                RankCommand::Fingerprint => self.answer((Ok(fingerprint(&learner.state())), 0.0))?,
                RankCommand::End(code) => return Ok(code),
                RankCommand::Begin(_) => return Err(RankError::garbled(0)),
            }
        }
    }

    fn answer<T: Wire>(&mut self, (outcome, seconds): (Result<T, LearnError>, f64)) -> Result<(), RankError> {
        let stopping = self.stop.load(Ordering::Relaxed);
        self.ranks.send(0, &RankAnswer { outcome, seconds, stopping }.to_bytes())
    }
}

/// Sums the gradients of all ranks, and makes the update; the inner result is that of the learner.
pub(super) fn apply<L: Distributed + ?Sized>(
    learner: &mut L,
    ranks: &dyn Ranks,
    calls: &[Vec<u64>],
    rule: &UpdateRule,
) -> Result<Result<f64, LearnError>, RankError> {
    if ranks.size() > 1 {
        let own = learner.take_sums();
        let sum = exchange(ranks, &own, learner.gradient_len(), calls)?;
        if let Err(error) = learner.set_sum(sum) {
            return Ok(Err(error));
        }
    }
    Ok(learner.update(rule))
}
