//! A device that is none: the kernels of the GPU, compiled for the host by its C++ compiler and run there, thread by thread.
//!
//! What a kernel computes is tested so, and what the executor asks of it; not whether a GPU does what CUDA promises, nor how
//! fast. Memory begins as NaN, so what a kernel forgets to write shows.
#![allow(unsafe_code, reason = "the emulated device has addresses, as a device has")]

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use libloading::Library;
use rtc_runtime::cuda::device::{Arg, Command, Device, Generated, Graph, Shape, Target};

/// Threads of a block: two warps, so that warps differ.
const THREADS: u32 = 64;

const ALIGN: usize = 256;

type Launch = unsafe extern "C" fn(*const c_char, *const c_uint, c_uint, *const *const c_void) -> c_int;
type Parameters = unsafe extern "C" fn(*const c_char) -> c_uint;

/// The kernels as a library of the host.
pub struct Kernels {
    library: Library,
    names: BTreeSet<String>,
    /// Bytes of a number.
    size: usize,
}

/// The device; clones of the library may serve several.
pub struct Emulated {
    kernels: Arc<Kernels>,
    records: bool,
    target: Target,
    /// What was recorded: the commands as they were then.
    graphs: RefCell<BTreeMap<Graph, Vec<Command>>>,
    counts: Cell<Counts>,
    /// Bytes of its memory, and how many of them are taken.
    room: usize,
    taken: Cell<usize>,
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

/// The names of the kernels of a text, and whether the threads of each meet.
fn kernels(source: &str) -> Vec<(&str, bool)> {
    let kernel = |line| {
        let (word, rest): (&str, &str) = str::split_once(line, '(')?;
        let (name, _) = rest.split_once(')')?;
        ["KERNEL", "TEAM"].contains(&word).then_some((name, word == "TEAM"))
    };
    source.lines().filter_map(kernel).collect()
}

impl Kernels {
    /// Compiles all kernels that plans may use, those made for some plans among them, for numbers of the C++ type `real`.
    /// `None` where there is no compiler.
    ///
    /// # Panics
    /// When the kernels do not compile.
    pub fn compile(real: &str, made: &BTreeSet<Generated>) -> Option<Arc<Self>> {
        let made: String = made.iter().map(|kernel| kernel.source.as_str()).collect();
        let source = format!("{}{made}", rtc_runtime::cuda::kernels());
        let all = kernels(&source);
        let register: String = all.iter().map(|(name, team)| format!("REGISTER({name}, {team})\n")).collect();
        let folder = tempfile::tempdir().expect("a folder for the kernels");
        let (text, library) = (folder.path().join("kernels.cpp"), folder.path().join("kernels.so"));
        std::fs::write(&text, format!("{}{source}{register}", include_str!("shim.h"))).expect("the folder is ours");
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-o"];
        let real_type = format!("-DREAL={real}");
        let built =
            std::process::Command::new(&compiler).args(flags).args([&library, Path::new(&real_type), &text]).output();
        let built = match built {
            Ok(built) => built,
            Err(error) => {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{compiler}: {error}");
                return None;
            }
        };
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        // SAFETY: the library is the text above; loading it only fills a table.
        let library = unsafe { Library::new(&library) }.expect("it was just made");
        let names = all.iter().map(|(name, _)| (*name).to_owned()).collect();
        let size = if real == "double" { 8 } else { 4 };
        Some(Arc::new(Self { library, names, size }))
    }
}

impl Emulated {
    /// A device with these kernels, which records series that come again.
    pub fn new(kernels: Arc<Kernels>) -> Self {
        let (graphs, counts, taken) = (RefCell::default(), Cell::default(), Cell::default());
        Self { kernels, records: true, target: Target::default(), graphs, counts, room: usize::MAX, taken }
    }

    /// A device with these kernels and so many bytes of memory.
    pub fn with_room(kernels: Arc<Kernels>, bytes: usize) -> Self {
        Self { room: bytes, ..Self::new(kernels) }
    }

    /// A device with these kernels to which every command comes by itself.
    pub fn direct(kernels: Arc<Kernels>) -> Self {
        Self { records: false, ..Self::new(kernels) }
    }

    /// A device whose kernels were made for this.
    pub fn made_for(kernels: Arc<Kernels>, target: Target) -> Self {
        Self { target, ..Self::new(kernels) }
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

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn run(&self, command: &Command) {
        match command {
            Command::Launch { kernel, shape, args } => self.launch(kernel, *shape, args),
            Command::Product(_) => unreachable!("there is no library for products"),
            // SAFETY: the pool's blocks are as long as what is copied.
            Command::Copy { from, to, bytes } => unsafe { (*from as *const u8).copy_to(*to as *mut u8, *bytes) },
            // SAFETY: as above.
            Command::Clear { at, bytes } => unsafe { (*at as *mut u8).write_bytes(0, *bytes) },
        }
    }

    fn launch(&self, kernel: &str, shape: Shape, args: &[Arg]) {
        let value = |arg: &Arg| match arg {
            Arg::Address(at) => *at,
            Arg::Whole(n) => *n as u64,
            Arg::Int(n) => u64::from(*n as u32),
            Arg::Real(x) if self.kernels.size == 4 => u64::from((*x as f32).to_bits()),
            Arg::Real(x) => x.to_bits(),
            Arg::TooLarge(_) => unreachable!("the queue refuses it"),
        };
        let values: Vec<u64> = args.iter().map(value).collect();
        let places: Vec<*const c_void> = values.iter().map(|v| std::ptr::from_ref(v).cast()).collect();
        let name = CString::new(kernel).expect("names have no zeros");
        // SAFETY: the library has this function; the kernel reads as many arguments as it has, each of up to 8 bytes.
        let status = unsafe {
            let parameters =
                self.kernels.library.get::<Parameters>(b"rtc_emulated_parameters").expect("the shim has it");
            let expected = parameters(name.as_ptr());
            assert_eq!(args.len(), expected as usize, "`{kernel}` takes another number of arguments");
            let launch = self.kernels.library.get::<Launch>(b"rtc_emulated_launch").expect("the shim has it");
            launch(name.as_ptr(), shape.grid.as_ptr(), shape.threads, places.as_ptr())
        };
        assert_eq!(status, 0, "there is no kernel `{kernel}`");
    }
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes.max(1), ALIGN).expect("sizes are small")
}

impl Device for Emulated {
    fn name(&self) -> String {
        "the emulated device".to_owned()
    }

    fn threads(&self) -> u32 {
        THREADS
    }

    fn target(&self) -> Target {
        self.target
    }

    fn prepare(&self, kernels: &[Generated]) {
        for kernel in kernels {
            assert!(self.kernels.names.contains(&kernel.name), "{} was not compiled", kernel.name);
        }
    }

    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let taken = self.taken.get() + bytes;
        if taken > self.room {
            return Err(format!("the emulated device has no room for {bytes} bytes more"));
        }
        self.taken.set(taken);
        // SAFETY: the layout is not empty; the bytes are set before anybody reads them.
        unsafe {
            let place = std::alloc::alloc(layout(bytes));
            assert!(!place.is_null(), "the host has memory");
            place.write_bytes(0xFF, bytes);
            Ok(place as u64)
        }
    }

    fn release(&self, at: u64, bytes: usize) {
        self.taken.set(self.taken.get() - bytes);
        // SAFETY: the pool gives back what it took.
        unsafe { std::alloc::dealloc(at as *mut u8, layout(bytes)) }
    }

    fn upload(&self, to: u64, from: &[u8]) {
        // SAFETY: the pool's blocks are as long as what is copied to them.
        unsafe { (to as *mut u8).copy_from(from.as_ptr(), from.len()) }
    }

    fn download(&self, from: u64, to: &mut [u8]) {
        // SAFETY: as above.
        unsafe { (from as *const u8).copy_to(to.as_mut_ptr(), to.len()) }
    }

    fn multiplies(&self) -> bool {
        false
    }

    fn start(&self, command: &Command) {
        self.count(|counts| counts.started += 1);
        self.run(command);
    }

    fn records(&self) -> bool {
        self.records
    }

    fn record(&self, commands: &[Command]) -> Graph {
        let mut graphs = self.graphs.borrow_mut();
        let graph = Graph(graphs.last_key_value().map_or(0, |(last, _)| last.0 + 1));
        graphs.insert(graph, commands.to_vec());
        self.count(|counts| counts.recorded += 1);
        graph
    }

    fn replay(&self, graph: Graph) {
        let graphs = self.graphs.borrow();
        let commands = &graphs[&graph];
        self.count(|counts| counts.replayed += commands.len() as u64);
        commands.iter().for_each(|command| self.run(command));
    }

    fn forget(&self, graph: Graph) {
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

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels({})", self.names.len())
    }
}
