//! A spec in a Candle program, trained on tensors that the program makes: prints how often it names the largest token of a row.
#![allow(clippy::print_stdout, reason = "an example that says what it found")]

use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{AdamW, Module, Optimizer};
use rtc_candle::{Model, ModelSpec};

fn main() -> Result<()> {
    let device = Device::Cpu;
    let rows = || Tensor::rand(0f32, 10f32, (64, 6), &device)?.to_dtype(DType::U32);
    let small = ["embed.width=32", "depthwise.depth=4", "gate.hidden=64", "feedforward.hidden=64"].map(str::to_owned);
    let spec = ModelSpec { name: "gut".into(), set: small.into(), vocabulary: 10, classes: 10, ..ModelSpec::default() };
    let model = Model::new(&spec, &device)?;
    let mut optimiser = AdamW::new_lr(model.var_map().all_vars(), 2e-3)?;
    for _ in 0..200 {
        let tokens = rows()?;
        let loss = model.loss(&tokens, &tokens.max(1)?)?;
        optimiser.backward_step(&loss)?;
    }
    let tokens = rows()?;
    let right = model.forward(&tokens)?.argmax(D::Minus1)?.eq(&tokens.max(1)?)?;
    println!("{}", right.to_dtype(DType::F32)?.mean_all()?.to_scalar::<f32>()?);
    Ok(())
}
