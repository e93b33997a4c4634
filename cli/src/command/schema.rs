//! `rtc schema`: the JSON Schema of experiments.

use clap::Args;
use rtc_runs::experiment::schema;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc schema > experiment.schema.json  for the YAML language server, see `rtc docs editor`
";

/// Arguments of `rtc schema`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {}

/// Prints the schema.
pub(crate) fn run(_: &Options, terminal: &Terminal) -> CommandResult {
    terminal.json(&schema())?;
    Ok(Exit::Done)
}
