//! The parameters of a model as a tree of PyTorch modules, under the names that they have in the spec.

use rtc_compiler::ir::attribute;
use std::collections::{BTreeMap, BTreeSet};

use rtc_compiler::ir::graph::{Graph, MAIN, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Dim;

use super::code::Code;
use super::python::{is_argument, is_attribute, repr};
use crate::Refused;
use crate::weights::Weight;

/// A part of the model.
#[derive(Debug, PartialEq)]
enum TorchModule {
    /// A parameter of this shape.
    Parameter(Vec<usize>),
    /// `nn.Linear`: inputs, outputs, and whether it has a bias.
    Linear(usize, usize, bool),
    /// `nn.LayerNorm`: width, epsilon, and whether it has a bias.
    Norm(usize, f64, bool),
    /// Parts by their names.
    Slots(Vec<(String, TorchModule)>),
}

/// All parameters of a graph, and how the code reaches them.
pub(super) struct ModuleParameters {
    top: Vec<(String, TorchModule)>,
    names: BTreeMap<Value, String>,
}

impl ModuleParameters {
    /// The tree of the parameters of a graph whose sizes are known, and of further `weights`, which a file of them holds although no
    /// result reads them.
    pub(super) fn new(graph: &Graph, weights: &[Weight<'_>]) -> Result<Self, Refused> {
        let mut parts = Self { top: vec![], names: BTreeMap::new() };
        let modules = modules(graph, weights);
        let mut read = BTreeSet::new();
        for &id in graph.nodes(MAIN) {
            let node = graph.node(id);
            let (Op::Param, Some(name)) = (node.op, node.find(attribute::NAME)) else { continue };
            parts.names.insert(node.results[0], name.to_owned());
            read.insert(name);
            let shape: Vec<usize> = graph.ty(node.results[0]).dims().iter().filter_map(Dim::fixed).collect();
            let (path, last) = name.rsplit_once('.').unwrap_or(("", name));
            match modules.get(path) {
                Some(module) => module.clone_into_tree(&mut parts.top, path, last, &shape)?,
                None => insert(&mut parts.top, name, TorchModule::Parameter(shape))?,
            }
        }
        for unread in weights.iter().filter(|weight| !read.contains(weight.name)) {
            insert(&mut parts.top, unread.name, TorchModule::Parameter(unread.shape.to_vec()))?;
        }
        Ok(parts)
    }

    /// The name of a value that is a parameter.
    pub(super) fn name(&self, value: Value) -> Option<&str> {
        self.names.get(&value).map(String::as_str)
    }

    /// The module `nn.Linear` or `nn.LayerNorm` that a parameter belongs to.
    pub(super) fn module(&self, value: Value) -> Option<&str> {
        let (path, _) = self.name(value)?.rsplit_once('.')?;
        match find(&self.top, path)? {
            TorchModule::Linear(..) | TorchModule::Norm(..) => Some(path),
            _ => None,
        }
    }

    /// How code reaches a part: `self.stack[0].self.query`, or `layer.self.query` in the code of the copy `stack.0`.
    pub(super) fn path(&self, name: &str, copy: Option<&str>) -> Code {
        let inside = copy.filter(|copy| name.strip_prefix(*copy).is_some_and(|rest| rest.starts_with('.')));
        let skip = inside.map_or(0, |copy| copy.split('.').count());
        let mut code = Code::atom(if inside.is_some() { "layer" } else { "self" });
        let mut here = Some(&self.top);
        for (n, word) in name.split('.').enumerate() {
            let list = n > 0 && here.is_some_and(|parts| is_list(parts));
            if n >= skip {
                code = match list {
                    true => code.at(word),
                    false if is_attribute(word) => code.dot(word),
                    false => code.at(&repr(word)),
                };
            }
            here = here.and_then(|parts| match &parts.iter().find(|(name, _)| name == word)?.1 {
                TorchModule::Slots(parts) => Some(parts),
                _ => None,
            });
        }
        code
    }

    /// Whether the module has something under this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.top.iter().any(|(own, _)| own == name)
    }

    /// Whether a slot holds so many parts that are numbered.
    pub(super) fn is_list(&self, slot: &str, count: usize) -> bool {
        matches!(find(&self.top, slot), Some(TorchModule::Slots(parts)) if parts.len() == count && is_list(parts))
    }

    /// The statements that make the parts.
    pub(super) fn code(&self) -> String {
        let line = |(name, part): &(String, TorchModule)| match is_attribute(name) {
            true => format!("        self.{name} = {}\n", write(part, 2)),
            false => format!("        self.hold({}, {})\n", repr(name), write(part, 2)),
        };
        self.top.iter().map(line).collect()
    }
}

/// What a group of `weight` and `bias` is used for.
enum Module {
    Linear,
    Norm(f64),
}

impl Module {
    /// Adds one of its parameters to the tree.
    fn clone_into_tree(
        &self,
        top: &mut Vec<(String, TorchModule)>,
        path: &str,
        last: &str,
        shape: &[usize],
    ) -> Result<(), Refused> {
        let part = match (self, shape) {
            (Self::Norm(eps), [width]) => TorchModule::Norm(*width, *eps, last == "bias"),
            (Self::Linear, [outputs, inputs]) => TorchModule::Linear(*inputs, *outputs, false),
            _ => TorchModule::Parameter(shape.to_vec()),
        };
        match at(top, path) {
            Some(TorchModule::Linear(_, _, bias) | TorchModule::Norm(_, _, bias)) if last == "bias" => *bias = true,
            Some(_) => {}
            None => insert(top, path, part)?,
        }
        Ok(())
    }
}

/// The groups of parameters all of whose uses are those of one kind of module.
fn modules(graph: &Graph, weights: &[Weight<'_>]) -> BTreeMap<String, Module> {
    let name = |value: Value| {
        let node = graph.node(graph.producer(value)?);
        (node.op == Op::Param).then(|| node.find(attribute::NAME)).flatten()
    };
    let mut found: BTreeMap<String, Option<Module>> = BTreeMap::new();
    for id in graph.walk(MAIN) {
        let kind = kind(graph, id, weights, &name);
        for path in graph.node(id).operands.iter().filter_map(|v| Some(name(*v)?.rsplit_once('.')?.0)) {
            let own = kind.as_ref().filter(|(of, _)| of == path).map(|(_, eps)| *eps);
            let module = own.map(|eps| eps.map_or(Module::Linear, Module::Norm));
            match (found.get(path), &module) {
                (None, _) => drop(found.insert(path.to_owned(), module)),
                (Some(Some(Module::Linear)), Some(Module::Linear)) => {}
                (Some(Some(Module::Norm(a))), Some(Module::Norm(b))) if a == b => {}
                _ => drop(found.insert(path.to_owned(), None)),
            }
        }
    }
    found.into_iter().filter_map(|(path, module)| Some((path, module?))).collect()
}

/// The group that a `linear` or `layer_norm` takes all its parameters from, and the epsilon of a norm.
fn kind<'g>(
    graph: &'g Graph,
    id: NodeId,
    weights: &[Weight<'_>],
    name: &impl Fn(Value) -> Option<&'g str>,
) -> Option<(String, Option<f64>)> {
    let node = graph.node(id);
    let eps = match node.op {
        Op::Linear => None,
        Op::LayerNorm => Some(node.get(attribute::EPS)),
        _ => return None,
    };
    let path = name(node.operands[1])?.strip_suffix(".weight")?;
    let bias = node.operands.get(2).is_none_or(|bias| name(*bias) == Some(&format!("{path}.bias")));
    // What the group holds besides is in no module.
    let prefix = format!("{path}.");
    let parameters = graph.parameters();
    let names = parameters.iter().map(|own| own.name.as_str()).chain(weights.iter().map(|weight| weight.name));
    let held = names.filter(|own| own.starts_with(&prefix)).collect::<BTreeSet<_>>().len();
    (bias && held == node.operands.len() - 1).then(|| (path.to_owned(), eps))
}

fn at<'p>(parts: &'p mut [(String, TorchModule)], path: &str) -> Option<&'p mut TorchModule> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let part = &mut parts.iter_mut().find(|(name, _)| name == first)?.1;
    match (rest, part) {
        (None, part) => Some(part),
        (Some(rest), TorchModule::Slots(parts)) => at(parts, rest),
        _ => None,
    }
}

fn find<'p>(parts: &'p [(String, TorchModule)], path: &str) -> Option<&'p TorchModule> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let part = &parts.iter().find(|(name, _)| name == first)?.1;
    match (rest, part) {
        (None, part) => Some(part),
        (Some(rest), TorchModule::Slots(parts)) => find(parts, rest),
        _ => None,
    }
}

fn insert(parts: &mut Vec<(String, TorchModule)>, path: &str, part: TorchModule) -> Result<(), Refused> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let place = parts.iter_mut().find(|(name, _)| name == first).map(|(_, part)| part);
    match (rest, place) {
        (None, None) => parts.push((first.to_owned(), part)),
        (Some(rest), None) => {
            let mut inner = vec![];
            insert(&mut inner, rest, part)?;
            parts.push((first.to_owned(), TorchModule::Slots(inner)));
        }
        (Some(rest), Some(TorchModule::Slots(inner))) => insert(inner, rest, part)?,
        _ => return Err(Refused(format!("the parameter `{path}`, whose name is part of the path of another one,"))),
    }
    Ok(())
}

/// Whether the parts are numbered from 0 on.
fn is_list(parts: &[(String, TorchModule)]) -> bool {
    parts
        .iter()
        .enumerate()
        .all(|(n, (name, part))| *name == n.to_string() && !matches!(part, TorchModule::Parameter(_)))
}

/// The longest line of code.
const WIDTH: usize = 120;

fn write(part: &TorchModule, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    match part {
        TorchModule::Parameter(shape) => {
            format!("parameter({})", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        TorchModule::Linear(inputs, outputs, true) => format!("nn.Linear({inputs}, {outputs})"),
        TorchModule::Linear(inputs, outputs, false) => format!("nn.Linear({inputs}, {outputs}, bias=False)"),
        TorchModule::Norm(width, eps, true) => format!("nn.LayerNorm({width}, eps={eps:?})"),
        TorchModule::Norm(width, eps, false) => format!("nn.LayerNorm({width}, eps={eps:?}, bias=False)"),
        TorchModule::Slots(parts) if is_list(parts) => {
            let alike = parts.iter().all(|(_, part)| *part == parts[0].1);
            if alike {
                let one = write(&parts[0].1, depth);
                return format!("nn.ModuleList({one} for _ in range({}))", parts.len());
            }
            let lines = parts.iter().map(|(_, part)| format!("{indent}    {},\n", write(part, depth + 1)));
            format!("nn.ModuleList([\n{}{indent}])", lines.collect::<String>())
        }
        TorchModule::Slots(parts) => slots(parts, depth, &indent),
    }
}

fn slots(parts: &[(String, TorchModule)], depth: usize, indent: &str) -> String {
    let entry = |(name, part): &(String, TorchModule)| match is_argument(name) {
        true => format!("{name}={}", write(part, depth + 1)),
        false => format!("**{{{}: {}}}", repr(name), write(part, depth + 1)),
    };
    let entries: Vec<String> = parts.iter().map(entry).collect();
    let line = format!("Slots({})", entries.join(", "));
    if indent.len() + line.len() < WIDTH - 20 && !line.contains('\n') {
        return line;
    }
    let lines: String = entries.iter().map(|entry| format!("{indent}    {entry},\n")).collect();
    format!("Slots(\n{lines}{indent})")
}
