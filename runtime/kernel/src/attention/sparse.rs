//! Attention to few keys at known distances: time and memory grow with the number of visible keys, not with the length.
//!
//! Source: Vaswani et al. 2017, Section 3.2, arXiv:1706.03762; masks by distance: Chi et al. 2023 (RegularGPT), arXiv:2305.03796.

use std::ops::Range;

use super::{AttentionSizes, Cap, HeadPlaces, Offsets, Relative, RowHead, Scores};
use crate::Real;
use crate::dropout::Keep;
use crate::parallel::{DisjointSlice, add_to, vectorised};

impl<'a> Offsets<'a> {
    /// The distances that occur in a row of so many queries and keys.
    fn within(&self, (nq, nk): (usize, usize)) -> &'a [isize] {
        let from = self.list.partition_point(|d| *d <= -(nk as isize));
        let to = self.list.partition_point(|d| *d < nq as isize);
        &self.list[from..to.max(from)]
    }
}

/// Scores of one query: for each key its position, score, and later its probability.
struct QueryScores<'s, T> {
    distances: &'s [isize],
    scores: &'s mut [T],
    slopes: &'s mut [T],
    /// Derivatives of capped scores, where they are needed.
    capped: &'s mut [T],
}

/// A query as it meets the keys, and as it meets the codes of distances, if there are any.
struct SparseQuery<'s, T> {
    keys: &'s [T],
    codes: &'s [T],
}

/// One row and head, key by key.
struct Head<'h, 'a, T> {
    shape: &'h AttentionSizes<'a>,
    scores: &'h Scores<'a, T>,
    place: RowHead,
    distances: &'a [isize],
    keys: usize,
    /// Where queries, keys, values and results lie.
    places: [HeadPlaces; 4],
    /// The query that stands first among the queries at hand; those before it have had their turn.
    first: usize,
    scale: T,
    cap: Option<Cap<T>>,
}

impl<'h, 'a, T: Real> Head<'h, 'a, T> {
    fn new(
        shape: &'h AttentionSizes<'a>,
        scores: &'h Scores<'a, T>,
        place: RowHead,
        extent: (usize, usize),
        offsets: &Offsets<'a>,
        first: usize,
    ) -> Self {
        Self {
            shape,
            scores,
            place,
            distances: offsets.within(extent),
            keys: extent.1,
            places: [
                shape.query_places(place),
                shape.key_places(place),
                shape.value_places(place),
                shape.output_places(place),
            ],
            first,
            scale: T::from_f64(shape.spec.scale),
            cap: Cap::of(shape.spec),
        }
    }

    /// The distances at which this query has a key.
    fn seen(&self, query: usize) -> &'a [isize] {
        let q = query as isize;
        let from = self.distances.partition_point(|d| q - *d >= self.keys as isize);
        let to = self.distances.partition_point(|d| *d <= q);
        &self.distances[from..to.max(from)]
    }

    /// Elements of the head at a query.
    fn query(&self, query: usize) -> Range<usize> {
        self.places[0].at(query - self.first)
    }

    /// Elements of the result of a query.
    fn output(&self, query: usize) -> Range<usize> {
        self.places[3].at(query - self.first)
    }

    /// Elements of the key at a distance before a query, and of its value.
    fn key(&self, query: usize, distance: isize) -> [Range<usize>; 2] {
        let key = (query as isize - distance) as usize;
        [self.places[1].at(key), self.places[2].at(key)]
    }

    /// Numbers that a query with shifts takes: itself twice.
    fn shifted(&self) -> usize {
        if self.scores.relative.is_some() { 2 * self.shape.spec.head_width } else { 0 }
    }

    /// A query with its shifts, which go into `shifted`.
    fn met<'s>(&self, query: usize, q: &'s [T], shifted: &'s mut [T]) -> SparseQuery<'s, T> {
        let own = &q[self.query(query)];
        let Some(r) = &self.scores.relative else { return SparseQuery { keys: own, codes: &[] } };
        let (keys, codes) = shifted.split_at_mut(own.len());
        for (met, n) in [(&mut *keys, 0), (&mut *codes, 1)] {
            met.copy_from_slice(own);
            add_to(met, r.shift(n, self.place.head, self.shape.spec));
        }
        SparseQuery { keys, codes }
    }

    /// The code of a distance.
    fn code(&self, r: &Relative<'a, T>, distance: isize) -> &'a [T] {
        r.code(
            distance,
            self.shape.keys.query_stride,
            self.place.head * self.shape.spec.head_width,
            self.shape.spec.head_width,
        )
    }

    /// Turns the scores of a query into probabilities; all 0 where it sees nothing.
    fn softmax(&self, query: usize, own: &SparseQuery<'_, T>, k: &[T], seen: &mut QueryScores<'_, T>) {
        let mut largest = T::NEG_INFINITY;
        for (n, (score, &distance)) in seen.scores.iter_mut().zip(seen.distances).enumerate() {
            let [key, _] = self.key(query, distance);
            let mut products = dot(own.keys, &k[key]);
            if let Some(r) = &self.scores.relative {
                products += dot(own.codes, self.code(r, distance));
            }
            let (scaled, slope) = match self.cap {
                None => (products * self.scale, self.scale),
                Some(cap) => cap.score(products),
            };
            if let Some(capped) = seen.capped.get_mut(n) {
                *capped = slope;
            }
            *score = scaled + self.scores.bias.at(self.place.head, distance);
            largest = score.or_larger(largest);
        }
        // Without any key, 0 in place of the largest score makes every exponential 0.
        let largest = if largest == T::NEG_INFINITY { T::ZERO } else { largest };
        let mut sum = T::ZERO;
        for score in seen.scores.iter_mut() {
            *score = (*score - largest).exp_below_one();
            sum += *score;
        }
        let inverse = if sum == T::ZERO { T::ZERO } else { T::ONE / sum };
        seen.scores.iter_mut().for_each(|p| *p *= inverse);
    }

    /// The dropout factor of a key: the same as in the dense way.
    fn factor(&self, query: usize, distance: isize) -> T {
        let Some(dropout) = self.shape.spec.dropout else { return T::ONE };
        let key = dropout.row_keys[self.place.row].at(self.place.head as u64).at(query as u64);
        let at = (query as isize - distance) as usize;
        let mut factors = [T::ZERO; 4];
        Keep::new(dropout.p).factors(key, at / 4 * 4, &mut factors);
        factors[at % 4]
    }
}

/// The scalar product of two short vectors.
#[inline(always)]
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    let mut lanes = [T::ZERO; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for l in 0..8 {
            lanes[l] = a[l].mul_add(b[l], lanes[l]);
        }
    }
    let mut sum = T::ZERO;
    for (&a, &b) in a_rest.iter().zip(b_rest) {
        sum = a.mul_add(b, sum);
    }
    lanes.into_iter().fold(sum, |sum, lane| sum + lane)
}

/// `y += by x`.
#[inline(always)]
fn add_scaled<T: Real>(y: &mut [T], by: T, x: &[T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = by.mul_add(x, *y);
    }
}

/// The forward pass of one row and head, for the queries from `first` on.
///
/// # Safety
/// The task owns the head's part of `out`.
pub(super) unsafe fn forward<T: Real>(
    shape: &AttentionSizes<'_>,
    scores: &Scores<'_, T>,
    offsets: &Offsets<'_>,
    place: RowHead,
    extent: (usize, usize),
    first: usize,
    [q, k, v]: [&[T]; 3],
    out: &DisjointSlice<'_, T>,
) {
    let head = Head::new(shape, scores, place, extent, offsets, first);
    T::with_scratch(head.distances.len() + head.shifted(), |scratch| {
        let (scratch, shifted) = scratch.split_at_mut(head.distances.len());
        vectorised!({
            for query in first..extent.0 {
                let distances = head.seen(query);
                let scores = &mut scratch[..distances.len()];
                let mut seen = QueryScores { distances, scores, slopes: &mut [], capped: &mut [] };
                head.softmax(query, &head.met(query, q, shifted), k, &mut seen);
                // SAFETY: the caller's promise.
                let y = unsafe { out.part(head.output(query)) };
                y.fill(T::ZERO);
                for (&p, &distance) in seen.scores.iter().zip(distances) {
                    let [_, value] = head.key(query, distance);
                    add_scaled(y, p * head.factor(query, distance), &v[value]);
                }
            }
        });
    });
}

/// The gradients of one row and head; `slopes` takes those of the bias, distance by distance, then those of the relative
/// positions. Those of keys and values are added to what heads before this one left that have the same.
///
/// # Safety
/// The task owns the parts of `grads` of all heads that have the same keys, and all of `slopes`.
pub(super) unsafe fn backward<T: Real>(
    shape: &AttentionSizes<'_>,
    scores: &Scores<'_, T>,
    offsets: &Offsets<'_>,
    place: RowHead,
    extent: (usize, usize),
    [q, k, v, dout]: [&[T]; 4],
    [dq, dk, dv]: &[DisjointSlice<'_, T>; 3],
    slopes: &mut [T],
) {
    let head = Head::new(shape, scores, place, extent, offsets, 0);
    let (slopes, more_slopes) = slopes.split_at_mut(scores.bias.gradients());
    let fresh = if shape.is_first_of_key_head(place) { extent.1 } else { 0 };
    for key in 0..fresh {
        for (grad, places) in [dk, dv].into_iter().zip(&head.places[1..]) {
            // SAFETY: the caller's promise.
            unsafe { grad.part(places.at(key)) }.fill(T::ZERO);
        }
    }
    let most = head.distances.len();
    let of_caps = if head.cap.is_some() { most } else { 0 };
    T::with_scratch(2 * most + of_caps + head.shifted(), |scratch| {
        let (p, rest) = scratch.split_at_mut(most);
        let (d_scores, rest) = rest.split_at_mut(most);
        let (capped, shifted) = rest.split_at_mut(of_caps);
        vectorised!({
            for query in 0..extent.0 {
                let distances = head.seen(query);
                let count = distances.len();
                let mut seen = QueryScores {
                    distances,
                    scores: &mut p[..count],
                    slopes: &mut d_scores[..count],
                    capped: &mut *capped,
                };
                let own = head.met(query, q, shifted);
                head.softmax(query, &own, k, &mut seen);
                let dy = &dout[head.output(query)];
                let mut mean = T::ZERO;
                for ((d, &p), &distance) in seen.slopes.iter_mut().zip(&*seen.scores).zip(distances) {
                    let [_, value] = head.key(query, distance);
                    *d = dot(dy, &v[value]) * head.factor(query, distance);
                    mean = p.mul_add(*d, mean);
                }
                // SAFETY: the caller's promise.
                let dq = unsafe { dq.part(head.query(query)) };
                dq.fill(T::ZERO);
                for (n, ((d, &p), &distance)) in seen.slopes.iter().zip(&*seen.scores).zip(distances).enumerate() {
                    let slope = p * (*d - mean);
                    if let Some(sum) = scores.bias.index(distance).and_then(|at| slopes.get_mut(at)) {
                        *sum += slope;
                    }
                    let scale = seen.capped.get(n).copied().unwrap_or(head.scale);
                    let (slope, [at, value]) = (slope * scale, head.key(query, distance));
                    add_scaled(dq, slope, &k[at.clone()]);
                    if let Some(r) = &scores.relative {
                        let code = head.code(r, distance);
                        add_scaled(dq, slope, code);
                        let [d_code, d_u, d_v] = r.slopes(distance, code.len(), more_slopes);
                        add_scaled(d_code, slope, own.codes);
                        add_scaled(d_u, slope, &k[at.clone()]);
                        add_scaled(d_v, slope, code);
                    }
                    // SAFETY: the caller's promise; no other reference to these parts is live.
                    let (dk, dv) = unsafe { (dk.part(at), dv.part(value)) };
                    add_scaled(dk, slope, own.keys);
                    add_scaled(dv, p * head.factor(query, distance), dy);
                }
            }
        });
    });
}
