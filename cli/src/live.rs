//! What a command shows of its work while it goes on: some lines at the end of a terminal, drawn anew ten times a second.

#[cfg(not(feature = "live"))]
#[path = "live/no_screen.rs"]
mod screen;
#[cfg(feature = "live")]
mod screen;

pub(crate) use screen::Screen;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DisplayLine {
    /// How far something is, the course of its loss, and what else is known.
    Run { name: String, done: u64, total: u64, course: Vec<f64>, text: String },
    /// The course of a number.
    Course { name: String, course: Vec<f64>, text: String },
    /// What became of the cells of a row.
    Cells { name: String, states: Vec<DisplayedState> },
    /// Only words.
    Text(String),
}

/// The state of a cell of a grid, as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DisplayedState {
    /// It did not begin.
    Waiting,
    /// So much of it is done, from 0 to 1.
    Running(f64),
    /// It has begun, and goes on later.
    Paused,
    /// It came to its end.
    Finished,
    /// It can't go on.
    Failed,
    /// Its row is not trained any further.
    Stopped,
}

/// The course of a number of which there may be many values: at most [`Course::ROOM`] means of equally many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    means: Vec<f64>,
    /// The logarithm of how many values each mean is of.
    fold: u32,
    /// Values that make no mean yet, and their sum.
    held: (u64, f64),
}

impl Course {
    const ROOM: usize = 128;

    /// Adds a value.
    pub(crate) fn add(&mut self, value: f64) {
        self.held = (self.held.0 + 1, self.held.1 + value);
        if self.held.0 < 1 << self.fold {
            return;
        }
        self.means.push(self.held.1 / self.held.0 as f64);
        self.held = (0, 0.0);
        if self.means.len() == Self::ROOM {
            self.means = self.means.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
            self.fold += 1;
        }
    }

    /// The means, in order.
    pub(crate) fn means(&self) -> &[f64] {
        &self.means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_course_keeps_its_form_in_little_room() {
        let mut course = Course::default();
        (0..100_000).for_each(|n| course.add(f64::from(n)));
        let means = course.means();
        assert!(means.len() >= Course::ROOM / 2 && means.len() < Course::ROOM, "{}", means.len());
        assert!(means.is_sorted() && means[0] < 1_000.0 && means[means.len() - 1] > 98_000.0, "{means:?}");
    }
}
