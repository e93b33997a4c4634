//! Runs of `rtc train` in Candle programs: the logits that `rtc predict` prints, to the bit, and weights that go there and come back.

use crate::support::Place;
use candle_core::{Device, Result};
use candle_nn::Module;
use rtc_candle::Model;

const TEXTS: [&str; 3] = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 2 3 ]", "[SM 1 2 3 ]"];

/// The logits that the command prints of a text.
fn printed(place: &Place, args: &[&str], text: &str) -> Vec<f64> {
    let answer = place.rtc(&[&["predict", "r", text, "--logits", "--json"], args].concat()).code(0).json();
    let logits = answer["logits"].as_object().expect("an object").values();
    logits.map(|logit| logit.as_f64().expect("a number")).collect()
}

fn logits(model: &Model, text: &str) -> Result<Vec<f64>> {
    let logits: Vec<f32> = model.forward(&model.encode(text)?)?.flatten_all()?.to_vec1()?;
    Ok(logits.into_iter().map(f64::from).collect())
}

#[test]
fn a_module_gives_the_logits_that_are_printed() -> Result<()> {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "5", "--quiet"]).code(0);
    let model = Model::open(place.path("runs/r"), &Device::Cpu)?;
    let mut first = vec![];
    for text in TEXTS {
        let printed = printed(&place, &[], text);
        let bits = |numbers: &[f64]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<u64>>();
        assert_eq!(bits(&logits(&model, text)?), bits(&printed), "{text}");
        first.push(printed);
    }
    let last = rtc_candle::Options { checkpoint: "last".to_owned(), ..rtc_candle::Options::default() };
    let last = Model::open_with(place.path("runs/r"), &Device::Cpu, last)?;
    assert_eq!(logits(&last, TEXTS[0])?, printed(&place, &["--checkpoint", "last"], TEXTS[0]));

    // What Candle changed and saved, the command reads.
    let map = model.var_map();
    for var in map.all_vars() {
        var.set(&(var.as_tensor() * 0.5)?)?;
    }
    map.save(place.path("half.safetensors"))?;
    let half = printed(&place, &["--weights", "half.safetensors"], TEXTS[0]);
    assert_eq!(logits(&model, TEXTS[0])?, half);
    assert_ne!(half, first[0]);
    Ok(())
}
