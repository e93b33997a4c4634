//! `rtc completions`: the script that teaches a shell the arguments.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::failure::{Exit, Outcome};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc completions bash > ~/.local/share/bash-completion/completions/rtc
  rtc completions zsh > ~/.zfunc/_rtc
  rtc completions fish > ~/.config/fish/completions/rtc.fish
";

/// Arguments of `rtc completions`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let mut script = vec![];
    clap_complete::generate(options.shell, &mut crate::Cli::command(), "rtc", &mut script);
    terminal.result(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
