//! Moving whole rows between a full packed array and a compact one: how halted rows leave the batch and come back.

use super::Real;
use super::parallel::{Parts, add_to, each};

/// The offsets of the compact array that holds `rows` of a packed array with `offsets`.
pub fn compact_offsets(offsets: &[usize], rows: &[usize]) -> Vec<usize> {
    let mut end = 0;
    let ends = rows.iter().map(|&row| {
        end += offsets[row + 1] - offsets[row];
        end
    });
    std::iter::once(0).chain(ends).collect()
}

/// `compact` = the given rows of `full[positions, width]`, end to end, in the order given.
pub fn gather_rows<T: Real>(full: &[T], offsets: &[usize], rows: &[usize], width: usize, compact: &mut [T]) {
    let inner = compact_offsets(offsets, rows);
    debug_assert_eq!(compact.len(), inner[rows.len()] * width);
    let out = Parts::new(compact);
    each(rows.len(), inner[rows.len()] * width, |i| {
        let from = &full[offsets[rows[i]] * width..offsets[rows[i] + 1] * width];
        // SAFETY: rows of the compact array are disjoint.
        unsafe { out.part(inner[i] * width..inner[i + 1] * width) }.copy_from_slice(from);
    });
}

/// Overwrites the given rows of `full` with those of `compact`; other rows stay. The rows rise.
pub fn scatter_rows<T: Real>(compact: &[T], offsets: &[usize], rows: &[usize], width: usize, full: &mut [T]) {
    back(compact, offsets, rows, width, full, |full, compact| full.copy_from_slice(compact));
}

/// Adds the rows of `compact` to the given rows of `full`; other rows stay. The rows rise.
pub fn scatter_add_rows<T: Real>(compact: &[T], offsets: &[usize], rows: &[usize], width: usize, full: &mut [T]) {
    back(compact, offsets, rows, width, full, add_to);
}

fn back<T: Real>(
    compact: &[T],
    offsets: &[usize],
    rows: &[usize],
    width: usize,
    full: &mut [T],
    put: impl Fn(&mut [T], &[T]) + Sync + Send,
) {
    let inner = compact_offsets(offsets, rows);
    assert!(rows.is_sorted_by(|a, b| a < b), "the rows rise");
    debug_assert_eq!(compact.len(), inner[rows.len()] * width);
    let out = Parts::new(full);
    each(rows.len(), inner[rows.len()] * width, |i| {
        // SAFETY: the rows are different, so their ranges are disjoint.
        let full = unsafe { out.part(offsets[rows[i]] * width..offsets[rows[i] + 1] * width) };
        put(full, &compact[inner[i] * width..inner[i + 1] * width]);
    });
}
