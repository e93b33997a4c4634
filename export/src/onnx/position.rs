//! Codes of positions: sines and cosines, learned ones, rotations. Angles are double precision, as in the runtime.

use rtc_compiler::ir::attribute::{self, Layout, Origin, PositionKind};
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::rotation;
use rtc_compiler::ir::types::Dim;

use super::build::{AxisSize, OnnxBuilder, RaggedAxis};
use super::proto::{AttributeProto, DataType};

/// The distance over which xPos applies its base once.
const SCALE_BASE: f64 = 512.0;

impl OnnxBuilder<'_> {
    /// `x w_k` for numbers `x[...]` in double precision: `[..., frequencies]`.
    fn angles(&mut self, x: &str, frequencies: &[f64]) -> String {
        let apart = self.unsqueeze(x, &[-1]);
        let frequencies = self.doubles(&[frequencies.len()], frequencies);
        self.op("Mul", &[&apart, &frequencies])
    }

    /// The code of positions or distances `int64[n]`: sines in the first half of the channels, cosines in the second.
    pub(super) fn waves(&mut self, positions: &str, channels: usize) -> String {
        let sines = channels.div_ceil(2);
        let frequency = |k: usize| 10_000_f64.powf(-2.0 * k as f64 / channels as f64);
        let frequencies: Vec<f64> = (0..sines).map(frequency).collect();
        let positions = self.cast(positions, DataType::Double);
        let angles = self.angles(&positions, &frequencies);
        let sine = self.op("Sin", &[&angles]);
        let cosine = self.op("Cos", &[&angles]);
        let cosine = self.slice(&cosine, -1, 0, (channels - sines) as i64);
        let both = self.concat(&[&sine, &cosine], -1);
        self.cast(&both, DataType::Float)
    }

    /// Every position plus its code.
    pub(super) fn add_position(&mut self, node: &Node, x: &[&str]) -> String {
        let dims = self.graph.ty(node.operands[0]).dims();
        let width = dims.last().and_then(Dim::fixed).unwrap_or(1);
        let size = match self.size(&dims[1]) {
            AxisSize::Of(name) => name,
            AxisSize::Is(n) => self.int(n as i64),
        };
        let positions = self.range(&size);
        let codes = match x.get(1) {
            None => self.waves(&positions, width),
            Some(table) => {
                // Behind the longest row any code will do; within it, one that the table lacks is an error.
                let lengths = self.lengths(node.operands[0]);
                let (most, one) = (self.largest(&lengths), self.int(1));
                let last = self.op("Sub", &[&most, &one]);
                let known = self.op("Min", &[&positions, &last]);
                self.op("Gather", &[table, &known])
            }
        };
        self.op("Add", &[x[0], &codes])
    }

    /// The number of every position: `float[rows, length]`.
    pub(super) fn place_numbers(&mut self, node: &Node) -> String {
        let dims = self.graph.ty(node.operands[0]).dims();
        let size = match self.size(&dims[1]) {
            AxisSize::Of(name) => name,
            AxisSize::Is(n) => self.int(n as i64),
        };
        let positions = self.range(&size);
        let positions = self.cast(&positions, DataType::Float);
        let apart = self.unsqueeze(&positions, &[0]);
        self.expanded(&apart, node.results[0])
    }

    /// Sines and cosines of numbers.
    pub(super) fn sinusoid(&mut self, node: &Node, x: &str) -> String {
        let (channels, base) = (node.get(attribute::WIDTH), node.get(attribute::BASE));
        let sines = channels.div_ceil(2);
        let frequencies: Vec<f64> = (0..sines).map(|k| base.powf(-2.0 * k as f64 / channels as f64)).collect();
        let numbers = self.cast(x, DataType::Double);
        let angles = self.angles(&numbers, &frequencies);
        let (sine, cosine) = (self.op("Sin", &[&angles]), self.op("Cos", &[&angles]));
        let both = match node.get(attribute::LAYOUT) {
            Layout::Half => self.concat(&[&sine, &cosine], -1),
            Layout::Pairs => {
                let [sine, cosine] = [sine, cosine].map(|wave| self.unsqueeze(&wave, &[-1]));
                let pairs = self.concat(&[&sine, &cosine], -1);
                let kept = vec![0; self.rank(node.operands[0])];
                let shape: Vec<i64> = kept.into_iter().chain([2 * sines as i64]).collect();
                self.reshape(&pairs, &shape)
            }
        };
        // An odd number of channels has no cosine of the last angle.
        let all = if channels % 2 == 0 { both } else { self.slice(&both, -1, 0, channels as i64) };
        self.cast(&all, DataType::Float)
    }

    /// Pairs of channels turned by their position: `(a cos - b sin, b cos + a sin)`.
    pub(super) fn rotate(&mut self, node: &Node, x: &str) -> String {
        let heads = node.get(attribute::HEADS);
        let dims = self.graph.ty(node.operands[0]).dims();
        let width = dims.last().and_then(Dim::fixed).unwrap_or(1);
        let e = width / heads;
        let turning = node.find(attribute::PART).unwrap_or(e);
        let positions = self.positions(node);
        let part = |pair: usize| 2.0 * pair as f64 / turning as f64;
        let frequencies = rotation::of_node(&node.attrs, e).expect("a verified node has angles");
        let angles = self.angles(&positions, &frequencies);
        let (mut sine, mut cosine) = (self.op("Sin", &[&angles]), self.op("Cos", &[&angles]));
        let sign = match node.get(attribute::KIND) {
            PositionKind::Rope => 0.0,
            PositionKind::XposQuery => 1.0,
            PositionKind::XposKey => -1.0,
        };
        if sign != 0.0 {
            let powers: Vec<f64> =
                (0..turning / 2).map(|pair| sign * ((part(pair) + 0.4) / 1.4).ln() / SCALE_BASE).collect();
            let powers = self.angles(&positions, &powers);
            let factors = self.op("Exp", &[&powers]);
            (sine, cosine) = (self.op("Mul", &[&sine, &factors]), self.op("Mul", &[&cosine, &factors]));
        }
        // One angle for all heads: [rows or 1, width, 1, pairs].
        let [sine, cosine] = [sine, cosine].map(|wave| {
            let wave = self.cast(&wave, DataType::Float);
            self.unsqueeze(&wave, &[-2])
        });
        let (count, rest) = ((turning / 2) as i64, turning < e);
        let apart = if rest { self.reshape(x, &[0, 0, heads as i64, e as i64]) } else { x.to_owned() };
        let own = if rest { self.slice(&apart, -1, 0, turning as i64) } else { x.to_owned() };
        // The axis of the two channels of a pair.
        let (axis, shape) = match node.get(attribute::LAYOUT) {
            Layout::Pairs => (-1, [0, 0, heads as i64, count, 2]),
            Layout::Half => (-2, [0, 0, heads as i64, 2, count]),
        };
        let pairs = self.reshape(&own, &shape);
        let [first, second] = [0, 1].map(|n| {
            let at = self.int(n);
            self.op_with("Gather", &[&pairs, &at], vec![AttributeProto::int("axis", axis)])
        });
        let straight = |b: &mut Self, x: &str| b.op("Mul", &[x, &cosine]);
        let across = |b: &mut Self, x: &str| b.op("Mul", &[x, &sine]);
        let (ac, bs) = (straight(self, &first), across(self, &second));
        let (bc, as_) = (straight(self, &second), across(self, &first));
        let transposed = node.get(attribute::TRANSPOSE);
        let (minus, plus) = if transposed { ("Add", "Sub") } else { ("Sub", "Add") };
        let (a, b) = (self.op(minus, &[&ac, &bs]), self.op(plus, &[&bc, &as_]));
        let [a, b] = [a, b].map(|half| self.unsqueeze(&half, &[axis]));
        let mut turned = self.concat(&[&a, &b], axis);
        if rest {
            let whole = self.reshape(&turned, &[0, 0, heads as i64, turning as i64]);
            let still = self.slice(&apart, -1, turning as i64, e as i64);
            turned = self.concat(&[&whole, &still], -1);
        }
        self.reshape(&turned, &[0, 0, width as i64])
    }

    /// The positions by which a node turns, as doubles `[rows or 1, width]`: from the start of the row or of the chunk.
    fn positions(&mut self, node: &Node) -> String {
        let axis = self.axis_of(node.operands[0]);
        let size = match (&axis, self.graph.ty(node.operands[0]).dims().get(1).and_then(Dim::fixed)) {
            (Some(RaggedAxis { width, .. }), _) => width.clone(),
            (None, size) => self.int(size.unwrap_or(1) as i64),
        };
        let positions = self.range(&size);
        let mut positions = self.unsqueeze(&positions, &[0]);
        let origin = axis.and_then(|axis| axis.origin).filter(|_| node.get(attribute::ORIGIN) == Origin::Row);
        if let Some(origin) = origin {
            let origin = self.unsqueeze(&origin, &[1]);
            positions = self.op("Add", &[&positions, &origin]);
        }
        self.cast(&positions, DataType::Double)
    }
}
