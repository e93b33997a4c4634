//! A device that is none: the kernels of the GPU, compiled for the host by its C++ compiler and run there, thread by thread.
//!
//! What a kernel computes is tested so, and what the executor asks of it; not whether a GPU does what CUDA promises, nor how
//! fast. What a GPU forbids ends a test: an access outside of memory, a launch beyond the limits, threads that do not meet.
//! Memory begins as NaN, so what a kernel forgets to write shows; with [`Options::watches`] it does so whenever it is handed out again.
//!
//! - `shim.h`: the threads of a block on the host, in rising order or another one.
//! - `races.cpp`: finds accesses that a device does not order, in kernels that were compiled by [`Kernels::checked`].
//! - [`lazy`]: a device that does later what it is told.
//! - [`failing`]: a device on which something fails.
#![allow(unsafe_code, reason = "the emulated device has addresses, as a device has")]

pub mod failing;
pub mod lazy;
mod library;
pub mod limits;
mod memory;
pub mod pretended;
mod text;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_void};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

pub use library::{Kernels, source};
use memory::Memory;
use rtc_cuda::device::{
    Device, DeviceCommand, GeneratedKernel, KernelArgument, KernelTarget, LaunchShape, MatrixProduct, RecordedGraph,
};

/// The device; clones of the library may serve several.
pub struct Emulated {
    kernels: Arc<Kernels>,
    options: Options,
    memory: Memory,
    /// What was recorded: the commands as they were then.
    graphs: RefCell<BTreeMap<RecordedGraph, Vec<DeviceCommand>>>,
    counts: Cell<Counts>,
    /// Bytes of its memory that are taken.
    taken: Cell<usize>,
    most: Cell<usize>,
    launches: Cell<u64>,
    launched: RefCell<BTreeSet<Rc<str>>>,
}

/// How a device is.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads of a block.
    pub threads: u32,
    /// Whether series that come again are recorded.
    pub records: bool,
    /// The seed of the order in which blocks, warps and threads run; 0 for rising.
    pub order: u64,
    /// Whether it is told when memory is handed out again, which becomes NaN then.
    pub watches: bool,
    /// What its kernels are made for.
    pub target: KernelTarget,
    /// Bytes of its memory.
    pub room: usize,
}

impl Default for Options {
    /// Two warps, so that warps differ.
    fn default() -> Self {
        Self { threads: 64, records: true, order: 0, watches: false, target: KernelTarget::default(), room: usize::MAX }
    }
}

/// How commands came to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// One by one.
    pub started: u64,
    /// In series that were recorded.
    pub replayed: u64,
    /// Series that were ever recorded.
    pub recorded: u64,
    /// Series that are recorded now.
    pub kept: u64,
}

impl Emulated {
    /// A device with these kernels, which records series that come again.
    pub fn new(kernels: Arc<Kernels>) -> Self {
        Self::with(kernels, Options::default())
    }

    /// A device with these kernels and so many bytes of memory.
    pub fn with_room(kernels: Arc<Kernels>, bytes: usize) -> Self {
        Self::with(kernels, Options { room: bytes, ..Options::default() })
    }

    /// A device with these kernels to which every command comes by itself.
    pub fn direct(kernels: Arc<Kernels>) -> Self {
        Self::with(kernels, Options { records: false, ..Options::default() })
    }

    /// A device with these kernels.
    pub fn with(kernels: Arc<Kernels>, options: Options) -> Self {
        Self {
            kernels,
            options,
            memory: Memory::default(),
            graphs: RefCell::default(),
            counts: Cell::default(),
            taken: Cell::default(),
            most: Cell::default(),
            launches: Cell::default(),
            launched: RefCell::default(),
        }
    }

    /// A device whose kernels were made for this.
    pub fn made_for(kernels: Arc<Kernels>, target: KernelTarget) -> Self {
        Self::with(kernels, Options { target, ..Options::default() })
    }

    /// How commands came since this was last asked; what is kept is counted as it is.
    pub fn counts(&self) -> Counts {
        let kept = self.graphs.borrow().len() as u64;
        Counts { kept, ..self.counts.take() }
    }

    /// Bytes that are taken now.
    pub fn taken(&self) -> usize {
        self.taken.get()
    }

    /// The most bytes that were ever taken.
    pub fn most_taken(&self) -> usize {
        self.most.get()
    }

    /// The kernels that ran so far.
    pub fn launched(&self) -> BTreeSet<String> {
        self.launched.borrow().iter().map(ToString::to_string).collect()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn run(&self, command: &DeviceCommand) {
        match command {
            DeviceCommand::Launch { kernel, shape, args } => self.launch(kernel, *shape, args),
            DeviceCommand::Product(_) => unreachable!("there is no library for products"),
            DeviceCommand::Copy { from, to, bytes } => {
                self.memory.check("a copy", *from, *bytes);
                self.memory.check("a copy", *to, *bytes);
                // SAFETY: both are memory of this device.
                unsafe { (*from as *const u8).copy_to(*to as *mut u8, *bytes) }
            }
            DeviceCommand::Clear { at, bytes } => self.fill("clearing", *at, *bytes, 0),
            DeviceCommand::Taken { at, bytes } => {
                let block = self.memory.check("taking", *at, *bytes);
                self.fill("taking", *at, block, 0xFF);
                self.kernels.checker().inspect(|checker| checker.used(*at, *bytes));
            }
        }
    }

    fn fill(&self, what: &str, at: u64, bytes: usize, value: u8) {
        self.memory.check(what, at, bytes);
        // SAFETY: it is memory of this device.
        unsafe { (at as *mut u8).write_bytes(value, bytes) }
    }

    fn launch(&self, kernel: &Rc<str>, shape: LaunchShape, args: &[KernelArgument]) {
        limits::launch(shape).unwrap_or_else(|problem| panic!("`{kernel}`: {problem}"));
        let value = |arg: &KernelArgument| match arg {
            KernelArgument::Address(at) => {
                if *at != 0 {
                    self.memory.check(kernel, *at, 0);
                }
                *at
            }
            KernelArgument::Whole(n) => *n as u64,
            KernelArgument::Int(n) => u64::from(*n as u32),
            KernelArgument::Real(x) if self.kernels.is_single() => u64::from((*x as f32).to_bits()),
            KernelArgument::Real(x) => x.to_bits(),
            KernelArgument::TooLarge(_) => unreachable!("the queue refuses it"),
        };
        let values: Vec<u64> = args.iter().map(value).collect();
        let places: Vec<*const c_void> = values.iter().map(|v| std::ptr::from_ref(v).cast()).collect();
        let name = CString::new(&**kernel).expect("names have no zeros");
        // Another order for every launch.
        self.launches.set(self.launches.get() + 1);
        let order = if self.options.order == 0 { 0 } else { self.options.order << 40 | self.launches.get() };
        let shared = self.kernels.launch(&name, shape, order, &places);
        let shared = shared.unwrap_or_else(|problem| panic!("`{kernel}`: {problem}"));
        if self.kernels.is_single() {
            limits::shared(shared).unwrap_or_else(|problem| panic!("`{kernel}`: {problem}"));
        }
        if !self.launched.borrow().contains(kernel) {
            self.launched.borrow_mut().insert(kernel.clone());
        }
    }
}

impl Device for Emulated {
    fn name(&self) -> String {
        "the emulated device".to_owned()
    }

    fn threads(&self) -> u32 {
        self.options.threads
    }

    fn target(&self) -> KernelTarget {
        self.options.target
    }

    fn prepare(&self, kernels: &[GeneratedKernel]) {
        for kernel in kernels {
            assert!(self.kernels.has(&kernel.name), "{} was not compiled", kernel.name);
        }
    }

    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let taken = self.taken.get() + bytes;
        if taken > self.options.room {
            return Err(format!("the emulated device has no room for {bytes} bytes more"));
        }
        self.taken.set(taken);
        self.most.set(self.most.get().max(taken));
        let at = self.memory.allocate(bytes);
        self.kernels.checker().inspect(|checker| checker.taken(at, bytes));
        Ok(at)
    }

    fn release(&self, at: u64, bytes: usize) {
        self.taken.set(self.taken.get() - bytes);
        self.kernels.checker().inspect(|checker| checker.released(at));
        self.memory.release(at, bytes);
    }

    fn upload(&self, to: u64, from: &[u8]) {
        self.memory.check("an upload", to, from.len());
        // SAFETY: it is memory of this device.
        unsafe { (to as *mut u8).copy_from(from.as_ptr(), from.len()) }
    }

    fn download(&self, from: u64, to: &mut [u8]) {
        self.memory.check("a download", from, to.len());
        // SAFETY: it is memory of this device.
        unsafe { (from as *const u8).copy_to(to.as_mut_ptr(), to.len()) }
    }

    fn multiplies(&self, _: &MatrixProduct) -> bool {
        false
    }

    fn watches(&self) -> bool {
        self.options.watches
    }

    fn start(&self, command: &DeviceCommand) {
        if !matches!(command, DeviceCommand::Taken { .. }) {
            self.count(|counts| counts.started += 1);
        }
        self.run(command);
    }

    fn records(&self) -> bool {
        self.options.records
    }

    fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph {
        let mut graphs = self.graphs.borrow_mut();
        let graph = RecordedGraph(graphs.last_key_value().map_or(0, |(last, _)| last.0 + 1));
        graphs.insert(graph, commands.to_vec());
        self.count(|counts| counts.recorded += 1);
        graph
    }

    fn replay(&self, graph: RecordedGraph) {
        let graphs = self.graphs.borrow();
        let commands = &graphs[&graph];
        self.count(|counts| counts.replayed += commands.len() as u64);
        commands.iter().for_each(|command| self.run(command));
    }

    fn forget(&self, graph: RecordedGraph) {
        assert!(self.graphs.borrow_mut().remove(&graph).is_some(), "a graph goes once");
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

impl fmt::Debug for Emulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Emulated")
    }
}
