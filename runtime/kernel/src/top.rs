//! Which numbers of a row or of a unit are among the largest. With a NaN among them nobody knows: all results are NaN.
//!
//! Source: rtc.

use std::cmp::Ordering;
use std::ops::Range;

use super::Real;
use super::parallel::{DisjointSlice, each};

/// Where the numbers of one choice lie, each of which belongs to a row or to a unit.
#[derive(Clone, Copy, Debug)]
pub enum Over<'a> {
    /// The positions of row r, from `offsets[r]` on.
    Positions(&'a [usize]),
    /// So many channels of every unit.
    Channels(usize),
}

impl Over<'_> {
    fn range(self, n: usize) -> Range<usize> {
        match self {
            Self::Positions(offsets) => offsets[n]..offsets[n + 1],
            Self::Channels(width) => n * width..(n + 1) * width,
        }
    }
}

/// The larger number first; none is NaN.
fn falling<T: Real>(a: &T, b: &T) -> Ordering {
    match (a > b, a < b) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// `y` = 1 for the largest numbers of every row or unit of `x`, the first of equals, else 0. There are as many as `counts` says, in one
/// number for all or one for each, and at least one. Numbers whose place in `among` is 0 do not count. Where one that counts is NaN, or
/// it is not known whether it counts, the row or unit is NaN.
pub fn top<T: Real>(x: &[T], among: Option<&[T]>, over: Over<'_>, counts: &[usize], y: &mut [T]) {
    let rows = match over {
        Over::Positions(offsets) => offsets.len() - 1,
        Over::Channels(width) => x.len() / width.max(1),
    };
    let out = DisjointSlice::new(y);
    each(rows, 8 * x.len(), |n| {
        let own = over.range(n);
        // SAFETY: rows and units are disjoint.
        let y = unsafe { out.part(own.clone()) };
        let count = if counts.len() == 1 { counts[0] } else { counts[n] };
        choose(&x[own.clone()], among.map(|among| &among[own]), count.max(1), y);
    });
}

fn choose<T: Real>(x: &[T], among: Option<&[T]>, count: usize, y: &mut [T]) {
    let counts = |at: usize| among.is_none_or(|among| among[at] != T::ZERO);
    if (0..x.len()).any(|at| counts(at) && (x[at].is_nan() || among.is_some_and(|among| among[at].is_nan()))) {
        y.fill(T::NAN);
        return;
    }
    let candidates = (0..x.len()).filter(|at| counts(*at)).count();
    if candidates <= count {
        for (at, y) in y.iter_mut().enumerate() {
            *y = if counts(at) { T::ONE } else { T::ZERO };
        }
        return;
    }
    T::with_scratch(candidates, |sorted| {
        for (to, at) in sorted.iter_mut().zip((0..x.len()).filter(|at| counts(*at))) {
            *to = x[at];
        }
        let (before, last, _) = sorted.select_nth_unstable_by(count - 1, falling);
        let last = *last;
        let larger = before.iter().filter(|x| falling(*x, &last) == Ordering::Less).count();
        let mut equal = count - larger;
        for (at, (x, y)) in x.iter().zip(y).enumerate() {
            let taken = counts(at)
                && match falling(x, &last) {
                    Ordering::Less => true,
                    Ordering::Equal if equal > 0 => {
                        equal -= 1;
                        true
                    }
                    _ => false,
                };
            *y = if taken { T::ONE } else { T::ZERO };
        }
    });
}
