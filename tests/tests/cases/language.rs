//! The language, file by file: wrong specs and their reports, the formatter, complete specs, the graphs they become.
//!
//! The golden of a case lies beside it. `INSTA_UPDATE=always cargo test -p rtc-tests --test cases language::` writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rtc_compiler::check::{check, check_all, names};
use rtc_compiler::diag::{Kind, Style, render};
use rtc_compiler::ir::graph::{Graph, InvalidNode};
use rtc_compiler::ir::{text, verify};
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_compiler::source::Source;
use rtc_compiler::{pipeline, spec, syntax};
use rtc_tests::models::Folder;

type Outcome = datatest_stable::Result<()>;

fn folder(case: &Path) -> Folder {
    Folder(case.parent().unwrap_or(Path::new("")).to_owned())
}

fn source(case: &Path, text: String) -> Source {
    Source::new(file_name(case), text)
}

fn file_name(case: &Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Compares with the golden beside the case, `NAME.snap`.
fn golden(case: &Path, text: &str) {
    let folder = std::fs::canonicalize(folder(case).0).expect("a case lies in a folder");
    let name = case.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    insta::with_settings!({
        snapshot_path => folder, prepend_module_to_snapshot => false, omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

/// An expectation `//~ kind`, or `//~ kind, 12..19` with columns of its line, counted from 1, the end excluded.
struct Expected {
    line: usize,
    kind: String,
    columns: Option<(usize, usize)>,
}

fn expectations(text: &str) -> Vec<Expected> {
    let mut expected = Vec::new();
    for (n, line) in text.lines().enumerate() {
        for part in line.split("//~").skip(1) {
            let (kind, columns) = match part.split_once(',') {
                None => (part, None),
                Some((kind, range)) => {
                    let (start, end) = range.trim().split_once("..").expect("columns are `start..end`");
                    let number = |text: &str| text.trim().parse::<usize>().expect("columns are numbers");
                    (kind, Some((number(start), number(end))))
                }
            };
            expected.push(Expected { line: n + 1, kind: kind.trim().to_owned(), columns });
        }
    }
    expected
}

/// The directives `//: target`, `//: set EDIT`, `//: task classify|pair|each|next|number|several` at the top of a case.
fn directives(text: &str) -> (Option<String>, Vec<String>, Catalog) {
    let (mut target, mut overrides, mut catalog) = (None, Vec::new(), Catalog::default());
    for line in text.lines().filter_map(|l| l.strip_prefix("//: ")) {
        let line = line.split("//~").next().unwrap_or(line).trim();
        match line.split_once(' ') {
            Some(("target", name)) => target = Some(name.trim().to_owned()),
            Some(("set", edit)) => overrides.push(edit.trim().to_owned()),
            Some(("task", "classify")) => catalog.objective = Some(Objective::Classify),
            Some(("task", "pair")) => catalog.objective = Some(Objective::Pair),
            Some(("task", "number")) => catalog.objective = Some(Objective::Number),
            Some(("task", "several")) => catalog.objective = Some(Objective::Several),
            Some(("task", "each")) => catalog.objective = Some(Objective::Each),
            Some(("task", "next")) => (catalog.objective, catalog.next_token) = (Some(Objective::Each), true),
            _ => panic!("unknown directive `{line}`"),
        }
    }
    (target, overrides, catalog)
}

/// A wrong spec: the inline expectations are exactly the problems found, and the report is the golden.
pub(crate) fn errors(case: &Path, text: String) -> Outcome {
    let (target, overrides, catalog) = directives(&text);
    let loader = folder(case);
    let (problems, sources) = if target.is_some() || !overrides.is_empty() {
        let (_, problems, sources) =
            check(&loader, source(case, text.clone()), target.as_deref(), &overrides, &catalog);
        (problems, sources)
    } else {
        let (_, problems, sources) = check_all(&loader, source(case, text.clone()), &catalog);
        (problems, sources)
    };
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut unmatched: Vec<Expected> = expectations(&text);
    for diagnostic in problems.iter() {
        let code = diagnostic.kind.code();
        let place = diagnostic.span.filter(|s| s.source.0 == 0).map(|span| {
            let root = sources.get(span.source).expect("a span lies in a source");
            (root.position(span.start), root.position(span.end))
        });
        let (line, columns) = match place {
            Some((start, end)) => (start.line, Some((start.column, end.column))),
            None => (1, None),
        };
        let fits = |e: &Expected| e.kind == code && e.line == line && (e.columns.is_none() || e.columns == columns);
        match unmatched.iter().position(fits) {
            Some(n) => {
                unmatched.remove(n);
            }
            None => {
                found.insert(format!(
                    "line {line}: //~ {code}{}",
                    columns.map_or_else(String::new, |(a, b)| format!(", {a}..{b}"))
                ));
            }
        }
    }
    let mut message = String::new();
    for text in &found {
        writeln!(message, "not expected: {text}")?;
    }
    for e in &unmatched {
        writeln!(message, "not found: line {}: //~ {}", e.line, e.kind)?;
    }
    let report = render(&problems, &sources, Style::Plain);
    if problems.is_empty() {
        return Err("the case has no problem".into());
    }
    golden(case, &report);
    if message.is_empty() { Ok(()) } else { Err(format!("{message}\n{report}").into()) }
}

/// The formatter: its output is the golden and does not change when formatted again.
pub(crate) fn fmt(case: &Path, text: String) -> Outcome {
    let formatted = syntax::format(&text).map_err(|p| format!("{} syntax errors", p.len()))?;
    let again = syntax::format(&formatted).map_err(|_| format!("the output has syntax errors:\n{formatted}"))?;
    assert_eq!(formatted, again, "formatting twice differs from formatting once");
    golden(case, &formatted);
    Ok(())
}

/// Every variant `NAME` of `m` is trained as the model `m_NAME` is, with the same names; the text of the edited spec reads back.
pub(crate) fn edits(case: &Path, text: String) -> Outcome {
    let (_, _, catalog) = directives(&text);
    let (specs, problems, sources) = check_all(&folder(case), source(case, text), &catalog);
    assert!(!problems.has_errors(), "{}", render(&problems, &sources, Style::Plain));
    let trained = |spec: &spec::Spec| {
        let graph = pipeline::differentiated(spec, &Binding::from(&catalog)).map_err(|invalid| invalid.to_string())?;
        // The first line has the name.
        Ok::<_, String>(text::print(&graph).lines().skip(1).collect::<Vec<_>>().join("\n"))
    };
    let variants: Vec<_> = specs.iter().filter_map(|spec| Some((spec, spec.name.strip_prefix("m:")?))).collect();
    assert!(!variants.is_empty(), "no variant of a model `m`");
    for (variant, name) in variants {
        let expected = specs.iter().find(|spec| spec.name == format!("m_{name}"));
        let expected = expected.ok_or_else(|| format!("there is no model `m_{name}`"))?;
        same_lines(&trained(variant)?, &trained(expected)?, name);
        reads_back(variant)?;
    }
    Ok(())
}

fn same_lines(found: &str, expected: &str, name: &str) {
    let differs = found.lines().zip(expected.lines()).position(|(a, b)| a != b);
    let line = |text: &str, at: usize| text.lines().nth(at).unwrap_or_default().to_owned();
    let at = differs.unwrap_or(0);
    assert_eq!(found, expected, "{name}: line {at} is\n{}\nand not\n{}", line(found, at), line(expected, at));
}

/// Every row of the page is an edit of a model that is accepted without a warning and makes another model of it; or, in its last part, one
/// that is refused in these words.
pub(crate) fn ablations(page: &Path, text: String) -> Outcome {
    let specs = page.parent().unwrap_or(Path::new("")).join("../specs");
    let (accepted, refused) = text.split_once("## Refused").ok_or("the last part of the page is what is refused")?;
    let mut counts = [0, 0];
    for (n, part) in [accepted, refused].into_iter().enumerate() {
        for line in part.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [spec, edits, said] = cells[..] else { continue };
            let edits: Vec<String> = edits.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            let name = spec.trim_matches('`');
            let file = file_of(&specs, name)?;
            let source = || std::fs::read_to_string(&file).map(|text| source(&file, text));
            let checked = |edits: &[String]| {
                Ok::<_, std::io::Error>(check(&folder(&file), source()?, Some(name), edits, &Catalog::default()))
            };
            let (plain, ..) = checked(&[])?;
            let (found, problems, sources) = checked(&edits)?;
            let report = render(&problems, &sources, Style::Plain);
            if n == 1 {
                assert!(
                    found.is_none() && report.replace('`', "").contains(&said.replace('`', "")),
                    "{line}\n{report}"
                );
            } else {
                let hash = |spec: &Option<spec::Spec>| spec.as_ref().map(spec::hash);
                assert!(found.is_some() && problems.is_empty(), "{line}\n{report}");
                assert_ne!(hash(&found), hash(&plain), "{line}");
            }
            counts[n] += 1;
        }
    }
    assert!(counts[0] >= 64 && counts[1] >= 8, "{counts:?} rows were found");
    Ok(())
}

/// The file of `specs/` with a model.
fn file_of(specs: &Path, name: &str) -> Result<PathBuf, String> {
    let files = std::fs::read_dir(specs).map_err(|error| error.to_string())?;
    let mut files = files.filter_map(|entry| Some(entry.ok()?.path()));
    let has = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        file.extension().is_some_and(|e| e == "rt") && names(&source(file, text)).iter().any(|model| model == name)
    };
    files.find(has).ok_or_else(|| format!("no spec has a model `{name}`"))
}

/// A complete spec: the golden shows every value and its origin; the text form reads back.
pub(crate) fn show(case: &Path, text: String) -> Outcome {
    let (target, overrides, catalog) = directives(&text);
    let (found, problems, sources) = check(&folder(case), source(case, text), target.as_deref(), &overrides, &catalog);
    let report = render(&problems, &sources, Style::Plain);
    let found = found.ok_or(report.clone())?;
    reads_back(&found)?;
    golden(case, &format!("{report}{}", spec::text_with_origins(&found)));
    Ok(())
}

/// The forward graph of every model and variant of a file.
pub(crate) fn lower(case: &Path, text: String) -> Outcome {
    graphs(case, text, pipeline::forward)
}

/// The graph of a training step before optimisation, of every model and variant of a file.
pub(crate) fn grad(case: &Path, text: String) -> Outcome {
    graphs(case, text, pipeline::differentiated)
}

/// The graphs are sound and read back from their text, which is the golden.
fn graphs(case: &Path, source_text: String, stage: fn(&spec::Spec, &Binding) -> Result<Graph, InvalidNode>) -> Outcome {
    let (.., catalog) = directives(&source_text);
    let (specs, problems, sources) = check_all(&folder(case), source(case, source_text), &catalog);
    if !problems.is_empty() {
        return Err(render(&problems, &sources, Style::Plain).into());
    }
    let mut printed = Vec::new();
    for spec in &specs {
        let graph = stage(spec, &Binding::from(&catalog)).map_err(|invalid| invalid.to_string())?;
        verify::verify(&graph).map_err(|broken| format!("{broken:?}"))?;
        let shown = text::print(&graph);
        let again = text::parse(&shown).map_err(|problems| format!("{problems:?}"))?;
        assert_eq!(text::print(&again), shown, "the printed graph reads back as another one");
        printed.push(shown);
    }
    golden(case, &printed.join("\n"));
    Ok(())
}

/// Every model and variant of `specs/` checks without warnings, is formatted, and reads back from its text form.
pub(crate) fn shipped(case: &Path, text: String) -> Outcome {
    let (specs, problems, sources) = check_all(&folder(case), source(case, text.clone()), &Catalog::default());
    if !problems.is_empty() {
        return Err(render(&problems, &sources, Style::Plain).into());
    }
    assert_eq!(specs.iter().map(|s| s.name.clone()).collect::<Vec<_>>(), names(&source(case, text.clone())));
    for spec in &specs {
        assert!(!spec.doc.is_empty(), "{} has no doc comment", spec.name);
        reads_back(spec)?;
    }
    let (only, ..) = check(&folder(case), source(case, text.clone()), None, &[], &Catalog::default());
    assert!(only.is_some(), "the file has no model that needs no name");
    assert_eq!(syntax::format(&text).expect("the file has been parsed"), text, "the file is not formatted");
    Ok(())
}

/// The proof that a model sees only the past, or its leaks, for every model and variant of a file. The name of the file begins
/// with what its first model shows.
pub(crate) fn causality(case: &Path, text: String) -> Outcome {
    let (catalog, mut shown, mut first) = (Catalog::default(), String::new(), None);
    for name in names(&source(case, text.clone())) {
        let (_, problems, sources) = check(&folder(case), source(case, text.clone()), Some(&name), &[], &catalog);
        let proved = problems.is_empty();
        if problems.kinds().iter().any(|kind| *kind != Kind::LeaksFuture) {
            return Err(render(&problems, &sources, Style::Plain).into());
        }
        first.get_or_insert(proved);
        let report = if proved { "proved\n".to_owned() } else { render(&problems, &sources, Style::Plain) };
        writeln!(shown, "{name}: {report}")?;
    }
    let wanted = file_name(case).starts_with("proof_");
    if first != Some(wanted) {
        return Err(format!("expected {}:\n{shown}", if wanted { "a proof" } else { "a leak" }).into());
    }
    golden(case, &shown);
    Ok(())
}

/// The text form checks without problems, gives the same spec and the same identity, and is formatted.
fn reads_back(spec: &spec::Spec) -> Outcome {
    let text = spec::text(spec);
    let loader = Folder(PathBuf::new());
    let (again, problems, sources) =
        check(&loader, Source::new("text.rt", text.clone()), None, &[], &Catalog::default());
    let again = again.ok_or_else(|| render(&problems, &sources, Style::Plain))?;
    assert!(spec.root.same(&again.root), "the text form gives another spec:\n{text}");
    assert_eq!((&spec.name, &spec.doc), (&again.name, &again.doc));
    assert_eq!(spec::hash(spec), spec::hash(&again));
    assert_eq!(syntax::format(&text).expect("the text form parses"), text, "the text form is not formatted");
    let shown = spec::text_with_origins(spec);
    assert_eq!(syntax::format(&shown).expect("the shown form parses"), shown, "the shown form is not formatted");
    Ok(())
}

/// A golden without a case is an error; so is a kind that no case shows.
pub(crate) fn complete(case: &Path, _: String) -> Outcome {
    let root = case.parent().unwrap_or(Path::new("")).to_owned();
    let mut shown = BTreeSet::new();
    for folder in ["errors", "fmt", "show", "lower", "grad", "causality"] {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "snap") {
                let case = ["rt", "rtir"].iter().any(|extension| path.with_extension(extension).exists());
                assert!(case, "{} has no case", path.display());
                continue;
            }
            if folder == "errors" && path.is_file() {
                let text = std::fs::read_to_string(&path)?;
                shown.extend(expectations(&text).into_iter().map(|e| e.kind));
            }
        }
    }
    for kind in Kind::ALL {
        assert!(shown.contains(kind.code()), "no case shows {}", kind.code());
    }
    Ok(())
}

/// A page of `docs/` that holds generated text is current; `RTC_UPDATE=1` writes it.
pub(crate) fn generated(page: &Path, text: String) -> Outcome {
    let name = file_name(page);
    let expected = match name.as_str() {
        "diagnostics.md" => rtc_compiler::diag::markdown(),
        _ => {
            let (start, end) = ("<!-- generated:features -->\n", "<!-- end -->");
            let (before, rest) = text.split_once(start).ok_or("the start marker is missing")?;
            let (_, after) = rest.split_once(end).ok_or("the end marker is missing")?;
            examples(before)?;
            format!("{before}{start}{}\n{end}{after}", rtc_compiler::feature::markdown())
        }
    };
    if expected != text {
        if std::env::var_os("RTC_UPDATE").is_none() {
            return Err(format!("{name} is not current: run with RTC_UPDATE=1").into());
        }
        std::fs::write(page, expected)?;
    }
    Ok(())
}

/// The examples of a page without generated text.
pub(crate) fn written(_: &Path, text: String) -> Outcome {
    examples(&text)
}

/// The examples of a page, taken together, are a file without problems.
fn examples(page: &str) -> Outcome {
    let blocks: Vec<&str> = page.split("```rt\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let loader = Folder(PathBuf::new());
    let (_, problems, sources) = check_all(&loader, Source::new("examples", blocks.join("\n")), &Catalog::default());
    if problems.is_empty() { Ok(()) } else { Err(render(&problems, &sources, Style::Plain).into()) }
}
