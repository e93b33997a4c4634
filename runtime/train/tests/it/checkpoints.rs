//! Checkpoints that are damaged, cut off, or written to a disk that fills up.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_base::disk::{FileSystem, write_on};
use rtc_exec::learner::Learner;
use rtc_runs::error::{CheckpointError, Error};
use rtc_runs::record::checkpoint::{Checkpoint, CheckpointSlot, Checkpoints};

use crate::disks::{Op, Tested};
use crate::mock::Mock;

#[test]
fn slow_weights_are_saved_where_there_are_any() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store =
        Checkpoints::open(folder.path(), "", Rc::new(FileSystem::below(folder.path()))).expect("an empty folder");
    let mut learner = Mock::new(3).state();
    for slow in [None, Some(learner.parameters.clone())] {
        learner.optimiser.extend(slow.map(|slow| ("slow".to_owned(), slow)));
        let saved = Checkpoint { learner: learner.clone(), ..Checkpoint::default() };
        store.save(CheckpointSlot::Last, &saved).expect("there is room");
        assert_eq!(store.load(CheckpointSlot::Last).expect("it was saved").learner, learner);
    }
}

/// The checkpoint in a folder.
fn load(path: &Path) -> Result<Checkpoint, Error> {
    rtc_runs::record::checkpoint::load(path, path)
}

fn checkpoint(seed: u64) -> Checkpoint {
    let mut checkpoint = Checkpoint { learner: Mock::new(seed).state(), ..Checkpoint::default() };
    checkpoint.state.seed = seed;
    checkpoint
}

fn store(folder: &Path) -> Checkpoints {
    Checkpoints::open(folder, "", Rc::new(FileSystem::below(folder))).expect("a readable folder")
}

#[test]
fn a_checkpoint_reads_back_and_the_previous_one_is_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    assert!(!store.exists(CheckpointSlot::Last));
    for seed in 1..4 {
        store.save(CheckpointSlot::Last, &checkpoint(seed)).expect("space enough");
        assert_eq!(store.load(CheckpointSlot::Last).expect("whole"), checkpoint(seed));
    }
    assert_eq!(load(&folder.path().join("last.previous")).expect("whole"), checkpoint(2));
}

#[test]
fn what_is_no_folder_is_missing_and_what_cant_be_asked_is_a_failure_of_the_system() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("last");
    fs::write(&file, "no folder").expect("writable");
    for missing in [&file, &folder.path().join("nowhere")] {
        let error = load(missing).expect_err("there is no checkpoint");
        assert_eq!(error.exit_code(), 7, "{error}");
        assert!(error.to_string().contains("there is no such folder"), "{error}");
    }
    // A path through a file can't be asked for.
    let error = load(&file.join("inside")).expect_err("there is no checkpoint");
    assert_eq!(error.exit_code(), 6, "{error}");
}

#[test]
fn a_damaged_checkpoint_is_refused_with_its_reason_and_the_last_good_one() {
    let files = ["weights.safetensors", "optimiser.safetensors", "state.json", "manifest.json"];
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("bytes instead of", |path| {
            let bytes = fs::read(path).expect("a file");
            fs::write(path, &bytes[..bytes.len() - 3]).expect("writable");
        }),
        ("its SHA-256 is not the saved one", |path| {
            let mut bytes = fs::read(path).expect("a file");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x10;
            fs::write(path, bytes).expect("writable");
        }),
        ("is missing", |path| fs::remove_file(path).expect("a file")),
    ];
    for file in files {
        for (reason, damage) in damages {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let store = store(folder.path());
            store.save(CheckpointSlot::Last, &checkpoint(1)).expect("space enough");
            store.save(CheckpointSlot::Last, &checkpoint(2)).expect("space enough");
            damage(&folder.path().join("last").join(file));
            let error = refused(&folder.path().join("last"));
            assert_eq!(error.previous, Some(folder.path().join("last.previous")), "{file} {reason}: {error}");
            if file != "manifest.json" {
                assert!(error.reason.contains(file) && error.reason.contains(reason), "{reason}: {error}");
            }
            // Saving again must not put the damaged one in the place of the good one.
            store.save(CheckpointSlot::Last, &checkpoint(3)).expect("space enough");
            assert_eq!(load(&folder.path().join("last.previous")).expect("whole"), checkpoint(1));
        }
    }
    assert_eq!(refused(&PathBuf::from("no/such/checkpoint")).previous, None);
}

/// Why a checkpoint is refused, which must be with code 7.
fn refused(path: &Path) -> CheckpointError {
    let error = load(path).expect_err("it is damaged");
    assert_eq!(error.exit_code(), 7, "{error}");
    match error {
        Error::Checkpoint(error) => error,
        other => panic!("{other} has the code of a checkpoint that is refused"),
    }
}

/// With another one in the place of the best, a table would have the numbers of that one.
#[test]
fn no_checkpoint_is_offered_in_the_place_of_the_best() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    for slot in [CheckpointSlot::Best, CheckpointSlot::Best, CheckpointSlot::Last] {
        store.save(slot, &checkpoint(1)).expect("space enough");
    }
    fs::write(folder.path().join("best/weights.safetensors"), "damaged").expect("writable");
    let error = refused(&folder.path().join("best"));
    assert_eq!(error.previous, None);
    assert!(error.reason.contains("no other one can stand in its place"), "{error}");
}

/// What the system does not give is no damage: nothing is told of other checkpoints.
#[test]
fn a_file_that_the_system_does_not_give_is_no_damaged_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = store(folder.path());
    for seed in 1..3 {
        store.save(CheckpointSlot::Last, &checkpoint(seed)).expect("space enough");
    }
    for file in ["weights.safetensors", "state.json", "manifest.json"] {
        let path = folder.path().join("last").join(file);
        let bytes = fs::read(&path).expect("a file");
        fs::remove_file(&path).expect("a file");
        let refused = || {
            let error = load(&folder.path().join("last")).expect_err("it can't be read");
            assert_eq!(error.exit_code(), 6, "{error}");
            assert!(error.to_string().contains(file) && !error.to_string().contains("last good"), "{error}");
            // Nor is it thrown away for the next one.
            assert_eq!(store.save(CheckpointSlot::Last, &checkpoint(3)).expect_err("it may be whole").exit_code(), 6);
        };
        // A folder can be opened, and reading it fails.
        fs::create_dir(&path).expect("nothing is there");
        refused();
        fs::remove_dir(&path).expect("a folder");
        // A link to itself is there and can't be opened.
        symlink(&path, &path).expect("nothing is there");
        refused();
        fs::remove_file(&path).expect("a link");
        fs::write(&path, bytes).expect("writable");
        assert_eq!(store.load(CheckpointSlot::Last).expect("whole again"), checkpoint(2));
    }
}

#[test]
fn a_reader_never_sees_a_part_of_a_save() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    store(folder.path()).save(CheckpointSlot::Last, &checkpoint(1)).expect("space enough");
    let (done, path) = (AtomicBool::new(false), folder.path().join("last"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let store = store(folder.path());
            for seed in 0..200 {
                store.save(CheckpointSlot::Last, &checkpoint(1 + seed % 2)).expect("space enough");
            }
            done.store(true, Ordering::Relaxed);
        });
        let mut reads = 0;
        while !done.load(Ordering::Relaxed) {
            let found = load(&path).expect("one of the saves");
            assert_eq!(found, checkpoint(found.state.seed), "parts of two saves");
            reads += 1;
        }
        assert!(reads > 20, "{reads}");
    });
}

#[test]
fn names_are_durable_after_every_rename() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = folder.path().join("run");
    fs::create_dir(&run).expect("a new folder");
    let disk = Rc::new(Tested::default());
    let done = || disk.take().iter().map(Op::name).collect::<Vec<_>>().join(", ");
    let store = Checkpoints::open(&run, "checkpoints", disk.clone()).expect("an empty folder");
    store.save(CheckpointSlot::Last, &checkpoint(1)).expect("space enough");
    let first = done();
    assert!(first.contains("sync run"), "the name of the folder itself: {first}");
    store.save(CheckpointSlot::Last, &checkpoint(2)).expect("space enough");
    let second = done();
    let end = "sync last.new, remove last.old, rename last.previous, rename last, sync checkpoints, remove last.old";
    assert!(second.ends_with(end), "{second}");
    store.save(CheckpointSlot::Last, &checkpoint(3)).expect("space enough");
    let third = done();
    assert!(third.contains("remove last.old, rename last.old, rename last.previous, rename last"), "{third}");
    write_on(&*disk, &run.join("results.json"), "{}\n").expect("space enough");
    let written = done();
    let names: Vec<&str> = written.split(", ").collect();
    assert!(names[0].starts_with("write results.") && names[0].ends_with(".new"), "{written}");
    assert_eq!(names[1..], ["rename results.json", "sync run"]);
}

#[test]
fn a_disk_that_fills_up_at_any_operation_leaves_a_good_checkpoint() {
    let mut failures = 0;
    for operations in 0..30 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let before = store(folder.path());
        before.save(CheckpointSlot::Last, &checkpoint(1)).expect("space enough");
        before.save(CheckpointSlot::Last, &checkpoint(2)).expect("space enough");
        let disk = Rc::new(Tested::failing(operations..usize::MAX, libc::ENOSPC));
        let full = Checkpoints::open(folder.path(), "", disk).expect("nothing to finish");
        let result = full.save(CheckpointSlot::Last, &checkpoint(3));
        let found = store(folder.path()).load(CheckpointSlot::Last).expect("old or new, but whole");
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
