//! `rtc lsp`: the language server of specs.

use std::path::Path;

use clap::Args;
use rtc_lsp::{Host, serve};

use crate::failure::{Exit, Failure, Outcome};
use crate::model::numbers;
use crate::spec_file::Folder;
use crate::versions::VERSION;

const EXAMPLES: &str = "\
Examples:
  rtc lsp  what an editor starts, see docs/editor.md; it ends with its input

Exit codes: 0 after `shutdown`, 1 where the editor leaves without it, 6 where the input has no header of a message.
";

/// Arguments of `rtc lsp`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// Speak on standard input and output, as always: some editors ask for it
    #[arg(long)]
    stdio: bool,
}

/// Serves until the editor leaves.
pub(crate) fn run(_: &Options) -> Outcome {
    let host = Host { loader: |file| Box::new(Folder::of(file)), numbers, version: VERSION };
    match serve(&host) {
        Ok(well) => Ok(Exit::of(well)),
        Err(error) => Err(Failure::io("read", Path::new("standard input"), error)),
    }
}
