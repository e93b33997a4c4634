//! A claim that this process holds: renewed by a thread of its own, given up when it is dropped.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{CellClaims, ClaimRecord, Far, text};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath;

/// A claim of this process on a cell.
#[derive(Debug)]
pub struct Claim {
    held: Arc<Holding>,
    beating: Option<JoinHandle<()>>,
}

/// What the thread of the claim shares with the training.
#[derive(Debug)]
pub(super) struct Holding {
    cell: CellClaims,
    generation: u64,
    state: Mutex<ClaimState>,
    ended: Condvar,
    lost: AtomicBool,
}

#[derive(Debug)]
struct ClaimState {
    record: ClaimRecord,
    /// When the first update was told, and which one it was.
    first: Option<(Instant, u64)>,
    ended: bool,
}

/// Why a holder may not write any more.
#[derive(Debug, thiserror::Error)]
#[error("the cell was taken over by {by} while this process did not renew its claim, and nothing is written any more")]
struct Lost {
    by: String,
}

impl Claim {
    /// Begins to renew a claim that was made.
    pub(super) fn start(
        cell: CellClaims,
        generation: u64,
        record: ClaimRecord,
        beat: Duration,
    ) -> Result<Self, IoError> {
        let state = Mutex::new(ClaimState { record, first: None, ended: false });
        let held = Arc::new(Holding { cell, generation, state, ended: Condvar::new(), lost: AtomicBool::new(false) });
        let own = Arc::clone(&held);
        let beating = thread::Builder::new().name("claim".to_owned()).spawn(move || own.beat_every(beat));
        match beating {
            Ok(beating) => Ok(Self { held, beating: Some(beating) }),
            Err(error) => Err(IoError::at("renew", &held.file())(error)),
        }
    }

    /// Which claim on its cell it is, from 1.
    pub fn generation(&self) -> u64 {
        self.held.generation
    }

    /// Whether another process was found to have taken the cell over.
    pub fn is_lost(&self) -> bool {
        self.held.lost.load(Ordering::Relaxed)
    }

    /// Fails if another process has taken the cell over.
    ///
    /// # Errors
    /// It has, or the folder of the claims can't be read.
    pub fn check(&self) -> Result<(), IoError> {
        self.held.check().map_err(IoError::at("train", &self.held.cell.path()))
    }

    /// Says how far the cell is; it is written when the claim is renewed.
    pub fn tell(&self, update: u64, total: u64) {
        let mut state = self.held.state();
        let (since, first) = *state.first.get_or_insert((Instant::now(), update));
        let seconds = since.elapsed().as_secs_f64();
        let rate = (update > first && seconds > 0.0).then(|| (update - first) as f64 / seconds);
        state.record.progress = Some(Far { update, total, rate });
    }

    /// Says how many updates of as many as were told are done.
    pub fn goes_on(&self, update: u64) {
        let total = self.held.state().record.progress.map_or(update, |far| far.total);
        self.tell(update, total);
    }

    /// What is asked before a write.
    pub(super) fn holding(&self) -> Arc<Holding> {
        Arc::clone(&self.held)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.held.state().ended = true;
        self.held.ended.notify_all();
        if let Some(beating) = self.beating.take() {
            // A thread that has panicked renews nothing; the claim is given up all the same.
            let _ = beating.join();
        }
        self.held.state().record.released = true;
        // Where it can't be written, the claim ends with its lease.
        let _ = self.held.renew();
    }
}

impl Holding {
    /// Fails if a higher claim is there.
    pub(super) fn check(&self) -> io::Result<()> {
        if !self.lost.load(Ordering::Relaxed) && self.cell.highest()? == self.generation {
            return Ok(());
        }
        self.lost.store(true, Ordering::Relaxed);
        Err(io::Error::other(Lost { by: taker(&self.cell) }))
    }

    /// Renews the claim until it is given up or lost. What fails is tried again: the lease is long enough for some failures.
    fn beat_every(&self, beat: Duration) {
        loop {
            let state = self.ended.wait_timeout_while(self.state(), beat, |state| !state.ended);
            let (mut state, _) = state.unwrap_or_else(PoisonError::into_inner);
            if state.ended {
                return;
            }
            state.record.beats += 1;
            drop(state);
            let _ = self.renew();
            if self.lost.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Writes the file of this claim anew, and none of another one.
    fn renew(&self) -> io::Result<()> {
        self.check()?;
        let (draft, text) = {
            let state = self.state();
            (self.cell.draft(&state.record), text(&state.record))
        };
        let (cell, file) = (&self.cell, self.cell.file(self.generation));
        let renewed = cell.write_draft(&draft, &text).and_then(|()| beneath::rename(&cell.grid, &draft, &file));
        if renewed.is_err() {
            beneath::remove(&cell.grid, &draft)?;
        }
        renewed
    }

    fn file(&self) -> PathBuf {
        self.cell.grid.join(self.cell.file(self.generation))
    }

    /// Nothing that holds the lock can panic between two changes that belong together.
    fn state(&self) -> MutexGuard<'_, ClaimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has the highest claim on a cell, as far as it says.
fn taker(cell: &CellClaims) -> String {
    let record = || -> Option<ClaimRecord> { serde_json::from_slice(&cell.read(cell.highest().ok()?).ok()?).ok() };
    record().map_or_else(|| "another process".to_owned(), |record| record.holder.name())
}
