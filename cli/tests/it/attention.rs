//! Maps of attention: `rtc predict --attention` and `rtc report --attention`.

use serde_json::Value;

use crate::support::Place;

/// The numbers of a list.
fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|x| x.as_f64().expect("a number")).collect()
}

#[test]
fn an_answer_comes_with_the_weights_of_every_head() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "2", "--quiet"]).code(0);
    let found = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--attention", "--json"]).code(0).json();
    let maps = found["attention"].as_array().expect("maps");
    // A step of the loop is a run; the model may halt before the third one.
    assert!((1..=3).contains(&maps.len()), "{found}");
    for (n, map) in maps.iter().enumerate() {
        let place = map["place"].as_str().expect("a place");
        assert!(place.starts_with("depthwise.self"), "{place}");
        assert_eq!(place.contains(&format!("run {}", n + 1)), maps.len() > 1, "{place}");
        let names = serde_json::json!(["START", "[MAX", "2", "9", "]", "END"]);
        assert_eq!((&map["queries"], &map["keys"]), (&names, &names));
        let heads = map["weights"].as_array().expect("heads");
        assert_eq!(heads.len(), 2);
        for query in heads.iter().flat_map(|head| head.as_array().expect("queries")) {
            let weights = numbers(query);
            assert_eq!(weights.len(), 6);
            assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{query}");
        }
    }
    assert_eq!(found["attention_notes"], serde_json::json!([]));
    // On another machine the processor computes the same maps.
    let there =
        place.rtc(&["predict", "r", "[MAX 2 9 ]", "--attention", "--json", "--device", "candle"]).code(0).json();
    assert_eq!(there["attention"], found["attention"]);
    let text = place.rtc(&["predict", "r", "[MAX 2 9 ]", "--attention"]);
    assert!(text.code(0).stdout.contains("head 2  END (5): "), "{}", text.stdout);
    place.rtc(&["predict", "r", "[MAX 2 9 ]", "--attention", "--format", "csv"]).code(2).says("are no columns");
}

#[test]
fn masked_keys_weigh_nothing() {
    let place = Place::new();
    let spec = "\
model seen { embed { width: 16 }, stack 1 { attend self { heads: 2, mask: j <= i and i - j < 3 } }, readout mean }
model unseen { embed { width: 16 }, feedforward { hidden: 8 }, readout mean }
";
    place.write("windowed.rt", spec);
    for model in ["seen", "unseen"] {
        let spec = format!("windowed.rt:{model}");
        let args = ["train", spec.as_str(), "--experiment", "tiny.yaml", "--max-steps", "1", "--run", model, "--quiet"];
        place.rtc(&args).code(0);
    }
    let found = place.rtc(&["predict", "seen", "[MAX 2 9 4 1 ]", "--attention", "--json"]).code(0).json();
    assert_eq!(found["attention"][0]["place"], "stack.0.self");
    for head in found["attention"][0]["weights"].as_array().expect("heads") {
        for (i, query) in head.as_array().expect("queries").iter().enumerate() {
            for (j, weight) in numbers(query).into_iter().enumerate() {
                assert_eq!(weight > 0.0, j <= i && i - j < 3, "{i} {j}");
            }
        }
    }
    let none = place.rtc(&["predict", "unseen", "[MAX 2 9 ]", "--attention", "--json"]).code(0).json();
    assert_eq!(none["attention_notes"], serde_json::json!(["the model has no attention"]));
}

#[test]
fn a_report_draws_maps_where_it_is_asked() {
    let place = Place::new();
    place.train(&["--run", "r", "--max-steps", "2", "--quiet"]).code(0);
    place.write("inputs.txt", "[MAX 2 9 ]\n[MIN 4 7 ]\n");
    let asked = ["report", "r", "--inputs", "inputs.txt", "--attention", "--output", "page.html", "--plots", "figures"];
    place.rtc(&asked).code(0);
    let page = place.read("page.html");
    assert!(page.contains("data-name=\"attention-tiny-1-1\"") && page.contains("data-name=\"attention-tiny-2-1\""));
    assert!(page.contains(">[MIN</text>"), "tokens stand at the axes");
    assert!(place.path("figures/attention-tiny-2-1.pdf").is_file());
    place.rtc(&["report", "r", "--output", "plain.html"]).code(0);
    assert!(!place.read("plain.html").contains("attention-tiny"));
}
