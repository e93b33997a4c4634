//! `rtc task check`: what would be read of a data file, or by an experiment, and what is wrong with it.

use std::fmt::Write as _;
use std::fs::{self, File, metadata};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use rtc_runs::experiment::EMBEDDED;
use rtc_session::experiment_file::{OpenedExperiment, check_program};
use rtc_session::failure::SessionFailure;
use rtc_session::text::{duration, number};
use rtc_task::class_weights::AnswerWeights;
use rtc_task::error::DataError;
use rtc_task::{
    Audit, ColumnLook, DOCUMENT, FileLook, Format, GivenColumn, GivenLook, Objective, Scale, Task, alike, audit,
    file_format, load, look, look_as, open_task,
};
use serde_json::{Map, Value, json};

use super::draft::{Attempt, ColumnRole, Draft, Kind, UserQuestion, Wishes, attempt, draft};
use crate::exit::{CommandResult, Exit};
use crate::options::ProgramOptions;
use crate::terminal::{Terminal, quoted};
use crate::text::columns;
use crate::time::TimeLimit;

/// Arguments of `rtc task check`.
#[derive(Args)]
pub(crate) struct Options {
    /// A data file (.csv, .tsv, .jsonl, .parquet, .txt, also with .gz or .zst), or an experiment
    name: String,
    /// Write the experiment for a data file into this new file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Train for a second, and say how long the whole training takes
    #[arg(long, requires = "write")]
    forecast: bool,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    programs: ProgramOptions,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) time: TimeLimit,
}

/// Exit code of data with problems.
const BROKEN: u8 = 4;
/// Problems that are listed.
const PROBLEMS: usize = 10;
/// Classes that are listed.
const CLASSES: usize = 20;

/// Looks at a file, or at all files of an experiment.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let path = Path::new(&options.name);
    let yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let problems = if yaml || EMBEDDED.iter().any(|(name, _)| *name == options.name) {
        if options.write.is_some() || !options.wishes.are_none() {
            let message = "`--write`, `--task`, `--input`, `--label`, `--answer`, `--format`, `--quotes`, `--delimiter` and `--encoding` are \
                           for a data file: an experiment says it itself";
            return Err(SessionFailure::Usage(message.to_owned()));
        }
        experiment(options, terminal)?
    } else {
        file(options, path, terminal)?
    };
    problems.iter().for_each(|problem| terminal.alert(&problem.to_string()));
    Ok(if problems.is_empty() { Exit::Done } else { Exit::Reported(BROKEN) })
}

/// Prints the columns of a file, and an experiment for it; with `--write` checks what it wrote.
fn file(options: &Options, path: &Path, terminal: &Terminal) -> Result<Vec<DataError>, SessionFailure> {
    let found = look_at(options, path)?;
    let draft = draft(&named_from(path, options.write.as_deref()), &found, &options.wishes);
    if !found.problems.is_empty() && options.write.is_some() {
        print(options, &found, &draft, terminal)?;
        return Ok(found.problems);
    }
    match (&options.write, &draft) {
        (Some(_), Err(UserQuestion(question))) => {
            print(options, &found, &draft, terminal)?;
            Err(SessionFailure::Usage(format!("{}: {question}", options.name)))
        }
        (Some(to), Ok(written)) => {
            write_new(to, &written.text)?;
            let waiting = terminal.waiting("trying the experiment");
            let tried = attempt(to, written.task, options.forecast);
            drop(waiting);
            let Attempt { splits, classes, parameters, seconds } = tried.inspect_err(|_| drop(fs::remove_file(to)))?;
            print(options, &found, &draft, terminal)?;
            written.notes.iter().chain(&alike(&classes)).for_each(|note| terminal.message(&format!("warning: {note}")));
            let rows = |split: &Audit| format!("{} {}", split.split, number(split.description.examples as f64));
            let rows = splits.iter().map(rows).collect::<Vec<_>>().join(", ");
            left_out(&splits).iter().for_each(|what| terminal.message(what));
            let (model, to) = (written.task.model(), quoted(to));
            let time = seconds.map_or_else(String::new, |seconds| format!(", at most {} here", duration(seconds)));
            terminal.message(&format!(
                "{to}: read and learned from ({rows}); `rtc train {model} --experiment {to}` trains {} parameters on it{time}",
                number(parameters as f64),
            ));
            Ok(vec![])
        }
        (None, _) => {
            print(options, &found, &draft, terminal)?;
            Ok(found.problems)
        }
    }
}

/// Looks at a file, in the format that an option or its name says.
fn look_at(options: &Options, path: &Path) -> Result<FileLook, SessionFailure> {
    if metadata(path).map_err(|error| SessionFailure::io("read", path, error))?.is_dir() {
        let why = "it is a folder: name a data file of it".to_owned();
        return Err(SessionFailure::data(&options.name, None, why + &examples(path)));
    }
    let form = options.wishes.form();
    Ok(match options.wishes.format {
        Some(format) => look_as(path, format.into(), form)?,
        None => look(path, form)?,
    })
}

/// The end of a sentence with a data file of a folder, if it has one.
fn examples(folder: &Path) -> String {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.retain(|path| file_format(path).is_some());
    files.sort();
    files.first().map_or_else(String::new, |file| format!(", as `{}`", file.display()))
}

/// The path of a data file as the experiment names it: from the folder of the experiment.
fn named_from(data: &Path, experiment: Option<&Path>) -> String {
    let plain = data.display().to_string();
    let folder = experiment.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder.filter(|_| data.is_relative()) else { return plain };
    let whole = |path: &Path| path.canonicalize().ok();
    let above = data.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(from), Some(to), Some(name)) = (whole(folder), whole(above), data.file_name()) else { return plain };
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(to.components().skip(shared)).collect();
    path.join(name).display().to_string()
}

/// Prints the columns of a file, their roles, and the experiment or the question that is open.
fn print(
    options: &Options,
    found: &FileLook,
    draft: &Result<Draft, UserQuestion>,
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    if options.json {
        return terminal.json(&file_json(found, draft));
    }
    let mut text = format!("{}: {} {}", options.name, number(found.rows as f64), unit(found.format));
    text += &match found.form.delimiter {
        Some(b'\t') => " with tabs between cells".to_owned(),
        Some(mark) => format!(" with `{}` between cells", char::from(mark)),
        None => String::new(),
    };
    text += &found.form.encoding.map_or_else(String::new, |encoding| format!(", {}", encoding.name()));
    text += if found.headless { ", without a header: columns are named by their places\n" } else { "\n" };
    let heading = ["column", "holds", "values", "words", "missing", "first"].map(str::to_owned).to_vec();
    if !found.columns.is_empty() {
        let rows = found.columns.iter().enumerate().map(|(at, column)| column_row(column, at, found.rows));
        text += &columns(&std::iter::once(heading).chain(rows).collect::<Vec<_>>());
    }
    match draft {
        Ok(draft) => {
            let roles = draft.columns.iter().zip(&found.columns);
            let roles = roles.map(|(role, column)| vec![role.role.to_owned(), column.name.clone(), role.why.clone()]);
            let roles: Vec<_> = roles.collect();
            text += &if roles.is_empty() { String::new() } else { format!("\n{}", columns(&roles)) };
            text += &draft.notes.iter().map(|note| format!("\nNote: {note}\n")).collect::<String>();
            text += &format!("\nAn experiment for it, to be read and changed:\n\n{}", draft.text);
        }
        Err(UserQuestion(question)) => text += &format!("\nNot sure: {question}\n"),
    }
    terminal.result(&text)
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> Result<(), SessionFailure> {
    let failed = |error| SessionFailure::io("write", path, error);
    let mut file = File::create_new(path).map_err(failed)?;
    // The half-written file is of no use; that it can't be removed changes nothing about the failure.
    file.write_all(text.as_bytes()).inspect_err(|_| drop(fs::remove_file(path))).map_err(failed)
}

fn unit(format: Format) -> &'static str {
    match format {
        Format::Csv => "rows of CSV",
        Format::Tsv => "rows of TSV",
        Format::Json => "rows of JSON",
        Format::Parquet => "rows of Parquet",
        Format::Text => "lines of text",
    }
}

fn column_row(column: &ColumnLook, at: usize, rows: usize) -> Vec<String> {
    let first: String = column.first.chars().take(40).collect();
    let first = first.replace(['\n', '\r', '\t'], " ");
    vec![
        column.name.clone(),
        Kind::of(column, at, rows).name().to_owned(),
        values(column),
        format!("{:.1}", column.words as f64 / rows.max(1) as f64),
        column.missing.to_string(),
        if first.len() < column.first.len() { first + "..." } else { first },
    ]
}

fn values(column: &ColumnLook) -> String {
    match column.values.len() {
        many if many > ColumnLook::MOST => format!("over {}", number(ColumnLook::MOST as f64)),
        some => some.to_string(),
    }
}

fn file_json(found: &FileLook, draft: &Result<Draft, UserQuestion>) -> Value {
    let column = |(at, column): (usize, &ColumnLook)| {
        let mut shown = json!({
            "name": column.name, "holds": Kind::of(column, at, found.rows).name(),
            "values": column.values.len().min(ColumnLook::MOST), "words": column.words,
            "missing": column.missing, "lists": column.lists, "first": column.first,
        });
        if let Some(ColumnRole { role, why }) = draft.as_ref().ok().and_then(|draft| draft.columns.get(at)) {
            shown["role"] = json!(role);
            shown["why"] = json!(why);
        }
        shown
    };
    json!({
        "rows": found.rows, "format": unit(found.format), "header": !found.headless,
        "columns": found.columns.iter().enumerate().map(column).collect::<Vec<_>>(),
        "problems": found.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": draft.as_ref().map_or(&[][..], |draft| &draft.notes),
        "task": draft.as_ref().ok().map(|draft| draft.task.name()),
        "answer": draft.as_ref().ok().filter(|draft| draft.has_answer()).map(|draft| draft.answer.name()),
        "experiment": draft.as_ref().ok().map(|draft| draft.text.as_str()),
        "question": draft.as_ref().err().map(|question| question.0.as_str()),
    })
}

/// Prints what the splits of an experiment hold.
fn experiment(options: &Options, terminal: &Terminal) -> Result<Vec<DataError>, SessionFailure> {
    let opened = OpenedExperiment::open(&options.name)?.permitting(options.programs.run_commands);
    let experiment = opened.file.resolve(None, &[])?;
    opened.require_files(&experiment)?;
    check_program(&experiment.task, &experiment.splits())?;
    let (task, task_options) = open_task(&experiment.task)?;
    let problems = task.problems(&experiment.task, PROBLEMS);
    if !problems.is_empty() {
        return Ok(problems);
    }
    let waiting = terminal.waiting("reading the data");
    let data = load(&experiment.task, &experiment.splits())?;
    let found = audit(&*task, &data, &experiment.train);
    drop(waiting);
    let (vocabulary, classes) = (data.vocabulary, task.classes(&task_options));
    let weights = experiment.loss.class_weights.as_ref().map(|weights| {
        let found = weights.answers(&classes, data.objective, || data.label_shares(&experiment.train));
        found.map_err(|why| SessionFailure::Usage(format!("`loss.class_weights`: {why}")))
    });
    let weights = weights.transpose()?;
    if options.json {
        let splits: Vec<Value> = found.iter().map(|audit| split_json(audit, &classes)).collect();
        let columns = task.given().into_iter().map(|given| (given.name.to_string(), json!(given.column.to_string())));
        let columns: Map<String, Value> = columns.collect();
        let mut shown = json!({ "task": task.name(), "vocabulary": vocabulary, "classes": classes, "splits": splits });
        if !columns.is_empty() {
            shown["given"] = Value::Object(columns);
        }
        let documents = documents_of(&*task, &found);
        if !documents.is_empty() {
            shown["documents"] = documents.into_iter().map(|(split, most)| (split, json!(most))).collect();
        }
        if let Some(AnswerWeights { present, absent }) = &weights {
            let named = |weights: &[f64]| classes.iter().cloned().zip(weights.iter().map(|x| json!(x))).collect();
            shown["class_weights"] = Value::Object(named(present));
            if data.objective == Objective::Several {
                shown["class_weights_without"] = Value::Object(named(absent));
            }
        }
        let same = alike(&classes);
        if !same.is_empty() {
            shown["alike"] = json!(same);
        }
        terminal.json(&shown)?;
        return Ok(vec![]);
    }
    let mut text = format!("{}: {}\n", task.name(), task.about().doc);
    writeln!(text, "vocabulary  {} tokens", number(vocabulary as f64)).expect("a text takes all");
    text += &table(&found);
    left_out(&found).iter().for_each(|what| text += &format!("{what}\n"));
    text += &class_table(&found, (&classes, task.objective()), weights.as_ref());
    text += &given_table(&found, &task.given());
    let documents = documents_of(&*task, &found);
    if !documents.is_empty() {
        let of = documents.iter().map(|(split, most)| format!("{most} of {split}")).collect::<Vec<_>>().join(", ");
        writeln!(text, "documents   at most in a row: {of}").expect("a text takes all");
    }
    if task.objective() == Objective::Number {
        let Scale { mean, deviation } = task.scale(&task_options);
        writeln!(text, "numbers     mean {mean:.6}, deviation {deviation:.6} in training").expect("a text takes all");
    }
    terminal.result(&text)?;
    alike(&classes).iter().for_each(|same| terminal.message(&format!("warning: {same}")));
    Ok(vec![])
}

/// The most documents in a row of every split whose rows know them.
fn documents_of(task: &dyn Task, found: &[Audit]) -> Vec<(String, u64)> {
    let of = |audit: &Audit| {
        task.document_end()?;
        let look = audit.description.given.iter().find(|look| look.name == DOCUMENT)?;
        Some((audit.split.clone(), look.range[1] as u64 + 1))
    };
    found.iter().filter_map(of).collect()
}

/// What was left out of the splits, a line each.
fn left_out(found: &[Audit]) -> Vec<String> {
    let of =
        |audit: &Audit| audit.left_out().into_iter().map(|what| format!("{}: {what}", audit.split)).collect::<Vec<_>>();
    found.iter().flat_map(of).collect()
}

fn table(found: &[Audit]) -> String {
    let heading = ["split", "rows", "tokens", "shortest", "median", "longest", "unknown", "repeated", "also in train"];
    let row = |audit: &Audit| {
        let found = &audit.description;
        let [shortest, median, longest] = found.lengths.map(|length| number(length as f64));
        let unknown = audit.unknown.map_or("-".to_owned(), |share| format!("{:.2} %", 100.0 * share));
        let counts = [audit.repeated, audit.trained];
        let counts = counts.map(|count| count.map_or("-".to_owned(), |count| number(count as f64)));
        let sizes = [found.examples, found.tokens].map(|count| number(count as f64));
        [vec![audit.split.clone()], sizes.to_vec(), vec![shortest, median, longest, unknown], counts.to_vec()].concat()
    };
    columns(&std::iter::once(heading.map(str::to_owned).to_vec()).chain(found.iter().map(row)).collect::<Vec<_>>())
}

/// The rows of every class with their share of the split; of classes of tokens the share alone. Then the weight in the loss, where
/// classes have one: of several labels with and without each.
fn class_table(
    found: &[Audit],
    (classes, objective): (&[String], Objective),
    weights: Option<&AnswerWeights>,
) -> String {
    if classes.is_empty() {
        return String::new();
    }
    if classes.len() > CLASSES {
        return format!("{} classes\n", number(classes.len() as f64));
    }
    let splits = found.iter().map(|audit| audit.split.clone());
    let title = weights.map(|_| "weight".to_owned());
    let heading = std::iter::once("class".to_owned()).chain(splits).chain(title).collect();
    let share = |audit: &Audit, class: usize| {
        let share = audit.description.label_shares.get(&(class as u32)).copied().unwrap_or(0.0);
        let rows = number((share * audit.description.examples as f64).round());
        let percent = format!("{:.1} %", 100.0 * share);
        if objective == Objective::Each { percent } else { format!("{rows} ({percent})") }
    };
    let weight = |weights: &AnswerWeights, class: usize| match objective {
        Objective::Several => format!("{:.4} with, {:.4} without", weights.present[class], weights.absent[class]),
        _ => format!("{:.4}", weights.present[class]),
    };
    let row = |(class, name): (usize, &String)| {
        let shares = found.iter().map(|audit| share(audit, class));
        std::iter::once(name.clone()).chain(shares).chain(weights.map(|weights| weight(weights, class))).collect()
    };
    columns(&std::iter::once(heading).chain(classes.iter().enumerate().map(row)).collect::<Vec<_>>())
}

/// The values that come with the rows: where they stand, how many numbers a row has, and between which these lie.
fn given_table(found: &[Audit], given: &[GivenColumn]) -> String {
    if given.is_empty() {
        return String::new();
    }
    let heading = ["given", "column", "split", "numbers", "smallest", "largest"].map(str::to_owned).to_vec();
    let row = |(given, audit): (&GivenColumn, &Audit)| {
        let look = audit.description.given.iter().find(|look| *look.name == *given.name);
        let shown = look.map_or_else(
            || ["-"; 3].map(str::to_owned),
            |GivenLook { numbers: [least, most], range: [low, high], .. }| {
                let count = if least == most { least.to_string() } else { format!("{least} to {most}") };
                [count, low.to_string(), high.to_string()]
            },
        );
        [vec![given.name.to_string(), given.column.to_string(), audit.split.clone()], shown.to_vec()].concat()
    };
    let rows = given.iter().flat_map(|given| found.iter().map(move |audit| (given, audit)));
    columns(&std::iter::once(heading).chain(rows.map(row)).collect::<Vec<_>>())
}

fn split_json(audit: &Audit, classes: &[String]) -> Value {
    let found = &audit.description;
    let [shortest, median, longest] = found.lengths;
    let name = |class: u32| classes.get(class as usize).cloned().unwrap_or_else(|| class.to_string());
    let labels: Map<String, Value> =
        found.label_shares.iter().map(|(class, share)| (name(*class), json!(share))).collect();
    let mut shown = json!({
        "split": audit.split, "rows": found.examples, "tokens": found.tokens, "shortest": shortest, "median": median,
        "longest": longest, "unknown": audit.unknown, "repeated": audit.repeated, "also_in_train": audit.trained,
        "labels": labels, "cut_rows": audit.cuts.rows, "cut_tokens": audit.cuts.tokens,
    });
    if !found.given.is_empty() {
        let look = |look: &GivenLook| (look.name.clone(), json!({ "numbers": look.numbers, "range": look.range }));
        shown["given"] = Value::Object(found.given.iter().map(look).collect());
    }
    shown
}
