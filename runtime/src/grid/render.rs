//! A table as text, Markdown, CSV or LaTeX.

use super::latex::latex;
use super::sheet::{Line, Look, Mean, Sheet};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns.
    Text,
    /// A table of GitHub's Markdown.
    Markdown,
    /// Numbers with all their digits, mean and deviation apart.
    Csv,
    /// A `tabular` that needs the package `booktabs`.
    Latex,
}

/// The table in a format; ends with a line break.
pub fn render(sheet: &Sheet, format: Format) -> String {
    match format {
        Format::Text => text(sheet),
        Format::Markdown => markdown(sheet),
        Format::Csv => csv(sheet),
        Format::Latex => latex(sheet),
    }
}

impl Look {
    /// A number as people read it.
    pub(super) fn write(self, number: f64) -> String {
        match self {
            Self::Share => format!("{:.1}", 100.0 * number),
            Self::Digits(digits) => format!("{number:.digits$}"),
            Self::Whole => grouped(number),
        }
    }

    /// Mean and deviation with something between them; `-` where there is no number.
    pub(super) fn both(self, mean: &Mean, between: &str) -> String {
        match (mean.mean, mean.deviation) {
            (None, _) => "-".to_owned(),
            (Some(mean), None) => self.write(mean),
            (Some(mean), Some(deviation)) => format!("{}{between}{}", self.write(mean), self.write(deviation)),
        }
    }
}

/// A whole number with commas between thousands.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// The name with the numbers of its notes: `gut [1]`.
fn marked(line: &Line) -> String {
    line.notes.iter().fold(line.name.clone(), |name, note| format!("{name} [{note}]"))
}

fn cells(sheet: &Sheet) -> Vec<Vec<String>> {
    let titles = sheet.columns.iter().map(|column| column.title.clone());
    let head = std::iter::once("model".to_owned()).chain(titles).collect();
    let row = |line: &Line| {
        let values = sheet.columns.iter().zip(&line.values).map(|(column, value)| column.look.both(value, " ± "));
        std::iter::once(marked(line)).chain(values).collect()
    };
    std::iter::once(head).chain(sheet.rows.iter().map(row)).collect()
}

fn notes(sheet: &Sheet) -> String {
    let notes = (1..).zip(&sheet.notes).map(|(n, note)| format!("[{n}] {note}\n"));
    std::iter::once(format!("{}\n", sheet.caption)).chain(notes).collect()
}

/// The first column to the left, the others to the right.
fn padded(cells: &[Vec<String>]) -> Vec<Vec<String>> {
    let width = |column: usize| cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let pad = |(column, cell): (usize, &String)| {
        let width = width(column).unwrap_or(0);
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    };
    cells.iter().map(|row| row.iter().enumerate().map(pad).collect()).collect()
}

fn text(sheet: &Sheet) -> String {
    let lines = padded(&cells(sheet)).into_iter().map(|row| format!("{}\n", row.join("  ").trim_end()));
    lines.collect::<String>() + &notes(sheet)
}

fn markdown(sheet: &Sheet) -> String {
    let escaped =
        |cell: &String| cell.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('_', "\\_");
    let cells: Vec<Vec<String>> = cells(sheet).iter().map(|row| row.iter().map(escaped).collect()).collect();
    let rows = padded(&cells);
    let dashes = |(column, cell): (usize, &String)| {
        let width = cell.chars().count();
        if column == 0 { "-".repeat(width.max(3)) } else { format!("{}:", "-".repeat(width.max(3) - 1)) }
    };
    let rule: Vec<Vec<String>> =
        rows.first().map(|head| head.iter().enumerate().map(dashes).collect()).into_iter().collect();
    let order = rows.iter().take(1).chain(&rule).chain(rows.iter().skip(1));
    let table: String = order.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    let below: Vec<String> = notes(sheet).lines().map(|line| escaped(&line.to_owned())).collect();
    format!("{table}\n{}\n", below.join("  \n"))
}

fn csv(sheet: &Sheet) -> String {
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut out = vec![];
    let mut head = vec!["model".to_owned()];
    for column in &sheet.columns {
        head.push(column.title.clone());
        if column.look != Look::Whole {
            head.push(format!("{} deviation", column.title));
        }
    }
    head.push("notes".to_owned());
    out.push(head);
    for line in &sheet.rows {
        let mut row = vec![line.name.clone()];
        for (column, value) in sheet.columns.iter().zip(&line.values) {
            row.push(number(value.mean));
            if column.look != Look::Whole {
                row.push(number(value.deviation));
            }
        }
        let notes = line.notes.iter().filter_map(|note| sheet.notes.get(note - 1).cloned());
        row.push(notes.collect::<Vec<_>>().join("; "));
        out.push(row);
    }
    out.iter().map(|row| row.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",") + "\n").collect()
}

/// A field of a CSV file, as RFC 4180 has it.
fn quoted(field: &str) -> String {
    let plain = !field.contains([',', '"', '\n', '\r']);
    if plain { field.to_owned() } else { format!("\"{}\"", field.replace('"', "\"\"")) }
}
