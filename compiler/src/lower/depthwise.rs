//! The depth recurrence and its halting rules (notes 1.3).
//!
//! A unit (a row, or a position of a row) keeps: survival `t`, the product of `1 - p` over accepted steps; blend `q`,
//! the sum of `t_l p_l H_l` over accepted steps; cost, the sum of `t_l` over accepted steps; the number of
//! accepted steps. Its output is `q + t H`, which is the mixture of the notes because `1 - A = t`.

use super::builder::{Halted, LinearInit, Lower, Site, need};
use super::layers;
use crate::expr::Expr;
use crate::ir::graph::{Misfit, NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::types::{Attr, Attrs, Dim, Elem, Type};
use crate::spec::{Block, Value as Setting};

/// What a halting rule of a block asks for.
struct Rule<'a> {
    block: &'a Block,
    /// A unit is a position of a row and not a whole row.
    per_position: bool,
    /// The halting head reads the proposed state too.
    transition: bool,
    /// Keys and values of self-attention are the mixture of states so far.
    mixture_keys: bool,
    /// The halting head reads means: of the row, or up to each position when the model is causal.
    pooled: bool,
}

impl<'a> Rule<'a> {
    fn of(block: &'a Block, causal: bool) -> Option<Self> {
        let token = match block.variant {
            "token" => true,
            "global" => false,
            _ => return None,
        };
        Some(Self {
            block,
            per_position: token || causal,
            transition: block.word("sees") == Some("transition"),
            mixture_keys: block.word("keys") == Some("mixture"),
            pooled: !token,
        })
    }
}

/// The loop under construction: carried values with their starts.
struct Carried {
    region: RegionId,
    inits: Vec<Value>,
    params: Vec<Value>,
}

impl Carried {
    fn add(&mut self, l: &mut Lower<'_>, init: Value, hint: &str) -> Value {
        let ty = l.graph().ty(init).clone();
        let param = l.graph().add_param(self.region, ty, hint);
        self.inits.push(init);
        self.params.push(param);
        param
    }
}

/// Lowers `recur depthwise` and gives the state after it.
pub(super) fn recur(l: &mut Lower<'_>, block: &Block, site: &Site) -> Result<Value, Misfit> {
    let region = l.graph().add_region();
    let mut carried = Carried { region, inits: vec![], params: vec![] };
    let h = carried.add(l, site.state, "h");
    match block.child("halt").and_then(|halt| Rule::of(halt, l.causal())) {
        Some(rule) => with_halting(l, block, site, carried, h, &rule),
        None => fixed(l, block, site, carried, h),
    }
}

/// The bound of a recurrence: a number, or an expression over the length of the row.
fn bound(block: &Block) -> Result<Attr, Misfit> {
    let depth = block.fields.get("depth").map(|s| &s.value);
    match need(depth, block, "depth")? {
        Setting::Int(n) => Ok(Attr::Int(*n)),
        Setting::Expr(e @ (Expr::Int(_) | Expr::Var(_) | Expr::Call(..) | Expr::Binary(..))) => Ok(Attr::from(e)),
        other => Err(Misfit(format!("a depth of `{other}` can't run yet"))),
    }
}

/// The site inside the loop: injection, step, keys.
fn inner_site(l: &mut Lower<'_>, block: &Block, site: &Site, h: Value, step: Value) -> Result<Site, Misfit> {
    let inject = block.child("inject").is_some_and(|i| i.variant == "add");
    let state = if inject { l.scoped("inject", |l| l.one(Op::Add, &[h, site.state], Attrs::new()))? } else { h };
    Ok(Site { state, source: None, input: Some(site.state), step: Some(step), ..site.clone() })
}

/// The block applied `depth` times.
fn fixed(l: &mut Lower<'_>, block: &Block, site: &Site, mut carried: Carried, h: Value) -> Result<Value, Misfit> {
    let region = carried.region;
    let step = StepSlot::new(l, region);
    let (next, halted) = l.inside(region, |l| {
        let inner = inner_site(l, block, site, h, step.value)?;
        layers::group(l, block, &inner)
    })?;
    let (sums, yields) = sum_inner(l, &mut carried, &halted, site.state)?;
    let mut results = vec![next];
    results.extend(yields);
    let out = close(l, block, carried, step, results, None)?;
    publish(l, &sums, &out);
    Ok(out[0])
}

/// The step: the last parameter of the region, made before it is known how many carried sums come before it.
struct StepSlot {
    value: Value,
}

impl StepSlot {
    fn new(l: &mut Lower<'_>, region: RegionId) -> Self {
        let value = l.graph().add_param(region, Type::Tensor(Elem::Index, vec![]), "step");
        Self { value }
    }
}

/// Ends the body and emits the loop; gives the results of the carried values.
fn close(
    l: &mut Lower<'_>,
    block: &Block,
    carried: Carried,
    step: StepSlot,
    mut yields: Vec<Value>,
    go: Option<Value>,
) -> Result<Vec<Value>, Misfit> {
    let region = carried.region;
    l.graph().move_param_last(region, step.value);
    yields.extend(go);
    l.inside(region, |l| l.emit(Op::Yield, &yields, Attrs::new()))?;
    let types = carried.inits.iter().map(|v| l.graph().ty(*v).clone()).collect();
    let new = NewNode {
        op: Op::Recur,
        operands: carried.inits,
        attrs: Attrs::from([("bound", bound(block)?)]),
        types,
        body: Some(region),
        label: String::new(),
    };
    let out = l.emit_loop(new)?;
    for (value, param) in out.iter().zip(&carried.params) {
        let hint = l.graph().hint(*param).to_owned();
        l.graph().set_hint(*value, &hint);
    }
    Ok(out)
}

/// Carries the costs and depths of recurrences inside the body along as sums. They belong to whole rows: a row that
/// leaves keeps its sums, also where positions halt one by one.
fn sum_inner(
    l: &mut Lower<'_>,
    carried: &mut Carried,
    halted: &[Halted],
    like: Value,
) -> Result<(Vec<(usize, f64)>, Vec<Value>), Misfit> {
    let (mut sums, mut yields) = (vec![], vec![]);
    for one in halted {
        let zero = l.full(like, 0.0, 1)?;
        sums.push((carried.inits.len(), one.weight));
        for (value, hint) in [(one.cost, "cost"), (one.depth, "depth")] {
            let sum = carried.add(l, zero, hint);
            let (next, _) = l.inside(carried.region, |l| l.one(Op::Add, &[sum, value], Attrs::new()))?;
            yields.push(next);
        }
    }
    Ok((sums, yields))
}

fn publish(l: &mut Lower<'_>, sums: &[(usize, f64)], results: &[Value]) {
    for &(at, weight) in sums {
        l.halted.push(Halted { cost: results[at], depth: results[at + 1], weight });
    }
}

/// The recurrence with a halting rule.
fn with_halting(
    l: &mut Lower<'_>,
    block: &Block,
    site: &Site,
    mut c: Carried,
    h: Value,
    rule: &Rule<'_>,
) -> Result<Value, Misfit> {
    let units = if rule.per_position { 2 } else { 1 };
    let rank = l.graph().ty(site.state).dims().len();
    let blend = l.full(site.state, 0.0, rank)?;
    let ones = l.full(site.state, 1.0, units)?;
    let zeros = l.full(site.state, 0.0, units)?;
    let q = c.add(l, blend, "q");
    let t = c.add(l, ones, "t");
    let cost = c.add(l, zeros, "cost");
    let used = c.add(l, zeros, "used");
    let live = if rule.per_position {
        let all = l.one(Op::True, &[site.state], Attrs::from([("rank", units.into())]))?;
        Some(c.add(l, all, "live"))
    } else {
        None
    };
    let region = c.region;
    let step = StepSlot::new(l, region);
    let axis = l.graph().ty(site.state).ragged().map(str::to_owned);
    let cap = axis.filter(|_| block.word("cap") != Some("none"));
    let ((yields, go), inner) = l.inside(region, |l| {
        let mut inner = inner_site(l, block, site, h, step.value)?;
        if rule.mixture_keys {
            inner.source = Some(l.scoped("halt", |l| l.one(Op::AddScaled, &[q, h, t], Attrs::new()))?);
        }
        let cand = layers::group(l, block, &inner)?;
        l.scoped("halt", |l| {
            let p = probability(l, rule, h, cand)?;
            let alpha = l.one(Op::Mul, &[t, p], Attrs::new())?;
            let t1 = l.one(Op::Sub, &[t, alpha], Attrs::new())?;
            let q1 = l.one(Op::AddScaled, &[q, h, alpha], Attrs::new())?;
            let cost1 = l.one(Op::Add, &[cost, t], Attrs::new())?;
            let used1 = l.one(Op::Offset, &[used], Attrs::from([("by", 1.0.into())]))?;
            let mut go = l.one(Op::HaltTest, &[t1, step.value], halt_attrs(rule, cap.as_deref()))?;
            let mut next = vec![cand, q1, t1, cost1, used1];
            if let Some(live) = live {
                go = l.one(Op::And, &[live, go], Attrs::new())?;
                for (new, old) in next.iter_mut().zip([h, q, t, cost, used]) {
                    *new = l.one(Op::Select, &[go, *new, old], Attrs::new())?;
                }
                next.push(go);
                go = l.one(Op::Any, &[go], Attrs::new())?;
            }
            Ok((next, go))
        })
    })?;
    let (sums, sum_yields) = sum_inner(l, &mut c, &inner, site.state)?;
    let all = yields.into_iter().chain(sum_yields).collect();
    let out = close(l, block, c, step, all, Some(go))?;
    publish(l, &sums, &out);
    l.scoped("halt", |l| settle(l, rule, &out))
}

/// Output `q + t H`, and the row's cost and depth: means over its positions where those are the units.
fn settle(l: &mut Lower<'_>, rule: &Rule<'_>, out: &[Value]) -> Result<Value, Misfit> {
    let (mut cost, mut depth) = (out[3], out[4]);
    if rule.per_position {
        cost = l.one(Op::Mean, &[cost], Attrs::new())?;
        depth = l.one(Op::Mean, &[depth], Attrs::new())?;
    }
    let weight = rule.block.float("cost").unwrap_or(0.0);
    l.halted.push(Halted { cost, depth, weight });
    l.one(Op::AddScaled, &[out[1], out[0], out[2]], Attrs::new())
}

fn halt_attrs(rule: &Rule<'_>, cap: Option<&str>) -> Attrs {
    let threshold = rule.block.float("threshold").unwrap_or(0.999);
    let mut attrs = Attrs::from([("threshold", threshold.into())]);
    attrs.extend(cap.map(|axis| ("cap", Attr::Text(axis.to_owned()))));
    attrs
}

/// The halting head: Linear, GELU, Linear, sigmoid; no norm, no dropout (notes 1.2).
fn probability(l: &mut Lower<'_>, rule: &Rule<'_>, h: Value, cand: Value) -> Result<Value, Misfit> {
    let pool = match (rule.pooled, rule.per_position) {
        (false, _) => None,
        (true, false) => Some(Op::Mean),
        (true, true) => Some(Op::CumulativeMean),
    };
    let see = |l: &mut Lower<'_>, x: Value| pool.map_or(Ok(x), |op| l.one(op, &[x], Attrs::new()));
    let mut x = see(l, h)?;
    if rule.transition {
        let ahead = see(l, cand)?;
        x = l.one(Op::Concat, &[x, ahead], Attrs::new())?;
    }
    let width = Dim::Fixed(l.width);
    let x = l.linear(x, "hidden", width, &LinearInit::FanIn)?;
    let x = l.one(Op::Gelu, &[x], Attrs::new())?;
    let x = l.linear(x, "output", Dim::Fixed(1), &LinearInit::FanIn)?;
    let x = l.one(Op::Squeeze, &[x], Attrs::new())?;
    l.one(Op::Sigmoid, &[x], Attrs::new())
}
