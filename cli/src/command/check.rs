//! `rtc check`: every problem in specs.

use clap::Args;
use rtc_compiler::check::check_all;
use rtc_compiler::diag::{Problems, json};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Sources;
use rtc_session::failure::{BAD_SPEC, SessionFailure};
use rtc_session::model::catalog_of;
use rtc_session::spec_file::SpecArg;
use rtc_session::text::count;
use serde_json::json;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc check my.rt                         every model and variant of every file
  rtc check gut:no_gate                   one variant
  rtc check gut --set depthwise.depth=20  the file's own model, edited
  rtc check gut --json                    for editors
";

/// Arguments of `rtc check`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// Specs: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`
    #[arg(required = true, value_name = "SPEC")]
    specs: Vec<String>,
    /// Edit the model before it is checked, as in `depthwise.depth=20`; a file without a variant then means its own model
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Check for this task: its classes, its vocabulary, what it asks for
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// What was found in one file.
struct FileReport {
    models: Vec<String>,
    problems: Problems,
    sources: Sources,
}

/// Checks all specs before it fails for the errors in any of them.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let catalog = catalog_of(options.task.as_deref())?;
    let (mut rows, mut failed) = (vec![], None);
    for text in &options.specs {
        match check_one(&SpecArg::parse(text), &options.set, &catalog) {
            Ok(found) => {
                if found.problems.has_errors() {
                    failed.get_or_insert(Exit::Reported(BAD_SPEC));
                }
                rows.push(
                    json!({ "spec": text, "models": found.models, "problems": json(&found.problems, &found.sources) }),
                );
                if !options.json {
                    terminal.problems(&found.problems, &found.sources);
                    if !found.problems.has_errors() {
                        terminal.message(&format!("{text}: {}, no errors", count(found.models.len(), "model")));
                    }
                }
            }
            // A file that can't be read must not hide the problems of the others.
            Err(failure) => {
                terminal.report(&failure);
                failed.get_or_insert(Exit::Reported(failure.code()));
            }
        }
    }
    if options.json {
        terminal.json(&rows.into())?;
    }
    Ok(failed.unwrap_or(Exit::Done))
}

fn check_one(arg: &SpecArg, sets: &[String], catalog: &Catalog) -> Result<FileReport, SessionFailure> {
    let source = arg.source()?;
    // A file may hold masks and blocks alone, but in an empty one the model is missing.
    if arg.target.is_none() && sets.is_empty() && !arg.is_graph() && !source.text.trim().is_empty() {
        let (specs, problems, sources) = check_all(&arg.loader(), source, catalog);
        return Ok(FileReport { models: specs.into_iter().map(|spec| spec.name).collect(), problems, sources });
    }
    match arg.check(sets, catalog) {
        Ok(checked) => Ok(FileReport {
            models: vec![checked.definition.name().to_owned()],
            problems: checked.problems,
            sources: checked.sources,
        }),
        Err(SessionFailure::Spec(found)) => Ok(FileReport { models: vec![], problems: found.0, sources: found.1 }),
        Err(failure) => Err(failure),
    }
}
