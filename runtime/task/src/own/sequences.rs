//! Rows of `sequences`: an input text, a separator, and a target text with its end as one row of next tokens.

use super::Own;
use super::language::window;
use super::plan::CustomTaskKind;
use crate::files::FileCell;
use crate::masking::Masking;
use crate::{Example, ExampleTarget};

/// Names of the tokens between an input and its target, and behind a target.
const SEPARATOR: &str = "<separator>";
const END: &str = "<end>";
/// Name of the token in place of a hidden one.
const MASK: &str = "<mask>";

impl Own {
    /// Names of the tokens that no text has. Their ids follow those of the vocabulary.
    pub(super) fn marks(&self) -> &'static [&'static str] {
        match self.plan.kind {
            CustomTaskKind::Sequences => &[SEPARATOR, END],
            CustomTaskKind::Masked => &[MASK],
            CustomTaskKind::Table | CustomTaskKind::Pairs | CustomTaskKind::Tagging | CustomTaskKind::Language => &[],
        }
    }

    /// The token in place of a hidden one, with its name.
    pub(super) fn mask(&self) -> Option<(&'static str, u32)> {
        self.mark(MASK).map(|mask| (MASK, mask))
    }

    /// The draw of the hidden tokens, for a task that hides some.
    pub(super) fn row_masking(&self) -> Option<Masking> {
        let (_, mask) = self.mask()?;
        Some(Masking::new(self.learned.rule.seed, self.plan.share, mask))
    }

    /// Returns the tokens of a text in which a person may write the mask; `encode` makes those between masks.
    pub(super) fn between_marks(
        &self,
        text: &str,
        encode: impl Fn(&str) -> Result<Vec<u32>, String>,
    ) -> Result<Vec<u32>, String> {
        let Some((name, mask)) = self.mask() else { return encode(text) };
        let mut tokens = vec![];
        for (n, part) in text.split(name).enumerate() {
            tokens.extend((n > 0).then_some(mask));
            tokens.extend(encode(part)?);
        }
        Ok(tokens)
    }

    /// The id of a mark; `None` for a task without it.
    fn mark(&self, name: &str) -> Option<u32> {
        let at = self.marks().iter().position(|own| *own == name)?;
        Some((self.learned.tokens.count() + at) as u32)
    }

    /// The token between an input and its target.
    pub(super) fn separator(&self) -> Option<u32> {
        self.mark(SEPARATOR)
    }

    /// The token behind a target.
    pub(super) fn answer_end(&self) -> Option<u32> {
        self.mark(END)
    }

    /// Returns some tokens as text: `text` writes those of texts, and marks stand by their names.
    pub(super) fn marked(&self, tokens: &[u32], text: impl Fn(&[u32]) -> String) -> String {
        let (count, marks) = (self.learned.tokens.count(), self.marks());
        let mark = |token: u32| marks.get((token as usize).checked_sub(count)?);
        if tokens.iter().all(|token| mark(*token).is_none()) {
            return text(tokens);
        }
        let runs = tokens.chunk_by(|a, b| mark(*a).is_none() && mark(*b).is_none());
        let written = runs.map(|run| mark(run[0]).map_or_else(|| text(run), |name| (*name).to_owned()));
        written.collect::<Vec<_>>().join(self.learned.tokens.between())
    }

    /// Returns a row of an input and its target, and how many tokens of both were cut off. Targets alone are scored, with their ends;
    /// a target that was cut has no end, so that no model learns to end there.
    pub(super) fn written_row(&self, inputs: &[FileCell], target: &FileCell) -> Result<(Example, usize), String> {
        let (Example { tokens: mut row, .. }, [cut, _]) = self.texts(inputs)?;
        let unscored = row.len() - 1;
        let (kept, behind) = self.sequence(target, self.plan.inputs)?;
        let text_bytes = match target {
            FileCell::Text(text) => Some(self.learned.tokens.spans(text)?.1[..kept.len()].iter().sum()),
            FileCell::Missing | FileCell::List(_) | FileCell::Lists(_) => None,
        };
        row.extend(kept);
        row.extend(self.answer_end().filter(|_| behind == 0));
        let mut example = Example { text_bytes, ..window(&row) };
        if let ExampleTarget::Each { weight, .. } = &mut example.label {
            weight[..unscored].fill(0.0);
        }
        Ok((example, cut + behind))
    }
}
