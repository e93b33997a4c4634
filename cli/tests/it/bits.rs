//! `bits_per_byte`: the loss of a text against the bytes of its file, whatever its tokens are.

use crate::support::Place;
use serde_json::Value;

/// The fields of a split with the measured loss.
fn split(found: &Value) -> (f64, f64, f64) {
    let split = &found["splits"][0];
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("a number in {split:#}"));
    (number(&split["loss"]), number(&split["scored"]), number(&split["numbers"]["bits_per_byte"]))
}

#[test]
fn bits_are_those_of_the_bytes_of_the_file() {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let text = |n: usize| format!("to be, or not  to bé: {}\n", n % 13);
    place.write("train.txt", &(0..60).map(text).collect::<String>());
    let dev: String = (60..100).map(text).collect();
    place.write("dev.txt", &dev);
    // The first token is no answer: `t`, or `to`.
    for (tokens, first) in [("bytes", 1), ("characters", 1), ("words", 2), ("blanks", 2)] {
        place.write(
            "text.yaml",
            &format!(
                "task: {{ name: language, data: {{ train: train.txt, dev: dev.txt }}, length: 23, tokens: {tokens} }}\n\
                 optimiser: {{ learning_rate: 0.01 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 16 }}\nmax_steps: 3\n\
                 evaluate: [dev]\nmetrics: [bits_per_byte]\nchoose: bits_per_byte\n"
            ),
        );
        place.rtc(&["train", "each.rt", "--experiment", "text.yaml", "--run", tokens, "--quiet"]).code(0);
        let (loss, scored, bits) = split(&place.rtc(&["eval", tokens, "--json"]).code(0).json());
        let bytes = (dev.len() - first) as f64;
        assert!((loss * scored / std::f64::consts::LN_2 / bytes - bits).abs() < 1e-9 * bits, "{tokens}: {bits}");
        // A part of the split has its part of the bytes.
        let yaml = place.read("text.yaml").replace("length: 23", "length: 23, sizes: { dev: 3 }");
        place.write("part.yaml", &yaml);
        let run = format!("{tokens}-part");
        place.rtc(&["train", "each.rt", "--experiment", "part.yaml", "--run", &run, "--quiet"]).code(0);
        let (loss, scored, bits) = split(&place.rtc(&["eval", &run, "--json"]).code(0).json());
        assert_eq!(scored, 69.0);
        let bytes = loss * scored / std::f64::consts::LN_2 / bits;
        let whole = bytes.round();
        assert!((bytes - whole).abs() < 1e-6 && whole >= 69.0 && whole < dev.len() as f64 / 2.0, "{tokens}: {bytes}");
        if tokens == "bytes" {
            assert_eq!(whole, 69.0);
        }
    }
    let table = place.rtc(&["eval", "bytes"]);
    assert!(table.code(0).stdout.contains("bits per byte"), "{}", table.stdout);
}

#[test]
fn targets_alone_count_and_other_answers_have_no_bytes() {
    let place = Place::new();
    let each = place.read("tiny.rt").replace(", tokens: start_end", "").replace("readout end", "readout each");
    place.write("each.rt", &each);
    let row = |n: usize| format!("word {n},wörd {}\n", n % 10);
    place.write("rows.csv", &("source,target\n".to_owned() + &(0..40).map(row).collect::<String>()));
    let rest = "optimiser: { learning_rate: 0.01 }\nschedule: { kind: constant }\nbatch: { size: 16 }\nmax_steps: 2\n\
                evaluate: [dev]\nmetrics: [bits_per_byte]\n";
    place.write(
        "rows.yaml",
        &format!("task: {{ name: sequences, data: {{ train: rows.csv, dev: rows.csv }} }}\n{rest}"),
    );
    place.rtc(&["train", "each.rt", "--experiment", "rows.yaml", "--run", "rows", "--quiet"]).code(0);
    let (loss, scored, bits) = split(&place.rtc(&["eval", "rows", "--json"]).code(0).json());
    assert_eq!(scored, 40.0 * 7.0, "six characters and the end");
    assert!((loss * scored / std::f64::consts::LN_2 / (40.0 * 7.0) - bits).abs() < 1e-9 * bits, "seven bytes a row");
    place.write("tiny.yaml", &(place.read("tiny.yaml") + "metrics: [bits_per_byte]\n"));
    place
        .train(&["--run", "x"])
        .code(2)
        .says("`metrics: [bits_per_byte]` needs a text whose next tokens are the answers");
}
