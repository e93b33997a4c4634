//! Random edits of the specs of the program: paths of fields and bindings, right sides of other equations, words that fit nowhere. Each is
//! refused with a place, or gives a model whose text reads back.
//!
//! `RTC_EDITS=100000` is the long run; `RTC_EDIT` runs one number alone and prints it.
#![allow(clippy::print_stderr, reason = "a long run says what it found")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rtc_base::rng::{Draws, Key};
use rtc_compiler::check::{check, names};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::{self, Spec};
use rtc_tests::models::{Folder, library};

/// Edits of an ordinary test run.
const COUNT: u64 = 1500;

fn pick<'a, T>(all: &'a [T], draws: &mut Draws) -> &'a T {
    &all[draws.below(all.len() as u64) as usize]
}

/// A model of the program, with what edits of it are made of.
struct Edited {
    source: Source,
    name: String,
    /// Paths of its bindings and of those of its definitions.
    paths: Vec<String>,
    /// Right sides of its equations.
    values: Vec<String>,
}

impl Edited {
    fn of(source: &Source, spec: &Spec) -> Option<Self> {
        let bound = spec::bindings(spec);
        let value = |text: &String| {
            let words = ["until ", "go ", "loss ", "out "];
            let behind = words.iter().find_map(|word| text.strip_prefix(word));
            behind.or_else(|| Some(text.split_once(" = ")?.1)).map(str::to_owned)
        };
        let values: Vec<String> = bound.values().filter_map(value).collect();
        let paths: Vec<String> = bound.into_keys().collect();
        (!paths.is_empty()).then(|| Self { source: source.clone(), name: spec.name.clone(), paths, values })
    }

    fn path(&self, draws: &mut Draws) -> String {
        let whole = pick(&self.paths, draws).clone();
        let cut = || whole.split_once('.').map_or_else(|| whole.clone(), |(_, rest)| rest.to_owned());
        match draws.below(12) {
            0 => cut(),
            1 => format!("{whole}[{}]", draws.below(4)),
            2 => format!("model.{whole}"),
            3 => (*pick(
                &["loop", "stack", "state", "loop.until", "loop.steps", "loop.loss[2]", "head", "readout"],
                draws,
            ))
            .to_owned(),
            4 => whole.rsplit_once('.').map_or_else(|| whole.clone(), |(before, _)| before.to_owned()),
            _ => whole,
        }
    }

    fn value(&self, draws: &mut Draws) -> String {
        let own = pick(&self.values, draws);
        match draws.below(10) {
            0 => "old".to_owned(),
            1 => format!("when(step > 0, old, {own})"),
            2 => "norm(old)".to_owned(),
            3 => "old + old".to_owned(),
            4 => {
                (*pick(&["0", "state", "zeros(state)", "x", "true", "linear(state)", "step", "-old", "not old"], draws))
                    .to_owned()
            }
            5 => format!("0.5 * ({own})"),
            _ => own.clone(),
        }
    }

    fn edit(&self, draws: &mut Draws) -> String {
        let (path, value) = (self.path(draws), self.value(draws));
        let name = *pick(&["z", "state", "y", "h", "new"], draws);
        let form = *pick(&["", "", "", "carry ", "share ", "show "], draws);
        let side = *pick(&["after", "before"], draws);
        match draws.below(16) {
            0..=5 => format!("{path} = {value}"),
            6 | 7 => format!("remove {path}"),
            8 | 9 => format!("add {form}{name} = {value} {side} {path}"),
            10 => format!("add {} {value} {side} {path}", pick(&["until", "go", "loss"], draws)),
            11 => format!("replace {path} by {form}{name} = {value}"),
            12 => format!(
                "replace {path} by {}",
                pick(&["stack 3", "loop { steps: 2 }", "norm", "recur depthwise"], draws)
            ),
            13 => format!("{} {path}", pick(&["untie", "tie"], draws)),
            14 => format!("add feedforward {{ hidden: 4 }} {side} {path}"),
            _ => format!("wrap {path} in {}", pick(&["stack 2", "loop { steps: 2 }"], draws)),
        }
    }
}

fn all() -> Vec<Edited> {
    let Folder(folder) = library();
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("specs/").filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "rt"));
    files.sort();
    let mut found = vec![];
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = Source::new(name, std::fs::read_to_string(&file).expect("a spec"));
        for name in names(&source) {
            let (spec, ..) = check(&library(), source.clone(), Some(&name), &[], &Catalog::default());
            found.extend(spec.and_then(|spec| Edited::of(&source, &spec)));
        }
    }
    found
}

/// What is wrong with the answer to some edits, and whether they were accepted.
fn fault(model: &Edited, edits: &[String]) -> Result<bool, String> {
    let catalog = Catalog::default();
    let (spec, problems, sources) = check(&library(), model.source.clone(), Some(&model.name), edits, &catalog);
    let Some(spec) = spec else {
        let placed = problems.iter().all(|problem| problem.span.is_some());
        let report = || render(&problems, &sources, Style::Plain);
        return if placed && !problems.is_empty() { Ok(false) } else { Err(format!("no place: {}", report())) };
    };
    let text = spec::text(&spec);
    let (again, problems, sources) = check(&library(), Source::new("again.rt", text.clone()), None, &[], &catalog);
    match again {
        Some(again) if spec::hash(&again) == spec::hash(&spec) => Ok(true),
        Some(_) => Err(format!("another model:\n{text}")),
        None => Err(format!("{}\n{text}", render(&problems, &sources, Style::Plain))),
    }
}

#[test]
fn random_edits_are_refused_with_a_place_or_read_back() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let one = number("RTC_EDIT");
    let numbers = one.map_or(0..number("RTC_EDITS").unwrap_or(COUNT), |n| n..n + 1);
    let (models, mut accepted, mut faults) = (all(), 0_u64, vec![]);
    let count = numbers.end - numbers.start;
    for n in numbers {
        let draws = &mut Key::new(47).stream("edits").at(n).draws();
        let model = pick(&models, draws);
        let edits: Vec<String> = (0..=draws.below(3)).map(|_| model.edit(draws)).collect();
        if one.is_some() {
            eprintln!("{} {edits:#?}", model.name);
        }
        let found = catch_unwind(AssertUnwindSafe(|| fault(model, &edits)));
        match found.unwrap_or_else(|_| Err("it panicked".to_owned())) {
            Ok(taken) => accepted += u64::from(taken),
            Err(why) => faults.push(format!("{n}: {} {edits:?}\n{why}", model.name)),
        }
    }
    eprintln!("{count} edits, {accepted} accepted");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults[..faults.len().min(10)].join("\n"));
    assert!(one.is_some() || accepted * 20 > count, "too few edits fit: {accepted} of {count}");
}
