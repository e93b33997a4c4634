//! Continuous recursion: all neighbours are merged at once, weighted by merge probabilities, and merged positions lose existence.

use super::{hands_on_a_memory, joined, leaves, repeated};
use crate::define;
use crate::diag::Problems;
use crate::expr::{BinaryOp, Expr, Func, Var};
use crate::feature::{Feature, Lowering, Site, embed};
use crate::ir::attribute::{self, At, Attrs, Side, StepBound};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Elem, Type};
use crate::lower::{LayerInputs, Lower, group, need};
use crate::schema::{Children, LAYERS};
use crate::spec::Block;

/// The feature.
pub(super) fn continuous() -> Feature {
    Feature {
        children: const {
            &[Children::or_outermost(&["leaf"], "linear"), Children::any(LAYERS), Children::or(&["cell"], "grc")]
        },
        check,
        ..Feature::row(
            "recurse",
            "continuous",
            "Continuous recursion (CRvNN): every position has an existence, 1 at first. In every step a position is \
        merged into its right neighbour with a scored probability, and its existence falls by as much. \
        Neighbours are means over the nearest positions that still exist. A row ends when one element is left, \
        or after as many steps as it has elements; the result is its last element. Layers before the cell run on \
        the whole sequence first.",
            "Ray Chowdhury and Caragea 2021 (CRvNN), arXiv:2106.06038",
            Lowering::Reduce(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    super::check(site, problems);
    hands_on_a_memory(site, problems);
}

/// A recurrence over the row between START and END. Carried: the states h, and how far each position exists, e.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let framed = embed::framed(l, place.state)?;
    let elements = leaves(l, block, framed)?;
    let elements = group(l, block, &LayerInputs { state: elements, ..place.clone() })?;
    let all = l.full(elements, 1.0, 2)?;
    let attrs = Attrs::of(attribute::BOUND, StepBound::Rule(&most()));
    let counter = (Type::Tensor(Elem::Index, vec![]), "step");
    let out =
        repeated(l, (Op::Recur, attrs), &[(elements, "h"), (all, "e")], &[], &[counter], |l, carried, step_number| {
            let (h, e) = (carried[0], carried[1]);
            let unmerged = define::apply(l, "unmerged", block, &[e])?;
            let go = l.one(Op::HaltTest, &[unmerged, step_number[0]], Attrs::of(attribute::THRESHOLD, 0.5))?;
            let [h, e] = step(l, block, h, e)?;
            Ok(vec![h, e, go])
        })?;
    // The last position is END.
    l.one(Op::Position, &[out[0]], Attrs::of(attribute::AT, At::BeforeLast))
}

/// As many steps as the row has elements, none for a row of one: `min(n, 2 (n - 1))`. START and END make its axis longer by 2.
fn most() -> Attr {
    let binary = |op, a, b| Expr::Binary(op, Box::new(a), Box::new(b));
    let less = |n| binary(BinaryOp::Sub, Expr::Var(Var::Length), Expr::Int(n));
    let twice = binary(BinaryOp::Mul, Expr::Int(2), less(3));
    Attr::from(&Expr::Call(Func::Min, vec![less(2), twice]))
}

/// With `l` and `r` the left and right neighbours among the states, `ll` and `rr` theirs, and c the probability of going into
/// the right neighbour: `h + u (Cell(l, h) - h)`, where u is the c of the left neighbour, and `e (1 - c)`.
fn step(l: &mut Lower<'_>, block: &Block, h: Value, e: Value) -> Result<[Value; 2], InvalidNode> {
    let beside = |l: &mut Lower<'_>, x: Value, side: Side, hint: &str| {
        let found = l.one(Op::Neighbours, &[x, e], Attrs::of(attribute::SIDE, side));
        found.inspect(|value| l.graph().set_hint(*value, hint))
    };
    let left = beside(l, h, Side::Left, "left")?;
    let right = beside(l, h, Side::Right, "right")?;
    let window = [beside(l, left, Side::Left, "left_2")?, left, h, right, beside(l, right, Side::Right, "right_2")?];
    let scores = l.scoped("score", |l| define::apply(l, "window_score", block, &window))?;
    let c = l.scoped("merge", |l| define::apply(l, "merge_probability", block, &[scores, e]))?;
    l.graph().set_hint(c, "c");
    let u = beside(l, c, Side::Left, "u")?;
    let cell = need(block.child("cell"), block, "cell")?;
    let joined = joined(l, cell, left, h)?;
    let change = l.map(Pointwise::Sub, &[joined, h])?;
    let next = l.one(Op::AddScaled, &[h, change, u], Attrs::new())?;
    let gone = l.map(Pointwise::Mul, &[e, c])?;
    let rest = l.map(Pointwise::Sub, &[e, gone])?;
    Ok([next, rest])
}
