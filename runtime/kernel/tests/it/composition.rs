//! Continuous composition and ordered memory: cases by hand, the definitions, gradients.

use rtc_kernel::continuous::{Side, neighbours, neighbours_grad};
use rtc_kernel::ordered_memory::{slot_get, slot_set};

use crate::support::{check_gradients, close, filled, numbers, offsets};

const LENGTHS: [usize; 4] = [5, 1, 9, 2];
const POSITIONS: usize = 17;
const D: usize = 3;

/// Existences in (0, 1), away from whole numbers and from one another.
fn existence() -> Vec<f64> {
    numbers("existence", POSITIONS).iter().map(|x| 1.0 / (1.0 + (-1.5 * x).exp())).collect()
}

/// The weights of a row's right neighbours by their definition.
fn weights(e: &[f64]) -> Vec<Vec<f64>> {
    let weight = |i: usize, j: usize| {
        if j <= i { 0.0 } else { e[j].min((1.0 - e[i + 1..j].iter().sum::<f64>()).max(0.0)) }
    };
    (0..e.len()).map(|i| (0..e.len()).map(|j| weight(i, j)).collect()).collect()
}

#[test]
fn neighbours_by_hand() {
    let e = [1.0, 0.5, 0.7, 1.0];
    close(&weights(&e)[0], &[0.0, 0.5, 0.5, 0.0], 1e-15);
    let unit = |at: usize| (0..4).map(|j| f64::from(u8::from(at == j))).collect::<Vec<_>>();
    for j in 0..4 {
        let right = filled(4, |y| neighbours(Side::Right, &e, &[0, 4], &unit(j), 1, y));
        let expected: Vec<f64> = weights(&e).iter().map(|row| row[j]).collect();
        close(&right, &expected, 1e-15);
        // The left is the mirror image.
        let mirrored: Vec<f64> = e.iter().rev().copied().collect();
        let left = filled(4, |y| neighbours(Side::Left, &mirrored, &[0, 4], &unit(3 - j), 1, y));
        let expected: Vec<f64> = expected.into_iter().rev().collect();
        close(&left, &expected, 1e-15);
    }
}

#[test]
fn neighbours_are_means() {
    let (e, x, starts) = (existence(), numbers("x", POSITIONS * D), offsets(&LENGTHS));
    let got = filled(x.len(), |y| neighbours(Side::Right, &e, &starts, &x, D, y));
    for row in starts.windows(2) {
        let weights = weights(&e[row[0]..row[1]]);
        for i in row[0]..row[1] {
            let mean = |c: usize| (row[0]..row[1]).map(|j| weights[i - row[0]][j - row[0]] * x[j * D + c]).sum();
            close(&got[i * D..(i + 1) * D], &(0..D).map(mean).collect::<Vec<f64>>(), 1e-14);
        }
    }
    for side in [Side::Left, Side::Right] {
        check_gradients(
            &[x.clone(), e.clone()],
            |v| filled(x.len(), |y| neighbours(side, &v[1], &starts, &v[0], D, y)),
            |v, dy| {
                let (mut dx, mut de) = (vec![4.0; x.len()], vec![4.0; e.len()]);
                neighbours_grad(side, &v[1], &starts, &v[0], D, dy, &mut dx, &mut de);
                vec![dx, de]
            },
        );
    }
}

#[test]
fn slots_are_read_and_written() {
    let x: Vec<f64> = (0..12).map(f64::from).collect();
    assert_eq!(filled(4, |y| slot_get(&x, 1, 3, 2, y)), [2.0, 3.0, 8.0, 9.0]);
    assert_eq!(filled(4, |y| slot_get(&x, 3, 3, 2, y)), [0.0; 4], "there is no such slot");
    let mut own = x.clone();
    slot_set(&mut own, &[20.0, 21.0, 22.0, 23.0], 2, 3, 2);
    assert_eq!(own, [0.0, 1.0, 2.0, 3.0, 20.0, 21.0, 6.0, 7.0, 8.0, 9.0, 22.0, 23.0]);
    slot_set(&mut own, &[0.0; 4], 3, 3, 2);
    assert_eq!(own[4], 20.0, "there is no such slot");
}
