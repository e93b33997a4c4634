//! Loops and recurrences, with gates, halting rules and carried values.

use super::{KINDS, Kind, Known, NUMBERS, Steps, Writer};

impl Writer {
    /// `recur depthwise`, with a gate, an injection and a halting rule where these are drawn.
    pub(super) fn recurrence(&mut self, depth: usize) {
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
            if self.wide && !self.pays {
                // A model that folds has no answers of its states.
                rules.retain(|rule| !rule.contains("confident") && !rule.contains("entropy"));
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
    pub(super) fn gate(&mut self) -> String {
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
    pub(super) fn repeat(&mut self, depth: usize) {
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
            let kinds: &[Kind] = if self.wide { &NUMBERS } else { &KINDS };
            let (name, kind) = (self.fresh("c"), self.one(kinds));
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
    pub(super) fn start(&mut self, kind: Kind) -> String {
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
}
