//! Readers of the published ListOps files.

use std::path::Path;

use super::{SYMBOLS, evaluate};
use crate::error::DataError;
use crate::held::lines;
use crate::{Example, ids};

/// Reads `label TAB expression`, or the Long Range Arena's format: header `Source TAB Target`, then
/// `expression TAB label`. Round brackets are dropped; blanks separate symbols.
pub(super) fn read(path: &Path) -> Result<Vec<Example>, DataError> {
    let mut label_first = true;
    lines(path, |number, text| {
        if number == 1 && text == "Source\tTarget" {
            label_first = false;
            return Ok(None);
        }
        row(text, label_first).map(Some)
    })
}

fn row(text: &str, label_first: bool) -> Result<Example, String> {
    let columns: Vec<&str> = text.split('\t').collect();
    let &[first, second] = columns.as_slice() else {
        return Err(format!("a row has two columns with a tab between them, and this one has {}", columns.len()));
    };
    let (label, expression) = if label_first { (first, second) } else { (second, first) };
    let label = match label.parse::<u32>() {
        Ok(label) if label < 10 => label,
        _ => return Err(format!("the label `{label}` is no digit")),
    };
    let words = expression.split_whitespace().filter(|word| *word != "(" && *word != ")");
    let tokens = ids(words, &SYMBOLS, "symbol of ListOps")?;
    match evaluate(&tokens)? {
        value if value == label => Ok(Example::classified(tokens, label)),
        value => Err(format!("the label is {label}, but the expression has the value {value}")),
    }
}
