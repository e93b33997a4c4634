//! `rtc report`: one HTML page about one or several runs, and its plots as files; or the page served while they go on.

#[cfg(feature = "live")]
mod watch;

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::limits;
use clap::Args;
use rtc_base::disk::beneath::is_owned;
use rtc_base::disk::{write_file, write_output};
use rtc_report::{NoPicture, Picture, page, pictures};
use rtc_session::failure::SessionFailure;
use rtc_session::text::{count, number};

use crate::exit::{CommandResult, Exit};
use crate::figures::FigureOptions;
use crate::gather::{ReportOptions, gather};
use crate::options::DeviceOptions;
use crate::terminal::Terminal;
use crate::threads;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc report runs/NAME                                  write runs/NAME/report.html
  rtc report runs/GRID                                  all runs below a folder, compared on one page
  rtc report runs/A runs/B -o compare.html --plots figures
  rtc report runs/GRID --plots figures --width 84mm     figures for a column of a paper, labels of 8 pt
  rtc report runs/NAME --inputs expressions.txt         how these inputs halt and fold, one per line
  rtc report runs/NAME --examples 0                     from the records alone, without running the model
  rtc report runs/NAME --analyses 500                   what its states stand for, and the saliency of its tokens
  rtc report runs/NAME --attention                      where its attentions look in some inputs
  rtc report runs/NAME --watch                          serve the page while the run goes on
";

const NOTES: &str = "\
The page needs no network and nothing beside it. A run may be unfinished: what there is is shown.

Accuracy and depth by length are measured with the best checkpoint on the first examples of every evaluation split, and \
kept in lengths.json in the run's folder. --analyses draws strings of a length where the task can, and else takes the longest \
of these examples up to it. --watch serves the page at an address that it prints, which no other user can guess, makes it again when the \
records of the runs change, and measures nothing unless --examples says how much. A pair on a line of --inputs is written `left ||| right`.
";

/// Examples of a split that are measured by length.
const MEASURED: usize = 200;

/// Arguments of `rtc report`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Options {
    /// Folders of runs, folders with runs below them, names below `runs`, or `@last`
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// The page; `report.html` in the folder, or here for several folders or for one of another user, without it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write every plot to this folder, as SVG, PDF and PNG
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    figures: FigureOptions,
    /// Draw how the inputs in this file halt and fold, instead of examples
    #[arg(long, value_name = "FILE")]
    inputs: Option<PathBuf>,
    /// Measure so many examples of every split by length, and draw how some of them halt and fold; 0 runs no model
    /// [default: 200, or 0 with --watch]
    #[arg(long, value_name = "N")]
    examples: Option<usize>,
    /// Draw the principal components of the states on rows of this length, and how much the answer depends on each token
    #[arg(long, value_name = "LENGTH", value_parser = analysed)]
    analyses: Option<usize>,
    /// Draw where attention looks in some examples, or in the inputs of --inputs
    #[arg(long)]
    attention: bool,
    /// Serve the page on 127.0.0.1 and follow the runs, until Ctrl-C
    #[arg(long, conflicts_with_all = ["output", "plots"])]
    watch: bool,
    /// The port of --watch; a free one without it
    #[arg(long, value_name = "N", requires = "watch")]
    port: Option<u16>,
    /// Number of threads; changes speed alone
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// Writes the page, and prints where it is.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let device = options.device.choice();
    // Every run opens the device anew; one that can't be opened is no run's fault.
    device.open()?;
    let report = ReportOptions {
        examples: options.examples.unwrap_or(if options.watch { 0 } else { MEASURED }),
        inputs: options.inputs.clone(),
        analyses: options.analyses,
        attention: options.attention,
        device,
    };
    if options.watch {
        #[cfg(feature = "live")]
        return watch::watch(&options.runs, &report, options.port.unwrap_or(0), terminal);
        #[cfg(not(feature = "live"))]
        return Err(SessionFailure::Usage(
            "this rtc was built without `--watch`: build it with `--features live`".to_owned(),
        ));
    }
    let style = options.figures.style()?;
    let gathered = gather(&options.runs, &report, terminal)?;
    let output = match (&options.output, gathered.folders.as_slice()) {
        (Some(path), _) => path.clone(),
        // Nothing is written into a folder of another user.
        (None, [folder]) if is_owned(folder) => folder.join("report.html"),
        (None, _) => PathBuf::from("report.html"),
    };
    let html = page(&gathered.report);
    make_folder(output.parent())?;
    match &options.output {
        Some(named) => write_output(named, &html)?,
        None => write_file(&output, &html)?,
    }
    if let Some(folder) = &options.plots {
        let pictures = pictures(&gathered.report, &style);
        write_plots(folder, &pictures)?;
        terminal.message(&format!("{} as SVG, PDF and PNG in {}", count(pictures.len(), "plot"), folder.display()));
    }
    let size = number(html.len() as f64 / 1000.0);
    terminal.message(&format!("{}, {size} kB", count(gathered.report.runs.len(), "run")));
    terminal.result(&format!("{}\n", output.display()))?;
    Ok(Exit::Done)
}

/// A length of rows to analyse. What each state has seen is worked out pair by pair, so they may not be too long.
fn analysed(text: &str) -> Result<usize, String> {
    let length = text.parse::<usize>().ok().filter(|length| (1..=limits::ANALYSED).contains(length));
    length.ok_or_else(|| format!("a length from 1 to {}", limits::ANALYSED))
}

fn write_plots(folder: &Path, pictures: &[Picture]) -> Result<(), SessionFailure> {
    make_folder(Some(folder))?;
    for picture in pictures {
        write_file(&folder.join(format!("{}.svg", picture.name)), picture.file())?;
        write_drawn(&folder.join(format!("{}.pdf", picture.name)), picture.pdf())?;
        write_drawn(&folder.join(format!("{}.png", picture.name)), picture.png())?;
    }
    Ok(())
}

fn write_drawn(path: &Path, drawn: Result<Vec<u8>, NoPicture>) -> Result<(), SessionFailure> {
    let drawn = drawn.map_err(|error| SessionFailure::io("draw", path, std::io::Error::other(error)))?;
    Ok(write_file(path, drawn)?)
}

fn make_folder(folder: Option<&Path>) -> Result<(), SessionFailure> {
    match folder.filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => fs::create_dir_all(folder).map_err(|error| SessionFailure::io("create", folder, error)),
        None => Ok(()),
    }
}
