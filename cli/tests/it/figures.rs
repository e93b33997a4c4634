//! `rtc report --plots`: figures of a size and in a font, of sweeps, and of several tasks.

use std::fs;

use crate::support::Place;

/// The font in the program, as a file.
const FONT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/font/NotoSans-Regular.ttf");

/// A place with a run of few updates.
fn place() -> Place {
    let place = Place::new();
    place.train(&["--run", "one", "--max-steps", "4"]).code(0);
    place
}

/// The width of the page of a PDF in points.
#[track_caller]
fn width(place: &Place, pdf: &str) -> f64 {
    let bytes = fs::read(place.path(pdf)).expect(pdf);
    assert!(bytes.starts_with(b"%PDF-1."), "{pdf}");
    let text = String::from_utf8_lossy(&bytes);
    let sides = text.split("/MediaBox [").nth(1).and_then(|rest| rest.split(']').next()).expect("a page");
    sides.split_whitespace().nth(2).and_then(|side| side.parse().ok()).expect("a number")
}

#[test]
fn figures_have_the_width_that_is_asked_for() {
    let place = place();
    let report = ["report", "one", "--examples", "4", "--plots"];
    place.rtc(&[&report[..], &["page"]].concat()).code(0).says("as SVG, PDF and PNG in page");
    assert!((width(&place, "page/loss.pdf") - 560.0 * 0.75).abs() < 0.01, "as wide as on a page");
    place.rtc(&[&report[..], &["column", "--width", "84mm"]].concat()).code(0);
    for name in ["loss", "halting-tiny-1", "structure-tiny"] {
        let points = width(&place, &format!("column/{name}.pdf"));
        assert!((points - 84.0 / 25.4 * 72.0).abs() < 0.01, "{name}: {points}");
    }
    // A unit of the drawing is a twelfth of a label: 8 points here, and 10 below.
    assert!(place.read("column/loss.svg").contains("viewBox=\"0 0 357.2 "), "84 mm are 357.2 twelfths of 8 pt");
    place.rtc(&[&report[..], &["large", "--width", "8.4cm", "--font-size", "10pt"]].concat()).code(0);
    assert!(place.read("large/loss.svg").contains("viewBox=\"0 0 285.7 "));
    let again = fs::read(place.path("column/loss.pdf")).expect("it is there");
    place.rtc(&[&report[..], &["column", "--width", "84mm"]].concat()).code(0);
    assert_eq!(fs::read(place.path("column/loss.pdf")).expect("it is there"), again, "the same bytes each time");
}

#[test]
fn lengths_and_sizes_that_make_no_figure_are_refused() {
    let place = place();
    let refused = |options: &[&str]| place.rtc(&[&["report", "one", "--examples", "0"], options].concat());
    for width in ["84", "wide", "-3mm", "0mm", "3km", "9000mm"] {
        refused(&["--plots", "x", &format!("--width={width}")]).code(2).says("a length");
    }
    refused(&["--plots", "x", "--width", "40mm"]).code(2).says("at least 20 times the size of labels (8 pt), 56.4 mm");
    refused(&["--plots", "x", "--width", "40mm", "--font-size", "5"]).code(0);
    refused(&["--plots", "x", "--font-size", "100"]).code(2).says("a size from 4 to 24 points");
    refused(&["--width", "84mm"]).code(2).says("--plots");
}

#[test]
fn a_font_is_a_file_or_installed_or_refused() {
    let place = place();
    let home = place.path("home");
    // The font of the program has its name on every machine.
    place.rtc(&["report", "one", "--examples", "0", "--plots", "y", "--font", "Noto Sans"]).code(0);
    fs::create_dir_all(home.join(".fonts")).expect("a folder");
    fs::copy(FONT, home.join(".fonts/own.ttf")).expect("it can be copied");
    let report = |options: &[&str]| {
        let mut command = place.command(crate::support::RTC);
        command.env("HOME", &home).args(["report", "one", "--examples", "0", "--plots", "x", "--font"]).args(options);
        crate::support::Answer::from(command.output().expect("the binary runs"))
    };
    report(&[FONT, "--width", "84mm"]).code(0);
    assert!(place.read("x/loss.svg").contains("font-family:\"Noto Sans\","));
    if cfg!(target_os = "linux") {
        report(&["noto sans"]).code(0);
        report(&["Noto Sens"]).code(2).says("no font `Noto Sens` is installed; near are `Noto Sans`");
    }
    report(&["Nowhere at all"]).code(2).says("no font `Nowhere at all` is installed");
    report(&["absent.ttf"]).code(6).says("absent.ttf");
    place.write("text.ttf", "no font");
    report(&["./text.ttf"]).code(2).says("it is no TrueType or OpenType font");
}

#[test]
fn a_sweep_is_plotted_under_the_names_of_its_rows() {
    let place = Place::new();
    let experiment = place.read("tiny.yaml");
    let grid = "max_steps: 4\nevaluate_every: 4\nseeds: [1, 2]\ncompare: [{ spec: tiny, name: \"Gated, ours\" }]\n\
                grid:\n  optimiser.learning_rate: [1e-4, 3e-3]\n  set: { depthwise.depth: [2, 3] }\n";
    place.write("sweep.yaml", &format!("{experiment}{grid}"));
    place.rtc(&["ablate", "sweep.yaml"]).code(0);
    place.rtc(&["report", "sweep", "--examples", "0", "--plots", "x", "--width", "84mm"]).code(0);
    let rate = place.read("x/swept-test-optimiser_learning_rate.svg");
    assert_eq!(rate.matches("<circle class=\"d0\"").count(), 8, "a disc per run: {rate}");
    assert!(rate.contains("0.0005") && !rate.contains(">0.0025<"), "the axis is logarithmic: {rate}");
    assert!(rate.contains("Gated, ours learning_rate=0.0001 depth=2, seed 1"), "{rate}");
    let depth = place.read("x/swept-test-depthwise_depth.svg");
    assert!(depth.contains("depthwise.depth"), "{depth}");
    assert_eq!(place.read("x/swept-test-all.svg").matches("class=\"track").count(), 4, "a line per row");
    let compared = place.read("x/compared-test.svg");
    assert!(compared.contains("Gated, ours") && compared.contains("accuracy (%), 95 % interval"), "{compared}");
    // A setting that follows from another one is none, and there are as many plots as settings.
    let plots =
        fs::read_dir(place.path("x")).expect("a folder").filter_map(|file| file.ok()?.file_name().into_string().ok());
    assert_eq!(plots.filter(|name| name.starts_with("swept") && name.ends_with(".svg")).count(), 3);
}

#[test]
fn tasks_have_tables_of_their_own() {
    let place = Place::new();
    let parity = "task:\n  name: parity_check\n  options: { train_length: 12, test_length: 14 }\n  sizes: { dev: 32, test: 32, 13-14: 32 }\n\
                  fresh: { lengths: batch }\noptimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 16 }\n\
                  max_steps: 4\nevaluate_every: 4\nevaluate: [test]\n";
    place.write("parity.yaml", parity);
    for (run, experiment, rate) in
        [("a", "tiny", "0.003"), ("b", "tiny", "0.001"), ("c", "parity", "0.003"), ("d", "parity", "0.001")]
    {
        let (yaml, rate) = (format!("{experiment}.yaml"), format!("optimiser.learning_rate={rate}"));
        let options = ["--experiment", &yaml, "--run", run, "--with", &rate, "--max-steps", "4"];
        place.rtc(&[&["train", "tiny.rt"], &options[..]].concat()).code(0);
    }
    place.rtc(&["report", "runs", "--examples", "0"]).code(0);
    let page = place.read("runs/report.html");
    let results = page.split("id=\"results\"").nth(1).and_then(|rest| rest.split("<h2").next()).expect("a section");
    let (listops, rest) = results.split_once("<h3>parity_check</h3>").expect("a table per task");
    // Behind the tables are plots of both.
    let parity = rest.split("<figure").next().expect("a table");
    assert!(listops.contains("<h3>listops</h3>"), "{listops}");
    for (table, task) in [(listops, "listops"), (parity, "parity_check")] {
        assert!(table.contains("class=\"n b\""), "the best of {task} is bold");
        let (first, second) = (format!("tiny on {task}, optimiser.learning_rate=0.0"), "learning_rate=0.001");
        assert!(table.contains(&format!("difference from {first}")), "a baseline of its own: {table}");
        assert!(table.contains(&first) && table.contains(second) && table.contains(">baseline</td>"), "{table}");
        assert!(page.contains(&format!(" of {task}: ")), "a best row of {task}");
    }
}
