//! Rows from a program: it gets a split, a seed and a count, and prints a JSON object per row, one per line.
//!
//! What it printed is kept in a cache, under a hash of all that it is known to depend on, so a program runs once for a request.
//! A program runs only with the permission of the command line; no file can grant it.

use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::load::MAX_LINE;
use crate::cache;
use crate::error::DataError;
use crate::json;

/// The flag of commands that lets programs run.
pub const FLAG: &str = "--run-commands";

/// How long a program may print nothing.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Rows that are asked for a second time, to see whether they are the same.
const AGAIN: usize = 8;

/// How much of what a program writes to its error output is shown: the end of it.
const SHOWN: u64 = 2_000;

/// What a program is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The program and its first arguments.
    pub command: &'a [String],
    /// The folder in which it runs.
    pub folder: &'a Path,
    /// The split.
    pub split: &'a str,
    /// The seed of the data.
    pub seed: u64,
    /// How many rows.
    pub count: usize,
    /// Whether the program may run. No file says so, only the command line.
    pub permitted: bool,
}

impl Request<'_> {
    fn arguments(&self) -> Vec<String> {
        let own = ["--split", self.split, "--seed", &self.seed.to_string(), "--count", &self.count.to_string()];
        self.command.iter().map(String::as_str).chain(own).map(str::to_owned).collect()
    }

    /// The command line, as messages show it.
    pub fn shown(&self) -> String {
        self.arguments().join(" ")
    }

    fn fault(&self, line: Option<usize>, message: impl Into<String>) -> DataError {
        DataError { file: self.shown(), line, message: message.into() }
    }

    /// A hash of the request and of the files that the command names.
    fn key(&self) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        for argument in self.arguments() {
            add(argument.as_bytes());
            match fs::read(self.folder.join(&argument)) {
                Ok(content) => add(&Sha256::digest(content)),
                Err(_) => add(b""),
            }
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The file with its rows, if it is there.
    fn kept(&self, cache: &Path) -> Option<PathBuf> {
        Some(cache.join(format!("{}.jsonl", self.key()))).filter(|file| file.is_file())
    }

    /// Whether rows can be had: they are in the cache, or programs may run.
    pub fn is_permitted(&self) -> bool {
        self.permitted || cache::folder("programs").is_some_and(|cache| self.kept(&cache).is_some())
    }

    /// The sentence for a program that may not run.
    pub fn refusal(&self) -> String {
        format!(
            "the experiment runs a program for the split `{}`, `{}`: read it, and allow it by `{FLAG}`",
            self.split,
            self.shown()
        )
    }

    /// The file with the rows, from the cache of the user or made now.
    ///
    /// # Errors
    /// A program that may not run, can't be started, fails, stays silent for [`SILENCE`], or prints anything but so many JSON
    /// objects, the same ones for the same request.
    pub fn file(&self) -> Result<PathBuf, DataError> {
        let none = || self.fault(None, "there is no folder for what programs print: set XDG_CACHE_HOME or HOME");
        let cache = cache::folder("programs").ok_or_else(none)?;
        match self.kept(&cache) {
            Some(file) => Ok(file),
            None if self.permitted => self.make(&cache, SILENCE),
            None => Err(self.fault(None, self.refusal())),
        }
    }

    /// Runs the program, and puts the rows into the cache.
    fn make(&self, cache: &Path, silence: Duration) -> Result<PathBuf, DataError> {
        let file = cache.join(format!("{}.jsonl", self.key()));
        let draft = cache.join(format!("{}.{}", self.key(), std::process::id()));
        let written = self.write(&draft, silence).and_then(|()| {
            fs::rename(&draft, &file).map_err(|error| self.fault(None, format!("can't keep its rows: {error}")))
        });
        if written.is_err() {
            // What could not be removed has a name that nobody looks for.
            let _ = fs::remove_file(&draft);
        }
        written.map(|()| file)
    }

    fn write(&self, draft: &Path, silence: Duration) -> Result<(), DataError> {
        let failed = |error: std::io::Error| self.fault(None, format!("can't keep its rows: {error}"));
        fs::create_dir_all(draft.parent().unwrap_or(Path::new("."))).map_err(failed)?;
        let mut out = BufWriter::new(fs::File::create(draft).map_err(failed)?);
        let mut first: Vec<Vec<u8>> = vec![];
        self.rows(silence, |row| {
            if first.len() < AGAIN {
                first.push(row.to_vec());
            }
            out.write_all(row).and_then(|()| out.write_all(b"\n")).map_err(failed)
        })?;
        out.flush().map_err(failed)?;
        self.repeats(&first, silence)
    }

    /// Asks for the first rows again: a smaller count gives the first of the same rows.
    fn repeats(&self, first: &[Vec<u8>], silence: Duration) -> Result<(), DataError> {
        let again = Request { count: first.len(), ..*self };
        let mut seen = 0;
        again.rows(silence, |row| {
            seen += 1;
            if first[seen - 1] == row {
                return Ok(());
            }
            let why = format!(
                "this row is another one than the first time, when {} were asked for: the same split and seed must give the same \
                 rows, and a smaller count the first of them",
                self.count
            );
            Err(again.fault(Some(seen), why))
        })
    }

    /// Runs the program and gives every row, checked to be a JSON object.
    fn rows(&self, silence: Duration, mut each: impl FnMut(&[u8]) -> Result<(), DataError>) -> Result<(), DataError> {
        let mut running = Running::start(self)?;
        let mut rows = 0;
        while let Some(line) = running.line(self, silence, rows)? {
            if rows == self.count {
                return Err(
                    self.fault(Some(rows + 1), format!("it prints more than the {rows} rows that were asked for"))
                );
            }
            rows += 1;
            object(&line).map_err(|message| self.fault(Some(rows), message))?;
            each(&line)?;
        }
        let (status, said) = running.end(self, silence)?;
        if !status.success() {
            return Err(self.fault((rows > 0).then_some(rows), format!("it failed after {rows} rows ({status}){said}")));
        }
        if rows < self.count {
            let message = format!("it prints {rows} rows, and {} were asked for{said}", self.count);
            return Err(self.fault((rows > 0).then_some(rows), message));
        }
        Ok(())
    }
}

/// Whether a line is a JSON object.
fn object(line: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(line).map_err(|_| "this line is not UTF-8 text".to_owned())?;
    match json::value(text.as_bytes()) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => Err("this line is no JSON object, as `{\"text\": \"a b\", \"label\": \"yes\"}`".to_owned()),
        Err(error) => Err(format!("this line is no JSON: {error}")),
    }
}

/// A running program. It is killed when its reader is dropped.
struct Running {
    child: Child,
    lines: Receiver<std::io::Result<Vec<u8>>>,
    said: Receiver<String>,
}

impl Running {
    fn start(request: &Request<'_>) -> Result<Self, DataError> {
        let arguments = request.arguments();
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).current_dir(request.folder);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child =
            spawned.map_err(|error| request.fault(None, format!("can't run `{}`: {error}", arguments[0])))?;
        let (send, lines) = sync_channel(64);
        let (tell, said) = sync_channel(1);
        // Both readers end with their pipes; they are not waited for, since a pipe may outlive the program that was killed.
        if let Some(out) = child.stdout.take() {
            thread::spawn(move || read_lines(out, |line| send.send(line).is_ok()));
        }
        if let Some(err) = child.stderr.take() {
            thread::spawn(move || tell.send(last_words(err)));
        }
        Ok(Self { child, lines, said })
    }

    /// The next line; nothing at the end.
    fn line(&mut self, request: &Request<'_>, silence: Duration, rows: usize) -> Result<Option<Vec<u8>>, DataError> {
        match self.lines.recv_timeout(silence) {
            Ok(Ok(line)) => Ok(Some(line)),
            Ok(Err(error)) => Err(request.fault(Some(rows + 1), error.to_string())),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                let limit = silence.as_secs_f64();
                Err(request.fault(Some(rows + 1), format!("it printed nothing for {limit} seconds, and was stopped")))
            }
        }
    }

    /// How it ended, and its last words.
    fn end(&mut self, request: &Request<'_>, silence: Duration) -> Result<(ExitStatus, String), DataError> {
        const PAUSE: Duration = Duration::from_millis(5);
        let mut waited = Duration::ZERO;
        let status = loop {
            match self.child.try_wait().map_err(|error| request.fault(None, error.to_string()))? {
                Some(status) => break status,
                None if waited < silence => thread::sleep(PAUSE),
                None => return Err(request.fault(None, "it closed its output and does not end, and was stopped")),
            }
            waited += PAUSE;
        };
        let said = self.said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        Ok((status, if said.is_empty() { said } else { format!(":\n{said}") }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail for a program that has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the lines of a pipe until the receiver is dropped.
fn read_lines(pipe: impl Read, mut give: impl FnMut(std::io::Result<Vec<u8>>) -> bool) {
    let mut reader = BufReader::new(pipe);
    loop {
        let mut line = vec![];
        let read = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
        let line = match read {
            Ok(0) => return,
            Ok(read) if read as u64 == MAX_LINE && line.last() != Some(&b'\n') => {
                Err(std::io::Error::other("the line is longer than 16 MiB"))
            }
            Ok(_) => {
                line.truncate(line.trim_ascii_end().len());
                Ok(line)
            }
            Err(error) => Err(error),
        };
        let broken = line.is_err();
        if !give(line) || broken {
            return;
        }
    }
}

/// The end of a text, without what can't be shown.
fn last_words(pipe: impl Read) -> String {
    let mut reader = BufReader::new(pipe);
    let (mut kept, mut part) = (vec![], [0; 4096]);
    while let Ok(read @ 1..) = reader.read(&mut part) {
        kept.extend_from_slice(&part[..read]);
        let over = kept.len().saturating_sub(SHOWN as usize);
        kept.drain(..over);
    }
    let text = String::from_utf8_lossy(&kept);
    text.chars().filter(|c| *c == '\n' || !c.is_control()).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for rows of a shell script, with all that it has written to the cache.
    fn asked(script: &str, count: usize, silence: Duration) -> (Result<String, String>, usize) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("gen.sh"), script).expect("written");
        let command = ["sh", "gen.sh"].map(str::to_owned);
        let request =
            Request { command: &command, folder: folder.path(), split: "train", seed: 7, count, permitted: true };
        let cache = folder.path().join("cache");
        let made = request.make(&cache, silence).map_err(|error| error.to_string());
        let text = made.map(|file| fs::read_to_string(file).expect("it was kept"));
        (text, fs::read_dir(&cache).map_or(0, Iterator::count))
    }

    const LONG: Duration = Duration::from_secs(30);

    /// Prints rows until the count, which is the sixth argument.
    const ROWS: &str = "n=1; while [ $n -le $6 ]; do echo \"{\\\"text\\\": \\\"$2 $4 $n\\\"}\"; n=$((n+1)); done\n";

    #[test]
    fn rows_are_kept_under_what_they_depend_on() {
        let (rows, kept) = asked(ROWS, 3, LONG);
        assert_eq!(
            rows.as_deref(),
            Ok("{\"text\": \"train 7 1\"}\n{\"text\": \"train 7 2\"}\n{\"text\": \"train 7 3\"}\n")
        );
        assert_eq!(kept, 1);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("gen.sh");
        fs::write(&script, "one").expect("written");
        let command = ["sh", "gen.sh"].map(str::to_owned);
        let request =
            Request { command: &command, folder: folder.path(), split: "train", seed: 7, count: 3, permitted: true };
        let key = request.key();
        assert_eq!(request.key(), key);
        let others =
            [Request { seed: 8, ..request }, Request { split: "dev", ..request }, Request { count: 4, ..request }];
        assert!(others.iter().all(|other| other.key() != key));
        fs::write(&script, "two").expect("written");
        assert_ne!(request.key(), key, "the content of the script counts");
    }

    #[test]
    fn what_a_program_does_wrong_is_said_with_the_line() {
        let row = "echo '{\"text\": \"a\"}'\n";
        let cases = [
            (row.repeat(2), "--count 3:2: it prints 2 rows, and 3 were asked for"),
            (row.repeat(4), "--count 3:4: it prints more than the 3 rows that were asked for"),
            (format!("{row}echo '{{\"text\": '\n{row}"), "--count 3:2: this line is no JSON: "),
            (format!("{row}echo '[1]'\n{row}"), "--count 3:2: this line is no JSON object"),
            (format!("{row}printf '\\377\\n'\n{row}"), "--count 3:2: this line is not UTF-8 text"),
            (
                format!("{row}echo no such thing >&2\nexit 4"),
                "--count 3:1: it failed after 1 rows (exit status: 4):\nno such thing",
            ),
            (format!("{row}kill -9 $$"), "--count 3:1: it failed after 1 rows (signal: 9 (SIGKILL))"),
            ("exit 0".to_owned(), "--count 3: it prints 0 rows, and 3 were asked for"),
            ("while true; do echo '{\"text\": \"a\"}'; done".to_owned(), "it prints more than the 3 rows"),
            (
                "n=1; while [ $n -le $6 ]; do echo \"{\\\"text\\\": $$}\"; n=$((n+1)); done".to_owned(),
                "--count 3:1: this row is another one",
            ),
        ];
        for (script, expected) in cases {
            let (found, kept) = asked(&script, 3, LONG);
            let message = found.expect_err(&script);
            assert!(message.contains(expected), "{script}: {message}");
            assert_eq!(kept, 0, "{script}: nothing of it is kept");
        }
    }

    #[test]
    fn a_silent_program_is_stopped() {
        let short = Duration::from_millis(300);
        let (found, kept) = asked("echo '{\"text\": \"a\"}'\nexec sleep 600", 3, short);
        let message = found.expect_err("it stays silent");
        assert!(message.contains("--count 3:2: it printed nothing for 0.3 seconds, and was stopped"), "{message}");
        let (found, _) = asked("exec >&-\nexec sleep 600", 3, short);
        let message = found.expect_err("it does not end");
        assert!(message.contains("it closed its output and does not end"), "{message}");
        assert_eq!(kept, 0);
    }

    #[test]
    fn nothing_runs_without_permission() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let command = ["sh", "-c", "touch ran"].map(str::to_owned);
        let request =
            Request { command: &command, folder: folder.path(), split: "train", seed: 7, count: 1, permitted: false };
        assert!(!request.is_permitted());
        let message = request.file().expect_err("nobody allowed it").to_string();
        assert!(message.contains(FLAG) && message.contains("sh -c touch ran --split train"), "{message}");
        assert!(!folder.path().join("ran").exists());
    }
}
