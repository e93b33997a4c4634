//! `grid.json`: which rows a grid has, in which order, and which runs are theirs.
//!
//! `rtc ablate` writes it before it trains, so that the folder of a grid names its rows.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{CheckpointError, Error};
use crate::record::{sealed, unsealed};
use rtc_base::disk::IoError;
use rtc_base::disk::beneath::{self, SMALL};
use rtc_base::disk::write_file;

const FILE: &str = "grid.json";

/// The form of the file. The first one had no checksum.
const FORMAT: u32 = 2;

/// The rows of a grid as its last command had them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridManifest {
    /// The form of the file.
    format: u32,
    /// The row that others are compared with; the first one where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The rows in the order of the experiment.
    pub rows: Vec<ManifestRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRow {
    /// What tables call it.
    pub name: String,
    /// The model: `gut`, or `gut:no_gate`.
    pub model: String,
    /// Hash of the normalised spec with all edits.
    pub spec_hash: String,
    /// Its cells in the order of the seeds.
    pub cells: Vec<ListedCell>,
}

/// One cell of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedCell {
    /// The seed of the run.
    pub seed: u64,
    /// The folder of the run, from the folder of the grid; it need not lie inside, nor exist yet.
    pub run: PathBuf,
}

impl GridManifest {
    /// A list of these rows.
    pub fn new(rows: Vec<ManifestRow>) -> Self {
        Self { format: FORMAT, baseline: None, rows }
    }

    /// The same with a row that others are compared with.
    #[must_use]
    pub fn with_baseline(self, name: &str) -> Self {
        Self { baseline: Some(name.to_owned()), ..self }
    }

    /// Whether a folder is that of a grid which says its rows.
    pub fn exists(folder: &Path) -> bool {
        beneath::exists(&folder.join(FILE))
    }

    /// Reads the rows of the grid in a folder; nothing if it does not say them.
    ///
    /// # Errors
    /// The file can't be read, or is no list of rows.
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE);
        let bytes = match beneath::read_named(folder, FILE, SMALL) {
            Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let broken = |why: String| {
            let reason = format!("this list of the rows of a grid {why}; `rtc ablate` writes it again");
            CheckpointError { path: path.clone(), reason, previous: None }
        };
        let found: Self = unsealed(&bytes).map_err(broken)?;
        match found.format {
            FORMAT => Ok(Some(found)),
            other => Err(broken(format!("has the format {other}, and this version of rtc knows {FORMAT}")).into()),
        }
    }

    /// Writes the rows into the folder of the grid, which must exist. Several processes may do so at a time, and the list is that of
    /// one of them.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path) -> Result<(), IoError> {
        let (path, text) = (folder.join(FILE), sealed(self));
        if beneath::read_named(folder, FILE, SMALL).is_ok_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        write_file(&path, &text)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn rows_read_back_in_their_order_and_broken_files_have_a_line() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(GridManifest::read(folder.path()).expect("nothing is there"), None);
        let cell = |seed: u64| ListedCell { seed, run: format!("ut-b/seed{seed}").into() };
        let row = |name: &str, seeds: &[u64]| ManifestRow {
            name: name.to_owned(),
            model: "ut".to_owned(),
            spec_hash: "3f2a".to_owned(),
            cells: seeds.iter().map(|seed| cell(*seed)).collect(),
        };
        let manifest = GridManifest::new(vec![row("ut, b", &[2, 1]), row("a", &[])]).with_baseline("a");
        manifest.write(folder.path()).expect("it can be written");
        assert_eq!(GridManifest::read(folder.path()).expect("it is whole"), Some(manifest));

        let path = folder.path().join(FILE);
        let refused = |text: &str| {
            fs::write(&path, text).expect("it can be written");
            GridManifest::read(folder.path()).expect_err("it is broken").to_string()
        };
        assert!(
            refused("{ \"format\": 2, \"rows\": [] }")
                .contains("grid.json is refused: this list of the rows of a grid does not end")
        );
        assert!(refused(&sealed(&serde_json::json!({ "format": 7, "rows": [] }))).contains("has the format 7"));
    }
}
