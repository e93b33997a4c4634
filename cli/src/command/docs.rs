//! `rtc docs`: the pages of the documentation, which are part of the program.

use clap::Args;
use rtc_session::failure::SessionFailure;
use rtc_task::error::unknown;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

const EXAMPLES: &str = "\
Examples:
  rtc docs                    list all pages
  rtc docs export | less      print a page
  rtc docs --find dropout     list the lines of all pages with a text
";

macro_rules! pages {
    ($($name:literal,)*) => { &[$(($name, include_str!(concat!("../../../docs/", $name, ".md")))),*] };
}

/// The pages by name, in the order of `docs/SUMMARY.md`.
#[rustfmt::skip]
const PAGES: &[(&str, &str)] = pages! {
    "introduction", "tutorial", "language", "ablations", "own_layers", "looped_models", "catalogue",
    "experiments", "tasks", "own_data", "command", "runs", "python", "editor", "run_folder", "sweeps",
    "clusters", "statistics", "halting_collapse", "causality", "cost", "generate", "export", "candle",
    "weights", "import", "cuda", "data_parallel", "limits", "security", "diagnostics", "papers", "papers_recursion",
    "glossary", "ARCHITECTURE", "ir", "ops", "performance", "change", "adding", "checks",
};

/// Arguments of `rtc docs`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// A page; without one, all pages are listed
    page: Option<String>,
    /// List the lines of the page, or of all pages, that hold a text in any case
    #[arg(long, value_name = "TEXT")]
    find: Option<String>,
}

/// Prints a page, the list of pages, or the lines with a text.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let pages: Vec<(&str, &str)> = match &options.page {
        None => PAGES.to_vec(),
        Some(page) => {
            // As messages and links write it.
            let name = page.strip_prefix("docs/").unwrap_or(page).trim_end_matches(".md");
            let found = PAGES.iter().find(|(known, _)| *known == name);
            let known = PAGES.iter().map(|(name, _)| *name);
            vec![*found.ok_or_else(|| SessionFailure::Usage(unknown("page", page, known)))?]
        }
    };
    match (&options.find, &options.page) {
        (Some(text), _) => return find(text, &pages, terminal),
        (None, Some(_)) => pages.iter().try_for_each(|(_, text)| terminal.result(text))?,
        (None, None) => {
            let row = |(name, text): &(&str, &str)| vec![(*name).to_owned(), title(text).to_owned()];
            terminal.result(&columns(&pages.iter().map(row).collect::<Vec<_>>()))?;
        }
    }
    Ok(Exit::Done)
}

/// Returns the heading of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default()
}

fn find(wanted: &str, pages: &[(&str, &str)], terminal: &Terminal) -> CommandResult {
    let wanted = wanted.to_lowercase();
    let mut found = String::new();
    for (name, text) in pages {
        for (n, line) in (1..).zip(text.lines()).filter(|(_, line)| line.to_lowercase().contains(&wanted)) {
            found += &format!("{name}:{n}: {}\n", line.trim());
        }
    }
    if found.is_empty() {
        terminal.message("no page has this text");
        return Ok(Exit::Negative);
    }
    terminal.result(&found)?;
    Ok(Exit::Done)
}
