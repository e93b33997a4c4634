//! The ragged axes of a graph by their names, and those with START and END around them.

use rtc_compiler::ir::attribute;
use std::collections::BTreeSet;
use std::rc::Rc;

use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::ir::types::{LENGTH, unframed};
use rtc_compiler::plan::Plan;

use crate::rows::{Axis, BatchView, GIVEN};

/// The names of all ragged axes, each once: that of a batch, those over which chunks run, and those of all values.
pub fn axis_names(plan: &Plan) -> Vec<Rc<str>> {
    let nodes = plan.graph.walk(MAIN).into_iter().map(|id| plan.graph.node(id));
    let named = nodes.clone().flat_map(|node| [attribute::AXIS, attribute::FILLED].map(|key| node.find(key)));
    let cut = named.flatten();
    let used = nodes.flat_map(|node| &node.results).filter_map(|value| plan.graph.ty(*value).ragged());
    let names: BTreeSet<&str> = cut.chain(used).chain([LENGTH, GIVEN]).collect();
    names.into_iter().map(Rc::from).collect()
}

/// The shared name of a ragged axis.
fn axis_name(axes: &[Rc<str>], name: &str) -> Rc<str> {
    axes.iter().find(|n| &***n == name).expect("all names are listed when the executor is made").clone()
}

/// Sets an axis, and those with START and END around it.
pub fn set_axis(axes: &[Rc<str>], view: &mut BatchView, name: &str, axis: Axis) {
    let arena = view.arena().clone();
    for framed in axes.iter().filter(|n| n.len() > name.len() && unframed(n).0 == name) {
        let lengths = (0..view.rows()).map(|row| axis.len(row) + unframed(framed).1);
        let around = Axis { origin: arena.copy(&axis.origin), ..Axis::of_lengths(lengths, &arena) };
        view.set_axis(framed.clone(), around);
    }
    view.set_axis(axis_name(axes, name), axis);
}
