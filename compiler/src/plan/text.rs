//! The plan as text, for `rtc compile --emit plan`.

use std::fmt::Write as _;

use super::group::Group;
use super::{Plan, RegionPlan};
use crate::ir::graph::{MAIN, RegionId, Value};

/// One line per step: the node, what is freed after it, what happens in place, what is added to which gradient.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    let elements = |p: &crate::ir::graph::Parameter| p.ty.dims().iter().filter_map(|d| d.fixed()).product::<usize>();
    writeln!(out, "plan \"{}\"", plan.graph.name).expect("writing to a string succeeds");
    for (n, p) in plan.parameters.iter().enumerate() {
        writeln!(out, "  parameter {n}: {} {} = {} ({} numbers)", p.name, p.ty, p.init, elements(p))
            .expect("writing to a string succeeds");
    }
    let mut names = ValueNumbering { plan, seen: std::collections::BTreeMap::new() };
    region(&mut out, &mut names, MAIN, 1);
    out
}

/// Numbers values in the order in which the text meets them.
struct ValueNumbering<'p> {
    plan: &'p Plan,
    seen: std::collections::BTreeMap<Value, usize>,
}

impl ValueNumbering<'_> {
    fn of(&mut self, value: Value) -> String {
        let next = self.seen.len();
        let n = *self.seen.entry(value).or_insert(next);
        format!("%{}.{n}", self.plan.graph.hint(value))
    }

    fn list(&mut self, values: &[Value]) -> String {
        values.iter().map(|v| self.of(*v)).collect::<Vec<_>>().join(", ")
    }
}

/// The line above a group.
fn header(names: &mut ValueNumbering<'_>, group: &Group, pad: &str) -> String {
    let units: Vec<String> = group.units.iter().map(ToString::to_string).collect();
    let inner: Vec<Value> = group.inner.iter().map(|i| i.value).collect();
    let scratch = if inner.is_empty() {
        String::new()
    } else {
        format!("; {} numbers of scratch each: {}", group.scratch, names.list(&inner))
    };
    format!("{pad}// {} steps together, units [{}]{scratch}\n", group.steps.len(), units.join(", "))
}

fn region(out: &mut String, names: &mut ValueNumbering<'_>, id: RegionId, depth: usize) {
    let plan: &RegionPlan = &names.plan.regions[id.index()];
    let pad = "  ".repeat(depth);
    if !plan.captures.is_empty() {
        let list = names.list(&plan.captures);
        *out += &format!("{pad}cut to the rows that take part: {list}\n");
    }
    for (n, step) in plan.steps.iter().enumerate() {
        if plan.early_exit == Some(n) {
            *out += &format!("{pad}early exit: rows that reject the step leave here\n");
        }
        if let Some(group) = plan.groups.iter().find(|g| g.steps.start == n && g.steps.len() > 1) {
            *out += &header(names, group, &pad);
        }
        let node = names.plan.graph.node(step.node).clone();
        let operands = names.list(&node.operands);
        let results = names.list(&node.results);
        let mut notes = vec![];
        if let Some(n) = step.in_place {
            notes.push(format!("in place of {}", names.of(node.operands[n])));
        }
        for (value, param) in node.results.iter().zip(&step.accumulates_into) {
            let target = param.map(|n| names.plan.parameters[n].name.clone());
            notes.extend(target.map(|name| format!("{} into gradient of {name}", names.of(*value))));
        }
        if !step.frees.is_empty() {
            notes.push(format!("free {}", names.list(&step.frees)));
        }
        let equals = if results.is_empty() { "" } else { " = " };
        let tail = if notes.is_empty() { String::new() } else { format!("  // {}", notes.join("; ")) };
        *out += &format!("{pad}{results}{equals}{} {operands}{tail}\n", node.op);
        if let Some(body) = node.body {
            let params = names.plan.graph.params(body).to_vec();
            let list = names.list(&params);
            *out += &format!("{pad}({list}) {{\n");
            region(out, names, body, depth + 1);
            *out += &format!("{pad}}}\n");
        }
    }
    if !plan.saves.is_empty() {
        *out += &format!("{pad}save {}\n", names.list(&plan.saves));
    }
    *out += &format!("{pad}yield {}\n", names.list(&plan.yields));
}
