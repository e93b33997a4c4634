//! The page: everything about a report in one HTML file that needs nothing else. It is also well-formed XML.

use crate::analyses::analyses;
use crate::data::{Model, Report, Run, Tree};
use crate::diagram;
use crate::heatmap::heatmaps;
use crate::highlight;
use crate::picture::Picture;
use crate::plots;
use crate::steps::by_step;
use crate::svg::escape;
use crate::table;
use crate::theme;
use crate::tree::trees;

const STYLE: &str = "\
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:24px;background:var(--paper);color:var(--ink);\
font:15px/1.5 \"Noto Sans\",system-ui,\"Segoe UI\",Helvetica,Arial,sans-serif}
h1{font-size:24px;margin:0 0 4px}
h2{font-size:19px;margin:36px 0 10px;padding-top:14px;border-top:1px solid var(--grid)}
h3{font-size:16px;margin:22px 0 8px}
p{margin:6px 0;max-width:80ch}
.sub,figcaption,.empty{color:var(--muted)}
nav a{color:var(--accent);margin-right:16px}
.grid-of{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,480px),1fr));gap:18px;align-items:start}
figure{margin:0}
.picture{max-width:100%;height:auto;display:block}
.row{display:flex;flex-wrap:wrap;gap:18px 28px;align-items:start}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px 4px 0;text-align:left;border-bottom:1px solid var(--grid);white-space:nowrap}
th{color:var(--muted);font-weight:600}
.n{text-align:right}
.b{font-weight:700}
pre{background:var(--panel);border-radius:6px;padding:12px;overflow-x:auto;margin:0;\
font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
details{margin:8px 0}
summary{cursor:pointer;color:var(--accent)}
.note{background:var(--panel);border-left:3px solid var(--hot);padding:6px 12px;margin:6px 0}
.key{color:var(--s0);font-weight:600}
.fld{color:var(--s2)}
.num{color:var(--s1)}
.com{color:var(--muted)}
@media print{body{max-width:none}details{display:block}}
";

/// The page of a report.
pub fn page(report: &Report) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\"/>\n<title>{title}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n",
        theme::adaptive(),
        title = escape(&report.title),
    );
    out += &format!("<p class=\"sub\">{}</p>\n", escape(&subtitle(report)));
    out += "<nav><a href=\"#results\">Results</a><a href=\"#training\">Training</a><a href=\"#length\">By length</a>\
            <a href=\"#models\">Models and halting</a><a href=\"#runs\">Runs</a></nav>\n";
    for note in &report.notes {
        out += &format!("<p class=\"note\">{}</p>\n", escape(note));
    }
    results(report, &mut out);
    section("training", "Training", &mut out);
    if report.runs.len() > 1 {
        out += "<p class=\"sub\">One colour per row of the table, one line per run.</p>\n";
    }
    if report.runs.iter().any(|run| run.steps.len() >= 60) {
        out += "<p class=\"sub\">Training curves are moving means over a twenty-fifth of the run; single updates stand faintly \
                behind them.</p>\n";
    }
    figures(&plots::curves(report), "Nothing is logged yet.", &mut out);
    section("length", "By length", &mut out);
    if report.runs.len() > 1 {
        out += "<p class=\"sub\">All measured splits and seeds of a row together.</p>\n";
    }
    figures(&plots::by_length(report), "Nothing was measured by length.", &mut out);
    section("models", "Models and halting", &mut out);
    for model in &report.models {
        describe(model, &mut out);
    }
    section("runs", "Runs", &mut out);
    out += &table::runs(report);
    for run in &report.runs {
        details(run, &mut out);
    }
    out + "</body>\n</html>\n"
}

fn subtitle(report: &Report) -> String {
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

fn results(report: &Report, out: &mut String) {
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
}

const HALTING: &str = "How single inputs halt: every column is a position, every row a state, and the colour is what the state weighs in \
    the output. Under the pointer are the numbers.";
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
        *out += &format!("<figure>\n{}</figure>\n", picture.inline());
    }
    *out += "</div>\n";
}

/// A model: structure and spec side by side, then how it halts and folds, and what its states and answers are made of.
fn describe(model: &Model, out: &mut String) {
    *out += &format!("<h3>{}</h3>\n", escape(&model.name));
    let doc = model.spec.as_ref().map_or("", |spec| &spec.doc);
    if !doc.is_empty() {
        *out += &format!("<p class=\"sub\">{}</p>\n", escape(doc));
    }
    let (figure, kind, open) = match diagram::structure(model) {
        Some(structure) => (format!("<figure>\n{}</figure>\n", structure.inline()), "Spec", " open=\"open\""),
        // A graph is long: it opens on demand.
        None => (String::new(), "Graph", ""),
    };
    *out += &format!(
        "<div class=\"grid-of\">\n{figure}<details{open}><summary>{kind}</summary>\n<pre>{}</pre></details>\n</div>\n",
        highlight::html(&model.text)
    );
    told("row", &heatmaps(model), HALTING, out);
    folding(model, out);
    told(GRID, &by_step(model), STEPS, out);
    told(GRID, &analyses(model), ANALYSES, out);
}

/// What recursions make of chosen inputs: drawn, and with brackets.
fn folding(model: &Model, out: &mut String) {
    if model.traces.iter().all(|trace| trace.trees.is_empty()) {
        return;
    }
    *out += "<p class=\"sub\">What is joined with what in single inputs. A search has several trees: what each weighs in the output, \
             and the logarithm of its probability. Equal trees are drawn once.</p>\n";
    all("row", &trees(model), out);
    for trace in &model.traces {
        let text = |tree: &Tree| {
            let line = |beam| format!("{}\n{}\n", tree.describe(beam), tree.bracketed(beam));
            tree.beams.iter().map(line).collect::<String>()
        };
        let text: String = trace.trees.iter().map(text).collect();
        *out +=
            &format!("<details><summary>{}</summary>\n<pre>{}</pre></details>\n", escape(&trace.title), escape(&text));
    }
}

fn details(run: &Run, out: &mut String) {
    *out += &format!("<details><summary>{}</summary>\n<table>\n<tbody>\n", escape(&run.name));
    for (name, value) in &run.facts {
        *out += &format!("<tr><td>{}</td><td>{}</td></tr>\n", escape(name), escape(value));
    }
    *out += &format!("<tr><td>seed</td><td>{}</td></tr>\n</tbody></table>\n", run.seed);
    *out += &format!("<pre>{}</pre></details>\n", escape(&run.experiment));
}
