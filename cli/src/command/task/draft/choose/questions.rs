//! Questions about columns, and files, of which no input and no label can be made.

use rtc_task::Format;

use super::Chooser;
use crate::command::task::draft::kind::Kind;
use crate::command::task::draft::names;

impl Chooser<'_> {
    /// The question of a file of one object that holds all rows as a list.
    pub(super) fn wrapper(&self) -> Option<String> {
        let at = self.all().find(|at| self.kinds[*at] == Kind::Nested)?;
        let is_one =
            self.found.format == Format::Json && self.found.rows == 1 && self.column(at).first.starts_with('[');
        is_one.then(|| {
            let name = self.name(at);
            format!(
                "the file is one object, whose `{name}` holds a list of rows: write the list alone into a file, as \
                 `json.dump(whole[\"{name}\"], file)` of Python does"
            )
        })
    }

    /// The question of a file of one object that holds all values of each column as a list, or under the numbers of the rows.
    pub(super) fn columnwise(&self) -> Option<String> {
        let is_whole = |at: usize| {
            let column = self.column(at);
            column.lists > 0 && column.words > 1 || column.nested > 0 && column.first.starts_with("{\"0\"")
        };
        let is_one = self.found.format == Format::Json && self.found.rows == 1 && self.found.columns.len() > 1;
        (is_one && self.all().all(is_whole)).then(|| {
            "the file is one object, which holds all values of a column in one: write a row per line, as \
             `pandas.DataFrame(whole).to_json(\"rows.jsonl\", orient=\"records\", lines=True)` of Python does"
                .to_owned()
        })
    }

    /// The sentence about a table with a line per token: a column of sentences has a value in the first line of each.
    pub(super) fn token_lines(&self) -> Option<String> {
        let is_sentence = |at: &usize| {
            let name = names::plain(self.name(*at));
            let begins = 2 * self.filled(*at) < self.found.rows && self.filled(*at) > 0;
            begins && ["sentence", "sent", "doc"].iter().any(|start| name.starts_with(start))
        };
        let at = self.all().find(is_sentence).filter(|_| self.wishes.are_none())?;
        Some(format!(
            "`{}` has a value in {} of {} rows, as a table with a line per token has: write a JSON line per sentence, as \
             `{{\"tokens\": [\"a\", \"b\"], \"tags\": [\"X\", \"Y\"]}}`; `--input` and `--label` take the rows as they are",
            self.name(at),
            self.filled(at),
            self.found.rows
        ))
    }

    /// The kind of a column and the number of its values, which says nothing of objects.
    pub(super) fn content(&self, at: usize) -> String {
        match self.kinds[at] {
            kind @ (Kind::Nested | Kind::Empty) => kind.name().to_owned(),
            kind => format!("{}, {}", kind.name(), self.values(at)),
        }
    }

    /// Lists the columns that may be input beside a label, or explains that there are none.
    pub(super) fn kept_out(&self, label: usize) -> String {
        let others: Vec<usize> = self.all().filter(|at| *at != label).collect();
        let usable: Vec<usize> = others.iter().copied().filter(|at| self.has_values(*at)).collect();
        match (&others[..], &usable[..]) {
            ([], _) => "there is none".to_owned(),
            (_, []) => self.no_values(&others),
            (_, usable) => self.options("--input", usable),
        }
    }

    /// Whether a column holds texts or numbers, or lists of these.
    fn has_values(&self, at: usize) -> bool {
        !matches!(self.kinds[at], Kind::Nested | Kind::Empty)
    }

    /// Explains that columns hold nothing that a task takes.
    fn no_values(&self, columns: &[usize]) -> String {
        let is_nested = columns.iter().any(|at| self.kinds[*at] == Kind::Nested);
        let one = |at: &usize| format!("`{}` holds {}", self.name(*at), self.nothing(*at));
        let columns = columns.iter().map(one).collect::<Vec<_>>().join(", ");
        let cure = ": write their texts and numbers as columns, as `{\"text\": \"...\", \"label\": \"...\"}`";
        columns + if is_nested { cure } else { "" }
    }

    /// The content of a column that is neither input nor label.
    pub(super) fn nothing(&self, at: usize) -> &'static str {
        match self.kinds[at] {
            Kind::Nested => "objects or lists in lists, which no task takes",
            Kind::Empty => "no value",
            other => other.name(),
        }
    }

    /// The question of a column with the name of a label and values that are none.
    pub(super) fn no_label_by_name(&self, at: usize) -> String {
        let cure = match self.kinds[at] {
            Kind::Same => "one class is nothing to learn. Another column".to_owned(),
            Kind::Empty | Kind::Nested => "no task takes it. Another column".to_owned(),
            _ => format!("{} takes it as it is, another column", self.option("--label", at)),
        };
        format!(
            "`{}` has the name of a label, and its values are none ({}): {cure} is named by `--label`; `--task language` learns a text \
             without it",
            self.name(at),
            self.content(at)
        )
    }

    /// The question of a file without a column that looks like a label, with these texts.
    pub(super) fn no_label(&self, texts: &[usize]) -> String {
        let labels: Vec<usize> = self.all().filter(|at| self.can_label(*at)).collect();
        match (texts, &labels[..]) {
            ([], []) => {
                format!("no column holds a text or a label: {}", self.no_values(&self.all().collect::<Vec<_>>()))
            }
            ([], labels) => format!("no column holds a text or a label: {}", self.options("--label", labels)),
            (texts, labels) => {
                let labels =
                    if labels.is_empty() { String::new() } else { format!(": {}", self.options("--label", labels)) };
                let pair = match texts {
                    [first, second] => format!(
                        "; `--task sequences` with {} and {} learns to write a text for a text",
                        self.option("--input", *first),
                        self.option("--label", *second)
                    ),
                    _ => String::new(),
                };
                format!(
                    "no column holds few values that could be labels{labels}{pair}; `--task language` learns the texts of one column, with one of {}",
                    self.options("--input", texts)
                )
            }
        }
    }
}
