//! The ops of continuous recursion (CRvNN) and ordered memory.

use rtc_compiler::ir::attribute::{self, Side};
use rtc_compiler::ir::graph::{Node, Value};

use super::build::OnnxBuilder;
use super::proto::{AttributeProto, DataType};

/// Positions whose existence is above this count.
const EXISTS: f64 = 0.1;
/// More of them than this are not done: START, END and one more.
const DONE: i64 = 3;
/// Added to the denominator of `merge_probability`.
const TINY: f64 = 4e-8;
/// Sums of probabilities below this close a slot.
const CLOSED: f64 = 1e-5;

impl OnnxBuilder<'_> {
    /// What every position takes from every other on one side, `[rows, i, j]`: `min(e_j, 1 - what exists in between)`.
    fn shares(&mut self, existence: Value, e: &str, side: Side) -> String {
        let e = self.existing(existence, e, 0.0);
        let one = self.int(1);
        let precise = self.cast(&e, DataType::Double);
        // Sums up to and with every position, in double precision, since differences of them follow.
        let sums = self.op("CumSum", &[&precise, &one]);
        let before = self.op("Sub", &[&sums, &precise]);
        let right = side == Side::Right;
        // Between j and i on the left: before_i - sums_j; between i and j on the right: before_j - sums_i.
        let (of_i, of_j) = if right { (&sums, &before) } else { (&before, &sums) };
        let (of_i, of_j) = (self.unsqueeze(of_i, &[2]), self.unsqueeze(of_j, &[1]));
        let between = if right { self.op("Sub", &[&of_j, &of_i]) } else { self.op("Sub", &[&of_i, &of_j]) };
        let (whole, nothing) = (self.double(1.0), self.double(0.0));
        let left = self.op("Sub", &[&whole, &between]);
        let left = self.op("Max", &[&left, &nothing]);
        let own = self.unsqueeze(&precise, &[1]);
        let share = self.op("Min", &[&own, &left]);
        let share = self.cast(&share, DataType::Float);
        let width = self.op("Shape", &[&e]);
        let width = self.op("Gather", &[&width, &one]);
        let j = self.range(&width);
        let i = self.unsqueeze(&j, &[1]);
        let on_side = self.op(if right { "Greater" } else { "Less" }, &[&j, &i]);
        let zero = self.float(0.0);
        self.op("Where", &[&on_side, &share, &zero])
    }

    /// The sum of what positions take of `x[rows, positions]` or `x[rows, positions, channels]`.
    fn shared(&mut self, shares: &str, x: &str, rank: usize) -> String {
        if rank > 2 {
            return self.op("MatMul", &[shares, x]);
        }
        let apart = self.unsqueeze(x, &[2]);
        let mixed = self.op("MatMul", &[shares, &apart]);
        self.squeeze(&mixed, &[2])
    }

    /// The neighbour of every position on one side.
    pub(super) fn neighbours(&mut self, node: &Node, x: &[&str]) -> String {
        let shares = self.shares(node.operands[1], x[1], node.get(attribute::SIDE));
        let existing = self.existing(node.operands[0], x[0], 0.0);
        self.shared(&shares, &existing, self.rank(node.operands[0]))
    }

    /// How probable it is that a position goes into its right neighbour.
    pub(super) fn merge_probability(&mut self, node: &Node, x: &[&str]) -> String {
        let Some(axis) = self.axis_of(node.operands[0]) else { return x[0].to_owned() };
        let (zero, one, two) = (self.float(0.0), self.int(1), self.int(2));
        let existing = self.existing(node.operands[0], x[0], 0.0);
        let largest = self.op_with("ReduceMax", &[&existing], vec![AttributeProto::ints("axes", &[1])]);
        let largest = self.op("Max", &[&largest, &zero]);
        let below = self.op("Sub", &[&existing, &largest]);
        let force = self.op("Exp", &[&below]);
        // START, the last token and END stay.
        let positions = self.range(&axis.width);
        let inside = self.op("GreaterOrEqual", &[&positions, &one]);
        let last = self.op("Sub", &[&axis.lengths, &two]);
        let last = self.unsqueeze(&last, &[1]);
        let before = self.op("Less", &[&positions, &last]);
        let inner = self.op("And", &[&inside, &before]);
        let force = self.op("Where", &[&inner, &force, &zero]);
        let (negative, tiny) = (self.op("Neg", &[&largest]), self.float(TINY));
        let alone = self.op("Exp", &[&negative]);
        let mut total = self.op("Add", &[&alone, &tiny]);
        total = self.op("Add", &[&force, &total]);
        for side in Side::ALL {
            let shares = self.shares(node.operands[1], x[1], *side);
            let taken = self.shared(&shares, &force, 2);
            total = self.op("Add", &[&total, &taken]);
        }
        self.op("Div", &[&force, &total])
    }

    /// Whether more than one position besides START and END exists.
    pub(super) fn any_unmerged(&mut self, node: &Node, e: &str) -> String {
        let existing = self.existing(node.operands[0], e, 0.0);
        let (least, done) = (self.float(EXISTS), self.int(DONE));
        let counts = self.op("Greater", &[&existing, &least]);
        let counts = self.cast(&counts, DataType::Int);
        let count = self.reduce("ReduceSum", &counts, &[1]);
        self.op("Greater", &[&count, &done])
    }

    /// Divides a step among the slots of a memory: probabilities, and their sums from both ends.
    pub(super) fn slot_softmax(&mut self, node: &Node) {
        let [beta, before] = [0, 1].map(|n| self.value(node.operands[n]));
        let slots = self.graph.ty(node.operands[0]).dims()[1].fixed().unwrap_or(1) as i64;
        let (zero, whole, axis, closed) = (self.float(0.0), self.float(1.0), self.int(1), self.float(CLOSED));
        let first = self.slice(&before, 1, 0, 1);
        let is_first = self.op("Less", &[&first, &zero]);
        // A slot is open as far as the step before went up to the slot above it; the top always is.
        let sums = self.op("CumSum", &[&before, &axis]);
        let upper = self.slice(&sums, 1, 1, slots);
        let is_closed = self.op("Less", &[&upper, &closed]);
        let open = self.op("Where", &[&is_closed, &zero, &upper]);
        let top = self.op("Mul", &[&first, &zero]);
        let top = self.op("Add", &[&top, &whole]);
        let allowed = self.concat(&[&open, &top], 1);
        let along = || vec![AttributeProto::ints("axes", &[1])];
        let largest = self.op_with("ReduceMax", &[&beta], along());
        let below = self.op("Sub", &[&beta, &largest]);
        let forces = self.op("Exp", &[&below]);
        let forces = self.op("Mul", &[&forces, &allowed]);
        let one = self.ints(&[1]);
        let sum = self.op("ReduceSum", &[&forces, &one]);
        let some = self.op("Greater", &[&sum, &zero]);
        let sum = self.op("Where", &[&some, &sum, &whole]);
        let p = self.op("Div", &[&forces, &sum]);
        let lower = self.op("CumSum", &[&p, &axis]);
        let above = self.op_with("CumSum", &[&p, &axis], vec![AttributeProto::int("reverse", 1)]);
        for (result, (found, start)) in node.results.iter().zip([(p, &zero), (lower, &zero), (above, &whole)]) {
            let name = self.op("Where", &[&is_first, start, &found]);
            self.set(*result, name);
        }
    }
}
