//! Attention to the keys of several steps: every position has one key for each, side by side, and the mask sees positions.
//!
//! Source: Mohtashami et al. 2023 (CoTFormer), Section 3, arXiv:2310.10845.

use std::ops::Range;

use super::{Attention, MaskKind, MaskRow};

impl MaskKind<'_> {
    /// The positions that hold the keys of a query, and whether it sees all of them.
    fn reach(&self, at: MaskRow) -> (Range<usize>, bool) {
        match self {
            Self::All => (0..usize::MAX, true),
            Self::Causal => (0..at.query + 1, true),
            Self::Offsets(offsets) => {
                (offsets.reach(at.query..at.query + 1, isize::MAX.unsigned_abs()), offsets.is_window())
            }
            Self::Within { reach, .. } => reach(at),
            Self::Dense(_) => (0..usize::MAX, false),
        }
    }

    /// Whether a query sees the key `at.first` of the range.
    fn shows(&self, at: MaskRow) -> bool {
        match self {
            Self::All | Self::Causal => true,
            Self::Offsets(offsets) => offsets.flag(at.query, at.first),
            Self::Within { rule, .. } | Self::Dense(rule) => {
                let mut one = [true];
                rule(at, &mut one);
                one[0]
            }
        }
    }
}

/// Runs an attention whose mask sees positions on keys that lie `[positions, steps]`.
pub fn by_position<R>(spec: &Attention<'_>, steps: usize, run: impl FnOnce(&Attention<'_>) -> R) -> R {
    let mask = spec.mask;
    let reach = |at: MaskRow| {
        let (keys, exact) = mask.reach(at);
        (keys.start.saturating_mul(steps)..keys.end.saturating_mul(steps), exact)
    };
    let rule = |at: MaskRow, seen: &mut [bool]| {
        for (n, seen) in seen.iter_mut().enumerate() {
            *seen = mask.shows(MaskRow { first: (at.first + n) / steps, ..at });
        }
    };
    match mask {
        MaskKind::All => run(spec),
        _ => run(&Attention { mask: MaskKind::Within { reach: &reach, rule: &rule, runs: None }, ..*spec }),
    }
}

/// Copies the first `steps` slots of every position of `x[positions, slots, width]` together.
pub fn pack<T: Copy>(x: &[T], (slots, steps, width): (usize, usize, usize), packed: &mut [T]) {
    for (packed, x) in packed.chunks_exact_mut((steps * width).max(1)).zip(x.chunks_exact((slots * width).max(1))) {
        packed.copy_from_slice(&x[..steps * width]);
    }
}

/// The inverse of [`pack`], with `rest` in the slots behind.
pub fn unpack<T: Copy>(packed: &[T], (slots, steps, width): (usize, usize, usize), rest: T, x: &mut [T]) {
    for (packed, x) in packed.chunks_exact((steps * width).max(1)).zip(x.chunks_exact_mut((slots * width).max(1))) {
        x[..steps * width].copy_from_slice(packed);
        x[steps * width..].fill(rest);
    }
}
