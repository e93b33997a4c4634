//! Geometric attention: a query reads the nearest key that matches it.
//!
//! `p_ij = sigmoid(scale q_i k_j + side)` says how well key j matches query i, head by head; a query never matches itself. Going away
//! from the query, key j gets the weight `a_ij = p_ij prod (1 - p_ik)` over all keys k nearer than j. Of two keys at one distance the
//! one in front counts as nearer. The weights of a query are divided by their sum, and a query without keys reads 0.
//!
//! The backward run computes the weights again.
//!
//! Source: Csordás et al. 2022 (neural data router), Section 3.2, arXiv:2110.07732.

use super::Real;
use super::parallel::{DisjointSlice, each, lane_dot, vectorised};

/// The least number that weights are divided by.
const LEAST: f64 = 1e-12;

/// Sizes of an attention.
#[derive(Clone, Copy, Debug)]
pub struct GeometricAttention<'a> {
    /// Where the rows begin, in positions.
    pub offsets: &'a [usize],
    /// Number of heads.
    pub heads: usize,
    /// Channels of queries, keys and values, those of all heads.
    pub width: usize,
    /// Factor on the products.
    pub scale: f64,
}

/// A query of a row with its head.
#[derive(Clone, Copy)]
struct Query {
    at: usize,
    head: usize,
}

/// Memory for a query, a number for every key each.
struct KeyScratch<'s, T> {
    /// How well the key matches.
    p: &'s mut [T],
    /// `1 - p`.
    open: &'s mut [T],
    /// The weight, not divided yet.
    weights: &'s mut [T],
    /// How the loss changes with the weight.
    slopes: &'s mut [T],
}

/// The keys of a row of so many, from the nearest to a query on.
fn by_distance(query: usize, keys: usize) -> impl DoubleEndedIterator<Item = usize> {
    let both = move |away: usize| [Some(query + away).filter(|key| *key < keys), query.checked_sub(away)];
    (1..keys).flat_map(both).flatten()
}

impl GeometricAttention<'_> {
    fn each_row<T: Real>(&self, work: usize, task: impl Fn(usize, KeyScratch<'_, T>) + Sync + Send) {
        let rows = self.offsets.len() - 1;
        let pairs: usize = self.offsets.windows(2).map(|ends| (ends[1] - ends[0]).pow(2)).sum();
        each(rows, pairs * work * (self.width / 8 + 16), |row| {
            let keys = self.offsets[row + 1] - self.offsets[row];
            T::with_scratch(4 * keys, |memory| {
                let (p, rest) = memory.split_at_mut(keys);
                let (open, rest) = rest.split_at_mut(keys);
                let (weights, slopes) = rest.split_at_mut(keys);
                task(row, KeyScratch { p, open, weights, slopes });
            });
        });
    }

    /// The channels of a head at a position.
    fn channels(&self, position: usize, head: usize) -> std::ops::Range<usize> {
        let e = self.width / self.heads;
        let start = position * self.width + head * e;
        start..start + e
    }

    /// `y[positions, width]` from queries, keys and values; `sides[positions, heads, 2]` is added to the scores of keys behind a query
    /// and in front of it.
    pub fn forward<T: Real>(&self, [q, k, v]: [&[T]; 3], sides: Option<&[T]>, y: &mut [T]) {
        debug_assert!(q.len() == k.len() && v.len() == y.len() && q.len() == v.len());
        let y = DisjointSlice::new(y);
        self.each_row(2, |row, mut keys| {
            let (start, end) = (self.offsets[row], self.offsets[row + 1]);
            // SAFETY: every row has positions of its own.
            let y = unsafe { y.part(start * self.width..end * self.width) };
            y.fill(T::ZERO);
            for at in 0..end - start {
                for head in 0..self.heads {
                    let total = self.weigh(start, Query { at, head }, [q, k], sides, &mut keys);
                    let y = &mut y[self.channels(at, head)];
                    for (key, &weight) in keys.weights.iter().enumerate() {
                        let v = &v[self.channels(start + key, head)];
                        vectorised!(y.iter_mut().zip(v).for_each(|(y, &v)| *y = weight.mul_add(v, *y)));
                    }
                    y.iter_mut().for_each(|y| *y = *y / total);
                }
            }
        });
    }

    /// Leaves how keys match a query, and their weights; gives what the weights are divided by.
    fn weigh<T: Real>(
        &self,
        start: usize,
        Query { at, head }: Query,
        [q, k]: [&[T]; 2],
        sides: Option<&[T]>,
        keys: &mut KeyScratch<'_, T>,
    ) -> T {
        let scale = T::from_f64(self.scale);
        let place = 2 * ((start + at) * self.heads + head);
        let q = &q[self.channels(start + at, head)];
        for key in 0..keys.p.len() {
            let product = vectorised!(lane_dot(q, &k[self.channels(start + key, head)]));
            let side = sides.map_or(T::ZERO, |sides| sides[place + usize::from(key > at)]);
            let score = scale.mul_add(product, side);
            keys.p[key] = score.sigmoid();
            keys.open[key] = (-score).sigmoid();
        }
        let (mut left, mut total) = (T::ONE, T::ZERO);
        keys.weights[at] = T::ZERO;
        for key in by_distance(at, keys.p.len()) {
            let weight = keys.p[key] * left;
            keys.weights[key] = weight;
            total += weight;
            left *= keys.open[key];
        }
        total.or_larger(T::from_f64(LEAST))
    }

    /// Gradients for q, k, v and the sides, where there are some.
    pub fn backward<T: Real>(
        &self,
        inputs: [&[T]; 3],
        sides: Option<&[T]>,
        dy: &[T],
        grads: [&mut [T]; 3],
        d_sides: Option<&mut [T]>,
    ) {
        let grads = grads.map(DisjointSlice::new);
        let d_sides = d_sides.map(DisjointSlice::new);
        self.each_row(5, |row, mut keys| {
            let (start, end) = (self.offsets[row], self.offsets[row + 1]);
            // SAFETY: every row has positions of its own.
            let grads = grads.each_ref().map(|grad| unsafe { grad.part(start * self.width..end * self.width) });
            // SAFETY: as above.
            let mut d_sides = d_sides.as_ref().map(|d| unsafe { d.part(2 * start * self.heads..2 * end * self.heads) });
            let [dq, dk, dv] = grads;
            for grad in [&mut *dq, &mut *dk, &mut *dv] {
                grad.fill(T::ZERO);
            }
            for at in 0..end - start {
                for head in 0..self.heads {
                    let query = Query { at, head };
                    self.slopes(start, query, inputs, sides, dy, &mut keys);
                    let slopes = &*keys.slopes;
                    let (own, place) = (self.channels(at, head), 2 * (at * self.heads + head));
                    let [q, dy] = [inputs[0], dy].map(|x| &x[self.channels(start + at, head)]);
                    let scale = T::from_f64(self.scale);
                    for (key, (&slope, &weight)) in slopes.iter().zip(&*keys.weights).enumerate() {
                        let (other, slope) = (self.channels(key, head), scale * slope);
                        let k = &inputs[1][self.channels(start + key, head)];
                        vectorised!({
                            dq[own.clone()].iter_mut().zip(k).for_each(|(dq, &k)| *dq = slope.mul_add(k, *dq));
                            dk[other.clone()].iter_mut().zip(q).for_each(|(dk, &q)| *dk = slope.mul_add(q, *dk));
                            dv[other].iter_mut().zip(dy).for_each(|(dv, &dy)| *dv = weight.mul_add(dy, *dv));
                        });
                    }
                    if let Some(d_sides) = &mut d_sides {
                        let sum = |slopes: &[T]| slopes.iter().fold(T::ZERO, |sum, slope| sum + *slope);
                        d_sides[place] = sum(&slopes[..at]);
                        d_sides[place + 1] = sum(&slopes[at + 1..]);
                    }
                }
            }
        });
    }

    /// Leaves the weights of the keys of a query, divided by their sum, and how the loss changes with the scores.
    fn slopes<T: Real>(
        &self,
        start: usize,
        query: Query,
        [q, k, v]: [&[T]; 3],
        sides: Option<&[T]>,
        dy: &[T],
        keys: &mut KeyScratch<'_, T>,
    ) {
        let total = self.weigh(start, query, [q, k], sides, keys);
        let dy = &dy[self.channels(start + query.at, query.head)];
        let mut mean = T::ZERO;
        for key in 0..keys.p.len() {
            let slope = vectorised!(lane_dot(dy, &v[self.channels(start + key, query.head)]));
            keys.slopes[key] = slope;
            mean += slope * (keys.weights[key] / total);
        }
        // A sum at its bound does not move.
        if total <= T::from_f64(LEAST) {
            mean = T::ZERO;
        }
        // What the loss gains by the keys further away than one.
        let mut behind = T::ZERO;
        for key in by_distance(query.at, keys.p.len()).rev() {
            let gain = keys.weights[key] * ((keys.slopes[key] - mean) / total);
            keys.slopes[key] = gain * keys.open[key] - keys.p[key] * behind;
            behind += gain;
        }
        keys.slopes[query.at] = T::ZERO;
        keys.weights.iter_mut().for_each(|weight| *weight = *weight / total);
    }
}
