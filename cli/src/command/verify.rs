//! `rtc verify`: whether runs are as they were written, and whether their results come out again.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use clap::Args;
use rtc_runs::record::table::{ResultsRow, ResultsTable};
use rtc_runs::record::verify::verify;
use rtc_runs::record::{RunAnswers, RunInfo, SavedRun};
use rtc_session::experiment_file::check_program;
use rtc_session::failure::SessionFailure;
use rtc_session::folders::find;
use rtc_session::labels::{self, RunLabels};
use rtc_session::saved::{ModelChoice, TrainedModel, catalog_in, compile};
use rtc_session::versions::program;
use rtc_train::evaluate_kept;
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::messages::make_data;
use crate::options::{DeviceOptions, ProgramOptions};
use crate::progress::ProgressDisplay;
use crate::terminal::Terminal;
use crate::threads;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc verify runs/NAME            every file and checkpoint of a run
  rtc verify runs/A runs/B        several runs
  rtc verify runs/NAME --again    and its data, answers and results, computed again
";

const NOTES: &str = "\
Nothing is changed, and another process may be training in the folder. The exit code is that of the first part that is refused: 7 where \
it is damaged or belongs to another run, 6 where the system can't read it. With --again it is 1 where everything is as it was written, \
and other numbers come out.
";

/// Arguments of `rtc verify`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Options {
    /// The folders of runs, their names below `runs`, or `@last`
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Make the data and measure the best checkpoint again: every number must come out with the same bits
    #[arg(long)]
    again: bool,
    /// Number of threads; changes speed alone
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    device: DeviceOptions,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// A part of a run, and what is wrong with it.
struct CheckedPart {
    name: String,
    fault: Option<PartFault>,
}

enum PartFault {
    /// It is refused.
    Refused(SessionFailure),
    /// Another number comes out.
    Other(String),
}

impl CheckedPart {
    fn new(name: &str, result: Result<(), SessionFailure>) -> Self {
        Self { name: name.to_owned(), fault: result.err().map(PartFault::Refused) }
    }

    fn compared(name: &str, difference: Option<String>) -> Self {
        Self { name: name.to_owned(), fault: difference.map(PartFault::Other) }
    }

    fn why(&self) -> Option<String> {
        self.fault.as_ref().map(|fault| match fault {
            PartFault::Refused(failure) => failure.to_string(),
            PartFault::Other(difference) => difference.clone(),
        })
    }
}

/// Prints what was checked.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let mut all = vec![];
    for named in &options.runs {
        all.push(match find(named) {
            Ok(path) => (path.clone(), parts(&path, options, terminal)),
            Err(failure) => (named.clone(), vec![CheckedPart::new("the run", Err(failure))]),
        });
    }
    if options.json {
        let runs: Vec<Value> = all.iter().map(|(path, parts)| as_json(path, parts)).collect();
        terminal.json(&json!({ "runs": runs }))?;
    } else {
        terminal.result(&all.iter().map(|(path, parts)| as_text(path, parts)).collect::<String>())?;
    }
    let faults = || all.iter().flat_map(|(_, parts)| parts).filter_map(|part| part.fault.as_ref());
    let refused = faults().find_map(|fault| match fault {
        PartFault::Refused(failure) => Some(Exit::Reported(failure.code())),
        PartFault::Other(_) => None,
    });
    Ok(refused.unwrap_or_else(|| Exit::of(faults().next().is_none())))
}

fn as_json(path: &Path, parts: &[CheckedPart]) -> Value {
    let part = |part: &CheckedPart| match part.why() {
        None => json!({ "name": part.name, "ok": true }),
        Some(why) => json!({ "name": part.name, "ok": false, "why": why }),
    };
    let ok = parts.iter().all(|part| part.fault.is_none());
    json!({ "run": path.display().to_string(), "ok": ok, "parts": parts.iter().map(part).collect::<Vec<_>>() })
}

fn as_text(path: &Path, parts: &[CheckedPart]) -> String {
    let line = |part: &CheckedPart| match part.why() {
        None => format!("  ok   {}\n", part.name),
        Some(why) => format!("  BAD  {}: {why}\n", part.name),
    };
    format!("{}\n{}", path.display(), parts.iter().map(line).collect::<String>())
}

fn parts(path: &Path, options: &Options, terminal: &Terminal) -> Vec<CheckedPart> {
    let checked = verify(path).into_iter();
    let mut parts: Vec<CheckedPart> = checked
        .map(|part| CheckedPart::new(&part.name, part.fault.map_or(Ok(()), |fault| Err(fault.into()))))
        .collect();
    if RunLabels::exist(path)
        && let Ok(info) = RunInfo::read(path)
    {
        parts.push(CheckedPart::new(labels::FILE, RunLabels::read(path, &info).map(drop)));
    }
    if parts.iter().all(|part| part.fault.is_none()) {
        parts.push(CheckedPart::new("the graph of the model", model(path)));
        if options.again {
            parts.extend(
                again(path, options, terminal).unwrap_or_else(|failure| vec![CheckedPart::new("again", Err(failure))]),
            );
        }
    }
    parts
}

/// Whether this program makes the graph that was trained.
fn model(path: &Path) -> Result<(), SessionFailure> {
    let saved = SavedRun::read(path)?;
    compile(path, &saved, &catalog_in(&saved.experiment)?)?;
    Ok(())
}

/// Makes the data, and measures the best checkpoint of a finished run as its training did.
fn again(path: &Path, options: &Options, terminal: &Terminal) -> Result<Vec<CheckedPart>, SessionFailure> {
    let saved = SavedRun::read(path)?;
    let (Some(table), Some(results)) = (&saved.results, &saved.measured) else {
        return Ok(vec![CheckedPart::compared(
            "again",
            Some("the run is not finished: there are no results".to_owned()),
        )]);
    };
    let mut trained =
        TrainedModel::open(&ModelChoice { device: options.device.choice(), ..ModelChoice::of_run(path) })?;
    trained.experiment.task.known.permitted = options.programs.run_commands;
    check_program(&trained.experiment.task, &trained.experiment.splits())?;
    let data = make_data(&trained.experiment, terminal)?;
    let known = saved.info.data_hash.as_ref().is_none_or(|hash| *hash == data.hash);
    let other = || {
        let was = saved.info.data_hash.as_deref().unwrap_or("unknown");
        format!("their fingerprint was {was} and is {} now", data.hash)
    };
    let mut parts = vec![CheckedPart::compared("again: the data", (!known).then(other))];
    let kept = RunAnswers::read(path, results).unwrap_or_default().splits;
    // Nothing is lost when a measurement is cut off, so signals end it at once.
    let stop = AtomicBool::new(false);
    let mut progress = ProgressDisplay::new(terminal, &stop);
    for (at, row) in table.rows.iter().enumerate() {
        let fingerprint = data.set.fingerprint_of(&row.split);
        let measurement = trained.measurement(&row.split, data.set.split(&row.split));
        let Some((found, answers)) =
            evaluate_kept(&mut *trained.model, measurement, fingerprint, &stop, &mut progress)?
        else {
            continue;
        };
        parts.push(CheckedPart::compared(&format!("again: the results on {}", row.split), difference(row, &found)));
        let same = kept.get(at) == Some(&answers);
        let why = || "other examples are answered right than answers.json says".to_owned();
        parts.push(CheckedPart::compared(&format!("again: the answers on {}", row.split), (!same).then(why)));
    }
    drop(progress);
    let ResultsTable { best_update, dev_accuracy, dev_loss, dev_metric, .. } = table;
    let dev_metric = dev_metric.as_ref().map(|metric| metric.value);
    let best = trained.state.progress.best.unwrap_or_default();
    let written = (*best_update, *dev_accuracy, *dev_loss, dev_metric);
    let same = written == (trained.state.progress.updates, best.accuracy, best.loss, best.metric);
    let why = || "results.json tells of another checkpoint than the best one".to_owned();
    parts.push(CheckedPart::compared("again: the best checkpoint", (!same).then(why)));
    let trained_by = rtc_runs::record::program(&saved.info.versions);
    if trained_by != program() && parts.iter().any(|part| part.fault.is_some()) {
        terminal.message(&format!("the run was trained by {trained_by}, and this is {}", program()));
    }
    Ok(parts)
}

/// The first field in which two rows differ in any bit. The baselines tell of the training data, and not of the model.
fn difference(old: &ResultsRow, new: &ResultsRow) -> Option<String> {
    let ResultsRow { bag_of_words, trigram, trigram_perplexity, .. } = *old;
    let new = ResultsRow { bag_of_words, trigram, trigram_perplexity, ..new.clone() };
    let [old, new] = [old, &new].map(|row| serde_json::to_value(row).expect("names and numbers are valid JSON"));
    let fields = old.as_object().into_iter().chain(new.as_object()).flat_map(|fields| fields.keys());
    // As text, in which -0 is not 0.
    let text = |of: &Value, field: &str| of[field].to_string();
    let other = fields.into_iter().find(|field| text(&old, field) != text(&new, field))?;
    Some(format!("{other} was {} and is {} now", old[other], new[other]))
}
