//! `--device candle`: the same plans on tensors of Candle, beside the processor.

use serde_json::Value;

use crate::support::Place;

/// The numbers of this name in the lines of the metrics of a run.
fn metrics(place: &Place, run: &str, name: &str) -> Vec<f64> {
    let text = place.read(&format!("runs/{run}/metrics.jsonl"));
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object per line"));
    lines.filter_map(|line| line[name].as_f64()).collect()
}

#[test]
fn a_training_follows_that_of_the_processor() {
    let place = Place::new();
    let train = ["--max-steps", "8", "--with", "log_every=1", "--quiet"];
    place.train(&[&train[..], &["--run", "here"]].concat()).code(0);
    place.train(&[&train[..], &["--run", "there", "--device", "candle"]].concat()).code(0);
    let [here, there] = ["here", "there"].map(|run| metrics(&place, run, "loss"));
    assert!(here.len() >= 8 && here.len() == there.len(), "{here:?} {there:?}");
    let far = here.iter().zip(&there).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(far < 1e-5, "{here:?} {there:?}");
    assert!(place.read("runs/there/run.json").contains("candle cpu"), "a run records where it was trained");

    // Either device reads the run of the other.
    for device in ["cpu", "candle"] {
        let answers = ["here", "there"].map(|run| {
            let answer =
                place.rtc(&["predict", run, "[MAX 2 9 ]", "--all", "--json", "--device", device]).code(0).json();
            answer["logits"]["9"].as_f64().expect("a logit")
        });
        assert!((answers[0] - answers[1]).abs() < 1e-4, "{device}: {answers:?}");
        place.rtc(&["eval", "there", "--device", device]).code(0);
    }
    place.rtc(&["report", "there", "--device", "candle"]).code(0);
}

#[test]
fn what_candle_does_not_do_is_refused() {
    let place = Place::new();
    for precision in ["bf16", "tf32"] {
        let refused = place.train(&["--device", "candle", "--precision", precision]);
        refused.code(2).says("Candle multiplies in single precision");
    }
    place.train(&["--device", "candle", "--launch", "direct"]).code(2).says("`--launch` is for `--device cuda`");
    for device in ["candle-cuda", "candle-metal"] {
        if !cfg!(feature = "candle-cuda") && !cfg!(feature = "candle-metal") {
            place.train(&["--device", device]).code(2).says(&format!("build it with `--features {device}`"));
        }
    }
}
