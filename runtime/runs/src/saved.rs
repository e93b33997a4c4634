//! What a run has kept of its model: the spec or the graph that it was made of, its forward graph, and its checkpoints.
//!
//! The rest of the runtime knows plans and no specs. This module checks a saved spec and lowers it, for every program that opens runs.

mod definition;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rtc_compiler::check::{NoFiles, check};
use rtc_compiler::diag::{Problems, Severity};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::hash;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::{Source, Sources};

use crate::error::{CheckpointError, Error};
use crate::record::checkpoint::{self, Checkpoint, CheckpointSlot};
use crate::record::{ModelForm, SavedRun, program};
pub use definition::{ModelDefinition, NoModel};
use rtc_task::error::unknown;

/// A part of what a program says of itself: the hash of the code that decides its numbers.
pub const CODE: &str = "code";

/// A run that is opened by a program.
#[derive(Clone, Copy, Debug)]
pub struct OpenedRun<'a> {
    /// The folder of the run.
    pub path: &'a Path,
    /// What stands in it.
    pub run: &'a SavedRun,
    /// The versions of the parts of the program that opens it, for messages.
    pub versions: &'a BTreeMap<String, String>,
}

impl OpenedRun<'_> {
    /// What the run was made of.
    ///
    /// # Errors
    /// This version of rtc finds an error in it.
    pub fn definition(&self, task: &Catalog) -> Result<ModelDefinition, CheckpointError> {
        let (run, written) = (self.run, self.run.info.written);
        match written {
            ModelForm::Spec => {
                let file = self.path.join(written.file());
                let source = Source::new(file.display().to_string(), run.spec.as_str());
                // A saved spec is complete: what it used stands in it.
                let (spec, problems, sources) = check(&NoFiles, source, None, &[], task);
                spec.map(ModelDefinition::Spec).ok_or_else(|| self.refuse(&self.no_spec(&problems, &sources)))
            }
            ModelForm::Graph => ModelDefinition::graph(&run.spec, written.file()).map_err(|why| self.no_model(&why)),
        }
    }

    /// What the run was made of, and its forward graph. The definition and the compiler must give the graph that was trained.
    ///
    /// # Errors
    /// They give another one, or none.
    pub fn model(&self, task: &Catalog) -> Result<(ModelDefinition, Graph), CheckpointError> {
        let (info, file) = (&self.run.info, self.run.info.written.file());
        let definition = self.definition(task)?;
        let graph = definition.forward(task).map_err(|why| self.no_model(&why))?;
        if definition.hash() != info.spec_hash {
            return Err(self.refuse(&format!("its {file} was changed after the training: {}", self.cure())));
        }
        if hash::hash(&graph) != info.graph_hash {
            let why = format!("this version of rtc builds another graph from its {file}: {}", self.cure());
            return Err(self.refuse(&why));
        }
        Ok((definition, graph))
    }

    /// A checkpoint of the run: `best`, `last`, the update of one that was kept, or the folder of another one.
    ///
    /// # Errors
    /// It is damaged, of another run, or not there.
    pub fn checkpoint(&self, which: &str) -> Result<Checkpoint, Error> {
        let folder = |slot: CheckpointSlot| SavedRun::checkpoint(self.path, slot);
        let kept = checkpoint::kept(self.path);
        let is_update = !which.is_empty() && which.bytes().all(|byte| byte.is_ascii_digit());
        let slots = || {
            [CheckpointSlot::Best, CheckpointSlot::Last]
                .into_iter()
                .chain(kept.iter().copied().map(CheckpointSlot::Update))
        };
        let same = |slot: CheckpointSlot| fs::canonicalize(which).ok() == fs::canonicalize(folder(slot)).ok();
        let known = |slot: &CheckpointSlot| match slot {
            CheckpointSlot::Update(update) if is_update => which.parse() == Ok(*update),
            slot => slot.name() == which || Path::new(which).exists() && same(*slot),
        };
        let slot = slots().find(known);
        let found = match slot {
            Some(slot) => checkpoint::find(self.path, &folder(slot))?,
            None if is_update => {
                let listed = kept.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                let reason = match kept.is_empty() {
                    true => "it keeps only `best` and `last`: `checkpoints: { every: N }` of the experiment keeps more"
                        .to_owned(),
                    false => format!("it keeps those after the updates {listed}, besides `best` and `last`"),
                };
                let reason = format!("there is no checkpoint after update {which}: {reason}");
                return Err(CheckpointError { path: self.path.to_owned(), reason, previous: None }.into());
            }
            None if !which.contains('/') && !Path::new(which).exists() => {
                let known = slots().map(|slot| slot.name().to_owned()).collect::<Vec<_>>();
                let reason = unknown("checkpoint", which, &known);
                return Err(CheckpointError { path: self.path.to_owned(), reason, previous: None }.into());
            }
            None => checkpoint::find(Path::new(which), Path::new(which))?,
        };
        self.run.check_checkpoint(&found, slot)?;
        Ok(found.checkpoint)
    }

    /// Why the spec of a run is none any more: the first error in it.
    fn no_spec(&self, problems: &Problems, sources: &Sources) -> String {
        let first = problems.iter().find(|found| found.kind.severity() == Severity::Error);
        let what = first.map_or_else(String::new, |found| {
            let place = found.span.and_then(|span| Some(sources.get(span.source)?.position(span.start).line));
            let line = place.map_or_else(String::new, |line| format!("line {line}, "));
            format!(" ({line}{}: {})", found.kind.code(), found.message)
        });
        let file = self.run.info.written.file();
        format!("this version of rtc finds an error in its {file}{what}: {}", self.cure())
    }

    fn no_model(&self, why: &NoModel) -> CheckpointError {
        self.refuse(&format!("{why}: {}", self.cure()))
    }

    /// How a run can be read again whose spec does not give its model.
    fn cure(&self) -> String {
        let trained = &self.run.info.versions;
        if trained.get(CODE).is_some_and(|code| self.versions.get(CODE) == Some(code)) {
            return format!("put back the {} of the training, or train again", self.run.info.written.file());
        }
        let (trained, own) = (program(trained), program(self.versions));
        format!("it was trained by {trained}, and this is {own}; use that one, or train again")
    }

    fn refuse(&self, reason: &str) -> CheckpointError {
        CheckpointError { path: self.path.to_owned(), reason: reason.to_owned(), previous: None }
    }
}
