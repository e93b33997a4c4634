//! Checkpoints that are damaged, cut off, or written to a disk that fills up.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use rtc_runtime::checkpoint::{Checkpoint, Checkpoints, Disk, FileSystem, Slot, load};
use rtc_runtime::error::Error;
use rtc_runtime::learner::Learner;
use rtc_runtime::train::{Silent, train};

use crate::mock::{Mock, create, setting};

#[test]
fn slow_weights_are_saved_where_there_are_any() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = Checkpoints::open(folder.path(), Box::new(FileSystem)).expect("an empty folder");
    let mut learner = Mock::new(3).state();
    for slow in [None, Some(learner.parameters.clone())] {
        learner.optimiser.extend(slow.map(|slow| ("slow".to_owned(), slow)));
        let saved = Checkpoint { learner: learner.clone(), ..Checkpoint::default() };
        store.save(Slot::Last, &saved).expect("there is room");
        assert_eq!(store.load(Slot::Last).expect("it was saved").learner, learner);
    }
}

/// A disk on which the operation of this number, and all after it, fail; a failing write leaves half a file.
struct Full {
    left: Rc<Cell<usize>>,
}

impl Full {
    fn allows(&self) -> io::Result<()> {
        match self.left.get().checked_sub(1) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
        }
    }
}

impl Disk for Full {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        self.allows()?;
        FileSystem.create_folder(path)
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.allows() {
            FileSystem.write(path, &bytes[..bytes.len() / 2])?;
            return Err(error);
        }
        FileSystem.write(path, bytes)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.allows()?;
        FileSystem.rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.allows()?;
        FileSystem.remove(path)
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        self.allows()?;
        FileSystem.sync_folder(path)
    }
}

fn checkpoint(seed: u64) -> Checkpoint {
    let mut checkpoint = Checkpoint { learner: Mock::new(seed).state(), ..Checkpoint::default() };
    checkpoint.state.seed = seed;
    checkpoint
}

fn store(folder: &Path) -> Checkpoints {
    Checkpoints::open(folder, Box::new(FileSystem)).expect("a readable folder")
}

#[test]
fn a_checkpoint_reads_back_and_the_previous_one_is_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = store(folder.path());
    assert!(!store.exists(Slot::Last));
    for seed in 1..4 {
        store.save(Slot::Last, &checkpoint(seed)).expect("space enough");
        assert_eq!(store.load(Slot::Last), Ok(checkpoint(seed)));
    }
    assert_eq!(load(&folder.path().join("last.previous")), Ok(checkpoint(2)));
}

#[test]
fn a_damaged_checkpoint_is_refused_with_its_reason_and_the_last_good_one() {
    let files = ["weights.safetensors", "optimiser.safetensors", "state.json", "manifest.json"];
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("truncated", |path| {
            let bytes = fs::read(path).expect("a file");
            fs::write(path, &bytes[..bytes.len() - 3]).expect("writable");
        }),
        ("altered", |path| {
            let mut bytes = fs::read(path).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            fs::write(path, bytes).expect("writable");
        }),
        ("missing", |path| fs::remove_file(path).expect("a file")),
    ];
    for file in files {
        for (what, damage) in damages {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let mut store = store(folder.path());
            store.save(Slot::Last, &checkpoint(1)).expect("space enough");
            store.save(Slot::Last, &checkpoint(2)).expect("space enough");
            damage(&folder.path().join("last").join(file));
            let error = store.load(Slot::Last).expect_err(what);
            assert_eq!(error.previous, Some(folder.path().join("last.previous")), "{file} {what}: {error}");
            assert_eq!(Error::from(error.clone()).exit_code(), 7);
            if file != "manifest.json" {
                assert!(error.reason.contains(file), "{what}: {error}");
            }
            // Saving again must not put the damaged one in the place of the good one.
            store.save(Slot::Last, &checkpoint(3)).expect("space enough");
            assert_eq!(load(&folder.path().join("last.previous")), Ok(checkpoint(1)));
        }
    }
    let missing = load(&PathBuf::from("no/such/checkpoint")).expect_err("nothing there");
    assert_eq!(missing.previous, None);
}

#[test]
fn a_disk_that_fills_up_at_any_operation_leaves_a_good_checkpoint() {
    let mut failures = 0;
    for operations in 0..30 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut before = store(folder.path());
        before.save(Slot::Last, &checkpoint(1)).expect("space enough");
        before.save(Slot::Last, &checkpoint(2)).expect("space enough");
        let left = Rc::new(Cell::new(operations));
        let mut full = Checkpoints::open(folder.path(), Box::new(Full { left })).expect("nothing to finish");
        let result = full.save(Slot::Last, &checkpoint(3));
        let found = store(folder.path()).load(Slot::Last).expect("old or new, but whole");
        match result {
            Ok(()) => assert_eq!(found, checkpoint(3)),
            Err(error) => {
                failures += 1;
                assert_eq!(error.exit_code(), 6, "{error}");
                assert!(error.to_string().contains("No space left"), "{error}");
                assert!(found == checkpoint(2) || found == checkpoint(3));
            }
        }
    }
    assert!(failures > 8, "every operation of a save was cut off once");
}

#[test]
fn training_on_a_full_disk_fails_with_code_6_and_can_go_on() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let left = Rc::new(Cell::new(40));
    let disk = Box::new(Full { left: left.clone() });
    let mut run = create(folder.path(), &experiment).with_disk(disk).expect("nothing to finish");
    let error = train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent);
    assert_eq!(error.expect_err("the disk is full").exit_code(), 6);
    left.set(1000);
    train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("space again");
}
