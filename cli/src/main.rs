//! The `rtc` command: parses its arguments, sets up threads, runs one command, and turns the outcome into an exit code.

mod allocation;
mod attention;
mod choice;
mod command;
mod exit;
mod figures;
mod gather;
mod grid;
mod huggingface;
mod limits;
mod lines;
mod listing;
mod live;
mod messages;
mod onnx;
mod options;
mod progress;
mod signals;
mod terminal;
mod text;
mod threads;
mod time;
mod tips;
mod trees;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use rtc_kernel::Vectors;
use rtc_session::failure::{PANIC, SessionFailure};
use rtc_session::threads::on_a_large_stack;

use command::Cli;
use terminal::Terminal;

#[global_allocator]
static ALLOCATOR: allocation::OrEnd = allocation::OrEnd;

/// Does nothing but to start a thread with a large stack: that of this one may be too small to parse the arguments (`ulimit -s`).
fn main() -> ExitCode {
    match on_a_large_stack(start) {
        Ok(code) => ExitCode::from(code),
        // The panic has printed its message already.
        Err(_) => ExitCode::from(PANIC),
    }
}

/// Parses the arguments and runs the command; its exit code.
fn start() -> u8 {
    signals::let_writes_fail();
    let mut command = tips::with_negative_numbers(Cli::command());
    let read = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match read.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(told) => {
            let args: Vec<String> = std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
            return terminal::say(told, &command, &args);
        }
    };
    let terminal = Terminal::new(cli.quiet);
    threads::set_up(cli.command.threads());
    run(&cli, &terminal)
}

fn run(cli: &Cli, terminal: &Terminal) -> u8 {
    let vectors = Vectors::from_environment().map_err(SessionFailure::Usage);
    let limit = || cli.command.time_limit().map_or(Ok(None), |limit| limit.start(cli.quiet));
    match vectors.and_then(|()| limit()).and_then(|_running| cli.command.run(terminal)) {
        Ok(exit) => exit.code(),
        Err(failure) => {
            terminal.report(&failure);
            failure.code()
        }
    }
}
