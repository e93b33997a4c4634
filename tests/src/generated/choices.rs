//! Statements of the wider family: conditions, chosen positions, experts, and chunks.

use super::{Construct, Kind, NUMBERS, Steps, Writer};

/// Steps of a loop whose number is a constant.
const COUNTED: Steps = Steps { counted: true, numbered: true, by_position: false };

/// Characters of an expression with fewer tokens than the language allows.
const LONGEST: usize = 700;

impl Writer {
    /// A statement of the wider family.
    pub(super) fn wider_statement(&mut self, depth: usize) {
        match self.below(if depth < 2 { 13 } else { 8 }) {
            0 | 1 => {
                let kind = self.one(&NUMBERS);
                let kind = if self.past && kind == Kind::Vector { Kind::Tokens } else { kind };
                let value = self.large(kind);
                self.bind(kind, &value);
            }
            2 => {
                self.wrote(Construct::Condition);
                let value = self.choice(2);
                self.bind(Kind::Choice, &value);
            }
            3 | 4 => {
                let value = self.among(Kind::States, 2);
                self.line(&format!("state = {value}"));
            }
            5 => {
                let value = self.streams(2);
                self.bind(Kind::Streams, &value);
            }
            6 => {
                let value = self.of_streams(2);
                self.line(&format!("state = state + {value}"));
            }
            7 => {
                let value = self.large(Kind::States);
                self.line(&format!("state = norm({value})"));
            }
            8 => self.recursions(),
            9 => self.experts(),
            10 | 11 => self.hyper_connections(),
            _ => self.chunks(),
        }
    }

    /// A large expression, below the limit that the language has on one.
    fn large(&mut self, kind: Kind) -> String {
        let value = self.larger(kind, 3);
        if value.len() < LONGEST { value } else { self.larger(kind, 1) }
    }

    /// True or false for every position.
    pub(super) fn choice(&mut self, depth: usize) -> String {
        match self.below(8) {
            0 if depth > 0 => format!("not {}", self.expr(Kind::Choice, depth - 1)),
            1 if depth > 0 => {
                let (a, b) = (self.expr(Kind::Choice, depth - 1), self.expr(Kind::Choice, depth - 1));
                format!("({a} {} {b})", self.one(&["and", "or", "and not"]))
            }
            2 if !self.steps.is_empty() => format!("(last() or {})", self.bound(Kind::Choice)),
            3 => {
                self.wrote(Construct::Positions);
                format!("(positions({}) {})", self.bound(Kind::States), self.one(&["> 0.5", "<= 1.5", ">= 2.5"]))
            }
            4 => format!("channel({}, {})", self.best_channels(3), self.one(&[0, 1, 2])),
            5 | 6 if !self.past => self.best_positions(depth),
            _ => {
                let (value, order) = (self.expr(Kind::Tokens, depth), self.one(&["<", ">", "<=", ">="]));
                format!("({value} {order} {})", self.limit())
            }
        }
    }

    /// `top` among positions. Each score is moved by the number of its position: equal tokens have no equal scores.
    fn best_positions(&mut self, depth: usize) -> String {
        self.wrote(Construct::TopPositions);
        let scores = format!("{} + 0.137 * positions({})", self.expr(Kind::Tokens, depth), self.bound(Kind::States));
        let candidates = if self.one_in(3) { format!(", {}", self.bound(Kind::Choice)) } else { String::new() };
        let mut counts = vec!["1", "2", "floor(length / 2)", "max(1, floor(0.66 * length))"];
        if self.counted() {
            counts.push("floor(length * (4 - step) / 4)");
        }
        format!("top({scores}{candidates}) {{ of: {} }}", self.one(&counts))
    }

    /// `top` among so many channels.
    pub(super) fn best_channels(&mut self, channels: usize) -> String {
        self.wrote(Construct::TopChannels);
        let a = self.bound(Kind::States);
        format!("top(linear({a}) {{ to: {channels} }}) {{ of: {} }}", self.one(&[1, 2]))
    }

    /// A value of chosen positions alone.
    pub(super) fn among(&mut self, kind: Kind, depth: usize) -> String {
        self.wrote_here(Construct::Among, Construct::AmongInLoop);
        let condition = self.expr(Kind::Choice, depth.min(2));
        self.chosen += 1;
        let mut value = self.expr(kind, depth);
        // A definition may be applied among chosen positions, where no position of the row is known.
        let in_model = self.first_states() == "state";
        if kind == Kind::States && self.chosen == 1 && in_model && self.one_in(3) {
            self.wrote(Construct::Whole);
            value = format!("attention({value}, whole({})) {{ heads: 2 }}", self.first_states());
        }
        self.chosen -= 1;
        let other = if self.one_in(4) { "0".to_owned() } else { self.expr(kind, depth.min(1)) };
        format!("among({condition}, {value}, {other})")
    }

    /// A loop whose steps take fewer and fewer positions (mixture of recursions).
    fn recursions(&mut self) {
        self.wrote(Construct::Recursions);
        let live = self.fresh("c");
        self.open("loop");
        self.line("steps: 3");
        self.line(&format!("carry {live} = ones(mean(state) {{ over: width }}) > 0"));
        self.steps.push(COUNTED);
        self.scoped(|w| {
            w.add_known(&live, Kind::Choice);
            w.equations(1);
            let choice = if w.past { format!("{live} and {}", w.choice(1)) } else { w.best_positions_of(&live) };
            w.line(&format!("{live} = {choice}"));
            w.wrote(Construct::AmongInLoop);
            w.chosen += 1;
            let value = w.larger(Kind::States, 2);
            w.chosen -= 1;
            w.line(&format!("state = among({live}, state + tanh({value}), state)"));
            if w.one_in(3) {
                w.pay();
            }
        });
        self.steps.pop();
        self.close();
    }

    /// The best of the positions that are still in, fewer from step to step.
    fn best_positions_of(&mut self, live: &str) -> String {
        self.wrote(Construct::TopPositions);
        let scores = format!("{} + 0.137 * positions(state)", self.expr(Kind::Tokens, 1));
        format!("top({scores}, {live}) {{ of: floor(length * (3 - step) / 3) }}")
    }

    /// A loop over experts, each for the tokens that chose it.
    fn experts(&mut self) {
        self.wrote(Construct::Experts);
        self.wrote(Construct::TopChannels);
        self.wrote(Construct::AmongInLoop);
        let value = self.expr(Kind::States, 2);
        let x = self.bind(Kind::States, &format!("norm({value})"));
        let [scores, chosen, shares, sum] = ["scores", "chosen", "shares", "sum"].map(|name| self.fresh(name));
        self.line(&format!("{scores} = linear({x}) {{ to: 3 }}"));
        let count = self.one(&[1, 2]);
        self.line(&format!("{chosen} = top({scores}) {{ of: {count} }}"));
        let weights = self.one(&["softmax(when(CHOSEN, SCORES, -30))", "sigmoid(SCORES)"]);
        let weights = weights.replace("CHOSEN", &chosen).replace("SCORES", &scores);
        self.line(&format!("{shares} = {weights}"));
        let expert = self.one(&["swiglu[step](X) { hidden: 3 }", "mlp[step](X) { hidden: 2 }", "linear[step](X)"]);
        let expert = expert.replace('X', &x);
        self.open("loop");
        self.line("steps: 3");
        self.line(&format!("carry {sum} = zeros(state)"));
        self.line(&format!("{sum} = {sum} + among(channel({chosen}, step), channel({shares}, step) * {expert}, 0)"));
        self.close();
        self.line(&format!("state = state + {sum}"));
        if self.pays && !self.past {
            let used = format!("mean(softmax({scores})) * mean(when({chosen}, 1, 0))");
            self.line(&format!("loss 0.1 * average(sum({used}) {{ over: width }})"));
        }
    }

    /// `recur chunkwise` with a memory. Its layers know the state of the chunk alone.
    fn chunks(&mut self) {
        self.wrote(Construct::Chunks);
        let (pays, steps) = (std::mem::take(&mut self.pays), std::mem::take(&mut self.steps));
        self.open("recur chunkwise");
        // Where a row has a number of chunks, its length says where they are cut.
        let size = if self.past { "size: 2" } else { self.one(&["size: 2", "size: 3", "chunks: 2"]) };
        self.line(size);
        self.line("memory { slots: 2, init: normal }");
        self.scoped(|w| {
            w.known.retain(|known| known.name == "state");
            w.outer = w.known.len();
            w.carried.clear();
            w.line("attend memory { heads: 2 }");
            match w.below(4) {
                0 => w.recursions(),
                1 => w.hyper_connections(),
                // No loops: some of their rules need whole rows.
                _ => w.statements(2, 2),
            }
        });
        self.line("update memory { attend chunk { heads: 2 }, feedforward { hidden: 3 } }");
        self.close();
        (self.pays, self.steps) = (pays, steps);
    }
}
