//! Turns of the tests that go through every model: a run takes a third of them, and the next commit may have another third.
//!
//! `RTC_TURN` says what a run takes: `0`, `1` or `2` a turn, `all` everything, anything else what has this in its name. Unless it is set,
//! the commit decides, so that a failure can be repeated.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Turns that together take everything.
pub const TURNS: usize = 3;

/// What a run takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    All,
    /// Every third from this one.
    Third(usize),
    /// What has this in its name.
    Named(String),
}

static TURN: LazyLock<Turn> = LazyLock::new(|| match std::env::var("RTC_TURN") {
    Ok(asked) => Turn::read(&asked),
    Err(_) => Turn::Third(commit() % TURNS),
});

/// A number of the commit; 0 where there is no repository.
fn commit() -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let head = Command::new("git").args(["rev-parse", "--short=7", "HEAD"]).current_dir(folder).output();
    let head = head.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    usize::from_str_radix(&head, 16).unwrap_or(0)
}

impl Turn {
    /// The turn of this run.
    pub fn of_run() -> &'static Self {
        &TURN
    }

    /// What `RTC_TURN` asks for.
    ///
    /// # Panics
    /// With a number that is no turn.
    fn read(asked: &str) -> Self {
        match asked.parse() {
            Ok(turn) => {
                assert!(turn < TURNS, "RTC_TURN={asked}: a turn is below {TURNS}, `all`, or a part of a name");
                Self::Third(turn)
            }
            Err(_) if asked == "all" => Self::All,
            Err(_) => Self::Named(asked.to_owned()),
        }
    }

    /// Whether it takes what has this number and this name.
    pub fn takes(&self, number: usize, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Third(turn) => number % TURNS == *turn,
            Self::Named(part) => name.contains(part),
        }
    }

    /// What it takes of all.
    pub fn of<T>(&self, all: impl IntoIterator<Item = T>, name: impl Fn(&T) -> &str) -> Vec<T> {
        let numbered = all.into_iter().enumerate();
        numbered.filter(|(number, one)| self.takes(*number, name(one))).map(|(_, one)| one).collect()
    }
}

impl std::fmt::Display for Turn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Third(turn) => write!(f, "{turn} of {TURNS}"),
            Self::Named(part) => write!(f, "`{part}`"),
        }
    }
}
