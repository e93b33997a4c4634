//! `begin`: a token before every window, prompt and text of a task.

use serde_json::Value;

use crate::support::Place;

const SPEC: &str = "\
/// A model of the tokens before, as small as it gets.
model small {
    embed { width: 16 }
    state = state + attention(norm(state)) { heads: 2, mask: past, position: rope }
    feedforward { hidden: 32 }
    readout each
}
";

/// A folder with a text, and experiments on it with and without a token before it.
fn place() -> Place {
    let place = Place::new();
    place.write("small.rt", SPEC);
    place.write("text.txt", &"one two three four\nfive three one\n".repeat(60));
    for (name, begin) in [("with", ", begin: \"\\n\""), ("without", "")] {
        let task = format!("name: language, data: {{ train: text.txt, dev: 10% }}, tokens: words, length: 12{begin}");
        place.write(
            &format!("{name}.yaml"),
            &format!(
                "task: {{ {task} }}\noptimiser: {{ learning_rate: 0.01 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 8 }}\nepochs: 2\nevaluate: [dev]\n\
                 samples: {{ every: 4, length: 5, temperature: 0, prompts: ['one two'] }}\n"
            ),
        );
    }
    place
}

/// The answers of a model to a text.
fn logits(place: &Place, model: &[&str], text: &str) -> Vec<Value> {
    let answer = place.rtc(&[&["predict", model[0], text, "--logits", "--json"], &model[1..]].concat()).code(0).json();
    let rows = answer["logits"].as_array().or_else(|| answer["predictions"][0]["logits"].as_array());
    rows.unwrap_or_else(|| panic!("{answer:#}")).clone()
}

#[test]
fn every_text_begins_with_the_token() {
    let place = place();
    place.rtc(&["train", "small.rt", "--experiment", "with.yaml", "--quiet", "--run", "w"]).code(0);
    let weights = "runs/w/checkpoints/best/weights.safetensors";
    // The same weights for a task without a token before its texts.
    let (w, o) = (&["w"][..], &["small.rt", "--experiment", "without.yaml", "--weights", weights][..]);
    let with = logits(&place, w, "one two three");
    assert_eq!(with.len(), 4);
    assert_eq!(with, logits(&place, o, r"\none two three"));
    assert_ne!(with[1..], logits(&place, o, "one two three")[..]);
    let text = |model: &[&str], prompt: &str| {
        let stop = ["generate", model[0], prompt, "--length", "6", "--temperature", "0", "--stop", "four", "--json"];
        place.rtc(&[&stop, &model[1..]].concat()).code(0).json()["tokens"].clone()
    };
    assert_eq!(text(w, "one two"), text(o, r"\none two"));
    let samples = place.read("runs/w/samples.jsonl");
    let sample: Value = serde_json::from_str(samples.lines().last().expect("a line")).expect("JSON");
    assert_eq!(sample["prompt"], "one two");
    place.rtc(&["export", "w", "--format", "torch", "--output", "exported"]).code(0);
    let config: Value = serde_json::from_str(&place.read("exported/config.json")).expect("JSON");
    let vocabulary = config["vocabulary"].as_array().expect("a list");
    let id = vocabulary.iter().position(|name| name == r"\n").expect("the end of a line");
    assert_eq!(config["tokens"]["before"], serde_json::json!([id]), "{config:#}");
    // The first token of the text is an answer, too.
    let tokens = |name: &str| {
        let found = place.rtc(&["task", "check", &format!("{name}.yaml"), "--json"]).code(0).json();
        found["splits"][0]["tokens"].as_u64().expect("a number")
    };
    assert_eq!(tokens("with"), tokens("without") + 1);
}

#[test]
fn tokens_that_cannot_begin_a_text_are_refused() {
    let place = place();
    let good = place.read("with.yaml");
    for (from, to, code, why) in [
        ("begin: \"\\n\"", "begin: \"\"", 2, "`begin` is empty: name the token with which texts begin"),
        ("begin: \"\\n\"", "begin: nine", 4, "`task.begin`: `nine` is no token of the training text"),
        ("begin: \"\\n\"", "begin: one two", 4, "`task.begin`: `one two` is 2 tokens, and one begins a text"),
        (
            "name: language",
            "name: masked",
            2,
            "`begin` is for `language`: rows of the other tasks begin with their own",
        ),
    ] {
        assert!(good.contains(from), "{from}");
        place.write("bad.yaml", &good.replace(from, to));
        place.rtc(&["train", "small.rt", "--experiment", "bad.yaml", "--run", "x"]).code(code).says(why);
    }
}
