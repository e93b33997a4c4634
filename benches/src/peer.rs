//! How the peer is started: where it lies, and a Python that can run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rtc_kernel::Vectors;

use crate::device::Place;
use crate::failure::Failure;

/// What the environment needs.
const PACKAGES: [&str; 3] = ["torch", "numpy", "safetensors"];

/// A peer that can be started.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    folder: PathBuf,
    python: PathBuf,
}

impl Peer {
    /// Looks for the `file` of the peer in `folder`, and for a Python: the given one, else one in an environment that is made once.
    ///
    /// # Errors
    /// [`Failure::Absent`] when one of the two is not there and can't be made.
    pub(crate) fn find(file: &str, folder: Option<&Path>, python: Option<&Path>) -> Result<Self, Failure> {
        let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/peers");
        let folder = folder.map_or_else(default, Path::to_owned);
        if !folder.join(file).is_file() {
            let advice = "name its folder with --peers, or measure rtc alone with --alone";
            return Err(Failure::Absent(format!("there is no {file} in {}: {advice}", folder.display())));
        }
        Ok(Self { folder, python: interpreter(python)? })
    }

    /// A peer whose models stand in its driver, beside this crate.
    ///
    /// # Errors
    /// [`Failure::Absent`] when there is no Python for it.
    pub(crate) fn own(python: Option<&Path>) -> Result<Self, Failure> {
        Ok(Self { folder: PathBuf::new(), python: interpreter(python)? })
    }

    /// The command that starts its driver, a file beside this crate.
    pub(crate) fn command(&self, driver: &str, threads: usize, place: Place) -> Command {
        let mut command = Command::new(&self.python);
        // Where this was built, or, where it was carried to another machine, in the repository that it runs in.
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join(driver);
        command.arg(if built.is_file() { built } else { Path::new("benches").join(driver) });
        if !self.folder.as_os_str().is_empty() {
            command.arg("--peers").arg(&self.folder);
        }
        command.arg("--threads").arg(threads.to_string());
        place.tell(&mut command);
        if Vectors::allowed() == Vectors::Avx2 {
            // PyTorch's own kernels, and those of the two libraries that it multiplies with.
            let names =
                [("ATEN_CPU_CAPABILITY", "avx2"), ("ONEDNN_MAX_CPU_ISA", "AVX2"), ("MKL_ENABLE_INSTRUCTIONS", "AVX2")];
            command.envs(names);
        }
        command
    }
}

/// The given Python, else one in an environment that is made once.
fn interpreter(python: Option<&Path>) -> Result<PathBuf, Failure> {
    match python {
        Some(python) if serves(python) => Ok(python.to_owned()),
        Some(python) => {
            let needed = PACKAGES.join(", ");
            Err(Failure::Absent(format!("{} can't import {needed}", python.display())))
        }
        None => environment(),
    }
}

/// True when a Python has all that the driver imports.
fn serves(python: &Path) -> bool {
    let imports = format!("import {}", PACKAGES.join(", "));
    let status = Command::new(python).args(["-c", &imports]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// The Python of the environment beside this program, among the build outputs, which is made when it is not there or incomplete.
fn environment() -> Result<PathBuf, Failure> {
    let absent = |what: String| Failure::Absent(format!("{what}; name a Python that has torch with --python"));
    let folder = std::env::current_exe().map_err(|e| absent(e.to_string()))?.with_file_name("rtc-bench-python");
    let python = folder.join("bin/python");
    if serves(&python) {
        return Ok(python);
    }
    let run = |command: &mut Command| match command.stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(absent(format!("{command:?}: {status}"))),
        Err(error) => Err(absent(format!("{command:?}: {error}"))),
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    if serves(&python) { Ok(python) } else { Err(absent(format!("{} can't import torch", python.display()))) }
}
