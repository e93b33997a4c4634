//! Failures of rtc as those of Candle.

/// A failure of rtc as one of Candle.
pub(crate) fn failed(error: impl std::fmt::Display) -> candle_core::Error {
    candle_core::Error::Msg(error.to_string())
}
