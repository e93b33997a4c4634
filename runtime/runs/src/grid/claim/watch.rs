//! The claims of all processes, as one of them sees them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{ClaimRecord, Claims};
use rtc_base::disk::IoError;

/// Watches claims: which are held, and which are left.
#[derive(Debug)]
pub struct Watch {
    claims: Claims,
    seen: BTreeMap<String, ObservedClaim>,
}

/// The last observed state of the claim on a cell.
#[derive(Debug)]
struct ObservedClaim {
    generation: u64,
    content: Vec<u8>,
    /// When it was first seen like this.
    since: Instant,
    /// Whether it was seen to change.
    renewed: bool,
}

/// The status of the claim on a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimStatus {
    /// Nobody holds it.
    Free {
        /// The highest claim; 0 where nobody has held it yet.
        highest: u64,
        /// Whether its holder ended, or fell silent, without giving it up.
        left: bool,
    },
    /// A process holds it.
    Held(HeldClaim),
}

/// A claim that a process holds.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldClaim {
    /// Which claim on the cell it is.
    pub generation: u64,
    /// What it says; nothing while its content is being written.
    pub record: Option<ClaimRecord>,
    /// How long it did not change under the eyes of the watcher.
    pub silent: Duration,
    /// Whether the watcher has seen it change, so that its holder is alive for certain.
    pub renewed: bool,
}

impl Watch {
    /// Watches the claims of a grid.
    pub fn new(claims: Claims) -> Self {
        Self { claims, seen: BTreeMap::new() }
    }

    /// The claims that are watched.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// How it stands with a cell. A claim that does not change becomes free when this is asked again after the length of a lease.
    ///
    /// # Errors
    /// The claims can't be read.
    pub fn look(&mut self, cell: &str) -> Result<ClaimStatus, IoError> {
        let folder = self.claims.cell(cell);
        let generation = folder.highest().map_err(IoError::at("read", &folder.path()))?;
        if generation == 0 {
            return Ok(ClaimStatus::Free { highest: 0, left: false });
        }
        let file = folder.grid.join(folder.file(generation));
        let content = folder.read(generation).map_err(IoError::at("read", &file))?;
        let record: Option<ClaimRecord> = serde_json::from_slice(&content).ok();
        let (released, gone) =
            record.as_ref().map_or((false, false), |record| (record.released, record.holder.is_gone(&self.claims.own)));
        if released || gone {
            return Ok(ClaimStatus::Free { highest: generation, left: !released });
        }
        let seen = self.see(cell, generation, content);
        let silent = seen.since.elapsed();
        let renewed = seen.renewed;
        if silent >= self.claims.lease {
            return Ok(ClaimStatus::Free { highest: generation, left: true });
        }
        Ok(ClaimStatus::Held(HeldClaim { generation, record, silent, renewed }))
    }

    /// Notes what was seen of a claim.
    fn see(&mut self, cell: &str, generation: u64, content: Vec<u8>) -> &ObservedClaim {
        let fresh = |content, renewed| ObservedClaim { generation, content, since: Instant::now(), renewed };
        let seen = self.seen.entry(cell.to_owned()).or_insert_with(|| fresh(content.clone(), false));
        if (seen.generation, &seen.content) != (generation, &content) {
            *seen = fresh(content, seen.generation == generation);
        }
        seen
    }
}
