//! A GPU through NVIDIA's driver: memory, launches, and the matrix products of cuBLASLt.
//!
//! The three libraries (driver, NVRTC, cuBLASLt) are opened when a device is asked for, so the program starts without them. All
//! work goes through one stream, in order. Series of commands are recorded as CUDA graphs, by capturing that stream.

mod blas;
pub mod compile;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::device::{
    Capacity, Device, DeviceCommand, GeneratedKernel, KernelArgument, KernelTarget, LaunchShape, MatrixProduct,
    RecordedGraph,
};
use super::saved::Saved;
use super::{Launching, kernels, known_results};
use blas::Blas;
use rtc_kernel::Precision;

/// Threads of a block.
const THREADS: u32 = 256;

/// How many generated kernels are compiled as one text.
const TOGETHER: usize = 8;

/// Bytes of the ring through which small copies to the device go.
const RING: usize = 16 << 20;

/// Bytes that are left free: the driver takes memory of its own for graphs and for kernels when they are first needed.
const LEFT: usize = 256 << 20;

/// A release of CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    major: i32,
    minor: i32,
}

/// A GPU.
pub struct Gpu {
    name: String,
    /// The newest release of CUDA that the driver knows.
    driver: Release,
    capability: compile::Capability,
    stream: sys::CUstream,
    blas: Blas,
    precision: Precision,
    launching: Launching,
    /// Where the kernels lie, until this is dropped.
    modules: RefCell<Vec<sys::CUmodule>>,
    functions: RefCell<BTreeMap<String, sys::CUfunction>>,
    graphs: RefCell<BTreeMap<RecordedGraph, sys::CUgraphExec>>,
    /// Graphs that were ever recorded.
    recorded: Cell<u64>,
    /// Memory of the host that the device reads from while the host goes on.
    ring: *mut u8,
    /// Where the free part of the ring begins.
    next: Cell<usize>,
    failure: RefCell<Option<String>>,
}

impl Gpu {
    /// The first GPU of this machine.
    ///
    /// # Errors
    /// One sentence that says what is missing.
    pub fn open(precision: Precision, launching: Launching) -> Result<Rc<dyn Device>, String> {
        let gpu = Self::open_number(0, precision, launching)?;
        Ok(gpu)
    }

    /// The GPU of a process that is one of several on this machine, by its number among them: one after the other, and from the first one
    /// again where there are fewer GPUs.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_for(process: usize, precision: Precision, launching: Launching) -> Result<Rc<dyn Device>, String> {
        let known = is_there() && result::init().is_ok();
        let count = if known { result::device::get_count().unwrap_or(0) } else { 0 };
        let number = usize::try_from(count).ok().filter(|count| *count > 0).map_or(0, |count| process % count);
        let gpu: Rc<dyn Device> = Self::open_number(number, precision, launching)?;
        // A stand-in for a driver computes nothing, and shows what is asked of one.
        if std::env::var_os("RTC_UNCHECKED_DEVICE").is_none() {
            known_results::check(&gpu)?;
        }
        Ok(gpu)
    }

    /// The GPU of this number, from 0, in the context that all libraries of the process share.
    ///
    /// # Errors
    /// One sentence that says what is missing.
    pub fn open_number(number: usize, precision: Precision, launching: Launching) -> Result<Rc<Self>, String> {
        if !is_there() {
            return Err("there is no NVIDIA driver on this machine (libcuda.so.1)".to_owned());
        }
        let nothing = |error: DriverError| format!("the NVIDIA driver gives no device: {}", told(error));
        result::init().map_err(nothing)?;
        let count = result::device::get_count().map_err(nothing)?;
        let number = i32::try_from(number).ok().filter(|number| *number < count);
        let number = number.ok_or_else(|| match count {
            0 => "the NVIDIA driver knows no device; CUDA_VISIBLE_DEVICES may hide it".to_owned(),
            count => format!("the NVIDIA driver knows {count} devices, counted from 0: there is no such one"),
        })?;
        if !compile::is_there() {
            return Err(missing("NVRTC", "libnvrtc.so.13"));
        }
        if !blas::is_there() {
            return Err(missing("cuBLASLt", "libcublasLt.so.13"));
        }
        let driver = release().map_err(nothing)?;
        let device = result::device::get(number).map_err(nothing)?;
        // SAFETY: the device is there; the context stays for as long as the process.
        unsafe {
            let context = result::primary_ctx::retain(device).map_err(nothing)?;
            result::ctx::set_current(context).map_err(nothing)?;
            let attribute = |which| result::device::get_attribute(device, which).map_err(nothing);
            let major = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            let stream = result::stream::create(result::stream::StreamKind::NonBlocking).map_err(nothing)?;
            let gpu = Self {
                name: result::device::get_name(device).map_err(nothing)?,
                driver,
                capability: 10 * major + minor,
                stream,
                blas: Blas::new(stream, precision)?,
                precision,
                launching,
                modules: RefCell::default(),
                functions: RefCell::default(),
                graphs: RefCell::default(),
                recorded: Cell::default(),
                ring: result::malloc_host(RING, 0).map_err(nothing)?.cast(),
                next: Cell::new(0),
                failure: RefCell::default(),
            };
            gpu.load(&[kernels()])?;
            Ok(Rc::new(gpu))
        }
    }

    /// Lets all that is started from now on wait for what `stream`, of any library in the same context, was given so far.
    pub fn wait_for(&self, stream: sys::CUstream) {
        self.note("waiting for another stream", in_order(stream, self.stream));
    }

    /// Lets all that `stream` is given from now on wait for what was started so far.
    pub fn hold_back(&self, stream: sys::CUstream) {
        self.note("holding another stream back", in_order(self.stream, stream));
    }

    /// Makes the kernels of texts ready, each from code that was compiled before where there is any.
    fn load(&self, sources: &[String]) -> Result<(), String> {
        /// One after the other: of models that are made side by side and need the same kernels one compiles them, and the others find them.
        static LOADING: Mutex<()> = Mutex::new(());
        let _turn = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = sources.iter().map(|source| compile::key(source, self.capability));
        let keys = keys.collect::<Result<Vec<_>, String>>()?;
        let keys: Vec<_> = keys.iter().map(|key| [&key[0], &key[1], &key[2]].map(String::as_str)).collect();
        let saved = Saved::of_user();
        // SAFETY: the code is as it was saved, and was whole then.
        let before = |key: &[&str; 3]| saved.get(key).and_then(|code| unsafe { module(&code) }.ok());
        let mut modules: Vec<Option<sys::CUmodule>> = keys.iter().map(before).collect();
        let missing: Vec<usize> = (0..sources.len()).filter(|n| modules[*n].is_none()).collect();
        let texts: Vec<&str> = missing.iter().map(|n| sources[*n].as_str()).collect();
        let keep = |n: usize, code: &[u8]| saved.put(&keys[missing[n]], code);
        for (n, code) in missing.iter().zip(compile::all(&texts, self.capability, keep)) {
            let code = code?;
            let compiler = compile::release()?;
            // SAFETY: the compiler made the code.
            let made = unsafe { module(&code) }.map_err(|error| not_loaded(&told(error), self.driver, compiler))?;
            modules[*n] = Some(made);
        }
        for (module, source) in modules.into_iter().flatten().zip(sources) {
            self.modules.borrow_mut().push(module);
            self.find(module, source)?;
        }
        Ok(())
    }

    /// Finds the kernels of a text in its module.
    fn find(&self, module: sys::CUmodule, source: &str) -> Result<(), String> {
        for line in source.lines() {
            let Some((word, rest)) = line.split_once('(') else { continue };
            let Some((name, _)) = rest.split_once(')').filter(|_| ["KERNEL", "TEAM"].contains(&word)) else {
                continue;
            };
            let symbol = CString::new(format!("rtc_{name}")).map_err(|error| error.to_string())?;
            let failed = |error: DriverError| format!("the kernel `{name}` can't be found: {}", told(error));
            // SAFETY: modules stay loaded as long as this lives.
            let function = unsafe { result::module::get_function(module, symbol) }.map_err(failed)?;
            self.functions.borrow_mut().insert(name.to_owned(), function);
        }
        Ok(())
    }

    /// Keeps the first failure.
    fn note(&self, what: &str, outcome: Result<(), DriverError>) {
        if let Err(error) = outcome {
            let how = if is_of_kernel(error) { FIND } else { "" };
            self.fail(format!("{} failed ({what}): {}{how}", self.name, told(error)));
        }
    }

    fn fail(&self, message: String) {
        self.failure.borrow_mut().get_or_insert(message);
    }

    fn failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    fn synchronize(&self) {
        // SAFETY: the stream lives as long as this.
        self.note("waiting", unsafe { result::stream::synchronize(self.stream) });
        self.next.set(0);
    }

    fn launch(&self, kernel: &str, shape: LaunchShape, args: &[KernelArgument]) {
        let Some(function) = self.functions.borrow().get(kernel).copied() else {
            return self.fail(format!("there is no kernel `{kernel}`"));
        };
        let value = |arg: &KernelArgument| match arg {
            KernelArgument::Address(at) => *at,
            KernelArgument::Whole(n) => *n as u64,
            KernelArgument::Int(n) => u64::from(*n as u32),
            KernelArgument::Real(x) => u64::from((*x as f32).to_bits()),
            KernelArgument::TooLarge(_) => unreachable!("the queue refuses it"),
        };
        let mut values: Vec<u64> = args.iter().map(value).collect();
        let mut places: Vec<*mut c_void> = values.iter_mut().map(|value| (&raw mut *value).cast()).collect();
        let [x, y, z] = shape.grid;
        // SAFETY: every kernel is given what its parameters ask for; addresses are of arrays that nobody uses again before.
        let outcome =
            unsafe { result::launch_kernel(function, (x, y, z), (shape.threads, 1, 1), 0, self.stream, &mut places) };
        self.note(kernel, outcome);
    }

    fn multiply(&self, product: &MatrixProduct) {
        if let Err(error) = self.blas.multiply(product) {
            self.fail(format!("{} failed (a product): {error}", self.name));
        }
    }

    /// Everything that these commands start, as a graph that can be launched.
    fn captured(&self, commands: &[DeviceCommand]) -> Result<sys::CUgraphExec, DriverError> {
        // Whatever else this thread asks of the driver meanwhile is no part of the graph, and allowed.
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream lives; the graph is used by nobody else, and not needed once it is instantiated.
        unsafe {
            result::stream::begin_capture(self.stream, mode)?;
            commands.iter().for_each(|command| self.start(command));
            let graph = result::stream::end_capture(self.stream)?;
            let made = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            made
        }
    }
}

/// Lets what `second` is given from now on wait for what `first` was given so far.
fn in_order(first: sys::CUstream, second: sys::CUstream) -> Result<(), DriverError> {
    let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
    // SAFETY: both streams live; the driver keeps an event until it was waited for.
    unsafe {
        let done = result::event::record(event, first)
            .and_then(|()| result::stream::wait_event(second, event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT));
        done.and(result::event::destroy(event))
    }
}

/// Whether the driver is on this machine.
#[cfg(not(feature = "linked"))]
fn is_there() -> bool {
    // SAFETY: opening the library runs nothing but its own start. Without it, every call would panic.
    unsafe { sys::is_culib_present() }
}

/// A program that is linked with the driver would not run without it.
#[cfg(feature = "linked")]
fn is_there() -> bool {
    true
}

/// Loads code, which has an end mark where it is text.
///
/// # Safety
/// The code must be whole.
unsafe fn module(code: &[u8]) -> Result<sys::CUmodule, DriverError> {
    // SAFETY: as the caller says.
    unsafe { result::module::load_data(code.as_ptr().cast()) }
}

/// The release of the driver.
fn release() -> Result<Release, DriverError> {
    let mut version = 0;
    // SAFETY: the driver writes a number.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(Release { major: version / 1000, minor: version % 1000 / 10 })
}

/// What is said where code of this compiler can't be loaded by this driver.
fn not_loaded(why: &str, driver: Release, compiler: Release) -> String {
    let newer = if compiler.major > driver.major {
        ": name the folder of an older NVRTC first in LD_LIBRARY_PATH, or update the driver"
    } else {
        ""
    };
    format!(
        "the kernels can't be loaded: {why}; the driver knows CUDA {driver}, and NVRTC is of CUDA {compiler}{newer}"
    )
}

/// Whether it is a fault of a kernel. It shows in whatever is asked of the driver next.
fn is_of_kernel(error: DriverError) -> bool {
    use sys::CUresult as Code;
    matches!(
        error.0,
        Code::CUDA_ERROR_ILLEGAL_ADDRESS
            | Code::CUDA_ERROR_LAUNCH_TIMEOUT
            | Code::CUDA_ERROR_ASSERT
            | Code::CUDA_ERROR_HARDWARE_STACK_ERROR
            | Code::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | Code::CUDA_ERROR_MISALIGNED_ADDRESS
            | Code::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | Code::CUDA_ERROR_INVALID_PC
            | Code::CUDA_ERROR_LAUNCH_FAILED
    )
}

/// How the kernel of a fault is found.
const FIND: &str = "; the fault is of a kernel that was started before: with `--launch direct` and CUDA_LAUNCH_BLOCKING=1 set, the \
     same command names it, and `compute-sanitizer` in front of it names the line";

/// What the driver says about an error, in its words and by its name.
fn told(error: DriverError) -> String {
    let text = |found: Result<&std::ffi::CStr, DriverError>| found.map(|text| text.to_string_lossy().into_owned());
    match (text(error.error_string()), text(error.error_name())) {
        (Ok(words), Ok(name)) => format!("{words} ({name})"),
        _ => format!("error {}", error.0 as u32),
    }
}

fn missing(what: &str, file: &str) -> String {
    format!("there is no {what} library ({file}): name its folder in LD_LIBRARY_PATH, see `rtc docs cuda`")
}

impl Device for Gpu {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn threads(&self) -> u32 {
        THREADS
    }

    fn target(&self) -> KernelTarget {
        KernelTarget { precision: self.precision, fixed_sizes: true }
    }

    fn capacity(&self) -> Option<Capacity> {
        let (free, total) = result::mem_get_info().ok()?;
        Some(Capacity { free: free.saturating_sub(LEFT) as u64, total: total.saturating_sub(LEFT) as u64 })
    }

    fn prepare(&self, kernels: &[GeneratedKernel]) {
        let known = |kernel: &&GeneratedKernel| !self.functions.borrow().contains_key(&kernel.name);
        let new: Vec<&str> = kernels.iter().filter(known).map(|kernel| kernel.source.as_str()).collect();
        if new.is_empty() || self.failed() {
            return;
        }
        // The same texts on every machine, so that code compiled on one is found by others.
        let texts: Vec<String> =
            new.chunks(TOGETHER).map(|kernels| format!("{}{}", super::sources::BASE, kernels.concat())).collect();
        if let Err(message) = self.load(&texts) {
            self.fail(message);
        }
    }

    fn allocate(&self, bytes: usize) -> Result<u64, String> {
        let asked = result::mem_get_info();
        self.note("asking for memory", asked.map(|_| ()));
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let (free, total) = asked.unwrap_or_default();
        let no_room = |why: &str| {
            let mib = |bytes: usize| bytes >> 20;
            format!(
                "{} has no room for {} MiB more ({} of {} MiB are free{why}): take smaller batches, or `--memory`",
                self.name,
                mib(bytes),
                mib(free),
                mib(total),
            )
        };
        if free < bytes.saturating_add(LEFT) {
            return Err(no_room(&format!(", of which {} MiB are left to the driver", LEFT >> 20)));
        }
        // SAFETY: a plain request.
        unsafe { result::malloc_sync(bytes) }.map_err(|error| no_room(&format!("; {}", told(error))))
    }

    fn release(&self, at: u64, _: usize) {
        self.synchronize();
        // SAFETY: the pool gives back what it took, once, and nothing runs that uses it.
        self.note("giving memory back", unsafe { result::free_sync(at) });
    }

    fn upload(&self, to: u64, from: &[u8]) {
        if self.failed() || from.is_empty() {
            return;
        }
        if from.len() > RING {
            // SAFETY: the target is as long; the bytes live until the stream has read them.
            self.note("a copy", unsafe { result::memcpy_htod_async(to, from, self.stream) });
            return self.synchronize();
        }
        let mut at = self.next.get();
        if at + from.len() > RING {
            self.synchronize();
            at = 0;
        }
        self.next.set((at + from.len()).next_multiple_of(256).min(RING));
        // SAFETY: this part of the ring is read by no copy that has not ended, and the target is as long.
        unsafe {
            let staged = std::slice::from_raw_parts_mut(self.ring.add(at), from.len());
            staged.copy_from_slice(from);
            self.note("a copy", result::memcpy_htod_async(to, staged, self.stream));
        }
    }

    fn download(&self, from: u64, to: &mut [u8]) {
        if self.failed() {
            return to.fill(0);
        }
        // SAFETY: the source is as long; the bytes are looked at after the stream has written them.
        self.note("a copy", unsafe { result::memcpy_dtoh_async(to, from, self.stream) });
        self.synchronize();
    }

    fn multiplies(&self, product: &MatrixProduct) -> bool {
        self.blas.can(product)
    }

    fn start(&self, command: &DeviceCommand) {
        if self.failed() {
            return;
        }
        match command {
            DeviceCommand::Launch { kernel, shape, args } => self.launch(kernel, *shape, args),
            DeviceCommand::Product(product) => self.multiply(product),
            DeviceCommand::Copy { bytes: 0, .. }
            | DeviceCommand::Clear { bytes: 0, .. }
            | DeviceCommand::Taken { .. } => {}
            DeviceCommand::Copy { from, to, bytes } => {
                // SAFETY: both are as long.
                self.note("a copy", unsafe { result::memcpy_dtod_async(*to, *from, *bytes, self.stream) });
            }
            DeviceCommand::Clear { at, bytes } => {
                // SAFETY: it is as long.
                self.note("clearing", unsafe { result::memset_d8_async(*at, 0, *bytes, self.stream) });
            }
        }
    }

    fn records(&self) -> bool {
        self.launching == Launching::Graph
    }

    fn record(&self, commands: &[DeviceCommand]) -> RecordedGraph {
        self.recorded.set(self.recorded.get() + 1);
        let graph = RecordedGraph(self.recorded.get());
        if !self.failed() {
            match self.captured(commands) {
                Ok(made) => drop(self.graphs.borrow_mut().insert(graph, made)),
                Err(error) => self.fail(format!(
                    "{} can't record a graph of {} commands: {}; `--launch direct` needs none",
                    self.name,
                    commands.len(),
                    told(error)
                )),
            }
        }
        graph
    }

    fn replay(&self, graph: RecordedGraph) {
        if self.failed() {
            return;
        }
        match self.graphs.borrow().get(&graph) {
            // SAFETY: the graph is whole, and what it reads and writes belongs to who recorded it.
            Some(made) => self.note("a graph", unsafe { result::graph::launch(*made, self.stream) }),
            None => self.fail("a graph is asked for that was not recorded".to_owned()),
        }
    }

    fn forget(&self, graph: RecordedGraph) {
        if let Some(made) = self.graphs.borrow_mut().remove(&graph) {
            // SAFETY: nobody launches it again; the driver waits for what still runs.
            self.note("letting a graph go", unsafe { result::graph::exec_destroy(made) });
        }
    }

    fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more. What fails here is lost with the process.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            for graph in self.graphs.get_mut().values() {
                let _ = result::graph::exec_destroy(*graph);
            }
            for module in self.modules.get_mut() {
                let _ = result::module::unload(*module);
            }
            let _ = result::free_host(self.ring.cast());
            let _ = result::stream::destroy(self.stream);
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gpu({}, sm_{})", self.name, self.capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_are_too_new_for_the_driver_say_so() {
        let [old, new] = [Release { major: 12, minor: 4 }, Release { major: 13, minor: 0 }];
        let said = not_loaded("no", old, new);
        assert!(said.contains("driver knows CUDA 12.4") && said.contains("NVRTC is of CUDA 13.0"), "{said}");
        assert!(said.contains("an older NVRTC first in LD_LIBRARY_PATH"), "{said}");
        assert!(!not_loaded("no", new, old).contains("LD_LIBRARY_PATH"), "that is not the cause");
    }
}
