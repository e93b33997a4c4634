//! Learning-rate schedules: pure functions of the update's index, counted from 0.

use std::sync::Arc;

use rtc_compiler::formula::NumberFormula;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shape of a schedule. `w` is the warm-up, `t` the index of the update, `T` the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// `min(1, (t+1)/w)`.
    Constant,
    /// `min(1, (t+1)/w) / sqrt(max(t+1, w))`: the base rate is not the peak.
    InverseRoot,
    /// Warm-up times `(1 + cos(pi * frac((t-w)/(T-w)))) / 2`; `start` in place of `w` if it is given.
    Cosine,
    /// Warm-up times a straight line from 1 at `w` (or `start`) to 0 at `T`.
    Linear,
    /// Warm-up times `1/2` for every time that the dev score stood still; see [`Plateau`].
    Plateau,
    /// From 1/25 at 0 up to 1 at `w-1` and down to 1/250,000 at `T-1`, in straight lines.
    OneCycle,
    /// The value of a formula, see [`NAMES`].
    Formula,
}

impl ScheduleKind {
    /// Whether the shape depends on the total number of updates; that of a formula does if it uses the name.
    pub fn needs_total(self) -> bool {
        matches!(self, Self::Cosine | Self::Linear | Self::OneCycle)
    }

    /// Whether the shape is a fall that can start later than the warm-up ends.
    pub fn falls(self) -> bool {
        matches!(self, Self::Cosine | Self::Linear)
    }
}

/// What the first moment's decay does under `one_cycle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Beta1 {
    /// The optimiser's value throughout.
    #[default]
    Fixed,
    /// 0.95 down to 0.85 at the peak and up to 0.95 again, as PyTorch's one-cycle does. Only with `one_cycle`.
    Cycled,
}

/// Starting rate of `one_cycle` is the base over this.
const RISE: f64 = 25.0;
/// Its last rate is the first over this.
const FALL: f64 = 1e4;

/// The names of the formula of a schedule: the update from 0, the updates of the whole shape, and those of the warm-up.
pub const NAMES: [&str; 3] = ["step", "total", "warmup"];

/// A schedule with all its numbers.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The shape.
    pub kind: ScheduleKind,
    /// Number of warm-up updates; 0 for none.
    pub warmup: u64,
    /// The update with which `cosine` and `linear` begin to fall; before it the rate is that of the end of the warm-up.
    pub start: u64,
    /// Number of updates over which the shape is laid out.
    pub total: u64,
    /// Behaviour of the first moment's decay.
    pub beta1: Beta1,
    /// The factor of [`ScheduleKind::Formula`].
    pub formula: Option<Arc<NumberFormula>>,
}

impl Schedule {
    /// The value of the formula at update `t`, or why it has none.
    fn formula_at(&self, t: u64) -> Result<f64, String> {
        let Some(formula) = &self.formula else { return Err("there is no formula".to_owned()) };
        let value = formula.value(&|name| match name {
            "step" => t as f64,
            "total" => self.total as f64,
            _ => self.warmup as f64,
        })?;
        if value >= 0.0 { Ok(value) } else { Err(format!("its value is {value}")) }
    }

    /// Refuses a formula that has no factor, or a negative one, at one of the first `updates`.
    ///
    /// # Errors
    /// A sentence that names the first such update.
    pub fn check(&self, updates: u64) -> Result<(), String> {
        if self.kind != ScheduleKind::Formula {
            return Ok(());
        }
        let wrong = (0..updates).find_map(|t| Some((t, self.formula_at(t).err()?)));
        wrong.map_or(Ok(()), |(t, why)| {
            Err(format!("`schedule.formula` must be 0 or more at every update: at step {t} of {updates}, {why}"))
        })
    }

    /// The factor on the base learning rate at update `t`.
    pub fn factor(&self, t: u64) -> f64 {
        let (step, warmup, total) = (t as f64, self.warmup as f64, self.total as f64);
        let start = self.start.max(self.warmup);
        let warm = if self.warmup == 0 { 1.0 } else { ((step + 1.0) / warmup).min(1.0) };
        // How far the decay has come: 0 until it starts, 1 at the total. Nothing to decay over counts as done.
        let from = start as f64;
        let decayed = if total > from { ((step - from) / (total - from)).max(0.0) } else { f64::from(t >= start) };
        match self.kind {
            ScheduleKind::Constant | ScheduleKind::Plateau => warm,
            ScheduleKind::InverseRoot => warm / (step + 1.0).max(warmup).sqrt(),
            ScheduleKind::Cosine => warm * 0.5 * (1.0 + (std::f64::consts::PI * decayed.fract()).cos()),
            ScheduleKind::Linear => warm * (1.0 - decayed.min(1.0)),
            // The check before the training has refused a formula without a value.
            ScheduleKind::Formula => self.formula_at(t).unwrap_or(f64::NAN),
            ScheduleKind::OneCycle => self.cycle(t, 1.0 / RISE, 1.0, 1.0 / (RISE * FALL)),
        }
    }

    /// The decay of the first moment at update `t`, where `fixed` is the optimiser's value.
    pub fn beta1(&self, t: u64, fixed: f64) -> f64 {
        match self.beta1 {
            Beta1::Fixed => fixed,
            Beta1::Cycled => self.cycle(t, 0.95, 0.85, 0.95),
        }
    }

    /// Straight lines from `start` at 0 to `peak` at `w - 1` and to `end` at `T - 1`, then flat.
    fn cycle(&self, t: u64, start: f64, peak: f64, end: f64) -> f64 {
        let knot = self.warmup.max(1) - 1;
        let last = self.total.max(1) - 1;
        if t < knot {
            return start + (peak - start) * t as f64 / knot as f64;
        }
        if t >= last {
            return end;
        }
        peak + (end - peak) * (t - knot) as f64 / (last - knot) as f64
    }
}

/// What has been seen of a score that should rise, for `plateau`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// The best score, once there was one.
    pub best: Option<f64>,
    /// Scores since the best one, or since the last halving.
    pub waited: u64,
    /// How often the rate was halved.
    pub halvings: u32,
}

/// Share of the best score by which another one must be above it to count as better.
const GAIN: f64 = 1e-4;

impl Plateau {
    /// Takes note of a score; after more than `wait` in a row that are no better than the best, the rate is halved.
    pub fn see(&mut self, score: f64, wait: u64) {
        // The R2 of a model may be negative.
        let least = |best: f64| best * if best < 0.0 { 1.0 - GAIN } else { 1.0 + GAIN };
        if self.best.is_none_or(|best| score > least(best)) {
            (self.best, self.waited) = (Some(score), 0);
            return;
        }
        self.waited += 1;
        if self.waited > wait {
            (self.waited, self.halvings) = (0, self.halvings + 1);
        }
    }

    /// The factor on the learning rate.
    pub fn factor(&self) -> f64 {
        0.5_f64.powi(self.halvings.min(1000) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plateau_halves_after_more_than_two_scores_without_a_gain() {
        let mut plateau = Plateau::default();
        let scores = [0.5, 0.6, 0.60005, 0.6, 0.59, 0.6, 0.6, 0.7, 0.1, 0.1, 0.1, 0.1];
        let factors: Vec<f64> = scores
            .into_iter()
            .map(|score| {
                plateau.see(score, 2);
                plateau.factor()
            })
            .collect();
        assert_eq!(factors, [1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25]);
        assert_eq!((plateau.best, plateau.waited), (Some(0.7), 1));
    }

    fn schedule(kind: ScheduleKind, warmup: u64, total: u64) -> Schedule {
        Schedule { kind, warmup, start: warmup, total, beta1: Beta1::Cycled, formula: None }
    }

    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 3e-6, "{value} should be {expected}");
    }

    #[test]
    fn inverse_root_peaks_where_the_papers_runs_do() {
        let listops = schedule(ScheduleKind::InverseRoot, 1000, 0);
        near(0.05 * listops.factor(0), 1.58114e-6);
        near(0.05 * listops.factor(999), 1.58114e-3);
        near(0.05 * listops.factor(3999), 7.90569e-4);
        near(0.0125 * schedule(ScheduleKind::InverseRoot, 8000, 0).factor(7999), 1.397_542e-4);
        near(0.05 * schedule(ScheduleKind::InverseRoot, 8000, 0).factor(7999), 5.590_170e-4);
    }

    #[test]
    fn one_cycle_goes_through_its_knots() {
        let flipflop = schedule(ScheduleKind::OneCycle, 50, 10_000);
        for (t, rate) in [(0, 1.2e-5), (49, 3e-4), (50, 2.999_70e-4), (5000, 1.507_24e-4), (9999, 1.2e-9)] {
            near(3e-4 * flipflop.factor(t), rate);
        }
        for (t, beta1) in [(0, 0.95), (49, 0.85), (9999, 0.95), (20_000, 0.95)] {
            near(flipflop.beta1(t, 0.9), beta1);
        }
    }

    #[test]
    fn the_other_shapes_at_their_ends() {
        let cosine = schedule(ScheduleKind::Cosine, 100, 1100);
        near(cosine.factor(0), 0.01);
        near(cosine.factor(100), 1.0);
        near(cosine.factor(600), 0.5);
        near(cosine.factor(1100), 1.0);
        let linear = schedule(ScheduleKind::Linear, 100, 1100);
        near(linear.factor(600), 0.5);
        assert_eq!(linear.factor(1100), 0.0);
        assert_eq!(linear.factor(5000), 0.0);
        let constant = schedule(ScheduleKind::Constant, 4, 0);
        assert_eq!([0, 1, 3, 9].map(|t| constant.factor(t)), [0.25, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn a_fall_that_starts_later_is_flat_before() {
        let copy = Schedule { start: 20_000, ..schedule(ScheduleKind::Cosine, 0, 100_001) };
        assert_eq!([0, 19_999, 20_000].map(|t| copy.factor(t)), [1.0; 3]);
        assert!((copy.factor(60_000) - 0.5).abs() < 1e-4);
        assert!(copy.factor(100_000) < 1e-8);
    }

    #[test]
    fn a_formula_is_the_shape_that_it_says() {
        let of = |text: &str, warmup: u64, total: u64| {
            let formula = NumberFormula::parse(text, &NAMES).map(Arc::new).expect("a formula");
            Schedule { formula: Some(formula), ..schedule(ScheduleKind::Formula, warmup, total) }
        };
        let written = of(
            "min(1, (step + 1) / warmup) * (1 + cos(3.141592653589793 * max(0, step - warmup) / (total - warmup))) / 2",
            100,
            1100,
        );
        let cosine = schedule(ScheduleKind::Cosine, 100, 1100);
        for t in 0..1100 {
            assert!((written.factor(t) - cosine.factor(t)).abs() < 1e-12, "{t}");
        }
        assert_eq!(written.check(1100), Ok(()));
        let falls = of("1 - step / 10", 0, 100).check(12).expect_err("it is negative then");
        assert!(falls.contains("at step 11 of 12, its value is -0.1"), "{falls}");
        let pole = of("1 / (step - 5)", 0, 100).check(12).expect_err("negative first");
        assert!(pole.contains("at step 0 of 12"), "{pole}");
    }

    #[test]
    fn degenerate_lengths_stay_finite() {
        for kind in [ScheduleKind::Constant, ScheduleKind::InverseRoot, ScheduleKind::Cosine] {
            for (warmup, total) in [(0, 0), (0, 1), (5, 5), (5, 2)] {
                assert!((0..10).all(|t| schedule(kind, warmup, total).factor(t).is_finite()));
            }
        }
        for kind in [ScheduleKind::Linear, ScheduleKind::OneCycle] {
            for (warmup, total) in [(0, 0), (0, 1), (1, 1), (5, 5), (5, 2)] {
                assert!((0..10).all(|t| schedule(kind, warmup, total).factor(t).is_finite()));
            }
        }
    }
}
