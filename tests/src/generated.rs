//! Random small models, well typed by construction: definitions, equations, loops and losses.

use rtc_runtime::rng::{Draws, Key};

/// What a value is: `real[pos, 4]`, `real[4]`, `real[pos]` or `real[]` of every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    States,
    Vector,
    Tokens,
    Row,
}

const KINDS: [Kind; 4] = [Kind::States, Kind::Vector, Kind::Tokens, Kind::Row];

/// A random model.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its text, with the definitions that it uses.
    pub text: String,
    /// Whether it answers for every token.
    pub each: bool,
    /// Whether gradients are cut somewhere on purpose, so that they are no slopes.
    pub cut: bool,
}

/// The functions of one number that keep values small.
const FUNCTIONS: [&str; 8] = ["tanh", "sigmoid", "gelu", "relu", "silu", "softplus", "abs", "gelu_tanh"];

/// A value that equations may read.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    kind: Kind,
}

/// A loop around the equations at hand.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    /// The number of steps is a constant, and gradients go through all of them.
    counted: bool,
    /// The number of the step is known.
    numbered: bool,
    /// Positions leave one by one.
    by_position: bool,
}

struct Writer {
    draws: Draws,
    /// The definitions, then the model.
    definitions: String,
    text: String,
    indent: usize,
    known: Vec<Known>,
    /// How many of them are bound outside of the body at hand, where no equation may bind them again.
    outer: usize,
    /// Values that the loops around hand on.
    carried: Vec<Known>,
    /// Functions with one set of weights.
    shared: Vec<String>,
    /// Definitions of two states.
    functions: usize,
    /// Layers with settings of their own.
    layers: usize,
    next: usize,
    steps: Vec<Steps>,
    each: bool,
    /// No word that sees later tokens is written.
    past: bool,
    /// Whether a loss may stand here.
    pays: bool,
    cut: bool,
}

/// Model number `number`.
pub fn model(number: u64) -> Generated {
    let mut draws = Key::new(number).stream("models").draws();
    let each = draws.below(2) == 0;
    let past = each && draws.below(4) > 0;
    let mut w = Writer {
        draws,
        definitions: String::new(),
        text: String::new(),
        indent: 0,
        known: vec![],
        outer: 0,
        carried: vec![],
        shared: vec![],
        functions: 0,
        layers: 0,
        next: 0,
        steps: vec![],
        each,
        past,
        pays: true,
        cut: false,
    };
    for _ in 0..w.below(3) {
        w.function();
    }
    for _ in 0..w.below(2) {
        w.layer_definition();
    }
    w.whole();
    Generated { text: w.definitions + &w.text, each, cut: w.cut }
}

impl Writer {
    fn below(&mut self, bound: usize) -> usize {
        self.draws.below(bound as u64) as usize
    }

    /// True once in so many times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.next += 1;
        format!("{prefix}{}", self.next)
    }

    fn line(&mut self, text: &str) {
        let blanks = "    ".repeat(self.indent);
        self.text += &format!("{blanks}{text}\n");
    }

    fn open(&mut self, text: &str) {
        self.line(&format!("{text} {{"));
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    fn number(&mut self) -> &'static str {
        self.one(&["0.5", "0.3", "2", "-0.7", "1", "0.1"])
    }

    /// Writes a definition by `body`, which has the given values alone and gives what stands behind `out`.
    fn definition(&mut self, head: &str, values: &[(&str, Kind)], body: impl FnOnce(&mut Self) -> String) {
        let text = std::mem::take(&mut self.text);
        let known = values.iter().map(|(name, kind)| Known { name: (*name).to_owned(), kind: *kind }).collect();
        let known = std::mem::replace(&mut self.known, known);
        let outer = std::mem::take(&mut self.outer);
        let (carried, shared) = (std::mem::take(&mut self.carried), std::mem::take(&mut self.shared));
        let steps = std::mem::take(&mut self.steps);
        let indent = std::mem::take(&mut self.indent);
        self.open(head);
        let result = body(self);
        self.line(&format!("out {result}"));
        self.close();
        self.text += "\n";
        self.definitions += &std::mem::replace(&mut self.text, text);
        (self.known, self.carried, self.shared, self.steps) = (known, carried, shared, steps);
        (self.indent, self.outer) = (indent, outer);
    }

    /// A function of two states.
    fn function(&mut self) {
        let head = format!("def f{}(x, y)", self.functions);
        self.definition(&head, &[("x", Kind::States), ("y", Kind::States)], |w| {
            w.equations(2);
            w.expr(Kind::States, 2)
        });
        self.functions += 1;
    }

    /// A layer with settings.
    fn layer_definition(&mut self) {
        let head = format!("def l{}(x)", self.layers);
        let kept = self.pays;
        self.pays = false;
        self.definition(&head, &[("x", Kind::States)], |w| {
            w.line("hidden: int = 3");
            w.line("strength: number(0, 2) = 0.5");
            w.line("f: fn = tanh");
            w.equations(2);
            let inner = w.expr(Kind::States, 1);
            format!("x + strength * f(linear(mlp({inner}) {{ hidden: hidden }}))")
        });
        self.pays = kept;
        self.layers += 1;
    }

    /// The model itself.
    fn whole(&mut self) {
        self.indent = 0;
        self.open("model m");
        if self.one_in(6) {
            self.line("dropout: 0.1");
        }
        let framed = !self.each && self.one_in(4);
        let tokens = if framed { ", tokens: start_end" } else { "" };
        let position = self.one(&["", "", ", position: sinusoidal", ", position: learned, positions: 12"]);
        self.line(&format!("embed {{ width: 4{tokens}{position} }}"));
        self.known.push(Known { name: "state".to_owned(), kind: Kind::States });
        let folds = !self.each && !framed && self.one_in(12);
        if folds {
            self.pays = false;
        }
        self.statements(3, 0);
        if !self.text.contains("loop") {
            self.repeat(0);
        }
        if self.one_in(3) {
            self.statements(2, 0);
        }
        if folds {
            let cut = self.one(&["arity: 2", "arity: 3", "arity: 3, last_chunk: strict"]);
            self.open("recurse balanced");
            cut.split(", ").for_each(|field| self.line(field));
            self.known.retain(|known| known.name == "state");
            self.statements(1, 1);
            self.line("pool mean");
            self.close();
            self.line("readout root");
        } else if self.each {
            let sees = if self.past || self.one_in(2) { "readout each" } else { "readout each { sees: all }" };
            self.line(sees);
        } else {
            let readouts: &[&str] = if framed { &["end", "mean", "max"] } else { &["mean", "max", "mean"] };
            let readout = self.one(readouts);
            self.line(&format!("readout {readout}"));
        }
        match self.below(4) {
            0 => self.line("head linear"),
            1 => self.line("head linear { bias: false }"),
            _ => {}
        }
        self.close();
    }

    /// A few statements of a body.
    fn statements(&mut self, most: usize, depth: usize) {
        for _ in 0..1 + self.below(most) {
            match self.below(if depth < 2 { 20 } else { 15 }) {
                0..=3 => self.equations(1),
                4..=6 => {
                    let value = self.expr(Kind::States, 2);
                    self.line(&format!("state = {value}"));
                }
                7 | 8 => self.attend(),
                9 => self.line("feedforward { hidden: 3 }"),
                10 => {
                    let norm = self.one(&["norm", "norm { kind: rms }"]);
                    self.line(norm);
                }
                11 if self.layers > 0 => {
                    let n = self.below(self.layers);
                    let settings = self.one(&["", " { hidden: 2 }", " { f: sigmoid, strength: 0.25 }", " { f: norm }"]);
                    self.line(&format!("l{n}{settings}"));
                }
                11 | 12 => {
                    let layer = self.one(&[
                        "layerscale { f: swiglu { hidden: 3 } }",
                        "sandwich { f: mlp { hidden: 3 } }",
                        "short_convolution",
                        "deepnorm { f: mlp { hidden: 2 }, alpha: 1.2 }",
                    ]);
                    self.line(layer);
                }
                13 => {
                    let name = self.fresh("n");
                    let net = self.one(&["mlp { hidden: 3 }", "swiglu { hidden: 3 }", "linear", "norm"]);
                    self.line(&format!("share {name} = {net}"));
                    self.shared.push(name);
                }
                14 => self.pay(),
                15 | 16 => self.repeat(depth),
                17 => self.recurrence(depth),
                18 => self.stack(depth),
                _ => self.repeat(depth),
            }
        }
    }

    /// Runs `body`, and forgets what it binds.
    fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        let (known, carried, shared) = (self.known.clone(), self.carried.clone(), self.shared.clone());
        let outer = std::mem::replace(&mut self.outer, self.known.len());
        body(self);
        (self.known, self.carried, self.shared, self.outer) = (known, carried, shared, outer);
    }

    fn stack(&mut self, depth: usize) {
        self.open("stack 2");
        let empty = self.text.len();
        self.scoped(|w| w.statements(2, depth + 1));
        if self.text.len() == empty {
            self.line("feedforward { hidden: 3 }");
        }
        self.close();
    }

    fn attend(&mut self) {
        let mut fields = vec!["heads: 2"];
        fields.push(self.one(&["", "", "position: rope", "position: xpos", "position: relative_xl"]));
        let masks: &[&str] = if self.past {
            &["", "mask: j <= i and i - j < 3", "mask: past"]
        } else {
            &["", "mask: all", "mask: past"]
        };
        fields.push(self.one(masks));
        fields.retain(|field| !field.is_empty());
        self.line(&format!("attend self {{ {} }}", fields.join(", ")));
    }

    /// Up to so many equations that bind a name.
    fn equations(&mut self, most: usize) {
        for _ in 0..1 + self.below(most) {
            let kind = self.kind();
            if kind == Kind::States && self.one_in(6) {
                let (a, b) = (self.fresh("v"), self.fresh("v"));
                let (x, y) = (self.expr(kind, 1), self.expr(kind, 1));
                self.line(&format!("{a}, {b} = parts(cat({x}, {y}), 2)"));
                self.known.extend([a, b].map(|name| Known { name, kind }));
                continue;
            }
            let value = self.expr(kind, 3);
            let again = self.known[self.outer..].iter().rfind(|k| k.kind == kind && k.name.starts_with('v')).cloned();
            let name = match again {
                Some(known) if self.one_in(4) => known.name,
                _ => self.fresh("v"),
            };
            self.line(&format!("{name} = {value}"));
            self.known.push(Known { name, kind });
        }
    }

    /// A kind of value, mostly states.
    fn kind(&mut self) -> Kind {
        let kind = self.one(&[Kind::States, Kind::States, Kind::States, Kind::Vector, Kind::Tokens, Kind::Row]);
        if self.past && kind == Kind::Vector && !self.one_in(3) { Kind::Tokens } else { kind }
    }

    /// `recur depthwise`, with a gate, an injection and a halting rule where these are drawn.
    fn recurrence(&mut self, depth: usize) {
        let steps = self.one(&["2", "3", "log(length, 2) + 1", "min(length, 3)"]);
        let gate = self.one_in(3).then(|| self.gate());
        self.open("recur depthwise");
        self.line(&format!("depth: {steps}"));
        let constant = steps.len() == 1;
        let halts = self.one_in(2);
        if halts {
            let mut rules = vec![
                "halt token { threshold: 0.9, cost: 0.1 }",
                "halt global { threshold: 0.9 }",
                "halt converged { by: position, below: 0.9 }",
                "halt confident { above: 0.4 }",
                "halt entropy { below: 1 }",
            ];
            if self.pays {
                rules.extend(["halt act { threshold: 0.8, least: 2 }", "halt pondernet { prior: 0.4 }"]);
            }
            if self.pays && !self.past {
                rules.extend(["halt act { by: row }", "halt universal { early: false }", "halt q_head"]);
            }
            if !self.past {
                rules.push("halt converged { below: 0.8, least: 2 }");
            }
            let rule = self.one(&rules);
            self.line(rule);
        }
        if self.one_in(3) {
            let inject = self.one(&["inject add", "inject concat"]);
            self.line(inject);
        }
        if let Some(gate) = gate {
            self.line(&gate);
        }
        let by_position = halts;
        self.steps.push(Steps { counted: constant, numbered: true, by_position });
        self.scoped(|w| {
            w.statements(2, depth + 1);
            let value = w.expr(Kind::States, 1);
            w.line(&format!("state = norm(state + {value})"));
        });
        self.steps.pop();
        self.close();
    }

    /// A gate that carries a value of its own; gives its statement.
    fn gate(&mut self) -> String {
        let name = self.fresh("g");
        let (kept, by_position) = (self.pays, self.one_in(2));
        self.pays = false;
        self.definition(
            &format!("def gate {name}(result, input)"),
            &[("result", Kind::States), ("input", Kind::States)],
            |w| {
                w.line("carry before = zeros(input)");
                w.known.push(Known { name: "before".to_owned(), kind: Kind::States });
                w.equations(1);
                if w.one_in(3) {
                    let condition = w.condition(if by_position { Kind::Tokens } else { Kind::Row });
                    w.line(&format!("until {condition}"));
                }
                let value = w.expr(Kind::States, 1);
                w.line(&format!("before = tanh({value})"));
                "lerp(sigmoid(linear(before)), result, input)".to_owned()
            },
        );
        self.pays = kept;
        format!("gate {name}")
    }

    /// A loop over the state and values of its own.
    fn repeat(&mut self, depth: usize) {
        let steps = self.one(&[
            "2",
            "3",
            "3",
            "4",
            "log(length, 2) + 1",
            "min(length, 3)",
            "given",
            "min(poisson(2) { per: batch, evaluation: 2 }, 3)",
            "min(poisson(lognormal(2, 0.5)) { evaluation: 2 }, 4)",
            "min(uniform(1, 3), 3)",
            "min(geometric(0.5), 3)",
        ]);
        let constant = steps.len() == 1;
        let leaves = self.below(4);
        let grad = if leaves < 2 { "all" } else { self.one(&["all", "all", "all", "1", "none"]) };
        self.open("loop");
        self.line(&format!("steps: {steps}"));
        if grad != "all" {
            self.line(&format!("grad: {grad}"));
            self.cut = true;
        }
        let outer = self.known.clone();
        let mut own = vec![];
        for _ in 0..self.below(4) {
            let (name, kind) = (self.fresh("c"), self.one(&KINDS));
            let start = self.start(kind);
            self.line(&format!("carry {name} = {start}"));
            own.push(Known { name, kind });
        }
        let by_position = leaves == 1;
        let counted = constant && grad == "all";
        self.steps.push(Steps { counted, numbered: counted || grad == "all" || grad == "none", by_position });
        self.scoped(|w| {
            w.known.extend(own.clone());
            w.carried.extend(own.clone());
            let before = w.fresh("v");
            w.line(&format!("{before} = state"));
            w.known.push(Known { name: before, kind: Kind::States });
            w.statements(3, depth + 1);
            let around: Vec<Known> = w.carried[..w.carried.len() - own.len()].to_vec();
            for carry in own.iter().chain(&around) {
                let ours = own.iter().any(|own| own.name == carry.name);
                if ours || w.one_in(3) {
                    let value = w.expr(carry.kind, 2);
                    let bounded = w.one(&["tanh(VALUE)", "0.5 * NAME + tanh(VALUE)", "sigmoid(VALUE)"]);
                    let value = bounded.replace("NAME", &carry.name).replace("VALUE", &value);
                    w.line(&format!("{} = {value}", carry.name));
                }
            }
            let value = w.expr(Kind::States, 1);
            w.line(&format!("state = norm(state + {value})"));
            if w.one_in(2) {
                w.pay();
            }
            for _ in 0..usize::from(leaves < 2) + usize::from(leaves < 2 && w.one_in(4)) {
                let (word, condition) =
                    (w.one(&["go", "until"]), w.condition(if by_position { Kind::Tokens } else { Kind::Row }));
                w.line(&format!("{word} {condition}"));
            }
        });
        self.steps.pop();
        self.close();
        self.known = outer;
        self.known.extend(own);
        if !self.known.is_empty() && self.one_in(2) {
            let value = self.expr(Kind::States, 1);
            self.line(&format!("state = state + {value}"));
        }
    }

    /// Where a carried value starts.
    fn start(&mut self, kind: Kind) -> String {
        match (kind, self.below(5)) {
            (Kind::Row, 0 | 1) => self.one(&["0", "1", "0.5"]).to_owned(),
            (Kind::States, 0) => "zeros(state) + learn[width]".to_owned(),
            (Kind::Vector, 0) => "learn[width]".to_owned(),
            (Kind::States, 1) => "normal(state) { std: 0.3 }".to_owned(),
            (Kind::States, 2) => "zeros(state)".to_owned(),
            (Kind::Tokens, 0 | 1) => "ones(mean(state) { over: width })".to_owned(),
            _ => self.expr(kind, 1),
        }
    }

    /// True or false for every unit of a kind.
    fn condition(&mut self, kind: Kind) -> String {
        let (a, limit) = (self.expr(kind, 2), self.one(&["0.1", "0.4", "0.0", "-0.3"]));
        match self.below(6) {
            0 => format!("not ({a} > {limit})"),
            1 => {
                let b = self.expr(kind, 1);
                format!("{a} < {limit} or {b} > 0.5")
            }
            2 => {
                let b = self.expr(kind, 1);
                format!("{a} <= {b}")
            }
            3 => format!("{a} >= {limit}"),
            _ => format!("{a} {} {limit}", self.one(&["<", ">"])),
        }
    }

    /// A loss, where one may stand.
    fn pay(&mut self) {
        if !self.pays {
            return;
        }
        let weight = self.one(&["0.3 * ", "", "0.1 * ", "0.5 * "]);
        // One number per answer.
        let unit = if self.each && self.one_in(2) { Kind::Tokens } else { Kind::Row };
        let p = self.expr(unit, 2);
        if self.one_in(4) {
            return self.line(&format!("loss {weight}average(({p})^2)"));
        }
        let of = if self.each || !self.one_in(3) { Kind::States } else { Kind::Vector };
        let states = self.expr(of, 1);
        let answer = format!("answer({states})");
        let per_answer = if self.each { Kind::Tokens } else { Kind::Row };
        let q = self.expr(per_answer, 1);
        let loss = match self.below(7) {
            0 => format!("average({answer})"),
            1 if self.each => format!("average(mean({answer}))"),
            2 => format!("average(softplus({q}) - right({states}) * {q})"),
            3 => format!("average(when({q} > 0.1, {answer}, 0))"),
            4 => format!("average({answer}) - 0.05 * average({answer} * sigmoid({q}))"),
            5 => format!("average({answer} {{ probabilities: stablemax }})"),
            6 if self.one_in(3) => {
                self.cut = true;
                format!("average(abs(sigmoid({q}) - stop({answer})))")
            }
            _ => format!("average(sigmoid({q}) * {answer})"),
        };
        if weight.is_empty() || !loss.contains(") - 0.05") {
            self.line(&format!("loss {weight}{loss}"));
        } else {
            self.line(&format!("loss {loss}"));
        }
    }

    /// A name of a kind, later ones more often.
    fn name(&mut self, kind: Kind) -> Option<String> {
        let fitting: Vec<String> = self.known.iter().filter(|k| k.kind == kind).map(|k| k.name.clone()).collect();
        if fitting.is_empty() {
            return None;
        }
        let (a, b) = (self.below(fitting.len()), self.below(fitting.len()));
        fitting.get(a.max(b)).cloned()
    }

    /// An expression of a kind.
    fn expr(&mut self, kind: Kind, depth: usize) -> String {
        if depth == 0 || self.one_in(6) {
            return self.name(kind).unwrap_or_else(|| self.least(kind));
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
        }
    }

    /// What there is of every kind.
    fn least(&mut self, kind: Kind) -> String {
        let state = self.known.iter().find(|k| k.kind == Kind::States).map_or("state", |k| k.name.as_str());
        let numbered = self.steps.last().is_some_and(|steps| steps.numbered);
        match kind {
            Kind::States => state.to_owned(),
            Kind::Tokens => format!("mean({state}) {{ over: width }}"),
            Kind::Row if numbered => "0.2 * step".to_owned(),
            Kind::Vector if self.past => format!("at({state}, first)"),
            Kind::Vector => format!("mean({state})"),
            Kind::Row if self.past => format!("mean(at({state}, first)) {{ over: width }}"),
            Kind::Row => format!("mean(mean({state})) {{ over: width }}"),
        }
    }

    /// Arithmetic that keeps the kind.
    fn pointwise(&mut self, kind: Kind, depth: usize) -> String {
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
    fn condition_of(&mut self, kind: Kind) -> String {
        let of = match kind {
            Kind::States => self.one(&[Kind::States, Kind::Tokens, Kind::Row]),
            Kind::Tokens => self.one(&[Kind::Tokens, Kind::Row]),
            Kind::Vector => self.one(&[Kind::Vector, Kind::Row]),
            Kind::Row => Kind::Row,
        };
        if self.one_in(4) && !self.steps.is_empty() {
            return "last()".to_owned();
        }
        format!("{} > {}", self.expr(of, 0), self.number())
    }

    fn counted(&self) -> bool {
        self.steps.last().is_some_and(|steps| steps.counted)
    }

    /// `linear(x)`, or one that has weights for every step.
    fn linear(&mut self, word: &str, x: &str) -> String {
        let index = if self.counted() && self.one_in(3) { "[step]" } else { "" };
        format!("{word}{index}({x})")
    }

    fn states(&mut self, depth: usize) -> String {
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

    fn attention(&mut self, a: &str, depth: usize) -> String {
        let remembers = self.counted() && self.steps.iter().all(|steps| !steps.by_position);
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

    fn vector(&mut self, depth: usize) -> String {
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

    fn tokens(&mut self, depth: usize) -> String {
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

    fn row(&mut self, depth: usize) -> String {
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
