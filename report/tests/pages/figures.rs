//! Figures for papers: PDF files, widths, sizes and fonts.

use rtc_report::data::{ComparedMeans, MeanInterval, ReportRow, ReportRun, TaskResults};
use rtc_report::{FigureFont, FigureStyle, Picture, RunReport, pictures};

use crate::{model, report, run};

/// Every picture of a run and its model.
fn drawn(style: &FigureStyle) -> Vec<Picture> {
    pictures(&report(vec![run("one", 70)], vec![model("small")]), style)
}

#[track_caller]
fn named<'a>(all: &'a [Picture], name: &str) -> &'a Picture {
    all.iter().find(|picture| picture.name == name).expect(name)
}

/// The sides of the only page in points, and the text on it.
#[track_caller]
fn read(pdf: &[u8]) -> ([f64; 2], String) {
    let read = lopdf::Document::load_mem(pdf).expect("a PDF");
    let pages = read.get_pages();
    let [(number, page)] = pages.iter().collect::<Vec<_>>()[..] else { panic!("{} pages", pages.len()) };
    let page = read.get_dictionary(*page).expect("a page");
    let sides = page.get(b"MediaBox").and_then(|sides| sides.as_array()).expect("a list");
    let sides: Vec<f64> = sides.iter().map(|side| f64::from(side.as_float().expect("a number"))).collect();
    ([sides[2] - sides[0], sides[3] - sides[1]], read.extract_text(&[*number]).expect("text"))
}

#[test]
fn a_pdf_has_the_size_and_the_texts_of_its_picture() {
    let all = drawn(&FigureStyle::default());
    assert!(all.len() > 8);
    for picture in &all {
        let pdf = picture.pdf().expect("it can be drawn");
        assert!(pdf.starts_with(b"%PDF-1."), "{}", picture.name);
        assert_eq!(picture.pdf().expect("again"), pdf, "{} has the same bytes each time", picture.name);
        let ([width, _], text) = read(&pdf);
        let (_, svg) =
            picture.inline().split_once("width=\"").map(|(a, b)| (a.to_owned(), b.to_owned())).expect("a width");
        let pixels: f64 = svg.split('"').next().and_then(|width| width.parse().ok()).expect("a number");
        assert!((width - 0.75 * pixels).abs() < 0.01, "{}: {width} of {pixels}", picture.name);
        assert!(text.contains(&picture.title), "{}: {text}", picture.name);
    }
    let (_, text) = read(&named(&all, "accuracy_by_length").pdf().expect("a chart"));
    for part in ["length (tokens)", "accuracy (%)", "a guess among 4 classes"] {
        assert_eq!(text.matches(part).count(), 1, "{part} in {text}");
    }
}

#[test]
fn a_figure_is_as_wide_as_it_is_asked_to_be() {
    for (millimetres, size) in [(84.0, 8.0), (174.0, 8.0), (174.0, 10.0)] {
        let points = millimetres / 25.4 * 72.0;
        let all = drawn(&FigureStyle { width: Some(points), size, font: None });
        for picture in &all {
            let ([width, _], _) = read(&picture.pdf().expect("it can be drawn"));
            assert!((width - points).abs() < 0.01, "{}: {width} in place of {points}", picture.name);
            assert!(picture.file().contains(&format!("width=\"{points:.3}pt\"")), "{}", picture.name);
        }
        // A label has 12 units, whatever the width: so many units are as wide as the column.
        let chart = named(&all, "loss").file();
        let units = format!("viewBox=\"0 0 {} ", (points * 12.0 / size * 10.0).round() / 10.0);
        assert!(chart.contains(&units), "{units} in {chart}");
    }
}

#[test]
fn a_narrow_column_has_fewer_ticks_and_whole_texts() {
    let wide = drawn(&FigureStyle { width: Some(500.0), size: 8.0, font: None });
    let narrow = drawn(&FigureStyle { width: Some(200.0), size: 8.0, font: None });
    let ticks = |all: &[Picture]| named(all, "loss").inline().matches("class=\"tick\"").count();
    assert!(ticks(&narrow) < ticks(&wide), "{} and {}", ticks(&narrow), ticks(&wide));
    insta::assert_snapshot!("column-loss", named(&narrow, "loss").inline());
    insta::assert_snapshot!("column-halting-small-1", named(&narrow, "halting-small-1").inline());
}

/// Nothing is drawn outside of a narrow picture, as far as numbers tell.
#[test]
fn nothing_stands_beside_a_column() {
    let all = drawn(&FigureStyle { width: Some(220.0), size: 8.0, font: None });
    for picture in &all {
        let svg = picture.inline();
        let places = svg.split(" x=\"").skip(1).map(|rest| rest.split('"').next().expect("a place"));
        let places: Vec<f64> = places.map(|place| place.parse().expect("a number")).collect();
        assert!(places.iter().all(|x| (0.0..=330.0).contains(x)), "{}: {places:?}", picture.name);
    }
}

#[test]
fn another_font_is_used_and_embedded() {
    let own = include_bytes!("../../font/NotoSans-Bold.ttf").to_vec();
    let font = FigureFont::file(own).expect("a font");
    assert_eq!(font.family(), "Noto Sans");
    let wrong = FigureFont::file(b"no font".to_vec()).expect_err("no font");
    assert!(wrong.to_string().contains("no TrueType or OpenType font"), "{wrong}");
    let absent = FigureFont::family_of("Other", vec![include_bytes!("../../font/NotoSans-Bold.ttf").to_vec()]);
    assert!(absent.is_err(), "the file has another family");
    let style = FigureStyle { font: Some(font.into()), ..FigureStyle::default() };
    let picture = drawn(&style).remove(0);
    assert!(picture.file().contains("font-family:\"Noto Sans\",\"Noto Sans\""));
    read(&picture.pdf().expect("it can be drawn"));
}

/// A sweep over a rate and a width, two seeds a row, of models with these names.
fn sweep(families: &[&str]) -> RunReport {
    let mut report = RunReport { title: "sweep".to_owned(), ..RunReport::default() };
    for (at, family) in families.iter().enumerate() {
        for (n, (rate, width)) in [(1e-4, 8.0), (1e-3, 8.0), (1e-2, 16.0)].into_iter().enumerate() {
            let score = 0.5 + 0.1 * n as f64 + 0.01 * at as f64;
            let first = report.runs.len();
            for seed in 1..=2 {
                let mut run = ReportRun { seed, ..run(&format!("{family}{n}/seed{seed}"), 3) };
                run.results[0].accuracy = Some(score + 0.02 * seed as f64);
                report.runs.push(run);
            }
            report.rows.push(ReportRow {
                name: format!("{family} {n}"),
                runs: vec![first, first + 1],
                family: (*family).to_owned(),
                swept: vec![("optimiser.learning_rate".to_owned(), rate), ("embed.width".to_owned(), width)],
                ..ReportRow::default()
            });
        }
    }
    report.models = vec![model("small")];
    report
}

#[test]
fn a_sweep_has_its_scores_by_every_setting() {
    let all = pictures(&sweep(&["small"]), &FigureStyle::default());
    insta::assert_snapshot!("swept-rate", named(&all, "swept-test-optimiser_learning_rate").inline());
    insta::assert_snapshot!("swept-all", named(&all, "swept-test-all").inline());
    let width = named(&all, "swept-test-embed_width").inline();
    assert_eq!(width.matches("<circle class=\"d0\"").count(), 6, "a disc per run");
    assert!(width.contains("small 2, seed 2"), "{width}");
    let both = pictures(&sweep(&["small", "large"]), &FigureStyle::default());
    assert!(named(&both, "swept-test-optimiser_learning_rate").inline().contains(">large</text>"), "a legend");
    for name in ["swept-test-all-small", "swept-test-all-large"] {
        assert_eq!(named(&both, name).inline().matches("class=\"track").count(), 3, "a line per row");
    }
    let mut single = sweep(&["small"]);
    single.rows.iter_mut().for_each(|row| row.swept.truncate(1));
    let names: Vec<String> =
        pictures(&single, &FigureStyle::default()).into_iter().map(|picture| picture.name).collect();
    assert!(!names.contains(&"swept-test-all".to_owned()), "one axis is no comparison: {names:?}");
    assert!(rtc_report::page(&sweep(&["small"])).contains("swept-test-all"));
}

#[test]
fn the_best_row_has_the_deepest_colour_and_is_drawn_last() {
    let mut report = sweep(&["small"]);
    report.runs[0].results[0].accuracy = Some(0.99);
    report.runs[1].results[0].accuracy = Some(0.99);
    let all = pictures(&report, &FigureStyle::default());
    let tracks: Vec<String> = named(&all, "swept-test-all")
        .inline()
        .lines()
        .filter(|line| line.contains("track"))
        .map(str::to_owned)
        .collect();
    assert!(tracks[2].contains("p10") && tracks[0].contains("p3"), "{tracks:?}");
    for run in &mut report.runs {
        let error = 1.0 - run.results[0].accuracy.take().expect("a score");
        run.results[0].numbers.insert("rmse".to_owned(), error);
    }
    let again = pictures(&report, &FigureStyle::default());
    let turned = named(&again, "swept-test-all").inline();
    let last = turned.lines().rfind(|line| line.contains("track")).expect("a line");
    assert!(last.contains("p10") && turned.contains("root mean squared error"), "small errors are good: {last}");
}

#[test]
fn means_stand_in_their_intervals() {
    let row = |name: &str, row, mean, interval| MeanInterval { name: name.to_owned(), row, mean, interval };
    let rows = vec![
        row("majority", None, 10.0, None),
        row("ours, gated, with a name of two lines", Some(0), 71.5, Some((60.0, 80.25))),
        row("theirs", Some(1), 65.0, Some((50.0, 75.0))),
    ];
    let compared = |name: &str| ComparedMeans {
        name: name.to_owned(),
        title: "accuracy on test".to_owned(),
        unit: "accuracy (%)".to_owned(),
        rows: rows.clone(),
    };
    let mut report = sweep(&["small"]);
    let task = |task: &str| TaskResults {
        task: task.to_owned(),
        tables: vec![],
        compared: vec![compared(&format!("compared-{task}-test"))],
    };
    report.tasks = vec![task("listops"), task("parity")];
    let all = pictures(&report, &FigureStyle { width: Some(238.0), size: 8.0, font: None });
    insta::assert_snapshot!("compared", named(&all, "compared-listops-test").inline());
    assert_eq!(named(&all, "compared-parity-test").inline().matches("95 % interval: ").count(), 2);
}

#[test]
fn tasks_are_compared_apart() {
    let mut report = sweep(&["small", "large"]);
    for (n, row) in report.rows.iter_mut().enumerate() {
        row.task = if n < 3 { "listops" } else { "parity" }.to_owned();
    }
    let page = rtc_report::page(&report);
    for told in ["best mean on test of listops: small 2", "best mean on test of parity: large 2"] {
        assert!(page.contains(told), "{told}");
    }
    let all = pictures(&report, &FigureStyle::default());
    for task in ["listops", "parity"] {
        let picture = named(&all, &format!("swept-{task}-test-optimiser_learning_rate"));
        assert!(picture.title.starts_with(&format!("{task}: ")), "{}", picture.title);
    }
}
