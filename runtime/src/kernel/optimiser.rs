//! The optimiser's kernels: the norm of a gradient, one step of AdamW, one of Ranger, and averaged weights.
//!
//! Source: AdamW: Loshchilov and Hutter 2019, arXiv:1711.05101; rectification: Liu et al. 2020, arXiv:1908.03265; lookahead: Zhang et al. 2019, arXiv:1907.08610.

use super::Real;
use super::parallel::{BLOCK, LANES, Parts, block, each_block, fold_lanes, sum_scalars, vectorised};
use crate::learner::UpdateRule;

/// The sum of squares in double precision, in a fixed order.
pub fn squared_norm<T: Real>(x: &[T]) -> f64 {
    sum_scalars(x.len().div_ceil(BLOCK), x.len(), |i| {
        let (blocks, rest) = x[block(i, BLOCK, x.len())].as_chunks::<LANES>();
        vectorised(
            #[inline(always)]
            || {
                let mut lanes = [0.0_f64; LANES];
                for x in blocks {
                    for l in 0..LANES {
                        let x = x[l].to_f64();
                        lanes[l] = x.mul_add(x, lanes[l]);
                    }
                }
                for (lane, x) in lanes.iter_mut().zip(rest) {
                    *lane = x.to_f64().mul_add(x.to_f64(), *lane);
                }
                fold_lanes(
                    lanes,
                    #[inline(always)]
                    |a, b| a + b,
                )
            },
        )
    })
}

/// The factor that brings a gradient of the given L2 norm down to `clip`; 1 where it is not longer. The norm is taken
/// 1e-6 larger, as PyTorch does, so that runs of both can be compared.
pub fn clip_factor(norm: f64, clip: Option<f64>) -> f64 {
    clip.map_or(1.0, |clip| (clip / (norm + 1e-6)).min(1.0))
}

/// Update number `step` (from 1) of AdamW on the weights `w` with the gradient `scale g` (`scale` from
/// [`clip_factor`]) and the moments `m` and `v`:
///
/// `w -= lr decay w; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g;`
/// `w -= lr / (1 - b1^step) m / (sqrt(v / (1 - b2^step)) + epsilon)`.
pub fn adamw<T: Real>(w: &mut [T], g: &[T], m: &mut [T], v: &mut [T], rule: &UpdateRule, scale: f64, step: u64) {
    debug_assert!(g.len() == w.len() && m.len() == w.len() && v.len() == w.len());
    let number = T::from_f64;
    let correction = |beta: f64| 1.0 - beta.powf(step as f64);
    let keep = number(1.0 - rule.learning_rate * rule.weight_decay);
    let (beta1, rest1) = (number(rule.beta1), number(1.0 - rule.beta1));
    let (beta2, rest2) = (number(rule.beta2), number(1.0 - rule.beta2));
    let rate = number(rule.learning_rate / correction(rule.beta1));
    let root = number(1.0 / correction(rule.beta2).sqrt());
    let (epsilon, scale) = (number(rule.epsilon), number(scale));
    each_number(
        [w, m, v],
        g,
        #[inline(always)]
        |w, m, v, g| {
            let g = scale * g;
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * g * g;
            *w = *w * keep - rate * *m / (v.sqrt() * root + epsilon);
        },
    );
}

/// Update number `step` (from 1) of Ranger: rectified Adam (Liu et al. 2020, Algorithm 2), then lookahead (Zhang et al.
/// 2019) every few updates, with the slow weights `slow`, which begin at the first weights.
///
/// `w -= lr decay w`, moments as in [`adamw`], `w -= lr r / (1 - b1^step) m / (sqrt(v) + epsilon)` once the variance of the
/// second moment is known well enough, `w -= lr / (1 - b1^step) m` before; `slow += follow (w - slow), w = slow`.
pub fn ranger<T: Real>([w, slow, m, v]: [&mut [T]; 4], g: &[T], rule: &UpdateRule, scale: f64, step: u64) {
    debug_assert!(g.len() == w.len() && m.len() == w.len() && v.len() == w.len() && slow.len() == w.len());
    let number = T::from_f64;
    let keep = number(1.0 - rule.learning_rate * rule.weight_decay);
    let (beta1, rest1) = (number(rule.beta1), number(1.0 - rule.beta1));
    let (beta2, rest2) = (number(rule.beta2), number(1.0 - rule.beta2));
    let rate = rule.learning_rate / (1.0 - rule.beta1.powf(step as f64));
    let rectified = rectification(rule, step).map(|r| number(rate * r));
    let (rate, epsilon, scale) = (number(rate), number(rule.epsilon), number(scale));
    each_number(
        [&mut *w, m, v],
        g,
        #[inline(always)]
        |w, m, v, g| {
            let g = scale * g;
            *m = beta1 * *m + rest1 * g;
            *v = beta2 * *v + rest2 * g * g;
            *w = *w * keep
                - match rectified {
                    Some(rate) => rate * *m / (v.sqrt() + epsilon),
                    None => rate * *m,
                };
        },
    );
    if step.is_multiple_of(rule.lookahead.every) {
        let follow = number(rule.lookahead.follow);
        for (w, slow) in w.iter_mut().zip(slow) {
            *slow += follow * (*w - *slow);
            *w = *slow;
        }
    }
}

/// The factor of rectified Adam with the correction of the second moment; none while too few gradients were seen.
pub(crate) fn rectification(rule: &UpdateRule, step: u64) -> Option<f64> {
    let (beta2, t) = (rule.beta2, step as f64);
    let rest = 1.0 - beta2.powf(t);
    let most = 2.0 / (1.0 - beta2) - 1.0;
    let seen = most - 2.0 * t * (1.0 - rest) / rest;
    let factor = || rest * (seen - 4.0) * (seen - 2.0) * most / ((most - 4.0) * (most - 2.0) * seen);
    (seen >= rule.rectify_from).then(|| factor().sqrt())
}

/// Calls `update(w, m, v, g)` for every number.
#[inline(always)]
fn each_number<T: Real>([w, m, v]: [&mut [T]; 3], g: &[T], update: impl Fn(&mut T, &mut T, &mut T, T) + Sync + Send) {
    let (w, m, v) = (Parts::new(w), Parts::new(m), Parts::new(v));
    each_block(g.len(), 3, |range| {
        // SAFETY: the blocks are disjoint.
        let (w, m, v) = unsafe { (w.part(range.clone()), m.part(range.clone()), v.part(range.clone())) };
        vectorised(
            #[inline(always)]
            || {
                let state = w.iter_mut().zip(m.iter_mut()).zip(v.iter_mut());
                for (((w, m), v), &g) in state.zip(&g[range]) {
                    update(w, m, v, g);
                }
            },
        );
    });
}

/// Moves an average towards the weights: `a = decay a + (1 - decay) w`.
pub fn average<T: Real>(a: &mut [T], w: &[T], decay: f64) {
    debug_assert!(a.len() == w.len());
    let (stays, comes) = (T::from_f64(decay), T::from_f64(1.0 - decay));
    let a = Parts::new(a);
    each_block(w.len(), 2, |range| {
        // SAFETY: the blocks are disjoint.
        let a = unsafe { a.part(range.clone()) };
        vectorised(
            #[inline(always)]
            || a.iter_mut().zip(&w[range]).for_each(|(a, &w)| *a = stays * *a + comes * w),
        );
    });
}
