//! Multi-head attention; the variants differ in their keys.

mod bias;
mod chunk;
mod input;
mod memory;
mod talking;
mod this;

use super::{Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::{self, Attrs, Layout, Mask, Origin, PositionKind, Relative};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LinearInit, Lower, Place, need};
use crate::schema::{
    Bounds, DROPOUT, Default, Derived, Field, FieldKind, SIZE, Text, float, int, of_kind, optional_word, word,
};
use crate::spec::Block;
use bias::{BIAS, BIAS_INIT};
use talking::TALKING;

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

/// What the layer of today's language models adds; all of it is left out of specs that do not write it.
fn modern() -> Vec<Field> {
    let above = |high: f64| Bounds { low: 0.0, high, open_low: true, open_high: false };
    vec![
        Field {
            bounds: SIZE,
            ..of_kind(
                "key_heads",
                FieldKind::Int,
                Default::Absent,
                "heads of keys and values, each read by as many neighbouring heads of queries; as many as `heads` if left out",
            )
        },
        optional_word(
            "qk_norm",
            &["head", "full"],
            "RMS norm of queries and keys before their rotation: of every head, or of all channels together; none if left out",
        ),
        float("scale", Default::Absent, above(1e6), "factor on the scores; 1/sqrt(head_width) if left out"),
        float("softcap", Default::Absent, above(1e6), "a bound c of the scores, `c tanh(score / c)`; none if left out"),
    ]
}

/// How `rope` and `xpos` turn channels; left out of specs that do not write it.
fn rotation() -> Vec<Field> {
    let above = |high: f64| Bounds { low: 0.0, high, open_low: true, open_high: false };
    vec![
        optional_word(
            "layout",
            &["pairs", "half"],
            "which channels of a head are turned together: neighbours (the default), or those of its first and second half",
        ),
        float("base", Default::Absent, above(1e12), "what the angles fall with from pair to pair; 10,000 if left out"),
        int(
            "part",
            Default::Absent,
            SIZE,
            "how many channels of each head are turned, an even number; all if left out",
        ),
    ]
}

/// The fields of attention as a word of equations.
pub(crate) fn word_fields() -> Vec<Field> {
    let position = word("position", &["none", "xpos", "rope", "relative_xl"], "none", "as in `attend self`");
    [
        vec![HEADS, HEAD_WIDTH, position],
        rotation(),
        vec![MASK],
        modern(),
        vec![TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT],
    ]
    .concat()
}

/// The rules over several fields of attention, in words and where they are broken.
pub(crate) fn broken(block: &Block) -> Option<(&'static str, String)> {
    let heads = block.int("heads")?;
    let width = block.int("head_width")?;
    let turns = block.word("position").filter(|p| ["xpos", "rope"].contains(p));
    let part = block.int("part");
    match (block.int("key_heads"), turns, part) {
        (Some(n), ..) if n == 0 || heads % n != 0 => {
            Some(("key_heads", format!("{heads} heads can't share {n} heads of keys evenly")))
        }
        (_, Some(position), None) if width % 2 == 1 => {
            Some(("position", format!("`{position}` turns pairs of channels, but each head has {width}")))
        }
        (_, Some(_), Some(n)) if n % 2 == 1 || n > width => {
            Some(("part", format!("{n} of {width} channels can't be turned in pairs")))
        }
        (_, None, Some(_)) => Some(("part", "only `rope` and `xpos` turn channels".to_owned())),
        _ => None,
    }
}

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

/// Where attention stands: what its masks, biases and rotations may count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around {
    /// The step of the depth recurrence around.
    pub(crate) step: Option<Value>,
    /// True where positions count from the start of the row and not of the chunk.
    pub(crate) global_positions: bool,
}

impl Around {
    fn of(place: &Place) -> Self {
        Self { step: place.step, global_positions: place.global_positions }
    }
}

/// How a projection starts: the bias of `inputs` is there with that of the output, and alone.
fn projection(block: &Block, gain: f64, biased: &[&str]) -> LinearInit {
    match block.word("projection_bias") {
        Some(word) if biased.contains(&word) => LinearInit::BiasedProjection(gain),
        _ => LinearInit::Projection(gain),
    }
}

/// Adds the mask of a block.
fn mask(attrs: Attrs, block: &Block) -> Result<Attrs, InvalidNode> {
    Ok(match (block.expr("mask"), need(block.word("mask"), block, "mask")) {
        (Some(expr), _) => attrs.with(attribute::MASK, Mask::Rule(&Attr::from(expr))),
        (None, word) => attrs.with(attribute::MASK, if word? == "past" { Mask::Causal } else { Mask::All }),
    })
}

/// `softmax(q k^T / sqrt(head width), masked) v W_o` with `q = x W_q, k = y W_k, v = y W_v`, from queries x and keys y.
pub(crate) fn attended(
    l: &mut Lower<'_>,
    block: &Block,
    (x, y): (Value, Value),
    around: Around,
) -> Result<Value, InvalidNode> {
    let heads = need(block.int("heads"), block, "heads")?;
    let head_width = need(block.int("head_width"), block, "head_width")?;
    let key_heads = block.int("key_heads").unwrap_or(heads);
    let [wide, narrow] = [heads, key_heads].map(|heads| Dim::Fixed(heads * head_width));
    let init = projection(block, std::f64::consts::FRAC_1_SQRT_2, &["inputs", "all"]);
    let mut queries = l.linear(x, "query", wide, &init)?;
    let mut keys = l.linear(y, "key", narrow.clone(), &init)?;
    let values = l.linear(y, "value", narrow, &init)?;
    if let Some(by) = block.word("qk_norm") {
        queries = normed_by(l, queries, "q_norm", (by == "head").then_some(heads))?;
        keys = normed_by(l, keys, "k_norm", (by == "head").then_some(key_heads))?;
    }
    let kinds = match block.word("position") {
        Some("xpos") => Some([PositionKind::XposQuery, PositionKind::XposKey]),
        Some("rope") => Some([PositionKind::Rope, PositionKind::Rope]),
        _ => None,
    };
    if let Some([of_queries, of_keys]) = kinds {
        queries = turned(l, block, queries, of_queries, heads, around)?;
        keys = turned(l, block, keys, of_keys, key_heads, around)?;
    }
    let mut attrs = mask(Attrs::of(attribute::HEADS, heads), block)?
        .with_some(attribute::KEY_HEADS, Some(key_heads).filter(|n| *n != heads))
        .with_some(attribute::SCALE, block.float("scale"))
        .with_some(attribute::SOFTCAP, block.float("softcap"));
    let relative = match block.word("position") {
        Some("relative_xl") => Some(relative(l, queries)?),
        _ => None,
    };
    let dropout = need(block.float("dropout"), block, "dropout")?;
    if dropout > 0.0 {
        attrs = attrs.with(attribute::DROPOUT, dropout).with(attribute::STREAM, l.stream());
    }
    let mut operands = vec![queries, keys, values];
    let counts = |field| block.expr(field).is_some();
    operands.extend(around.step.filter(|_| counts("mask") || counts("bias")));
    operands.extend(bias::parameters(l, block, heads, &mut attrs)?);
    if let Some(relative) = relative {
        attrs.set(attribute::POSITION, Relative::RelativeXl);
        operands.extend(relative);
    }
    operands.extend(talking::matrices(l, block, heads, &mut attrs)?);
    let mixed = l.one(Op::Attention, &operands, attrs)?;
    let width = Dim::Fixed(l.width);
    l.linear(mixed, "output", width, &projection(block, 1.0, &["all"]))
}

/// RMS norm of queries or keys: of every head by itself with one gain for all, or of all channels together.
fn normed_by(l: &mut Lower<'_>, x: Value, name: &str, heads: Option<usize>) -> Result<Value, InvalidNode> {
    let channels = l.last(x)?.fixed().unwrap_or_default();
    let gain = l.scoped(name, |l| l.param("weight", [Dim::Fixed(channels / heads.unwrap_or(1))], "ones".into()))?;
    let attrs = Attrs::of(attribute::EPS, 1e-6).with_some(attribute::PARTS, heads.filter(|n| *n > 1));
    l.one(Op::RmsNorm, &[x, gain], attrs)
}

/// Turns the channel pairs of queries or keys by angles that grow with the position, so that scores depend on distances;
/// xPos also scales them by `zeta^(p/512)` and `zeta^(-p/512)`.
fn turned(
    l: &mut Lower<'_>,
    block: &Block,
    x: Value,
    kind: PositionKind,
    heads: usize,
    around: Around,
) -> Result<Value, InvalidNode> {
    let origin = if around.global_positions { Origin::Row } else { Origin::Axis };
    let attrs = Attrs::of(attribute::KIND, kind)
        .with(attribute::HEADS, heads)
        .with(attribute::TRANSPOSE, false)
        .with(attribute::ORIGIN, origin)
        .with_some(attribute::LAYOUT, (block.word("layout") == Some("half")).then_some(Layout::Half))
        .with_some(attribute::BASE, block.float("base"))
        .with_some(attribute::PART, block.int("part"));
    l.one(Op::Rotate, &[x], attrs)
}

/// `u`, `v` and the map of the codes of distances.
fn relative(l: &mut Lower<'_>, queries: Value) -> Result<[Value; 3], InvalidNode> {
    let (width, channels) = (l.last(queries)?, Dim::Fixed(l.width));
    let normal = || Attr::call("normal", [0.02.into()]);
    l.scoped("relative", |l| {
        let content = l.param("content", [width.clone()], normal())?;
        let position = l.param("position", [width.clone()], normal())?;
        let init = LinearInit::Projection(std::f64::consts::FRAC_1_SQRT_2).weight(&channels);
        Ok([content, position, l.param("weight", [width, channels], init)?])
    })
}

/// `h + drop(attention)`.
fn residual(l: &mut Lower<'_>, state: Value, out: Value) -> Result<Value, InvalidNode> {
    let out = l.dropout(out, l.residual_dropout)?;
    l.map(Pointwise::Add, &[state, out])
}

/// `h + drop(MHA(LN h, LN' s))`: attention to something else than the row has a norm of its own for it, and no positions.
fn across(l: &mut Lower<'_>, block: &Block, place: &Place, source: Option<Value>) -> Result<Value, InvalidNode> {
    let source = source.ok_or_else(|| InvalidNode(format!("`{}` has nothing to attend to here", block.title())))?;
    let x = l.norm(place.state, "norm")?;
    let y = l.norm(source, "source_norm")?;
    let out = attended(l, block, (x, y), Around::of(place))?;
    residual(l, place.state, out)
}
