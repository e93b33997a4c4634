//! Streams of the wider family: two states side by side, outside and inside of loops.

use super::{Construct, Kind, Known, Steps, Writer};

impl Writer {
    /// Two streams.
    pub(super) fn streams(&mut self, depth: usize) -> String {
        self.wrote_here(Construct::Streams, Construct::StreamsInLoop);
        let depth = depth.saturating_sub(1);
        let a = self.expr(Kind::States, depth);
        let s = self.expr(Kind::Streams, depth);
        match self.below(13) {
            0 => format!("repeat({a}, 2)"),
            1 | 2 => format!("split(linear({a}) {{ to: 8 }}, 2)"),
            3 => format!("(split(sigmoid(linear({a}) {{ to: 2 }}), 2) * {s})"),
            4 => format!("({s} + split(linear({a}) {{ to: 2 }}, 2) * tanh({}))", self.bound(Kind::States)),
            5 | 6 => self.mixed(&a, &s),
            7 => self.linear("norm", &s),
            8 => self.linear("linear", &s),
            9 => format!("softmax({s})"),
            10 => self.one(&["shift(S, 1)", "running_mean(S)"]).replace('S', &s),
            11 => format!("({s} * tanh({}))", self.expr(Kind::Tokens, depth)),
            _ => format!("({s} - {a})"),
        }
    }

    /// Streams times a matrix of every position.
    fn mixed(&mut self, a: &str, s: &str) -> String {
        self.wrote(Construct::Mixing);
        let matrix = format!("split(linear({a}) {{ to: 4 }}, 2)");
        match self.below(3) {
            0 => format!("matmul(softmax({matrix}), {s})"),
            1 => format!("matmul(tanh({matrix}), {s}) {{ transposed: left }}"),
            _ => {
                let keys = self.bound(Kind::Streams);
                format!("matmul(softmax(matmul({s}, {keys}) {{ transposed: right }}), {keys})")
            }
        }
    }

    /// One state of streams.
    pub(super) fn of_streams(&mut self, depth: usize) -> String {
        self.wrote_here(Construct::Streams, Construct::StreamsInLoop);
        let s = self.expr(Kind::Streams, depth);
        match self.below(5) {
            0 => format!("mean({s}) {{ over: stream }}"),
            1 => format!("max({s}) {{ over: stream }}"),
            2 => format!("linear(merge({s}))"),
            3 => format!("channels(merge({s}), 2, 4)"),
            _ => {
                let weights = format!("split(sigmoid(linear({}) {{ to: 2 }}), 2)", self.bound(Kind::States));
                format!("sum({weights} * {s}) {{ over: stream }}")
            }
        }
    }

    /// A loop around two residual streams: each step reads one state of them, and writes to each (hyper-connections).
    pub(super) fn hyper_connections(&mut self) {
        self.wrote(Construct::Carried);
        self.wrote(Construct::StreamsInLoop);
        let streams = self.fresh("c");
        let start = self.one(&["repeat(state, 2)", "split(linear(state) { to: 8 }, 2)"]);
        self.open("loop");
        let steps = self.one(&["steps: 2", "steps: 3"]);
        self.line(steps);
        self.line(&format!("carry {streams} = {start}"));
        self.steps.push(Steps { counted: true, numbered: true, by_position: false });
        self.scoped(|w| {
            w.add_known(&streams, Kind::Streams);
            w.carried.push(Known { name: streams.clone(), kind: Kind::Streams });
            let z = w.fresh("z");
            w.line(&format!("{z} = norm(merge({streams})) {{ kind: rms }}"));
            let [read, write, mixing] = [2, 2, 4].map(|to| format!("{} {{ to: {to} }}", w.linear("linear", &z)));
            let read = w.bind(Kind::States, &format!("sum(split(sigmoid({read}), 2) * {streams}) {{ over: stream }}"));
            let y = w.expr(Kind::States, 2);
            let written = format!("split(sigmoid({write}), 2) * ({y} + {read})");
            let kept = if w.one_in(2) {
                w.wrote(Construct::Mixing);
                format!("matmul(softmax(split({mixing}, 2)), {streams})")
            } else {
                format!("{streams} * sigmoid({})", w.expr(Kind::Tokens, 1))
            };
            w.line(&format!("{streams} = {kept} + {written}"));
            if w.one_in(3) {
                let condition = w.condition(Kind::Row);
                w.line(&format!("until {condition}"));
            }
        });
        self.steps.pop();
        self.close();
        self.add_known(&streams, Kind::Streams);
        let value = self.one(&["mean(S) { over: stream }", "state + sum(tanh(S)) { over: stream }"]);
        self.line(&format!("state = {}", value.replace('S', &streams)));
    }
}
