//! Rows of a user's files of which a trained model is asked: by the columns of the training, where the label may be missing.

use std::path::Path;

use serde_json::Value;

use super::plan::Kind;
use super::{Own, learn};
use crate::error::DataError;
use crate::experiment::Answer;
use crate::task::files::{Cell, Column, Format, Layout, json};
use crate::task::{AskedRow, AskedRows, Example, GivenColumn, SIDES, Target, line};

impl Own {
    /// The columns of the input.
    pub(super) fn input_columns(&self) -> &[Column] {
        &self.plan.layout.columns[..self.plan.inputs]
    }

    /// The column of the label; a text has none.
    fn label_column(&self) -> Option<&Column> {
        self.plan.layout.columns.get(self.plan.inputs).filter(|_| self.plan.kind != Kind::Language)
    }

    /// The values that a model takes of those that come with the rows.
    fn taken(&self, wanted: &[&str]) -> Vec<GivenColumn> {
        self.plan.given.iter().filter(|given| wanted.contains(&&*given.name)).cloned().collect()
    }

    /// The row of a JSON object.
    pub(super) fn asked_object(&self, text: &str, wanted: &[&str]) -> Result<AskedRow, String> {
        let taken = self.taken(wanted);
        let columns = self.input_columns().iter().chain(taken.iter().map(|given| &given.column));
        let columns: Vec<Column> = columns.chain(self.label_column()).cloned().collect();
        self.asked(0, &json(text, &columns)?, &taken)
    }

    /// The rows of a file of columns.
    pub(super) fn asked_file(
        &self,
        path: &Path,
        format: Option<Format>,
        wanted: &[&str],
    ) -> Result<AskedRows, DataError> {
        let taken = self.taken(wanted);
        let columns = self.input_columns().iter().chain(taken.iter().map(|given| &given.column)).cloned().collect();
        let format = format.or_else(|| Format::of(path).ok()).or(self.plan.layout.format);
        let mut layout = Layout { format, columns, quotes: self.plan.layout.quotes };
        if let Some(label) = self.label_column()
            && layout.has_column(path, label)?
        {
            layout.columns.push(label.clone());
        }
        let (own, rows, path) = (self.clone(), layout.rows(path)?, path.to_owned());
        Ok(Box::new(rows.map(move |row| {
            let row = row?;
            own.asked(row.line, &row.cells, &taken).map_err(|message| own.fault(&path, &row, message))
        })))
    }

    /// The row of some cells: the inputs, the values that are taken, and the label if it is there.
    fn asked(&self, line: usize, cells: &[Cell], taken: &[GivenColumn]) -> Result<AskedRow, String> {
        let (inputs, rest) = cells.split_at(self.plan.inputs);
        let (values, label) = rest.split_at(taken.len());
        let (example, cut) = self.texts(inputs)?;
        let given = self.values(taken.iter().zip(values), (&example, cut[0]))?;
        let sides = self.plan.kind == Kind::Pairs;
        let text = self.plan.texts(inputs);
        let text = text.iter().map(|cell| match cell {
            Cell::Text(text) => line::written(text, sides),
            cell => learn::items(cell).join(" "),
        });
        Ok(AskedRow {
            line,
            text: text.collect::<Vec<_>>().join(&format!(" {SIDES} ")),
            label: label.first().and_then(|cell| self.shown(cell)),
            example: Example { label: self.no_label(example.tokens.len()), given, ..example },
            cut: cut.iter().sum(),
        })
    }

    /// The label of a file as it is shown beside the answer.
    fn shown(&self, cell: &Cell) -> Option<Value> {
        match (self.plan.kind, self.plan.answer) {
            (_, _) if *cell == Cell::Missing => None,
            (Kind::Tagging, _) => Some(learn::labels(cell).into()),
            (_, Answer::Labels) => learn::set(cell, &self.plan.separator).ok().map(Value::from),
            (_, Answer::Number) => learn::number(cell).ok().map(Value::from),
            (_, Answer::Class) => learn::label(cell).ok().map(Value::from),
        }
    }

    /// The target of an example that asks for nothing.
    fn no_label(&self, tokens: usize) -> Target {
        match (self.plan.kind, self.plan.answer) {
            (Kind::Tagging | Kind::Language, _) => Target::Each { class: vec![0; tokens], weight: vec![1.0; tokens] },
            (_, Answer::Class) => Target::Class(0),
            (_, Answer::Number) => Target::Number(0.0),
            (_, Answer::Labels) => Target::Several(vec![false; self.learned.classes.len()]),
        }
    }
}
