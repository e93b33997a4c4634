//! The progress of a run, on standard error: a bar on a terminal, a line now and then elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rtc_runtime::checkpoint::Slot;
use rtc_runtime::learner::StepReport;
use rtc_runtime::train::{Event, Observer, Row};

use crate::terminal::Terminal;
use crate::text::{duration, number};

/// Seconds between two lines where there is no terminal.
const PAUSE: Duration = Duration::from_secs(10);
/// What an update counts less for than the one after it, in the means that are shown.
const DECAY: f64 = 0.98;

/// Shows a run.
pub(crate) struct Progress<'a> {
    terminal: &'a Terminal,
    stop: &'a AtomicBool,
    bar: Option<ProgressBar>,
    means: Means,
    total: u64,
    /// When the update that is being made began.
    began: Instant,
    /// When the last line was printed.
    printed: Instant,
    /// Whether it was said that the run is going to stop.
    warned: bool,
}

/// Exponential means over updates.
#[derive(Default)]
pub(crate) struct Means {
    weight: f64,
    seconds: f64,
    tokens: f64,
    loss: f64,
    /// Right answers and all that count, where they are classes.
    answers: Option<[f64; 2]>,
    depth: Option<f64>,
}

impl Means {
    /// Adds an update that took so many seconds.
    pub(crate) fn add(&mut self, report: &StepReport, tokens: usize, seconds: f64) {
        let mix = |mean: &mut f64, new: f64| *mean = DECAY * *mean + new;
        mix(&mut self.weight, 1.0);
        mix(&mut self.seconds, seconds);
        mix(&mut self.tokens, tokens as f64);
        mix(&mut self.loss, report.loss);
        if let Some(correct) = report.correct {
            let [right, all] = self.answers.get_or_insert([0.0; 2]);
            mix(right, correct as f64);
            mix(all, report.scored as f64);
        }
        if let Some(depth) = report.mean_depth {
            mix(self.depth.get_or_insert(0.0), depth);
        }
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

impl<'a> Progress<'a> {
    /// Shows nothing with `--quiet`. `stop` is the flag that asks the run to stop.
    pub(crate) fn new(terminal: &'a Terminal, stop: &'a AtomicBool) -> Self {
        let bar = (terminal.talks() && terminal.is_live()).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{bar:24} {human_pos}/{human_len}  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let now = Instant::now();
        Self { terminal, stop, bar, means: Means::default(), total: 0, began: now, printed: now, warned: false }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => self.terminal.message(text),
        }
    }

    fn step(&mut self, update: u64, report: &StepReport, tokens: usize) {
        self.means.add(report, tokens, self.began.elapsed().as_secs_f64());
        self.began = Instant::now();
        if !self.terminal.talks() {
            return;
        }
        let text = || self.means.text(self.total.saturating_sub(update));
        if let Some(bar) = &self.bar {
            bar.set_position(update);
            bar.set_message(text());
        } else if self.printed.elapsed() >= PAUSE {
            self.terminal.message(&format!(
                "update {}/{}  {}",
                number(update as f64),
                number(self.total as f64),
                text()
            ));
            self.printed = Instant::now();
        }
    }

    fn evaluated(&mut self, update: u64, row: &Row, improved: bool) {
        let depth = row.mean_depth.map(|depth| format!("  depth {depth:.2}")).unwrap_or_default();
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

impl Observer for Progress<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Started { done, total } => {
                self.total = *total;
                self.began = Instant::now();
                if let Some(bar) = &self.bar {
                    bar.set_length(*total);
                    bar.set_position(*done);
                }
                if *done > 0 {
                    self.line(&format!("going on after update {}", number(*done as f64)));
                }
            }
            Event::Step { update, report, tokens, .. } => self.step(*update, report, *tokens),
            Event::Evaluating { split, done, total } => {
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("measuring {split}: {}/{}", number(*done as f64), number(*total as f64)));
                }
            }
            Event::Evaluated { update, row, improved } => self.evaluated(*update, row, *improved),
            Event::Saved { slot: Slot::Last | Slot::Best, .. } => self.began = Instant::now(),
        }
        if self.stop.load(Ordering::Relaxed) && !self.warned {
            self.warned = true;
            self.line("stopping: saving the state (once more stops at once, without saving)");
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
