//! A first look at an unknown file: its columns and their content.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Cell, Column, Format, Layout, columnar, records::Records};
use crate::error::DataError;
use crate::task::load::unreadable;

/// What is to be seen of a file.
#[derive(Clone, Debug)]
pub struct FileLook {
    /// How it is written.
    pub format: Format,
    /// Rows, or lines of a text.
    pub rows: usize,
    /// Its columns; a text has none.
    pub columns: Vec<ColumnLook>,
    /// The first rows that can't be read.
    pub problems: Vec<DataError>,
}

/// What is to be seen of a column.
#[derive(Clone, Debug, Default)]
pub struct ColumnLook {
    /// Its name.
    pub name: String,
    /// Its first value.
    pub first: String,
    /// Its different values, as far as they were counted.
    pub values: BTreeSet<String>,
    /// Words of all its values.
    pub words: usize,
    /// Rows without a value.
    pub missing: usize,
    /// Rows with a list.
    pub lists: usize,
}

impl ColumnLook {
    /// More different values are not counted.
    pub const MOST: usize = 1_000;

    fn see(&mut self, cell: &Cell) {
        let item = |item: &Option<String>| item.clone().unwrap_or_else(|| "null".to_owned());
        let text = match cell {
            Cell::Missing => return self.missing += 1,
            Cell::Text(text) => text.clone(),
            Cell::List(items) => {
                self.lists += 1;
                items.iter().map(item).collect::<Vec<_>>().join(" ")
            }
            Cell::Lists(lists) => {
                self.lists += 1;
                lists.iter().flatten().map(item).collect::<Vec<_>>().join(" ")
            }
        };
        self.words += text.split_whitespace().count();
        if self.first.is_empty() {
            self.first.clone_from(&text);
        }
        if self.values.len() <= Self::MOST {
            self.values.insert(text);
        }
    }
}

/// Problems that are listed.
const PROBLEMS: usize = 10;

/// Looks at a file.
///
/// # Errors
/// A file that can't be opened, or whose name does not say how it is written.
pub fn look(path: &Path) -> Result<FileLook, DataError> {
    let format = Format::of(path).map_err(|why| unreadable(path, why))?;
    let names = names(path, format)?;
    let columns: Vec<Column> = names.iter().cloned().map(Column::Name).collect();
    let mut look = FileLook { format, rows: 0, columns: vec![], problems: vec![] };
    if format == Format::Text {
        for record in Records::open(path, None)? {
            look.count(record.map(|_| ()));
        }
        return Ok(look);
    }
    look.columns = names.into_iter().map(|name| ColumnLook { name, ..ColumnLook::default() }).collect();
    for row in (Layout { format: Some(format), columns, quotes: true }).rows(path)? {
        if let Ok(row) = &row {
            look.columns.iter_mut().zip(&row.cells).for_each(|(column, cell)| column.see(cell));
        }
        look.count(row.map(|_| ()));
        if look.problems.len() >= PROBLEMS {
            break;
        }
    }
    Ok(look)
}

impl FileLook {
    fn count(&mut self, row: Result<(), DataError>) {
        match row {
            Ok(()) => self.rows += 1,
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// The names of the columns: those of the header, of the first object, or of the schema.
fn names(path: &Path, format: Format) -> Result<Vec<String>, DataError> {
    if format == Format::Text {
        return Ok(vec![]);
    }
    if format == Format::Parquet {
        return columnar::names(path);
    }
    let layout = Layout { format: Some(format), columns: vec![], quotes: true };
    layout.names(path)
}
