//! `rtc report --watch`: the page of runs that go on, served to the browsers of this user.

mod server;

use std::fs;
use std::path::PathBuf;

use rtc_report::watched;
use rtc_runs::record::sha256;
use rtc_session::failure::SessionFailure;
use rtc_session::folders;

use crate::exit::{CommandResult, Exit};
use crate::gather::{ReportOptions, gather};
use crate::signals;
use crate::terminal::Terminal;

use server::{Page, ReportServer};

/// The files of runs and grids that make another page when they change.
const RECORDS: &[&str] = &[
    "run.json",
    "metrics.jsonl",
    "samples.jsonl",
    "histograms.jsonl",
    "results.json",
    "labels.json",
    "failure.json",
    "checkpoints/best/manifest.json",
];

/// Serves the page on the loopback address, and prints where, until a signal ends the process.
///
/// This thread makes the pages, because it is one of those that compute; the server has a thread of its own. So no request waits for a
/// page that takes long, and no client delays a signal.
pub(super) fn watch(named: &[PathBuf], options: &ReportOptions, port: u16, terminal: &Terminal) -> CommandResult {
    signals::end_on_stop(Exit::Done)?;
    let (mut live, page) = Live::new(named, options, terminal)?;
    let server = ReportServer::start(port, page)?;
    terminal.result(&format!("{}\n", server.address()))?;
    terminal.message("the page follows its runs; Ctrl-C ends this");
    while server.is_asked() {
        server.show(live.look());
    }
    Err(SessionFailure::Panic(
        "a fault of rtc: the server of the page has ended. Start `rtc report --watch` again".to_owned(),
    ))
}

/// The records that the page is made of, as last seen.
struct Live<'a> {
    named: &'a [PathBuf],
    options: &'a ReportOptions,
    terminal: &'a Terminal,
    /// The version of the records at the last look.
    seen: String,
    /// The last message about records that can't be read.
    said: Option<String>,
}

impl<'a> Live<'a> {
    fn new(
        named: &'a [PathBuf],
        options: &'a ReportOptions,
        terminal: &'a Terminal,
    ) -> Result<(Self, Page), SessionFailure> {
        let seen = version(named)?;
        let html = watched(&gather(named, options, terminal)?.report, &seen);
        let page = Page::new(seen.clone(), html);
        Ok((Self { named, options, terminal, seen, said: None }, page))
    }

    /// Makes a new page if the records have changed. Records that can't be read just now leave the page as it is.
    fn look(&mut self) -> Option<Page> {
        let version = match version(self.named) {
            Ok(version) if version == self.seen => return None,
            Ok(version) => version,
            Err(failure) => return self.stay(&failure),
        };
        self.seen.clone_from(&version);
        // Notes were printed for the first page, and stand on each.
        match gather(self.named, self.options, &Terminal::new(true)) {
            Ok(gathered) => {
                self.said = None;
                let html = watched(&gathered.report, &version);
                Some(Page::new(version, html))
            }
            Err(failure) => self.stay(&failure),
        }
    }

    /// Says why the page stays as it is, once: a browser asks every second.
    fn stay(&mut self, failure: &SessionFailure) -> Option<Page> {
        let text = format!("the page is as it was: {failure}");
        if self.said.as_ref() != Some(&text) {
            self.terminal.message(&text);
            self.said = Some(text);
        }
        None
    }
}

/// Returns a word that changes with the records of the runs.
fn version(named: &[PathBuf]) -> Result<String, SessionFailure> {
    let mut records = vec![];
    for path in named {
        let below = folders::below(&folders::folder(path)?)?;
        records.extend(below.runs.iter().flat_map(|run| RECORDS.iter().map(|name| run.join(name))));
        records.extend(below.grids.iter().map(|grid| grid.join("grid.json")));
    }
    let state = |path: PathBuf| {
        let found = fs::metadata(&path).ok()?;
        Some((path, found.len(), found.modified().ok()))
    };
    let state: Vec<_> = records.into_iter().filter_map(state).collect();
    Ok(sha256(format!("{state:?}"))[..16].to_owned())
}
