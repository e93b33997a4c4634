//! A text and the text that is written for it: two columns with such names, nearly all of whose values differ.

use rtc_task::ColumnLook;

use super::{ChoiceResult, Chooser, LENGTH, LONGEST, Label, ask};
use crate::command::task::draft::kind::Kind;
use crate::command::task::draft::{AnswerArg, Draft, TaskArg, names};

impl Chooser<'_> {
    /// The input and the target of `sequences`; `None` where no option asks for them and no names tell them.
    pub(super) fn sequences(&self, wished: &[usize]) -> ChoiceResult<Option<Draft>> {
        let is_wished = self.wishes.task == Some(TaskArg::Sequences);
        if !is_wished && (self.wishes.task.is_some() || self.wishes.answer.is_some() || wished.len() > 1) {
            return Ok(None);
        }
        if self.wishes.answer.is_some() || wished.len() > 1 {
            return ask("`--task sequences` has one text as `--input` and one as `--label`, and no `--answer`");
        }
        let label = self.wishes.label.as_ref().map(|name| self.named("--label", name)).transpose()?;
        let fits = |(input, target): &(usize, usize)| {
            wished.first().is_none_or(|at| at == input) && label.is_none_or(|at| at == *target)
        };
        let named = self.named_sequences().filter(|pair| fits(pair) && (is_wished || self.is_sure(*pair)));
        if let Some((input, target)) = named {
            return self.sequence(input, target, "its name, beside that of the input, is that of a target").map(Some);
        }
        if !is_wished {
            return Ok(None);
        }
        let texts: Vec<usize> = self.all().filter(|at| self.is_text(*at)).collect();
        match (wished, label, &texts[..]) {
            ([input], Some(target), _) if *input == target => {
                ask(format!("`{}` can't be both input and label", self.name(target)))
            }
            ([input], Some(target), _) => self.sequence(*input, target, "`--label` says so").map(Some),
            ([], None, [input, target]) => self.sequence(*input, *target, "the second of two texts").map(Some),
            _ => ask(format!(
                "which text is written for which? {}; {}",
                self.options("--input", &texts),
                self.options("--label", &texts)
            )),
        }
    }

    /// Two columns whose names tell them.
    fn named_sequences(&self) -> Option<(usize, usize)> {
        if self.found.headless {
            return None;
        }
        let all = self.all().flat_map(|a| self.all().map(move |b| (a, b)));
        all.into_iter().find(|(a, b)| {
            let is_text = self.is_text(*a) && self.is_text(*b);
            is_text && names::is_sequence(self.name(*a), self.name(*b))
        })
    }

    /// Whether nearly every row has texts of its own in both columns, and no other column may be a label or an input.
    fn is_sure(&self, (input, target): (usize, usize)) -> bool {
        let differs = |at: usize| {
            let values = self.column(at).values.len();
            values > ColumnLook::MOST || 10 * values >= 9 * self.filled(at)
        };
        let aside = |at: usize| {
            matches!(self.kinds[at], Kind::Empty | Kind::Same | Kind::Split | Kind::Date)
                || self.kinds[at] == Kind::Key && names::is_key(self.name(at))
        };
        differs(input) && differs(target) && self.all().all(|at| at == input || at == target || aside(at))
    }

    /// Whether a column holds texts. A text without blanks looks as a key does.
    fn is_text(&self, at: usize) -> bool {
        match self.kinds[at] {
            Kind::Text | Kind::Words | Kind::Written => true,
            Kind::Key => !names::is_key(self.name(at)),
            Kind::Empty
            | Kind::Same
            | Kind::Nested
            | Kind::Numbers
            | Kind::Number { .. }
            | Kind::Truth
            | Kind::Split
            | Kind::Date
            | Kind::Category => false,
        }
    }

    fn sequence(&self, input: usize, target: usize, why: &str) -> ChoiceResult<Draft> {
        let cannot = |at: usize| matches!(self.kinds[at], Kind::Nested | Kind::Empty);
        if let Some(broken) = [input, target].into_iter().find(|at| cannot(*at)) {
            return ask(format!("`{}` is {}, and no text", self.name(broken), self.kinds[broken].name()));
        }
        let label = Label { at: target, why: format!("{why}: the model writes it") };
        let why = "the text for which the target is written";
        let mut draft = self.finish(TaskArg::Sequences, vec![input], Some(label), AnswerArg::Class, why);
        let longest = self.column(input).longest.max(self.column(target).longest);
        draft.length = (longest > LENGTH).then(|| longest.min(LONGEST));
        Ok(draft)
    }
}
