//! `rtc explain`: the codes of problems, and the statements of the language with their sources.

use clap::Args;
use rtc_compiler::diag::{Kind, did_you_mean, explain};
use rtc_compiler::feature;
use rtc_session::failure::SessionFailure;
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

const EXAMPLES: &str = "\
Examples:
  rtc explain                  list all codes
  rtc explain unknown-field    why it is a problem, with a wrong and a right spec
  rtc explain halt global      a statement: what it does, its source, its fields
  rtc explain halt             the same for every variant of a keyword
  rtc explain carry            a word of equations, with an example
  rtc explain xpos             a value, or a field: which statements take it
";

/// Arguments of `rtc explain`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// A code, as `rtc check` prints it in brackets, or a statement, field or value of the language; without one, all codes are listed
    code: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints one explanation, or the list.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    if options.code.is_empty() {
        list(options, terminal)?;
        return Ok(Exit::Done);
    }
    let words = options.code.join(" ");
    let code = words.trim_matches(['[', ']']);
    match (Kind::named(code), explain(code).or_else(|| feature::explain(code))) {
        (Some(kind), _) if options.json => terminal.json(&row(kind, true))?,
        (None, Some(text)) if options.json => terminal.json(&json!({ "statement": code, "doc": text }))?,
        (_, Some(text)) => terminal.result(&text)?,
        _ => {
            let near = did_you_mean(code, Kind::ALL.iter().map(|kind| kind.code()).chain(feature::explained_names()));
            let hint = if near.is_empty() { "`rtc explain` lists all codes".to_owned() } else { near };
            return Err(SessionFailure::Usage(format!("there is no code or statement `{code}`; {hint}")));
        }
    }
    Ok(Exit::Done)
}

fn list(options: &Options, terminal: &Terminal) -> Result<(), SessionFailure> {
    if options.json {
        return terminal.json(&Kind::ALL.iter().map(|kind| row(*kind, false)).collect());
    }
    let cells =
        |kind: &Kind| vec![kind.code().to_owned(), kind.severity().word().to_owned(), kind.summary().to_owned()];
    terminal.result(&columns(&Kind::ALL.iter().map(cells).collect::<Vec<_>>()))
}

fn row(kind: Kind, complete: bool) -> Value {
    let mut row = json!({ "code": kind.code(), "severity": kind.severity().word(), "summary": kind.summary() });
    if complete {
        row["doc"] = kind.doc().into();
        row["wrong"] = kind.bad().into();
        row["right"] = kind.good().into();
    }
    row
}
