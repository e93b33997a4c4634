//! Faults of the disk and cuts of power at every operation: a run goes on from whatever is left and ends with the same bits.
//!
//! `RTC_POWER=2000 RTC_FAULTS=all cargo test --release -p rtc-train --test it power` is the long run.

use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use rtc_base::disk::Disk;
use rtc_base::rng::Key;
use rtc_runs::error::Error;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::{RunFolder, verify};
use rtc_task::Dataset;
use rtc_train::{Outcome, Silent, train};

use crate::disks::{Durable, Op, Tested};
use crate::mock::{EXPERIMENT, FRESH, Mock, info, of};
use crate::training::contents;

/// Cuts of power of an ordinary test run, for every experiment.
const CUTS: u64 = 60;

/// What the disk answers, one after the other from operation to operation, or with `RTC_FAULTS=all` each to every operation.
const ERRORS: [i32; 5] = [libc::ENOSPC, libc::EIO, libc::EMFILE, libc::EACCES, libc::EROFS];

/// Experiments whose runs save differently.
const CASES: [(&str, &[&str]); 3] =
    [(EXPERIMENT, &["evaluate_every=5"]), (FRESH, &[]), (EXPERIMENT, &["supervision=each_step", "evaluate_every=7"])];

/// Trains in a folder to the end, from what is there.
fn run(disk: Rc<dyn Disk>, path: &Path, experiment: &Experiment, data: &Dataset) -> Result<(), Error> {
    let spec = "model mock {}\n";
    let mut run = match RunFolder::exists(path) {
        true => RunFolder::resume_on(disk, path, spec, experiment, info())?,
        false => RunFolder::create_on(disk, path, spec, experiment, info())?,
    };
    match train(&mut Mock::of(experiment), data, experiment, &mut run, &AtomicBool::new(false), &mut Silent)? {
        Outcome::Finished(_) => Ok(()),
        Outcome::Stopped { .. } => panic!("nobody stops it"),
    }
}

/// Trains a run that nothing disturbs; gives the operations that it took.
fn undisturbed(path: &Path, experiment: &Experiment, data: &Dataset) -> Vec<Op> {
    let disk = Rc::new(Tested::default());
    run(disk.clone(), path, experiment, data).expect("nothing fails");
    disk.take()
}

/// Whether a run has what the other has, and is sound; or how it differs.
fn same(whole: &Path, path: &Path) -> Result<(), String> {
    let other = contents(whole).into_iter().zip(contents(path)).find(|(a, b)| a != b);
    let faults: Vec<Error> = verify::verify(path).into_iter().filter_map(|part| part.fault).collect();
    match other {
        Some((file, _)) => Err(format!("{} differs", file.0)),
        None if !faults.is_empty() => Err(format!("{faults:?}")),
        None => Ok(()),
    }
}

/// Cuts the power of a run at a drawn operation, up to four times, and lets it go on each time. `syncs` is whether the disk keeps what it
/// was told to make durable.
fn cut(whole: &Path, setting: &(Experiment, Dataset), mut ops: Vec<Op>, key: Key, syncs: bool) -> Result<(), String> {
    let ((experiment, data), first) = (setting, whole.parent().expect("a folder"));
    let place = first.with_file_name("cut");
    let mut durable = Durable::empty(first);
    for time in 0.. {
        let key = key.at(time);
        let at = key.below(0, ops.len() as u64 + 1) as usize;
        ops[..at].iter().for_each(|op| durable.after(op, syncs));
        ops.get(at).into_iter().for_each(|op| durable.after(op, false));
        let _ = fs::remove_dir_all(&place);
        durable.write(&place, key.stream("left"));
        durable = Durable::of(&place);
        let disk = Rc::new(Tested::default());
        let ended = run(disk.clone(), &place.join("run"), experiment, data);
        ended.map_err(|error| format!("time {time}, operation {at}: {error}"))?;
        ops = disk.take();
        if time > 2 || ops.is_empty() || key.below(1, 2) == 0 {
            return same(whole, &place.join("run"));
        }
    }
    unreachable!("the fourth time is the last one")
}

#[test]
fn a_run_goes_on_from_whatever_a_cut_of_power_leaves() {
    let cuts = std::env::var("RTC_POWER").map_or(CUTS, |cuts| cuts.parse().expect("a number"));
    for (case, (text, edits)) in CASES.into_iter().enumerate() {
        let setting = of(text, edits);
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("first")).expect("a new folder");
        let whole = folder.path().join("first/run");
        let ops = undisturbed(&whole, &setting.0, &setting.1);
        let cut = |number: u64, syncs| {
            cut(&whole, &setting, ops.clone(), Key::new(number).stream("power").at(case as u64), syncs)
        };
        for number in 0..cuts {
            cut(number, true).unwrap_or_else(|why| panic!("case {case}, cut {number}: {why}"));
        }
        // On a disk that forgets what it was told to keep, something is lost, and that is noticed.
        assert!((0..CUTS).any(|number| cut(number, false).is_err()), "case {case}");
    }
}

#[test]
fn every_operation_may_fail_once_or_for_good() {
    let every = std::env::var_os("RTC_FAULTS").is_some_and(|faults| faults == "all");
    for (text, edits) in CASES {
        let (experiment, data) = of(text, edits);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let whole = folder.path().join("whole");
        let count = undisturbed(&whole, &experiment, &data).len();
        let mut failed = 0;
        let with = |number: usize| if every { ERRORS.to_vec() } else { vec![ERRORS[number % ERRORS.len()]] };
        for (number, error) in (0..count).flat_map(|number| with(number).into_iter().map(move |error| (number, error)))
        {
            for last in [number + 1, usize::MAX] {
                let path = folder.path().join("run");
                let disk = Rc::new(Tested::failing(number..last, error));
                match run(disk.clone(), &path, &experiment, &data) {
                    Ok(()) => panic!("{edits:?}: operation {number} of {count} failed, and nobody was told"),
                    Err(error) => assert_eq!(error.exit_code(), 6, "{edits:?}: operation {number}: {error}"),
                }
                assert!(disk.has_failed());
                failed += 1;
                disk.heal();
                run(disk, &path, &experiment, &data).expect("space again");
                same(&whole, &path).unwrap_or_else(|why| panic!("{edits:?}: operation {number}: {why}"));
                fs::remove_dir_all(&path).expect("the folder is ours");
            }
        }
        assert!(failed > 100, "{failed}");
    }
}
