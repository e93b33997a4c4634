//! Formulas: polynomials in the sizes of a batch.
//!
//! A symbol is a size that is given (`n`, `B`, ...) or made of others (`ceil(n / 20)`); what it is made of belongs to it,
//! so a formula has a value for any given sizes. Two symbols are the same when their texts are.

mod legend;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::loops::Cut;
use super::number::Number;
use super::schedule::beam::{BeamRules, Count};
use super::schedule::fold::row_levels;
use crate::expr::{BinaryOp, Expr, Func, Var};
pub use legend::Legend;

/// A size in a formula.
#[derive(Clone, Debug)]
pub struct SizeSymbol {
    /// Its text, written out: `n`, `ceil(n / 20)`.
    text: Rc<str>,
    made: Rc<SymbolDefinition>,
}

/// The definition of a symbol.
#[derive(Clone, Debug)]
enum SymbolDefinition {
    Given,
    Pieces(Formula, Formula),
    Least(Formula, Formula, &'static str),
    Depth(Expr, Formula),
    Mean(Formula, Formula),
    Fold(Cut, Formula, FoldQuantity),
    Search(BeamRules, Formula, Count),
}

/// The quantity of a fold that a symbol counts.
#[derive(Clone, Copy, Debug)]
enum FoldQuantity {
    /// The number of its levels.
    Levels,
    /// Chunks, of all levels, besides the last one of each.
    Full,
    /// Nodes of the last chunk of a level, on the mean.
    Rest,
}

impl FoldQuantity {
    fn value(self, cut: Cut, length: f64) -> f64 {
        let levels = || row_levels(cut, length);
        let count = levels().count() as f64;
        match self {
            Self::Levels => count,
            Self::Full => levels().map(|level| level.full).sum(),
            Self::Rest => levels().map(|level| level.rest).sum::<f64>().per(&count),
        }
    }

    /// Letter, name and meaning.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Levels => ("L", "levels", "levels"),
            Self::Full => ("F", "chunks", "full chunks"),
            Self::Rest => ("R", "rest", "mean size of the last chunk of a level"),
        }
    }
}

/// A polynomial: the sum of its terms, each a factor times a product of symbols.
#[derive(Clone, Debug, Default)]
pub struct Formula {
    terms: BTreeMap<SymbolPowers, f64>,
}

/// Symbols with their powers, in order.
type SymbolPowers = Vec<(SizeSymbol, u32)>;

impl PartialEq for SizeSymbol {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for SizeSymbol {}

impl PartialOrd for SizeSymbol {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SizeSymbol {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        self.terms == other.terms
    }
}

impl Formula {
    /// A size that is given by name.
    pub fn symbol(name: &str) -> Self {
        Self::of_symbol(SizeSymbol { text: name.into(), made: Rc::new(SymbolDefinition::Given) })
    }

    fn of_symbol(symbol: SizeSymbol) -> Self {
        Self { terms: BTreeMap::from([(vec![(symbol, 1)], 1.0)]) }
    }

    fn made(text: String, made: SymbolDefinition) -> Self {
        Self::of_symbol(SizeSymbol { text: text.into(), made: Rc::new(made) })
    }

    fn folded(cut: Cut, length: &Self, part: FoldQuantity) -> Self {
        let text = format!("{}({length}, {}{})", part.words().1, cut.arity, strict(cut));
        Self::made(text, SymbolDefinition::Fold(cut, length.clone(), part))
    }

    /// The value where it depends on no symbol.
    pub fn constant(&self) -> Option<f64> {
        match self.terms.first_key_value() {
            None => Some(0.0),
            Some((term, factor)) => (self.terms.len() == 1 && term.is_empty()).then_some(*factor),
        }
    }

    /// The value for given sizes; a size that is not given counts as 1.
    pub fn value(&self, given: &dyn Fn(&str) -> Option<f64>) -> f64 {
        let power = |(symbol, power): &(SizeSymbol, u32)| symbol.value(given).powi(*power as i32);
        self.terms.iter().map(|(term, factor)| factor * term.iter().map(power).product::<f64>()).sum()
    }

    /// The terms without this symbol in them, and the others divided by it.
    fn divided(&self, name: &str) -> (Self, Self) {
        let (mut without, mut with) = (Self::default(), Self::default());
        for (term, factor) in &self.terms {
            let mut rest = term.clone();
            match rest.iter().position(|(symbol, _)| &*symbol.text == name) {
                Some(at) if rest[at].1 > 1 => rest[at].1 -= 1,
                Some(at) => drop(rest.remove(at)),
                None => {
                    without.terms.insert(rest, *factor);
                    continue;
                }
            }
            with.terms.insert(rest, *factor);
        }
        (without, with)
    }

    fn usual(&self) -> f64 {
        self.value(&|name| Some(USUAL.iter().find(|(usual, _)| *usual == name).map_or(16.0, |(_, value)| *value)))
    }
}

/// Letter and meaning of what is counted of a search.
fn words(count: Count) -> (&'static str, &'static str) {
    match count {
        Count::Steps => ("S", "steps"),
        Count::Joined => ("J", "joined pairs"),
        Count::Scored => ("P", "scored pairs"),
        Count::Made => ("N", "nodes made"),
    }
}

/// The rules of a search in words.
fn search_words(BeamRules { cut, size, every, soft }: BeamRules) -> String {
    let chunks = if cut == Cut::whole() { String::new() } else { format!(", chunks of {}{}", cut.arity, strict(cut)) };
    let kind = match (every, soft) {
        (_, true) => ", the last one soft",
        (true, _) => ", all pairs joined",
        _ => "",
    };
    format!("{size} beams{chunks}{kind}")
}

/// The end of the words about a fold.
fn strict(cut: Cut) -> &'static str {
    if cut.strict { ", strict" } else { "" }
}

/// Sizes of a usual batch, at which formulas are compared: others count as 16.
const USUAL: [(&str, f64); 2] = [("B", 32.0), ("n", 500.0)];

impl SizeSymbol {
    fn value(&self, given: &dyn Fn(&str) -> Option<f64>) -> f64 {
        match &*self.made {
            SymbolDefinition::Given => given(&self.text).unwrap_or(1.0),
            SymbolDefinition::Pieces(all, piece) => all.value(given).pieces(&piece.value(given)),
            SymbolDefinition::Least(a, b, _) => a.value(given).min(b.value(given)),
            SymbolDefinition::Depth(expr, length) => f64::depth(expr, &length.value(given)),
            SymbolDefinition::Mean(all, parts) => all.value(given).per(&parts.value(given)),
            SymbolDefinition::Fold(cut, length, part) => part.value(*cut, length.value(given)),
            SymbolDefinition::Search(beams, length, count) => f64::search(*beams, *count, &length.value(given)),
        }
    }
}

impl Number for Formula {
    fn of(value: f64) -> Self {
        if value == 0.0 { Self::default() } else { Self { terms: BTreeMap::from([(vec![], value)]) } }
    }

    fn plus(&self, other: &Self) -> Self {
        let mut sum = self.clone();
        for (term, factor) in &other.terms {
            *sum.terms.entry(term.clone()).or_default() += factor;
        }
        sum.terms.retain(|_, factor| *factor != 0.0);
        sum
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = Self::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut powers: BTreeMap<SizeSymbol, u32> = a.iter().cloned().collect();
                for (symbol, power) in b {
                    *powers.entry(symbol.clone()).or_default() += power;
                }
                *product.terms.entry(powers.into_iter().collect()).or_default() += x * y;
            }
        }
        product.terms.retain(|_, factor| *factor != 0.0);
        product
    }

    fn larger(&self, other: &Self) -> Self {
        if other.usual() > self.usual() { other.clone() } else { self.clone() }
    }

    fn per(&self, other: &Self) -> Self {
        match (self.constant(), other.constant()) {
            (Some(all), Some(parts)) => Self::of(all.per(&parts)),
            (_, Some(parts)) => self.times(&Self::of(1.0.per(&parts))),
            _ => Self::made(
                format!("{} / {}", whole(self), whole(other)),
                SymbolDefinition::Mean(self.clone(), other.clone()),
            ),
        }
    }

    fn fold(cut: Cut, length: &Self) -> Vec<(Self, Self)> {
        if let Some(length) = length.constant() {
            return f64::fold(cut, &length).into_iter().map(|(n, width)| (Self::of(n), Self::of(width))).collect();
        }
        let full = (Self::folded(cut, length, FoldQuantity::Full), Self::of(cut.arity as f64));
        vec![full, (Self::levels(cut, length), Self::folded(cut, length, FoldQuantity::Rest))]
    }

    fn levels(cut: Cut, length: &Self) -> Self {
        match length.constant() {
            Some(length) => Self::of(f64::levels(cut, &length)),
            None => Self::folded(cut, length, FoldQuantity::Levels),
        }
    }

    fn search(beams: BeamRules, count: Count, length: &Self) -> Self {
        if let Some(length) = length.constant() {
            return Self::of(f64::search(beams, count, &length));
        }
        let text = format!("{}({length}, {})", words(count).1, search_words(beams));
        Self::made(text, SymbolDefinition::Search(beams, length.clone(), count))
    }

    fn pieces(&self, other: &Self) -> Self {
        match (self.constant(), other.constant()) {
            (_, Some(piece)) if piece <= 1.0 => self.clone(),
            (Some(all), Some(piece)) => Self::of(all.pieces(&piece)),
            _ => Self::made(
                format!("ceil({} / {})", whole(self), whole(other)),
                SymbolDefinition::Pieces(self.clone(), other.clone()),
            ),
        }
    }

    fn least(&self, other: &Self, letter: &'static str) -> Self {
        match (self.constant(), other.constant()) {
            (Some(a), Some(b)) => Self::of(a.min(b)),
            _ => Self::made(
                format!("min({self}, {other})"),
                SymbolDefinition::Least(self.clone(), other.clone(), letter),
            ),
        }
    }

    fn depth(expr: &Expr, length: &Self) -> Self {
        let expr = &expr.without_draws();
        if let Some(plain) = plain(expr, length) {
            return plain;
        }
        let text = expr.to_string().replace("length", &whole(length));
        Self::made(text, SymbolDefinition::Depth(expr.clone(), length.clone()))
    }
}

/// A depth that is made of numbers and the length by sums, products and `min`.
fn plain(expr: &Expr, length: &Formula) -> Option<Formula> {
    match expr {
        Expr::Int(n) => Some(Formula::of(*n as f64)),
        Expr::Var(Var::Length) => Some(length.clone()),
        Expr::Binary(BinaryOp::Add, a, b) => Some(plain(a, length)?.plus(&plain(b, length)?)),
        Expr::Binary(BinaryOp::Sub, a, b) => Some(plain(a, length)?.minus(&plain(b, length)?)),
        Expr::Binary(BinaryOp::Mul, a, b) => Some(plain(a, length)?.times(&plain(b, length)?)),
        Expr::Call(Func::Min, args) => match &args[..] {
            [a, b] => Some(plain(a, length)?.least(&plain(b, length)?, "T")),
            _ => None,
        },
        _ => None,
    }
}

/// The text of a formula as an operand: in brackets where it has several parts.
fn whole(formula: &Formula) -> String {
    let text = formula.to_string();
    if text.contains(' ') && !text.ends_with(')') { format!("({text})") } else { text }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&mut |symbol| symbol.text.to_string()))
    }
}

impl Formula {
    /// The sum in the order of the usual sizes of its terms, with these names of symbols.
    fn text(&self, name: &mut dyn FnMut(&SizeSymbol) -> String) -> String {
        let size = |(term, factor): &(&SymbolPowers, &f64)| {
            Self { terms: BTreeMap::from([((*term).clone(), 1.0)]) }.usual() * factor.abs()
        };
        let mut terms: Vec<(&SymbolPowers, &f64)> = self.terms.iter().collect();
        terms.sort_by(|a, b| size(b).total_cmp(&size(a)).then(a.0.cmp(b.0)));
        let mut out = String::new();
        for (term, factor) in terms {
            let sign = if *factor < 0.0 { "-" } else { "+" };
            out += &match (out.is_empty(), sign) {
                (true, "+") => String::new(),
                (true, _) => "-".to_owned(),
                (false, sign) => format!(" {sign} "),
            };
            let mut parts = vec![];
            if factor.abs() != 1.0 || term.is_empty() {
                parts.push(grouped(factor.abs()));
            }
            parts.extend(term.iter().map(|(symbol, power)| match power {
                1 => name(symbol),
                power => format!("{}^{power}", name(symbol)),
            }));
            out += &parts.join(" ");
        }
        if out.is_empty() { "0".to_owned() } else { out }
    }
}

/// A number with commas between thousands, and its fraction where it has one.
fn grouped(value: f64) -> String {
    let out = thousands(&format!("{:.0}", value.trunc()));
    if value.fract() == 0.0 {
        out
    } else {
        out + format!("{:.3}", value.fract()).trim_start_matches('0').trim_end_matches('0')
    }
}

/// Bytes as people write them: `16 MiB`.
pub fn bytes(number: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.iter().find(|(size, _)| number.is_multiple_of(*size));
    unit.map_or_else(
        || format!("{} bytes", thousands(&number.to_string())),
        |(size, name)| format!("{} {name}", thousands(&(number / size).to_string())),
    )
}

/// Digits with commas between thousands.
pub fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn n() -> Formula {
        Formula::symbol("n")
    }

    fn at(length: f64) -> impl Fn(&str) -> Option<f64> {
        move |name| (name == "n").then_some(length)
    }

    #[test]
    fn polynomials_add_and_multiply() {
        let one = Formula::of(1.0);
        let square = n().plus(&one).times(&n().minus(&one));
        assert_eq!(square.to_string(), "n^2 - 1");
        assert_eq!(square.value(&at(12.0)), 143.0);
        assert_eq!(n().minus(&n()).to_string(), "0");
        assert_eq!(Formula::of(1234.5).to_string(), "1,234.5");
        assert_eq!(n().larger(&Formula::of(7.0)), n());
    }

    #[test]
    fn folds_have_symbols_for_their_chunks() {
        let cut = Cut::plain(4);
        let sum = |chunks: Vec<(Formula, Formula)>| {
            chunks.iter().fold(Formula::default(), |sum, (count, width)| sum.plus(&count.times(width)))
        };
        let nodes = sum(Formula::fold(cut, &n()));
        // 58 -> 15 -> 4 -> 1, and 5 in one chunk.
        assert_eq!([1.0, 5.0, 58.0].map(|length| nodes.value(&at(length)).round()), [0.0, 5.0, 77.0]);
        assert_eq!(f64::fold(cut, &15.0), [(3.0, 4.0), (1.0, 3.0), (1.0, 4.0)]);
        assert_eq!(Formula::levels(cut, &n()).value(&at(58.0)), 3.0);
        let mut legend = Legend::default();
        assert_eq!(legend.text(&nodes), "4 F + L R");
        assert_eq!(legend.lines()[0], "F = full chunks of a fold of n by 4");
    }

    #[test]
    fn what_symbols_are_made_of_has_a_value() {
        let pieces = n().plus(&Formula::of(2.0)).pieces(&Formula::of(20.0));
        assert_eq!([18.0, 19.0, 58.0].map(|length| pieces.value(&at(length))), [1.0, 2.0, 3.0]);
        assert_eq!(Formula::of(41.0).pieces(&Formula::of(20.0)).constant(), Some(3.0));
        let most = n().least(&Formula::of(10.0), "D");
        assert_eq!([4.0, 40.0].map(|length| most.value(&at(length))), [4.0, 10.0]);
        let mut legend = Legend::default();
        let text = legend.text(&Formula::symbol("B").times(&pieces.times(&most).plus(&n())));
        assert_eq!(text, "B (n + K D)");
        assert_eq!(legend.lines(), ["K = ceil((n + 2) / 20)", "D = min(n, 10)"]);
    }
}
