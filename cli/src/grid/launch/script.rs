//! The script of a job array: one element trains the cell on its line of a list.

use std::path::Path;

use rtc_session::failure::SessionFailure;

use super::words::{self, CellWords};
use crate::terminal::quoted;

/// Directives above the command, and what follows it.
pub(super) struct Script<'a> {
    /// Lines for the queue.
    pub(super) directives: Vec<String>,
    /// What queues the job again, in shell.
    pub(super) again: Option<&'a str>,
}

impl Script<'_> {
    /// The whole script: it passes the signal that the time is over on to the training, which then saves and ends with 75.
    pub(super) fn text(&self, list: &Path, command: &CellWords) -> Result<String, SessionFailure> {
        let directives: String = self.directives.iter().map(|line| format!("{line}\n")).collect();
        let words = words::shell(&command.with_cell(&format!("@{}", words::in_script("the path of the list", list)?)));
        let [folder, program] = words::start()?;
        let (folder, program) = (quoted(&folder), quoted(&program));
        let again = self.again.map(|again| format!("if [ \"$code\" -eq 75 ]; then {again}; fi\n")).unwrap_or_default();
        Ok(format!(
            "#!/bin/sh\n{directives}cd {folder} || exit 6\n{program} {words} &\nchild=$!\nasked=\n\
             trap 'asked=1; kill -TERM \"$child\"' TERM\ncode=0\nwait \"$child\" || code=$?\n\
             if [ -n \"$asked\" ]; then code=0; wait \"$child\" || code=$?; fi\n{again}exit \"$code\"\n"
        ))
    }
}
