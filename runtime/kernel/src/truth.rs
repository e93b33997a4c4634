//! Truth values: a condition holds, or it does not, or nobody knows, because it was asked of a number that is not finite.
//!
//! What nobody knows decides nothing: numbers that are chosen by it are NaN, and a loop that asks it ends the run. So no number that is
//! not finite can vanish in a comparison.
//!
//! Source: Kleene 1938 (logic of three values).

use super::Real;

/// The condition does not hold.
pub const FALSE: u8 = 0;
/// The condition holds.
pub const TRUE: u8 = 1;
/// The condition was asked of a number that is not finite.
pub const UNKNOWN: u8 = 2;

/// Whether a unit with survival `t` goes on: `1 - t < threshold`.
#[inline(always)]
pub fn goes_on<T: Real>(t: T, threshold: T) -> u8 {
    if t.is_finite() { u8::from(T::ONE - t < threshold) } else { UNKNOWN }
}

/// Whether both conditions hold. One that does not hold decides.
#[inline(always)]
pub fn both(a: u8, b: u8) -> u8 {
    if a == FALSE || b == FALSE { FALSE } else { a.max(b) }
}

/// Whether a condition holds somewhere; unknown where any of them is, since each of them decides about a unit of its own.
pub fn any(conditions: &[u8]) -> u8 {
    conditions.iter().copied().max().unwrap_or(FALSE)
}

/// What is chosen by a condition.
#[inline(always)]
pub fn select(condition: u8, a: u8, b: u8) -> u8 {
    match condition {
        FALSE => b,
        TRUE => a,
        _ => UNKNOWN,
    }
}
