//! The masks and biases of `specs/lib/masks.rt`: what they show, what they add, what of them is proved; and attention to few
//! keys against attention to all of them.

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::causality::leaks;
use rtc_compiler::expr::{BinaryOp, Env, EvalError, Expr, ScalarValue, Var, eval, reading, tables};
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::spec::Block;
use rtc_exec::Halting;
use rtc_tests::models::{self, VOCAB, binding};
use rtc_tests::numeric::{Arrays, batch, check_gradients, differentiated, executor, graph, run, weights};

/// A model whose attention has the given fields.
fn model(fields: &str) -> String {
    format!(
        "use \"lib/masks.rt\"\nmodel m {{ embed {{ width: 8 }}
         recur depthwise {{ depth: 4
           attend self {{ heads: 2, {fields} }} }}
         readout each }}"
    )
}

fn attend(block: &Block) -> Option<&Block> {
    if block.slot == "attend" { Some(block) } else { block.children.iter().find_map(attend) }
}

/// The expression of a field of such a model.
fn expression(field: &str, value: &str) -> Expr {
    let fields = if field == "mask" { format!("mask: {value}") } else { format!("mask: past, {field}: {value}") };
    let spec = models::parse(&model(&fields));
    attend(&spec.root).and_then(|block| block.expr(field)).expect("the field is an expression").clone()
}

/// Which keys the queries of a row see, a line for each query.
fn shown(mask: &Expr, length: i64, step: i64) -> Vec<String> {
    let sees =
        |i: i64, j: i64| eval(mask, &Env { i, j, step, length, ..Env::default() }) == Ok(ScalarValue::Bool(true));
    let line = |i: i64| (0..length).map(|j| if sees(i, j) { '1' } else { '0' }).collect();
    (0..length).map(line).collect()
}

/// For C = 2 and a row of 8, then for C = 3 and a row of 9: the masks of all steps side by side.
const TWOS: &str = "
    10000000 10000000 10000000
    11000000 01000000 01000000
    01100000 10100000 00100000
    00110000 01010000 00010000
    00011000 00101000 10001000
    00001100 00010100 01000100
    00000110 00001010 00100010
    00000011 00000101 00010001";
const THREES: &str = "
    100000000 100000000
    110000000 010000000
    111000000 001000000
    011100000 100100000
    001110000 010010000
    000111000 001001000
    000011100 100100100
    000001110 010010010
    000000111 001001001";

#[test]
fn dilated_masks_are_the_printed_ones() {
    for (c, length, steps, printed) in [(2, 8, 3, TWOS), (3, 9, 2, THREES)] {
        let mask = expression("mask", &format!("sliding_dilated({c})"));
        let masks: Vec<Vec<String>> = (0..steps).map(|step| shown(&mask, length, step)).collect();
        let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for (i, line) in lines.iter().enumerate() {
            let found: Vec<&str> = masks.iter().map(|mask| mask[i].as_str()).collect();
            assert_eq!(found.join(" "), *line, "query {i} for chunks of {c}");
        }
        // Together they show the last query every key, and each once.
        let mut seen = vec![0; length as usize];
        *seen.last_mut().expect("rows have tokens") = 1;
        for mask in masks.iter().rev() {
            let mut next = vec![0; length as usize];
            for (i, line) in mask.iter().enumerate() {
                line.bytes().enumerate().filter(|(_, key)| *key == b'1').for_each(|(j, _)| next[j] += seen[i]);
            }
            seen = next;
        }
        assert!(seen.iter().all(|paths| *paths == 1), "{seen:?}");
    }
}

#[test]
fn hops_count_the_keys_of_a_query() {
    for (c, length) in [(2, 8), (3, 9)] {
        let mask = expression("mask", &format!("sliding_dilated({c})"));
        let spec = models::parse(&model(&format!("mask: sliding_dilated({c}), bias: hops({c})")));
        let bias = attend(&spec.root).and_then(|block| block.expr("bias")).expect("a bias").clone();
        let indices: Vec<Expr> = tables(&bias).uses[0].1.to_vec();
        for step in 0..3 {
            for i in 0..length {
                let at = |j| Env { i, j, step, length, head: 1, ..Env::default() };
                let seen = (0..length).filter(|j| eval(&mask, &at(*j)) == Ok(ScalarValue::Bool(true)));
                // From the query back: hop 0, 1, ...
                for (hop, j) in seen.collect::<Vec<_>>().into_iter().rev().enumerate() {
                    assert_eq!(eval(&indices[0], &at(j)), Ok(ScalarValue::Int(1)));
                    assert_eq!(eval(&indices[1], &at(j)), Ok(ScalarValue::Int(hop as i64)));
                }
            }
        }
    }
}

#[test]
fn library_masks_are_proved_where_they_hide_what_comes() {
    for (mask, causal) in [
        ("causal", true),
        ("window(3)", true),
        ("block(4)", true),
        ("sliding_dilated(2)", true),
        ("sliding_dilated(5)", true),
        ("prefix(3)", false),
    ] {
        let spec =
            models::parse(&model(&format!("mask: {mask}")).replace("readout each", "readout each { sees: all }"));
        let forward = pipeline::forward(&spec, &binding(Objective::Each)).expect("the model lowers");
        assert_eq!(leaks(&forward, "logits").is_empty(), causal, "{mask}");
    }
    for bias in ["hops(2)", "alibi(2)", "t5", "kerple_log", "kerple_power"] {
        let mask = if bias == "hops(2)" { "sliding_dilated(2)" } else { "causal" };
        models::parse(&model(&format!("mask: {mask}, bias: {bias}")));
    }
}

/// The value of a bias at a distance, with learned numbers by their table.
fn value(bias: &Expr, head: i64, distance: i64, learned: &[f64]) -> f64 {
    let env = Env { i: distance, j: 0, head, ..Env::default() };
    let mut at = |table: usize, _: &[Expr]| learned.get(table).copied().ok_or(EvalError::OutsideTable);
    let ScalarValue::Float(value) = reading(bias, &env, &mut at).expect("it has a value") else { panic!("{bias}") };
    value
}

#[test]
fn library_biases_are_as_published() {
    // Slopes for 8 heads, and for 12: those of 8 heads, then every second one of those of 16.
    let eight: Vec<f64> = (1..=8).map(|n| -f64::from(n)).collect();
    let twelve: Vec<f64> = eight.iter().copied().chain([-0.5, -1.5, -2.5, -3.5]).collect();
    for (heads, powers) in [(8, eight), (12, twelve), (1, vec![-8.0]), (2, vec![-4.0, -8.0])] {
        let bias = expression("bias", &format!("alibi({heads})"));
        for (head, power) in powers.into_iter().enumerate() {
            let found = value(&bias, head as i64, 3, &[]);
            assert!((found + 3.0 * 2_f64.powf(power)).abs() < 1e-12, "head {head} of {heads}: {found}");
        }
    }
    let t5 = expression("bias", "t5");
    let bucket = tables(&t5).uses[0].1[1].clone();
    for distance in 0..400 {
        let wide = 16 + (16.0 * (distance as f64 / 16.0).ln() / 8_f64.ln()).floor() as i64;
        let expected = if distance < 16 { distance } else { wide.min(31) };
        let found = eval(&bucket, &Env { i: distance, ..Env::default() });
        assert_eq!(found, Ok(ScalarValue::Int(expected)), "distance {distance}");
    }
    // Learned numbers start between 0 and 1; p lies between 0 and 2.
    let log = value(&expression("bias", "kerple_log"), 0, 4, &[0.7, 0.3]);
    assert!((log + 1.4 * (1.0 + 0.3 * 4.0_f64).ln()).abs() < 1e-12);
    let power = value(&expression("bias", "kerple_power"), 0, 4, &[0.3, 0.7]);
    assert!((power + 0.3 * 4_f64.powf(1.4)).abs() < 1e-12);
    let least = value(&expression("bias", "kerple_log"), 0, 4, &[-1.0, -1.0]);
    assert!((least + 0.01 * (1.0 + 0.01 * 4.0_f64).ln()).abs() < 1e-12, "{least}");
}

/// A whole number to a power that may be negative is a real number; one to a power that is never negative is whole.
#[test]
fn powers_that_may_be_negative_are_real_numbers() {
    for (whole, real) in [
        ("-2^-(head + 1) * (i - j)", "-2.0^-(head + 1) * (i - j)"),
        ("-2^(-(head + 1)) * (i - j)", "-2.0^(-(head + 1)) * (i - j)"),
        ("2^(j - i)", "2.0^(j - i)"),
        ("2^-3 * (j - i)", "0.125 * (j - i)"),
        ("(i + 1)^(0 - head)", "(1.0 * (i + 1))^(0 - head)"),
    ] {
        assert_eq!(expression("bias", whole), expression("bias", real), "{whole}");
    }
    assert_eq!(value(&expression("bias", "-2^-(head + 1) * (i - j)"), 1, 3, &[]), -0.75);
    let power = Expr::Binary(BinaryOp::Pow, Box::new(Expr::Int(3)), Box::new(Expr::Var(Var::Step)));
    let found = expression("mask", "j <= i and (i - j) % 3^step == 0");
    assert!(found.to_string().ends_with(&format!("(i - j) % {power} == 0")), "{found}");
}

/// One head has a number and the other has none: the key is hidden from that one alone, whether distances are listed or pairs asked.
#[test]
fn a_bias_without_a_number_hides_the_key_from_its_head_alone() {
    let form = |bias: &str, mask: &str| {
        format!(
            "graph \"one\" {{
             %tokens = input {{name: \"tokens\"}} : u32[batch, length]
             %ta = param {{name: \"a\", init: zeros}} : f32[9, 8]
             %a = embed %tokens, %ta : f32[batch, length, 8]
             %y = attention %a, %a, %a {{heads: 2, mask: {mask}, score: add(score, {bias})}} : f32[batch, length, 8]
             return %y {{names: \"y\"}}
             }}"
        )
    };
    let of = |bias: &str, mask: &str| {
        let graph = graph(&form(bias, mask));
        run::<f64>(&graph, &weights(&graph, 1, 0.7), &batch(&[7, 1, 12], VOCAB as u64, 2, 5), Halting::Compact).outputs
    };
    // `add(mul(i, j), length)` keeps the mask from being one of distances.
    for mask in ["and(le(j, i), lt(sub(i, j), 3))", "and(le(j, i), ge(add(mul(i, j), length), 0))", "le(j, i)"] {
        let hides = |head: i64| format!("and({mask}, not(eq(head, {head})))");
        let none = of("mul(0.0, log(head))", mask)["y"].clone();
        let hidden = of("mul(0.0, head)", &hides(0))["y"].clone();
        close(&none, &hidden);
        let some = of("mul(0.0, log(sub(add(head, i), j)))", mask)["y"].clone();
        let own = of("mul(0.0, head)", &format!("and({mask}, gt(sub(add(head, i), j), 0))"))["y"].clone();
        close(&some, &own);
    }
}

/// Depths of RegularGPT: the smallest L with `c^L >= n`, at least 1, in whole numbers.
#[test]
fn depths_are_counted_in_whole_numbers() {
    for (c, depths) in [
        (2, &[(1, 1), (2, 1), (8, 3), (40, 6), (41, 6), (64, 6), (65, 7), (128, 7), (256, 8), (500, 9)][..]),
        (3, &[(9, 2), (40, 4), (81, 4), (82, 5), (243, 5), (244, 6), (500, 6)]),
        (5, &[(125, 3), (126, 4), (15_625, 6)]),
        (6, &[(216, 3), (217, 4)]),
        (32, &[(512, 2), (8192, 3)]),
        (128, &[(512, 2), (8192, 2)]),
    ] {
        let source = model("mask: past").replace("depth: 4", &format!("depth: max(1, log(length, {c}))"));
        let spec = models::parse(&source.replace("readout each", "readout end"));
        let depth = spec.root.children.iter().find_map(|block| block.expr("depth")).expect("a depth");
        for (length, expected) in depths {
            assert_eq!(eval(depth, &Env { length: *length, ..Env::default() }), Ok(ScalarValue::Int(*expected)), "{c}");
        }
    }
}

/// Rows of one channel that hold these numbers.
fn rows_of(rows: &[&[f64]]) -> (Arrays, Batch) {
    let mut offsets = vec![0];
    rows.iter().for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len()));
    let numbers = rows.concat();
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let (tokens, labels) = ((0..numbers.len() as u32).collect(), Labels::Class(vec![0; rows.len()]));
    ([("table".to_owned(), numbers)].into(), Batch { offsets, tokens, labels, width, depths: None, given: vec![] })
}

/// What dilated attention with keys that count the same makes of rows: a mean at every step, or with weights by hop.
fn means(c: usize, hops: Option<&[f64]>, rows: &[&[f64]]) -> Vec<f64> {
    let (mut weights, batch) = rows_of(rows);
    let tokens = weights["table"].len();
    let (table, operand, bias) = match hops {
        Some(_) => (
            format!("%r = param {{name: \"r\", init: zeros}} : f32[1, {c}]"),
            ", %r",
            format!(", score: add(score, learn(head, div(sub(i, j), pow({c}, step))))"),
        ),
        None => (String::new(), "", String::new()),
    };
    let text = format!(
        "graph \"means\" {{
         %tokens = input {{name: \"tokens\"}} : u32[batch, length]
         %table = param {{name: \"table\", init: zeros}} : f32[{tokens}, 1]
         {table}
         %x = embed %tokens, %table : f32[batch, length, 1]
         %y = recur %x {{bound: max(1, log(length, {c}))}} : f32[batch, length, 1] (%h: f32[batch, length, 1], %step: u32[]) {{
           %q = map %h {{f: mul(0.0, a)}} : f32[batch, length, 1]
           %m = attention %q, %q, %h, %step{operand} {{heads: 1, mask: and(and(le(j, i), eq(rem(sub(i, j), pow({c}, step)), 0)), lt(div(sub(i, j), pow({c}, step)), {c})){bias}}} : f32[batch, length, 1]
           yield %m
         }}
         return %y {{names: \"y\"}}
         }}"
    );
    weights.extend(hops.map(|hops| ("r".to_owned(), hops.to_vec())));
    run::<f64>(&graph(&text), &weights, &batch, Halting::Compact).outputs["y"].clone()
}

fn close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() < 1e-12, "{found:?} for {expected:?}");
    }
}

/// Rows of several lengths in one batch, so with several depths: each as if alone.
#[test]
fn dilated_attention_done_by_hand() {
    let eight: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    let found = means(2, None, &[eight, &eight[..5]]);
    close(&found[..8], &[1.0, 1.5, 1.75, 2.5, 2.25, 3.0, 3.625, 4.5]);
    assert!((found[12] - 2.25).abs() < 1e-12, "missing keys are left out: {}", found[12]);
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    let found = means(3, None, &[&nine, &nine[..7]]);
    assert!((found[8] - 5.0).abs() < 1e-12 && (found[15] - 10.0 / 3.0).abs() < 1e-12, "{found:?}");
    // A weight of 1/4 on itself and 3/4 on the one before.
    let found = means(2, Some(&[0.0, 3_f64.ln()]), &[&[0.0, 4.0, 8.0, 12.0]]);
    close(&found, &[0.0, 1.0, 1.25, 3.0]);
}

/// Two layers in every step, a sigmoid of the mean of what each query sees, as dilated attention over the whole row.
fn thick(c: usize, rows: &[&[f64]]) -> Vec<f64> {
    let (weights, batch) = rows_of(rows);
    let attention = format!(
        "{{heads: 1, mask: and(and(le(j, i), eq(rem(sub(i, j), pow({c}, step)), 0)), lt(div(sub(i, j), pow({c}, step)), {c}))}}"
    );
    let text = format!(
        "graph \"thick\" {{
         %tokens = input {{name: \"tokens\"}} : u32[batch, length]
         %table = param {{name: \"table\", init: zeros}} : f32[{}, 1]
         %x = embed %tokens, %table : f32[batch, length, 1]
         %y = recur %x {{bound: max(1, log(length, {c}))}} : f32[batch, length, 1] (%h: f32[batch, length, 1], %step: u32[]) {{
           %q = map %h {{f: mul(0.0, a)}} : f32[batch, length, 1]
           %a = attention %q, %q, %h, %step {attention} : f32[batch, length, 1]
           %b = sigmoid %a : f32[batch, length, 1]
           %c = attention %q, %q, %b, %step {attention} : f32[batch, length, 1]
           %d = sigmoid %c : f32[batch, length, 1]
           yield %d
         }}
         return %y {{names: \"y\"}}
         }}",
        batch.tokens.len()
    );
    run::<f64>(&graph(&text), &weights, &batch, Halting::Compact).outputs["y"].clone()
}

/// The same as the released code has it, without its padding: both layers see a window of the whole level, across the borders of
/// chunks, and then the last element of every chunk is kept, counted from the end.
fn compacted(c: usize, row: &[f64]) -> f64 {
    let mut level = row.to_vec();
    loop {
        for _ in 0..2 {
            let window = |m: usize| &level[(m + 1).saturating_sub(c)..=m];
            let mean = |m: usize| window(m).iter().sum::<f64>() / window(m).len() as f64;
            level = (0..level.len()).map(|m| 1.0 / (1.0 + (-mean(m)).exp())).collect();
        }
        level = level.into_iter().rev().step_by(c).collect();
        level.reverse();
        if level.len() == 1 {
            return level[0];
        }
    }
}

#[test]
fn several_layers_of_a_step_see_across_the_borders_of_chunks() {
    for c in [2, 3] {
        let rows: Vec<Vec<f64>> = (1..=28).map(|n| (0..n).map(|k| f64::from(k * 7 % 11) - 4.0).collect()).collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let found = thick(c, &rows);
        let mut end = 0;
        for row in rows {
            end += row.len();
            let expected = compacted(c, row);
            assert!((found[end - 1] - expected).abs() < 1e-12, "{} in chunks of {c}: {expected}", row.len());
        }
    }
}

/// An attention with a mask, and the same with a mask that shows as much, but whose form tells nothing.
fn twins(mask: &str, bias: &str) -> [String; 2] {
    let (table, operand) = match bias {
        "" => ("", ""),
        _ => ("%t = param {name: \"t\", init: zeros} : f32[1]", ", %t"),
    };
    let form = |mask: &str| {
        format!(
            "graph \"one\" {{
             %tokens = input {{name: \"tokens\"}} : u32[batch, length]
             %ta = param {{name: \"a\", init: zeros}} : f32[9, 16]
             %tb = param {{name: \"b\", init: zeros}} : f32[9, 16]
             {table}
             %a = embed %tokens, %ta : f32[batch, length, 16]
             %b = embed %tokens, %tb : f32[batch, length, 16]
             %y = attention %a, %b, %b{operand} {{heads: 1, mask: {mask}{bias}}} : f32[batch, length, 16]
             %z = mul %y, %a : f32[batch, length, 16]
             %loss = average %z : f32[]
             return %loss, %y {{names: \"loss, y\"}}
             }}"
        )
    };
    [form(mask), form(&format!("not(or(not({mask}), lt(add(mul(i, j), length), 0)))"))]
}

const BIAS: &str = ", score: add(score, mul(learn(head), log(add(1, sub(i, j)))))";

const WINDOW: (&str, &str) = ("window", "and(le(j, i), lt(sub(i, j), 128))");
const STRIDE: (&str, &str) = ("stride", "and(and(le(j, i), eq(rem(sub(i, j), 16), 0)), lt(div(sub(i, j), 16), 4))");
const FORMS: &[(&str, &str)] = &[
    WINDOW,
    STRIDE,
    ("narrow window", "and(le(j, i), lt(sub(i, j), 4))"),
    ("block", "and(le(j, i), eq(div(i, 64), div(j, 64)))"),
];

/// Both forms in single precision, forward and backward.
fn agree((name, mask): (&str, &str), bias: &str, lengths: &[usize]) {
    let [few, all] = twins(mask, bias).map(|text| {
        let graph = differentiated(&graph(&text));
        run::<f32>(&graph, &weights(&graph, 1, 0.7), &batch(lengths, VOCAB as u64, 2, 5), Halting::Compact)
    });
    let largest = |x: &[f64]| x.iter().fold(1e-30_f64, |m, x| m.max(x.abs()));
    let far = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0_f64, |m, (a, b)| m.max((a - b).abs())) / largest(b);
    assert!(far(&few.outputs["y"], &all.outputs["y"]) < 1e-6, "{name}");
    for (parameter, gradient) in &all.gradients {
        // Sums over all positions, in another order.
        assert!(far(&few.gradients[parameter], gradient) < 2e-5, "{name}: gradient of {parameter}");
    }
}

#[test]
fn few_keys_give_what_all_keys_give() {
    for form in FORMS {
        agree(*form, BIAS, &[7, 300, 1, 130]);
    }
    agree(WINDOW, "", &[4096]);
    agree(STRIDE, "", &[4096]);
}

#[test]
fn memory_of_few_keys_grows_with_the_length() {
    for (name, mask) in FORMS {
        let graph = differentiated(&graph(&twins(mask, BIAS)[0]));
        let taken = |length: usize| {
            let mut executor = executor::<f32>(&graph, &weights(&graph, 1, 0.7), Halting::Compact);
            executor.run(&batch(&[length], VOCAB as u64, 2, 5), Key::new(1)).expect("the batch fits");
            executor.arena().usage().most as f64
        };
        let (one, two) = (taken(2048), taken(4096));
        assert!(two < 2.1 * one, "{name}: {one} bytes, then {two}");
        // A score for every pair would be 64 MiB alone.
        assert!(two < f64::from(16 << 20), "{name}: {two} bytes");
    }
}

/// Gradients where most of a row is out of reach, longer than a block of queries.
#[test]
fn gradients_of_few_keys_are_slopes() {
    for (name, mask) in FORMS {
        let few = graph(&twins(mask, BIAS)[0]);
        let backward = differentiated(&few);
        let rows = batch(&[150, 3], VOCAB as u64, 2, 5);
        check_gradients(name, (&few, &backward), &weights(&few, 1, 0.7), &rows, Some(3), &[], 1e-6);
    }
}

/// The gradients of a model, at some batch.
fn gradients_with(source: &str) -> Arrays {
    let bound = binding(Objective::Classify);
    let graph = pipeline::differentiated(&models::parse(source), &bound).unwrap_or_else(|e| panic!("{source}: {e}"));
    let rows = batch(&[40, 1, 9, 6], VOCAB as u64, 2, 5);
    run::<f64>(&graph, &weights(&graph, 1, 0.7), &rows, Halting::Compact).gradients
}

fn same(what: &str, ours: &Arrays, theirs: &dyn Fn(&str, usize) -> f64) {
    for (name, numbers) in ours {
        for (n, number) in numbers.iter().enumerate() {
            let other = theirs(name, n);
            assert!((number - other).abs() < 1e-10, "{what}: gradient of `{name}` is {number}, not {other}");
        }
    }
}

/// What goes back through the pairs of a rule and through the others is what goes back through all of them.
#[test]
fn pairs_where_gradients_stop_and_the_others_add_up() {
    const RULES: [(&str, &str); 4] = [
        ("i - j > i % 4", "i - j <= i % 4"),
        ("j % 2 == head", "j % 2 != head"),
        ("i - j > step", "i - j <= step"),
        ("j + 3 < length", "j + 3 >= length"),
    ];
    for fields in [
        "mask: segment_and_memory(4, 3)",
        "position: relative_xl, mask: past, bias: t5",
        "position: rope, key_heads: 1",
    ] {
        // What goes back through several steps is a product of what goes back through each.
        let one_step = |stop: &str| model(&format!("{fields}{stop}")).replace("depth: 4", "depth: 1");
        let with = |stop: &str| gradients_with(&one_step(stop).replace("readout each", "readout mean"));
        let (none, all) = (with(""), with(", stop: all"));
        assert!(none["embed.table"] != all["embed.table"], "{fields}: gradients stop");
        for (rule, other) in RULES {
            let (ours, others) = (with(&format!(", stop: {rule}")), with(&format!(", stop: {other}")));
            assert!(ours["embed.table"] != others["embed.table"], "{fields}, {rule}: gradients stop at some pairs");
            let both = |name: &str, n: usize| none[name][n] + all[name][n] - others[name][n];
            same(&format!("{fields}, {rule}"), &ours, &both);
        }
    }
}

/// Where gradients stop at all keys, these are those of `stop(x)`.
#[test]
fn gradients_that_stop_everywhere_are_those_of_stopped_keys() {
    let of = |equation: &str| {
        gradients_with(&format!(
            "model m {{ embed {{ width: 8 }}
             loop {{ steps: 3
               z = norm(state)
               q = linear(z)
               k = linear(z)
               v = linear(z)
               read = {equation}
               state = state + read }}
             readout mean }}"
        ))
    };
    for [whole, plain] in [
        [
            "attention(z) { heads: 2, qk_norm: head, position: rope, mask: past, stop: all } + q + k + v",
            "attention(z, stop(z)) { heads: 2, qk_norm: head, position: rope, mask: past } + q + k + v",
        ],
        [
            "dot_product_attention(q, k, v) { heads: 2, position: xpos, stop: all }",
            "dot_product_attention(q, stop(k), stop(v)) { heads: 2, position: xpos }",
        ],
    ] {
        let plain_gradients = of(plain);
        same(whole, &of(whole), &|name, n| plain_gradients[name][n]);
    }
}

/// RegularGPT as dilated attention over the whole row, and as a tree of chunks.
fn regular(c: usize, padding: &str) -> [String; 2] {
    let layers = |mask: &str| {
        format!(
            "attend self {{ heads: 2, {mask}, norm: post }}
             feedforward {{ hidden: 12, activation: relu, norm: post }}"
        )
    };
    let start = "use \"lib/masks.rt\"\nmodel m { embed { width: 8 }\n";
    let (dilated, window) = (
        layers(&format!("mask: sliding_dilated({c}), bias: hops({c})")),
        layers(&format!("mask: window({c}), bias: learn[head, i - j]")),
    );
    [
        format!("{start} recur depthwise {{ depth: max(1, log(length, {c}))\n {dilated} }}\n readout end }}"),
        format!(
            "{start} recurse balanced {{
               arity: {c}, last_chunk: strict, short: first, single: fold, padding: {padding}
               leaf none
               {window}
               pool last }}
             readout root }}"
        ),
    ]
}

/// Where nothing is missing, what stands for missing keys does not matter; where they are left out, both forms do so.
#[test]
fn trees_agree_with_dilated_attention_at_the_last_position() {
    for c in [2, 3] {
        for padding in ["none", "levels", "input"] {
            let [row, tree] = regular(c, padding).map(|source| {
                pipeline::inference(&models::parse(&source), &binding(Objective::Classify)).expect("the model lowers")
            });
            let own = weights(&row, 1, 0.5);
            let mut moved: Arrays = weights(&tree, 2, 0.5);
            for (name, numbers) in &own {
                moved.insert(name.replace("depthwise.", "balanced."), numbers.clone());
            }
            let lengths: Vec<usize> = (1..=28).collect();
            let rows = batch(&lengths, VOCAB as u64, 2, 7);
            let [a, b] = [(&row, &own), (&tree, &moved)]
                .map(|(graph, weights)| run::<f64>(graph, weights, &rows, Halting::Compact).outputs["logits"].clone());
            let classes = a.len() / lengths.len();
            for (n, (a, b)) in a.chunks(classes).zip(b.chunks(classes)).enumerate() {
                let same = a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-10);
                let length = n + 1;
                let nothing_is_filled = match padding {
                    "none" => true,
                    "input" => length % c == 0,
                    _ => (1..5).any(|k| c.pow(k) == length),
                };
                assert_eq!(same, nothing_is_filled, "{padding}: a row of {length} in chunks of {c}");
            }
        }
    }
}

/// The root of a tree of means over rows, in which 0 stands for what is missing.
fn tree_of_means(c: usize, padding: &str, rows: &[&[f64]]) -> Vec<f64> {
    let (mut weights, batch) = rows_of(rows);
    weights.insert("pad".to_owned(), vec![0.0]);
    let (attr, filled, body) = match padding {
        "none" => (String::new(), "", "%v = mean %n : f32[batch, 1]"),
        padding => (
            format!("padding: {padding}, "),
            ", filled: full",
            "%f = pad_ragged %n, %pad {axis: full} : f32[batch, full, 1]\n%v = mean %f : f32[batch, 1]",
        ),
    };
    let tokens = batch.tokens.len();
    let text = format!(
        "graph \"tree\" {{
         %tokens = input {{name: \"tokens\"}} : u32[batch, length]
         %table = param {{name: \"table\", init: zeros}} : f32[{tokens}, 1]
         %pad = param {{name: \"pad\", init: zeros}} : f32[1]
         %x = embed %tokens, %table : f32[batch, length, 1]
         %root = fold %x {{arity: {c}, last: strict, plan: row, short: first, single: fold, {attr}over: length, axis: node{filled}}} : f32[batch, 1] (%n: f32[batch, node, 1]) {{
           {body}
           yield %v
         }}
         return %root {{names: \"root\"}}
         }}"
    );
    run::<f64>(&graph(&text), &weights, &batch, Halting::Compact).outputs["root"].clone()
}

#[test]
fn trees_done_by_hand() {
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    let rows = [&nine[..8], &nine[..5], &nine[..1]];
    close(&tree_of_means(2, "levels", &rows), &[4.5, 1.875, 0.5]);
    close(&tree_of_means(2, "input", &rows), &[4.5, 2.0, 0.5]);
    close(&tree_of_means(2, "none", &rows), &[4.5, 2.25, 1.0]);
    let rows = [&nine[..], &nine[..7]];
    close(&tree_of_means(3, "levels", &rows), &[5.0, 28.0 / 9.0]);
    close(&tree_of_means(3, "none", &rows), &[5.0, (1.0 + 3.0 + 6.0) / 3.0]);
}
