//! Atomic definitions: equations of the library that have a kernel.
//!
//! Where one is applied, its op is emitted; [`KERNELS`] says which, and the rows of pointwise functions are kernels, too. What the
//! kernel computes is what the equations say: the tests lower models with the equations in the place of the ops
//! ([`crate::lower::lower_by_equations`]), and compare values and gradients.

use std::sync::{Arc, LazyLock};

use super::eval::{Application, Eval};
use super::item::{ArrayAxis, EquationArray, ExpressionValue};
use super::words::{BuiltInWord, arg, weights, wide};
use super::{Features, parsed};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::Feature;
use crate::ir::attribute::{self, Attrs};
use crate::ir::ops::Op;
use crate::ir::types::Dim;

/// The op of every atomic definition that is no function of single numbers.
const KERNELS: &[(&str, BuiltInWord)] = &[
    ("softmax", BuiltInWord(softmax)),
    ("layer_norm", BuiltInWord(|e, c| by_channel(e, c, Op::LayerNorm))),
    ("rms_norm", BuiltInWord(|e, c| by_channel(e, c, Op::RmsNorm))),
    ("affine", BuiltInWord(|e, c| by_channel(e, c, Op::Affine))),
    ("add_scaled", BuiltInWord(add_scaled)),
];

static ATOMIC: LazyLock<Vec<Arc<Feature>>> = LazyLock::new(|| {
    let mut problems = Problems::default();
    let features = Features::new(&[], parsed(true).iter(), true, &mut problems).features;
    assert!(!problems.has_errors(), "in the library: {:?}", problems.iter().next());
    features
});

/// The kernel of a name.
pub(super) fn kernel(name: &str) -> Option<BuiltInWord> {
    KERNELS.iter().find(|(own, _)| *own == name).map(|(_, word)| *word)
}

/// The names of those that equations apply as words.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KERNELS.iter().map(|(name, _)| *name)
}

/// The atomic definitions that equations apply as words.
pub(super) fn words() -> impl Iterator<Item = &'static Arc<Feature>> {
    ATOMIC.iter().filter(|feature| kernel(&feature.slot).is_some())
}

/// The atomic definitions that are functions of single numbers.
pub(crate) fn functions() -> impl Iterator<Item = &'static Arc<Feature>> {
    ATOMIC.iter().filter(|feature| kernel(&feature.slot).is_none())
}

/// The atomic definition of a name.
pub(super) fn named(name: &str) -> Option<&'static Arc<Feature>> {
    ATOMIC.iter().find(|feature| feature.slot == name)
}

/// The report of a definition in a file that says that it is atomic.
pub(super) fn refused(def: &crate::syntax::ast::Def) -> Option<Diagnostic> {
    let message = format!("`{}` can't be atomic", def.name.text);
    let diagnostic = Diagnostic::new(Kind::MisplacedStatement, def.atomic?, message);
    Some(diagnostic.label("only the library brings kernels").help("take `atomic` out: its equations are what runs"))
}

fn softmax(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let x = arg(e, c, 0)?;
    if x.axes.is_empty() {
        let message = format!("`softmax` goes along channels or positions, and {} has neither", x.describe());
        return e.fail(Kind::WrongType, c.places[0], message, "");
    }
    emitted(e, c, Op::Softmax, &[&x], Attrs::new())
}

/// An op of an array and of weights with a number for each of its channels.
fn by_channel(e: &mut Eval<'_, '_>, c: &Application<'_>, op: Op) -> Option<ExpressionValue> {
    let mut all = vec![arg(e, c, 0)?];
    let channels = ArrayAxis::Channels(Dim::Fixed(wide(e, &all[0], c)?));
    for n in 1..c.args.len() {
        all.push(weights(e, c, n)?);
    }
    if all[1..].iter().any(|weights| weights.axes != [channels.clone()]) {
        return e.differ(&all, c.span);
    }
    let attrs = Attrs::new().with_some(attribute::EPS, c.block.float("eps"));
    emitted(e, c, op, &all.iter().collect::<Vec<_>>(), attrs)
}

fn add_scaled(e: &mut Eval<'_, '_>, c: &Application<'_>) -> Option<ExpressionValue> {
    let [q, x, s] = [arg(e, c, 0)?, arg(e, c, 1)?, arg(e, c, 2)?];
    let scales = s.axes.len() < x.axes.len() && x.axes.starts_with(&s.axes) && s.channels().is_none();
    if q.axes != x.axes || !scales || !(q.rows && x.rows && s.rows) {
        return e.differ(&[q, x, s], c.span);
    }
    emitted(e, c, Op::AddScaled, &[&q, &x, &s], Attrs::new())
}

/// The op, whose result has the type of its first operand.
fn emitted(
    e: &mut Eval<'_, '_>,
    c: &Application<'_>,
    op: Op,
    arrays: &[&EquationArray],
    attrs: Attrs,
) -> Option<ExpressionValue> {
    let operands: Vec<_> = arrays.iter().map(|array| array.value).collect();
    let value = e.node(c.span, |l| l.one(op, &operands, attrs))?;
    Some(ExpressionValue::Array(EquationArray { value, ..arrays[0].clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::pointwise::Pointwise;

    #[test]
    fn every_atomic_definition_has_a_kernel() {
        assert!(functions().all(|feature| Pointwise::named(&feature.slot).is_some()));
        assert!(names().all(|name| named(name).is_some()));
    }
}
