//! The folder of a run. Its checksums are made to fit, as a program could have written it that is none of rtc, so that what stands
//! behind them is reached; what they protect from is in `cli/tests/it/damage.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rtc_runs::error::Error;
use rtc_runs::record::checkpoint::{self, CheckpointSlot, RecordLengths};
use rtc_runs::record::history::{History, RunProgress};
use rtc_runs::record::tensorboard::Whole;
use rtc_runs::record::verify::verify;
use rtc_runs::record::{
    LengthMeasurements, RunAnswers, RunFolder, RunInfo, SavedRun, sealed, sha256, tensorboard, unsealed,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::folder::{Parts, write};

type Fields = Map<String, Value>;

/// The files of a run.
pub(super) fn folder(bytes: &[u8]) {
    let parts = Parts::of(bytes);
    let folder = parts.written();
    let path = folder.path();
    seal(path);
    let outside = Outside::linked(path, &parts);
    let told = |result: Result<(), Error>| {
        if let Err(error) = &result {
            assert!(!error.to_string().trim().is_empty());
        }
        result.is_ok()
    };
    let checked = verify(path);
    assert!(!checked.is_empty());
    let parts: Vec<bool> = checked.into_iter().map(|part| told(part.fault.map_or(Ok(()), Err))).collect();
    let intact = parts.iter().all(|part| *part);
    let whole = [
        told(RunInfo::read(path).map(drop)),
        told(SavedRun::read(path).map(drop)),
        told(History::read(path).map(drop)),
        told(RunProgress::read(path).map(drop)),
    ];
    assert!(!intact || whole == [true; 4], "nothing is wrong with a folder that is refused: {whole:?}");
    LengthMeasurements::read(path);
    RunFolder::finished(path);
    // A slot that is not there is waited for.
    for slot in [CheckpointSlot::Last, CheckpointSlot::Best] {
        let place = SavedRun::checkpoint(path, slot);
        if place.is_dir() {
            told(checkpoint::load(&place, &place).map(drop));
        }
    }
    outside.check();
    let Ok(run) = SavedRun::read(path) else { return };
    if let Some(results) = &run.measured {
        RunAnswers::read(path, results).map(|answers| answers.get("test", "accuracy"));
    }
    run.changes("model m {\n}\n", &run.experiment, &run.info);
    assert_eq!(run.difference(&run.experiment, &run.info), None);
    match RunFolder::resume(path, &run.spec, &run.experiment, run.info.clone()) {
        Ok(mut again) => drop(again.rewind(RecordLengths::default())),
        Err(error) => drop(told(Err(error))),
    }
    outside.check();
}

/// A folder that links lead to: nothing is written through them.
struct Outside(TempDir);

impl Outside {
    /// Replaces files by links to a file, where their content is `->`, or to a folder, where it is `->/`.
    fn linked(run: &Path, parts: &Parts<'_>) -> Self {
        let outside = Self(TempDir::new().expect("a temporary folder"));
        fs::write(outside.0.path().join("file"), "mine").expect("a new file");
        for (name, content) in &parts.files {
            let to = match content.trim_ascii() {
                b"->" => outside.0.path().join("file"),
                b"->/" => outside.0.path().to_owned(),
                _ => continue,
            };
            // Another file may stand in its way.
            if fs::remove_file(run.join(name)).is_ok() {
                symlink(to, run.join(name)).expect("its place is free");
            }
        }
        outside
    }

    fn check(&self) {
        let names: Vec<_> =
            fs::read_dir(self.0.path()).expect("it is there").flatten().map(|e| e.file_name()).collect();
        assert_eq!(names, ["file"], "names outside of the run");
        assert_eq!(fs::read(self.0.path().join("file")).expect("it is there"), b"mine", "a file outside of the run");
    }
}

fn read(path: &Path) -> Option<Fields> {
    match serde_json::from_slice(&fs::read(path).ok()?).ok()? {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

fn hash(path: &Path) -> Option<Value> {
    fs::read(path).ok().map(|bytes| sha256(bytes).into())
}

/// Makes the checksums of all files fit.
fn seal(folder: &Path) {
    let mut run = read(&folder.join("run.json")).unwrap_or_default();
    run.remove("sha256");
    let named = ["spec.rt", "graph.rtir", "experiment.yaml", "task.json"];
    let files: Fields =
        named.into_iter().filter_map(|name| Some((name.to_owned(), hash(&folder.join(name))?))).collect();
    run.insert("files".to_owned(), files.into());
    write(folder, "run.json", sealed(&run).as_bytes());
    let name_of_run = run.get("run").and_then(Value::as_str).unwrap_or_default().to_owned();
    for slot in ["best", "last"] {
        checkpoint_of(&folder.join("checkpoints").join(slot), &run);
    }
    for name in ["metrics.jsonl", "timing.jsonl"] {
        if let Ok(text) = fs::read_to_string(folder.join(name)) {
            write(folder, name, chained(&text, &name_of_run).as_bytes());
        }
    }
    for name in ["results.json", "lengths.json"] {
        let Some(mut fields) = read(&folder.join(name)) else { continue };
        fields.remove("sha256");
        fields.insert("run".to_owned(), name_of_run.clone().into());
        if name == "results.json" {
            let made =
                ["metrics.jsonl", "answers.json", "checkpoints/best/manifest.json", "checkpoints/last/manifest.json"];
            let files: Fields =
                made.into_iter().filter_map(|name| Some((name.to_owned(), hash(&folder.join(name))?))).collect();
            fields.insert("files".to_owned(), files.into());
        }
        write(folder, name, sealed(&fields).as_bytes());
    }
}

/// The lines of a record, each with its `check`. What is no object, and half a line at the end, stays as it is.
fn chained(text: &str, run: &str) -> String {
    let mut sum = run.to_owned();
    let mut seal = |line: &str| match serde_json::from_str(line.trim_end_matches('\n')) {
        Ok(Value::Object(mut fields)) if line.ends_with('\n') => {
            fields.remove("check");
            let text = Value::Object(fields).to_string();
            let text = text.strip_suffix('}').expect("an object");
            sum = sha256(format!("{sum}{text}"))[..16].to_owned();
            format!("{text},\"check\":\"{sum}\"}}\n")
        }
        _ => line.to_owned(),
    };
    text.split_inclusive('\n').map(&mut seal).collect()
}

/// Makes a checkpoint one of the run, and its manifest fit.
fn checkpoint_of(folder: &Path, run: &Fields) {
    if let Some(mut state) = read(&folder.join("state.json")) {
        for field in ["run", "seed", "spec_hash", "graph_hash"] {
            run.get(field).map(|value| state.insert(field.to_owned(), value.clone()));
        }
        write(folder, "state.json", Value::Object(state).to_string().as_bytes());
    }
    let names = ["weights.safetensors", "optimiser.safetensors", "state.json", "carried.safetensors"];
    let entry = |name: &str| {
        let bytes = fs::read(folder.join(name)).ok()?;
        Some((name.to_owned(), json!({ "size": bytes.len(), "sha256": sha256(bytes) })))
    };
    let files: BTreeMap<String, Value> = names.into_iter().filter_map(entry).collect();
    if !files.is_empty() {
        write(folder, "manifest.json", json!({ "format": 2, "files": files }).to_string().as_bytes());
    }
}

/// A file with a checksum of its own, as it is and with one that fits.
pub(super) fn sealed_file(bytes: &[u8]) {
    let told = |result: Result<(), String>| assert!(result.err().is_none_or(|why| !why.trim().is_empty()));
    told(unsealed::<Value>(bytes).map(drop));
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(bytes) else { return };
    fields.remove("sha256");
    if fields.is_empty() {
        return;
    }
    let text = sealed(&fields);
    assert_eq!(unsealed::<Value>(text.as_bytes()), Ok(Value::Object(fields)));
    told(unsealed::<RunInfo>(text.as_bytes()).map(drop));
    told(unsealed::<LengthMeasurements>(text.as_bytes()).map(drop));
}

/// Records for TensorBoard.
pub(super) fn events(bytes: &[u8]) {
    let Some(whole) = tensorboard::whole(bytes) else { return };
    assert_eq!(tensorboard::whole(&bytes[..whole.bytes]), Some(whole));
    let longer = [&bytes[..whole.bytes], &tensorboard::record(b"more")].concat();
    assert_eq!(tensorboard::whole(&longer), Some(Whole { bytes: longer.len(), records: whole.records + 1 }));
}
