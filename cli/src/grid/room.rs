//! Memory for cells that are trained at the same time: a cell waits until what it needs is free, on the host and on its device.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rtc_base::memory::machine;
use rtc_compiler::pipeline::memory::Fitted;
use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Data, TrainingJob};
use rtc_session::memory;

/// The memory of this machine, and of the device where cells compute on one.
#[derive(Debug)]
pub(super) struct Rooms {
    host: Room,
    device: Option<Room>,
}

/// A part of the rooms, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Shares<'a> {
    _host: RoomShare<'a>,
    _device: Option<RoomShare<'a>>,
}

impl Rooms {
    /// What is left beside so many bytes that all cells share, and what is free on the card.
    pub(super) fn new(shared: u64, card: Option<&Card>) -> Self {
        let host = Room::new(machine().map(|total| total.saturating_sub(shared)));
        Self { host, device: card.map(|card| Room::new(Some(card.capacity.free))) }
    }

    /// Waits for what a cell takes. All take of the host first, so that none waits for another that waits for it.
    pub(super) fn take(&self, job: &TrainingJob, data: &Data, fitted: &Fitted) -> Result<Shares<'_>, SessionFailure> {
        let need = fitted.need.total();
        let on_host = if self.device.is_some() { job.on_host(data, fitted)? } else { need };
        let host = self.host.take(on_host.saturating_sub(memory::shared(&data.set)));
        Ok(Shares { _host: host, _device: self.device.as_ref().map(|device| device.take(need)) })
    }
}

/// The memory that cells share.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<RoomUsage>,
    freed: Condvar,
    /// Bytes for all cells together; none where the machine does not say.
    total: Option<u64>,
}

#[derive(Debug, Default)]
struct RoomUsage {
    bytes: u64,
    cells: usize,
}

/// A part of the room, free again when it is dropped.
#[derive(Debug)]
pub(super) struct RoomShare<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Room {
    /// Room of so many bytes.
    pub(super) fn new(total: Option<u64>) -> Self {
        Self { state: Mutex::default(), freed: Condvar::new(), total }
    }

    /// Waits for so many bytes. A cell that is alone gets what it asks for: whether it fits was asked before.
    pub(super) fn take(&self, bytes: u64) -> RoomShare<'_> {
        let full = |taken: &mut RoomUsage| {
            let after = taken.bytes.saturating_add(bytes);
            taken.cells > 0 && self.total.is_some_and(|total| after > total)
        };
        let mut taken = self.freed.wait_while(self.taken(), full).unwrap_or_else(PoisonError::into_inner);
        taken.bytes = taken.bytes.saturating_add(bytes);
        taken.cells += 1;
        RoomShare { room: self, bytes }
    }

    /// The counters stay right if a thread that holds them panics: nothing between the two lines above can.
    fn taken(&self) -> MutexGuard<'_, RoomUsage> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RoomShare<'_> {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        taken.cells -= 1;
        drop(taken);
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let (room, now, most) = (Room::new(Some(10)), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [4, 5, 3, 6, 7, 2, 4, 5] {
                let (room, now, most) = (&room, &now, &most);
                scope.spawn(move || {
                    let _share = room.take(bytes);
                    most.fetch_max(now.fetch_add(bytes, Ordering::SeqCst) + bytes, Ordering::SeqCst);
                    std::thread::yield_now();
                    now.fetch_sub(bytes, Ordering::SeqCst);
                });
            }
        });
        assert!(most.into_inner() <= 10);
    }

    #[test]
    fn one_that_is_alone_is_never_kept_waiting() {
        let room = Room::new(Some(10));
        drop(room.take(1000));
        let _share = room.take(11);
        assert_eq!(room.taken().cells, 1);
        let unknown = Room::new(None);
        let _shares = [unknown.take(u64::MAX), unknown.take(u64::MAX)];
    }
}
