//! The limits of the command. docs/limits.md has them beside those of the crates.

#[cfg(test)]
mod page;

/// The most seconds that `--time-limit` takes: a year.
pub(crate) const SECONDS: u64 = 31_536_000;
/// The most threads.
pub(crate) const THREADS: usize = 1024;
/// The most steps that `--depth` takes.
pub(crate) const DEPTH: i64 = 1_000_000;
/// The most steps that `--beyond` takes.
pub(crate) const BEYOND: i64 = 100_000;
/// The most tokens that `generate --length` takes.
pub(crate) const GENERATED: i64 = 10_000_000;
/// The longest rows that a report analyses.
pub(crate) const ANALYSED: usize = 2048;
/// The widest figures in points: two metres.
pub(crate) const FIGURE: f64 = 2000.0 / 25.4 * 72.0;
/// The largest file of a font in bytes.
pub(crate) const FONT: u64 = 64 << 20;
/// Sequences of a prediction that are computed together have so many bytes, and the last of them some more.
pub(crate) const PREDICTED: usize = 1 << 26;
