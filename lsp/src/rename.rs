//! Renaming: every place of a name gets the new one, or none does.

use std::collections::{BTreeMap, BTreeSet};

use lsp_types::TextEdit;
use rtc_compiler::check::{OF_PROGRAM, is_of_language};
use rtc_compiler::define::STATE;
use rtc_compiler::diag::Problems;
use rtc_compiler::source::Span;

use crate::complete::applied;
use crate::edits::{EditRanges, places, text_of};
use crate::grammar;
use crate::names::{Symbol, SymbolKey, SymbolTable};
use crate::world::{CheckedDocument, DocumentAnalysis, World};

/// Edits by the addresses of texts.
pub(crate) type Edits = BTreeMap<String, Vec<TextEdit>>;

/// Returns the place of the name at a byte, if it may have another name.
pub(crate) fn renamed_range(analysis: &DocumentAnalysis, offset: usize) -> Option<Span> {
    let (key, span) = analysis.names().at(0, offset)?;
    (!is_state(key)).then_some(span)
}

/// Whether a name is that of the value that layers hand on.
fn is_state(key: &SymbolKey) -> bool {
    matches!(key, SymbolKey::Own(_, name) if name == STATE)
}

/// The edits that give the name at a byte another one.
///
/// # Errors
/// A sentence, where the name would not mean the same any more: the names of the texts, or the compiler's problems with them, would change.
pub(crate) fn rename(world: &World, analysis: &DocumentAnalysis, offset: usize, name: &str) -> Result<Edits, String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.chars().all(letter) || name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        return Err(format!("`{name}` is no name: it has letters, digits and `_`, and begins with no digit"));
    }
    let (places, _) = places(world, analysis, offset).ok_or("there is no name of this file")?;
    refuse_taken(analysis, offset, name)?;
    if places.keys().any(|uri| uri.starts_with(OF_PROGRAM)) {
        return Err("the name is defined in a file of the program, which can't be changed".to_owned());
    }
    let (mut edits, mut texts) = (Edits::new(), BTreeMap::new());
    for (uri, spots) in &places {
        let text = text_of(world, analysis, uri).ok_or_else(|| format!("{uri} is not known"))?;
        let edit = |(start, end): &(usize, usize)| TextEdit::new(text.area(*start..*end), name.to_owned());
        edits.insert(uri.clone(), spots.iter().map(edit).collect());
        let mut changed = text.text.clone();
        for (start, end) in spots.iter().rev() {
            changed.replace_range(*start..*end, name);
        }
        texts.insert(uri.clone(), changed);
    }
    for uri in world.uris() {
        let Some(known) = world.analysis(uri) else { continue };
        if known.said.units.iter().any(|unit| texts.contains_key(&unit.uri)) {
            let text = texts.get(uri).cloned().unwrap_or_else(|| known.said.root().text.text.clone());
            let after = world.analyse(uri, &text, &texts);
            Renaming { before: &known, after: &after, places: &places, name }.check()?;
        }
    }
    Ok(edits)
}

/// Refuses words of the language for values, and names of constants and definitions for bindings.
fn refuse_taken(analysis: &DocumentAnalysis, offset: usize, name: &str) -> Result<(), String> {
    let names = analysis.names();
    let Some((key, _)) = names.at(0, offset) else { return Ok(()) };
    if is_state(key) {
        return Err(format!("`{STATE}` is the value that layers hand on: it has no other name"));
    }
    if !names.is_value(key) {
        return Ok(());
    }
    let refused = |what: &str| Err(format!("`{name}` is {what}: choose another name"));
    if grammar::words().contains(&name) {
        return refused("a keyword");
    }
    if is_of_language(name) || applied().any(|(function, _)| function == name) {
        return refused("built in");
    }
    match names.taken(&analysis.known().units, offset, name) {
        Some(symbol) => refused(&format!("taken by `{}`", symbol.text.lines().next().unwrap_or_default())),
        None => Ok(()),
    }
}

/// A document before and after all places of a name got a new one.
struct Renaming<'r> {
    before: &'r DocumentAnalysis,
    after: &'r DocumentAnalysis,
    places: &'r EditRanges,
    name: &'r str,
}

impl Renaming<'_> {
    /// Refuses a name that is taken, or that changes the meaning of another one or the problems of the document.
    fn check(&self) -> Result<(), String> {
        let (before, after) = (self.symbols(), symbols(self.after.names()));
        let changed = after.difference(&before).find(|places| places.iter().any(|place| self.is_new(*place)));
        let taken = changed.and_then(|places| places.iter().find(|place| !self.is_new(**place)));
        if let Some(place) = taken {
            let moved = |at: &Span| self.moved(*at).map(|(at, _)| at);
            let holds = |symbol: &&Symbol| symbol.places().any(|at| moved(at).as_ref() == Some(place));
            let symbols = &self.before.names().symbols;
            let defined = symbols.values().find(holds).and_then(|symbol| symbol.definitions.first());
            let line = self.line(*defined.unwrap_or(place));
            return Err(format!("`{}` is taken in this scope, on {line}: choose another name", self.name));
        }
        let (old, new) = (&self.before.said.problems, &self.after.said.problems);
        if kinds(old) != kinds(new) {
            let new = new.iter().find(|problem| old.iter().all(|old| old.message != problem.message));
            let why = new.map_or("a name would mean something else", |problem| &problem.message);
            return Err(format!("`{}` can't be its name: {why}", self.name));
        }
        match before.symmetric_difference(&after).flatten().next() {
            Some(place) => Err(format!("with `{}`, {} would mean something else", self.name, self.line(*place))),
            None => Ok(()),
        }
    }

    /// The places of all names before, as they stand in the texts after.
    fn symbols(&self) -> BTreeSet<BTreeSet<Span>> {
        let moved = |place: Span| self.moved(place).map_or(place, |(place, _)| place);
        symbols(self.before.names()).into_iter().map(|places| places.into_iter().map(moved).collect()).collect()
    }

    /// Whether a place of the texts after has the new name.
    fn is_new(&self, place: Span) -> bool {
        let Some(unit) = self.before.known().unit(place) else { return false };
        let spots = self.places.get(&unit.uri).into_iter().flatten();
        let own = spots.map(|(start, end)| Span::new(place.source, *start, *end));
        own.filter_map(|own| self.moved(own)).any(|(own, renamed)| renamed && own == place)
    }

    /// A place in the text after, and whether it has the new name.
    fn moved(&self, place: Span) -> Option<(Span, bool)> {
        let spots = self.places.get(&self.before.known().unit(place)?.uri)?;
        let to = |at: u32| {
            let before = spots.iter().take_while(|(_, end)| *end <= at as usize);
            before.fold(at as usize, |at, (start, end)| at + self.name.len() - (end - start))
        };
        let renamed = spots.contains(&(place.start as usize, place.end as usize));
        Some((Span::new(place.source, to(place.start), to(place.end)), renamed))
    }

    /// The line of a place, and its file where that is another one.
    fn line(&self, place: Span) -> String {
        let documents: [&CheckedDocument; 2] = [self.after.known(), self.before.known()];
        let Some(unit) = documents.iter().find_map(|document| document.unit(place)) else { return String::new() };
        let line = format!("line {}", unit.text.position(place.start as usize).line + 1);
        let file = unit.uri.rsplit('/').next().unwrap_or_default();
        if place.source.0 == 0 { line } else { format!("{line} of {file}") }
    }
}

/// The places of every name.
fn symbols(names: &SymbolTable) -> BTreeSet<BTreeSet<Span>> {
    names.symbols.values().map(|symbol| symbol.places().copied().collect()).collect()
}

fn kinds(problems: &Problems) -> Vec<rtc_compiler::diag::Kind> {
    let mut kinds: Vec<_> = problems.iter().map(|problem| problem.kind).collect();
    kinds.sort_unstable();
    kinds
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rtc_compiler::check::{NoFiles, check_all};
    use rtc_compiler::ir::cost::Sizes;
    use rtc_compiler::ir::diff::diff;
    use rtc_compiler::ir::graph::Graph;
    use rtc_compiler::lower::Binding;
    use rtc_compiler::pipeline;
    use rtc_compiler::schema::Catalog;
    use rtc_compiler::source::Source;

    use super::*;
    use crate::edits::{definitions, references};
    use crate::text::IndexedText;

    const URI: &str = "file:///spec.rt";

    const MODEL: &str = "\
let factor = 0.5

def block(x) {
    middle = x + linear(x)
    first = norm(middle)
    out at(first, first) + linear(middle)
}

def twice(a) {
    spread = linear(a)
    out spread, a
}

model m {
    let heads = 2
    embed { width: 8 }
    share net = swiglu { hidden: 8 }
    input = state
    moved, kept = twice(input)
    loop {
        steps: 2
        carry z = zeros(input)
        normed = norm(z)
        z = net(normed + input)
        loop {
            steps: 2
            z = net(factor * z)
        }
        loss average(mean(max(z)))
    }
    first = block(z)
    loop {
        steps: 2
        carry z = first + input
        normed = norm(z + input)
        z = net(normed) + attention(z) { heads: heads }
    }
    state = z + moved
    readout mean
}

variant other_norm of m { loop[1].normed = 2 * old + z }
variant more of m { add normed = norm(normed) after loop[2].normed }
variant own of m { add extra = linear(input) after input, loop[2].z = norm(normed + extra) + z, loop[2].carry.z = first + extra }
variant inside of m { block.middle = x, block.out = old + middle }
variant named of m { m.net = geglu, remove m.loop[1].loss }
variant deeper of m:inside { block.middle = norm(old), loop[1].loop.z = net(z + input) }
variant last of m { state = norm(old) }

def geglu(x) {
    out swiglu(x) { hidden: 4, activation: gelu }
}
";

    fn world(text: &str) -> World {
        let mut world = World::new(|_| Box::new(NoFiles));
        world.put(URI, IndexedText::new(text));
        world
    }

    fn known(world: &World) -> std::rc::Rc<DocumentAnalysis> {
        world.analysis(URI).expect("it is open")
    }

    /// The byte behind the mark `¦` of a part of a text.
    #[track_caller]
    fn marked(text: &str, part: &str) -> usize {
        let (before, behind) = part.split_once('¦').expect("a mark");
        let plain = format!("{before}{behind}");
        assert_eq!(text.matches(&plain).count(), 1, "{part}");
        text.find(&plain).expect("it is there") + before.len()
    }

    /// The text after a name got another one.
    fn renamed(world: &World, offset: usize, name: &str) -> Result<String, String> {
        let analysis = known(world);
        let edits = rename(world, &analysis, offset, name)?;
        let text = &analysis.said.root().text;
        let mut edits = edits[URI].clone();
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
        Ok(edits.into_iter().fold(text.text.clone(), |mut changed, edit| {
            changed.replace_range(text.offset(edit.range.start)..text.offset(edit.range.end), &edit.new_text);
            changed
        }))
    }

    /// The lines of a text that have a word, without blanks.
    fn lines(text: &str, word: &str) -> Vec<String> {
        let has = |line: &&str| line.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|part| part == word);
        text.lines().filter(has).map(|line| line.trim().to_owned()).collect()
    }

    /// The graphs of all models of a text, which has no problem.
    fn graphs(text: &str) -> Vec<(String, Graph)> {
        let catalog = Catalog::default();
        let (specs, problems, _) = check_all(&NoFiles, Source::new("spec.rt", text), &catalog);
        assert!(problems.is_empty(), "{:?}\n{text}", problems.iter().next());
        let graph = |spec| pipeline::forward(spec, &Binding::from(&catalog)).expect("a graph");
        specs.iter().map(|spec| (spec.name.clone(), graph(spec))).collect()
    }

    /// Two texts have the same models, up to the names of weights.
    fn same(before: &[(String, Graph)], after: &[(String, Graph)]) {
        assert_eq!(before.len(), after.len());
        let sizes = Sizes { axes: BTreeMap::new(), depth: None, around: None };
        for ((name, before), (other, after)) in before.iter().zip(after) {
            assert_eq!(name, other);
            assert!(diff(before, after, &sizes).is_empty(), "{name}: {}", diff(before, after, &sizes));
        }
    }

    #[test]
    fn bindings_are_renamed_in_their_scope_and_in_paths() {
        let world = world(MODEL);
        let before = graphs(MODEL);
        let cases: &[(&[&str], &[&str])] = &[
            (
                &["  nor¦med = norm(z)\n", "net(nor¦med + input)", "loop[1].nor¦med"],
                &["new = norm(z)", "z = net(new + input)", "variant other_norm of m { loop[1].new = 2 * old + z }"],
            ),
            (
                &[
                    "nor¦med = norm(z + input)",
                    "add nor¦med =",
                    "norm(nor¦med) after",
                    "after loop[2].nor¦med",
                    "norm(nor¦med + extra)",
                ],
                &[
                    "new = norm(z + input)",
                    "z = net(new) + attention(z) { heads: heads }",
                    "variant more of m { add new = norm(new) after loop[2].new }",
                    "variant own of m { add extra = linear(input) after input, loop[2].z = norm(new + extra) + z, loop[2].carry.z = first + extra }",
                ],
            ),
            (
                &[
                    "carry z¦ = zeros",
                    "net(factor * ¦z)",
                    "block(¦z)",
                    "2 * old + ¦z",
                    "loop[1].loop.¦z",
                    "net(z¦ + input) }",
                ],
                &[
                    "carry new = zeros(input)",
                    "normed = norm(new)",
                    "new = net(normed + input)",
                    "new = net(factor * new)",
                    "loss average(mean(max(new)))",
                    "first = block(new)",
                    "variant other_norm of m { loop[1].normed = 2 * old + new }",
                    "variant deeper of m:inside { block.middle = norm(old), loop[1].loop.new = net(new + input) }",
                ],
            ),
            (
                &["carry ¦z = first", "state = ¦z", "norm(normed + extra) + ¦z", "loop[2].carry.¦z"],
                &[
                    "carry new = first + input",
                    "normed = norm(new + input)",
                    "new = net(normed) + attention(new) { heads: heads }",
                    "state = new + moved",
                    "variant own of m { add extra = linear(input) after input, loop[2].new = norm(normed + extra) + new, loop[2].carry.new = first + extra }",
                ],
            ),
            (
                &["add ext¦ra", "norm(normed + extra¦)"],
                &[
                    "variant own of m { add new = linear(input) after input, loop[2].z = norm(normed + new) + z, loop[2].carry.z = first + new }",
                ],
            ),
            (
                &[
                    "  mid¦dle = x +",
                    "linear(mid¦dle)",
                    "block.mid¦dle = x,",
                    "old + mid¦dle",
                    "block.mid¦dle = norm(old)",
                ],
                &[
                    "new = x + linear(x)",
                    "first = norm(new)",
                    "out at(first, first) + linear(new)",
                    "variant inside of m { block.new = x, block.out = old + new }",
                    "variant deeper of m:inside { block.new = norm(old), loop[1].loop.z = net(z + input) }",
                ],
            ),
            // The second argument of `at` is a word, and another item has a binding of the same name.
            (&["  fir¦st = norm"], &["new = norm(middle)", "out at(new, first) + linear(middle)"]),
            (
                &["  first¦ = block", "carry z = f¦irst", "carry.z = first¦"],
                &[
                    "new = block(z)",
                    "carry z = new + input",
                    "variant own of m { add extra = linear(input) after input, loop[2].z = norm(normed + extra) + z, loop[2].carry.z = new + extra }",
                ],
            ),
            (
                &["share n¦et", "m.n¦et"],
                &[
                    "share new = swiglu { hidden: 8 }",
                    "z = new(normed + input)",
                    "z = new(factor * z)",
                    "z = new(normed) + attention(z) { heads: heads }",
                    "variant named of m { m.new = geglu, remove m.loop[1].loss }",
                    "variant deeper of m:inside { block.middle = norm(old), loop[1].loop.z = new(z + input) }",
                ],
            ),
            // A definition that is written out has names of its own, whatever it is applied to.
            (&["spr¦ead = "], &["new = linear(a)", "out new, a"]),
            (
                &["model ¦m", "of m¦ { m.net", "{ m¦.net", "remove m¦.loop"],
                &[
                    "model new {",
                    "variant other_norm of new { loop[1].normed = 2 * old + z }",
                    "variant more of new { add normed = norm(normed) after loop[2].normed }",
                    "variant own of new { add extra = linear(input) after input, loop[2].z = norm(normed + extra) + z, loop[2].carry.z = first + extra }",
                    "variant inside of new { block.middle = x, block.out = old + middle }",
                    "variant named of new { new.net = geglu, remove new.loop[1].loss }",
                    "variant deeper of new:inside { block.middle = norm(old), loop[1].loop.z = net(z + input) }",
                    "variant last of new { state = norm(old) }",
                ],
            ),
        ];
        for (marks, expected) in cases {
            for mark in *marks {
                let after = renamed(&world, marked(MODEL, mark), "new").unwrap_or_else(|why| panic!("{mark}: {why}"));
                assert_eq!(lines(&after, "new"), *expected, "{mark}");
                let after = graphs(&after);
                match mark.contains("m¦") || mark.contains("¦m") && mark.contains("model") {
                    true => assert_eq!(after.len(), before.len()),
                    false => same(&before, &after),
                }
            }
        }
    }

    #[test]
    fn names_that_are_taken_or_of_the_language_are_refused() {
        let world = world(MODEL);
        for (mark, name, why) in [
            ("  nor¦med = norm(z)\n", "z", "`z` is taken in this scope, on line 22"),
            ("loop[1].nor¦med", "input", "`input` is taken in this scope, on line 18"),
            ("  nor¦med = norm(z)\n", "net", "`net` is taken in this scope, on line 17"),
            ("  nor¦med = norm(z)\n", "heads", "`heads` is taken by `let heads = 2`"),
            ("  nor¦med = norm(z)\n", "factor", "`factor` is taken by `let factor = 0.5`"),
            ("  nor¦med = norm(z)\n", "carry", "is a keyword"),
            ("  nor¦med = norm(z)\n", "geglu", "`geglu` is taken by `def geglu(x) {`"),
            ("  nor¦med = norm(z)\n", "carry", "`carry` is a keyword"),
            ("  nor¦med = norm(z)\n", "linear", "`linear` is built in"),
            ("  nor¦med = norm(z)\n", "state", "`state` is built in"),
            ("  nor¦med = norm(z)\n", "step", "`step` is built in"),
            ("  nor¦med = norm(z)\n", "old", "`old` is built in"),
            ("  nor¦med = norm(z)\n", "swiglu", "`swiglu` is built in"),
            ("  nor¦med = norm(z)\n", "2z", "is no name"),
            ("  nor¦med = norm(z)\n", "a.b", "is no name"),
            ("add ext¦ra", "z", "`z` "),
            ("block.mid¦dle = norm", "x", "`x` is taken"),
            ("block.mid¦dle = norm", "first", "`first` is taken"),
            ("sta¦te = z + moved", "out_state", "`state` is the value that layers hand on"),
            ("last of m { sta¦te =", "last", "there is no name"),
            ("remove m.loop[1].lo¦ss", "paid", "there is no name"),
        ] {
            let said = renamed(&world, marked(MODEL, mark), name).expect_err(mark);
            assert!(said.contains(why), "{mark} {name}: {said}");
        }
        let analysis = known(&world);
        assert!(renamed_range(&analysis, marked(MODEL, "sta¦te = z + moved")).is_none());
        let span = renamed_range(&analysis, marked(MODEL, "loop[1].nor¦med")).expect("a name");
        assert_eq!(&MODEL[span.start as usize..span.end as usize], "normed");
    }

    #[test]
    fn paths_lead_to_their_equations() {
        let world = world(MODEL);
        let (analysis, text) = (known(&world), IndexedText::new(MODEL));
        for (mark, line, uses) in [
            ("loop[1].nor¦med", "normed = norm(z)", 2),
            ("after loop[2].nor¦med", "normed = norm(z + input)", 4),
            ("loop[1].loop.¦z", "z = net(factor * z)", 7),
            ("loop[2].carry.¦z", "carry z = first + input", 6),
            ("m.n¦et", "share net = swiglu { hidden: 8 }", 5),
            ("block.mid¦dle = norm", "middle = x + linear(x)", 5),
            ("last of m { sta¦te =", "state = z + moved", 0),
            ("remove m.loop[1].lo¦ss", "loss average(mean(max(z)))", 0),
        ] {
            let found = definitions(&analysis, marked(MODEL, mark));
            let found: Vec<_> = found.iter().map(|at| MODEL[text.offset(at.range.start)..].lines().next()).collect();
            assert_eq!(found.len(), 1, "{mark}: {found:?}");
            assert!(found[0].is_some_and(|found| line.ends_with(found)), "{mark}: {found:?}");
            assert_eq!(references(&world, &analysis, marked(MODEL, mark), false).len(), uses, "{mark}");
        }
    }

    /// Every binding that an edit of a shipped spec names has another name in all of its models, which stay the same.
    #[test]
    fn bindings_of_shipped_specs_are_renamed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
        let files = fs::read_dir(folder).expect("the specs are there").map(|entry| entry.expect("a file").path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "rt")).collect();
        files.sort();
        let (mut count, mut named) = (0, 0);
        for file in files {
            let text = fs::read_to_string(&file).expect("a text");
            let world = world(&text);
            let analysis = known(&world);
            let names = analysis.names();
            for symbol in names.symbols.values() {
                let texts =
                    symbol.places().filter(|at| at.source.0 == 0).map(|at| &text[at.start as usize..at.end as usize]);
                assert!(texts.collect::<BTreeSet<_>>().len() <= 1, "{file:?}: {symbol:?}");
            }
            let mut bindings: BTreeMap<&SymbolKey, Vec<usize>> = BTreeMap::new();
            for path in names.paths() {
                if let Some((key, _)) = names.at(0, path.start as usize) {
                    bindings.entry(key).or_default().push(path.start as usize);
                }
            }
            let before = if bindings.is_empty() { vec![] } else { graphs(&text) };
            for (key, paths) in bindings {
                let after =
                    renamed(&world, paths[0], "another_name").unwrap_or_else(|why| panic!("{file:?} {key:?}: {why}"));
                same(&before, &graphs(&after));
                let symbol = &names.symbols[key];
                assert_eq!(lines(&text, "another_name"), Vec::<String>::new());
                assert!(paths.iter().all(|path| symbol.uses.iter().any(|at| at.start as usize == *path)), "{key:?}");
                (count, named) = (count + 1, named + paths.len());
            }
        }
        assert!(count >= 25 && named >= 40, "{count} bindings in {named} paths");
    }
}
