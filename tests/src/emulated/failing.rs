//! An emulated device on which something fails, as a GPU does: from then on it does nothing, and says what it was.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

use rtc_cuda::device::{Device, DeviceCommand, GeneratedKernel, KernelTarget, MatrixProduct, RecordedGraph};

use super::{Emulated, Kernels, Options};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Memory that is asked for.
    Allocation,
    /// A command, or a series that is replayed.
    Launch,
    /// A series that is recorded.
    Capture,
    /// Bytes of the host that are sent.
    Upload,
    /// Waiting, where a device tells of what failed before.
    Wait,
}

/// The device.
pub struct Failing {
    device: Emulated,
    call: Call,
    /// How many of these calls go well from now on.
    left: Cell<usize>,
    /// Whether it does nothing that it is told to, and says nothing.
    idle: bool,
    failure: RefCell<Option<String>>,
}

impl Failing {
    /// A device whose calls of this kind fail when so many went well.
    pub fn new(kernels: Arc<Kernels>, options: Options, call: Call, after: usize) -> Self {
        let (device, left) = (Emulated::with(kernels, options), Cell::new(after));
        Self { device, call, left, idle: false, failure: RefCell::default() }
    }

    /// A device that takes every command, does none of them, and has no failure.
    pub fn idle(kernels: Arc<Kernels>, options: Options) -> Self {
        Self { idle: true, ..Self::new(kernels, options, Call::Launch, usize::MAX) }
    }

    /// Whether there is memory: where there is none nothing else fails, and whoever asked may give some back.
    fn has_room(&self) -> bool {
        if self.call != Call::Allocation {
            return true;
        }
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.is_some()
    }

    /// Whether a call may be done.
    fn goes(&self, call: Call) -> bool {
        if self.failure.borrow().is_some() {
            return false;
        }
        if call != self.call {
            return true;
        }
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => *self.failure.borrow_mut() = Some(Self::message(call)),
        }
        self.failure.borrow().is_none()
    }

    /// What it says when a call has failed.
    pub fn message(call: Call) -> String {
        format!("a failing device failed: {call:?}")
    }
}

impl Device for Failing {
    fn name(&self) -> String {
        "a failing device".to_owned()
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
        if self.has_room() { self.device.allocate(bytes) } else { Err(Self::message(Call::Allocation)) }
    }

    fn release(&self, at: u64, bytes: usize) {
        self.device.release(at, bytes);
    }

    fn upload(&self, to: u64, from: &[u8]) {
        if self.goes(Call::Upload) {
            self.device.upload(to, from);
        }
    }

    fn download(&self, from: u64, to: &mut [u8]) {
        if self.goes(Call::Wait) {
            self.device.download(from, to);
        } else {
            to.fill(0);
        }
    }

    fn multiplies(&self, _: &MatrixProduct) -> bool {
        false
    }

    fn watches(&self) -> bool {
        self.device.watches()
    }

    fn start(&self, command: &DeviceCommand) {
        if self.goes(Call::Launch) && !self.idle {
            self.device.start(command);
        }
    }

    fn records(&self) -> bool {
        self.device.records()
    }

    fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph {
        // A series that could not be recorded has a number, too.
        self.goes(Call::Capture);
        self.device.record(commands)
    }

    fn replay(&self, graph: RecordedGraph) {
        if self.goes(Call::Launch) {
            self.device.replay(graph);
        }
    }

    fn forget(&self, graph: RecordedGraph) {
        self.device.forget(graph);
    }

    fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}

impl fmt::Debug for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Failing({:?})", self.call)
    }
}
