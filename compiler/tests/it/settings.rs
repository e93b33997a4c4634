//! Every setting of every word and statement acts, or is refused, beside every value of every other one.
//!
//! Models are lowered with a setting and without it. Where both are accepted, the graphs must differ.

use rtc_compiler::check::{NoFiles, check};
use rtc_compiler::feature::{Feature, slots, words};
use rtc_compiler::ir::text;
use rtc_compiler::lower::{Binding, Objective, lower};
use rtc_compiler::schema::{Catalog, FieldKind, StatementField};
use rtc_compiler::source::Source;

/// A statement of which `@` stands for further settings, by the title of its row. Others stand among the layers as they are.
const STATEMENTS: &[(&str, &str)] = &[
    ("embed", "embed { width: 8, @ }, feedforward { hidden: 8 }"),
    ("recur depthwise", "recur depthwise { depth: 3, halt token, inject add, @ attend self { heads: 2 } }"),
    (
        "recur chunkwise",
        "recur chunkwise { size: 4, @ memory { slots: 2, init: normal }, attend memory { heads: 2 }, attend self { heads: 2, mask: past, position: rope } }",
    ),
    ("loop", "loop { steps: 4, @ feedforward { hidden: 8 } }"),
    ("memory", "recur chunkwise { size: 4, memory { slots: 1, @ }, attend memory { heads: 2 } }"),
    (
        "update memory",
        "recur chunkwise { size: 4, memory { slots: 1 }, attend memory { heads: 2 }, update memory { @ attend chunk { heads: 2 } } }",
    ),
    ("attend self", "recur depthwise { depth: 3, attend self { heads: 2, @ } }"),
    ("attend memory", "recur chunkwise { size: 4, memory { slots: 1 }, attend memory { heads: 2, @ } }"),
    (
        "attend chunk",
        "recur chunkwise { size: 4, memory { slots: 1 }, attend memory { heads: 2 }, update memory { attend chunk { heads: 2, @ } } }",
    ),
    ("attend input", "recur depthwise { depth: 3, attend input { heads: 2, @ } }"),
    ("halt token", "recur depthwise { depth: 3, halt token { @ }, attend self { heads: 2 } }"),
    ("halt global", "recur depthwise { depth: 3, halt global { @ }, attend self { heads: 2 } }"),
    ("halt act", "recur depthwise { depth: 3, halt act { @ }, attend self { heads: 2 } }"),
    ("halt universal", "recur depthwise { depth: 3, halt universal { @ }, attend self { heads: 2 } }"),
    ("halt pondernet", "recur depthwise { depth: 3, halt pondernet { @ }, attend self { heads: 2 } }"),
    ("halt q_head", "recur depthwise { depth: 3, halt q_head { @ }, attend self { heads: 2 } }"),
    ("halt converged", "recur depthwise { depth: 3, halt converged { @ }, attend self { heads: 2 } }"),
    ("gate mlp", "recur depthwise { depth: 3, gate mlp { hidden: 8, @ }, feedforward { hidden: 8 } }"),
    ("recurse balanced", "recurse balanced { arity: 3, @ attend self { heads: 2 }, pool mean }"),
    ("recurse beam", "recurse beam { size: 2, @ cell grc }"),
    ("select top_k", "recurse beam { size: 2, select top_k { @ }, cell grc }"),
    ("select one_soft", "recurse beam { size: 2, score parent, select one_soft { @ }, cell grc }"),
    (
        "align sampled",
        "recurse balanced { arity: 4, align sampled { @ }, recurse beam { size: 2, leaf none, cell grc } }",
    ),
    (
        "align uniform",
        "recurse balanced { arity: 4, align uniform { @ }, recurse beam { size: 2, leaf none, cell grc } }",
    ),
    ("recurse ordered_memory", "recurse ordered_memory { slots: 3, @ }"),
    ("score mlp", "recurse beam { size: 2, score mlp { @ }, cell grc }"),
    ("cell grc", "recurse chain { cell grc { @ } }"),
    ("feedforward", "feedforward { hidden: 8, @ }"),
    ("mega", "mega { shared: 4, hidden: 4, feedforward: 8, @ }"),
    ("scan s4d", "scan s4d { @ }"),
    ("scan ema", "scan ema { @ }"),
    ("norm", "norm { @ }"),
];

/// An application of a word, with `@` in its settings.
const WORDS: &[(&str, &str)] = &[
    ("linear", "linear(state) { @ }"),
    ("number", "number(state) { @ }"),
    ("norm", "norm(state) { @ }"),
    ("dropout", "dropout(state, 0.5) { @ }"),
    ("sinusoid", "sinusoid(positions(state)) { @ }"),
    ("mean", "mean(repeat(state, 2)) { @ }"),
    ("sum", "sum(repeat(state, 2)) { @ }"),
    ("max", "max(repeat(state, 2)) { @ }"),
    ("top", "when(top(state) { of: 2, @ }, 1, 0)"),
    ("shift", "shift(state, 1) { @ }"),
    ("attention", "attention(state) { heads: 2, @ }"),
    ("dot_product_attention", "dot_product_attention(state, state, state) { heads: 2, @ }"),
    ("geometric_attention", "geometric_attention(state, state, state) { heads: 2, @ }"),
    ("top_keys", "top_keys(state, state) { of: 2, @ }"),
    ("s4d_scan", "s4d_scan(state, learn[8], learn[8, 2], learn[8, 2], learn[8, 2, 2], learn[8, 2, 2]) { @ }"),
    ("ema_scan", "ema_scan(state, learn[8, 2], learn[8, 2], learn[8, 2], learn[8, 2]) { @ }"),
    ("neighbours", "neighbours(state, sigmoid(number(state))) { @ }"),
    ("embedding", "embedding(tokens) { @ }"),
    ("normal", "normal(state) { @ }"),
    ("uniform", "uniform(state) { @ }"),
    ("learn", "state * learn[width] { @ }"),
    ("matmul", "matmul(repeat(state, 8), repeat(state, 8)) { @ }"),
    ("layer_norm", "layer_norm(state, learn[8], learn[8]) { @ }"),
    ("rms_norm", "rms_norm(state, learn[8]) { @ }"),
];

/// Values that a setting may have, written. Some may be refused.
fn values(field: &StatementField) -> Vec<String> {
    let numbers =
        |all: &[f64]| all.iter().filter(|v| field.bounds.hold(**v)).map(|v| format!("{v:?}")).collect::<Vec<_>>();
    match &field.kind {
        FieldKind::Int => ["1", "2", "3", "4", "6"].map(str::to_owned).into(),
        FieldKind::Float => numbers(&[0.25, 0.5, 3.0, 20.0]),
        FieldKind::FloatOr(words) => {
            numbers(&[0.5]).into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
        }
        FieldKind::IntOr(words) => ["1"].iter().chain(words.iter()).map(|word| (*word).to_owned()).collect(),
        FieldKind::Word(words) => words.iter().map(str::to_owned).collect(),
        FieldKind::Truth => ["true", "false"].map(str::to_owned).into(),
        FieldKind::Function => ["gelu", "tanh"].map(str::to_owned).into(),
        FieldKind::Mask => ["past", "all"].map(str::to_owned).into(),
        FieldKind::Bias if field.name == "score" => ["score * learn[head]", "score + i"].map(str::to_owned).into(),
        FieldKind::Bias if field.name == "angle" => ["angle / 2", "0.1 * angle^2"].map(str::to_owned).into(),
        FieldKind::Bias => ["0.5 * (i - j)", "learn[head]"].map(str::to_owned).into(),
        FieldKind::Depth => ["2"].map(str::to_owned).into(),
        FieldKind::Choices => ["3"].map(str::to_owned).into(),
    }
}

/// The graph of a model with a body; nothing where it is refused.
fn graph(body: &str) -> Option<String> {
    let readout = if body.contains("recurse ") { "readout root" } else { "readout mean" };
    let embed = if body.starts_with("embed ") { "" } else { "embed { width: 8 }" };
    let model = format!("model m {{\n    {embed}\n    {body}\n    {readout}\n}}\n");
    let catalog =
        Catalog { vocabulary: Some(9), classes: Some(5), objective: Some(Objective::Classify), ..Catalog::default() };
    let (spec, _, _) = check(&NoFiles, Source::new("m.rt", model), None, &[], &catalog);
    let binding = Binding { vocab: Some(9), classes: Some(5), objective: Objective::Classify };
    Some(text::print(&lower(&spec?, &binding).expect("what is checked is lowered")))
}

/// A template with settings in its place.
fn with(template: &str, settings: &[String]) -> String {
    let settings: String = settings.iter().map(|setting| format!("{setting}, ")).collect();
    let filled = template.replace('@', &settings);
    filled.replace(", , ", ", ").replace(",  }", " }").replace(", }", " }")
}

/// The settings of a row that have no effect and are not refused, beside those that they stand beside.
fn idle(feature: &Feature, template: &str) -> Vec<String> {
    let mut found = vec![];
    let written = |field: &StatementField, value: &str| format!("{}: {value}", field.name);
    let free: Vec<&StatementField> =
        feature.fields.iter().filter(|field| !template.contains(&written(field, ""))).collect();
    let choices = |field: &&&StatementField| !matches!(field.kind, FieldKind::Int | FieldKind::Float);
    for other in free.iter().filter(choices) {
        let beside = std::iter::once(vec![])
            .chain(values(other).iter().map(|value| vec![written(other, value)]))
            .collect::<Vec<_>>();
        for beside in beside {
            let Some(without) = graph(&with(template, &beside)) else { continue };
            for field in free.iter().filter(|field| field.name != other.name) {
                let graphs: Vec<(String, String)> = values(field)
                    .iter()
                    .filter_map(|value| {
                        let all = [beside.clone(), vec![written(field, value)]].concat();
                        Some((value.clone(), graph(&with(template, &all))?))
                    })
                    .collect();
                // The default is one of several values; a setting of which no accepted value changes anything is idle.
                if graphs.len() > 1 && graphs.iter().all(|(_, graph)| *graph == without) {
                    found.push(format!("{}: `{}` beside {beside:?}", feature.title(), field.name));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn every_setting_acts_or_is_refused() {
    let mut found = vec![];
    let statements = || slots().iter().flat_map(|slot| &slot.features);
    let mut asked = 0;
    for (title, template) in STATEMENTS {
        let feature = statements().find(|feature| feature.title() == *title).expect(title);
        assert!(graph(&with(template, &[])).is_some(), "{title}: {template}");
        found.extend(idle(feature, template));
        asked += feature.fields.len();
    }
    for (name, template) in WORDS {
        let feature = words().find(|word| word.slot == *name).expect(name);
        let template = format!("x = {template}");
        assert!(graph(&with(&template, &[])).is_some(), "{name}: {template}");
        found.extend(idle(feature, &template));
        asked += feature.fields.len();
    }
    assert!(asked > 150, "{asked} settings");
    // The settings of definitions are compared where they are used; those of the model are defaults of others.
    let listed = |title: &str| title == "model" || STATEMENTS.iter().chain(WORDS).any(|(known, _)| *known == title);
    let several = |feature: &&std::sync::Arc<Feature>| feature.fields.len() > 1 && feature.definition().is_none();
    let missing: Vec<String> =
        statements().chain(words()).filter(several).map(|f| f.title()).filter(|title| !listed(title)).collect();
    assert!(missing.is_empty(), "in no list of this file: {missing:?}");
    assert!(found.is_empty(), "without effect:\n{}", found.join("\n"));
}
