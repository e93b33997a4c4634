//! Principal components: the two directions in which vectors differ most.

/// Rounds of the power iteration; directions of which one is 5 % longer than the next one are told apart to seven digits.
const ROUNDS: usize = 300;

/// Vectors seen along their first two principal components.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Components {
    /// Where every vector lies.
    pub points: Vec<[f64; 2]>,
    /// The share of the whole variance along each of the two.
    pub shares: [f64; 2],
}

/// The first two principal components of vectors of the same width. The sign of a component is the one that makes its largest
/// number positive.
pub fn components(vectors: &[&[f32]]) -> Components {
    let width = vectors.first().map_or(0, |vector| vector.len());
    let mut rows = centred(vectors, width);
    let total: f64 = rows.iter().flatten().map(|x| x * x).sum();
    let mut found = Components { points: vec![[0.0; 2]; vectors.len()], shares: [0.0; 2] };
    for n in 0..2 {
        let direction = longest(&rows, width);
        let mut along = 0.0;
        for (row, point) in rows.iter_mut().zip(&mut found.points) {
            let place = dot(row, &direction);
            // What is left of the vectors has no part in this direction.
            row.iter_mut().zip(&direction).for_each(|(x, d)| *x -= place * d);
            point[n] = place;
            along += place * place;
        }
        found.shares[n] = if total > 0.0 { along / total } else { 0.0 };
    }
    found
}

fn centred(vectors: &[&[f32]], width: usize) -> Vec<Vec<f64>> {
    let mut mean = vec![0.0; width];
    for vector in vectors {
        mean.iter_mut().zip(*vector).for_each(|(sum, x)| *sum += f64::from(*x) / vectors.len() as f64);
    }
    vectors.iter().map(|vector| vector.iter().zip(&mean).map(|(x, mean)| f64::from(*x) - mean).collect()).collect()
}

/// The unit vector along which the rows are longest, by power iteration; zero where all rows are.
fn longest(rows: &[Vec<f64>], width: usize) -> Vec<f64> {
    // No direction of data is orthogonal to the longest row, unless all rows are zero.
    let start = rows.iter().fold(None, |best: Option<&Vec<f64>>, row| match best {
        Some(best) if dot(best, best) >= dot(row, row) => Some(best),
        _ => Some(row),
    });
    let mut direction = start.map_or_else(|| vec![0.0; width], |row| unit(row.clone()));
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; width];
        for row in rows {
            let place = dot(row, &direction);
            next.iter_mut().zip(row).for_each(|(sum, x)| *sum += place * x);
        }
        direction = unit(next);
    }
    let largest = direction.iter().fold(0.0_f64, |best, x| if x.abs() > best.abs() { *x } else { best });
    if largest < 0.0 {
        direction.iter_mut().for_each(|x| *x = -*x);
    }
    direction
}

fn unit(mut vector: Vec<f64>) -> Vec<f64> {
    let length = dot(&vector, &vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    vector
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ellipse_lies_along_its_axes() {
        // In a plane of four dimensions: 5 along (0, 0.6, 0.8, 0), 2 along (1, 0, 0, 0), all of it moved by (3, 3, 3, 3).
        let turn = |n: usize| std::f64::consts::TAU * n as f64 / 40.0;
        let at = |n: usize| (5.0 * turn(n).cos(), 2.0 * turn(n).sin());
        let vector = |n: usize| {
            let (long, short) = at(n);
            [short + 3.0, 0.6 * long + 3.0, 0.8 * long + 3.0, 3.0].map(|x| x as f32)
        };
        let vectors: Vec<[f32; 4]> = (0..40).map(vector).collect();
        let rows: Vec<&[f32]> = vectors.iter().map(<[f32; 4]>::as_slice).collect();
        let found = components(&rows);
        for (n, point) in found.points.iter().enumerate() {
            let (long, short) = at(n);
            assert!((point[0] - long).abs() < 1e-5 && (point[1] - short).abs() < 1e-5, "{n}: {point:?}");
        }
        assert!((found.shares[0] - 25.0 / 29.0).abs() < 1e-6 && (found.shares[1] - 4.0 / 29.0).abs() < 1e-6);
    }

    #[test]
    fn equal_vectors_have_no_components() {
        let found = components(&[&[1.0, 2.0], &[1.0, 2.0]]);
        assert_eq!(found, Components { points: vec![[0.0; 2]; 2], shares: [0.0; 2] });
        assert_eq!(components(&[]), Components::default());
    }
}
