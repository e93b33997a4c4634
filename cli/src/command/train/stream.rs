//! `rtc train --stream`: the records of a training for a program, a line of JSON each.

use std::path::Path;

use rtc_runs::record::history::HistoryLine;
use rtc_session::failure::SessionFailure;
use rtc_train::{Event, Observer};
use serde_json::{Value, json};

use crate::progress::ProgressDisplay;
use crate::terminal::Terminal;

/// Prints the lines of `metrics.jsonl` as they are written, without their checksums, beside the progress for people.
pub(super) struct RecordStream<'a, 't> {
    progress: &'a mut ProgressDisplay<'t>,
    /// The folder of the run.
    path: &'a Path,
    terminal: &'a Terminal,
    /// The first failure to print: the training goes on, and the command ends with it.
    failed: Option<SessionFailure>,
}

impl<'a, 't> RecordStream<'a, 't> {
    pub(super) fn new(progress: &'a mut ProgressDisplay<'t>, path: &'a Path, terminal: &'a Terminal) -> Self {
        Self { progress, path, terminal, failed: None }
    }

    fn print(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.terminal.result(text).err();
        }
    }

    /// Returns the failure to print, if there was one.
    pub(super) fn finish(self) -> Result<(), SessionFailure> {
        self.failed.map_or(Ok(()), Err)
    }
}

impl Observer for RecordStream<'_, '_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { done, total } => {
                let run = self.path.display().to_string();
                self.print(&line("started", &json!({ "run": run, "done": done, "total": total })));
            }
            Event::Recorded { line } => self.print(&recorded(line)),
            Event::Step { .. } | Event::Evaluating { .. } | Event::Evaluated { .. } | Event::Saved { .. } => {}
        }
        self.progress.event(event);
    }
}

/// Returns a line of metrics, which begins with its kind.
fn recorded(line: &HistoryLine) -> String {
    format!("{}\n", json!(line))
}

/// Returns a line of this kind with the fields of an object.
pub(super) fn line(kind: &str, fields: &Value) -> String {
    let mut out = json!({ "kind": kind });
    if let (Value::Object(out), Value::Object(fields)) = (&mut out, fields) {
        out.extend(fields.clone());
    }
    format!("{out}\n")
}
