//! A model that rtc has trained, in a Candle program: prints the class of a sequence.
#![allow(clippy::print_stdout, reason = "an example that says what it found")]

use candle_core::{D, Device, Result};
use candle_nn::Module;

fn main() -> Result<()> {
    let model = rtc_candle::Model::open("runs/NAME", &Device::Cpu)?;
    let tokens = model.encode("[MAX 2 9 [MIN 4 7 ] 0 ]")?;
    let logits = model.forward(&tokens)?;
    let class = logits.argmax(D::Minus1)?.to_vec1::<u32>()?[0];
    println!("{}", model.classes()[class as usize]);
    Ok(())
}
