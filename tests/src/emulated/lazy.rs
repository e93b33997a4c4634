//! An emulated device that does later what it is told, as a GPU does: at the latest when the host waits.
//!
//! Bytes of the host go through a ring, and are read from there when their turn comes. So whatever relies on work that was only
//! asked for shows: a place in the ring that is used again too early, memory that is still in use, a result that the host reads before
//! it is there.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use rtc_base::rng::Key;
use rtc_cuda::device::{Device, DeviceCommand, GeneratedKernel, KernelTarget, MatrixProduct, RecordedGraph};

use super::{Emulated, Kernels, Options};

/// Bytes of the ring: so few that it begins anew often.
pub const RING: usize = 4 << 10;

/// The device.
pub struct Lazy {
    device: Emulated,
    work: RefCell<VecDeque<Work>>,
    ring: RefCell<Vec<u8>>,
    /// Where the free part of the ring begins.
    next: Cell<usize>,
    /// What says after which calls some work is done; without it the host has to wait for any.
    moments: Option<Key>,
    calls: Cell<u64>,
    wrong: Option<Wrong>,
    /// The first block of each size, for [`Wrong::GivesAgain`], and how often it was given.
    first: RefCell<BTreeMap<usize, u64>>,
    given: RefCell<BTreeMap<u64, usize>>,
}

/// How a device may be wrong: what a test must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The ring begins anew while it is still read.
    ForgetsToWait,
    /// The host is given what is there now.
    ReadsEarly,
    /// Bytes of the host arrive before commands that were asked for earlier.
    UploadsFirst,
    /// A block is given again that commands still use, as by a pool that takes an upload's block from those that are free.
    GivesAgain,
}

enum Work {
    Start(DeviceCommand),
    Replay(RecordedGraph),
    Upload { to: u64, at: usize, bytes: usize },
}

impl Lazy {
    /// A device that works when the host waits and, with a seed, at times that it draws.
    pub fn new(kernels: Arc<Kernels>, options: Options, seed: Option<u64>) -> Self {
        Self {
            device: Emulated::with(kernels, options),
            work: RefCell::default(),
            ring: RefCell::new(vec![0; RING]),
            next: Cell::default(),
            moments: seed.map(Key::new),
            calls: Cell::default(),
            wrong: None,
            first: RefCell::default(),
            given: RefCell::default(),
        }
    }

    /// A device that is wrong.
    pub fn wrong(kernels: Arc<Kernels>, options: Options, wrong: Wrong) -> Self {
        Self { wrong: Some(wrong), ..Self::new(kernels, options, None) }
    }

    fn is(&self, wrong: Wrong) -> bool {
        self.wrong == Some(wrong)
    }

    fn ask(&self, work: Work) {
        let is_upload = matches!(work, Work::Upload { .. });
        let mut all = self.work.borrow_mut();
        if is_upload && self.is(Wrong::UploadsFirst) {
            all.push_front(work);
        } else {
            all.push_back(work);
        }
        drop(all);
        self.calls.set(self.calls.get() + 1);
        if let Some(key) = self.moments
            && key.below(self.calls.get(), 4) == 0
        {
            let count = self.work.borrow().len() as u64;
            self.advance(key.stream("count").below(self.calls.get(), count + 1) as usize);
        }
    }

    /// Does the first of the work.
    fn advance(&self, count: usize) {
        for _ in 0..count {
            let Some(work) = self.work.borrow_mut().pop_front() else { return };
            match work {
                Work::Start(command) => self.device.start(&command),
                Work::Replay(graph) => self.device.replay(graph),
                Work::Upload { to, at, bytes } => self.device.upload(to, &self.ring.borrow()[at..at + bytes]),
            }
        }
    }

    fn wait(&self) {
        self.advance(usize::MAX);
        self.next.set(0);
    }
}

impl Device for Lazy {
    fn name(&self) -> String {
        "a lazy device".to_owned()
    }

    fn threads(&self) -> u32 {
        self.device.threads()
    }

    fn target(&self) -> KernelTarget {
        self.device.target()
    }

    fn prepare(&self, kernels: &[GeneratedKernel]) {
        self.device.prepare(kernels);
    }

    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let known = self.first.borrow().get(&bytes).copied().filter(|_| self.is(Wrong::GivesAgain));
        let at = known.map_or_else(|| self.device.allocate(bytes), Ok)?;
        self.first.borrow_mut().entry(bytes).or_insert(at);
        *self.given.borrow_mut().entry(at).or_default() += 1;
        Ok(at)
    }

    fn release(&self, at: u64, bytes: usize) {
        self.wait();
        let mut given = self.given.borrow_mut();
        let count = given.get_mut(&at).expect("it was taken");
        *count -= 1;
        if *count == 0 {
            given.remove(&at);
            self.device.release(at, bytes);
        }
    }

    fn upload(&self, to: u64, from: &[u8]) {
        if from.len() > RING {
            self.wait();
            return self.device.upload(to, from);
        }
        if self.next.get() + from.len() > RING {
            if !self.is(Wrong::ForgetsToWait) {
                self.wait();
            }
            self.next.set(0);
        }
        let at = self.next.replace(self.next.get() + from.len());
        self.ring.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        self.ask(Work::Upload { to, at, bytes: from.len() });
    }

    fn download(&self, from: u64, to: &mut [u8]) {
        if !self.is(Wrong::ReadsEarly) {
            self.wait();
        }
        self.device.download(from, to);
    }

    fn multiplies(&self, _: &MatrixProduct) -> bool {
        false
    }

    fn watches(&self) -> bool {
        self.device.watches()
    }

    fn start(&self, command: &DeviceCommand) {
        self.ask(Work::Start(command.clone()));
    }

    fn records(&self) -> bool {
        self.device.records()
    }

    fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph {
        self.device.record(commands)
    }

    fn replay(&self, graph: RecordedGraph) {
        self.ask(Work::Replay(graph));
    }

    fn forget(&self, graph: RecordedGraph) {
        self.wait();
        self.device.forget(graph);
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

impl fmt::Debug for Lazy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lazy")
    }
}
