//! Experiments with the files that they extend, their models, sweeps and edits.

use std::path::Path;

use rtc_runs::error::ExperimentError;
use rtc_runs::experiment::{Experiment, ExperimentFile, Halving};
use rtc_runs::schedule::Plateau;

use super::folder::Parts;

/// An experiment, and the files beside it.
pub(super) fn file(bytes: &[u8]) {
    let parts = Parts::of(bytes);
    let Ok(source) = str::from_utf8(parts.head) else { return };
    let beside = |path: &Path| {
        let found = path.to_str().and_then(|name| parts.file(name)).ok_or("not found")?;
        str::from_utf8(found).map(str::to_owned).map_err(|error| error.to_string())
    };
    match ExperimentFile::parse_in(Path::new(""), &beside, "own.yaml", source) {
        Ok(file) => {
            whole(&file, source);
            let edits = parts.file("edits").and_then(|edits| str::from_utf8(edits).ok());
            edits.into_iter().flat_map(str::lines).for_each(|edit| edited(&file, source, edit));
        }
        Err(error) => refused(&error, source),
    }
}

fn refused(error: &ExperimentError, source: &str) {
    assert!(!error.message.trim().is_empty() && !error.file.is_empty(), "{error:?}");
    // Something may be missing at the end, behind the last line.
    let lines = source.lines().count() + 1;
    assert!(
        error.file != "own.yaml" || error.line.is_none_or(|line| (1..=lines).contains(&line)),
        "{error} has {lines} lines"
    );
}

fn whole(file: &ExperimentFile, source: &str) {
    let mut found: Vec<Experiment> = vec![];
    let models: Vec<&str> = file.models().collect();
    for model in models.iter().map(|model| Some(*model)).chain([None]) {
        found.push(file.resolve(model, &[]).unwrap_or_else(|error| panic!("{error} was accepted before")));
    }
    if let Err(error) = file.check_models(&["gut", "gut:no_gate", "ut"]) {
        refused(&error, source);
    }
    for entry in file.compare() {
        assert!(!entry.folder().is_empty());
        assert_eq!(file.written_in(entry).len(), entry.set.len());
        refused(&file.entry_error(entry, "wrong".to_owned()), source);
        match file.resolve(Some(&entry.spec), &entry.with) {
            Ok(experiment) => found.push(experiment),
            Err(error) => refused(&error, source),
        }
    }
    if let Some(halving) = file.halving() {
        assert!((1..=10).contains(&halving.kept(10)), "{halving:?}");
    }
    for experiment in &found {
        reads_back(experiment);
        assert_eq!(file.written("gut", &experiment.set).len(), experiment.set.len());
        let schedule = experiment.schedule(100);
        for update in [1, 7, 1_000_000, u64::MAX] {
            let rule = experiment.rule(&schedule, update, Plateau::default());
            assert!(rule.learning_rate >= 0.0 && rule.learning_rate.is_finite(), "update {update}: {rule:?}");
        }
    }
}

/// What a command line says besides.
fn edited(file: &ExperimentFile, source: &str, edit: &str) {
    match file.resolve(Some("gut"), &[edit.to_owned()]) {
        Ok(experiment) => reads_back(&experiment),
        Err(error) => refused(&error, source),
    }
    match Halving::parse(edit) {
        Ok(halving) => assert!((1..=10).contains(&halving.kept(10)), "{halving:?}"),
        Err(why) => assert!(!why.trim().is_empty()),
    }
}

/// The complete experiment is another way to write it.
fn reads_back(experiment: &Experiment) {
    let text = experiment.to_yaml();
    let again = ExperimentFile::parse("own.yaml", &text).and_then(|file| file.resolve(None, &[]));
    let again = again.unwrap_or_else(|error| panic!("the complete experiment is refused: {error}\n{text}"));
    assert!(again == *experiment, "the complete experiment is another one: {again:?}\n{text}");
}
