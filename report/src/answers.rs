//! What a model answers: how often which class for which, and some examples.

use crate::data::{Confusion, ExampleAnswer, Model, ReportAnswers};
use crate::svg::escape;
use crate::theme::LEVELS;

/// The answers of a model; nothing where it was not asked.
pub(crate) fn answers(model: &Model) -> String {
    let Some(ReportAnswers { run, split, examples, confusion, shown }) = &model.answers else { return String::new() };
    let plural = if *examples == 1 { "" } else { "s" };
    let title = format!("Answers of {run} on {split}, {examples} example{plural}");
    let mut out = format!("<details><summary>{}</summary>\n", escape(&title));
    out += &confusion.as_ref().map(matrix).unwrap_or_default();
    if !shown.is_empty() {
        out += "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\" class=\"n\">example</th><th scope=\"col\">answer</th>\
                <th scope=\"col\" class=\"n\">sure (%)</th><th scope=\"col\">right is</th><th scope=\"col\">input</th></tr></thead>\n<tbody>\n";
        out += &shown.iter().map(row).collect::<String>();
        out += "</tbody></table></div>\n";
    }
    out + "</details>\n"
}

fn row(answer: &ExampleAnswer) -> String {
    let (class, mark) = match answer.is_right {
        Some(true) => (" class=\"right\"", " ✓"),
        Some(false) => (" class=\"wrong\"", " ✗"),
        None => ("", ""),
    };
    let sure =
        answer.sure.filter(|sure| sure.is_finite()).map_or("-".to_owned(), |sure| format!("{:.0}", 100.0 * sure));
    format!(
        "<tr><td class=\"n\">{}</td><td{class}>{}{mark}</td><td class=\"n\">{sure}</td><td>{}</td><td class=\"long\">{}</td></tr>\n",
        answer.number,
        escape(&answer.said),
        escape(&answer.right),
        escape(&answer.input)
    )
}

/// A row per right class, a column per answer. The colour is the share of the row.
fn matrix(found: &Confusion) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table class=\"confusion still\">\n<caption>Rows are right classes, columns are answers.</caption>\n\
         <thead><tr><th></th>",
    );
    for class in &found.classes {
        out += &format!("<th scope=\"col\">{}</th>", escape(class));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (class, counts) in found.classes.iter().zip(&found.counts) {
        let all: u64 = counts.iter().sum();
        out += &format!("<tr><th scope=\"row\">{}</th>", escape(class));
        for count in counts {
            let level = (*count as f64 / all.max(1) as f64 * LEVELS as f64).ceil() as usize;
            let class = match level.min(LEVELS) {
                0 => String::new(),
                level if level > LEVELS / 2 => format!(" class=\"h{level} dark\""),
                level => format!(" class=\"h{level}\""),
            };
            out += &format!("<td{class}>{count}</td>");
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}
