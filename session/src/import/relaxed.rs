//! Looped layers that share their weights but for low-rank maps of every step: the shared weights are the means of those of the layers, and
//! the maps of a step the best of their rank for what its layer differs from these.
//! Source: Bae et al. 2025 (relaxed recursive Transformers), Section 2.3, arXiv:2410.20672.

use std::collections::BTreeMap;

use nalgebra::DMatrix;
use rayon::prelude::*;
use rtc_exec::learner::FlatArrays;

/// How looped layers share their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelaxedLayers {
    /// Steps of the loop, each of which stands for as many layers.
    pub steps: usize,
    /// Rank of the maps of a step.
    pub rank: usize,
}

/// The two maps of one step, the first one with `rank` rows, the second one with as many columns.
struct LowRankMaps {
    a: Vec<f32>,
    b: Vec<f32>,
}

/// The ends of the names of the weights of a map: that of all steps, and the two of each.
const SHARED: &str = ".shared.weight";
const FIRST: &str = ".own.a.weight";
const SECOND: &str = ".own.b.weight";

/// The parameters `wanted`, by name and shape, from those of the model whose layers have weights of their own. `layers` are the places of these,
/// `shared` those of the layers that stand for them.
///
/// # Errors
/// A sentence about a map of a smaller rank.
pub(super) fn weights(
    base: &FlatArrays,
    wanted: &[(String, Vec<usize>)],
    (layers, shared): (&[String], &[String]),
    rank: usize,
) -> Result<FlatArrays, String> {
    let place = |name: &str| shared.iter().position(|place| name.starts_with(place.as_str()));
    // The weights of one map, or of a norm, of all layers for which a shared one stands.
    let of_layers = |own: usize, end: &str| -> Vec<&[f32]> {
        let places = layers.iter().skip(own).step_by(shared.len());
        let of = |place: &String| {
            let mut inside = base.items.iter().filter(|(name, _)| name.starts_with(place.as_str()));
            inside.find(|(name, _)| name.ends_with(end)).map(|(_, (_, numbers))| numbers.as_slice())
        };
        places.filter_map(of).collect()
    };
    let map_of = |own: usize, name: &str, end: &str| {
        let map = name[shared[own].len()..].trim_end_matches(end);
        of_layers(own, &format!(".{map}.weight"))
    };
    let maps: Vec<(&str, usize, &[usize])> = wanted
        .iter()
        .filter(|(name, _)| name.ends_with(SHARED))
        .filter_map(|(name, shape)| Some((name.as_str(), place(name)?, shape.as_slice())))
        .collect();
    if let Some((name, _, shape)) = maps.iter().find(|(_, _, shape)| shape.iter().any(|size| *size < rank)) {
        return Err(format!("`{name}` {shape:?} has no map of the rank {rank}"));
    }
    let found: BTreeMap<&str, Vec<LowRankMaps>> = maps
        .into_par_iter()
        .map(|(name, own, shape)| {
            let all = map_of(own, name, SHARED);
            let mean = mean(&all);
            (name, all.into_iter().map(|layer| low_rank(layer, &mean, (shape[0], shape[1]), rank)).collect())
        })
        .collect();
    let numbers = |name: &str| -> Vec<f32> {
        let Some(own) = place(name) else { return base.items[name].1.clone() };
        let steps = |end: &str| &found[format!("{}{SHARED}", name.trim_end_matches(end)).as_str()];
        if name.ends_with(FIRST) {
            steps(FIRST).iter().flat_map(|maps| maps.a.iter().copied()).collect()
        } else if name.ends_with(SECOND) {
            steps(SECOND).iter().flat_map(|maps| maps.b.iter().copied()).collect()
        } else {
            let all = if name.ends_with(SHARED) {
                map_of(own, name, SHARED)
            } else {
                of_layers(own, &name[shared[own].len() - 1..])
            };
            mean(&all).into_iter().map(|number| number as f32).collect()
        }
    };
    let items = wanted.iter().map(|(name, shape)| (name.clone(), (shape.clone(), numbers(name)))).collect();
    Ok(FlatArrays { items })
}

fn mean(all: &[&[f32]]) -> Vec<f64> {
    let count = all.len().max(1) as f64;
    let at = |n: usize| all.iter().map(|numbers| f64::from(numbers[n])).sum::<f64>() / count;
    (0..all.first().map_or(0, |numbers| numbers.len())).map(at).collect()
}

/// The maps `B A` of a rank that are nearest to what a map of some rows and columns differs from another one by: `B = U S`, `A = V^T`.
fn low_rank(layer: &[f32], shared: &[f64], (rows, columns): (usize, usize), rank: usize) -> LowRankMaps {
    let difference = layer.iter().zip(shared).map(|(own, shared)| f64::from(*own) - shared);
    let parts = DMatrix::from_row_iterator(rows, columns, difference).svd(true, true);
    let (u, v) = parts.u.zip(parts.v_t).expect("both were asked for");
    let a = (0..rank).flat_map(|n| v.row(n).iter().copied().collect::<Vec<_>>());
    let b = (0..rows).flat_map(|row| (0..rank).map(move |n| (row, n)));
    let b = b.map(|(row, n)| u[(row, n)] * parts.singular_values[n]);
    LowRankMaps { a: a.map(|number| number as f32).collect(), b: b.map(|number| number as f32).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_the_full_rank_are_the_difference_and_smaller_ones_its_nearest() {
        let layer: Vec<f32> = (0..12).map(|n| ((n * n * 7 + 3) % 11) as f32).collect();
        let shared = vec![0.5; 12];
        let far = |rank: usize| {
            let LowRankMaps { a, b } = low_rank(&layer, &shared, (3, 4), rank);
            assert_eq!((a.len(), b.len()), (rank * 4, 3 * rank));
            let at =
                |row: usize, column: usize| -> f32 { (0..rank).map(|n| b[row * rank + n] * a[n * 4 + column]).sum() };
            let of = |n: usize| (layer[n] - 0.5 - at(n / 4, n % 4)).powi(2);
            (0..12).map(of).sum::<f32>()
        };
        assert!(far(3) < 1e-9 && far(2) > far(3) && far(1) > far(2), "{} {} {}", far(3), far(2), far(1));
    }
}
