//! The keys of every query of a batch, looked up where the mask tells them ([`KeyJoin`]), and not asked one by one.
//!
//! Sorted by their numbers once for every row, the keys of a query are found in logarithmic time (a join by sorting), so that a query costs
//! what it sees. Where the rest of an alternative is no range at a query, or a number is not an ordinary one ([`PairProgram`]), keys are
//! asked as without a join.

use std::cmp::Ordering;
use std::ops::Range;

use rtc_compiler::expr::{Env, Expr, reach, tables};
use rtc_compiler::ir::join::{ALTERNATIVES, EqualSides, KeyAlternative, KeyJoin, SIDES};
use rtc_kernel::attention::MaskRow;
use rtc_kernel::parallel::fill;

use crate::arena::Arena;
use crate::pair_program::{KEYS, PairNumbers, PairProgram, place};
use crate::storage::{Element, List};

/// Stands first among the keys of a row that has no order.
const NO_ORDER: u32 = u32::MAX;

/// A join, with what its parts say of the keys of a query.
#[derive(Debug)]
pub struct PairJoin {
    alternatives: Vec<Alternative>,
}

#[derive(Debug)]
struct Alternative {
    sides: Vec<SidePrograms>,
    /// What else must hold.
    rest: Expr,
}

#[derive(Debug)]
struct SidePrograms {
    of_query: PairProgram,
    of_key: PairProgram,
}

impl PairJoin {
    /// The programs of a join.
    ///
    /// # Errors
    /// One sentence where a side is no function of a pair.
    pub fn new(join: KeyJoin) -> Result<Self, String> {
        let of = |KeyAlternative { sides, rest }| {
            let sides = sides.iter().map(SidePrograms::new).collect::<Result<_, _>>()?;
            Ok(Alternative { sides, rest })
        };
        Ok(Self { alternatives: join.alternatives.into_iter().map(of).collect::<Result<_, String>>()? })
    }
}

impl SidePrograms {
    fn new(sides: &EqualSides) -> Result<Self, String> {
        let program = |expr: &Expr| PairProgram::new(expr, &tables(expr).operands(), &[]);
        Ok(Self { of_query: program(&sides.of_query)?, of_key: program(&sides.of_key)? })
    }
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

/// The keys of every query of a batch, as joins find them: for every join, and every alternative that any join has.
pub struct KeyOrder {
    /// The keys of each row, sorted by their numbers and then by their places.
    order: List<u32>,
    /// For every query its keys.
    found: List<Option<KeyPlaces>>,
    /// How many alternatives the joins have at most.
    most: usize,
}

/// Keys of an alternative: places in the order of their row, or of an alternative without equalities the keys themselves.
#[derive(Clone, Copy)]
struct KeyPlaces {
    start: u32,
    end: u32,
    /// Whether the alternative shows all of them.
    is_all: bool,
}

/// The same for all threads.
#[derive(Clone, Copy)]
pub struct JoinedKeys<'a> {
    joins: &'a [Option<PairJoin>],
    starts: RowStarts<'a>,
    order: &'a [u32],
    found: &'a [Option<KeyPlaces>],
    most: usize,
}

/// Some keys of a query.
#[derive(Clone, Copy)]
enum KeyPiece<'a> {
    /// From one to before another.
    Run(usize, usize),
    /// In rising order.
    Places(&'a [u32]),
}

/// The keys of a query, piece by piece; a key may be in several.
pub struct FoundKeys<'a> {
    pieces: [KeyPiece<'a>; ALTERNATIVES],
    count: usize,
    /// Whether the mask shows all of them; else it shows some of them.
    pub is_all: bool,
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
        let mut all = joins.iter().flatten().flat_map(|join| &join.alternatives);
        let sorted = if all.any(|one| !one.sides.is_empty()) { keys } else { 0 };
        let most = joins.iter().flatten().map(|join| join.alternatives.len()).max().unwrap_or(0);
        let mut order = arena.list(std::iter::repeat_n(NO_ORDER, sorted * joins.len() * most));
        let mut found = arena.list(std::iter::repeat_n(None, queries * joins.len() * most));
        let mut sorted_by = arena.list(std::iter::repeat_n([0.0; SIDES], sorted));
        for (head, join) in joins.iter().enumerate() {
            for (at, one) in join.iter().flat_map(|join| &join.alternatives).enumerate() {
                let list = head * most + at;
                let order = &mut order[list * sorted..][..sorted];
                for row in 0..if one.sides.is_empty() { 0 } else { starts.keys.len() - 1 } {
                    let own = starts.keys[row]..starts.keys[row + 1];
                    let length = starts.queries[row + 1] - starts.queries[row];
                    let env = place(MaskRow { row, head, query: 0, queries: length, first: 0 }, step);
                    let by = &mut sorted_by[own.clone()];
                    if one.key_numbers(&env, &numbers(row), by) {
                        let order = &mut order[own];
                        (0..).zip(&mut *order).for_each(|(key, place)| *place = key);
                        order.sort_unstable_by(|a, b| compared(&by[*a as usize], &by[*b as usize]).then(a.cmp(b)));
                    }
                }
                let (order, sorted_by) = (&*order, &*sorted_by);
                let is_last = join.as_ref().is_some_and(|join| at + 1 == join.alternatives.len());
                fill(&mut found[list * queries..][..queries], 64 * (one.sides.len() + 1), |query| {
                    let at = starts.query(query, head);
                    let own = starts.keys[at.row]..starts.keys[at.row + 1];
                    let known = own.start.min(sorted)..own.end.min(sorted);
                    let sorted = (&order[known.clone()], &sorted_by[known]);
                    one.found(at, step, own.len(), sorted, &numbers(at.row), is_last)
                });
            }
        }
        Self { order, found, most }
    }

    /// Returns it for all threads; joins and rows are those that it was made of.
    pub fn keys<'a>(&'a self, joins: &'a [Option<PairJoin>], starts: RowStarts<'a>) -> JoinedKeys<'a> {
        JoinedKeys { joins, starts, order: &self.order, found: &self.found, most: self.most }
    }
}

impl<'a> JoinedKeys<'a> {
    /// The keys of a query that its join leaves; nothing where no join tells them.
    pub fn of(&self, at: MaskRow) -> Option<FoundKeys<'a>> {
        let [queries, keys] = self.starts.counts();
        let head = if self.joins.len() == 1 { 0 } else { at.head };
        let join = self.joins[head].as_ref()?;
        let mut keys_found = FoundKeys { pieces: [KeyPiece::Run(0, 0); ALTERNATIVES], count: 0, is_all: true };
        for (n, one) in join.alternatives.iter().enumerate() {
            let list = head * self.most + n;
            let own = self.found[list * queries + self.starts.queries[at.row] + at.query]?;
            let (start, end) = (own.start as usize, own.end as usize);
            keys_found.is_all &= own.is_all;
            if start < end {
                keys_found.pieces[keys_found.count] = match one.sides.is_empty() {
                    true => KeyPiece::Run(start, end),
                    false => KeyPiece::Places(&self.order[list * keys + self.starts.keys[at.row]..][start..end]),
                };
                keys_found.count += 1;
            }
        }
        Some(keys_found)
    }
}

impl KeyPiece<'_> {
    /// The range that holds them, and whether it holds no others.
    fn span(&self) -> (Range<usize>, bool) {
        match *self {
            Self::Run(start, end) => (start..end, true),
            Self::Places(keys) => {
                let span = keys[0] as usize..keys[keys.len() - 1] as usize + 1;
                let in_one = span.len() == keys.len();
                (span, in_one)
            }
        }
    }
}

impl FoundKeys<'_> {
    fn pieces(&self) -> &[KeyPiece<'_>] {
        &self.pieces[..self.count]
    }

    /// The range that holds them, and whether it holds no others.
    pub fn span(&self) -> (Range<usize>, bool) {
        let mut spans: [(usize, usize); ALTERNATIVES] = [(0, 0); ALTERNATIVES];
        let mut in_one = true;
        for (piece, span) in self.pieces().iter().zip(&mut spans) {
            let (own, is_run) = piece.span();
            *span = (own.start, own.end);
            in_one &= is_run;
        }
        let spans = &mut spans[..self.count];
        spans.sort_unstable();
        let Some(&(start, mut end)) = spans.first() else { return (0..0, true) };
        for (from, to) in spans {
            in_one &= *from <= end;
            end = end.max(*to);
        }
        (start..end, in_one)
    }

    /// Gives their ranges, in no order.
    pub fn runs(&self, f: &mut dyn FnMut(Range<usize>)) {
        for piece in self.pieces() {
            match (piece, piece.span()) {
                (_, (span, true)) => f(span),
                (KeyPiece::Places(keys), _) => keys.iter().for_each(|key| f(*key as usize..*key as usize + 1)),
                (KeyPiece::Run(start, end), _) => f(*start..*end),
            }
        }
    }

    /// Marks them among some keys from `first` on, and no others.
    pub fn mark(&self, first: usize, holds: &mut [bool]) {
        holds.fill(false);
        let end = first + holds.len();
        for piece in self.pieces() {
            match piece {
                KeyPiece::Run(from, to) => {
                    holds[from.clamp(&first, &end) - first..to.clamp(&first, &end) - first].fill(true)
                }
                KeyPiece::Places(keys) => {
                    let before = |end: usize| keys.partition_point(|key| (*key as usize) < end);
                    for key in &keys[before(first)..before(end)] {
                        holds[*key as usize - first] = true;
                    }
                }
            }
        }
    }
}

impl Alternative {
    /// The keys of a query, of `length` that are sorted as `order` says by their numbers; `None` where they are not known.
    fn found<T: Element>(
        &self,
        at: MaskRow,
        step: i64,
        length: usize,
        (order, by): (&[u32], &[[f64; SIDES]]),
        row: &impl PairNumbers<T>,
        is_last: bool,
    ) -> Option<KeyPlaces> {
        let env = place(at, step);
        let rest = reach(&self.rest, &env, length);
        // What has no value also hides keys that a later alternative shows.
        let is_all = rest.exact && (is_last || !rest.fails);
        let places = |start: usize, end: usize| KeyPlaces { start: start as u32, end: end as u32, is_all };
        if self.sides.is_empty() {
            return Some(places(rest.keys.start, rest.keys.end));
        }
        if order.first().is_some_and(|key| *key == NO_ORDER) {
            return None;
        }
        let wanted = self.query_numbers(&env, row)?;
        let start = order.partition_point(|key| compared(&by[*key as usize], &wanted).is_lt());
        let same = &order[start..];
        let same = &same[..same.partition_point(|key| compared(&by[*key as usize], &wanted).is_eq())];
        let before = |end: usize| start + same.partition_point(|key| (*key as usize) < end);
        Some(places(before(rest.keys.start), before(rest.keys.end)))
    }

    /// The numbers by which the keys of a row are sorted; whether all are ordinary ones.
    fn key_numbers<T: Element>(&self, env: &Env, row: &impl PairNumbers<T>, out: &mut [[f64; SIDES]]) -> bool {
        let mut ordinary = true;
        for (first, out) in (0..).step_by(KEYS).zip(out.chunks_mut(KEYS)) {
            for (side, SidePrograms { of_key, .. }) in self.sides.iter().enumerate() {
                of_key.run(&Env { j: first, ..*env }, out.len(), row, |numbers| {
                    for (key, out) in out.iter_mut().enumerate() {
                        let number = numbers.at(key);
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
        for (SidePrograms { of_query, .. }, out) in self.sides.iter().zip(&mut out) {
            *out = of_query.run(env, 1, row, |numbers| numbers.at(0)) + 0.0;
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
    use rtc_compiler::expr::{ReadFrom, ScalarValue, Var, reading};
    use rtc_compiler::ir::attr;

    /// Two rows of numbers at every position.
    const NUMBERS: [&[f64]; 2] = [&[0.0, 0.0, 1.0, 1.0, -0.0, 2.0, 1.0], &[3.0, 3.0, 3.0, 1e38, 0.5]];

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

        fn scores(&self) -> &[f64] {
            &[]
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

    /// The keys that are found, of so many in a row; all ways of telling them say the same.
    fn marked(found: &FoundKeys<'_>, keys: usize) -> Vec<u32> {
        let mut holds = vec![true; keys];
        found.mark(0, &mut holds[..3]);
        found.mark(3, &mut holds[3..]);
        let mut runs = vec![false; keys];
        found.runs(&mut |run| runs[run].fill(true));
        assert_eq!(holds, runs);
        let keys: Vec<u32> = (0..).zip(holds).filter(|(_, holds)| *holds).map(|(key, _)| key).collect();
        let (span, in_one) = found.span();
        let [start, end] = [keys.first(), keys.last()].map(|key| key.map_or(0, |key| *key as usize));
        assert_eq!(span, start..if keys.is_empty() { 0 } else { end + 1 });
        assert!(!in_one || span.len() == keys.len(), "{keys:?}");
        keys
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
            ("and(le(j, i), or(lt(j, 1), lt(sub(i, j), 2)))", true),
            ("or(or(lt(j, 1), ge(j, 4)), eq(j, i))", true),
            ("or(eq(rem(i, 3), rem(j, 3)), and(eq(read_0(i), read_0(j)), le(j, i)))", true),
            ("and(le(j, i), or(eq(div(i, 2), div(j, 2)), eq(floor(div(min(read_0(i), 9.0), 2.0)), div(j, 2))))", true),
            ("or(eq(rem(4, sub(i, 2)), 0), eq(read_0(i), read_0(j)))", false),
            ("or(eq(read_0(i), read_0(j)), eq(rem(4, sub(i, 2)), 0))", true),
            ("or(eq(rem(j, 2), rem(i, 2)), and(lt(j, 3), eq(rem(4, sub(i, 2)), 0)))", true),
        ] {
            let mask = parsed(text);
            let join = KeyJoin::new(&mask).unwrap_or_else(|| panic!("{text} has a join"));
            let join = [Some(PairJoin::new(join).expect("functions of a pair"))];
            for step in [0, 2] {
                let order = KeyOrder::new(&join, step, rows, |row| Row(NUMBERS[row]), &Arena::default());
                let joined = order.keys(&join, rows);
                let mut all = true;
                for at in (0..12).map(|place| rows.query(place, 0)) {
                    let seen = asked(&mask, at, step, at.queries);
                    let Some(found) = joined.of(at) else {
                        all = false;
                        continue;
                    };
                    let keys = marked(&found, at.queries);
                    all &= found.is_all;
                    assert!(!found.is_all || keys == seen, "{text} at {at:?}: {keys:?} for {seen:?}");
                    assert!(seen.iter().all(|key| keys.contains(key)), "{text} at {at:?}: {keys:?} for {seen:?}");
                }
                assert!(all || !told || step == 0 && text.contains("step"), "{text} is asked");
                assert!(!all || told, "{text} is not asked");
            }
        }
    }
}
