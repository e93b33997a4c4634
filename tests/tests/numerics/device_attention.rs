//! Attention in tiles on the emulated device: sizes that cross tiles, slices of channels and warps; operands of fewer bits; kernels that
//! are made for the sizes of a model.

use std::rc::Rc;

use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_cuda::device::KernelTarget;
use rtc_kernel::Precision;
use rtc_tests::emulated::Emulated;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{Run, assert_same, run, weights};

use super::device::{Case, compare, example, kernels_for, on_device};

/// A training step of one layer of attention.
fn case(width: usize, heads: usize, lengths: &[usize], fields: &str) -> Case {
    let spec = models::parse(&format!(
        "use \"lib/masks.rt\"\nmask late(w) = i % w <= j and (j <= i or length - j < 2)\n\
         bias corner = learn_c[head, min(j, 2)] / (1 + i)\n\
         mask every(w) = j <= i and (i - j) % w == 0\n\
         model m {{ embed {{ width: {width} }}\n recur depthwise {{ depth: 1\n\
         attend self {{ heads: {heads}, {fields} }}\n feedforward {{ hidden: 4, activation: gelu }} }}\n readout mean }}"
    ));
    let graph = pipeline::training(&spec, &binding(Objective::Classify)).unwrap_or_else(|e| panic!("{fields}: {e}"));
    Case::new(format!("{fields}, {width} channels, {heads} heads"), graph, example(lengths, Objective::Classify))
}

/// Rows that end in a tile, at its end, behind it, and that are shorter than a warp's part of one.
const LENGTHS: &[usize] = &[70, 1, 64, 33, 20];

pub(super) fn cases() -> Vec<Case> {
    vec![
        case(40, 2, LENGTHS, "mask: causal, dropout: 0.2"),
        case(24, 2, LENGTHS, "mask: window(40), bias: alibi(2)"),
        case(24, 2, LENGTHS, "mask: late(3), bias: corner, dropout: 0.3"),
        case(18, 3, LENGTHS, "mask: past"),
    ]
}

/// Codes of distances: lists with gaps that are longer than a warp, and heads wider than a slice of channels.
pub(super) fn cases_of_codes() -> Vec<Case> {
    vec![
        case(24, 2, &[80, 1, 9], "position: relative_xl, mask: every(2)"),
        case(140, 2, &[40, 5], "position: relative_xl, mask: causal"),
    ]
}

#[test]
fn tiles_of_every_size_agree_with_the_cpu() {
    let mut all = cases();
    all.extend(cases_of_codes());
    // Heads wider than a slice of channels, and codes of distances across tiles and slices.
    all.push(case(160, 1, &[66, 5], "mask: causal"));
    all.push(case(140, 2, &[66, 5], "position: relative_xl, mask: causal, dropout: 0.2"));
    all.push(case(24, 2, LENGTHS, "position: relative_xl, mask: window(20)"));
    all.push(case(24, 2, LENGTHS, "position: relative_xl"));
    compare(&all);
}

/// How far what a device makes of the products of attention in a precision may be from the exact numbers: a few roundings of operands.
fn limit(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => 2e-3,
        Precision::Tf32 => 1e-2,
        Precision::Bf16 => 1.2e-1,
    }
}

/// What devices that are made for each of these make of the cases; nothing where there is no compiler.
fn on(cases: &[Case], targets: &[KernelTarget]) -> Option<Vec<Vec<Run>>> {
    let of = |target: &KernelTarget| {
        let kernels = kernels_for("float", cases.iter().map(|case| &case.graph), *target)?;
        let device = || Rc::new(Emulated::made_for(kernels.clone(), *target));
        Some(cases.iter().map(|case| on_device::<f32>(case, device())).collect())
    };
    targets.iter().map(of).collect()
}

/// With 16 bits values are rounded, too. Weights are so small that no layer makes a rounding larger.
#[test]
fn operands_of_fewer_bits_stay_near() {
    let precisions = [Precision::F32, Precision::Tf32, Precision::Bf16];
    let small = |case: Case| Case { weights: weights(&case.graph, 1, 0.2), ..case };
    let cases: Vec<Case> = cases().into_iter().map(small).collect();
    let targets = precisions.map(|precision| KernelTarget { precision, fixed_sizes: false });
    let Some(all) = on(&cases, &targets) else { return };
    for (n, case) in cases.iter().enumerate() {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        for (precision, runs) in precisions.iter().zip(&all) {
            assert_same(&format!("{} {precision:?}", case.name), &runs[n], &exact, limit(*precision));
        }
        let [f32, tf32, bf16] = [0, 1, 2].map(|precision| &all[precision][n].outputs);
        assert!(f32 != tf32 && tf32 != bf16, "{}: each rounds otherwise", case.name);
    }
}

/// What a compiler is told of sizes changes no bit.
#[test]
fn kernels_made_for_sizes_compute_the_same() {
    for precision in [Precision::F32, Precision::Bf16] {
        let targets = [false, true].map(|fixed_sizes| KernelTarget { precision, fixed_sizes });
        let Some(all) = on(&cases()[..2], &targets) else { return };
        assert_eq!(all[0], all[1], "{precision:?}");
    }
}
