//! Masks that compare what a query has with what a key has: the keys of a query are looked up, and not asked one by one.
//!
//! `f(i) == g(j) and ..` holds for those keys whose `g` is the `f` of the query. Sorted by their numbers once for every row, they are found
//! in logarithmic time (a join by sorting), so that a query costs what it sees. What else the mask says must be a range of keys at the
//! query; where it is none, or a number is not an ordinary one ([`PairProgram`]), keys are asked as without a join.

use std::cmp::Ordering;

use rtc_compiler::expr::{BinaryOp, Env, Expr, Var, reach, simplify, tables};
use rtc_kernel::attention::MaskRow;
use rtc_kernel::parallel::fill;

use crate::arena::Arena;
use crate::pair_program::{PairNumbers, PairProgram, place, value_of};
use crate::storage::{Element, List};

/// The most equalities of a join.
const SIDES: usize = 4;

/// Stands first among the keys of a row that has no order.
const NO_ORDER: u32 = u32::MAX;

/// Keys of which a program works out so many together.
const KEYS: usize = 256;

/// A mask as equalities of a number of the query and one of the key, and the rest.
#[derive(Debug)]
pub struct PairJoin {
    sides: Vec<EqualSides>,
    /// What else must hold.
    rest: Expr,
}

#[derive(Debug)]
struct EqualSides {
    of_query: PairProgram,
    of_key: PairProgram,
}

impl PairJoin {
    /// The join of a mask; `None` for a mask without an equality that no range of keys tells.
    pub fn new(mask: &Expr) -> Option<Self> {
        let (mut sides, mut rest) = (vec![], Expr::Bool(true));
        let mut parts = vec![mask];
        while let Some(part) = parts.pop() {
            match part {
                Expr::Binary(BinaryOp::And, a, b) => parts.extend([&**b, &**a]),
                _ => match EqualSides::new(part).filter(|_| sides.len() < SIDES) {
                    Some(side) => sides.push(side),
                    None => rest = Expr::Binary(BinaryOp::And, Box::new(rest), Box::new(part.clone())),
                },
            }
        }
        (!sides.is_empty()).then(|| Self { sides, rest: simplify(rest) })
    }

    /// Of keys in rising order those that the rest shows, too, and whether that tells all of the mask.
    fn among<'k>(&self, keys: &'k [u32], at: MaskRow, step: i64) -> (&'k [u32], bool) {
        let found = reach(&self.rest, &place(at, step), usize::MAX);
        let before = |end: usize| keys.partition_point(|key| (*key as usize) < end);
        (&keys[before(found.keys.start)..before(found.keys.end)], found.exact)
    }
}

impl EqualSides {
    fn new(part: &Expr) -> Option<Self> {
        let Expr::Binary(BinaryOp::Eq, a, b) = part else { return None };
        // A place inside of a row stands for all.
        let is_range = reach(part, &Env { i: 5, length: 9, ..Env::default() }, usize::MAX).exact;
        // Only sides of one sort may be equal.
        let is_sorted = program(part).is_some();
        let is_of_key = |x: &Expr, other: &Expr| x.uses(Var::J) && !x.uses(Var::I) && !other.uses(Var::J);
        match (is_of_key(a, b), is_of_key(b, a)) {
            _ if is_range || !is_sorted || part.uses(Var::Head) => None,
            (true, _) => Some(Self { of_query: program(b)?, of_key: program(a)? }),
            (_, true) => Some(Self { of_query: program(a)?, of_key: program(b)? }),
            _ => None,
        }
    }
}

fn program(expr: &Expr) -> Option<PairProgram> {
    PairProgram::new(expr, &tables(expr).operands(), &[])
}

/// Where the rows of queries, and of keys, begin.
#[derive(Clone, Copy)]
pub struct RowStarts<'a> {
    /// Of queries.
    pub queries: &'a [usize],
    /// Of keys.
    pub keys: &'a [usize],
}

impl RowStarts<'_> {
    fn counts(&self) -> [usize; 2] {
        [self.queries, self.keys].map(|starts| starts.last().copied().unwrap_or(0))
    }

    /// The place of a query of the batch, in a head.
    pub fn query(&self, place: usize, head: usize) -> MaskRow {
        let row = self.queries.partition_point(|start| *start <= place) - 1;
        let (start, end) = (self.queries[row], self.queries[row + 1]);
        MaskRow { row, head, query: place - start, queries: end - start, first: 0 }
    }
}

/// The keys of every query of a batch, as joins find them.
pub struct KeyOrder {
    /// For every join the keys of each row, sorted by their numbers and then by their places.
    order: List<u32>,
    /// For every join and query its keys, as places in the order of its row.
    found: List<Option<(u32, u32)>>,
}

/// The same for all threads.
#[derive(Clone, Copy)]
pub struct JoinedKeys<'a> {
    joins: &'a [Option<PairJoin>],
    step: i64,
    starts: RowStarts<'a>,
    order: &'a [u32],
    found: &'a [Option<(u32, u32)>],
}

impl KeyOrder {
    /// Sorts the keys of all rows and looks those of every query up; `joins` has one, or one for every head, `numbers` what is read in a row.
    pub fn new<T: Element, N: PairNumbers<T>>(
        joins: &[Option<PairJoin>],
        step: i64,
        starts: RowStarts<'_>,
        numbers: impl Fn(usize) -> N + Sync,
        arena: &Arena,
    ) -> Self {
        let [queries, keys] = starts.counts();
        let mut order = arena.list(std::iter::repeat_n(NO_ORDER, keys * joins.len()));
        let mut found = arena.list(std::iter::repeat_n(None, queries * joins.len()));
        let most = joins.iter().flatten().map(|join| join.sides.len()).max().unwrap_or(0);
        let mut sorted_by = arena.list(std::iter::repeat_n([0.0; SIDES], if most > 0 { keys } else { 0 }));
        for (head, join) in joins.iter().enumerate() {
            let Some(join) = join else { continue };
            let order = &mut order[head * keys..][..keys];
            for row in 0..starts.keys.len() - 1 {
                let own = starts.keys[row]..starts.keys[row + 1];
                let length = starts.queries[row + 1] - starts.queries[row];
                let env = place(MaskRow { row, head, query: 0, queries: length, first: 0 }, step);
                let by = &mut sorted_by[own.clone()];
                if join.key_numbers(&env, &numbers(row), by) {
                    let order = &mut order[own];
                    (0..).zip(&mut *order).for_each(|(key, place)| *place = key);
                    order.sort_unstable_by(|a, b| compared(&by[*a as usize], &by[*b as usize]).then(a.cmp(b)));
                }
            }
            let (order, sorted_by) = (&*order, &*sorted_by);
            let cost = 64 * join.sides.len();
            fill(&mut found[head * queries..][..queries], cost, |at| {
                let at = starts.query(at, head);
                let own = starts.keys[at.row]..starts.keys[at.row + 1];
                let (order, by) = (&order[own.clone()], &sorted_by[own]);
                if order.first().is_some_and(|key| *key == NO_ORDER) {
                    return None;
                }
                let wanted = join.query_numbers(&place(at, step), &numbers(at.row))?;
                let start = order.partition_point(|key| compared(&by[*key as usize], &wanted).is_lt());
                let count = order[start..].partition_point(|key| compared(&by[*key as usize], &wanted).is_eq());
                Some((start as u32, (start + count) as u32))
            });
        }
        Self { order, found }
    }

    /// Returns it for all threads; joins, step and rows are those that it was made of.
    pub fn keys<'a>(&'a self, joins: &'a [Option<PairJoin>], step: i64, starts: RowStarts<'a>) -> JoinedKeys<'a> {
        JoinedKeys { joins, step, starts, order: &self.order, found: &self.found }
    }
}

impl<'a> JoinedKeys<'a> {
    /// The keys of a query that its join leaves, in rising order, and whether the mask shows all of them; nothing where no join tells it.
    pub fn of(&self, at: MaskRow) -> Option<(&'a [u32], bool)> {
        let [queries, keys] = self.starts.counts();
        let head = if self.joins.len() == 1 { 0 } else { at.head };
        let join = self.joins[head].as_ref()?;
        let (start, end) = self.found[head * queries + self.starts.queries[at.row] + at.query]?;
        let order = &self.order[head * keys + self.starts.keys[at.row]..];
        Some(join.among(&order[start as usize..end as usize], at, self.step))
    }
}

impl PairJoin {
    /// The numbers by which the keys of a row are sorted; whether all are ordinary ones.
    fn key_numbers<T: Element>(&self, env: &Env, row: &impl PairNumbers<T>, out: &mut [[f64; SIDES]]) -> bool {
        let mut ordinary = true;
        for (first, out) in (0..).step_by(KEYS).zip(out.chunks_mut(KEYS)) {
            for (side, EqualSides { of_key, .. }) in self.sides.iter().enumerate() {
                of_key.run(&Env { j: first, ..*env }, out.len(), row, |numbers| {
                    for (key, out) in out.iter_mut().enumerate() {
                        let number = value_of(numbers, key);
                        // Both zeros are equal.
                        out[side] = number + 0.0;
                        ordinary &= !number.is_nan();
                    }
                });
            }
        }
        ordinary
    }

    /// The numbers of a query.
    fn query_numbers<T: Element>(&self, env: &Env, row: &impl PairNumbers<T>) -> Option<[f64; SIDES]> {
        let mut out = [0.0; SIDES];
        for (EqualSides { of_query, .. }, out) in self.sides.iter().zip(&mut out) {
            *out = of_query.run(env, 1, row, |numbers| numbers[0]) + 0.0;
            if out.is_nan() {
                return None;
            }
        }
        Some(out)
    }
}

fn compared(a: &[f64; SIDES], b: &[f64; SIDES]) -> Ordering {
    let sides = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
    sides.fold(Ordering::Equal, Ordering::then)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtc_compiler::expr::{ReadFrom, ScalarValue, reading};
    use rtc_compiler::ir::attr;

    /// Two rows of numbers at every position.
    const NUMBERS: [&[f64]; 2] = [&[0.0, 0.0, 1.0, 1.0, -0.0, 2.0, 1.0], &[3.0, 3.0, 3.0, 1e300, 0.5]];

    struct Row(&'static [f64]);

    impl PairNumbers<f64> for Row {
        fn table(&self, _: usize) -> &[f64] {
            &[]
        }

        fn value(&self, _: usize, _: bool) -> (&[f64], usize) {
            (self.0, 1)
        }

        fn start(&self, _: ReadFrom) -> usize {
            0
        }
    }

    fn parsed(text: &str) -> Expr {
        Expr::try_from(&attr::parse(text).expect("an attribute")).expect("an expression")
    }

    /// The keys that a query sees, asked one by one.
    fn asked(mask: &Expr, at: MaskRow, step: i64, keys: usize) -> Vec<u32> {
        let sees = |key: &u32| {
            let env = Env { j: i64::from(*key), ..place(at, step) };
            let found = reading(mask, &env, &mut |_, indices| {
                let position = if indices[0] == Expr::Var(Var::I) { env.i } else { env.j };
                Ok(NUMBERS[at.row][position as usize])
            });
            found == Ok(ScalarValue::Bool(true))
        };
        (0..keys as u32).filter(sees).collect()
    }

    #[test]
    fn found_keys_are_those_that_are_seen() {
        let starts = [0, 7, 12];
        let rows = RowStarts { queries: &starts, keys: &starts };
        for (text, told) in [
            ("eq(read_0(i), read_0(j))", true),
            ("and(le(j, i), eq(read_0(i), read_0(j)))", true),
            ("and(eq(read_0(j), 1.0), gt(j, 2))", true),
            ("eq(rem(i, 3), rem(j, 3))", true),
            ("and(eq(rem(i, 3), rem(j, 3)), eq(read_0(i), sub(1.0, read_0(j))))", true),
            ("and(eq(div(i, 2), div(j, 2)), eq(rem(j, 2), rem(i, 2)))", true),
            ("and(eq(rem(i, 2), rem(j, 2)), ne(j, i))", false),
            ("eq(div(4, sub(j, 2)), i)", false),
            ("eq(mul(read_0(j), 1e300), mul(read_0(i), 1e300))", false),
            ("and(eq(rem(i, 4), rem(j, 4)), eq(rem(i, step), rem(j, 2)))", true),
        ] {
            let mask = parsed(text);
            let join = [Some(PairJoin::new(&mask).unwrap_or_else(|| panic!("{text} has a join")))];
            for step in [0, 2] {
                let order = KeyOrder::new(&join, step, rows, |row| Row(NUMBERS[row]), &Arena::default());
                let joined = order.keys(&join, step, rows);
                let mut all = true;
                for at in (0..12).map(|place| rows.query(place, 0)) {
                    let seen = asked(&mask, at, step, at.queries);
                    match joined.of(at) {
                        Some((keys, true)) => assert_eq!(keys, seen, "{text} at {at:?}"),
                        found => {
                            all = false;
                            let holds = |keys: &[u32]| seen.iter().all(|key| keys.contains(key));
                            assert!(found.is_none_or(|(keys, _)| holds(keys)), "{text} at {at:?}");
                        }
                    }
                }
                assert!(all || !told || step == 0 && text.contains("step"), "{text} is asked");
                assert!(!all || told, "{text} is not asked");
            }
        }
    }

    #[test]
    fn what_has_no_equality_of_one_sort_has_no_join() {
        for text in [
            "le(j, i)",
            "or(eq(rem(i, 2), rem(j, 2)), le(j, i))",
            "eq(i, sub(j, 1))",
            "eq(div(i, 4), div(j, 4))",
            "eq(rem(sub(i, j), 2), 0)",
            "eq(le(j, 2), rem(i, 2))",
            "eq(rem(j, 2), head)",
        ] {
            assert!(PairJoin::new(&parsed(text)).is_none(), "{text}");
        }
        assert!(PairJoin::new(&parsed("eq(rem(j, 2), head)").at_head(1)).is_some());
    }
}
