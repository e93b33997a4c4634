//! A model that rtc has trained is trained further by Candle, and saved under the names of its checkpoint.

use candle_core::{Device, Result, Tensor};
use candle_nn::{Module, Optimizer, SGD, loss::cross_entropy};

fn main() -> Result<()> {
    let model = rtc_candle::Model::open("runs/NAME", &Device::Cpu)?;
    let tokens = model.encode("[MAX 2 9 [MIN 4 7 ] 0 ]")?;
    let label = Tensor::new(&[9u32], &Device::Cpu)?;
    let mut optimiser = SGD::new(model.var_map().all_vars(), 0.01)?;
    for _ in 0..10 {
        let logits = model.training().forward(&tokens)?;
        optimiser.backward_step(&cross_entropy(&logits, &label)?)?;
    }
    model.var_map().save("tuned.safetensors")
}
