//! A table as text, Markdown, CSV or LaTeX.

use super::latex::latex;
use super::sheet::{Mean, NumberStyle, Sheet, SheetColumn, SheetRow};
use super::worth::{MARKED, Worth};
use crate::statistics::Interval;

/// The format of a written table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
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
pub fn render(sheet: &Sheet, format: TableFormat) -> String {
    match format {
        TableFormat::Text => text(sheet),
        TableFormat::Markdown => markdown(sheet),
        TableFormat::Csv => csv(sheet),
        TableFormat::Latex => latex(sheet),
    }
}

/// A table of texts with sentences below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextTable {
    /// The titles of the columns.
    pub head: Vec<String>,
    /// How many columns stand to the left, as names do; numbers stand to the right.
    pub names: usize,
    /// The rows.
    pub rows: Vec<Vec<TextCell>>,
    /// What stands below.
    pub below: Vec<String>,
}

/// A cell of a table of texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextCell {
    /// What it says.
    pub text: String,
    /// Whether it is the best of its column.
    pub best: bool,
    /// Whether its difference from the baseline is marked.
    pub marked: bool,
}

impl TextCell {
    fn plain(text: String) -> Self {
        Self { text, ..Self::default() }
    }

    /// The text with its mark behind it.
    pub fn with_mark(&self) -> String {
        if self.marked { format!("{} *", self.text) } else { self.text.clone() }
    }
}

/// The tables of a sheet: the means, and what they are worth where that is known.
pub fn text_tables(sheet: &Sheet) -> Vec<TextTable> {
    std::iter::once(means(sheet, " ± ")).chain(worths(sheet)).collect()
}

/// The means with something between mean and deviation.
pub(super) fn means(sheet: &Sheet, between: &str) -> TextTable {
    let titles = sheet.columns.iter().map(|column| column.title.clone());
    let row = |line: &SheetRow| {
        let values = sheet.columns.iter().enumerate().zip(&line.values).map(|((at, column), value)| TextCell {
            text: column.look.both(value, between, spread(sheet, at)),
            best: value.best,
            marked: value.worth.differs(),
        });
        std::iter::once(TextCell::plain(noted(line))).chain(values).collect()
    };
    let notes = (1..).zip(&sheet.notes).map(|(n, note)| format!("[{n}] {note}"));
    TextTable {
        head: std::iter::once("model".to_owned()).chain(titles).collect(),
        names: 1,
        rows: sheet.rows.iter().map(row).collect(),
        below: std::iter::once(sheet.caption.clone()).chain(notes).collect(),
    }
}

/// Whether any number of a column has a deviation: then one without says so.
fn spread(sheet: &Sheet, at: usize) -> bool {
    sheet.rows.iter().any(|line| line.values[at].deviation.is_some())
}

/// What the means are worth, a row for each; columns without any entry are left out. Nothing if nothing is known.
pub(super) fn worths(sheet: &Sheet) -> Option<TextTable> {
    let baseline = sheet.baseline.as_deref()?;
    let tested: Vec<(usize, &SheetColumn)> =
        sheet.columns.iter().enumerate().filter(|(_, column)| column.tested).collect();
    let mut rows = vec![];
    for (at, column) in &tested {
        for line in sheet.rows.iter().filter(|line| line.values[*at].runs > 0) {
            rows.push(worth_row(column, line, &line.values[*at].worth, line.name == baseline));
        }
    }
    let head = ["", "model", "95 % interval", &format!("difference from {baseline}"), "p (seeds)", "p (examples)"];
    let mut table = TextTable { head: head.map(str::to_owned).to_vec(), names: 2, rows, below: sheet.remarks.clone() };
    if tested.len() == 1 {
        table.leave_out(0);
        table.names = 1;
    }
    for at in (table.names..table.head.len()).rev() {
        if table.rows.iter().all(|row| ["-", BASELINE].contains(&row[at].text.as_str())) {
            table.leave_out(at);
        }
    }
    (table.head.len() > table.names).then_some(table)
}

/// Stands in place of the difference of the baseline from itself.
const BASELINE: &str = "baseline";

fn worth_row(column: &SheetColumn, line: &SheetRow, worth: &Worth, is_baseline: bool) -> Vec<TextCell> {
    let look = column.look;
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let difference = worth.difference.map(|difference| {
        let interval = worth.difference_interval.map(|(interval, _)| format!(" {}", look.signed_interval(interval)));
        look.signed(difference) + &interval.unwrap_or_default()
    });
    let p =
        |p: Option<f64>| TextCell { marked: p.is_some_and(|p| p < MARKED), ..TextCell::plain(or_none(p.map(p_value))) };
    vec![
        TextCell::plain(column.title.clone()),
        TextCell::plain(line.name.clone()),
        TextCell::plain(or_none(worth.interval.map(|(interval, _)| look.interval(interval)))),
        TextCell::plain(if is_baseline { BASELINE.to_owned() } else { or_none(difference) }),
        p(worth.seeds),
        p(worth.examples),
    ]
}

/// A p-value with three digits behind the point.
fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

impl TextTable {
    fn leave_out(&mut self, at: usize) {
        self.head.remove(at);
        self.rows.iter_mut().for_each(|row| {
            row.remove(at);
        });
    }
}

impl NumberStyle {
    /// A number as people read it.
    pub(super) fn write(self, number: f64) -> String {
        match self {
            Self::Share => format!("{:.1}", 100.0 * number),
            Self::Digits(digits) => format!("{number:.digits$}"),
            Self::Whole => grouped(number),
        }
    }

    /// The same with its sign.
    fn signed(self, number: f64) -> String {
        let text = self.write(number);
        if text.starts_with('-') { text } else { format!("+{text}") }
    }

    fn interval(self, found: Interval) -> String {
        format!("[{}, {}]", self.write(found.low), self.write(found.high))
    }

    fn signed_interval(self, found: Interval) -> String {
        format!("[{}, {}]", self.signed(found.low), self.signed(found.high))
    }

    /// Mean and deviation with something between them; `-` where there is no number, and no deviation of the only one in a
    /// column that has some.
    pub(super) fn both(self, mean: &Mean, between: &str, spread: bool) -> String {
        match (mean.mean, mean.deviation) {
            (None, _) => "-".to_owned(),
            (Some(number), Some(deviation)) => format!("{}{between}{}", self.write(number), self.write(deviation)),
            (Some(number), None) if spread && mean.runs == 1 => format!("{}{between}-", self.write(number)),
            (Some(number), None) => self.write(number),
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
fn noted(line: &SheetRow) -> String {
    line.notes.iter().fold(line.name.clone(), |name, note| format!("{name} [{note}]"))
}

/// The first columns to the left, the others to the right.
fn padded(cells: &[Vec<String>], names: usize) -> Vec<Vec<String>> {
    let width = |column: usize| cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let pad = |(column, cell): (usize, &String)| {
        let width = width(column).unwrap_or(0);
        if column < names { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    };
    cells.iter().map(|row| row.iter().enumerate().map(pad).collect()).collect()
}

/// The texts of a table; a cell without a mark leaves room where others of its column have one.
fn texts(table: &TextTable, write: impl Fn(&TextCell) -> String) -> Vec<Vec<String>> {
    let marked = |at: usize| table.rows.iter().any(|row| row[at].marked);
    let cell = |(at, cell): (usize, &TextCell)| {
        let room = if marked(at) && !cell.marked { "  " } else { "" };
        write(cell) + room
    };
    let head = table.head.iter().enumerate().map(|(at, title)| title.clone() + if marked(at) { "  " } else { "" });
    let rows = table.rows.iter().map(|row| row.iter().enumerate().map(cell).collect::<Vec<_>>());
    std::iter::once(head.collect()).chain(rows).collect()
}

fn text(sheet: &Sheet) -> String {
    let one = |table: &TextTable| {
        let rows = padded(&texts(table, TextCell::with_mark), table.names);
        let lines = rows.into_iter().map(|row| format!("{}\n", row.join("  ").trim_end()));
        lines.collect::<String>() + &table.below.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    text_tables(sheet).iter().map(one).collect::<Vec<_>>().join("\n")
}

fn markdown(sheet: &Sheet) -> String {
    text_tables(sheet).iter().map(markdown_table).collect::<Vec<_>>().join("\n")
}

fn markdown_table(table: &TextTable) -> String {
    let escaped = |cell: &str| {
        cell.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('_', "\\_").replace('*', "\\*")
    };
    let written = |cell: &TextCell| {
        let text = escaped(&cell.text);
        let text = if cell.best { format!("**{text}**") } else { text };
        if cell.marked { format!("{text} \\*") } else { text }
    };
    let head: Vec<String> = table.head.iter().map(|title| escaped(title)).collect();
    let body = table.rows.iter().map(|row| row.iter().map(written).collect());
    let rows = padded(&std::iter::once(head).chain(body).collect::<Vec<_>>(), table.names);
    let dashes = |(column, cell): (usize, &String)| {
        let width = cell.chars().count();
        if column < table.names { "-".repeat(width.max(3)) } else { format!("{}:", "-".repeat(width.max(3) - 1)) }
    };
    let rule: Vec<Vec<String>> =
        rows.first().map(|head| head.iter().enumerate().map(dashes).collect()).into_iter().collect();
    let order = rows.iter().take(1).chain(&rule).chain(rows.iter().skip(1));
    let lines: String = order.map(|row| format!("| {} |\n", row.join(" | "))).collect();
    let below: Vec<String> = table.below.iter().map(|line| escaped(line)).collect();
    format!("{lines}\n{}\n", below.join("  \n"))
}

/// A number of what a mean is worth.
type WorthNumber = fn(&Worth) -> Option<f64>;

/// What a tested column of a CSV file has besides mean and deviation.
const WORTH: [(&str, WorthNumber); 7] = [
    ("low", |worth| worth.interval.map(|(interval, _)| interval.low)),
    ("high", |worth| worth.interval.map(|(interval, _)| interval.high)),
    ("difference", |worth| worth.difference),
    ("difference low", |worth| worth.difference_interval.map(|(interval, _)| interval.low)),
    ("difference high", |worth| worth.difference_interval.map(|(interval, _)| interval.high)),
    ("p seeds", |worth| worth.seeds),
    ("p examples", |worth| worth.examples),
];

fn csv(sheet: &Sheet) -> String {
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let weighed = |column: &SheetColumn| column.tested && sheet.baseline.is_some();
    let mut head = vec!["model".to_owned()];
    for column in &sheet.columns {
        head.push(column.title.clone());
        if column.look != NumberStyle::Whole {
            head.push(format!("{} deviation", column.title));
        }
        if weighed(column) {
            head.extend(WORTH.map(|(name, _)| format!("{} {name}", column.title)));
        }
    }
    head.push("notes".to_owned());
    let mut out = vec![head];
    for line in &sheet.rows {
        let mut row = vec![line.name.clone()];
        for (column, value) in sheet.columns.iter().zip(&line.values) {
            row.push(number(value.mean));
            if column.look != NumberStyle::Whole {
                row.push(number(value.deviation));
            }
            if weighed(column) {
                row.extend(WORTH.map(|(_, of)| number(of(&value.worth))));
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
