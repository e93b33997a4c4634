//! Neighbours by existence.

use rtc_compiler::ir::attribute::{self, Side};
use rtc_compiler::ir::graph::{Node, Value};

use super::build::OnnxBuilder;
use super::proto::DataType;

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
}
