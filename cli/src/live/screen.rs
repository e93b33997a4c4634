//! The lines on a terminal.

use std::io::{Stderr, stderr};
use std::time::{Duration, Instant};

use ratatui::backend::{Backend, ClearType, CrosstermBackend};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Style};
use ratatui::widgets::{Sparkline, Widget};
use ratatui::{Terminal, TerminalOptions, Viewport};
use rtc_session::text::number;

use super::{DisplayLine, DisplayedState};
use crate::terminal::visible;

/// Between two drawings.
const PAUSE: Duration = Duration::from_millis(100);
/// Columns of a bar, of a course, and at most of a name.
const BAR: u16 = 16;
const COURSE: u16 = 24;
const NAME: usize = 36;
/// A terminal with fewer columns has bars and courses of half as many.
const NARROW: u16 = 120;

impl DisplayedState {
    fn glyph(self) -> &'static str {
        const PARTS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        match self {
            Self::Waiting => "·",
            Self::Running(share) => PARTS[(share * 8.0).clamp(0.0, 7.0) as usize],
            Self::Paused => "‖",
            Self::Finished => "✓",
            Self::Failed => "✗",
            Self::Stopped => "–",
        }
    }

    fn colour(self) -> Style {
        match self {
            Self::Waiting | Self::Stopped => Style::new().fg(Color::DarkGray),
            Self::Running(_) | Self::Paused => Style::new().fg(Color::Yellow),
            Self::Finished => Style::new().fg(Color::Green),
            Self::Failed => Style::new().fg(Color::Red),
        }
    }
}

impl DisplayLine {
    fn name(&self) -> &str {
        match self {
            Self::Run { name, .. } | Self::Course { name, .. } | Self::Cells { name, .. } => name,
            Self::Text(_) => "",
        }
    }

    /// Draws what stands behind the name.
    fn draw(&self, mut area: Rect, colours: bool, buffer: &mut Buffer) {
        let style = |style: Style| if colours { style } else { Style::new() };
        let half = if buffer.area.width < NARROW { 2 } else { 1 };
        let mut take = |columns: u16| {
            let taken = Rect { width: columns.min(area.width), ..area };
            let gone = (columns + 2).min(area.width);
            area = Rect { x: area.x + gone, width: area.width - gone, ..area };
            taken
        };
        match self {
            Self::Run { done, total, course, text, .. } => {
                let share = (*done as f64 / (*total).max(1) as f64).clamp(0.0, 1.0);
                let bar = take(BAR / half);
                for x in bar.left()..bar.right() {
                    let (sign, colour) = match f64::from(x - bar.x) + 0.5 < share * f64::from(bar.width) {
                        true => ("━", Color::Cyan),
                        false => ("─", Color::DarkGray),
                    };
                    buffer.set_string(x, bar.y, sign, style(Style::new().fg(colour)));
                }
                let count = format!("{}/{}", number(*done as f64), number(*total as f64));
                write(buffer, take(count.chars().count() as u16), &count);
                if !course.is_empty() {
                    spark(course, COURSE / half)
                        .style(style(Style::new().fg(Color::Blue)))
                        .render(take(COURSE / half), buffer);
                }
                write(buffer, take(u16::MAX - 2), text);
            }
            Self::Course { course, text, .. } => {
                spark(course, COURSE / half)
                    .style(style(Style::new().fg(Color::Blue)))
                    .render(take(COURSE / half), buffer);
                write(buffer, take(u16::MAX - 2), text);
            }
            Self::Cells { states, .. } => {
                let places = (area.left()..area.right()).step_by(2);
                for (x, state) in places.zip(states) {
                    buffer.set_string(x, area.y, state.glyph(), style(state.colour()));
                }
            }
            Self::Text(text) => write(buffer, area, text),
        }
    }
}

fn write(buffer: &mut Buffer, area: Rect, text: &str) {
    buffer.set_stringn(area.x, area.y, text, usize::from(area.width), Style::new());
}

/// The course of a number as bars between its least and its largest value, at most so many.
fn spark(course: &[f64], most: u16) -> Sparkline<'static> {
    let columns = course.len().min(usize::from(most)).max(1);
    let cut = |column: usize| column * course.len() / columns;
    let means = (0..columns).map(|c| {
        let part = &course[cut(c)..cut(c + 1)];
        part.iter().sum::<f64>() / part.len().max(1) as f64
    });
    let means: Vec<f64> = means.collect();
    let (low, high) = means.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    let height = |x: f64| 1 + (7.0 * (x - low) / (high - low).max(f64::MIN_POSITIVE)).round() as u64;
    Sparkline::default().max(8).data(means.into_iter().map(height).collect::<Vec<_>>())
}

/// Draws lines one below the other, with all that follows the names in one column.
fn draw(lines: &[DisplayLine], colours: bool, area: Rect, buffer: &mut Buffer) {
    let most = NAME.min(usize::from(area.width) / 3);
    let columns = lines.iter().map(|line| line.name().chars().count().min(most)).max().unwrap_or(0) as u16;
    for (y, line) in (area.top()..area.bottom()).zip(lines) {
        let row = Rect { y, height: 1, ..area };
        write(buffer, Rect { width: columns, ..row }, line.name());
        let skipped = match line {
            DisplayLine::Text(_) => 0,
            _ => (columns + if columns > 0 { 2 } else { 0 }).min(row.width),
        };
        line.draw(Rect { x: row.x + skipped, width: row.width - skipped, ..row }, colours, buffer);
    }
}

/// The last lines of a terminal, which are cleared when this is dropped.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    colours: bool,
    drawn: Option<Instant>,
}

impl Screen {
    /// The last lines of the terminal of a command, to show there what goes on; nothing where it draws nothing.
    pub(crate) fn on(terminal: &crate::terminal::Terminal, height: usize) -> Option<Self> {
        terminal.draws().and_then(|colours| Self::open(height, colours))
    }

    /// The last `height` lines of standard error. Nothing where that is no terminal that says where its cursor is, or where another
    /// process has it in the foreground.
    pub(crate) fn open(height: usize, colours: bool) -> Option<Self> {
        if !is_in_front() {
            return None;
        }
        let viewport = Viewport::Inline(u16::try_from(height).unwrap_or(u16::MAX));
        let terminal = Terminal::with_options(CrosstermBackend::new(stderr()), TerminalOptions { viewport }).ok()?;
        Some(Self { terminal, colours, drawn: None })
    }

    /// How many lines there are.
    pub(crate) fn height(&mut self) -> usize {
        usize::from(self.terminal.get_frame().area().height)
    }

    /// Whether it is time to draw again.
    pub(crate) fn is_due(&self) -> bool {
        self.drawn.is_none_or(|drawn| drawn.elapsed() >= PAUSE)
    }

    /// Draws these lines in the place of the last ones. A terminal that is gone has nobody to be told.
    pub(crate) fn draw(&mut self, lines: &[DisplayLine]) {
        self.drawn = Some(Instant::now());
        if is_in_front() {
            let colours = self.colours;
            let _ = self.terminal.draw(|frame| {
                let area = frame.area();
                draw(lines, colours, area, frame.buffer_mut());
                // Where the cursor is seen after a kill: below what was drawn.
                frame.set_cursor_position(Position::new(area.x, area.bottom().saturating_sub(1)));
            });
        }
    }

    /// Prints a text above the lines; whether it could.
    pub(crate) fn print(&mut self, text: &str) -> bool {
        let width = usize::from(self.terminal.get_frame().area().width).max(1);
        let lines: Vec<String> = visible(text).lines().flat_map(|line| folded(line, width)).collect();
        let height = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        let drawn = self.terminal.insert_before(height, |buffer| {
            for (y, line) in (0..height).zip(&lines) {
                buffer.set_string(0, y, line, Style::new());
            }
        });
        // What stood below the text was cleared.
        self.drawn = None;
        drawn.is_ok()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let top = self.terminal.get_frame().area().as_position();
        let cleared = self.terminal.set_cursor_position(top);
        let _ = cleared.and_then(|()| self.terminal.backend_mut().clear_region(ClearType::AfterCursor));
    }
}

/// Whether this process may ask the terminal something: one in the background is stopped when it does.
fn is_in_front() -> bool {
    #[cfg(unix)]
    return rustix::termios::tcgetpgrp(stderr()).is_ok_and(|group| group == rustix::process::getpgrp());
    #[cfg(not(unix))]
    true
}

/// A line in pieces of so many characters.
fn folded(line: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = line.chars().collect();
    if characters.is_empty() {
        return vec![String::new()];
    }
    characters.chunks(width).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines as a terminal of so many columns shows them, without spaces at their ends.
    fn shown(lines: &[DisplayLine], width: u16) -> Vec<String> {
        let area = Rect::new(0, 0, width, lines.len() as u16);
        let mut buffer = Buffer::empty(area);
        draw(lines, true, area, &mut buffer);
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..area.height).map(row).collect()
    }

    #[test]
    fn names_bars_and_courses_stand_below_each_other() {
        let run = |name: &str, done, course: &[f64]| DisplayLine::Run {
            name: name.to_owned(),
            done,
            total: 1000,
            course: course.to_vec(),
            text: "loss 0.5".to_owned(),
        };
        let lines = [
            DisplayLine::Cells {
                name: "gut".to_owned(),
                states: vec![
                    DisplayedState::Finished,
                    DisplayedState::Running(0.5),
                    DisplayedState::Failed,
                    DisplayedState::Waiting,
                ],
            },
            run("[2/4] gut seed 2", 500, &[3.0, 2.0, 1.0, 0.0]),
            DisplayLine::Course { name: "dev".to_owned(), course: vec![0.0, 7.0], text: "50.0 %".to_owned() },
            DisplayLine::Text("1 of 4 cells ended".to_owned()),
        ];
        let expected = [
            "gut               ✓ ▅ ✗ ·",
            "[2/4] gut seed 2  ━━━━━━━━────────  500/1,000  █▆▃▁                      loss 0.5",
            "dev               ▁█                        50.0 %",
            "1 of 4 cells ended",
        ];
        assert_eq!(shown(&lines, 120), expected);
        assert_eq!(shown(&lines, 80)[1], "[2/4] gut seed 2  ━━━━────  500/1,000  █▆▃▁          loss 0.5");
        // Nothing is drawn outside of a small terminal.
        for width in 0..60 {
            assert_eq!(shown(&lines, width).len(), 4);
        }
    }

    #[test]
    fn a_line_that_is_too_long_goes_on_below() {
        assert_eq!(folded("abcde", 2), ["ab", "cd", "e"]);
        assert_eq!(folded("", 2), [""]);
    }
}
