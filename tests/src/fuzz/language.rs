//! Specs.

use rtc_compiler::check::{Loader, check, check_all};
use rtc_compiler::diag::{Diagnostic, Kind, Style, json, render};
use rtc_compiler::ir::verify;
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_compiler::source::Source;
use rtc_compiler::{pipeline, spec, syntax};

/// Files that specs may use: a good one, a wrong one, one that leads back, and a model.
pub struct Library;

impl Loader for Library {
    fn load(&self, path: &str) -> Result<String, String> {
        match path {
            "lib.rt" => {
                Ok("mask near = i - j < 4\nblock two() { k2() }\nblock k2() { feedforward { hidden: 2 } }\n".to_owned())
            }
            "ut.rt" => Ok(include_str!("../../../specs/ut.rt").to_owned()),
            "self.rt" => Ok("use \"self.rt\"\nmodel { }".to_owned()),
            _ => Err("not found".to_owned()),
        }
    }
}

/// What a task may ask for, and nothing.
pub(super) const OBJECTIVES: [Option<Objective>; 6] = [
    None,
    Some(Objective::Classify),
    Some(Objective::Pair),
    Some(Objective::Each),
    Some(Objective::Number),
    Some(Objective::Several),
];

/// A spec of which nothing but its bytes is known.
pub(super) fn specs(bytes: &[u8]) {
    if let Ok(text) = str::from_utf8(bytes) {
        examine(bytes.len() as u64, text);
    }
}

/// What is known of the task of an input.
pub fn catalog(number: u64) -> Catalog {
    Catalog { objective: OBJECTIVES[(number % 6) as usize], ..Catalog::default() }
}

/// Runs the whole front-end on one text, for a task of the number, and asserts what must hold for every text. Gives whether it parses.
///
/// # Panics
/// Where something does not hold.
pub fn examine(number: u64, text: &str) -> bool {
    let catalog = catalog(number);
    let (specs, problems, sources) = check_all(&Library, Source::new("specs/fuzz.rt", text), &catalog);
    let style = if number.is_multiple_of(2) { Style::Plain } else { Style::Colour };
    let report = render(&problems, &sources, style);
    assert_eq!(report.is_empty(), problems.is_empty());
    // Only that there is no model, or that there are several, belongs to the file as a whole.
    let placed = |d: &Diagnostic| d.span.is_some() || d.kind == Kind::UnknownModel;
    assert!(problems.iter().all(placed), "a refusal without a place:\n{report}");
    if number.is_multiple_of(16) {
        json(&problems, &sources);
    }
    for spec in &specs {
        reads_back(spec);
        lowers(spec, &catalog);
    }
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

/// Both text forms of a spec mean the same.
///
/// # Panics
/// When they don't.
pub fn reads_back(found: &spec::Spec) {
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
