//! `rtc report --watch`: the page of runs that go on, served to the browsers of this machine.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rtc_report::watched;
use rtc_runtime::record::sha256;
use tiny_http::{Header, Method, Request, Response, Server};

use crate::failure::{Exit, Failure, Outcome};
use crate::folders;
use crate::gather::{ReportOptions, gather};
use crate::signals;
use crate::terminal::Terminal;

/// How long a signal may wait for its answer.
const PAUSE: Duration = Duration::from_millis(100);

/// The files of runs and grids that make another page when they change.
const RECORDS: &[&str] =
    &["run.json", "metrics.jsonl", "results.json", "labels.json", "failure.json", "checkpoints/best/manifest.json"];

/// Serves the page on the loopback address, and prints where, until a signal ends it.
pub(super) fn watch(named: &[PathBuf], options: &ReportOptions, port: u16, terminal: &Terminal) -> Outcome {
    let stop = signals::on_stop()?;
    let mut live = Live::new(named, options, terminal)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let failed = |error| Failure::io("listen on", Path::new(&address.to_string()), error);
    let server = Server::http(address).map_err(|error| failed(io::Error::other(error)))?;
    let port = server.server_addr().to_ip().map_or(port, |address| address.port());
    terminal.result(&format!("http://{}:{port}/\n", Ipv4Addr::LOCALHOST))?;
    terminal.message("the page follows its runs; Ctrl-C ends this");
    while !stop.load(Ordering::Relaxed) {
        if let Some(request) = server.recv_timeout(PAUSE).map_err(failed)? {
            // A browser that went away is no failure.
            let _ = live.answer(request, port);
        }
    }
    Ok(Exit::Done)
}

/// The page as it was last, and the records that it was made of.
struct Live<'a> {
    named: &'a [PathBuf],
    options: &'a ReportOptions,
    terminal: &'a Terminal,
    /// The records as they were looked at last.
    seen: String,
    /// Those of the page.
    version: String,
    page: String,
}

impl<'a> Live<'a> {
    fn new(named: &'a [PathBuf], options: &'a ReportOptions, terminal: &'a Terminal) -> Result<Self, Failure> {
        let version = version(named)?;
        let page = watched(&gather(named, options, terminal)?.report, &version);
        Ok(Self { named, options, terminal, seen: version.clone(), version, page })
    }

    fn answer(&mut self, request: Request, port: u16) -> io::Result<()> {
        let header = |name: &'static str, value: &str| {
            Header::from_bytes(name, value).expect("the names and values of these headers are ASCII")
        };
        let plain = |code: u16, text: &str| Response::from_string(text).with_status_code(code);
        // A page of another site that gives its own name to this address is not answered.
        let hosts = [format!("{}:{port}", Ipv4Addr::LOCALHOST), format!("localhost:{port}")];
        let host = request.headers().iter().find(|header| header.field.equiv("Host"));
        let response = if !host.is_some_and(|host| hosts.iter().any(|own| host.value == own.as_str())) {
            plain(403, "only this machine is answered\n")
        } else if ![Method::Get, Method::Head].contains(request.method()) {
            plain(405, "only GET is answered\n").with_header(header("Allow", "GET, HEAD"))
        } else {
            self.refresh();
            match request.url() {
                "/" => plain(200, &self.page).with_header(header("Content-Type", "text/html; charset=utf-8")),
                "/version" => plain(200, &self.version),
                _ => plain(404, "there is nothing but the page\n"),
            }
        };
        request.respond(response.with_header(header("Cache-Control", "no-store")))
    }

    /// Makes the page again where the records have changed. What can't be read just now leaves the page as it was.
    fn refresh(&mut self) {
        let version = match version(self.named) {
            Ok(version) if version == self.seen => return,
            Ok(version) => version,
            Err(failure) => return self.terminal.message(&format!("the page is as it was: {failure}")),
        };
        self.seen.clone_from(&version);
        // Notes were printed once, and stand on the page.
        match gather(self.named, self.options, &Terminal::new(true)) {
            Ok(gathered) => {
                self.page = watched(&gathered.report, &version);
                self.version = version;
            }
            Err(failure) => self.terminal.message(&format!("the page is as it was: {failure}")),
        }
    }
}

/// A word that is another one when the records of the runs are.
fn version(named: &[PathBuf]) -> Result<String, Failure> {
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
