//! Ranks of MPI, by the library that the program was built with.
//!
//! MPI carries messages, and nothing else: sums are made by this program in its own order, never by `MPI_SUM`, whose order is that of
//! the library. A failed operation of MPI ends all ranks, which is the default of the standard.

use std::fmt;
use std::thread;

use ::mpi::Threading;
use ::mpi::environment::{Universe, initialize_with_threading};
use ::mpi::request::scope;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, Destination, Source};

use super::{RankError, Ranks};

/// The most bytes of one message of MPI, whose lengths have 31 bits. A longer message follows in pieces, of which the last one alone is
/// shorter.
const PIECE: usize = 1 << 30;

/// The exit code of all ranks where one panics.
const PANIC: u8 = 101;

/// The world of MPI. Dropping it waits for all ranks to do so, except in a panic, which ends all of them: the others wait for what this one
/// does not say any more.
pub struct MpiRanks {
    world: SimpleCommunicator,
    /// Ends MPI where it is dropped, after the world.
    _universe: Universe,
}

impl fmt::Debug for MpiRanks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.size())
    }
}

impl MpiRanks {
    /// Joins the ranks that were started together. From then on this thread alone may speak to them.
    ///
    /// # Errors
    /// MPI was begun before, or allows no further threads.
    pub fn join() -> Result<Self, RankError> {
        let begun = initialize_with_threading(Threading::Funneled);
        let (universe, threading) = begun.ok_or_else(|| RankError("MPI was begun twice".to_owned()))?;
        if threading < Threading::Funneled {
            return Err(RankError("this MPI library allows no threads; take one that does".to_owned()));
        }
        Ok(Self { world: universe.world(), _universe: universe })
    }

    fn process(&self, rank: usize) -> ::mpi::topology::Process<'_> {
        self.world.process_at_rank(rank as i32)
    }
}

impl Drop for MpiRanks {
    fn drop(&mut self) {
        if thread::panicking() {
            self.abort(PANIC);
        }
    }
}

/// The pieces of a message.
fn pieces(message: &[u8]) -> impl Iterator<Item = &[u8]> {
    // A message that ends with a whole piece has an empty one behind it.
    (0..=message.len() / PIECE).map(|n| &message[n * PIECE..message.len().min((n + 1) * PIECE)])
}

impl Ranks for MpiRanks {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.world.size() as usize
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), RankError> {
        pieces(message).for_each(|piece| self.process(to).send(piece));
        Ok(())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, RankError> {
        let mut message = vec![];
        loop {
            let (piece, _) = self.process(from).receive_vec::<u8>();
            let last = piece.len() < PIECE;
            if message.is_empty() {
                message = piece;
            } else {
                message.extend_from_slice(&piece);
            }
            if last {
                return Ok(message);
            }
        }
    }

    fn abort(&self, code: u8) {
        self.world.abort(code.into());
    }

    fn swap(&self, to: usize, message: &[u8], from: usize) -> Result<Vec<u8>, RankError> {
        scope(|scope| {
            let sent: Vec<_> = pieces(message).map(|piece| self.process(to).immediate_send(scope, piece)).collect();
            let received = self.receive(from);
            for request in sent {
                request.wait();
            }
            received
        })
    }
}
