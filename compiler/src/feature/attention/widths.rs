//! Values of another width than queries and keys: the op takes heads of one width, so zeros fill up what is narrower.
//!
//! Zeros add nothing to a product of query and key, and the channels that they give are cut off.

use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::lower::Lower;

/// How many channels a head has.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeadWidths {
    keys: usize,
    values: usize,
}

impl HeadWidths {
    /// The widths of queries, keys and values.
    pub(super) fn of(l: &Lower<'_>, operands: &[Value], heads: usize, key_heads: usize) -> Result<Self, InvalidNode> {
        let width = |x: Value| l.last(x).map(|dim| dim.fixed().unwrap_or(0));
        Ok(Self { keys: width(operands[0])? / heads, values: width(operands[2])? / key_heads })
    }

    fn widest(self) -> usize {
        self.keys.max(self.values)
    }

    /// The scale of products, where it does not follow from the operands of the op: that of the keys without the zeros.
    pub(super) fn scale(self) -> Option<f64> {
        (self.keys < self.values).then(|| 1.0 / (self.keys as f64).sqrt())
    }

    /// Every head of `x`, which has so many, filled up with zeros.
    pub(super) fn padded(self, l: &mut Lower<'_>, x: Value, heads: usize) -> Result<Value, InvalidNode> {
        let own = l.last(x)?.fixed().unwrap_or(0) / heads;
        if own == self.widest() {
            return Ok(x);
        }
        let attrs = Attrs::of(attribute::START, 0_usize).with(attribute::WIDTH, self.widest());
        by_head(l, x, heads, |l, x| l.one(Op::Pad, &[x], attrs))
    }

    /// The channels of values in every head of what attention gives.
    pub(super) fn cut(self, l: &mut Lower<'_>, y: Value, heads: usize) -> Result<Value, InvalidNode> {
        if self.values == self.widest() {
            return Ok(y);
        }
        by_head(l, y, heads, |l, y| l.channels(y, 0, self.values))
    }
}

fn by_head(
    l: &mut Lower<'_>,
    x: Value,
    heads: usize,
    change: impl FnOnce(&mut Lower<'_>, Value) -> Result<Value, InvalidNode>,
) -> Result<Value, InvalidNode> {
    if heads == 1 {
        return change(l, x);
    }
    let parts = l.one(Op::Split, &[x], Attrs::of(attribute::PARTS, heads))?;
    let changed = change(l, parts)?;
    l.one(Op::Merge, &[changed], Attrs::new())
}
