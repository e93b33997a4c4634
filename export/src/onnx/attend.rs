//! Attention: scores, what hides and what biases them, and positions relative to one another.

use rtc_compiler::expr::{Expr, ScoreExpr};
use rtc_compiler::ir::attribute::{self, Mask, Relative};
use rtc_compiler::ir::graph::{Node, Value};
use rtc_compiler::ir::types::{Dim, Elem};

use super::OnnxRefusal;
use super::build::{AxisSize, OnnxBuilder};
use super::expr::{BiasTable, PaddedValue, Reads, VariableNames};
use super::proto::{AttributeProto, DataType};

impl OnnxBuilder<'_> {
    /// Softmax attention, head by head.
    pub(super) fn attention(&mut self, node: &Node, x: &[&str]) -> Result<String, OnnxRefusal> {
        let heads = node.get(attribute::HEADS);
        let width = self.channels(node.operands[0]);
        let e = width / heads;
        let key_heads = node.get(attribute::KEY_HEADS);
        let value_width = self.channels(node.operands[2]) / key_heads;
        let q = self.by_head(x[0], heads, e);
        let steps = self.steps(node, x);
        let [k, v] = [(x[1], e), (x[2], value_width)].map(|(x, width)| {
            let own = match &steps {
                Some(steps) => self.filled_slots(x, steps, key_heads * width),
                None => x.to_owned(),
            };
            let own = self.by_head(&own, key_heads, width);
            self.for_heads(own, heads / key_heads, heads)
        });
        let places = self.places(node, x, steps.as_deref());
        let relative = node.find(attribute::POSITION) == Some(Relative::RelativeXl);
        let behind = node.behind();
        let own = &x[behind.relative.clone()];
        let query = if relative { self.shifted(&q, own[0], heads, e) } else { q.clone() };
        let turned = self.transpose(&k, &[0, 1, 3, 2]);
        let mut scores = self.op("MatMul", &[&query, &turned]);
        if relative {
            let shifted = self.shifted(&q, own[1], heads, e);
            let more = self.relative(node, &shifted, own[2], (heads, e));
            scores = self.op("Add", &[&scores, &more]);
        }
        let scale = self.float(node.attrs.scale(e));
        scores = self.op("Mul", &[&scores, &scale]);
        let score = node.attrs.score().map_err(OnnxRefusal)?;
        if let Some(most) = score.cap() {
            let most = self.float(most);
            let part = self.op("Div", &[&scores, &most]);
            let bounded = self.op("Tanh", &[&part]);
            scores = self.op("Mul", &[&bounded, &most]);
        }
        let values = self.read_values(node, x);
        let mut seen = self.seen(node, (&places, &values), steps.as_deref())?;
        if let Some(expr) = score.of_pairs() {
            let tables = self.tables(node, x, behind.reads.start);
            let mut reads = Reads::of_pairs((places, heads), (tables, values));
            let is_whole = matches!(score, ScoreExpr::Whole(_));
            reads.score = is_whole.then(|| self.cast(&scores, DataType::Double));
            let (number, known) = self.bias(expr, &reads)?;
            scores = match is_whole {
                true => {
                    let shape = self.op("Shape", &[&scores]);
                    self.op("Expand", &[&number, &shape])
                }
                false => self.op("Add", &[&scores, &number]),
            };
            if let Some(known) = known {
                seen = self.op("And", &[&seen, &known]);
            }
        }
        if let &[of_scores, _] = &x[behind.talking.clone()] {
            let zero = self.float(0.0);
            let shown = self.op("Where", &[&seen, &scores, &zero]);
            scores = self.between_heads(&shown, of_scores);
        }
        let mut weights = self.softmax(&scores, &seen);
        if let &[_, of_probabilities] = &x[behind.talking] {
            weights = self.between_heads(&weights, of_probabilities);
        }
        let mixed = self.op("MatMul", &[&weights, &v]);
        let together = self.transpose(&mixed, &[0, 2, 1, 3]);
        Ok(self.reshape(&together, &[0, 0, (heads * value_width) as i64]))
    }

    /// How many slots of every position have keys, where positions have slots, `int64[]`.
    fn steps(&mut self, node: &Node, x: &[&str]) -> Option<String> {
        let slots = self.graph.ty(node.operands[1]).dims().len() > 3;
        slots.then(|| {
            let one = self.int(1);
            self.op("Add", &[x[3], &one])
        })
    }

    /// The first slots of every position of `[rows, positions, slots, width]`, as positions.
    fn filled_slots(&mut self, x: &str, steps: &str, width: usize) -> String {
        let (start, end, axis) = (self.ints(&[0]), self.reshape(steps, &[1]), self.ints(&[2]));
        let own = self.op("Slice", &[x, &start, &end, &axis]);
        self.reshape(&own, &[0, -1, width as i64])
    }

    /// Numbers `[rows, heads, queries, keys]` of all heads, mixed by a matrix `[from, to]`.
    fn between_heads(&mut self, numbers: &str, matrix: &str) -> String {
        let last = self.transpose(numbers, &[0, 2, 3, 1]);
        let mixed = self.op("MatMul", &[&last, matrix]);
        self.transpose(&mixed, &[0, 3, 1, 2])
    }

    /// Channels of a value.
    fn channels(&self, value: Value) -> usize {
        self.graph.ty(value).dims().last().and_then(Dim::fixed).unwrap_or(1)
    }

    /// `[rows, heads, positions, e]`.
    fn by_head(&mut self, x: &str, heads: usize, e: usize) -> String {
        let apart = self.reshape(x, &[0, 0, heads as i64, e as i64]);
        self.transpose(&apart, &[0, 2, 1, 3])
    }

    /// Key heads `[rows, key heads, positions, e]`, each as often as heads share it.
    fn for_heads(&mut self, x: String, sharing: usize, heads: usize) -> String {
        if sharing == 1 {
            return x;
        }
        let read = self.ints(&(0..heads).map(|head| (head / sharing) as i64).collect::<Vec<_>>());
        self.op_with("Gather", &[&x, &read], vec![AttributeProto::int("axis", 1)])
    }

    /// Probabilities; 0 for what is hidden, and everywhere where all is.
    fn softmax(&mut self, scores: &str, seen: &str) -> String {
        let (hidden, zero) = (self.float(f64::NEG_INFINITY), self.float(0.0));
        let scores = self.op("Where", &[seen, scores, &hidden]);
        let weights = self.op_with("Softmax", &[&scores], vec![AttributeProto::int("axis", -1)]);
        self.op("Where", &[seen, &weights, &zero])
    }

    /// The size of the second axis of a value, `int64[]`.
    fn positions_of(&mut self, value: Value) -> String {
        let dims = self.graph.ty(value).dims();
        match self.size(&dims[1]) {
            AxisSize::Of(name) => name,
            AxisSize::Is(n) => self.int(n as i64),
        }
    }

    /// The variables of masks and biases, with axes for rows, heads, queries and keys.
    fn places(&mut self, node: &Node, x: &[&str], steps: Option<&str>) -> VariableNames {
        let heads = node.get(attribute::HEADS);
        let (queries, keys) = (self.positions_of(node.operands[0]), self.positions_of(node.operands[1]));
        let i = self.range(&queries);
        let j = match steps {
            Some(steps) => {
                let keys = self.op("Mul", &[&keys, steps]);
                let all = self.range(&keys);
                self.op("Div", &[&all, steps])
            }
            None => self.range(&keys),
        };
        let numbers = self.ints(&(0..heads as i64).collect::<Vec<_>>());
        let lengths = self.lengths(node.operands[0]);
        let is_step = node.operands.get(3).is_some_and(|v| self.graph.ty(*v).elem() == Some(Elem::Index));
        let step = if is_step { x[3].to_owned() } else { self.int(0) };
        VariableNames {
            i: Some(self.unsqueeze(&i, &[1])),
            j: Some(j),
            step: Some(step),
            length: Some(self.unsqueeze(&lengths, &[1, 2, 3])),
            head: Some(self.reshape(&numbers, &[1, heads as i64, 1, 1])),
            given: None,
            has_slots: steps.is_some(),
        }
    }

    /// Which keys a query sees: those that exist and that the mask shows.
    fn seen(
        &mut self,
        node: &Node,
        (places, values): (&VariableNames, &[PaddedValue]),
        steps: Option<&str>,
    ) -> Result<String, OnnxRefusal> {
        let exists = match self.axis_of(node.operands[1]) {
            Some(axis) => {
                let mask = match steps {
                    Some(steps) => {
                        let apart = self.unsqueeze(&axis.mask, &[2]);
                        let (ones, steps) = (self.ints(&[1, 1]), self.reshape(steps, &[1]));
                        let shape = self.concat(&[&ones, &steps], 0);
                        let copies = self.op("Expand", &[&apart, &shape]);
                        self.reshape(&copies, &[0, -1])
                    }
                    None => axis.mask,
                };
                self.unsqueeze(&mask, &[1, 2])
            }
            None => self.truth(true),
        };
        let shown = match node.get(attribute::MASK) {
            Mask::All => return Ok(exists),
            Mask::Causal => {
                let (i, j) = (places.i.clone().unwrap_or_default(), places.j.clone().unwrap_or_default());
                self.op("LessOrEqual", &[&j, &i])
            }
            Mask::Rule(rule) => {
                let expr = Expr::try_from(rule).map_err(OnnxRefusal)?;
                let around = (places.clone(), node.get(attribute::HEADS));
                self.holds(&expr, &Reads::of_pairs(around, (vec![], values.to_vec())))?
            }
        };
        Ok(self.op("And", &[&exists, &shown]))
    }

    /// The learned tables of a bias, which follow the step.
    fn tables(&mut self, node: &Node, x: &[&str], end: usize) -> Vec<BiasTable> {
        let is_step = node.operands.get(3).is_some_and(|v| self.graph.ty(*v).elem() == Some(Elem::Index));
        let own = 3 + usize::from(is_step)..end;
        let sizes = |value: &Value| self.graph.ty(*value).dims().iter().filter_map(Dim::fixed).collect();
        own.map(|n| BiasTable { name: x[n].to_owned(), sizes: sizes(&node.operands[n]) }).collect()
    }

    /// The values that mask and bias read.
    fn read_values(&self, node: &Node, x: &[&str]) -> Vec<PaddedValue> {
        let value = |n: usize| {
            let dims = self.graph.ty(node.operands[n]).dims();
            PaddedValue { name: x[n].to_owned(), channels: dims.get(2).and_then(Dim::fixed) }
        };
        node.behind().reads.map(value).collect()
    }

    /// Queries with a shift of their head added.
    fn shifted(&mut self, q: &str, shift: &str, heads: usize, e: usize) -> String {
        let shift = self.reshape(shift, &[1, heads as i64, 1, e as i64]);
        self.op("Add", &[q, &shift])
    }

    /// `q W s` for the code `s` of the distance of every query from every key.
    fn relative(&mut self, node: &Node, q: &str, map: &str, (heads, e): (usize, usize)) -> String {
        let own = node.behind().relative;
        let channels = self.channels(node.operands[own.end - 1]);
        let (queries, keys) = (self.positions_of(node.operands[0]), self.positions_of(node.operands[1]));
        let one = self.int(1);
        let (first, step) = (self.op("Sub", &[&one, &keys]), one.clone());
        let distances = self.op("Range", &[&first, &queries, &step]);
        let waves = self.waves(&distances, channels);
        let codes = self.linear(&[&waves, map]);
        let codes = self.reshape(&codes, &[-1, heads as i64, e as i64]);
        let codes = self.transpose(&codes, &[1, 2, 0]);
        let products = self.op("MatMul", &[q, &codes]);
        // Distance i - j stands at i - j + keys - 1.
        let (i, j) = (self.range(&queries), self.range(&keys));
        let i = self.unsqueeze(&i, &[1]);
        let distance = self.op("Sub", &[&i, &j]);
        let at = self.op("Sub", &[&distance, &first]);
        let shape = self.op("Shape", &[&products]);
        let lead = self.slice(&shape, 0, 0, 2);
        let own = self.op("Shape", &[&at]);
        let shape = self.concat(&[&lead, &own], 0);
        let at = self.op("Expand", &[&at, &shape]);
        self.op_with("GatherElements", &[&products, &at], vec![AttributeProto::int("axis", -1)])
    }

    /// Attention to the nearest key that matches. What keys up to a distance leave over is the exponential of a sum of log(1 - p): a
    /// difference between two sums from the first key on.
    pub(super) fn geometric_attention(&mut self, node: &Node, x: &[&str]) -> String {
        let heads = node.get(attribute::HEADS);
        let width = self.channels(node.operands[0]);
        let [q, k, v] = [0, 1, 2].map(|n| self.by_head(x[n], heads, width / heads));
        let turned = self.transpose(&k, &[0, 1, 3, 2]);
        let products = self.op("MatMul", &[&q, &turned]);
        let scale = self.float(node.attrs.scale(width / heads));
        let mut scores = self.op("Mul", &[&products, &scale]);
        let size = self.positions_of(node.operands[0]);
        let j = self.range(&size);
        let i = self.unsqueeze(&j, &[1]);
        let front = self.op("Less", &[&i, &j]);
        if let Some(sides) = x.get(3) {
            let sides = self.by_head(sides, heads, 2);
            let (behind, ahead) = (self.slice(&sides, 3, 0, 1), self.slice(&sides, 3, 1, 2));
            let side = self.op("Where", &[&front, &ahead, &behind]);
            scores = self.op("Add", &[&scores, &side]);
        }
        let own = self.op("Equal", &[&i, &j]);
        let mut seen = self.op("Not", &[&own]);
        if let Some(axis) = self.axis_of(node.operands[1]) {
            let exists = self.unsqueeze(&axis.mask, &[1, 2]);
            seen = self.op("And", &[&seen, &exists]);
        }
        let (none, one, last, zero) = (self.int(0), self.int(1), self.int(3), self.float(0.0));
        let closed = self.op("Softplus", &[&scores]);
        let open = self.op("Neg", &[&closed]);
        let open = self.op("Where", &[&seen, &open, &zero]);
        // The sum over the keys before each, and that over all of them.
        let sums = self.op("CumSum", &[&open, &last]);
        let start = self.slice(&open, 3, 0, 1);
        let start = self.op("Mul", &[&start, &zero]);
        let sums = self.concat(&[&start, &sums], 3);
        // Key j in front of query i has the nearer keys 2 i - j + 1 to j - 1, one behind it those from j + 1 to 2 i - j.
        let twice = self.op("Add", &[&i, &i]);
        let across = self.op("Sub", &[&twice, &j]);
        let across = self.op("Add", &[&across, &one]);
        let (low, high) = (self.op("Max", &[&across, &none]), self.op("Min", &[&across, &size]));
        let next = self.op("Add", &[&j, &one]);
        let ends = [self.op("Where", &[&front, &j, &high]), self.op("Where", &[&front, &low, &next])];
        let shape = self.op("Shape", &[&scores]);
        let [upper, lower] = ends.map(|at| {
            let at = self.op("Expand", &[&at, &shape]);
            self.op_with("GatherElements", &[&sums, &at], vec![AttributeProto::int("axis", -1)])
        });
        let nearer = self.op("Sub", &[&upper, &lower]);
        let negative = self.op("Neg", &[&scores]);
        let missed = self.op("Softplus", &[&negative]);
        let log = self.op("Sub", &[&nearer, &missed]);
        let weights = self.op("Exp", &[&log]);
        let weights = self.op("Where", &[&seen, &weights, &zero]);
        let total = self.reduce("ReduceSum", &weights, &[3]);
        let total = self.unsqueeze(&total, &[3]);
        let least = self.float(1e-12);
        let total = self.op("Max", &[&total, &least]);
        let weights = self.op("Div", &[&weights, &total]);
        let mixed = self.op("MatMul", &[&weights, &v]);
        let together = self.transpose(&mixed, &[0, 2, 1, 3]);
        self.reshape(&together, &[0, 0, width as i64])
    }
}
