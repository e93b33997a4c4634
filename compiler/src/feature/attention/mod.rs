//! Multi-head attention; the variants differ in their keys.

mod bias;
mod chunk;
mod input;
mod memory;
mod this;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::{self, Attrs, Mask, Relative};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LinearInit, Lower, Place, need};
use crate::schema::{DROPOUT, Default, Derived, Field, FieldKind, SIZE, Text, float, int, of_kind, optional_word};
use crate::spec::Block;
use bias::{BIAS, BIAS_INIT};

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    Slot::new(
        "attend",
        "Multi-head attention with a residual connection, pre-norm by default; the variant says what the keys are.",
        vec![this::this(), memory::memory(), chunk::chunk(), input::input()],
    )
}

const HEADS: Field = int("heads", Default::Required, SIZE, "number of heads");
const HEAD_WIDTH: Field = int(
    "head_width",
    Default::Derived(Derived::WidthPerHead),
    SIZE,
    "channels of each head's queries, keys and values",
);
const MASK: Field = mask_field(Default::Derived(Derived::Sees("past", "all")));
/// The mask between tokens and slots, which have no order in common.
const SLOT_MASK: Field = mask_field(Default::Word(Text::Borrowed("all")));

const fn mask_field(default: Default) -> Field {
    of_kind("mask", FieldKind::Mask, default, "which keys `j` a query `i` may see; `past` is `j <= i`")
}
const ATTENTION_DROPOUT: Field =
    float("dropout", Default::Derived(Derived::ModelAttentionDropout), DROPOUT, "dropout on the attention weights");

/// Absent in all specs that do not write it: projections without biases.
const PROJECTION_BIAS: Field = optional_word(
    "projection_bias",
    &["none", "inputs", "all"],
    "which linear maps have a learned bias, from 0 on: `inputs` those of queries, keys and values, `all` that of the output too, \
     as GPT-2 has it; `none` if left out",
);

/// The statement must stand inside another one.
fn needs_around(site: &Site<'_>, slot: &str, variant: &str, why: &str, problems: &mut Problems) {
    if !site.inside(slot, variant) {
        let title = site.block.title();
        let around = if variant.is_empty() { slot.to_owned() } else { format!("{slot} {variant}") };
        problems.report(
            Diagnostic::new(
                Kind::MisplacedStatement,
                site.block.span,
                format!("`{title}` can only stand inside `{around}`"),
            )
            .label(why),
        );
    }
}

/// Queries, keys and values of all heads, before the scores.
struct Projected {
    queries: Value,
    keys: Value,
    values: Value,
    heads: usize,
}

/// How a projection starts: the bias of `inputs` is there with that of the output, and alone.
fn projection(block: &Block, gain: f64, biased: &[&str]) -> LinearInit {
    match block.word("projection_bias") {
        Some(word) if biased.contains(&word) => LinearInit::BiasedProjection(gain),
        _ => LinearInit::Projection(gain),
    }
}

/// `q = x W_q, k = y W_k, v = y W_v`, from normed queries x and sources y.
fn project(l: &mut Lower<'_>, block: &Block, x: Value, y: Value) -> Result<Projected, InvalidNode> {
    let heads = need(block.int("heads"), block, "heads")?;
    let width = Dim::Fixed(heads * need(block.int("head_width"), block, "head_width")?);
    let init = projection(block, std::f64::consts::FRAC_1_SQRT_2, &["inputs", "all"]);
    let queries = l.linear(x, "query", width.clone(), &init)?;
    let keys = l.linear(y, "key", width.clone(), &init)?;
    let values = l.linear(y, "value", width, &init)?;
    Ok(Projected { queries, keys, values, heads })
}

/// Adds the mask of a block.
fn mask(attrs: Attrs, block: &Block) -> Result<Attrs, InvalidNode> {
    Ok(match (block.expr("mask"), need(block.word("mask"), block, "mask")) {
        (Some(expr), _) => attrs.with(attribute::MASK, Mask::Rule(&Attr::from(expr))),
        (None, word) => attrs.with(attribute::MASK, if word? == "past" { Mask::Causal } else { Mask::All }),
    })
}

/// `h + drop(softmax(q k^T / sqrt(head width), masked) v W_o)`; `relative` are the operands of relative positions.
fn attention(
    l: &mut Lower<'_>,
    block: &Block,
    place: &Place,
    p: Projected,
    relative: Option<[Value; 3]>,
) -> Result<Value, InvalidNode> {
    let mut attrs = mask(Attrs::of(attribute::HEADS, p.heads), block)?;
    let dropout = need(block.float("dropout"), block, "dropout")?;
    if dropout > 0.0 {
        attrs = attrs.with(attribute::DROPOUT, dropout).with(attribute::STREAM, l.stream());
    }
    let mut operands = vec![p.queries, p.keys, p.values];
    let counts = |field| block.expr(field).is_some();
    operands.extend(place.step.filter(|_| counts("mask") || counts("bias")));
    operands.extend(bias::parameters(l, block, p.heads, &mut attrs)?);
    if let Some(relative) = relative {
        attrs.set(attribute::POSITION, Relative::RelativeXl);
        operands.extend(relative);
    }
    let mixed = l.one(Op::Attention, &operands, attrs)?;
    let width = Dim::Fixed(l.width);
    let out = l.linear(mixed, "output", width, &projection(block, 1.0, &["all"]))?;
    let out = l.dropout(out, l.residual_dropout)?;
    l.map(Pointwise::Add, &[place.state, out])
}

/// `h + drop(MHA(LN h, LN' s))`: attention to something else than the row has a norm of its own for it, and no positions.
fn across(l: &mut Lower<'_>, block: &Block, place: &Place, source: Option<Value>) -> Result<Value, InvalidNode> {
    let source = source.ok_or_else(|| InvalidNode(format!("`{}` has nothing to attend to here", block.title())))?;
    let x = l.norm(place.state, "norm")?;
    let y = l.norm(source, "source_norm")?;
    let p = project(l, block, x, y)?;
    attention(l, block, place, p, None)
}
