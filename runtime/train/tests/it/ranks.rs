//! Trainings on several ranks: all files are those of one rank, also where a run goes on with another number of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_exec::learner::{LearnError, Learner};
use rtc_runs::error::Error;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::RunFolder;
use rtc_task::Dataset;
use rtc_train::ranks::threads::on_threads;
use rtc_train::ranks::{Beginning, Ranks, SharedLearner, await_beginning, begin, end, joined, serve};
use rtc_train::{Event, Observer, Outcome, Silent, train};

use super::mock::{EXPERIMENT, FRESH, Mock, create, info, of};
use super::training::contents;

/// Asks to stop after an update.
struct StopAt<'a> {
    update: Option<u64>,
    stop: &'a AtomicBool,
}

impl Observer for StopAt<'_> {
    fn event(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Step { update, .. } if Some(*update) == self.update) {
            self.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn folder(path: &Path, experiment: &Experiment) -> RunFolder {
    if RunFolder::exists(path) {
        RunFolder::resume(path, "model mock {}\n", experiment, info()).expect("a run")
    } else {
        create(path, experiment)
    }
}

/// Trains on so many ranks, until an update if there is one: what the ranks end with, rank 0 first.
fn on_ranks(
    size: usize,
    path: &Path,
    (experiment, data): &(Experiment, Dataset),
    until: Option<u64>,
) -> Vec<Result<Outcome, u8>> {
    let lead = |ranks: &dyn Ranks| {
        let (mut learner, stop) = (Mock::of(experiment), AtomicBool::new(false));
        begin(ranks, "a mock").expect("all ranks are there");
        joined(ranks).expect("all ranks have their mock");
        let mut shared = SharedLearner::new(&mut learner, ranks, &stop);
        let mut observer = StopAt { update: until, stop: &stop };
        let ended = train(&mut shared, data, experiment, &mut folder(path, experiment), &stop, &mut observer);
        end(ranks, 75);
        Ok(ended.expect("no failure"))
    };
    let follow = |ranks: &dyn Ranks| {
        assert_eq!(await_beginning(ranks), Ok(Beginning::Model("a mock".to_owned())));
        let mut learner = Mock::of(experiment);
        Err(serve(Ok(&mut learner), ranks, &AtomicBool::new(false)).expect("rank 0 says when it ends"))
    };
    let all = on_threads(size, |ranks| if ranks.rank() == 0 { lead(ranks) } else { follow(ranks) });
    all.into_iter().map(|ended| ended.expect("no panic")).collect()
}

#[test]
fn a_run_on_ranks_has_the_files_of_one_rank() {
    let cases = [
        (EXPERIMENT, &["batch.accumulate=8"][..]),
        (EXPERIMENT, &["batch.accumulate=3", "evaluate_every=5"]),
        (EXPERIMENT, &["supervision=each_step", "batch.accumulate=4", "epochs=2"]),
        (FRESH, &["batch.accumulate=5"]),
    ];
    for (text, edits) in cases {
        let setting = of(text, edits);
        let (experiment, data) = &setting;
        let place = tempfile::tempdir().expect("a temporary folder");
        let alone = place.path().join("alone");
        let mut learner = Mock::of(experiment);
        let mut run = create(&alone, experiment);
        train(&mut learner, data, experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("no failure");
        for size in [1, 2, 3, 4, 8] {
            let path = place.path().join(size.to_string());
            let ended = on_ranks(size, &path, &setting, None);
            assert!(matches!(ended[0], Ok(Outcome::Finished(_))), "{ended:?}");
            assert!(ended[1..].iter().all(|ended| *ended == Err(75)), "{ended:?}");
            for (a, b) in contents(&alone).iter().zip(contents(&path)) {
                assert!(*a == b, "{edits:?}: {} differs on {size} ranks", a.0);
            }
        }
        let path = place.path().join("resumed");
        for (size, until) in [(4, Some(6)), (1, Some(9)), (3, Some(14)), (2, None)] {
            let ended = on_ranks(size, &path, &setting, until);
            assert_eq!(matches!(ended[0], Ok(Outcome::Stopped { .. })), until.is_some(), "{ended:?}");
        }
        for (a, b) in contents(&alone).iter().zip(contents(&path)) {
            assert!(*a == b, "{edits:?}: {} differs after other numbers of ranks", a.0);
        }
    }
}

/// A rank that is asked to stop tells rank 0, which saves for all.
#[test]
fn any_rank_can_be_asked_to_stop() {
    let (experiment, data) = of(EXPERIMENT, &["batch.accumulate=4"]);
    let place = tempfile::tempdir().expect("a temporary folder");
    let ended = on_threads(3, |ranks| {
        let mut learner = Mock::of(&experiment);
        if ranks.rank() > 0 {
            let asked = AtomicBool::new(ranks.rank() == 2);
            return serve(Ok(&mut learner), ranks, &asked).map_err(|error| error.to_string());
        }
        joined(ranks).expect("all ranks are there");
        let stop = AtomicBool::new(false);
        let mut shared = SharedLearner::new(&mut learner, ranks, &stop);
        let mut run = create(place.path(), &experiment);
        let ended = train(&mut shared, &data, &experiment, &mut run, &stop, &mut Silent).expect("no failure");
        assert_eq!(ended, Outcome::Stopped { updates: 1 });
        end(ranks, 75);
        Ok(75)
    });
    assert!(ended.into_iter().all(|ended| ended.expect("no panic") == Ok(75)));
}

/// What a rank can't compute is the failure that one rank alone would have, and ends all of them.
#[test]
fn a_failure_of_a_rank_ends_all() {
    let (experiment, data) = of(EXPERIMENT, &["batch.accumulate=4", "max_steps=9"]);
    let place = tempfile::tempdir().expect("a temporary folder");
    let ended = on_threads(4, |ranks| {
        let mut learner = Mock::of(&experiment);
        if ranks.rank() > 0 {
            // It comes to another state than the others.
            learner.dropout += if ranks.rank() == 2 { 0.1 } else { 0.0 };
            let mut state = learner.state();
            if ranks.rank() == 2 {
                state.parameters.items.values_mut().for_each(|(_, numbers)| numbers[0] += 1.0);
                learner.restore(&state).expect("its own names");
            }
            return serve(Ok(&mut learner), ranks, &AtomicBool::new(false)).map_err(|error| error.to_string());
        }
        joined(ranks).expect("all ranks are there");
        let stop = AtomicBool::new(false);
        let mut shared = SharedLearner::new(&mut learner, ranks, &stop);
        let mut run = create(place.path(), &experiment);
        let ended = train(&mut shared, &data, &experiment, &mut run, &stop, &mut Silent).expect_err("states differ");
        assert!(matches!(&ended, Error::Learn(LearnError::Ranks(why)) if why.contains("state of rank 2")), "{ended}");
        end(ranks, ended.exit_code());
        Ok(6)
    });
    assert!(ended.into_iter().all(|ended| ended.expect("no panic") == Ok(6)));
    assert!(!place.path().join("checkpoints/last").exists(), "nothing is saved that not all agree on");
}
