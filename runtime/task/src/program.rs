//! Rows from a program: it gets a split, a seed and a count, and prints a JSON object per row, one per line.
//!
//! What it printed is kept in a cache, under a hash of all that it is known to depend on, so a program runs once for a request.
//! A program runs only with the permission of the command line; no file can grant it. Files that its command names are opened only
//! where the same command was permitted before, in the same folder.

mod running;

use std::fs;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::files::open::regular;
use crate::error::DataError;
use crate::fingerprint::hex;
use rtc_base::cache;
use rtc_base::json;
use rtc_compiler::ir::formula::bytes;
use running::RunningProgram;

/// The flag of commands that lets programs run.
pub const FLAG: &str = "--run-commands";

/// How long a program may print nothing.
pub const SILENCE: Duration = Duration::from_secs(60);

/// How long rows of children are waited for after the end of the program.
pub const GRACE: Duration = Duration::from_secs(1);

/// Most bytes of the files that a command names, all together.
pub const MOST_BYTES: u64 = 1 << 34;

/// Rows that are asked for a second time, to see whether they are the same.
const AGAIN: usize = 8;

/// A request for rows to a program.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRequest<'a> {
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

impl ProgramRequest<'_> {
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
    ///
    /// # Errors
    /// An argument that names a pipe, a socket or a device, or a file that can't be read.
    fn key(&self) -> Result<String, DataError> {
        let (mut hash, mut room) = (Sha256::new(), MOST_BYTES);
        for argument in self.arguments() {
            add(&mut hash, argument.as_bytes());
            let content = self.content(&argument, &mut room)?;
            add(&mut hash, content.as_deref().unwrap_or_default());
        }
        Ok(hex(&hash.finalize()))
    }

    /// Hashes the file that an argument names, of at most `room` bytes; nothing where it names none.
    fn content(&self, argument: &str, room: &mut u64) -> Result<Option<Vec<u8>>, DataError> {
        let path = self.folder.join(argument);
        if path.metadata().map_or(true, |found| found.is_dir()) {
            return Ok(None);
        }
        let failed = |error| self.fault(None, format!("can't read the argument `{argument}`: {error}"));
        let mut file = match regular(&path) {
            // Others may run a program that they can't read.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let large = || {
            let most = bytes(MOST_BYTES);
            let cure = "let the program know large files by itself";
            self.fault(
                None,
                format!("the files that the command names, up to `{argument}`, have more than {most}: {cure}"),
            )
        };
        if file.metadata().map_err(failed)?.len() > *room {
            return Err(large());
        }
        let (mut hash, mut part) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            let read = file.read(&mut part).map_err(failed)?;
            if read == 0 {
                return Ok(Some(hash.finalize().to_vec()));
            }
            // The file may grow meanwhile.
            *room = room.checked_sub(read as u64).ok_or_else(large)?;
            hash.update(&part[..read]);
        }
    }

    /// The file that says that this command was permitted in this folder.
    fn mark(&self, cache: &Path) -> PathBuf {
        let folder = self.folder.canonicalize().unwrap_or_else(|_| self.folder.to_owned());
        let mut hash = Sha256::new();
        add(&mut hash, folder.as_os_str().as_encoded_bytes());
        self.command.iter().for_each(|argument| add(&mut hash, argument.as_bytes()));
        cache.join(format!("{}.permitted", hex(&hash.finalize())))
    }

    /// Whether files that the command names may be opened.
    fn may_open(&self, cache: &Path) -> bool {
        self.permitted || self.mark(cache).is_file()
    }

    /// Whether rows can be had: they are in the cache, or programs may run.
    pub fn is_permitted(&self) -> bool {
        let is_kept =
            |cache: PathBuf| self.may_open(&cache) && self.key().is_ok_and(|key| kept(&cache, &key).is_file());
        self.permitted || cache::folder("programs").is_some_and(is_kept)
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
    /// objects, the same ones for the same request; a command that names a pipe, a socket or a device.
    pub fn file(&self) -> Result<PathBuf, DataError> {
        let none = || self.fault(None, "there is no folder for what programs print: set XDG_CACHE_HOME or HOME");
        self.file_in(&cache::folder("programs").ok_or_else(none)?)
    }

    fn file_in(&self, cache: &Path) -> Result<PathBuf, DataError> {
        if !self.may_open(cache) {
            return Err(self.fault(None, self.refusal()));
        }
        let key = self.key()?;
        let file = match kept(cache, &key) {
            file if file.is_file() => file,
            _ if self.permitted => self.make(cache, &key, SILENCE)?,
            _ => return Err(self.fault(None, self.refusal())),
        };
        if self.permitted {
            // Without the mark the rows need the permission again, which loses nothing.
            let _ = fs::write(self.mark(cache), "");
        }
        Ok(file)
    }

    /// Runs the program, and puts the rows into the cache.
    fn make(&self, cache: &Path, key: &str, silence: Duration) -> Result<PathBuf, DataError> {
        let (file, draft) = (kept(cache, key), cache.join(format!("{key}.{}", std::process::id())));
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
        let again = ProgramRequest { count: first.len(), ..*self };
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
        let mut running = RunningProgram::start(self)?;
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
            let held =
                if running.is_held { ", and ended before a process that it started closed its output" } else { "" };
            let message = format!("it prints {rows} rows{held}, and {} were asked for{said}", self.count);
            return Err(self.fault((rows > 0).then_some(rows), message));
        }
        Ok(())
    }
}

/// The file with the rows of a key.
fn kept(cache: &Path, key: &str) -> PathBuf {
    cache.join(format!("{key}.jsonl"))
}

/// Feeds bytes to a hash, behind their number.
fn add(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A request for rows of a shell script, with all that it has written to the cache.
    fn asked(script: &str, count: usize, silence: Duration) -> (Result<String, String>, usize) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("gen.sh"), script).expect("written");
        let command = ["sh", "gen.sh"].map(str::to_owned);
        let request = ProgramRequest {
            command: &command,
            folder: folder.path(),
            split: "train",
            seed: 7,
            count,
            permitted: true,
        };
        let cache = folder.path().join("cache");
        let made = request.key().and_then(|key| request.make(&cache, &key, silence));
        let made = made.map_err(|error| error.to_string());
        let text = made.map(|file| fs::read_to_string(file).expect("it was kept"));
        (text, fs::read_dir(&cache).map_or(0, Iterator::count))
    }

    const LONG: Duration = Duration::from_secs(30);

    /// The key of three rows of `gen.sh` where that is the text `one`.
    const KEY: &str = "eab9adac6806c73774195481dfd8a077";

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
        let request = ProgramRequest {
            command: &command,
            folder: folder.path(),
            split: "train",
            seed: 7,
            count: 3,
            permitted: true,
        };
        let key = request.key().expect("readable");
        assert_eq!(key, KEY, "rows in the caches of users are found under it");
        let others = [
            ProgramRequest { seed: 8, ..request },
            ProgramRequest { split: "dev", ..request },
            ProgramRequest { count: 4, ..request },
        ];
        assert!(others.iter().all(|other| other.key().expect("readable") != key));
        fs::write(&script, "two").expect("written");
        assert_ne!(request.key().expect("readable"), key, "the content of the script counts");
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
        let (found, kept) = asked("echo '{\"text\": \"a\"}'\nsleep 600", 3, short);
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
        let request = ProgramRequest {
            command: &command,
            folder: folder.path(),
            split: "train",
            seed: 7,
            count: 1,
            permitted: false,
        };
        assert!(!request.is_permitted());
        let message = request.file().expect_err("nobody allowed it").to_string();
        assert!(message.contains(FLAG) && message.contains("sh -c touch ran --split train"), "{message}");
        assert!(!folder.path().join("ran").exists());
    }

    #[test]
    fn a_permission_is_for_a_command_in_a_folder() {
        let (one, two) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let cache = one.path().join("cache");
        for folder in [&one, &two] {
            fs::write(folder.path().join("gen.sh"), ROWS).expect("written");
        }
        let command = ["sh", "gen.sh"].map(str::to_owned);
        let request = ProgramRequest {
            command: &command,
            folder: one.path(),
            split: "train",
            seed: 7,
            count: 3,
            permitted: false,
        };
        let refused = |request: &ProgramRequest<'_>| {
            let message = request.file_in(&cache).expect_err("nobody allowed it").to_string();
            assert!(message.contains(FLAG), "{message}");
        };
        refused(&request);
        let made = ProgramRequest { permitted: true, ..request }.file_in(&cache).expect("it runs");
        assert_eq!(request.file_in(&cache), Ok(made.clone()), "nothing runs");
        let other = ProgramRequest { folder: two.path(), ..request };
        refused(&other);
        assert_eq!(
            ProgramRequest { permitted: true, ..other }.file_in(&cache),
            Ok(made),
            "the rows depend on the files alone"
        );
        assert_eq!(fs::read_dir(&cache).expect("it is there").count(), 3, "the rows, and a mark for each folder");
        refused(&ProgramRequest { seed: 8, ..request });
    }

    /// What comes of a program with an argument, which is made in its folder: with permission or without.
    #[cfg(target_os = "linux")]
    fn named(argument: &'static str, permitted: bool, make: fn(&Path)) -> Result<PathBuf, String> {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let folder = tempfile::tempdir().expect("a temporary folder");
            make(&folder.path().join(argument));
            let command = ["sh", "-c", "touch ran", argument].map(str::to_owned);
            let request = ProgramRequest {
                command: &command,
                folder: folder.path(),
                split: "train",
                seed: 7,
                count: 1,
                permitted,
            };
            let found = request.file_in(&folder.path().join("cache")).map_err(|error| error.to_string());
            assert!(!folder.path().join("ran").exists());
            tell.send(found)
        });
        told.recv_timeout(2 * LONG).expect("it ends without waiting for another program")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_regular_files_are_arguments_and_none_is_opened_before_the_permission() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let pipe = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let none = |_: &Path| {};
        for (argument, make) in [("pipe", pipe as fn(&Path)), ("/dev/zero", none)] {
            let message = named(argument, false, make).expect_err("nobody allowed it");
            assert!(message.contains(FLAG), "{message}");
            let message = named(argument, true, make).expect_err("no regular file");
            assert!(
                message.contains(&format!("can't read the argument `{argument}`: no regular file but")),
                "{message}"
            );
        }
        let large = |path: &Path| fs::File::create(path).and_then(|file| file.set_len(MOST_BYTES + 1)).expect("sparse");
        let message = named("large", true, large).expect_err("too large");
        assert!(message.contains("up to `large`, have more than 16 GiB"), "{message}");
    }

    /// Whether a process still does something.
    #[cfg(target_os = "linux")]
    fn is_alive(process: &str) -> bool {
        let found = fs::read_to_string(format!("/proc/{}/stat", process.trim())).unwrap_or_default();
        found
            .rsplit(')')
            .next()
            .and_then(|rest| rest.split_whitespace().next())
            .is_some_and(|state| !"ZX".contains(state))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_end_of_a_program_is_that_of_its_children() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let command = ["sh", "gen.sh"].map(str::to_owned);
        let request = ProgramRequest {
            command: &command,
            folder: folder.path(),
            split: "train",
            seed: 7,
            count: 3,
            permitted: true,
        };
        // A child holds both outputs of a program that ends well, ends early, and is stopped.
        let holds = "sleep 600 & echo $! > child\n";
        let (few, silent) = ("echo '{\"text\": \"a\"}'\n", "sleep 600\n");
        for (script, silence, expected) in [
            (format!("{holds}{ROWS}"), LONG, None),
            (
                format!("{holds}{few}"),
                LONG,
                Some("1 rows, and ended before a process that it started closed its output"),
            ),
            (format!("{holds}{silent}"), Duration::from_millis(300), Some("printed nothing for 0.3 seconds")),
        ] {
            fs::write(folder.path().join("gen.sh"), &script).expect("written");
            let key = request.key().expect("readable");
            let made = request.make(&folder.path().join("cache"), &key, silence);
            match expected {
                None => drop(made.expect("all rows came")),
                Some(expected) => {
                    let message = made.expect_err(&script).to_string();
                    assert!(message.contains(expected), "{message}");
                }
            }
            let child = fs::read_to_string(folder.path().join("child")).expect("it began");
            let begun = std::time::Instant::now();
            while is_alive(&child) {
                assert!(begun.elapsed() < LONG, "{script}: the child lives on");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}
