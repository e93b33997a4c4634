//! The command line of `rtc`.

use clap::Parser;
use rtc_session::versions::VERSION;

use super::Command;

const EXAMPLES: &str = "\
Examples:
  rtc check mine.rt                             report every problem in a spec
  rtc compile gut:no_gate                       print the graph of a variant
  rtc diff gut gut:no_gate                      say what an ablation changes
  rtc task check DATA.csv --write mine.yaml     write an experiment for your own data
  rtc train gut                                 train on a laptop's ListOps
  rtc train gut --experiment mine.yaml          train on your own data
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
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print no messages, only results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}
