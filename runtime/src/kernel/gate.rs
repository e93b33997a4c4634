//! Gate combinations: a learned mixture of an update and the old state; on the calling thread.
//!
//! Source: Ray Chowdhury and Caragea 2024, Eq. 9 to 11, arXiv:2402.00976; cell: Shen et al. 2019 (ordered memory), arXiv:1910.13466.

use super::Real;
use super::parallel::vectorised;

/// The inputs of one step of a gate: gate (or its logit), update, old state, all of one size.
#[derive(Clone, Copy, Debug)]
pub struct Gated<'a, T> {
    /// The gate `g`, or its logit `z`.
    pub gate: &'a [T],
    /// The update `u`.
    pub update: &'a [T],
    /// The old state `h`.
    pub state: &'a [T],
}

/// Where the three gradients of a gate go; overwritten.
#[derive(Debug)]
pub struct GatedGrad<'a, T> {
    /// Gradient of the gate or its logit.
    pub gate: &'a mut [T],
    /// Gradient of the update.
    pub update: &'a mut [T],
    /// Gradient of the old state.
    pub state: &'a mut [T],
}

/// `y = g u + (1 - g) h`.
pub fn lerp<T: Real>(g: &[T], u: &[T], h: &[T], y: &mut [T]) {
    forward(
        Gated { gate: g, update: u, state: h },
        y,
        #[inline(always)]
        |g| g,
    );
}

/// Gradients of [`lerp`]: `dg = dy (u - h)`, `du = dy g`, `dh = dy (1 - g)`.
pub fn lerp_grad<T: Real>(inputs: Gated<T>, dy: &[T], grads: GatedGrad<T>) {
    backward(
        inputs,
        dy,
        grads,
        #[inline(always)]
        |g| (g, T::ONE),
    );
}

/// `y = g u + (1 - g) h` with `g = sigmoid(z)`.
pub fn gate<T: Real>(z: &[T], u: &[T], h: &[T], y: &mut [T]) {
    forward(
        Gated { gate: z, update: u, state: h },
        y,
        #[inline(always)]
        |z| z.sigmoid(),
    );
}

/// Gradients of [`gate`], with `dz = dy (u - h) g (1 - g)`.
pub fn gate_grad<T: Real>(inputs: Gated<T>, dy: &[T], grads: GatedGrad<T>) {
    backward(
        inputs,
        dy,
        grads,
        #[inline(always)]
        |z| {
            let g = z.sigmoid();
            (g, g * (T::ONE - g))
        },
    );
}

#[inline(always)]
fn forward<T: Real>(inputs: Gated<T>, y: &mut [T], open: impl Fn(T) -> T) {
    let Gated { gate, update, state } = inputs;
    let len = y.len();
    debug_assert!(gate.len() == len && update.len() == len && state.len() == len);
    vectorised(
        #[inline(always)]
        || {
            for (((y, &z), &u), &h) in y.iter_mut().zip(gate).zip(update).zip(state) {
                let g = open(z);
                *y = g * u + (T::ONE - g) * h;
            }
        },
    );
}

#[inline(always)]
fn backward<T: Real>(inputs: Gated<T>, dy: &[T], grads: GatedGrad<T>, open: impl Fn(T) -> (T, T)) {
    let Gated { gate, update, state } = inputs;
    let len = dy.len();
    debug_assert!(gate.len() == len && update.len() == len && state.len() == len);
    debug_assert!(grads.gate.len() == len && grads.update.len() == len && grads.state.len() == len);
    vectorised(
        #[inline(always)]
        || {
            let outputs = grads.gate.iter_mut().zip(grads.update.iter_mut()).zip(grads.state.iter_mut());
            for ((((z, u), h), dy), ((dz, du), dh)) in gate.iter().zip(update).zip(state).zip(dy).zip(outputs) {
                let (g, slope) = open(*z);
                *dz = *dy * (*u - *h) * slope;
                *du = *dy * g;
                *dh = *dy * (T::ONE - g);
            }
        },
    );
}
