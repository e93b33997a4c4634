//! Ops that work along whole rows: scans, attention with a number per distance, and geometric attention.

use rtc_compiler::ir::attribute::{self, Mask, Sight};
use rtc_compiler::ir::ops::Op;

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::incremental::NodeCache;
use crate::storage::Element;
use rtc_kernel::geometric_attention::GeometricAttention;
use rtc_kernel::offset_attention::{OffsetAttention, OffsetCache, partial_len};
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
        let [log_dt, log_decay, frequency, b, c] = [1, 2, 3, 4, 5].map(|n| self.memory.real(c.operand(n)));
        S4d { rule, log_dt, log_decay, frequency, b, c }
    }

    fn ema_parameters(&self, c: &NodeContext<'_>) -> EmaParameters<'_, T> {
        let [delta, alpha, beta, gamma] = [1, 2, 3, 4].map(|n| self.memory.real(c.operand(n)));
        EmaParameters { channels: c.last(0), delta, alpha, beta, gamma }
    }

    /// `s4d` and `ema`.
    pub(super) fn scan(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let x = e.memory.real(c.operand(0));
            match c.node.op {
                Op::S4d => scan(&e.s4d_parameters(c), how(c), x, &axis.offsets, y),
                _ => scan(&e.ema_parameters(c), how(c), x, &axis.offsets, y),
            }
        });
    }

    /// `s4d` and `ema` over new positions, from where those before them left the scan.
    pub(super) fn extend_scan(&mut self, c: &NodeContext<'_>) {
        let mut state = match self.kept(c.step.node) {
            Some(NodeCache::Scan(state)) => state,
            _ if c.node.op == Op::S4d => ScanState::new(&self.s4d_parameters(c), how(c)),
            _ => ScanState::new(&self.ema_parameters(c), how(c)),
        };
        self.produce(c, |e, c, y| state.extend(e.memory.real(c.operand(0)), y));
        self.keep(c.step.node, NodeCache::Scan(state));
    }

    /// `offset_attention` of new positions, which see those before them.
    pub(super) fn extend_offset_attention(&mut self, c: &NodeContext<'_>) {
        let mut cache = match self.kept(c.step.node) {
            Some(NodeCache::Offsets(cache)) => cache,
            _ => OffsetCache::new(c.last(0), c.last(2)),
        };
        self.produce(c, |e, c, y| cache.extend([0, 1, 2, 3].map(|n| e.memory.real(c.operand(n))), y));
        self.keep(c.step.node, NodeCache::Offsets(cache));
    }

    /// The input of a scan, and the gradient of its result.
    fn scanned(&self, c: &NodeContext<'_>) -> [&[T]; 2] {
        [0, c.node.operands.len() - 1].map(|n| self.memory.real(c.operand(n)))
    }

    /// `s4d_grad` and `ema_grad`: x, the parameters, and the upstream gradient come in, gradients of all but the last go out.
    pub(super) fn scan_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        if c.node.op == Op::S4dGrad {
            self.produce_all(c, |e, [dx, log_dt, log_decay, frequency, b, read]| {
                let family = S4dGrad::new(e.s4d_parameters(c), [log_dt, log_decay, frequency, b, read]);
                let [x, dy] = e.scanned(c);
                scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            });
        } else {
            self.produce_all(c, |e, [dx, delta, alpha, beta, gamma]| {
                let family = EmaGrad::new(e.ema_parameters(c), [delta, alpha, beta, gamma]);
                let [x, dy] = e.scanned(c);
                scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            });
        }
    }

    pub(super) fn offset_attention(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce(c, |e, c, y| {
            let [q, k, v, bias] = [0, 1, 2, 3].map(|n| e.memory.real(c.operand(n)));
            described(c, &axis.offsets).forward([q, k, v, bias], y);
        });
    }

    pub(super) fn offset_attention_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        self.produce_all(c, |e, grads| {
            let mut partial = e.arena.take(partial_len(&axis.offsets));
            let inputs = [0, 1, 2, 3, 4].map(|n| e.memory.real(c.operand(n)));
            described(c, &axis.offsets).backward(inputs, grads, &mut partial);
        });
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

fn described<'a>(c: &NodeContext<'_>, offsets: &'a [usize]) -> OffsetAttention<'a> {
    OffsetAttention { offsets, width: c.last(0), values: c.last(2), causal: c.get(attribute::SIGHT) == Sight::Causal }
}
