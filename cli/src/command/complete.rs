//! `rtc complete`: what can stand at the end of a line, for the scripts of `rtc completions`.

mod candidates;

use clap::Args;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use candidates::{Completion, candidates};

/// Arguments of `rtc complete`.
#[derive(Args)]
pub(crate) struct Options {
    /// The words of the line, the program first and the one that is being written last; it may be empty
    #[arg(last = true)]
    words: Vec<String>,
}

/// Prints a line for every word that fits: the word, and behind a tab what it means.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let line = |Completion { word, help }: Completion| match help.is_empty() {
        true => format!("{word}\n"),
        false => format!("{word}\t{help}\n"),
    };
    // What would not be one line is the name of no file that a shell could complete.
    let found = candidates(&options.words).into_iter().filter(|found| !found.word.contains(['\n', '\t']));
    terminal.result(&found.map(line).collect::<String>())?;
    Ok(Exit::Done)
}
