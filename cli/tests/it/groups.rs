//! `optimiser.groups`, `schedule.formula`, `optimiser.formula` and the optimisers of one moment, in the real program.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::support::{Answer, Place};

/// Trains the small model with edits of its experiment.
fn train(place: &Place, run: &str, with: &[&str]) -> Answer {
    let mut args = vec!["--run", run];
    with.iter().for_each(|edit| args.extend(["--with", edit]));
    place.train(&args)
}

/// The bytes of a file of the last checkpoint of a run.
fn last(place: &Place, run: &str, file: &str) -> Vec<u8> {
    fs::read(place.path(&format!("runs/{run}/checkpoints/last/{file}.safetensors"))).expect("a checkpoint")
}

/// The bytes of every array of such a file.
fn arrays(place: &Place, run: &str, file: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = last(place, run, file);
    let (size, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(size.try_into().expect("eight bytes")) as usize);
    let header: Value = serde_json::from_slice(header).expect("the header of safetensors");
    let arrays = header.as_object().expect("a block").iter().filter(|(name, _)| *name != "__metadata__");
    let at = |array: &Value, n: usize| array["data_offsets"][n].as_u64().expect("an offset") as usize;
    arrays.map(|(name, array)| (name.clone(), data[at(array, 0)..at(array, 1)].to_vec())).collect()
}

#[test]
fn a_group_that_is_as_all_others_changes_no_bit_and_one_of_rate_0_is_frozen() {
    let place = Place::new();
    train(&place, "plain", &[]).code(0);
    train(&place, "same", &["optimiser.groups={ all: { parameters: ['*'], learning_rate: 0.003 } }"]).code(0);
    let rate = place.read("runs/plain/experiment.yaml");
    assert!(rate.contains("learning_rate: 0.003"), "the rate of the group is that of all: {rate}");
    assert_eq!(last(&place, "same", "weights"), last(&place, "plain", "weights"));

    train(&place, "frozen", &["optimiser.groups={ table: { parameters: [embedding], learning_rate: 0 } }"]).code(0);
    place.rtc(&["verify", "runs/frozen", "--again"]).code(0);
    // The table of an untrained model.
    train(
        &place,
        "short",
        &["optimiser.groups={ every: { parameters: [vectors, matrices], learning_rate: 0 } }", "max_steps=1"],
    )
    .code(0);
    let table = |run: &str| arrays(&place, run, "weights")["embed.table"].clone();
    assert_eq!(table("frozen"), table("short"));
    assert_ne!(table("plain"), table("short"));
}

#[test]
fn only_what_is_trained_moves_and_it_moves_as_if_all_others_had_the_rate_0() {
    let place = Place::new();
    let same = "optimiser={ kind: adamw, learning_rate: 0.003, weight_decay: 0.1 }";
    train(&place, "only", &[same, "optimiser.trained=['head.*']"]).code(0);
    place.rtc(&["verify", "runs/only", "--again"]).code(0);
    let none = "optimiser.groups={ every: { parameters: [vectors, matrices], learning_rate: 0 } }";
    train(&place, "start", &[same, none, "max_steps=1"]).code(0);
    let (only, start) = (arrays(&place, "only", "weights"), arrays(&place, "start", "weights"));
    for (name, numbers) in &only {
        assert_eq!(*numbers != start[name], name.starts_with("head."), "{name}");
    }
    let rest: Vec<String> =
        start.keys().filter(|name| !name.starts_with("head.")).map(|name| format!("'{name}'")).collect();
    let rest = rest.join(", ");
    train(
        &place,
        "others",
        &[same, &format!("optimiser.groups={{ a: {{ parameters: [{rest}], learning_rate: 0, weight_decay: 0 }} }}")],
    )
    .code(0);
    assert_eq!(only, arrays(&place, "others", "weights"));
    for (with, why) in [
        ("optimiser.trained=[haed]", "`optimiser.trained`: no parameter of the model that is trained is `haed`"),
        ("optimiser.trained=[]", "needs at least one name, pattern or role"),
    ] {
        train(&place, "refused", &[with]).code(2).says(why);
    }
    let group = "optimiser.groups={ a: { parameters: [embedding], learning_rate: 0.1 } }";
    let said = train(&place, "refused", &["optimiser.trained=['head.*']", group]);
    said.code(2).says("`optimiser.groups.a`: no parameter of the model that is trained is `embedding`");
    assert!(!place.path("runs/refused").exists());
}

#[test]
fn groups_that_no_parameter_has_are_refused_before_a_folder_is_made() {
    let place = Place::new();
    for (groups, why) in [
        ("{ a: { parameters: [embed.tabel], learning_rate: 0 } }", "did you mean `embed.table`?"),
        (
            "{ a: { parameters: ['head.*'], learning_rate: 0 }, b: { parameters: [matrices], weight_decay: 0 } }",
            "is in the groups `a` and `b`",
        ),
        ("{ a: { parameters: [], learning_rate: 0 } }", "`parameters` needs at least one"),
        ("{ a: { parameters: [embedding] } }", "a `learning_rate` or a `weight_decay` is needed"),
        ("{ a: { parameters: [embedding], learning_rate: -1 } }", "`learning_rate` must be 0 or more"),
        ("{ a: { parameters: embedding, learning_rate: 0 } }", "expected a list"),
        ("{ a: { parameters: [embedding], lr: 0 } }", "it is `learning_rate` here"),
    ] {
        let with = format!("optimiser.groups={groups}");
        train(&place, "refused", &[&with]).code(2).says(why);
        assert!(!place.path("runs/refused").exists());
    }
}

#[test]
fn a_formula_is_the_schedule_that_it_writes() {
    let place = Place::new();
    train(&place, "constant", &["schedule={ kind: constant, warmup: 8 }"]).code(0);
    let formula = "schedule={ kind: formula, warmup: 8, formula: 'min(1, (step + 1) / warmup)' }";
    train(&place, "formula", &[formula]).code(0);
    assert_eq!(last(&place, "formula", "weights"), last(&place, "constant", "weights"));
    place.train(&["--run", "formula", "--with", formula, "--until", "50"]).code(0).says("going on after update 40");

    for (formula, why) in [
        ("1 - step / 10", "at step 11 of 40, its value is -0.1"),
        ("1 / step", "at step 0 of 40"),
        ("1 / (stpe + 1)", "did you mean `step`?"),
        ("(1 +", "is no formula"),
    ] {
        let with = format!("schedule={{ kind: formula, formula: '{formula}' }}");
        train(&place, "refused", &[&with]).code(2).says(why);
        assert!(!place.path("runs/refused").exists());
    }
    // Before a cell is trained for a moment, too.
    let with = "schedule={ kind: formula, formula: '1 - step / 10' }";
    place.write("all.yaml", &(place.read("tiny.yaml") + "compare: [tiny]\n"));
    place.rtc(&["ablate", "all.yaml", "--with", with, "--dry-run"]).code(2).says("at step 11 of 40");
    train(&place, "refused", &["schedule.formula='1'"]).code(2).says("`kind: formula` needs a `formula`");
    let total = "schedule={ kind: formula, formula: '1 - step / total' }";
    train(&place, "total", &[total]).code(0);
    place.train(&["--run", "total", "--with", total, "--until", "50"]).code(2).says("laid out over the 40 updates");
}

#[test]
fn lion_and_sgd_train_and_resume() {
    let place = Place::new();
    for (kind, rest) in
        [("lion", "betas: [0.9, 0.99], learning_rate: 0.001"), ("sgd", "momentum: 0.9, learning_rate: 0.1")]
    {
        let with = format!("optimiser={{ kind: {kind}, {rest} }}");
        train(&place, kind, &[&with]).code(0);
        let saved = arrays(&place, kind, "optimiser");
        assert!(!saved.keys().any(|name| name.starts_with("second_moment")), "{kind} has one moment");
        let on = format!("{kind}_on");
        place.train(&["--run", &on, "--with", &with, "--until", "60"]).code(0);
        place.train(&["--run", kind, "--with", &with, "--until", "60"]).code(0);
        assert_eq!(place.contents(kind), place.contents(&on));
    }
    train(&place, "refused", &["optimiser={ kind: sgd, epsilon: 0.1, learning_rate: 0.1 }"])
        .code(2)
        .says("have no `epsilon`");
}

#[test]
fn an_optimiser_as_a_formula_trains_resumes_and_is_checked() {
    let place = Place::new();
    let written = "optimiser={ kind: formula, learning_rate: 0.003, momentum: 0.9, formula: \"m = momentum * m + g; p = p - rate * m\" }";
    let sgd = "optimiser={ kind: sgd, learning_rate: 0.003, momentum: 0.9 }";
    let losses = |run: &str| -> Vec<f64> {
        let lines = place.read(&format!("runs/{run}/metrics.jsonl"));
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter_map(|line| line["loss"].as_f64()).collect()
    };
    train(&place, "written", &[written]).code(0);
    train(&place, "sgd", &[sgd]).code(0);
    let (a, b) = (losses("written"), losses("sgd"));
    assert!(a.len() > 2 && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-4), "{a:?} {b:?}");
    let saved = arrays(&place, "written", "optimiser");
    assert!(!saved.is_empty() && saved.keys().all(|name| name.starts_with("first_moment")), "{saved:?}");

    place.train(&["--run", "on", "--with", written, "--until", "60"]).code(0);
    place.train(&["--run", "written", "--with", written, "--until", "60"]).code(0);
    assert_eq!(last(&place, "written", "weights"), last(&place, "on", "weights"));
    place.rtc(&["verify", "runs/written", "--again"]).code(0);

    for (formula, rest, why) in [
        ("p = p - rate * g / (step - 7)", "", "at step 7 of 40"),
        ("p = p - raet * g", "", "did you mean `rate`?"),
        ("p = p - 0.1 * g", "", "don't use `rate`, so that the learning rate and its schedule would have no effect"),
        ("p = p - rate * g", ", weight_decay: 0.1", "don't use `decay`, so that `weight_decay` would have no effect"),
        ("p = p - rate * g", ", momentum: 0.1", "don't use `momentum`"),
        ("g = rate * g", "", "a line must assign `p`"),
        ("p = p - rate * g @", "", "is no formula"),
    ] {
        let with = format!("optimiser={{ kind: formula, learning_rate: 0.1{rest}, formula: '{formula}' }}");
        train(&place, "refused", &[&with]).code(2).says(why);
        assert!(!place.path("runs/refused").exists());
    }
    train(&place, "refused", &["optimiser={ kind: formula, learning_rate: 0.1 }"]).code(2).says("needs a `formula`");
    train(&place, "refused", &["optimiser.formula='p = p - rate * g'"]).code(2).says("no other kind has one");
}
