//! Pages and pictures of made-up runs: goldens of small ones, and what must hold for any.

#[path = "pages/figures.rs"]
mod figures;

use rtc_compiler::check::{NoFiles, check};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::{Spec, text};
use rtc_report::data::{
    AttentionPanel, Beam, Cloud, ComparedMeans, Confusion, ExampleAnswer, HaltingUnit, InputTrace, MeanInterval, Model,
    Panel, RecursionTree, ReportAnswers, ReportRow, ReportRun, SaliencyShares, Score, StepCurve, TaskResults,
};
use rtc_report::{FigureStyle, Picture, RunReport, page, pictures};
use rtc_runs::grid::{TextCell, TextTable};
use rtc_runs::record::OfLength;
use rtc_runs::record::SplitLengths;
use rtc_runs::record::history::{EvaluationLine, StepLine};
use rtc_runs::record::table::ResultsRow;
use rtc_runs::record::watched::{ArrayHistogram, HistogramLine, ParameterHistograms, SampleLine};
use rtc_train::stopping::StepRow;

const SPEC: &str = "\
/// Halts in every chunk.
model small {
    embed { width: 16 }
    recur chunkwise {
        size: 3
        memory { slots: 2, init: normal }
        recur depthwise {
            depth: 4
            halt global { threshold: 0.9 }
            attend self { heads: 2, mask: j <= i }
            feedforward { hidden: 32 }
            gate mlp { hidden: 32 }
        }
        update memory { attend chunk { heads: 2 } }
    }
    readout memory
}
";

/// What a user could write to break a page.
const HOSTILE: &str = "</svg><script src='http://x'>alert(\"1\")</script>&amp;\u{0}\u{1b}";

fn spec() -> Spec {
    let catalog = Catalog { vocabulary: Some(9), classes: Some(4), ..Catalog::default() };
    check(&NoFiles, Source::new("small.rt", SPEC), None, &[], &catalog).0.expect("the spec is right")
}

fn model(name: &str) -> Model {
    let unit = |start, weights: &[f64]| HaltingUnit { start, length: 3, weights: weights.to_vec() };
    let positions = ["[MAX", "2", "<9>", "[MIN", "4", "]"].map(str::to_owned).to_vec();
    let units = vec![unit(0, &[0.1, 0.65, 0.25]), unit(3, &[1.0])];
    let panel = Panel { place: "chunkwise.depthwise".to_owned(), positions, bound: Some(4), units };
    let beam = |weight, spans: &[(usize, usize)]| {
        let (score, spans) = (Some(f64::ln(weight)), spans.to_vec());
        Beam { weight, score, count: 1, spans }
    };
    let beams =
        vec![beam(0.75, &[(0, 2), (0, 3), (3, 2), (3, 3), (0, 6)]), beam(0.25, &[(1, 2), (3, 3), (1, 5), (0, 6)])];
    let tree = RecursionTree { place: "balanced.beam".to_owned(), positions: panel.positions.clone(), beams };
    let trace = InputTrace {
        title: format!("{name}: answers 9 (87 %)"),
        panels: vec![panel],
        trees: vec![tree],
        ..InputTrace::default()
    };
    let spec = spec();
    Model {
        name: name.to_owned(),
        text: text(&spec),
        spec: Some(spec),
        traces: vec![trace],
        clouds: vec![],
        saliency: None,
        answers: Some(answers(name)),
        steps: vec![],
    }
}

/// Answers on a split, with this text wherever a text can be.
fn answers(text: &str) -> ReportAnswers {
    let answer = |is_right| {
        let text = text.to_owned();
        ExampleAnswer {
            number: 7,
            input: text.clone(),
            right: text.clone(),
            said: text,
            sure: Some(0.87),
            is_right: Some(is_right),
        }
    };
    let confusion = Confusion { classes: vec![text.to_owned(), "b".to_owned()], counts: vec![vec![9, 1], vec![0, 0]] };
    ReportAnswers {
        run: text.to_owned(),
        split: text.to_owned(),
        examples: 10,
        confusion: Some(confusion),
        shown: vec![answer(false), answer(true)],
    }
}

fn run(name: &str, updates: u64) -> ReportRun {
    let number = |update: u64| Some(2.0 / (1.0 + update as f64));
    let step = |update| StepLine {
        update,
        task_loss: number(update),
        accuracy: number(update).map(|loss| 1.0 - loss / 2.0),
        learning_rate: Some(1e-3),
        gradient_norm: Some(1.0),
        mean_depth: Some(2.5),
        ..StepLine::default()
    };
    let evaluation = |update| EvaluationLine {
        update,
        loss: number(update),
        accuracy: Some(0.5),
        mean_depth: Some(2.0),
        ..EvaluationLine::default()
    };
    let length = |length| OfLength { length, examples: 40, scored: 40, correct: 40 - length as u64, steps: Some(80.0) };
    let result = ResultsRow {
        split: "test".to_owned(),
        examples: 80,
        accuracy: Some(0.775),
        majority: Some(0.3),
        ..ResultsRow::default()
    };
    ReportRun {
        name: name.to_owned(),
        seed: 1,
        state: "finished".to_owned(),
        dev: "dev".to_owned(),
        trained_length: Some(8),
        classes: Some(4),
        parameters: 1234,
        command: format!("rtc train {name}"),
        facts: vec![("task".to_owned(), name.to_owned())],
        experiment: format!("# {name}\n"),
        steps: (1..=updates).map(step).collect(),
        evaluations: vec![evaluation(1), evaluation(updates)],
        best: Some((updates, Score::Share(0.5))),
        results: vec![result],
        lengths: vec![SplitLengths { split: "test".to_owned(), lengths: vec![length(4), length(14)] }],
        ..ReportRun::default()
    }
}

/// A report with a row for each model that has runs.
fn report(runs: Vec<ReportRun>, models: Vec<Model>) -> RunReport {
    let most = runs.iter().map(|run| run.model + 1).max().unwrap_or(0);
    let row = |model: usize| ReportRow {
        name: models.get(model).map_or_else(|| format!("row {model}"), |model| model.name.clone()),
        runs: (0..runs.len()).filter(|index| runs[*index].model == model).collect(),
        ..ReportRow::default()
    };
    let rows = (0..most).map(row).collect();
    RunReport { title: "a report".to_owned(), rows, runs, models, ..RunReport::default() }
}

/// A table with this text in every place where a text can be.
fn table(text: &str) -> TextTable {
    let cell = |best| TextCell { text: text.to_owned(), best, marked: false };
    TextTable {
        head: vec![text.to_owned(); 2],
        names: 1,
        rows: vec![vec![cell(false), cell(true)]],
        below: vec![text.to_owned()],
    }
}

/// The page as a tree; fails where it is not well-formed.
#[track_caller]
fn parsed(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    roxmltree::Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn picture<'a>(all: &'a [Picture], name: &str) -> &'a Picture {
    let names = || all.iter().map(|picture| picture.name.as_str()).collect::<Vec<_>>();
    all.iter().find(|picture| picture.name == name).unwrap_or_else(|| panic!("no {name} in {:?}", names()))
}

#[test]
fn small_pictures_are_as_they_were() {
    let all = pictures(&report(vec![run("one", 5)], vec![model("small")]), &FigureStyle::default());
    for name in ["loss", "accuracy_by_length", "halting-small-1", "tree-small-1", "structure-small"] {
        insta::assert_snapshot!(name, picture(&all, name).inline());
    }
}

#[test]
fn graphviz_gets_the_statements_of_a_spec() {
    insta::assert_snapshot!("dot", rtc_report::dot(&spec()));
}

#[test]
fn a_page_is_whole_and_needs_nothing_else() {
    let page = page(&report(vec![run("one", 100)], vec![model("small")]));
    let tree = parsed(&page);
    let ids: Vec<&str> = tree.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids, ["results", "training", "length", "models", "runs"]);
    let pictures = tree.descendants().filter(|node| node.has_tag_name("svg")).count();
    assert_eq!(pictures, 10, "five curves, two by length, a structure, a heat-map, a tree");
    assert!(page.contains("( ( ( [MAX 2 ) &lt;9&gt; ) ( ( [MIN 4 ) ] ) )"), "{page}");
    assert!(page.contains("balanced.beam: 75 %, score"), "{page}");
    assert!(!page.contains("class=\"empty\""), "every section has something");
    for outside in ["http", "<link", "<img", "@import", "src=", "import("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("url(").count(), page.matches("url(#").count(), "only what is on the page");
    for link in tree.descendants().filter_map(|node| node.attribute("href")) {
        assert!(ids.contains(&link.trim_start_matches('#')), "{link}");
    }
}

/// The data of a chart on a page.
#[track_caller]
fn data(page: &str, name: &str) -> serde_json::Value {
    let tree = parsed(page);
    let figure = tree.descendants().find(|node| node.attribute("data-name") == Some(name)).expect("the chart is there");
    let script = figure.children().find(|node| node.has_tag_name("script")).and_then(|node| node.text());
    serde_json::from_str(script.expect("it has data")).expect("JSON")
}

#[test]
fn a_chart_has_the_data_that_it_was_drawn_from() {
    let page = page(&report(vec![run("one", 100)], vec![model("small")]));
    let loss = data(&page, "loss");
    assert_eq!(loss["axes"], serde_json::json!(["update", "task loss"]));
    let series = loss["series"].as_array().expect("lines");
    let looks: Vec<_> = series.iter().map(|series| (series["look"].as_str(), series["reach"].as_u64())).collect();
    assert_eq!(looks, [(Some("faint"), None), (Some("line"), Some(2)), (Some("dots"), None)]);
    assert_eq!(series[1]["y"], series[0]["y"], "what is smoothed is smoothed where it is drawn");
    assert_eq!((&series[1]["x"][99], &series[1]["y"][99]), (&100.into(), &0.019_802.into()));
    assert_eq!(series[2]["notes"], serde_json::json!(["", "the checkpoint that counts"]));
    let lengths = data(&page, "accuracy_by_length");
    assert_eq!(lengths["ends"], serde_json::json!([{ "at": 8.0, "text": "training ended at 8" }]));
    assert_eq!(lengths["levels"], serde_json::json!([{ "at": 25.0, "text": "a guess among 4 classes" }]));
}

#[test]
fn a_row_of_several_runs_has_their_mean_with_a_band() {
    let mut runs = vec![run("a", 3), run("b", 3), run("c", 2)];
    for (run, loss) in runs.iter_mut().zip([1.0, 2.0, 6.0]) {
        run.evaluations.iter_mut().for_each(|one| one.loss = Some(loss));
    }
    runs[1].classes = Some(9);
    let page = page(&report(runs.clone(), vec![model("small")]));
    let loss = data(&page, "loss_dev");
    let series = loss["series"].as_array().expect("lines");
    let looks: Vec<_> = series.iter().filter_map(|series| series["look"].as_str()).collect();
    assert_eq!(looks, ["faint", "faint", "faint", "dots"]);
    let mean = &series[3];
    assert_eq!(mean["run"], "small: mean of 3 runs");
    assert_eq!(
        (&mean["x"], &mean["y"]),
        (&serde_json::json!([1]), &serde_json::json!([3.0])),
        "where all have a point"
    );
    assert_eq!(mean["spread"], serde_json::json!([2.6458]), "the sample deviation");
    assert!(data(&page, "accuracy_dev")["levels"].as_array().is_some_and(Vec::is_empty), "they have other classes");
    let alone = rtc_report::page(&report(runs[..1].to_vec(), vec![model("small")]));
    assert!(!alone.contains("class=\"band"), "one run has no deviation");
}

#[test]
fn the_top_tells_the_most_important_numbers() {
    let told = |report: &RunReport| {
        let page = page(report);
        let tree = parsed(&page);
        let list = tree.descendants().find(|node| node.attribute("class") == Some("headline")).expect("a list");
        list.children().filter(|node| node.is_element()).map(text_of).collect::<Vec<_>>()
    };
    let mut one = report(vec![ReportRun { total: Some(200), ..run("one", 100) }], vec![model("small")]);
    one.took = Some("4.2 s".to_owned());
    assert_eq!(told(&one), ["accuracy on test 77.5 %", "updates 100", "parameters 1,234", "training took 4.2 s"]);
    one.runs[0].results.clear();
    assert_eq!(told(&one)[..2], ["best on dev 50.0 %", "updates 100 of 200"]);
    let mut other = ReportRun { model: 1, ..run("b", 100) };
    other.results[0].accuracy = Some(0.9);
    let unfinished = ReportRun { model: 1, results: vec![], ..run("c", 100) };
    let several = report(vec![run("a", 100), other, unfinished], vec![model("first"), model("second")]);
    assert_eq!(told(&several), ["finished runs 2 of 3", "best mean on test: second 90.0 %"]);
}

/// The texts inside of an element, with blanks between.
fn text_of(node: roxmltree::Node<'_, '_>) -> String {
    node.descendants().filter_map(|inner| inner.text().filter(|_| inner.is_text())).collect::<Vec<_>>().join(" ")
}

#[test]
fn answers_and_the_short_spec_are_shown() {
    let page = page(&report(vec![run("one", 5)], vec![model("small")]));
    assert!(
        page.contains("Answers of small on small, 10 examples") && page.contains("small ✗") && page.contains("small ✓")
    );
    assert!(page.contains("<td class=\"h9 dark\">9</td><td class=\"h1\">1</td>"), "shares of a row");
    assert!(page.contains("rtc train one"), "how it is repeated");
    let (short, complete) = page.split_once("Complete spec").expect("both are there");
    let threshold = "<span class=\"fld\">threshold</span>: <span class=\"num\">0.9</span>";
    assert!(short.contains(threshold) && complete.contains(threshold), "written, and complete");
    let norm = "<span class=\"fld\">norm</span>";
    assert!(!short.contains(norm) && complete.contains(norm), "a default, in the complete spec alone");
}

#[test]
fn a_page_that_is_served_knows_its_version() {
    let report = report(vec![run("one", 5)], vec![model("small")]);
    let served = rtc_report::watched(&report, "0123abcd");
    parsed(&served);
    assert!(served.contains("<body data-watch=\"0123abcd\">") && !page(&report).contains("data-watch"));
}

/// A model that was analysed: two groups of states, and slopes that fall along a line.
fn analysed(name: &str) -> Model {
    let point = |n: usize, side: f64| [side * (3.0 + 0.1 * n as f64), 0.2 * n as f64 - 1.0];
    let group = |side: f64| (0..10).map(|n| point(n, side)).collect();
    let groups = vec![("0 1 to 0 1".to_owned(), group(-1.0)), ("0 1 to 1 0".to_owned(), group(1.0))];
    let cloud = Cloud { place: "depthwise".to_owned(), shares: [0.9, 0.05], groups };
    let saliency = SaliencyShares { examples: 8, shares: (0..8).map(|n| 1.0 - n as f64 / 8.0).collect() };
    Model { clouds: vec![cloud], saliency: Some(saliency), ..model(name) }
}

#[test]
fn analyses_are_drawn_where_there_are_any() {
    let report = report(vec![run("one", 5)], vec![analysed("small")]);
    let all = pictures(&report, &FigureStyle::default());
    for name in ["states-small-1", "saliency-small"] {
        insta::assert_snapshot!(name, picture(&all, name).inline());
    }
    let points = picture(&all, "states-small-1").inline().matches("<circle").count();
    assert_eq!(points, 2 * 10 + 2, "every state, and the legend");
    assert!(page(&report).contains("all tokens alike"));
    parsed(&page(&report));
}

/// A model that is right after the steps of its examples alone, and surest one step later.
fn stepped(name: &str) -> Model {
    let curve = |length: usize| {
        let after = |step: usize| StepRow {
            length,
            steps: step,
            examples: 12,
            accuracy: if step == length { 1.0 } else { 0.5 },
            metrics: [("exact".to_owned(), if step == length { 1.0 } else { 0.25 })].into(),
            confidence: 0.1 * step.abs_diff(length + 1) as f64,
            due: if step == length { 12 } else { 0 },
            surest: step == length + 1,
        };
        StepCurve { length, split: "test".to_owned(), examples: 12, after: (1..length + 4).map(after).collect() }
    };
    Model { steps: vec![curve(2), curve(5)], ..model(name) }
}

#[test]
fn steps_that_come_with_the_examples_are_drawn_with_their_marks() {
    let report = report(vec![run("one", 5)], vec![stepped("small")]);
    let all = pictures(&report, &FigureStyle::default());
    for name in ["accuracy-by-step-small", "confidence-by-step-small"] {
        insta::assert_snapshot!(name, picture(&all, name).inline());
    }
    let drawn = picture(&all, "exact-by-step-small").inline();
    let marks = |class: &str| drawn.matches(&format!("<circle class=\"{class}\"")).count();
    assert_eq!([marks("r0"), marks("d0"), marks("r1"), marks("d1")], [1, 1, 1, 1], "a ring and a disc per length");
    assert!(drawn.contains("steps: 5\nrows (%): 100\nthe steps of 12 of 12 examples"), "{drawn}");
    parsed(&page(&report));
    let mut plain = stepped("small");
    plain.steps.iter_mut().flat_map(|curve| &mut curve.after).for_each(|after| after.metrics.clear());
    let all = pictures(&RunReport { models: vec![plain], ..report }, &FigureStyle::default());
    assert!(all.iter().all(|picture| !picture.name.starts_with("exact")), "what no task reports is not drawn");
}

#[test]
fn a_grid_has_all_runs_on_one_page() {
    let mut runs = vec![run("a", 80), run("b", 80), run("c", 80)];
    (runs[1].seed, runs[2].model, runs[2].results) = (2, 1, vec![]);
    runs[1].results[0].accuracy = Some(0.675);
    let mut report = report(runs, vec![model("first"), model("second")]);
    report.rows[1].name = "second, deep".to_owned();
    report.tasks = vec![TaskResults { tables: vec![table("72.5 ± 5.0 *")], ..TaskResults::default() }];
    let page = page(&report);
    let tree = parsed(&page);
    assert!(page.contains("<td class=\"n b\">72.5 ± 5.0 *</td>") && page.contains("<p class=\"sub\">72.5 ± 5.0 *</p>"));
    let cells = tree.descendants().filter(|node| node.has_tag_name("td")).filter_map(|node| node.text());
    assert_eq!(cells.filter(|text| *text == "second, deep").count(), 1, "the row of the only run of the second model");
    assert!(page.contains("77.5 %") && page.contains("67.5 %"), "every run has its own accuracy");
    let titles = tree.descendants().filter(|node| node.attribute("class") == Some("title"));
    let titles: Vec<&str> = titles.filter_map(|node| node.text()).collect();
    for title in ["Loss on dev", "Loss in training", "Accuracy by length", "Structure of second"] {
        assert!(titles.contains(&title), "{title} in {titles:?}");
    }
}

/// Texts after three updates, with this text wherever a text can be.
fn texts(text: &str) -> Vec<SampleLine> {
    let line = |update| SampleLine { update, prompt: text.to_owned(), text: text.to_owned(), ..SampleLine::default() };
    (1..=3).map(line).collect()
}

/// Histograms of a parameter of this name after some updates.
fn histograms(name: &str, updates: u64) -> Vec<HistogramLine> {
    let line = |update: u64| {
        let numbers: Vec<f32> = (0..90).map(|n| (n % 13) as f32 * 0.01 * update as f32 - 0.05).collect();
        let weights = ArrayHistogram::of(&numbers);
        let both = ParameterHistograms { weights, gradients: ArrayHistogram::of(&[0.5; 4]) };
        HistogramLine { update, parameters: [(name.to_owned(), both)].into() }
    };
    (1..=updates).map(line).collect()
}

/// The weights of two heads over three positions, of which the last query sees none.
fn attention(text: &str) -> AttentionPanel {
    let names = vec![text.to_owned(), "b".to_owned(), "c".to_owned()];
    let head = [1.0, 0.0, 0.0, 0.25, 0.75, 0.0, 0.0, 0.0, 0.0];
    AttentionPanel {
        place: text.to_owned(),
        heads: 2,
        queries: names.clone(),
        keys: names,
        weights: [head, head].concat(),
    }
}

#[test]
fn a_page_has_the_maps_of_attention() {
    let mut model = model("small");
    model.traces[0].attention = vec![attention("self"), AttentionPanel::default()];
    model.traces[0].notes = vec!["one: memory has no map.".to_owned()];
    let all = report(vec![run("one", 5)], vec![model]);
    insta::assert_snapshot!(
        "attention-small-1-1",
        picture(&pictures(&all, &FigureStyle::default()), "attention-small-1-1").inline()
    );
    let page = page(&all);
    parsed(&page);
    assert!(page.contains("Where attention looks") && page.contains("one: memory has no map."));
    for told in ["b (1)\nb (1) 0.75, self (0) 0.25", "c (2)\nsees no key"] {
        assert!(page.contains(told), "{told}");
    }
}

#[test]
fn a_page_has_the_texts_and_the_histograms_of_a_training() {
    let mut one = run("one", 40);
    one.samples = (1..=30)
        .map(|n| SampleLine { text: format!("text {n}\nend"), update: 10 * n, ..texts("Once")[0].clone() })
        .collect();
    one.histograms = histograms("embed.table", 40);
    let page = page(&report(vec![one.clone()], vec![model("small")]));
    let tree = parsed(&page);
    let written: Vec<&str> = tree
        .descendants()
        .filter(|node| node.attribute("class") == Some("long written"))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!((written.len(), written[0], written[11]), (12, "text 1\nend", "text 30\nend"), "{written:?}");
    assert!(page.contains("The table has 12 of 30 updates.") && page.contains("The pictures have 12 of 40 updates."));
    let of = |name: &str| {
        let figure = tree.descendants().find(|node| node.attribute("data-name") == Some(name)).expect(name);
        figure.descendants().filter(|node| node.attribute("class") == Some("ridge")).count()
    };
    assert_eq!(of("histogram-one-embed_table-weights"), 12);
    assert_eq!(of("histogram-one-embed_table-gradients"), 12, "equal numbers are a line");
    assert!(
        page.contains("update 40\nleast -0.0500, largest 4.75, root mean square 2.76, 90 numbers"),
        "under the pointer"
    );
    // Runs are told apart; one without such records has none of it.
    let two = rtc_report::page(&report(vec![one, run("two", 5)], vec![model("small")]));
    assert!(two.contains("<summary>Samples of one</summary>") && !two.contains("Samples of two"));
    assert!(!rtc_report::page(&report(vec![run("two", 5)], vec![])).contains("<summary>Samples"));
}

#[test]
fn nothing_that_a_user_writes_becomes_markup() {
    let mut hostile = run(HOSTILE, 70);
    hostile.dev = HOSTILE.to_owned();
    hostile.state = HOSTILE.to_owned();
    hostile.chosen = HOSTILE.to_owned();
    hostile.results[0].split = HOSTILE.to_owned();
    hostile.lengths[0].split = HOSTILE.to_owned();
    (hostile.samples, hostile.histograms) = (texts(HOSTILE), histograms(HOSTILE, 3));
    let mut model = model(HOSTILE);
    model.text += HOSTILE;
    model.spec.iter_mut().for_each(|spec| spec.doc = HOSTILE.to_owned());
    model.traces[0].panels[0].positions[0] = HOSTILE.to_owned();
    model.traces[0].panels[0].place = HOSTILE.to_owned();
    model.traces[0].trees[0].place = HOSTILE.to_owned();
    model.traces[0].trees[0].positions[0] = HOSTILE.to_owned();
    model.traces[0].attention = vec![attention(HOSTILE)];
    model.traces[0].notes = vec![HOSTILE.to_owned()];
    model.clouds = vec![Cloud {
        place: HOSTILE.to_owned(),
        groups: vec![(HOSTILE.to_owned(), vec![[0.0, f64::NAN], [1.0, 2.0]])],
        ..Cloud::default()
    }];
    model.saliency = Some(SaliencyShares { examples: 1, shares: vec![] });
    hostile.command = HOSTILE.to_owned();
    for runs in [vec![hostile.clone()], vec![hostile.clone(), hostile]] {
        let mut report = report(runs, vec![model.clone()]);
        report.title = HOSTILE.to_owned();
        report.notes = vec![HOSTILE.to_owned()];
        let compared = ["name", HOSTILE].map(|name| MeanInterval {
            name: name.to_owned(),
            row: Some(1),
            mean: 0.5,
            interval: Some((0.0, f64::NAN)),
        });
        let compared = ComparedMeans {
            name: HOSTILE.to_owned(),
            title: HOSTILE.to_owned(),
            unit: HOSTILE.to_owned(),
            rows: compared.into(),
        };
        report.tasks =
            vec![TaskResults { task: HOSTILE.to_owned(), tables: vec![table(HOSTILE)], compared: vec![compared] }];
        report.rows.iter_mut().for_each(|row| row.name = HOSTILE.to_owned());
        let page = page(&report);
        let tree = parsed(&page);
        let scripts: Vec<_> = tree.descendants().filter(|node| node.has_tag_name("script")).collect();
        let (own, data) = scripts.split_last().expect("the page has a script");
        assert!(own.text().is_some_and(|text| !text.contains("alert")));
        for script in data {
            assert!(script.parent().is_some_and(|figure| figure.has_tag_name("figure")));
            // A browser reads it as text up to the next `</`, a reader of XML with entities: there is neither in it.
            let raw = &page[script.range()];
            assert!(!raw.contains('&') && raw.matches('<').count() == 2, "{raw}");
            serde_json::from_str::<serde_json::Value>(script.text().expect("data")).expect("JSON");
        }
        for picture in pictures(&report, &FigureStyle::default()) {
            parsed(&picture.file());
            let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            assert!(picture.name.chars().all(plain), "{}", picture.name);
        }
    }
}

#[test]
fn odd_data_are_drawn_or_left_out() {
    let nothing = ReportRun { name: "new".to_owned(), state: "unfinished".to_owned(), ..ReportRun::default() };
    let empty = page(&report(vec![nothing.clone()], vec![]));
    parsed(&empty);
    assert_eq!(empty.matches("class=\"empty\"").count(), 3, "no results, no curves, nothing by length");
    let one_point = run("one", 1);
    let mut broken = run("broken", 90);
    for (n, step) in broken.steps.iter_mut().enumerate() {
        step.loss = [Some(f64::NAN), Some(f64::INFINITY), None, Some(1e308), Some(-1e308)][n % 5];
        step.accuracy = None;
    }
    broken.results[0].accuracy = Some(f64::NAN);
    broken.lengths[0].lengths = vec![OfLength::default()];
    let mut strange = model("strange");
    strange.traces[0].panels[0].units = vec![
        HaltingUnit::default(),
        HaltingUnit { start: 100, length: 5, weights: vec![0.5] },
        HaltingUnit { start: 5, length: 50, weights: vec![f64::NAN, 2.0, -1.0] },
    ];
    strange.traces[0].panels.push(Panel::default());
    strange.traces[0].trees[0].beams.push(Beam {
        weight: f64::NAN,
        score: Some(f64::NEG_INFINITY),
        count: 9,
        spans: vec![(4, 2), (3, 2), (0, 0), (5, 9), (usize::MAX, 2)],
    });
    strange.traces[0].trees.push(RecursionTree::default());
    strange.traces.push(InputTrace::default());
    for runs in [vec![one_point.clone()], vec![broken.clone()], vec![nothing, one_point, broken]] {
        let report = report(runs, vec![strange.clone()]);
        let page = page(&report);
        parsed(&page);
        for attribute in parsed(&page).descendants().flat_map(|node| node.attributes()) {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}: {value}");
        }
        for picture in pictures(&report, &FigureStyle::default()) {
            assert!(picture.png().expect("every picture can be drawn").starts_with(b"\x89PNG"));
        }
    }
}

/// What is drawn does not grow with the run.
#[test]
fn long_runs_stay_small() {
    let page = |updates| page(&report(vec![run("long", updates)], vec![]));
    let (short, long) = (page(10_000).len(), page(1_000_000).len());
    assert!(long < 600_000 && long < 2 * short, "{short} and {long} bytes");
    let many: Vec<ReportRun> = (0..60).map(|n| ReportRun { model: n % 12, seed: n as u64, ..run("r", 2000) }).collect();
    let models = (0..12).map(|n| model(&format!("m{n}"))).collect();
    let all = rtc_report::page(&report(many, models)).len();
    assert!(all < 5_000_000, "{all} bytes");
}

/// Letters come from the font in the program: without it the picture would be the same as one without texts.
#[test]
fn png_files_have_letters_on_any_machine() {
    let title = |name: &str| {
        let report = report(vec![run("one", 5)], vec![Model { traces: vec![], ..model(name) }]);
        let all = pictures(&report, &FigureStyle::default());
        picture(&all, &format!("structure-{name}")).png().expect("it can be drawn")
    };
    assert_ne!(title("iii"), title("mmm"));
}
