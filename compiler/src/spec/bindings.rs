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
            add(numbered(definition.equations(), |e| e.called()), &format!("{}.", definition.name()), &mut found);
            found.extend(definition.results().map(|text| (format!("{}.out", definition.name()), text)));
        }
    }
    found
}

/// The equations among the statements of a block, in order, each by its last part in the path of an edit: `z`, `carry.z`, `loss[2]`.
pub fn equations(block: &Block) -> Vec<(String, &Equation)> {
    let runs = block.children.iter().filter_map(|child| match &child.feature.lower {
        Lowering::Equations(run) => Some(run),
        _ => None,
    });
    numbered(runs.flat_map(|run| run.equations()), |e| e.called())
}

/// The other statements of a block, in order, each by its part in the path of an edit: `loop`, `depthwise`, `norm[2]`.
pub fn statements(block: &Block) -> Vec<(String, &Block)> {
    let statements = block.children.iter().filter(|child| !child.feature.is_equations());
    numbered(statements, |child| if is_by_variant(child) { child.variant.to_string() } else { child.slot.to_string() })
}

/// Whether a path calls a statement by its variant.
pub fn is_by_variant(block: &Block) -> bool {
    ["recur", "attend"].contains(&&*block.slot) && !block.variant.is_empty()
}

/// Items by their names. Of several with one name each has its number.
fn numbered<T>(items: impl Iterator<Item = T>, name: impl Fn(&T) -> String) -> Vec<(String, T)> {
    let items: Vec<(String, T)> = items.map(|item| (name(&item), item)).collect();
    let names: Vec<String> = items.iter().map(|(name, _)| name.clone()).collect();
    let number = |(n, (name, item)): (usize, (String, T))| {
        let count = |names: &[String]| names.iter().filter(|other| **other == name).count();
        if count(&names) == 1 { (name, item) } else { (format!("{name}[{}]", count(&names[..=n])), item) }
    };
    items.into_iter().enumerate().map(number).collect()
}

/// The block without its equations, and without those inside it.
pub fn without_equations(block: &Block) -> Block {
    let children = block.children.iter().filter(|child| !child.feature.is_equations()).map(without_equations).collect();
    Block { children, ..block.clone() }
}

fn collect(block: &Block, path: &str, found: &mut BTreeMap<String, String>) {
    add(equations(block), path, found);
    for (name, child) in statements(block) {
        collect(child, &format!("{path}{name}."), found);
    }
}

fn collect_definitions(block: &Block, found: &mut Vec<Arc<Feature>>) {
    define::collect(&block.feature, false, found);
    block.children.iter().for_each(|child| collect_definitions(child, found));
}

fn add(equations: Vec<(String, &Equation)>, path: &str, found: &mut BTreeMap<String, String>) {
    found.extend(equations.into_iter().map(|(name, equation)| (format!("{path}{name}"), syntax::equation(equation))));
}
