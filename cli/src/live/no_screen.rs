//! A program without the feature `live` draws nothing: messages are lines one below the other, as without a terminal.

use super::DisplayLine;
use crate::terminal::Terminal;

/// The last lines of a terminal: there are none.
pub(crate) enum Screen {}

impl Screen {
    /// None.
    pub(crate) fn on(_: &Terminal, _: usize) -> Option<Self> {
        None
    }

    /// How many lines there are.
    pub(crate) fn height(&mut self) -> usize {
        match *self {}
    }

    /// Whether it is time to draw again.
    pub(crate) fn is_due(&self) -> bool {
        match *self {}
    }

    /// Draws lines.
    pub(crate) fn draw(&mut self, _: &[DisplayLine]) {
        match *self {}
    }

    /// Prints a text above the lines; whether it could.
    pub(crate) fn print(&mut self, _: &str) -> bool {
        match *self {}
    }
}
