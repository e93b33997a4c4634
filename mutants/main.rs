//! Mutation testing of the places where a fault would be a wrong number: every fault of `instrument` is switched on, one after the other, and
//! the tests of its place run until one fails. All mutants of a place are in one build, since a build of rtc takes minutes and a test seconds.
//!
//! `rtc-mutants TREE PLACE [PART OF]` works in a copy of the sources that it may change; `tests/mutants.sh` makes the copy.

mod instrument;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use instrument::Mutant;

/// What is mutated together, and the tests that should notice, quick ones first.
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
            ("tests", "ir", &[]),
            ("runtime", "beam", &["gradients"]),
            ("tests", "parity", &[]),
            ("tests", "numerics", &["gradients::"]),
            ("tests", "numerics", &["scans::", "trees::", "searches::"]),
            ("tests", "field", &[]),
        ],
    },
    Place {
        name: "causality",
        part: "compiler",
        files: &["causality"],
        tests: &[
            ("compiler", "lib", &[]),
            ("tests", "language", &["causal"]),
            ("tests", "numerics", &["causality::"]),
            ("tests", "language", &[]),
        ],
    },
    Place {
        name: "checkpoint",
        part: "runtime",
        files: &["checkpoint.rs"],
        tests: &[
            ("runtime", "lib", &["checkpoint"]),
            ("runtime", "services", &["checkpoints::"]),
            ("runtime", "services", &["training::", "records::", "weights::", "power::"]),
            ("cli", "damage", &[]),
            ("cli", "kill", &[]),
        ],
    },
    Place {
        name: "loops",
        part: "runtime",
        files: &["exec/loops"],
        tests: &[
            ("runtime", "beam", &[]),
            ("tests", "parity", &[]),
            ("tests", "numerics", &["hand_cases::", "halting::", "folds::", "as_loops::", "trees::", "searches::"]),
            ("tests", "field", &[]),
            ("tests", "numerics", &["gradients::", "rows::", "incremental::", "recompute::", "stopping::"]),
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
    let names: Vec<&str> = PLACES.iter().map(|p| p.name).collect();
    let read = || -> Option<(PathBuf, &Place, usize, usize)> {
        let place = PLACES.iter().find(|p| Some(p.name) == arguments.get(1).map(String::as_str))?;
        let number = |n: usize| arguments.get(n).map_or(Some(1), |text| text.parse().ok());
        let (part, of) = (number(2)?, number(3)?);
        (1 <= part && part <= of).then(|| (PathBuf::from(&arguments[0]), place, part, of))
    };
    let Some((tree, place, part, of)) = read() else {
        eprintln!("usage: rtc-mutants TREE {} [PART OF]", names.join("|"));
        return ExitCode::from(2);
    };
    match run(&tree, place, part, of) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn run(tree: &Path, place: &Place, part: usize, of: usize) -> Result<(), Failure> {
    let mutants = mutate(tree, place)?;
    let tests = programs(tree, place)?;
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
    let chosen: Vec<&(PathBuf, Mutant)> = mutants.iter().skip(part - 1).step_by(of).collect();
    let next = Mutex::new(chosen.iter());
    let survivors = Mutex::new(vec![]);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| -> Result<(), Failure> {
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
                let text = format!("{}:{} {}: {}", file.display(), mutant.line, mutant.function, mutant.does);
                match caught {
                    Some(test) => println!("caught   {} {text} ({test})", mutant.id),
                    None => {
                        println!("SURVIVED {} {text}", mutant.id);
                        survivors.lock().expect("no worker panics").push(text);
                    }
                }
            }
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().expect("a worker does not panic"))
    })?;
    let survived = survivors.into_inner().expect("no worker panics").len();
    let caught = chosen.len() - survived;
    let share = 100.0 * caught as f64 / chosen.len().max(1) as f64;
    println!("{}: {caught} of {} caught ({share:.1} %)", place.name, chosen.len());
    Ok(())
}

/// Puts the mutants of a place into the tree, those that compile.
fn mutate(tree: &Path, place: &Place) -> Result<Vec<(PathBuf, Mutant)>, Failure> {
    let source = tree.join(place.part).join("src");
    let mut files = vec![];
    for name in place.files {
        collect(&source.join(name), &mut files)?;
    }
    files.sort();
    let root = source.join("lib.rs");
    let text = fs::read_to_string(&root)?;
    if !text.contains("pub fn mutant(") {
        fs::write(&root, text + QUESTION)?;
    }
    let mut originals = vec![];
    for file in &files {
        originals.push(fs::read_to_string(file)?);
    }
    let mut left_out = BTreeSet::new();
    loop {
        let mut found = vec![];
        let mut texts = BTreeMap::new();
        for (n, (file, original)) in files.iter().zip(&originals).enumerate() {
            let first = 10_000 * (n as u32 + 1);
            let (text, mutants) = instrument::instrument(original, first, &left_out)?;
            fs::write(file, &text)?;
            let name = file.strip_prefix(tree)?.to_path_buf();
            texts.insert(name.clone(), text);
            found.extend(mutants.into_iter().map(|m| (name.clone(), m)));
        }
        let wrong = errors(tree, place.part, &texts)?;
        if wrong.is_empty() {
            return Ok(found);
        }
        eprintln!("{} of {} mutants do not compile", wrong.len(), found.len());
        left_out.extend(wrong);
    }
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            collect(&entry?.path(), files)?;
        }
    } else if path.extension().is_some_and(|e| e == "rs") {
        files.push(path.to_owned());
    }
    Ok(())
}

/// The mutants at which the compiler stops: for an error, the last one before its place.
fn errors(tree: &Path, part: &str, texts: &BTreeMap<PathBuf, String>) -> Result<BTreeSet<u32>, Failure> {
    let mut out = BTreeSet::new();
    for message in messages(tree, &["check", "--lib", "-p", &format!("rtc-{part}")])? {
        if message["reason"] != "compiler-message" || message["message"]["level"] != "error" {
            continue;
        }
        let message = &message["message"];
        let spans = message["spans"].as_array().into_iter().flatten().filter(|s| s["is_primary"] == true);
        for span in spans {
            let file = PathBuf::from(span["file_name"].as_str().unwrap_or_default());
            let line = span["line_start"].as_u64().unwrap_or(0) as usize;
            let text = texts.get(&file).ok_or_else(|| format!("an error that is no mutant's: {}", message["rendered"]))?;
            let before: Vec<&str> = text.lines().take(line).collect();
            let id = before.iter().rev().find_map(|line| {
                let (_, rest) = line.rsplit_once("crate::mutant(")?;
                rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
            });
            out.insert(id.ok_or_else(|| format!("an error before all mutants: {}", message["rendered"]))?);
        }
    }
    Ok(out)
}

/// What cargo says, line by line.
fn messages(tree: &Path, arguments: &[&str]) -> Result<Vec<serde_json::Value>, Failure> {
    let mut cargo = Command::new("cargo");
    cargo.args(arguments).args(["--locked", "--message-format=json"]).current_dir(tree).stderr(Stdio::inherit());
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

fn programs(tree: &Path, place: &Place) -> Result<Vec<Test>, Failure> {
    let mut executables = BTreeMap::new();
    let built = messages(tree, &["test", "--workspace", "--no-run"])?;
    for message in &built {
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
        let key = (fs::canonicalize(tree.join(folder))?, name.to_owned());
        let program = executables.get(&key).ok_or_else(|| format!("there is no test {folder}/{name}"))?.clone();
        Ok(Test { name: format!("{folder}/{name} {}", filters.join(" ")).trim().to_owned(), program, folder: key.0, filters })
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
