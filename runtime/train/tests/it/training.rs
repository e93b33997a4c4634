//! The training loop on a small deterministic learner.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rtc_exec::learner::{LearnError, Learner};
use rtc_runs::error::Error;
use rtc_runs::experiment::Experiment;
use rtc_runs::record::checkpoint::CheckpointSlot;
use rtc_runs::record::history::{EvaluationLine, History};
use rtc_runs::record::table::{ResultsRow, ResultsTable};
use rtc_runs::record::{RunFolder, RunInfo, SavedRun, sha256};
use rtc_task::batching::Cursor;
use rtc_task::{Dataset, majority_share};
use rtc_train::{Event, Feed, Observer, Outcome, Silent, train};

use crate::mock::{EXPERIMENT, FRESH, Mock, create, info, of, setting};

/// Sets the stop flag after so many events of one kind.
struct Stopper<'a> {
    stop: &'a AtomicBool,
    kind: &'static str,
    left: usize,
}

impl Observer for Stopper<'_> {
    fn event(&mut self, event: &Event<'_>) {
        let kind = match event {
            Event::Step { .. } => "step",
            Event::Evaluating { .. } => "evaluating",
            _ => return,
        };
        if kind == self.kind {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn straight(path: &Path, experiment: &Experiment, data: &Dataset) -> ResultsTable {
    let mut run = create(path, experiment);
    match train(&mut Mock::of(experiment), data, experiment, &mut run, &AtomicBool::new(false), &mut Silent) {
        Ok(Outcome::Finished(table)) => table,
        other => panic!("the run should finish: {other:?}"),
    }
}

fn resumed(
    path: &Path,
    experiment: &Experiment,
    data: &Dataset,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Outcome {
    let mut run = match RunFolder::exists(path) {
        true => RunFolder::resume(path, "model mock {}\n", experiment, info()).expect("the same run"),
        false => create(path, experiment),
    };
    train(&mut Mock::of(experiment), data, experiment, &mut run, stop, observer).expect("no failure")
}

/// What must be equal between runs: everything without a time in it.
pub(crate) fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let files = [
        "metrics.jsonl",
        "results.json",
        "experiment.yaml",
        "spec.rt",
        "run.json",
        "checkpoints/last/weights.safetensors",
        "checkpoints/last/optimiser.safetensors",
        "checkpoints/last/state.json",
        "checkpoints/best/manifest.json",
    ];
    let carried = "checkpoints/last/carried.safetensors";
    let carried = fs::read(path.join(carried)).ok().map(|bytes| (carried.to_owned(), bytes));
    files.iter().map(|file| (file.to_string(), fs::read(path.join(file)).expect(file))).chain(carried).collect()
}

#[test]
fn a_run_stopped_anywhere_and_resumed_equals_the_unbroken_one() {
    let plateau = ["evaluate_every=3", "schedule.kind=plateau", "schedule.wait=0"];
    let cases = [
        (EXPERIMENT, &["evaluate_every=5"][..], 2),
        (EXPERIMENT, &[], 9),
        (EXPERIMENT, &["batch.accumulate=3"], 13),
        (EXPERIMENT, &plateau, 11),
        (FRESH, &["evaluate_every=5"], 3),
        (FRESH, &["fresh.lengths=batch", "batch.accumulate=3"], 11),
        (EXPERIMENT, &["supervision=each_step", "evaluate_every=5"], 3),
        (EXPERIMENT, &["supervision=each_step", "batch.accumulate=3", "epochs=2"], 7),
        (FRESH, &["supervision=each_step", "evaluate_every=7"], 5),
    ];
    for (text, edits, every) in cases {
        let (experiment, data) = of(text, edits);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let whole = folder.path().join("whole");
        let table = straight(&whole, &experiment, &data);
        for kind in ["step", "evaluating"] {
            for left in (1..40).step_by(every) {
                let path = folder.path().join(format!("{kind}{left}"));
                let stop = AtomicBool::new(false);
                let first = resumed(&path, &experiment, &data, &mut Stopper { stop: &stop, kind, left }, &stop);
                let stop = AtomicBool::new(false);
                let second = match first {
                    Outcome::Stopped { .. } => resumed(&path, &experiment, &data, &mut Silent, &stop),
                    finished => finished,
                };
                assert_eq!(second, Outcome::Finished(table.clone()), "{kind} {left}");
                for (a, b) in contents(&whole).iter().zip(contents(&path)) {
                    assert!(*a == b, "{edits:?}: {} differs after a stop at {kind} {left}", a.0);
                }
            }
        }
    }
}

/// What a device leaves the host time for changes nothing: the next batch is the same whenever it is made.
#[test]
fn a_batch_made_ahead_is_the_same() {
    for (text, edits) in [
        (EXPERIMENT, &["batch.accumulate=3", "evaluate_every=5"][..]),
        (EXPERIMENT, &[]),
        (EXPERIMENT, &["supervision=each_step"]),
        (FRESH, &[]),
    ] {
        let (experiment, data) = of(text, edits);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let paths = ["alone", "ahead"].map(|name| folder.path().join(name));
        let alone = straight(&paths[0], &experiment, &data);
        let mut learner = Mock::of(&experiment);
        learner.waits = true;
        let mut run = create(&paths[1], &experiment);
        let ahead = train(&mut learner, &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent);
        assert_eq!(ahead.expect("no failure"), Outcome::Finished(alone));
        assert_eq!(contents(&paths[0]), contents(&paths[1]), "{edits:?}");
    }
}

/// A process that is killed saves nothing: the lines after the last checkpoint must be written again, not twice.
#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint() {
    for text in [EXPERIMENT, FRESH] {
        kill(&of(text, &["evaluate_every=5"]));
        kill(&of(text, &["evaluate_every=5", "supervision=each_step"]));
    }
}

fn kill((experiment, data): &(Experiment, Dataset)) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (whole, killed) = (folder.path().join("whole"), folder.path().join("killed"));
    straight(&whole, experiment, data);
    for update in [1, 4, 5, 9, 13, 29] {
        let mut run = create(&killed, experiment);
        let mut learner = Mock::of(experiment);
        learner.broken_at = Some(update);
        let failed = train(&mut learner, data, experiment, &mut run, &AtomicBool::new(false), &mut Silent);
        assert!(matches!(failed, Err(Error::Learn(LearnError::NonFinite { .. }))), "{failed:?}");
        drop(run);
        let mut half = fs::read(killed.join("timing.jsonl")).expect("timing.jsonl");
        half.extend(b"{\"what\":");
        fs::write(killed.join("timing.jsonl"), half).expect("timing.jsonl");
        resumed(&killed, experiment, data, &mut Silent, &AtomicBool::new(false));
        for (a, b) in contents(&whole).iter().zip(contents(&killed)) {
            assert!(*a == b, "{} differs after a kill at {update}", a.0);
        }
        let timing = fs::read_to_string(killed.join("timing.jsonl")).expect("timing.jsonl");
        assert!(timing.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
        fs::remove_dir_all(&killed).expect("removable");
    }
}

#[test]
fn accumulated_parts_add_up_to_the_whole_batch() {
    for supervision in ["supervision=all_steps", "supervision=each_step"] {
        add_up(supervision);
    }
}

fn add_up(supervision: &str) {
    let weights = |edits: &[&str]| {
        let (experiment, data) = setting(&[edits, &[supervision]].concat());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut run = create(folder.path(), &experiment);
        let mut learner = Mock::of(&experiment);
        learner.dropout = 0.0;
        train(&mut learner, &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("no failure");
        run.checkpoints().load(CheckpointSlot::Last).expect("saved").learner.parameters.items["head.w"].1.clone()
    };
    let whole = weights(&[]);
    for parts in ["batch.accumulate=2", "batch.accumulate=3", "batch.accumulate=8"] {
        for (a, b) in whole.iter().zip(weights(&[parts])) {
            assert!((a - b).abs() < 1e-5, "{parts}: {a} against {b}");
        }
    }
}

/// Where an update is made after every step, a slot whose row is through takes the next example: none is left out, and none comes twice
/// in a pass.
#[test]
fn slots_take_the_examples_in_their_order() {
    for parts in ["batch.accumulate=1", "batch.accumulate=3"] {
        let (experiment, data) = setting(&["supervision=each_step", "max_steps=60", "epochs=9", parts]);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mut run, mut learner) = (create(folder.path(), &experiment), Mock::of(&experiment));
        train(&mut learner, &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect("no failure");
        let mut feed = Feed::new(&experiment, &data, info().seed).expect("stored examples");
        let (mut cursor, mut expected) = (Cursor::default(), vec![]);
        while expected.len() < learner.begun.len() {
            let batch = feed.examples(cursor, 0).expect("stored examples");
            expected.extend(batch.iter().map(|example| example.tokens.clone()));
            cursor = feed.next(cursor);
        }
        assert!(cursor.epoch > 1, "{cursor:?}");
        expected.truncate(learner.begun.len());
        assert_eq!(learner.begun, expected, "{parts}");
        let last = run.checkpoints().load(CheckpointSlot::Last).expect("saved");
        assert_eq!(last.state.progress.updates, 60);
        assert_eq!(last.state.slots.map(|places| places.slots.len()), Some(8));
    }
}

#[test]
fn a_model_of_another_supervision_is_refused() {
    let (experiment, data) = setting(&["supervision=each_step"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = create(folder.path(), &experiment);
    let error = train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent);
    assert!(error.expect_err("it carries nothing").to_string().contains("another `supervision`"));
}

#[test]
fn patience_ends_a_run_after_more_evaluations_without_improvement() {
    // Without a learning rate to speak of no evaluation after the first can be better.
    let (experiment, data) = setting(&["optimiser.learning_rate=1e-30", "patience=2", "evaluate_every=2", "epochs=50"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let table = straight(folder.path(), &experiment, &data);
    assert_eq!(table.best_update, 2);
    let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics.jsonl");
    let dev = metrics.lines().filter(|line| line.contains("\"split\":\"dev\"")).count();
    assert_eq!(dev, 4, "the first, and three more than the patience of two allows");
}

#[test]
fn a_plateau_halves_the_rate() {
    // As above; the third evaluation after the first is one too many.
    let edits = ["optimiser.learning_rate=1e-30", "schedule.kind=plateau", "schedule.warmup=0", "evaluate_every=2"];
    let (experiment, data) = setting(&edits);
    let folder = tempfile::tempdir().expect("a temporary folder");
    straight(folder.path(), &experiment, &data);
    let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics.jsonl");
    let lines = metrics.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let rates: Vec<(u64, f64)> =
        lines.filter_map(|line| Some((line["update"].as_u64()?, line["learning_rate"].as_f64()?))).collect();
    assert_eq!(rates[..5], [(1, 1e-30), (3, 1e-30), (6, 1e-30), (9, 5e-31), (12, 5e-31)]);
    assert_eq!(rates[5], (15, 2.5e-31));
}

#[test]
fn max_steps_ends_a_run_inside_a_pass_with_an_evaluation() {
    let (experiment, data) = setting(&["max_steps=11"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    straight(folder.path(), &experiment, &data);
    let metrics = fs::read_to_string(folder.path().join("metrics.jsonl")).expect("metrics.jsonl");
    let lines: Vec<serde_json::Value> = metrics.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let updates: Vec<(&str, u64)> = lines
        .iter()
        .map(|line| (line["split"].as_str().unwrap_or("step"), line["update"].as_u64().expect("a number")))
        .collect();
    let expected =
        [("step", 1), ("step", 3), ("step", 6), ("dev", 8), ("step", 9), ("dev", 11), ("test", 11), ("200-300", 11)];
    assert_eq!(updates, expected);
}

#[test]
fn the_table_measures_the_best_checkpoint() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let table = straight(folder.path(), &experiment, &data);
    let run = RunFolder::resume(folder.path(), "model mock {}\n", &experiment, info()).expect("the same run");
    let best = run.checkpoints().load(CheckpointSlot::Best).expect("saved");
    assert_eq!(best.state.progress.updates, table.best_update);
    let mut learner = Mock::new(1);
    learner.restore(&best.learner).expect("it fits");
    let examples: Vec<_> = data.split("test").iter().collect();
    let expected = learner.evaluate(&rtc_task::batching::collect(&examples, 12)).expect("no failure");
    let ResultsRow { accuracy, mean_depth, majority, scored, .. } = &table.rows[0];
    assert_eq!((*accuracy, *scored), (expected.correct.map(|correct| correct as f64 / 50.0), 50));
    assert_eq!(*mean_depth, Some(3.0));
    assert_eq!(*majority, Some(majority_share(data.split("test"))));
    let text = table.to_text();
    assert!(text.lines().next().is_some_and(|head| head.starts_with("split") && head.ends_with("depth")), "{text}");
    assert!(text.contains("\n200-300"), "{text}");
    let mut results: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("results.json")).expect("written")).expect("JSON");
    let identity = results.as_object_mut().and_then(|results| results.remove("identity")).expect("what made them");
    let mut rest = |field: &str| results.as_object_mut().and_then(|results| results.remove(field)).expect(field);
    let files = rest("files");
    let mut named: Vec<&String> = files.as_object().expect("files").keys().collect();
    named.sort();
    let expected =
        ["answers.json", "checkpoints/best/manifest.json", "checkpoints/last/manifest.json", "metrics.jsonl"];
    assert_eq!(named, expected);
    for name in expected {
        assert_eq!(files[name], sha256(fs::read(folder.path().join(name)).expect(name)), "{name}");
    }
    assert_eq!(rest("run"), run.info().run);
    assert_eq!(rest("sha256").as_str().map(str::len), Some(64));
    assert_eq!(results, table.to_json());
    assert_eq!((&identity["spec_hash"], &identity["data_hash"]), (&"s".into(), &data.fingerprint().into()));
}

#[test]
fn a_run_names_every_program_that_trained_it() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let by = |code: &str| RunInfo { versions: [("code".to_owned(), code.to_owned())].into(), ..info() };
    drop(RunFolder::create(folder.path(), "model mock { }\n", &experiment, by("a")).expect("a new folder"));
    let versions = || SavedRun::read(folder.path()).expect("a run").info.versions["code"].clone();
    let mut seen = vec![versions()];
    for code in ["a", "b", "b", "a"] {
        let mut run = RunFolder::resume(folder.path(), "model mock {}\n", &experiment, by(code)).expect("the same run");
        seen.push(versions());
        assert_eq!(run.info().versions["code"], versions());
        if seen.len() == 5 {
            train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent)
                .expect("no failure");
        }
    }
    assert_eq!(seen, ["a", "a", "a then b", "a then b", "a then b then a"]);
    let measured = SavedRun::read(folder.path()).expect("a run").measured.expect("finished");
    assert_eq!(measured["identity"]["versions"]["code"], "a then b then a");
    let other = RunInfo { data_hash: Some("d".to_owned()), ..by("a") };
    drop(
        RunFolder::resume(folder.path(), "model mock {}\n", &experiment, other)
            .expect("a run of which the data was not known"),
    );
}

#[test]
fn a_loss_that_is_not_finite_names_its_step() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut run = create(folder.path(), &experiment);
    let mut learner = Mock::new(7);
    learner.broken_at = Some(9);
    let error =
        train(&mut learner, &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent).expect_err("NaN");
    assert_eq!(error.exit_code(), 5);
    assert!(error.to_string().contains("update 9"), "{error}");
    assert_eq!(run.checkpoints().load(CheckpointSlot::Last).expect("the last good one").state.progress.updates, 8);
}

#[test]
fn a_run_folder_is_never_mixed_with_another_run() {
    let (experiment, data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    straight(folder.path(), &experiment, &data);
    let again = RunFolder::create(folder.path(), "", &experiment, info()).err().expect("it exists");
    assert_eq!(again.exit_code(), 2);
    let (other, _) = setting(&["batch.size=4"]);
    let error = RunFolder::resume(folder.path(), "model mock {}\n", &other, info()).err().expect("another experiment");
    assert_eq!(error.exit_code(), 7);
    let mut another = info();
    another.graph_hash = "h".into();
    let error = RunFolder::resume(folder.path(), "model mock {}\n", &experiment, another).err().expect("another graph");
    assert!(error.to_string().contains("the graph"), "{error}");
}

#[test]
fn a_run_does_not_go_on_with_other_data() {
    let (experiment, mut data) = setting(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    straight(folder.path(), &experiment, &data);
    data.splits.get_mut("train").expect("loaded").pop();
    let mut run = RunFolder::resume(folder.path(), "model mock {}\n", &experiment, info()).expect("the same run");
    let result = train(&mut Mock::new(7), &data, &experiment, &mut run, &AtomicBool::new(false), &mut Silent);
    let error = result.expect_err("the checkpoint was trained on one example more");
    assert_eq!(error.exit_code(), 7);
    assert!(error.to_string().contains("other data"), "{error}");
}

#[test]
fn a_run_folder_is_read_without_being_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("run");
    let (experiment, data) = setting(&["epochs=2"]);
    let info = create(&path, &experiment).info().clone();
    assert_eq!(SavedRun::read(&path).expect("a run").results, None);
    let table = straight(&folder.path().join("whole"), &experiment, &data);
    let before = contents(&folder.path().join("whole"));
    let run = SavedRun::read(&folder.path().join("whole")).expect("a run");
    assert_eq!((run.info.clone(), run.experiment, run.results), (info.clone(), experiment.clone(), Some(table)));
    assert!(SavedRun::checkpoint(&folder.path().join("whole"), CheckpointSlot::Best).is_dir());
    assert_eq!(contents(&folder.path().join("whole")), before);
    let other = RunInfo { seed: info.seed + 1, ..info.clone() };
    assert_ne!(info.identity(&experiment), other.identity(&experiment));
    assert_eq!(info.identity(&experiment), RunInfo { threads: 99, ..info }.identity(&experiment));
    assert!(SavedRun::read(folder.path()).is_err());
}

/// What an update trains on: strings that get longer along the curriculum, of one length where that is asked for.
#[test]
fn fresh_strings_follow_the_curriculum() {
    for (edit, one) in [("fresh.lengths=batch", true), ("fresh.lengths=each", false)] {
        let (experiment, data) = of(FRESH, &[edit, "batch.size=64"]);
        let mut feed = Feed::new(&experiment, &data, 7).expect("strings");
        let mut drawn = |update| -> Vec<Vec<u32>> {
            feed.examples(Cursor::default(), update)
                .expect("drawn")
                .iter()
                .map(|example| example.tokens.clone())
                .collect()
        };
        assert_eq!(drawn(5), drawn(5), "an update can be asked for again");
        assert_ne!(drawn(100), drawn(101));
        let lengths = |strings: Vec<Vec<u32>>| strings.iter().map(Vec::len).collect::<BTreeSet<_>>();
        let longest = |from: u64, to: u64, drawn: &mut dyn FnMut(u64) -> Vec<Vec<u32>>| {
            (from..to).flat_map(|update| lengths(drawn(update))).collect::<BTreeSet<_>>()
        };
        assert_eq!(longest(0, 4, &mut drawn), BTreeSet::from([1]));
        assert!(longest(4, 8, &mut drawn).iter().all(|length| *length <= 2));
        assert_eq!(longest(20, 80, &mut drawn), (1..=6).collect());
        assert_eq!((20..30).all(|update| lengths(drawn(update)).len() == 1), one);
    }
    let (experiment, data) = of(FRESH, &[]);
    let first = |seed| Feed::new(&experiment, &data, seed).expect("strings").examples(Cursor::default(), 25);
    assert_ne!(first(7), first(8), "runs of other seeds see other strings");
}

/// `a = decay a + (1 - decay) w` from the first averaged update on; evaluations and checkpoints hold it.
#[test]
fn averaged_weights_are_kept_and_measured() {
    let (experiment, data) = of(FRESH, &["max_steps=6"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plain = folder.path().join("plain");
    straight(&plain, &experiment, &data);
    let optimiser = |path: &Path| fs::read(path.join("checkpoints/last/optimiser.safetensors")).expect("saved");
    let holds = |path: &Path| optimiser(path).windows(8).any(|bytes| bytes == b"average.");
    assert!(!holds(&plain), "no update was averaged yet");
    let (experiment, data) = of(FRESH, &[]);
    let averaged = folder.path().join("averaged");
    let with = straight(&averaged, &experiment, &data);
    assert!(holds(&averaged));
    let (experiment, data) = of(FRESH, &["ema=null"]);
    let without = straight(&folder.path().join("without"), &experiment, &data);
    assert_ne!(with.rows[0].loss, without.rows[0].loss, "the average is what is measured");
}

/// Where no dev split chooses, the weights of the last evaluation are measured.
#[test]
fn the_last_weights_can_be_chosen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (edit, expected) in [("choose=last", 30), ("choose=best", 4)] {
        let (experiment, data) = of(FRESH, &["evaluate_every=4", "optimiser.learning_rate=1e-30", edit]);
        let table = straight(&folder.path().join(edit), &experiment, &data);
        assert_eq!(table.best_update, expected, "{edit}");
    }
}

/// The smallest loss on dev and the highest accuracy there are of different updates; a run that goes on remembers both.
#[test]
fn the_weights_of_the_smallest_loss_can_be_chosen() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut chosen = vec![];
    for choose in ["loss", "best"] {
        let edit = format!("choose={choose}");
        let (experiment, data) = setting(&["epochs=10", "optimiser.learning_rate=0.3", &edit]);
        let path = folder.path().join(choose);
        let table = straight(&path, &experiment, &data);
        let history = History::read(&path).expect("the run has a history");
        let dev: Vec<_> = history.evaluations.iter().filter(|line| line.split == "dev").collect();
        let score = |line: &EvaluationLine| {
            if choose == "loss" { -line.loss.unwrap_or(f64::INFINITY) } else { line.accuracy.unwrap_or(0.0) }
        };
        let first = dev.first().expect("dev was measured");
        let best = dev.iter().fold(first, |best, line| if score(line) > score(best) { line } else { best });
        assert_eq!(table.best_update, best.update, "{choose}");
        chosen.push(best.update);
        let (again, stop) = (folder.path().join(format!("{choose} again")), AtomicBool::new(false));
        let mut stopper = Stopper { stop: &stop, kind: "evaluating", left: 7 };
        assert!(matches!(resumed(&again, &experiment, &data, &mut stopper, &stop), Outcome::Stopped { .. }));
        resumed(&again, &experiment, &data, &mut Silent, &AtomicBool::new(false));
        assert_eq!(contents(&again), contents(&path), "{choose}");
    }
    assert_ne!(chosen[0], chosen[1], "nothing is compared where both choose the same update");
}

/// Results hold every length of a range.
#[test]
fn every_length_of_a_range_is_in_the_results() {
    let (experiment, data) = of(FRESH, &[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let table = straight(&folder.path().join("run"), &experiment, &data);
    let range = &table.rows[1];
    assert_eq!(
        range.lengths.iter().map(|row| (row.length, row.examples)).collect::<Vec<_>>(),
        [(7, 10), (8, 10), (9, 10)]
    );
    let mean = range.lengths.iter().map(|row| row.accuracy).sum::<f64>() / 3.0;
    assert!((mean - range.accuracy.expect("classes")).abs() < 1e-12);
    let text = fs::read_to_string(folder.path().join("run/results.json")).expect("written");
    assert_eq!(serde_json::from_str::<ResultsTable>(&text).expect("a table"), table);
}
