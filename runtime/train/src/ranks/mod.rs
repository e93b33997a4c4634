//! Data parallel training: several processes, the ranks, share the micro-batches of every update.
//!
//! Rank 0 runs the training loop and has the data, the run folder and the terminal. Its learner is a [`SharedLearner`], which hands
//! micro-batches and evaluated batches to all ranks; the others [`serve`] it. Gradients are summed in the fixed [`gradient_tree`](rtc_exec::gradient_tree) over the
//! micro-batches, and every rank makes the same update. So the numbers of a run do not depend on how many ranks there are.

pub mod launch;
mod message;
#[cfg(feature = "mpi")]
mod mpi;
mod serve;
mod shared;
mod sum;
pub mod threads;
mod wire;

use std::fmt::Debug;

#[cfg(feature = "mpi")]
pub use mpi::MpiRanks;
pub use serve::{Beginning, await_beginning, joined, serve};
pub use shared::{Balance, SharedLearner, begin, end};

use rtc_exec::learner::LearnError;

/// Why an exchange with another rank failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RankError(pub String);

impl RankError {
    /// A rank that is there no longer.
    fn gone(rank: usize) -> Self {
        Self(format!("rank {rank} has ended before its time; the same command goes on from the last checkpoint"))
    }

    /// A rank whose message is none of this program.
    fn garbled(rank: usize) -> Self {
        Self(format!("the message of rank {rank} can't be read: every rank must run the same program"))
    }
}

impl From<RankError> for LearnError {
    fn from(RankError(message): RankError) -> Self {
        Self::Ranks(message)
    }
}

/// The processes of a training, and messages between them. Those from one rank to another one come in the order in which they were sent.
pub trait Ranks: Debug {
    /// The number of this one, from 0.
    fn rank(&self) -> usize;
    /// How many there are.
    fn size(&self) -> usize;
    /// Sends a message; it may wait until that is received.
    ///
    /// # Errors
    /// The other rank has ended.
    fn send(&self, to: usize, message: &[u8]) -> Result<(), RankError>;
    /// Waits for the next message of a rank.
    ///
    /// # Errors
    /// The other rank has ended.
    fn receive(&self, from: usize) -> Result<Vec<u8>, RankError>;
    /// Sends one message and receives another one, without waiting for either first.
    ///
    /// # Errors
    /// One of the other ranks has ended.
    fn swap(&self, to: usize, message: &[u8], from: usize) -> Result<Vec<u8>, RankError>;
    /// Ends the processes of all ranks at once, where they are processes: after a failure in which some may wait for others for ever.
    fn abort(&self, _code: u8) {}
}

/// The one rank of a training without others.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRank;

impl Ranks for SingleRank {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn send(&self, to: usize, _: &[u8]) -> Result<(), RankError> {
        Err(RankError::gone(to))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, RankError> {
        Err(RankError::gone(from))
    }

    fn swap(&self, to: usize, _: &[u8], _: usize) -> Result<Vec<u8>, RankError> {
        Err(RankError::gone(to))
    }
}

/// The message that rank 0 has for all, on every rank: each rank that has it hands it on, so that it takes as many turns as the
/// logarithm of their number.
///
/// # Errors
/// A rank has ended.
fn broadcast(ranks: &dyn Ranks, message: Option<Vec<u8>>) -> Result<Vec<u8>, RankError> {
    let (rank, size) = (ranks.rank(), ranks.size());
    // A rank gets the message from the one whose number lacks its highest bit, and hands it to those with one bit above it more.
    let message = match message {
        Some(message) => message,
        None => ranks.receive(rank ^ (1 << rank.ilog2()))?,
    };
    let first = if rank == 0 { 0 } else { rank.ilog2() + 1 };
    for to in (first..usize::BITS - 1).map(|bit| rank | 1 << bit).take_while(|to| *to < size) {
        ranks.send(to, &message)?;
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broadcast_reaches_every_rank() {
        for size in 1..=9 {
            let heard = threads::on_threads(size, |ranks| {
                broadcast(ranks, (ranks.rank() == 0).then(|| b"all".to_vec())).expect("nobody ends before it")
            });
            let heard: Vec<_> = heard.into_iter().map(|heard| heard.expect("no panic")).collect();
            assert_eq!(heard, vec![b"all".to_vec(); size]);
        }
    }
}
