//! Models that Candle's kernels compute: the numbers of rtc's own, gradients on Candle's tape, and refusals.

use crate::support::{EACH, GIVEN, HALTING, LISTOPS, PLAIN, Place, bits, gradients, numbers};
use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{Module, Optimizer, SGD, loss::cross_entropy};
use rtc_candle::{KernelChoice, Model, ModelSpec, Options, Precision};

const CPU: Device = Device::Cpu;
const TEXTS: [&str; 3] = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 2 3 ]", "[SM 1 2 3 ]"];

fn by_candle() -> Options {
    Options { kernels: KernelChoice::Candle, ..Options::default() }
}

/// The same run by both kernels.
fn both(place: &Place, name: &str) -> Result<[Model; 2]> {
    Ok([Model::open(place.path(name), &CPU)?, Model::open_with(place.path(name), &CPU, by_candle())?])
}

#[track_caller]
fn near(what: &str, own: &[f32], candle: &[f32]) {
    assert_eq!(own.len(), candle.len(), "{what}");
    let largest = own.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let apart = own.iter().zip(candle).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(apart <= 2e-5 * (1.0 + largest), "{what}: {apart} apart, and the largest is {largest}");
}

#[test]
fn logits_losses_and_gradients_are_those_of_rtc() -> Result<()> {
    let place = Place::new();
    let plain = PLAIN.replace("{\n    embed", "{\n    dropout: 0.2\n    embed");
    for (name, spec) in [("halting", HALTING), ("plain", PLAIN), ("dropped", &plain)] {
        place.train(name, spec, LISTOPS);
        let [own, candle] = both(&place, name)?;
        let rows = TEXTS.iter().map(|text| own.encode(text)).collect::<Result<Vec<_>>>()?;
        let labels = Tensor::new(&[9u32, 2, 6], &CPU)?;
        near(name, &numbers(&own.forward_rows(&rows)?), &numbers(&candle.forward_rows(&rows)?));
        // Both draw what the same update draws, and something that rtc has no loss for has its gradients on Candle's tape.
        for update in 0..2 {
            let of = |model: &Model| -> Result<_> {
                let logits = model.training().forward_rows(&rows)?;
                let value = logits.narrow(1, 2, 5)?.sqr()?.sum(D::Minus1)?.exp()?.mean_all()?;
                Ok((numbers(&logits), gradients(model, &value)?))
            };
            let ((logits, slopes), (other_logits, other_slopes)) = (of(&own)?, of(&candle)?);
            near(&format!("{name} {update}"), &logits, &other_logits);
            assert_eq!(slopes.keys().collect::<Vec<_>>(), other_slopes.keys().collect::<Vec<_>>());
            slopes.iter().for_each(|(name, slope)| near(name, slope, &other_slopes[name]));
            let (loss, other) = (own.loss_rows(&rows, &labels)?, candle.loss_rows(&rows, &labels)?);
            near("loss", &numbers(&loss), &numbers(&other));
            let (slopes, other) = (gradients(&own, &loss)?, gradients(&candle, &other)?);
            slopes.iter().for_each(|(name, slope)| near(name, slope, &other[name]));
            assert!(slopes.values().flatten().any(|slope| slope.abs() > 1e-2), "differences would be lost");
        }
    }
    Ok(())
}

#[test]
fn an_answer_for_every_token_and_steps_that_are_said() -> Result<()> {
    let place = Place::new();
    place.write("text.txt", &"to be, or not to be: that is the question\n".repeat(40));
    place.train("each", EACH, "task: { name: language, data: { train: text.txt, dev: 20% }, length: 16 }\n");
    let [own, candle] = both(&place, "each")?;
    let tokens = Tensor::stack(&[own.encode("to be")?, own.encode("or no")?], 0)?;
    let (logits, other) = (own.forward(&tokens)?, candle.forward(&tokens)?);
    assert_eq!(logits.dims(), other.dims());
    near("each", &numbers(&logits), &numbers(&other));
    let labels = Tensor::new(&[[1i64, -1, 2, 3, -1], [0, 1, -1, 2, 2]], &CPU)?;
    near("loss", &numbers(&own.loss(&tokens, &labels)?), &numbers(&candle.loss(&tokens, &labels)?));

    // `GIVEN` takes its steps from the examples, and a spec has none.
    place.write("given.rt", GIVEN);
    let spec = ModelSpec {
        name: place.path("given.rt").display().to_string(),
        vocabulary: 5,
        classes: 3,
        objective: rtc_candle::Objective::Each,
        ..ModelSpec::default()
    };
    let at =
        |kernels, depth| Model::new_with(&spec, &CPU, Options { kernels, depth: Some(depth), ..Options::default() });
    let tokens = Tensor::new(&[[0u32, 1, 2], [3, 4, 0]], &CPU)?;
    let of = |kernels, depth| Ok::<_, candle_core::Error>(numbers(&at(kernels, depth)?.forward(&tokens)?));
    near("given", &of(KernelChoice::Rtc, 3)?, &of(KernelChoice::Candle, 3)?);
    assert_ne!(bits(of(KernelChoice::Candle, 2)?), bits(of(KernelChoice::Candle, 3)?));
    Ok(())
}

#[test]
fn an_optimiser_of_candle_trains_what_candle_computes() -> Result<()> {
    let place = Place::new();
    let spec = HALTING.replace(
        "    readout end",
        "    shift = learn[width] { trained: false }\n    state = state + shift\n    readout end",
    );
    place.train("r", &spec, LISTOPS);
    let model = Model::open_with(place.path("r"), &CPU, by_candle())?;
    let rows = TEXTS.iter().map(|text| model.encode(text)).collect::<Result<Vec<_>>>()?;
    let labels = Tensor::new(&[9u32, 2, 6], &CPU)?;
    let fixed = || {
        let vars = model.var_map().data().lock().expect("nobody panics").clone();
        let (_, var) = vars.into_iter().find(|(name, _)| name.contains("shift")).expect("a variable");
        bits(numbers(&var))
    };
    let mut sgd = SGD::new(model.var_map().all_vars(), 0.05)?;
    let loss = || cross_entropy(&model.forward_rows(&rows)?, &labels)?.to_scalar::<f32>();
    let (first, before) = (loss()?, fixed());
    for _ in 0..20 {
        sgd.backward_step(&cross_entropy(&model.training().forward_rows(&rows)?, &labels)?)?;
        sgd.backward_step(&model.loss_rows(&rows, &labels)?)?;
    }
    assert!(loss()? < 0.7 * first, "{first} {}", loss()?);
    assert_eq!(fixed(), before, "what is not trained stays");
    // Both kernels read the variables as they are now.
    let own = Model::open(place.path("r"), &CPU)?;
    own.load_var_map(&model.var_map())?;
    near("after", &numbers(&own.forward_rows(&rows)?), &numbers(&model.forward_rows(&rows)?));
    Ok(())
}

#[test]
fn what_is_not_finite_is_named_and_what_candle_has_not_is_refused() -> Result<()> {
    let place = Place::new();
    place.train("r", PLAIN, LISTOPS);
    let model = Model::open_with(place.path("r"), &CPU, by_candle())?;
    let row = model.encode(TEXTS[0])?;
    let map = model.var_map();
    let table = map.data().lock().expect("nobody panics")["embed.table"].clone();
    let whole = table.as_tensor().copy()?;
    table.set(&(&whole * f64::NAN)?)?;
    let message = model.forward(&row).expect_err("it is no number").to_string();
    assert!(message.contains("first non-finite value") && message.contains("embed"), "{message}");
    table.set(&whole)?;
    assert!(model.forward(&row)?.sum_all()?.to_dtype(DType::F64)?.to_scalar::<f64>()?.is_finite(), "the model goes on");

    let narrow = Options { precision: Precision::Bf16, ..by_candle() };
    let message = Model::open_with(place.path("r"), &CPU, narrow).expect_err("rtc's kernels have it").to_string();
    assert!(message.contains("`precision` is for kernels of rtc"), "{message}");
    Ok(())
}
