//! A table as LaTeX with the rules of `booktabs`.

use super::sheet::{Line, Sheet};

/// A `tabular` to be put into a document with `\input`, with its notes below. They are no rows of it, since a wide row
/// would stretch the last column.
pub(super) fn latex(sheet: &Sheet) -> String {
    let mut out = String::from("% needs \\usepackage{booktabs}\n");
    out.push_str(&format!("\\begin{{tabular}}{{l{}}}\n\\toprule\n", "r".repeat(sheet.columns.len())));
    let titles = sheet.columns.iter().map(|column| escaped(&column.title));
    out.push_str(&row(std::iter::once("model".to_owned()).chain(titles)));
    out.push_str("\\midrule\n");
    for line in &sheet.rows {
        let values = sheet.columns.iter().zip(&line.values).map(|(column, value)| match value.mean {
            None => "--".to_owned(),
            Some(_) => format!("${}$", column.look.both(value, " \\pm ").replace(',', "{,}")),
        });
        out.push_str(&row(std::iter::once(marked(line)).chain(values)));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n\\par\\smallskip\n");
    let note = |text: String| format!("{{\\footnotesize {text}\\par}}\n");
    out.push_str(&note(escaped(&sheet.caption)));
    for (n, text) in (1..).zip(&sheet.notes) {
        out.push_str(&note(format!("\\textsuperscript{{{n}}} {}", escaped(text))));
    }
    out
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("{} \\\\\n", cells.collect::<Vec<_>>().join(" & "))
}

fn marked(line: &Line) -> String {
    let notes: Vec<String> = line.notes.iter().map(usize::to_string).collect();
    let mark = if notes.is_empty() { String::new() } else { format!("\\textsuperscript{{{}}}", notes.join(",")) };
    escaped(&line.name) + &mark
}

/// Text in which no character means anything to LaTeX.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("\\textless{}"),
            '>' => out.push_str("\\textgreater{}"),
            '|' => out.push_str("\\textbar{}"),
            '±' => out.push_str("$\\pm$"),
            _ if c.is_control() => out.push(' '),
            // Brackets behind a line break would be its argument; dashes would join.
            '[' | ']' | '-' if out.ends_with(c) => out.extend(['{', '}', c]),
            '[' if out.is_empty() => out.extend(['{', '[', '}']),
            _ => out.push(c),
        }
    }
    out
}
