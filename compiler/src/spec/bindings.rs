//! What the equations of a model bind, each by the path of an edit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Block, Spec};
use crate::define;
use crate::feature::{Feature, Lowering};
use crate::syntax;
use crate::syntax::ast::Equation;

/// The text of every equation of a model by its path, those of its definitions as `definition.name`. Of several with one path each has its
/// number, as `loop.normed[2]`.
pub fn bindings(spec: &Spec) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect(&spec.root, "", &mut found);
    let mut used = vec![];
    collect_definitions(&spec.root, &mut used);
    let mut seen = BTreeSet::new();
    for definition in used.iter().filter_map(|feature| feature.definition()).filter(|definition| !definition.library) {
        if seen.insert(definition.name().to_owned()) {
            let equations: Vec<&Equation> = definition.equations().collect();
            add(&equations, &format!("{}.", definition.name()), &mut found);
            found.extend(definition.results().map(|text| (format!("{}.out", definition.name()), text)));
        }
    }
    found
}

/// The equations among the statements of a block, in order.
pub fn equations(block: &Block) -> impl Iterator<Item = &Equation> {
    let runs = block.children.iter().filter_map(|child| match &child.feature.lower {
        Lowering::Equations(run) => Some(run),
        _ => None,
    });
    runs.flat_map(|run| run.equations())
}

/// The block without its equations, and without those inside it.
pub fn without_equations(block: &Block) -> Block {
    let children = block.children.iter().filter(|child| !child.feature.is_equations()).map(without_equations).collect();
    Block { children, ..block.clone() }
}

fn collect(block: &Block, path: &str, found: &mut BTreeMap<String, String>) {
    add(&equations(block).collect::<Vec<_>>(), path, found);
    let children = || block.children.iter().filter(|child| !child.feature.is_equations());
    let named = |child: &'_ Block| -> String {
        let by_variant = child.slot == "recur" || child.slot == "attend";
        if by_variant { child.variant.to_string() } else { child.slot.to_string() }
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for child in children() {
        let name = named(child);
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        let is_only = children().filter(|other| named(other) == name).count() == 1;
        let number = if is_only { String::new() } else { format!("[{count}]") };
        collect(child, &format!("{path}{name}{number}."), found);
    }
}

fn collect_definitions(block: &Block, found: &mut Vec<Arc<Feature>>) {
    define::collect(&block.feature, false, found);
    block.children.iter().for_each(|child| collect_definitions(child, found));
}

fn add(equations: &[&Equation], path: &str, found: &mut BTreeMap<String, String>) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for equation in equations {
        let name = equation.called();
        let count = counts.entry(name.clone()).or_default();
        *count += 1;
        let is_only = equations.iter().filter(|other| other.called() == name).count() == 1;
        let number = if is_only { String::new() } else { format!("[{count}]") };
        found.insert(format!("{path}{name}{number}"), syntax::equation(equation));
    }
}
