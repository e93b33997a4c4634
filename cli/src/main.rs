//! The `rtc` command: parses its arguments, sets up threads, runs one command, and turns the outcome into an exit code.

mod allocation;
mod choice;
mod command;
mod complete;
mod definition;
mod device;
mod experiment_file;
mod failure;
mod folders;
mod gather;
mod grid;
mod job;
mod labels;
mod limits;
mod lines;
mod listing;
mod live;
mod memory;
mod model;
mod onnx;
mod progress;
mod ranks;
mod saved;
mod signals;
mod spec_file;
mod terminal;
mod text;
mod threads;
mod time;
mod trees;
mod weights;

use std::process::ExitCode;

use clap::Parser;

use command::Command;
use failure::Failure;
use rtc_kernel::Vectors;
use terminal::Terminal;

#[global_allocator]
static ALLOCATOR: allocation::OrEnd = allocation::OrEnd;

/// The version, and the hash of the code that runs hold in their records.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (code ", env!("RTC_CODE"), ")");

const EXAMPLES: &str = "\
Examples:
  rtc check specs/gut.rt                        report every problem in a spec
  rtc compile specs/gut.rt:no_gate              print the graph of a variant
  rtc diff specs/gut.rt specs/gut.rt:no_gate    say what an ablation changes
  rtc train specs/gut.rt                        train on a laptop's ListOps
  rtc train specs/gut.rt --experiment listops   train as in the paper
  rtc predict runs/NAME '[MAX 2 9 [MIN 4 7 ] 0 ]'
  rtc report runs/NAME                          put curves, tables and pictures on a page
";

const CODES: &str = "\
Exit codes:
  0   done
  1   a negative finding
  2   a mistake in the arguments or the experiment
  3   a mistake in the spec
  4   broken data
  5   a number that is not finite
  6   input or output failed, the disk is full, a device or a rank failed
  7   a checkpoint was refused
  8   more memory is needed than there is, or than `--memory` allows
  9   not done within `--time-limit`
  75  stopped; the same command goes on

Results go to standard output, messages to standard error. NO_COLOR turns colours off.
";

/// The recurrent-transformer compiler: checks, compares, compiles, trains and evaluates specs of sequence models.
#[derive(Parser)]
#[command(name = "rtc", version = VERSION, before_help = EXAMPLES, after_help = CODES, max_term_width = 120)]
#[command(arg_required_else_help = true, subcommand_required = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print no messages, only results and errors
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// Does nothing but to start a thread with a large stack: that of this one may be too small to parse the arguments (`ulimit -s`).
fn main() -> ExitCode {
    match threads::on_a_large_stack(start) {
        Ok(code) => ExitCode::from(code),
        // The panic has printed its message already.
        Err(_) => ExitCode::from(failure::PANIC),
    }
}

/// Parses the arguments and runs the command; its exit code.
fn start() -> u8 {
    signals::let_writes_fail();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => return terminal::say(&told),
    };
    let terminal = Terminal::new(cli.quiet);
    threads::set_up(cli.command.threads());
    run(&cli, &terminal)
}

fn run(cli: &Cli, terminal: &Terminal) -> u8 {
    let vectors = Vectors::from_environment().map_err(Failure::Usage);
    let limit = || cli.command.time_limit().map_or(Ok(None), |limit| limit.start(cli.quiet));
    match vectors.and_then(|()| limit()).and_then(|_running| cli.command.run(terminal)) {
        Ok(exit) => exit.code(),
        Err(failure) => {
            terminal.report(&failure);
            failure.code()
        }
    }
}
