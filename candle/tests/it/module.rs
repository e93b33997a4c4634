//! Trained models as modules: logits with the bits of rtc's predictions, parameters through a `VarMap` and back, and inputs that are none.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{EACH, GIVEN, HALTING, LISTOPS, PLAIN, Place, bits, numbers, wide_bits};
use candle_core::{DType, Device, Result, Tensor};
use candle_nn::{Init, Module, VarMap};
use rtc_candle::{Model, Options};
use rtc_runs::record::SavedRun;
use rtc_runs::record::checkpoint::CheckpointSlot;

const CPU: Device = Device::Cpu;

#[track_caller]
fn refused<T>(outcome: Result<T>, parts: &[&str]) {
    let message = outcome.err().expect("it is refused").to_string();
    parts.iter().for_each(|part| assert!(message.contains(part), "`{part}` is not in: {message}"));
}

fn open(place: &Place, name: &str) -> Model {
    Model::open(place.path(name), &CPU).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn logits_have_the_bits_of_predictions() -> Result<()> {
    let place = Place::new();
    let run = place.train("r", HALTING, LISTOPS);
    let model = open(&place, "r");
    let texts = ["[MAX 2 9 [MIN 4 7 ] 0 ]", "[MIN 2 3 ]", "[SM 1 2 3 ]", "7"];
    let rows = texts.iter().map(|text| model.encode(text)).collect::<Result<Vec<_>>>()?;
    let logits = model.forward_rows(&rows)?;
    assert_eq!(logits.dims(), [4, 10]);
    assert_eq!(bits(numbers(&logits)), wide_bits(&run.answers(&texts).logits));
    for (text, row) in texts.iter().zip(&rows) {
        let alone = wide_bits(&run.answers(&[text]).logits);
        assert_eq!(bits(numbers(&model.forward(row)?)), alone, "a row without a batch, {text}");
        let both = Tensor::stack(&[row, row], 0)?.to_dtype(DType::I64)?;
        let logits = model.forward(&both)?;
        assert_eq!((logits.dims(), logits.dtype()), (&[2, 10][..], DType::F32));
        assert_eq!(bits(numbers(&logits)), [alone.clone(), alone].concat(), "rows of one length, {text}");
    }
    Ok(())
}

/// The names of what models answer, their tasks, and texts to ask about.
/// A task: its name, spec and experiment, two texts, and the axes of their logits.
type Case = (&'static str, &'static str, String, [&'static str; 2], Vec<usize>);

#[test]
fn every_kind_of_answer_has_its_shape_and_bits() -> Result<()> {
    let place = Place::new();
    let two = |n: usize| if n.is_multiple_of(3) { "bad,negative" } else { "good,positive" };
    let table = (0..40).map(|n| format!("the film {n} was {}\n", two(n))).collect::<String>();
    place.write("two.csv", &format!("text,label\n{table}"));
    let table = (0..40).map(|n| format!("the film {n} ,{}.5\n", n % 7)).collect::<String>();
    place.write("number.csv", &format!("text,label\n{table}"));
    let several = |n: usize| match n % 3 {
        0 => "[\"rude\"]",
        1 => "[\"rude\", \"threat\"]",
        _ => "[\"odd\"]",
    };
    let table = (0..40).map(|n| format!("{{\"text\": \"the film {n}\", \"label\": {}}}\n", several(n)));
    place.write("labels.jsonl", &table.collect::<String>());
    let pair = |n: usize| format!("{}\tleft {n}\tright {}\n", ["same", "other", "none"][n % 3], n % 2);
    place.write("pairs.tsv", &("kind\ta\tb\n".to_owned() + &(0..40).map(pair).collect::<String>()));
    place.write("text.txt", &"to be, or not to be: that is the question\n".repeat(40));
    let own = |task: &str| format!("task: {{ {task} }}\n");
    let texts = ["the film 3", "the film 5 was good"];
    let cases: [Case; 5] = [
        ("two", HALTING, own("name: table, data: { train: two.csv, dev: 20% }"), texts, vec![2, 2]),
        ("number", PLAIN, own("name: table, data: { train: number.csv, dev: 20% }, answer: number"), texts, vec![2, 1]),
        (
            "labels",
            PLAIN,
            own("name: table, data: { train: labels.jsonl, dev: 20% }, answer: labels"),
            texts,
            vec![2, 3],
        ),
        (
            "pairs",
            PLAIN,
            own("name: pairs, data: { train: pairs.tsv, dev: 20% }, input: [a, b], label: kind"),
            ["left 1 ||| right 1", "left 2 ||| right"],
            vec![2, 3],
        ),
        (
            "text",
            EACH,
            own("name: language, data: { train: text.txt, dev: 20% }, length: 16"),
            ["to be", "or no"],
            vec![],
        ),
    ];
    for (name, spec, task, texts, mut shape) in cases {
        let run = place.train(name, spec, &task);
        let model = open(&place, name);
        let answers = run.answers(&texts);
        let rows = match name {
            "pairs" => {
                let pairs = texts.iter().map(|text| model.encode_pair(text)).collect::<Result<Vec<_>>>()?;
                pairs
                    .iter()
                    .map(|[first, _]| first.clone())
                    .chain(pairs.iter().map(|[_, second]| second.clone()))
                    .collect()
            }
            _ => texts.iter().map(|text| model.encode(text)).collect::<Result<Vec<_>>>()?,
        };
        let logits = model.forward_rows(&rows)?;
        if name == "text" {
            shape = vec![10, model.vocabulary().len()];
            let matrix = model.forward(&Tensor::stack(&rows, 0)?)?;
            assert_eq!(matrix.dims(), [2, 5, model.vocabulary().len()]);
            assert_eq!(bits(numbers(&matrix)), bits(numbers(&logits)));
        }
        assert_eq!(logits.dims(), shape, "{name}");
        match name {
            "number" => {
                let unit = answers.evaluation.numbers.clone();
                assert_eq!(bits(numbers(&logits)), wide_bits(&unit));
                assert!(!model.scale().is_plain() && model.classes().is_empty());
            }
            // Predictions have two logits for each label, of which the first is 0.
            "labels" => {
                let yes: Vec<f64> = answers.logits.chunks(2).map(|no_and_yes| no_and_yes[1]).collect();
                assert_eq!(bits(numbers(&logits)), wide_bits(&yes));
            }
            _ => assert_eq!(bits(numbers(&logits)), wide_bits(&answers.logits), "{name}"),
        }
    }
    let pairs = open(&place, "pairs");
    let row = pairs.encode_pair("left 1 ||| right 1")?[0].clone();
    refused(pairs.forward_rows(&[row.clone(), row.clone(), row]), &["are pairs, and there are 3", "first sides"]);
    refused(pairs.encode("left 1 ||| right 1"), &["encode_pair"]);
    refused(open(&place, "two").encode_pair("a ||| b"), &["`encode`"]);
    Ok(())
}

#[test]
fn steps_that_come_with_examples_are_said_when_the_model_is_opened() -> Result<()> {
    let place = Place::new();
    let task =
        "task:\n  name: looped_addition\n  options: { train_length: 3 }\n  sizes: { train: 32, dev: 8, test: 8 }\n";
    let run = place.train("r", GIVEN, task);
    refused(Model::open(place.path("r"), &CPU), &["the steps of this model come with its examples", "`depth`"]);
    let with = |depth| Model::open_with(place.path("r"), &CPU, Options { depth, ..Options::default() });
    let text = "1 0 + 1 1 > # # # #";
    let example = run.example(text);
    let mut outcomes = vec![];
    for depth in [1, 2] {
        let model = with(Some(depth))?;
        let mut own = run.trained(CheckpointSlot::Best);
        own.set_depth(Some(depth));
        let answers = rtc_exec::learner::Learner::answers(&mut own, &rtc_task::batching::pack(&[&example]));
        let logits = numbers(&model.forward(&model.encode(text)?)?);
        assert_eq!(bits(logits.iter().copied()), wide_bits(&answers.expect("it fits").logits));
        outcomes.push(logits);
    }
    assert_ne!(outcomes[0], outcomes[1]);
    place.train("halting", HALTING, LISTOPS);
    let options = Options { depth: Some(2), ..Options::default() };
    refused(Model::open_with(place.path("halting"), &CPU, options), &["`depth: given`"]);
    let options = Options { inference: Some(rtc_candle::Inference::Flat), ..Options::default() };
    refused(Model::open_with(place.path("halting"), &CPU, options), &["no outer recursion"]);
    Ok(())
}

#[test]
fn parameters_are_variables_and_variables_are_parameters() -> Result<()> {
    let place = Place::new();
    let run = place.train("r", HALTING, LISTOPS);
    let model = open(&place, "r");
    let row = model.encode("[MAX 2 9 ]")?;
    let before = numbers(&model.forward(&row)?);

    // Under the names of the checkpoint, with its shapes and bits.
    let weights = |slot| SavedRun::checkpoint(&run.path, slot).join("weights.safetensors");
    let saved: BTreeMap<_, _> =
        candle_core::safetensors::load(weights(CheckpointSlot::Best), &CPU)?.into_iter().collect();
    let map = model.var_map();
    let vars = map.data().lock().expect("nobody panics").clone();
    assert_eq!(vars.len(), saved.len());
    for (name, tensor) in &saved {
        assert_eq!((vars[name].dims(), bits(numbers(&vars[name]))), (tensor.dims(), bits(numbers(tensor))), "{name}");
    }

    // What changes them changes the model, and its clones.
    let clone = model.clone();
    let bias = &vars["head.output.bias"];
    let old = bias.as_tensor().copy()?;
    bias.set(&(bias.as_tensor() + 1.0)?)?;
    let shifted = numbers(&clone.forward(&row)?);
    assert!(before.iter().zip(&shifted).all(|(a, b)| (b - a - 1.0).abs() < 1e-5), "{before:?} {shifted:?}");
    bias.set(&old)?;
    assert_eq!(bits(numbers(&model.forward(&row)?)), bits(before.iter().copied()));

    // Through a file of Candle's, and from a map of another program.
    let last = run.trained(CheckpointSlot::Last);
    let mut loaded = model.var_map();
    loaded.load(weights(CheckpointSlot::Last))?;
    let mut own = last;
    let answers =
        rtc_exec::learner::Learner::answers(&mut own, &rtc_task::batching::pack(&[&run.example("[MAX 2 9 ]")]));
    assert_eq!(bits(numbers(&model.forward(&row)?)), wide_bits(&answers.expect("it fits").logits));
    let other = VarMap::new();
    for (name, tensor) in &saved {
        other.get(tensor.dims(), name, Init::Const(0.0), DType::F32, &CPU)?;
        other.data().lock().expect("nobody panics")[name].set(tensor)?;
    }
    other.get(3, "another.layer", Init::Const(0.0), DType::F32, &CPU)?;
    model.load_var_map(&other)?;
    assert_eq!(bits(numbers(&model.forward(&row)?)), bits(before.iter().copied()));
    model.load_var_map(&model.var_map())?;
    map.save(place.path("back.safetensors"))?;
    assert_eq!(candle_core::safetensors::load(place.path("back.safetensors"), &CPU)?.len(), saved.len());

    // A map that does not fit changes nothing.
    let small = VarMap::new();
    refused(model.load_var_map(&small), &["there is no variable `"]);
    for (name, tensor) in &saved {
        let shape = if name == "head.output.bias" { vec![3] } else { tensor.dims().to_vec() };
        small.get(shape, name, Init::Const(5.0), DType::F32, &CPU)?;
    }
    refused(model.load_var_map(&small), &["`head.output.bias` has shape [3], and the model's has [10]"]);
    assert_eq!(bits(numbers(&model.forward(&row)?)), bits(before));
    let double = bias.as_tensor().to_dtype(DType::F64)?;
    map.data()
        .lock()
        .expect("nobody panics")
        .insert("head.output.bias".to_owned(), candle_core::Var::from_tensor(&double)?);
    refused(model.forward(&row), &["`head.output.bias` is f64, and rtc computes in f32"]);
    Ok(())
}

#[test]
fn inputs_that_are_none_are_refused_with_a_cure() -> Result<()> {
    let place = Place::new();
    place.train("r", HALTING, LISTOPS);
    let model = open(&place, "r");
    let known = model.vocabulary().len() as u32;
    refused(
        model.forward(&Tensor::new(&[[1u32, 2], [3, known]], &CPU)?),
        &[&format!("token id {known} at position 1 of row 1 is outside the vocabulary of {known}"), "`encode`"],
    );
    refused(model.forward(&Tensor::new(&[1i64, -1], &CPU)?), &["-1 is no token id"]);
    refused(model.forward(&Tensor::new(&[1f32, 2.0], &CPU)?), &["of type u32 or i64, and these are f32", "to_dtype"]);
    refused(
        model.forward(&Tensor::zeros((1, 2, 3), DType::U32, &CPU)?),
        &["[length] or [batch, length]", "forward_rows"],
    );
    refused(model.forward(&Tensor::zeros((), DType::U32, &CPU)?), &["[length] or [batch, length]"]);
    refused(model.forward(&Tensor::zeros((2, 0), DType::U32, &CPU)?), &["every row at least one token"]);
    refused(model.forward_rows(&[]), &["at least one row"]);
    refused(model.forward_rows(&[Tensor::zeros((1, 2), DType::U32, &CPU)?]), &["every row is a tensor [length]"]);
    refused(model.encode("[MAX 2 nine ]"), &["nine"]);
    // It goes on after all of them.
    assert_eq!(model.forward(&model.encode("[MAX 2 9 ]")?)?.dims(), [1, 10]);
    Ok(())
}

#[test]
fn runs_that_can_t_be_opened_say_why() {
    let place = Place::new();
    let table = (0..40).map(|n| format!("the film {n},{}.5,{}\n", n % 9, ["bad", "good"][n % 2])).collect::<String>();
    place.write("read.csv", &format!("text,years,label\n{table}"));
    let spec = PLAIN.replace("    stack 2", "    years = given(0)\n    state = state + tanh(years)\n    stack 2");
    place.train("values", &spec, "task: { name: table, data: { train: read.csv, dev: 20% }, given: [years] }\n");
    refused(Model::open(place.path("values"), &CPU), &["takes `years` from its rows", "`rtc predict`"]);
    let run = place.train("r", HALTING, LISTOPS);
    let open = |name: &str| Model::open(place.path(name), &CPU);
    refused(open("none"), &["can't read", "run.json"]);
    let options = Options { checkpoint: "other".to_owned(), ..Options::default() };
    refused(Model::open_with(&run.path, &CPU, options), &["other"]);
    let spec = fs::read_to_string(run.path.join("spec.rt")).expect("it is there");
    fs::write(run.path.join("spec.rt"), spec.replace("depth: 3", "depth: 4")).expect("it is ours");
    refused(open("r"), &["spec.rt was changed after the training began"]);
    fs::write(run.path.join("spec.rt"), spec).expect("it is ours");
    let weights = SavedRun::checkpoint(&run.path, CheckpointSlot::Best).join("weights.safetensors");
    let mut bytes = fs::read(&weights).expect("it is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(weights, bytes).expect("it is ours");
    refused(open("r"), &["is refused", "weights.safetensors"]);
}

#[test]
fn threads_share_a_model() {
    let place = Place::new();
    place.train("r", HALTING, LISTOPS);
    let model = open(&place, "r");
    let ask = |text: &str| numbers(&model.encode(text).and_then(|row| model.forward(&row)).expect("it is a row"));
    let expected = ["[MAX 2 9 ]", "[MIN 4 7 ]"].map(ask);
    std::thread::scope(|scope| {
        for (text, expected) in ["[MAX 2 9 ]", "[MIN 4 7 ]"].into_iter().zip(&expected) {
            scope.spawn(move || (0..20).for_each(|_| assert_eq!(&ask(text), expected)));
        }
    });
}
