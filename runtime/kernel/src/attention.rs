//! Multi-head attention over packed rows: forward, and backward with the probabilities recomputed.
//!
//! Every (row, head) is done by itself, block by block (`dense`), or key by key where queries see few (`sparse`). Where heads
//! share keys and values, gradients add up in the order of the heads.
//!
//! Source: Vaswani et al. 2017, Section 3.2, arXiv:1706.03762; recomputed probabilities: Dao et al. 2022, arXiv:2205.14135; shared
//! keys and values: Ainslie et al. 2023, arXiv:2305.13245; capped scores: Gemma Team 2024 (Gemma 2), arXiv:2408.00118.

pub mod cache;
mod dense;
mod relative;
mod sparse;
pub mod steps;
pub mod talking;

use std::ops::Range;

use super::Real;
use super::parallel::{DisjointSlice, LANES, each, vectorised};
use super::pointwise::tanh_of;
use super::tile::{LeftOperand, RightOperand, product};
pub use relative::Relative;
use rtc_base::rng::Key;

/// Where a row of a dense mask stands.
#[derive(Clone, Copy, Debug)]
pub struct MaskRow {
    /// The row of the batch.
    pub row: usize,
    /// The head.
    pub head: usize,
    /// The query's position in the row.
    pub query: usize,
    /// Number of queries of the row.
    pub queries: usize,
    /// The key that the first flag or number stands for.
    pub first: usize,
}

/// Which keys a query sees.
#[derive(Clone, Copy)]
pub enum MaskKind<'a> {
    /// All of its row.
    All,
    /// Those up to its own position.
    Causal,
    /// Those that the rule leaves true: it gets one flag per key of the row, all true. Where none is left, the output
    /// and all gradients of the query are 0.
    Dense(&'a (dyn Fn(MaskRow, &mut [bool]) + Sync)),
    /// As `Dense`, with the range that the keys of a query lie in: the rule is not asked for others, and what no query near
    /// it sees is not touched.
    Within {
        /// The range, and whether all of it is seen; else the rule is asked.
        reach: &'a (dyn Fn(MaskRow) -> (Range<usize>, bool) + Sync),
        /// The rule, for keys of the range.
        rule: &'a (dyn Fn(MaskRow, &mut [bool]) + Sync),
        /// Ranges that hold all keys of a query, where it is worth telling them: what lies between is not touched either.
        runs: Option<&'a KeyRuns<'a>>,
    },
    /// Those at some distances before it; keys before the first and behind the last distance are not touched.
    Offsets(Offsets<'a>),
}

/// Gives the ranges of keys of a query, which may overlap.
pub type KeyRuns<'a> = dyn Fn(MaskRow, &mut dyn FnMut(Range<usize>)) + Sync + 'a;

/// Distances `query - key`; negative ones look ahead.
#[derive(Clone, Copy, Debug)]
pub struct Offsets<'a> {
    /// Those that are seen, rising.
    pub list: &'a [isize],
    /// From the first to the last of them: whether it is seen.
    pub seen: &'a [bool],
    /// Whether to go key by key: worth it where there are few between the first and the last. The lengths of rows must not
    /// decide, as both ways round differently.
    pub few: bool,
}

impl Offsets<'_> {
    /// The smallest distance that is seen.
    fn first(&self) -> isize {
        self.list.first().copied().unwrap_or(0)
    }

    /// Whether all distances from the first to the last are seen.
    fn is_window(&self) -> bool {
        self.list.len() == self.seen.len()
    }

    /// The keys, of `nk`, that lie between the first and the last distance of some queries.
    fn reach(&self, queries: Range<usize>, nk: usize) -> Range<usize> {
        let (Some(first), Some(last)) = (self.list.first(), self.list.last()) else { return 0..0 };
        let inside = |key: isize| key.clamp(0, nk as isize) as usize;
        let start = inside(queries.start as isize - last);
        start..inside(queries.end as isize - first).max(start)
    }

    /// Whether a query sees a key.
    fn flag(&self, query: usize, key: usize) -> bool {
        let at = query as isize - key as isize - self.first();
        usize::try_from(at).ok().and_then(|at| self.seen.get(at)).is_some_and(|seen| *seen)
    }
}

/// Adds to some numbers what the scores of all keys of a query give, times a factor.
pub type SlopeRule<'a, T> = dyn Fn(MaskRow, T, &[T], &mut [T]) + Sync + 'a;

/// Takes a query, the scale, products of it and keys, and the gradients of their scores: these become those of the products, and those of what
/// the scores are made of are added to the last numbers.
pub type RescoreSlopes<'a, T> = dyn Fn(MaskRow, T, &[T], &mut [T], &mut [T]) + Sync + 'a;

/// What is added to the scaled scores, or made of them.
#[derive(Clone, Copy)]
pub enum ScoreBias<'a, T> {
    /// Nothing.
    None,
    /// A number per head and distance; the mask is one of [`MaskKind::Offsets`]. Gradients are those of these numbers.
    ByOffset {
        /// `[heads, distances]`, from the first distance on.
        values: &'a [T],
        /// The first distance.
        first: isize,
        /// Number of distances.
        span: usize,
    },
    /// A rule for every query and key; minus infinity hides a key.
    Dense {
        /// Adds the numbers of all keys of a query, times a factor, to their scores.
        rule: &'a (dyn Fn(MaskRow, T, &mut [T]) + Sync),
        /// Adds the gradients of what the numbers are made of, from those of the scores times a factor.
        grad: &'a SlopeRule<'a, T>,
        /// How many gradients that are.
        learned: usize,
    },
    /// A rule that makes the scores, where [`Attention::rescored`] says so; minus infinity hides a key.
    Rescored {
        /// Turns the products of a query and its keys, which it scales, into scores.
        rule: &'a (dyn Fn(MaskRow, T, &mut [T]) + Sync),
        /// The gradients.
        grad: &'a RescoreSlopes<'a, T>,
        /// How many numbers the scores are made of.
        learned: usize,
    },
}

impl<T: Real> ScoreBias<'_, T> {
    /// How many gradients one row and head has.
    pub fn gradients(&self) -> usize {
        match self {
            Self::None => 0,
            Self::ByOffset { span, .. } => *span,
            Self::Dense { learned, .. } | Self::Rescored { learned, .. } => *learned,
        }
    }

    /// Where the number of a distance stands among those of a head.
    fn index(&self, distance: isize) -> Option<usize> {
        match self {
            Self::ByOffset { first, span, .. } => usize::try_from(distance - first).ok().filter(|at| at < span),
            _ => None,
        }
    }

    /// Of the next `keys` keys, the range whose distances before a query have numbers, counted from `from`, and the range of these numbers,
    /// in which the last key comes first.
    fn along(&self, query: usize, from: usize, keys: usize) -> (Range<usize>, Range<usize>) {
        let Self::ByOffset { first, span, .. } = self else { return (0..0, 0..0) };
        // The place of key 0 of them.
        let top = query as isize - from as isize - first;
        let start = (top + 1 - *span as isize).max(0);
        let end = (top + 1).min(keys as isize);
        if start >= end {
            return (0..0, 0..0);
        }
        (start as usize..end as usize, (top + 1 - end) as usize..(top + 1 - start) as usize)
    }

    /// The number at a distance; 0 where there is none.
    fn at(&self, head: usize, distance: isize) -> T {
        match self {
            Self::ByOffset { values, span, .. } => self.index(distance).map_or(T::ZERO, |at| values[head * span + at]),
            _ => T::ZERO,
        }
    }
}

/// What the scores are besides the products of queries and keys.
#[derive(Clone, Copy)]
pub struct Scores<'a, T> {
    /// What is added to them.
    pub bias: ScoreBias<'a, T>,
    /// Positions relative to one another.
    pub relative: Option<Relative<'a, T>>,
}

impl<T: Real> Scores<'_, T> {
    /// Products of queries and keys alone.
    pub const PLAIN: Self = Self { bias: ScoreBias::None, relative: None };

    /// How many gradients one row and head has: those of the bias, then those of the relative positions.
    pub fn gradients(&self, head_width: usize) -> usize {
        self.bias.gradients() + self.relative.map_or(0, |r| r.gradients(head_width))
    }
}

/// Dropout on the attention probabilities: query `i` of head `h` draws from `row_keys[row].at(h).at(i)`, key by key.
#[derive(Clone, Copy, Debug)]
pub struct ProbabilityDropout<'a> {
    /// The probability of dropping.
    pub p: f64,
    /// One key per row.
    pub row_keys: &'a [Key],
}

/// Says for the keys of a query whether something holds, one flag per key from the first one of the place on.
pub type KeyRule<'a> = dyn Fn(MaskRow, &mut [bool]) + Sync + 'a;

/// Gradients of keys and values by themselves, from the pairs of query and key for which a rule holds; for masks that are not
/// [`MaskKind::Offsets`].
pub struct SeparateGradients<'a, T> {
    /// The pairs.
    pub rule: &'a KeyRule<'a>,
    /// Gradients of keys, and of values, which are overwritten.
    pub grads: [&'a mut [T]; 2],
}

/// What an attention computes: `softmax(scale q k^T) v` per row and head, or `softmax(c tanh(scale q k^T / c)) v`.
#[derive(Clone, Copy)]
pub struct Attention<'a> {
    /// Number of heads.
    pub heads: usize,
    /// Number of heads of keys and values, which divides `heads`: neighbouring heads share one.
    pub key_heads: usize,
    /// Channels of a head of queries and keys.
    pub head_width: usize,
    /// Channels of a head of values.
    pub value_width: usize,
    /// Factor on the scores; positive.
    pub scale: f64,
    /// What scores stay below, if anything: `c`; positive.
    pub softcap: Option<f64>,
    /// Whether a rule makes the scores of the scaled products, [`ScoreBias::Rescored`]; then there is no `softcap`.
    pub rescored: bool,
    /// Which keys a query sees.
    pub mask: MaskKind<'a>,
    /// Dropout on the probabilities.
    pub dropout: Option<ProbabilityDropout<'a>>,
}

impl<'a> Attention<'a> {
    /// Heads with keys of their own, values as wide as these and the usual scale, without dropout.
    pub fn new(heads: usize, head_width: usize, mask: MaskKind<'a>) -> Self {
        Self {
            heads,
            key_heads: heads,
            head_width,
            value_width: head_width,
            scale: 1.0 / (head_width as f64).sqrt(),
            softcap: None,
            rescored: false,
            mask,
            dropout: None,
        }
    }
}

/// How scores are capped: `c tanh(scale s / c)` for a product `s`.
#[derive(Clone, Copy)]
struct Cap<T> {
    most: T,
    scale: T,
    part: T,
}

impl<T: Real> Cap<T> {
    fn of(spec: &Attention<'_>) -> Option<Self> {
        let most = spec.softcap?;
        Some(Self { most: T::from_f64(most), scale: T::from_f64(spec.scale), part: T::from_f64(spec.scale / most) })
    }

    /// Turns products into scores, and leaves their derivatives in `slopes`, which may be empty.
    #[inline(never)]
    fn apply(self, scores: &mut [T], slopes: &mut [T]) {
        vectorised!({
            if slopes.is_empty() {
                for score in scores {
                    *score = self.score(*score).0;
                }
                return;
            }
            for (score, slope) in scores.iter_mut().zip(slopes) {
                (*score, *slope) = self.score(*score);
            }
        });
    }

    /// The score of a product, and its derivative.
    #[inline(always)]
    fn score(self, product: T) -> (T, T) {
        let t = tanh_of(self.part * product);
        (self.most * t, self.scale * (T::ONE - t * t))
    }
}

/// `out[tq, heads f] = softmax(scale q k^T) v` with `q[tq, heads e]`, `k[tk, key_heads e]` and `v[tk, key_heads f]`, row by row.
pub fn attention<T: Real>(
    spec: &Attention,
    q: &[T],
    k: &[T],
    v: &[T],
    q_offsets: &[usize],
    k_offsets: &[usize],
    out: &mut [T],
) {
    attention_with(spec, &Scores::PLAIN, [q, k, v], q_offsets, k_offsets, out);
}

/// As [`attention`], with more in the scores: `softmax(scale (q k^T + relative) + bias) v`; a cap comes before the bias.
pub fn attention_with<T: Real>(
    spec: &Attention,
    scores: &Scores<'_, T>,
    [q, k, v]: [&[T]; 3],
    q_offsets: &[usize],
    k_offsets: &[usize],
    out: &mut [T],
) {
    let shape = AttentionSizes::new(spec, q, k, v, q_offsets, k_offsets);
    debug_assert_eq!(out.len() * spec.head_width, q.len() * spec.value_width);
    let out = DisjointSlice::new(out);
    shape.each_head(1, 2, |place, extent| {
        // SAFETY: the (row, head) pairs own disjoint strided parts of `out`, all inside it.
        unsafe {
            match shape.sparse() {
                Some(offsets) => sparse::forward(&shape, scores, offsets, place, extent, 0, [q, k, v], &out),
                None => dense::forward(&shape, scores, place, extent, [q, k, v], &out),
            }
        }
    });
}

/// Gradients of [`attention`] for the upstream gradient `dout`; overwrites `dq`, `dk` and `dv`.
pub fn attention_grad<T: Real>(
    spec: &Attention,
    q: &[T],
    k: &[T],
    v: &[T],
    dout: &[T],
    q_offsets: &[usize],
    k_offsets: &[usize],
    dq: &mut [T],
    dk: &mut [T],
    dv: &mut [T],
) {
    let grads = [dq, dk, dv];
    attention_grad_with(spec, &Scores::PLAIN, [q, k, v, dout], q_offsets, k_offsets, grads, None, &mut []);
}

/// As [`attention_grad`], for [`attention_with`]. The gradients of what is added to the scores of every row and head, `[rows, heads, gradients]`,
/// overwrite `partial`: their sum is the caller's. What `apart` takes of the gradients of keys and values is not in `dk` and `dv`.
pub fn attention_grad_with<T: Real>(
    spec: &Attention,
    scores: &Scores<'_, T>,
    [q, k, v, dout]: [&[T]; 4],
    q_offsets: &[usize],
    k_offsets: &[usize],
    [dq, dk, dv]: [&mut [T]; 3],
    apart: Option<SeparateGradients<'_, T>>,
    partial: &mut [T],
) {
    let shape = AttentionSizes::new(spec, q, k, v, q_offsets, k_offsets);
    let width = scores.gradients(spec.head_width);
    debug_assert_eq!(partial.len(), (q_offsets.len() - 1) * spec.heads * width);
    partial.fill(T::ZERO);
    let partial = DisjointSlice::new(partial);
    debug_assert!(dq.len() == q.len() && dk.len() == k.len() && dv.len() == v.len());
    let grads = [DisjointSlice::new(dq), DisjointSlice::new(dk), DisjointSlice::new(dv)];
    let apart = apart.map(|SeparateGradients { rule, grads: [dk, dv] }| {
        debug_assert!(dk.len() == k.len() && dv.len() == v.len() && shape.sparse().is_none());
        (rule, [DisjointSlice::new(dk), DisjointSlice::new(dv)])
    });
    shape.each_head(shape.sharing, 5, |first, extent| {
        for head in first.head..first.head + shape.sharing {
            let place = RowHead { head, ..first };
            let at = (place.row * spec.heads + head) * width;
            // SAFETY: every row and head has a range of its own.
            let slopes = unsafe { partial.part(at..at + width) };
            let inputs = [q, k, v, dout];
            // SAFETY: the heads that share keys are one task, so tasks own disjoint strided parts of the gradients, all inside them.
            unsafe {
                match shape.sparse() {
                    Some(offsets) => sparse::backward(&shape, scores, offsets, place, extent, inputs, &grads, slopes),
                    None => dense::backward(&shape, scores, place, extent, inputs, &grads, apart.as_ref(), slopes),
                }
            }
        }
    });
}

/// The sizes shared by all tasks of one call.
struct AttentionSizes<'a> {
    spec: &'a Attention<'a>,
    q_offsets: &'a [usize],
    k_offsets: &'a [usize],
    /// Queries and keys.
    keys: HeadChannels,
    /// Values and results.
    values: HeadChannels,
    /// Heads that share a key head.
    sharing: usize,
    /// Factor on what the softmax takes: the scale, unless scores have it already because they are capped or made by a rule.
    scale: f64,
}

/// The channels of a head.
#[derive(Clone, Copy)]
struct HeadChannels {
    width: usize,
    /// The same, filled up to whole vectors.
    padded: usize,
    /// Elements from one query to the next: all heads.
    query_stride: usize,
    /// Elements from one key to the next: all key heads.
    key_stride: usize,
}

impl HeadChannels {
    fn new(spec: &Attention<'_>, width: usize) -> Self {
        let [query_stride, key_stride] = [spec.heads, spec.key_heads].map(|heads| heads * width);
        Self { width, padded: width.next_multiple_of(LANES), query_stride, key_stride }
    }
}

/// Where a head of positions lies: the element of the first one, and how far they are apart.
#[derive(Clone, Copy)]
struct HeadPlaces {
    start: usize,
    stride: usize,
    channels: HeadChannels,
}

impl HeadPlaces {
    /// The same from a position on.
    fn from(self, first: usize) -> Self {
        Self { start: self.start + first * self.stride, ..self }
    }

    /// The elements at a position.
    fn at(&self, position: usize) -> Range<usize> {
        let start = self.start + position * self.stride;
        start..start + self.channels.width
    }
}

/// One task: a row and a head.
#[derive(Clone, Copy)]
struct RowHead {
    row: usize,
    head: usize,
}

impl RowHead {
    /// Queries and keys of the row; nothing where there are neither.
    fn extent(self, shape: &AttentionSizes) -> Option<(usize, usize)> {
        let length = |offsets: &[usize]| offsets[self.row + 1] - offsets[self.row];
        let (nq, nk) = (length(shape.q_offsets), length(shape.k_offsets));
        (nq > 0 || nk > 0).then_some((nq, nk))
    }
}

impl<'a> AttentionSizes<'a> {
    fn new<T>(
        spec: &'a Attention<'a>,
        q: &[T],
        k: &[T],
        v: &[T],
        q_offsets: &'a [usize],
        k_offsets: &'a [usize],
    ) -> Self {
        let shape = Self::of(spec, q_offsets, k_offsets);
        debug_assert_eq!(q_offsets.len(), k_offsets.len());
        let is_whole = |offsets: &[usize], stride, x: &[T]| offsets.last().is_some_and(|&end| end * stride == x.len());
        debug_assert!(is_whole(q_offsets, shape.keys.query_stride, q) && is_whole(k_offsets, shape.keys.key_stride, k));
        debug_assert!(is_whole(k_offsets, shape.values.key_stride, v));
        debug_assert!(spec.dropout.is_none_or(|dropout| dropout.row_keys.len() + 1 == q_offsets.len()));
        shape
    }

    fn of(spec: &'a Attention<'a>, q_offsets: &'a [usize], k_offsets: &'a [usize]) -> Self {
        let sharing = spec.heads / spec.key_heads;
        let scale = if spec.softcap.is_some() || spec.rescored { 1.0 } else { spec.scale };
        let [keys, values] = [spec.head_width, spec.value_width].map(|width| HeadChannels::new(spec, width));
        Self { spec, q_offsets, k_offsets, keys, values, sharing, scale }
    }

    /// Runs `task` for every row that has queries or keys, and the first of every `together` heads; `products` products of scores'
    /// size are the cost of a head.
    fn each_head(&self, together: usize, products: usize, task: impl Fn(RowHead, (usize, usize)) + Sync + Send) {
        let rows = self.q_offsets.len() - 1;
        let (heads, tasks) = (self.spec.heads, self.spec.heads / together);
        let pairs: usize =
            self.q_offsets.windows(2).zip(self.k_offsets.windows(2)).map(|(q, k)| (q[1] - q[0]) * (k[1] - k[0])).sum();
        let work = pairs * heads * (products * self.padded() / 4 + 4);
        each(rows * tasks, work, |i| {
            let place = RowHead { row: i / tasks, head: i % tasks * together };
            if let Some(extent) = place.extent(self) {
                task(place, extent);
            }
        });
    }

    /// The distances at which queries see keys, where they are gone through key by key.
    fn sparse(&self) -> Option<&Offsets<'a>> {
        match &self.spec.mask {
            MaskKind::Offsets(offsets) if offsets.few => Some(offsets),
            _ => None,
        }
    }

    /// Channels that a product goes through in the mean.
    fn padded(&self) -> usize {
        self.keys.padded.midpoint(self.values.padded)
    }

    /// Where the queries of a head lie.
    fn query_places(&self, place: RowHead) -> HeadPlaces {
        self.of_queries(place, self.keys)
    }

    /// Where the results of a head lie.
    fn output_places(&self, place: RowHead) -> HeadPlaces {
        self.of_queries(place, self.values)
    }

    /// Where the keys of a head lie.
    fn key_places(&self, place: RowHead) -> HeadPlaces {
        self.of_keys(place, self.keys)
    }

    /// Where the values of a head lie.
    fn value_places(&self, place: RowHead) -> HeadPlaces {
        self.of_keys(place, self.values)
    }

    fn of_queries(&self, place: RowHead, channels: HeadChannels) -> HeadPlaces {
        let (start, stride) = (self.q_offsets[place.row], channels.query_stride);
        HeadPlaces { start: start * stride + place.head * channels.width, stride, channels }
    }

    fn of_keys(&self, place: RowHead, channels: HeadChannels) -> HeadPlaces {
        let (start, stride) = (self.k_offsets[place.row], channels.key_stride);
        HeadPlaces { start: start * stride + self.key_head(place) * channels.width, stride, channels }
    }

    /// The key head that the head reads.
    fn key_head(&self, place: RowHead) -> usize {
        place.head / self.sharing
    }

    /// Whether no head before this one has the same keys.
    fn is_first_of_key_head(&self, place: RowHead) -> bool {
        place.head.is_multiple_of(self.sharing)
    }
}
