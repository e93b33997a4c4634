//! The choice of task, input and label: by names, kinds and counts of the columns. What these leave open is a question.

mod label;
mod questions;
mod sequences;
mod tagging;

use rtc_task::{ColumnLook, FileLook, Format};

use super::kind::{Kind, has_few_values};
use super::{AnswerArg, ColumnRole, Draft, TaskArg, UserQuestion, Wishes, names};

/// The most tokens of an input without `task.length`, and the most that a draft asks for.
const LENGTH: usize = 512;
const LONGEST: usize = 2048;

/// Rows of a class from which on a tenth of all rows has about a tenth of them: of 100 rows drawn alike the share has 10 and a deviation of 3.
const RELIABLE: usize = 100;

/// The part of a draft on plain text.
pub(super) fn of_text(found: &FileLook, wishes: &Wishes) -> Result<Draft, UserQuestion> {
    if !wishes.input.is_empty() || wishes.label.is_some() || wishes.task.is_some_and(|task| task != TaskArg::Language) {
        return Err(UserQuestion(
            "plain text has no columns: a file of rows is named .csv, .tsv, .jsonl or .parquet".to_owned(),
        ));
    }
    if let (Some(doubt), None) = (&found.doubt, wishes.task) {
        return Err(UserQuestion(format!("{doubt}; `--task language` takes it as one text")));
    }
    Ok(Draft {
        task: TaskArg::Language,
        inputs: vec![],
        label: None,
        answer: AnswerArg::Class,
        separator: None,
        comma: false,
        skips: false,
        stratify: false,
        tokens: "characters",
        length: None,
        columns: vec![],
        notes: vec![],
        text: String::new(),
    })
}

/// Decides about the columns of a file.
pub(super) struct Chooser<'a> {
    found: &'a FileLook,
    wishes: &'a Wishes,
    kinds: Vec<Kind>,
}

/// The label, and why it is that column.
struct Label {
    at: usize,
    why: String,
}

type ChoiceResult<T> = Result<T, UserQuestion>;

fn ask<T>(question: impl Into<String>) -> ChoiceResult<T> {
    Err(UserQuestion(question.into()))
}

impl<'a> Chooser<'a> {
    pub(super) fn new(found: &'a FileLook, wishes: &'a Wishes) -> Self {
        let kind = |(at, column)| Kind::of(column, at, found.rows);
        Self { found, wishes, kinds: found.columns.iter().enumerate().map(kind).collect() }
    }

    pub(super) fn draft(&self) -> ChoiceResult<Draft> {
        if let Some(doubt) = &self.found.doubt {
            return ask(doubt.clone());
        }
        if let (Some([first, last]), None) = (self.found.swallowed, self.wishes.quotes) {
            return ask(format!(
                "lines {first} to {last} are one row, because a cell in quotation marks holds tabs and line ends: `--quotes none` reads every \
                 line as a row, in which `\"` is a character, and `--quotes around` takes the row as it is"
            ));
        }
        if self.found.rows == 0 {
            return ask("the file has no rows below its header");
        }
        if let Some(question) = self.wrapper().or_else(|| self.columnwise()).or_else(|| self.token_lines()) {
            return ask(question);
        }
        let wished =
            self.wishes.input.iter().map(|name| self.named("--input", name)).collect::<ChoiceResult<Vec<usize>>>()?;
        if let Some((n, _)) = wished.iter().enumerate().find(|(n, at)| wished[..*n].contains(at)) {
            return ask(format!("`--input {}` stands there twice", self.wishes.input[n]));
        }
        if self.wishes.task == Some(TaskArg::Language) {
            return self.language(wished);
        }
        if let Some(tagging) = self.tagging(&wished)? {
            return Ok(tagging);
        }
        if let Some(sequences) = self.sequences(&wished)? {
            return Ok(sequences);
        }
        match self.label(&wished)? {
            Some(label) => self.rows(label, wished),
            None => self.unlabelled(wished),
        }
    }

    fn column(&self, at: usize) -> &ColumnLook {
        &self.found.columns[at]
    }

    fn name(&self, at: usize) -> &str {
        &self.column(at).name
    }

    fn filled(&self, at: usize) -> usize {
        self.column(at).filled(self.found.rows)
    }

    fn all(&self) -> std::ops::Range<usize> {
        0..self.found.columns.len()
    }

    /// The column of an option.
    fn named(&self, option: &str, name: &str) -> ChoiceResult<usize> {
        let names: Vec<&str> = self.found.columns.iter().map(|column| column.name.as_str()).collect();
        names
            .iter()
            .position(|own| *own == name)
            .ok_or_else(|| UserQuestion(format!("`{option}`: {}", rtc_task::error::unknown("column", name, &names))))
    }

    /// Number of different values, as text.
    fn values(&self, at: usize) -> String {
        match self.column(at).values.len() {
            many if many > ColumnLook::MOST => format!("over {} different values", ColumnLook::MOST),
            1 => "1 value".to_owned(),
            some => format!("{some} different values"),
        }
    }

    /// Columns as options to choose from, with what they hold.
    fn options(&self, option: &str, columns: &[usize]) -> String {
        let one = |at: &usize| format!("{} ({})", self.option(option, *at), self.content(*at));
        columns.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// A column as an option.
    fn option(&self, option: &str, at: usize) -> String {
        let name = self.name(at);
        let is_plain = !name.is_empty() && !name.contains(char::is_whitespace);
        if is_plain { format!("`{option} {name}`") } else { format!("`{option} '{name}'`") }
    }

    /// Columns of free text but the label.
    fn texts(&self, label: Option<usize>) -> Vec<usize> {
        let is_text = |at: &usize| matches!(self.kinds[*at], Kind::Text | Kind::Words);
        // What most rows lack is no input of them.
        let is_there = |at: &usize| 2 * self.filled(*at) >= self.found.rows;
        self.all().filter(|at| Some(*at) != label && is_text(at) && is_there(at)).collect()
    }

    /// The task on rows with this label.
    fn rows(&self, label: Label, wished: Vec<usize>) -> ChoiceResult<Draft> {
        let answer = self.answer(label.at)?;
        if !wished.is_empty() {
            let pair = wished.len() == 2 && names::is_pair(self.name(wished[0]), self.name(wished[1]));
            let pair = pair && answer == AnswerArg::Class;
            let task = self.wishes.task.unwrap_or(if pair { TaskArg::Pairs } else { TaskArg::Table });
            if task == TaskArg::Pairs && wished.len() != 2 {
                return ask("`--task pairs` has two texts: give `--input` twice");
            }
            return self.checked(task, wished, label, answer, "`--input` says so");
        }
        let texts = self.texts(Some(label.at));
        let pair = self.pair(&texts);
        if self.wishes.task == Some(TaskArg::Pairs) || pair.is_some() && self.wishes.task.is_none() {
            let (first, second) = match (pair, &texts[..]) {
                (Some(pair), _) => pair,
                (None, [first, second]) => (*first, *second),
                _ => return ask(format!("which two texts are the pair? {}", self.options("--input", &texts))),
            };
            // A pair has a class; what is a number belongs to one text of both.
            return match answer {
                AnswerArg::Class => {
                    self.checked(TaskArg::Pairs, vec![first, second], label, answer, "one text of a pair, by the names")
                }
                _ => self.checked(
                    TaskArg::Table,
                    vec![first, second],
                    label,
                    answer,
                    "the texts of a pair one after the other: `pairs` has classes alone",
                ),
            };
        }
        match &texts[..] {
            [] => self.features(label, answer),
            [text] if self.is_feature_table(*text, label.at) => ask(format!(
                "`{}` is a short text among features: `{}` takes the text, and these take the features: {}",
                self.name(*text),
                self.option("--input", *text).trim_matches('`'),
                self.options("--input", &self.features_beside(label.at))
            )),
            [text] => {
                let why =
                    format!("the only text, {} words a row", self.column(*text).words / self.filled(*text).max(1));
                self.checked(TaskArg::Table, vec![*text], label, answer, &why)
            }
            [first, second] if names::is_heading(self.name(*first), self.name(*second)) => self.checked(
                TaskArg::Table,
                vec![*first, *second],
                label,
                answer,
                "a heading and its text, one after the other",
            ),
            [first, second] if names::is_heading(self.name(*second), self.name(*first)) => self.checked(
                TaskArg::Table,
                vec![*second, *first],
                label,
                answer,
                "a heading and its text, one after the other",
            ),
            many => ask(format!(
                "which text is the input? {}; `--input` several times puts texts one after the other, with `--task pairs` two are a pair",
                self.options("--input", many)
            )),
        }
    }

    /// Two texts whose names are those of a pair.
    fn pair(&self, texts: &[usize]) -> Option<(usize, usize)> {
        let all = texts.iter().flat_map(|a| texts.iter().map(move |b| (*a, *b)));
        // Beside other texts only numbered names, and those of inference, are sure; answers to choose from go with a question.
        let sure = |a: usize, b: usize| {
            texts.len() == 2
                || names::is_numbered(self.name(a), self.name(b)) && !names::is_choice(self.name(a))
                || names::plain(self.name(b)) == "hypothesis"
        };
        all.into_iter().find(|(a, b)| a != b && names::is_pair(self.name(*a), self.name(*b)) && sure(*a, *b))
    }

    /// The features of a table without text.
    fn features(&self, label: Label, answer: AnswerArg) -> ChoiceResult<Draft> {
        let is_feature = |at: &usize| *at != label.at && self.kinds[*at].is_feature();
        let mut inputs: Vec<usize> = self.all().filter(is_feature).collect();
        if inputs.is_empty() {
            // A text without blanks looks as a key does.
            inputs = self
                .all()
                .filter(|at| *at != label.at && self.kinds[*at] == Kind::Key && !names::is_key(self.name(*at)))
                .collect();
        }
        match &inputs[..] {
            [] => ask(format!(
                "no column but the label `{}` holds an input: {}",
                self.name(label.at),
                self.kept_out(label.at)
            )),
            _ => self.checked(TaskArg::Table, inputs, label, answer, "a feature, written as text"),
        }
    }

    /// The columns of numbers and few values besides the label.
    fn features_beside(&self, label: usize) -> Vec<usize> {
        self.all().filter(|at| *at != label && self.kinds[*at].is_feature()).collect()
    }

    /// Whether the only text is a name or another short one among several features.
    fn is_feature_table(&self, text: usize, label: usize) -> bool {
        let is_short = self.column(text).words < 8 * self.filled(text);
        is_short && !names::is_text(self.name(text)) && self.features_beside(label).len() > 2
    }

    /// The task on texts without a label.
    fn unlabelled(&self, wished: Vec<usize>) -> ChoiceResult<Draft> {
        let is_label = |at: &usize| !self.found.headless && names::label(self.name(*at)) == 2 && !wished.contains(at);
        if let Some(at) = self.all().find(is_label) {
            return ask(self.no_label_by_name(at));
        }
        let texts = self.texts(None);
        if let Some(at) = self.all().find(|at| self.kinds[*at] == Kind::Written && !wished.contains(at)) {
            return ask(format!("{}; `--task language` learns a text without a label", self.written(at)));
        }
        let others = self.all().any(|at| self.kinds[at].is_feature());
        match (&texts[..], others) {
            ([_], false) => self.language(wished),
            ([first, second], false) if names::is_heading(self.name(*first), self.name(*second)) => {
                self.language(vec![*second])
            }
            ([first, second], false) if names::is_heading(self.name(*second), self.name(*first)) => {
                self.language(vec![*first])
            }
            _ => ask(self.no_label(&texts)),
        }
    }

    /// The next token of the texts of one column.
    fn language(&self, wished: Vec<usize>) -> ChoiceResult<Draft> {
        if self.wishes.label.is_some() || self.wishes.answer.is_some() {
            return ask("`--task language` has no label: every token is the label of those before");
        }
        let texts: Vec<usize> = self.texts(None).into_iter().filter(|at| self.kinds[*at] == Kind::Text).collect();
        let (inputs, why) = match (&wished[..], &texts[..]) {
            ([_], _) => (wished, "`--input` says so, or the text below a heading"),
            ([], [text]) => (vec![*text], "the only text, and nothing is a label of it"),
            ([], _) => return ask(format!("which text is learned? {}", self.options("--input", &texts))),
            _ => return ask("`--task language` has one column of text: give `--input` once"),
        };
        Ok(self.finish(TaskArg::Language, inputs, None, AnswerArg::Class, why))
    }

    /// A draft whose label, input and answer go together.
    fn checked(
        &self,
        task: TaskArg,
        inputs: Vec<usize>,
        label: Label,
        answer: AnswerArg,
        why: &str,
    ) -> ChoiceResult<Draft> {
        if task == TaskArg::Pairs && answer != AnswerArg::Class {
            return ask(
                "`--task pairs` has classes alone: `--task table` with both texts as `--input` takes a number or several labels",
            );
        }
        if let Some(broken) = inputs.iter().find(|at| matches!(self.kinds[**at], Kind::Nested | Kind::Empty)) {
            return ask(format!("`{}` is {}, and can't be input", self.name(*broken), self.kinds[*broken].name()));
        }
        if let (AnswerArg::Number, true) = (answer, self.column(label.at).numbers < self.filled(label.at)) {
            return ask(format!(
                "`{}` is no number in some rows ({}): correct them, or `--answer class` takes its values as classes",
                self.name(label.at),
                self.odd_rows(label.at)
            ));
        }
        Ok(self.finish(task, inputs, Some(label), answer, why))
    }

    fn finish(&self, task: TaskArg, inputs: Vec<usize>, label: Option<Label>, answer: AnswerArg, why: &str) -> Draft {
        let tokens = self.tokens(task, &inputs);
        let role = |at: usize| match &label {
            Some(label) if label.at == at => ColumnRole { role: "label", why: label.why.clone() },
            _ if inputs.contains(&at) => ColumnRole { role: "input", why: self.with_missing(at, why) },
            _ => ColumnRole { role: "-", why: self.left_out(at).to_owned() },
        };
        let mut columns: Vec<ColumnRole> = self.all().map(role).collect();
        let is_class = answer == AnswerArg::Class && matches!(task, TaskArg::Table | TaskArg::Pairs);
        let rarest = label.as_ref().filter(|_| is_class).and_then(|label| self.rarest(label.at));
        if let (Some(label), Some((class, rows))) = (&label, rarest) {
            let count = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
            columns[label.at].why += &format!("; the class `{class}` has {count}, so shares are stratified");
        }
        let missing = label.as_ref().map_or(0, |label| self.column(label.at).missing);
        let skips = missing > 0 && answer != AnswerArg::Labels && matches!(task, TaskArg::Table | TaskArg::Pairs);
        let mut notes = self.notes();
        let classes = label.as_ref().filter(|_| answer == AnswerArg::Class && task != TaskArg::Tagging);
        notes.extend(classes.and_then(|label| self.odd_classes(label.at)));
        if skips {
            notes.push(format!(
                "{missing} of {} rows have no label: `unlabelled: skip` leaves them out",
                self.found.rows
            ));
        }
        let separator =
            label.as_ref().filter(|_| answer == AnswerArg::Labels).and_then(|label| self.separator(label.at));
        Draft {
            task,
            label: label.as_ref().map(|label| label.at),
            answer,
            separator: separator.filter(|mark| *mark != ','),
            comma: answer == AnswerArg::Number && label.as_ref().is_some_and(|label| self.column(label.at).has_commas),
            tokens,
            length: self.length(task, tokens, &inputs),
            columns,
            skips,
            stratify: rarest.is_some(),
            notes,
            text: String::new(),
            inputs,
        }
    }

    /// The class with the fewest rows, if a share of its rows is not reliable.
    fn rarest(&self, label: usize) -> Option<(&str, usize)> {
        let values = &self.column(label).values;
        let (class, rows) =
            values.iter().min_by_key(|(_, rows)| **rows).filter(|_| values.len() <= ColumnLook::MOST)?;
        (*rows < RELIABLE).then(|| (class.trim(), *rows))
    }

    /// What to know of a draft that is made all the same.
    fn notes(&self) -> Vec<String> {
        let of_split = |at: usize| {
            let values: Vec<&str> = self.column(at).values.keys().map(String::as_str).collect();
            format!(
                "`{}` says which split a row belongs to ({}), and here `dev` is drawn from all rows: write the rows of each into a file \
                 of its own, and name these under `task.data`",
                self.name(at),
                values.join(", ")
            )
        };
        self.all().filter(|at| self.kinds[*at] == Kind::Split).map(of_split).collect()
    }

    /// What is wrong with a column of numbers as people write them.
    fn written(&self, at: usize) -> String {
        let column = self.column(at);
        let comma = if column.commas > 0 && column.commas + column.whole == self.filled(at) {
            "`--decimal comma` reads the comma as the mark before a fraction, or "
        } else {
            ""
        };
        let labels =
            if self.separator(at).is_some() { "; `--answer labels` takes several labels of a row" } else { "" };
        format!(
            "`{}` has numbers with commas or signs ({}): {comma}write them as `1234.5`, without signs and separators of thousands; \
             `--answer class` with {} takes every value as a class{labels}",
            column.name,
            self.odd_rows(at),
            self.option("--label", at)
        )
    }

    /// The first rows of a column without a number.
    fn odd_rows(&self, at: usize) -> String {
        let column = self.column(at);
        let rows = column.odd.iter().map(|(line, value)| format!("`{value}` in {} {line}", self.place()));
        let rows = rows.collect::<Vec<_>>().join(", ");
        if self.filled(at) - column.numbers > column.odd.len() { rows + ", .." } else { rows }
    }

    /// What is counted to find a row.
    fn place(&self) -> &'static str {
        if self.found.format == Format::Parquet { "row" } else { "line" }
    }

    fn with_missing(&self, at: usize, why: &str) -> String {
        match self.column(at).missing {
            0 => why.to_owned(),
            missing => format!("{why}; missing in {missing} rows"),
        }
    }

    /// Why a column is neither input nor label.
    fn left_out(&self, at: usize) -> &'static str {
        match self.kinds[at] {
            Kind::Empty => "left out: no row has a value",
            Kind::Same => "left out: all rows have the same value",
            Kind::Nested => "left out: it holds objects or lists in lists, which no task takes",
            Kind::Key => "left out: it names the row or another thing",
            Kind::Split => "left out: it says which split a row belongs to",
            Kind::Date => "left out: a date",
            Kind::Text | Kind::Words => "left out: another text",
            Kind::Numbers => "left out: a vector, which models take by `given`",
            Kind::Number { .. } => "left out: a number beside the text, which models take by `given`",
            Kind::Written => "left out: numbers with commas or signs, which no task reads as numbers",
            Kind::Truth | Kind::Category => "left out: few values beside the input",
        }
    }

    /// How the input becomes tokens.
    fn tokens(&self, task: TaskArg, inputs: &[usize]) -> &'static str {
        let number = |at: &usize| self.is_number(*at) || self.kinds[*at] == Kind::Written;
        // Of words that hardly ever come again, a vocabulary knows none: letters do.
        let letters = |at: &usize| {
            self.column(*at).words * 2 < self.filled(*at) * 3 && !has_few_values(self.column(*at), self.filled(*at))
        };
        match task {
            TaskArg::Sequences | TaskArg::Language => "characters",
            TaskArg::Tagging => "blanks",
            _ if inputs.iter().any(number) => "characters",
            _ if inputs.iter().all(|at| self.kinds[*at] == Kind::Words) => "blanks",
            _ if inputs.iter().all(letters) => "characters",
            _ if inputs.iter().all(|at| self.kinds[*at].is_feature()) => "blanks",
            _ => "words",
        }
    }

    /// The length that characters need, where the default is too short for them.
    fn length(&self, task: TaskArg, tokens: &str, inputs: &[usize]) -> Option<usize> {
        let longest = inputs.iter().map(|at| self.column(*at).longest + 1).sum::<usize>();
        (task != TaskArg::Language && tokens == "characters" && longest > LENGTH).then(|| longest.min(LONGEST))
    }
}
