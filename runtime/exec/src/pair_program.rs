//! Masks, biases, scores and `stop` of an attention for all keys of a query at once: an expression becomes a list of steps, each for one number,
//! or for one of every key.
//!
//! A step whose result is anything but an ordinary number gives NaN, which every later step keeps: a division by zero, an index outside
//! a table, a number that is read and is not finite, a whole number that is too large to be exact. Such keys are worked out again by
//! [`rtc_compiler::expr::reading`] and [`rtc_compiler::expr::slope`], which say what an expression means. All other keys have the same number
//! as there, and the same bits where numbers are compared or rounded.

use std::cell::RefCell;

use rtc_compiler::expr::{BinaryOp, Env, Expr, Func, ReadFrom, Var};
use rtc_compiler::ir::pointwise::Pointwise;

use crate::storage::Element;
use rtc_kernel::attention::MaskRow;
use rtc_kernel::pointwise::{FunctionArgument, apply};

/// Whole numbers below this are exact, and so are their products and quotients.
const EXACT: f64 = (1_u64 << 31) as f64;

/// Keys that a program works out together.
pub const KEYS: usize = 256;

/// An expression as steps; the last one has its value.
#[derive(Clone, Debug, PartialEq)]
pub struct PairProgram {
    steps: Vec<PairStep>,
    /// Whether nothing in it is compared or rounded down: the last bit of a number decides nothing.
    smooth: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct PairStep {
    op: StepOp,
    /// Whether there is one number for every key.
    by_key: bool,
    /// Whether it has a derivative by what is read.
    changes: bool,
}

/// What a step does with the results of earlier ones.
#[derive(Clone, Debug, PartialEq)]
enum StepOp {
    Number(f64),
    Variable(Var),
    /// A number of a learned table of these sizes.
    Learned(usize, Vec<(usize, usize)>),
    /// A value at the query or at the key, in a channel.
    Read {
        value: usize,
        at: ReadAt,
        channel: Option<usize>,
    },
    /// The score before the expression.
    Score,
    One(OneOperand, usize),
    Two(TwoOperands, usize, usize),
    /// The second number where the first one is true, else the third.
    Choose(usize, usize, usize),
}

/// Where a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadAt {
    Query,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OneOperand {
    Neg,
    Not,
    Ln,
    Floor,
    /// A function that has a real number for every one.
    Of(Func),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TwoOperands {
    /// Of real numbers, or of two truth values, or a comparison.
    Real(BinaryOp),
    /// Of whole numbers.
    Whole(BinaryOp),
    Min,
    Max,
    /// The smallest k with `base^k >= n`.
    Log,
}

impl ReadAt {
    /// The position, of the first key.
    fn position(self, env: &Env) -> usize {
        match self {
            Self::Query => env.i as usize,
            Self::Key => env.j as usize,
        }
    }
}

/// What a step gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StepKind {
    Whole,
    Real,
    Truth,
}

/// What a program reads in one row.
pub trait PairNumbers<T> {
    /// The numbers of a learned table.
    fn table(&self, table: usize) -> &[T];
    /// The numbers of a value in the row, and its channels: on the axis of the queries, or of the keys.
    fn value(&self, value: usize, of_keys: bool) -> (&[T], usize);
    /// Where the gradients of the numbers of a table or a value begin among all of the row.
    fn start(&self, from: ReadFrom) -> usize;
    /// The scores of the keys; none where nothing reads them.
    fn scores(&self) -> &[f64];
}

thread_local! {
    /// What steps give, one after the other; then, for derivatives, what they add to the result.
    static SCRATCH: RefCell<Vec<f64>> = const { RefCell::new(vec![]) };
}

/// Adds what a key changes that must be worked out by itself: to the sums of what is read, and to the slopes by the scores of all keys.
pub type LoneKey<'a, T> = dyn FnMut(usize, &mut [T], &mut [f64]) + 'a;

struct Compiler<'a> {
    steps: Vec<PairStep>,
    /// For every use, in reading order, what it reads.
    uses: &'a [ReadFrom],
    sizes: &'a [Vec<usize>],
    next: usize,
}

impl Compiler<'_> {
    fn push(&mut self, op: StepOp, changes: bool) -> usize {
        let by_key = match &op {
            StepOp::Number(_) => false,
            StepOp::Score => true,
            StepOp::Variable(var) => *var == Var::J,
            StepOp::Learned(_, indices) => indices.iter().any(|(index, _)| self.steps[*index].by_key),
            StepOp::Read { at, channel, .. } => {
                *at == ReadAt::Key || channel.is_some_and(|channel| self.steps[channel].by_key)
            }
            StepOp::One(_, x) => self.steps[*x].by_key,
            StepOp::Two(_, a, b) => self.steps[*a].by_key || self.steps[*b].by_key,
            StepOp::Choose(c, a, b) => [c, a, b].iter().any(|step| self.steps[**step].by_key),
        };
        let step = PairStep { op, by_key, changes };
        self.steps.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    /// The step that gives an expression; `None` where it has a draw, a depth of the example or a number that is not exact.
    fn visit(&mut self, expr: &Expr) -> Option<(usize, StepKind)> {
        let number = |x: f64| (x.abs() < EXACT).then_some(StepOp::Number(x));
        Some(match expr {
            Expr::Int(v) => (self.push(number(*v as f64)?, false), StepKind::Whole),
            Expr::Float(v) => (self.push(StepOp::Number(*v), false), StepKind::Real),
            Expr::Bool(v) => (self.push(StepOp::Number(f64::from(u8::from(*v))), false), StepKind::Truth),
            Expr::Var(var) => (self.push(StepOp::Variable(*var), false), StepKind::Whole),
            Expr::Given | Expr::Draw(_) => return None,
            Expr::Score => {
                self.next += 1;
                (self.push(StepOp::Score, true), StepKind::Real)
            }
            Expr::Neg(x) => {
                let (x, kind) = self.numeric(x)?;
                (self.one(OneOperand::Neg, x, kind == StepKind::Real), kind)
            }
            Expr::Not(x) => {
                let (x, kind) = self.visit(x).filter(|(_, kind)| *kind == StepKind::Truth)?;
                (self.one(OneOperand::Not, x, false), kind)
            }
            Expr::Binary(op, a, b) => {
                let ((a, of_a), (b, of_b)) = (self.visit(a)?, self.visit(b)?);
                let truths = [of_a, of_b].map(|kind| kind == StepKind::Truth);
                // What mixes numbers and truth values has no value.
                let fits = match op {
                    BinaryOp::And | BinaryOp::Or => truths == [true; 2],
                    BinaryOp::Eq | BinaryOp::Ne => truths[0] == truths[1],
                    _ => truths == [false; 2],
                };
                if !fits {
                    return None;
                }
                let kind = if op.is_boolean() {
                    StepKind::Truth
                } else if of_a == StepKind::Whole && of_b == StepKind::Whole {
                    StepKind::Whole
                } else {
                    StepKind::Real
                };
                let op = if kind == StepKind::Whole { TwoOperands::Whole(*op) } else { TwoOperands::Real(*op) };
                (self.two(op, a, b, kind == StepKind::Real), kind)
            }
            Expr::Call(func, args) => match args.as_slice() {
                [x] => {
                    let (x, _) = self.numeric(x)?;
                    match func {
                        Func::Ln => (self.one(OneOperand::Ln, x, true), StepKind::Real),
                        func if func.of_real(0.0).is_some() => {
                            (self.one(OneOperand::Of(*func), x, true), StepKind::Real)
                        }
                        _ => (self.one(OneOperand::Floor, x, false), StepKind::Whole),
                    }
                }
                [a, b] => {
                    let ((a, of_a), (b, of_b)) = (self.numeric(a)?, self.numeric(b)?);
                    let whole = of_a == StepKind::Whole && of_b == StepKind::Whole;
                    let kind = if whole { StepKind::Whole } else { StepKind::Real };
                    let op = match func {
                        Func::Min => TwoOperands::Min,
                        Func::Max => TwoOperands::Max,
                        _ if !whole => return None,
                        _ => TwoOperands::Log,
                    };
                    (self.two(op, a, b, !whole), kind)
                }
                [c, a, b] => {
                    let (c, _) = self.visit(c).filter(|(_, kind)| *kind == StepKind::Truth)?;
                    let ((a, of_a), (b, of_b)) = (self.numeric(a)?, self.numeric(b)?);
                    let real = of_a == StepKind::Real || of_b == StepKind::Real;
                    let changes = real && (self.steps[a].changes || self.steps[b].changes);
                    let kind = if real { StepKind::Real } else { StepKind::Whole };
                    (self.push(StepOp::Choose(c, a, b), changes), kind)
                }
                _ => return None,
            },
            Expr::Learn(_, indices) => {
                let Some(ReadFrom::Table(table)) = self.uses.get(self.next).copied() else { return None };
                self.next += 1;
                let indices: Option<Vec<usize>> = indices.iter().map(|index| Some(self.visit(index)?.0)).collect();
                let sized = indices?.into_iter().zip(self.sizes.get(table)?.iter().copied()).collect();
                (self.push(StepOp::Learned(table, sized), true), StepKind::Real)
            }
            Expr::Read(_, indices) => {
                let Some(ReadFrom::Value(value)) = self.uses.get(self.next).copied() else { return None };
                self.next += 1;
                let at = if indices.first() == Some(&Expr::Var(Var::I)) { ReadAt::Query } else { ReadAt::Key };
                let channel = match indices.get(1) {
                    Some(channel) => Some(self.visit(channel)?.0),
                    None => None,
                };
                (self.push(StepOp::Read { value, at, channel }, true), StepKind::Real)
            }
        })
    }

    fn numeric(&mut self, expr: &Expr) -> Option<(usize, StepKind)> {
        self.visit(expr).filter(|(_, kind)| *kind != StepKind::Truth)
    }

    fn one(&mut self, op: OneOperand, x: usize, real: bool) -> usize {
        let changes = real && self.steps[x].changes;
        self.push(StepOp::One(op, x), changes)
    }

    fn two(&mut self, op: TwoOperands, a: usize, b: usize, real: bool) -> usize {
        let changes = real && (self.steps[a].changes || self.steps[b].changes);
        self.push(StepOp::Two(op, a, b), changes)
    }
}

/// NaN in place of what is not finite.
#[inline(always)]
fn finite(x: f64) -> f64 {
    if x.abs() <= f64::MAX { x } else { f64::NAN }
}

/// NaN in place of a whole number that may be inexact.
#[inline(always)]
fn whole(x: f64) -> f64 {
    if x.abs() < EXACT { x } else { f64::NAN }
}

/// NaN where an operand is NaN.
#[inline(always)]
fn of_both(a: f64, b: f64, x: f64) -> f64 {
    if a.is_nan() | b.is_nan() { f64::NAN } else { x }
}

#[inline(always)]
fn truth(x: bool) -> f64 {
    if x { 1.0 } else { 0.0 }
}

#[inline(always)]
fn remainder(a: f64, b: f64) -> f64 {
    a - (a / b).floor() * b
}

/// `a^b` of whole numbers.
fn power(a: f64, b: f64) -> f64 {
    let (base, exponent) = (a as i64, b as i64);
    let power = u32::try_from(exponent).ok().filter(|_| !a.is_nan() && !b.is_nan());
    power.and_then(|exponent| base.checked_pow(exponent)).map_or(f64::NAN, |x| whole(x as f64))
}

/// The smallest k with `base^k >= n`.
fn logarithm(n: f64, base: f64) -> f64 {
    if n.is_nan() || base.is_nan() || base < 2.0 {
        return f64::NAN;
    }
    let (mut k, mut power) = (0.0, 1.0);
    while power < n {
        k += 1.0;
        power *= base;
    }
    k
}

/// `out = f(a)`, of which each has one number, or one for every key.
#[inline(always)]
fn each(out: &mut [f64], a: &[f64], f: impl Fn(f64) -> f64) {
    out.iter_mut().zip(a).for_each(|(out, a)| *out = f(*a));
}

/// `out = f(a, b)`.
#[inline(always)]
fn both(out: &mut [f64], a: &[f64], b: &[f64], f: impl Fn(f64, f64) -> f64) {
    match (a, b) {
        ([a], [b]) => out[0] = f(*a, *b),
        ([a], b) => each(out, b, |b| f(*a, b)),
        (a, [b]) => each(out, a, |a| f(a, *b)),
        (a, b) => out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = f(*a, *b)),
    }
}

/// A function for many keys, as the kernels compute it: up to a last bit that of the standard library.
fn kernel(op: OneOperand, out: &mut [f64], x: &[f64]) {
    let function = match op {
        OneOperand::Ln => Pointwise::Log,
        OneOperand::Of(Func::Exp) => Pointwise::Exp,
        OneOperand::Of(Func::Tanh) => Pointwise::Tanh,
        OneOperand::Of(Func::Sigmoid) => Pointwise::Sigmoid,
        other => return unary(other, out, x),
    };
    apply(function, [FunctionArgument::Each(x); 3], out);
    out.iter_mut().for_each(|x| *x = finite(*x));
}

fn unary(op: OneOperand, out: &mut [f64], x: &[f64]) {
    match op {
        OneOperand::Neg => each(out, x, |x| 0.0 - x),
        OneOperand::Not => each(out, x, |x| 1.0 - x),
        OneOperand::Ln => each(out, x, |x| finite(x.ln())),
        OneOperand::Floor => each(out, x, |x| whole(x.floor())),
        OneOperand::Of(func) => each(out, x, |x| finite(func.of_real(x).unwrap_or(f64::NAN))),
    }
}

fn binary(op: TwoOperands, out: &mut [f64], a: &[f64], b: &[f64]) {
    match op {
        TwoOperands::Real(op) => match op {
            BinaryOp::And => both(out, a, b, |a, b| a * b),
            BinaryOp::Or => both(out, a, b, |a, b| a + b - a * b),
            BinaryOp::Eq => both(out, a, b, |a, b| of_both(a, b, truth(a == b))),
            BinaryOp::Ne => both(out, a, b, |a, b| of_both(a, b, truth(a != b))),
            BinaryOp::Lt => both(out, a, b, |a, b| of_both(a, b, truth(a < b))),
            BinaryOp::Le => both(out, a, b, |a, b| of_both(a, b, truth(a <= b))),
            BinaryOp::Gt => both(out, a, b, |a, b| of_both(a, b, truth(a > b))),
            BinaryOp::Ge => both(out, a, b, |a, b| of_both(a, b, truth(a >= b))),
            BinaryOp::Add => both(out, a, b, |a, b| finite(a + b)),
            BinaryOp::Sub => both(out, a, b, |a, b| finite(a - b)),
            BinaryOp::Mul => both(out, a, b, |a, b| finite(a * b)),
            BinaryOp::Div => both(out, a, b, |a, b| finite(a / b)),
            BinaryOp::Rem => both(out, a, b, |a, b| finite(remainder(a, b))),
            // `0^NaN` and `NaN^0` are numbers.
            BinaryOp::Pow => both(out, a, b, |a, b| of_both(a, b, finite(a.powf(b)))),
        },
        TwoOperands::Whole(op) => match op {
            BinaryOp::Add => both(out, a, b, |a, b| whole(a + b)),
            BinaryOp::Sub => both(out, a, b, |a, b| whole(a - b)),
            BinaryOp::Mul => both(out, a, b, |a, b| whole(a * b)),
            BinaryOp::Div => both(out, a, b, |a, b| whole((a / b).floor())),
            BinaryOp::Rem => both(out, a, b, |a, b| whole(remainder(a, b))),
            _ => both(out, a, b, power),
        },
        TwoOperands::Min => both(out, a, b, |a, b| of_both(a, b, if a <= b { a } else { b })),
        TwoOperands::Max => both(out, a, b, |a, b| of_both(a, b, if a <= b { b } else { a })),
        TwoOperands::Log => both(out, a, b, logarithm),
    }
}

/// The variables for a query and its first key.
pub fn place(at: MaskRow, step: i64) -> Env {
    Env { i: at.query as i64, j: at.first as i64, step, length: at.queries as i64, head: at.head as i64, given: None }
}

/// What is given for a key, where there is one number for all keys or one for each.
#[inline(always)]
pub fn value_of(numbers: &[f64], key: usize) -> f64 {
    if let [number] = numbers { *number } else { numbers[key] }
}

/// Where in a table the indices of a key point.
fn flat(indices: &[(usize, usize)], key: usize, of: &impl Fn(usize, usize) -> f64) -> Option<usize> {
    indices.iter().try_fold(0, |at, &(index, size)| {
        let index = of(index, key);
        // NaN is no index either.
        (index >= 0.0 && index < size as f64).then(|| at * size + index as usize)
    })
}

impl PairProgram {
    /// The program of an expression: what its uses read, in reading order, and the sizes of its tables. `None` where it needs more than the
    /// place, tables and values, so that it is worked out key by key.
    pub fn new(expr: &Expr, uses: &[ReadFrom], sizes: &[Vec<usize>]) -> Option<Self> {
        let mut compiler = Compiler { steps: vec![], uses, sizes, next: 0 };
        let (last, _) = compiler.visit(expr)?;
        // What was known before need not be the last one.
        if last + 1 < compiler.steps.len() {
            compiler.steps.push(compiler.steps[last].clone());
        }
        let decides = |step: &PairStep| {
            matches!(
                step.op,
                StepOp::One(OneOperand::Floor, _)
                    | StepOp::Two(TwoOperands::Real(BinaryOp::Rem), ..)
                    | StepOp::Choose(..)
            ) || matches!(step.op, StepOp::Two(TwoOperands::Real(op), ..) if op.is_boolean())
        };
        let smooth = !compiler.steps.iter().any(decides);
        Some(Self { steps: compiler.steps, smooth })
    }

    /// Steps, each an operation for a key.
    #[allow(clippy::len_without_is_empty, reason = "an expression has one at least")]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Gives `f` the value for each of the keys from `env.j` on: one number where all have the same, and NaN where it must be worked out
    /// by itself. Truth is 1, and what is not true 0.
    pub fn run<T: Element, R>(
        &self,
        env: &Env,
        keys: usize,
        numbers: &impl PairNumbers<T>,
        f: impl FnOnce(&[f64]) -> R,
    ) -> R {
        self.with_scratch(keys, 1, |scratch| {
            self.forward(env, keys, numbers, scratch);
            f(self.of(self.steps.len() - 1, keys, scratch))
        })
    }

    /// Adds what `by` gives for each of the keys from `env.j` on, times the derivatives of the value by all numbers that are read, to `sums`,
    /// and tells `alone` of the keys that must be worked out by themselves. Those by the score go to `of_scores`, key by key.
    pub fn add_slopes<T: Element>(
        &self,
        env: &Env,
        (keys, by): (usize, &dyn Fn(usize) -> f64),
        numbers: &impl PairNumbers<T>,
        (sums, of_scores): (&mut [T], &mut [f64]),
        alone: &mut LoneKey<'_, T>,
    ) {
        self.with_scratch(keys, 2, |scratch| {
            let (results, changes) = scratch.split_at_mut(self.steps.len() * keys);
            self.forward(env, keys, numbers, results);
            let last = self.steps.len() - 1;
            changes.fill(0.0);
            let slopes = &mut changes[last * keys..];
            slopes.iter_mut().enumerate().for_each(|(key, slope)| *slope = by(key));
            let value = self.of(last, keys, results);
            // A key that can't be told leaves no trace in what the others add up.
            let mut set_apart = |key: usize, changes: &mut [f64]| {
                (0..self.steps.len()).for_each(|step| changes[step * keys + key] = 0.0);
                alone(key, sums, of_scores);
            };
            for key in 0..keys {
                if changes[last * keys + key] != 0.0 && value_of(value, key).is_nan() {
                    set_apart(key, changes);
                }
            }
            for step in (0..self.steps.len()).rev().filter(|step| self.steps[*step].changes) {
                self.backward(step, keys, results, changes);
            }
            for step in (0..self.steps.len()).filter(|step| self.steps[*step].changes) {
                // Zero times what is not finite is NaN.
                let all: f64 = changes[step * keys..][..keys].iter().map(|x| x * 0.0).sum();
                if all == 0.0 {
                    continue;
                }
                for key in 0..keys {
                    if !changes[step * keys + key].is_finite() {
                        set_apart(key, changes);
                    }
                }
            }
            for step in (0..self.steps.len()).filter(|step| self.steps[*step].changes) {
                let own = &changes[step * keys..][..keys];
                match &self.steps[step].op {
                    StepOp::Score => of_scores.iter_mut().zip(own).for_each(|(sum, own)| *sum += own),
                    _ => self.add(step, env, (results, own), numbers, sums),
                }
            }
        });
    }

    fn with_scratch<R>(&self, keys: usize, parts: usize, f: impl FnOnce(&mut [f64]) -> R) -> R {
        SCRATCH.with_borrow_mut(|scratch| {
            let len = parts * self.steps.len() * keys;
            if scratch.len() < len {
                scratch.resize(len, 0.0);
            }
            f(&mut scratch[..len])
        })
    }

    /// What a step gave.
    fn of<'s>(&self, step: usize, keys: usize, scratch: &'s [f64]) -> &'s [f64] {
        &scratch[step * keys..][..if self.steps[step].by_key { keys } else { keys.min(1) }]
    }

    fn forward<T: Element>(&self, env: &Env, keys: usize, numbers: &impl PairNumbers<T>, scratch: &mut [f64]) {
        if keys == 0 {
            return;
        }
        for (n, step) in self.steps.iter().enumerate() {
            let (done, rest) = scratch.split_at_mut(n * keys);
            let out = &mut rest[..if step.by_key { keys } else { 1 }];
            let of = |step: usize| self.of(step, keys, done);
            match &step.op {
                StepOp::Number(x) => out[0] = *x,
                StepOp::Score => out.iter_mut().zip(numbers.scores()).for_each(|(x, score)| *x = finite(*score)),
                StepOp::Variable(Var::J) => {
                    out.iter_mut().enumerate().for_each(|(key, x)| *x = (env.j + key as i64) as f64);
                }
                StepOp::Variable(var) => out[0] = env.get(*var) as f64,
                StepOp::Learned(table, indices) => {
                    let table = numbers.table(*table);
                    for (key, x) in out.iter_mut().enumerate() {
                        let place = flat(indices, key, &|step, key| value_of(of(step), key));
                        *x = place.map_or(f64::NAN, |place| finite(table[place].to_f64()));
                    }
                }
                StepOp::Read { value, at: place, channel } => {
                    let (value, channels) = numbers.value(*value, *place == ReadAt::Key);
                    let first = place.position(env) * channels;
                    let stride = if *place == ReadAt::Key { channels } else { 0 };
                    let channel = channel.map_or(&[0.0][..], of);
                    // NaN is no channel either.
                    if let ([channel], false) = (channel, stride == 0) {
                        let inside = *channel >= 0.0 && *channel < channels as f64;
                        let numbers = value[first..].chunks_exact(channels);
                        match inside {
                            true => out.iter_mut().zip(numbers).for_each(|(x, numbers)| {
                                *x = finite(numbers[*channel as usize].to_f64());
                            }),
                            false => out.fill(f64::NAN),
                        }
                        continue;
                    }
                    for (key, x) in out.iter_mut().enumerate() {
                        let channel = value_of(channel, key);
                        // NaN is no channel either.
                        let is_inside = channel >= 0.0 && channel < channels as f64;
                        let place = first + key * stride + channel as usize;
                        *x = if is_inside { finite(value[place].to_f64()) } else { f64::NAN };
                    }
                }
                StepOp::One(op, x) if self.smooth && step.by_key => kernel(*op, out, of(*x)),
                StepOp::One(op, x) => unary(*op, out, of(*x)),
                StepOp::Two(op, a, b) => binary(*op, out, of(*a), of(*b)),
                StepOp::Choose(c, a, b) => {
                    let [c, a, b] = [of(*c), of(*a), of(*b)];
                    for (key, x) in out.iter_mut().enumerate() {
                        let c = value_of(c, key);
                        *x = if c.is_nan() { c } else { value_of(if c == 1.0 { a } else { b }, key) };
                    }
                }
            }
        }
    }

    /// Adds what a step changes to what its operands change.
    fn backward(&self, step: usize, keys: usize, results: &[f64], changes: &mut [f64]) {
        let (before, rest) = changes.split_at_mut(step * keys);
        let of = |step: usize| self.of(step, keys, results);
        let mut back = StepSlopes { steps: &self.steps, own: &rest[..keys], before };
        match self.steps[step].op {
            StepOp::One(OneOperand::Neg, x) => back.add(x, |_| -1.0),
            StepOp::One(OneOperand::Ln, x) => back.add(x, |key| 1.0 / value_of(of(x), key)),
            StepOp::One(OneOperand::Of(func), x) => {
                let (value, first) = (of(step), of(x));
                back.add(x, |key| func.slope(value_of(first, key), value_of(value, key)));
            }
            StepOp::Two(TwoOperands::Real(op), a, b) => {
                let (first, second, value) = (of(a), of(b), of(step));
                match op {
                    BinaryOp::Add => {
                        back.add(a, |_| 1.0);
                        back.add(b, |_| 1.0);
                    }
                    BinaryOp::Sub => {
                        back.add(a, |_| 1.0);
                        back.add(b, |_| -1.0);
                    }
                    BinaryOp::Mul => {
                        back.add(a, |key| value_of(second, key));
                        back.add(b, |key| value_of(first, key));
                    }
                    BinaryOp::Div => {
                        back.add(a, |key| 1.0 / value_of(second, key));
                        back.add(b, |key| -value_of(value, key) / value_of(second, key));
                    }
                    BinaryOp::Rem => {
                        back.add(a, |_| 1.0);
                        back.add(b, |key| -(value_of(first, key) / value_of(second, key)).floor());
                    }
                    BinaryOp::Pow => {
                        back.add(a, |key| {
                            value_of(second, key) * value_of(first, key).powf(value_of(second, key) - 1.0)
                        });
                        // A power of 0 stays what it is.
                        let exponent = |key| {
                            if value_of(first, key) <= 0.0 {
                                0.0
                            } else {
                                value_of(value, key) * value_of(first, key).ln()
                            }
                        };
                        back.add(b, exponent);
                    }
                    _ => {}
                }
            }
            StepOp::Choose(c, a, b) => {
                let c = of(c);
                back.add(a, |key| truth(value_of(c, key) == 1.0));
                back.add(b, |key| truth(value_of(c, key) == 0.0));
            }
            StepOp::Two(TwoOperands::Min | TwoOperands::Max, a, b) => {
                let (value, first) = (of(step), of(a));
                let is_first = |key: usize| value_of(value, key) == value_of(first, key);
                back.add(a, |key| truth(is_first(key)));
                back.add(b, |key| truth(!is_first(key)));
            }
            _ => {}
        }
    }

    /// Adds what a number that is read changes to its gradient; nothing for other steps.
    fn add<T: Element>(
        &self,
        step: usize,
        env: &Env,
        (results, own): (&[f64], &[f64]),
        numbers: &impl PairNumbers<T>,
        sums: &mut [T],
    ) {
        let of = |step: usize, key: usize| value_of(self.of(step, own.len(), results), key);
        // What is the same for all keys is read once.
        let summed = [own.iter().sum()];
        let own = if self.steps[step].by_key { own } else { &summed };
        match &self.steps[step].op {
            StepOp::Learned(table, indices) => {
                let sums = &mut sums[numbers.start(ReadFrom::Table(*table))..];
                add_each(own, sums, |key| flat(indices, key, &of));
            }
            StepOp::Read { value, at, channel } => {
                let (_, channels) = numbers.value(*value, *at == ReadAt::Key);
                let sums = &mut sums[numbers.start(ReadFrom::Value(*value)) + at.position(env) * channels..];
                let stride = if *at == ReadAt::Key { channels } else { 0 };
                match channel.filter(|channel| self.steps[*channel].by_key) {
                    Some(channel) => add_each(own, sums, |key| Some(key * stride + of(channel, key) as usize)),
                    None => {
                        let channel = channel.map_or(0, |channel| of(channel, 0) as usize);
                        add_each(own, sums, |key| Some(key * stride + channel));
                    }
                }
            }
            _ => {}
        }
    }
}

/// Adds what each key changes at a place.
#[inline(always)]
fn add_each<T: Element>(own: &[f64], sums: &mut [T], place: impl Fn(usize) -> Option<usize>) {
    for (key, by) in own.iter().enumerate().filter(|(_, by)| **by != 0.0) {
        if let Some(place) = place(key) {
            sums[place] += T::from_f64(*by);
        }
    }
}

/// What a step changes, on its way to its operands.
struct StepSlopes<'a> {
    steps: &'a [PairStep],
    own: &'a [f64],
    before: &'a mut [f64],
}

impl StepSlopes<'_> {
    /// Adds what an operand changes, with its derivative for a key.
    #[inline(always)]
    fn add(&mut self, operand: usize, derivative: impl Fn(usize) -> f64) {
        if !self.steps[operand].changes {
            return;
        }
        let sums = &mut self.before[operand * self.own.len()..][..self.own.len()];
        for (key, (sum, own)) in sums.iter_mut().zip(self.own).enumerate() {
            if *own != 0.0 {
                *sum += own * derivative(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rtc_compiler::expr::{EvalError, ScalarValue, flat as place_in, reading, slope, tables};
    use rtc_compiler::ir::attr;

    use super::*;

    const FEW: usize = 7;
    const SIZES: [usize; 2] = [2, 4];

    struct Numbers {
        scores: Vec<f64>,
        table: Vec<f64>,
        /// Two values, of 1 and 2 channels.
        values: [Vec<f64>; 2],
    }

    impl PairNumbers<f64> for Numbers {
        fn table(&self, _: usize) -> &[f64] {
            &self.table
        }

        fn value(&self, value: usize, _: bool) -> (&[f64], usize) {
            (&self.values[value], value + 1)
        }

        fn start(&self, from: ReadFrom) -> usize {
            match from {
                ReadFrom::Table(_) => 0,
                ReadFrom::Value(value) => self.table.len() + value * self.values[0].len(),
                ReadFrom::Score => 0,
            }
        }

        fn scores(&self) -> &[f64] {
            &self.scores
        }
    }

    impl Numbers {
        fn new() -> Self {
            let wave = |n: usize, by: f64| (0..n).map(|k| ((k as f64 + 1.0) * by).sin()).collect::<Vec<_>>();
            let mut values = [wave(FEW, 1.7), wave(2 * FEW, 2.3)];
            // What is none, what is large, and a zero.
            (values[0][3], values[1][4], values[1][5]) = (f64::NAN, 1e200, 0.0);
            let mut scores = wave(FEW, 1.3);
            scores[2] = f64::INFINITY;
            Self { scores, table: wave(8, 0.9), values }
        }

        /// Where a use reads, and the number; `key` is that of the score.
        fn read(&self, from: ReadFrom, indices: &[Expr], env: &Env, key: usize) -> Result<(usize, f64), EvalError> {
            let (at, numbers) = match from {
                ReadFrom::Score => return Ok((usize::MAX, self.scores[key])),
                ReadFrom::Table(_) => (place_in(indices, &SIZES, env)?, &self.table),
                ReadFrom::Value(value) => {
                    let position = if indices[0] == Expr::Var(Var::I) { env.i } else { env.j };
                    let channel = indices.get(1).map(|index| rtc_compiler::expr::eval(index, env)).transpose()?;
                    let channel = if let Some(ScalarValue::Int(channel)) = channel { channel } else { 0 };
                    (position as usize * (value + 1) + channel as usize, &self.values[value])
                }
            };
            Ok((self.start(from) + at, numbers[at]))
        }
    }

    fn parsed(text: &str) -> Expr {
        Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression")
    }

    /// All queries, and keys from two places on.
    fn everywhere() -> impl Iterator<Item = (Env, usize)> {
        let env = |i, j, head| Env { i, j, step: 1, length: FEW as i64, head, given: None };
        let queries = (0..FEW as i64).flat_map(move |i| [env(i, 0, 0), env(i, 2, 1)]);
        queries.map(|env| (env, FEW - env.j as usize))
    }

    #[test]
    fn masks_hold_where_the_interpreter_says_so() {
        for text in [
            "and(le(j, i), eq(read_0(i), read_0(j)))",
            "or(lt(sub(i, j), 2), not(gt(read_1(j, head), read_1(i, rem(j, 2)))))",
            "eq(div(i, 3), div(sub(j, 5), 3))",
            "ne(rem(sub(j, i), 3), step)",
            "lt(mul(read_1(j, 0), read_1(j, 0)), 1.0)",
            "le(floor(mul(read_0(j), 4.0)), log(length, 2))",
            "ge(pow(2, sub(i, j)), 3)",
            "gt(log(sub(i, j)), read_0(i))",
            "and(ne(j, 0), lt(div(i, j), 3))",
            "lt(mul(mul(mul(i, 1000000), 1000000), j), 5)",
            "true",
            "lt(min(i, read_0(j)), max(j, 2.5))",
            "lt(when(gt(read_0(j), 0.1), div(i, j), sub(j, 2)), when(eq(i, 2), 1.5, 3))",
        ] {
            let (expr, numbers) = (parsed(text), Numbers::new());
            let uses = tables(&expr).operands();
            let program = PairProgram::new(&expr, &uses, &[]).expect("a program");
            for (env, keys) in everywhere() {
                let expected = |key: usize| {
                    let env = Env { j: env.j + key as i64, ..env };
                    let mut one = |n: usize, indices: &[Expr]| Ok(numbers.read(uses[n], indices, &env, key)?.1);
                    reading(&expr, &env, &mut one)
                };
                program.run(&env, keys, &numbers, |found| {
                    for key in 0..keys {
                        let (found, expected) = (value_of(found, key), expected(key));
                        let told = found.is_nan() || expected == Ok(ScalarValue::Bool(found == 1.0));
                        assert!(told, "{text} at {env:?}, {key}: {found}, expected {expected:?}");
                    }
                });
            }
        }
    }

    #[test]
    fn biases_and_their_slopes_are_those_of_the_interpreter() {
        for text in [
            "sub(read_0(i), read_0(j))",
            "add(mul(learn(head, min(sub(i, j), 3)), read_1(j, head)), neg(read_0(i)))",
            "mul(neg(learn(head, 1)), log(add(1, mul(max(read_0(j), 0.1), abs_of_distance))))",
            "div(read_1(j, 0), read_1(i, 1))",
            "pow(max(read_0(j), 0.0), 0.5)",
            "pow(2.0, mul(read_0(i), read_0(i)))",
            "rem(mul(read_0(j), 5.0), 2.0)",
            "min(read_1(i, 0), mul(read_0(j), learn_t(0, 2)))",
            "floor(read_0(j))",
            "sub(i, mul(2, j))",
            "read_0(j)",
            "mul(read_1(j, 0), 1e200)",
            "score",
            "add(mul(score, learn(head, 1)), mul(tanh(score), read_0(j)))",
            "div(sigmoid(mul(2, score)), sqrt(add(1, exp(read_0(i)))))",
            "sqrt(score)",
            "exp(mul(700.0, add(score, read_0(j))))",
            "when(lt(sub(i, j), 2), mul(score, read_0(i)), when(gt(read_0(j), 0.1), log(read_0(j)), learn(head, 1)))",
            "when(and(lt(j, 4), gt(read_0(j), 0.3)), sqrt(score), 2)",
        ] {
            let text = text.replace("abs_of_distance", "max(sub(i, j), sub(j, i))");
            let (expr, numbers) = (parsed(&text), Numbers::new());
            let uses = tables(&expr).operands();
            let program = PairProgram::new(&expr, &uses, &[SIZES.to_vec()]).expect("a program");
            let (mut untold, mut told) = (0, 0);
            for (env, keys) in everywhere() {
                let at = |key: usize| Env { j: env.j + key as i64, ..env };
                let by = |key: usize| if key == 1 { 0.0 } else { 0.5 + key as f64 };
                let (mut expected, mut by_score) = (vec![0.0; 8 + 3 * FEW], vec![0.0; keys]);
                let add = |key: usize, sums: &mut [f64], of_scores: &mut [f64]| {
                    for one in 0..uses.len() {
                        let mut place = None;
                        let mut learned = |n: usize, indices: &[Expr]| {
                            let (at, number) = numbers.read(uses[n], indices, &at(key), key)?;
                            place = if n == one { Some(at) } else { place };
                            Ok(number)
                        };
                        let found = slope(&expr, &at(key), &mut learned, one);
                        if let (Ok(found), Some(place)) = (found, place) {
                            let sum = if place == usize::MAX { &mut of_scores[key] } else { &mut sums[place] };
                            *sum += by(key) * found.slope;
                        }
                    }
                };
                program.run(&env, keys, &numbers, |found| {
                    for key in 0..keys {
                        let mut learned =
                            |n: usize, indices: &[Expr]| Ok(numbers.read(uses[n], indices, &at(key), key)?.1);
                        let value = slope(&expr, &at(key), &mut learned, usize::MAX).map(|found| found.value);
                        let found = value_of(found, key);
                        if found.is_nan() {
                            untold += 1;
                            assert!(
                                value.is_err() || value.is_ok_and(f64::is_nan),
                                "{text} at {env:?}, {key}: {value:?}"
                            );
                        } else {
                            told += 1;
                            let near = value.is_ok_and(|value| (value - found).abs() <= 4e-15 * value.abs());
                            assert!(near, "{text} at {env:?}, {key}: {found}, expected {value:?}");
                        }
                    }
                });
                (0..keys).for_each(|key| add(key, &mut expected, &mut by_score));
                let (mut found, mut of_scores) = (vec![0.0; expected.len()], vec![0.0; keys]);
                program.add_slopes(
                    &env,
                    (keys, &by),
                    &numbers,
                    (&mut found, &mut of_scores),
                    &mut |key, sums, scores| {
                        add(key, sums, scores);
                    },
                );
                let expected = expected.iter().chain(&by_score);
                for (at, (found, expected)) in found.iter().chain(&of_scores).zip(expected).enumerate() {
                    let scale = expected.abs().max(1.0);
                    assert!((found - expected).abs() <= 1e-12 * scale, "{text} at {env:?}, {at}: {found}, {expected}");
                }
            }
            assert!(3 * told > untold, "{text}: {told} of {} keys are told", told + untold);
        }
    }

    #[test]
    fn what_has_no_sort_or_is_drawn_has_no_program() {
        for text in ["not(i)", "and(true, j)", "eq(true, i)", "add(true, 1)", "lt(true, false)", "log(read_0(j), 2)"] {
            let expr = parsed(text);
            assert_eq!(PairProgram::new(&expr, &tables(&expr).operands(), &[]), None, "{text}");
        }
        assert_eq!(PairProgram::new(&Expr::Given, &[], &[]), None);
        assert_eq!(PairProgram::new(&Expr::Int(1 << 40), &[], &[]), None);
    }
}
