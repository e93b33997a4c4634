//! Candle's `backward` through a model: against differences and rtc's own training step, and optimisers of Candle that train it.

use std::collections::BTreeSet;

use crate::support::{EACH, HALTING, LISTOPS, PLAIN, Place, Run, bits, gradients, numbers};
use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::{Module, Optimizer, SGD, loss::cross_entropy};
use rtc_candle::Model;
use rtc_exec::learner::{FlatArrays, Learner};
use rtc_runs::record::checkpoint::CheckpointSlot;
use rtc_task::batching::pack;
use rtc_task::{Example, ExampleTarget};

const CPU: Device = Device::Cpu;
const TEXTS: [&str; 3] = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 2 3 ]", "[SM 1 2 3 ]"];
const LABELS: [u32; 3] = [9, 2, 6];

fn rows(model: &Model) -> Result<Vec<Tensor>> {
    TEXTS.iter().map(|text| model.encode(text)).collect()
}

fn examples(run: &Run) -> Vec<Example> {
    let one = |(text, label): (&&str, &u32)| Example { label: ExampleTarget::Class(*label), ..run.example(text) };
    TEXTS.iter().zip(&LABELS).map(one).collect()
}

#[test]
fn the_gradient_of_any_function_of_logits_is_its_slope() -> Result<()> {
    let place = Place::new();
    place.train("r", HALTING, LISTOPS);
    let model = Model::open(place.path("r"), &CPU)?;
    let rows = rows(&model)?;
    // Something that rtc has no loss for.
    let value = || model.forward_rows(&rows)?.narrow(1, 2, 5)?.sqr()?.sum(D::Minus1)?.exp()?.mean_all();
    let found = gradients(&model, &value()?)?;
    let vars = model.var_map().data().lock().expect("nobody panics").clone();
    assert_eq!(found.keys().collect::<BTreeSet<_>>(), vars.keys().collect(), "every variable has one");
    let mut moved_most = 0.0_f64;
    for (name, gradient) in &found {
        let var = &vars[name];
        let (old, shape) = (numbers(var), var.shape().clone());
        let at = gradient.iter().enumerate().max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).expect("it has numbers").0;
        let moved = |by: f32| {
            let mut new = old.clone();
            new[at] += by;
            var.set(&Tensor::from_vec(new, &shape, &CPU)?)?;
            value()?.to_dtype(DType::F64)?.to_scalar::<f64>()
        };
        let (delta, slope) = (2e-3, f64::from(gradient[at]));
        let difference = (moved(delta)? - moved(-delta)?) / (2.0 * f64::from(delta));
        moved(0.0)?;
        moved_most = moved_most.max(slope.abs());
        assert!((slope - difference).abs() < 0.02 * slope.abs() + 1e-3, "{name}: {slope} {difference}");
    }
    assert!(moved_most > 0.1, "{moved_most} would be lost in rounding");
    Ok(())
}

#[test]
fn the_loss_has_the_bits_of_the_training_step() -> Result<()> {
    let place = Place::new();
    let run = place.train("r", HALTING, LISTOPS);
    let model = Model::open(place.path("r"), &CPU)?;
    let mut own = run.trained(CheckpointSlot::Best);
    let examples = examples(&run);
    let outputs = own.forward_backward(&pack(&examples.iter().collect::<Vec<_>>())).expect("it fits");
    let loss = model.loss_rows(&rows(&model)?, &Tensor::new(&LABELS, &CPU)?)?;
    assert_eq!(
        f64::from(loss.to_scalar::<f32>()?),
        outputs.scalar("loss").expect("a loss"),
        "with dropout and halting cost"
    );
    let flat: Vec<f32> = gradients(&model, &loss)?.into_values().flatten().collect();
    assert_eq!(bits(flat), bits(own.executor().gradients().iter().copied()));
    // What is made of the loss reaches the variables.
    let loss = model.loss_rows(&rows(&model)?, &Tensor::new(&LABELS, &CPU)?)?;
    let once = gradients(&model, &loss)?;
    let thrice = gradients(&model, &(loss * 3.0)?)?;
    for (name, gradient) in &once {
        let expected = gradient.iter().map(|g| g * 3.0);
        assert_eq!(bits(thrice[name].iter().copied()), bits(expected), "{name}");
    }
    Ok(())
}

/// Cross entropy of Candle on logits with dropout is the loss of rtc where the model pays nothing besides.
#[test]
fn candle_s_loss_on_logits_is_rtc_s() -> Result<()> {
    let place = Place::new();
    let spec = PLAIN.replace("{\n    embed", "{\n    dropout: 0.2\n    embed");
    assert_ne!(spec, PLAIN);
    place.train("r", &spec, LISTOPS);
    let labels = Tensor::new(&LABELS, &CPU)?;
    // Both begin at the same update.
    let (one, other) = (Model::open(place.path("r"), &CPU)?, Model::open(place.path("r"), &CPU)?);
    let near = |a: f32, b: f32, limit: f32| (a - b).abs() <= limit;
    for _ in 0..2 {
        let candle = cross_entropy(&one.training().forward_rows(&rows(&one)?)?, &labels)?;
        let rtc = other.loss_rows(&rows(&other)?, &labels)?;
        assert!(near(candle.to_scalar()?, rtc.to_scalar()?, 1e-5));
        let (candle, rtc) = (gradients(&one, &candle)?, gradients(&other, &rtc)?);
        assert_eq!(candle.keys().collect::<Vec<_>>(), rtc.keys().collect::<Vec<_>>());
        for (name, gradient) in &candle {
            assert!(gradient.iter().zip(&rtc[name]).all(|(a, b)| near(*a, *b, 1e-5)), "{name}");
        }
    }
    let quiet = cross_entropy(&one.forward_rows(&rows(&one)?)?, &labels)?.to_scalar::<f32>()?;
    let noisy = cross_entropy(&one.training().forward_rows(&rows(&one)?)?, &labels)?.to_scalar::<f32>()?;
    assert_ne!(quiet, noisy, "the module predicts, and only `training` drops units");
    Ok(())
}

#[test]
fn an_optimiser_of_candle_trains_the_model() -> Result<()> {
    let place = Place::new();
    let run = place.train("r", HALTING, LISTOPS);
    let model = Model::open(place.path("r"), &CPU)?;
    let labels = Tensor::new(&LABELS, &CPU)?;
    let rows = rows(&model)?;
    let mut sgd = SGD::new(model.var_map().all_vars(), 0.05)?;
    let loss = || cross_entropy(&model.forward_rows(&rows)?, &labels);
    let first = loss()?.to_scalar::<f32>()?;
    for _ in 0..30 {
        sgd.backward_step(&loss()?)?;
    }
    let last = loss()?.to_scalar::<f32>()?;
    assert!(last < 0.5 * first, "{first} {last}");
    for _ in 0..5 {
        sgd.backward_step(&model.loss_rows(&rows, &labels)?)?;
    }
    // rtc computes the same with what the optimiser made.
    let map = model.var_map();
    let vars = map.data().lock().expect("nobody panics");
    let items = vars.iter().map(|(name, var)| (name.clone(), (var.dims().to_vec(), numbers(var)))).collect();
    let mut own = run.trained(CheckpointSlot::Best);
    let state = rtc_exec::learner::LearnerState { parameters: FlatArrays { items }, ..Default::default() };
    own.restore(&state).expect("the same names and shapes");
    drop(vars);
    let answers = own.answers(&pack(&examples(&run).iter().collect::<Vec<_>>())).expect("it fits");
    let logits = numbers(&model.forward_rows(&rows)?);
    assert_eq!(bits(logits), crate::support::wide_bits(&answers.logits));
    Ok(())
}

#[test]
fn weights_that_are_not_trained_stay() -> Result<()> {
    let place = Place::new();
    let spec = PLAIN
        .replace("    stack 2", "    shift = learn[width] { trained: false }\n    state = state + shift\n    stack 2");
    place.train("r", &spec, LISTOPS);
    let model = Model::open(place.path("r"), &CPU)?;
    let labels = Tensor::new(&LABELS, &CPU)?;
    let found = gradients(&model, &model.loss_rows(&rows(&model)?, &labels)?)?;
    let map = model.var_map();
    let names: Vec<String> = map.data().lock().expect("nobody panics").keys().cloned().collect();
    let without: Vec<&String> = names.iter().filter(|name| !found.contains_key(*name)).collect();
    assert!(without.len() == 1 && without[0].contains("shift"), "{without:?}");
    let fixed = map.data().lock().expect("nobody panics")[without[0]].clone();
    let before = numbers(&fixed);
    SGD::new(map.all_vars(), 0.1)?.backward_step(&model.loss_rows(&rows(&model)?, &labels)?)?;
    assert_eq!(bits(numbers(&fixed)), bits(before));
    Ok(())
}

#[test]
fn tokens_have_labels_that_may_not_count() -> Result<()> {
    let place = Place::new();
    place.write("text.txt", &"to be, or not to be: that is the question\n".repeat(40));
    place.train("r", EACH, "task: { name: language, data: { train: text.txt, dev: 20% }, length: 16 }\n");
    let model = Model::open(place.path("r"), &CPU)?;
    let tokens = Tensor::stack(&[model.encode("to be")?, model.encode("or no")?], 0)?;
    let next = tokens.to_dtype(DType::I64)?.narrow(1, 1, 4)?;
    let labels = Tensor::cat(&[&next, &Tensor::full(-1i64, (2, 1), &CPU)?], 1)?;
    let loss = model.loss(&tokens, &labels)?.to_scalar::<f32>()?;
    let logits = model.forward(&tokens)?.narrow(1, 0, 4)?.flatten_to(1)?;
    let expected = cross_entropy(&logits, &next.to_dtype(DType::U32)?.flatten_all()?)?.to_scalar::<f32>()?;
    assert!((loss - expected).abs() < 1e-5, "{loss} {expected}");
    let refused = |labels: Tensor, part: &str| {
        let message = model.loss(&tokens, &labels).expect_err("it is refused").to_string();
        assert!(message.contains(part), "{message}");
    };
    refused(Tensor::zeros((2, 4), DType::U32, &CPU)?, "there are 8 labels, and one per token makes 10");
    refused(Tensor::full(1000u32, (2, 5), &CPU)?, "label 1000 is outside the");
    refused(Tensor::zeros((2, 5), DType::F32, &CPU)?, "labels are numbers of type u32 or i64");
    Ok(())
}
