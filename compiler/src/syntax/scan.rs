//! A scan of the characters before parsing: nesting and comments.
//!
//! The parser recurses once per bracket. The nesting is limited here, before it runs, so that no input can exhaust
//! the stack of a 2 MiB thread.

use super::ast::Comment;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::source::{SourceId, Span};

/// The deepest nesting of `{`, `(` and `[`.
pub const MAX_NESTING: usize = 64;

/// The result of the look for comments.
pub(super) struct CommentScan {
    /// The comments in order.
    pub(super) comments: Vec<Comment>,
    /// The innermost bracket that is still open at the end.
    pub(super) unclosed: Option<Span>,
}

/// Looks at a text; `None` when it is refused.
pub(super) fn scan(id: SourceId, text: &str, problems: &mut Problems) -> Option<CommentScan> {
    let bytes = text.as_bytes();
    let mut comments = Vec::new();
    let mut open: Vec<Span> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                let end = line_end(text, at);
                let comment = text[at..end].trim_end();
                comments.push(Comment { text: comment.to_owned(), span: Span::new(id, at, at + comment.len()) });
                at = end;
                continue;
            }
            b'"' => {
                let rest = &text[at + 1..];
                at += 1 + rest.find(['"', '\n']).unwrap_or(rest.len());
            }
            b'{' | b'(' | b'[' => {
                let place = Span::new(id, at, at + 1);
                open.push(place);
                if open.len() > MAX_NESTING {
                    let message = format!("brackets are nested more than {MAX_NESTING} deep");
                    problems.report(Diagnostic::new(Kind::TooDeep, place, message).label("one level too many"));
                    return None;
                }
            }
            b'}' | b')' | b']' => {
                open.pop();
            }
            _ => {}
        }
        at += 1;
    }
    Some(CommentScan { comments, unclosed: open.last().copied() })
}

/// The offset of the line break that ends the line of `at`, or the end of the text.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n)
}
