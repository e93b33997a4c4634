//! Deep supervision with an update after every step: the training graph of one step of the loop that pays the losses.
//!
//! What the loop carries comes with the rows and is given back, so that a trainer keeps it between two updates; a row that is fresh starts
//! as the model says. The step that a row is in, and whether it was its last one, are its own.

use std::collections::{BTreeMap, BTreeSet};

use super::Forward;
use super::class_weights::Weighted;
use crate::ir::attribute::{self, Attrs, StepBound};
use crate::ir::gradient::Backward;
use crate::ir::graph::{FIXED, Graph, InvalidNode, MAIN, NewNode, NodeId, RegionId, Value};
use crate::ir::loops::{layout, yielded};
use crate::ir::ops::Op;
use crate::ir::pointwise::{self, Pointwise, Scalar};
use crate::ir::schedule::recur::without_draws;
use crate::ir::types::{BATCH, Dim, LENGTH, Type, unframed};
use crate::lower::Binding;

/// What the names of inputs begin with that rows carry from one update to the next. The results of these names are what the next update
/// gets.
pub const CARRIED: &str = "carried.";
/// The input and result that counts the steps that a row has taken: 0 for a fresh one.
pub const TAKEN: &str = "carried.taken";
/// The result that is 1 for rows whose step was the last one, else 0.
pub const OVER: &str = "over";

/// A model that is trained by an update after every step of its loop. Its forward graph, and with it the evaluation, is that of the model.
#[derive(Clone, Debug)]
pub struct EachStep<'m, M> {
    model: &'m M,
    training: Graph,
}

/// Why a model can't be trained by an update after every step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It says so itself.
    #[error("an update after every step does not fit this model: {0}")]
    Model(String),
    /// A fault of a lowering rule.
    #[error(transparent)]
    Graph(#[from] InvalidNode),
}

impl<'m, M: Forward> EachStep<'m, M> {
    /// The model, if its outermost loop pays all losses and hands on nothing that has a gradient.
    ///
    /// # Errors
    /// What stands against it, where that is, and what to do.
    pub fn new(model: &'m M, binding: &Binding) -> Result<Self, Unfit> {
        let mut training = model.with_loss(binding)?;
        one_step(&mut training)?;
        Ok(Self { model, training })
    }

    /// The same with weighted answers.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_weighted(weighted: Weighted<'m, M>) -> Result<Self, Unfit> {
        let Weighted { model, mut training } = weighted;
        one_step(&mut training)?;
        Ok(Self { model, training })
    }

    /// How many numbers rows of these lengths carry.
    pub fn numbers(&self, lengths: &[usize]) -> usize {
        let inputs = self.training.nodes(MAIN).iter().map(|id| self.training.node(*id));
        let carried = inputs.filter(|node| node.op == Op::Input && node.get(attribute::NAME).starts_with(CARRIED));
        let sizes = carried.map(|node| {
            let (around, width) = size(self.training.ty(node.results[0]));
            lengths.iter().map(|length| around.map_or(1, |more| length + more) * width).sum::<usize>()
        });
        sizes.sum()
    }
}

impl<M: Forward> Forward for EachStep<'_, M> {
    fn forward(&self, binding: &Binding) -> Result<Graph, InvalidNode> {
        self.model.forward(binding)
    }

    fn with_loss(&self, _: &Binding) -> Result<Graph, InvalidNode> {
        Ok(self.training.clone())
    }
}

/// How many positions besides its tokens a row has in a value, nothing where it is one for the row; and the numbers of each.
pub fn size(ty: &Type) -> (Option<usize>, usize) {
    let (around, rest) = match ty.dims() {
        [_, Dim::Sym(axis), rest @ ..] => (Some(unframed(axis).1), rest),
        [_, rest @ ..] => (None, rest),
        [] => (None, &[][..]),
    };
    (around, rest.iter().filter_map(Dim::fixed).product())
}

fn refuse<T>(place: &str, message: impl std::fmt::Display, help: &str) -> Result<T, Unfit> {
    let place = if place.is_empty() { String::new() } else { format!("`{place}`: ") };
    Err(Unfit::Model(format!("{place}{message}; {help}")))
}

/// Leaves one step of the loop that pays the losses.
fn one_step(graph: &mut Graph) -> Result<(), Unfit> {
    let (id, sums) = paying(graph)?;
    check(graph, id, &sums)?;
    LoopEdit { graph, id }.run(&sums)
}

/// The loop from whose carried sums all of the loss is made, and these sums.
fn paying(graph: &Graph) -> Result<(NodeId, BTreeSet<usize>), Unfit> {
    const HELP: &str = "it is for a model whose outermost `loop` pays all its losses, with `loss ..` in its body";
    let loss = graph.output("loss").ok_or_else(|| InvalidNode("the graph has no result `loss`".to_owned()))?;
    let (mut open, mut seen) = (vec![loss], BTreeSet::new());
    let mut loops: BTreeMap<NodeId, BTreeSet<usize>> = BTreeMap::new();
    while let Some(value) = open.pop() {
        let Some(id) = graph.producer(value).filter(|_| seen.insert(value)) else { continue };
        let node = graph.node(id);
        match node.op {
            Op::Recur => {
                let n = node.results.iter().position(|result| *result == value).unwrap_or_default();
                loops.entry(id).or_default().insert(n);
            }
            Op::Param => return refuse("", "a loss is paid outside of its loop", HELP),
            _ => open.extend(&node.operands),
        }
    }
    let mut loops = loops.into_iter();
    match (loops.next(), loops.next()) {
        (Some(found), None) => Ok(found),
        (None, _) => refuse("", "no loop of it pays a loss", HELP),
        (Some((id, _)), Some(_)) => refuse(
            &graph.node(id).label,
            "several loops pay losses, or gradients go through the last steps alone",
            "pay them in one loop with `grad: all`, which ends its step with `x = stop(x)` for all that it carries",
        ),
    }
}

/// Refuses a loop whose steps can't be updates of their own.
fn check(graph: &Graph, id: NodeId, sums: &BTreeSet<usize>) -> Result<(), Unfit> {
    let (node, yields, parts) = (graph.node(id), yielded(graph, id), layout(graph, id));
    let (place, body) = (node.label.as_str(), body(graph, id)?);
    let params = graph.params(body);
    for n in sums {
        if !adds_up(graph, params[*n], yields[*n]) {
            let name = graph.hint(params[*n]);
            let help = "pay in the loop: `loss average(answer(x))`";
            return refuse(place, format!("a loss behind the loop reads `{name}`, which its steps carry"), help);
        }
    }
    if node.find(attribute::BOUND).and_then(without_draws).is_some() {
        let help = "give a constant number, from which rows leave by `until` with a drawn number in it";
        return refuse(place, "the number of steps is drawn, and would be drawn anew for every update", help);
    }
    let moving = moving(graph, id);
    for n in (0..parts.carried).filter(|n| !sums.contains(n)) {
        let (ty, name) = (graph.ty(params[n]), graph.hint(params[n]));
        let ragged = ty.ragged().is_none_or(|axis| unframed(axis).0 == LENGTH);
        if !ty.is_real() {
            let help = "let the row decide: `mean(x)` makes one number of its positions";
            return refuse(place, "positions leave it one by one", help);
        }
        if !ragged || !ty.is_batched() {
            return refuse(place, format!("it carries `{name}`, which is not of rows or their tokens"), "carry states");
        }
        if moving.contains(&yields[n]) {
            let help = format!("end its step with `{name} = stop({name})`");
            return refuse(place, format!("it hands on `{name}` with a gradient, which ends with the update"), &help);
        }
    }
    drawn_before(graph, body, place)?;
    counts(graph, body, place)
}

/// The body of a loop.
fn body(graph: &Graph, id: NodeId) -> Result<RegionId, InvalidNode> {
    graph.node(id).body.ok_or_else(|| InvalidNode("a loop has no body".to_owned()))
}

/// Whether a step only adds to a carried value, and reads it for nothing else.
fn adds_up(graph: &Graph, param: Value, next: Value) -> bool {
    let mut sum = param;
    while sum != next {
        let users = graph.users(sum);
        let [user] = users[..] else { return false };
        let node = graph.node(user);
        let once = node.operands.iter().filter(|operand| **operand == sum).count() == 1;
        if !once || pointwise::function(node) != Some(Pointwise::Add) {
            return false;
        }
        sum = node.results[0];
    }
    // The sum goes into the next step and nowhere else.
    graph.users(next).len() == 1
}

/// Refuses draws before the loop that its steps read: every update would see others.
fn drawn_before(graph: &Graph, body: RegionId, place: &str) -> Result<(), Unfit> {
    let inside = graph.walk(body).into_iter().flat_map(|id| graph.node(id).operands.clone());
    let mut open: Vec<Value> = inside.filter(|value| graph.scope(*value) == MAIN).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop().and_then(|value| graph.producer(value)) {
        if !seen.insert(id) {
            continue;
        }
        let within = graph.node(id).body.map_or_else(Vec::new, |body| graph.walk(body));
        for node in within.into_iter().chain([id]).map(|id| graph.node(id)) {
            let drawn = matches!(node.op, Op::Normal | Op::Uniform)
                || node.find(attribute::BOUND).and_then(without_draws).is_some();
            if drawn {
                let help = "draw it in a step, or let the loop carry it: `carry x = normal(y)`";
                let message = "its steps read what is drawn before it, and would be drawn anew for every update";
                return refuse(place, message, help);
            }
            open.extend(node.operands.iter().filter(|value| graph.scope(**value) == MAIN));
        }
    }
    Ok(())
}

/// Refuses what a step does by its number, but for equations that read it: rows are in different steps.
fn counts(graph: &Graph, body: RegionId, place: &str) -> Result<(), Unfit> {
    let Some(step) = graph.params(body).last() else { return Ok(()) };
    let rows = Type::real([Dim::sym(BATCH)]);
    for node in graph.users(*step).into_iter().map(|id| graph.node(id)) {
        let fits = match node.op {
            Op::StepNumber => *graph.ty(node.results[0]) == rows,
            Op::HaltTest => !node.has(attribute::CAP),
            _ => false,
        };
        if !fits {
            let message = format!("`{}` goes by the number of the step, and rows are in different steps", node.label);
            let help = "leave out indices `[step]`, `history`, and masks and biases that read `step`";
            return refuse(place, message, help);
        }
    }
    Ok(())
}

/// The values through which the weights move others, where the loop starts from values that its last step did not move.
fn moving(graph: &Graph, id: NodeId) -> BTreeSet<Value> {
    let nodes = graph.walk(MAIN);
    let mut scratch = ScratchGraph { region: MAIN, graph: graph.clone() };
    scratch.region = scratch.graph.add_region();
    let gives: BTreeMap<NodeId, Vec<bool>> = nodes.iter().map(|id| (*id, scratch.gives(*id))).collect();
    let mut moving = BTreeSet::new();
    loop {
        let before = moving.len();
        for &at in &nodes {
            let node = graph.node(at);
            let real = |value: &&Value| graph.ty(**value).is_real();
            let Some(body) = node.body else {
                let trained = node.op == Op::Param && node.find(attribute::GROUP) != Some(FIXED);
                let mut operands = node.operands.iter().zip(&gives[&at]);
                if trained || operands.any(|(operand, gives)| *gives && moving.contains(operand)) {
                    moving.extend(node.results.iter().filter(real));
                }
                continue;
            };
            let (carried, yields, params) = (layout(graph, at).carried, yielded(graph, at), graph.params(body));
            for (n, param) in params.iter().enumerate() {
                let start = node.operands.get(n).is_some_and(|operand| moving.contains(operand));
                let next = at != id && n < carried && yields.get(n).is_some_and(|next| moving.contains(next));
                if start || next {
                    moving.extend([param].into_iter().filter(real));
                }
            }
            let all = matches!(node.op, Op::Beam | Op::Part | Op::Fold) && yields.iter().any(|y| moving.contains(y));
            for (n, result) in node.results.iter().enumerate() {
                let start = n < carried && node.operands.get(n).is_some_and(|operand| moving.contains(operand));
                if all || start || yields.get(n).is_some_and(|next| moving.contains(next)) {
                    moving.extend([result].into_iter().filter(real));
                }
            }
        }
        if moving.len() == before {
            return moving;
        }
    }
}

/// A copy of a graph for gradient rules to write into.
struct ScratchGraph {
    graph: Graph,
    region: RegionId,
}

impl ScratchGraph {
    /// Which operands of a node its gradient rule gives something.
    fn gives(&mut self, id: NodeId) -> Vec<bool> {
        let node = self.graph.node(id).clone();
        if node.body.is_some() || node.results.is_empty() {
            return vec![];
        }
        // A result has the type of its cotangent.
        let dy: Vec<Option<Value>> = node.results.iter().copied().map(Some).collect();
        (node.op.def().gradient)(self, &node, &dy).iter().map(Option::is_some).collect()
    }
}

impl Backward for ScratchGraph {
    fn emit(&mut self, op: Op, operands: &[Value], attrs: Attrs) -> Vec<Value> {
        let new = NewNode { op, operands: operands.to_vec(), attrs, types: vec![], body: None, label: String::new() };
        let made = self.graph.push(self.region, new);
        // A rule that does not fit is reported where the graph is differentiated.
        made.map_or_else(|_| operands.to_vec(), |id| self.graph.node(id).results.clone())
    }

    fn ty(&self, value: Value) -> Type {
        self.graph.ty(value).clone()
    }
}

/// The loop being changed.
struct LoopEdit<'g> {
    graph: &'g mut Graph,
    id: NodeId,
}

impl LoopEdit<'_> {
    fn run(mut self, sums: &BTreeSet<usize>) -> Result<(), Unfit> {
        let (id, node) = (self.id, self.graph.node(self.id).clone());
        let body = body(self.graph, id)?;
        let carried = node.operands.len();
        let params = self.graph.params(body).to_vec();
        let step = *params.last().ok_or_else(|| InvalidNode("a loop does not count its steps".to_owned()))?;
        let mut yields = yielded(self.graph, id).to_vec();
        let go = yields.get(carried).copied();
        yields.truncate(carried);
        let end = self.graph.terminator(body).ok_or_else(|| InvalidNode("a body has no end".to_owned()))?;

        // Outside: a fresh row starts as the model says, another one from what it left.
        let rows = Type::real([Dim::sym(BATCH)]);
        let taken = self.input(TAKEN, rows)?;
        let fresh = self.map(id, (Pointwise::Less, [Scalar::Operand(0), Scalar::Number(0.5)]), taken)?;
        let mut starts = node.operands.clone();
        let mut names = vec![];
        for n in (0..carried).filter(|n| !sums.contains(n)) {
            let name = format!("{CARRIED}{n}.{}", self.graph.hint(params[n]));
            let given = self.input(&name, self.graph.ty(starts[n]).clone())?;
            starts[n] = match self.graph.ty(given).dims().len() {
                1 => {
                    let started = Scalar::Call(Pointwise::Mul, vec![Scalar::Operand(1), Scalar::Operand(2)]);
                    let sum = Scalar::Call(Pointwise::Add, vec![Scalar::Operand(0), started]);
                    self.formula(id, &sum, &[given, starts[n], fresh])?
                }
                _ => self.one(id, Op::AddScaled, &[given, starts[n], fresh], Attrs::new())?,
            };
            names.push((name, n));
        }

        // Inside: the number of the step is that of the row.
        let count = self.param(body, step, taken, "taken");
        let next = self.map(end, (Pointwise::Add, [Scalar::Operand(0), Scalar::Number(1.0)]), count)?;
        for reader in self.graph.users(step) {
            if self.graph.node(reader).op == Op::StepNumber {
                let number = self.graph.node(reader).results[0];
                self.graph.replace_uses(number, count);
                yields.iter_mut().filter(|value| **value == number).for_each(|value| *value = count);
                self.graph.remove(reader);
            }
        }
        names.push((TAKEN.to_owned(), starts.len()));
        starts.push(taken);
        yields.push(next);
        // Whether it is known now that the row refuses the step after this one.
        let open = match go {
            Some(go) => self.known(go, (end, body), &params[..carried], &yields)?,
            None => None,
        };
        let more = starts.len();
        if let Some(open) = open {
            let [ones, zeros] = [1.0, 0.0].map(|value| Attrs::of(attribute::VALUE, value).with(attribute::RANK, 1));
            starts.push(self.one(id, Op::Full, &[taken], ones.clone())?);
            self.param(body, step, *starts.last().unwrap_or(&taken), "open");
            let sides = [self.one(end, Op::Full, &[next], ones)?, self.one(end, Op::Full, &[next], zeros)?];
            yields.push(self.one(end, Op::Select, &[open, sides[0], sides[1]], Attrs::new())?);
        }
        let added = starts.len() - carried;
        let bound = node.attrs.clone();
        self.graph.set_operands(id, starts.clone());
        self.graph.set_operands(end, yields.iter().copied().chain(go).collect());
        self.graph.set_attr(id, attribute::BOUND, StepBound::Steps(1));
        for n in 0..added {
            let hint = self.graph.hint(self.graph.params(body)[carried + n]).to_owned();
            self.graph.add_result(id, Type::real([Dim::sym(BATCH)]), &hint);
        }
        self.end(&names, (taken, &bound, open.map(|_| more)))
    }

    /// Returns what rows carry on, and which of them are through.
    fn end(
        mut self,
        names: &[(String, usize)],
        (taken, bound, more): (Value, &Attrs, Option<usize>),
    ) -> Result<(), Unfit> {
        let lost = || InvalidNode("the graph returns nothing".to_owned());
        let end = self.graph.terminator(MAIN).ok_or_else(lost)?;
        let node = self.graph.node(self.id).clone();
        let after = names.last().map_or(taken, |(_, n)| node.results[*n]);
        let like = node.operands.iter().copied().find(|v| self.graph.ty(*v).ragged().is_some()).unwrap_or(taken);
        let most = self.one(end, Op::DepthOf, &[like], bound.clone())?;
        let less = |a: Scalar, b: Scalar| Scalar::Call(Pointwise::Less, vec![a, b]);
        let both = |a: Scalar, b: Scalar| Scalar::Call(Pointwise::Mul, vec![a, b]);
        let before_last = Scalar::Call(Pointwise::Sub, vec![Scalar::Operand(2), Scalar::Number(0.5)]);
        // A row that has refused the step has no more of them, either.
        let mut goes_on = both(less(Scalar::Operand(0), Scalar::Operand(1)), less(Scalar::Operand(1), before_last));
        let mut operands = vec![taken, after, most];
        if let Some(n) = more {
            goes_on = both(goes_on, less(Scalar::Number(0.5), Scalar::Operand(3)));
            operands.push(node.results[n]);
        }
        let over = Scalar::Call(Pointwise::Sub, vec![Scalar::Number(1.0), goes_on]);
        let over = self.formula(end, &over, &operands)?;
        let known = self.graph.node(end).get(attribute::NAMES).to_owned();
        let mut results = self.graph.node(end).operands.clone();
        let mut all = vec![known];
        for (name, n) in names {
            all.push(name.clone());
            results.push(node.results[*n]);
        }
        all.push(OVER.to_owned());
        results.push(over);
        self.graph.set_operands(end, results);
        self.graph.set_attr(end, attribute::NAMES, &all.join(", "));
        Ok(())
    }

    /// The condition `go` of the step that follows, as far as it is made of what this one hands on. What a step has to compute for it first
    /// counts as true.
    fn known(
        &mut self,
        go: Value,
        (end, body): (NodeId, RegionId),
        params: &[Value],
        yields: &[Value],
    ) -> Result<Option<Value>, InvalidNode> {
        let Some(id) = self.graph.producer(go).filter(|id| self.graph.node(*id).region == body) else {
            return Ok(None);
        };
        let node = self.graph.node(id).clone();
        match (node.op, &node.operands[..]) {
            (Op::And, [a, b]) => {
                let a = self.known(*a, (end, body), params, yields)?;
                let b = self.known(*b, (end, body), params, yields)?;
                match (a, b) {
                    (Some(a), Some(b)) => self.one(end, Op::And, &[a, b], Attrs::new()).map(Some),
                    (a, b) => Ok(a.or(b)),
                }
            }
            (Op::HaltTest, [t, step]) => match params.iter().position(|param| param == t) {
                Some(n) => self.one(end, Op::HaltTest, &[yields[n], *step], node.attrs.clone()).map(Some),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// One more carried value: its parameter, before the step.
    fn param(&mut self, body: RegionId, step: Value, start: Value, hint: &str) -> Value {
        let ty = self.graph.ty(start).clone();
        let param = self.graph.add_param(body, ty, hint);
        self.graph.move_param_last(body, step);
        param
    }

    fn input(&mut self, name: &str, ty: Type) -> Result<Value, InvalidNode> {
        let attrs = Attrs::of(attribute::NAME, name);
        let label = self.graph.node(self.id).label.clone();
        let new = NewNode { op: Op::Input, operands: vec![], attrs, types: vec![ty], body: None, label };
        let node = self.graph.insert_at(MAIN, 0, new)?;
        let value = self.graph.node(node).results[0];
        self.graph.set_hint(value, name.rsplit('.').next().unwrap_or(name));
        Ok(value)
    }

    fn one(&mut self, before: NodeId, op: Op, operands: &[Value], attrs: Attrs) -> Result<Value, InvalidNode> {
        let label = self.graph.node(self.id).label.clone();
        let new = NewNode { op, operands: operands.to_vec(), attrs, types: vec![], body: None, label };
        let node = self.graph.insert_before(before, new)?;
        Ok(self.graph.node(node).results[0])
    }

    fn map(&mut self, before: NodeId, (func, args): (Pointwise, [Scalar; 2]), x: Value) -> Result<Value, InvalidNode> {
        self.formula(before, &Scalar::Call(func, args.to_vec()), &[x])
    }

    fn formula(&mut self, before: NodeId, expr: &Scalar, operands: &[Value]) -> Result<Value, InvalidNode> {
        let (operands, attrs) = pointwise::map(std::slice::from_ref(expr), operands);
        self.one(before, Op::Map, &operands, attrs)
    }
}
