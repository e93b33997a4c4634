//! The context of lowering: where nodes go, what they are called, what the task is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::recurrence::BodyAdditions;
use super::starts::{LinearInit, Starts};
use crate::define::{BindingType, BoundNames, ChoiceRegion};
use crate::diag::Problems;
use crate::feature::AttentionContext;
use crate::ir::attribute::{self, AttributeWord, Attrs, ParameterRole};
use crate::ir::graph::{Graph, InvalidNode, MAIN, NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, Scalar};
use crate::ir::types::{Attr, CLASSES, Dim, Type};
use crate::schema::{Catalog, Objective};
use crate::spec::{Block, NamedExpressions, Spec};

/// What the compiler knows of the task; sizes stay symbolic without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// Number of tokens.
    pub vocab: Option<usize>,
    /// Number of classes or labels; two classes take one output and a sigmoid.
    pub classes: Option<usize>,
    /// What is asked for.
    pub objective: Objective,
}

impl Binding {
    /// Number of outputs of the head for each row, pair or token that is answered: one per class or label, one for two
    /// classes, one for a number; nothing while the number of classes is unknown.
    pub fn outputs(&self) -> Option<usize> {
        match (self.objective, self.classes) {
            (Objective::Number, _) | (Objective::Classify | Objective::Pair | Objective::Each, Some(2)) => Some(1),
            (_, classes) => classes,
        }
    }
}

impl From<&Catalog> for Binding {
    fn from(catalog: &Catalog) -> Self {
        Self { vocab: catalog.vocabulary, classes: catalog.classes, objective: catalog.objective.unwrap_or_default() }
    }
}

/// The results of a recurrence that rows or positions leave, besides its state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halted {
    /// Expected block runs per row, `f32[batch]`.
    pub(crate) ponder_cost: Value,
    /// Accepted steps per row, `f32[batch]`.
    pub(crate) depth: Value,
    /// Weight of the cost in the loss; nothing where no halting rule has one.
    pub(crate) weight: Option<f64>,
}

/// A number of every answer whose mean is added to the loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// `f32[batch]`, or `f32[batch, length]` where every token is answered.
    pub(crate) value: Value,
    /// Whether the labels are in it.
    pub(crate) labels: bool,
}

/// The inputs of a layer: the state that it transforms, and the sources that its attention can see.
#[derive(Clone, Debug)]
pub(crate) struct LayerInputs {
    /// The state that the layers transform: queries and residual.
    pub(crate) state: Value,
    /// Keys and values of self-attention where they are not the state itself.
    pub(crate) source: Option<Value>,
    /// Memory slots.
    pub(crate) memory: Option<Value>,
    /// The chunk, for the memory update.
    pub(crate) chunk: Option<Value>,
    /// The input of the recurrence around.
    pub(crate) input: Option<Value>,
    /// The step of the depth recurrence around.
    pub(crate) step: Option<Value>,
    /// True where positions count from the start of the row and not of the chunk.
    pub(crate) global_positions: bool,
    /// What equations of the bodies around have bound.
    pub(crate) names: BoundNames,
}

impl LayerInputs {
    /// A place that sees only its state.
    pub(crate) fn at(state: Value) -> Self {
        Self {
            state,
            source: None,
            memory: None,
            chunk: None,
            input: None,
            step: None,
            global_positions: false,
            names: BoundNames::default(),
        }
    }
}

/// The context of lowering: the graph so far, and the place of new nodes.
#[derive(Debug)]
pub(crate) struct Lower<'a> {
    graph: Graph,
    region: RegionId,
    path: Vec<String>,
    binding: &'a Binding,
    /// The masks, biases and constants of the files.
    pub(crate) named: Arc<NamedExpressions>,
    /// The values that masks and biases of equations read, by the names that they have there.
    readable: Vec<(String, Value)>,
    /// The parameters so far, by name.
    params: BTreeMap<String, Value>,
    /// The inputs besides the tokens, by name.
    inputs: BTreeMap<String, Value>,
    /// How many inputs and parameters there are: they are the first nodes.
    leaves: usize,
    streams: usize,
    axes: usize,
    /// Balanced folds around the current place.
    pub(crate) folds: usize,
    /// Width of the states, from `embed`.
    pub(crate) width: usize,
    /// How the weights of the model start.
    pub(crate) starts: Starts,
    /// Dropout on the output of every attention, before the residual sum.
    pub(crate) residual_dropout: f64,
    /// Halting recurrences of the region being lowered.
    pub(crate) halted: Vec<Halted>,
    /// The final memory of the last chunk recurrence.
    pub(crate) memory: Option<Value>,
    /// The values that layers have shown, by name; a gate reads those of the layer that closes its group.
    pub(crate) shown: BTreeMap<String, Value>,
    /// The vectors of the tokens, from `embed`.
    pub(crate) table: Option<Value>,
    /// The ids of the tokens.
    pub(crate) tokens: Option<Value>,
    /// Where attention of equations stands.
    pub(crate) around: AttentionContext,
    /// Dropout on attention weights, where a statement says nothing else.
    pub(crate) attention_dropout: f64,
    /// Whether answers may depend only on the tokens up to them.
    pub(crate) sees_past: bool,
    /// The share of every target that is spread over all classes.
    pub(crate) label_smoothing: f64,
    /// What the model pays besides, outside of all loops.
    pub(crate) losses: Vec<Loss>,
    /// The readout and the head of the model, which losses apply, too.
    pub(crate) ending: Option<(Block, Block)>,
    /// Whether every token is answered.
    pub(crate) each: bool,
    /// The step and the number of steps for each of which weights are made.
    pub(crate) by_step: Option<(Value, usize)>,
    /// How many weights were taken for a step.
    pub(crate) taken_by_step: usize,
    /// What equations and definitions add to the recurrence whose body is being lowered.
    pub(crate) steps: Option<BodyAdditions>,
    /// What is computed for chosen positions alone, around the current place.
    pub(crate) chosen: Vec<ChoiceRegion>,
    /// Whether `whole(x)` is evaluated among chosen positions: its values belong to their region, and `chosen` is empty meanwhile.
    pub(crate) in_whole: bool,
    /// Whether all that is done now is taken back.
    pub(crate) trying: bool,
    /// Whether the equations of atomic definitions stand in the place of their ops.
    pub(crate) by_equations: bool,
    /// What is wrong with the equations of definitions.
    pub(crate) problems: Problems,
    /// How many expressions of definitions have been worked out.
    pub(crate) equations: usize,
    /// The statements and equations of the files that were worked out, in order.
    pub(crate) bound: Vec<BindingType>,
}

impl<'a> Lower<'a> {
    /// An empty graph.
    pub(crate) fn new(spec: &Spec, binding: &'a Binding) -> Self {
        Self {
            graph: Graph::new(&spec.name),
            region: MAIN,
            path: vec![],
            binding,
            named: spec.named.clone(),
            readable: vec![],
            params: BTreeMap::new(),
            inputs: BTreeMap::new(),
            leaves: 0,
            streams: 0,
            axes: 0,
            folds: 0,
            width: 0,
            starts: Starts::default(),
            residual_dropout: 0.0,
            halted: vec![],
            memory: None,
            shown: BTreeMap::new(),
            table: None,
            tokens: None,
            around: AttentionContext::default(),
            attention_dropout: 0.0,
            sees_past: false,
            label_smoothing: 0.0,
            losses: vec![],
            ending: None,
            each: false,
            by_step: None,
            taken_by_step: 0,
            steps: None,
            chosen: vec![],
            in_whole: false,
            trying: false,
            by_equations: false,
            problems: Problems::default(),
            equations: 0,
            bound: vec![],
        }
    }

    /// The finished graph.
    pub(crate) fn into_graph(self) -> Graph {
        self.graph
    }

    /// The graph so far.
    pub(crate) fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// The graph so far, to look at.
    pub(crate) fn types(&self) -> &Graph {
        &self.graph
    }

    /// What is known of the task.
    pub(crate) fn binding(&self) -> &'a Binding {
        self.binding
    }

    /// Runs `body` with `name` appended to the path of labels and parameter names.
    pub(crate) fn scoped<R>(&mut self, name: &str, body: impl FnOnce(&mut Self) -> R) -> R {
        self.path.push(name.to_owned());
        let out = body(self);
        self.path.pop();
        out
    }

    /// Appends a name to the path of labels and parameter names, until `leave`.
    pub(crate) fn enter(&mut self, name: &str) {
        self.path.push(name.to_owned());
    }

    /// Takes the last name off the path.
    pub(crate) fn leave(&mut self) {
        self.path.pop();
    }

    /// Goes to another place; gives the path to come back to.
    pub(crate) fn at_place(&mut self, place: &str) -> Vec<String> {
        let path = place.split('.').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        std::mem::replace(&mut self.path, path)
    }

    /// Comes back from another place.
    pub(crate) fn back_to(&mut self, path: Vec<String>) {
        self.path = path;
    }

    /// Runs `body` and takes back all that it did, but for its reports.
    pub(crate) fn trial<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        let (graph, shown, params) = (self.graph.clone(), self.shown.clone(), self.params.clone());
        let inputs = self.inputs.clone();
        let (steps, trying) = (self.steps.clone(), std::mem::replace(&mut self.trying, true));
        let counts = (self.leaves, self.streams, self.axes, self.equations);
        let bound = self.bound.len();
        let out = body(self);
        self.bound.truncate(bound);
        (self.graph, self.shown, self.params, self.inputs) = (graph, shown, params, inputs);
        (self.steps, self.trying) = (steps, trying);
        (self.leaves, self.streams, self.axes, self.equations) = counts;
        out
    }

    /// Notes the place of a name before the names inside it; [`Self::note_type`] adds its type.
    pub(crate) fn note_place(&mut self, mut name: BindingType) -> usize {
        name.path = self.path.iter().map(String::as_str).chain([&*name.path]).collect::<Vec<_>>().join(".");
        self.bound.push(name);
        self.bound.len() - 1
    }

    /// Notes the type of a name.
    pub(crate) fn note_type(&mut self, at: usize, ty: String) {
        self.bound[at].ty = ty;
    }

    /// What masks and biases call a value that they read: `name`, or with a number if another value is called so.
    pub(crate) fn readable(&mut self, name: &str, value: Value) -> String {
        let mut called = name.to_owned();
        let mut number = 1;
        loop {
            match self.readable.iter().find(|(known, _)| *known == called) {
                Some((_, known)) if *known == value => return called,
                Some(_) => {
                    number += 1;
                    called = format!("{name}_{number}");
                }
                None => {
                    self.readable.push((called.clone(), value));
                    return called;
                }
            }
        }
    }

    /// The value that masks and biases call so.
    pub(crate) fn value_read(&self, name: &str) -> Option<Value> {
        self.readable.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// The same as `value` at the positions that `like` has, if `value` has those that were chosen of them.
    pub(crate) fn along(&self, value: Value, like: Value) -> Value {
        let sequence = |value| self.graph.ty(value).dims().get(..2);
        let outside = |value| self.chosen.iter().flat_map(|own| &own.slices).find(|(_, inside)| *inside == value);
        let mut wider = value;
        while sequence(wider) != sequence(like) {
            match outside(wider) {
                Some((outside, _)) => wider = *outside,
                None => return value,
            }
        }
        wider
    }

    /// The path of labels and parameter names.
    pub(crate) fn place(&self) -> String {
        self.path.join(".")
    }

    /// Number of outputs of the head; symbolic while the number of classes is unknown.
    pub(crate) fn outputs(&self) -> Dim {
        self.binding.outputs().map_or_else(|| Dim::sym(CLASSES), Dim::Fixed)
    }

    /// The region that new nodes go to.
    pub(crate) fn region(&self) -> RegionId {
        self.region
    }

    /// Lets new nodes go to another region; gives the one to come back to.
    pub(crate) fn at_region(&mut self, region: RegionId) -> RegionId {
        std::mem::replace(&mut self.region, region)
    }

    /// Runs `body` with new nodes going to `region`; halting recurrences met inside are returned with its result. A memory
    /// made inside is not seen outside, nor are the steps of a recurrence inside another loop.
    pub(crate) fn inside<R>(
        &mut self,
        region: RegionId,
        body: impl FnOnce(&mut Self) -> Result<R, InvalidNode>,
    ) -> Result<(R, Vec<Halted>), InvalidNode> {
        let outer = std::mem::replace(&mut self.region, region);
        let (halted, memory, steps) = (std::mem::take(&mut self.halted), self.memory, self.steps.take());
        let out = body(self);
        (self.region, self.memory, self.steps) = (outer, memory, steps);
        let inner = std::mem::replace(&mut self.halted, halted);
        Ok((out?, inner))
    }

    /// Whether the states here are those of whole rows: in the model itself, and in the steps of loops over them.
    pub(crate) fn sees_whole_rows(&self) -> bool {
        self.region == MAIN || self.steps.as_ref().is_some_and(|steps| steps.whole)
    }

    /// Emits a node and gives its results.
    pub(crate) fn emit(&mut self, op: Op, operands: &[Value], attrs: Attrs) -> Result<Vec<Value>, InvalidNode> {
        let label = self.path.join(".");
        let new = NewNode { op, operands: operands.to_vec(), attrs, types: vec![], body: None, label };
        let node = self.graph.push(self.region, new)?;
        Ok(self.graph.node(node).results.clone())
    }

    /// Emits a node with one result.
    pub(crate) fn one(&mut self, op: Op, operands: &[Value], attrs: Attrs) -> Result<Value, InvalidNode> {
        let results = self.emit(op, operands, attrs)?;
        results.first().copied().ok_or_else(|| InvalidNode(format!("`{op}` has no result")))
    }

    /// Emits a loop with its body.
    pub(crate) fn emit_loop(&mut self, new: NewNode) -> Result<Vec<Value>, InvalidNode> {
        let label = self.path.join(".");
        let node = self.graph.push(self.region, NewNode { label, ..new })?;
        Ok(self.graph.node(node).results.clone())
    }

    /// An input of the graph. Leaves live in the main region, before everything else.
    pub(crate) fn leaf(&mut self, op: Op, name: &str, mut attrs: Attrs, ty: Type) -> Result<Value, InvalidNode> {
        attrs.set(attribute::NAME, name);
        let label = self.path.join(".");
        let new = NewNode { op, operands: vec![], attrs, types: vec![ty], body: None, label };
        let node = self.graph.insert_at(MAIN, self.leaves, new)?;
        self.leaves += 1;
        let value = self.graph.node(node).results[0];
        self.graph.set_hint(value, name);
        Ok(value)
    }

    /// A parameter named after the current path. Equal names share one parameter.
    pub(crate) fn param(&mut self, name: &str, dims: impl Into<Vec<Dim>>, init: Attr) -> Result<Value, InvalidNode> {
        self.parameter(name, dims.into(), init, Attrs::new())
    }

    /// A parameter whose vectors are looked up, or stand beside those of the tokens.
    pub(crate) fn vectors(&mut self, name: &str, dims: impl Into<Vec<Dim>>, init: Attr) -> Result<Value, InvalidNode> {
        let role = ParameterRole::Embedding;
        self.parameter(name, dims.into(), init, Attrs::of(attribute::PARAMETER_ROLE, role))
    }

    /// A parameter that belongs to a group which optimisers can treat apart.
    pub(crate) fn param_of(
        &mut self,
        group: &str,
        name: &str,
        dims: impl Into<Vec<Dim>>,
        init: Attr,
    ) -> Result<Value, InvalidNode> {
        self.parameter(name, dims.into(), init, Attrs::of(attribute::GROUP, group))
    }

    /// A parameter, or where weights are made for every step, what it has for this one.
    fn parameter(&mut self, name: &str, mut dims: Vec<Dim>, init: Attr, attrs: Attrs) -> Result<Value, InvalidNode> {
        let full = self.path.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join(".");
        dims.splice(0..0, self.by_step.map(|(_, steps)| Dim::Fixed(steps)));
        let value = match self.params.get(&full) {
            Some(known) => {
                let (shared, own) = (self.graph.ty(*known), Type::real(dims));
                if *shared != own {
                    let per_step = matches!(shared.dims().len().abs_diff(own.dims().len()), 1);
                    let why = if per_step {
                        ": a shared function has one set of weights for all steps or one for each, not both; share a second one"
                    } else {
                        ""
                    };
                    return Err(InvalidNode(format!(
                        "the shared weight `{full}` is {shared}, and here it would be {own}{why}"
                    )));
                }
                *known
            }
            None => {
                let attrs = attrs.with(attribute::INIT, &self.starts.cut(init));
                let value = self.leaf(Op::Param, &full, attrs, Type::real(dims))?;
                self.params.insert(full, value);
                value
            }
        };
        match self.by_step {
            Some((step, _)) => {
                self.taken_by_step += 1;
                self.one(Op::Embed, &[step, value], Attrs::new())
            }
            None => Ok(value),
        }
    }

    /// An input of the batch besides the tokens. Equal names are one.
    pub(crate) fn input(&mut self, name: &str, ty: Type) -> Result<Value, InvalidNode> {
        if let Some(known) = self.inputs.get(name) {
            return Ok(*known);
        }
        let path = std::mem::replace(&mut self.path, vec!["loss".to_owned()]);
        let value = self.leaf(Op::Input, name, Attrs::new(), ty);
        self.path = path;
        self.inputs.insert(name.to_owned(), value.clone()?);
        value
    }

    /// A value that comes with the examples. Equal names are one; nothing where they are of several types.
    pub(crate) fn given(&mut self, name: &str, ty: &Type) -> Result<Option<Value>, InvalidNode> {
        if let Some(known) = self.inputs.get(name).copied() {
            return Ok((self.graph.ty(known) == ty).then_some(known));
        }
        let value = self.leaf(Op::Input, name, Attrs::new(), ty.clone())?;
        self.inputs.insert(name.to_owned(), value);
        Ok(Some(value))
    }

    /// Dropout with probability `p`; nothing when that is 0.
    pub(crate) fn dropout(&mut self, x: Value, p: f64) -> Result<Value, InvalidNode> {
        self.dropout_with(x, p, None)
    }

    /// Dropout that falls on whole channels of a row.
    pub(crate) fn tied_dropout(&mut self, x: Value, p: f64) -> Result<Value, InvalidNode> {
        self.dropout_with(x, p, Some(true))
    }

    fn dropout_with(&mut self, x: Value, p: f64, tied: Option<bool>) -> Result<Value, InvalidNode> {
        if p == 0.0 {
            return Ok(x);
        }
        let attrs = Attrs::of(attribute::P, p).with(attribute::STREAM, self.stream());
        let attrs = attrs.with_some(attribute::TIED, tied);
        self.one(Op::Dropout, &[x], attrs)
    }

    /// `width` channels from `start` on.
    pub(crate) fn channels(&mut self, x: Value, start: usize, width: usize) -> Result<Value, InvalidNode> {
        self.one(Op::Slice, &[x], Attrs::of(attribute::START, start).with(attribute::WIDTH, width))
    }

    /// A function of values of one type, number by number.
    pub(crate) fn map(&mut self, func: Pointwise, operands: &[Value]) -> Result<Value, InvalidNode> {
        self.formula(&func.of_operands(), operands)
    }

    /// An expression of values of one type, number by number.
    pub(crate) fn formula(&mut self, expr: &Scalar, operands: &[Value]) -> Result<Value, InvalidNode> {
        let (operands, attrs) = pointwise::map(std::slice::from_ref(expr), operands);
        self.one(Op::Map, &operands, attrs)
    }

    /// `by x`.
    pub(crate) fn scaled(&mut self, x: Value, by: f64) -> Result<Value, InvalidNode> {
        self.formula(&Scalar::Call(Pointwise::Mul, vec![Scalar::Number(by), Scalar::Operand(0)]), &[x])
    }

    /// `x + by`.
    pub(crate) fn shifted(&mut self, x: Value, by: f64) -> Result<Value, InvalidNode> {
        self.formula(&Scalar::Call(Pointwise::Add, vec![Scalar::Operand(0), Scalar::Number(by)]), &[x])
    }

    /// A stream of random numbers that no other node has.
    pub(crate) fn stream(&mut self) -> usize {
        self.streams += 1;
        self.streams
    }

    /// A name for the ragged axis inside a loop over pieces of a row: `chunk`, then `chunk.2`, ...
    pub(crate) fn new_axis(&mut self, name: &str) -> String {
        self.axes += 1;
        if self.axes == 1 { name.to_owned() } else { format!("{name}.{}", self.axes) }
    }

    /// The ragged axis of a sequence.
    pub(crate) fn ragged(&self, state: Value) -> Result<String, InvalidNode> {
        let axis = self.graph.ty(state).ragged().map(str::to_owned);
        axis.ok_or_else(|| InvalidNode("only a sequence can be cut into pieces".to_owned()))
    }

    /// The type of a sequence with another ragged axis.
    pub(crate) fn with_axis(&self, state: Value, axis: &str) -> Type {
        let mut dims = self.graph.ty(state).dims().to_vec();
        dims[1] = Dim::sym(axis);
        Type::real(dims)
    }

    /// A linear layer `y = x w^T (+ bias)`, with the parameters `name.weight` and `name.bias`.
    pub(crate) fn linear(
        &mut self,
        x: Value,
        name: &str,
        outputs: Dim,
        init: &LinearInit,
    ) -> Result<Value, InvalidNode> {
        self.linear_with(x, name, outputs, init, true)
    }

    /// The same, without a bias unless `biased`.
    pub(crate) fn linear_with(
        &mut self,
        x: Value,
        name: &str,
        outputs: Dim,
        init: &LinearInit,
        biased: bool,
    ) -> Result<Value, InvalidNode> {
        let [y] = self.linears([x], name, outputs, init, biased)?;
        Ok(y)
    }

    /// One linear map of several values of one width.
    pub(crate) fn linears<const N: usize>(
        &mut self,
        all: [Value; N],
        name: &str,
        outputs: Dim,
        init: &LinearInit,
        biased: bool,
    ) -> Result<[Value; N], InvalidNode> {
        let inputs = self.last(all[0])?;
        self.scoped(name, |l| {
            let start = l.starts.weight(init, &inputs);
            let mut weights = vec![l.param("weight", [outputs.clone(), inputs.clone()], start)?];
            if let Some(bias) = l.starts.bias(init, &inputs).filter(|_| biased) {
                weights.push(l.param("bias", [outputs], bias)?);
            }
            let mut out = all;
            for x in &mut out {
                *x = l.one(Op::Linear, &[&[*x][..], &weights].concat(), Attrs::new())?;
            }
            Ok(out)
        })
    }

    /// Layer norm with the parameters `name.weight` and `name.bias`.
    pub(crate) fn norm(&mut self, x: Value, name: &str) -> Result<Value, InvalidNode> {
        let (gain, bias) = self.norm_params(name)?;
        self.norm_with(x, gain, bias)
    }

    /// The parameters of a layer norm, for norms that are applied to two values.
    pub(crate) fn norm_params(&mut self, name: &str) -> Result<(Value, Value), InvalidNode> {
        self.norm_params_of(name, Dim::Fixed(self.width))
    }

    /// The parameters of a layer norm of so many channels.
    pub(crate) fn norm_params_of(&mut self, name: &str, width: Dim) -> Result<(Value, Value), InvalidNode> {
        self.scoped(name, |l| {
            let gain = l.param("weight", [width.clone()], "ones".into())?;
            let bias = l.param("bias", [width], "zeros".into())?;
            Ok((gain, bias))
        })
    }

    /// Layer norm with given parameters; eps is 1e-5.
    pub(crate) fn norm_with(&mut self, x: Value, gain: Value, bias: Value) -> Result<Value, InvalidNode> {
        self.one(Op::LayerNorm, &[x, gain, bias], Attrs::of(attribute::EPS, 1e-5))
    }

    /// The size of the last axis.
    pub(crate) fn last(&self, x: Value) -> Result<Dim, InvalidNode> {
        self.graph.ty(x).dims().last().cloned().ok_or_else(|| InvalidNode("a scalar has no channels".to_owned()))
    }

    /// Number of axes.
    pub(crate) fn rank(&self, x: Value) -> usize {
        self.graph.ty(x).dims().len()
    }

    /// `value` everywhere, over the first `rank` axes of `like`.
    pub(crate) fn full(&mut self, like: Value, value: f64, rank: usize) -> Result<Value, InvalidNode> {
        self.one(Op::Full, &[like], Attrs::of(attribute::VALUE, value).with(attribute::RANK, rank))
    }
}

/// A field whose words are those of an attribute, and that `check` guarantees.
pub(crate) fn choice<W: AttributeWord>(block: &Block, field: &str) -> Result<W, InvalidNode> {
    need(block.word(field).and_then(W::of_name), block, field)
}

/// A field that `check` guarantees.
pub(crate) fn need<T>(value: Option<T>, block: &Block, field: &str) -> Result<T, InvalidNode> {
    value.ok_or_else(|| InvalidNode(format!("`{} {}` has no field `{field}`", block.slot, block.variant)))
}
