//! Tokens with a label each: lists, or texts with blanks between, with equally many items in every row.

use rtc_task::{Alignment, ColumnLook};

use super::{ChoiceResult, Chooser, Label, ask};
use crate::command::task::draft::kind::Kind;
use crate::command::task::draft::{AnswerArg, Draft, TaskArg, names};

impl Chooser<'_> {
    /// A list of tokens and a list of labels for them, or texts with blanks between; nothing where no two columns go together.
    pub(super) fn tagging(&self, wished: &[usize]) -> ChoiceResult<Option<Draft>> {
        let is_wished = self.wishes.task == Some(TaskArg::Tagging);
        if self.wishes.task.is_some_and(|task| task != TaskArg::Tagging) || self.wishes.answer.is_some() {
            return Ok(None);
        }
        let label = self.wishes.label.as_ref().map(|name| self.named("--label", name)).transpose()?;
        let pairs = self.pairs_of_lists(is_wished);
        let fits = |(tokens, tags): &(usize, usize)| {
            wished.first().is_none_or(|at| at == tokens) && label.is_none_or(|at| at == *tags)
        };
        let pairs: Vec<(usize, usize)> = pairs.into_iter().filter(fits).collect();
        match &pairs[..] {
            [] if self.one_row_breaks(label).is_some() => ask(self.one_row_breaks(label).unwrap_or_default()),
            [] if is_wished => {
                ask("no two columns have equally many items in every row, as tokens and their labels have")
            }
            [] => Ok(None),
            [(tokens, tags)] => self.tagged(*tokens, *tags, label.is_some()).map(Some),
            many => {
                let tokens = many[0].0;
                let tags: Vec<usize> = many.iter().map(|(_, tags)| *tags).collect();
                if many.iter().any(|(other, _)| *other != tokens) {
                    let inputs: Vec<usize> = many.iter().map(|(tokens, _)| *tokens).collect();
                    return ask(format!(
                        "which list holds the tokens, and which their labels? {}; {}",
                        self.options("--input", &inputs),
                        self.options("--label", &tags)
                    ));
                }
                ask(format!(
                    "several lists have a label for each of `{}`: {}",
                    self.name(tokens),
                    self.options("--label", &tags)
                ))
            }
        }
    }

    /// The sentence about two lists that go together in all but a few rows.
    fn one_row_breaks(&self, label: Option<usize>) -> Option<String> {
        let is_list = |at: usize| matches!(self.kinds[at], Kind::Words | Kind::Numbers);
        let wanted = |at: usize| label.is_none_or(|label| label == at);
        let fits = |pair: &&Alignment| {
            let (a, b) = pair.columns;
            is_list(a) && is_list(b) && (wanted(a) || wanted(b))
        };
        let pair = self.found.nearly_aligned.iter().find(fits)?;
        let ((a, b), (line, [of_a, of_b])) = (pair.columns, pair.first?);
        Some(format!(
            "{} {line}: `{}` has {of_a} items and `{}` has {of_b}, and in all but {} of {} rows both have as many: correct these rows",
            self.place(),
            self.name(a),
            self.name(b),
            pair.rows,
            self.found.rows
        ))
    }

    /// Pairs of a column of tokens and one of labels that have equally many items in every row.
    fn pairs_of_lists(&self, is_wished: bool) -> Vec<(usize, usize)> {
        let label = self.wishes.label.as_deref();
        let is_list = |at: usize| matches!(self.kinds[at], Kind::Words | Kind::Numbers);
        let is_one =
            |at: usize| self.column(at).items.len() < 2 || self.kinds[at] == Kind::Numbers && !self.is_whole(at);
        let several = |at: usize| self.column(at).words > self.filled(at);
        let tag_name = |at: usize| names::is_tags(self.name(at)) && !names::is_tokens(self.name(at));
        let mut found = vec![];
        for &(a, b) in &self.found.aligned {
            let (a_lists, b_lists) = (is_list(a), is_list(b));
            let texts = matches!(self.kinds[a], Kind::Text | Kind::Category)
                && matches!(self.kinds[b], Kind::Text | Kind::Category);
            let named = tag_name(a) != tag_name(b);
            let can = a_lists && b_lists
                || (a_lists || b_lists) && (named || is_wished)
                || texts
                    && several(a)
                    && several(b)
                    && (named
                        || is_wished
                        || label.is_some_and(|label| label == self.name(a) || label == self.name(b)));
            if !can || is_one(a) || is_one(b) {
                continue;
            }
            found.extend(self.directed(a, b));
        }
        found
    }

    /// Which of two columns holds the tokens; both ways round where that is open.
    fn directed(&self, a: usize, b: usize) -> Vec<(usize, usize)> {
        let tokens = |at: usize| names::is_tokens(self.name(at));
        let tags = |at: usize| names::is_tags(self.name(at)) && !tokens(at);
        match (tags(a), tags(b)) {
            // Two lists of labels go together because both go with the tokens.
            (true, true) => return vec![],
            (false, true) => return vec![(a, b)],
            (true, false) => return vec![(b, a)],
            (false, false) => {}
        }
        let (of_a, of_b) = (self.column(a).items.len(), self.column(b).items.len());
        if tokens(a) != tokens(b) {
            return vec![if tokens(a) { (a, b) } else { (b, a) }];
        }
        match (2 * of_b <= of_a, 2 * of_a <= of_b) {
            (true, _) => vec![(a, b)],
            (_, true) => vec![(b, a)],
            _ => vec![(a, b), (b, a)],
        }
    }

    pub(super) fn is_whole(&self, at: usize) -> bool {
        self.column(at).whole == self.column(at).numbers
    }

    fn tagged(&self, tokens: usize, tags: usize, asked: bool) -> ChoiceResult<Draft> {
        let (items, labels) = (self.column(tokens).items.len(), self.column(tags).items.len());
        if !asked && (labels > ColumnLook::MOST || labels > items) {
            return ask(format!(
                "`{}` has a word for each of `{}`, and {labels} different ones: `--label {}` takes them as labels",
                self.name(tags),
                self.name(tokens),
                self.name(tags)
            ));
        }
        let label = Label {
            at: tags,
            why: format!("one of {labels} labels for each item of `{}`, in every row", self.name(tokens)),
        };
        let why = format!("as many items as `{}` in every row, {items} different ones", self.name(tags));
        Ok(self.finish(TaskArg::Tagging, vec![tokens], Some(label), AnswerArg::Class, &why))
    }
}
