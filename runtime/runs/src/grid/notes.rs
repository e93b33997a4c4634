//! The notes below a table: cells that failed, and runs that are not like the others.

use super::sheet::finished;
use super::{CellState, GridRow, HalvingStop, MeasuredRun};

/// Cells that failed and rows that were stopped, with the row of each.
pub(super) fn failures(rows: &[GridRow]) -> Vec<(usize, String)> {
    let mut found = vec![];
    for (index, row) in rows.iter().enumerate() {
        if let Some(CellState::Stopped(HalvingStop { update, rank, of })) = row.cells.first().map(|cell| &cell.state) {
            let place = format!("it was number {rank} of {of} rows on dev there");
            found.push((index, format!("{} was stopped after update {update}: {place}", row.name)));
        }
        for cell in &row.cells {
            if let CellState::Failed(fault, _) = &cell.state {
                found.push((index, format!("{} seed {} failed: {}", row.name, cell.seed, fault.message)));
            }
        }
    }
    found
}

/// Finished cells whose training ended far below its best, with the row of each.
pub(super) fn falls(rows: &[GridRow]) -> Vec<(usize, String)> {
    let of_row = |(index, row): (usize, &GridRow)| {
        let fallen = row.finished().filter_map(|(cell, run)| Some((cell.seed, run.fall.as_ref()?)));
        let told = fallen.map(|(seed, fall)| {
            (index, format!("{} seed {seed} fell from its best: {}; {}", row.name, fall.text(), fall.advice()))
        });
        told.collect::<Vec<_>>()
    };
    rows.iter().enumerate().flat_map(of_row).collect()
}

/// Finished rows that ask for other data than the first one, each with its index.
pub(super) fn other_data(rows: &[GridRow]) -> Vec<(usize, String)> {
    let mut finished = rows.iter().enumerate().filter(|(_, row)| row.finished().next().is_some());
    let Some((_, first)) = finished.next() else { return vec![] };
    let others = finished.filter(|(_, row)| row.data != first.data);
    others.map(|(index, row)| (index, format!("{} asks for other data than {}", row.name, first.name))).collect()
}

/// The finished cells whose data, program or graph is not that of the most, with the row of each. Data is that of rows which ask
/// for the same.
pub(super) fn odd_ones(rows: &[GridRow]) -> Vec<(usize, String)> {
    let data = |measured: &MeasuredRun| measured.data.clone();
    let program = |measured: &MeasuredRun| measured.program.versions.clone();
    let most_program = most(finished(rows).map(program));
    let mut found = vec![];
    for (index, row) in rows.iter().enumerate() {
        let alike = rows.iter().filter(|other| other.data == row.data);
        let most_data = most(alike.flat_map(GridRow::finished).map(|(_, measured)| data(measured)));
        let graph = |measured: &MeasuredRun| measured.program.graph.clone();
        let most_graph = most(row.finished().map(|(_, measured)| graph(measured)));
        for (cell, measured) in row.finished() {
            let kinds = [
                ("on other data", data(measured), &most_data),
                ("by another program", program(measured), &most_program),
                ("as another graph", graph(measured), &most_graph),
            ];
            for (how, own, most) in kinds.into_iter().filter(|(_, own, most)| own != *most) {
                let (own, most) = (short(&own), short(most));
                found.push((
                    index,
                    format!("{} seed {} was trained {how} ({own}) than most ({most})", row.name, cell.seed),
                ));
            }
        }
    }
    found
}

/// The text that is met most often, the first of several.
fn most(texts: impl Iterator<Item = String>) -> String {
    let mut counts: Vec<(String, usize)> = vec![];
    for text in texts {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text, 1)),
        }
    }
    let largest = counts.iter().map(|(_, count)| *count).max();
    counts.into_iter().find(|(_, count)| Some(*count) == largest).map(|(text, _)| text).unwrap_or_default()
}

/// The start of a hash; other texts as they are.
fn short(text: &str) -> &str {
    let is_hash = text.len() > 12 && text.chars().all(|c| c.is_ascii_hexdigit());
    match text {
        "" => "unknown",
        _ if is_hash => &text[..12],
        _ => text,
    }
}
