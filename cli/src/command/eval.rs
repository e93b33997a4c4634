//! `rtc eval`: a trained model on splits of its task.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use rtc_runtime::experiment::DataSource;
use rtc_runtime::task::{Example, Wanted, load_wanted};
use rtc_runtime::train::{Measurement, Table, evaluate};
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::progress::Progress;
use crate::saved::{ModelOptions, Trained, generated};
use crate::terminal::Terminal;
use crate::text::number;

const EXAMPLES: &str = "\
Examples:
  rtc eval runs/NAME                              the splits of its experiment again
  rtc eval runs/NAME --split test --split lra     other splits
  rtc eval runs/NAME --checkpoint last
  rtc eval runs/NAME --inference flat             without the outer recursion of a fold
  rtc eval runs/NAME --data my_rows.tsv           rows of a file, in the format of the task
  rtc eval runs/NAME --data folder --split lra    the published files in a folder
";

/// Arguments of `rtc eval`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// A split of the task; those of the experiment without it
    #[arg(long)]
    split: Vec<String>,
    /// A file with rows, all of which are measured, or a folder with the published files
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints a table.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let mut trained = Trained::open(&options.model)?;
    let data = load_splits(options, &trained, terminal)?;
    let update = trained.state.progress.updates;
    terminal.message(&format!("{}, {} after update {}", trained.name, options.model.checkpoint, number(update as f64)));
    let batch = &trained.experiment.batch;
    let batch = batch.size.div_ceil(batch.accumulate);
    // Nothing is lost when a measurement is cut off, so signals end it at once.
    let stop = AtomicBool::new(false);
    let mut rows = vec![];
    for (split, examples) in &data {
        let mut progress = Progress::new(terminal, &stop);
        let measurement = Measurement {
            split,
            examples,
            batch,
            metrics: trained.task.metrics(),
            perplexity: trained.task.perplexity(),
        };
        rows.extend(evaluate(trained.learner(), measurement, &stop, &mut progress)?);
    }
    let dev_accuracy = trained.state.progress.best.map_or(0.0, |best| best.accuracy);
    let table = Table { best_update: update, dev_accuracy, rows };
    if options.json {
        let splits = &table.to_json()["splits"];
        terminal.json(&json!({
            "run": trained.path.display().to_string(), "model": trained.name, "checkpoint": options.model.checkpoint, "update": update,
            "inference": options.model.inference.word(),
            "splits": splits,
        }))?;
    } else {
        terminal.result(&table.to_text())?;
    }
    Ok(Exit::Done)
}

/// The examples of every split, in the order asked for.
fn load_splits(
    options: &Options,
    trained: &Trained,
    terminal: &Terminal,
) -> Result<Vec<(String, Vec<Example>)>, Failure> {
    let mut settings = trained.experiment.task.clone();
    let wanted = if options.split.is_empty() { &trained.experiment.evaluate } else { &options.split };
    for split in wanted {
        trained.task.split(split).map_err(Failure::Usage)?;
    }
    match &options.data {
        Some(path) if !path.is_dir() => return Ok(vec![(file_name(path), rows_of(path, trained)?)]),
        Some(folder) => {
            settings.data = Some(DataSource::Folder(folder.display().to_string()));
            settings.sizes.clear();
        }
        None => {}
    }
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let used = trained.experiment.splits();
    let mut data = load_wanted(&settings, Wanted { used: &used, splits: &names, most: usize::MAX })?;
    if let Some(message) = generated(&settings, &data) {
        terminal.message(&message);
    }
    let mut take = |name: &String| Some((name.clone(), data.splits.remove(name)?));
    let splits: Vec<_> = wanted.iter().filter_map(&mut take).collect();
    match splits.iter().find(|(_, examples)| examples.is_empty()) {
        Some((split, _)) => Err(Failure::data(settings.name, None, format!("the split `{split}` is empty"))),
        None => Ok(splits),
    }
}

fn rows_of(path: &Path, trained: &Trained) -> Result<Vec<Example>, Failure> {
    let examples = trained.task.read(path, &trained.options)?;
    if examples.is_empty() {
        return Err(Failure::data(path.display().to_string(), None, "the file has no rows"));
    }
    Ok(examples)
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
