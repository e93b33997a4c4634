//! An ONNX graph under construction: nodes go to the scope that is open, constants to the outermost graph.
//!
//! # How rows are laid out
//!
//! rtc packs rows end to end; ONNX has rectangles alone. A batched value is `[rows, ...]`; one with a ragged axis is
//! `[rows, width, ...]`, where `width` is the size of the longest part and a [`RaggedAxis`] holds the lengths. What lies behind the end of a part is
//! finite and means nothing: every op that looks along the axis asks for the mask.
//!
//! Rows that have halted, and rows without a chunk, stay where they are and keep their values by `Where`. In the body of a fold every chunk of
//! every row is a row; what it reads from outside is repeated for the chunks of its row.

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;

use rtc_compiler::ir::graph::{Graph, Node, NodeId, Value};
use rtc_compiler::ir::types::{BATCH, Dim, Elem, Type, unframed};

use super::proto::{self, AttributeProto, DataType, TensorProto};
use super::{OnnxRefusal, ParameterArrays, RESERVED};

/// A ragged axis as the rows of a scope have it.
#[derive(Clone, Debug)]
pub(super) struct RaggedAxis {
    /// Length of every row's part, `int64[rows]`.
    pub(super) lengths: String,
    /// Size of the axis, `int64[]`.
    pub(super) width: String,
    /// Where positions exist, `bool[rows, width]`.
    pub(super) mask: String,
    /// Where every part begins in its whole row, `int64[rows]`; nothing where all begin at 0.
    pub(super) origin: Option<String>,
}

/// A graph that is open.
pub(super) struct GraphScope {
    nodes: Vec<proto::NodeProto>,
    values: BTreeMap<Value, String>,
    axes: BTreeMap<String, RaggedAxis>,
    /// Number of rows, `int64[]`.
    rows: String,
    /// In the body of a fold: chunks that every row outside has here, `int64[]`.
    chunks: Option<String>,
    /// Depths that come with the rows, `int64[rows]`.
    given: Option<String>,
}

impl GraphScope {
    /// A scope with rows of its own.
    pub(super) fn new(rows: String) -> Self {
        let (nodes, values, axes) = (vec![], BTreeMap::new(), BTreeMap::new());
        Self { nodes, values, axes, rows, chunks: None, given: None }
    }
}

/// A part of a shape: a size, or the name of one.
pub(super) enum AxisSize {
    Is(usize),
    Of(String),
}

/// The graph under construction.
pub(super) struct OnnxBuilder<'a> {
    /// The graph that is exported.
    pub(super) graph: &'a Graph,
    weights: &'a ParameterArrays,
    scopes: Vec<GraphScope>,
    /// The scope that nodes go to.
    here: usize,
    constants: Vec<TensorProto>,
    known: BTreeMap<(i32, Vec<usize>, Vec<u8>), String>,
    names: usize,
    /// Length of the longest row of the batch, `int64[]`.
    pub(super) longest: String,
    /// Whether the outermost fold takes every row as one chunk.
    pub(super) flat: bool,
}

impl<'a> OnnxBuilder<'a> {
    /// An open outermost graph without rows.
    pub(super) fn new(graph: &'a Graph, weights: &'a ParameterArrays) -> Self {
        Self {
            graph,
            weights,
            scopes: vec![GraphScope::new(String::new())],
            here: 0,
            constants: vec![],
            known: BTreeMap::new(),
            names: 0,
            longest: String::new(),
            flat: false,
        }
    }

    /// A name that no other value has. Names of parameters have no slash.
    pub(super) fn fresh(&mut self, hint: &str) -> String {
        self.names += 1;
        format!("{hint}/{}", self.names)
    }

    /// Nodes and constants of the outermost graph.
    pub(super) fn finish(mut self) -> (Vec<proto::NodeProto>, Vec<TensorProto>) {
        let nodes = self.scopes.pop().map(|scope| scope.nodes).unwrap_or_default();
        (nodes, self.constants)
    }

    // Nodes.

    /// A node with one result.
    pub(super) fn op(&mut self, kind: &str, inputs: &[&str]) -> String {
        self.op_with(kind, inputs, vec![])
    }

    /// A node with attributes and one result.
    pub(super) fn op_with(&mut self, kind: &str, inputs: &[&str], attribute: Vec<AttributeProto>) -> String {
        let output = self.fresh(&kind.to_lowercase());
        self.node(kind, inputs, vec![output.clone()], attribute);
        output
    }

    /// A node with named results.
    pub(super) fn node(&mut self, kind: &str, inputs: &[&str], output: Vec<String>, attribute: Vec<AttributeProto>) {
        let input = inputs.iter().map(|name| (*name).to_owned()).collect();
        let name = output.first().map(|first| format!("{kind}:{first}"));
        let here = self.here;
        self.scopes[here].nodes.push(proto::NodeProto {
            input,
            output,
            name,
            op_type: Some(kind.to_owned()),
            attribute,
        });
    }

    /// A reduction over some axes, which vanish.
    pub(super) fn reduce(&mut self, kind: &str, x: &str, axes: &[i64]) -> String {
        let keep = AttributeProto::int("keepdims", 0);
        if kind == "ReduceSum" {
            let axes = self.ints(axes);
            return self.op_with(kind, &[x, &axes], vec![keep]);
        }
        self.op_with(kind, &[x], vec![AttributeProto::ints("axes", axes), keep])
    }

    /// The largest element of a tensor, whatever its axes are.
    pub(super) fn largest(&mut self, x: &str) -> String {
        self.op_with("ReduceMax", &[x], vec![AttributeProto::int("keepdims", 0)])
    }

    pub(super) fn cast(&mut self, x: &str, to: DataType) -> String {
        self.op_with("Cast", &[x], vec![AttributeProto::int("to", to as i64)])
    }

    /// With new axes of size 1.
    pub(super) fn unsqueeze(&mut self, x: &str, axes: &[i64]) -> String {
        let axes = self.ints(axes);
        self.op("Unsqueeze", &[x, &axes])
    }

    pub(super) fn squeeze(&mut self, x: &str, axes: &[i64]) -> String {
        let axes = self.ints(axes);
        self.op("Squeeze", &[x, &axes])
    }

    /// In another shape; 0 keeps the size of an axis, -1 takes what is left.
    pub(super) fn reshape(&mut self, x: &str, shape: &[i64]) -> String {
        let shape = self.ints(shape);
        self.op("Reshape", &[x, &shape])
    }

    pub(super) fn transpose(&mut self, x: &str, order: &[i64]) -> String {
        self.op_with("Transpose", &[x], vec![AttributeProto::ints("perm", order)])
    }

    pub(super) fn concat(&mut self, parts: &[&str], axis: i64) -> String {
        self.op_with("Concat", parts, vec![AttributeProto::int("axis", axis)])
    }

    /// `x[.., start..end]` along an axis.
    pub(super) fn slice(&mut self, x: &str, axis: i64, start: i64, end: i64) -> String {
        let [start, end, axis] = [start, end, axis].map(|n| self.ints(&[n]));
        self.op("Slice", &[x, &start, &end, &axis])
    }

    /// 0, 1, ... up to a size.
    pub(super) fn range(&mut self, size: &str) -> String {
        let (zero, one) = (self.int(0), self.int(1));
        self.op("Range", &[&zero, size, &one])
    }

    /// Whether one of some truth values holds, over some axes.
    pub(super) fn any(&mut self, x: &str, axes: Option<&[i64]>) -> String {
        let numbers = self.cast(x, DataType::Int);
        let largest = match axes {
            Some(axes) => self.reduce("ReduceMax", &numbers, axes),
            None => self.largest(&numbers),
        };
        self.cast(&largest, DataType::Bool)
    }

    /// The positions `at[rows, n]` of every row of `x[rows, width, ...]`.
    pub(super) fn take(&mut self, x: &str, at: &str) -> String {
        let at = self.unsqueeze(at, &[-1]);
        self.op_with("GatherND", &[x, &at], vec![AttributeProto::int("batch_dims", 1)])
    }

    /// Quotients of whole numbers that are not negative, rounded up.
    pub(super) fn div_ceil(&mut self, a: &str, b: &str) -> String {
        let one = self.int(1);
        let sum = self.op("Add", &[a, b]);
        let sum = self.op("Sub", &[&sum, &one]);
        self.op("Div", &[&sum, b])
    }

    /// A shape of sizes, `int64[axes]`.
    pub(super) fn shape(&mut self, sizes: &[AxisSize]) -> String {
        if sizes.is_empty() {
            return self.ints(&[]);
        }
        let parts: Vec<String> = sizes
            .iter()
            .map(|size| match size {
                AxisSize::Is(n) => self.ints(&[*n as i64]),
                AxisSize::Of(name) => self.reshape(name, &[1]),
            })
            .collect();
        self.concat(&parts.iter().map(String::as_str).collect::<Vec<_>>(), 0)
    }

    /// One value everywhere.
    pub(super) fn filled(&mut self, sizes: &[AxisSize], kind: DataType, value: f64) -> String {
        let shape = self.shape(sizes);
        let bytes = match kind {
            DataType::Float => (value as f32).to_le_bytes().to_vec(),
            DataType::Double => value.to_le_bytes().to_vec(),
            DataType::Int => (value as i64).to_le_bytes().to_vec(),
            DataType::Bool => vec![u8::from(value != 0.0)],
        };
        let value = AttributeProto::tensor("value", TensorProto::new("value", kind, &[1], bytes));
        self.op_with("ConstantOfShape", &[&shape], vec![value])
    }

    /// `a` where `c` holds, else `b`; `c` lacks the last axes of a value of this type.
    pub(super) fn choose(&mut self, c: &str, rank: usize, a: &str, b: &str, ty: &Type) -> String {
        let more: Vec<i64> = (rank..ty.dims().len()).map(|n| n as i64).collect();
        let c = if more.is_empty() { c.to_owned() } else { self.unsqueeze(c, &more) };
        if ty.elem() != Some(Elem::Bool) {
            return self.op("Where", &[&c, a, b]);
        }
        let not = self.op("Not", &[&c]);
        let (a, b) = (self.op("And", &[&c, a]), self.op("And", &[&not, b]));
        self.op("Or", &[&a, &b])
    }

    // Constants.

    fn constant(&mut self, kind: DataType, dims: &[usize], bytes: Vec<u8>) -> String {
        let key = (kind as i32, dims.to_vec(), bytes);
        if let Some(name) = self.known.get(&key) {
            return name.clone();
        }
        let name = format!("constant/{}", self.known.len());
        self.constants.push(TensorProto::new(&name, kind, dims, key.2.clone()));
        self.known.insert(key, name.clone());
        name
    }

    /// A whole number, `int64[]`.
    pub(super) fn int(&mut self, value: i64) -> String {
        self.constant(DataType::Int, &[], value.to_le_bytes().to_vec())
    }

    /// Whole numbers, `int64[n]`.
    pub(super) fn ints(&mut self, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|n| n.to_le_bytes()).collect();
        self.constant(DataType::Int, &[values.len()], bytes)
    }

    /// A number in single precision.
    pub(super) fn float(&mut self, value: f64) -> String {
        self.constant(DataType::Float, &[], (value as f32).to_le_bytes().to_vec())
    }

    /// A number in double precision.
    pub(super) fn double(&mut self, value: f64) -> String {
        self.constant(DataType::Double, &[], value.to_le_bytes().to_vec())
    }

    /// Numbers in double precision.
    pub(super) fn doubles(&mut self, dims: &[usize], values: &[f64]) -> String {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(DataType::Double, dims, bytes)
    }

    /// A truth value.
    pub(super) fn truth(&mut self, value: bool) -> String {
        self.constant(DataType::Bool, &[], vec![u8::from(value)])
    }

    /// The numbers of a parameter.
    pub(super) fn numbers(&self, value: Value) -> Result<&'a [f32], OnnxRefusal> {
        let name =
            self.graph.producer(value).and_then(|node| self.graph.node(node).find(attribute::NAME)).unwrap_or_default();
        let found = self.weights.get(name).map(|(_, numbers)| numbers.as_slice());
        found.ok_or_else(|| OnnxRefusal(format!("there are no weights for `{name}`")))
    }

    /// Puts a parameter among the constants, under its own name, or as `name/weight` beside an input or output of that name.
    pub(super) fn parameter(&mut self, node: &Node) -> Result<(), OnnxRefusal> {
        let numbers = self.numbers(node.results[0])?;
        let name = node.get(attribute::NAME);
        let dims: Vec<usize> = self.graph.ty(node.results[0]).dims().iter().filter_map(Dim::fixed).collect();
        let bytes = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let own = if RESERVED.contains(&name) { format!("{name}/weight") } else { name.to_owned() };
        self.constants.push(TensorProto::new(&own, DataType::Float, &dims, bytes));
        self.set(node.results[0], own);
        Ok(())
    }

    // Values and axes.

    /// Gives a value its name in the scope that is open.
    pub(super) fn set(&mut self, value: Value, name: String) {
        let here = self.here;
        self.scopes[here].values.insert(value, name);
    }

    /// The name of a value, as the rows here have it.
    pub(super) fn value(&mut self, value: Value) -> String {
        self.value_at(value, self.here)
    }

    fn value_at(&mut self, value: Value, depth: usize) -> String {
        if let Some(name) = self.scopes[depth].values.get(&value) {
            return name.clone();
        }
        let outer = self.value_at(value, depth.checked_sub(1).expect("a value is defined before it is used"));
        if !self.graph.ty(value).is_batched() {
            return outer;
        }
        let own = self.repeated(&outer, depth);
        self.scopes[depth].values.insert(value, own.clone());
        own
    }

    /// What rows outside of a scope have, for the rows inside: the same, but in the body of a fold.
    fn repeated(&mut self, x: &str, depth: usize) -> String {
        let Some(chunks) = self.scopes[depth].chunks.clone() else { return x.to_owned() };
        let here = std::mem::replace(&mut self.here, depth);
        let rest = self.op_with("Shape", &[x], vec![AttributeProto::int("start", 1)]);
        let (one, all) = (self.ints(&[1]), self.ints(&[-1]));
        let chunks = self.reshape(&chunks, &[1]);
        let apart = self.unsqueeze(x, &[1]);
        let shape = self.concat(&[&one, &chunks, &rest], 0);
        let wide = self.op("Expand", &[&apart, &shape]);
        let shape = self.concat(&[&all, &rest], 0);
        let out = self.op("Reshape", &[&wide, &shape]);
        self.here = here;
        out
    }

    /// Number of rows here, `int64[]`.
    pub(super) fn rows(&self) -> String {
        self.scopes[self.here].rows.clone()
    }

    /// Depths that come with the rows here.
    pub(super) fn given(&mut self) -> Result<String, OnnxRefusal> {
        self.given_at(self.here)
            .ok_or_else(|| OnnxRefusal("the model has no depth that comes with the rows".to_owned()))
    }

    fn given_at(&mut self, depth: usize) -> Option<String> {
        if let Some(given) = &self.scopes[depth].given {
            return Some(given.clone());
        }
        let outer = self.given_at(depth.checked_sub(1)?)?;
        let own = self.repeated(&outer, depth);
        self.scopes[depth].given = Some(own.clone());
        Some(own)
    }

    /// Names the rows of the open scope, and the depths that come with them.
    pub(super) fn set_rows(&mut self, rows: String, given: Option<String>) {
        let here = self.here;
        (self.scopes[here].rows, self.scopes[here].given) = (rows, given);
    }

    /// A new axis of the rows here.
    pub(super) fn set_axis(&mut self, name: &str, lengths: String, width: String, origin: Option<String>) {
        let positions = self.range(&width);
        let ends = self.unsqueeze(&lengths, &[1]);
        let mask = self.op("Less", &[&positions, &ends]);
        let here = self.here;
        self.scopes[here].axes.insert(name.to_owned(), RaggedAxis { lengths, width, mask, origin });
    }

    /// The axis of this name, as the rows here have it.
    pub(super) fn axis(&mut self, name: &str) -> RaggedAxis {
        self.axis_at(name, self.here)
    }

    fn axis_at(&mut self, name: &str, depth: usize) -> RaggedAxis {
        if let Some(axis) = self.scopes[depth].axes.get(name) {
            return axis.clone();
        }
        let (base, more) = unframed(name);
        let axis = if more > 0 && self.scopes[depth].axes.contains_key(base) {
            self.framed(base, more, depth)
        } else {
            let outer = self.axis_at(name, depth.checked_sub(1).expect("an axis is defined before it is used"));
            self.axis_inside(outer, depth)
        };
        self.scopes[depth].axes.insert(name.to_owned(), axis.clone());
        axis
    }

    /// An axis with START and END around every row.
    fn framed(&mut self, base: &str, more: usize, depth: usize) -> RaggedAxis {
        let inner = self.scopes[depth].axes[base].clone();
        let here = std::mem::replace(&mut self.here, depth);
        let more = self.int(more as i64);
        let (lengths, width) = (self.op("Add", &[&inner.lengths, &more]), self.op("Add", &[&inner.width, &more]));
        let name = format!("{base} framed");
        self.set_axis(&name, lengths, width, inner.origin);
        self.here = here;
        self.scopes[depth].axes.remove(&name).expect("it was just made")
    }

    fn axis_inside(&mut self, outer: RaggedAxis, depth: usize) -> RaggedAxis {
        let lengths = self.repeated(&outer.lengths, depth);
        let mask = self.repeated(&outer.mask, depth);
        let origin = outer.origin.map(|origin| self.repeated(&origin, depth));
        RaggedAxis { lengths, width: outer.width, mask, origin }
    }

    /// The ragged axis of a value.
    pub(super) fn axis_of(&mut self, value: Value) -> Option<RaggedAxis> {
        let name = self.graph.ty(value).ragged()?;
        Some(self.axis(name))
    }

    /// The size of an axis of a batched value.
    pub(super) fn size(&mut self, dim: &Dim) -> AxisSize {
        match dim {
            Dim::Fixed(n) => AxisSize::Is(*n),
            Dim::Sym(name) if name == BATCH => AxisSize::Of(self.rows()),
            Dim::Sym(name) => AxisSize::Of(self.axis(name).width),
        }
    }

    // Regions.

    /// Opens the body of a loop.
    pub(super) fn open(&mut self, rows: String) {
        self.scopes.push(GraphScope::new(rows));
        self.here = self.scopes.len() - 1;
    }

    /// Opens a scope in which every row is `chunks` rows. Its nodes join those of the scope around when it is closed.
    pub(super) fn open_chunks(&mut self, rows: String, chunks: String) {
        self.scopes.push(GraphScope { chunks: Some(chunks), ..GraphScope::new(rows) });
        self.here = self.scopes.len() - 1;
    }

    /// Closes such a scope.
    pub(super) fn close_chunks(&mut self) {
        let scope = self.scopes.pop().expect("a scope was opened");
        self.here = self.scopes.len() - 1;
        let here = self.here;
        self.scopes[here].nodes.extend(scope.nodes);
    }

    /// Closes the body of a loop.
    pub(super) fn close(&mut self, input: Vec<proto::ValueInfo>, output: Vec<proto::ValueInfo>) -> proto::GraphProto {
        let scope = self.scopes.pop().expect("a body was opened");
        self.here = self.scopes.len() - 1;
        let name = Some(self.fresh("body"));
        proto::GraphProto { node: scope.nodes, name, input, output, ..proto::GraphProto::default() }
    }

    /// Exports the nodes of a region but the last, and gives what that hands out.
    pub(super) fn region(&mut self, nodes: &[NodeId]) -> Result<Vec<String>, OnnxRefusal> {
        let (last, nodes) = nodes.split_last().ok_or_else(|| OnnxRefusal("an empty loop".to_owned()))?;
        for id in nodes {
            self.export(*id)?;
        }
        Ok(self.graph.node(*last).operands.clone().into_iter().map(|value| self.value(value)).collect())
    }
}

/// The kind of numbers of a value.
pub(super) fn kind(ty: &Type) -> DataType {
    match ty.elem() {
        Some(Elem::Index) => DataType::Int,
        Some(Elem::Bool) => DataType::Bool,
        _ => DataType::Float,
    }
}
