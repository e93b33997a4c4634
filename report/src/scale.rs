//! Axes: from numbers to places, round ticks, and how numbers are written.

use rtc_compiler::ir::formula::thousands;

/// The kind of an axis's scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScaleKind {
    Linear,
    /// Equal factors are equal distances; only for numbers above 0.
    Logarithmic,
}

/// Positive values that span so large a factor stand on a logarithmic axis.
const WIDE: f64 = 20.0;

/// The scale for values of a setting.
pub(crate) fn scale_of(values: &[f64]) -> ScaleKind {
    let (least, most) = values.iter().fold((f64::INFINITY, 0.0_f64), |(l, m), value| (l.min(*value), m.max(*value)));
    if least > 0.0 && most >= WIDE * least { ScaleKind::Logarithmic } else { ScaleKind::Linear }
}

/// An axis: the numbers that it shows, and its ticks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AxisScale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    /// Ticks with their texts, rising.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl AxisScale {
    /// An axis from the smallest to the largest of these numbers, both finite, with about `count` ticks. With `round` it
    /// reaches out to ticks on both sides.
    pub(crate) fn new(kind: ScaleKind, (low, high): (f64, f64), count: usize, round: bool) -> Self {
        match kind {
            ScaleKind::Logarithmic if low > 0.0 => logarithmic(low, high),
            _ => linear(low, high, count, round),
        }
    }

    /// Where a number lies: 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.kind {
            ScaleKind::Linear => (value - self.low) / (self.high - self.low),
            ScaleKind::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        }
    }
}

fn linear(low: f64, high: f64, count: usize, round: bool) -> AxisScale {
    let (low, high) = widened(low, high);
    let step = nice((high - low) / count.max(1) as f64);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let (low, high) = if round { (first * step, last * step) } else { (low, high) };
    let slack = step * 1e-6;
    let ticks = (0..=(last - first) as usize).map(|n| (first + n as f64) * step);
    let ticks = ticks.filter(|tick| (low - slack..=high + slack).contains(tick));
    AxisScale { kind: ScaleKind::Linear, low, high, ticks: ticks.map(|tick| (tick, by_step(tick, step))).collect() }
}

/// A range that is not empty, even at the limits of precision.
fn widened(low: f64, high: f64) -> (f64, f64) {
    if high - low > 1e-9 * low.abs().max(high.abs()) && high - low > f64::MIN_POSITIVE * 1e9 {
        return (low, high);
    }
    let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
    (low - room, high + room)
}

/// The smallest of 1, 2, 5, 10, ... (times powers of ten) that is not below `step`.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * 0.999);
    factor.unwrap_or(10.0) * power
}

fn logarithmic(low: f64, high: f64) -> AxisScale {
    let (low, high) = if high > low * 1.05 { (low, high) } else { (low / 1.5, high * 1.5) };
    let (low, high) = (low / 1.1, high * 1.1);
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let factors: &[f64] = if high / low > 1e4 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let all = decades.flat_map(|decade| factors.iter().map(move |factor| factor * 10_f64.powi(decade)));
    let ticks = all.filter(|tick| (low..=high).contains(tick)).map(|tick| (tick, number(tick)));
    AxisScale { kind: ScaleKind::Logarithmic, low, high, ticks: ticks.collect() }
}

/// A tick of an axis whose ticks are `step` apart: all have the same digits.
fn by_step(tick: f64, step: f64) -> String {
    let tick = if tick.abs() < step * 1e-6 { 0.0 } else { tick };
    if tick == 0.0 {
        return "0".to_owned();
    }
    if step < 1e-4 || tick.abs() >= 1e7 {
        return scientific(tick);
    }
    let digits = (-step.log10().floor()).max(0.0) as usize;
    grouped(&format!("{tick:.digits$}"))
}

/// A number for people, with at most four significant digits behind the point.
pub(crate) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "not finite".to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e9).contains(&size) {
        return scientific(value);
    }
    let digits = if size >= 1000.0 || value.fract() == 0.0 { 0 } else { (3 - size.log10().floor() as i32).clamp(0, 6) };
    let text = format!("{value:.*}", digits as usize);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    grouped(text)
}

/// `5e-5`, `1.2e7`.
fn scientific(value: f64) -> String {
    let text = format!("{value:.2e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
}

/// Commas between the thousands of a number in digits.
fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    format!("{sign}{}{rest}", thousands(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: &AxisScale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            texts(&AxisScale::new(ScaleKind::Linear, (0.0, 9873.0), 5, false)),
            ["0", "2,000", "4,000", "6,000", "8,000"]
        );
        assert_eq!(texts(&AxisScale::new(ScaleKind::Linear, (1.13, 2.41), 5, true)), ["1.0", "1.5", "2.0", "2.5"]);
        assert_eq!(texts(&AxisScale::new(ScaleKind::Linear, (0.0, 1e-4), 4, true)), ["0", "5e-5", "1e-4"]);
        assert_eq!(
            texts(&AxisScale::new(ScaleKind::Logarithmic, (3.0, 900.0), 5, false)),
            ["5", "10", "20", "50", "100", "200", "500"]
        );
    }

    #[test]
    fn values_that_span_a_factor_of_twenty_are_logarithmic() {
        assert_eq!(scale_of(&[1e-4, 1e-2]), ScaleKind::Logarithmic);
        assert_eq!(scale_of(&[1.0, 20.0]), ScaleKind::Logarithmic);
        assert_eq!(scale_of(&[1.0, 19.0]), ScaleKind::Linear);
        assert_eq!(scale_of(&[0.0, 100.0]), ScaleKind::Linear);
    }

    #[test]
    fn every_range_gives_an_axis() {
        let ranges = [
            (0.0, 0.0),
            (5.0, 5.0),
            (-3.0, -3.0),
            (1e300, 1e300),
            (-1e300, 1e300),
            (1e-300, 2e-300),
            (1.0, 1.0 + 1e-15),
        ];
        for kind in [ScaleKind::Linear, ScaleKind::Logarithmic] {
            for (low, high) in ranges {
                let scale = AxisScale::new(kind, (low, high), 5, true);
                assert!(scale.ticks.len() < 40, "{low} to {high}: {:?}", scale.ticks);
                assert!(scale.place(low).is_finite() && scale.place(high).is_finite(), "{low} to {high}");
            }
        }
        let middle = AxisScale::new(ScaleKind::Linear, (5.0, 5.0), 5, true).place(5.0);
        assert!((middle - 0.5).abs() < 1e-9, "{middle}");
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 12.0, 0.12345, 1234.5, -1_234_567.0, 0.000_012, 3.0e12, f64::NAN];
        assert_eq!(numbers.map(number), ["0", "12", "0.1235", "1,234", "-1,234,567", "1.2e-5", "3e12", "not finite"]);
    }
}
