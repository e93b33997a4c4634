//! Candle's own autograd as an independent oracle: a pre-norm layer with the slow forms of every op.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use rtc_exec::Halting;
use rtc_tests::numeric::{Arrays, Run, batch, differentiated, distance, graph, run, weights};

const WIDTH: usize = 6;
const HEADS: usize = 2;
const LENGTH: usize = 5;
const ROWS: usize = 3;

const LAYER: &str = r#"graph "layer" {
  %tokens = input {name: "tokens"} : u32[batch, length]
  %table = param {name: "table", init: zeros} : f32[7, 6]
  %g1 = param {name: "norm1.gain", init: ones} : f32[6]
  %b1 = param {name: "norm1.bias", init: zeros} : f32[6]
  %wq = param {name: "query", init: zeros} : f32[6, 6]
  %wk = param {name: "key", init: zeros} : f32[6, 6]
  %wv = param {name: "value", init: zeros} : f32[6, 6]
  %wo = param {name: "output", init: zeros} : f32[6, 6]
  %g2 = param {name: "norm2.gain", init: ones} : f32[6]
  %b2 = param {name: "norm2.bias", init: zeros} : f32[6]
  %w1 = param {name: "up.weight", init: zeros} : f32[10, 6]
  %c1 = param {name: "up.bias", init: zeros} : f32[10]
  %w2 = param {name: "down.weight", init: zeros} : f32[6, 10]
  %c2 = param {name: "down.bias", init: zeros} : f32[6]
  %x = embed %tokens, %table : f32[batch, length, 6]
  %n = layer_norm %x, %g1, %b1 {eps: 1e-5} : f32[batch, length, 6]
  %q = linear %n, %wq : f32[batch, length, 6]
  %k = linear %n, %wk : f32[batch, length, 6]
  %v = linear %n, %wv : f32[batch, length, 6]
  %att = attention %q, %k, %v {heads: 2, mask: MASK} : f32[batch, length, 6]
  %o = linear %att, %wo : f32[batch, length, 6]
  %a = add %x, %o : f32[batch, length, 6]
  %z = layer_norm %a, %g2, %b2 {eps: 1e-5} : f32[batch, length, 6]
  %u = linear %z, %w1, %c1 : f32[batch, length, 10]
  %e = gelu %u : f32[batch, length, 10]
  %d = linear %e, %w2, %c2 : f32[batch, length, 6]
  %y = add %a, %d : f32[batch, length, 6]
  %pool = mean %y : f32[batch, 6]
  %labels = input {name: "labels"} : u32[batch]
  %each = cross_entropy_each %pool, %labels : f32[batch]
  %loss = average %each : f32[]
  return %y, %loss {names: "y, loss"}
}
"#;

/// The weights as variables of Candle.
struct Oracle {
    names: Vec<String>,
    variables: Vec<Var>,
}

impl Oracle {
    fn new(weights: &Arrays) -> Result<Self> {
        let shape = |name: &str, len: usize| match name {
            "table" => vec![len / WIDTH, WIDTH],
            "query" | "key" | "value" | "output" => vec![WIDTH, WIDTH],
            "up.weight" => vec![10, WIDTH],
            "down.weight" => vec![WIDTH, 10],
            _ => vec![len],
        };
        let variable = |(name, values): (&String, &Vec<f64>)| {
            Var::from_tensor(&Tensor::from_slice(values, shape(name, values.len()), &Device::Cpu)?)
        };
        let variables = weights.iter().map(variable).collect::<Result<_>>()?;
        Ok(Self { names: weights.keys().cloned().collect(), variables })
    }

    fn get(&self, name: &str) -> &Tensor {
        let index = self.names.iter().position(|n| n == name);
        self.variables[index.expect("the graph has this parameter")].as_tensor()
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let (gain, bias) = (self.get(&format!("{name}.gain")), self.get(&format!("{name}.bias")));
        candle_nn::ops::layer_norm_slow(x, gain, bias, 1e-5)
    }

    fn linear(&self, x: &Tensor, weight: &str) -> Result<Tensor> {
        x.broadcast_matmul(&self.get(weight).t()?)
    }

    /// Candle's own `gelu_erf` has a gradient with a constant of six digits, so the definition is written out.
    fn gelu(x: &Tensor) -> Result<Tensor> {
        x * (((x / std::f64::consts::SQRT_2)?.erf()? + 1.0)? * 0.5)?
    }

    /// `[rows, length, width]` to `[rows, heads, length, width / heads]`.
    fn heads(x: &Tensor) -> Result<Tensor> {
        x.reshape((ROWS, LENGTH, HEADS, WIDTH / HEADS))?.transpose(1, 2)?.contiguous()
    }

    fn attention(&self, n: &Tensor, causal: bool) -> Result<Tensor> {
        let part = |name: &str| Self::heads(&self.linear(n, name)?);
        let (q, k, v) = (part("query")?, part("key")?, part("value")?);
        let mut scores = (q.matmul(&k.t()?.contiguous()?)? / ((WIDTH / HEADS) as f64).sqrt())?;
        if causal {
            let hidden = |n: usize| if n % LENGTH > n / LENGTH { -1e30 } else { 0.0 };
            let hidden: Vec<f64> = (0..LENGTH * LENGTH).map(hidden).collect();
            scores = scores.broadcast_add(&Tensor::from_vec(hidden, (LENGTH, LENGTH), &Device::Cpu)?)?;
        }
        let mixed = candle_nn::ops::softmax(&scores, D::Minus1)?.matmul(&v)?;
        mixed.transpose(1, 2)?.contiguous()?.reshape((ROWS, LENGTH, WIDTH))
    }

    fn run(&self, tokens: &[u32], labels: &[u32], causal: bool) -> Result<Run> {
        let tokens = Tensor::from_slice(tokens, ROWS * LENGTH, &Device::Cpu)?;
        let labels = Tensor::from_slice(labels, ROWS, &Device::Cpu)?;
        let x = self.get("table").index_select(&tokens, 0)?.reshape((ROWS, LENGTH, WIDTH))?;
        let mixed = self.linear(&self.attention(&self.norm(&x, "norm1")?, causal)?, "output")?;
        let a = (&x + mixed)?;
        let up = self.linear(&self.norm(&a, "norm2")?, "up.weight")?.broadcast_add(self.get("up.bias"))?;
        let down = self.linear(&Self::gelu(&up)?, "down.weight")?.broadcast_add(self.get("down.bias"))?;
        let y = (&a + down)?;
        let loss = candle_nn::loss::cross_entropy(&y.mean(1)?, &labels)?;
        let store = loss.backward()?;
        let gradient = |(name, variable): (&String, &Var)| {
            let gradient = store.get(variable).expect("every weight takes part");
            Ok((name.clone(), gradient.flatten_all()?.to_vec1()?))
        };
        let gradients = self.names.iter().zip(&self.variables).map(gradient).collect::<Result<_>>()?;
        let outputs = [("y", y.flatten_all()?.to_vec1()?), ("loss", vec![loss.to_dtype(DType::F64)?.to_scalar()?])];
        Ok(Run { outputs: outputs.into_iter().map(|(n, v)| (n.to_owned(), v)).collect(), gradients })
    }
}

#[test]
fn a_transformer_layer_agrees_with_candle() {
    for (mask, causal) in [("all", false), ("causal", true)] {
        let forward = graph(&LAYER.replace("MASK", mask));
        let backward = differentiated(&forward);
        let weights = weights(&forward, 4, 0.6);
        let rows = batch(&[LENGTH; ROWS], 7, WIDTH as u64, 4);
        let rtc_base::batch::Labels::Class(labels) = &rows.labels else { panic!("one label per row") };
        let ours = run::<f64>(&backward, &weights, &rows, Halting::Compact);
        let oracle = Oracle::new(&weights).and_then(|o| o.run(&rows.tokens, labels, causal)).expect("Candle runs");
        for (name, reference) in oracle.outputs.iter().chain(&oracle.gradients) {
            let own = ours.outputs.get(name).unwrap_or_else(|| &ours.gradients[name]);
            let d = distance(own, reference);
            assert!(d < 1e-8, "{mask}: `{name}` differs by {d:.1e}");
        }
    }
}
