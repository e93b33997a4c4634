//! Random small models, well typed by construction: definitions, equations, loops and losses.
//!
//! There are two families. Tests name models of [`model`] by their numbers, so the text of a number must stay as it is; new
//! constructs go into [`wider`].

mod body;
mod choices;
mod larger;
mod loops;
mod streams;
mod values;

use std::collections::BTreeSet;

use rtc_base::rng::{Draws, Key};

/// Type of a value of every row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `real[pos, 4]`
    States,
    /// `real[4]`
    Vector,
    /// `real[pos]`
    Tokens,
    /// `real[]`
    Row,
    /// `real[pos, 2 streams, 4]`, of the wider family alone.
    Streams,
    /// `bool[pos]`, of the wider family alone.
    Choice,
}

const KINDS: [Kind; 4] = [Kind::States, Kind::Vector, Kind::Tokens, Kind::Row];

/// Kinds of numbers in the wider family.
const NUMBERS: [Kind; 5] = [Kind::States, Kind::Vector, Kind::Tokens, Kind::Row, Kind::Streams];

/// A construct that the wider family has beside those of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Construct {
    /// A quotient, root or logarithm behind a condition that keeps it a number.
    Guarded,
    /// A quotient, root or logarithm of what is always above 0.
    Unguarded,
    /// Choices in choices, powers and several comparisons.
    Nested,
    /// Numbers of positions.
    Positions,
    /// A reduction of a product or of chosen numbers.
    Reduction,
    /// A bound condition.
    Condition,
    /// `top` among positions.
    TopPositions,
    /// `top` among channels.
    TopChannels,
    /// `among` outside of loops.
    Among,
    /// `among` in a loop.
    AmongInLoop,
    /// Attention of chosen positions to all.
    Whole,
    /// A loop over experts.
    Experts,
    /// A loop whose steps take fewer and fewer positions.
    Recursions,
    /// Streams outside of loops.
    Streams,
    /// Streams in a loop.
    StreamsInLoop,
    /// Streams mixed by a matrix.
    Mixing,
    /// Streams handed on from step to step.
    Carried,
    /// Chunks with a memory.
    Chunks,
}

impl Construct {
    /// Every construct.
    pub const ALL: [Self; 18] = [
        Self::Guarded,
        Self::Unguarded,
        Self::Nested,
        Self::Positions,
        Self::Reduction,
        Self::Condition,
        Self::TopPositions,
        Self::TopChannels,
        Self::Among,
        Self::AmongInLoop,
        Self::Whole,
        Self::Experts,
        Self::Recursions,
        Self::Streams,
        Self::StreamsInLoop,
        Self::Mixing,
        Self::Carried,
        Self::Chunks,
    ];
}

/// A random model.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Its family and number, as `first:17` or `wider:17`.
    pub name: String,
    /// Its text, with the definitions that it uses.
    pub text: String,
    /// Whether it answers for every token.
    pub each: bool,
    /// Whether gradients are cut somewhere on purpose, so that they are no slopes.
    pub cut: bool,
    /// Constructs of the wider family in it.
    pub constructs: BTreeSet<Construct>,
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
    /// Whether the constructs of the wider family are written.
    wide: bool,
    constructs: BTreeSet<Construct>,
    /// How many `among` stand around the expression at hand.
    chosen: usize,
}

/// Model number `number` of the first family.
pub fn model(number: u64) -> Generated {
    written(format!("first:{number}"), Key::new(number).stream("models").draws(), false)
}

/// Model number `number` of the wider family: larger expressions, chosen positions and streams besides.
pub fn wider(number: u64) -> Generated {
    written(format!("wider:{number}"), Key::new(number).stream("wider models").draws(), true)
}

fn written(name: String, mut draws: Draws, wide: bool) -> Generated {
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
        wide,
        constructs: BTreeSet::new(),
        chosen: 0,
    };
    for _ in 0..w.below(3) {
        w.function();
    }
    for _ in 0..w.below(2) {
        w.layer_definition();
    }
    w.whole();
    Generated { name, text: w.definitions + &w.text, each, cut: w.cut, constructs: w.constructs }
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

    /// A name of a value, which a later equation may read.
    fn add_known(&mut self, name: &str, kind: Kind) {
        self.known.push(Known { name: name.to_owned(), kind });
    }

    /// Writes an equation of a new name, and gives the name.
    fn bind(&mut self, kind: Kind, value: &str) -> String {
        let name = self.fresh("v");
        self.line(&format!("{name} = {value}"));
        self.add_known(&name, kind);
        name
    }

    fn wrote(&mut self, construct: Construct) {
        self.constructs.insert(construct);
    }

    /// Of two constructs, the one in loops or the one outside of them.
    fn wrote_here(&mut self, outside: Construct, inside: Construct) {
        self.wrote(if self.steps.is_empty() { outside } else { inside });
    }

    fn number(&mut self) -> &'static str {
        let numbers = if self.wide {
            ["0.513", "0.287", "1.93", "-0.691", "1.07", "0.113"]
        } else {
            ["0.5", "0.3", "2", "-0.7", "1", "0.1"]
        };
        self.one(&numbers)
    }

    /// A number that values are compared with. Those of the wider family are equal to no sum of simple numbers, up to rounding.
    fn limit(&mut self) -> &'static str {
        let limits = if self.wide { ["0.137", "0.419", "0.023", "-0.311"] } else { ["0.1", "0.4", "0.0", "-0.3"] };
        self.one(&limits)
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
}
