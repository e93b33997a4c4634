//! `rtc report` on real runs: finished ones, unfinished ones, several, broken ones.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Place, signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

/// How often a text is in a page.
fn count(page: &str, text: &str) -> usize {
    page.matches(text).count()
}

#[test]
fn a_run_becomes_a_page_and_plots() {
    let place = Place::new();
    place.train(&["--run", "<b>&one"]).code(0);
    let answer = place.rtc(&["report", "<b>&one", "--plots", "plots", "--examples", "16"]);
    assert_eq!(answer.code(0).stdout, "runs/<b>&one/report.html\n");
    answer.says("1 run");
    let page = place.read("runs/<b>&one/report.html");
    assert_eq!(count(&page, "<svg"), 5 + 2 + 1 + 3, "curves, by length, structure, three inputs");
    assert_eq!(count(&page, "class=\"empty\""), 0);
    assert!(
        page.contains("&lt;b&gt;&amp;one") && !page.contains("<b>&") && !page.contains("http"),
        "names are escaped"
    );
    for name in ["loss", "accuracy", "depth", "learning_rate", "accuracy_by_length", "halting-tiny-1", "structure-tiny"]
    {
        assert!(place.read(&format!("plots/{name}.svg")).starts_with("<svg xmlns="), "{name}");
        let png = fs::read(place.path(&format!("plots/{name}.png"))).expect(name);
        assert!(png.starts_with(b"\x89PNG"), "{name}");
    }
    let kept = place.read("runs/<b>&one/lengths.json");
    let lengths: Value = serde_json::from_str(&kept).expect("JSON");
    let of_test = lengths["splits"][0]["lengths"].as_array().expect("a list");
    assert_eq!(of_test.iter().filter_map(|of| of["examples"].as_u64()).sum::<u64>(), 16);
    place.rtc(&["report", "<b>&one", "-o", "again/page.html", "--examples", "16"]).code(0);
    assert_eq!(place.read("again/page.html"), page, "the same run gives the same page");
    assert_eq!(place.read("runs/<b>&one/lengths.json"), kept);
}

#[test]
fn updates_count_that_are_not_logged() {
    let place = Place::new();
    place.train(&["--run", "a", "--max-steps", "13", "--with", "log_every=5"]).code(0);
    place.train(&["--run", "b", "--max-steps", "13", "--with", "log_every=5", "--seed", "2"]).code(0);
    place.rtc(&["report", "a", "--examples", "4"]).code(0);
    let page = place.read("runs/a/report.html");
    assert!(page.contains(">13<") && !page.contains("10 of 13"), "{}", page.find("updates").unwrap_or(0));
    place.rtc(&["report", "a", "b", "-o", "both.html", "--examples", "4"]).code(0);
    assert!(count(&place.read("both.html"), ">13<") >= 2, "each of both runs");
}

#[test]
fn the_measurement_by_length_is_that_of_an_evaluation() {
    let place = Place::new();
    place.train(&["--run", "one"]).code(0);
    place.rtc(&["report", "one", "--examples", "1000"]).code(0);
    let lengths: Value = serde_json::from_str(&place.read("runs/one/lengths.json")).expect("JSON");
    let sum = |of: &str| {
        let all = lengths["splits"][0]["lengths"].as_array().expect("a list");
        all.iter().filter_map(|length| length[of].as_f64()).sum::<f64>()
    };
    let table = place.rtc(&["eval", "runs/one", "--json"]).code(0).json();
    let row = &table["splits"][0];
    assert_eq!(row["examples"].as_f64(), Some(sum("examples")));
    let close = |found: &Value, sum: f64| (found.as_f64().expect("a number") * 32.0 - sum).abs() < 1e-6;
    assert!(close(&row["accuracy"], sum("correct")) && close(&row["mean_depth"], sum("steps")), "{row} {lengths}");
}

#[test]
fn inputs_are_drawn_and_errors_name_their_line() {
    let place = Place::new();
    place.train(&["--run", "one"]).code(0);
    place.write("inputs.txt", "[MAX 2 9 ]\n\n[MIN 4 [MAX 2 9 ] 7 ]\n");
    place.rtc(&["report", "one", "--inputs", "inputs.txt", "--examples", "0"]).code(0);
    let page = place.read("runs/one/report.html");
    assert!(page.contains("inputs.txt:1, 4 tokens: answers") && page.contains("inputs.txt:3, 8 tokens"), "titles");
    assert!(page.contains(">START</text>") && page.contains(">[MIN</text>"), "positions have names");
    assert!(page.contains("Nothing was measured by length."));
    place.write("inputs.txt", "[MAX 2 9 ]\n[MAX 2 ten ]\n");
    place.rtc(&["report", "one", "--inputs", "inputs.txt"]).code(4).says("inputs.txt:2").says("`ten` is no symbol");
    place.rtc(&["report", "one", "--inputs", "missing.txt"]).code(6).says("missing.txt");
    // The runs are whole: no page says otherwise.
    fs::remove_file(place.path("runs/one/report.html")).expect("it was there");
    place.rtc(&["report", "runs", "--inputs", "inputs.txt"]).code(4).says("inputs.txt:2: ");
    assert!(!place.path("runs/report.html").exists());
    fs::write(place.path("bytes.txt"), b"[MAX 2 9 ]\n\xff\n").expect("a new file");
    place
        .rtc(&["report", "one", "--inputs", "bytes.txt"])
        .code(4)
        .says("bytes.txt:2: this file of inputs is not UTF-8");
    let told = place.rtc(&["predict", "runs/one", "[MAX 2 9 ]", "--show-halting", "--json"]).code(0).json();
    let unit = &told["halting"][0];
    assert_eq!((&unit["place"], &unit["start"], &unit["length"]), (&"depthwise".into(), &0.into(), &6.into()));
    let weights: Vec<f64> = serde_json::from_value(unit["weights"].clone()).expect("numbers");
    assert_eq!(weights.len() as f64, told["steps"].as_f64().expect("steps") + 1.0);
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{weights:?}");
    let text = place.rtc(&["predict", "runs/one", "[MAX 2 9 ]", "--show-halting"]);
    assert!(text.code(0).stdout.contains("    depthwise  positions 0-5  steps "), "{}", text.stdout);
}

#[test]
fn a_folder_of_runs_is_compared_and_broken_ones_are_left_out() {
    let place = Place::new();
    place.train(&["--runs", "grid/a", "--run", "one"]).code(0);
    place.train(&["--runs", "grid/a", "--run", "two", "--seed", "2"]).code(0);
    let spec = [
        "train",
        "tiny.rt:no_halt",
        "--experiment",
        "tiny.yaml",
        "--runs",
        "grid",
        "--run",
        "three",
        "--max-steps",
        "2",
    ];
    place.rtc(&spec).code(0);
    // What a killed run leaves: no table, half a line, no evaluation yet.
    let folder = place.path("grid/three");
    fs::remove_file(folder.join("results.json")).expect("it was there");
    fs::remove_dir_all(folder.join("checkpoints")).expect("it was there");
    fs::write(folder.join("metrics.jsonl"), "{\"kind\":\"step\",\"upd").expect("it can be written");
    fs::create_dir_all(place.path("grid/empty/deep")).expect("new folders");
    let answer = place.rtc(&["report", "grid", "--examples", "8"]);
    assert_eq!(answer.code(0).stdout, "grid/report.html\n");
    let page = place.read("grid/report.html");
    assert!(page.contains("3 runs, 2 models") && page.contains("mean and sample deviation"), "models are compared");
    assert!(page.contains("unfinished, nothing logged") && page.contains("three: nothing is saved yet"));
    assert!(page.contains("Structure of tiny:no_halt"), "an unfinished run has a structure");

    let broken = place.path("grid/a/two/metrics.jsonl");
    let lines = fs::read_to_string(&broken).expect("it was there");
    fs::write(&broken, format!("nonsense\n{lines}")).expect("it can be written");
    place
        .rtc(&["report", "grid", "-o", "some.html", "--examples", "8"])
        .code(0)
        .says("is left out")
        .says("metrics.jsonl is not the one that the results were written with");
    assert!(place.read("some.html").contains("2 runs, 2 models"));
    place
        .rtc(&["report", "grid/a/two"])
        .code(7)
        .says("metrics.jsonl is not the one that the results were written with");
    fs::remove_file(place.path("grid/a/two/results.json")).expect("it was there");
    place.rtc(&["report", "grid/a/two"]).code(7).says("metrics.jsonl:1: this line does not end with its `check`");
}

#[test]
fn what_is_no_run_is_refused() {
    let place = Place::new();
    place.rtc(&["report"]).code(2);
    place.rtc(&["report", "missing"]).code(6).says("there is no such folder");
    fs::create_dir(place.path("empty")).expect("a new folder");
    place.rtc(&["report", "empty"]).code(6).says("there is no run in this folder or below it");
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    let run = place.path("runs/one");
    fs::write(run.join("checkpoints/best/weights.safetensors"), "damaged").expect("it can be written");
    place.rtc(&["report", "one"]).code(7).says("is refused");
    place.rtc(&["report", "one", "--examples", "0"]).code(0);
    let spec = fs::read_to_string(run.join("spec.rt")).expect("it was there");
    fs::write(run.join("spec.rt"), spec.replace("depth: 3", "depth: 4")).expect("it can be written");
    place.rtc(&["report", "one", "--examples", "0"]).code(7).says("spec.rt was changed");
    fs::write(run.join("run.json"), "{").expect("it can be written");
    place.rtc(&["report", "one"]).code(7).says("run.json");
    place.rtc(&["report", "."]).code(6).says("nothing but 1 broken run");
}

/// The rows of the first table of a page.
fn table(page: &str) -> Vec<Vec<String>> {
    let body = page.split("<tbody>").nth(1).and_then(|rest| rest.split("</tbody>").next()).expect("a table");
    let cell = |cell: &str| cell.split_once('>').map_or("", |(_, text)| text).replace("</td>", "");
    let cells =
        |row: &str| row.split("<td").skip(1).map(|text| cell(text.trim_end().trim_end_matches("</tr>"))).collect();
    body.split("<tr>").skip(1).map(cells).collect()
}

/// Two rows of one spec, told apart by the experiment alone, in an order that is not that of their folders.
#[test]
fn a_grid_has_the_rows_of_its_table() {
    let place = Place::new();
    let experiment = place.read("tiny.yaml").replace("epochs: 4", "epochs: 2");
    let compare =
        "compare:\n  - tiny\n  - { spec: tiny, name: \"a: slow & <small>\", with: [optimiser.learning_rate=0.0001] }\n";
    place.write("grid.yaml", &format!("{experiment}seeds: [1, 2, 3]\n{compare}"));
    place.rtc(&["ablate", "grid.yaml"]).code(0);
    place.rtc(&["report", "grid", "--examples", "8"]).code(0);
    let page = place.read("runs/grid/report.html");
    let rows = table(&page);
    assert_eq!(
        rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(),
        ["majority", "tiny", "a: slow &amp; &lt;small&gt;"]
    );
    // The table of the command, line by line, has the same numbers.
    let text = place.rtc(&["ablate", "grid.yaml", "--table"]).code(0).stdout.clone();
    for (line, row) in text.lines().skip(1).zip(&rows) {
        assert!(
            line.ends_with(&row[1]) && row[1].contains(if row[0] == "majority" { "." } else { " ± " }),
            "{line} {row:?}"
        );
    }
    for told in ["mean and sample deviation over 3 seeds", "difference from tiny", "6 runs in 2 rows, 1 model"] {
        assert!(page.contains(told), "{told} in {page}");
    }
    // Another baseline, and one row less: the runs of the other one lie there, and are not shown.
    place.write("grid.yaml", &format!("{experiment}seeds: [1, 2, 3]\n{compare}baseline: \"a: slow & <small>\"\n"));
    place.rtc(&["ablate", "grid.yaml"]).code(0);
    place.rtc(&["report", "grid", "--examples", "0"]).code(0);
    assert!(place.read("runs/grid/report.html").contains("difference from a: slow"));
    place.write("grid.yaml", &format!("{experiment}seeds: [1, 2]\ncompare: [tiny]\n"));
    place.rtc(&["ablate", "grid.yaml"]).code(0);
    let answer = place.rtc(&["report", "grid", "--examples", "0"]);
    answer.code(0).says("4 runs below it that `rtc ablate` was not last asked for");
    assert_eq!(table(&place.read("runs/grid/report.html")).len(), 2);
}

#[test]
fn loose_runs_are_told_apart_by_what_differs() {
    let place = Place::new();
    for (run, edit) in [("a", "batch.size=16"), ("b", "batch.size=8"), ("c", "batch.size=16")] {
        let seed = if run == "c" { "2" } else { "1" };
        place.train(&["--run", run, "--with", edit, "--seed", seed, "--max-steps", "4"]).code(0);
    }
    place.rtc(&["report", "runs", "--examples", "0"]).code(0);
    let page = place.read("runs/report.html");
    let names: Vec<String> = table(&page).into_iter().map(|row| row[0].clone()).collect();
    assert_eq!(names, ["majority", "tiny, batch.size=16", "tiny, batch.size=8"]);
    assert!(page.contains("over as many seeds as the row has") && page.contains("3 runs in 2 rows, 1 model"));
}

#[test]
fn a_checkpoint_is_called_what_it_is() {
    let place = Place::new();
    place.train(&["--run", "best", "--max-steps", "4"]).code(0).says("best on dev: ");
    let last = place.train(&["--run", "last", "--max-steps", "4", "--with", "choose=last"]);
    last.code(0).says("last checkpoint: ").is_quiet_about("best");
    place.train(&["--run", "loss", "--max-steps", "4", "--with", "choose=loss"]).code(0).says("smallest loss on dev (");
    for (run, said) in [("best", "best on dev: "), ("last", "last checkpoint: "), ("loss", "smallest loss on dev (")] {
        place.rtc(&["report", run, "--examples", "0"]).code(0);
        let page = place.read(&format!("runs/{run}/report.html"));
        assert!(page.contains(said), "{run}");
        assert_eq!(page.contains("best on"), run == "best", "{run}");
    }
}

#[test]
fn runs_are_compared_over_their_examples() {
    let place = Place::new();
    place.train(&["--run", "new"]).code(0);
    place.train(&["--run", "other", "--with", "batch.size=8"]).code(0);
    place.rtc(&["report", "runs", "--examples", "0"]).code(0);
    let page = place.read("runs/report.html");
    assert!(page.contains("p (examples)") && page.contains("McNemar") && page.contains("Wilson"), "{page}");
    place.write("runs/new/answers.json", "{}");
    place.rtc(&["report", "runs/new", "--examples", "0"]).code(7).says("answers.json is not the one that");
}

/// A server of the page of `runs`, killed with its test. Its messages are in the file `said`.
struct Server {
    child: Child,
    /// The address with the port, as in the header `Host`.
    host: String,
    /// The path of the page, with the token.
    page: String,
}

impl Server {
    /// Starts a server that may have so many files open, and reads its address.
    fn start(place: &Place, files: u32) -> Self {
        let line = format!("ulimit -Sn {files} && exec \"$RTC\" report runs --watch");
        let said = fs::File::create(place.path("said")).expect("a new file");
        let mut child = place.command("bash").args(["-c", &line]).stderr(said).spawn().expect("bash runs");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut url).expect("it prints where");
        let rest = url.trim_end().strip_prefix("http://").unwrap_or_else(|| panic!("{url:?}: {}", place.read("said")));
        let (host, token) = rest.split_once('/').expect("a path");
        Self { child, host: host.to_owned(), page: format!("/{token}") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE))).expect("times");
        stream
    }

    /// The head and the text that answer a request line and headers.
    fn answers(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        write!(stream, "{request}\r\n\r\n").expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.to_lowercase(), body.to_owned())
    }

    /// The code and the text that answer a method and path.
    fn asked(&self, request: &str) -> (String, String) {
        let (head, body) = self.answers(&format!("{request} HTTP/1.1\r\nHost: {}", self.host));
        (head.split(' ').nth(1).expect("a code").to_owned(), body)
    }

    /// The same for a path beside the page.
    fn get(&self, path: &str) -> (String, String) {
        self.asked(&format!("GET {}{path}", self.page))
    }

    /// Sends a signal; the exit code, and how long the end took.
    fn end(&mut self, number: i32) -> (Option<i32>, Duration) {
        signal(&self.child, number);
        let start = Instant::now();
        until("the server ends", || self.child.try_wait().expect("a child").is_some());
        (self.child.wait().expect("it has ended").code(), start.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_page_is_served_while_its_runs_go_on() {
    let place = Place::new();
    place.rtc(&["report", "runs", "--watch"]).code(6).says("there is no such folder");
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    place.rtc(&["report", "runs", "--port", "80"]).code(2).says("--watch");
    place.rtc(&["report", "runs", "--watch", "-o", "page.html"]).code(2).says("cannot be used with");
    let mut server = Server::start(&place, 1024);
    assert!(server.host.starts_with("127.0.0.1:"), "{}", server.host);
    let (code, page) = server.get("");
    let (_, version) = server.get("version");
    assert_eq!(code, "200");
    assert!(
        page.contains("<p class=\"sub\">tiny, seed 1, finished</p>")
            && page.contains(&format!("data-watch=\"{version}\""))
    );
    assert_eq!(server.get("version").1, version, "nothing has changed");

    place.train(&["--run", "two", "--seed", "2", "--max-steps", "2"]).code(0);
    until("the version changes", || server.get("version").1 != version);
    let (_, after) = server.get("version");
    let (_, page) = server.get("");
    assert!(page.contains("2 runs") && page.contains(&format!("data-watch=\"{after}\"")), "both runs");
    // A record that is damaged for a moment leaves the page as it was.
    for run in ["one", "two"] {
        fs::rename(place.path(&format!("runs/{run}/run.json")), place.path(&format!("runs/{run}/away")))
            .expect("it was there");
    }
    until("the server says why", || {
        assert_eq!((server.get("version").1, server.get("").1 == page), (after.clone(), true));
        place.read("said").contains("the page is as it was")
    });
    for run in ["one", "two"] {
        fs::rename(place.path(&format!("runs/{run}/away")), place.path(&format!("runs/{run}/run.json")))
            .expect("it was there");
    }
    let port = server.host.rsplit(':').next().expect("a port");
    place.rtc(&["report", "runs", "--watch", "--port", port]).code(6).says("can't listen on");
    assert_eq!(server.end(libc::SIGINT).0, Some(0), "{}", place.read("said"));
    assert!(place.read("said").contains("Ctrl-C ends this"), "{}", place.read("said"));
}

#[test]
fn a_page_is_for_readers_of_its_address() {
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    let server = Server::start(&place, 1024);
    let (page, host) = (&server.page, &server.host);
    let token = page.trim_matches('/');
    assert!(token.len() == 32 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "{page}");
    assert_ne!(Server::start(&place, 1024).page, *page, "each server has a token of its own");
    let nothing = ("404".to_owned(), String::new());
    let almost = format!("/{}{}/", &token[..31], if token.ends_with('0') { '1' } else { '0' });
    let wrong =
        ["/", "/version", &format!("/{token}"), &format!("/{}/", &token[..31]), &almost, &format!("//{token}/")];
    for path in wrong {
        assert_eq!(server.asked(&format!("GET {path}")), nothing, "{path}");
        assert_eq!(server.asked(&format!("POST {path}")), nothing, "{path}");
    }
    assert_eq!(server.get("else"), nothing);
    assert_eq!(server.asked(&format!("POST {page}")).0, "405");
    assert_eq!(server.asked(&format!("HEAD {page}")), ("200".to_owned(), String::new()));
    assert_eq!(
        server.answers(&format!("GET {page} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9")).1,
        "a request must have no body\n"
    );
    let (head, _) = server.answers(&format!("GET {page} HTTP/1.1\r\nHost: {host}"));
    for header in ["cache-control: no-store", "referrer-policy: no-referrer", "content-type: text/html; charset=utf-8"]
    {
        assert!(head.contains(header), "{head}");
    }
    let of_host = |host: &str| server.answers(&format!("GET {page} HTTP/1.1\r\nHost: {host}")).0;
    let port = host.rsplit(':').next().expect("a port");
    assert!(of_host(&format!("localhost:{port}")).starts_with("http/1.1 200"));
    assert!(of_host("other.example").starts_with("http/1.1 403"), "a name that another site gave to this address");
}

/// How many clients this process may be at once: 1,000, if the system allows as many descriptors.
fn clients() -> usize {
    const OTHERS: u64 = 200;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(u64::MAX).min(1000 + OTHERS);
    if limit.current.is_some_and(|current| current < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).expect("not beyond the maximum");
    }
    wanted.saturating_sub(OTHERS) as usize
}

#[test]
fn slow_clients_delay_neither_a_page_nor_the_end() {
    let clients = clients();
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    // A server also goes on where the system gives it fewer descriptors than it serves connections.
    for files in [1024, 48] {
        let mut server = Server::start(&place, files);
        let whole = format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", server.page, server.host);
        let client = |n: usize| {
            let mut stream = server.connect();
            let text = ["", &whole[..whole.len() / 2], &whole][n % 3];
            // It may be among the connections that were ended already.
            let _ = stream.write_all(text.as_bytes());
            stream
        };
        let slow: Vec<TcpStream> = (0..clients).map(client).collect();
        let start = Instant::now();
        let (code, page) = server.get("");
        let took = start.elapsed();
        assert!(code == "200" && page.contains("tiny, seed 1, finished"), "{code} {page}");
        assert!(took < Duration::from_secs(5), "a page beside {clients} slow clients took {took:?}");
        let (code, took) = server.end(libc::SIGTERM);
        assert_eq!(code, Some(0), "{}", place.read("said"));
        assert!(took < Duration::from_secs(5), "the end beside {clients} slow clients took {took:?}");
        drop(slow);
    }
}

#[test]
fn a_header_has_limits() {
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    let server = Server::start(&place, 1024);
    let head = format!("GET {} HTTP/1.1\r\nHost: {}\r\nLong: ", server.page, server.host);
    let begun = |text: &str| {
        let mut stream = server.connect();
        stream.write_all(text.as_bytes()).expect("it listens");
        stream
    };
    let mut slow = begun(&head);
    // The server reads exactly as many bytes, so that none is left that would make the system throw its answer away.
    let mut answer = String::new();
    let mut full = begun(&format!("{head}{}", "x".repeat(8192 - head.len())));
    full.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let mut endless = begun(&head);
    let error = (0..1024).find_map(|_| endless.write_all(&[b'x'; 1 << 16]).err()).expect("it takes no 64 MiB");
    assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()), "{error}");
    assert_eq!(slow.read(&mut [0; 9]).expect("it is ended before the client is"), 0, "half a header");
    assert_eq!(server.get("").0, "200");
}
