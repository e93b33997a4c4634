//! Which numbers are among the largest.

use rtc_kernel::top::{Over, top};

use crate::support::{filled, numbers, offsets};

/// A number is chosen that is a candidate, and before which fewer stand than are chosen: larger ones, and equal ones in front.
fn reference(x: &[f64], among: Option<&[f64]>, count: usize) -> Vec<f64> {
    let counts = |at: usize| among.is_none_or(|among| among[at] != 0.0);
    let before =
        |at: usize| (0..x.len()).filter(|n| counts(*n) && (x[*n] > x[at] || x[*n] == x[at] && *n < at)).count();
    (0..x.len()).map(|at| f64::from(u8::from(counts(at) && before(at) < count.max(1)))).collect()
}

/// Numbers of which many are equal, and candidates among them.
fn ties(n: usize) -> (Vec<f64>, Vec<f64>) {
    let x = numbers("x", n).iter().map(|x| (3.0 * x).round()).collect();
    let among = numbers("among", n).iter().map(|x| f64::from(u8::from(*x > -0.3))).collect();
    (x, among)
}

#[test]
fn the_largest_numbers_of_rows_and_units() {
    let lengths = [3, 0, 40, 1, 17];
    let starts = offsets(&lengths);
    let (x, among) = ties(61);
    for among in [None, Some(&among[..])] {
        for count in [0, 1, 2, 13, 100] {
            let rows = starts.windows(2).flat_map(|row| {
                let own = row[0]..row[1];
                reference(&x[own.clone()], among.map(|among| &among[own]), count)
            });
            let over = Over::Positions(&starts);
            assert_eq!(filled(61, |y| top(&x, among, over, &[count], y)), rows.collect::<Vec<_>>(), "{count}");
        }
        let units =
            (0..12).flat_map(|n| reference(&x[5 * n..5 * n + 5], among.map(|among| &among[5 * n..5 * n + 5]), 2));
        let found = filled(60, |y| top(&x[..60], among.map(|among| &among[..60]), Over::Channels(5), &[2], y));
        assert_eq!(found, units.collect::<Vec<_>>());
    }
}

/// Which numbers are the largest is not known where one of them is none; one that is no candidate does not matter.
#[test]
fn one_that_is_no_number_leaves_nothing_known() {
    let (x, starts) = ([1.0, f64::NAN, 2.0, 3.0], [0, 3, 4]);
    for count in [1, 2, 9] {
        let y = filled(4, |y| top(&x, None, Over::Positions(&starts), &[count], y));
        assert!(y[..3].iter().all(|y| y.is_nan()) && y[3] == 1.0, "{count}: {y:?}");
    }
    let among = |among: &[f64]| filled(4, |y| top(&x, Some(among), Over::Positions(&starts), &[1], y));
    assert_eq!(among(&[1.0, 0.0, 1.0, 1.0]), [0.0, 0.0, 1.0, 1.0]);
    assert!(among(&[f64::NAN, 0.0, 1.0, 1.0])[..3].iter().all(|y| y.is_nan()));
}

#[test]
fn every_row_has_a_number_of_its_own() {
    let starts = offsets(&[3, 2]);
    let of =
        |counts: &[usize]| filled(5, |y| top(&[1.0, 3.0, 2.0, 5.0, 5.0], None, Over::Positions(&starts), counts, y));
    assert_eq!(of(&[2, 1]), [0.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(of(&[1, 2]), [0.0, 1.0, 0.0, 1.0, 1.0]);
}
