//! Masks, biases, scores and `stop` of an attention for all keys of a query at once: the function of an expression
//! ([`rtc_compiler::ir::scalar::ExprScalar`]) becomes a list of steps, each for one number, or for one of every key.

use std::cell::RefCell;
use std::ops::Range;

use rtc_compiler::expr::{BiasFacts, Env, Expr, LARGEST_BIAS, ReadFrom, Var};
use rtc_compiler::ir::pointwise::{Pointwise, Scalar};
use rtc_compiler::ir::scalar::{ExprScalar, Leaf, Untold};

use crate::storage::Element;
use rtc_kernel::attention::MaskRow;
use rtc_kernel::pointwise::{FunctionArgument, apply};

/// Keys that a program works out together.
pub const KEYS: usize = 256;

/// An expression as steps: those of its value, then those of its slopes.
#[derive(Clone, Debug, PartialEq)]
pub struct PairProgram {
    steps: Vec<PairStep>,
    /// Steps of the value.
    forward: usize,
    value: StepOperand,
    /// For steps that read a number, what it gets of a cotangent.
    shares: Vec<(usize, StepOperand)>,
}

#[derive(Clone, Debug, PartialEq)]
struct PairStep {
    op: StepOp,
    /// Whether there is one number for every key.
    by_key: bool,
}

/// The operation of a step.
#[derive(Clone, Debug, PartialEq)]
enum StepOp {
    Variable(Var),
    /// A number of a learned table.
    Table {
        table: usize,
        at: StepOperand,
    },
    /// A value at the query or at the key, in a channel.
    Value {
        value: usize,
        of_query: bool,
        channel: StepOperand,
    },
    /// The score before the expression.
    Score,
    /// The cotangent of the value.
    Cotangent,
    /// A function of earlier results.
    Call(Pointwise, [StepOperand; 3]),
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum StepOperand {
    Number(f64),
    Step(usize),
}
use StepOperand::{Number, Step};

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
    /// Where the queries and keys of the row stand, if not where they lie.
    fn places(&self) -> RowPlaces<'_> {
        RowPlaces::Own
    }
}

/// Where the queries and keys of a row stand in it.
#[derive(Clone, Copy, Debug)]
pub enum RowPlaces<'a> {
    /// Where they lie.
    Own,
    /// Queries, and keys, may be positions that were chosen: the places of each, rising, and the positions of the row.
    Chosen([Option<&'a [usize]>; 2], usize),
    /// Every position has so many keys.
    Slots(usize),
}

impl RowPlaces<'_> {
    /// The number of a query, or of a key, among the positions that have values.
    #[inline(always)]
    fn position(&self, of_keys: bool, at: usize) -> usize {
        match self {
            Self::Slots(slots) if of_keys => at / slots,
            _ => at,
        }
    }

    /// The place of a query, or of a key, in the row.
    #[inline(always)]
    fn place(&self, of_keys: bool, at: usize) -> usize {
        match self {
            Self::Chosen(places, _) => places[usize::from(of_keys)].map_or(at, |places| places[at]),
            _ => self.position(of_keys, at),
        }
    }

    /// The variables of a query and key 0 of its row.
    pub fn env(&self, at: MaskRow, step: i64) -> Env {
        let mut env = place(MaskRow { query: self.place(false, at.query), first: 0, ..at }, step);
        if let Self::Chosen(_, length) = self {
            env.length = *length as i64;
        }
        env
    }

    /// The keys that stand at a range of places.
    pub fn keys(&self, at: Range<usize>) -> Range<usize> {
        match self {
            Self::Slots(slots) => at.start.saturating_mul(*slots)..at.end.saturating_mul(*slots),
            Self::Chosen([_, Some(places)], _) => {
                places.partition_point(|place| *place < at.start)..places.partition_point(|place| *place < at.end)
            }
            Self::Chosen([_, None], _) | Self::Own => at,
        }
    }
}

/// The values of some keys.
pub struct PairValues<'a> {
    program: &'a PairProgram,
    results: &'a [f64],
    keys: usize,
}

impl PairValues<'_> {
    /// The number of a key: truth is 1 or 0, and what has no number NaN.
    #[inline(always)]
    pub fn at(&self, key: usize) -> f64 {
        match self.program.value {
            Number(x) => x,
            Step(step) => self.of(step, key),
        }
    }

    /// Whether a number that is read for a key is not finite: that is a fault of the weights, and not a place without a number.
    pub fn is_broken(&self, key: usize) -> bool {
        let steps = self.program.steps[..self.program.forward].iter().enumerate();
        let mut reads =
            steps.filter(|(_, step)| matches!(step.op, StepOp::Table { .. } | StepOp::Value { .. } | StepOp::Score));
        reads.any(|(step, _)| self.of(step, key).is_nan())
    }

    #[inline(always)]
    fn of(&self, step: usize, key: usize) -> f64 {
        self.results[step * self.keys + if self.program.steps[step].by_key { key } else { 0 }]
    }
}

thread_local! {
    /// What steps give, one after the other.
    static SCRATCH: RefCell<Vec<f64>> = const { RefCell::new(vec![]) };
}

/// The steps of functions over leaves, which are steps by then.
#[derive(Default)]
struct Compiler {
    steps: Vec<PairStep>,
    operands: Vec<StepOperand>,
}

impl Compiler {
    fn push(&mut self, op: StepOp) -> StepOperand {
        let by_key = |of: &StepOperand| matches!(of, Step(step) if self.steps[*step].by_key);
        let by_key = match &op {
            StepOp::Variable(var) => *var == Var::J,
            StepOp::Table { at, .. } => by_key(at),
            StepOp::Value { of_query, channel, .. } => !of_query || by_key(channel),
            StepOp::Score | StepOp::Cotangent => true,
            StepOp::Call(_, args) => args.iter().any(by_key),
        };
        let step = PairStep { op, by_key };
        Step(self.steps.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        }))
    }

    fn leaf(&mut self, leaf: &Leaf) -> Option<StepOp> {
        Some(match leaf {
            Leaf::Var(var) => StepOp::Variable(*var),
            Leaf::Given => return None,
            Leaf::Table { table, at } => StepOp::Table { table: *table, at: self.scalar(at) },
            Leaf::Value { value, of_query, channel } => {
                let channel = channel.as_ref().map_or(Number(0.0), |channel| self.scalar(channel));
                StepOp::Value { value: *value, of_query: *of_query, channel }
            }
            Leaf::Score => StepOp::Score,
        })
    }

    fn scalar(&mut self, scalar: &Scalar) -> StepOperand {
        match scalar {
            Scalar::Operand(n) => self.operands[*n],
            Scalar::Number(x) => Number(*x),
            Scalar::Call(func, args) => {
                let mut own = [Number(0.0); 3];
                own.iter_mut().zip(args).for_each(|(own, arg)| *own = self.scalar(arg));
                self.push(StepOp::Call(*func, own))
            }
        }
    }
}

/// A number that is read; NaN in place of one that is not finite in single precision, which is what ranges of expressions build on.
#[inline(always)]
fn sound(x: f64) -> f64 {
    if x.abs() <= LARGEST_BIAS { x } else { f64::NAN }
}

/// The number at a place; infinite where the place is NaN, or outside.
#[inline(always)]
fn number<T: Element>(numbers: &[T], at: f64) -> f64 {
    match numbers.get(at as usize) {
        Some(x) if at >= 0.0 => sound(x.to_f64()),
        _ => f64::INFINITY,
    }
}

/// The position at which a value is read, for a key after the first.
#[inline(always)]
fn position(of_query: bool, places: RowPlaces<'_>, env: &Env, key: usize) -> usize {
    if of_query { env.i as usize } else { places.position(true, env.j as usize + key) }
}

/// The variables for a query and its first key.
pub fn place(at: MaskRow, step: i64) -> Env {
    Env { i: at.query as i64, j: at.first as i64, step, length: at.queries as i64, head: at.head as i64, given: None }
}

impl PairProgram {
    /// The program of an expression: what its uses read, in reading order, and the sizes of its tables.
    ///
    /// # Errors
    /// One sentence where it is no function of a pair: it has a draw, a depth of an example, or mixes numbers and truth values.
    pub fn new(expr: &Expr, uses: &[ReadFrom], sizes: &[Vec<usize>]) -> Result<Self, String> {
        let refuse = |part: &Expr| format!("`{part}` has no number for a query and a key");
        let facts = BiasFacts::of_rows(usize::MAX, None);
        let own = ExprScalar::new(expr, uses, sizes, &facts, f64::MAX).map_err(|Untold(part)| refuse(&part))?;
        let mut compiler = Compiler::default();
        for leaf in &own.leaves {
            let op = compiler.leaf(leaf).ok_or_else(|| refuse(&Expr::Given))?;
            let step = compiler.push(op);
            compiler.operands.push(step);
        }
        let value = compiler.scalar(&own.scalar);
        let forward = compiler.steps.len();
        let shares = own.shares();
        if !shares.is_empty() {
            let cotangent = compiler.push(StepOp::Cotangent);
            compiler.operands.extend([value, cotangent]);
        }
        let share = |(leaf, share): (usize, Scalar)| match compiler.operands[leaf] {
            Step(step) => Some((step, compiler.scalar(&share))),
            Number(_) => None,
        };
        let shares = shares.into_iter().filter_map(share).collect();
        Ok(Self { steps: compiler.steps, forward, value, shares })
    }

    /// Steps of the value, each an operation for a key.
    pub fn cost(&self) -> usize {
        self.forward
    }

    /// Gives `f` the values for the keys from `env.j` on.
    pub fn run<T: Element, R>(
        &self,
        env: &Env,
        keys: usize,
        numbers: &impl PairNumbers<T>,
        f: impl FnOnce(&PairValues<'_>) -> R,
    ) -> R {
        self.with_scratch(self.forward * keys, |results| {
            (0..self.forward).for_each(|step| self.step(step, (env, keys), numbers, results));
            f(&PairValues { program: self, results, keys })
        })
    }

    /// Adds what `by` gives for each of the keys from `env.j` on, times the derivatives of the value by all numbers that are read, to `sums`.
    /// Those by the score go to `of_scores`, key by key. A value that is NaN adds nothing, nor does a derivative that is infinite or NaN.
    pub fn add_slopes<T: Element>(
        &self,
        env: &Env,
        (keys, by): (usize, &dyn Fn(usize) -> f64),
        numbers: &impl PairNumbers<T>,
        (sums, of_scores): (&mut [T], &mut [f64]),
    ) {
        if self.shares.is_empty() || (0..keys).all(|key| by(key) == 0.0) {
            return;
        }
        self.with_scratch(self.steps.len() * keys, |results| {
            for step in 0..self.steps.len() {
                match self.steps[step].op {
                    StepOp::Cotangent => {
                        for key in 0..keys {
                            let has_value = !self.operand(&self.value, keys, results, key).is_nan();
                            results[step * keys + key] = if has_value { by(key) } else { 0.0 };
                        }
                    }
                    _ => self.step(step, (env, keys), numbers, results),
                }
            }
            for (read, share) in &self.shares {
                let at = |of: &StepOperand, key: usize| self.operand(of, keys, results, key);
                let own = |key: usize| Some(at(share, key)).filter(|d| d.is_finite()).unwrap_or(0.0);
                match &self.steps[*read].op {
                    StepOp::Score => of_scores.iter_mut().enumerate().for_each(|(key, sum)| *sum += own(key)),
                    StepOp::Table { table, at: place } => {
                        let sums = &mut sums[numbers.start(ReadFrom::Table(*table))..];
                        self.add(*read, keys, &own, sums, |key| at(place, key));
                    }
                    StepOp::Value { value, of_query, channel } => {
                        let (_, channels) = numbers.value(*value, !of_query);
                        let places = numbers.places();
                        let first = |key: usize| position(*of_query, places, env, key) * channels;
                        let sums = &mut sums[numbers.start(ReadFrom::Value(*value))..];
                        self.add(*read, keys, &own, sums, |key| first(key) as f64 + at(channel, key));
                    }
                    StepOp::Variable(_) | StepOp::Cotangent | StepOp::Call(..) => {}
                }
            }
        });
    }

    /// Adds what every key changes of a number that is read, at its place; what is the same for all keys is read once.
    fn add<T: Element>(
        &self,
        read: usize,
        keys: usize,
        own: &impl Fn(usize) -> f64,
        sums: &mut [T],
        place: impl Fn(usize) -> f64,
    ) {
        if !self.steps[read].by_key {
            let at = place(0);
            if at >= 0.0 {
                sums[at as usize] += T::from_f64((0..keys).map(own).sum());
            }
            return;
        }
        for key in 0..keys {
            let (by, at) = (own(key), place(key));
            if by != 0.0 && at >= 0.0 {
                sums[at as usize] += T::from_f64(by);
            }
        }
    }

    fn with_scratch<R>(&self, len: usize, f: impl FnOnce(&mut [f64]) -> R) -> R {
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < len {
                scratch.resize(len, 0.0);
            }
            f(&mut scratch[..len])
        })
    }

    fn operand(&self, of: &StepOperand, keys: usize, results: &[f64], key: usize) -> f64 {
        match of {
            Number(x) => *x,
            Step(step) => results[step * keys + if self.steps[*step].by_key { key } else { 0 }],
        }
    }

    fn step<T: Element>(
        &self,
        n: usize,
        (env, keys): (&Env, usize),
        numbers: &impl PairNumbers<T>,
        results: &mut [f64],
    ) {
        if keys == 0 {
            return;
        }
        let PairStep { op, by_key } = &self.steps[n];
        let (done, rest) = results.split_at_mut(n * keys);
        let out = &mut rest[..if *by_key { keys } else { 1 }];
        match op {
            StepOp::Cotangent => {}
            StepOp::Score => out.iter_mut().zip(numbers.scores()).for_each(|(x, score)| *x = sound(*score)),
            StepOp::Variable(Var::J) => match numbers.places() {
                RowPlaces::Own => out.iter_mut().enumerate().for_each(|(key, x)| *x = (env.j + key as i64) as f64),
                places => {
                    let place = |key: usize| places.place(true, env.j as usize + key) as f64;
                    out.iter_mut().enumerate().for_each(|(key, x)| *x = place(key));
                }
            },
            StepOp::Variable(var) => {
                out[0] = match (var, numbers.places()) {
                    (Var::I, places) => places.place(false, env.i as usize) as f64,
                    (Var::Length, RowPlaces::Chosen(_, length)) => length as f64,
                    _ => env.get(*var) as f64,
                }
            }
            StepOp::Table { table, at } => {
                let table = numbers.table(*table);
                for (key, x) in out.iter_mut().enumerate() {
                    *x = number(table, self.operand(at, keys, done, key));
                }
            }
            StepOp::Value { value, of_query, channel } => {
                let (value, channels) = numbers.value(*value, !of_query);
                let places = numbers.places();
                for (key, x) in out.iter_mut().enumerate() {
                    let own = &value[position(*of_query, places, env, key) * channels..][..channels];
                    *x = number(own, self.operand(channel, keys, done, key));
                }
            }
            StepOp::Call(func, args) => {
                let args = args.map(|arg| match arg {
                    Number(x) => FunctionArgument::All(x),
                    Step(step) if self.steps[step].by_key => FunctionArgument::Each(&done[step * keys..][..keys]),
                    Step(step) => FunctionArgument::All(done[step * keys]),
                });
                apply(*func, args, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rtc_compiler::expr::{EvalError, ScalarValue, eval, flat as place_in, reading, tables};
    use rtc_compiler::ir::attr;

    use super::*;

    const FEW: usize = 7;
    const SIZES: [usize; 2] = [2, 4];

    #[derive(Clone)]
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
            (values[0][3], values[1][4], values[1][5]) = (f64::NAN, 1e38, 0.0);
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
                    let channel = indices.get(1).map(|index| eval(index, env)).transpose()?;
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

    /// What an expression gives for a key, as the interpreter has it.
    fn expected(expr: &Expr, uses: &[ReadFrom], numbers: &Numbers, env: &Env, key: usize) -> Result<f64, EvalError> {
        let env = Env { j: env.j + key as i64, ..*env };
        let mut one = |n: usize, indices: &[Expr]| Ok(numbers.read(uses[n], indices, &env, key)?.1);
        reading(expr, &env, &mut one).map(|found| match found {
            ScalarValue::Int(x) => x as f64,
            ScalarValue::Float(x) => x,
            ScalarValue::Bool(x) => f64::from(u8::from(x)),
        })
    }

    #[test]
    fn values_are_those_of_the_interpreter() {
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
            "lt(mul(mul(mul(i, 1000000), 1000000), mul(j, 1000000)), 5)",
            "true",
            "lt(min(i, read_0(j)), max(j, 2.5))",
            "lt(when(gt(read_0(j), 0.1), div(i, j), sub(j, 2)), when(eq(i, 2), 1.5, 3))",
            "sub(read_0(i), read_0(j))",
            "add(mul(learn(head, min(sub(i, j), 3)), read_1(j, head)), neg(read_0(i)))",
            "mul(neg(learn(head, 1)), log(add(1, mul(max(read_0(j), 0.1), max(sub(i, j), sub(j, i))))))",
            "div(read_1(j, 0), read_1(i, 1))",
            "min(1.0, div(1.0, read_1(j, 1)))",
            "pow(max(read_0(j), 0.0), 0.5)",
            "pow(2.0, mul(read_0(i), read_0(i)))",
            "rem(mul(read_0(j), 5.0), 2.0)",
            "floor(read_0(j))",
            "sub(i, mul(2, j))",
            "mul(read_1(j, 0), 1e200)",
            "tanh(mul(mul(sub(j, 2), 1e200), 1e200))",
            "add(mul(score, learn(head, 1)), mul(tanh(score), read_0(j)))",
            "div(sigmoid(mul(2, score)), sqrt(add(1, exp(read_0(i)))))",
            "sqrt(score)",
            "exp(mul(700.0, add(score, read_0(j))))",
            "when(and(lt(j, 4), gt(read_0(j), 0.3)), sqrt(score), 2)",
        ] {
            let (expr, numbers) = (parsed(text), Numbers::new());
            let uses = tables(&expr).operands();
            let program = PairProgram::new(&expr, &uses, &[SIZES.to_vec()]).expect("a program");
            let mut told = 0;
            for (env, keys) in everywhere() {
                program.run(&env, keys, &numbers, |found| {
                    for key in 0..keys {
                        let (found, expected) = (found.at(key), expected(&expr, &uses, &numbers, &env, key));
                        told += usize::from(!found.is_nan());
                        let same = match expected {
                            Ok(value) => (value - found).abs() <= 4e-15 * value.abs(),
                            Err(_) => found.is_nan(),
                        };
                        assert!(same, "{text} at {env:?}, {key}: {found}, expected {expected:?}");
                    }
                });
            }
            assert!(told > 10, "{text}: {told}");
        }
    }

    #[test]
    fn numbers_that_are_broken_are_told_from_places_without_a_number() {
        let numbers = Numbers::new();
        let env = Env { i: 1, length: FEW as i64, ..Env::default() };
        for (text, broken) in [("mul(read_0(j), 2.0)", true), ("div(1.0, sub(j, 3))", false), ("learn(head, j)", false)]
        {
            let expr = parsed(text);
            let uses = tables(&expr).operands();
            let program = PairProgram::new(&expr, &uses, &[SIZES.to_vec()]).expect("a program");
            program.run(&env, FEW, &numbers, |found| {
                let none: Vec<usize> = (0..FEW).filter(|key| found.at(*key).is_nan()).collect();
                assert!(none.contains(&if broken { 3 } else { FEW - 1 }) || text.contains("div"), "{text}: {none:?}");
                assert!(!none.is_empty() && none.iter().all(|key| found.is_broken(*key) == broken), "{text}: {none:?}");
            });
        }
    }

    /// Gradients are differences of the sum of all values, each times what `by` gives.
    #[test]
    fn slopes_are_differences() {
        for text in [
            "sub(read_0(i), read_0(j))",
            "add(mul(learn(head, min(sub(i, j), 3)), read_1(j, head)), neg(read_0(i)))",
            "mul(neg(learn(head, 1)), log(add(1, mul(max(read_0(j), 0.1), max(sub(i, j), sub(j, i))))))",
            "div(read_1(j, 0), add(3, read_1(i, 1)))",
            "pow(max(read_0(j), 0.01), 0.5)",
            "pow(2.0, mul(read_0(i), read_0(i)))",
            "rem(mul(read_0(j), 5.0), 2.0)",
            "min(read_1(i, 0), mul(read_0(j), learn_t(0, 2)))",
            "add(mul(score, learn(head, 1)), mul(tanh(score), read_0(j)))",
            "div(sigmoid(mul(2, score)), sqrt(add(1, exp(read_0(i)))))",
            "when(lt(sub(i, j), 2), mul(score, read_0(i)), when(gt(read_0(j), 0.1), log(read_0(j)), learn(head, 1)))",
        ] {
            let (expr, mut numbers) = (parsed(text), Numbers::new());
            let uses = tables(&expr).operands();
            let program = PairProgram::new(&expr, &uses, &[SIZES.to_vec(), SIZES.to_vec()]).expect("a program");
            (numbers.values[0][3], numbers.values[1][4], numbers.values[1][5], numbers.scores[2]) =
                (0.45, 0.7, 0.6, -0.3);
            let by = |key: usize| if key == 1 { 0.0 } else { 0.5 + key as f64 };
            let total = |numbers: &Numbers| {
                let mut sum = 0.0;
                for (env, keys) in everywhere() {
                    program.run(&env, keys, numbers, |found| {
                        let has = |key: &usize| !found.at(*key).is_nan();
                        sum += (0..keys).filter(has).map(|key| by(key) * found.at(key)).sum::<f64>();
                    });
                }
                sum
            };
            let (mut found, mut of_scores) = (vec![0.0; 8 + 3 * FEW], vec![0.0; FEW]);
            for (env, keys) in everywhere() {
                let mut own = vec![0.0; keys];
                program.add_slopes(&env, (keys, &by), &numbers, (&mut found, &mut own));
                of_scores.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
            let moved = |at: usize, by: f64| {
                let mut moved = numbers.clone();
                let all = moved.table.iter_mut().chain(moved.values.iter_mut().flatten()).chain(&mut moved.scores);
                all.skip(at).take(1).for_each(|x| *x += by);
                total(&moved)
            };
            for (at, found) in found.iter().chain(&of_scores).enumerate() {
                let difference = (moved(at, 1e-6) - moved(at, -1e-6)) / 2e-6;
                let scale = difference.abs().max(1.0);
                assert!((found - difference).abs() <= 1e-6 * scale, "{text}, {at}: {found}, {difference}");
            }
        }
    }

    #[test]
    fn slopes_without_a_number_add_nothing() {
        let (expr, mut numbers) = (parsed("sqrt(mul(read_0(j), read_0(j)))"), Numbers::new());
        numbers.values[0].fill(0.0);
        let program = PairProgram::new(&expr, &tables(&expr).operands(), &[]).expect("a program");
        let mut sums = vec![0.0; 8 + 3 * FEW];
        program.add_slopes(&Env::default(), (FEW, &|_| 1.0), &numbers, (&mut sums, &mut []));
        assert_eq!(sums, vec![0.0; 8 + 3 * FEW]);
    }

    #[test]
    fn what_has_no_sort_or_is_drawn_has_no_program() {
        for text in ["not(i)", "and(true, j)", "eq(true, i)", "add(true, 1)", "lt(true, false)", "log(read_0(j), 2)"] {
            let expr = parsed(text);
            assert!(PairProgram::new(&expr, &tables(&expr).operands(), &[]).is_err(), "{text}");
        }
        assert!(PairProgram::new(&Expr::Given, &[], &[]).is_err());
    }
}
