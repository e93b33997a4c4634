//! Host libraries with the names of NVIDIA's (`tests/gpu/pretend.cpp`): the driver of rtc runs on them in a process of its own, which
//! finds them before any others.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::library::{compiler, run_compiler};

/// The libraries, and what they and rtc write.
pub struct Pretended {
    folder: TempDir,
}

impl Pretended {
    /// Builds them. `None` where there is no compiler.
    ///
    /// # Panics
    /// When they do not compile.
    pub fn build() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder for the libraries");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/pretend.cpp");
        let shim = format!("-DSHIM=\"{}/src/emulated/shim.h\"", env!("CARGO_MANIFEST_DIR"));
        let compiler = format!("-DCXX=\"{}\"", compiler().display());
        let driver = folder.path().join("libcuda.so.1");
        run_compiler(&["-std=c++17", "-O2", "-w", "-shared", "-fPIC", &shim, &compiler, "-o"], &[&driver, &source])?;
        // One file by three names, so that the loader has it once.
        for name in ["libnvrtc.so.13", "libcublasLt.so.13"] {
            std::os::unix::fs::symlink("libcuda.so.1", folder.path().join(name)).expect("the folder is ours");
        }
        Some(Self { folder })
    }

    /// A program that finds these libraries, and keeps what it writes beside them.
    pub fn command(&self, program: &Path) -> Command {
        let mut paths = OsString::from(self.folder.path());
        if let Some(others) = std::env::var_os("LD_LIBRARY_PATH") {
            paths.push(":");
            paths.push(others);
        }
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", paths).env("TMPDIR", self.folder.path());
        command.env("XDG_CACHE_HOME", self.folder.path().join("cache"));
        command
    }
}

impl fmt::Debug for Pretended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pretended")
    }
}
