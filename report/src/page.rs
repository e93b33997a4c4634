//! The page: everything about a report in one HTML file that needs nothing else. It is also well-formed XML.

use rtc_compiler::spec;

use crate::analyses::analyses;
use crate::answers;
use crate::attention;
use crate::data::{Model, RecursionTree, ReportRun, RunReport};
use crate::diagram;
use crate::headline;
use crate::heatmap::heatmaps;
use crate::highlight;
use crate::intervals::intervals;
use crate::picture::Picture;
use crate::plots;
use crate::records::records;
use crate::steps::by_step;
use crate::style::FigureStyle;
use crate::svg::escape;
use crate::swept::swept;
use crate::table;
use crate::theme;
use crate::tree::trees;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page of a report.
pub fn page(report: &RunReport) -> String {
    document(report, None)
}

/// The page of a report that is served while its runs go on: it asks for a text at the address `version` beside it, and
/// loads itself anew when that is not `version`, which is a word of letters and digits, any more.
pub fn watched(report: &RunReport, version: &str) -> String {
    document(report, Some(version))
}

fn document(report: &RunReport, version: Option<&str>) -> String {
    let style = &FigureStyle::default();
    let (live, said) = match version {
        Some(version) => (format!(" data-watch=\"{}\"", escape(version)), "<p class=\"watch\" role=\"status\"></p>\n"),
        None => (String::new(), ""),
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n\
         <body{live}>\n<h1>{title}</h1>\n{said}",
        theme::adaptive(),
        title = escape(&report.title),
    );
    out += &format!("<p class=\"sub\">{}</p>\n", escape(&subtitle(report)));
    out += "<nav aria-label=\"Sections\"><a href=\"#results\">Results</a><a href=\"#training\">Training</a>\
            <a href=\"#length\">By length</a><a href=\"#models\">Models and halting</a><a href=\"#runs\">Runs</a></nav>\n<main>\n";
    for note in &report.notes {
        out += &format!("<p class=\"note\">{}</p>\n", escape(note));
    }
    out += &headline::headline(report);
    results(report, style, &mut out);
    section("training", "Training", &mut out);
    if report.runs.len() > 1 {
        out += "<p class=\"sub\">One colour per row of the table. A row of several runs has their mean with a band, one sample \
                deviation to each side, and the runs faintly behind it.</p>\n";
    }
    if report.runs.iter().any(|run| run.steps.len() >= 60) {
        out += "<p class=\"sub\">Training curves are moving means over a twenty-fifth of the run; of a single run the updates stand \
                faintly behind them.</p>\n";
    }
    figures(&plots::curves(report, style), "Nothing is logged yet.", &mut out);
    out += &records(report, style);
    section("length", "By length", &mut out);
    if report.runs.len() > 1 {
        out += "<p class=\"sub\">All measured splits of a run together.</p>\n";
    }
    figures(&plots::by_length(report, style), "Nothing was measured by length.", &mut out);
    told(GRID, &plots::by_edit(report, style), EDITS, &mut out);
    section("models", "Models and halting", &mut out);
    for model in &report.models {
        describe(model, style, &mut out);
    }
    section("runs", "Runs", &mut out);
    out += &table::runs(report);
    for run in &report.runs {
        details(run, &mut out);
    }
    // A browser sees a comment where a reader of XML sees the end of the markup.
    out + &format!("</main>\n<script>//<![CDATA[\n{SCRIPT}//]]></script>\n</body>\n</html>\n")
}

fn subtitle(report: &RunReport) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match report.runs.as_slice() {
        [run] => format!("{}, seed {}, {}", report.models.get(run.model).map_or("", |m| &m.name), run.seed, run.state),
        runs => {
            let models = count(report.models.len(), "model");
            match report.rows.len() == report.models.len() {
                true => format!("{}, {models}", count(runs.len(), "run")),
                false => format!("{} in {}, {models}", count(runs.len(), "run"), count(report.rows.len(), "row")),
            }
        }
    }
}

fn section(id: &str, title: &str, out: &mut String) {
    *out += &format!("<h2 id=\"{id}\">{title}</h2>\n");
}

fn results(report: &RunReport, style: &FigureStyle, out: &mut String) {
    section("results", "Results", out);
    match table::results(report) {
        Some(table) => *out += &table,
        None => *out += "<p class=\"empty\">No run is finished yet.</p>\n",
    }
    if let [run] = report.runs.as_slice()
        && !run.chosen.is_empty()
    {
        *out += &format!("<p class=\"sub\">{}</p>\n", escape(&run.chosen));
    }
    let compared: Vec<Picture> = report.tasks.iter().flat_map(|task| intervals(&task.compared, style)).collect();
    told(GRID, &compared, INTERVALS, out);
    told(GRID, &swept(report, style), SWEPT, out);
}

const BRIEF: &str = "The spec without what follows from defaults. Fields that differ from their defaults stand in the picture; the pointer \
    finds the others.";
const HALTING: &str = "How single inputs halt: every column is a position, every row a state, and the colour is what the state weighs in \
    the output. Under the pointer are the numbers.";
const ATTENTION: &str = "Where attention looks in single inputs: every row asks, the colour is how much it weighs each key. Under the pointer are the \
    heaviest keys.";
const EDITS: &str = "The best checkpoint under edits that leave its weights as they are (`evaluate_at` of the experiment), as more steps of a loop \
    than in training.";
const INTERVALS: &str =
    "The means of all rows of a task, and where they lie in 95 % of cases; the tables say how that was found.";
const SWEPT: &str = "The settings that the rows of a model differ in. A disc is a run, the line goes through the means of all runs with a value. \
    Where several settings differ, a line per row goes through all of its values to its mean: the deeper its colour, the better.";
const STEPS: &str = "After every number of steps, some lengths by themselves. Rings stand at the steps that come with the examples, discs \
    where the model is surest on all examples of a length together. Labels play no part in how sure it is.";
const ANALYSES: &str = "States are coloured by what the part of the string that they have seen does to every state of the task's automaton, \
    or by their step where the task has none. The slopes of the answer by its tokens are summed up from the last token: a straight \
    line leans on all tokens alike.";

/// The class of pictures in columns.
const GRID: &str = "grid-of";

/// Pictures in columns, or a sentence where there are none.
fn figures(pictures: &[Picture], nothing: &str, out: &mut String) {
    match pictures {
        [] => *out += &format!("<p class=\"empty\">{nothing}</p>\n"),
        _ => all(GRID, pictures, out),
    }
}

/// Pictures below what is said of them; nothing where there are none.
fn told(class: &str, pictures: &[Picture], text: &str, out: &mut String) {
    if !pictures.is_empty() {
        *out += &format!("<p class=\"sub\">{text}</p>\n");
        all(class, pictures, out);
    }
}

fn all(class: &str, pictures: &[Picture], out: &mut String) {
    *out += &format!("<div class=\"{class}\">\n");
    for picture in pictures {
        *out += &picture.figure();
    }
    *out += "</div>\n";
}

/// A model: structure and spec side by side, then how it halts and folds, and what its states and answers are made of.
fn describe(model: &Model, style: &FigureStyle, out: &mut String) {
    *out += &format!("<h3>{}</h3>\n", escape(&model.name));
    let doc = model.spec.as_ref().map_or("", |spec| &spec.doc);
    if !doc.is_empty() {
        *out += &format!("<p class=\"sub\">{}</p>\n", escape(doc));
    }
    let text = |text: &str| format!("<pre>{}</pre>", highlight::html(text));
    let complete = |kind| format!("<details><summary>{kind}</summary>\n{}</details>\n", text(&model.text));
    *out += &match (diagram::structure(model, style), &model.spec) {
        (Some(structure), Some(spec)) => format!(
            "<div class=\"grid-of\">\n{}<div>\n<p class=\"sub\">{BRIEF}</p>\n{}\n{}</div>\n</div>\n",
            structure.figure(),
            text(&spec::text(&diagram::brief(spec))),
            complete("Complete spec, every default written out")
        ),
        _ => complete("Graph"),
    };
    told("row", &heatmaps(model, style), HALTING, out);
    folding(model, style, out);
    told("row", &attention::maps(model, style), ATTENTION, out);
    for note in model.traces.iter().flat_map(|trace| &trace.notes) {
        *out += &format!("<p class=\"sub\">{}</p>\n", escape(note));
    }
    told(GRID, &by_step(model, style), STEPS, out);
    told(GRID, &analyses(model, style), ANALYSES, out);
    *out += &answers::answers(model);
}

/// What recursions make of chosen inputs: drawn, and with brackets.
fn folding(model: &Model, style: &FigureStyle, out: &mut String) {
    if model.traces.iter().all(|trace| trace.trees.is_empty()) {
        return;
    }
    *out += "<p class=\"sub\">What is joined with what in single inputs. A search has several trees: what each weighs in the output, \
             and the logarithm of its probability. Equal trees are drawn once.</p>\n";
    all("row", &trees(model, style), out);
    for trace in &model.traces {
        let text = |tree: &RecursionTree| {
            let line = |beam| format!("{}\n{}\n", tree.describe(beam), tree.bracketed(beam));
            tree.beams.iter().map(line).collect::<String>()
        };
        let text: String = trace.trees.iter().map(text).collect();
        *out +=
            &format!("<details><summary>{}</summary>\n<pre>{}</pre></details>\n", escape(&trace.title), escape(&text));
    }
}

fn details(run: &ReportRun, out: &mut String) {
    *out += &format!("<details class=\"run\"><summary>{}</summary>\n", escape(&run.name));
    *out += "<table class=\"facts still\">\n<tbody>\n";
    for (name, value) in &run.facts {
        *out += &format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(name), escape(value));
    }
    *out += &format!("<tr><th scope=\"row\">seed</th><td>{}</td></tr>\n</tbody></table>\n", run.seed);
    if !run.command.is_empty() {
        *out += &format!(
            "<p>The same training again:</p>\n<pre class=\"line\">{}</pre>\n<p>Its experiment:</p>\n",
            escape(&run.command)
        );
    }
    *out += &format!("<pre>{}</pre></details>\n", escape(&run.experiment));
}
