//! `rtc check --emit types`: what every name of a model stands for.

use serde_json::json;

use crate::support::Place;

const SPEC: &str = "\
def doubled(x) {
    wide = linear(x) { to: 2 * width }
    out x + linear(silu(wide))
}

model small {
    embed { width: 8 }
    stack 3 { state = doubled(norm(state)) }
    far = max(abs(number(state)), 1)
    loop {
        steps: 2
        carry z = zeros(state)
        z = z + doubled(state)
    }
    readout each
}

variant plain of small { replace stack by feedforward { hidden: 16 } }
";

#[test]
fn names_have_types_and_weights() {
    let place = Place::new();
    place.write("small.rt", SPEC);
    let told = place.rtc(&["check", "small.rt", "--emit", "types"]);
    let told = &told.code(0).stdout;
    for line in [
        "small\n",
        "  stack.0.state.wide  real[pos, 16]  144 parameters\n",
        "  stack               real[pos, 8]   888 parameters\n",
        "  far                 real[pos]\n",
        "  loop.wide           real[pos, 16]  144 parameters\n",
        "small:plain\n",
        "  feedforward  real[pos, 8]   296 parameters\n",
    ] {
        assert!(told.contains(line), "{line}in\n{told}");
    }
    assert!(!told.contains("stack.1"), "copies are alike:\n{told}");
    let rows = place.rtc(&["check", "small.rt:plain", "--emit", "types", "--json"]).code(0).json();
    let names = rows[0]["types"][0]["names"].as_array().expect("names").clone();
    assert!(names.contains(&json!({ "path": "feedforward", "type": "real[pos, 8]", "parameters": "296" })), "{rows:#}");
    assert!(place.rtc(&["check", "small.rt", "--json"]).code(0).json()[0].get("types").is_none());
    place.write("wrong.rt", &SPEC.replace("2 * width", "2.5"));
    place.rtc(&["check", "wrong.rt", "--emit", "types"]).code(3);
    place.rtc(&["compile", "small.rt", "-o", "small.rtir"]).code(0);
    place.rtc(&["check", "small.rtir", "--emit", "types"]).code(2).says("a graph has no names");
}
