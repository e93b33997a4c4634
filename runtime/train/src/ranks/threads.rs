//! Ranks that are threads of one process: for tests of everything that ranks do, without MPI.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::{RankError, Ranks};

/// A rank with its ends of the channels to all others. Where one is dropped, those that wait for it are told.
#[derive(Debug)]
pub struct ThreadRank {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

/// So many ranks that know each other.
pub fn ranks(size: usize) -> Vec<ThreadRank> {
    let mut all: Vec<ThreadRank> = (0..size).map(|rank| ThreadRank { rank, to: vec![], from: vec![] }).collect();
    for from in 0..size {
        for to in 0..size {
            let (sender, receiver) = channel();
            all[from].to.push(sender);
            all[to].from.push(receiver);
        }
    }
    all
}

/// Does something on every one of so many ranks; the errors are what ranks panicked with.
pub fn on_threads<T: Send>(size: usize, work: impl Fn(&dyn Ranks) -> T + Sync) -> Vec<thread::Result<T>> {
    thread::scope(|scope| {
        let work = &work;
        // A rank is dropped where its work ends, so that nobody waits for it any longer.
        let start = |rank: ThreadRank| scope.spawn(move || work(&rank));
        let handles: Vec<_> = ranks(size).into_iter().map(start).collect();
        handles.into_iter().map(thread::ScopedJoinHandle::join).collect()
    })
}

impl Ranks for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), RankError> {
        self.to[to].send(message.to_vec()).map_err(|_| RankError::gone(to))
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, RankError> {
        self.from[from].recv().map_err(|_| RankError::gone(from))
    }

    fn swap(&self, to: usize, message: &[u8], from: usize) -> Result<Vec<u8>, RankError> {
        self.send(to, message)?;
        self.receive(from)
    }
}
