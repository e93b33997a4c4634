//! Records of a training besides its metrics: sampled texts and histograms, which change no number of it.

use std::collections::BTreeMap;
use std::fs;

use rtc_base::rng::Key;
use serde_json::Value;

use crate::support::Place;

const SPEC: &str = "\
/// A model of characters with a memory.
model writer {
    embed { width: 16 }
    recur chunkwise {
        size: 6
        memory { slots: 2, init: normal }
        attend self { heads: 2, position: rope }
        attend memory { heads: 2 }
        update memory { attend chunk { heads: 2 } }
    }
    readout each
}

/// As many positions as it has learned.
model placed {
    dropout: 0.2
    embed { width: 16, position: learned, positions: 40 }
    stack 1 { attend self { heads: 2 } }
    readout each
}
";

const EXPERIMENT: &str = "\
task:
  name: characters
  options: { length: 16 }
  sizes: { train: 64, dev: 8, 1x: 8 }
optimiser: { learning_rate: 0.01 }
schedule: { kind: constant }
batch: { size: 8 }
max_steps: 12
log_every: 1
evaluate_every: 4
evaluate: [1x]
";

fn place() -> Place {
    let place = Place::new();
    place.write("writer.rt", SPEC);
    place.write("characters.yaml", EXPERIMENT);
    place
}

/// The lines of a file, without their checksums.
fn lines(place: &Place, file: &str) -> Vec<Value> {
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).expect("an object per line");
        line.as_object_mut().expect("an object").remove("check");
        line
    };
    place.read(file).lines().map(line).collect()
}

/// The files that must not depend on what is watched.
fn numbers(place: &Place, run: &str) -> Vec<Vec<u8>> {
    let files = [
        "metrics.jsonl",
        "checkpoints/last/weights.safetensors",
        "checkpoints/last/optimiser.safetensors",
        "checkpoints/best/weights.safetensors",
    ];
    files.map(|file| fs::read(place.path(&format!("runs/{run}/{file}"))).expect(file)).to_vec()
}

#[test]
fn sampled_texts_are_those_of_generate_and_change_no_bit() {
    let place = place();
    for (n, model) in ["writer", "placed"].into_iter().enumerate() {
        let mut draws = Key::new(n as u64).stream("samples").draws();
        let seed = draws.below(1 << 20).to_string();
        let (spec, plain, run) = (format!("writer.rt:{model}"), format!("plain{n}"), format!("sampled{n}"));
        let train = ["train", spec.as_str(), "--experiment", "characters.yaml", "--seed", &seed, "--quiet", "--run"];
        place.rtc(&[&train[..], &[plain.as_str()]].concat()).code(0);
        let samples = format!(
            "samples={{every: 4, prompts: ['ab', 'the q'], length: 12, seed: {seed}, temperature: 0.8, top_k: 9}}"
        );
        let keeping = ["--with", samples.as_str(), "--with", "checkpoints={every: 4}"];
        place.rtc(&[&train[..], &[run.as_str()], &keeping].concat()).code(0);
        assert_eq!(numbers(&place, &run), numbers(&place, &plain));
        assert!(!place.path(&format!("runs/{plain}/samples.jsonl")).exists());

        let found = lines(&place, &format!("runs/{run}/samples.jsonl"));
        let updates: Vec<u64> = found.iter().filter_map(|line| line["update"].as_u64()).collect();
        assert_eq!(updates, [4, 4, 8, 8, 12, 12]);
        for (at, update) in ["4", "8", "12"].into_iter().enumerate() {
            let generate =
                ["generate", run.as_str(), "ab", "the q", "--length", "12", "--temperature", "0.8", "--top-k", "9"];
            let args = ["--seed", seed.as_str(), "--json", "--checkpoint", update];
            let written = place.rtc(&[&generate[..], &args].concat());
            let written = written.code(0).stdout.lines();
            let written: Vec<Value> = written.map(|line| serde_json::from_str(line).expect("an object")).collect();
            for (line, written) in found[2 * at..].iter().zip(&written) {
                for field in ["prompt", "text", "end"] {
                    assert_eq!(line[field], written[field], "{model}, update {update}");
                }
            }
        }
        place.rtc(&["verify", &run]).code(0);
        place.rtc(&["report", &run, "--output", "page.html"]).code(0);
        let page = place.read("page.html");
        assert!(
            page.contains("<summary>Samples</summary>") && page.contains("the q</td>"),
            "the texts are on the page"
        );
    }
    // A changed text is found.
    let file = "runs/sampled0/samples.jsonl";
    place.write(file, &place.read(file).replacen("the q", "the k", 1));
    assert!(place.rtc(&["verify", "sampled0"]).code(7).stdout.contains("samples.jsonl"));
    place.rtc(&["report", "sampled0", "--output", "page.html"]).code(7);
    fs::remove_file(place.path(file)).expect("a file");
    place.rtc(&["verify", "sampled0"]).code(7);
}

/// A run that is stopped, killed or trained on writes the texts and histograms of one that never was.
#[test]
fn no_update_is_recorded_twice() {
    let place = place();
    let watching = ["--with", "samples={every: 2, prompts: ['ab'], length: 5}", "--with", "histograms={every: 3}"];
    let train = ["train", "writer.rt:placed", "--experiment", "characters.yaml", "--quiet"];
    let train = [&train[..], &watching].concat();
    place.rtc(&[&train[..], &["--run", "whole", "--until", "20"]].concat()).code(0);
    place.rtc(&[&train[..], &["--run", "on"]].concat()).code(0);
    let records = |run: &str| {
        ["samples.jsonl", "histograms.jsonl", "metrics.jsonl"].map(|file| place.read(&format!("runs/{run}/{file}")))
    };
    let short = records("on");
    // What a process that was killed behind its last checkpoint leaves: whole lines, and half a line.
    let whole = records("whole");
    fs::remove_file(place.path("runs/on/results.json")).expect("results");
    for (n, file) in ["samples.jsonl", "histograms.jsonl"].into_iter().enumerate() {
        let cut = whole[n].len() - 9;
        assert!(whole[n].starts_with(&short[n]) && cut > short[n].len());
        place.write(&format!("runs/on/{file}"), &whole[n][..cut]);
    }
    place.rtc(&[&train[..], &["--run", "on"]].concat()).code(0);
    assert_eq!(records("on")[..2], short[..2]);
    place.rtc(&["verify", "on"]).code(0);
    place.rtc(&[&train[..], &["--run", "on", "--until", "20"]].concat()).code(0);
    assert_eq!(records("on"), whole);
    place.rtc(&["verify", "on"]).code(0);
    // Lines that were lost behind the checkpoint are not left out in silence.
    fs::remove_file(place.path("runs/on/results.json")).expect("results");
    place.write(
        "runs/on/samples.jsonl",
        whole[0].lines().next().map(|line| format!("{line}\n")).expect("a line").as_str(),
    );
    place.rtc(&[&train[..], &["--run", "on"]].concat()).code(7).says("samples.jsonl is shorter");
}

#[test]
fn texts_that_can_not_be_written_are_refused_before_the_run() {
    let place = place();
    let train = |spec: &str, samples: &str| {
        let samples = format!("samples={{{samples}}}");
        let args = ["train", spec, "--experiment", "characters.yaml", "--with", samples.as_str(), "--run", "none"];
        let answer = place.rtc(&args);
        assert!(!place.path("runs/none").exists(), "{samples}");
        answer
    };
    let writer = "writer.rt:writer";
    for (samples, says) in [
        ("every: 0, prompts: [ab]", "`every` must be at least 1"),
        ("every: 1, prompts: []", "`prompts` must have 1 to 16 texts: got 0"),
        ("every: 1, prompts: [ab], length: 0", "`length` must lie between 1 and 1000: got 0"),
        ("every: 1, prompts: [ab], temperature: -1", "a number from 0 on: got -1"),
        ("every: 1, prompts: [ab], top_k: 0", "`top_k` must be at least 1"),
        ("every: 1, prompts: [ab], top_p: 1.5", "be at most 1"),
        ("every: 1, prompts: [ab], lenght: 5", "did you mean `length`?"),
        ("prompts: [ab]", "every"),
        ("every: 1, prompts: ['']", "`samples.prompts`: `` has no token"),
    ] {
        train(writer, samples).code(2).says(says);
    }
    train("writer.rt:placed", "every: 1, prompts: [ab], length: 40").code(2).says("use `length: 39`");
    place
        .train(&["--with", "samples={every: 1, prompts: ['[MAX 2 9 ]']}", "--run", "none"])
        .code(2)
        .says("are next tokens");
    place.train(&["--with", "histograms={every: 0}", "--run", "none"]).code(2).says("`every` must be at least 1");
    assert!(!place.path("runs/none").exists());
}

/// The parameters of a checkpoint by name, read without the library that writes them.
fn weights(place: &Place, run: &str) -> BTreeMap<String, Vec<f32>> {
    let file = fs::read(place.path(&format!("runs/{run}/checkpoints/last/weights.safetensors"))).expect("weights");
    let (length, rest) = file.split_at(8);
    let (head, data) = rest.split_at(u64::from_le_bytes(length.try_into().expect("eight bytes")) as usize);
    let head: Value = serde_json::from_slice(head).expect("JSON");
    let arrays = head.as_object().expect("an object").iter().filter(|(name, _)| *name != "__metadata__");
    let numbers = arrays.map(|(name, array)| {
        let at = |n: usize| array["data_offsets"][n].as_u64().expect("an offset") as usize;
        let numbers = data[at(0)..at(1)].chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().expect("four bytes")));
        (name.clone(), numbers.collect())
    });
    numbers.collect()
}

#[test]
fn histograms_are_those_of_the_weights_and_gradients_and_change_no_bit() {
    let place = Place::new();
    for accumulate in ["1", "3"] {
        let (plain, run) = (format!("plain{accumulate}"), format!("seen{accumulate}"));
        let parts = format!("batch.accumulate={accumulate}");
        let with = ["--with", parts.as_str(), "--max-steps", "20", "--seed", "5"];
        place.train(&[&["--run", plain.as_str()][..], &with].concat()).code(0);
        place.train(&[&["--run", run.as_str(), "--with", "histograms={every: 5}"][..], &with].concat()).code(0);
        assert_eq!(numbers(&place, &run), numbers(&place, &plain));
        let found = lines(&place, &format!("runs/{run}/histograms.jsonl"));
        let updates: Vec<u64> = found.iter().filter_map(|line| line["update"].as_u64()).collect();
        assert_eq!(updates, [5, 10, 15, 20]);
        let metrics = lines(&place, &format!("runs/{run}/metrics.jsonl"));
        let number = |value: &Value| value.as_f64().expect("a number");
        for line in &found {
            let parameters = line["parameters"].as_object().expect("an object");
            let squares = |of: &Value| {
                let counts = of["counts"].as_array().expect("counts");
                assert_eq!(counts.len(), 64);
                counts.iter().map(number).sum::<f64>() * number(&of["rms"]).powi(2)
            };
            let norm = parameters.values().map(|of| squares(&of["gradients"])).sum::<f64>().sqrt();
            let step = metrics.iter().find(|step| step["kind"] == "step" && step["update"] == line["update"]);
            let logged = number(&step.expect("every update is logged")["gradient_norm"]);
            assert!((norm - logged).abs() < 1e-6 * logged, "{norm} {logged}");
        }
        let (last, saved) = (&found[3]["parameters"], weights(&place, &run));
        assert_eq!(saved.keys().collect::<Vec<_>>(), last.as_object().expect("an object").keys().collect::<Vec<_>>());
        for (name, numbers) in saved {
            let of = &last[&name]["weights"];
            let (min, max) = numbers.iter().fold((f32::MAX, f32::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
            assert_eq!((number(&of["min"]), number(&of["max"])), (f64::from(min), f64::from(max)), "{name}");
            let mut counts = vec![0_u64; 64];
            for x in numbers.iter().map(|x| f64::from(*x)) {
                let share = if max > min { (x - f64::from(min)) / (f64::from(max) - f64::from(min)) } else { 0.0 };
                counts[((share * 64.0) as usize).min(63)] += 1;
            }
            assert_eq!(of["counts"], serde_json::json!(counts), "{name}");
        }
        place.rtc(&["verify", &run]).code(0);
    }
    place.rtc(&["report", "seen1", "--output", "page.html"]).code(0);
    let page = place.read("page.html");
    assert!(
        page.contains("<summary>Histograms</summary>") && page.contains("class=\"ridge\""),
        "the ridges are on the page"
    );
}

/// Histograms on Candle are copied from the host, and those of several processes are of the sum over all of them.
#[test]
fn histograms_on_another_machine_are_those_of_the_processor() {
    let place = Place::new();
    let train = ["--max-steps", "6", "--with", "histograms={every: 3}", "--quiet"];
    place.train(&[&train[..], &["--run", "here"]].concat()).code(0);
    place.train(&[&train[..], &["--run", "there", "--device", "candle"]].concat()).code(0);
    let [here, there] = ["here", "there"].map(|run| lines(&place, &format!("runs/{run}/histograms.jsonl")));
    assert_eq!((here.len(), there.len()), (2, 2));
    for (here, there) in here.iter().zip(&there) {
        for (name, of) in here["parameters"].as_object().expect("an object") {
            for kind in ["weights", "gradients"] {
                let rms = [of, &there["parameters"][name]].map(|of| of[kind]["rms"].as_f64().expect("a number"));
                assert!((rms[0] - rms[1]).abs() < 1e-4, "{name}, {kind}: {rms:?}");
            }
        }
    }
}
