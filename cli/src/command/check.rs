//! `rtc check`: every problem in specs.

use clap::{Args, ValueEnum};
use rtc_compiler::check::check_all;
use rtc_compiler::diag::{Problems, json};
use rtc_compiler::lower::{Binding, BindingType, types};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Sources;
use rtc_compiler::spec::Spec;
use rtc_session::definition::need_spec;
use rtc_session::failure::{BAD_SPEC, SessionFailure};
use rtc_session::model::{catalog_of, numbers};
use rtc_session::spec_file::SpecArg;
use rtc_session::text::count;
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc check my.rt                         every model and variant of every file
  rtc check gut:no_gate                   one variant
  rtc check gut --set depthwise.depth=20  the file's own model, edited
  rtc check gut --emit types              what every name stands for, and its weights
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
    /// Print what was found out, too
    #[arg(long, value_enum, value_name = "WHAT")]
    emit: Option<Finding>,
    /// Print the problems as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// A finding that a check can print besides problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Finding {
    /// The type of every statement and equation, and the weights below it
    Types,
}

/// What was found in one file.
struct FileReport {
    models: Vec<String>,
    /// For every model, where they are asked for.
    types: Vec<(String, Vec<BindingType>)>,
    problems: Problems,
    sources: Sources,
}

/// Checks all specs before it fails for the errors in any of them.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let catalog = catalog_of(options.task.as_deref())?;
    let (mut rows, mut failed) = (vec![], None);
    for text in &options.specs {
        match check_one(&SpecArg::parse(text), options, &catalog) {
            Ok(found) => {
                if found.problems.has_errors() {
                    failed.get_or_insert(Exit::Reported(BAD_SPEC));
                }
                let mut row =
                    json!({ "spec": text, "models": found.models, "problems": json(&found.problems, &found.sources) });
                if options.emit.is_some() {
                    row["types"] = found.types.iter().map(types_json).collect();
                }
                rows.push(row);
                if !options.json {
                    terminal.problems(&found.problems, &found.sources);
                    if !found.problems.has_errors() {
                        terminal.message(&format!("{text}: {}, no errors", count(found.models.len(), "model")));
                    }
                    for (name, bound) in &found.types {
                        terminal.result(&types_text(name, bound))?;
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

/// The types of a model, a line for each name.
fn types_text(name: &str, bound: &[BindingType]) -> String {
    let longest = |of: fn(&BindingType) -> &str| bound.iter().map(|one| of(one).chars().count()).max().unwrap_or(0);
    let (paths, types) = (longest(|one| &one.path), longest(|one| &one.ty));
    let line = |one: &BindingType| {
        let weights =
            if one.weights.is_empty() { String::new() } else { format!("{} parameters", numbers(&one.weights)) };
        format!("  {:paths$}  {:types$}  {weights}", one.path, one.ty).trim_end().to_owned() + "\n"
    };
    format!("{name}\n{}", bound.iter().map(line).collect::<String>())
}

fn types_json((name, bound): &(String, Vec<BindingType>)) -> Value {
    let row = |one: &BindingType| json!({ "path": one.path, "type": one.ty, "parameters": numbers(&one.weights) });
    json!({ "model": name, "names": bound.iter().map(row).collect::<Vec<_>>() })
}

/// The types of models without errors, if they are asked for.
fn found_types(
    specs: &[&Spec],
    problems: &Problems,
    options: &Options,
    catalog: &Catalog,
) -> Result<Vec<(String, Vec<BindingType>)>, SessionFailure> {
    if options.emit != Some(Finding::Types) || problems.has_errors() {
        return Ok(vec![]);
    }
    let of = |spec: &&Spec| Ok((spec.name.clone(), types(spec, &Binding::from(catalog))?));
    specs.iter().map(of).collect()
}

fn check_one(arg: &SpecArg, options: &Options, catalog: &Catalog) -> Result<FileReport, SessionFailure> {
    let sets = &options.set;
    let source = arg.source()?;
    // A file may hold masks and blocks alone, but in an empty one the model is missing.
    if arg.target.is_none() && sets.is_empty() && !arg.is_graph() && !source.text.trim().is_empty() {
        let (specs, problems, sources) = check_all(&arg.loader(), source, catalog);
        let types = found_types(&specs.iter().collect::<Vec<_>>(), &problems, options, catalog)?;
        return Ok(FileReport { models: specs.into_iter().map(|spec| spec.name).collect(), types, problems, sources });
    }
    match arg.check(sets, catalog) {
        Ok(checked) => {
            let specs = match options.emit {
                Some(Finding::Types) => vec![need_spec(&checked.definition, "names")?],
                None => vec![],
            };
            Ok(FileReport {
                models: vec![checked.definition.name().to_owned()],
                types: found_types(&specs, &checked.problems, options, catalog)?,
                problems: checked.problems,
                sources: checked.sources,
            })
        }
        Err(SessionFailure::Spec(found)) => {
            Ok(FileReport { models: vec![], types: vec![], problems: found.0, sources: found.1 })
        }
        Err(failure) => Err(failure),
    }
}
