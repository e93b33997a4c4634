//! The initial values of parameters.

use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::ir::types::{Attr, Dim};

use rtc_base::rng::Key;
use rtc_kernel::Real;
use rtc_kernel::draw::NumberDistribution;

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
                "normal" if args.len() > 1 => {
                    let mut numbers = vec![T::ZERO; count];
                    NumberDistribution::Normal { deviation: arg, cut: other }.form().fill(key, 0, &mut numbers);
                    numbers
                }
                "normal" => (0..count as u64).map(|n| T::from_f64(arg * key.normal(n))).collect(),
                "orthogonal" => {
                    let size = (outputs * inputs).max(1);
                    let scale = arg * (outputs.max(inputs) as f64).sqrt();
                    let of = |n: usize| orthogonal(key, (n * size) as u64, outputs, inputs);
                    (0..count / size).flat_map(of).map(|x| T::from_f64(scale * x)).collect()
                }
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

/// A matrix whose rows are orthogonal and of length 1, or its columns where those are fewer, drawn evenly from all of them: the factor Q of
/// normal numbers, with a positive diagonal in R. The draws begin at number `start`.
/// Source: Mezzadri 2007, arXiv:math-ph/0609050.
fn orthogonal(key: Key, start: u64, rows: usize, columns: usize) -> Vec<f64> {
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut vectors: Vec<Vec<f64>> =
        (0..count).map(|n| (0..length).map(|m| key.normal(start + (n * length + m) as u64)).collect()).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    for n in 0..count {
        let (done, rest) = vectors.split_at_mut(n);
        let Some(vector) = rest.first_mut() else { break };
        // Gram and Schmidt, twice: once leaves the rounding of what was taken away.
        for other in done.iter().chain(done.iter()) {
            let share = product(other, vector);
            vector.iter_mut().zip(other).for_each(|(x, y)| *x -= share * y);
        }
        let size = product(vector, vector).sqrt();
        vector.iter_mut().for_each(|x| *x /= size);
    }
    let along_rows = rows <= columns;
    let at = |row: usize, column: usize| if along_rows { vectors[row][column] } else { vectors[column][row] };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(row, column)| at(row, column))
        .collect()
}

#[cfg(test)]
mod tests {
    use rtc_compiler::ir::types::Type;

    use super::*;

    fn started(init: Attr, dims: &[usize]) -> Vec<f64> {
        let ty = Type::real(dims.iter().map(|n| Dim::Fixed(*n)).collect::<Vec<_>>());
        let parameter = Parameter { name: "w".to_owned(), ty, init, group: None, role: None };
        initial(&parameter, Key::new(3))
    }

    #[test]
    fn cut_numbers_stay_within_the_cut_and_have_the_deviation_of_cut_ones() {
        let numbers = started(Attr::call("normal", [0.5.into(), 2.0.into()]), &[200, 500]);
        assert!(numbers.iter().all(|x| x.abs() <= 1.0));
        let deviation = (numbers.iter().map(|x| x * x).sum::<f64>() / numbers.len() as f64).sqrt();
        assert!((deviation - 0.5 * 0.879_625_661).abs() < 2e-3, "{deviation}");
    }

    #[test]
    fn orthogonal_maps_have_the_deviation_and_orthogonal_rows_or_columns() {
        for (rows, columns) in [(5, 9), (9, 5), (6, 6), (1, 4)] {
            let numbers = started(Attr::call("orthogonal", [0.1.into()]), &[2, rows, columns]);
            let steps: Vec<&[f64]> = numbers.chunks(rows * columns).collect();
            assert_ne!(steps[0], steps[1], "each step has a map of its own");
            for map in steps {
                let at = |row: usize, column: usize| map[row * columns + column];
                let (count, length) = (rows.min(columns), rows.max(columns));
                let vector = |n: usize, m: usize| if rows <= columns { at(n, m) } else { at(m, n) };
                for a in 0..count {
                    for b in 0..count {
                        let product = (0..length).map(|m| vector(a, m) * vector(b, m)).sum::<f64>();
                        let expected = if a == b { 0.01 * length as f64 } else { 0.0 };
                        assert!((product - expected).abs() < 1e-14, "{rows}x{columns}: {a}, {b}: {product}");
                    }
                }
            }
        }
    }
}
