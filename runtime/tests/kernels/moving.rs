//! Embeddings, frames, expansion, and rows that leave and come back.

use rtc_runtime::kernel::Write;
use rtc_runtime::kernel::embedding::{expand, expand_grad, frame, frame_grad, framed_offsets, gather, scatter_add};
use rtc_runtime::kernel::rows::{compact_offsets, gather_rows, scatter_add_rows, scatter_rows};

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
            frame_grad(dy, &starts, &mut dx, &mut dstart, &mut dend, Write::Replace);
            vec![dx, dstart, dend]
        },
    );
    assert_eq!(framed_offsets(&starts), [0, 4, 6, 11]);
    let y = filled(9, |y| frame(&[1.0_f32, 2.0, 3.0], &[0, 2, 2, 3], &[8.0], &[9.0], y));
    assert_eq!(y, [8.0, 1.0, 2.0, 9.0, 8.0, 9.0, 8.0, 3.0, 9.0]);
    let mut dx = [1.0_f32; 3];
    frame_grad(&y, &[0, 2, 2, 3], &mut dx, &mut [0.0], &mut [0.0], Write::Add);
    assert_eq!(dx, [2.0, 3.0, 4.0]);
}

#[test]
fn expansion() {
    for rows in [0, 1, 3, 70] {
        check_gradients(
            &[numbers("slots", 6)],
            |v| filled(rows * 6, |y| expand(&v[0], rows, y)),
            |_, dy| vec![filled(6, |dp| expand_grad(dy, rows, dp, Write::Replace))],
        );
    }
    let mut dp = [1.0_f32, 2.0];
    expand_grad(&[10.0, 20.0, 30.0, 40.0], 2, &mut dp, Write::Add);
    assert_eq!(dp, [41.0, 62.0]);
}

#[test]
fn rows_leave_and_come_back() {
    let (starts, width) = (offsets(&[2, 0, 3, 1, 4]), 3);
    let full = singles("x", 10 * width);
    let rows = [0, 1, 3, 4];
    assert_eq!(compact_offsets(&starts, &rows), [0, 2, 2, 3, 7]);
    let compact = filled(7 * width, |y| gather_rows(&full, &starts, &rows, width, y));
    assert_eq!(compact, [&full[..2 * width], &full[5 * width..]].concat());
    let mut back = vec![0.5; full.len()];
    scatter_rows(&compact, &starts, &rows, width, &mut back);
    let mut expected = full.clone();
    expected[2 * width..5 * width].fill(0.5);
    assert_eq!(back, expected, "other rows stay");
    scatter_add_rows(&compact, &starts, &rows, width, &mut back);
    assert_eq!(back[9 * width], 2.0 * full[9 * width]);
    assert_eq!(back[3 * width], 0.5);
    assert_eq!(compact_offsets(&starts, &[]), [0]);
    gather_rows(&full, &starts, &[], width, &mut []);
}
