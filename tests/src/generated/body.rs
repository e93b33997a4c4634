//! Bodies of models: statements, layers and losses.

use super::{Kind, Known, Writer};

impl Writer {
    /// The model itself.
    pub(super) fn whole(&mut self) {
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
    pub(super) fn statements(&mut self, most: usize, depth: usize) {
        for _ in 0..1 + self.below(most) {
            if self.wide && self.one_in(2) {
                self.wider_statement(depth);
                continue;
            }
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
    pub(super) fn scoped(&mut self, body: impl FnOnce(&mut Self)) {
        let (known, carried, shared) = (self.known.clone(), self.carried.clone(), self.shared.clone());
        let outer = std::mem::replace(&mut self.outer, self.known.len());
        body(self);
        (self.known, self.carried, self.shared, self.outer) = (known, carried, shared, outer);
    }

    pub(super) fn stack(&mut self, depth: usize) {
        self.open("stack 2");
        let empty = self.text.len();
        self.scoped(|w| w.statements(2, depth + 1));
        if self.text.len() == empty {
            self.line("feedforward { hidden: 3 }");
        }
        self.close();
    }

    pub(super) fn attend(&mut self) {
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
    pub(super) fn equations(&mut self, most: usize) {
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
    pub(super) fn kind(&mut self) -> Kind {
        let kind = self.one(&[Kind::States, Kind::States, Kind::States, Kind::Vector, Kind::Tokens, Kind::Row]);
        if self.past && kind == Kind::Vector && !self.one_in(3) { Kind::Tokens } else { kind }
    }

    /// A loss, where one may stand.
    pub(super) fn pay(&mut self) {
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
}
