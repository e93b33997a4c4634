//! `rtc explain`: what the codes of problems mean.

use clap::Args;
use rtc_compiler::diag::{Kind, did_you_mean, explain};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use crate::text::columns;

const EXAMPLES: &str = "\
Examples:
  rtc explain                  list all codes
  rtc explain unknown-field    why it is a problem, with a wrong and a right spec
";

/// Arguments of `rtc explain`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The code, as `rtc check` prints it in brackets; all of them are listed without one
    code: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints one explanation, or the list.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let Some(code) = options.code.as_deref().map(|code| code.trim_matches(['[', ']'])) else {
        list(options, terminal)?;
        return Ok(Exit::Done);
    };
    match (Kind::named(code), explain(code)) {
        (Some(kind), _) if options.json => terminal.json(&row(kind, true))?,
        (_, Some(text)) => terminal.result(&text)?,
        _ => {
            let near = did_you_mean(code, Kind::ALL.iter().map(|kind| kind.code()));
            let hint = if near.is_empty() { "`rtc explain` lists all".to_owned() } else { near };
            return Err(Failure::Usage(format!("there is no code `{code}`; {hint}")));
        }
    }
    Ok(Exit::Done)
}

fn list(options: &Options, terminal: &Terminal) -> Result<(), Failure> {
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
