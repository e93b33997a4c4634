//! The graph itself: nodes, values and regions behind ids. The only file that knows petgraph.
//!
//! A node lies in one region, in execution order; it may own a region (a loop's body). A value is a result of a node or
//! a parameter of a region. A body may use values of the regions around it. Edges of the petgraph lead from the
//! node that defines a value (or that owns the region whose parameter it is) to each node that uses it.

use super::attribute::{self, AttributeKey, AttributeKind, Attrs, Behind, ParameterRole};
use std::fmt;

use petgraph::Direction;
use petgraph::stable_graph::{NodeIndex, StableDiGraph};
use petgraph::visit::EdgeRef;

use super::ops::{Flag, Op};
use super::pointwise;
use super::shape::Signature;
use super::types::{Attr, Type};

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);

/// A region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);

/// The outermost region.
pub const MAIN: RegionId = RegionId(0);

/// The names of what every batch has: no other input has one of them.
pub const INPUTS: [&str; 5] = ["tokens", "labels", "weights", "lengths", "depths"];

impl Value {
    /// A number for side tables, below `Graph::value_count`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// A number that is unique in the graph, for keys.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl RegionId {
    /// A number for side tables, below `Graph::region_count`.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// What it takes.
    pub operands: Vec<Value>,
    /// Its constants.
    pub attrs: Attrs,
    /// What it gives.
    pub results: Vec<Value>,
    /// The body of a loop.
    pub body: Option<RegionId>,
    /// The region that it lies in.
    pub region: RegionId,
    /// The slot of the spec that it comes from: `depthwise.gate`.
    pub label: String,
}

impl Node {
    /// The name of its results where they have no other: the op, or the outermost function of a map.
    pub fn hint(&self) -> &'static str {
        pointwise::outermost(self).map_or(self.op.def().name, |func| func.def().name)
    }

    /// The value of an attribute, or what its absence says.
    pub fn get<K: AttributeKind>(&self, key: AttributeKey<K>) -> K::Of<'_> {
        self.attrs.get(key)
    }

    /// The value of an attribute that the node may do without.
    pub fn find<K: AttributeKind>(&self, key: AttributeKey<K>) -> Option<K::Of<'_>> {
        self.attrs.find(key)
    }

    /// Whether the node has an attribute.
    pub fn has<K: AttributeKind>(&self, key: AttributeKey<K>) -> bool {
        self.attrs.has(key)
    }

    /// The last operands of an attention, by what they are.
    pub fn behind(&self) -> Behind {
        let stopped = if self.op == Op::Attention && self.has(attribute::STOP) { 2 } else { 0 };
        self.attrs.behind(self.operands.len().saturating_sub(stopped))
    }
}

/// The origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The n-th result of a node.
    Result(NodeId, usize),
    /// The n-th parameter of a region.
    Param(RegionId, usize),
}

#[derive(Clone, Debug)]
struct ValueData {
    def: ValueOrigin,
    ty: Type,
    hint: String,
}

#[derive(Clone, Debug, Default)]
struct Region {
    params: Vec<Value>,
    nodes: Vec<NodeId>,
    owner: Option<NodeId>,
}

/// What a new node is made of; results and region are filled in by the graph.
#[derive(Clone, Debug)]
pub struct NewNode {
    /// What it does.
    pub op: Op,
    /// What it takes.
    pub operands: Vec<Value>,
    /// Its constants.
    pub attrs: Attrs,
    /// Result types, for ops whose row says `declared`; otherwise left empty.
    pub types: Vec<Type>,
    /// The body of a loop.
    pub body: Option<RegionId>,
    /// The slot of the spec.
    pub label: String,
}

/// A node that does not fit its op's row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidNode(pub String);

/// A graph of regions.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The name of the model.
    pub name: String,
    nodes: StableDiGraph<Node, Value>,
    values: Vec<ValueData>,
    regions: Vec<Region>,
}

fn at(node: NodeId) -> NodeIndex {
    NodeIndex::new(node.0 as usize)
}

fn id(index: NodeIndex) -> NodeId {
    NodeId(u32::try_from(index.index()).expect("a graph has fewer than 2^32 nodes"))
}

impl Graph {
    /// An empty graph.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), nodes: StableDiGraph::new(), values: vec![], regions: vec![Region::default()] }
    }

    /// The node behind an id.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[at(node)]
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &Type {
        &self.values[value.index()].ty
    }

    /// The name that a value would like to have in the text form.
    pub fn hint(&self, value: Value) -> &str {
        &self.values[value.index()].hint
    }

    /// Gives a value a name for the text form.
    pub fn set_hint(&mut self, value: Value, hint: &str) {
        hint.clone_into(&mut self.values[value.index()].hint);
    }

    /// Gives the name of `old` to `new`, unless it only says what made `old`.
    pub fn hand_on_hint(&mut self, old: Value, new: Value) {
        let hint = self.hint(old).to_owned();
        if self.producer(old).is_none_or(|node| self.node(node).hint() != hint) {
            self.set_hint(new, &hint);
        }
    }

    /// Where a value comes from.
    pub fn def(&self, value: Value) -> ValueOrigin {
        self.values[value.index()].def
    }

    /// The node that defines a value, `None` for region parameters.
    pub fn producer(&self, value: Value) -> Option<NodeId> {
        match self.def(value) {
            ValueOrigin::Result(node, _) => Some(node),
            ValueOrigin::Param(..) => None,
        }
    }

    /// One more than the largest value index.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }

    /// Number of regions ever made.
    pub fn region_count(&self) -> usize {
        self.regions.len()
    }

    /// Nodes of a region in execution order.
    pub fn nodes(&self, region: RegionId) -> &[NodeId] {
        &self.regions[region.index()].nodes
    }

    /// Parameters of a region.
    pub fn params(&self, region: RegionId) -> &[Value] {
        &self.regions[region.index()].params
    }

    /// The node whose body the region is.
    pub fn owner(&self, region: RegionId) -> Option<NodeId> {
        self.regions[region.index()].owner
    }

    /// The region around a region.
    pub fn parent(&self, region: RegionId) -> Option<RegionId> {
        self.owner(region).map(|n| self.node(n).region)
    }

    /// The region in which a value is defined.
    pub fn scope(&self, value: Value) -> RegionId {
        match self.def(value) {
            ValueOrigin::Result(node, _) => self.node(node).region,
            ValueOrigin::Param(region, _) => region,
        }
    }

    /// True when `inner` is `outer` or lies inside it.
    pub fn encloses(&self, outer: RegionId, inner: RegionId) -> bool {
        let mut region = Some(inner);
        while let Some(r) = region {
            if r == outer {
                return true;
            }
            region = self.parent(r);
        }
        false
    }

    /// The node that ends a region, once it has one.
    pub fn terminator(&self, region: RegionId) -> Option<NodeId> {
        let last = *self.nodes(region).last()?;
        self.node(last).op.has(Flag::Terminator).then_some(last)
    }

    /// Nodes of the region and of all regions inside it, outer before inner, in execution order.
    pub fn walk(&self, region: RegionId) -> Vec<NodeId> {
        let mut out = vec![];
        for &node in self.nodes(region) {
            out.push(node);
            if let Some(body) = self.node(node).body {
                out.extend(self.walk(body));
            }
        }
        out
    }

    /// Nodes that use a value, each once, in ascending id.
    pub fn users(&self, value: Value) -> Vec<NodeId> {
        let source = match self.def(value) {
            ValueOrigin::Result(node, _) => Some(node),
            ValueOrigin::Param(region, _) => self.owner(region),
        };
        let Some(source) = source else { return vec![] };
        let edges = self.nodes.edges_directed(at(source), Direction::Outgoing);
        let mut users: Vec<NodeId> = edges.filter(|e| *e.weight() == value).map(|e| id(e.target())).collect();
        users.sort_unstable();
        users.dedup();
        users
    }

    /// True when nothing uses the value.
    pub fn is_unused(&self, value: Value) -> bool {
        self.users(value).is_empty()
    }

    /// True when a node makes one value of the parts of several rows: it gives another result where rows are missing.
    pub fn mixes_rows(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let batched = |value: &Value| self.ty(*value).is_batched();
        node.operands.iter().any(batched) && !node.results.iter().all(batched)
    }

    /// A new region without an owner yet.
    pub fn add_region(&mut self) -> RegionId {
        self.regions.push(Region::default());
        RegionId(u32::try_from(self.regions.len() - 1).expect("a graph has fewer than 2^32 regions"))
    }

    /// A new parameter of a region.
    pub fn add_param(&mut self, region: RegionId, ty: Type, hint: &str) -> Value {
        let n = self.regions[region.index()].params.len();
        let value = self.add_value(ValueOrigin::Param(region, n), ty, hint);
        self.regions[region.index()].params.push(value);
        value
    }

    /// Removes parameters of a region that nothing uses; the caller keeps the owner's operands in step.
    pub fn retain_params(&mut self, region: RegionId, keep: impl Fn(usize) -> bool) {
        let params = std::mem::take(&mut self.regions[region.index()].params);
        let kept: Vec<Value> = params.into_iter().enumerate().filter(|(n, _)| keep(*n)).map(|(_, v)| v).collect();
        for (n, value) in kept.iter().enumerate() {
            self.values[value.index()].def = ValueOrigin::Param(region, n);
        }
        self.regions[region.index()].params = kept;
    }

    /// Makes a parameter the last one of its region.
    pub fn move_param_last(&mut self, region: RegionId, value: Value) {
        let params = &mut self.regions[region.index()].params;
        params.retain(|v| *v != value);
        params.push(value);
        for (n, param) in params.clone().into_iter().enumerate() {
            self.values[param.index()].def = ValueOrigin::Param(region, n);
        }
    }

    fn add_value(&mut self, def: ValueOrigin, ty: Type, hint: &str) -> Value {
        self.values.push(ValueData { def, ty, hint: hint.to_owned() });
        Value(u32::try_from(self.values.len() - 1).expect("a graph has fewer than 2^32 values"))
    }

    /// Result types of a node by its op's row.
    pub fn infer(&self, new: &NewNode) -> Result<Vec<Type>, InvalidNode> {
        let def = new.op.def();
        let most = def.operands.len() + def.optional.len();
        let count = new.operands.len();
        let most = if new.op.has(Flag::Variadic) { usize::MAX } else { most };
        if !(def.operands.len()..=most).contains(&count) {
            return Err(InvalidNode(format!("`{}` takes {} operands, not {count}", new.op, def.operands.len())));
        }
        if let Some((name, _)) = new.attrs.iter().find(|(name, _)| def.attribute(name).is_none()) {
            return Err(InvalidNode(format!("`{}` has no attribute `{name}`", new.op)));
        }
        let operands: Vec<Type> = new.operands.iter().map(|v| self.ty(*v).clone()).collect();
        if let Some((n, ty)) = operands.iter().enumerate().find(|(n, ty)| !def.kind(*n).holds(ty)) {
            let place = def.operand(n).map(|operand| format!(" as `{}`", operand.name)).unwrap_or_default();
            return Err(InvalidNode(format!("`{}` takes {}{place}, not {ty}", new.op, def.kind(n))));
        }
        let inferred =
            (def.shape)(&Signature { op: new.op, operands: &operands, attrs: &new.attrs }).map_err(InvalidNode)?;
        Ok(if inferred.is_empty() { new.types.clone() } else { inferred })
    }

    /// Appends a node to a region.
    pub fn push(&mut self, region: RegionId, new: NewNode) -> Result<NodeId, InvalidNode> {
        let end = self.nodes(region).len();
        self.insert(region, end, new)
    }

    /// Inserts a node before another one of the same region.
    pub fn insert_before(&mut self, anchor: NodeId, new: NewNode) -> Result<NodeId, InvalidNode> {
        let region = self.node(anchor).region;
        self.insert(region, self.place(anchor), new)
    }

    /// Inserts a node at a place among those of a region.
    ///
    /// # Errors
    /// When the node is not one that its op allows.
    pub(crate) fn insert_at(&mut self, region: RegionId, place: usize, new: NewNode) -> Result<NodeId, InvalidNode> {
        self.insert(region, place, new)
    }

    fn place(&self, node: NodeId) -> usize {
        let region = self.node(node).region;
        // From the end, where gradients are written.
        self.nodes(region).iter().rposition(|n| *n == node).expect("a node is listed in its region")
    }

    fn insert(&mut self, region: RegionId, place: usize, new: NewNode) -> Result<NodeId, InvalidNode> {
        let types = self.infer(&new)?;
        let NewNode { op, operands, attrs, body, label, .. } = new;
        let node = Node { op, operands: vec![], attrs, results: vec![], body, region, label };
        let hint = node.hint();
        let node = id(self.nodes.add_node(node));
        for (n, ty) in types.into_iter().enumerate() {
            let value = self.add_value(ValueOrigin::Result(node, n), ty, hint);
            self.nodes[at(node)].results.push(value);
        }
        if let Some(body) = body {
            self.regions[body.index()].owner = Some(node);
            self.relink(body);
        }
        self.regions[region.index()].nodes.insert(place, node);
        self.set_operands(node, operands);
        Ok(node)
    }

    /// Adds the edges of parameters that were used before the region had an owner.
    fn relink(&mut self, body: RegionId) {
        for node in self.walk(body) {
            let operands = self.node(node).operands.clone();
            self.set_operands(node, operands);
        }
    }

    /// Replaces all operands of a node.
    pub fn set_operands(&mut self, node: NodeId, operands: Vec<Value>) {
        let old: Vec<_> = self.nodes.edges_directed(at(node), Direction::Incoming).map(|e| e.id()).collect();
        for edge in old {
            self.nodes.remove_edge(edge);
        }
        for &value in &operands {
            let source = match self.def(value) {
                ValueOrigin::Result(source, _) => Some(source),
                ValueOrigin::Param(region, _) => self.owner(region),
            };
            if let Some(source) = source {
                self.nodes.add_edge(at(source), at(node), value);
            }
        }
        self.nodes[at(node)].operands = operands;
    }

    /// Makes every user of `old` use `new` instead.
    pub fn replace_uses(&mut self, old: Value, new: Value) {
        for user in self.users(old) {
            let operands = self.node(user).operands.iter().map(|v| if *v == old { new } else { *v }).collect();
            self.set_operands(user, operands);
        }
    }

    /// Sets an attribute.
    pub fn set_attr<K: AttributeKind>(&mut self, node: NodeId, key: AttributeKey<K>, value: K::Of<'_>) {
        self.nodes[at(node)].attrs.set(key, value);
    }

    /// Removes an attribute of a node.
    pub fn remove_attr<K: AttributeKind>(&mut self, node: NodeId, key: AttributeKey<K>) {
        self.nodes[at(node)].attrs.remove(key);
    }

    /// Appends a result to a node.
    pub fn add_result(&mut self, node: NodeId, ty: Type, hint: &str) -> Value {
        let n = self.node(node).results.len();
        let value = self.add_value(ValueOrigin::Result(node, n), ty, hint);
        self.nodes[at(node)].results.push(value);
        value
    }

    /// Drops results that `keep` does not want; they must be unused.
    pub fn retain_results(&mut self, node: NodeId, keep: impl Fn(usize) -> bool) {
        let results = std::mem::take(&mut self.nodes[at(node)].results);
        let kept: Vec<Value> = results.into_iter().enumerate().filter(|(n, _)| keep(*n)).map(|(_, v)| v).collect();
        for (n, value) in kept.iter().enumerate() {
            self.values[value.index()].def = ValueOrigin::Result(node, n);
        }
        self.nodes[at(node)].results = kept;
    }

    /// Removes a node, and with it the nodes of its body. Its results must be unused.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(body) = self.node(node).body {
            for inner in self.nodes(body).to_vec().into_iter().rev() {
                self.remove(inner);
            }
        }
        let (region, place) = (self.node(node).region, self.place(node));
        self.regions[region.index()].nodes.remove(place);
        self.nodes.remove_node(at(node));
    }

    /// Moves a node, with its body, before `anchor`, into the anchor's region.
    pub fn move_before(&mut self, node: NodeId, anchor: NodeId) {
        let (from, old) = (self.node(node).region, self.place(node));
        self.regions[from.index()].nodes.remove(old);
        let region = self.node(anchor).region;
        let place = self.place(anchor);
        self.regions[region.index()].nodes.insert(place, node);
        self.nodes[at(node)].region = region;
    }

    /// True when no value depends on itself.
    pub fn is_acyclic(&self) -> bool {
        let between = self.nodes.filter_map(
            |_, n| Some(n.op),
            |edge, value| {
                // An edge from a loop to its own body carries a region parameter and is no dependence of a result.
                let is_result = matches!(self.def(*value), ValueOrigin::Result(..));
                is_result.then_some(edge)
            },
        );
        !petgraph::algo::is_cyclic_directed(&between)
    }

    /// Parameters of the model in order: name, type and initialiser.
    pub fn parameters(&self) -> Vec<Parameter> {
        let params = self.nodes(MAIN).iter().map(|n| self.node(*n)).filter(|n| n.op == Op::Param);
        params
            .map(|n| Parameter {
                name: n.find(attribute::NAME).unwrap_or_default().to_owned(),
                ty: self.ty(n.results[0]).clone(),
                init: n.find(attribute::INIT).cloned().unwrap_or(Attr::Word("zeros".to_owned())),
                group: n.find(attribute::GROUP).map(str::to_owned),
                role: n.find(attribute::PARAMETER_ROLE),
            })
            .collect()
    }

    /// The value returned under a name.
    pub fn output(&self, name: &str) -> Option<Value> {
        let end = self.node(self.terminator(MAIN)?);
        let names = end.find(attribute::NAMES)?;
        let n = names.split(',').position(|n| n.trim() == name)?;
        end.operands.get(n).copied()
    }
}

/// A trainable array.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name, unique in the model.
    pub name: String,
    /// Type, with symbolic axes only while no task is bound.
    pub ty: Type,
    /// Initialiser: `zeros`, `ones`, `identity`, `normal(std)`, `normal(std, cut)`, `orthogonal(std)`, `xavier(gain)`, `fan_in(inputs)`,
    /// `uniform(low, high)`, `constant(value)`, `alternating(std)`, `pairs_of_one`, `s4d_inverse(state)`.
    pub init: Attr,
    /// The group that optimisers can treat apart; [`FIXED`] for what they leave as it is.
    pub group: Option<String>,
    /// What it is for, where optimisers, costs or analyses treat it apart.
    pub role: Option<ParameterRole>,
}

/// The group of parameters that are not trained.
pub const FIXED: &str = "fixed";

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}
