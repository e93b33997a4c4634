//! `rtc lsp`: the language server of specs.

use clap::Args;
use rtc_session::failure::SessionFailure;

use crate::exit::CommandResult;
#[cfg(feature = "lsp")]
use crate::exit::Exit;

const EXAMPLES: &str = "\
Examples:
  rtc lsp  what an editor starts, see `rtc docs editor`; it ends with its input

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
#[cfg(feature = "lsp")]
pub(crate) fn run(_: &Options) -> CommandResult {
    let loader = |file: &std::path::Path| -> Box<dyn rtc_compiler::check::Loader> {
        Box::new(rtc_session::spec_file::SpecFolder::of(file))
    };
    let host = rtc_lsp::Host { loader, numbers: rtc_session::model::numbers, version: rtc_session::versions::VERSION };
    match rtc_lsp::serve(&host) {
        Ok(well) => Ok(Exit::of(well)),
        Err(error) => Err(SessionFailure::io("read", std::path::Path::new("standard input"), error)),
    }
}

/// Refuses: this program has no server.
#[cfg(not(feature = "lsp"))]
pub(crate) fn run(_: &Options) -> CommandResult {
    Err(SessionFailure::Usage(
        "this rtc was built without the language server: build it with `--features lsp`".to_owned(),
    ))
}
