//! Scans on a device: kernels from parameters, convolutions as recurrences, and the way back.

use rtc_compiler::ir::attribute::{self, Discretisation, ScanKernel, Side};
use rtc_compiler::ir::ops::Op;

use super::active_rows::Ragged;
use super::device::KernelArgument;
use super::dispatch::DeviceNodeContext;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, flag, int, whole};
use rtc_exec::storage::Element;

/// A scan with everything that its kernels read.
struct DeviceScan {
    axis: Ragged,
    right: bool,
    lag: usize,
    modes: usize,
    channels: usize,
    rows: usize,
    /// Poles and weights.
    kernel: DeviceArray,
}

impl<T: Element> DeviceExecutor<T> {
    fn describe_scan(&mut self, c: &DeviceNodeContext<'_>) -> DeviceScan {
        let s4d = c.get(attribute::KERNEL) == ScanKernel::S4d;
        let channels = c.last(0);
        // The second parameter of either has a number per channel and mode.
        let modes = self.real(c.operand(parameters(c).start + 1)).len() / channels.max(1);
        let kernel = self.pool.take::<f64>(4 * channels * modes);
        let mut args: Vec<_> = parameters(c).map(|n| self.real(c.operand(n)).arg()).collect();
        args.push(kernel.arg());
        args.extend(rule(c));
        args.extend([int(modes), whole(channels * modes)]);
        self.pool.each(if s4d { "s4d_modes" } else { "ema_modes" }, channels * modes, &args);
        DeviceScan {
            axis: c.place.axis_of(c.ty(c.operand(0)), &self.pool),
            right: c.get(attribute::SIDE) == Side::Right,
            lag: c.get(attribute::LAG),
            modes,
            channels,
            rows: c.view.rows(),
            kernel,
        }
    }

    fn run_scan(&self, s: &DeviceScan, x: &DeviceArray, y: &DeviceArray, right: bool) {
        self.start_scan("scan", s, &[x.arg(), s.kernel.arg(), y.arg()], right);
    }

    /// Starts a kernel with a warp for every row and channel.
    fn start_scan(&self, kernel: &str, s: &DeviceScan, arrays: &[KernelArgument], right: bool) {
        let sizes = [s.axis.offsets.arg(), flag(right), int(s.lag), int(s.modes), int(s.channels)];
        let grid = [s.rows as u32, self.pool.warp_blocks(s.channels), 1];
        self.pool.launch(kernel, grid, &[arrays, &sizes].concat());
    }

    pub(super) fn scan(&mut self, c: &DeviceNodeContext<'_>) {
        let (s, y) = (self.describe_scan(c), self.fresh(c, 0));
        self.run_scan(&s, &self.real(c.operand(0)), &y, s.right);
        self.put(c, 0, y);
    }

    /// Gradients of all operands but the second, which is the upstream gradient.
    pub(super) fn scan_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let s = self.describe_scan(c);
        let (x, dy) = (self.real(c.operand(0)), self.real(c.operand(1)));
        let dx = self.fresh(c, 0);
        self.run_scan(&s, &dy, &dx, !s.right);
        let numbers = 4 * s.channels * s.modes;
        let by_row = self.pool.take::<f64>(s.rows * numbers);
        self.start_scan("scan_grad", &s, &[x.arg(), dy.arg(), s.kernel.arg(), by_row.arg()], s.right);
        let d = self.pool.take::<f64>(numbers);
        self.pool.each("scan_rows", numbers, &[by_row.arg(), d.arg(), whole(s.rows), whole(numbers)]);
        let grads: Vec<DeviceArray> = (1..c.node.results.len()).map(|n| self.fresh(c, n)).collect();
        let mut args: Vec<_> = parameters(c).map(|n| self.real(c.operand(n)).arg()).collect();
        args.push(d.arg());
        args.extend(grads.iter().map(DeviceArray::arg));
        let s4d = c.get(attribute::KERNEL) == ScanKernel::S4d;
        let count = if s4d { s.channels } else { s.channels * s.modes };
        args.extend(rule(c));
        args.extend([int(s.modes), whole(count)]);
        self.pool.each(if s4d { "s4d_pull" } else { "ema_pull" }, count, &args);
        for (n, grad) in std::iter::once(dx).chain(grads).enumerate() {
            self.put_or_add(c, n, grad);
        }
    }
}

/// What the kernels of S4D alone are told: whether the input is held between two positions.
fn rule(c: &DeviceNodeContext<'_>) -> Option<KernelArgument> {
    (c.get(attribute::KERNEL) == ScanKernel::S4d)
        .then(|| flag(c.get(attribute::DISCRETISATION) == Discretisation::Held))
}

/// Which operands are parameters: those behind the rows, and behind the upstream gradient.
fn parameters(c: &DeviceNodeContext<'_>) -> std::ops::Range<usize> {
    let first = if c.node.op == Op::ScanGrad { 2 } else { 1 };
    first..c.node.operands.len()
}
