//! Ops that work along whole rows with parameters of their own: scans, and attention with a number per distance.

use rtc_compiler::ir::attribute::{self, Sight};
use rtc_compiler::ir::ops::Op;

use super::Executor;
use super::incremental::Kept;
use super::node_context::NodeContext;
use super::storage::{Buffer, Element};
use crate::kernel::offset_attention::{Cache, OffsetAttention, partial_len};
use crate::kernel::scan::ema::{Ema, EmaGrad};
use crate::kernel::scan::s4d::{S4d, S4dGrad};
use crate::kernel::scan::state::State;
use crate::kernel::scan::{Scan, scan, scan_grad};

fn how(c: &NodeContext<'_>) -> Scan {
    Scan { side: c.get(attribute::SIDE), lag: c.get(attribute::LAG) }
}

impl<T: Element> Executor<T> {
    fn s4d_parameters(&self, c: &NodeContext<'_>) -> S4d<'_, T> {
        let rule = c.get(attribute::DISCRETISATION);
        let [log_dt, log_decay, frequency, b, c] = [1, 2, 3, 4, 5].map(|n| self.memory.real(c.operand(n)));
        S4d { rule, log_dt, log_decay, frequency, b, c }
    }

    fn ema_parameters(&self, c: &NodeContext<'_>) -> Ema<'_, T> {
        let [delta, alpha, beta, gamma] = [1, 2, 3, 4].map(|n| self.memory.real(c.operand(n)));
        Ema { channels: c.last(0), delta, alpha, beta, gamma }
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
            Some(Kept::Scan(state)) => state,
            _ if c.node.op == Op::S4d => State::new(&self.s4d_parameters(c), how(c)),
            _ => State::new(&self.ema_parameters(c), how(c)),
        };
        self.produce(c, |e, c, y| state.extend(e.memory.real(c.operand(0)), y));
        self.keep(c.step.node, Kept::Scan(state));
    }

    /// `offset_attention` of new positions, which see those before them.
    pub(super) fn extend_offset_attention(&mut self, c: &NodeContext<'_>) {
        let mut cache = match self.kept(c.step.node) {
            Some(Kept::Offsets(cache)) => cache,
            _ => Cache::new(c.last(0), c.last(2)),
        };
        self.produce(c, |e, c, y| cache.extend([0, 1, 2, 3].map(|n| e.memory.real(c.operand(n))), y));
        self.keep(c.step.node, Kept::Offsets(cache));
    }

    /// `s4d_grad` and `ema_grad`: x, the parameters, and the upstream gradient come in, gradients of all but the last go out.
    pub(super) fn scan_grad(&mut self, c: &NodeContext<'_>) {
        let axis = c.axis(0);
        let dy = self.memory.real(c.operand(c.node.operands.len() - 1));
        let x = self.memory.real(c.operand(0));
        if c.node.op == Op::S4dGrad {
            let mut grads: [Buffer<T>; 6] = std::array::from_fn(|n| self.fresh(c, n));
            let [dx, log_dt, log_decay, frequency, b, read] = grads.each_mut().map(|grad| grad.as_mut_slice());
            let family = S4dGrad::new(self.s4d_parameters(c), [log_dt, log_decay, frequency, b, read]);
            scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            self.hand_out(c, grads);
        } else {
            let mut grads: [Buffer<T>; 5] = std::array::from_fn(|n| self.fresh(c, n));
            let [dx, delta, alpha, beta, gamma] = grads.each_mut().map(|grad| grad.as_mut_slice());
            let family = EmaGrad::new(self.ema_parameters(c), [delta, alpha, beta, gamma]);
            scan_grad(&family, how(c), x, dy, &axis.offsets, dx);
            self.hand_out(c, grads);
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
        let [q, k, v, bias, dy] = [0, 1, 2, 3, 4].map(|n| self.memory.real(c.operand(n)));
        let mut grads: [Buffer<T>; 4] = std::array::from_fn(|n| self.fresh(c, n));
        let mut partial = self.arena.take(partial_len(&axis.offsets));
        let places = grads.each_mut().map(|grad| grad.as_mut_slice());
        described(c, &axis.offsets).backward([q, k, v, bias, dy], places, &mut partial);
        self.hand_out(c, grads);
    }

    fn hand_out<const N: usize>(&mut self, c: &NodeContext<'_>, grads: [Buffer<T>; N]) {
        for (n, grad) in grads.into_iter().enumerate() {
            self.put_or_add(c, n, grad);
        }
    }
}

fn described<'a>(c: &NodeContext<'_>, offsets: &'a [usize]) -> OffsetAttention<'a> {
    OffsetAttention { offsets, width: c.last(0), values: c.last(2), causal: c.get(attribute::SIGHT) == Sight::Causal }
}
