//! A table as LaTeX with the rules of `booktabs`.

use super::render::{TextCell, TextTable, means, worths};
use super::sheet::{Sheet, SheetRow};

/// A `tabular` for the means and one for what they are worth, to be put into a document with `\input`, each with its notes
/// below. They are no rows of it, since a wide row would stretch the last column.
pub(super) fn latex(sheet: &Sheet) -> String {
    let mut first = means(sheet, " \\pm ");
    first.head = first.head.iter().map(|title| escaped(title)).collect();
    for (row, line) in first.rows.iter_mut().zip(&sheet.rows) {
        row[0].text = noted(line);
        row[1..].iter_mut().for_each(|cell| cell.text = mathematics(cell));
    }
    let notes = (1..).zip(&sheet.notes).map(|(n, text)| format!("\\textsuperscript{{{n}}} {}", escaped(text)));
    first.below = std::iter::once(escaped(&sheet.caption)).chain(notes).collect();
    let second = worths(sheet).map(|mut table| {
        let names = table.names;
        table.head = table.head.iter().map(|title| escaped(title)).collect();
        for row in &mut table.rows {
            row[..names].iter_mut().for_each(|cell| cell.text = escaped(&cell.text));
            row[names..].iter_mut().for_each(|cell| cell.text = mathematics(cell));
        }
        table.below = table.below.iter().map(|line| escaped(line)).collect();
        table
    });
    let tables: Vec<String> = std::iter::once(&first).chain(&second).map(tabular).collect();
    format!("% needs \\usepackage{{booktabs}}\n{}", tables.join("\\par\\bigskip\n"))
}

/// A table whose texts are LaTeX.
fn tabular(table: &TextTable) -> String {
    let sides = "l".repeat(table.names) + &"r".repeat(table.head.len() - table.names);
    let mut out = format!("\\begin{{tabular}}{{{sides}}}\n\\toprule\n{}\\midrule\n", row(table.head.iter().cloned()));
    for line in &table.rows {
        out.push_str(&row(line.iter().map(|cell| cell.text.clone())));
    }
    out.push_str("\\bottomrule\n\\end{tabular}\n\\par\\smallskip\n");
    for line in &table.below {
        out.push_str(&format!("{{\\footnotesize {line}\\par}}\n"));
    }
    out
}

fn row(cells: impl Iterator<Item = String>) -> String {
    format!("{} \\\\\n", cells.collect::<Vec<_>>().join(" & "))
}

/// Numbers between dollars: the best in bold, a difference that is marked with a star.
fn mathematics(cell: &TextCell) -> String {
    if cell.text == "-" {
        return "--".to_owned();
    }
    if cell.text.chars().all(char::is_alphabetic) {
        return cell.text.clone();
    }
    let text = cell.text.replace(',', "{,}").replace("{,} ", ",\\ ").replace(" [", "\\ [");
    let text = if cell.best { format!("\\mathbf{{{text}}}") } else { text };
    let star = if cell.marked { "^{*}" } else { "" };
    format!("${text}{star}$")
}
fn noted(line: &SheetRow) -> String {
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
