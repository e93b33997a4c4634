//! Explains a class that the training file does not have.

use super::learn::Learned;
use crate::error::unknown;

/// Characters of a name that are shown, and of all names that are listed.
const SHOWN: (usize, usize) = (60, 400);
/// Names that are listed at most.
const LISTED: usize = 20;

impl Learned {
    /// Explains that the training rows have no class of this name in a column.
    pub(super) fn no_class(&self, name: &str, column: &str) -> String {
        let short = |name: &str| match name.char_indices().nth(SHOWN.0) {
            Some((at, _)) => format!("{}..", &name[..at]),
            None => name.to_owned(),
        };
        let (count, rows) = (self.classes.len(), self.rows);
        if 2 * count > rows && rows > 0 && count > LISTED {
            return format!(
                "there is no class `{}`: the {rows} rows for training have {count} classes in `{column}`, which is hardly a label. Name \
                 another column in `task.label`",
                short(name)
            );
        }
        let mut listed: Vec<&str> = self.classes.iter().take(LISTED).map(String::as_str).collect();
        while listed.len() > 1 && listed.iter().map(|class| class.len()).sum::<usize>() > SHOWN.1 {
            listed.pop();
        }
        let more = if count > listed.len() { ", and others" } else { "" };
        unknown("class", &short(name), &listed) + more + " among the labels of the training file"
    }
}
