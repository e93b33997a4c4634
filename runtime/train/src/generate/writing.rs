//! A text while it is written: what every token adds, what can be shown already, and whether it has come to a stop.

/// What stands for bytes that are no character, or not yet one.
const UNFINISHED: char = '\u{fffd}';

/// Tokens as pieces of a text. What a token adds depends on those before it: blanks between words, bytes that make up a character.
#[derive(Clone, Debug, Default)]
pub struct TextPieces {
    tokens: Vec<u32>,
    /// The first token that the text of the next ones depends on, and the first whose text was not given.
    from: usize,
    next: usize,
}

impl TextPieces {
    /// Behind some tokens whose text is there.
    pub fn behind(tokens: &[u32]) -> Self {
        /// Bytes of the longest character.
        const CONTEXT: usize = 4;
        let tokens = tokens[tokens.len().saturating_sub(CONTEXT)..].to_vec();
        Self { from: 0, next: tokens.len(), tokens }
    }

    /// What one more token adds; nothing where it ends inside of a character. `written` gives the text of some tokens.
    pub fn push(&mut self, token: u32, written: impl Fn(&[u32]) -> String) -> String {
        self.tokens.push(token);
        let piece = self.rest(written);
        if piece.ends_with(UNFINISHED) {
            return String::new();
        }
        (self.from, self.next) = (self.next, self.tokens.len());
        piece
    }

    /// What was held back, at the end.
    pub fn rest(&self, written: impl Fn(&[u32]) -> String) -> String {
        let (known, all) = (written(&self.tokens[self.from..self.next]), written(&self.tokens[self.from..]));
        all.strip_prefix(&known).map_or_else(|| written(&self.tokens[self.next..]), str::to_owned)
    }
}

/// The text of a continuation. What may be the beginning of a stop is held back until that is known.
#[derive(Clone, Debug, Default)]
pub struct Writing {
    text: String,
    stops: Vec<String>,
    /// Bytes that were shown.
    shown: usize,
    stopped: bool,
}

impl Writing {
    /// A text that ends before the first of some texts.
    pub fn until(stops: &[String]) -> Self {
        let stops = stops.iter().filter(|stop| !stop.is_empty()).cloned().collect();
        Self { stops, ..Self::default() }
    }

    /// Adds a piece; gives what can be shown now.
    pub fn push(&mut self, piece: &str) -> &str {
        if self.stopped {
            return "";
        }
        self.text.push_str(piece);
        let rest = &self.text[self.shown..];
        let found = self.stops.iter().filter_map(|stop| rest.find(stop.as_str())).min();
        let open = match found {
            Some(at) => {
                self.stopped = true;
                at
            }
            None => rest.len() - self.stops.iter().map(|stop| begun(rest, stop)).max().unwrap_or(0),
        };
        self.show(open)
    }

    /// Whether a stop was written.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Gives what was held back, at the end of a text that did not come to a stop.
    pub fn finish(&mut self) -> &str {
        let rest = if self.stopped { 0 } else { self.text.len() - self.shown };
        self.show(rest)
    }

    /// All that was shown.
    pub fn text(&self) -> &str {
        &self.text[..self.shown]
    }

    fn show(&mut self, bytes: usize) -> &str {
        let from = self.shown;
        self.shown += bytes;
        &self.text[from..self.shown]
    }
}

/// How many bytes at the end of the text are a beginning of the stop.
fn begun(text: &str, stop: &str) -> usize {
    let beginnings = stop.char_indices().map(|(at, _)| at).filter(|at| *at > 0);
    beginnings.filter(|at| text.ends_with(&stop[..*at])).max().unwrap_or(0)
}
