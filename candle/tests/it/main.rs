//! Runs of rtc as modules of Candle.

mod gradients;
mod module;
mod readme;
mod spec;
mod support;
mod tensors;
