//! Rows of a user's files of which a trained model is asked: by the columns of the training, where the label may be missing.

use std::path::Path;

use serde_json::Value;

use super::plan::CustomTaskKind;
use super::{Own, learn, same_count};
use crate::Answer;
use crate::error::DataError;
use crate::files::{Column, FileCell, FileLayout, FileRow, Format, json};
use crate::reading::broken;
use crate::{AskedRow, AskedRows, Example, ExampleTarget, GivenColumn, SIDES, documents, line};

/// Rows by which a header is told from a row.
const BEGIN: usize = 20;

impl Own {
    /// The columns of the input.
    pub(super) fn input_columns(&self) -> &[Column] {
        &self.plan.layout.columns[..self.plan.inputs]
    }

    /// The column of the label; a text has none.
    pub(super) fn label(&self) -> Option<&Column> {
        self.plan.layout.columns.get(self.plan.inputs).filter(|_| !self.plan.kind.reads_windows())
    }

    /// The values that a model takes of those that come with the rows.
    fn taken(&self, wanted: &[&str]) -> Vec<GivenColumn> {
        self.plan.given.iter().filter(|given| wanted.contains(&&*given.name)).cloned().collect()
    }

    /// The row of a JSON object.
    pub(super) fn asked_object(&self, text: &str, wanted: &[&str]) -> Result<AskedRow, String> {
        let taken = self.taken(wanted);
        let columns = self.input_columns().iter().chain(taken.iter().map(|given| &given.column));
        let columns: Vec<Column> = columns.chain(self.label()).cloned().collect();
        self.asked(0, &json(text, &columns)?, &taken)
    }

    /// The rows of a file of columns.
    pub(super) fn asked_file(&self, path: &Path, format: Format, wanted: &[&str]) -> Result<AskedRows, DataError> {
        let taken = self.taken(wanted);
        let columns = self.input_columns().iter().chain(taken.iter().map(|given| &given.column));
        let columns: Vec<Column> = columns.cloned().collect();
        let form = self.plan.layout.form.fitting(path)?;
        let commas = (self.plan.inputs..columns.len()).filter(|_| !self.plan.layout.commas.is_empty()).collect();
        let mut layout = FileLayout { format: Some(format), columns, form, commas };
        if let Some(label) = self.label()
            && layout.has_column(path, label)?
        {
            if self.plan.answer == Answer::Number && !self.plan.layout.commas.is_empty() {
                layout.commas.push(layout.columns.len());
            }
            layout.columns.push(label.clone());
            self.refuse_header(&layout, path)?;
        } else {
            let place = |column: &Column| if let Column::Place(place) = column { *place } else { 0 };
            layout.refuse_other_marks(path, self.plan.layout.columns.iter().map(place).max().unwrap_or(0))?;
        }
        let (own, rows, path) = (self.clone(), layout.rows(path)?, path.to_owned());
        Ok(Box::new(rows.map(move |row| {
            let row = row?;
            own.asked(row.line, &row.cells, &taken).map_err(|message| own.fault(&path, &row, message))
        })))
    }

    /// Refuses a header above the rows of a file, if the model was trained on one without: the first row has no label there, and those
    /// below have.
    fn refuse_header(&self, layout: &FileLayout, path: &Path) -> Result<(), DataError> {
        let is_numbered = matches!(layout.columns.last(), Some(Column::Place(_)));
        if !is_numbered || self.plan.kind == CustomTaskKind::Tagging {
            return Ok(());
        }
        let is_label = |row: &FileRow| match (row.cells.last(), self.plan.answer) {
            (Some(FileCell::Text(text)), Answer::Class) => self.learned.class(text.trim()).is_some(),
            (Some(cell), Answer::Number) => learn::number(cell).is_ok(),
            _ => false,
        };
        let rows: Vec<FileRow> = layout.rows(path)?.take(BEGIN).filter_map(Result::ok).collect();
        match rows.split_first() {
            Some((first, below)) if !is_label(first) && !below.is_empty() && below.iter().all(is_label) => {
                let why = "this row has no label where all rows below have one, so that it looks like names of columns, and the model was \
                           trained on a file without them: remove it";
                Err(broken(path, first.line, why.to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// The row of some cells: the inputs, the values that are taken, and the label if it is there.
    fn asked(&self, line: usize, cells: &[FileCell], taken: &[GivenColumn]) -> Result<AskedRow, String> {
        let (inputs, rest) = cells.split_at(self.plan.inputs);
        let (values, label) = rest.split_at(taken.len());
        let (example, cut) = self.texts(inputs)?;
        let mut given = self.values(taken.iter().zip(values), (&example, cut[0]))?;
        given.extend(self.document_end.map(|end| documents(&example.tokens, end, 0)));
        let label = label.first().map(|cell| self.shown(cell));
        if let (CustomTaskKind::Tagging, Some(Value::Array(labels))) = (self.plan.kind, &label) {
            same_count(learn::items(&inputs[0]).len(), labels.len())?;
        }
        let sides = self.plan.kind == CustomTaskKind::Pairs;
        let text = self.plan.texts(inputs);
        let text = text.iter().map(|cell| match cell {
            FileCell::Text(text) => line::written(text, sides),
            cell => learn::items(cell).join(" "),
        });
        Ok(AskedRow {
            line,
            text: text.collect::<Vec<_>>().join(&format!(" {SIDES} ")),
            label,
            example: Example { label: self.no_label(example.tokens.len()), given, ..example },
            cut: cut.iter().sum(),
        })
    }

    /// The label of a file as it is shown beside the answer, `null` where there is none. A label that the task can't take is shown as
    /// it stands.
    fn shown(&self, cell: &FileCell) -> Value {
        let read = match (self.plan.kind, self.plan.answer) {
            (_, _) if is_empty(cell) => return Value::Null,
            (CustomTaskKind::Sequences, _) => None,
            (CustomTaskKind::Tagging, _) if matches!(cell, FileCell::Lists(_)) => None,
            (CustomTaskKind::Tagging, _) => Some(learn::labels(cell).into()),
            (_, Answer::Labels) => learn::set(cell, &self.plan.separator).ok().map(Value::from),
            (_, Answer::Number) => learn::number(cell).ok().map(Value::from),
            (_, Answer::Class) => learn::label(cell).ok().map(Value::from),
        };
        read.unwrap_or_else(|| match cell {
            FileCell::Missing => Value::Null,
            FileCell::Text(text) => text.trim().into(),
            FileCell::List(items) => items.clone().into(),
            FileCell::Lists(lists) => lists.clone().into(),
        })
    }

    /// The target of an example without a label.
    fn no_label(&self, tokens: usize) -> ExampleTarget {
        match (self.plan.kind, self.plan.answer) {
            (kind, _) if kind == CustomTaskKind::Tagging || kind.answers_tokens() => {
                ExampleTarget::Each { class: vec![0; tokens], weight: vec![1.0; tokens] }
            }
            (_, Answer::Class) => ExampleTarget::Class(0),
            (_, Answer::Number) => ExampleTarget::Number(0.0),
            (_, Answer::Labels) => ExampleTarget::Several(vec![false; self.learned.classes.len()]),
        }
    }
}

fn is_empty(cell: &FileCell) -> bool {
    matches!(cell, FileCell::Missing) || matches!(cell, FileCell::Text(text) if text.trim().is_empty())
}
