//! Chains: neighbouring steps of arithmetic on single numbers, and dropouts, become one kernel, which reads every operand once and
//! writes only what somebody else reads. Launches are the cost of small models, and such steps are most of them.

use rtc_compiler::ir::attribute;
use std::collections::BTreeSet;

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::graph::{Graph, Node, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::pointwise::{NumberSource, PointwiseSteps, Scalar, results};
use rtc_compiler::plan::group::{Group, units};
use rtc_compiler::plan::{Plan, RegionPlan, Step};
use sha2::{Digest, Sha256};

use super::bundles::{self, Bundle, Bundles};
use super::device::GeneratedKernel;
use rtc_kernel::dropout::Keep;

/// The next unit of a group to run.
#[derive(Clone, Debug)]
pub(super) enum LaunchUnit {
    /// One step by itself.
    Single(usize),
    /// Steps whose products are one.
    Bundle(Vec<usize>),
    /// Some steps in one kernel.
    Chain(KernelChain),
}

/// Steps in one kernel.
#[derive(Clone, Debug)]
pub(super) struct KernelChain {
    pub(super) inputs: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    /// A value with as many numbers as the kernel has threads.
    pub(super) like: Value,
    /// The streams of its dropouts, in the order of the kernel's keys.
    pub(super) streams: Vec<u64>,
    pub(super) kernel: GeneratedKernel,
    /// Whether its kernel is told which arrays are kept in 16 bits.
    pub(super) any_width: bool,
}

/// The parts of all groups, by region and group. Kernels take arrays of `any_width` where some are kept in 16 bits.
pub(super) fn parts(plan: &Plan, bundles: &Bundles, any_width: bool) -> Vec<Vec<Vec<LaunchUnit>>> {
    let of = |(own, found): (&RegionPlan, &Vec<Bundle>)| {
        own.groups.iter().map(|group| cut(&plan.graph, &own.steps, group, found, any_width)).collect()
    };
    plan.regions.iter().zip(&bundles.regions).map(of).collect()
}

/// The kernels of all chains of a plan.
pub(super) fn generated(plan: &Plan, any_width: bool) -> BTreeSet<GeneratedKernel> {
    let parts = parts(plan, &Bundles::of(plan), any_width).into_iter().flatten().flatten();
    let chains = parts.filter_map(|part| match part {
        LaunchUnit::Chain(chain) => Some(chain.kernel),
        LaunchUnit::Single(_) | LaunchUnit::Bundle(_) => None,
    });
    chains.collect()
}

fn cut(graph: &Graph, steps: &[Step], group: &Group, bundles: &[Bundle], any_width: bool) -> Vec<LaunchUnit> {
    let width = |own: &[usize]| chained_width(graph, &steps[own[0]]).filter(|_| own.len() == 1);
    let together = |a: &Vec<usize>, b: &Vec<usize>| width(a).is_some() && width(a) == width(b);
    let order = bundles::order(group, bundles);
    let part = |own: &[Vec<usize>]| match (width(&own[0]), &own[0][..]) {
        (Some(_), _) => LaunchUnit::Chain(ChainBuilder { graph, steps, group, any_width }.chain(&own.concat())),
        (None, [step]) => LaunchUnit::Single(*step),
        (None, bundle) => LaunchUnit::Bundle(bundle.to_vec()),
    };
    order.chunk_by(together).map(part).collect()
}

/// Channels of a step that can be part of a chain.
fn chained_width(graph: &Graph, step: &Step) -> Option<usize> {
    let node = graph.node(step.node);
    let able = matches!(node.op, Op::Map | Op::Affine | Op::Dropout);
    able.then(|| units(graph.ty(node.results[0])).1)
}

/// Builds a chain.
struct ChainBuilder<'a> {
    graph: &'a Graph,
    steps: &'a [Step],
    group: &'a Group,
    any_width: bool,
}

/// The text of a kernel while it is written.
#[derive(Default)]
struct KernelText {
    made: Vec<Value>,
    inputs: Vec<Value>,
    streams: Vec<u64>,
    lines: String,
}

impl KernelText {
    /// The name of an input.
    fn input(&mut self, value: Value) -> usize {
        self.inputs.iter().position(|v| *v == value).unwrap_or_else(|| {
            self.inputs.push(value);
            self.inputs.len() - 1
        })
    }
}

impl ChainBuilder<'_> {
    fn chain(&self, own: &[usize]) -> KernelChain {
        let results = |n: usize| self.graph.node(self.steps[n].node).results.iter().copied();
        let operands = |n: usize| self.graph.node(self.steps[n].node).operands.iter().copied();
        let made: Vec<Value> = own.iter().flat_map(|n| results(*n)).collect();
        let read: BTreeSet<Value> = self.group.steps.clone().filter(|n| !own.contains(n)).flat_map(operands).collect();
        let stays = |v: &Value| self.group.inner.iter().all(|inner| inner.value != *v) || read.contains(v);
        let outputs: Vec<Value> = made.iter().copied().filter(stays).collect();
        let like = made[0];
        let width = units(self.graph.ty(like)).1;
        let mut text = KernelText { made, ..KernelText::default() };
        for n in own {
            self.step(self.graph.node(self.steps[*n].node), width, &mut text);
        }
        for (n, value) in outputs.iter().enumerate() {
            let place = text.made.iter().position(|v| v == value).expect("outputs are made here");
            text.lines += &match self.any_width {
                true => format!("    put_at(y{n}, i, t{place}, widths >> {} & 1);\n", text.inputs.len() + n),
                false => format!("    y{n}[i] = t{place};\n"),
            };
        }
        let kernel = named(&text, outputs.len(), width, self.any_width);
        KernelChain { inputs: text.inputs, outputs, like, streams: text.streams, kernel, any_width: self.any_width }
    }

    /// A number of an input.
    fn read(&self, input: usize, place: &str) -> String {
        match self.any_width {
            true => format!("number_at(x{input}, {place}, widths >> {input} & 1)"),
            false => format!("x{input}[{place}]"),
        }
    }

    /// The lines of one step.
    fn step(&self, node: &Node, width: usize, text: &mut KernelText) {
        let mut operands: Vec<String> = vec![];
        for (k, &value) in node.operands.iter().enumerate() {
            let per_channel = node.op == Op::Affine && k > 0;
            let operand = match text.made.iter().position(|v| *v == value) {
                _ if per_channel => self.read(text.input(value), &format!("i % {width}")),
                Some(place) => format!("t{place}"),
                None => self.read(text.input(value), "i"),
            };
            operands.push(operand);
        }
        let place = |value: &Value| text.made.iter().position(|v| v == value).expect("its results were listed first");
        let first = place(&node.results[0]);
        let line = match node.op {
            Op::Dropout => {
                text.streams.push(stream(node));
                format!("    real t{first} = {};\n", dropout(node, &operands[0], text.streams.len() - 1))
            }
            Op::Affine => {
                let bias = operands.get(2).map_or("(real)0", String::as_str);
                format!("    real t{first} = {} * {} + {bias};\n", operands[1], operands[0])
            }
            _ => {
                let results = results(&node.attrs).expect("the shape rule has read the expressions");
                expressions(&results, &operands, first)
            }
        };
        text.lines += &line;
    }
}

/// A number as the kernels write it.
fn number(x: f64, kind: &str) -> String {
    match x {
        _ if x.is_nan() => format!("({kind})NOT_A_NUMBER"),
        f64::INFINITY => format!("(-({kind})MINUS_INFINITY)"),
        f64::NEG_INFINITY => format!("({kind})MINUS_INFINITY"),
        _ => format!("({kind}){x:?}"),
    }
}

/// Functions of numbers of a kind, step by step: the lines, which name the steps `{name}{n}`, and what each function gives.
pub(super) fn steps(exprs: &[Scalar], operands: &[String], name: &str, kind: &str) -> (String, Vec<String>) {
    let steps = PointwiseSteps::of(exprs);
    let source = |source: &NumberSource| match source {
        NumberSource::Operand(n) => operands[*n].clone(),
        NumberSource::Number(x) => number(*x, kind),
        NumberSource::Step(n) => format!("{name}{n}"),
    };
    let mut lines = String::new();
    for (n, step) in steps.steps.iter().enumerate() {
        let args: Vec<String> = step.args.iter().map(source).collect();
        let text = filled(step.func.def().cuda, &args).replace("(real)", &format!("({kind})"));
        lines += &format!("    {kind} {name}{n} = {text};\n");
    }
    (lines, steps.results.iter().map(source).collect())
}

/// The lines of a map whose results are `t{first}` and those behind it; what lies between has names of its own.
fn expressions(results: &[Scalar], operands: &[String], first: usize) -> String {
    let (mut lines, results) = steps(results, operands, &format!("s{first}_"), "real");
    for (n, result) in results.iter().enumerate() {
        lines += &format!("    real t{} = {result};\n", first + n);
    }
    lines
}

fn stream(node: &Node) -> u64 {
    node.get(attribute::STREAM) as u64
}

/// Dropout number `n` of a chain.
fn dropout(node: &Node, x: &str, n: usize) -> String {
    let keep = Keep::<f64>::new(node.get(attribute::P));
    let (threshold, factor) = (keep.threshold(), keep.factor());
    let at = if node.get(attribute::TIED) { "channel" } else { "place" };
    format!("kept(key_at(keys[{n}], ids[unit.row]), {at}, {threshold}) ? {x} * (real){factor:?} : (real)0")
}

/// The text of a function with the operands in the place of `a`, `b`, `c`.
fn filled(expression: &str, operands: &[String]) -> String {
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
        let place = ["a", "b", "c"].iter().position(|name| *name == word);
        out += place.and_then(|n| operands.get(n)).map_or(word, String::as_str);
        rest = after;
    }
    out
}

/// The kernel of an update by a formula: the weights and what is kept, the gradients, the shared numbers with the factor of the gradients
/// in front, and how many numbers there are. Shared numbers lie on the device: they change with every update, and the kernel stays.
pub fn of_formula(formula: &UpdateFormula) -> GeneratedKernel {
    let written = 1 + formula.kept().len();
    let parameters: String = (0..written).map(|n| format!("real *w{n}, ")).collect();
    let mut operands: Vec<String> = (0..written).map(|n| format!("w{n}[i]")).collect();
    operands.insert(1, "(numbers[0] * g[i])".to_owned());
    operands.extend((1..=formula.shared()).map(|n| format!("numbers[{n}]")));
    let results = expressions(formula.results(), &operands, 0);
    let stored: String = (0..written).map(|n| format!("    w{n}[i] = t{n};\n")).collect();
    let body =
        format!("({parameters}const real *g, const real *numbers, whole n) {{\n    EACH(i, n)\n{results}{stored}}}\n");
    hashed("update", &body)
}

/// A kernel named after what it does.
fn hashed(kind: &str, body: &str) -> GeneratedKernel {
    let hash: String = Sha256::digest(body).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{kind}_{hash}");
    GeneratedKernel { source: format!("KERNEL({name}){body}"), name }
}

/// The kernel of a text.
fn named(text: &KernelText, outputs: usize, width: usize, any_width: bool) -> GeneratedKernel {
    let number = if any_width { "void" } else { "real" };
    let mut parameters: String = (0..text.inputs.len()).map(|n| format!("const {number} *x{n}, ")).collect();
    parameters.extend((0..outputs).map(|n| format!("{number} *y{n}, ")));
    // A bit for each array.
    parameters += if any_width { "whole widths, " } else { "" };
    let mut begin = String::new();
    if !text.streams.is_empty() {
        parameters += "const u64 *ids, const u32 *row_of, const u32 *offsets, int per, const u64 *keys, ";
        begin += &format!("    Unit unit = unit_of(i / {width}, row_of, offsets, per);\n");
        begin += &format!("    u64 channel = i % {width}, place = unit.at * {width} + channel;\n");
    }
    let body = format!("({parameters}whole n) {{\n    EACH(i, n)\n{begin}{}}}\n", text.lines);
    hashed("chain", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_take_the_places_of_their_names() {
        let operands = ["t1".to_owned(), "x0[i]".to_owned()];
        assert_eq!(filled("sigmoid(a) * b", &operands), "sigmoid(t1) * x0[i]");
        assert_eq!(filled("a < 0 ? (real)0 : a", &operands), "t1 < 0 ? (real)0 : t1");
    }
}
