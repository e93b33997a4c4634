//! Kernels compiled for a GPU by NVRTC, NVIDIA's compiler library, when a model is made.

use std::ffi::{CString, c_char};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{available_parallelism, scope};

use cudarc::nvrtc::{result, sys};

use super::Release;

/// Compute capability of a device, as 90 for 9.0.
pub type Capability = i32;

/// Whether the compiler library is on this machine.
#[cfg(not(feature = "linked"))]
pub fn is_there() -> bool {
    // SAFETY: opening the library runs nothing but its own start.
    unsafe { sys::is_culib_present() }
}

/// A program that is linked with it would not run without it.
#[cfg(feature = "linked")]
pub fn is_there() -> bool {
    true
}

/// The release of CUDA that the library is of.
///
/// # Errors
/// What the library says.
pub(super) fn release() -> Result<Release, String> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library writes two numbers.
    let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    status.result().map_err(|status| format!("NVRTC: {status}"))?;
    Ok(Release { major, minor })
}

/// All that the machine code of a text of kernels depends on: the release of the library, what it is told, and the text.
///
/// # Errors
/// What the library says.
pub(super) fn key(source: &str, capability: Capability) -> Result<[String; 3], String> {
    Ok([format!("NVRTC {}", release()?), options(&target(capability)?).join(" "), source.to_owned()])
}

/// What the library compiles for.
fn target(capability: Capability) -> Result<String, String> {
    let known = known()?;
    if known.contains(&capability) {
        return Ok(format!("sm_{capability}"));
    }
    let newest = known.into_iter().filter(|known| *known <= capability).max();
    let newest = newest.ok_or_else(|| format!("NVRTC can't compile for compute capability {capability}"))?;
    Ok(format!("compute_{newest}"))
}

fn options(target: &str) -> [String; 3] {
    [format!("--gpu-architecture={target}"), "--std=c++17".to_owned(), "-DREAL=float".to_owned()]
}

/// The machine code of a text of kernels, in single precision, for one capability. A device that the library is too old for
/// gets code for the newest one it knows, which the driver translates.
///
/// # Errors
/// What the compiler says.
pub fn compile(source: &str, capability: Capability) -> Result<Vec<u8>, String> {
    let text = CString::new(source).map_err(|_| "a kernel has a zero in its text".to_owned())?;
    let target = target(capability)?;
    let program = result::create_program(&text, None).map_err(|e| format!("NVRTC: {e}"))?;
    let built = code(program, &target);
    // SAFETY: the program was made above, and is not used any more.
    let _ = unsafe { result::destroy_program(program) };
    built
}

/// The machine code of several texts, as many at a time as there are processors: the library compiles each on one. `keep` is given
/// the number and the code of each as soon as it is made, so that what is stopped has not compiled for nothing.
pub(super) fn all(
    sources: &[&str],
    capability: Capability,
    keep: impl Fn(usize, &[u8]) + Sync,
) -> Vec<Result<Vec<u8>, String>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut made = vec![];
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(n) else { return made };
            let code = compile(source, capability);
            if let Ok(code) = &code {
                keep(n, code);
            }
            made.push((n, code));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get).min(sources.len());
    let mut made: Vec<(usize, Result<Vec<u8>, String>)> = scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    made.sort_by_key(|(n, _)| *n);
    made.into_iter().map(|(_, code)| code).collect()
}

/// The capabilities that the library can make machine code for.
fn known() -> Result<Vec<Capability>, String> {
    let failed = |status: result::NvrtcError| format!("NVRTC: {status}");
    let mut count = 0;
    // SAFETY: the library writes as many numbers as it said.
    unsafe {
        sys::nvrtcGetNumSupportedArchs(&raw mut count).result().map_err(failed)?;
        let mut known = vec![0; usize::try_from(count).unwrap_or(0)];
        sys::nvrtcGetSupportedArchs(known.as_mut_ptr()).result().map_err(failed)?;
        Ok(known)
    }
}

fn code(program: sys::nvrtcProgram, target: &str) -> Result<Vec<u8>, String> {
    let options = options(target);
    // SAFETY: the program lives, and buffers are as long as the library says.
    unsafe {
        if let Err(status) = result::compile_program(program, &options) {
            let log = result::get_program_log(program).unwrap_or_default();
            let log: Vec<u8> = log.into_iter().take_while(|c| *c != 0).map(|c| c as u8).collect();
            return Err(format!("NVRTC: {status}\n{}", String::from_utf8_lossy(&log)));
        }
        let failed = |status: result::NvrtcError| format!("NVRTC: {status}");
        if target.starts_with("compute_") {
            let text = result::get_ptx(program).map_err(failed)?;
            return Ok(text.into_iter().map(|c| c as u8).collect());
        }
        let mut size = 0;
        sys::nvrtcGetCUBINSize(program, &raw mut size).result().map_err(failed)?;
        let mut code = vec![0_u8; size];
        sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast::<c_char>()).result().map_err(failed)?;
        Ok(code)
    }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped check says so")]
mod tests {
    use super::*;
    use crate::kernels;

    #[test]
    fn the_kernels_compile_for_every_documented_capability() {
        if !is_there() {
            eprintln!("skipped: there is no NVRTC library");
            return;
        }
        for capability in [80, 89, 90] {
            let code = compile(&kernels(), capability).unwrap_or_else(|e| panic!("{e}"));
            assert!(code.starts_with(b"\x7fELF"), "sm_{capability}");
        }
    }

    #[test]
    fn nothing_is_divided_by_the_constant_zero() {
        if !is_there() {
            eprintln!("skipped: there is no NVRTC library");
            return;
        }
        let code = compile(&kernels(), 999).unwrap_or_else(|e| panic!("{e}"));
        let text = String::from_utf8_lossy(&code);
        let divisions: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("div.")).collect();
        let by_zero = divisions.iter().filter(|line| line.contains(", 0f00000000"));
        assert_eq!((by_zero.count(), divisions.is_empty()), (0, false), "infinity is a number, not a division");
    }

    #[test]
    fn a_newer_device_gets_code_to_translate() {
        if !is_there() {
            eprintln!("skipped: there is no NVRTC library");
            return;
        }
        let code = compile(&kernels(), 999).unwrap_or_else(|e| panic!("{e}"));
        assert!(String::from_utf8_lossy(&code).contains(".version"));
        assert!(compile("KERNEL(broken)(", 90).is_err_and(|e| e.contains("error")));
    }
}
