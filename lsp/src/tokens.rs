//! The words around a place of a text, whether the text can be parsed or not: what is being written has mistakes.

use rtc_compiler::syntax::MAX_FILE_BYTES;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Number,
    /// In quotes; they may still be open.
    Quoted,
    Comment,
    Line,
    Sign,
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'t str,
    /// Its first byte.
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != TokenKind::Quoted
    }
}

/// The tokens of a text in order, without blanks.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = vec![];
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        // No search goes further than the token: a line may be as long as the text.
        let rest = &text[at..];
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (kind, len) = match c {
            '\n' => (TokenKind::Line, 1),
            '"' => (TokenKind::Quoted, quoted(rest)),
            '/' if rest.starts_with("//") => (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '0'..='9' => (TokenKind::Number, rest.find(|c| !letter(c) && c != '.').unwrap_or(rest.len())),
            c if letter(c) => (TokenKind::Word, rest.find(|c| !letter(c)).unwrap_or(rest.len())),
            c => (TokenKind::Sign, c.len_utf8()),
        };
        if !c.is_whitespace() || kind == TokenKind::Line {
            found.push(Token { kind, text: &rest[..len], start: at });
        }
        at += len;
    }
    found
}

/// The length of what begins with a mark, up to the next one, or else to the end of the line.
fn quoted(rest: &str) -> usize {
    match rest[1..].find(['"', '\n']) {
        Some(end) if rest[1 + end..].starts_with('"') => end + 2,
        Some(end) => end + 1,
        None => rest.len(),
    }
}

/// The tokens around the cursor.
#[derive(Debug, Default)]
pub(crate) struct CursorContext<'t> {
    /// What stands before every bracket around, in its element: the outermost first.
    pub(crate) around: Vec<OpenBracket<'t>>,
    /// What stands before the place in the same element.
    pub(crate) before: Vec<Token<'t>>,
    /// The word that begins before the place or at it, with all of its letters; empty without one.
    pub(crate) word: Option<Token<'t>>,
    /// What follows the word in its line.
    pub(crate) next: Option<Token<'t>>,
    /// Whether it is in a comment.
    pub(crate) comment: bool,
}

/// A bracket that is open.
#[derive(Clone, Debug)]
pub(crate) struct OpenBracket<'t> {
    /// `{`, `(` or `[`.
    pub(crate) bracket: &'t str,
    /// The element before it.
    pub(crate) head: Vec<Token<'t>>,
}

impl<'t> CursorContext<'t> {
    /// The place of a byte. `restart` are the words that begin an item where they begin a line. Of a text that is too large for a spec
    /// nothing is known.
    pub(crate) fn at(text: &'t str, offset: usize, restart: &[&str]) -> Self {
        if text.len() > MAX_FILE_BYTES { Self::default() } else { Self::found(text, offset, restart) }
    }

    fn found(text: &'t str, offset: usize, restart: &[&str]) -> Self {
        let (mut place, mut frames) = (Self::default(), vec![]);
        let mut element: Vec<Token<'t>> = vec![];
        let all = tokens(text);
        for (n, token) in all.iter().copied().enumerate() {
            let touches = token.start <= offset && offset <= token.end();
            if token.start >= offset && !(touches && token.kind == TokenKind::Word) {
                break;
            }
            if touches && token.kind == TokenKind::Comment {
                place.comment = true;
                break;
            }
            if touches && matches!(token.kind, TokenKind::Word | TokenKind::Number | TokenKind::Quoted) {
                place.word = Some(token);
                place.next = all.get(n + 1).copied().filter(|next| next.kind != TokenKind::Line);
                break;
            }
            let begins_line = token.start == 0 || text.as_bytes()[token.start - 1] == b'\n';
            if begins_line && restart.contains(&token.text) {
                frames.clear();
                element.clear();
            }
            match (token.kind, token.text) {
                (TokenKind::Comment, _) => {}
                (TokenKind::Sign, "{" | "(" | "[") => {
                    frames.push(OpenBracket { bracket: token.text, head: std::mem::take(&mut element) });
                }
                (TokenKind::Sign, "}" | ")" | "]") => {
                    element = frames.pop().map(|frame| frame.head).unwrap_or_default();
                    element.push(token);
                }
                (TokenKind::Line, _) if frames.last().is_some_and(|frame| frame.bracket != "{") => {}
                (TokenKind::Line, _) | (TokenKind::Sign, ",") => element.clear(),
                _ => element.push(token),
            }
        }
        Self { around: frames, before: element, ..place }
    }

    /// The innermost braces, and whether other brackets are open in them.
    pub(crate) fn braces(&self) -> (Option<&OpenBracket<'t>>, bool) {
        let at = self.around.iter().rposition(|frame| frame.bracket == "{");
        (at.map(|at| &self.around[at]), at.map_or(0, |at| at + 1) < self.around.len())
    }

    /// The element in the innermost braces up to the place, what is in brackets left out.
    pub(crate) fn element(&self) -> Vec<Token<'t>> {
        let at = self.around.iter().rposition(|frame| frame.bracket == "{").map_or(0, |at| at + 1);
        let heads = self.around[at..].iter().flat_map(|frame| &frame.head);
        heads.chain(&self.before).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tokens: &[Token<'_>]) -> Vec<String> {
        tokens.iter().map(|token| token.text.to_owned()).collect()
    }

    #[test]
    fn what_is_around_is_known_without_the_rest() {
        let text = "model m {\n    halt global { cost: 1 }\n    attend self { heads: 8, mask: f(ab, c";
        let place = CursorContext::at(text, text.len(), &["model"]);
        let heads: Vec<_> = place.around.iter().map(|frame| texts(&frame.head)).collect();
        assert_eq!(heads, [vec!["model", "m"], vec!["attend", "self"], vec!["mask", ":", "f"]]);
        assert_eq!(
            (texts(&place.element()), place.word.map(|word| word.text)),
            (texts(&tokens("mask : f")), Some("c"))
        );
        let place = CursorContext::at(text, text.find("ab").expect("it is there") + 1, &["model"]);
        assert_eq!(place.word.map(|word| word.text), Some("ab"));
        assert_eq!(place.next.map(|next| next.text), Some(","));
    }

    #[test]
    fn an_item_closes_what_was_left_open() {
        let text = "def f(x {\n  out\nmodel m { \"ö\" // x\n em";
        let place = CursorContext::at(text, text.len(), &["model", "def"]);
        assert_eq!(place.around.len(), 1);
        assert!(CursorContext::at(text, text.find("x\n").expect("it is there"), &["model"]).comment);
    }

    #[test]
    fn every_text_has_tokens() {
        for text in ["\"", "\u{1f600}ö\"\n//", "{}}}])", "1.e5..x", "\u{0}\u{feff}"] {
            let all = tokens(text);
            assert!(all.windows(2).all(|pair| pair[0].end() <= pair[1].start), "{text:?}");
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                CursorContext::at(text, at, &["model"]);
            }
        }
    }

    /// What looks for the end of a line at every token is not done with these in an hour.
    #[test]
    fn long_lines_have_tokens() {
        for (piece, count) in [("é", 1 << 20), (" ", 0), ("\"\" ", 1 << 20), ("x ", 1 << 20)] {
            assert_eq!(tokens(&piece.repeat(1 << 20)).len(), count, "{piece:?}");
        }
        assert_eq!(texts(&tokens("\"a\" \"b\nc\"")), ["\"a\"", "\"b", "\n", "c", "\""]);
    }

    #[test]
    fn nothing_is_known_of_a_text_that_is_too_large() {
        let text = "model m { embed { width: 8 } }\n".repeat(MAX_FILE_BYTES / 31 + 1);
        let place = CursorContext::at(&text, 20, &["model"]);
        assert!(place.around.is_empty() && place.word.is_none());
        let place = CursorContext::at(&text[..31 * 100], 20, &["model"]);
        assert_eq!(place.around.len(), 2);
    }
}
