//! Ops that work along whole rows: scans, the choice of keys, and geometric attention.

use rtc_compiler::ir::attribute::{self, Mask, ScanKernel};

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::incremental::NodeCache;
use crate::storage::Element;
use rtc_kernel::geometric_attention::GeometricAttention;
use rtc_kernel::scan::ema::{EmaGrad, EmaParameters};
use rtc_kernel::scan::s4d::{S4d, S4dGrad};
use rtc_kernel::scan::state::ScanState;
use rtc_kernel::scan::{Scan, scan, scan_grad};
use rtc_kernel::top_keys::TopKeys;

fn how(c: &NodeContext<'_>) -> Scan {
    Scan { side: c.get(attribute::SIDE), lag: c.get(attribute::LAG) }
}

impl<T: Element> Executor<T> {
    fn s4d_parameters(&self, c: &NodeContext<'_>) -> S4d<'_, T> {
        let rule = c.get(attribute::DISCRETISATION);
        let [log_dt, log_decay, frequency, b, c] = self.scan_parameters(c);
        S4d { rule, log_dt, log_decay, frequency, b, c }
    }

    fn ema_parameters(&self, c: &NodeContext<'_>) -> EmaParameters<'_, T> {
        let [delta, alpha, beta, gamma] = self.scan_parameters(c);
        EmaParameters { channels: c.last(0), delta, alpha, beta, gamma }
    }

    /// The parameters of a scan, which stand last.
    fn scan_parameters<const N: usize>(&self, c: &NodeContext<'_>) -> [&[T]; N] {
        let first = c.node.operands.len() - N;
        std::array::from_fn(|n| self.memory.real(c.operand(first + n)))
    }

    pub(super) fn scan(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let x = e.memory.real(c.operand(0));
            match c.get(attribute::KERNEL) {
                ScanKernel::S4d => scan(&e.s4d_parameters(c), how(c), x, &axis.offsets, y),
                ScanKernel::Ema => scan(&e.ema_parameters(c), how(c), x, &axis.offsets, y),
            }
        });
    }

    /// `scan` over new positions, from where those before them left the scan.
    pub(super) fn extend_scan(&mut self, c: &NodeContext<'_>) {
        let mut state = match self.kept(c.step.node) {
            Some(NodeCache::Scan(state)) => state,
            _ => match c.get(attribute::KERNEL) {
                ScanKernel::S4d => ScanState::new(&self.s4d_parameters(c), how(c)),
                ScanKernel::Ema => ScanState::new(&self.ema_parameters(c), how(c)),
            },
        };
        self.produce(c, |e, c, y| state.extend(e.memory.real(c.operand(0)), y));
        self.keep(c.step.node, NodeCache::Scan(state));
    }

    /// x, the upstream gradient and the parameters come in, gradients of all but the upstream one go out.
    pub(super) fn scan_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        match c.get(attribute::KERNEL) {
            ScanKernel::S4d => self.produce_all(c, |e, [dx, log_dt, log_decay, frequency, b, read]| {
                let family = S4dGrad::new(e.s4d_parameters(c), [log_dt, log_decay, frequency, b, read]);
                let [x, dy] = [0, 1].map(|n| e.memory.real(c.operand(n)));
                scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            }),
            ScanKernel::Ema => self.produce_all(c, |e, [dx, delta, alpha, beta, gamma]| {
                let family = EmaGrad::new(e.ema_parameters(c), [delta, alpha, beta, gamma]);
                let [x, dy] = [0, 1].map(|n| e.memory.real(c.operand(n)));
                scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            }),
        }
    }

    pub(super) fn top_keys(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        let sizes = top_keys(c, [&axis.offsets, &axis.offsets]);
        self.produce(c, |e, c, y| {
            let [q, k] = [0, 1].map(|n| e.memory.real(c.operand(n)));
            let among = c.node.operands.get(2).map(|among| e.memory.real(*among));
            sizes.choose(q, k, among, y);
        });
    }

    /// `top_keys` of new positions, which see those before them.
    pub(super) fn extend_top_keys(&mut self, c: &NodeContext<'_>) {
        let mut known = match self.kept(c.step.node) {
            Some(NodeCache::Candidates(known)) => known,
            _ => Default::default(),
        };
        for (known, operand) in known.iter_mut().zip(&c.node.operands[1..]) {
            known.extend_from_slice(self.memory.real(*operand));
        }
        let width = c.last(0);
        let [queries, keys] = [self.memory.real(c.operand(0)), &known[0][..]].map(|rows| [0, rows.len() / width]);
        let sizes = top_keys(c, [&queries, &keys]);
        self.produce(c, |e, c, y| {
            let among = c.node.operands.get(2).map(|_| known[1].as_slice());
            sizes.choose(e.memory.real(c.operand(0)), &known[0], among, y);
        });
        self.keep(c.step.node, NodeCache::Candidates(known));
    }

    pub(super) fn geometric_attention(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let inputs = [0, 1, 2].map(|n| e.memory.real(c.operand(n)));
            let sides = c.node.operands.get(3).map(|sides| e.memory.real(*sides));
            geometric(c, &axis.offsets).forward(inputs, sides, y);
        });
    }

    pub(super) fn geometric_attention_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        let attention = geometric(c, &axis.offsets);
        let Some(sides) = c.node.operands.get(4) else {
            return self.produce_all(c, |e, grads: [_; 3]| {
                let [q, k, v, dy] = [0, 1, 2, 3].map(|n| e.memory.real(c.operand(n)));
                attention.backward([q, k, v], None, dy, grads, None);
            });
        };
        self.produce_all(c, |e, [dq, dk, dv, d_sides]| {
            let [q, k, v, dy] = [0, 1, 2, 3].map(|n| e.memory.real(c.operand(n)));
            attention.backward([q, k, v], Some(e.memory.real(*sides)), dy, [dq, dk, dv], Some(d_sides));
        });
    }
}

fn geometric<'a>(c: &NodeContext<'_>, offsets: &'a [usize]) -> GeometricAttention<'a> {
    let (heads, width) = (c.get(attribute::HEADS), c.last(0));
    GeometricAttention { offsets, heads, width, scale: c.node.attrs.scale(width / heads) }
}

fn top_keys<'a>(c: &NodeContext<'_>, [queries, keys]: [&'a [usize]; 2]) -> TopKeys<'a> {
    let (heads, count) = (c.get(attribute::HEADS), c.get(attribute::COUNT));
    TopKeys { queries, keys, heads, width: c.last(0), count, causal: c.get(attribute::MASK) == Mask::Causal }
}
