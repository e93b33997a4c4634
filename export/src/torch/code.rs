//! Expressions of Python, with how tightly their outermost operator binds.

/// How tightly the outermost operator of an expression binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Binds {
    /// Nothing binds: the right side of `=`, an argument, an entry of a list, an index.
    Argument,
    /// `a < b`
    Comparison,
    /// `a | b`
    Or,
    /// `a & b`
    And,
    /// `a + b`, `a - b`
    Sum,
    /// `a * b`, `a / b`, `a @ b`
    Product,
    /// `-a`
    Sign,
    /// Names, calls, indices.
    Atom,
}

/// An expression of Python. Its text is had only by saying how tightly the place binds where it is put.
#[derive(Clone, Debug)]
pub(super) struct Code {
    text: String,
    binds: Binds,
}

impl Code {
    /// A name, a call or an index.
    pub(super) fn atom(text: impl Into<String>) -> Self {
        Self { text: text.into(), binds: Binds::Atom }
    }

    /// A number as Python writes it.
    pub(super) fn number(value: f64) -> Self {
        let text = match value {
            value if value.is_nan() => "math.nan".to_owned(),
            value if value.is_infinite() => "math.inf".to_owned(),
            value => format!("{:?}", value.abs()),
        };
        if value.is_sign_negative() && !value.is_nan() { Self::atom(text).minus() } else { Self::atom(text) }
    }

    /// `a symbol b`, of which Python takes a chain from the left.
    pub(super) fn infix(symbol: &str, a: &Self, b: &Self) -> Self {
        let (binds, right) = match symbol {
            "+" | "-" => (Binds::Sum, Binds::Product),
            "*" | "/" | "@" => (Binds::Product, Binds::Sign),
            "&" => (Binds::And, Binds::Sum),
            "|" => (Binds::Or, Binds::And),
            // A chain of comparisons means something else.
            _ => (Binds::Comparison, Binds::Or),
        };
        let left = if binds == Binds::Comparison { Binds::Or } else { binds };
        Self { text: format!("{} {symbol} {}", a.inside(left), b.inside(right)), binds }
    }

    /// `-a`
    pub(super) fn minus(&self) -> Self {
        Self { text: format!("-{}", self.inside(Binds::Atom)), binds: Binds::Sign }
    }

    /// `a.rest`: a method with its arguments, or an attribute.
    pub(super) fn dot(&self, rest: &str) -> Self {
        Self::atom(format!("{}.{rest}", self.inside(Binds::Atom)))
    }

    /// `a[index]`
    pub(super) fn at(&self, index: &str) -> Self {
        Self::atom(format!("{}[{index}]", self.inside(Binds::Atom)))
    }

    /// `function(args, rest)`
    pub(super) fn call(function: &str, args: &[&Self], rest: &[String]) -> Self {
        let args = args.iter().map(|arg| arg.inside(Binds::Argument)).chain(rest.iter().cloned());
        Self::atom(format!("{function}({})", args.collect::<Vec<_>>().join(", ")))
    }

    /// A text over the words `a`, `b`, `c` with these expressions in their places.
    pub(super) fn template(text: &str, operands: &[Self]) -> Self {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut filled = String::new();
        let mut rest = text;
        while let Some(from) = rest.find(is_word) {
            let (before, begun) = rest.split_at(from);
            let (word, behind) = begun.split_at(begun.find(|c| !is_word(c)).unwrap_or(begun.len()));
            filled += before;
            let operand = ["a", "b", "c"].iter().position(|name| *name == word).and_then(|n| operands.get(n));
            // An argument stands between brackets and commas.
            let alone = filled.trim_end().ends_with(['(', ',']) && behind.trim_start().starts_with([')', ',']);
            let outside = if alone { Binds::Argument } else { Binds::Atom };
            filled += &operand.map_or_else(|| word.to_owned(), |code| code.inside(outside));
            rest = behind;
        }
        Self::atom(filled + rest)
    }

    /// The text, in parentheses where `outside` binds tighter.
    pub(super) fn inside(&self, outside: Binds) -> String {
        if self.binds >= outside { self.text.clone() } else { format!("({})", self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Binds, Code};

    fn text(code: &Code) -> String {
        code.inside(Binds::Argument)
    }

    #[test]
    fn operands_keep_their_meaning_beside_operators() {
        let [x, y, z] = ["x", "y", "z"].map(Code::atom);
        let sum = Code::infix("+", &x, &y);
        let [product, quotient, matrix, less] = ["*", "/", "@", "<"].map(|symbol| Code::infix(symbol, &x, &y));
        for (code, right) in [
            (Code::infix("*", &sum, &z), "(x + y) * z"),
            (Code::infix("*", &z, &sum), "z * (x + y)"),
            (Code::infix("+", &product, &z), "x * y + z"),
            (Code::infix("-", &z, &sum), "z - (x + y)"),
            (Code::infix("/", &z, &product), "z / (x * y)"),
            (Code::infix("*", &z, &quotient), "z * (x / y)"),
            (Code::infix("*", &z, &matrix), "z * (x @ y)"),
            (Code::infix("&", &less, &less), "(x < y) & (x < y)"),
            (Code::infix("<", &less, &z), "(x < y) < z"),
            (sum.minus(), "-(x + y)"),
            (Code::infix("-", &x, &Code::number(-2.0)), "x - -2.0"),
            (Code::number(-2.0).dot("exp()"), "(-2.0).exp()"),
            (sum.minus().minus(), "-(-(x + y))"),
            (sum.dot("abs()"), "(x + y).abs()"),
            (sum.at("0"), "(x + y)[0]"),
            (Code::call("f", &[&sum, &less], &["k=1".to_owned()]), "f(x + y, x < y, k=1)"),
            (Code::template("f(a, g(b).h, c * 2.0)", &[sum.clone(), less, sum]), "f(x + y, g(x < y).h, (x + y) * 2.0)"),
        ] {
            assert_eq!(text(&code), right);
        }
    }

    #[test]
    fn numbers_are_those_of_python() {
        let of = |value| text(&Code::number(value));
        assert_eq!([1.0, -0.0, 1e-5, f64::INFINITY, f64::NAN].map(of), ["1.0", "-0.0", "1e-5", "math.inf", "math.nan"]);
        assert_eq!(of(f64::NEG_INFINITY), "-math.inf");
    }
}
