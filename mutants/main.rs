//! Mutation testing of the places where a fault would be a wrong number: every fault of `instrument` is switched on, one after the other, and
//! the tests of its place run until one fails. All mutants are in one build, since a build of rtc takes minutes and a test seconds.
//!
//! `rtc-mutants SOURCES COPY PART PLACE..` mutates and builds the copy, which it makes; `tests/mutants.sh` calls it.

mod instrument;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use instrument::Mutant;

/// What is mutated, and the tests that should notice, quick ones first.
struct Place {
    name: &'static str,
    /// The crate, by its folder.
    part: &'static str,
    /// Files and folders below its `src`.
    files: &'static [&'static str],
    /// Folder of a package, its test program (`lib` for its unit tests), and which of its tests.
    tests: &'static [(&'static str, &'static str, &'static [&'static str])],
}

const PLACES: &[Place] = &[
    Place {
        name: "gradient",
        part: "compiler",
        files: &["ir/gradient.rs"],
        tests: &[
            ("tests", "cases", &["ir::"]),
            ("runtime/kernel", "it", &["beam::gradients"]),
            ("tests", "it", &["parity::"]),
            ("tests", "numerics", &["gradients::"]),
            ("tests", "numerics", &["scans::", "trees::", "searches::"]),
            ("tests", "cases", &["field::"]),
        ],
    },
    Place {
        name: "causality",
        part: "compiler",
        files: &["causality"],
        tests: &[
            ("compiler", "lib", &[]),
            ("tests", "cases", &["ir::"]),
            ("tests", "cases", &["language::causality"]),
            ("tests", "it", &["ir_forms::"]),
            ("tests", "cases", &["language::"]),
            ("tests", "numerics", &["incremental::"]),
            ("tests", "numerics", &["causality::"]),
        ],
    },
    Place {
        name: "checkpoint",
        part: "runtime/runs",
        files: &["record/checkpoint.rs"],
        tests: &[
            ("runtime/runs", "lib", &["checkpoint"]),
            ("runtime/train", "it", &["checkpoints::"]),
            ("runtime/runs", "it", &["weights::"]),
            ("runtime/train", "it", &["training::", "records::", "power::"]),
            ("cli", "it", &["damage::"]),
            ("cli", "it", &["kill::"]),
        ],
    },
    Place {
        name: "loops",
        part: "runtime/exec",
        files: &["loops"],
        tests: &[
            ("tests", "it", &["parity::"]),
            ("tests", "cases", &["field::"]),
            ("tests", "numerics", &["hand_cases::", "folds::", "as_loops::", "trees::", "searches::", "gradients::"]),
            ("tests", "numerics", &["stopping::", "recompute::", "halting::policies_agree_when_rows_halt"]),
            ("tests", "numerics", &["incremental::", "rows::a_row", "rows::balanced", "rows::folds", "halting::"]),
            ("tests", "numerics", &["rows::threads"]),
        ],
    },
];

/// What a mutated program asks.
const QUESTION: &str = "
/// Whether the mutant of a test is this one.
pub fn mutant(id: u32) -> bool {
    static CHOSEN: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var(\"RTC_MUTANT\").ok().and_then(|id| id.parse().ok()).unwrap_or(0));
    *CHOSEN == id
}
";

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let read = || -> Option<(&Path, &Path, [usize; 2], Vec<&Place>)> {
        let [sources, copy, part, names @ ..] = &arguments[..] else { return None };
        let (part, of) = part.split_once('/')?;
        let (part, of) = (part.parse().ok()?, of.parse().ok()?);
        let places: Option<Vec<_>> = names.iter().map(|name| PLACES.iter().find(|p| p.name == name)).collect();
        let places = places.filter(|p| !p.is_empty() && 1 <= part && part <= of)?;
        Some((Path::new(sources), Path::new(copy), [part, of], places))
    };
    let Some((sources, copy, part, places)) = read() else {
        let names: Vec<&str> = PLACES.iter().map(|p| p.name).collect();
        eprintln!("usage: rtc-mutants SOURCES COPY PART/OF PLACE.., with the places {}", names.join(", "));
        return ExitCode::from(2);
    };
    let run = || -> Result<(), Failure> {
        let mutated = mutate(sources, copy, &places)?;
        let built = messages(copy, &["test", "--workspace", "--no-run"])?;
        places.iter().try_for_each(|place| test(copy, place, &mutated, part, &built))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Tests the mutants of a place: every `of`-th from the `part`-th.
fn test(
    copy: &Path,
    place: &Place,
    mutated: &[Mutated],
    [part, of]: [usize; 2],
    built: &[serde_json::Value],
) -> Result<(), Failure> {
    let mutants = mutated.iter().filter(|file| file.place == place.name);
    let mutants: Vec<(&Path, &Mutant)> =
        mutants.flat_map(|f| f.mutants.iter().map(|m| (f.name.as_path(), m))).collect();
    let tests = programs(copy, place, built)?;
    println!("{}: {} mutants, {} test programs", place.name, mutants.len(), tests.len());
    // Without a mutant all tests pass, and this is how long they take.
    let mut limits = vec![];
    for test in &tests {
        let begin = Instant::now();
        if !passes(test, 0, Duration::from_secs(3600))? {
            return Err(format!("{} fails without a mutant", test.name).into());
        }
        println!("  {}: {:.1} s", test.name, begin.elapsed().as_secs_f64());
        limits.push(begin.elapsed() * 10 + Duration::from_secs(20));
    }
    let chosen: Vec<&(&Path, &Mutant)> = mutants.iter().skip(part - 1).step_by(of).collect();
    let next = Mutex::new(chosen.iter());
    let survived = AtomicUsize::new(0);
    let work = || -> Result<(), Failure> {
        loop {
            let Some((file, mutant)) = next.lock().expect("no worker panics").next() else { return Ok(()) };
            let mut caught = None;
            for (test, limit) in tests.iter().zip(&limits) {
                if !passes(test, mutant.id, *limit)? {
                    caught = Some(&test.name);
                    break;
                }
            }
            let text = format!("{} {}:{} {}: {}", mutant.id, file.display(), mutant.line, mutant.function, mutant.does);
            match caught {
                Some(test) => println!("caught   {text} ({test})"),
                None => {
                    println!("SURVIVED {text}");
                    survived.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("a worker does not panic"))
    })?;
    let caught = chosen.len() - survived.into_inner();
    let share = 100.0 * caught as f64 / chosen.len().max(1) as f64;
    println!("{}: {caught} of {} caught ({share:.1} %)", place.name, chosen.len());
    Ok(())
}

/// A file with mutants.
struct Mutated {
    place: &'static str,
    /// Below the root of the sources.
    name: PathBuf,
    text: String,
    mutants: Vec<Mutant>,
}

/// Makes the copy, with the mutants that compile. What is equal already keeps its time, so that cargo does not build it again; and which
/// mutants do not compile is kept beside the copy, by the hash of what was mutated.
fn mutate(sources: &Path, copy: &Path, places: &[&'static Place]) -> Result<Vec<Mutated>, Failure> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(sources).output()?;
    if !listed.status.success() {
        return Err(format!("{} is no repository", sources.display()).into());
    }
    let names = String::from_utf8(listed.stdout)?;
    let mut originals = vec![];
    let roots: BTreeSet<PathBuf> = places.iter().map(|place| Path::new(place.part).join("src/lib.rs")).collect();
    for name in names.split_terminator('\0').map(Path::new) {
        let path = sources.join(name);
        let of = |place: &&&Place| {
            let source = Path::new(place.part).join("src");
            place.files.iter().any(|file| name.starts_with(source.join(file)))
        };
        if let Some(place) = places.iter().find(of) {
            originals.push((place.name, name.to_owned(), fs::read_to_string(path)?));
        } else if roots.contains(name) {
            write(&copy.join(name), (fs::read_to_string(path)? + QUESTION).as_bytes())?;
        } else if path.is_file() {
            write(&copy.join(name), &fs::read(path)?)?;
        }
    }
    if let Some(place) = places.iter().find(|place| originals.iter().all(|(name, ..)| *name != place.name)) {
        return Err(format!("{}: there is no {} below {}/src", place.name, place.files.join(", "), place.part).into());
    }
    let mut hasher = DefaultHasher::new();
    originals.hash(&mut hasher);
    let kept = copy.join(format!("left-out-{:x}.json", hasher.finish()));
    let mut left_out: BTreeSet<u32> = match fs::read(&kept) {
        Ok(bytes) => serde_json::from_slice(&bytes)?,
        Err(_) => BTreeSet::new(),
    };
    loop {
        let mut mutated = vec![];
        for (n, (place, name, original)) in originals.iter().enumerate() {
            let (text, mutants) = instrument::instrument(original, 10_000 * (n as u32 + 1), &left_out)?;
            write(&copy.join(name), text.as_bytes())?;
            mutated.push(Mutated { place, name: name.clone(), text, mutants });
        }
        let wrong = errors(copy, places, &mutated)?;
        if wrong.is_empty() {
            return Ok(mutated);
        }
        eprintln!("{} mutants do not compile", wrong.len());
        left_out.extend(wrong);
        write(&kept, &serde_json::to_vec(&left_out)?)?;
    }
}

/// Writes a file unless it says so already.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().ok_or("a file is in a folder")?)?;
    Ok(fs::write(path, bytes)?)
}

/// The mutants at which the compiler stops: for an error, the last one before its place.
fn errors(copy: &Path, places: &[&Place], mutated: &[Mutated]) -> Result<BTreeSet<u32>, Failure> {
    let mut out = BTreeSet::new();
    for part in places.iter().map(|place| place.part).collect::<BTreeSet<_>>() {
        for message in messages(copy, &["check", "--lib", "-p", &package(part)])? {
            let message = &message["message"];
            if message["level"] != "error" {
                continue;
            }
            for span in message["spans"].as_array().into_iter().flatten().filter(|s| s["is_primary"] == true) {
                let name = Path::new(span["file_name"].as_str().unwrap_or_default());
                let line = span["line_start"].as_u64().unwrap_or(0) as usize;
                let id = mutated.iter().find(|file| file.name == name).and_then(|file| before(&file.text, line));
                out.insert(id.ok_or_else(|| format!("an error that is no mutant's: {}", message["rendered"]))?);
            }
        }
        if !out.is_empty() {
            break;
        }
    }
    Ok(out)
}

/// The package in a folder.
fn package(part: &str) -> String {
    format!("rtc-{}", part.rsplit('/').next().unwrap_or(part))
}

/// The last mutant of a text up to a line.
fn before(text: &str, line: usize) -> Option<u32> {
    let lines: Vec<&str> = text.lines().take(line).collect();
    lines.iter().rev().find_map(|line| {
        let (_, rest) = line.rsplit_once("crate::mutant(")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    })
}

/// What cargo says, line by line.
fn messages(copy: &Path, arguments: &[&str]) -> Result<Vec<serde_json::Value>, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).args(["--locked", "--message-format=json"]).current_dir(copy).stderr(Stdio::inherit());
    let output = cargo.output()?;
    let lines = output.stdout.split(|&b| b == b'\n').filter(|line| line.starts_with(b"{"));
    Ok(lines.map(serde_json::from_slice).collect::<Result<_, _>>()?)
}

struct Test {
    name: String,
    program: PathBuf,
    folder: PathBuf,
    filters: &'static [&'static str],
}

fn programs(copy: &Path, place: &Place, built: &[serde_json::Value]) -> Result<Vec<Test>, Failure> {
    let mut executables = BTreeMap::new();
    for message in built {
        if message["message"]["level"] == "error" {
            return Err(format!("the mutated tests do not compile: {}", message["message"]["rendered"]).into());
        }
        if let (Some(program), Some(manifest)) = (message["executable"].as_str(), message["manifest_path"].as_str())
            && message["profile"]["test"] == true
        {
            let folder = Path::new(manifest).parent().ok_or("a manifest is in a folder")?;
            let kind = message["target"]["kind"][0].as_str().unwrap_or_default();
            let name = if kind == "lib" { "lib" } else { message["target"]["name"].as_str().unwrap_or_default() };
            executables.insert((folder.to_owned(), name.to_owned()), PathBuf::from(program));
        }
    }
    let find = |&(folder, name, filters): &(&str, &str, &'static [&'static str])| -> Result<Test, Failure> {
        let key = (fs::canonicalize(copy.join(folder))?, name.to_owned());
        let program = executables.get(&key).ok_or_else(|| format!("there is no test {folder}/{name}"))?.clone();
        Ok(Test {
            name: format!("{folder}/{name} {}", filters.join(" ")).trim().to_owned(),
            program,
            folder: key.0,
            filters,
        })
    };
    place.tests.iter().map(find).collect()
}

/// Whether a test passes with a mutant. One that takes longer than its limit does not.
fn passes(test: &Test, mutant: u32, limit: Duration) -> Result<bool, Failure> {
    let mut command = Command::new(&test.program);
    command.args(test.filters).args(["--test-threads", "1"]).current_dir(&test.folder);
    command.env("RTC_MUTANT", mutant.to_string()).env("INSTA_UPDATE", "no").env_remove("RTC_UPDATE");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
