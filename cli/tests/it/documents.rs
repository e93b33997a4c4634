//! `documents`: rows of a text that hold several documents, for models that keep them apart.

use serde_json::Value;

use crate::support::Place;

const SPEC: &str = "\
mask own(d) = j <= i and d[i] == d[j]

/// A model that sees the document of a token alone, as small as it gets.
model apart {
    embed { width: 16 }
    document = given(positions(state))
    state = state + attention(norm(state)) { heads: 2, mask: own(document), bias: -0.2 * (i - j) }
    feedforward { hidden: 32 }
    state = state + attention(norm(state)) { heads: 2, mask: own(document) }
    readout each
}

/// All that stands before a token in its row.
variant joined of apart { apart.state[1] = state + attention(norm(state)) { heads: 2, mask: past } }
";

/// A folder with a text of lines, each a document, and an experiment.
fn place(more: &str) -> Place {
    let place = Place::new();
    place.write("apart.rt", SPEC);
    let words = ["one", "two", "three", "four", "five", "six", "seven"];
    let line =
        |n: usize| (0..2 + n % 5).map(|k| words[(n * n + k * (1 + n % 3)) % 7]).collect::<Vec<_>>().join(" ") + "\n";
    place.write("text.txt", &(0..300).map(line).collect::<String>());
    place.write(
        "text.yaml",
        &format!(
            "task: {{ name: language, data: {{ train: text.txt, dev: 10% }}, tokens: words, length: 24, documents: \"\\n\" }}\n\
             optimiser: {{ learning_rate: 0.01, clip: 1 }}\nschedule: {{ kind: constant }}\nbatch: {{ size: 8 }}\n\
             epochs: 2\nlog_every: 1\nevaluate: [dev]\n{more}"
        ),
    );
    place
}

const TRAIN: [&str; 6] = ["train", "apart.rt:apart", "--experiment", "text.yaml", "--quiet", "--run"];

/// The logits of every token of a text, by names.
fn logits(place: &Place, run: &str, text: &str) -> Vec<Value> {
    let answer = place.rtc(&["predict", run, text, "--logits", "--json"]).code(0).json();
    let rows = answer["logits"].as_array().or_else(|| answer["predictions"][0]["logits"].as_array());
    rows.unwrap_or_else(|| panic!("{answer:#}")).clone()
}

#[test]
fn a_document_is_answered_as_if_it_stood_by_itself() {
    let place = place("samples: { every: 10, length: 6, temperature: 0, prompts: ['one two', 'six\\none two'] }\n");
    let seen = place.rtc(&["task", "check", "text.yaml"]);
    assert!(seen.code(0).stdout.contains("documents   at most in a row: "), "{}", seen.stdout);
    place.rtc(&[&TRAIN[..], &["r"]].concat()).code(0);
    let alone = logits(&place, "r", "four five six");
    let behind = logits(&place, "r", r"one two three\nseven\nfour five six");
    assert_eq!((alone.len(), behind.len()), (3, 9));
    assert_eq!(behind[6..], alone[..], "a document sees itself alone");
    assert_ne!(behind[4], logits(&place, "r", "one")[0]);
    // What is written goes on with the document.
    let text = |prompt: &str, more: &[&str]| {
        let asked = ["generate", "r", prompt, "--length", "6", "--temperature", "0"];
        place.rtc(&[&asked, more].concat()).code(0).stdout.trim().replace(r"six\n", "").replace("six\n", "")
    };
    let own = text("one two", &[]);
    assert_eq!(text(r"six\none two", &[]), own);
    assert_eq!(text(r"six\none two", &["--whole-row"]), own);
    place.rtc(&["generate", "r", "one two"]).code(0).is_quiet_about("computed again");
    let samples = place.read("runs/r/samples.jsonl");
    let samples: Vec<Value> = samples.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!samples.is_empty() && samples.chunks(2).all(|two| two[0]["text"] == two[1]["text"]), "{samples:#?}");
    place.rtc(&["verify", "r", "--again"]).code(0);
    // Without documents to keep apart the same data trains other models, and those answer by all that stands before.
    place.rtc(&["train", "apart.rt:joined", "--experiment", "text.yaml", "--quiet", "--run", "j"]).code(0);
    let alone = logits(&place, "j", "four five six");
    assert_ne!(logits(&place, "j", r"one two three\nseven\nfour five six")[6..], alone[..]);
    place.rtc(&["export", "r", "--format", "torch", "--output", "exported"]).code(0);
    assert!(
        place.read("exported/model.py").contains("document = rows[\"length\"].pack("),
        "the module makes the numbers"
    );
    let refused = place.rtc(&["export", "r", "--format", "onnx", "--output", "exported.onnx"]);
    refused.code(2).says("an ONNX file has the tokens alone");
}

#[test]
fn a_run_with_documents_goes_on_to_the_same_bits() {
    let place = place("");
    place.rtc(&[&TRAIN[..], &["whole", "--until", "24"]].concat()).code(0);
    place.rtc(&[&TRAIN[..], &["parts"]].concat()).code(0);
    place.rtc(&[&TRAIN[..], &["parts", "--until", "24"]].concat()).code(0);
    assert!(place.contents("whole") == place.contents("parts"), "the bits differ");
    // The token that ends a document is a part of the data.
    let other = place.read("text.yaml").replace("documents: \"\\n\"", "documents: one");
    place.write("text.yaml", &other);
    place.rtc(&[&TRAIN[..], &["whole"]].concat()).code(7).says(r"task.documents was \n and is one now");
}

#[test]
fn documents_that_are_none_are_refused() {
    let place = place("");
    let good = place.read("text.yaml");
    let task = "documents: \"\\n\"";
    for (from, to, code, why) in [
        (task, "documents: \"\"", 2, "`documents` is empty: name the token that ends a document"),
        (task, "documents: nine", 4, "`task.documents`: `nine` is no token of the training text"),
        (task, "documents: ' '", 4, "`task.documents`: ` ` is no token, since blanks are between tokens"),
        (task, "documents: '<end>'", 4, "`task.documents`: `<end>` is 3 tokens, and one ends a document"),
        (
            "name: language",
            "name: masked",
            2,
            "`documents` is for `language`: in `masked` the end of a document may be hidden",
        ),
        (", documents: \"\\n\"", "", 4, "the task has no `documents`: name the token that ends a document"),
    ] {
        assert!(good.contains(from), "{from}");
        place.write("text.yaml", &good.replace(from, to));
        place.rtc(&[&TRAIN[..], &["x"]].concat()).code(code).says(why);
    }
    place.write("table.yaml", &good.replace("name: language", "name: table"));
    let table = place.rtc(&["train", "apart.rt:apart", "--experiment", "table.yaml", "--run", "x"]);
    table.code(2).says("`documents` is for `language`, whose rows hold several documents");
    place.write("listops.yaml", "task: { name: listops, documents: a }\nmax_steps: 1\n");
    place.rtc(&["train", "gut", "--experiment", "listops.yaml", "--run", "x"]).code(2).says("`documents`");
    // A value in another form.
    place.write("text.yaml", &good);
    for (own, run) in [("given(0)", "row"), ("given(state)", "vector"), ("given(positions(state)) { ids: 9 }", "ids")] {
        let body = if own == "given(state)" {
            "state = state + document"
        } else {
            "state = state + when(document > 0, 0.1, 0)"
        };
        let body = if run == "ids" { "state = state + embedding(document)" } else { body };
        let spec =
            format!("model m {{\n    embed {{ width: 8 }}\n    document = {own}\n    {body}\n    readout each\n}}\n");
        place.write("m.rt", &spec);
        let refused = place.rtc(&["train", "m.rt", "--experiment", "text.yaml", "--run", run]);
        refused.code(4).says("takes `document` in another form than a number of every token, which `documents` gives");
    }
}
