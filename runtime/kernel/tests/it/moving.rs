//! Embeddings, frames and expansion.

use rtc_kernel::embedding::{broadcast_batch, frame, frame_grad, gather, scatter_add};

use crate::support::{check_gradients, filled, numbers, offsets, singles};

#[test]
fn embeddings() {
    let ids = [3, 0, 3, 2, 0, 3];
    for d in [1, 7, 40] {
        check_gradients(
            &[numbers("table", 5 * d)],
            |v| filled(6 * d, |y| gather(&v[0], &ids, d, y)),
            |_, dy| vec![filled(5 * d, |dtable| scatter_add(dy, &ids, d, dtable))],
        );
    }
    let table = singles("table", 10);
    assert_eq!(filled(4, |y| gather(&table, &[4, 1], 2, y)), [table[8], table[9], table[2], table[3]]);
}

#[test]
fn frames() {
    let starts = offsets(&[2, 0, 3]);
    check_gradients(
        &[numbers("x", 5 * 3), numbers("start", 3), numbers("end", 3)],
        |v| filled(11 * 3, |y| frame(&v[0], &starts, &v[1], &v[2], y)),
        |_, dy| {
            let (mut dx, mut dstart, mut dend) = (vec![9.0; 15], vec![0.0; 3], vec![0.0; 3]);
            frame_grad(dy, &starts, &mut dx, &mut dstart, &mut dend);
            vec![dx, dstart, dend]
        },
    );
    let y = filled(9, |y| frame(&[1.0_f32, 2.0, 3.0], &[0, 2, 2, 3], &[8.0], &[9.0], y));
    assert_eq!(y, [8.0, 1.0, 2.0, 9.0, 8.0, 9.0, 8.0, 3.0, 9.0]);
}

#[test]
fn expansion() {
    let slots = numbers("slots", 6);
    for rows in [0, 1, 3] {
        assert_eq!(filled(rows * 6, |y| broadcast_batch(&slots, rows, y)), slots.repeat(rows));
    }
}
