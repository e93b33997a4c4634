//! Random pairs of formulas, by number of operators.

use std::collections::{BTreeMap, BTreeSet};

use super::formula::HOLDS;
use super::{AND, CLOSE, NOT, OPEN, OR, VARIABLE};
use rtc_base::rng::{Draws, Key};

/// So many of the six variables occur in a pair.
const VARIABLES: usize = 4;
/// The budget of a formula: every binary operator halves it, and below 2 there is none.
const BUDGET: usize = 12;
/// The last bucket takes all pairs with so many operators or more.
pub(super) const LAST: usize = 12;

/// A pair of formulas as tokens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FormulaPair {
    pub(super) left: Vec<u32>,
    pub(super) right: Vec<u32>,
}

/// Facts of a formula that was written.
#[derive(Clone, Copy)]
struct FormulaFacts {
    worlds: u64,
    operators: usize,
}

impl FormulaFacts {
    /// Whether it holds in every world or in none.
    fn is_trivial(self) -> bool {
        self.worlds == 0 || self.worlds == u64::MAX
    }
}

/// The distinct pairs of the wanted buckets among the first `pairs` non-trivial ones, in the order in which they were
/// drawn, each with its number among all.
pub(super) fn buckets(key: Key, pairs: u64, wanted: &[usize]) -> BTreeMap<usize, Vec<(u64, FormulaPair)>> {
    let mut found: BTreeMap<usize, Vec<(u64, FormulaPair)>> =
        wanted.iter().map(|bucket| (*bucket, Vec::new())).collect();
    let mut seen = BTreeSet::new();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let (mut index, mut accepted) = (0, 0);
    while accepted < pairs {
        let mut draws = key.at(index).draws();
        index += 1;
        let mut order: Vec<usize> = (0..HOLDS.len()).collect();
        draws.shuffle(&mut order);
        let variables = &order[..VARIABLES];
        let sides = [&mut left, &mut right].map(|tokens| {
            tokens.clear();
            formula(BUDGET, variables, &mut draws, tokens)
        });
        if sides.iter().any(|side| side.is_trivial()) {
            continue;
        }
        accepted += 1;
        let bucket = sides.map(|side| side.operators).into_iter().max().unwrap_or(0).min(LAST);
        if let Some(pairs) = found.get_mut(&bucket) {
            let pair = FormulaPair { left: left.clone(), right: right.clone() };
            if seen.insert(pair.clone()) {
                pairs.push((accepted, pair));
            }
        }
    }
    found
}

/// Writes a formula. Of nine equal chances two are for `and`, two for `or`, five for a variable; whatever it is, it is
/// negated with probability 1/3.
fn formula(budget: usize, variables: &[usize], draws: &mut Draws, tokens: &mut Vec<u32>) -> FormulaFacts {
    let negated = draws.below(3) == 0;
    if negated {
        tokens.extend([OPEN, NOT]);
    }
    let mut written = match draws.below(9) {
        symbol @ 0..=3 if budget >= 2 => {
            let operator = if symbol < 2 { AND } else { OR };
            tokens.push(OPEN);
            let x = formula(budget / 2, variables, draws, tokens);
            tokens.extend([OPEN, operator]);
            let y = formula(budget / 2, variables, draws, tokens);
            tokens.extend([CLOSE, CLOSE]);
            let worlds = if operator == AND { x.worlds & y.worlds } else { x.worlds | y.worlds };
            FormulaFacts { worlds, operators: x.operators + y.operators + 1 }
        }
        _ => {
            let variable = variables[draws.below(variables.len() as u64) as usize];
            tokens.push(VARIABLE + variable as u32);
            FormulaFacts { worlds: HOLDS[variable], operators: 0 }
        }
    };
    if negated {
        tokens.push(CLOSE);
        written = FormulaFacts { worlds: !written.worlds, operators: written.operators + 1 };
    }
    written
}
