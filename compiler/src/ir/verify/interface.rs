//! The interfaces of loops: what goes into a region, what it yields, what the node gives.
//!
//! **`recur`.** Region parameters: the carried types, then `step: u32[]`. Yields: the carried types, then at most one
//! `bool[batch]`. Results: the carried types, then a tape exactly when the body saves.
//!
//! **`chunks`.** Operands: `carried` starts, then sequences `[batch, over, ..]`. Region parameters: the carried types, then
//! one slice `[batch, axis, ..]` per sequence. Yields: the carried types, then outputs `[batch, axis, ..]`. Results:
//! the carried types, the outputs with `over` for `axis`, then a tape exactly when the body saves. With `cut: chosen` nothing is
//! carried, the first sequence is `f32[batch, over]`, and what looks at places along `axis` is a rotation, or an attention whose mask
//! is `all` or `causal`: others would count chosen positions one by one.
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
//! `[batch, axis, ..]` as yielded value and nodes `[batch, over, ..]` as result; outputs are `f32[batch]`, and there are no
//! slices. Of a `beam` the same; its last region parameter is the cotangent of the score, its last yielded value that of the
//! pair. Of a `part`, cotangents of its results give one of its operand.

use super::{GraphChecker, list};
use crate::ir::attribute::{self, Chunking, Compose, Mask, Role};
use crate::ir::graph::{Graph, Node, NodeId, RegionId, Value, ValueOrigin};
use crate::ir::loops;
use crate::ir::ops::Op;
use crate::ir::types::{BATCH, Dim, Elem, Type, unframed};

impl GraphChecker<'_> {
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

    pub(super) fn recur(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let carried = self.types(&node.operands);
        if loops::counts_length(self.graph, id) && !carried.iter().any(|ty| ty.ragged().is_some()) {
            self.say(id, "its bound reads the length, and no carried value is a sequence");
        }
        let (params, yields) = self.bodies(id);
        let with = |last: Option<Type>| [carried.clone(), last.into_iter().collect()].concat();
        self.expect(id, "region parameters", &params, &with(Some(Type::Tensor(Elem::Index, vec![]))));
        let go = (yields.len() > carried.len()).then(|| Type::Tensor(Elem::Bool, vec![Dim::sym(BATCH)]));
        self.expect(id, "yielded values", &yields, &with(go));
        self.expect(id, "results", &self.types(&node.results), &with(self.tape_type(id)));
    }

    pub(super) fn chunks(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (node.find(attribute::OVER), node.find(attribute::AXIS)) else { return };
        let operands = self.types(&node.operands);
        let parts = loops::layout(self.graph, id);
        if parts.carried > operands.len() {
            return self.say(id, format!("{} carried values of {} operands", parts.carried, operands.len()));
        }
        let (carried, sequences) = operands.split_at(parts.carried);
        if node.get(attribute::CUT) == Chunking::Chosen {
            let choice = Type::real([Dim::sym(BATCH), Dim::sym(over)]);
            if !carried.is_empty() || sequences.first() != Some(&choice) {
                return self.say(id, format!("nothing is carried, and the first sequence is the choice, {choice}"));
            }
            if let Some(found) = node.body.and_then(|body| uncounted(self.graph, body, (over, axis))) {
                self.say(id, format!("`{}` can't tell how far chosen positions are from one another", found.op));
            }
        }
        let (params, yields) = self.bodies(id);
        let Some(slices) = self.sliced(id, "sequence", sequences, over, axis) else { return };
        self.expect(id, "region parameters", &params, &[carried, &slices].concat());
        let (kept, outputs) = yields.split_at(parts.carried.min(yields.len()));
        self.expect(id, "yielded carried values", kept, carried);
        let Some(outputs) = self.sliced(id, "output", outputs, axis, over) else { return };
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[carried, &outputs, &tape].concat());
    }

    pub(super) fn fold(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (node.find(attribute::OVER), node.find(attribute::AXIS)) else { return };
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

    pub(super) fn beam(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (Some(over), Some(axis)) = (node.find(attribute::OVER), node.find(attribute::AXIS)) else { return };
        let [nodes] = &self.types(&node.operands)[..] else { return self.say(id, "a search has one operand") };
        let (params, yields) = self.bodies(id);
        let Some(pair) = replace_axis(nodes, over, axis).filter(Type::is_real) else {
            return self.say(id, format!("a search takes f32[batch, {over}, ..], not {nodes}"));
        };
        let scored = if node.get(attribute::COMPOSE) == Compose::Every { without_axis(nodes) } else { pair.clone() };
        self.expect(id, "region parameters", &params, &[pair, scored]);
        let number = Type::real([Dim::sym(BATCH)]);
        let numbers = vec![number.clone(); yields.len().saturating_sub(2)];
        let given = [vec![without_axis(nodes)], numbers].concat();
        self.expect(id, "yielded values", &yields, &[given.clone(), vec![number]].concat());
        let tape: Vec<Type> = self.tape_type(id).into_iter().collect();
        self.expect(id, "results", &self.types(&node.results), &[given, tape].concat());
        let Some(body) = node.body else { return };
        let [join, score] = [Role::Join, Role::Score].map(|role| loops::part(self.graph, body, role));
        let (Some(join), Some(score)) = (join, score) else {
            return self.say(id, "the body of a search has a part that joins and one that scores");
        };
        let Some((last, joined)) = loops::yielded(self.graph, id).split_last() else { return };
        let made = |value: Value, part: NodeId| matches!(self.graph.def(value), ValueOrigin::Result(maker, _) if maker == part);
        if !made(*last, score) || !joined.iter().all(|value| made(*value, join)) {
            self.say(id, "the body of a search yields what its part joins, and then what its part scores");
        }
    }

    pub(super) fn part(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        if self.graph.owner(node.region).map(|owner| self.graph.node(owner).op) != Some(Op::Beam) {
            return self.say(id, "a part lies in the body of a `beam`");
        }
        let operands = self.types(&node.operands);
        if operands.len() != 1 {
            return self.say(id, "a part has one operand");
        }
        let beside = |v: &Value| match self.graph.def(*v) {
            ValueOrigin::Result(maker, _) => self.graph.node(maker).region == node.region,
            ValueOrigin::Param(region, _) => region == node.region,
        };
        let inside = node.body.map_or(vec![], |body| self.graph.walk(body));
        if inside.iter().any(|inner| self.graph.node(*inner).operands.iter().any(beside)) {
            self.say(id, "a part reads its own rows and what stands around the search, not what the other part made");
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
        let (over, axis) =
            (node.find(attribute::OVER).unwrap_or_default(), node.find(attribute::AXIS).unwrap_or_default());
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

    pub(super) fn unwind(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        let (over, axis) =
            (node.find(attribute::OVER).unwrap_or_default(), node.find(attribute::AXIS).unwrap_or_default());
        let operands = self.types(&node.operands);
        let Some(forward) = node.operands.first().and_then(|t| loops::forward(self.graph, *t)) else {
            return self.say(id, "the first operand is not the tape of a forward loop");
        };
        let of = self.graph.node(forward).op;
        let folds = of == Op::Beam || (of == Op::Fold) == node.has(attribute::ARITY);
        if !folds || (of == Op::Beam) != node.has(attribute::BEAMS) || (of == Op::Part) != node.has(attribute::ROLE) {
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
        let slices = node.get(attribute::SLICES);
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

/// A node of a region that counts the positions of an axis one by one, where only those are there that were chosen of the axis `over`.
/// A rotation knows their places, and so does an attention of theirs to the keys of whole rows.
pub fn uncounted<'g>(graph: &'g Graph, region: RegionId, (over, axis): (&str, &str)) -> Option<&'g Node> {
    let is = |v: &Value, name: &str| graph.ty(*v).ragged().is_some_and(|own| unframed(own).0 == name);
    let counts = |node: &Node| match (node.op, &node.operands[..]) {
        (Op::AddPosition | Op::TopKeys | Op::Frame, operands) => operands.iter().any(|v| is(v, axis)),
        (Op::Attention, [queries, keys, ..]) if is(queries, axis) || is(keys, axis) => {
            let mask = node.get(attribute::MASK);
            let known = is(queries, axis) && (is(keys, axis) || graph.ty(*keys).ragged() == Some(over));
            let past = mask == Mask::Causal && !known && graph.ty(*keys).ragged().is_some();
            node.has(attribute::POSITION) || past
        }
        _ => false,
    };
    graph.walk(region).into_iter().map(|id| graph.node(id)).find(|node| counts(node))
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
