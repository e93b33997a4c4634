//! New models of specs: the weights that a training begins with, every kind of answer, and specs that are refused.

use crate::support::{GIVEN, HALTING, LISTOPS, PLAIN, Place, bits, gradients, numbers};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::Module;
use rtc_candle::{Model, ModelSpec, Objective};

const CPU: Device = Device::Cpu;

#[track_caller]
fn refused(spec: &ModelSpec, parts: &[&str]) {
    let message = Model::new(spec, &CPU).expect_err("it is refused").to_string();
    parts.iter().for_each(|part| assert!(message.contains(part), "`{part}` is not in: {message}"));
}

#[test]
fn a_new_model_has_the_weights_that_a_training_begins_with() -> Result<()> {
    let place = Place::new();
    let run = place.train("r", HALTING, LISTOPS);
    place.write("tiny.rt", HALTING);
    let name = place.path("tiny.rt").display().to_string();
    let vocabulary = Model::open(place.path("r"), &CPU)?.vocabulary().len();
    let spec = ModelSpec { name, vocabulary, classes: 10, seed: 1, ..ModelSpec::default() };
    let (model, mut own) = (Model::new(&spec, &CPU)?, run.model());
    let weights: Vec<f32> = {
        let vars = model.var_map().data().lock().expect("nobody panics").clone();
        let sorted: std::collections::BTreeMap<_, _> = vars.into_iter().collect();
        sorted.values().flat_map(|var| numbers(var)).collect()
    };
    assert_eq!(bits(weights), bits(own.executor().parameters().iter().copied()));
    let other = Model::new(&ModelSpec { seed: 2, ..spec }, &CPU)?;
    let tokens = Tensor::new(&[1u32, 2, 3], &CPU)?;
    assert_ne!(bits(numbers(&model.forward(&tokens)?)), bits(numbers(&other.forward(&tokens)?)));
    Ok(())
}

#[test]
fn every_kind_of_answer_is_trained() -> Result<()> {
    let place = Place::new();
    place.write("plain.rt", PLAIN);
    place.write("each.rt", &PLAIN.replace("tokens: start_end", "tokens: none").replace("readout end", "readout each"));
    let tokens = Tensor::new(&[[0u32, 1, 2], [3, 4, 0], [1, 1, 1], [2, 3, 4]], &CPU)?;
    let classes = |of: &[u32], shape: &[usize]| Tensor::from_slice(of, shape, &CPU);
    let cases = [
        (Objective::Classify, 3, "plain", classes(&[0, 2, 1, 1], &[4])?, vec![4, 3]),
        (Objective::Classify, 2, "plain", classes(&[0, 1, 1, 0], &[4])?, vec![4, 2]),
        (Objective::Pair, 3, "plain", classes(&[0, 2], &[2])?, vec![2, 3]),
        (Objective::Each, 4, "each", classes(&[0, 1, 2, 3, 3, 2, 1, 0, 0, 0, 1, 1], &[4, 3])?, vec![4, 3, 4]),
        (Objective::Number, 0, "plain", Tensor::new(&[0.5f32, -1.0, 2.0, 0.0], &CPU)?, vec![4, 1]),
        (Objective::Several, 2, "plain", classes(&[0, 1, 1, 1, 0, 0, 1, 0], &[4, 2])?, vec![4, 2]),
    ];
    for (objective, classes, file, labels, shape) in cases {
        let name = place.path(&format!("{file}.rt")).display().to_string();
        let spec = ModelSpec { name, vocabulary: 5, classes, objective, ..ModelSpec::default() };
        let model = Model::new(&spec, &CPU)?;
        assert_eq!((model.objective(), model.vocabulary().len(), model.classes().len()), (objective, 0, 0));
        assert_eq!(model.forward(&tokens)?.dims(), shape, "{objective:?}");
        let loss = model.loss(&tokens, &labels)?;
        assert!(loss.to_scalar::<f32>()? > 0.0);
        let moved = gradients(&model, &loss)?.values().flatten().any(|slope| *slope != 0.0);
        assert!(moved, "{objective:?} is not trained");
        let wrong = model.loss(&tokens, &labels.narrow(0, 0, 1)?).expect_err("a label is missing").to_string();
        assert!(wrong.contains("labels, and one per"), "{wrong}");
    }
    Ok(())
}

#[test]
fn names_and_edits_are_those_of_the_command_line() -> Result<()> {
    let small = ["embed.width=16", "feedforward.hidden=16"].map(str::to_owned);
    let spec = |name: &str| ModelSpec {
        name: name.to_owned(),
        set: small.to_vec(),
        vocabulary: 7,
        classes: 3,
        ..ModelSpec::default()
    };
    let model = Model::new(&spec("transformer"), &CPU)?;
    let width = model.var_map().data().lock().expect("nobody panics")["embed.table"].dims().to_vec();
    assert_eq!(width, [7, 16]);
    let variant = ModelSpec { objective: Objective::Each, ..spec("transformer:causal") };
    let tokens = Tensor::zeros((2, 5), DType::U32, &CPU)?;
    assert_eq!(Model::new(&variant, &CPU)?.forward(&tokens)?.dims(), [2, 5, 3]);

    refused(&spec("tranformer"), &["there is no spec `tranformer`", "transformer"]);
    refused(&spec("transformer:casual"), &["casual", "causal"]);
    refused(&ModelSpec { set: vec!["embed.with=3".to_owned()], ..spec("transformer") }, &["embed.with", "width"]);
    let place = Place::new();
    place.write("broken.rt", "model broken {\n    embed { width: 8 }\n    stack 2 { attend sell { heads: 2 } }\n}\n");
    refused(&spec(&place.path("broken.rt").display().to_string()), &["broken.rt:3", "sell", "self"]);
    place.write("given.rt", GIVEN);
    let given =
        ModelSpec { set: vec![], objective: Objective::Each, ..spec(&place.path("given.rt").display().to_string()) };
    refused(&given, &["say `depth` in the `Options`"]);

    let sizes = |vocabulary, classes, objective| ModelSpec { vocabulary, classes, objective, ..spec("transformer") };
    refused(&sizes(0, 3, Objective::Classify), &["`vocabulary` of the `ModelSpec` is 0"]);
    refused(&sizes(7, 1, Objective::Each), &["`classes` of the `ModelSpec` is 1", "at least 2"]);
    refused(&sizes(7, 0, Objective::Several), &["at least 1"]);
    refused(&sizes(7, 3, Objective::Number), &["`Number` has no classes"]);

    let beyond = model.forward(&Tensor::new(&[1u32, 7], &CPU)?).expect_err("there are 7 ids").to_string();
    assert!(beyond.contains("token id 7 at position 1 of row 0 is outside the vocabulary of 7"), "{beyond}");
    let text = model.encode("1 2").expect_err("there is no task").to_string();
    assert!(text.contains("was made of a spec"), "{text}");
    Ok(())
}
