//! Random and mutated specs: nothing makes the front-end panic or hang, reports always render, the formatter keeps
//! meaning and is idempotent, every refusal has a place, accepted specs read back and lower to sound graphs.
//!
//! `RTC_FUZZ=1000000 cargo test --release -p rtc-tests --test it fuzz_language::` is the long run. Every input is a pure
//! function of its number, so a failure names the number and can be run alone with `RTC_FUZZ_ONE`.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rtc_base::rng::{Draws, Key};
use rtc_compiler::check::{check, check_all, names};
use rtc_compiler::diag::{Kind, Style, render};
use rtc_compiler::expr::{BinaryOp, Env, Expr, Func, Var, eval, simplify};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::syntax;
use rtc_tests::fuzz::language::{Library, catalog, examine, reads_back};

/// Longer than a machine with other work takes for a text of bounded size, and shorter than one that is not bounded takes.
const BEARABLE: Duration = Duration::from_secs(30);

/// Number of inputs of an ordinary test run.
const INPUTS: u64 = 10_000;

/// What mutations insert: pieces of the language, and what commonly goes wrong at its edges.
const PIECES: &[&str] = &[
    "model m {",
    "}",
    "{",
    "(",
    ")",
    "[",
    "]",
    ":",
    ",",
    "\n",
    "\r\n",
    " ",
    "\t",
    ".",
    "=",
    "==",
    "//",
    "///",
    "// c\n",
    "\"",
    "use \"lib.rt\"\n",
    "use \"self.rt\"\n",
    "let c = 2\n",
    "let c = c\n",
    "mask m = j <= i\n",
    "mask n(a) = m and a < i\n",
    "bias b = learn[head, i - j]\n",
    "score s(c) = c * tanh(score / c) + b\n",
    "def k(x) { n: int = 3, loop { steps: n, carry y = x, y = gelu(y) }, out y, x }\n",
    "a, state = k(state) { n: 2 }\n",
    "k(state)\n",
    "variant v of gut { ",
    "variant w of gut:v { gate none }\n",
    "remove depthwise\n",
    "remove halt\n",
    "add feedforward { hidden: 3 } after self\n",
    "depthwise.depth: 3\n",
    "depthwise.gate: mlp { hidden: 3 }\n",
    "stack 3 { ",
    "stack c { ",
    "halt token",
    "halt none\n",
    "gate mlp { hidden: 8 }\n",
    "attend self { heads: 2, mask: m }\n",
    "attend self { heads: 2, score: s(3) * learn[head] }\n",
    "attend memory { heads: 2 }\n",
    "recur depthwise { depth: 2\n",
    "recur chunkwise { size: 4\n",
    "memory { slots: 2 }\n",
    "update memory { attend chunk { heads: 2 } }\n",
    "readout memory\n",
    "readout each\n",
    "embed { width: 8 }\n",
    "width: ",
    "depth: log(length, 2)\n",
    "depth: given\n",
    "mask: none",
    "heads: ",
    "-",
    "not ",
    "and",
    "or",
    "^",
    "%",
    "/",
    "*",
    "+",
    "<",
    "<=",
    "!=",
    "i",
    "j",
    "length",
    "head",
    "step",
    "min(",
    "log(",
    "learn[",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "3",
    "9223372036854775807",
    "9223372036854775808",
    "1e308",
    "1e309",
    "0.5",
    "1.",
    "_",
    "é",
    "\u{0}",
    "\u{7f}",
    "\u{200f}",
    "漢",
    "🙂",
    "recurse balanced { arity: 3 }\n",
    "recurse balanced { arity: 2\n",
    "recurse chain { ",
    "cell grc { hidden: 3 }\n",
    "cell lstm\n",
    "cell gru\n",
    "pool mean\n",
    "leaf none\n",
    "readout root\n",
    "x[1].",
    "self[2].heads: 4\n",
    "model gut:v { }\n",
    "dropout: 0.1\n",
    "((((((((",
    "{{{{{{{{",
    "- - - -",
    "not not not ",
];

const SEEDS: &[&str] = &[
    include_str!("../../../specs/transformer.rt"),
    include_str!("../../../specs/ut.rt"),
    include_str!("../../../specs/ut_no_halt.rt"),
    include_str!("../../../specs/gut.rt"),
    include_str!("../../../specs/tlb.rt"),
    include_str!("../../../specs/gutlb.rt"),
    include_str!("../../../specs/bbt_grc.rt"),
    include_str!("../../../specs/rir_grc.rt"),
    include_str!("../../cases/models/nestings.rt"),
    include_str!("../../cases/models/choices.rt"),
    include_str!("../../cases/models/loops.rt"),
    "let c = 2\nmask causal = j <= i\nmask dilated(c) = causal and (i - j) % c^step == 0 and floor((i - j) / c^step) < c\n\
     bias hops(c) = learn[head, floor((i - j) / c^step)] // r\nbias alibi = -(i - j) * 2.0^(-(head + 1))\n\
     def layer(x) {\n    h: int\n    p: word(none, xpos) = none\n    loop {\n        steps: h\n        carry y = x\n        y = y + \
     attention(y) { heads: h, position: p }\n    }\n    out y\n}\nmodel m {\n    let h = 2\n    embed { width: 16 }\n    recur depthwise {\n        \
     depth: log(length, c)\n        inject add\n        stack h { attend self { heads: h, mask: dilated(c), bias: hops(c) } }\n        state = layer(state) { h: h, p: xpos }\n    }\n    readout max\n}\n\
     variant v of m {\n    let h = 4\n    add feedforward { hidden: 3 } after stack\n    remove inject\n}\n",
];

/// Pieces of definitions and equations.
const EQUATIONS: &[&str] = &[
    "def f(x) {\n",
    "def gate g(result, input, normed) {\n",
    "def gate g(result, input) { out lerp(sigmoid(linear(input)), result, input) }\n",
    "def inject g(state, input) { out state * input }\n",
    "def cell g(left, right) {\n",
    "def score g(left, right) { out number(left * right) }\n",
    "def score g(parent) { out number(parent) }\n",
    "def leaf g(x) { out tanh(x) }\n",
    "def pool g(x) { out mean(x) }\n",
    "def readout g(x) { out at(x, last) }\n",
    "def head g(x) { out linear(x) { to: classes } }\n",
    "def halt g(x) { out x }\n",
    "def f(x) { out f(x) }\n",
    "def f(x) { out x + x }\n",
    "f\n",
    "gate g\n",
    "inject g\n",
    "cell g\n",
    "leaf g\n",
    "out ",
    "out x\n",
    "out left\n",
    "show ",
    "show normed = ",
    "share net = ",
    "share net = mlp { hidden: 3 }\n",
    "carry m = zeros(left)\n",
    "carry h = state\n",
    "loop { steps: 3\n",
    "loop { steps: 2, grad: 1\n",
    "loop { steps: given, grad: none\n",
    "go x > 0\n",
    "until mean(x) < 0.1\n",
    "loss average(answer(state))\n",
    "loss 0.1 * average(",
    "answer(x)",
    "right(",
    "last()",
    "step",
    "linear[step](x)",
    "learn[step, width]",
    "norm[",
    "hidden: int\n",
    "hidden: int(1, 9) = width / 3\n",
    "p: probability = dropout\n",
    "f: fn\n",
    "f: fn = gelu\n",
    "k: word(one, two) = one\n",
    "m: mask = past\n",
    "b: bool = none\n",
    "a: number(0, 1) = 0.5\n",
    "state",
    "state = ",
    "state = state + ",
    "h = norm(state)\n",
    "h, k = parts(state, 2)\n",
    "state = net(state)\n",
    "x",
    "y = ",
    "x = ",
    "result",
    "input",
    "normed",
    "left",
    "right",
    "width",
    "classes",
    "none",
    "gelu",
    "silu(",
    "linear(x)",
    "linear(x) { to: 4, bias: false }",
    "linear(",
    "number(",
    "norm(",
    "norm(x) { kind: rms, parts: 2 }",
    "dropout(x, 0.5)",
    "cat(x, x)",
    "cat(",
    "channels(x, 0, 4)",
    "parts(x, 2)",
    "mean(x)",
    "mean(x) { over: width }",
    "sum(",
    "max(x)",
    "max(x, 0)",
    "running_mean(x)",
    "softmax(x)",
    "softmax(number(x))",
    "shift(x, 1)",
    "attention(x) { heads: 2 }",
    "attention(x, norm(x)) { heads: 2, key_heads: 1 }",
    "attention(x) { heads: 2, talking: true }",
    "attention(x) { heads: 2, score: sigmoid(score) * x[j, 0] }",
    "dot_product_attention(x, x, norm(x)) { heads: 2, position: rope }",
    "dot_product_attention(x, x, linear(x) { to: 12 }) { heads: 2, key_heads: 1, bias: learn[min(max(j - i, -4), 4) + 4] }",
    "dot_product_attention(x, x, linear(x) { to: 2 }) { heads: 2, position: rope }",
    "geometric_attention(x, norm(x), x, linear(x) { to: 4 }) { heads: 2 }",
    "geometric_attention(x, x, x) { heads: 1, scale: 0.5 }",
    "top_keys(x, norm(x)) { heads: 2, of: 3, direction: forward }",
    "top_keys(x, x, positions(x) % 3 == 0) { of: 2 }",
    "floor(x)",
    "ema(x) { dim: 2 }",
    "unembed(x)",
    "zeros(x)",
    "ones(",
    "stop(x)",
    "learn[width]",
    "learn[2, width] { init: zeros }",
    "learn[8] { init: constant, at: 0.1 }",
    "learn[8, 2, 2] { init: pairs_of_one, group: s4d }",
    "ema_scan(x, learn[8, 2], learn[8, 2], learn[8, 2], learn[8, 2]) { side: right, lag: 1 }",
    "shift(x, 2) { side: right }",
    "neighbours(x, sigmoid(number(x)))",
    "merge_probability(number(x), sigmoid(number(x)))",
    "layer_norm(x, learn[width], learn[width]) { eps: 0.1 }",
    "rms_norm(x, learn[8])",
    "affine(x, learn[8], learn[8])",
    "add_scaled(x, y, number(x))",
    "dropout(x, 0.5) { tied: true }",
    "atomic def d(x) { out x }\n",
    "at(x, first)",
    "at(x, before_last)",
    "when(x > 0, x, 0)",
    "when(true, x, y)",
    "when(k == one, x, -x)",
    "x^2",
    "2^x",
    "x > 0 and x < 1",
    "not (x > 0)",
    "lerp(",
    "sigmoid(",
    "mlp(x) { hidden: 3 }",
    "sandwich(x) { f: mlp { hidden: 3 } }",
    "layerscale { f: swiglu { hidden: 3 } }\n",
    "deepnorm { f: gelu, alpha: 2 }\n",
    "{ to: c }",
    "{ over: pos }",
    "{ hidden: 3, activation: relu }",
    "activation: f",
];

/// Models of definitions and equations, each with the definitions that stand before it.
static DEFINED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let text = include_str!("../../cases/models/definitions.rt");
    let mut seeds = vec![String::new()];
    for item in text.split_inclusive("\n}\n") {
        let last = seeds.last_mut().expect("there is a first one");
        last.push_str(item);
        if item.contains("\nmodel ") {
            seeds.push(String::new());
        }
    }
    seeds.pop();
    seeds
});

/// The library's own definitions under other names, each used by a model.
static LIBRARY: LazyLock<Vec<String>> = LazyLock::new(|| {
    let texts = [
        include_str!("../../../specs/lib/layers.rt"),
        include_str!("../../../specs/lib/readout.rt"),
        include_str!("../../../specs/lib/recurrence.rt"),
        include_str!("../../../specs/lib/recursion.rt"),
        include_str!("../../../specs/lib/scans.rt"),
    ];
    let definitions = texts.iter().flat_map(|text| text.split("\n}\n")).filter(|text| text.contains("def "));
    definitions.map(used).collect()
});

/// A definition of the library under another name, and a model that uses it.
fn used(definition: &str) -> String {
    let start = definition.find("def ").expect("a definition");
    let (head, body) = definition[start..].split_once('(').expect("the values of a definition");
    let words: Vec<&str> = head.split(' ').skip(1).collect();
    let name = words.last().expect("a name");
    let settings = match *name {
        "mega" => "{ shared: 4, hidden: 4, feedforward: 4, dim: 2, reach: 3 }",
        "lora" => "{ rank: 2 }",
        "sandwich" | "layerscale" => "{ f: mlp { hidden: 3 } }",
        "deepnorm" => "{ f: swiglu { hidden: 3 }, alpha: 1.5 }",
        "channelwise" => "{ count: 4 }",
        "mlp" | "feedforward" | "swiglu" => "{ hidden: 3 }",
        _ => "",
    };
    let slot = if words.len() > 1 { words[0] } else { "" };
    let values = body.split(')').next().unwrap_or_default().split(',').count();
    let apply = format!("{slot} own_{name} {settings}");
    let fold = |inside: &str| format!("{inside}\nreadout root\nhead linear");
    let inside = match slot {
        "gate" | "halt" | "inject" => {
            format!("recur depthwise {{\ndepth: 2\n{apply}\nfeedforward {{ hidden: 3 }}\n}}\nreadout mean")
        }
        "cell" => fold(&format!("recurse chain {{ {apply} }}")),
        "leaf" => fold(&format!("recurse chain {{\n{apply}\ncell gru\n}}")),
        "score" => fold(&format!("recurse beam {{\nsize: 2\ncell grc {{ hidden: 3 }}\n{apply}\n}}")),
        "pool" => fold(&format!("recurse balanced {{\narity: 3\nfeedforward {{ hidden: 3 }}\n{apply}\n}}")),
        "readout" => format!("{apply}\nhead linear"),
        "head" => format!("readout mean\n{apply}"),
        "" if values > 1 => {
            let states = ["state"].repeat(values).join(", ");
            format!("state = state * own_{name}({states})\nreadout mean")
        }
        _ => format!("{apply}\nreadout mean"),
    };
    format!("def {slot} own_{name}({body}\n}}\nmodel m {{\nembed {{ width: 4 }}\n{inside}\n}}\n")
}

/// The input of a number.
fn input(number: u64) -> String {
    let mut draws = Key::new(7).stream("fuzz").at(number).draws();
    match draws.below(20) {
        0 => random_bytes(&mut draws),
        1 | 2 => random_pieces(&mut draws),
        3..10 => {
            let seed = pick(SEEDS, &mut draws);
            mutated(seed, PIECES, &mut draws)
        }
        10..13 => {
            let seed = pick(&DEFINED, &mut draws);
            mutated(seed, EQUATIONS, &mut draws)
        }
        13..16 => {
            let seed = pick(&LIBRARY, &mut draws);
            mutated(seed, EQUATIONS, &mut draws)
        }
        _ => definitions(&mut draws),
    }
}

fn pick<'t, T>(from: &'t [T], draws: &mut Draws) -> &'t T {
    &from[draws.below(from.len() as u64) as usize]
}

fn random_bytes(draws: &mut Draws) -> String {
    let length = draws.below(200);
    let bytes: Vec<u8> = (0..length).map(|_| draws.below(256) as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn random_pieces(draws: &mut Draws) -> String {
    let length = draws.below(60);
    let pieces = if draws.below(2) == 0 { PIECES } else { EQUATIONS };
    (0..length).map(|_| *pick(pieces, draws)).collect()
}

/// A spec with a few pieces cut, doubled, moved, swapped, replaced or inserted.
fn mutated(seed: &str, pieces: &[&str], draws: &mut Draws) -> String {
    let mut text: Vec<char> = seed.chars().collect();
    for _ in 0..=draws.below(6) {
        let at = draws.below(text.len() as u64 + 1) as usize;
        let end = (at + draws.below(1 + draws_width(at)) as usize).min(text.len());
        match draws.below(7) {
            0 => {
                text.drain(at..end);
            }
            1 => {
                let copy: Vec<char> = text[at..end].to_vec();
                text.splice(at..at, copy);
            }
            2 => {
                let moved: Vec<char> = text.drain(at..end).collect();
                let to = draws.below(text.len() as u64 + 1) as usize;
                text.splice(to..to, moved);
            }
            3 => {
                let (from, to) = word_around(&text, at);
                text.splice(from..to, pick(pieces, draws).chars());
            }
            4 => {
                // Another name, number or word of the same text.
                let (from, to) = word_around(&text, at);
                let (start, end) = word_around(&text, draws.below(text.len() as u64 + 1) as usize);
                let other: Vec<char> = text[start..end].to_vec();
                text.splice(from..to, other);
            }
            5 => line(&mut text, at, draws),
            _ => {
                text.splice(at..at, pick(pieces, draws).chars());
            }
        }
    }
    text.into_iter().collect()
}

/// Doubles the line of a place, or swaps it with another.
fn line(text: &mut Vec<char>, at: usize, draws: &mut Draws) {
    let n = text[..at].iter().filter(|c| **c == '\n').count();
    let whole: String = text.iter().collect();
    let mut lines: Vec<&str> = whole.split('\n').collect();
    match draws.below(2) {
        0 => lines.insert(n, lines[n]),
        _ => {
            let other = draws.below(lines.len() as u64) as usize;
            lines.swap(n, other);
        }
    }
    *text = lines.join("\n").chars().collect();
}

/// A text with definitions drawn at random, mostly right in names and seldom in types, and a model that applies them.
fn definitions(draws: &mut Draws) -> String {
    let mut text = String::new();
    let count = 1 + draws.below(3);
    for n in 0..count {
        let values = ["x", "x", "x, y"][draws.below(3) as usize];
        let mut known: Vec<String> = values.split(", ").map(str::to_owned).collect();
        text += &format!("def d{n}({values}) {{\n");
        if draws.below(2) == 0 {
            text += "    k: int = 2 * width\n    f: fn = gelu\n    by: word(one, two) = one\n";
            known.push("k".to_owned());
        }
        equations(&mut text, &mut known, n, draws);
        text += &format!("    out {}\n}}\n", term(&known, n, 3, draws));
    }
    let width = [4, 6][draws.below(2) as usize];
    text += &format!("model m {{\nembed {{ width: {width} }}\n");
    let mut known = vec!["state".to_owned()];
    let body = ["", "stack 2 {\n", "recur depthwise {\ndepth: 2\n"][draws.below(3) as usize];
    if draws.below(2) == 0 {
        equations(&mut text, &mut known, count, draws);
    }
    text += body;
    equations(&mut text, &mut known, count, draws);
    text += &format!("state = {}\n", term(&known, count, 3, draws));
    text += if body.is_empty() { "" } else { "}\n" };
    text + "readout mean\nhead linear\n}\n"
}

/// Up to three equations, each over what is known before it.
fn equations(text: &mut String, known: &mut Vec<String>, applied: u64, draws: &mut Draws) {
    for _ in 0..draws.below(4) {
        let name = format!("v{}", draws.below(6));
        match draws.below(12) {
            0 => *text += &format!("    {name}, w = parts({}, 2)\n", term(known, applied, 1, draws)),
            1 => *text += &format!("    share {name} = mlp {{ hidden: {} }}\n", 1 + draws.below(4)),
            _ => *text += &format!("    {name} = {}\n", term(known, applied, 3, draws)),
        }
        known.push(name);
    }
}

/// A random expression over known names and the first definitions.
fn term(known: &[String], applied: u64, depth: u64, draws: &mut Draws) -> String {
    const WORDS: [&str; 18] = [
        "linear",
        "number",
        "norm",
        "mean",
        "sum",
        "max",
        "softmax",
        "running_mean",
        "tanh",
        "sigmoid",
        "relu",
        "stop",
        "ones",
        "zeros",
        "not ",
        "-",
        "exp",
        "gated",
    ];
    let choice = draws.below(if depth == 0 { 5 } else { 24 });
    let inner = |draws: &mut Draws| term(known, applied, depth.saturating_sub(1), draws);
    match choice {
        0..4 => pick(known, draws).clone(),
        4 => (*pick(&["2", "0.5", "width", "true", "learn[width]", "learn[k]", "-1"], draws)).to_owned(),
        5..9 => {
            let op = *pick(&["+", "-", "*", "/", "<", "==", "and"], draws);
            format!("({} {op} {})", inner(draws), inner(draws))
        }
        9 => format!("when({} > {}, {}, {})", inner(draws), inner(draws), inner(draws), inner(draws)),
        10..12 if applied > 0 => {
            let second = if draws.below(3) == 0 { format!(", {}", inner(draws)) } else { String::new() };
            format!("d{}({}{second})", draws.below(applied), inner(draws))
        }
        12 => format!("cat({}, {})", inner(draws), inner(draws)),
        13 => format!("channels({}, {}, {})", inner(draws), draws.below(3), 1 + draws.below(4)),
        14 => format!("linear({}) {{ to: {} }}", inner(draws), pick(&["k", "3", "width", "2 * width"], draws)),
        15 => format!("lerp({}, {}, {})", inner(draws), inner(draws), inner(draws)),
        16 => format!("mean({}) {{ over: {} }}", inner(draws), pick(&["pos", "width"], draws)),
        17 => format!("({})^{}", inner(draws), draws.below(4)),
        _ => format!("{}({})", pick(&WORDS, draws), inner(draws)),
    }
}

/// Cuts are mostly short, now and then long.
fn draws_width(at: usize) -> u64 {
    if at.is_multiple_of(7) { 120 } else { 12 }
}

fn word_around(text: &[char], at: usize) -> (usize, usize) {
    let part = |c: &char| c.is_ascii_alphanumeric() || *c == '_' || *c == '.';
    let from = text[..at].iter().rposition(|c| !part(c)).map_or(0, |n| n + 1);
    let to = text[at..].iter().position(|c| !part(c)).map_or(text.len(), |n| at + n);
    (from, to)
}

/// Random edits of the command line on a random target.
fn overridden(number: u64, text: &str, catalog: &Catalog) {
    let mut draws = Key::new(7).stream("override").at(number).draws();
    let mut piece = || PIECES[draws.below(PIECES.len() as u64) as usize];
    let edits = [format!("depthwise.{}={}", piece(), piece()), format!("{}{}", piece().trim(), piece())];
    let source = Source::new("specs/fuzz.rt", text);
    let target = names(&source).into_iter().next();
    let (_, problems, sources) = check(&Library, source, target.as_deref(), &edits, catalog);
    render(&problems, &sources, Style::Plain);
}

fn run(numbers: impl Iterator<Item = u64>) {
    let (mut total, mut accepted) = (0, 0);
    for number in numbers {
        let text = input(number);
        let outcome = std::panic::catch_unwind(|| {
            overridden(number, &text, &catalog(number));
            examine(number, &text)
        });
        match outcome {
            Ok(parsed) => accepted += u64::from(parsed),
            Err(_) => panic!("input {number}:\n{text}"),
        }
        total += 1;
    }
    assert!(
        total < 1000 || accepted * 20 > total,
        "only {accepted} of {total} inputs parse: the generator is too wild"
    );
}

#[test]
fn any_text_is_handled() {
    if let Ok(number) = std::env::var("RTC_FUZZ_ONE") {
        return run(std::iter::once(number.parse().expect("RTC_FUZZ_ONE is a number")));
    }
    let inputs = std::env::var("RTC_FUZZ").map_or(INPUTS, |n| n.parse().expect("RTC_FUZZ is a number"));
    let threads = 4;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || run((0..inputs).filter(move |n| n % threads == thread)));
        }
    });
}

/// The stack of a test thread has 2 MiB; nothing that fits into a file may exhaust it.
#[test]
fn deep_and_long_texts_are_handled() {
    let nest = |open: &str, close: &str, n: usize| format!("{}{}", open.repeat(n), close.repeat(n));
    let model = |inside: &str| format!("model m {{\nembed {{ width: 8 }}\n{inside}\nreadout mean\n}}\n");
    let chain = |n: usize| {
        let step = |n: usize| format!("mask m{n} = not m{}\n", n - 1);
        format!("mask m0 = true\n{}", (1..n).map(step).collect::<String>())
    };
    let loops = |n: usize| {
        let of = |n: usize, what: String| {
            format!("def d{n}(x) {{\nloop {{\nsteps: 1\ncarry y = x\ny = {what}\n}}\nout y\n}}\n")
        };
        let step = |n: usize| of(n, format!("d{}(y)", n - 1));
        of(0, "gelu(y)".to_owned()) + &(1..n).map(step).collect::<String>()
    };
    let texts = [
        nest("(", ")", 100_000),
        nest("model m {", "}", 20_000),
        format!("let x = {}1{}", "(".repeat(60), ")".repeat(60)),
        format!("let x = {}1", "- ".repeat(100_000)),
        format!("let x = {}1", "- ".repeat(390)),
        format!("mask x = {}true", "not ".repeat(390)),
        format!("let x = 1{}", " + 1".repeat(60_000)),
        format!("mask x = i < 1{}", " or i < 1".repeat(95)),
        format!("let x = 2{}", "^2".repeat(150)),
        format!("let x = {}1{}", "f(-(".repeat(30), "))".repeat(30)),
        model(&nest("stack 1 {\n", "}\n", 60)),
        model(&"feedforward { hidden: 2 }\n".repeat(9_000)),
        model(&"let a = 1\n".repeat(9_000)),
        format!("{}{}", chain(2_000), model("attend self { heads: 2, mask: m1999 }")),
        format!("{}{}", chain(150), model("attend self { heads: 2, mask: m149 }")),
        format!("{}{}", loops(1_000), model("state = d999(state)")),
        format!("{}{}", loops(50), model("state = d49(state)")),
        "//".repeat(100_000),
        "\n".repeat(200_000),
        "x".repeat(300_000),
    ];
    for text in &texts {
        let (specs, problems, sources) = check_all(&Library, Source::new("deep.rt", text.clone()), &Catalog::default());
        render(&problems, &sources, Style::Plain);
        specs.iter().for_each(reads_back);
        if let Ok(formatted) = syntax::format(text) {
            assert_eq!(Ok(&formatted), syntax::format(&formatted).as_ref().map_err(|_| ()), "formatting twice differs");
        }
    }
}

/// Definitions that call others several times are exponential; what comes of them is bounded, and refused in time.
#[test]
fn definitions_that_explode_are_refused_in_time() {
    let chain = |n: usize, out: &str| {
        let step = |n: usize| format!("def d{n}(x) {{ out {} }}\n", out.replace("d(", &format!("d{}(", n - 1)));
        (1..n).map(step).collect::<String>()
    };
    let model = |inside: &str| format!("model m {{\nembed {{ width: 8 }}\n{inside}\nreadout mean\n}}\n");
    let doubled = "def d0(x) { out tanh(x) }\n".to_owned() + &chain(60, "d(x) + d(x)");
    let weighted = "def d0(x) { out linear(x) }\n".to_owned() + &chain(60, "d(d(x))");
    let bound = "def d0(x) { out linear(x) }\n".to_owned()
        + &chain(60, "d(x) + 1").replace("out d", "y = d").replace(" }", "\nz = y\nout z }");
    let functions = "def p(x) {\nf: fn\ng: fn\nout f(x) + g(x) }\ndef d0(x) {\nf: fn\ng: fn\nout f(x) }\n".to_owned()
        + &chain(60, "d(x) { f: p { f: f, g: g }, g: p { f: f, g: g } }").replace("{ out", "{\nf: fn\ng: fn\nout");
    let wide = "x = cat(x, x)\n".repeat(80);
    let equations = |n: usize| {
        let line = |n: usize| format!("v{n} = v{} + state\n", n - 1);
        format!("v0 = missing(state)\n{}", (1..n).map(line).collect::<String>())
    };
    let texts = [
        (true, format!("{doubled}{}", model("d59"))),
        (true, format!("{doubled}{}", model("stack 1000 { d59 }"))),
        (true, format!("{doubled}{}", model("stack 1000 { d12 }"))),
        (true, format!("{doubled}{}", model("stack 1000 { state = d13(state) }"))),
        (true, format!("{weighted}{}", model("d59"))),
        (true, format!("{weighted}{}", model("state = d59(state)"))),
        (false, format!("{weighted}{}", model("d9"))),
        (false, format!("{bound}{}", model("d59"))),
        (true, format!("{functions}{}", model("d59 { f: gelu, g: gelu }"))),
        (true, format!("{doubled}{}", model("layerscale { f: d59 }"))),
        (true, format!("def f(x) {{\n{wide}out x\n}}\n{}", model("f"))),
        (true, model(&equations(4_000))),
        (false, format!("def d0(x) {{ out tanh(x) }}\n{}{}", chain(200, "d(x)"), model("d199"))),
        (true, format!("def d0(x) {{ out tanh(x) }}\n{}{}", chain(3_000, "d(x)"), model("d2999"))),
        (true, format!("{}def d0(x) {{ out tanh(x) }}\n{}", chain(2_000, "d(x)"), model("d1999"))),
        (true, {
            let upwards = |n: usize| format!("def d{n}(x) {{ out d{}(x) }}\n", n + 1);
            format!("{}{}", (0..3_000).map(upwards).collect::<String>(), model("d0"))
        }),
        (true, format!("def d0(x) {{ out tanh(x) }}\n{}{}", chain(250, &nested("d(", 60)), model("d249"))),
        (true, format!("def d0(x) {{ out tanh(x) }}\n{}{}", chain(250, &sum(180)), model("d249"))),
        (false, model(&format!("state = {}state", "- ".repeat(190)))),
        (true, model("x = learn[9223372036854775807, 9223372036854775807]\nstate = state + x")),
    ];
    for (n, (refused, text)) in texts.iter().enumerate() {
        let start = Instant::now();
        let (specs, problems, sources) = check_all(&Library, Source::new("many.rt", text.clone()), &Catalog::default());
        let taken = start.elapsed();
        let report = render(&problems, &sources, Style::Plain);
        assert_eq!(problems.has_errors(), *refused, "text {n}:\n{report}");
        assert!(problems.iter().all(|d| d.span.is_some()), "a refusal without a place:\n{report}");
        assert!(taken < BEARABLE, "text {n} takes {taken:?}:\n{report}");
        specs.iter().filter(|_| !refused).for_each(reads_back);
    }
}

/// A word around a value so many times.
fn nested(open: &str, n: usize) -> String {
    format!("{}x{}", open.repeat(n), ")".repeat(n))
}

/// A sum whose innermost part applies the definition below.
fn sum(n: usize) -> String {
    format!("d(x){}", " + x".repeat(n))
}

/// A random number expression (or a condition) of integers.
fn expression(draws: &mut Draws, depth: u64, condition: bool) -> Expr {
    use BinaryOp::{Add, And, Div, Eq, Ge, Gt, Le, Lt, Mul, Ne, Or, Pow, Rem, Sub};
    let pick = |ops: &[BinaryOp], draws: &mut Draws| ops[draws.below(ops.len() as u64) as usize];
    let choice = draws.below(if depth == 0 { 2 } else { 8 });
    if condition {
        return match choice {
            0 => Expr::Bool(draws.below(2) == 0),
            1 | 2 => {
                let op = pick(&[Eq, Ne, Lt, Le, Gt, Ge], draws);
                let side = |draws: &mut Draws| Box::new(expression(draws, depth.saturating_sub(1), false));
                Expr::Binary(op, side(draws), side(draws))
            }
            3 | 4 => Expr::Not(Box::new(expression(draws, depth - 1, true))),
            _ => {
                let op = pick(&[And, Or, Eq, Ne], draws);
                let side = |draws: &mut Draws| Box::new(expression(draws, depth - 1, true));
                Expr::Binary(op, side(draws), side(draws))
            }
        };
    }
    match choice {
        0 => Expr::Int(draws.below(4) as i64),
        1 => Expr::Var(Var::ALL[draws.below(5) as usize]),
        2 | 3 => Expr::Neg(Box::new(expression(draws, depth - 1, false))),
        4 => {
            let func = [Func::Min, Func::Max][draws.below(2) as usize];
            Expr::Call(func, (0..2).map(|_| expression(draws, depth - 1, false)).collect())
        }
        _ => {
            let op = pick(&[Add, Sub, Mul, Div, Rem, Pow], draws);
            let side = |draws: &mut Draws| expression(draws, depth - 1, false);
            let (a, b) = (side(draws), side(draws));
            // A power is whole where its exponent is never negative.
            let b = if op == Pow { Expr::Call(Func::Max, vec![b, Expr::Int(0)]) } else { b };
            Expr::Binary(op, Box::new(a), Box::new(b))
        }
    }
}

/// Printing and reading back gives the simplified expression, and simplifying keeps every value.
#[test]
fn expressions_read_back_and_simplify_soundly() {
    let mut compared = 0;
    for number in 0..20_000 {
        let mut draws = Key::new(7).stream("expression").at(number).draws();
        let expr = expression(&mut draws, 5, true);
        let simple = simplify(expr.clone());
        assert_eq!(simplify(simple.clone()), simple, "simplifying twice differs: {expr}");
        let mut value = || draws.below(9) as i64 - 2;
        let env = Env { i: value(), j: value(), step: value(), length: value(), head: value(), given: None };
        if let Ok(expected) = eval(&expr, &env) {
            assert_eq!(eval(&simple, &env), Ok(expected), "{expr} became {simple}");
        }
        let text =
            format!("model m {{\nembed {{ width: 2 }}\nattend self {{ heads: 1, mask: {expr} }}\nreadout mean\n}}\n");
        let (found, problems, sources) = check(&Library, Source::new("e.rt", text), None, &[], &Catalog::default());
        let Some(found) = found else {
            let report = render(&problems, &sources, Style::Plain);
            let explained = [Kind::OutOfRange, Kind::TooLong, Kind::TooDeep];
            assert!(problems.iter().all(|d| explained.contains(&d.kind)), "{report}");
            continue;
        };
        let mask = found.root.child("attend").and_then(|a| a.expr("mask"));
        assert_eq!(mask, Some(&simple), "{expr} reads back differently");
        compared += 1;
    }
    assert!(compared > 10_000, "only {compared} expressions are accepted");
}
