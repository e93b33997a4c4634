//! Token embedding.

use super::{Feature, Lowering, Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::ir::attribute::Attrs;
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, BATCH, Dim, Elem, LENGTH, Type, VOCAB};
use crate::lower::{Lower, need};
use crate::schema::{
    Bounds, DROPOUT, Default, Derived, FieldKind, POSITIVE, SIZE, StatementField, float, int, of_kind, word,
};
use crate::spec::Block;

/// The keyword and its only form.
pub(super) fn slot() -> Slot {
    Slot::new("embed", "How tokens become vectors.", vec![embed()])
}

fn embed() -> Feature {
    Feature {
        fields: vec![
            int("width", Default::Required, SIZE, "channels of every state of the model"),
            word(
                "tokens",
                &["none", "start_end"],
                "none",
                "`start_end` puts a learned START before and a learned END after every row",
            ),
            word(
                "position",
                &["none", "sinusoidal", "learned"],
                "none",
                "vectors added to the tokens by position: sines and cosines, or a learned vector per position",
            ),
            int(
                "positions",
                Default::Absent,
                SIZE,
                "with `position: learned`, the number of positions: the longest row",
            ),
            StatementField {
                bounds: SCALE,
                ..of_kind(
                    "scale",
                    FieldKind::FloatOr(&["sqrt_width"]),
                    Default::Absent,
                    "factor on token vectors before positions are added: a number, or the root of the width; 1 if left out",
                )
            },
            float("init", Default::Float(0.02), INIT, "standard deviation of the token vectors at the start"),
            float("dropout", Default::Derived(Derived::ModelDropout), DROPOUT, "dropout on the token vectors"),
        ],
        check,
        ..Feature::row(
            "embed",
            "",
            "A learned vector per token. Order enters through masks, the positions of attention, or `position`.",
            "Vaswani et al. 2017, Sections 3.4 (scale) and 3.5 (sinusoidal positions), arXiv:1706.03762",
            Lowering::Embed(lower),
        )
    }
}

const INIT: Bounds = Bounds { high: 1000.0, ..POSITIVE };
const SCALE: Bounds = Bounds::above_zero(1e6);

/// Learned positions need a number of them, and nothing else has one.
fn check(site: &Site<'_>, problems: &mut Problems) {
    let learned = site.block.word("position") == Some("learned");
    match site.block.int("positions") {
        None if learned => problems.report(
            Diagnostic::new(Kind::MissingField, site.place("position"), "learned positions need a number of them")
                .help(
                    "write `positions: 512` for rows of up to 512 tokens, or use `sinusoidal` for rows of any length",
                ),
        ),
        Some(_) if !learned => problems.report(
            Diagnostic::new(Kind::ExclusiveFields, site.place("positions"), "only learned positions are counted")
                .help("write `position: learned`, or leave `positions` out"),
        ),
        _ => {}
    }
}

/// What token vectors are multiplied with.
fn scale(block: &Block, width: usize) -> f64 {
    match block.word("scale") {
        Some(_) => (width as f64).sqrt(),
        None => block.float("scale").unwrap_or(1.0),
    }
}

/// `drop(s E[x] + P)`. START and END come after the dropout and start from N(0, 1).
fn lower(l: &mut Lower<'_>, block: &Block) -> Result<Value, InvalidNode> {
    let ty = Type::Tensor(Elem::Index, vec![Dim::sym(BATCH), Dim::sym(LENGTH)]);
    let tokens = l.leaf(Op::Input, "tokens", Attrs::new(), ty)?;
    l.width = need(block.int("width"), block, "width")?;
    let width = Dim::Fixed(l.width);
    let vocab = l.binding().vocab.map_or(Dim::sym(VOCAB), Dim::Fixed);
    let std = need(block.float("init"), block, "init")?;
    let start = l.starts.table(std);
    let table = l.vectors("table", [vocab, width.clone()], start)?;
    (l.tokens, l.table) = (Some(tokens), Some(table));
    let x = l.one(Op::Embed, &[tokens, table], Attrs::new())?;
    let x = match scale(block, l.width) {
        1.0 => x,
        by => l.scaled(x, by)?,
    };
    let x = match block.word("position") {
        Some("sinusoidal") => l.one(Op::AddPosition, &[x], Attrs::new())?,
        Some("learned") => {
            let places = Dim::Fixed(need(block.int("positions"), block, "positions")?);
            let codes = l.vectors("positions", [places, width.clone()], Attr::call("normal", [std.into()]))?;
            l.one(Op::AddPosition, &[x, codes], Attrs::new())?
        }
        _ => x,
    };
    let x = l.dropout(x, need(block.float("dropout"), block, "dropout")?)?;
    if block.word("tokens") == Some("start_end") { framed(l, x) } else { Ok(x) }
}

/// START before and END behind every row, learned from N(0, 1).
pub(super) fn framed(l: &mut Lower<'_>, x: Value) -> Result<Value, InvalidNode> {
    let [start, end] =
        ["start", "end"].map(|name| l.vectors(name, [Dim::Fixed(l.width)], Attr::call("normal", [1.0.into()])));
    l.one(Op::Frame, &[x, start?, end?], Attrs::new())
}
