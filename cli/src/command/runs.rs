//! `rtc runs`: the runs there are, and what people call them.

mod edit;
mod records;
mod remove;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rayon::prelude::*;
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{self, RUNS, below, folder};
use rtc_session::text::count;
use rtc_task::error::hint;
use serde_json::{Map, Value, json};

use crate::exit::{CommandResult, Exit};
use crate::listing::{Condition, KNOWN, ListColumn, ListOrder, ListedRun, ReadExtent, known, plain};
use crate::terminal::Terminal;
use crate::text::{columns, csv_row};

const EXAMPLES: &str = "\
Examples:
  rtc runs                                                        all runs below `runs`
  rtc runs --where state=finished --sort -score                   the best first
  rtc runs --where model~gut --where 'optimiser.learning_rate>0.001' --where 'age<2d'
  rtc runs --columns name,score,batch.size --format markdown
  rtc runs tag runs/NAME baseline keep                            `rtc runs --where tags=keep` shows it
  rtc runs note runs/NAME 'norm before, for the paper'
  rtc runs rename runs/NAME better                                the same `rtc train` finds it
  rtc runs remove runs/NAME --yes                                 `rtc runs restore runs/NAME` brings it back
  rtc runs records runs/NAME                                      metrics, results, experiment and spec as JSON
";

/// The columns of a table where none are asked for.
const COLUMNS: [&str; 10] =
    ["name", "model", "experiment", "seed", "state", "updates", "score", "split", "age", "size"];

/// Arguments of `rtc runs`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = notes(), args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    edit: Option<edit::RunEdit>,
    /// Runs, or folders with runs below them; `runs` without any
    runs: Vec<PathBuf>,
    /// Show runs for which this holds, as `state=finished`, `score>50%`, `age<2d`, `size>=1GB`, `model~gut`, `batch.size!=32`
    #[arg(long = "where", value_name = "CONDITION", value_parser = Condition::parse)]
    conditions: Vec<Condition>,
    /// The order: fields, the first one first; `-FIELD` is the largest first, `-score` the best [default: name]
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,
    /// The fields that are shown
    #[arg(long, value_name = "FIELD,..", value_delimiter = ',')]
    columns: Vec<String>,
    /// How the table is written
    #[arg(long, value_enum, default_value_t = ListingFormat::Text, conflicts_with = "json")]
    format: ListingFormat,
    /// Print all fields as JSON
    #[arg(long)]
    json: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListingFormat {
    /// Aligned columns
    Text,
    /// A Markdown table
    Markdown,
    /// Comma-separated values with all digits
    Csv,
}

/// The fields, and what conditions say.
fn notes() -> String {
    let fields: String = KNOWN.iter().map(|field| format!("  {:<11} {}\n", field.name, field.doc)).collect();
    format!(
        "Fields:\n{fields}  and every setting of the experiment by its path, as `optimiser.learning_rate`\n\nA condition is a field, one of \
         =, !=, <, <=, >, >= and ~ (contains), and a value. All conditions must hold. `tags=keep` asks for one of the tags. A run \
         without a value of the field is shown by != alone.\n\nA damaged run is shown as one, with the reason as a message; the exit code is 0. \
         No checkpoint is read: `rtc verify` checks everything. The score of a finished run is on `test`, or on the first split of its \
         table; that of another one is its last on dev. \
         `--sort -score` has the best first: the largest accuracy, the smallest perplexity or error; runs of one measure stand together.\n"
    )
}

/// Prints the list, or does what is asked with runs.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    match &options.edit {
        Some(edit) => edit::run(edit, terminal),
        None => list(options, terminal),
    }
}

fn list(options: &Options, terminal: &Terminal) -> CommandResult {
    let orders: Vec<ListOrder> = options.sort.iter().map(|text| ListOrder::parse(text)).collect();
    let default = if options.json { KNOWN.iter().map(|field| field.name).collect() } else { COLUMNS.to_vec() };
    let mut shown: Vec<ListColumn> = options.columns.iter().map(|name| ListColumn::named(name)).collect();
    let is_plain = shown.is_empty();
    if is_plain {
        shown = default.into_iter().map(ListColumn::named).collect();
    }
    let asked = || {
        let others = options.conditions.iter().map(|condition| &condition.column);
        shown.iter().chain(others).chain(orders.iter().map(|order| &order.column))
    };
    let extent = if asked().any(ListColumn::needs_settings) { ReadExtent::Settings } else { ReadExtent::Records };
    let paths = paths(&options.runs)?;
    let mut runs: Vec<ListedRun> = paths.par_iter().map(|path| ListedRun::read(path, extent)).collect();
    check(asked(), &runs)?;
    runs.retain(|run| options.conditions.iter().all(|condition| condition.holds(run)));
    runs.sort_by(|a, b| {
        orders
            .iter()
            .map(|order| order.compare(a, b))
            .find(|order| order.is_ne())
            .unwrap_or_else(|| a.path.cmp(&b.path))
    });
    // Few runs have tags; where none has, a column says nothing.
    if is_plain && !options.json && runs.iter().any(|run| !run.labels.tags.is_empty()) {
        shown.push(ListColumn::named("tags"));
    }
    if options.json {
        terminal.json(&json!({ "runs": runs.iter().map(|run| as_json(run, &shown)).collect::<Vec<_>>() }))?;
    } else {
        terminal.result(&table(&runs, &shown, options.format))?;
    }
    for (run, fault) in runs.iter().filter_map(|run| Some((run, run.fault.as_ref()?))) {
        terminal.message(&format!("{} is damaged: {fault}", folders::name(&run.path)));
    }
    for (run, fall) in runs.iter().filter_map(|run| Some((run, run.fall.as_ref()?))) {
        terminal.message(&format!("{} fell from its best: {}", folders::name(&run.path), fall.text()));
    }
    terminal.message(&match paths.len() {
        0 => format!("there is no run below `{RUNS}`; `rtc train` makes one"),
        all if all == runs.len() => count(all, "run"),
        all => format!("{} of {}", runs.len(), count(all, "run")),
    });
    Ok(Exit::Done)
}

/// The runs that are meant, each once. A folder that was named has some.
fn paths(named: &[PathBuf]) -> Result<Vec<PathBuf>, SessionFailure> {
    if named.is_empty() {
        let all = Path::new(RUNS);
        return if all.is_dir() { Ok(below(all)?.runs) } else { Ok(vec![]) };
    }
    let mut found: Vec<PathBuf> = vec![];
    for named in named {
        let runs = below(&folder(named)?)?.runs;
        if runs.is_empty() {
            return Err(folders::no_run(named, "there is no run in this folder or below it"));
        }
        found.extend(runs);
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Refuses fields that no run has. A damaged run may have any.
fn check<'c>(asked: impl Iterator<Item = &'c ListColumn>, runs: &[ListedRun]) -> Result<(), SessionFailure> {
    let whole = || runs.iter().filter(|run| run.settings.is_object());
    if whole().next().is_none() {
        return Ok(());
    }
    match asked.into_iter().find(|column| !whole().any(|run| column.is_in(run))) {
        Some(column) => {
            let mut names: Vec<String> = whole().flat_map(known).collect();
            names.sort();
            names.dedup();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            Err(SessionFailure::Usage(format!("no run has a field `{}`{}", column.name(), hint(column.name(), &names))))
        }
        None => Ok(()),
    }
}

fn as_json(run: &ListedRun, shown: &[ListColumn]) -> Value {
    let fields = shown.iter().map(|column| (column.name().to_owned(), column.value(run)));
    let mut out: Map<String, Value> = fields.collect();
    out.insert("folder".to_owned(), run.path.display().to_string().into());
    if let Some(fault) = &run.fault {
        out.insert("why".to_owned(), fault.to_string().into());
    }
    out.into()
}

fn table(runs: &[ListedRun], shown: &[ListColumn], format: ListingFormat) -> String {
    if runs.is_empty() && format == ListingFormat::Text {
        return String::new();
    }
    let head: Vec<String> = shown.iter().map(|column| column.name().to_owned()).collect();
    let texts = runs.iter().map(|run| shown.iter().map(|column| column.text(run)).collect::<Vec<_>>());
    match format {
        ListingFormat::Text => columns(&std::iter::once(head).chain(texts).collect::<Vec<_>>()),
        ListingFormat::Markdown => {
            let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            let rule = vec!["---".to_owned(); head.len()];
            let rows = texts.map(|cells| cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>());
            [head, rule].into_iter().chain(rows).map(|cells| row(&cells)).collect()
        }
        ListingFormat::Csv => {
            let values = |run: &ListedRun| shown.iter().map(|column| plain(&column.value(run))).collect::<Vec<_>>();
            csv_row(&head) + &runs.iter().map(|run| csv_row(&values(run))).collect::<String>()
        }
    }
}
