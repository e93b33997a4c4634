//! Expressions of every kind of value.

use super::{FUNCTIONS, Kind, Writer};

impl Writer {
    /// True or false for every unit of a kind.
    pub(super) fn condition(&mut self, kind: Kind) -> String {
        if self.wide && self.one_in(4) {
            let (a, b) = (self.comparison(kind), self.comparison(kind));
            return format!("(({a}) {} ({b}))", self.one(&["and", "or"]));
        }
        self.comparison(kind)
    }

    fn comparison(&mut self, kind: Kind) -> String {
        let (depth, apart) = if self.wide { (1, " + 0.137") } else { (2, "") };
        let (a, limit) = (self.expr(kind, depth), self.limit());
        match self.below(6) {
            0 => format!("not ({a} > {limit})"),
            1 => {
                let b = self.expr(kind, 1);
                format!("{a} < {limit} or {b} > 0.5")
            }
            2 => {
                let b = self.expr(kind, 1);
                format!("{a} <= {b}{apart}")
            }
            3 => format!("{a} >= {limit}"),
            _ => format!("{a} {} {limit}", self.one(&["<", ">"])),
        }
    }

    /// A name of a kind, later ones more often.
    pub(super) fn name(&mut self, kind: Kind) -> Option<String> {
        let fitting: Vec<String> = self.known.iter().filter(|k| k.kind == kind).map(|k| k.name.clone()).collect();
        if fitting.is_empty() {
            return None;
        }
        let (a, b) = (self.below(fitting.len()), self.below(fitting.len()));
        fitting.get(a.max(b)).cloned()
    }

    /// An expression of a kind.
    pub(super) fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.one_in(6) {
            return self.bound(kind);
        }
        if kind == Kind::Choice {
            return self.choice(depth - 1);
        }
        if self.wide && self.one_in(3) {
            return self.larger(kind, depth - 1);
        }
        if self.one_in(3) {
            return self.pointwise(kind, depth.saturating_sub(1));
        }
        let depth = depth.saturating_sub(1);
        match kind {
            Kind::States => self.states(depth),
            Kind::Vector => self.vector(depth),
            Kind::Tokens => self.tokens(depth),
            Kind::Row => self.row(depth),
            Kind::Streams => self.streams(depth),
            Kind::Choice => self.choice(depth),
        }
    }

    /// A name of a kind, or what there is without one.
    pub(super) fn bound(&mut self, kind: Kind) -> String {
        self.name(kind).unwrap_or_else(|| self.least(kind))
    }

    /// The oldest name of states, which is a whole value.
    pub(super) fn first_states(&self) -> String {
        self.known.iter().find(|k| k.kind == Kind::States).map_or("state", |k| k.name.as_str()).to_owned()
    }

    /// What there is of every kind.
    pub(super) fn least(&mut self, kind: Kind) -> String {
        let state = self.first_states();
        let numbered = self.steps.last().is_some_and(|steps| steps.numbered);
        match kind {
            Kind::States => state,
            Kind::Tokens => format!("mean({state}) {{ over: width }}"),
            Kind::Row if numbered => "0.2 * step".to_owned(),
            Kind::Vector if self.past => format!("at({state}, first)"),
            Kind::Vector => format!("mean({state})"),
            Kind::Row if self.past => format!("mean(at({state}, first)) {{ over: width }}"),
            Kind::Row => format!("mean(mean({state})) {{ over: width }}"),
            Kind::Streams => format!("repeat({state}, 2)"),
            Kind::Choice => format!("(positions({state}) > 1.5)"),
        }
    }

    /// Arithmetic that keeps the kind.
    pub(super) fn pointwise(&mut self, kind: Kind, depth: usize) -> String {
        let a = self.expr(kind, depth);
        match self.below(12) {
            0 | 1 => {
                let op = self.one(&["+", "-"]);
                format!("({a} {op} {})", self.expr(kind, depth))
            }
            2 => format!("({a} * sigmoid({}))", self.expr(kind, depth)),
            3 => format!("({a} / (1 + {}^2))", self.expr(kind, 0)),
            4 => format!("{} * {a}", self.one(&["0.5", "0.3", "2"])),
            5 => format!("when({}, {a}, {})", self.condition_of(kind), self.expr(kind, depth)),
            6 => format!("lerp(sigmoid({a}), {}, {})", self.expr(kind, depth), self.expr(kind, 0)),
            7 => format!("{}({a}, {})", self.one(&["min", "max"]), self.expr(kind, depth)),
            8 => format!("exp(tanh({a}))"),
            9 => format!("log(1 + ({a})^2)"),
            10 => format!("(1 - {a})"),
            _ => format!("{}({a})", self.one(&FUNCTIONS)),
        }
    }

    /// A condition that fits a value of a kind.
    pub(super) fn condition_of(&mut self, kind: Kind) -> String {
        let of = match kind {
            Kind::States => self.one(&[Kind::States, Kind::Tokens, Kind::Row]),
            Kind::Tokens => self.one(&[Kind::Tokens, Kind::Row]),
            Kind::Vector => self.one(&[Kind::Vector, Kind::Row]),
            Kind::Row => Kind::Row,
            Kind::Streams => self.one(&[Kind::Streams, Kind::States, Kind::Tokens, Kind::Row]),
            Kind::Choice => Kind::Tokens,
        };
        if self.one_in(4) && !self.steps.is_empty() {
            return "last()".to_owned();
        }
        format!("{} > {}", self.expr(of, 0), self.number())
    }

    pub(super) fn counted(&self) -> bool {
        self.steps.last().is_some_and(|steps| steps.counted)
    }

    /// `linear(x)`, or one that has weights for every step.
    pub(super) fn linear(&mut self, word: &str, x: &str) -> String {
        let index = if self.counted() && self.one_in(3) { "[step]" } else { "" };
        format!("{word}{index}({x})")
    }

    pub(super) fn states(&mut self, depth: usize) -> String {
        let a = self.expr(Kind::States, depth);
        match self.below(24) {
            0 | 1 => self.linear("linear", &a),
            2 | 3 => self.linear("norm", &a),
            4 => format!("({a} + {})", self.expr(Kind::Vector, depth)),
            5 => format!("({a} * tanh({}))", self.expr(Kind::Tokens, depth)),
            6 => format!("({a} * tanh({}))", self.expr(Kind::Row, depth)),
            7 => {
                let learned = if self.counted() && self.one_in(2) { "learn[step, width]" } else { "learn[width]" };
                format!("{a} {} {learned}", self.one(&["+", "*"]))
            }
            8 => format!("mlp({a}) {{ hidden: 3 }}"),
            9 => format!("swiglu({a}) {{ hidden: 3 }}"),
            10 | 11 => self.attention(&a, depth),
            12 => {
                let side = if self.past || self.one_in(2) { "" } else { " { side: right }" };
                format!("shift({a}, {}){side}", self.one(&[1, 2]))
            }
            13 => format!("running_mean({a})"),
            14 => format!("linear(cat({a}, {}))", self.expr(Kind::States, depth)),
            15 => format!("channels(cat({a}, {}), {}, 4)", self.expr(Kind::States, depth), self.one(&[1, 2, 3])),
            16 if self.functions > 0 => {
                let (n, b) = (self.below(self.functions), self.expr(Kind::States, 0));
                format!("f{n}({a}, {b})")
            }
            16 | 17 if !self.shared.is_empty() => {
                let n = self.below(self.shared.len());
                format!("{}({a})", self.shared[n])
            }
            18 => format!("norm({a}) {{ kind: rms, weight: false }}"),
            19 => format!("softmax({a})"),
            20 if self.one_in(3) => {
                self.cut = true;
                format!("stop({a})")
            }
            21 if self.one_in(3) => {
                let word = self.one(&["normal(X) { std: 0.2 }", "uniform(X)", "dropout(X, 0.2)"]);
                format!("({a} + {})", word.replace('X', &a))
            }
            22 => format!("norm({a}) {{ kind: rms, parts: 2 }}"),
            _ => format!("({a} + {})", self.expr(Kind::States, depth)),
        }
    }

    pub(super) fn attention(&mut self, a: &str, depth: usize) -> String {
        let remembers = self.counted() && self.chosen == 0 && self.steps.iter().all(|steps| !steps.by_position);
        let keys = match self.below(4) {
            0 if remembers => format!(", history({a})"),
            1 => format!(", {}", self.expr(Kind::States, depth)),
            _ => String::new(),
        };
        let history = keys.contains("history");
        let mut fields = vec!["heads: 2"];
        fields.push(self.one(&["", "", "position: rope", "qk_norm: head", "talking: true", "scale: 0.5"]));
        let masks: &[&str] = if self.past { &["", "mask: past"] } else { &["", "mask: all", "mask: past"] };
        fields.push(self.one(masks));
        if history && fields[1] == "talking: true" {
            fields[1] = "";
        }
        fields.retain(|field| !field.is_empty());
        format!("attention({a}{keys}) {{ {} }}", fields.join(", "))
    }

    pub(super) fn vector(&mut self, depth: usize) -> String {
        if self.past && self.name(Kind::Vector).is_none() {
            let row = self.expr(Kind::Row, depth);
            return format!("({row} + learn[width])");
        }
        match self.below(if self.past { 3 } else { 8 }) {
            0 => {
                let a = self.expr(Kind::Vector, depth);
                self.linear("linear", &a)
            }
            1 => format!("norm({})", self.expr(Kind::Vector, depth)),
            2 => format!("({} * tanh({}))", self.expr(Kind::Vector, depth), self.expr(Kind::Row, depth)),
            3 | 4 => format!("mean({})", self.expr(Kind::States, depth)),
            5 => format!("max({})", self.expr(Kind::States, depth)),
            6 => format!("0.3 * sum({})", self.expr(Kind::States, depth)),
            _ => format!("at({}, {})", self.expr(Kind::States, depth), self.one(&["first", "last"])),
        }
    }

    pub(super) fn tokens(&mut self, depth: usize) -> String {
        let a = self.expr(Kind::States, depth);
        match self.below(9) {
            0 | 1 => self.linear("number", &a),
            2 => format!("mean({a}) {{ over: width }}"),
            3 => format!("mean(({a})^2) {{ over: width }}"),
            4 => format!("running_mean({})", self.expr(Kind::Tokens, depth)),
            5 if !self.past => format!("softmax({})", self.expr(Kind::Tokens, depth)),
            6 => format!("shift({}, 1)", self.expr(Kind::Tokens, depth)),
            7 => format!("({} + {})", self.expr(Kind::Tokens, depth), self.expr(Kind::Row, depth)),
            _ => format!("max({a}) {{ over: width }}"),
        }
    }

    pub(super) fn row(&mut self, depth: usize) -> String {
        let numbered = self.steps.last().is_some_and(|steps| steps.numbered);
        if numbered && self.one_in(3) {
            return format!("({} * step)", self.one(&["0.5", "0.2"]));
        }
        if self.past && self.name(Kind::Vector).is_none() {
            return format!("tanh({})", self.name(Kind::Row).unwrap_or_else(|| self.least(Kind::Row)));
        }
        match self.below(if self.past { 2 } else { 5 }) {
            0 => {
                let a = self.expr(Kind::Vector, depth);
                self.linear("number", &a)
            }
            1 => format!("mean({}) {{ over: width }}", self.expr(Kind::Vector, depth)),
            2 => format!("max({})", self.expr(Kind::Tokens, depth)),
            3 => format!("mean({})", self.expr(Kind::Tokens, depth)),
            _ => format!("number({})", self.expr(Kind::Vector, depth)),
        }
    }
}
