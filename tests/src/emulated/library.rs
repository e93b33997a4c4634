//! Kernels as a library of the host.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::io::ErrorKind;
use std::num::NonZero;
use std::path::Path;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use libloading::Library;
use rtc_cuda::device::{GeneratedKernel, LaunchShape};

use super::text;

type Parameters = unsafe extern "C" fn(*const c_char) -> c_uint;
type Launch = unsafe extern "C" fn(*const c_char, *const c_uint, c_uint, *const *const c_void) -> c_int;
type Fault = unsafe extern "C" fn() -> *const c_char;

/// What numbers of meetings stay below in `shim.h`.
const MEETINGS: usize = 1024;
/// Kernels of a plan that are compiled together: what they share takes as long as so many of them.
const LEAST: usize = 8;

/// The kernels: those of every program, and those made for some plans, in as many libraries as they were compiled in.
pub struct Kernels {
    parts: BTreeMap<String, Arc<KernelLibrary>>,
    names: BTreeSet<String>,
    checker: Option<Checker>,
    is_single: bool,
}

/// A library of some kernels.
struct KernelLibrary {
    parameters: Parameters,
    launch: Launch,
    fault: Fault,
    shared: unsafe extern "C" fn() -> usize,
    order: unsafe extern "C" fn(u64),
    /// The names of its kernels.
    names: Vec<String>,
    /// What the functions are in.
    library: Library,
}

/// Libraries that this process has made, by the type of their numbers and the text of their kernels.
static COMPILED: Mutex<BTreeMap<(String, String), Arc<KernelLibrary>>> = Mutex::new(BTreeMap::new());

/// What finds races. It keeps what it knows by thread of the host: a device must be asked on the one on which it runs.
pub struct Checker {
    taken: unsafe extern "C" fn(u64, usize),
    released: unsafe extern "C" fn(u64),
    used: unsafe extern "C" fn(u64, usize),
    found: Fault,
    leave_out: unsafe extern "C" fn(c_uint),
    come_by: unsafe extern "C" fn(c_uint) -> bool,
    /// The lines of the text in which threads meet.
    pub meetings: Vec<String>,
}

/// All kernels that plans may use, those made for some plans among them.
pub fn source(made: &BTreeSet<GeneratedKernel>) -> String {
    let made: String = made.iter().map(|kernel| kernel.source.as_str()).collect();
    format!("{}{made}", rtc_cuda::kernels())
}

impl Kernels {
    /// All kernels that plans may use, those made for some plans among them, for numbers of the C++ type `real`. A process compiles each
    /// once. `None` where there is no compiler.
    ///
    /// # Panics
    /// When the kernels do not compile.
    pub fn compile(real: &str, made: &BTreeSet<GeneratedKernel>) -> Option<Arc<Self>> {
        // Held to the end: what another test compiles is not compiled again.
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        let key = |source: &str| (real.to_owned(), source.to_owned());
        let common = rtc_cuda::kernels();
        if let Entry::Vacant(place) = compiled.entry(key(&common)) {
            place.insert(Arc::new(KernelLibrary::build(real, &text::with_declared(&common), &common, false)?));
        }
        let is_new = |source: &&str| !compiled.contains_key(&key(source));
        let new: Vec<&str> = made.iter().map(|kernel| kernel.source.as_str()).filter(is_new).collect();
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let share = new.len().div_ceil(processors).max(LEAST);
        let built: Vec<_> = thread::scope(|scope| {
            let build = |sources: &[&str]| {
                let own = sources.concat();
                scope.spawn(move || {
                    KernelLibrary::build(real, &text::with_declared(&format!("{}{own}", rtc_cuda::BASE)), &own, false)
                })
            };
            let building: Vec<_> = new.chunks(share).map(build).collect();
            building.into_iter().map(|built| built.join().expect("kernels compile")).collect()
        });
        for (sources, library) in new.chunks(share).zip(built) {
            let library = Arc::new(library?);
            compiled.extend(sources.iter().map(|source| (key(source), library.clone())));
        }
        let parts = made.iter().map(|kernel| kernel.source.as_str()).chain([&*common]);
        Some(Arc::new(Self::of(real, parts.map(|source| &compiled[&key(source)]), None)))
    }

    /// The kernels of a text that begins as a [`source`] does, with a checker of races, and with meetings that can be left out.
    ///
    /// # Panics
    /// When the kernels do not compile.
    pub fn checked(real: &str, source: &str) -> Option<Arc<Self>> {
        let (numbered, meetings) = text::with_numbered_meetings(&text::with_declared(source));
        assert!(meetings.len() < MEETINGS, "the shim counts fewer meetings");
        let library = Arc::new(KernelLibrary::build(real, &numbered, source, true)?);
        Some(Arc::new(Self::of(real, [&library], Some(meetings))))
    }

    fn of<'l>(
        real: &str,
        libraries: impl IntoIterator<Item = &'l Arc<KernelLibrary>>,
        meetings: Option<Vec<String>>,
    ) -> Self {
        let (mut parts, mut checker) = (BTreeMap::new(), None);
        for library in libraries {
            // SAFETY: it has these functions where it has a checker.
            checker = meetings.clone().map(|meetings| unsafe { Checker::of(&library.library, meetings) });
            parts.extend(library.names.iter().map(|name| (name.clone(), library.clone())));
        }
        Self { names: parts.keys().cloned().collect(), parts, checker, is_single: real == "float" }
    }

    /// Whether there is a kernel of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// The names of all kernels.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// What finds races, where the kernels were compiled so.
    pub fn checker(&self) -> Option<&Checker> {
        self.checker.as_ref()
    }

    /// Whether numbers are of single precision, as on a GPU.
    pub(super) fn is_single(&self) -> bool {
        self.is_single
    }

    /// Runs a kernel in the order of a seed; 0 is the rising one. Returns the bytes of shared memory of a block.
    ///
    /// # Errors
    /// What it did that a device does not allow.
    pub(super) fn launch(
        &self,
        name: &CString,
        shape: LaunchShape,
        order: u64,
        args: &[*const c_void],
    ) -> Result<usize, String> {
        let found = name.to_str().ok().and_then(|name| self.parts.get(name));
        let library = found.ok_or("there is no such kernel")?;
        // SAFETY: the kernel reads as many arguments as it has, each of up to 8 bytes.
        unsafe {
            let expected = (library.parameters)(name.as_ptr());
            if args.len() != expected as usize {
                return Err(format!("it takes {expected} arguments, and is given {}", args.len()));
            }
            (library.order)(order);
            match (library.launch)(name.as_ptr(), shape.grid.as_ptr(), shape.threads, args.as_ptr()) {
                0 => Ok((library.shared)()),
                _ => Err(said((library.fault)())),
            }
        }
    }
}

impl KernelLibrary {
    /// Compiles a text and registers the kernels of `registered`, a part of it; watched by the checker of races or not. `None` where there is no
    /// compiler.
    fn build(real: &str, text: &str, registered: &str, is_watched: bool) -> Option<Self> {
        let all = text::kernels(registered);
        let register: String = all.iter().map(|(name, team)| format!("REGISTER({name}, {team})\n")).collect();
        let folder = tempfile::tempdir().expect("a folder for the kernels");
        let file = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("the folder is ours");
        write("position.h", include_str!("position.h"));
        write("kernels.cpp", &format!("{}{text}{register}", include_str!("shim.h")));
        write("races.cpp", include_str!("races.cpp"));
        let (kernels, races, library) = (file("kernels.o"), file("races.o"), file("kernels.so"));
        let real_type = format!("-DREAL={real}");
        let flags = ["-std=c++17", "-O1", "-w", "-fPIC", "-ffp-contract=off", &real_type, "-c", "-o"];
        // Without its library, which would define what the checker does.
        let watched: &[&str] = if is_watched { &["-fsanitize=thread", "-fno-threadsafe-statics"] } else { &[] };
        run_compiler(&[watched, &flags].concat(), &[&kernels, &file("kernels.cpp")])?;
        let mut parts = vec![&*library, &*kernels];
        if is_watched {
            run_compiler(&["-std=c++17", "-O2", "-fPIC", "-c", "-o"], &[&races, &file("races.cpp")])?;
            parts.push(&races);
        }
        run_compiler(&["-shared", "-Wl,--no-undefined", "-o"], &parts)?;
        let names = all.iter().map(|(name, _)| (*name).to_owned()).collect();
        // SAFETY: the library is the text above; loading it only fills a table. Its functions have these types, and stay with it.
        unsafe {
            let library = Library::new(&library).expect("it was just made");
            Some(Self {
                parameters: function(&library, "rtc_emulated_parameters"),
                launch: function(&library, "rtc_emulated_launch"),
                fault: function(&library, "rtc_emulated_fault"),
                shared: function(&library, "rtc_emulated_shared"),
                order: function(&library, "rtc_emulated_order"),
                names,
                library,
            })
        }
    }
}

impl Checker {
    /// # Safety
    /// The library must be a watched one, and stay.
    unsafe fn of(library: &Library, meetings: Vec<String>) -> Self {
        // SAFETY: as the caller says; the functions have these types.
        unsafe {
            Self {
                taken: function(library, "rtc_races_taken"),
                released: function(library, "rtc_races_released"),
                used: function(library, "rtc_races_used"),
                found: function(library, "rtc_races_found"),
                leave_out: function(library, "rtc_emulated_leave_out"),
                come_by: function(library, "rtc_emulated_come_by"),
                meetings,
            }
        }
    }

    pub(super) fn taken(&self, at: u64, bytes: usize) {
        // SAFETY: it keeps the numbers, and nothing else.
        unsafe { (self.taken)(at, bytes) }
    }

    pub(super) fn released(&self, at: u64) {
        // SAFETY: as above.
        unsafe { (self.released)(at) }
    }

    pub(super) fn used(&self, at: u64, bytes: usize) {
        // SAFETY: as above.
        unsafe { (self.used)(at, bytes) }
    }

    /// What was found on this thread since this was last asked, one line each; empty if nothing.
    pub fn found(&self) -> String {
        // SAFETY: it gives a text, which stays until it is asked again.
        unsafe { said((self.found)()) }
    }

    /// From now on this thread leaves out one of the [`Self::meetings`], or none.
    pub fn leave_out(&self, meeting: Option<usize>) {
        // SAFETY: it keeps the number. They count from 1 on.
        unsafe { (self.leave_out)(meeting.map_or(0, |n| n as c_uint + 1)) }
    }

    /// The meetings that this thread came by since this was last asked.
    pub fn come_by(&self) -> BTreeSet<usize> {
        // SAFETY: it reads and clears what it keeps of this number.
        (0..self.meetings.len()).filter(|n| unsafe { (self.come_by)(*n as c_uint + 1) }).collect()
    }
}

/// # Safety
/// There must be such a function of this type, and it must not be called when the library is gone.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> F {
    // SAFETY: as the caller says.
    unsafe { *library.get::<F>(name.as_bytes()).expect("the shim has it") }
}

/// # Safety
/// It must be a text with its zero.
unsafe fn said(text: *const c_char) -> String {
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The name of the C++ compiler of the host.
pub(super) fn compiler() -> OsString {
    std::env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"))
}

/// Runs the compiler; nothing where there is none.
pub(super) fn run_compiler(flags: &[&str], files: &[&Path]) -> Option<()> {
    let compiler = compiler();
    let built = match process::Command::new(&compiler).args(flags).args(files).output() {
        Ok(built) => built,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{}: {error}", compiler.display());
            return None;
        }
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(())
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels({})", self.names.len())
    }
}

impl fmt::Debug for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Checker")
    }
}
