//! Chains: neighbouring steps of arithmetic on single numbers become one kernel, which reads every operand once and writes only
//! what somebody else reads. Launches are the cost of small models, and such steps are most of them.

use std::collections::BTreeSet;
use std::ops::Range;

use rtc_compiler::ir::graph::{Graph, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::group::{Group, units};
use rtc_compiler::plan::{Plan, RegionPlan, Step};
use sha2::{Digest, Sha256};

use super::device::Generated;
use super::way::{Way, literal, way};

/// What runs next in a group.
#[derive(Clone, Debug)]
pub(super) enum Part {
    /// One step by itself.
    Single(usize),
    /// Some steps in one kernel.
    Chain(Chain),
}

/// Steps in one kernel.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) inputs: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    pub(super) kernel: Generated,
}

/// The parts of every group of a region, by group.
pub(super) fn parts(plan: &Plan, own: &RegionPlan) -> Vec<Vec<Part>> {
    own.groups.iter().map(|group| cut(&plan.graph, &own.steps, group)).collect()
}

/// All kernels that a plan needs made.
pub fn generated(plan: &Plan) -> BTreeSet<Generated> {
    let regions = plan.regions.iter().flat_map(|own| parts(plan, own)).flatten();
    let chains = regions.filter_map(|part| match part {
        Part::Chain(chain) => Some(chain.kernel),
        Part::Single(_) => None,
    });
    chains.collect()
}

fn cut(graph: &Graph, steps: &[Step], group: &Group) -> Vec<Part> {
    let mut out = vec![];
    let mut next = group.steps.start;
    while next < group.steps.end {
        let width = |n: usize| arithmetic_width(graph, &steps[n]);
        let Some(channels) = width(next) else {
            out.push(Part::Single(next));
            next += 1;
            continue;
        };
        let end = (next..group.steps.end).find(|n| width(*n) != Some(channels)).unwrap_or(group.steps.end);
        out.push(Part::Chain(chain(graph, steps, group, next..end)));
        next = end;
    }
    out
}

/// Channels of a step of arithmetic.
fn arithmetic_width(graph: &Graph, step: &Step) -> Option<usize> {
    let node = graph.node(step.node);
    matches!(way(node.op), Way::Arithmetic(_)).then(|| units(graph.ty(node.results[0])).1)
}

fn chain(graph: &Graph, steps: &[Step], group: &Group, own: Range<usize>) -> Chain {
    let made: Vec<Value> = own.clone().flat_map(|n| graph.node(steps[n].node).results.iter().copied()).collect();
    let others = group.steps.clone().filter(|n| !own.contains(n));
    let read: BTreeSet<Value> = others.flat_map(|n| graph.node(steps[n].node).operands.iter().copied()).collect();
    let stays = |v: &Value| group.inner.iter().all(|inner| inner.value != *v) || read.contains(v);
    let outputs: Vec<Value> = made.iter().copied().filter(stays).collect();
    let mut inputs: Vec<Value> = vec![];
    let mut lines = String::new();
    for n in own.clone() {
        let node = graph.node(steps[n].node);
        let Way::Arithmetic(results) = way(node.op) else { unreachable!("chains are of arithmetic alone") };
        let mut operands = vec![];
        for (k, value) in node.operands.iter().enumerate() {
            // A chain's kernel may read a value both number by number and per channel.
            let index = if node.op == Op::Affine && k > 0 {
                format!("i % {}", units(graph.ty(node.operands[0])).1)
            } else {
                "i".into()
            };
            operands.push(match made.iter().position(|v| v == value).filter(|_| index == "i") {
                Some(place) => format!("t{place}"),
                None => {
                    let place = inputs.iter().position(|v| v == value).unwrap_or_else(|| {
                        inputs.push(*value);
                        inputs.len() - 1
                    });
                    format!("x{place}[{index}]")
                }
            });
        }
        if node.op == Op::Affine && operands.len() == 2 {
            operands.push("(real)0".to_owned());
        }
        for (result, expression) in node.results.iter().zip(results) {
            let place = made.iter().position(|v| v == result).expect("it was just listed");
            lines += &format!("    real t{place} = {};\n", filled(expression, &operands, &literal(node)));
        }
    }
    for (n, value) in outputs.iter().enumerate() {
        let place = made.iter().position(|v| v == value).expect("outputs are made here");
        lines += &format!("    y{n}[i] = t{place};\n");
    }
    let kernel = named(inputs.len(), outputs.len(), &lines);
    Chain { inputs, outputs, kernel }
}

/// An expression with the operands in the place of `a`, `b`, `c`, `d`, and the number in that of `by`.
fn filled(expression: &str, operands: &[String], by: &str) -> String {
    let mut out = String::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if len == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (word, after) = rest.split_at(len);
        match word {
            "by" => out += by,
            _ => {
                let place = ["a", "b", "c", "d"].iter().position(|name| *name == word);
                out += place.and_then(|n| operands.get(n)).map_or(word, String::as_str);
            }
        }
        rest = after;
    }
    out
}

/// A kernel with this body, named after what it does.
fn named(inputs: usize, outputs: usize, lines: &str) -> Generated {
    let read = (0..inputs).map(|n| format!("const real *x{n}, "));
    let written = (0..outputs).map(|n| format!("real *y{n}, "));
    let body = format!("({}whole n) {{\n    EACH(i, n)\n{lines}}}\n", read.chain(written).collect::<String>());
    let hash: String = Sha256::digest(&body).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("chain_{hash}");
    Generated { source: format!("KERNEL({name}){body}"), name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_take_the_places_of_their_names() {
        let operands = ["t1".to_owned(), "x0[i]".to_owned()];
        assert_eq!(filled("sigmoid(a) * b + by", &operands, "(real)0.5"), "sigmoid(t1) * x0[i] + (real)0.5");
        assert_eq!(filled("a < 0 ? (real)0 : a", &operands, ""), "t1 < 0 ? (real)0 : t1");
    }
}
