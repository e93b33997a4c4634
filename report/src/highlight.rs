//! A spec with its comments, numbers, fields and statements in colours.

use crate::svg::escape;

/// What a piece of a spec is, by the class that it gets.
fn class(word: &str, rest: &str, begins: bool) -> Option<&'static str> {
    match word.chars().next() {
        Some(c) if c.is_ascii_digit() => Some("num"),
        Some(_) if rest.starts_with(':') => Some("fld"),
        Some(_) if begins => Some("key"),
        _ => None,
    }
}

/// The text as HTML.
pub(crate) fn html(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let (code, comment) = line.split_at(line.find("//").unwrap_or(line.len()));
        code_of(code, &mut out);
        if !comment.is_empty() {
            out.push_str(&format!("<span class=\"com\">{}</span>", escape(comment)));
        }
        out.push('\n');
    }
    out
}

fn code_of(line: &str, out: &mut String) {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let (mut rest, mut begins) = (line, true);
    while let Some(first) = rest.chars().next() {
        let end = match part_of_word(first) {
            true => rest.find(|c| !part_of_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (piece, after) = rest.split_at(end);
        match class(piece, after, begins).filter(|_| part_of_word(first)) {
            Some(class) => out.push_str(&format!("<span class=\"{class}\">{}</span>", escape(piece))),
            None => out.push_str(&escape(piece)),
        }
        // A statement begins at the start of a line and after a brace.
        begins = matches!(first, '{' | '}') || (begins && first.is_whitespace());
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_get_their_classes_and_are_escaped() {
        let html = html("recur depthwise { depth: 10 } // <b>\nmask m = j <= i");
        assert_eq!(
            html,
            "<span class=\"key\">recur</span> depthwise { <span class=\"fld\">depth</span>: <span class=\"num\">10</span> } \
             <span class=\"com\">// &lt;b&gt;</span>\n<span class=\"key\">mask</span> m = j &lt;= i\n"
        );
    }
}
