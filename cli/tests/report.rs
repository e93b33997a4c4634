//! `rtc report` on real runs: finished ones, unfinished ones, several, broken ones.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use support::{Place, RTC, signal};

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

/// The code and the text that a server answers.
fn asked(address: &str, request: &str, host: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).expect("a code").to_owned(), body.to_owned())
}

#[test]
fn a_page_is_served_while_its_runs_go_on() {
    let place = Place::new();
    place.rtc(&["report", "runs", "--watch"]).code(6).says("there is no such folder");
    place.train(&["--run", "one", "--max-steps", "2"]).code(0);
    place.rtc(&["report", "runs", "--port", "80"]).code(2).says("--watch");
    place.rtc(&["report", "runs", "--watch", "-o", "page.html"]).code(2).says("cannot be used with");
    let mut server = place.command(RTC).args(["report", "runs", "--watch"]).spawn().expect("the binary runs");
    let mut lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let url = lines.next().expect("a line").expect("it prints where");
    let address = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).expect("an address").to_owned();
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let get = |path: &str| asked(&address, &format!("GET {path}"), &address);
    let (code, page) = get("/");
    let (_, version) = get("/version");
    assert_eq!(code, "200");
    assert!(
        page.contains("<p class=\"sub\">tiny, seed 1, finished</p>")
            && page.contains(&format!("data-watch=\"{version}\""))
    );
    assert_eq!(get("/version").1, version, "nothing has changed");

    place.train(&["--run", "two", "--seed", "2", "--max-steps", "2"]).code(0);
    let (_, after) = get("/version");
    assert_ne!(after, version);
    let (_, page) = get("/");
    assert!(page.contains("2 runs") && page.contains(&format!("data-watch=\"{after}\"")), "both runs");
    // A record that is damaged for a moment leaves the page as it was.
    for run in ["one", "two"] {
        fs::rename(place.path(&format!("runs/{run}/run.json")), place.path(&format!("runs/{run}/away")))
            .expect("it was there");
    }
    assert_eq!((get("/version").1, get("/").1 == page), (after, true));

    assert_eq!(get("/else").0, "404");
    assert_eq!(asked(&address, "POST /", &address).0, "405");
    let port = address.rsplit(':').next().expect("a port");
    assert_eq!(asked(&address, "GET /", &format!("localhost:{port}")).0, "200");
    assert_eq!(asked(&address, "GET /", "other.example").0, "403", "a name that another site gave to this address");
    for run in ["one", "two"] {
        fs::rename(place.path(&format!("runs/{run}/away")), place.path(&format!("runs/{run}/run.json")))
            .expect("it was there");
    }
    place.rtc(&["report", "runs", "--watch", "--port", port]).code(6).says("can't listen on");
    signal(&server, libc::SIGINT);
    let mut said = String::new();
    server.stderr.take().expect("a pipe").read_to_string(&mut said).expect("messages");
    assert_eq!(server.wait().expect("it ends").code(), Some(0), "{said}");
    assert!(said.contains("Ctrl-C ends this") && said.contains("the page is as it was"), "{said}");
}
