//! A text while it is written: what can be shown already, and whether it has come to a stop.

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
