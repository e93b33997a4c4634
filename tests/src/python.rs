//! The Python that runs exports.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value as Json;

/// Packages that the scripts import; `tests/torch_python.sh` makes a Python that has them.
const PACKAGES: &str = "numpy onnx onnxruntime safetensors torch";

/// Prints the packages that a Python lacks.
const LACKED: &str = "import importlib.util as u, sys; print(*(n for n in sys.argv[1:] if u.find_spec(n) is None))";

/// Returns the Python that `RTC_TORCH_PYTHON` names.
///
/// Without it, or where it lacks a package, the caller is skipped: a line on standard error says why, and another one in the file that
/// `RTC_SKIPPED` names.
///
/// # Panics
/// If the file that `RTC_SKIPPED` names can't be written.
pub fn with_torch() -> Option<PathBuf> {
    let missing = match std::env::var_os("RTC_TORCH_PYTHON") {
        None => format!("RTC_TORCH_PYTHON names no Python with {PACKAGES}"),
        Some(python) => match Command::new(&python).args(["-c", LACKED]).args(PACKAGES.split(' ')).output() {
            Ok(output) if output.status.success() && output.stdout.trim_ascii().is_empty() => {
                return Some(python.into());
            }
            Ok(output) => {
                format!("{} lacks {}", python.display(), String::from_utf8_lossy(&output.stdout).trim())
            }
            Err(error) => format!("{} does not run: {error}", python.display()),
        },
    };
    skip(&missing);
    None
}

/// Says that the test of this thread is skipped, and why: on standard error, and in the file that `RTC_SKIPPED` names.
///
/// # Panics
/// If that file can't be written.
#[allow(clippy::print_stderr, reason = "a skipped test says why")]
pub fn skip(missing: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test}: {missing}");
    if let Some(list) = std::env::var_os("RTC_SKIPPED") {
        let mut list =
            std::fs::OpenOptions::new().append(true).create(true).open(list).expect("a file for what is skipped");
        writeln!(list, "{test}: {missing}").expect("a line for what is skipped");
    }
}

/// A script of this folder that answers each line of JSON with a line of JSON.
#[derive(Debug)]
pub struct Process {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Process {
    /// Starts a script; none where [`with_torch`] finds no Python.
    ///
    /// # Panics
    /// If the Python can't be run.
    pub fn start(script: &str) -> Option<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(script);
        let mut command = Command::new(with_torch()?);
        command.arg(script).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python runs");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        Some(Self { child, answers })
    }

    /// Returns the answer to a request.
    ///
    /// # Panics
    /// If the script ends instead of answering.
    pub fn ask(&mut self, request: &Json) -> Json {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{request}").and_then(|()| stdin.flush()).expect("Python reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("Python answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("Python ended: {error}: {line}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
