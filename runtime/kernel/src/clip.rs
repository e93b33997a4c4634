//! The norm of a gradient, and how it is clipped.
//!
//! Source: Pascanu et al. 2013, arXiv:1211.5063.

use super::Real;
use super::parallel::{BLOCK, LANES, block, sum_lanes, sum_scalars, vectorised};

/// The sum of squares in double precision, in a fixed order.
pub fn squared_norm<T: Real>(x: &[T]) -> f64 {
    sum_scalars(x.len().div_ceil(BLOCK), x.len(), |i| {
        let (blocks, rest) = x[block(i, BLOCK, x.len())].as_chunks::<LANES>();
        vectorised!({
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
            sum_lanes(lanes)
        })
    })
}

/// The factor that brings a gradient of the given L2 norm down to `clip`; 1 where it is not longer. The norm is taken
/// 1e-6 larger, as PyTorch does, so that runs of both can be compared.
pub fn clip_factor(norm: f64, clip: Option<f64>) -> f64 {
    clip.map_or(1.0, |clip| (clip / (norm + 1e-6)).min(1.0))
}
