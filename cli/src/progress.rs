//! The progress of a run, on standard error: a bar and the courses of its numbers on a terminal, a line now and then elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rtc_exec::learner::StepReport;
use rtc_runs::record::table::ResultsRow;
use rtc_session::text::{duration, number};
use rtc_train::{Event, Observer};

use crate::live::{Course, DisplayLine, Screen};
use crate::terminal::Terminal;

/// Seconds between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(10);
/// What an update counts less for than the one after it, in the means that are shown.
const DECAY: f64 = 0.98;

/// Shows a run.
pub(crate) struct ProgressDisplay<'a> {
    terminal: &'a Terminal,
    stop: &'a AtomicBool,
    screen: Option<Screen>,
    means: RunningMeans,
    done: u64,
    total: u64,
    /// What is being measured.
    measuring: Option<String>,
    /// The split that was measured first after an update, and how good it was each time.
    dev: Option<(String, Course, String)>,
    /// When the update that is being made began.
    began: Instant,
    /// When the last line was printed.
    printed: Instant,
    /// Whether it was said that the run is going to stop.
    warned: bool,
}

/// Exponential means over updates.
#[derive(Default)]
pub(crate) struct RunningMeans {
    weight: f64,
    seconds: f64,
    tokens: f64,
    loss: f64,
    /// Right answers and all that count, where they are classes.
    answers: Option<[f64; 2]>,
    depth: Option<f64>,
    losses: Course,
}

impl RunningMeans {
    /// Adds an update that took so many seconds.
    pub(crate) fn add(&mut self, report: &StepReport, tokens: usize, seconds: f64) {
        let mix = |mean: &mut f64, new: f64| *mean = DECAY * *mean + new;
        mix(&mut self.weight, 1.0);
        mix(&mut self.seconds, seconds);
        mix(&mut self.tokens, tokens as f64);
        mix(&mut self.loss, report.loss);
        self.losses.add(self.loss / self.weight);
        if let Some(correct) = report.correct {
            let [right, all] = self.answers.get_or_insert([0.0; 2]);
            mix(right, correct as f64);
            mix(all, report.scored as f64);
        }
        if let Some(depth) = report.mean_depth {
            mix(self.depth.get_or_insert(0.0), depth);
        }
    }

    /// The course of the loss.
    pub(crate) fn losses(&self) -> Vec<f64> {
        self.losses.means().to_vec()
    }

    /// Loss, accuracy, speed, depth, and the time that `left` updates will take.
    pub(crate) fn text(&self, left: u64) -> String {
        let depth = self.depth.map(|depth| format!("  depth {:.2}", depth / self.weight)).unwrap_or_default();
        let percent = |[right, all]: [f64; 2]| format!("  accuracy {:.1} %", 100.0 * right / all.max(1e-9));
        format!(
            "loss {:.4}{}  {} tokens/s{depth}  {} left",
            self.loss / self.weight.max(1e-9),
            self.answers.map(percent).unwrap_or_default(),
            number(self.tokens / self.seconds.max(1e-9)),
            duration(self.seconds / self.weight.max(1e-9) * left as f64),
        )
    }
}

impl<'a> ProgressDisplay<'a> {
    /// Shows nothing with `--quiet`. `stop` is the flag that asks the run to stop.
    pub(crate) fn new(terminal: &'a Terminal, stop: &'a AtomicBool) -> Self {
        let now = Instant::now();
        Self {
            terminal,
            stop,
            screen: Screen::on(terminal, 2),
            means: RunningMeans::default(),
            done: 0,
            total: 0,
            measuring: None,
            dev: None,
            began: now,
            printed: now,
            warned: false,
        }
    }

    fn line(&mut self, text: &str) {
        if !self.screen.as_mut().is_some_and(|screen| screen.print(text)) {
            self.terminal.message(text);
        }
    }

    fn draw(&mut self) {
        if self.screen.as_ref().is_some_and(Screen::is_due) {
            let lines = self.lines();
            self.screen.iter_mut().for_each(|screen| screen.draw(&lines));
        }
    }

    /// The run, and how good it was on the dev split.
    fn lines(&self) -> Vec<DisplayLine> {
        let left = self.total.saturating_sub(self.done);
        let text = self.measuring.clone().unwrap_or_else(|| self.means.text(left));
        let (done, total, course) = (self.done, self.total, self.means.losses());
        let run = DisplayLine::Run { name: "updates".to_owned(), done, total, course, text };
        let measured = self.dev.iter().map(|(split, course, text)| DisplayLine::Course {
            name: split.clone(),
            course: course.means().to_vec(),
            text: text.clone(),
        });
        std::iter::once(run).chain(measured).collect()
    }

    fn step(&mut self, update: u64, report: &StepReport, tokens: usize) {
        self.means.add(report, tokens, self.began.elapsed().as_secs_f64());
        self.began = Instant::now();
        (self.done, self.measuring) = (update, None);
        if self.screen.is_some() {
            self.draw();
        } else if self.terminal.talks() && self.printed.elapsed() >= PAUSE {
            self.terminal.message(&format!(
                "update {}/{}  {}",
                number(update as f64),
                number(self.total as f64),
                self.means.text(self.total.saturating_sub(update))
            ));
            self.printed = Instant::now();
        }
    }

    fn evaluated(&mut self, update: u64, row: &ResultsRow, improved: bool) {
        let depth = row.mean_depth.map(|depth| format!("  depth {depth:.2}")).unwrap_or_default();
        let (split, course, text) =
            self.dev.get_or_insert_with(|| (row.split.clone(), Course::default(), String::new()));
        if *split == row.split {
            course.add(row.accuracy.unwrap_or(row.loss));
            *text = row.score();
        }
        self.measuring = None;
        self.line(&format!(
            "update {}  {}: {}  loss {:.4}{depth}{}",
            number(update as f64),
            row.split,
            row.score(),
            row.loss,
            if improved { "  (best)" } else { "" },
        ));
        self.began = Instant::now();
    }
}

impl Observer for ProgressDisplay<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { done, total } => {
                (self.done, self.total) = (*done, *total);
                self.began = Instant::now();
                if *done > 0 {
                    self.line(&format!("going on after update {}", number(*done as f64)));
                }
            }
            Event::Step { update, report, tokens, .. } => self.step(*update, report, *tokens),
            Event::Evaluating { split, done, total } => {
                let (done, total) = (number(*done as f64), number(*total as f64));
                self.measuring = Some(format!("measuring {split}: {done}/{total}"));
                self.draw();
            }
            Event::Evaluated { update, row, improved } => self.evaluated(*update, row, *improved),
            Event::Saved { .. } => self.began = Instant::now(),
            Event::Recorded { .. } => {}
        }
        if self.stop.load(Ordering::Relaxed) && !self.warned {
            self.warned = true;
            self.line("stopping: saving the state (once more stops at once, without saving)");
        }
    }
}
