//! Claims: which process trains which cell of a grid, where several processes, on one machine or on many, share its folder.
//!
//! A cell is a name, the hash of what it is. Its claims are the files `GRID/claims/CELL/N.json`, `N` from 1, and the highest of them
//! is the one that counts. A file is never removed, and a claim is taken by making the next one, which the file system lets one
//! process alone do: so of several takers one wins, and one that comes late takes nothing from anybody.
//!
//! The holder changes its file every few seconds. A watcher takes a claim over that did not change for the length of a lease on the
//! watcher's own clock: clocks of two machines and times of files are never compared. A holder that was suspended meanwhile finds a
//! higher claim than its own before it writes anything into the folder of the run, and ends without writing: see [`Fenced`].

mod fence;
mod hold;
mod host;
mod watch;

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::record::sha256;
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, SMALL};

pub use fence::Fenced;
pub use hold::Claim;
pub use host::Holder;
pub use watch::{ClaimStatus, HeldClaim, Watch};

/// The folder of all claims in that of a grid.
const FOLDER: &str = "claims";

/// How long a claim holds that its holder does not renew.
pub const LEASE: Duration = Duration::from_secs(60);

/// How often a holder renews its claim within a lease.
const BEATS: u32 = 12;

/// The claims on the cells of one grid.
#[derive(Clone, Debug)]
pub struct Claims {
    grid: PathBuf,
    lease: Duration,
    own: Holder,
}

/// The content of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Differs between any two claims.
    token: String,
    /// Who holds it.
    pub holder: Holder,
    /// How often it was renewed.
    beats: u64,
    /// How far the cell is, where its training has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Far>,
    /// Whether the holder has given it up.
    released: bool,
}

/// How far a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Far {
    /// Updates done.
    pub update: u64,
    /// Updates of the whole run.
    pub total: u64,
    /// Updates in a second, where some were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
}

impl Far {
    /// The seconds that the rest takes at the same rate.
    pub fn seconds_left(&self) -> Option<f64> {
        let rate = self.rate.filter(|rate| *rate > 0.0)?;
        Some(self.total.saturating_sub(self.update) as f64 / rate)
    }
}

impl Claims {
    /// Those of the grid in a folder, each of which holds for the length of a lease.
    pub fn of(grid: &Path, lease: Duration) -> Self {
        Self { grid: grid.to_owned(), lease, own: Holder::this() }
    }

    /// Takes a cell whose highest claim is this one; none if another process was faster.
    ///
    /// # Errors
    /// The claim can't be written.
    pub fn take(&self, cell: &str, highest: u64) -> Result<Option<Claim>, IoError> {
        let folder = self.cell(cell);
        beneath::create_folder(&folder.grid, &folder.name).map_err(IoError::at("create", &folder.path()))?;
        let record = ClaimRecord {
            token: token(&self.own),
            holder: self.own.clone(),
            beats: 0,
            progress: None,
            released: false,
        };
        let next = highest + 1;
        let made = folder.create(next, &folder.draft(&record), &text(&record));
        if !made.map_err(IoError::at("create", &self.grid.join(folder.file(next))))? {
            return Ok(None);
        }
        Claim::start(folder, next, record, self.lease / BEATS).map(Some)
    }

    fn cell(&self, cell: &str) -> CellClaims {
        CellClaims { grid: self.grid.clone(), name: Path::new(FOLDER).join(cell) }
    }
}

/// The folder with the claims on a cell. Nothing below the folder of the grid is reached through a link.
#[derive(Clone, Debug)]
struct CellClaims {
    grid: PathBuf,
    /// The name of the folder from that of the grid: `claims/CELL`.
    name: PathBuf,
}

/// The highest number of a claim. It is above what any grid reaches, and leaves numbers for the claims that follow it.
const MOST: u64 = 1_000_000_000;

impl CellClaims {
    fn path(&self) -> PathBuf {
        self.grid.join(&self.name)
    }

    /// The name of a claim.
    fn file(&self, generation: u64) -> PathBuf {
        self.name.join(format!("{generation}.json"))
    }

    /// Where the content of a claim is written before it has its name.
    fn draft(&self, record: &ClaimRecord) -> PathBuf {
        self.name.join(format!("{}.new", record.token))
    }

    fn read(&self, generation: u64) -> io::Result<Vec<u8>> {
        beneath::read(&self.grid, &self.file(generation), SMALL)
    }

    /// The highest claim on the cell; 0 without one.
    ///
    /// The folder is listed, instead of asking for the next file: a network file system may remember for a while that a file was absent,
    /// and looks at a folder anew when that is opened.
    fn highest(&self) -> io::Result<u64> {
        match beneath::open_folder(&self.grid, &self.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            opened => drop(opened?),
        }
        let mut highest = 0;
        for entry in fs::read_dir(self.path())? {
            let name = entry?.file_name();
            let number =
                name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(|number| number.parse().ok());
            highest = highest.max(number.unwrap_or(0));
        }
        if highest > MOST {
            return Err(io::Error::other(format!("{highest}.json is no claim, for they count from 1: remove it")));
        }
        Ok(highest)
    }

    /// Writes a draft with the next content of a claim.
    fn write_draft(&self, draft: &Path, content: &[u8]) -> io::Result<()> {
        beneath::create_new(&self.grid, draft)?.write_all(content)
    }

    /// Makes a claim with its whole content; false if there is one of that number already. A link to a draft does both at once, on
    /// network file systems, too.
    fn create(&self, generation: u64, draft: &Path, content: &[u8]) -> io::Result<bool> {
        let made = match self.write_draft(draft, content) {
            Ok(()) => match beneath::link(&self.grid, draft, &self.file(generation)) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(self.is_own(generation, content)),
                Err(_) => self.create_without_links(generation, content),
            },
            Err(error) => Err(error),
        };
        beneath::remove(&self.grid, draft)?;
        made
    }

    /// The same where the file system knows no links. Whoever reads the file before its content is written sees a claim of somebody who
    /// does not say his name.
    fn create_without_links(&self, generation: u64, content: &[u8]) -> io::Result<bool> {
        match beneath::create_new(&self.grid, &self.file(generation)) {
            Ok(mut file) => file.write_all(content).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(self.is_own(generation, content)),
            Err(error) => Err(error),
        }
    }

    /// Whether a claim that was there already is one's own: the answer of a server may be lost, and the question asked again.
    fn is_own(&self, generation: u64, content: &[u8]) -> bool {
        self.read(generation).is_ok_and(|found| found == content)
    }
}

fn text(record: &ClaimRecord) -> Vec<u8> {
    let mut text = serde_json::to_vec(record).expect("names and numbers are valid JSON");
    text.push(b'\n');
    text
}

/// A text that no other claim has.
fn token(own: &Holder) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    sha256(format!("{own:?} {now} {count}"))[..16].to_owned()
}

#[cfg(test)]
mod tests;
