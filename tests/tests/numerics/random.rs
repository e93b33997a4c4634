//! Random small graphs in the text form: chains and DAGs of ops with shapes that fit, loops included.

use std::fmt::Write;

use rtc_base::rng::{Draws, Key};

/// Number of tokens.
pub(crate) const VOCAB: u64 = 5;

/// Channels of every sequence, row and slot.
const WIDTH: usize = 4;

/// What a value is: `[batch, axis, 4]`, `[batch, 4]`, `[batch, 3, 4]`, `[batch, axis]`, `[batch]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sequence(&'static str),
    Row,
    Slots,
    Positions(&'static str),
    Rows,
}

impl Kind {
    fn ty(self) -> String {
        match self {
            Self::Sequence(axis) => format!("f32[batch, {axis}, {WIDTH}]"),
            Self::Row => format!("f32[batch, {WIDTH}]"),
            Self::Slots => format!("f32[batch, 3, {WIDTH}]"),
            Self::Positions(axis) => format!("f32[batch, {axis}]"),
            Self::Rows => "f32[batch]".to_owned(),
        }
    }

    /// The type with another number of channels.
    fn with_channels(self, channels: usize) -> String {
        self.ty().replace(&format!("{WIDTH}]"), &format!("{channels}]"))
    }

    fn has_channels(self) -> bool {
        matches!(self, Self::Sequence(_) | Self::Row | Self::Slots)
    }

    /// The type of a condition on the units of such a value.
    fn condition(self) -> String {
        self.ty().replace("f32", "bool")
    }
}

/// A value that a node may use.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    kind: Kind,
}

struct Generator {
    draws: Draws,
    leaves: String,
    nodes: String,
    known: Vec<Known>,
    /// Operands and streams of the dropout nodes so far.
    dropped: Vec<(Known, usize)>,
    next: usize,
    depth: usize,
}

/// The text of graph `seed`: up to twenty ops and two levels of loops, and a scalar result `loss`.
pub(crate) fn graph(seed: u64) -> String {
    generated(seed).finish(seed)
}

/// The text of graph `seed` with every value that has the positions of the row as a result: `p0`, `p1`, ...
pub(crate) fn positions(seed: u64) -> String {
    let g = generated(seed);
    let here = |known: &&Known| matches!(known.kind, Kind::Sequence(_) | Kind::Positions(_));
    let found: Vec<String> = g.known.iter().filter(here).map(|known| format!("%{}", known.name)).collect();
    let names: Vec<String> = (0..found.len()).map(|n| format!("p{n}")).collect();
    let end = format!("return {} {{names: \"{}\"}}", found.join(", "), names.join(", "));
    format!("graph \"positions {seed}\" {{\n{}{}{end}\n}}\n", g.leaves, g.nodes)
}

fn generated(seed: u64) -> Generator {
    let draws = Key::new(seed).stream("graphs").draws();
    let mut g = Generator {
        draws,
        leaves: String::new(),
        nodes: String::new(),
        known: vec![],
        dropped: vec![],
        next: 0,
        depth: 0,
    };
    let axis = Kind::Sequence("length");
    g.leaves += "%tokens = input {name: \"tokens\"} : u32[batch, length]\n";
    for _ in 0..2 {
        let table = g.param(&[VOCAB as usize, WIDTH], "zeros");
        g.node("embed", &["tokens", &table], "", &[axis]);
    }
    let slots = g.param(&[3, WIDTH], "zeros");
    let like = g.known[0].name.clone();
    g.node("broadcast_batch", &[&slots, &like], "", &[Kind::Slots]);
    g.node("mean", &[&like], "", &[Kind::Row]);
    let ops = 4 + g.below(16);
    for _ in 0..ops {
        g.op("length");
    }
    g
}

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.draws.below(bound as u64) as usize
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next)
    }

    fn param(&mut self, dims: &[usize], init: &str) -> String {
        let name = self.fresh();
        let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
        let dims = dims.join(", ");
        writeln!(self.leaves, "%{name} = param {{name: \"p.{name}\", init: {init}}} : f32[{dims}]")
            .expect("a text grows");
        name
    }

    /// Writes a node whose results may be used later, and gives the first one's name.
    fn node(&mut self, op: &str, operands: &[&str], attrs: &str, kinds: &[Kind]) -> String {
        let names: Vec<String> = kinds.iter().map(|_| self.fresh()).collect();
        let types: Vec<String> = kinds.iter().map(|k| k.ty()).collect();
        self.line(op, operands, attrs, &names, &types);
        self.known.extend(names.iter().zip(kinds).map(|(name, kind)| Known { name: name.clone(), kind: *kind }));
        names.into_iter().next().unwrap_or_default()
    }

    fn line(&mut self, op: &str, operands: &[&str], attrs: &str, names: &[String], types: &[String]) {
        let percent = |names: Vec<&str>| names.iter().map(|n| format!("%{n}")).collect::<Vec<_>>().join(", ");
        let attrs = if attrs.is_empty() { String::new() } else { format!(" {{{attrs}}}") };
        let results = percent(names.iter().map(String::as_str).collect());
        let operands = percent(operands.to_vec());
        writeln!(self.nodes, "{results} = {op} {operands}{attrs} : {}", types.join(", ")).expect("a text grows");
    }

    /// A known value that `fits`, later ones more often.
    fn pick(&mut self, fits: impl Fn(Kind) -> bool) -> Option<Known> {
        let fitting: Vec<Known> = self.known.iter().filter(|k| fits(k.kind)).cloned().collect();
        let (a, b) = (self.below(fitting.len().max(1)), self.below(fitting.len().max(1)));
        fitting.get(a.max(b)).cloned()
    }

    /// True for values of this region's axis, or without one.
    fn here(axis: &'static str) -> impl Fn(Kind) -> bool {
        move |kind| match kind {
            Kind::Sequence(a) | Kind::Positions(a) => a == axis,
            Kind::Row | Kind::Slots | Kind::Rows => true,
        }
    }

    /// One more op, or a loop; nothing when what was drawn finds no operands.
    fn op(&mut self, axis: &'static str) {
        let Some(x) = self.pick(Self::here(axis)) else { return };
        let loops = if self.depth < 2 { 27 } else { 22 };
        match self.below(loops) {
            0..=2 => self.elementwise(&x),
            3..=5 => self.binary(&x, axis),
            6 | 7 => self.ternary(&x),
            8..=10 if x.kind.has_channels() => self.linear(&x),
            11 if x.kind.has_channels() => {
                let (gain, bias) = (self.param(&[WIDTH], "ones"), self.param(&[WIDTH], "zeros"));
                match self.below(2) {
                    0 => self.node("layer_norm", &[&x.name, &gain, &bias], "eps: 1e-3", &[x.kind]),
                    _ => self.node("rms_norm", &[&x.name, &gain], "eps: 1e-3", &[x.kind]),
                };
            }
            12 | 13 => self.pool(&x),
            14 | 15 => self.attention(axis),
            16 if matches!(x.kind, Kind::Sequence(_)) => {
                let kind = ["rope", "xpos_query", "xpos_key"][self.below(3)];
                let attrs = format!("kind: {kind}, heads: 2, transpose: false, origin: axis");
                self.node("rotate", &[&x.name], &attrs, &[x.kind]);
            }
            17 => self.dropout(&x, axis),
            18 if x.kind.has_channels() => self.channels(&x),
            19 | 20 => self.units(&x, axis),
            21 => self.dropout(&x, axis),
            22 | 23 => self.recur(axis),
            24 if axis == "length" => self.chunks(),
            25 | 26 if axis == "length" => self.fold(),
            _ => self.elementwise(&x),
        }
    }

    fn elementwise(&mut self, x: &Known) {
        match self.below(8) {
            0 => self.node("gelu", &[&x.name], "", &[x.kind]),
            1 => self.node("relu", &[&x.name], "", &[x.kind]),
            2 => self.node("sigmoid", &[&x.name], "", &[x.kind]),
            3 => self.node("map", &[&x.name], "f: mul(1.0, a)", &[x.kind]),
            4 => self.node("map", &[&x.name], "f: mul(-0.5, a)", &[x.kind]),
            5 => self.node("map", &[&x.name], "f: add(a, 0.0)", &[x.kind]),
            6 => self.node("softplus", &[&x.name], "", &[x.kind]),
            _ => self.node("map", &[&x.name], "f: add(a, 0.25)", &[x.kind]),
        };
    }

    fn binary(&mut self, x: &Known, axis: &'static str) {
        let Some(y) = self.pick(|k| k == x.kind) else { return };
        match self.below(5) {
            0 => self.node("add", &[&x.name, &y.name], "", &[x.kind]),
            1 => self.node("sub", &[&x.name, &y.name], "", &[x.kind]),
            2 => {
                let small = self.node("sigmoid", &[&y.name], "", &[x.kind]);
                self.node("mul", &[&x.name, &small], "", &[x.kind])
            }
            3 => {
                let small = self.node("sigmoid", &[&y.name], "", &[x.kind]);
                let above = self.node("map", &[&small], "f: add(a, 1.0)", &[x.kind]);
                self.node("div", &[&x.name, &above], "", &[x.kind])
            }
            _ => {
                // A neutral element, which `fold` sees through.
                let rank = x.kind.ty().matches(',').count() + 1;
                let zero = self.node("full", &[&x.name], &format!("value: 0.0, rank: {rank}"), &[x.kind]);
                debug_assert!(Self::here(axis)(x.kind));
                self.node("add", &[&x.name, &zero], "", &[x.kind])
            }
        };
    }

    fn ternary(&mut self, x: &Known) {
        let (Some(u), Some(h)) = (self.pick(|k| k == x.kind), self.pick(|k| k == x.kind)) else { return };
        if self.below(2) == 0 {
            self.node("map", &[&x.name, &u.name, &h.name], "f: lerp(sigmoid(a), b, c)", &[x.kind]);
        } else {
            let g = self.node("sigmoid", &[&x.name], "", &[x.kind]);
            self.node("lerp", &[&g, &u.name, &h.name], "", &[x.kind]);
        }
    }

    fn linear(&mut self, x: &Known) {
        let weight = self.param(&[WIDTH, WIDTH], "zeros");
        if self.below(2) == 0 {
            self.node("linear", &[&x.name, &weight], "", &[x.kind]);
            return;
        }
        let bias = self.param(&[WIDTH], "zeros");
        let y = self.node("linear", &[&x.name, &weight, &bias], "", &[x.kind]);
        if self.below(2) == 0 {
            let act = ["gelu", "relu"][self.below(2)];
            self.node(act, &[&y], "", &[x.kind]);
        }
    }

    fn pool(&mut self, x: &Known) {
        let pooled = match x.kind {
            Kind::Sequence(_) | Kind::Slots => Kind::Row,
            Kind::Positions(_) => Kind::Rows,
            Kind::Row | Kind::Rows => return self.elementwise(x),
        };
        match self.below(7) {
            0 => self.node("max", &[&x.name], "", &[pooled]),
            1 => self.node("position", &[&x.name], "at: first", &[pooled]),
            2 => self.node("position", &[&x.name], "at: last", &[pooled]),
            3 => self.node("running_sum", &[&x.name], "side: left", &[x.kind]),
            4 => self.node("shift", &[&x.name], "side: left, lag: 2", &[x.kind]),
            5 => self.node("shift", &[&x.name], "side: right, lag: 1", &[x.kind]),
            _ => self.node("mean", &[&x.name], "", &[pooled]),
        };
    }

    fn attention(&mut self, axis: &'static str) {
        let many = |kind| matches!(kind, Kind::Sequence(a) if a == axis) || kind == Kind::Slots;
        let (Some(q), Some(k)) = (self.pick(many), self.pick(many)) else { return };
        let Some(v) = self.pick(|kind| kind == k.kind) else { return };
        let causal = q.kind == k.kind && self.below(2) == 0;
        let mask = if causal { ["causal", "le(j, add(i, 1))"][self.below(2)] } else { "all" };
        let dropout = if self.below(3) == 0 { ", dropout: 0.25, stream: 7" } else { "" };
        let attrs = format!("heads: 2, mask: {mask}{dropout}");
        self.node("attention", &[&q.name, &k.name, &v.name], &attrs, &[q.kind]);
    }

    /// Dropout of `x`, of the oldest value of its kind, which loops capture, or as it was done before, perhaps outside
    /// this loop: the masks differ there, though the nodes look alike.
    fn dropout(&mut self, x: &Known, axis: &'static str) {
        let oldest = self.known.iter().find(|k| k.kind == x.kind && Self::here(axis)(k.kind)).cloned();
        let fresh = oldest.filter(|_| self.below(2) == 0).unwrap_or_else(|| x.clone());
        let visible = |g: &Self, x: &Known| g.known.iter().any(|k| k.name == x.name) && Self::here(axis)(x.kind);
        let again = self.dropped.iter().rev().find(|(x, _)| visible(self, x)).cloned();
        let (x, stream) = match again {
            Some(again) if self.below(2) == 0 => again,
            _ => (fresh, self.below(2)),
        };
        self.node("dropout", &[&x.name], &format!("p: 0.25, stream: {stream}"), &[x.kind]);
        self.dropped.push((x, stream));
    }

    fn channels(&mut self, x: &Known) {
        let wide = self.fresh();
        let double = x.kind.with_channels(2 * WIDTH);
        if self.below(2) == 0 {
            let Some(y) = self.pick(|k| k == x.kind) else { return };
            self.line("concat", &[&x.name, &y.name], "", std::slice::from_ref(&wide), &[double]);
        } else {
            self.line("pad", &[&x.name], "start: 1, width: 8", std::slice::from_ref(&wide), &[double]);
        }
        let start = self.below(WIDTH + 1);
        self.node("slice", &[&wide], &format!("start: {start}, width: {WIDTH}"), &[x.kind]);
    }

    /// One number per unit, and its product with `x`.
    fn units(&mut self, x: &Known, axis: &'static str) {
        let fits = |kind| kind == Kind::Rows || (kind == Kind::Positions(axis) && x.kind == Kind::Sequence(axis));
        let unit = match self.pick(fits) {
            Some(unit) if self.below(3) > 0 => unit,
            _ => {
                let from = |kind| kind == Kind::Sequence(axis) || kind == Kind::Row;
                let Some(source) = self.pick(from) else { return };
                let weight = self.param(&[1, WIDTH], "zeros");
                let one = self.fresh();
                let ty = source.kind.with_channels(1);
                self.line("linear", &[&source.name, &weight], "", std::slice::from_ref(&one), &[ty]);
                let kind = if source.kind == Kind::Row { Kind::Rows } else { Kind::Positions(axis) };
                let name = self.node("squeeze", &[&one], "", &[kind]);
                Known { name, kind }
            }
        };
        if !fits(unit.kind) || !x.kind.has_channels() {
            return;
        }
        let Some(y) = self.pick(|k| k == x.kind) else { return };
        if self.below(2) == 0 {
            self.node("mul_unit", &[&x.name, &unit.name], "", &[x.kind]);
        } else {
            self.node("add_scaled", &[&x.name, &y.name, &unit.name], "", &[x.kind]);
        }
    }

    /// Runs `body` with its nodes kept apart; gives them. What it makes known is forgotten after it.
    fn inside(&mut self, body: impl FnOnce(&mut Self)) -> String {
        let outer = std::mem::take(&mut self.nodes);
        let known = self.known.len();
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.known.truncate(known);
        std::mem::replace(&mut self.nodes, outer)
    }

    /// A depth recurrence over two or three carried values; with halting, every row goes its own number of steps.
    fn recur(&mut self, axis: &'static str) {
        let halts = self.below(2) == 0;
        let mut carried = vec![];
        for _ in 0..2 + self.below(2) {
            carried.extend(self.pick(Self::here(axis)));
        }
        let params: Vec<String> = carried.iter().map(|_| self.fresh()).collect();
        let (step, survival) = (self.fresh(), self.fresh());
        let mut yields = vec![];
        let body = self.inside(|g| {
            let names = params.iter().zip(&carried);
            g.known.extend(names.map(|(name, c)| Known { name: name.clone(), kind: c.kind }));
            if halts {
                g.known.push(Known { name: survival.clone(), kind: Kind::Rows });
            }
            for _ in 0..2 + g.below(4) {
                g.op(axis);
            }
            for c in &carried {
                // Bounded, so that ten steps of anything stay within range.
                let out = g.pick(|k| k == c.kind).expect("the parameter itself fits");
                yields.push(g.node("sigmoid", &[&out.name], "", &[c.kind]));
            }
            if halts {
                yields.extend(g.halting(&survival, &step));
            }
        });
        let (mut operands, mut types) = (vec![], vec![]);
        for c in &carried {
            operands.push(c.name.clone());
            types.push(c.kind);
        }
        let mut all = params;
        if halts {
            let like = carried[0].name.clone();
            operands.push(self.node("full", &[&like], "value: 1.0, rank: 1", &[Kind::Rows]));
            types.push(Kind::Rows);
            all.push(survival);
        }
        let bound = ["2", "4", "7"][self.below(3)];
        let inputs: Vec<String> = all.iter().zip(&types).map(|(n, k)| format!("%{n}: {}", k.ty())).collect();
        let open = format!("({}, %{step}: u32[]) {{\n{body}yield %{}\n}}", inputs.join(", "), yields.join(", %"));
        self.close("recur", &operands, &format!("bound: {bound}"), &types, &open);
    }

    /// Survival after this step and the row's condition to go on.
    fn halting(&mut self, survival: &str, step: &str) -> [String; 2] {
        let row = self.pick(|k| k == Kind::Row).expect("a row is always known");
        let weight = self.param(&[1, WIDTH], "zeros");
        let (one, go) = (self.fresh(), self.fresh());
        self.line("linear", &[&row.name, &weight], "", std::slice::from_ref(&one), &["f32[batch, 1]".to_owned()]);
        let logit = self.node("squeeze", &[&one], "", &[Kind::Rows]);
        let p = self.node("sigmoid", &[&logit], "", &[Kind::Rows]);
        let alpha = self.node("mul", &[survival, &p], "", &[Kind::Rows]);
        let left = self.node("sub", &[survival, &alpha], "", &[Kind::Rows]);
        let condition = [Kind::Rows.condition()];
        self.line("halt_test", &[&left, step], "threshold: 0.8", std::slice::from_ref(&go), &condition);
        [left, go]
    }

    /// A chunk recurrence with carried slots and rows, one or two sequences and an output.
    fn chunks(&mut self) {
        let (Some(slots), Some(row)) = (self.pick(|k| k == Kind::Slots), self.pick(|k| k == Kind::Row)) else { return };
        let Some(sequence) = self.pick(|k| k == Kind::Sequence("length")) else { return };
        // An inner loop would need the axis of the outer one: the names of both differ.
        let axis = "chunk";
        let kinds = [Kind::Slots, Kind::Row, Kind::Sequence(axis)];
        let params: Vec<String> = kinds.iter().map(|_| self.fresh()).collect();
        let mut yields = vec![];
        let body = self.inside(|g| {
            g.known.extend(params.iter().zip(kinds).map(|(name, kind)| Known { name: name.clone(), kind }));
            for _ in 0..3 + g.below(5) {
                g.op(axis);
            }
            for kind in kinds {
                let out = g.pick(|k| k == kind).expect("the parameter itself fits");
                yields.push(g.node("sigmoid", &[&out.name], "", &[kind]));
            }
        });
        let inputs: Vec<String> = params.iter().zip(kinds).map(|(n, k)| format!("%{n}: {}", k.ty())).collect();
        let open = format!("({}) {{\n{body}yield %{}\n}}", inputs.join(", "), yields.join(", %"));
        let cut = ["size: 2, cut: position", "count: 3, cut: position", "size: 3, cut: balanced"][self.below(3)];
        let attrs = format!("carried: 2, {cut}, over: length, axis: {axis}");
        let operands = [slots.name, row.name, sequence.name];
        self.close("chunks", &operands, &attrs, &[Kind::Slots, Kind::Row, Kind::Sequence("length")], &open);
    }

    /// A fold of a sequence to a row, whose body reads what it likes from outside.
    fn fold(&mut self) {
        let Some(sequence) = self.pick(|k| k == Kind::Sequence("length")) else { return };
        let (axis, nodes) = ("node", self.fresh());
        let mut yields = vec![];
        let body = self.inside(|g| {
            g.known.push(Known { name: nodes.clone(), kind: Kind::Sequence(axis) });
            let row = g.node("sum", &[&nodes], "", &[Kind::Row]);
            g.known.push(Known { name: row, kind: Kind::Row });
            for _ in 0..3 + g.below(5) {
                g.op(axis);
            }
            for kind in [Kind::Row, Kind::Rows] {
                let out = match g.pick(|k| k == kind) {
                    Some(out) => out.name,
                    None => g.node("full", &[&nodes], "value: 0.5, rank: 1", &[kind]),
                };
                yields.push(g.node("sigmoid", &[&out], "", &[kind]));
            }
        });
        let ty = Kind::Sequence(axis).ty();
        let open = format!("(%{nodes}: {ty}) {{\n{body}yield %{}\n}}", yields.join(", %"));
        let cut = [
            "arity: 2, last: merge, plan: row",
            "arity: 3, last: strict, plan: row",
            "arity: 2, last: merge, plan: batch",
        ];
        let attrs = format!("{}, over: length, axis: {axis}", cut[self.below(3)]);
        self.close("fold", &[sequence.name], &attrs, &[Kind::Row, Kind::Rows], &open);
    }

    fn close(&mut self, op: &str, operands: &[String], attrs: &str, kinds: &[Kind], open: &str) {
        let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
        self.node(op, &operands, attrs, kinds);
        let end = self.nodes.pop();
        debug_assert_eq!(end, Some('\n'), "a node ends its line");
        writeln!(self.nodes, " {open}").expect("a text grows");
    }

    /// The loss: means of the last values of every kind, added up.
    fn finish(mut self, seed: u64) -> String {
        let mut last: Vec<Known> = vec![];
        for value in self.known.iter().rev() {
            if last.iter().filter(|k| k.kind == value.kind).count() < 2 {
                last.push(value.clone());
            }
        }
        let mut sum: Option<String> = None;
        for value in last {
            let (mean, next) = (self.fresh(), self.fresh());
            let (smooth, scalar) = (self.node("gelu", &[&value.name], "", &[value.kind]), ["f32[]".to_owned()]);
            self.line("average", &[&smooth], "", std::slice::from_ref(&mean), &scalar);
            sum = Some(match sum {
                None => mean,
                Some(sum) => {
                    self.line("add", &[&sum, &mean], "", std::slice::from_ref(&next), &scalar);
                    next
                }
            });
        }
        let loss = sum.unwrap_or_default();
        format!("graph \"random {seed}\" {{\n{}{}return %{loss} {{names: \"loss\"}}\n}}\n", self.leaves, self.nodes)
    }
}
