//! The checks of bodies: what may stand among their equations, what they bind, and whether anything reads what a loop leaves.

use std::collections::BTreeSet;
use std::ptr;

use super::steps::{STATE, changed, equations, own};
use crate::define::names::{never_changes, read_values};
use crate::define::{Definition, collect};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Lowering, Site};
use crate::source::Span;
use crate::spec::Block;
use crate::syntax::ast::{self, Equation, EquationForm};

/// What may stand among the equations of a body: `carry` first in a `loop`, `go` and `until` in one.
pub(crate) fn check(site: &Site<'_>, problems: &mut Problems) {
    let Some(parent) = site.parent() else { return };
    let (run, in_loop) = (site.block, parent.slot == "loop");
    let Lowering::Equations(definition) = &run.feature.lower else { return };
    let mut first = parent.children.iter().find(|child| child.is_layer()).is_some_and(|child| ptr::eq(child, run));
    for equation in definition.equations() {
        let word = equation.form.word();
        let mut misplaced = |message: String, help: &str| {
            problems.report(Diagnostic::new(Kind::MisplacedStatement, equation.span, message).help(help));
        };
        match equation.form {
            EquationForm::Show => {
                let help = "names of a body are known below it; a definition shows a value to a gate behind it";
                misplaced("`show` has no meaning in the body of a statement".to_owned(), help);
            }
            EquationForm::Carry | EquationForm::Go | EquationForm::Until if !in_loop => {
                let help = "only a `loop` and the definitions in it hand values on from step to step and end";
                misplaced(format!("`{word}` has no meaning in `{}`", parent.title()), help);
            }
            EquationForm::Carry if !first => {
                let help = "the start of what is carried is worked out before the first step";
                misplaced("`carry` stands first in a loop".to_owned(), help);
            }
            EquationForm::Plain if !in_loop && changes_outside(site, equation, problems) => {}
            EquationForm::Plain | EquationForm::Share => rebinds_outer(site, equation, problems),
            _ => {}
        }
        first &= equation.form == EquationForm::Carry;
    }
}

/// Warns of values that a loop carries and no step changes, and of a loop that leaves nothing that is read.
pub(crate) fn check_loop(site: &Site<'_>, problems: &mut Problems) {
    let (block, changed) = (site.block, changed(site.block));
    for (_, equation) in equations(block).filter(|(_, e)| e.form == EquationForm::Carry) {
        let unchanged = equation.names.iter().filter(|name| !changed.contains(name.text.as_str()));
        unchanged.for_each(|name| problems.report(never_changes(name)));
    }
    let own: BTreeSet<&str> = own(block).collect();
    let around = |name: &str| site.ancestors.iter().any(|b| b.slot == "loop" && self::own(b).any(|own| own == name));
    let leaves = |name: &&str| *name == STATE || !own.contains(name) && around(name);
    let children = site.parent().map_or(&[][..], |parent| &parent.children);
    let behind = children.iter().skip_while(|child| !ptr::eq(*child, block)).skip(1);
    let read = |names: &BTreeSet<&str>| behind.clone().any(|child| reads(child, names));
    let empty = site.layers().next().is_none();
    if empty || changed.iter().any(leaves) || pays(block) || read(&own) {
        return;
    }
    let help = match own.first() {
        Some(name) => format!("behind the loop `{name}` is what the last step left, as in `state = {name}`"),
        None => {
            let lost = changed.iter().find(|name| read(&[**name].into()));
            let name = lost.or(changed.first()).copied().unwrap_or("x");
            format!("a loop hands on `state` and what it carries: `carry {name} = ..` in its first line keeps `{name}`")
        }
    };
    let diagnostic = Diagnostic::new(Kind::DeadLoop, block.span, "nothing reads what the loop leaves");
    problems.report(diagnostic.help(help));
}

/// Whether equations of a statement, or of those inside it, read one of these names.
fn reads(block: &Block, names: &BTreeSet<&str>) -> bool {
    if let Lowering::Equations(definition) = &block.feature.lower {
        let mut found = false;
        for equation in definition.equations() {
            read_values(&equation.value, &mut |name| found |= names.contains(name.text.as_str()));
        }
        return found;
    }
    block.children.iter().any(|child| reads(child, names))
}

/// Whether a statement adds to the loss, itself or by what is inside it.
fn pays(block: &Block) -> bool {
    let mut all = vec![];
    collect(&block.feature, false, &mut all);
    let own = match &block.feature.lower {
        Lowering::Equations(definition) => Some(&**definition),
        _ => None,
    };
    let loss = |definition: &Definition| definition.equations().any(|e| e.form == EquationForm::Loss);
    own.into_iter().chain(all.iter().filter_map(|feature| feature.definition())).any(loss)
        || block.children.iter().any(pays)
}

/// Reports names of a body that are bound outside of it: the outer value would stay as it was.
fn rebinds_outer(site: &Site<'_>, equation: &Equation, problems: &mut Problems) {
    let bodies: Vec<&Block> = site.ancestors.iter().copied().chain([site.block]).collect();
    for name in equation.names.iter().filter(|name| name.text != STATE) {
        for pair in bodies.windows(2).rev() {
            let [around, inner] = pair else { continue };
            // What a loop carries, its body and the loops there change.
            if around.slot == "loop" && own(around).any(|own| own == name.text) {
                break;
            }
            let before = around.children.iter().take_while(|child| !ptr::eq(*child, *inner));
            let outer = before.filter(|_| !ptr::eq(*inner, site.block)).filter_map(|child| bound(child, &name.text));
            if let Some(first) = outer.last() {
                problems.report(rebound(name, equation.form == EquationForm::Share, first, &bodies));
                break;
            }
            if repeated(&around.slot, &around.variant) == Some(Knows::Constants) {
                break;
            }
        }
    }
}

/// What a body that is worked out more than once knows from outside. It may bind none of that again: the outer value would stay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knows {
    /// The constants of the spec.
    Constants,
    /// These, and the values that equations bind.
    Values,
}

/// What the body of a statement knows from outside, if it is worked out more than once.
pub(crate) fn repeated(slot: &str, variant: &str) -> Option<Knows> {
    match (slot, variant) {
        ("recur", "chunkwise") | ("recurse", _) => Some(Knows::Constants),
        ("loop" | "stack" | "recur", _) => Some(Knows::Values),
        _ => None,
    }
}

/// Where a run of equations binds a name, or a loop hands it on.
fn bound(block: &Block, name: &str) -> Option<Span> {
    let binds = |equation: &&Equation| equation.names.iter().any(|bound| bound.text == name);
    match &block.feature.lower {
        Lowering::Equations(run) => run.equations().filter(binds).last().map(|equation| equation.span),
        _ if block.slot == "loop" => own(block).any(|own| own == name).then_some(block.span),
        _ => None,
    }
}

fn rebound(name: &ast::Name, function: bool, first: Span, bodies: &[&Block]) -> Diagnostic {
    let name_text = &name.text;
    let in_loop = bodies.iter().rev().nth(1).is_some_and(|around| around.slot == "loop");
    let help = match in_loop && !function {
        true => format!(
            "write `carry {name_text} = {name_text}` in the first line of the loop to hand it on, or choose another name"
        ),
        false if function => "choose another name".to_owned(),
        false => "choose another name; a `loop` with `carry` hands on other values than `state`".to_owned(),
    };
    let diagnostic = Diagnostic::new(Kind::RebindsOuter, name.span, format!("`{name_text}` is bound outside"));
    let diagnostic =
        match first.start <= name.span.start && name.span.end <= first.end && first.source == name.span.source {
            true => diagnostic.label("in this copy of the body, the value would be that of one step alone"),
            false => diagnostic
                .label("this value would be that of one step alone")
                .note(first, "the outer value, which would stay as it was"),
        };
    diagnostic.help(help)
}

/// A value that a loop carries is changed in the body of that loop, or in a loop inside it. Whether one is changed elsewhere, which is
/// reported.
fn changes_outside(site: &Site<'_>, equation: &Equation, problems: &mut Problems) -> bool {
    let before = problems.len();
    for name in &equation.names {
        let carries = |around: &&&Block| around.slot == "loop" && own(around).any(|own| own == name.text);
        if let Some(around) = site.ancestors.iter().rev().find(carries) {
            let message = format!("`{}` is carried by a loop, and changes only in the body of the loop", name.text);
            let diagnostic = Diagnostic::new(Kind::MisplacedStatement, name.span, message);
            problems.report(diagnostic.note(around.span, "the loop").help("choose another name here"));
        }
    }
    problems.len() > before
}
