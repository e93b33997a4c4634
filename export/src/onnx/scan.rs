//! Scans as products with matrices of kernels: `y[i] = sum over j of K[|i - j| - lag] x[j]`. Poles and weights of a kernel are worked
//! out here, since a model that is exported has its numbers; their powers depend on the length, and are part of the graph.
//! Memory grows with the square of the length, times channels.

use rtc_compiler::ir::attribute::{self, Discretisation, ScanKernel, Side};
use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::types::Dim;

use super::OnnxRefusal;
use super::build::OnnxBuilder;
use super::proto::{AttributeProto, DataType};

/// A complex number.
type ComplexNumber = (f64, f64);

fn times((a, b): ComplexNumber, (c, d): ComplexNumber) -> ComplexNumber {
    (a * c - b * d, a * d + b * c)
}

fn over(x: ComplexNumber, (c, d): ComplexNumber) -> ComplexNumber {
    let norm = c * c + d * d;
    times(x, (c / norm, -d / norm))
}

fn exponential((re, im): ComplexNumber) -> ComplexNumber {
    (re.exp() * im.cos(), re.exp() * im.sin())
}

/// `(exp(u) - 1) / u`, which is 1 at 0; for small `u` from the series, whose terms vanish after a dozen.
fn held(u: ComplexNumber) -> ComplexNumber {
    if u.0.hypot(u.1) > 0.25 {
        let (re, im) = exponential(u);
        return over((re - 1.0, im), u);
    }
    (2..=12).rev().fold((1.0, 0.0), |sum, n| {
        let (re, im) = times((u.0 / f64::from(n), u.1 / f64::from(n)), sum);
        (1.0 + re, im)
    })
}

/// One exponential of a kernel: `2 Re(weight exp(l (growth + i turn)))`.
struct KernelExponential {
    growth: f64,
    turn: f64,
    weight: ComplexNumber,
}

impl KernelExponential {
    fn new(pole: ComplexNumber, weight: ComplexNumber) -> Self {
        // A pole of 0 is alone at distance 0, where exp(0) has to be 1.
        let size = pole.0.hypot(pole.1).max(f64::MIN_POSITIVE);
        Self { growth: size.ln(), turn: pole.1.atan2(pole.0), weight }
    }
}

impl OnnxBuilder<'_> {
    /// A convolution of every channel with the kernel of its modes.
    pub(super) fn scan(&mut self, node: &Node, x: &str) -> Result<String, OnnxRefusal> {
        let modes = match node.get(attribute::KERNEL) {
            ScanKernel::S4d => self.s4d_modes(node)?,
            ScanKernel::Ema => self.ema_modes(node)?,
        };
        let Some(axis) = self.axis_of(node.operands[0]) else { return Ok(x.to_owned()) };
        let channels = self.graph.ty(node.operands[0]).dims().last().and_then(Dim::fixed).unwrap_or(1);
        let kernel = self.kernel(&modes, channels, &axis.width);
        let positions = self.range(&axis.width);
        let apart = self.unsqueeze(&positions, &[1]);
        let distance = match node.get(attribute::SIDE) {
            Side::Left => self.op("Sub", &[&apart, &positions]),
            Side::Right => self.op("Sub", &[&positions, &apart]),
        };
        let (lag, zero, nothing) = (self.int(node.get(attribute::LAG) as i64), self.int(0), self.float(0.0));
        let place = self.op("Sub", &[&distance, &lag]);
        let is_seen = self.op("GreaterOrEqual", &[&place, &zero]);
        let place = self.op("Max", &[&place, &zero]);
        // [channels, i, j]
        let matrix = self.op_with("Gather", &[&kernel, &place], vec![AttributeProto::int("axis", 1)]);
        let matrix = self.op("Where", &[&is_seen, &matrix, &nothing]);
        let existing = self.existing(node.operands[0], x, 0.0);
        // [channels, j, rows]
        let columns = self.transpose(&existing, &[2, 1, 0]);
        let mixed = self.op("MatMul", &[&matrix, &columns]);
        Ok(self.transpose(&mixed, &[2, 1, 0]))
    }

    /// `K[channels, length]`.
    fn kernel(&mut self, modes: &[KernelExponential], channels: usize, width: &str) -> String {
        let dims = [channels, modes.len() / channels.max(1), 1];
        let mut of = |number: fn(&KernelExponential) -> f64| {
            let numbers: Vec<f64> = modes.iter().map(number).collect();
            self.doubles(&dims, &numbers)
        };
        let (growth, turn) = (of(|mode| mode.growth), of(|mode| mode.turn));
        let (re, im) = (of(|mode| 2.0 * mode.weight.0), of(|mode| 2.0 * mode.weight.1));
        let distances = self.range(width);
        let distances = self.cast(&distances, DataType::Double);
        let size = self.op("Mul", &[&growth, &distances]);
        let size = self.op("Exp", &[&size]);
        let angle = self.op("Mul", &[&turn, &distances]);
        let (sine, cosine) = (self.op("Sin", &[&angle]), self.op("Cos", &[&angle]));
        let real = self.op("Mul", &[&re, &cosine]);
        let imaginary = self.op("Mul", &[&im, &sine]);
        let wave = self.op("Sub", &[&real, &imaginary]);
        let each = self.op("Mul", &[&size, &wave]);
        let sum = self.reduce("ReduceSum", &each, &[1]);
        self.cast(&sum, DataType::Float)
    }

    /// Diagonal state spaces with `z = dt A / 2`: by the bilinear rule, pole `(1 + z) / (1 - z)`, weight `C B dt / (1 - z)`; with a held
    /// input, pole `exp(2 z)`, weight `C B dt (exp(2 z) - 1) / (2 z)`.
    fn s4d_modes(&self, node: &Node) -> Result<Vec<KernelExponential>, OnnxRefusal> {
        let numbers = |n: usize| self.numbers(node.operands[n]);
        let (log_dt, log_decay, frequency, b, c) = (numbers(1)?, numbers(2)?, numbers(3)?, numbers(4)?, numbers(5)?);
        let modes = log_decay.len() / log_dt.len().max(1);
        let pair = |x: &[f32], at: usize| (f64::from(x[2 * at]), f64::from(x[2 * at + 1]));
        let holds = node.get(attribute::DISCRETISATION) == Discretisation::Held;
        let mode = |at: usize| {
            let dt = f64::from(log_dt[at / modes]).exp();
            let half = dt / 2.0;
            let z = (-f64::from(log_decay[at]).exp() * half, -f64::from(frequency[at]) * half);
            let below = (1.0 - z.0, -z.1);
            let (re, im) = times(pair(c, at), pair(b, at));
            if holds {
                let u = (2.0 * z.0, 2.0 * z.1);
                return KernelExponential::new(exponential(u), times((re * dt, im * dt), held(u)));
            }
            KernelExponential::new(over((1.0 + z.0, z.1), below), over((re * dt, im * dt), below))
        };
        Ok((0..log_decay.len()).map(mode).collect())
    }

    /// Damped moving averages: `p = sigmoid(delta)`, pole `1 - p sigmoid(alpha)`, weight `p beta gamma / sqrt(dimensions)`, half of it
    /// since a kernel is twice a real part.
    fn ema_modes(&self, node: &Node) -> Result<Vec<KernelExponential>, OnnxRefusal> {
        let numbers = |n: usize| self.numbers(node.operands[n]);
        let (delta, alpha, beta, gamma) = (numbers(1)?, numbers(2)?, numbers(3)?, numbers(4)?);
        let dimensions = self.graph.ty(node.operands[1]).dims().last().and_then(Dim::fixed).unwrap_or(1);
        let sigmoid = |x: f32| 1.0 / (1.0 + (-f64::from(x)).exp());
        let mode = |at: usize| {
            let taken = sigmoid(delta[at]);
            let through = f64::from(beta[at]) * f64::from(gamma[at]) / (dimensions as f64).sqrt();
            KernelExponential::new((1.0 - taken * sigmoid(alpha[at]), 0.0), (taken * through / 2.0, 0.0))
        };
        Ok((0..delta.len()).map(mode).collect())
    }
}
