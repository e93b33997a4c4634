//! The initial values of parameters.

use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::ir::types::{Attr, Dim};

use crate::kernel::Real;
use crate::rng::Key;

/// The start of a parameter: every number is drawn by its own index from a stream named after the parameter.
pub fn initial<T: Real>(parameter: &Parameter, seed: Key) -> Vec<T> {
    let dims: Vec<usize> = parameter.ty.dims().iter().filter_map(Dim::fixed).collect();
    let count = dims.iter().product::<usize>();
    let key = seed.stream("init").stream(&parameter.name);
    let uniform =
        |limit: f64| (0..count as u64).map(move |n| T::from_f64(limit * (2.0 * key.uniform(n) - 1.0))).collect();
    match &parameter.init {
        Attr::Word(word) if word == "ones" => vec![T::ONE; count],
        Attr::Word(word) if word == "identity" => {
            // Those of the steps of a loop stand one behind the other.
            let columns = dims.last().copied().unwrap_or(1).max(1);
            let rows = dims.len().checked_sub(2).and_then(|n| dims.get(n)).copied().unwrap_or(1).max(1);
            (0..count).map(|n| T::from_f64(f64::from(n / columns % rows == n % columns))).collect()
        }
        // Complex ones, as pairs.
        Attr::Word(word) if word == "pairs_of_one" => (0..count).map(|n| T::from_f64((1 - n % 2) as f64)).collect(),
        Attr::Call(name, args) => {
            let arg = args.first().and_then(Attr::float).unwrap_or(1.0);
            let other = args.get(1).and_then(Attr::float).unwrap_or(arg);
            let along = dims.last().copied().unwrap_or(1).max(1);
            // The maps of the steps of a loop stand one behind the other.
            let map = &dims[dims.len().saturating_sub(2)..];
            let (outputs, inputs) = (map.first().copied().unwrap_or(1), map.get(1).copied().unwrap_or(1));
            match name.as_str() {
                "unit" => (0..count as u64).map(|n| T::from_f64(key.uniform(n))).collect(),
                "normal" => (0..count as u64).map(|n| T::from_f64(arg * key.normal(n))).collect(),
                // Glorot and Bengio 2010, Eq. 16, times a gain.
                "xavier" => uniform(arg * (6.0 / (inputs + outputs) as f64).sqrt()),
                "fan_in" => uniform(1.0 / arg.max(1.0).sqrt()),
                "constant" => vec![T::from_f64(arg); count],
                "uniform" => (0..count as u64).map(|n| T::from_f64(arg + (other - arg) * key.uniform(n))).collect(),
                // +1, -1, +1, ... along the last axis, and noise around it.
                "alternating" => {
                    let sign = |n: u64| if (n as usize % along).is_multiple_of(2) { 1.0 } else { -1.0 };
                    (0..count as u64).map(|n| T::from_f64(sign(n) + arg * key.normal(n))).collect()
                }
                // The frequencies of S4D-Inv for a state of so many real numbers (Gu et al. 2022, Eq. 9).
                "s4d_inverse" => {
                    let of = |mode: usize| arg / std::f64::consts::PI * (arg / (2 * mode + 1) as f64 - 1.0);
                    (0..count).map(|n| T::from_f64(of(n % along))).collect()
                }
                _ => vec![T::ZERO; count],
            }
        }
        _ => vec![T::ZERO; count],
    }
}
