//! The verifier: checks that a graph means something.
//!
//! **Values.** Every operand is a result or a region parameter of this graph, defined before its use in the same
//! region or in a region around it. No value depends on itself.
//!
//! **Structure.** Every region ends with its only terminator: `return` for the outermost, `yield` for bodies. Loops have a
//! body and nothing else has. Inputs and parameters lie in the outermost region. `save` lies in the body of a
//! forward loop, at most one in each.
//!
//! **Types.** Operand count, attribute names and result types agree with the op's row. Attributes that an op cannot do
//! without are there and of their kind. Symbolic axes are those of a batch, those that only a task knows, and inside a
//! loop over slices the loop's own. A tape goes to one `save` or one `unwind` and nowhere else.
//!
//! **Names.** Inputs have distinct names, so have parameters. `return` names each of its operands. `accumulate` names a
//! parameter and adds a value of its type.
//!
//! **`recur`.** Region parameters: the carried types, then `step: u32[]`. Yields: the carried types, then at most one
//! `bool[batch]`. Results: the carried types, then a tape exactly when the body saves.
//!
//! **`chunks`.** Operands: `carried` starts, then sequences `[batch, over, ..]`. Region parameters: the carried types, then
//! one slice `[batch, axis, ..]` per sequence. Yields: the carried types, then outputs `[batch, axis, ..]`. Results:
//! the carried types, the outputs with `over` for `axis`, then a tape exactly when the body saves.
//!
//! **`fold`.** One operand: nodes `f32[batch, over, ..]`. Region parameter: `f32[batch, axis, ..]`. Yields: a vector
//! `f32[batch, ..]`, then numbers `f32[batch]`. Results: the same types, then a tape exactly when the body saves.
//!
//! **`beam`.** As a `fold`, with two region parameters: two nodes to be joined, `f32[batch, axis, ..]`, and what is scored: two
//! nodes, or with `compose: every` a vector `f32[batch, ..]`. Yields: a vector, numbers `f32[batch]`, and last the score
//! `f32[batch]`. Results: the vector, the numbers, a tape exactly when the body saves. The body has a `part` of each role.
//!
//! **`part`.** Lies in the body of a `beam`. Region parameter: the type of its operand. Results: the yielded types, then a tape
//! exactly when the body saves.
//!
//! **`unwind`.** Operands: the tape of a forward loop, `carried` cotangents, `outputs` cotangents `[batch, over, ..]`.
//! Region parameters: the carried types, one slice per output, then the saved values of the forward loop. Yields: the
//! carried types, `slices` of type `[batch, axis, ..]`, then captured contributions. Results: the same with `over`
//! for `axis` in the slices. Of a `fold`, the one carried value is a vector `[batch, ..]` as operand and parameter, nodes
//! `[batch, axis, ..]` as yielded value and nodes `[batch, over, ..]` as result; outputs are `f32[batch]`, and there are no slices. Of a `beam` the same; its last region parameter is the cotangent of the
//! score, its last yielded value that of the pair. Of a `part`, cotangents of its results give one of its operand.
//!
//! A graph without violations runs through every pass and the cost rules without panic. Not checked: element kinds of
//! operands beyond what shape rules ask, and whether a stream is meant to be shared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::document;
use super::graph::{Graph, MAIN, NewNode, Node, NodeId, RegionId, Value};
use super::loops;
use super::ops::{Flag, Op};
use super::text;
use super::types::{Attr, BATCH, CLASSES, Dim, Elem, FRAMED, LENGTH, PAIRS, Type, VOCAB, unframed};

/// A broken invariant. Always a fault of the compiler, never of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The text of the node, empty for the graph as a whole.
    pub node: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.node.is_empty() {
            write!(f, "{}", self.message)
        } else {
            write!(f, "{}\n  {}", self.message, self.node)
        }
    }
}

/// Checks every invariant of the module's list and gives all violations. Types and loops are looked at only when values
/// and structure are sound.
pub fn verify(graph: &Graph) -> Result<(), Vec<Violation>> {
    let mut checker = Checker { graph, names: document::names(graph), found: vec![] };
    checker.values();
    for node in graph.walk(MAIN) {
        checker.place(node);
    }
    checker.regions();
    if checker.found.is_empty() {
        let symbols = [BATCH, LENGTH, FRAMED, PAIRS, VOCAB, CLASSES].map(str::to_owned).into();
        checker.symbols(MAIN, &symbols);
        for node in graph.walk(MAIN) {
            checker.row(node);
            checker.attributes(node);
            match graph.node(node).op {
                Op::Recur => checker.recur(node),
                Op::Chunks => checker.chunks(node),
                Op::Fold => checker.fold(node),
                Op::Beam => checker.beam(node),
                Op::Part => checker.part(node),
                Op::Unwind => checker.unwind(node),
                _ => {}
            }
        }
        checker.tapes();
        checker.model_names();
    }
    if checker.found.is_empty() { Ok(()) } else { Err(checker.found) }
}

struct Checker<'g> {
    graph: &'g Graph,
    names: Vec<String>,
    found: Vec<Violation>,
}

impl Checker<'_> {
    fn say(&mut self, node: NodeId, message: impl Into<String>) {
        let node = text::node_line(&document::node_doc(self.graph, node, &self.names));
        self.found.push(Violation { node, message: message.into() });
    }

    fn say_graph(&mut self, message: impl Into<String>) {
        self.found.push(Violation { node: String::new(), message: message.into() });
    }

    // Values.

    fn values(&mut self) {
        let mut visible = BTreeSet::new();
        self.values_of(MAIN, &mut visible);
        if self.found.is_empty() && !self.graph.is_acyclic() {
            self.say_graph("a value depends on itself");
        }
    }

    fn values_of(&mut self, region: RegionId, visible: &mut BTreeSet<Value>) {
        let graph = self.graph;
        for &id in graph.nodes(region) {
            let node = graph.node(id);
            for (n, value) in node.operands.iter().enumerate() {
                if !visible.contains(value) {
                    let name = &self.names[value.index()];
                    let what = match name.as_str() {
                        "" => "is not a value of the graph".to_owned(),
                        name => format!("(%{name}) is not defined before, here or in a region around"),
                    };
                    self.say(id, format!("operand {n} {what}"));
                }
            }
            if let Some(body) = node.body {
                let mut inner = visible.clone();
                inner.extend(graph.params(body));
                self.values_of(body, &mut inner);
            }
            visible.extend(&node.results);
        }
    }

    // Structure.

    fn place(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let owner = self.graph.owner(node.region).map(|o| self.graph.node(o).op);
        if node.op.has(Flag::Loop) != node.body.is_some() {
            self.say(id, if node.body.is_some() { "only loops have a body" } else { "a loop needs a body" });
        }
        if node.op.has(Flag::Leaf) && node.region != MAIN {
            self.say(id, "inputs and parameters lie in the outermost region");
        }
        if node.op == Op::Save && !owner.is_some_and(loops::is_forward) {
            self.say(id, "`save` lies in the body of a forward loop");
        }
        let expected = if node.region == MAIN { Op::Return } else { Op::Yield };
        if node.op.has(Flag::Terminator) && node.op != expected {
            self.say(id, format!("this region ends with `{expected}`"));
        } else if node.op.has(Flag::Terminator) && self.graph.nodes(node.region).last() != Some(&id) {
            self.say(id, "a terminator stands before the end of its region");
        }
    }

    fn regions(&mut self) {
        let bodies: Vec<(Option<NodeId>, RegionId)> =
            self.graph.walk(MAIN).into_iter().filter_map(|n| Some((Some(n), self.graph.node(n).body?))).collect();
        for (owner, region) in [(None, MAIN)].into_iter().chain(bodies) {
            if self.graph.terminator(region).is_none() {
                match owner {
                    Some(owner) => self.say(owner, "the body does not end with `yield`"),
                    None => self.say_graph("the graph does not end with `return`"),
                }
            }
            let saves = self.graph.nodes(region).iter().filter(|n| self.graph.node(**n).op == Op::Save).count();
            if let (Some(owner), 2..) = (owner, saves) {
                self.say(owner, "the body has more than one `save`");
            }
        }
    }

    // Types.

    fn row(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let types: Vec<Type> = self.types(&node.results);
        let declared = node.op.has(Flag::Leaf) || node.op.has(Flag::Loop);
        let new = NewNode {
            op: node.op,
            operands: node.operands.clone(),
            attrs: node.attrs.clone(),
            types: if declared { types.clone() } else { vec![] },
            body: None,
            label: String::new(),
        };
        match self.graph.infer(&new) {
            Err(misfit) => self.say(id, misfit.0),
            Ok(inferred) if inferred != types => self.say(id, format!("the row gives {}", list(&inferred))),
            Ok(_) if node.op.has(Flag::Leaf) && types.len() != 1 => self.say(id, "a leaf gives one result"),
            Ok(_) => {}
        }
    }

    fn types(&self, values: &[Value]) -> Vec<Type> {
        values.iter().map(|v| self.graph.ty(*v).clone()).collect()
    }

    fn attributes(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        for name in required(node.op) {
            if !node.attrs.contains_key(name) {
                self.say(id, format!("attribute `{name}` is missing"));
            }
        }
        for (name, attr) in &node.attrs {
            if let Some(expected) = wrong_kind(name, attr) {
                self.say(id, format!("attribute `{name}` is not {expected}"));
            }
        }
    }

    /// Axes of every value defined in the region are known there.
    fn symbols(&mut self, region: RegionId, known: &BTreeSet<String>) {
        let graph = self.graph;
        for &id in graph.nodes(region) {
            let node = graph.node(id);
            self.axes(id, &node.results, known);
            if let Some(body) = node.body {
                let mut inner = known.clone();
                inner.extend(["axis", "filled"].into_iter().filter_map(|name| word(node, name)).map(str::to_owned));
                self.axes(id, graph.params(body), &inner);
                self.symbols(body, &inner);
            }
        }
    }

    fn axes(&mut self, id: NodeId, values: &[Value], known: &BTreeSet<String>) {
        let axes = values.iter().flat_map(|v| self.graph.ty(*v).dims());
        let unknown = axes.filter_map(Dim::symbol).find(|s| !known.contains(*s) && !known.contains(unframed(s).0));
        if let Some(symbol) = unknown {
            self.say(id, format!("no axis is called `{symbol}` here"));
        }
    }

    fn tapes(&mut self) {
        let mut reader: BTreeMap<Value, NodeId> = BTreeMap::new();
        for id in self.graph.walk(MAIN) {
            let node = self.graph.node(id);
            for (n, value) in node.operands.iter().enumerate() {
                if *self.graph.ty(*value) != Type::Tape {
                    continue;
                }
                if !(node.op == Op::Save || (node.op == Op::Unwind && n == 0)) {
                    self.say(id, "a tape goes to `save` or is the first operand of `unwind`");
                } else if reader.insert(*value, id).is_some() {
                    self.say(id, format!("the tape %{} is read twice", self.names[value.index()]));
                }
            }
        }
    }

    // Names.

    fn model_names(&mut self) {
        let (mut inputs, mut params) = (BTreeSet::new(), BTreeMap::new());
        for &id in self.graph.nodes(MAIN) {
            let node = self.graph.node(id);
            let name = word(node, "name").unwrap_or_default().to_owned();
            let fresh = match node.op {
                Op::Input => inputs.insert(name.clone()),
                Op::Param => params.insert(name.clone(), node.results[0]).is_none(),
                _ => true,
            };
            if !fresh {
                self.say(id, format!("the {} name `{name}` is taken", node.op));
            }
        }
        for id in self.graph.walk(MAIN) {
            let node = self.graph.node(id);
            if node.op == Op::Return {
                let names: Vec<&str> = word(node, "names").unwrap_or_default().split(',').map(str::trim).collect();
                let count = names.iter().filter(|n| !n.is_empty()).count();
                let distinct = names.iter().collect::<BTreeSet<_>>().len();
                if count != node.operands.len() || (count > 0 && distinct != count) {
                    self.say(id, "`return` names each of its operands, once");
                }
            }
            if node.op == Op::Accumulate {
                let param = word(node, "param").and_then(|p| params.get(p)).map(|p| self.graph.ty(*p));
                if param != node.operands.first().map(|x| self.graph.ty(*x)) {
                    self.say(id, "`accumulate` adds a value of the type of a parameter of this graph");
                }
            }
        }
    }

    // Loops.

    fn expect(&mut self, id: NodeId, what: &str, found: &[Type], expected: &[Type]) {
        if found != expected {
            self.say(id, format!("{what} are {}, expected {}", list(found), list(expected)));
        }
    }

    fn bodies(&self, id: NodeId) -> (Vec<Type>, Vec<Type>) {
        let params = self.graph.node(id).body.map_or(&[][..], |b| self.graph.params(b));
        (self.types(params), self.types(loops::yielded(self.graph, id)))
    }

    fn tape_type(&self, id: NodeId) -> Option<Type> {
        self.graph.node(id).body.and_then(|b| loops::save(self.graph, b)).map(|_| Type::Tape)
    }

    fn recur(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let carried = self.types(&node.operands);
        let (params, yields) = self.bodies(id);
        let with = |last: Option<Type>| [carried.clone(), last.into_iter().collect()].concat();
        self.expect(id, "region parameters", &params, &with(Some(Type::Tensor(Elem::Index, vec![]))));
        let go = (yields.len() > carried.len()).then(|| Type::Tensor(Elem::Bool, vec![Dim::sym(BATCH)]));
        self.expect(id, "yielded values", &yields, &with(go));
        self.expect(id, "results", &self.types(&node.results), &with(self.tape_type(id)));
    }

    fn chunks(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (word(node, "over"), word(node, "axis")) else { return };
        let operands = self.types(&node.operands);
        let parts = loops::layout(self.graph, id);
        if parts.carried > operands.len() {
            return self.say(id, format!("{} carried values of {} operands", parts.carried, operands.len()));
        }
        let (carried, sequences) = operands.split_at(parts.carried);
        let (params, yields) = self.bodies(id);
        let Some(slices) = self.sliced(id, "sequence", sequences, over, axis) else { return };
        self.expect(id, "region parameters", &params, &[carried, &slices].concat());
        let (kept, outputs) = yields.split_at(parts.carried.min(yields.len()));
        self.expect(id, "yielded carried values", kept, carried);
        let Some(outputs) = self.sliced(id, "output", outputs, axis, over) else { return };
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[carried, &outputs, &tape].concat());
    }

    fn fold(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (word(node, "over"), word(node, "axis")) else { return };
        let [nodes] = &self.types(&node.operands)[..] else { return self.say(id, "a fold has one operand") };
        let (params, yields) = self.bodies(id);
        let inside = replace_axis(nodes, over, axis).filter(Type::is_real);
        let Some(inside) = inside else {
            return self.say(id, format!("a fold takes f32[batch, {over}, ..], not {nodes}"));
        };
        self.expect(id, "region parameters", &params, &[inside]);
        let numbers = vec![Type::real([Dim::sym(BATCH)]); yields.len().saturating_sub(1)];
        let given = [vec![without_axis(nodes)], numbers].concat();
        self.expect(id, "yielded values", &yields, &given);
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[given, tape].concat());
    }

    fn beam(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (word(node, "over"), word(node, "axis")) else { return };
        let [nodes] = &self.types(&node.operands)[..] else { return self.say(id, "a search has one operand") };
        let (params, yields) = self.bodies(id);
        let Some(pair) = replace_axis(nodes, over, axis).filter(Type::is_real) else {
            return self.say(id, format!("a search takes f32[batch, {over}, ..], not {nodes}"));
        };
        let scored = if word(node, "compose") == Some("every") { without_axis(nodes) } else { pair.clone() };
        self.expect(id, "region parameters", &params, &[pair, scored]);
        let number = Type::real([Dim::sym(BATCH)]);
        let numbers = vec![number.clone(); yields.len().saturating_sub(2)];
        let given = [vec![without_axis(nodes)], numbers].concat();
        self.expect(id, "yielded values", &yields, &[given.clone(), vec![number]].concat());
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[given, tape].concat());
        let Some(body) = node.body else { return };
        if ["join", "score"].iter().any(|role| loops::part(self.graph, body, role).is_none()) {
            self.say(id, "the body of a search has a part that joins and one that scores");
        }
    }

    fn part(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if self.graph.owner(node.region).map(|owner| self.graph.node(owner).op) != Some(Op::Beam) {
            return self.say(id, "a part lies in the body of a `beam`");
        }
        let operands = self.types(&node.operands);
        if operands.len() != 1 {
            return self.say(id, "a part has one operand");
        }
        let (params, yields) = self.bodies(id);
        self.expect(id, "region parameters", &params, &operands);
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[yields, tape].concat());
    }

    /// The `unwind` of `forward`, which is a part.
    fn unwind_part(&mut self, id: NodeId, forward: NodeId) {
        let (node, forward) = (self.graph.node(id), self.graph.node(forward));
        let parts = loops::layout(self.graph, id);
        let (Some(x), Some(body)) = (forward.operands.first(), forward.body) else { return };
        let x = self.graph.ty(*x).clone();
        let save = loops::save(self.graph, body);
        let saved = save.map_or(vec![], |s| self.types(&self.graph.node(s).operands));
        let seeds = self.types(&node.operands)[1..].to_vec();
        let (params, yields) = self.bodies(id);
        self.expect(id, "region parameters", &params, &[seeds, saved].concat());
        if parts.carried > 1 || parts.carried > yields.len() {
            return self.say(id, format!("{} carried values of a part", parts.carried));
        }
        self.expect(id, "yielded carried values", &yields[..parts.carried], &vec![x; parts.carried]);
        self.expect(id, "results", &self.types(&node.results), &yields);
    }

    /// The `unwind` of `forward`, which is a fold or a search.
    fn unwind_fold(&mut self, id: NodeId, forward: NodeId) {
        let node = self.graph.node(id);
        let forward = self.graph.node(forward);
        let parts = loops::layout(self.graph, id);
        let (Some(nodes), Some(body)) = (forward.operands.first(), forward.body) else { return };
        let nodes = self.graph.ty(*nodes).clone();
        let save = loops::save(self.graph, body);
        let saved = save.map_or(vec![], |s| self.types(&self.graph.node(s).operands));
        let numbers = vec![Type::real([Dim::sym(BATCH)]); parts.sliced];
        let seeds = [vec![without_axis(&nodes); parts.carried], numbers].concat();
        self.expect(id, "operands", &self.types(&node.operands), &[vec![Type::Tape], seeds.clone()].concat());
        let (params, yields) = self.bodies(id);
        let number: Vec<Type> = (0..parts.step).map(|_| Type::real([Dim::sym(BATCH)])).collect();
        self.expect(id, "region parameters", &params, &[seeds, saved, number].concat());
        let (over, axis) = (word(node, "over").unwrap_or_default(), word(node, "axis").unwrap_or_default());
        let Some(inside) = replace_axis(&nodes, over, axis) else {
            return self.say(id, format!("the nodes of the fold have no axis {over}"));
        };
        if parts.carried > 1 || parts.carried > yields.len() {
            return self.say(id, format!("{} carried values of a fold", parts.carried));
        }
        let (kept, captured) = yields[..yields.len().saturating_sub(parts.go)].split_at(parts.carried);
        self.expect(id, "yielded carried values", kept, &vec![inside; parts.carried]);
        let results = [vec![nodes; parts.carried], captured.to_vec()].concat();
        self.expect(id, "results", &self.types(&node.results), &results);
    }

    fn unwind(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (over, axis) = (word(node, "over").unwrap_or_default(), word(node, "axis").unwrap_or_default());
        let operands = self.types(&node.operands);
        let Some(forward) = node.operands.first().and_then(|t| loops::forward(self.graph, *t)) else {
            return self.say(id, "the first operand is not the tape of a forward loop");
        };
        let of = self.graph.node(forward).op;
        let has = |name: &str| node.attrs.contains_key(name);
        let folds = of == Op::Beam || (of == Op::Fold) == has("arity");
        if !folds || (of == Op::Beam) != has("beams") || (of == Op::Part) != has("role") {
            return self.say(id, "an `unwind` has the `arity`, `beams` or `role` of its forward loop");
        }
        match of {
            Op::Fold | Op::Beam => return self.unwind_fold(id, forward),
            Op::Part => return self.unwind_part(id, forward),
            _ => {}
        }
        let save = self.graph.node(forward).body.and_then(|b| loops::save(self.graph, b));
        let saved = save.map_or(vec![], |s| self.types(&self.graph.node(s).operands));
        let parts = loops::layout(self.graph, id);
        if 1 + parts.carried + parts.sliced != operands.len() {
            let count = operands.len();
            return self.say(id, format!("{} carried, {} outputs, {count} operands", parts.carried, parts.sliced));
        }
        let (carried, outputs) = operands[1..].split_at(parts.carried);
        let (params, yields) = self.bodies(id);
        let Some(outputs) = self.sliced(id, "output", outputs, over, axis) else { return };
        self.expect(id, "region parameters", &params, &[carried, &outputs, &saved].concat());
        let slices = node.attrs.get("slices").and_then(Attr::int).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        let (kept, rest) = yields.split_at(parts.carried.min(yields.len()));
        self.expect(id, "yielded carried values", kept, carried);
        if slices > rest.len() {
            return self.say(id, format!("{slices} slices, {} yielded values", yields.len()));
        }
        let (slices, captured) = rest.split_at(slices);
        let Some(slices) = self.sliced(id, "slice", slices, axis, over) else { return };
        self.expect(id, "results", &self.types(&node.results), &[carried, &slices, captured].concat());
    }

    /// The types with `to` for the second axis, which must be `from`.
    fn sliced(&mut self, id: NodeId, what: &str, types: &[Type], from: &str, to: &str) -> Option<Vec<Type>> {
        let out: Option<Vec<Type>> = types.iter().map(|t| replace_axis(t, from, to)).collect();
        if out.is_none() {
            self.say(id, format!("{what}s have the axes [batch, {from}, ..], these are {}", list(types)));
        }
        out
    }
}

fn replace_axis(ty: &Type, from: &str, to: &str) -> Option<Type> {
    let Type::Tensor(elem, dims) = ty else { return None };
    if !ty.is_batched() || ty.ragged() != Some(from) {
        return None;
    }
    let mut dims = dims.clone();
    dims[1] = Dim::sym(to);
    Some(Type::Tensor(*elem, dims))
}

/// The type without its second axis.
fn without_axis(ty: &Type) -> Type {
    let dims = ty.dims().iter().enumerate().filter(|(n, _)| *n != 1).map(|(_, d)| d.clone());
    Type::real(dims.collect::<Vec<_>>())
}

fn word<'n>(node: &'n Node, name: &str) -> Option<&'n str> {
    node.attrs.get(name).and_then(Attr::text)
}

fn list(types: &[Type]) -> String {
    if types.is_empty() {
        return "nothing".to_owned();
    }
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Attributes without which an op has no meaning.
fn required(op: Op) -> &'static [&'static str] {
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
        Op::Return => &["names"],
        op => op.def().attrs,
    }
}

/// What an attribute of this name must be, if it is not.
fn wrong_kind(name: &str, attr: &Attr) -> Option<&'static str> {
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
        "value" | "by" | "eps" | "threshold" => (attr.float().is_some(), "a number"),
        "when" | "transpose" | "flat" | "tied" | "keep_best" => (one_of(&["true", "false"]), "`true` or `false`"),
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
