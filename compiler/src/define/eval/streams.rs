//! Streams of states side by side: an axis between the positions and the channels.

use super::Eval;
use crate::define::item::{ArrayAxis, EquationArray};
use crate::ir::attribute::{self, Attrs, Side};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::Dim;
use crate::lower::Lower;
use crate::source::Span;

/// The axes but the channels that some arrays have together: positions or slots, then streams. Nothing where they don't fit each other.
pub(super) fn units(arrays: &[EquationArray]) -> Option<Vec<ArrayAxis>> {
    let (mut places, mut streams) = (None, None);
    for axis in arrays.iter().flat_map(EquationArray::units) {
        let known = if matches!(axis, ArrayAxis::Streams(_)) { &mut streams } else { &mut places };
        if *known.get_or_insert(axis) != axis {
            return None;
        }
    }
    Some(places.into_iter().chain(streams).cloned().collect())
}

impl Eval<'_, '_> {
    /// The arrays, with the first of two sizes of weights as streams, where one of them has some.
    pub(super) fn learned_by_stream(&mut self, arrays: Vec<EquationArray>) -> Vec<EquationArray> {
        if !arrays.iter().any(|array| array.streams().is_some()) {
            return arrays;
        }
        arrays.into_iter().map(|array| self.as_streams(array)).collect()
    }

    /// Weights whose first size counts streams; anything else as it is.
    pub(crate) fn as_streams(&mut self, mut array: EquationArray) -> EquationArray {
        let count = self.l.graph().ty(array.value).dims().first().and_then(Dim::fixed);
        if let (false, Some(ArrayAxis::Slots), Some(count)) = (array.rows, array.axes.first(), count) {
            array.axes[0] = ArrayAxis::Streams(count);
        }
        array
    }

    /// An array that is the same in every stream.
    pub(crate) fn repeated(&mut self, x: EquationArray, count: usize, span: Span) -> Option<EquationArray> {
        let channels = x.channels().cloned();
        let value = self.node(span, |l| match channels {
            Some(_) => {
                let all = copies(l, x.value, count)?;
                l.one(Op::Split, &[all], Attrs::of(attribute::PARTS, count))
            }
            None => {
                let one = l.one(Op::Unsqueeze, &[x.value], Attrs::new())?;
                l.one(Op::BroadcastChannels, &[one], Attrs::of(attribute::WIDTH, count))
            }
        })?;
        let streams = x.units().iter().cloned().chain([ArrayAxis::Streams(count)]);
        let axes = streams.chain(channels.map(ArrayAxis::Channels)).collect();
        Some(EquationArray { value, axes, ..x })
    }

    /// Two factors, the numbers of streams over all axes that the vectors of streams have; or their product, where numbers of streams
    /// make streams of one vector.
    pub(super) fn by_stream(
        &mut self,
        a: EquationArray,
        b: EquationArray,
        span: Span,
    ) -> Option<(EquationArray, Option<EquationArray>)> {
        let mut both = self.learned_by_stream(vec![a, b]);
        let (b, a) = (both.pop()?, both.pop()?);
        let numbers = |x: &EquationArray| x.streams().is_some() && x.channels().is_none();
        let swapped = numbers(&a);
        let (s, x) = if swapped { (a, b) } else { (b, a) };
        let Some(axes) =
            units(&[s.clone(), x.clone()]).filter(|_| numbers(&s) && matches!(x.channels(), Some(Dim::Fixed(_))))
        else {
            return Some(if swapped { (s, Some(x)) } else { (x, Some(s)) });
        };
        let (rows, like) = (s.rows || x.rows, [s.clone(), x.clone()]);
        let s = self.spread(s, &axes, None, rows, &like, span)?;
        if x.streams().is_none() {
            let places = axes[..axes.len() - 1].to_vec();
            let x = self.spread(x, &places, None, rows, &like, span)?;
            let value = self.node(span, |l| {
                let numbers = l.one(Op::Unsqueeze, &[s.value], Attrs::new())?;
                let vector = l.one(Op::Split, &[x.value], Attrs::of(attribute::PARTS, 1))?;
                l.one(Op::Matmul, &[numbers, vector], Attrs::new())
            })?;
            let axes = axes.into_iter().chain(x.channels().cloned().map(ArrayAxis::Channels)).collect();
            return Some((EquationArray { value, axes, labels: s.labels || x.labels, ..x }, None));
        }
        let x = self.spread(x, &axes, None, rows, &like, span)?;
        Some((x, Some(s)))
    }

    /// The sum over the streams of an array with channels, each times its number, where there are numbers.
    pub(crate) fn sum_of_streams(
        &mut self,
        x: &EquationArray,
        numbers: Option<&EquationArray>,
        span: Span,
    ) -> Option<EquationArray> {
        let value = self.node(span, |l| {
            let numbers = match numbers {
                Some(numbers) => numbers.value,
                None => l.full(x.value, 1.0, x.rank() - 1)?,
            };
            let numbers = l.one(Op::Unsqueeze, &[numbers], Attrs::new())?;
            let one = l.one(Op::Matmul, &[numbers, x.value], Attrs::of(attribute::TRANSPOSED, Side::Left))?;
            l.one(Op::Merge, &[one], Attrs::new())
        })?;
        let axes = x.places().iter().cloned().chain(x.channels().cloned().map(ArrayAxis::Channels)).collect();
        Some(EquationArray { value, axes, ..x.clone() })
    }

    /// Two arrays over the same positions, slots and rows.
    pub(crate) fn side_by_side(
        &mut self,
        a: EquationArray,
        b: EquationArray,
        span: Span,
    ) -> Option<(EquationArray, EquationArray)> {
        let mut both = self.learned_by_stream(vec![a, b]);
        let (b, a) = (both.pop()?, both.pop()?);
        let (rows, like) = (a.rows || b.rows, [a.clone(), b.clone()]);
        self.of_one_sequence(&like, span)?;
        let longer = if a.places().is_empty() { b.places() } else { a.places() };
        if [&a, &b].iter().any(|x| !x.places().is_empty() && x.places() != longer) {
            return self.differ(&like, span);
        }
        let longer = longer.to_vec();
        let over = |x: &EquationArray| {
            longer
                .iter()
                .chain(&x.axes[x.places().len()..])
                .filter(|axis| !matches!(axis, ArrayAxis::Channels(_)))
                .cloned()
                .collect::<Vec<_>>()
        };
        let (over_a, over_b) = (over(&a), over(&b));
        Some((self.spread(a, &over_a, None, rows, &like, span)?, self.spread(b, &over_b, None, rows, &like, span)?))
    }
}

/// The channels of a value so many times, side by side.
fn copies(l: &mut Lower<'_>, x: Value, count: usize) -> Result<Value, InvalidNode> {
    match count {
        0 | 1 => Ok(x),
        _ => {
            let half = copies(l, x, count / 2)?;
            let most = l.one(Op::Concat, &[half, half], Attrs::new())?;
            if count.is_multiple_of(2) { Ok(most) } else { l.one(Op::Concat, &[most, x], Attrs::new()) }
        }
    }
}
