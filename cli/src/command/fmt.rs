//! `rtc fmt`: the canonical layout of spec files.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use rtc_compiler::diag::Problems;
use rtc_compiler::source::{Source, Sources};
use rtc_compiler::syntax;
use rtc_session::failure::SessionFailure;
use rtc_session::spec_file::{read_spec, refuse_experiment};

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc fmt my.rt          rewrite the files that are laid out otherwise
  rtc fmt --check my.rt  name them, and exit with 1 if there are any
  rtc fmt - < gut.rt     from standard input to standard output
";

/// Arguments of `rtc fmt`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// Files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Change nothing; name the files that are laid out otherwise, and exit with 1 if there are any
    #[arg(long)]
    check: bool,
}

/// Formats every file that can be formatted before it fails for the others.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let (mut different, mut failed) = (false, None);
    for file in &options.files {
        match format(file, options.check, terminal) {
            Ok(changed) => different |= changed,
            // One bad file must not keep the others from being formatted.
            Err(failure) => {
                terminal.report(&failure);
                failed.get_or_insert(Exit::Reported(failure.code()));
            }
        }
    }
    Ok(failed.unwrap_or(Exit::of(!(different && options.check))))
}

/// Formats one file; whether it was laid out otherwise.
fn format(file: &Path, check: bool, terminal: &Terminal) -> Result<bool, SessionFailure> {
    let piped = file == Path::new("-");
    let name = if piped { "standard input".to_owned() } else { file.display().to_string() };
    refuse_experiment(&name)?;
    let text = if piped { read_input()? } else { read_spec(file)? };
    let formatted = syntax::format(&text).map_err(|problems| failure(problems, &name, &text))?;
    let changed = formatted != text;
    match (piped, check) {
        (true, false) => terminal.result(&formatted)?,
        (_, true) if changed => terminal.result(&format!("{name}\n"))?,
        (false, false) if changed => {
            replace(file, &formatted)?;
            terminal.message(&format!("{name}: formatted"));
        }
        _ => {}
    }
    Ok(changed)
}

fn failure(problems: Problems, name: &str, text: &str) -> SessionFailure {
    let mut sources = Sources::default();
    sources.add(Source::new(name, text));
    SessionFailure::Spec(Box::new((problems, sources)))
}

fn read_input() -> Result<String, SessionFailure> {
    let mut bytes = vec![];
    let input = Path::new("standard input");
    std::io::stdin().read_to_end(&mut bytes).map_err(|error| SessionFailure::io("read", input, error))?;
    String::from_utf8(bytes).map_err(|_| SessionFailure::NoSpec("standard input: this spec is not UTF-8 text".into()))
}

/// Replaces a file completely or not at all; links stay links, and permissions stay as they are.
fn replace(file: &Path, text: &str) -> Result<(), SessionFailure> {
    let at = |action| move |error| SessionFailure::io(action, file, error);
    let target = file.canonicalize().map_err(at("read"))?;
    let permissions = fs::metadata(&target).map_err(at("read"))?.permissions();
    let fresh = target.with_extension("rt.new");
    // Of a run that was killed, or a link that leads elsewhere.
    let _ = fs::remove_file(&fresh);
    let written = File::create_new(&fresh)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::set_permissions(&fresh, permissions))
        .and_then(|()| fs::rename(&fresh, &target));
    written.map_err(|error| {
        // The half-written file is of no use; that it can't be removed changes nothing about the failure.
        let _ = fs::remove_file(&fresh);
        SessionFailure::io("write", file, error)
    })
}
