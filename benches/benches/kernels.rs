//! The kernels one by one, and beside four of them the plain composition of Candle's ops: `cargo bench -p rtc-bench`.
//!
//! A kernel that is slower than the composition at one of these sizes should not be there. `RAYON_NUM_THREADS` sets the
//! threads of both; `cargo bench -p rtc-bench -- linear` runs one family. `gradients` are forward and backward together.

use divan::Bencher;
use divan::counter::ItemsCount;
use rtc_base::rng::Key;
use rtc_compiler::ir::pointwise::parse;
use rtc_kernel::Real;
use rtc_kernel::pointwise::MapProgram;

fn main() {
    // As in training, the thread that calls the kernels is one of the pool. It can only fail if there is a pool already.
    let _ = rayon::ThreadPoolBuilder::new().use_current_thread().build_global();
    divan::main();
}

/// Numbers that look like activations.
fn numbers(len: usize) -> Vec<f32> {
    let key = Key::new(len as u64);
    (0..len as u64).map(|i| key.normal(i) as f32).collect()
}

/// The map `f` of some arrays.
fn map<T: Real>(f: &str, operands: &[&[T]], y: &mut [T]) {
    let program = MapProgram::new(&parse(f).expect("an expression"));
    program.run(operands, &mut [y], &mut vec![T::ZERO; program.scratch()]);
}

/// What the compositions need of Candle.
mod candle {
    pub(crate) use candle_core::{D, Result, Tensor, Var};
    use candle_core::{Device, Shape};

    /// Numbers of [`super::numbers`] as a variable, of which a gradient can be taken.
    pub(crate) fn var(shape: impl Into<Shape>) -> Var {
        let shape = shape.into();
        let tensor = Tensor::from_vec(super::numbers(shape.elem_count()), shape, &Device::Cpu);
        Var::from_tensor(&tensor.expect("as many numbers as the shape has")).expect("a tensor can be a variable")
    }

    /// Runs a composition once.
    pub(crate) fn forward(run: impl Fn() -> Result<Tensor>) -> Tensor {
        run().expect("the shapes fit")
    }

    /// Runs it forward and backward.
    pub(crate) fn gradients(run: impl Fn() -> Result<Tensor>, dy: &Tensor) -> candle_core::backprop::GradStore {
        let both = || (run()? * dy)?.sum_all()?.backward();
        both().expect("the shapes fit")
    }
}

mod linear {
    use super::{Bencher, ItemsCount, candle, map, numbers};
    use rtc_kernel::linear::{add_rows, linear};
    use rtc_kernel::product::{Orientation, Packed, outer, product};
    use rtc_kernel::{Precision, Write};

    /// Rows, inputs, outputs.
    const SIZES: [(usize, usize, usize); 7] = [
        (3200, 128, 512),
        (3200, 512, 128),
        (3200, 128, 128),
        (3200, 64, 256),
        (320, 128, 512),
        (10, 128, 512),
        (1, 128, 128),
    ];

    fn flop((m, k, n): (usize, usize, usize), products: usize) -> ItemsCount {
        ItemsCount::new(2 * m * k * n * products)
    }

    /// The weight as an update packs it once for all products.
    fn packed((_, k, n): (usize, usize, usize), orientation: Orientation) -> Packed<f32> {
        let mut packed = Packed::default();
        packed.pack(&numbers(n * k), k, orientation, Precision::F32);
        packed
    }

    #[divan::bench(args = SIZES)]
    fn pack(bencher: Bencher<'_, '_>, (_, k, n): (usize, usize, usize)) {
        let (w, mut packed) = (numbers(n * k), Packed::default());
        bencher.bench_local(|| packed.pack(&w, k, Orientation::Transposed, Precision::F32));
    }

    #[divan::bench(args = SIZES)]
    fn forward(bencher: Bencher<'_, '_>, (m, k, n): (usize, usize, usize)) {
        let (x, bias, mut y) = (numbers(m * k), numbers(n), numbers(m * n));
        let w = packed((m, k, n), Orientation::Transposed);
        bencher.counter(flop((m, k, n), 1)).bench_local(|| linear(&x, &w, Some(&bias), &mut y));
    }

    #[divan::bench(args = SIZES)]
    fn forward_gelu(bencher: Bencher<'_, '_>, (m, k, n): (usize, usize, usize)) {
        let (x, bias, mut pre, mut y) = (numbers(m * k), numbers(n), numbers(m * n), numbers(m * n));
        let w = packed((m, k, n), Orientation::Transposed);
        bencher.counter(flop((m, k, n), 1)).bench_local(|| {
            linear(&x, &w, Some(&bias), &mut pre);
            map("gelu(a)", &[&pre], &mut y);
        });
    }

    #[divan::bench(args = SIZES)]
    fn gradients(bencher: Bencher<'_, '_>, (m, k, n): (usize, usize, usize)) {
        let (x, bias, dy) = (numbers(m * k), numbers(n), numbers(m * n));
        let (w, back) = (packed((m, k, n), Orientation::Transposed), packed((m, k, n), Orientation::Straight));
        let (mut y, mut dx, mut dw, mut db) = (dy.clone(), x.clone(), numbers(n * k), bias.clone());
        bencher.counter(flop((m, k, n), 3)).bench_local(|| {
            linear(&x, &w, Some(&bias), &mut y);
            product(&dy, &back, &mut dx, Write::Replace);
            outer(&x, &dy, &mut dw, m, k, n, Write::Replace, Precision::F32);
            add_rows(&dy, &mut db);
        });
    }

    fn composed((m, k, n): (usize, usize, usize)) -> impl Fn() -> candle::Result<candle::Tensor> {
        let (x, w, bias) = (candle::var((m, k)), candle::var((n, k)), candle::var(n));
        move || x.matmul(&w.t()?)?.broadcast_add(&bias)
    }

    #[divan::bench(args = SIZES)]
    fn candle_forward(bencher: Bencher<'_, '_>, size: (usize, usize, usize)) {
        let run = composed(size);
        bencher.counter(flop(size, 1)).bench_local(|| candle::forward(&run));
    }

    #[divan::bench(args = SIZES)]
    fn candle_forward_gelu(bencher: Bencher<'_, '_>, size: (usize, usize, usize)) {
        let run = composed(size);
        bencher.counter(flop(size, 1)).bench_local(|| candle::forward(|| run()?.gelu_erf()));
    }

    #[divan::bench(args = SIZES)]
    fn candle_gradients(bencher: Bencher<'_, '_>, size: (usize, usize, usize)) {
        let (run, dy) = (composed(size), candle::var((size.0, size.2)));
        bencher.counter(flop(size, 3)).bench_local(|| candle::gradients(&run, &dy));
    }
}

/// Attention to few keys at a length of 4,096, run as a graph: the expression of the mask is part of it. `All` and
/// `Causal` are the kernels that know of no mask.
mod few_keys {
    use super::{Bencher, Key};
    use rtc_base::batch::{Batch, Labels};
    use rtc_compiler::ir::text;
    use rtc_compiler::pass;
    use rtc_compiler::plan::plan;
    use rtc_exec::Executor;
    use std::sync::Arc;

    const LENGTH: usize = 4096;
    const STRIDE: &str = "and(and(le(j, i), eq(rem(sub(i, j), 16), 0)), lt(div(sub(i, j), 16), 2))";

    #[derive(Clone, Copy, Debug)]
    enum Mask {
        All,
        Causal,
        Stride,
        Window128,
        Block128,
    }

    const MASKS: [Mask; 5] = [Mask::All, Mask::Causal, Mask::Stride, Mask::Window128, Mask::Block128];

    impl Mask {
        fn text(self) -> String {
            match self {
                Self::All => "all".to_owned(),
                Self::Causal => "causal".to_owned(),
                Self::Stride => STRIDE.to_owned(),
                Self::Window128 => "and(le(j, i), lt(sub(i, j), 128))".to_owned(),
                Self::Block128 => "and(le(j, i), eq(div(i, 128), div(j, 128)))".to_owned(),
            }
        }

        /// Eight heads of 32 channels, for one row; with the gradient of its mean, where that is asked for.
        fn executor(self, gradient: bool) -> Executor<f32> {
            let mask = self.text();
            let source = format!(
                "graph \"one\" {{
                 %tokens = input {{name: \"tokens\"}} : u32[batch, length]
                 %table = param {{name: \"table\", init: zeros}} : f32[64, 256]
                 %a = embed %tokens, %table : f32[batch, length, 256]
                 %y = attention %a, %a, %a {{heads: 8, mask: {mask}}} : f32[batch, length, 256]
                 %loss = average %y : f32[]
                 return %loss {{names: \"loss\"}}
                 }}"
            );
            let mut graph = text::parse(&source).expect("the text is a graph");
            if gradient {
                pass::grad::run(&mut graph).expect("the graph has a loss");
            }
            let mut executor = Executor::new(Arc::new(plan(graph)));
            let numbers = super::numbers(64 * 256);
            executor.parameters_mut().copy_from_slice(&numbers);
            executor
        }
    }

    fn run(bencher: Bencher<'_, '_>, mask: Mask, gradient: bool) {
        let key = Key::new(3);
        let batch = Batch {
            offsets: vec![0, LENGTH],
            tokens: (0..LENGTH as u64).map(|n| key.below(n, 64) as u32).collect(),
            labels: Labels::Class(vec![0]),
            width: LENGTH,
            depths: None,
            given: vec![],
        };
        let mut executor = mask.executor(gradient);
        bencher.bench_local(|| executor.run(&batch, key).map(drop).expect("the batch fits"));
    }

    #[divan::bench(args = MASKS, sample_count = 5)]
    fn forward(bencher: Bencher<'_, '_>, mask: Mask) {
        run(bencher, mask, false);
    }

    #[divan::bench(args = MASKS, sample_count = 5)]
    fn gradients(bencher: Bencher<'_, '_>, mask: Mask) {
        run(bencher, mask, true);
    }
}

mod attention {
    use super::{Bencher, ItemsCount, Key, candle, numbers};
    use candle_nn::ops::{softmax, softmax_last_dim};
    use rtc_kernel::attention::{Attention, MaskKind, ProbabilityDropout, attention, attention_grad};

    /// Rows, heads, tokens of a row, width of a head.
    type Size = (usize, usize, usize, usize);

    const SIZES: [Size; 7] = [
        (32, 8, 100, 16),
        (32, 8, 100, 8),
        (32, 8, 10, 16),
        (1, 8, 10, 16),
        (4, 8, 1000, 16),
        (32, 4, 100, 64),
        (32, 4, 100, 12),
    ];

    fn flop((rows, heads, n, e): Size, products: usize) -> ItemsCount {
        ItemsCount::new(2 * rows * heads * n * n * e * products)
    }

    /// Queries, keys and values, and what says how they are used.
    struct Data {
        numbers: Vec<f32>,
        offsets: Vec<usize>,
        row_keys: Vec<Key>,
    }

    impl Data {
        fn new((rows, heads, n, e): Size) -> Self {
            let offsets = (0..=rows).map(|row| row * n).collect();
            let row_keys = (0..rows as u64).map(|row| Key::new(1).at(row)).collect();
            Self { numbers: numbers(rows * n * heads * e), offsets, row_keys }
        }

        fn rule(&self, (_, heads, _, e): Size, mask: MaskKind<'static>, p: f64) -> Attention<'_> {
            let dropout = (p > 0.0).then_some(ProbabilityDropout { p, row_keys: &self.row_keys });
            Attention { dropout, ..Attention::new(heads, e, mask) }
        }
    }

    fn run_forward(bencher: Bencher<'_, '_>, size: Size, mask: MaskKind<'static>, p: f64) {
        let data = Data::new(size);
        let (rule, x, mut out) = (data.rule(size, mask, p), &data.numbers, data.numbers.clone());
        let run = || attention(&rule, x, x, x, &data.offsets, &data.offsets, &mut out);
        bencher.counter(flop(size, 2)).bench_local(run);
    }

    fn run_gradients(bencher: Bencher<'_, '_>, size: Size, p: f64) {
        let data = Data::new(size);
        let (rule, x, at) = (data.rule(size, MaskKind::All, p), &data.numbers, &data.offsets);
        let [mut out, mut dq, mut dk, mut dv] = [0; 4].map(|_| x.clone());
        bencher.counter(flop(size, 7)).bench_local(|| {
            attention(&rule, x, x, x, at, at, &mut out);
            attention_grad(&rule, x, x, x, x, at, at, &mut dq, &mut dk, &mut dv);
        });
    }

    #[divan::bench(args = SIZES)]
    fn forward(bencher: Bencher<'_, '_>, size: Size) {
        run_forward(bencher, size, MaskKind::All, 0.0);
    }

    #[divan::bench(args = SIZES)]
    fn forward_dropout(bencher: Bencher<'_, '_>, size: Size) {
        run_forward(bencher, size, MaskKind::All, 0.1);
    }

    #[divan::bench(args = SIZES)]
    fn forward_causal(bencher: Bencher<'_, '_>, size: Size) {
        run_forward(bencher, size, MaskKind::Causal, 0.0);
    }

    #[divan::bench(args = SIZES)]
    fn gradients(bencher: Bencher<'_, '_>, size: Size) {
        run_gradients(bencher, size, 0.0);
    }

    #[divan::bench(args = SIZES)]
    fn gradients_dropout(bencher: Bencher<'_, '_>, size: Size) {
        run_gradients(bencher, size, 0.1);
    }

    /// Scores, softmax and mixture from and to the layout of the linear maps around them.
    fn composed(
        (rows, heads, n, e): Size,
        soft: impl Fn(&candle::Tensor) -> candle::Result<candle::Tensor>,
    ) -> impl Fn() -> candle::Result<candle::Tensor> {
        let [q, k, v] = [0; 3].map(|_| candle::var((rows, n, heads, e)));
        move || {
            let [q, k, v] = [&q, &k, &v].map(|x| x.transpose(1, 2)?.contiguous());
            let scores = (q?.matmul(&k?.t()?)? * (e as f64).powf(-0.5))?;
            soft(&scores)?.matmul(&v?)?.transpose(1, 2)?.contiguous()
        }
    }

    #[divan::bench(args = SIZES)]
    fn candle_forward(bencher: Bencher<'_, '_>, size: Size) {
        let run = composed(size, softmax_last_dim);
        bencher.counter(flop(size, 2)).bench_local(|| candle::forward(&run));
    }

    /// `softmax_last_dim` has no gradient.
    #[divan::bench(args = SIZES)]
    fn candle_gradients(bencher: Bencher<'_, '_>, size: Size) {
        let run = composed(size, |scores| softmax(scores, candle::D::Minus1));
        let dy = candle::var((size.0, size.2, size.1, size.3));
        bencher.counter(flop(size, 7)).bench_local(|| candle::gradients(&run, &dy));
    }
}

mod row_by_row {
    use super::{Bencher, Key, candle, map, numbers};
    use candle_nn::ops;
    use rtc_kernel::dropout::{Keep, dropout};
    use rtc_kernel::linear::add_rows;
    use rtc_kernel::norm::{layer_norm, layer_norm_grad};

    /// Rows and their width.
    const SIZES: [(usize, usize); 4] = [(3200, 512), (3200, 128), (320, 128), (10, 128)];
    const EPSILON: f64 = 1e-5;

    fn run(bencher: Bencher<'_, '_>, (m, d): (usize, usize), kernel: impl Fn(&[f32], &mut [f32])) {
        let (x, mut y) = (numbers(m * d), numbers(m * d));
        bencher.bench_local(|| kernel(&x, &mut y));
    }

    #[divan::bench(args = SIZES)]
    fn gelu(bencher: Bencher<'_, '_>, size: (usize, usize)) {
        run(bencher, size, |x, y| map("gelu(a)", &[x], y));
    }

    #[divan::bench(args = SIZES)]
    fn gelu_gradients(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let mut dx = numbers(m * d);
        let (x, mut y) = (numbers(m * d), numbers(m * d));
        bencher.bench_local(|| {
            map("gelu(a)", &[&x], &mut y);
            map("mul(b, gelu_slope(a))", &[&x, &x], &mut dx);
        });
    }

    #[divan::bench(args = SIZES)]
    fn sigmoid(bencher: Bencher<'_, '_>, size: (usize, usize)) {
        run(bencher, size, |x, y| map("sigmoid(a)", &[x], y));
    }

    #[divan::bench(args = SIZES)]
    fn add(bencher: Bencher<'_, '_>, size: (usize, usize)) {
        run(bencher, size, |x, y| map("add(a, a)", &[x], y));
    }

    #[divan::bench(args = SIZES)]
    fn gate(bencher: Bencher<'_, '_>, size: (usize, usize)) {
        run(bencher, size, |x, y| map("lerp(sigmoid(a), b, c)", &[x, x, x], y));
    }

    #[divan::bench(args = SIZES)]
    fn dropped(bencher: Bencher<'_, '_>, size: (usize, usize)) {
        run(bencher, size, |x, y| dropout(x, Keep::new(0.1), Key::new(3), 0, y));
    }

    #[divan::bench(args = SIZES)]
    fn summed_columns(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let (x, mut sums) = (numbers(m * d), numbers(d));
        bencher.bench_local(|| add_rows(&x, &mut sums));
    }

    #[divan::bench(args = SIZES)]
    fn norm(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let (gain, bias) = (numbers(d), numbers(d));
        run(bencher, (m, d), |x, y| layer_norm(x, &gain, Some(&bias), EPSILON, y));
    }

    #[divan::bench(args = SIZES)]
    fn norm_gradients(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let (x, gain, bias) = (numbers(m * d), numbers(d), numbers(d));
        let (mut y, mut dx, mut dgain, mut dbias) = (x.clone(), x.clone(), gain.clone(), bias.clone());
        bencher.bench_local(|| {
            layer_norm(&x, &gain, Some(&bias), EPSILON, &mut y);
            layer_norm_grad(&x, &gain, &x, EPSILON, &mut dx, &mut dgain, &mut dbias);
        });
    }

    #[divan::bench(args = SIZES)]
    fn candle_gelu(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let x = candle::var((m, d));
        bencher.bench_local(|| candle::forward(|| x.gelu_erf()));
    }

    #[divan::bench(args = SIZES)]
    fn candle_gelu_gradients(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let x = candle::var((m, d));
        bencher.bench_local(|| candle::gradients(|| x.gelu_erf(), &x));
    }

    #[divan::bench(args = SIZES)]
    fn candle_sigmoid(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let x = candle::var((m, d));
        bencher.bench_local(|| candle::forward(|| ops::sigmoid(&x)));
    }

    #[divan::bench(args = SIZES)]
    fn candle_add(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let x = candle::var((m, d));
        bencher.bench_local(|| candle::forward(|| x.as_tensor() + x.as_tensor()));
    }

    #[divan::bench(args = SIZES)]
    fn candle_norm(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let (x, gain, bias) = (candle::var((m, d)), candle::var(d), candle::var(d));
        bencher.bench_local(|| candle::forward(|| ops::layer_norm(&x, &gain, &bias, EPSILON as f32)));
    }

    /// `layer_norm` has no gradient.
    #[divan::bench(args = SIZES)]
    fn candle_norm_gradients(bencher: Bencher<'_, '_>, (m, d): (usize, usize)) {
        let (x, gain, bias) = (candle::var((m, d)), candle::var(d), candle::var(d));
        let run = || ops::layer_norm_slow(&x, &gain, &bias, EPSILON as f32);
        bencher.bench_local(|| candle::gradients(run, &x));
    }
}

/// The layer of S4D in front of a fold: both directions of 128 channels with 32 modes, a linear map with a gate.
mod scan {
    use super::{Bencher, numbers};
    use rtc_base::batch::{Batch, Labels};
    use rtc_base::rng::Key;
    use rtc_compiler::lower::{Binding, Objective};
    use rtc_compiler::pipeline;
    use rtc_exec::Executor;
    use rtc_exec::learner::{Learner, UpdateRule};
    use rtc_exec::model::Model;
    use rtc_kernel::scan::s4d::{Discretisation, S4d, S4dGrad};
    use rtc_kernel::scan::{Scan, Side, scan, scan_grad};

    const LENGTHS: [usize; 3] = [100, 1000, 4000];
    const CHANNELS: usize = 256;
    const MODES: usize = 32;
    const LEFT: Scan = Scan { side: Side::Left, lag: 0 };

    /// The whole layer between an embedding and a mean.
    const LAYER: &str = "model layer {\nembed { width: 128 }\nscan s4d { state: 64 }\nreadout mean\n}";

    fn parameters() -> Vec<Vec<f32>> {
        let log_dt = (0..CHANNELS).map(|c| (1e-3_f32 * 100.0_f32.powf(c as f32 / CHANNELS as f32)).ln()).collect();
        let frequency = (0..CHANNELS * MODES).map(|n| 20.4 * (64.0 / (2 * (n % MODES) + 1) as f32 - 1.0)).collect();
        let all = CHANNELS * MODES;
        vec![log_dt, vec![-0.693; all], frequency, vec![1.0; 2 * all], numbers(2 * all)]
    }

    fn s4d(p: &[Vec<f32>]) -> S4d<'_, f32> {
        S4d { rule: Discretisation::Bilinear, log_dt: &p[0], log_decay: &p[1], frequency: &p[2], b: &p[3], c: &p[4] }
    }

    fn batch(length: usize) -> Batch {
        let tokens = (0..length as u64).map(|n| Key::new(1).below(n, 18) as u32).collect();
        Batch {
            tokens,
            labels: Labels::Class(vec![1]),
            width: length,
            offsets: vec![0, length],
            depths: None,
            given: vec![],
        }
    }

    fn model() -> (Model<f32>, Executor<f32>) {
        let binding = Binding { vocab: Some(18), classes: Some(10), objective: Objective::Classify };
        let spec = rtc_tests::spec(LAYER, &binding);
        let (training, inference) = pipeline::plans(&spec, &binding).expect("the layer has a plan");
        let mut forward = Executor::new(std::sync::Arc::new(inference.clone()));
        let model = Model::new(training, inference, binding, 1);
        let mut initial = model;
        forward.parameters_mut().copy_from_slice(initial.executor().parameters());
        (initial, forward)
    }

    #[divan::bench(args = LENGTHS)]
    fn forward(bencher: Bencher<'_, '_>, length: usize) {
        let (p, x) = (parameters(), numbers(length * CHANNELS));
        let mut y = x.clone();
        bencher.bench_local(|| scan(&s4d(&p), LEFT, &x, &[0, length], &mut y));
    }

    #[divan::bench(args = LENGTHS)]
    fn gradients(bencher: Bencher<'_, '_>, length: usize) {
        let (p, x, mut grads) = (parameters(), numbers(length * CHANNELS), parameters());
        let (mut y, mut dx) = (x.clone(), x.clone());
        bencher.bench_local(|| {
            scan(&s4d(&p), LEFT, &x, &[0, length], &mut y);
            let [dt, decay, frequency, b, c] = &mut grads[..] else { unreachable!("there are five parameters") };
            let family = S4dGrad::new(s4d(&p), [dt, decay, frequency, b, c]);
            scan_grad(&family, LEFT, &x, &x, &[0, length], &mut dx);
        });
    }

    #[divan::bench(args = LENGTHS)]
    fn layer(bencher: Bencher<'_, '_>, length: usize) {
        let (batch, (_, mut forward)) = (batch(length), model());
        bencher.bench_local(|| drop(forward.run(&batch, Key::new(1)).expect("the batch fits")));
    }

    #[divan::bench(args = LENGTHS)]
    fn layer_gradients(bencher: Bencher<'_, '_>, length: usize) {
        let (batch, (mut model, _)) = (batch(length), model());
        bencher.bench_local(|| model.accumulate(&batch, 1.0).expect("the batch fits"));
        // The accumulated gradients are used once, so that none of it can be left out.
        model.update(&UpdateRule::ADAMW).expect("the gradients are finite");
    }
}
