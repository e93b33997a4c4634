//! Attention in tiles on the emulated device: sizes that cross tiles, slices of channels and warps; operands of fewer bits; kernels that
//! are made for the sizes of a model.

use std::rc::Rc;

use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_runtime::cuda::device::Target;
use rtc_runtime::kernel::Precision;
use rtc_tests::emulated::Emulated;
use rtc_tests::models::{self, binding};
use rtc_tests::numeric::{Arrays, Run, distance, executor, run, run_in};

use super::device::{Case, compare, example, kernels_for, on_device};

/// A training step of one layer of attention.
fn case(width: usize, heads: usize, lengths: &[usize], fields: &str) -> Case {
    let spec = models::parse(&format!(
        "use \"lib/masks.rt\"\nmask late(w) = i % w <= j and (j <= i or length - j < 2)\n\
         bias corner = learn_c[head, min(j, 2)] / (1 + i)\n\
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

#[test]
fn tiles_of_every_size_agree_with_the_cpu() {
    let mut all = cases();
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
        Precision::Bf16 => 2e-2,
    }
}

/// What the CPU makes of a case where operands of products with weights are rounded to 16 bits.
fn with_rounded_products(case: &Case) -> Run {
    let mut executor = executor::<f32>(&case.graph, &case.weights, case.halting);
    executor.settings.precision = Precision::Bf16;
    run_in(executor, &case.graph, &case.weights, &case.batch)
}

/// The arrays that are further from the exact ones than a precision explains. In 16 bits values are rounded, too: sums in which much cancels
/// move with every value, so each may move some times as far as it does on the CPU, where operands of products alone are.
fn far(precision: Precision, found: &Arrays, exact: &Arrays, rounded: &Arrays) -> Vec<String> {
    const TIMES: f64 = 3.0;
    let more = if precision == Precision::Bf16 { TIMES } else { 0.0 };
    let line = |(name, exact): (&String, &Vec<f64>)| {
        let (distance, moved) = (distance(&found[name], exact), distance(&rounded[name], exact));
        (distance > limit(precision) + more * moved)
            .then(|| format!("{name} by {distance:.1e}, where products move it by {moved:.1e}"))
    };
    exact.iter().filter_map(line).collect()
}

/// What devices that are made for each of these make of the cases; nothing where there is no compiler.
fn on(cases: &[Case], targets: &[Target]) -> Option<Vec<Vec<Run>>> {
    let of = |target: &Target| {
        let kernels = kernels_for("float", cases.iter().map(|case| &case.graph), *target)?;
        let device = || Rc::new(Emulated::made_for(kernels.clone(), *target));
        Some(cases.iter().map(|case| on_device::<f32>(case, device())).collect())
    };
    targets.iter().map(of).collect()
}

#[test]
fn operands_of_fewer_bits_stay_near() {
    let (cases, precisions) = (cases(), [Precision::F32, Precision::Tf32, Precision::Bf16]);
    let targets = precisions.map(|precision| Target { precision, fixed_sizes: false });
    let Some(all) = on(&cases, &targets) else { return };
    for (n, case) in cases.iter().enumerate() {
        let exact = run::<f64>(&case.graph, &case.weights, &case.batch, case.halting);
        let rounded = with_rounded_products(case);
        for (precision, runs) in precisions.into_iter().zip(&all) {
            let outputs = far(precision, &runs[n].outputs, &exact.outputs, &rounded.outputs);
            let gradients = far(precision, &runs[n].gradients, &exact.gradients, &rounded.gradients);
            assert_eq!([outputs, gradients], [const { Vec::<String>::new() }; 2], "{} {precision:?}", case.name);
        }
        let [f32, tf32, bf16] = [0, 1, 2].map(|precision| &all[precision][n].outputs);
        assert!(f32 != tf32 && tf32 != bf16, "{}: each rounds otherwise", case.name);
    }
}

/// What a compiler is told of sizes changes no bit.
#[test]
fn kernels_made_for_sizes_compute_the_same() {
    for precision in [Precision::F32, Precision::Bf16] {
        let targets = [false, true].map(|fixed_sizes| Target { precision, fixed_sizes });
        let Some(all) = on(&cases()[..2], &targets) else { return };
        assert_eq!(all[0], all[1], "{precision:?}");
    }
}
