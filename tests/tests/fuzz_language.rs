//! Random and mutated specs: nothing makes the front-end panic or hang, reports always render, the formatter keeps
//! meaning and is idempotent, accepted specs read back and lower to sound graphs.
//!
//! `RTC_FUZZ=1000000 cargo test --release -p rtc-tests --test fuzz_language` is the long run. Every input is a pure
//! function of its number, so a failure names the number and can be run alone with `RTC_FUZZ_ONE`.

use rtc_compiler::check::{Loader, check, check_all, names};
use rtc_compiler::diag::{Kind, Style, json, render};
use rtc_compiler::expr::{BinaryOp, Env, Expr, Func, Var, eval, simplify};
use rtc_compiler::ir::verify;
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_compiler::source::Source;
use rtc_compiler::{pipeline, spec, syntax};
use rtc_runtime::rng::{Draws, Key};

/// Number of inputs of an ordinary test run.
const INPUTS: u64 = 20_000;

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
    "block k(a) { feedforward { hidden: a } }\n",
    "k(3)\n",
    "k(c)\n",
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
    include_str!("../../specs/transformer.rt"),
    include_str!("../../specs/ut.rt"),
    include_str!("../../specs/ut_no_halt.rt"),
    include_str!("../../specs/gut.rt"),
    include_str!("../../specs/tlb.rt"),
    include_str!("../../specs/gutlb.rt"),
    include_str!("../../specs/bbt_grc.rt"),
    include_str!("../../specs/rir_grc.rt"),
    include_str!("../cases/models/nestings.rt"),
    "let c = 2\nmask causal = j <= i\nmask dilated(c) = causal and (i - j) % c^step == 0 and (i - j) / c^step < c\n\
     bias hops(c) = learn[head, (i - j) / c^step] // r\nbias alibi = -(i - j) * 2.0^(-(head + 1))\n\
     block layer(h, p) {\n    attend self { heads: h, position: p, mask: dilated(c), bias: hops(c) }\n    \
     feedforward { hidden: 4 * 16 }\n}\nmodel m {\n    let h = 2\n    embed { width: 16 }\n    recur depthwise {\n        \
     depth: log(length, c)\n        inject add\n        stack h { layer(h, xpos) }\n    }\n    readout max\n}\n\
     variant v of m {\n    let h = 4\n    add feedforward { hidden: 3 } after stack\n    remove inject\n}\n",
];

/// Files that specs may use: a good one, a wrong one, and one that leads back.
struct Library;

impl Loader for Library {
    fn load(&self, path: &str) -> Result<String, String> {
        match path {
            "lib.rt" => {
                Ok("mask near = i - j < 4\nblock two() { k2() }\nblock k2() { feedforward { hidden: 2 } }\n".to_owned())
            }
            "ut.rt" => Ok(SEEDS[1].to_owned()),
            "self.rt" => Ok("use \"self.rt\"\nmodel { }".to_owned()),
            _ => Err("not found".to_owned()),
        }
    }
}

/// The input of a number.
fn input(number: u64) -> String {
    let mut draws = Key::new(7).stream("fuzz").at(number).draws();
    match draws.below(10) {
        0 => random_bytes(&mut draws),
        1 => random_pieces(&mut draws),
        _ => mutated(&mut draws),
    }
}

fn random_bytes(draws: &mut Draws) -> String {
    let length = draws.below(200);
    let bytes: Vec<u8> = (0..length).map(|_| draws.below(256) as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn random_pieces(draws: &mut Draws) -> String {
    let length = draws.below(60);
    (0..length).map(|_| PIECES[draws.below(PIECES.len() as u64) as usize]).collect()
}

/// A shipped spec with a few pieces cut, doubled, moved, replaced or inserted.
fn mutated(draws: &mut Draws) -> String {
    let mut text: Vec<char> = SEEDS[draws.below(SEEDS.len() as u64) as usize].chars().collect();
    for _ in 0..=draws.below(6) {
        let at = draws.below(text.len() as u64 + 1) as usize;
        let end = (at + draws.below(1 + draws_width(at)) as usize).min(text.len());
        match draws.below(5) {
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
                let piece = PIECES[draws.below(PIECES.len() as u64) as usize];
                text.splice(from..to, piece.chars());
            }
            _ => {
                let piece = PIECES[draws.below(PIECES.len() as u64) as usize];
                text.splice(at..at, piece.chars());
            }
        }
    }
    text.into_iter().collect()
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

/// Runs the whole front-end on one input and asserts what must hold for every text.
fn examine(number: u64, text: &str) -> bool {
    use Objective::{Classify, Each, Number, Pair, Several};
    let objectives = [None, Some(Classify), Some(Pair), Some(Each), Some(Number), Some(Several)];
    let catalog = Catalog { objective: objectives[(number % 6) as usize], ..Catalog::default() };
    let (specs, problems, sources) = check_all(&Library, Source::new("specs/fuzz.rt", text), &catalog);
    let style = if number.is_multiple_of(2) { Style::Plain } else { Style::Colour };
    let report = render(&problems, &sources, style);
    assert_eq!(report.is_empty(), problems.is_empty());
    if number.is_multiple_of(16) {
        json(&problems, &sources);
    }
    for spec in &specs {
        reads_back(spec);
        lowers(spec, &catalog);
    }
    overridden(number, text, &catalog);
    if let Ok(formatted) = syntax::format(text) {
        let again = syntax::format(&formatted).expect("formatted text has no syntax error");
        assert_eq!(formatted, again, "formatting twice differs");
        let (same, after, _) = check_all(&Library, Source::new("specs/fuzz.rt", formatted), &catalog);
        assert_eq!(after.len(), problems.len(), "formatting changes the problems");
        assert!(after.iter().map(|d| d.kind).eq(problems.iter().map(|d| d.kind)), "formatting changes the problems");
        assert_eq!(same.len(), specs.len());
        for (a, b) in specs.iter().zip(&same) {
            assert!(a.root.same(&b.root) && a.doc == b.doc, "formatting changes the meaning");
        }
        return true;
    }
    false
}

fn reads_back(found: &spec::Spec) {
    let text = spec::text(found);
    let (again, problems, sources) = check(&Library, Source::new("t.rt", text.clone()), None, &[], &Catalog::default());
    let report = render(&problems, &sources, Style::Plain);
    let again = again.unwrap_or_else(|| panic!("the text form is refused:\n{report}"));
    assert!(found.root.same(&again.root), "the text form gives another spec:\n{text}");
    assert_eq!(spec::hash(found), spec::hash(&again));
    let shown = spec::text_with_origins(found);
    let (again, ..) = check(&Library, Source::new("t.rt", shown), None, &[], &Catalog::default());
    assert!(again.is_some_and(|again| again.root.same(&found.root)), "the shown form gives another spec");
}

/// What the front-end accepts becomes a sound graph.
fn lowers(found: &spec::Spec, catalog: &Catalog) {
    let graph = pipeline::forward(found, &Binding::from(catalog)).unwrap_or_else(|invalid| panic!("{invalid}"));
    assert!(verify::verify(&graph).is_ok(), "the graph is broken");
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
        let outcome = std::panic::catch_unwind(|| examine(number, &text));
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
    let blocks = |n: usize| {
        let step = |n: usize| format!("block b{n}() {{ stack 1 {{ b{}() }} }}\n", n - 1);
        format!("block b0() {{ feedforward {{ hidden: 2 }} }}\n{}", (1..n).map(step).collect::<String>())
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
        format!("{}{}", blocks(1_000), model("b999()")),
        format!("{}{}", blocks(50), model("b49()")),
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
            let side = |draws: &mut Draws| Box::new(expression(draws, depth - 1, false));
            Expr::Binary(op, side(draws), side(draws))
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
