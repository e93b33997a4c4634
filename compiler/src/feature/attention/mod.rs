//! Multi-head attention; the variants differ in their keys.

mod lack;
pub(super) mod score;
mod stop;
mod talking;

use super::{Feature, Lowering, Site, Slot};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::{Expr, ScoreExpr, Var};
use crate::ir::attribute::{self, Attrs, Layout, Mask, Origin, PositionKind, Relative};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::rotation;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LayerInputs, LinearInit, Lower, need, remember};
use crate::schema::{
    Bounds, DROPOUT, Default, Derived, FieldKind, SIZE, StatementField, Text, float, int, of_kind, optional_word, word,
};
use crate::spec::Block;
use score::{BIAS, BIAS_INIT, SCORE, SCORE_INIT};
use stop::{STOP, STOP_GIVEN};
use talking::TALKING;

/// The keyword and its variants.
pub(super) fn slot() -> Slot {
    const MEMORY: &str = "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Algorithm 4, arXiv:2402.00976";
    let variant = |name, doc, source, fields| Feature {
        fields,
        check,
        ..Feature::row("attend", name, doc, source, Lowering::Layer(lower))
    };
    let across = |mask| {
        vec![HEADS, HEAD_WIDTH, mask, BIAS, BIAS_INIT, SCORE, SCORE_INIT, TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT]
    };
    let position = "`rope` rotates queries and keys by their positions; `xpos` also decays scores with the distance; \
        `relative_xl` adds learned products with sines and cosines of the distance (Transformer-XL)";
    let own = vec![
        HEADS,
        HEAD_WIDTH,
        word("position", POSITIONS, "none", position),
        MASK,
        BIAS,
        BIAS_INIT,
        SCORE,
        SCORE_INIT,
    ];
    let post = "`pre`: `x + f(norm x)`; `post`: `norm(x + f(x))`, as in the original Transformer";
    let norm = word("norm", &["pre", "post"], "pre", post);
    let own = [own, vec![TALKING, PROJECTION_BIAS, norm, ATTENTION_DROPOUT], rotation(), modern(), vec![STOP]].concat();
    Slot::new(
        "attend",
        "Multi-head attention with a residual connection, pre-norm by default; the variant says what the keys are.",
        vec![
            variant(
                "self",
                "Tokens attend to the tokens of their row, inside a chunk-wise recurrence to those of their chunk.",
                "Vaswani et al. 2017, Section 3.2, arXiv:1706.03762; pre-norm: Xiong et al. 2020, arXiv:2002.04745; `rope`: Su et al. 2021, arXiv:2104.09864; `xpos`: Sun et al. 2022, arXiv:2212.10554; `relative_xl`: Dai et al. 2019, Section 3.3, arXiv:1901.02860",
                own,
            ),
            variant(
                "memory",
                "The tokens of a chunk attend to all slots of the memory; in mask and bias `j` is the slot.",
                MEMORY,
                across(SLOT_MASK),
            ),
            variant(
                "chunk",
                "The slots of the memory attend to the tokens of the chunk just read; in mask and bias `i` is the slot.",
                MEMORY,
                across(SLOT_MASK),
            ),
            variant(
                "input",
                "Tokens attend to the input of the depth-wise recurrence.",
                "Vaswani et al. 2017, Section 3.2.3, arXiv:1706.03762",
                across(MASK),
            ),
        ],
    )
}

/// The positions that turn channels.
const TURNING: &[&str] = &["xpos", "rope"];
const POSITIONS: &[&str] = &["none", "xpos", "rope", "relative_xl"];
const HEADS: StatementField = int("heads", Default::Required, SIZE, "number of heads");
const HEAD_WIDTH: StatementField = int(
    "head_width",
    Default::Derived(Derived::WidthPerHead),
    SIZE,
    "channels of each head's queries, keys and values",
);
const MASK: StatementField = mask_field(Default::Derived(Derived::Sees("past", "all")));
/// The mask between tokens and slots, which have no order in common.
const SLOT_MASK: StatementField = mask_field(Default::Word(Text::Borrowed("all")));

const fn mask_field(default: Default) -> StatementField {
    of_kind("mask", FieldKind::Mask, default, "which keys `j` a query `i` may see; `past` is `j <= i`")
}
const ATTENTION_DROPOUT: StatementField =
    float("dropout", Default::Derived(Derived::ModelAttentionDropout), DROPOUT, "dropout on the attention weights");

/// Absent in all specs that do not write it: projections without biases.
const PROJECTION_BIAS: StatementField = optional_word(
    "projection_bias",
    &["none", "inputs", "all"],
    "which linear maps have a learned bias, from 0 on: `inputs` those of queries, keys and values, `all` that of the output too, \
     as GPT-2 has it; `none` if left out",
);

/// What the layer of today's language models adds; all of it is left out of specs that do not write it.
fn modern() -> Vec<StatementField> {
    let key_heads =
        "heads of keys and values, each read by as many neighbouring heads of queries; as many as `heads` if left out";
    let qk_norm = "RMS norm of queries and keys before their rotation: of every head, or of all channels together; none if left out";
    let softcap = "a bound c of the scores, `c tanh(score / c)`; none if left out";
    let output_gain = "factor on the start of the output map, as the root of 1 over twice the layers; 1 if left out";
    vec![
        int("key_heads", Default::Absent, SIZE, key_heads),
        optional_word("qk_norm", &["head", "full"], qk_norm),
        float(
            "scale",
            Default::Absent,
            Bounds::above_zero(1e6),
            "factor on the scores; 1/sqrt(head_width) if left out",
        ),
        float("softcap", Default::Absent, Bounds::above_zero(1e6), softcap),
        float("output_gain", Default::Absent, Bounds::above_zero(1e6), output_gain),
    ]
}

/// How layers share the vectors of `relative_xl`, and how `rope` and `xpos` turn channels; left out of specs that do not write it.
fn rotation() -> Vec<StatementField> {
    let layout =
        "which channels of a head are turned together: neighbours (the default), or those of its first and second half";
    let relative_biases = "the two learned vectors that `relative_xl` adds to queries: the layer's own (the default), or one pair for \
         all layers that share them, as in Transformer-XL unless untied";
    let base = "what the angles fall with from pair to pair; 10,000 if left out";
    let part = "how many channels of each head are turned, an even number; all if left out";
    let angle = "what the `angle` of each pair of channels, by which it turns from position to position, becomes, as `angle / 8` for rows that \
         are 8 times as long; the same if left out";
    vec![
        optional_word("relative_biases", &["own", "shared"], relative_biases).beside("position", &["relative_xl"]),
        optional_word("layout", &["pairs", "half"], layout).beside("position", TURNING),
        float("base", Default::Absent, Bounds::above_zero(1e12), base).beside("position", TURNING),
        int("part", Default::Absent, SIZE, part).beside("position", TURNING),
        of_kind("angle", FieldKind::Bias, Default::Absent, angle).beside("position", TURNING),
    ]
}

/// The fields of attention as a word of equations.
pub(crate) fn word_fields() -> Vec<StatementField> {
    let position = word("position", POSITIONS, "none", "as in `attend self`");
    [
        vec![HEADS, HEAD_WIDTH, position],
        rotation(),
        vec![MASK, BIAS, BIAS_INIT, SCORE, SCORE_INIT],
        modern(),
        vec![TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT, STOP],
    ]
    .concat()
}

/// The fields of attention of queries, keys and values that are given.
pub(crate) fn given_fields() -> Vec<StatementField> {
    let projections = ["head_width", "qk_norm", "projection_bias", "output_gain", "stop"];
    word_fields().into_iter().filter(|field| !projections.contains(&&*field.name)).chain([STOP_GIVEN]).collect()
}

/// The fields of geometric attention.
pub(crate) fn geometric_fields() -> Vec<StatementField> {
    word_fields().into_iter().filter(|field| ["heads", "scale"].contains(&&*field.name)).collect()
}

/// The rules over several fields of attention with heads of a width: where one is broken, of what kind, in words, and the cure.
pub(crate) fn broken(block: &Block, width: usize) -> Option<(&'static str, Kind, String, &'static str)> {
    let heads = block.int("heads")?;
    let turns = block.word("position").filter(|p| ["xpos", "rope"].contains(p));
    let even = "give an even number of channels, with `position: rope` or `xpos`";
    let indivisible = |field, message, cure| Some((field, Kind::Indivisible, message, cure));
    match (block.int("key_heads"), turns, block.int("part")) {
        (Some(n), ..) if n == 0 || heads % n != 0 => {
            let message = format!("{heads} heads can't share {n} heads of keys evenly");
            indivisible("key_heads", message, "give a number that divides `heads`")
        }
        (_, Some(position), None) if width % 2 == 1 => {
            let message = format!("`{position}` turns pairs of channels, but each head has {width}");
            indivisible("position", message, "give an even `head_width`, or another number of heads")
        }
        (_, Some(_), Some(n)) if n % 2 == 1 || n > width => {
            indivisible("part", format!("{n} of {width} channels can't be turned in pairs"), even)
        }
        (_, Some(_), _) if angles(block, width).is_err() => {
            let message = angles(block, width).err().unwrap_or_default();
            Some(("angle", Kind::OutOfRange, message, "an angle has a number for every pair of channels"))
        }
        _ if block.expr("score").is_some() && (block.expr("bias").is_some() || block.float("softcap").is_some()) => {
            let other = if block.expr("bias").is_some() { "bias" } else { "softcap" };
            let message = format!("`score` says what scores become, and `{other}` too");
            let cure = if other == "bias" {
                "write `score: score + ..` with the bias"
            } else {
                "write `c * tanh(score / c)` into `score`"
            };
            Some(("score", Kind::ExclusiveFields, message, cure))
        }
        _ if block.truth("talking") == Some(true)
            && matches!(ScoreExpr::of(&score::expr(block)), ScoreExpr::Whole(_)) =>
        {
            let message = "`talking` heads mix scores that have a bound and a bias, and no other `score`".to_owned();
            Some(("score", Kind::ExclusiveFields, message, "leave one of the two out"))
        }
        _ if block.truth("talking") == Some(true) && stops(block) => {
            let message =
                "`talking` heads mix the scores of all keys, so that gradients can't `stop` at some".to_owned();
            Some(("stop", Kind::ExclusiveFields, message, "leave one of the two out"))
        }
        _ => None,
    }
}

/// The angles of the pairs of channels of heads with a width.
///
/// # Errors
/// One sentence about a pair that has none.
fn angles(block: &Block, width: usize) -> Result<Vec<f64>, String> {
    let base = block.float("base").unwrap_or(attribute::USUAL_BASE);
    rotation::angles(block.int("part").unwrap_or(width), base, block.expr("angle"))
}

/// Whether gradients stop at some keys.
pub(crate) fn stops(block: &Block) -> bool {
    stop::rule(block).is_some()
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    score::check(site, problems);
    let broken = site.block.int("head_width").and_then(|width| broken(site.block, width));
    if let Some((field, kind, message, help)) = broken {
        problems.report(Diagnostic::new(kind, site.place(field), message).help(help));
    }
    // The input is that of a depth recurrence. A chunk has none, of a recurrence or a fold: its positions are not the row's.
    let repeated = site.ancestors.iter().rev().find(|b| ["recur", "recurse"].contains(&&*b.slot));
    let has_input = repeated.is_some_and(|b| b.variant == "depthwise");
    let (around, why) = match &*site.block.variant {
        "memory" if !site.inside("recur", "chunkwise") => ("recur chunkwise", "there is no memory here"),
        "chunk" if !site.inside("update", "memory") => ("update memory", "only the update of a memory reads a chunk"),
        "input" if !has_input => ("recur depthwise", "there is no input here besides the states"),
        _ => return,
    };
    let message = format!("`{}` can only stand inside `{around}`", site.block.title());
    problems.report(Diagnostic::new(Kind::MisplacedStatement, site.block.span, message).label(why));
}

/// The surroundings of attention: what its masks, biases and rotations may count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AttentionContext {
    /// The step of the depth recurrence around.
    pub(crate) step: Option<Value>,
    /// True where positions count from the start of the row and not of the chunk.
    pub(crate) global_positions: bool,
}

/// `h + drop(MHA(LN h, LN s))`, or post-norm, `LN(h + drop(MHA(h, s)))`. The row itself has one norm for queries and keys, and
/// s is h unless the place says otherwise; anything else has a norm of its own.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let (gain, bias) = l.norm_params("norm")?;
    let post = block.word("norm") == Some("post");
    let normed = |l: &mut Lower<'_>, x: Value| if post { Ok(x) } else { l.norm_with(x, gain, bias) };
    let x = normed(l, place.state)?;
    let other = match &*block.variant {
        "memory" => place.memory,
        "chunk" => place.chunk,
        "input" => place.input,
        _ => None,
    };
    let y = match (&*block.variant, other) {
        ("self", _) => place.source.map_or(Ok(x), |source| normed(l, source))?,
        (_, Some(other)) => l.norm(other, "source_norm")?,
        _ => return Err(InvalidNode(format!("`{}` has nothing to attend to here", block.title()))),
    };
    // The norm learns from all keys, as their maps do.
    let stopped = stop::detached(l, block, [place.source.unwrap_or(place.state)])?;
    let stopped = stopped.map(|[source]| normed(l, source)).transpose()?;
    let out = attended(l, block, (x, y), stopped, false)?;
    let out = l.dropout(out, l.residual_dropout)?;
    let sum = l.map(Pointwise::Add, &[place.state, out])?;
    if post { l.norm_with(sum, gain, bias) } else { Ok(sum) }
}

/// `softmax(q k^T / sqrt(head width), masked) v W_o` with `q = x W_q, k = y W_k, v = y W_v`, from queries x and keys y. Where gradients
/// stop, `stopped` is what has the numbers of y there. With `history`, keys and values are those of this step and of all before.
pub(crate) fn attended(
    l: &mut Lower<'_>,
    block: &Block,
    (x, y): (Value, Value),
    stopped: Option<Value>,
    history: bool,
) -> Result<Value, InvalidNode> {
    let heads = need(block.int("heads"), block, "heads")?;
    let head_width = need(block.int("head_width"), block, "head_width")?;
    let key_heads = block.int("key_heads").unwrap_or(heads);
    // The bias of `inputs` is there with that of the output, and alone.
    let projection = |gain, biased: &[&str]| match block.word("projection_bias") {
        Some(word) if biased.contains(&word) => LinearInit::BiasedProjection(gain),
        _ => LinearInit::Projection(gain),
    };
    let init = projection(std::f64::consts::FRAC_1_SQRT_2, &["inputs", "all"]);
    let width = |heads| Dim::Fixed(heads * head_width);
    let query = l.linear(x, "query", width(heads), &init)?;
    let mut of_keys = |name| -> Result<(Value, Option<Value>), InvalidNode> {
        let Some(stopped) = stopped else { return Ok((l.linear(y, name, width(key_heads), &init)?, None)) };
        let [own, stopped] = l.linears([y, stopped], name, width(key_heads), &init, true)?;
        Ok((own, Some(stopped)))
    };
    let ((key, stopped_key), (value, stopped_value)) = (of_keys("key")?, of_keys("value")?);
    let mut operands = [query, key, value];
    let mut stopped = stopped_key.zip(stopped_value).map(|(key, value)| [key, value]);
    if let Some(by) = block.word("qk_norm") {
        for (n, (name, heads)) in [("q_norm", heads), ("k_norm", key_heads)].into_iter().enumerate() {
            let parts = if by == "head" { heads } else { 1 };
            let channels = Dim::Fixed(heads * head_width / parts);
            let gain = l.scoped(name, |l| l.param("weight", [channels], "ones".into()))?;
            let attrs = Attrs::of(attribute::EPS, 1e-6).with_some(attribute::PARTS, Some(parts).filter(|n| *n > 1));
            operands[n] = l.one(Op::RmsNorm, &[operands[n], gain], attrs.clone())?;
            if let (1, Some([key, _])) = (n, &mut stopped) {
                *key = l.one(Op::RmsNorm, &[*key, gain], attrs)?;
            }
        }
    }
    let mixed = mixed(l, block, operands, stopped, history)?;
    let output = match block.float("output_gain") {
        Some(gain) if gain != 1.0 => LinearInit::Scaled(Box::new(projection(1.0, &["all"])), gain),
        _ => projection(1.0, &["all"]),
    };
    l.linear(mixed, "output", Dim::Fixed(l.width), &output)
}

/// [`mixed`], where gradients stop at the keys and values that are given.
pub(crate) fn mixed_given(
    l: &mut Lower<'_>,
    block: &Block,
    operands: [Value; 3],
    history: bool,
) -> Result<Value, InvalidNode> {
    let stopped = stop::detached(l, block, [operands[1], operands[2]])?;
    mixed(l, block, operands, stopped, history)
}

/// `softmax(q k^T / sqrt(head width), masked) v` of queries, keys and values, head by head, with the positions, mask, bias and dropout
/// of a block. With `history`, keys and values are those of this step and of all before. Where gradients stop, they go to the keys and
/// values `stopped`, which have the same numbers.
fn mixed(
    l: &mut Lower<'_>,
    block: &Block,
    operands: [Value; 3],
    mut stopped: Option<[Value; 2]>,
    history: bool,
) -> Result<Value, InvalidNode> {
    let heads = need(block.int("heads"), block, "heads")?;
    let key_heads = block.int("key_heads").unwrap_or(heads);
    let width = l.last(operands[0])?;
    let mut operands = operands.to_vec();
    let kinds = match block.word("position") {
        Some("xpos") => vec![PositionKind::XposQuery, PositionKind::XposKey],
        Some("rope") => vec![PositionKind::Rope; 2],
        _ => vec![],
    };
    for (x, (kind, heads)) in operands.iter_mut().zip(kinds.iter().zip([heads, key_heads])) {
        *x = turned(l, block, *x, *kind, heads)?;
    }
    if let (Some(kind), Some([key, _])) = (kinds.get(1), &mut stopped) {
        *key = turned(l, block, *key, *kind, key_heads)?;
    }
    let mut values = Readings { operands: vec![], keys: operands[1] };
    let rule = block.expr("mask").map(|mask| values.numbered(l, mask)).transpose()?;
    let score = values.numbered(l, &score::expr(block))?;
    let stop = stop::rule(block).map(|stop| values.numbered(l, &stop)).transpose()?;
    let rule = rule.as_ref().map(Attr::from);
    let mask = match &rule {
        Some(rule) => Mask::Rule(rule),
        None if need(block.word("mask"), block, "mask")? == "past" => Mask::Causal,
        None => Mask::All,
    };
    let mut attrs = Attrs::of(attribute::HEADS, heads)
        .with(attribute::MASK, mask)
        .with_some(attribute::KEY_HEADS, Some(key_heads).filter(|n| *n != heads))
        .with_some(attribute::SCALE, block.float("scale"));
    let relative = match block.word("position") {
        Some("relative_xl") => Some(relative(l, block, width)?),
        _ => None,
    };
    let dropout = need(block.float("dropout"), block, "dropout")?;
    if dropout > 0.0 {
        attrs = attrs.with(attribute::DROPOUT, dropout).with(attribute::STREAM, l.stream());
    }
    let counts = |field| block.expr(field).is_some();
    if history {
        for (operand, hint) in operands[1..].iter_mut().zip(["keys", "values"]) {
            *operand = remember(l, *operand, hint)?;
        }
    }
    operands.extend(l.around.step.filter(|_| history || ["mask", "bias", "score", "stop"].into_iter().any(counts)));
    operands.extend(score::parameters(l, block, (heads, &score), &mut attrs)?);
    if !values.operands.is_empty() {
        attrs.set(attribute::READS, values.operands.len());
        operands.extend(values.operands);
    }
    if let Some(relative) = relative {
        attrs.set(attribute::POSITION, Relative::RelativeXl);
        operands.extend(relative);
    }
    operands.extend(talking::matrices(l, block, heads, &mut attrs)?);
    if let (Some(rule), Some(stopped)) = (stop, stopped) {
        attrs.set(attribute::STOP, &Attr::from(&rule));
        operands.extend(stopped);
    }
    l.one(Op::Attention, &operands, attrs)
}

/// The values that mask, score and `stop` of an attention read: operands, which expressions call by their numbers.
struct Readings {
    operands: Vec<Value>,
    keys: Value,
}

impl Readings {
    /// An expression with numbers for the names of values.
    fn numbered(&mut self, l: &Lower<'_>, expr: &Expr) -> Result<Expr, InvalidNode> {
        let mut unknown = None;
        let expr = expr.clone().with_lookups(&mut |lookup| {
            let Expr::Read(name, indices) = lookup else { return lookup };
            let Some(value) = l.value_read(&name) else {
                unknown = Some(name.clone());
                return Expr::Read(name, indices);
            };
            let at_key = indices.first() == Some(&Expr::Var(Var::J));
            let value = if at_key { l.along(value, self.keys) } else { value };
            let known = self.operands.iter().position(|own| *own == value);
            let number = known.unwrap_or(self.operands.len());
            if known.is_none() {
                self.operands.push(value);
            }
            Expr::Read(number.to_string(), indices)
        });
        match unknown {
            None => Ok(expr),
            Some(name) => Err(InvalidNode(format!("nothing here is called `{name}`"))),
        }
    }
}

/// Turns the channel pairs of queries or keys by angles that grow with the position, so that scores depend on distances;
/// xPos also scales them by `zeta^(p/512)` and `zeta^(-p/512)`.
fn turned(l: &mut Lower<'_>, block: &Block, x: Value, kind: PositionKind, heads: usize) -> Result<Value, InvalidNode> {
    let attrs = Attrs::of(attribute::KIND, kind)
        .with(attribute::HEADS, heads)
        .with(attribute::TRANSPOSE, false)
        .with(attribute::ORIGIN, if l.around.global_positions { Origin::Row } else { Origin::Axis })
        .with_some(attribute::LAYOUT, (block.word("layout") == Some("half")).then_some(Layout::Half))
        .with_some(attribute::BASE, block.float("base"))
        .with_some(attribute::PART, block.int("part"))
        .with_some(attribute::ANGLE, block.expr("angle").map(Attr::from).as_ref());
    l.one(Op::Rotate, &[x], attrs)
}

/// `u`, `v` and the map of the codes of distances, for queries of so many channels.
fn relative(l: &mut Lower<'_>, block: &Block, width: Dim) -> Result<[Value; 3], InvalidNode> {
    let pair = |l: &mut Lower<'_>| {
        let mut vector = |name| l.param(name, [width.clone()], Attr::call("normal", [0.02.into()]));
        Ok([vector("content")?, vector("position")?])
    };
    let is_shared = block.word("relative_biases") == Some("shared");
    let [content, position] = if is_shared {
        let path = l.at_place("relative");
        let made: Result<_, InvalidNode> = pair(l);
        l.back_to(path);
        made.inspect_err(|error| {
            let message = "layers with `relative_biases: shared` need queries of one width";
            let diagnostic = Diagnostic::new(Kind::WrongType, block.span, message).label(error.to_string());
            l.problems
                .report(diagnostic.help("give them the same `heads` and `head_width`, or leave `relative_biases` out"));
        })?
    } else {
        l.scoped("relative", pair)?
    };
    let channels = Dim::Fixed(l.width);
    let start = l.starts.weight(&LinearInit::Projection(std::f64::consts::FRAC_1_SQRT_2), &channels);
    let map = l.scoped("relative", |l| l.param("weight", [width, channels], start))?;
    Ok([content, position, map])
}
