//! Pooling over ragged rows, and positions.

use rtc_kernel::pool::{
    At, Side, broadcast_rows, max_pool, max_pool_grad, mean, running_sum, running_sum_behind, share_rows, shift, sum,
    take_position, take_position_grad,
};
use rtc_kernel::position::{Direction, Layout, PositionKind, PositionTables, Rotation, rotate};

use crate::support::{check_gradients, close, close32, filled, numbers, offsets, singles};

const LENGTHS: [usize; 4] = [3, 0, 1, 7];
const D: usize = 5;
const POSITIONS: usize = 11;

/// Checks a pooled kernel's gradient, that it overwrites, and returns its result on `x`.
fn check(x: &[f64], forward: impl Fn(&[f64]) -> Vec<f64>, backward: impl Fn(&[f64], &[f64], &mut [f64])) -> Vec<f64> {
    check_gradients(
        &[x.to_vec()],
        |v| forward(&v[0]),
        |v, dy| {
            let mut dx = vec![4.0; x.len()];
            backward(&v[0], dy, &mut dx);
            vec![dx]
        },
    );
    forward(x)
}

#[test]
fn means() {
    let (starts, x) = (offsets(&LENGTHS), numbers("x", POSITIONS * D));
    let pooled = check(&x, |x| filled(4 * D, |y| mean(x, &starts, D, y)), |_, dy, dx| share_rows(dy, &starts, D, dx));
    close(&pooled[..1], &[(x[0] + x[D] + x[2 * D]) / 3.0], 1e-14);
    assert_eq!(pooled[D..2 * D], [0.0; D], "an empty row pools to 0");
}

#[test]
fn running_sums() {
    let (starts, x) = (offsets(&LENGTHS), numbers("x", POSITIONS * D));
    let from = |side: Side, other: Side| {
        check(
            &x,
            |x| filled(x.len(), |y| running_sum(x, &starts, D, side, y)),
            |_, dy, dx| running_sum(dy, &starts, D, other, dx),
        )
    };
    let (left, right) = (from(Side::Left, Side::Right), from(Side::Right, Side::Left));
    let whole = filled(4 * D, |y| sum(&x, &starts, D, y));
    close(&left[D..=D], &[x[0] + x[D]], 1e-14);
    close(&left[2 * D..3 * D], &whole[..D], 1e-14);
    close(&right[..D], &whole[..D], 1e-14);
    assert_eq!(left[3 * D..4 * D], x[3 * D..4 * D], "a sum starts anew in each row");
    assert_eq!(right[2 * D..3 * D], x[2 * D..3 * D], "a sum starts anew in each row");
    // A row in two parts has the bits of the whole.
    let (mut sums, mut parts) = (vec![0.0; D], vec![4.0; 7 * D]);
    let (first, rest) = parts.split_at_mut(3 * D);
    running_sum_behind(&x[4 * D..7 * D], &mut sums, first);
    running_sum_behind(&x[7 * D..], &mut sums, rest);
    assert_eq!(parts, left[4 * D..]);
}

#[test]
fn shifts_to_both_sides() {
    let starts = offsets(&LENGTHS);
    let x = numbers("x", POSITIONS * D);
    for lag in [0, 1, 2, 6, 7, 100, usize::MAX] {
        for (side, other) in [(Side::Left, Side::Right), (Side::Right, Side::Left)] {
            let moved = check(
                &x,
                |x| filled(x.len(), |y| shift(x, &starts, D, side, lag, y)),
                |_, dy, dx| shift(dy, &starts, D, other, lag, dx),
            );
            for row in starts.windows(2) {
                for t in row[0]..row[1] {
                    let from = match side {
                        Side::Left => t.checked_sub(lag).filter(|from| *from >= row[0]),
                        Side::Right => t.checked_add(lag).filter(|from| *from < row[1]),
                    };
                    let expected = from.map_or(vec![0.0; D], |from| x[from * D..(from + 1) * D].to_vec());
                    assert_eq!(moved[t * D..(t + 1) * D], expected, "{side} by {lag}, position {t}");
                }
            }
        }
    }
}

#[test]
fn sums() {
    let (starts, x) = (offsets(&LENGTHS), numbers("x", POSITIONS * D));
    let pooled =
        check(&x, |x| filled(4 * D, |y| sum(x, &starts, D, y)), |_, dy, dx| broadcast_rows(dy, &starts, D, dx));
    close(&pooled[..1], &[x[0] + x[D] + x[2 * D]], 1e-14);
    assert_eq!(pooled[D..2 * D], [0.0; D], "an empty row has the sum 0");
    let rows = numbers("rows", 4 * D);
    let everywhere = check(
        &rows,
        |rows| filled(POSITIONS * D, |y| broadcast_rows(rows, &starts, D, y)),
        |_, dy, dx| sum(dy, &starts, D, dx),
    );
    assert_eq!(everywhere[2 * D..3 * D], rows[..D]);
    assert_eq!(everywhere[3 * D..4 * D], rows[2 * D..3 * D], "the empty row stands nowhere");
}

#[test]
fn maxima() {
    let (starts, x) = (offsets(&LENGTHS), numbers("x", POSITIONS * D));
    let run = |x: &[f64]| {
        let (mut y, mut place) = (vec![0.0; 4 * D], vec![0; 4 * D]);
        max_pool(x, &starts, D, &mut y, &mut place);
        (y, place)
    };
    let pooled = check(&x, |x| run(x).0, |x, dy, dx| max_pool_grad(dy, &run(x).1, &starts, D, dx));
    assert_eq!(pooled[0], x[0].max(x[D]).max(x[2 * D]));
    assert_eq!(run(&x).1[D..2 * D], [u32::MAX; D]);
    let (mut y, mut place) = ([0.0_f32], [0]);
    max_pool(&[1.0, f32::NAN, 3.0, f32::NAN], &[0, 4], 1, &mut y, &mut place);
    assert!(y[0].is_nan() && place[0] == 1, "the first NaN wins");
}

#[test]
fn ends() {
    let (starts, x) = (offsets(&LENGTHS), numbers("x", POSITIONS * D));
    for (end, taken) in [(At::First, 4), (At::Last, 10)] {
        let y = check(
            &x,
            |x| filled(4 * D, |y| take_position(x, &starts, D, end, y)),
            |_, dy, dx| take_position_grad(dy, &starts, D, end, dx),
        );
        assert_eq!(y[3 * D..], x[taken * D..(taken + 1) * D]);
        assert_eq!(y[D..2 * D], [0.0; D]);
    }
}

/// The definition, pair by pair.
fn xpos_reference(x: &[f64], positions: &[usize], heads: usize, e: usize, rotation: Rotation, base: f64) -> Vec<f64> {
    let (mut y, r) = (x.to_vec(), rotation.part);
    for (t, &p) in positions.iter().enumerate() {
        for h in 0..heads {
            for i in 0..r / 2 {
                let start = (t * heads + h) * e;
                let [first, second] = match rotation.layout {
                    Layout::Pairs => [2 * i, 2 * i + 1],
                    Layout::Half => [i, i + r / 2],
                }
                .map(|c| start + c);
                let angle = p as f64 * base.powf(-2.0 * i as f64 / r as f64);
                let zeta = ((2.0 * i as f64 / r as f64) + 0.4) / 1.4;
                let sign = match rotation.kind {
                    PositionKind::Rope => 0.0,
                    PositionKind::XposQuery => 1.0,
                    PositionKind::XposKey => -1.0,
                };
                let factor = zeta.powf(sign * p as f64 / 512.0);
                y[first] = factor * (x[first] * angle.cos() - x[second] * angle.sin());
                y[second] = factor * (x[second] * angle.cos() + x[first] * angle.sin());
            }
        }
    }
    y
}

#[test]
fn rotations_equal_the_definition_and_transpose() {
    let mut tables = (PositionTables::new(), PositionTables::new());
    let whole = |heads, e| (heads, e, Layout::Pairs, e, 10_000.0);
    let others = [
        (2, 16, Layout::Half, 16, 10_000.0),
        (3, 6, Layout::Half, 6, 500.0),
        (2, 20, Layout::Half, 10, 10_000.0),
        (2, 20, Layout::Pairs, 12, 1e6),
        (1, 5, Layout::Pairs, 2, 3.0),
        (3, 7, Layout::Half, 4, 10_000.0),
    ];
    for (heads, e, layout, part, base) in
        [whole(1, 2), whole(3, 6), whole(2, 16), whole(1, 20)].into_iter().chain(others)
    {
        for kind in [PositionKind::Rope, PositionKind::XposQuery, PositionKind::XposKey] {
            let rotation = Rotation::new(kind, part).with_layout(layout).with_base(base);
            for (first, positions) in [(0, 70), (900, 2), (5, 1)] {
                let len = positions * heads * e;
                let x = numbers("x", len);
                let places: Vec<usize> = (first..first + positions).collect();
                let expected = xpos_reference(&x, &places, heads, e, rotation, base);
                let table = tables.0.upto(rotation, None, first + positions);
                let y = filled(len, |y| rotate(&x, table, heads, e, first, Direction::Forward, y));
                close(&y, &expected, 1e-13);
                // <dy, A x> = <A^T dy, x>
                let dy = numbers("dy", len);
                let dx = filled(len, |dx| rotate(&dy, table, heads, e, first, Direction::Transposed, dx));
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                close(&[dot(&dy, &expected)], &[dot(&dx, &x)], 1e-11);
                let table = tables.1.upto(rotation, None, first + positions);
                let y = filled(len, |y| rotate(&singles("x", len), table, heads, e, first, Direction::Forward, y));
                close32(&y, &expected, 1e-6);
            }
        }
    }
}
