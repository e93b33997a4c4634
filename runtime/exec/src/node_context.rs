//! A node that is computed, as an arm of the dispatch sees it: attributes, sizes, axes, units.

use rtc_compiler::ir::attribute::{self, AttributeKey, AttributeKind};
use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::ir::shape;
use rtc_compiler::ir::types::{Dim, Type};
use rtc_compiler::plan::{Plan, Step};

use crate::rows::{Axis, BatchView};
use crate::storage::Shared;
use rtc_kernel::unit;

/// What a node needs while it runs.
#[derive(Clone, Copy)]
pub struct NodeContext<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub node: &'a Node,
    pub view: &'a BatchView,
}

impl<'a> NodeContext<'a> {
    pub fn ty(&self, value: Value) -> &'a Type {
        self.plan.graph.ty(value)
    }

    pub fn operand(&self, n: usize) -> Value {
        self.node.operands[n]
    }

    pub fn get<K: AttributeKind>(&self, key: AttributeKey<K>) -> K::Of<'a> {
        self.node.get(key)
    }

    /// Size of the last axis of an operand.
    pub fn last(&self, n: usize) -> usize {
        self.ty(self.operand(n)).dims().last().and_then(Dim::fixed).unwrap_or(1)
    }

    /// Size of all axes of an operand but the first one.
    pub fn width(&self, n: usize) -> usize {
        self.ty(self.operand(n)).dims()[1..].iter().filter_map(Dim::fixed).product()
    }

    /// Size of all axes of an operand behind the second one: how many numbers a position or a slot has.
    pub fn inner(&self, n: usize) -> usize {
        self.ty(self.operand(n)).dims().iter().skip(2).filter_map(Dim::fixed).product()
    }

    /// Whether operand `n` has one logit for every label, which the operand behind it has.
    pub fn is_binary(&self, n: usize) -> bool {
        shape::single_logits(self.ty(self.operand(n)), self.ty(self.operand(n + 1)))
    }

    /// The sizes of a product of matrices: rows, what the sums go over, columns.
    pub fn matrices(&self) -> [usize; 3] {
        let [a, b] = [0, 1].map(|n| self.ty(self.operand(n)));
        shape::matrices(a, b, self.node.find(attribute::TRANSPOSED)).expect("the shape rule has compared the sizes")
    }

    /// The second axis of a batched value, ragged or fixed, as offsets.
    pub fn axis(&self, n: usize) -> Shared<Axis> {
        let even = |size| {
            let arena = self.view.arena();
            arena.share(Axis::of_lengths(std::iter::repeat_n(size, self.view.rows()), arena))
        };
        match self.ty(self.operand(n)).dims().get(1) {
            Some(Dim::Sym(axis)) => self.view.axis(axis).clone(),
            Some(Dim::Fixed(size)) => even(*size),
            None => even(1),
        }
    }

    /// How the elements of operand `x` group into the units of operand `units`: a unit is a row or a position.
    pub(crate) fn groups(&self, x: usize, units: &Type) -> UnitElements {
        let (whole, unit) = (self.ty(self.operand(x)).dims(), units.dims());
        let width = |dims: &[Dim]| dims.iter().filter_map(Dim::fixed).product::<usize>();
        match whole.get(unit.len()) {
            Some(Dim::Sym(axis)) if unit.len() == 1 => {
                UnitElements::Rows(self.view.axis(axis).clone(), width(&whole[unit.len() + 1..]))
            }
            _ => UnitElements::Even(width(&whole[unit.len()..])),
        }
    }
}

/// Elements per unit.
pub(crate) enum UnitElements {
    Even(usize),
    Rows(Shared<Axis>, usize),
}

impl UnitElements {
    pub(crate) fn view(&self) -> unit::Groups<'_> {
        match self {
            Self::Even(width) => unit::Groups::Uniform(*width),
            Self::Rows(axis, width) => unit::Groups::Offsets(&axis.offsets, *width),
        }
    }
}
