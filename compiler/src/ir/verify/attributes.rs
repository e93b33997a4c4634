//! What attributes are: which an op cannot do without, and what each one must be.

use crate::ir::ops::Op;
use crate::ir::types::Attr;

/// Attributes without which an op has no meaning.
pub(super) fn required(op: Op) -> &'static [&'static str] {
    match op {
        Op::Chunks => &["carried", "over", "axis"],
        Op::Fold => &["arity", "over", "axis"],
        Op::Beam => &["beams", "over", "axis"],
        Op::Unwind => &[],
        Op::Attention | Op::AttentionGrad => &["heads"],
        Op::Rotate => &["kind", "heads"],
        Op::Param => &["name", "init"],
        Op::Dropout => &["p", "stream"],
        Op::OffsetAttention | Op::OffsetAttentionGrad => &[],
        Op::HaltTest => &["threshold"],
        Op::S4d | Op::S4dGrad => &["side", "lag"],
        Op::Return => &["names"],
        op => op.def().attrs,
    }
}

/// What an attribute of this name must be, if it is not.
pub(super) fn wrong_kind(name: &str, attr: &Attr) -> Option<&'static str> {
    let text = attr.text();
    let one_of = |words: &[&str]| text.is_some_and(|t| words.contains(&t));
    let (fits, expected) = match name {
        "name" | "names" | "param" | "axis" | "over" | "filled" | "group" => (text.is_some(), "a name"),
        "rank" | "start" | "width" | "carried" | "outputs" | "slices" | "lag" => {
            (attr.int().is_some_and(|n| n >= 0), "a count")
        }
        "heads" | "size" | "count" | "beams" => (attr.int().is_some_and(|n| n > 0), "a positive count"),
        "arity" => (attr.int().is_some_and(|n| n > 1), "a count above 1"),
        "last" => (one_of(&["merge", "strict"]), "`merge` or `strict`"),
        "short" => (one_of(&["first", "last"]), "`first` or `last`"),
        "single" => (one_of(&["pass", "fold"]), "`pass` or `fold`"),
        "padding" => (one_of(&["levels", "input"]), "`levels` or `input`"),
        "plan" => (one_of(&["row", "batch"]), "`row` or `batch`"),
        "p" | "dropout" => (attr.float().is_some_and(|p| (0.0..1.0).contains(&p)), "a probability below 1"),
        "value" | "eps" | "threshold" => (attr.float().is_some(), "a number"),
        "when" | "transpose" | "flat" | "tied" | "keep_best" => (one_of(&["true", "false"]), "`true` or `false`"),
        "discretisation" => (one_of(&["bilinear", "zoh"]), "`bilinear` or `zoh`"),
        "side" => (one_of(&["left", "right"]), "`left` or `right`"),
        "role" => (one_of(&["join", "score"]), "`join` or `score`"),
        "compose" => (one_of(&["chosen", "every"]), "`chosen` or `every`"),
        "overflow" => (one_of(&["prune", "soften"]), "`prune` or `soften`"),
        "noise" => (one_of(&["gumbel", "none"]), "`gumbel` or `none`"),
        "draws" => (one_of(&["row", "level"]), "`row` or `level`"),
        "align" => (one_of(&["sampled", "uniform", "string"]), "`sampled`, `uniform` or `string`"),
        "at" => (one_of(&["first", "last", "before_last"]), "`first`, `last` or `before_last`"),
        "position" => (one_of(&["relative_xl"]), "`relative_xl`"),
        "act" => (one_of(&["gelu", "relu"]), "`gelu` or `relu`"),
        _ => (true, ""),
    };
    (!fits).then_some(expected)
}
