//! The label of a row, and what it is: a class, a number or several labels.

use std::collections::BTreeSet;

use super::{ChoiceResult, Chooser, Label, ask};
use crate::command::task::draft::kind::{FEW_NUMBERS, FEW_WORDS, Kind, has_few_values};
use crate::command::task::draft::{AnswerArg, names};

/// Words in place of a number.
const NO_NUMBERS: [&str; 13] =
    ["nan", "na", "n/a", "inf", "-inf", "+inf", "infinity", "-infinity", "none", "null", "missing", "?", "-"];

impl Chooser<'_> {
    pub(super) fn label(&self, wished: &[usize]) -> ChoiceResult<Option<Label>> {
        if let Some(name) = &self.wishes.label {
            let at = self.named("--label", name)?;
            if wished.contains(&at) {
                return ask(format!("`{name}` can't be both input and label"));
            }
            return Ok(Some(Label { at, why: "`--label` says so".to_owned() }));
        }
        let usable: Vec<usize> = self.all().filter(|at| !wished.contains(at) && self.may_be_label(*at)).collect();
        for sure in [2, 1] {
            let mut named: Vec<usize> = usable
                .iter()
                .copied()
                .filter(|at| names::label(self.name(*at)) == sure && !self.found.headless)
                .collect();
            named.sort_by_key(|at| names::label_rank(self.name(*at)));
            match &named[..] {
                [] => {}
                [at, others @ ..] if others.iter().all(|other| self.says_the_same(*at, *other)) => {
                    let twins: Vec<usize> = self.all().filter(|other| self.is_twin(*at, *other)).collect();
                    if sure == 1 && twins.len() > 2 {
                        return ask(format!(
                            "several columns have the same two values: one label of {}; a column with all labels of a row is \
                             read by `--answer labels`",
                            self.options("--label", &twins)
                        ));
                    }
                    return Ok(Some(self.label_by_name(*at)));
                }
                _ => return ask(format!("which column is the label? {}", self.options("--label", &named))),
            }
        }
        self.label_by_values(&usable)
    }

    /// Whether a column is the label once more: `label_text` beside `label`.
    fn says_the_same(&self, label: usize, other: usize) -> bool {
        let name = names::plain(self.name(label));
        names::plain(self.name(other)).contains(&name)
            && self.column(label).values.len() == self.column(other).values.len()
    }

    /// Whether a column has values of another one, which has two.
    fn is_twin(&self, label: usize, other: usize) -> bool {
        let [a, b] = [label, other].map(|at| &self.column(at).values);
        a.len() == 2 && !b.is_empty() && b.keys().all(|value| a.contains_key(value))
    }

    /// A note on classes that may be the same one, or none.
    pub(super) fn odd_classes(&self, label: usize) -> Option<String> {
        let values: Vec<&str> = self.column(label).values.keys().map(|value| value.trim()).collect();
        let name = self.name(label);
        let same = |a: &str, b: &str| a != b && a.to_lowercase() == b.to_lowercase();
        let twice = values.iter().enumerate().find_map(|(n, a)| Some((a, values[n..].iter().find(|b| same(a, b))?)));
        if let Some((a, b)) = twice {
            return Some(format!(
                "`{name}` has the classes `{a}` and `{b}`, which differ in capital letters only: write them in one way if they are the same"
            ));
        }
        let is_none = |value: &&&str| NO_NUMBERS.contains(&value.to_lowercase().as_str()) && values.len() > 2;
        if let Some(value) = values.iter().find(is_none) {
            return Some(format!(
                "`{name}` has the class `{value}`: empty the cell of a row without a label, and `unlabelled: skip` leaves it out"
            ));
        }
        let list = values.iter().find(|value| value.starts_with('[') && value.ends_with(']'))?;
        Some(format!(
            "`{name}` has lists as texts, as `{list}`, and each is a class: lists of JSON lines are read as several labels"
        ))
    }

    fn label_by_name(&self, at: usize) -> Label {
        let unlabelled =
            self.is_number(at) && self.column(at).values.len() > 2 && self.column(at).values.contains_key("-1");
        let note = if unlabelled { "; `-1`, a class here, often marks rows without a label: remove these" } else { "" };
        Label { at, why: format!("its name is that of a label; {}, {}{note}", self.kinds[at].name(), self.values(at)) }
    }

    /// Whether a column can be a label at all.
    fn may_be_label(&self, at: usize) -> bool {
        let column = self.column(at);
        // What is wrong with its numbers is asked for.
        if names::label(&column.name) > 0 && self.broken_numbers(at).is_some() {
            return true;
        }
        match self.kinds[at] {
            Kind::Empty | Kind::Nested | Kind::Same | Kind::Key | Kind::Split | Kind::Date | Kind::Written => false,
            Kind::Number { .. } => column.numbers == self.filled(at) || has_few_values(column, self.filled(at)),
            Kind::Numbers => self.is_whole(at) && names::label(&column.name) > 0,
            Kind::Words => names::label(&column.name) > 0,
            Kind::Truth | Kind::Category => true,
            Kind::Text => {
                let short = column.words <= FEW_WORDS * self.filled(at);
                names::label(&column.name) > 0 && (short || has_few_values(column, self.filled(at)))
            }
        }
    }

    /// The only column with few values.
    fn label_by_values(&self, usable: &[usize]) -> ChoiceResult<Option<Label>> {
        let few: Vec<usize> = usable.iter().copied().filter(|at| self.is_few(*at)).collect();
        let has_text = self.all().any(|at| matches!(self.kinds[at], Kind::Text | Kind::Words));
        let words: Vec<usize> = few.iter().copied().filter(|at| !self.is_number(*at)).collect();
        let chosen = match (&few[..], &words[..]) {
            ([only], _) if has_text && !(self.is_number(*only) && self.has_other_numbers(*only)) => Some(*only),
            ([only], _) if !has_text && self.is_alone(*only) => Some(*only),
            (_, [only]) if !has_text && only + 1 == self.found.columns.len() => Some(*only),
            _ => None,
        };
        if let Some(at) = chosen {
            let why = format!("the only column with few values: {}, {}", self.kinds[at].name(), self.values(at));
            return Ok(Some(Label { at, why }));
        }
        let all_few = few.iter().all(|at| !self.is_number(*at) || !self.has_other_numbers(*at));
        match if few.is_empty() || !all_few && has_text { usable } else { &few[..] } {
            [] => Ok(None),
            candidates => ask(format!(
                "which column is the label? No name says it: {}{}",
                self.options("--label", candidates),
                self.or_language()
            )),
        }
    }

    pub(super) fn is_number(&self, at: usize) -> bool {
        matches!(self.kinds[at], Kind::Number { .. })
    }

    /// Whether another column holds numbers, of which one may be the label as well.
    fn has_other_numbers(&self, at: usize) -> bool {
        self.all().any(|other| other != at && self.kinds[other] == Kind::Number { whole: false })
    }

    /// Whether a column has as few values as classes have.
    fn is_few(&self, at: usize) -> bool {
        let column = self.column(at);
        match self.kinds[at] {
            Kind::Truth | Kind::Category => true,
            Kind::Number { whole: true } => {
                column.values.len() <= FEW_NUMBERS && has_few_values(column, self.filled(at))
            }
            _ => false,
        }
    }

    /// Whether the only column with few values is the label of a table of numbers: the last one, or one before numbers of which none
    /// may be the label as well.
    fn is_alone(&self, at: usize) -> bool {
        let whole = |other: usize| {
            let is_whole = self.kinds[other] == Kind::Number { whole: true };
            other != at && is_whole && (!self.is_number(at) || self.column(other).values.len() <= FEW_NUMBERS)
        };
        at + 1 == self.found.columns.len() || !self.all().any(whole)
    }

    fn or_language(&self) -> &'static str {
        if self.texts(None).is_empty() { "" } else { "; `--task language` takes texts without a label" }
    }

    /// Whether a column that is named by `--label` can be learned: it has several values, most of them in several rows.
    pub(super) fn can_label(&self, at: usize) -> bool {
        match self.kinds[at] {
            Kind::Empty | Kind::Nested | Kind::Same | Kind::Key | Kind::Split => false,
            Kind::Text | Kind::Date => has_few_values(self.column(at), self.filled(at)),
            _ => true,
        }
    }

    /// The question of a column that is named as the label and that nothing is learned from.
    fn nothing_to_learn(&self, at: usize) -> Option<String> {
        let (name, filled) = (self.name(at), self.filled(at));
        let count = self.column(at).values.len();
        let is_class = self.wishes.answer == Some(AnswerArg::Class);
        match self.kinds[at] {
            Kind::Nested | Kind::Empty => {
                Some(format!("`{name}` holds {}: `--label` names another column", self.nothing(at)))
            }
            Kind::Same => Some(format!(
                "`{name}` is the same in all rows, and one class is nothing to learn: `--label` names another column"
            )),
            _ if is_class && count == filled && filled > 2 => Some(format!(
                "`{name}` has another value in each of {filled} rows, and a class of one row is not learned: `--label` names another column"
            )),
            _ => None,
        }
    }

    pub(super) fn answer(&self, label: usize) -> ChoiceResult<AnswerArg> {
        let column = self.column(label);
        let filled = self.filled(label);
        if let Some(question) = self.nothing_to_learn(label) {
            return ask(question);
        }
        if let Some(answer) = self.wishes.answer {
            return Ok(answer);
        }
        let name = &column.name;
        if let Some(question) = self.broken_numbers(label) {
            return ask(question);
        }
        match self.kinds[label] {
            Kind::Words | Kind::Numbers => Ok(AnswerArg::Labels),
            Kind::Number { whole: false } => Ok(AnswerArg::Number),
            Kind::Number { whole: true } => self.whole(label),
            Kind::Truth => Ok(AnswerArg::Class),
            _ if self.separator(label).is_some() => ask(format!(
                "`{name}` looks like several labels in a text, as `{}`: `--answer labels` takes them so, `--answer class` every text as a class",
                self.several(label).unwrap_or_default()
            )),
            _ if !has_few_values(column, filled) => ask(format!(
                "`{name}` has {} in {filled} rows, which are hardly classes: `--label` names another column",
                self.values(label)
            )),
            _ => Ok(AnswerArg::Class),
        }
    }

    /// What is wrong with a column of numbers, some of which are none, or are written with a decimal comma.
    fn broken_numbers(&self, at: usize) -> Option<String> {
        let (column, filled) = (self.column(at), self.filled(at));
        let odd = filled - column.numbers;
        if odd == 0 || column.lists > 0 || column.nested > 0 {
            return None;
        }
        if self.kinds[at] == Kind::Written && !(column.commas > 0 && column.whole < column.numbers) {
            return Some(self.written(at));
        }
        if column.commas > 0 && column.commas + column.numbers == filled {
            return Some(format!(
                "`{}` has numbers with a comma and others with a point ({}): write all in one way; `--answer class` takes every value as a \
                 class",
                column.name,
                self.odd_rows(at)
            ));
        }
        let is_number = |value: &str| value.trim().parse::<f64>().is_ok_and(f64::is_finite);
        let is_none = |value: &String| is_number(value) || NO_NUMBERS.contains(&value.trim().to_lowercase().as_str());
        let mostly = column.numbers > 4 * odd || column.numbers > odd && column.values.keys().all(is_none);
        mostly.then(|| {
            format!(
                "`{}` is a number in {} of {filled} rows, and none in the others ({}): correct or remove these; `--answer class` takes \
                 every value as a class",
                column.name,
                column.numbers,
                self.odd_rows(at)
            )
        })
    }

    /// Whole numbers are classes where they are few, or have the name of classes and no gaps; many are a number.
    fn whole(&self, label: usize) -> ChoiceResult<AnswerArg> {
        let (column, filled) = (self.column(label), self.filled(label));
        let count = column.values.len();
        let [low, high] = column.range.unwrap_or_default();
        let dense = (0.0..=1.0).contains(&low) && high - low + 1.0 == count as f64 && has_few_values(column, filled);
        let (class, measure) = (names::is_class(&column.name), names::is_measure(&column.name));
        if measure && count > 2 {
            return Ok(AnswerArg::Number);
        }
        if count <= FEW_NUMBERS && has_few_values(column, filled) || class && dense {
            return Ok(AnswerArg::Class);
        }
        if !class && 4 * count > filled {
            return Ok(AnswerArg::Number);
        }
        ask(format!(
            "`{}` has {} in {filled} rows, all whole numbers: `--answer class` takes them as classes, `--answer number` as numbers",
            column.name,
            self.values(label)
        ))
    }

    /// The mark between several labels of a text: it stands in some values, and the parts come in others, too.
    pub(super) fn separator(&self, label: usize) -> Option<char> {
        let values = &self.column(label).values;
        [',', ';', '|'].into_iter().find(|mark| {
            let parts: BTreeSet<&str> = values.keys().flat_map(|value| value.split(*mark)).map(str::trim).collect();
            let several = values.keys().filter(|value| value.contains(*mark)).count();
            several > 1 && parts.len() < values.len()
        })
    }

    /// A value with several labels.
    fn several(&self, label: usize) -> Option<&str> {
        let mark = self.separator(label)?;
        self.column(label).values.keys().find(|value| value.contains(mark)).map(String::as_str)
    }
}
