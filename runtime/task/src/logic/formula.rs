//! Formulas on six variables, the worlds in which they hold, and the relation of two formulas.
//!
//! This is the judge of every label, generated or read.
//!
//! The seven relations are those of natural logic (Bowman, Potts and Manning 2015). A formula is a variable
//! `a` to `f`, `( not X )`, `( X ( and Y ) )` or `( X ( or Y ) )`, with blanks between all symbols.

use std::fmt;

/// The variables, in the order of the bits that number a world.
pub const VARIABLES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// How deep brackets may nest; the parser recurses.
const NESTING: usize = 200;

/// For each variable: the worlds (bits 0 to 63) in which it holds. World n makes variable k true when bit k of n is set.
pub(super) const HOLDS: [u64; 6] = [
    0xAAAA_AAAA_AAAA_AAAA,
    0xCCCC_CCCC_CCCC_CCCC,
    0xF0F0_F0F0_F0F0_F0F0,
    0xFF00_FF00_FF00_FF00,
    0xFFFF_0000_FFFF_0000,
    0xFFFF_FFFF_0000_0000,
];

/// A formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogicFormula {
    /// A variable, an index into [`VARIABLES`].
    Variable(usize),
    /// Negation.
    Not(Box<LogicFormula>),
    /// Conjunction.
    And(Box<LogicFormula>, Box<LogicFormula>),
    /// Disjunction.
    Or(Box<LogicFormula>, Box<LogicFormula>),
}

/// How the sets of worlds L and R of two formulas lie to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// `=`: L and R are equal.
    Equivalence,
    /// `<`: L lies properly in R.
    Entailment,
    /// `>`: R lies properly in L.
    ReverseEntailment,
    /// `^`: disjoint, and every world is in one of them.
    Negation,
    /// `|`: disjoint, and some world is in neither.
    Alternation,
    /// `v`: overlapping, and every world is in one of them, without inclusion.
    Cover,
    /// `#`: everything else.
    Independence,
}

impl Relation {
    /// Every relation, in the order of the declaration.
    pub const ALL: [Self; 7] = [
        Self::Equivalence,
        Self::Entailment,
        Self::ReverseEntailment,
        Self::Negation,
        Self::Alternation,
        Self::Cover,
        Self::Independence,
    ];

    /// The sign in the published files.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Equivalence => "=",
            Self::Entailment => "<",
            Self::ReverseEntailment => ">",
            Self::Negation => "^",
            Self::Alternation => "|",
            Self::Cover => "v",
            Self::Independence => "#",
        }
    }
}

impl LogicFormula {
    /// The worlds in which the formula holds, one bit each.
    pub fn worlds(&self) -> u64 {
        match self {
            Self::Variable(n) => HOLDS[*n],
            Self::Not(x) => !x.worlds(),
            Self::And(x, y) => x.worlds() & y.worlds(),
            Self::Or(x, y) => x.worlds() | y.worlds(),
        }
    }

    /// Number of operators `and`, `or`, `not`.
    pub fn operators(&self) -> usize {
        match self {
            Self::Variable(_) => 0,
            Self::Not(x) => 1 + x.operators(),
            Self::And(x, y) | Self::Or(x, y) => 1 + x.operators() + y.operators(),
        }
    }
}

impl fmt::Display for LogicFormula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(n) => f.write_str(VARIABLES[*n]),
            Self::Not(x) => write!(f, "( not {x} )"),
            Self::And(x, y) => write!(f, "( {x} ( and {y} ) )"),
            Self::Or(x, y) => write!(f, "( {x} ( or {y} ) )"),
        }
    }
}

/// Reads a formula.
///
/// # Errors
/// A text that is no formula, or whose brackets nest deeper than 200.
pub fn parse(text: &str) -> Result<LogicFormula, String> {
    let mut symbols = text.split_whitespace().peekable();
    let formula = formula(&mut symbols, 0)?;
    match symbols.next() {
        None => Ok(formula),
        Some(more) => Err(format!("`{more}` after the end of the formula")),
    }
}

type Symbols<'t> = std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn formula(symbols: &mut Symbols<'_>, depth: usize) -> Result<LogicFormula, String> {
    if depth > NESTING {
        return Err(format!("brackets nest deeper than {NESTING}"));
    }
    let first = next(symbols)?;
    if first != "(" {
        let variable = VARIABLES.iter().position(|v| *v == first);
        return variable.map(LogicFormula::Variable).ok_or_else(|| format!("`{first}` is no variable and no bracket"));
    }
    if symbols.next_if_eq(&"not").is_some() {
        let inner = formula(symbols, depth + 1)?;
        expect(symbols, ")")?;
        return Ok(LogicFormula::Not(Box::new(inner)));
    }
    let left = Box::new(formula(symbols, depth + 1)?);
    expect(symbols, "(")?;
    let join = match next(symbols)? {
        "and" => LogicFormula::And,
        "or" => LogicFormula::Or,
        other => return Err(format!("`{other}` where `and` or `or` belongs")),
    };
    let right = Box::new(formula(symbols, depth + 1)?);
    expect(symbols, ")")?;
    expect(symbols, ")")?;
    Ok(join(left, right))
}

fn next<'t>(symbols: &mut Symbols<'t>) -> Result<&'t str, String> {
    symbols.next().ok_or_else(|| "the formula ends too early".to_owned())
}

fn expect(symbols: &mut Symbols<'_>, wanted: &str) -> Result<(), String> {
    match next(symbols)? {
        found if found == wanted => Ok(()),
        found => Err(format!("`{found}` where `{wanted}` belongs")),
    }
}

/// The relation of two formulas.
///
/// # Errors
/// A tautology or a contradiction on either side: every set includes or excludes those, so no relation fits alone.
pub fn relation(left: &LogicFormula, right: &LogicFormula) -> Result<Relation, String> {
    let (l, r) = (left.worlds(), right.worlds());
    for (formula, worlds) in [(left, l), (right, r)] {
        let what = match worlds {
            0 => "a contradiction",
            u64::MAX => "a tautology",
            _ => continue,
        };
        return Err(format!("`{formula}` is {what}"));
    }
    Ok(between(l, r))
}

/// The relation of two sets of worlds, neither of them empty or full.
pub(super) fn between(l: u64, r: u64) -> Relation {
    let (disjoint, exhaustive) = (l & r == 0, l | r == u64::MAX);
    match () {
        () if l == r => Relation::Equivalence,
        () if l & r == l => Relation::Entailment,
        () if l & r == r => Relation::ReverseEntailment,
        () if disjoint && exhaustive => Relation::Negation,
        () if disjoint => Relation::Alternation,
        () if exhaustive => Relation::Cover,
        () => Relation::Independence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_read_back() {
        for text in ["a", "( not f )", "( a ( and ( not ( b ( or c ) ) ) ) )"] {
            assert_eq!(parse(text).map(|f| f.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(parse("( ( not a ) ( and ( b ( or c ) ) ) )").map(|f| f.operators()), Ok(3));
    }

    #[test]
    fn worlds_follow_the_truth_tables() {
        let formula = parse("( ( a ( and ( not b ) ) ) ( or f ) )").expect("a formula");
        for world in 0..64_u64 {
            let holds = |k: u64| world >> k & 1 == 1;
            assert_eq!(formula.worlds() >> world & 1 == 1, holds(0) && !holds(1) || holds(5), "world {world}");
        }
    }

    #[test]
    fn what_is_no_formula_is_refused() {
        for text in ["", "g", "( a", "( not a ) b", "( a ( xor b ) )", "( a and b )", "( )", "not a"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&"( not ".repeat(100_000)).is_err());
    }

    #[test]
    fn tautologies_and_contradictions_have_no_relation() {
        let [a, always, never] = ["a", "( a ( or ( not a ) ) )", "( b ( and ( not b ) ) )"].map(|t| parse(t).expect(t));
        for (l, r) in [(&a, &always), (&always, &a), (&never, &a), (&always, &never)] {
            assert!(relation(l, r).is_err());
        }
    }

    #[test]
    fn relations_turn_around() {
        let texts = ["a", "( not a )", "( a ( or b ) )", "( a ( and b ) )", "c", "( ( not a ) ( or c ) )"];
        let formulas = texts.map(|t| parse(t).expect(t));
        for l in &formulas {
            for r in &formulas {
                let there = relation(l, r).expect("neither is trivial");
                let back = match there {
                    Relation::Entailment => Relation::ReverseEntailment,
                    Relation::ReverseEntailment => Relation::Entailment,
                    same => same,
                };
                assert_eq!(relation(r, l), Ok(back), "{l} and {r}");
            }
        }
    }
}
