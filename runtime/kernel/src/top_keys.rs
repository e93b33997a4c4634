//! The keys that match a query best: their places in the row, head by head.
//!
//! Source: Gupta et al. 2021 (top-k attention), Section 3, arXiv:2106.06899; the choice of blocks: Lu et al. 2025 (MoBA), arXiv:2502.13189.

use super::Real;
use super::parallel::{DisjointSlice, each, lane_dot};

/// Sizes of a choice.
#[derive(Clone, Copy, Debug)]
pub struct TopKeys<'a> {
    /// Where the queries of the rows begin: they are the last positions of their rows.
    pub queries: &'a [usize],
    /// Where the keys of the rows begin.
    pub keys: &'a [usize],
    /// Number of heads.
    pub heads: usize,
    /// Channels of queries and keys, those of all heads.
    pub width: usize,
    /// Keys of every query and head.
    pub count: usize,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
}

impl TopKeys<'_> {
    /// Writes places `[queries, heads count]` from queries and keys `[positions, width]`: from the largest product on, of equal ones
    /// the first; -1 where there are no more keys, NaN for all where a product is NaN. Where `among` is given, only keys count whose number in
    /// it, `[positions]`, is not 0.
    pub fn choose<T: Real>(&self, q: &[T], k: &[T], among: Option<&[T]>, out: &mut [T]) {
        let (rows, places) = (self.queries.len() - 1, self.heads * self.count);
        let lengths = self.queries.windows(2).zip(self.keys.windows(2)).map(|(q, k)| (q[1] - q[0], k[1] - k[0]));
        let pairs: usize = lengths.map(|(queries, keys)| queries * keys).sum();
        let out = DisjointSlice::new(out);
        each(rows, pairs * self.width / 4, |row| {
            let [queries, keys] = [self.queries, self.keys].map(|starts| starts[row]..starts[row + 1]);
            let before = keys.len() - queries.len();
            // SAFETY: a row is one task's.
            let out = unsafe { out.part(queries.start * places..queries.end * places) };
            T::with_scratch(self.count, |best| {
                for (n, places) in out.chunks_exact_mut(self.count).enumerate() {
                    let (query, head) = (n / self.heads, n % self.heads);
                    let seen = if self.causal { before + query + 1 } else { keys.len() };
                    let seen = keys.start..keys.start + seen;
                    let among = among.map(|among| &among[seen.clone()]);
                    let [q, k] = [&q[(queries.start + query) * self.width..], &k[seen.start * self.width..]];
                    self.query(head, (q, k), (seen.len(), among), (best, places));
                }
            });
        });
    }

    /// The places for a query and a head; `q` and `k` begin with the query and the first key.
    fn query<T: Real>(
        &self,
        head: usize,
        (q, k): (&[T], &[T]),
        (seen, among): (usize, Option<&[T]>),
        (best, places): (&mut [T], &mut [T]),
    ) {
        let width = self.width / self.heads;
        places.fill(T::from_f64(-1.0));
        let q = &q[head * width..][..width];
        let mut found = 0;
        for key in 0..seen {
            let counts = among.map_or(T::ONE, |among| among[key]);
            if counts == T::ZERO {
                continue;
            }
            let score = lane_dot(q, &k[key * self.width + head * width..][..width]);
            if score.is_nan() || counts.is_nan() {
                return places.fill(T::from_f64(f64::NAN));
            }
            // Equal ones stay before those that come later.
            let at = best[..found].partition_point(|other| *other >= score);
            if at == self.count {
                continue;
            }
            found = (found + 1).min(self.count);
            best[at..found].rotate_right(1);
            places[at..found].rotate_right(1);
            (best[at], places[at]) = (score, T::from_f64(key as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_keys_come_first_and_of_equals_the_first() {
        let (q, k) = ([1.0, 1.0, 1.0, -1.0, 1.0, 1.0_f64], [2.0, 5.0, 2.0, 7.0, 9.0, 1.0]);
        let mut out = [0.0; 12];
        let offsets = [0, 4, 6];
        let sizes = TopKeys { queries: &offsets, keys: &offsets, heads: 1, width: 1, count: 2, causal: true };
        sizes.choose(&q, &k, None, &mut out);
        assert_eq!(out, [0.0, -1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, -1.0, 0.0, 1.0]);
        TopKeys { causal: false, ..sizes }.choose(&q, &k, None, &mut out);
        assert_eq!(out, [3.0, 1.0, 3.0, 1.0, 3.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 1.0]);
        sizes.choose(&q, &k, Some(&[1.0, 0.0, 1.0, 2.0, 0.0, 1.0]), &mut out);
        assert_eq!(out, [0.0, -1.0, 0.0, -1.0, 0.0, 2.0, 0.0, 2.0, -1.0, -1.0, 1.0, -1.0]);
        let mut last = [0.0; 2];
        TopKeys { queries: &[0, 1], keys: &[0, 4], causal: true, ..sizes }.choose(&q[3..4], &k[..4], None, &mut last);
        assert_eq!(last, [0.0, 2.0]);
        let broken = [2.0, f64::NAN, 2.0, 7.0, 9.0, 1.0];
        TopKeys { causal: true, ..sizes }.choose(&q, &broken, None, &mut out);
        assert!(
            out[..2] == [0.0, -1.0]
                && out[2..8].iter().all(|place| place.is_nan())
                && out[8..] == [0.0, -1.0, 0.0, 1.0]
        );
    }
}
