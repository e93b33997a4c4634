//! Larger expressions of the wider family: nested choices, guarded and unguarded functions, reductions.
//!
//! Linear maps and draws that are written twice are two values. A text that stands twice therefore reads bound names alone.

use super::{Construct, Kind, Writer};

impl Writer {
    /// An expression of the wider family.
    pub(super) fn larger(&mut self, kind: Kind, depth: usize) -> String {
        match self.below(8) {
            0 => self.guarded(kind, depth),
            1 => self.unguarded(kind, depth),
            2 => self.nested(kind, depth),
            3 => self.by_place(kind, depth),
            4 if self.has_positions(kind) => self.among(kind, depth),
            _ => match kind {
                Kind::States => self.reduced_states(depth),
                Kind::Vector => self.reduced_vector(depth),
                Kind::Tokens => self.reduced_tokens(depth),
                Kind::Row => self.reduced_row(depth),
                Kind::Streams => self.streams(depth),
                Kind::Choice => self.choice(depth),
            },
        }
    }

    fn has_positions(&self, kind: Kind) -> bool {
        match kind {
            Kind::States | Kind::Tokens | Kind::Streams | Kind::Choice => true,
            Kind::Vector | Kind::Row => false,
        }
    }

    /// A function that is a number only where a condition holds, behind this condition.
    fn guarded(&mut self, kind: Kind, depth: usize) -> String {
        self.wrote(Construct::Guarded);
        let name = format!("({})", self.bound(kind));
        let a = self.one(&["X", "(X - 0.287)", "(0.513 * X)", "(1.3 - X)", "tanh(X)"]).replace('X', &name);
        let above = format!("({})", self.bound(kind));
        let other = self.expr(kind, depth);
        let guard = self.one(&["A > 0.137", "not (A <= 0.137)", "A > 0.137 and A < 2.93", "0.137 < A"]);
        let value = self.one(&["log(A)", "sqrt(A)", "1 / A", "B / A", "B / sqrt(A)", "(1.3 - log(A)) / A"]);
        format!("when({guard}, {value}, {other})").replace('A', &a).replace('B', &above)
    }

    /// A quotient, root or logarithm of what is above 0 everywhere.
    fn unguarded(&mut self, kind: Kind, depth: usize) -> String {
        self.wrote(Construct::Unguarded);
        let (a, b) = (self.expr(kind, depth), self.expr(kind, depth));
        let value = self.one(&[
            "(A / (1.3 + abs(B)))",
            "(A / sqrt(0.3 + (B)^2))",
            "log(0.3 + abs(A - B))",
            "log(0.3 + exp(tanh(A))) * sigmoid(B)",
            "sqrt(0.3 + (A)^2) - sqrt(0.3 + (B)^2)",
            "(tanh(A) / (0.3 + sigmoid(B)))",
            "max(sqrt(relu(A)), 0.137) * sigmoid(B)",
        ]);
        format!("({})", value.replace('A', &a).replace('B', &b))
    }

    /// Choices in choices, powers, and signs.
    fn nested(&mut self, kind: Kind, depth: usize) -> String {
        self.wrote(Construct::Nested);
        let (a, b) = (self.expr(kind, depth), self.expr(kind, depth));
        match self.below(6) {
            0 => {
                let (first, second) = (self.condition_of(kind), self.condition_of(kind));
                let (join, third) = (self.one(&["and", "or", "and not"]), self.condition_of(kind));
                format!("when(({first}) {join} ({second}), when({third}, {a}, {}), {b})", self.bound(kind))
            }
            1 => format!("(when({}, 1, 0) * {a} - {b})", self.condition_of(kind)),
            2 => format!("((tanh({a}))^{} - {b})", self.one(&["2", "3", "4", "5"])),
            3 => format!("min(max({a}, -1.37), 1 + abs({b}))"),
            4 => format!("(-({a}) + {} * ({b} - {} * tanh({}))) / 2", self.number(), self.number(), self.bound(kind)),
            _ => format!("lerp(sigmoid({a}), tanh({b}), {} - {a})", self.number()),
        }
    }

    /// A value that depends on the numbers of the positions, or of the step.
    fn by_place(&mut self, kind: Kind, depth: usize) -> String {
        let a = self.expr(kind, depth);
        if !self.has_positions(kind) {
            let numbered = self.steps.last().is_some_and(|steps| steps.numbered);
            return if numbered { format!("({a} * (1 - 0.3 * step))") } else { format!("tanh({a} - 0.3)") };
        }
        self.wrote(Construct::Positions);
        let positions = format!("positions({})", self.bound(Kind::States));
        let value = self.one(&["(A * sigmoid(1 - N))", "(A + 0.1 * N)", "(A / (1 + N))", "when(N < 1.5, A, 0.3 * A)"]);
        let a = if value.matches('A').count() > 1 { format!("({})", self.bound(kind)) } else { a };
        value.replace('A', &a).replace('N', &positions)
    }

    fn reduced_states(&mut self, depth: usize) -> String {
        let a = self.expr(Kind::States, depth);
        match self.below(6) {
            0 => {
                self.wrote(Construct::Reduction);
                let name = self.bound(Kind::States);
                format!("({a} - mean({name} * {name}) {{ over: width }})")
            }
            1 => format!("(tanh({}) * {a})", self.expr(Kind::Tokens, depth)),
            2 => format!("({a} * channel(softmax(linear({}) {{ to: 3 }}), 1))", self.bound(Kind::States)),
            3 | 4 => self.of_streams(depth),
            _ => format!("when({}, {a}, {})", self.expr(Kind::Choice, depth), self.expr(Kind::States, depth)),
        }
    }

    /// One vector of the row; what sees all positions stands in models that may.
    fn reduced_vector(&mut self, depth: usize) -> String {
        if self.past {
            return self.nested(Kind::Vector, depth);
        }
        self.wrote(Construct::Reduction);
        let a = self.expr(Kind::States, depth);
        match self.below(4) {
            0 => format!("sum(softmax({}) * {a})", self.expr(Kind::Tokens, depth)),
            1 => format!("mean(when({}, {a}, 0))", self.expr(Kind::Choice, depth)),
            2 => format!("max({a} * tanh({}))", self.expr(Kind::Tokens, depth)),
            _ => format!("mean(max({}) {{ over: stream }})", self.expr(Kind::Streams, depth)),
        }
    }

    fn reduced_tokens(&mut self, depth: usize) -> String {
        self.wrote(Construct::Reduction);
        let a = self.expr(Kind::States, depth);
        match self.below(6) {
            0 => format!("(0.3 * sum({a} * tanh({})) {{ over: width }})", self.expr(Kind::States, depth)),
            1 => format!("max(abs({a})) {{ over: width }}"),
            2 => format!("sqrt(0.3 + mean(({a})^2) {{ over: width }})"),
            3 => format!("channel(linear({a}) {{ to: 3 }}, {})", self.one(&[0, 1, 2])),
            4 => {
                let (scores, chosen) = (self.bound(Kind::States), self.best_channels(4));
                format!("sum(when({chosen}, {scores}, 0)) {{ over: width }}")
            }
            _ => format!("max(split(linear({a}) {{ to: 2 }}, 2)) {{ over: stream }}"),
        }
    }

    fn reduced_row(&mut self, depth: usize) -> String {
        if self.past {
            return self.nested(Kind::Row, depth);
        }
        self.wrote(Construct::Reduction);
        let a = self.expr(Kind::Tokens, depth);
        match self.below(4) {
            0 => {
                let chosen = self.bound(Kind::Choice);
                format!("(sum(when({chosen}, tanh({a}), 0)) / (1.3 + sum(when({chosen}, 1, 0))))")
            }
            1 => format!("(max({a}) - mean({}))", self.expr(Kind::Tokens, depth)),
            2 => format!("(0.3 * sum(({})^2) {{ over: width }})", self.expr(Kind::Vector, depth)),
            _ => format!("log(sum(exp(tanh({a}))))"),
        }
    }
}
