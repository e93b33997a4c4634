//! The open documents, and what the compiler says of each: of the text in the editor, saved or not, with the files that it uses.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rtc_compiler::check::{Loader, NoFiles, OF_PROGRAM, check_all};
use rtc_compiler::diag::Problems;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::{Source, SourceId, Sources, Span};
use rtc_compiler::spec::Spec;
use rtc_compiler::syntax::{self, MAX_FILE_BYTES};

use crate::grammar;
use crate::names::{CheckedText, SymbolTable};
use crate::text::IndexedText;

/// Gives the loader of the files that a file on disk may use.
pub type LoaderOf = fn(&Path) -> Box<dyn Loader>;

/// The result of a compiler's check.
type CheckResult = (Vec<Spec>, Problems, Sources);

/// A hint behind a byte of the document.
#[derive(Debug)]
pub(crate) struct Hint {
    pub(crate) offset: usize,
    pub(crate) label: String,
}

/// The compiler's findings on a document.
#[derive(Debug)]
pub(crate) struct CheckedDocument {
    /// The models and variants without errors.
    pub(crate) specs: Vec<Spec>,
    pub(crate) problems: Problems,
    /// The document, and the files that it uses, by the ids of their spans.
    pub(crate) units: Vec<CheckedText>,
    /// The names of all files that were asked for.
    asked: BTreeSet<String>,
}

impl CheckedDocument {
    /// The text that a span lies in; nothing for one of the library.
    pub(crate) fn unit(&self, span: Span) -> Option<&CheckedText> {
        self.units.get(span.source.0 as usize)
    }

    pub(crate) fn root(&self) -> &CheckedText {
        &self.units[0]
    }
}

/// The analysis of a document.
#[derive(Debug)]
pub(crate) struct DocumentAnalysis {
    /// What is said of it as it is.
    pub(crate) said: CheckedDocument,
    /// What is said of it without the items that can't be parsed, where there are such.
    healthy: Option<CheckedDocument>,
    names: OnceCell<SymbolTable>,
    pub(crate) hints: OnceCell<Vec<Hint>>,
}

impl DocumentAnalysis {
    /// What is known of what can be parsed. Places are those of the document.
    pub(crate) fn known(&self) -> &CheckedDocument {
        self.healthy.as_ref().unwrap_or(&self.said)
    }

    pub(crate) fn names(&self) -> &SymbolTable {
        self.names.get_or_init(|| SymbolTable::of(&self.known().units))
    }
}

struct Document {
    text: IndexedText,
    analysis: OnceCell<Rc<DocumentAnalysis>>,
}

/// All open documents, by their addresses.
pub(crate) struct World {
    loader: LoaderOf,
    documents: BTreeMap<String, Document>,
}

impl World {
    pub(crate) fn new(loader: LoaderOf) -> Self {
        Self { loader, documents: BTreeMap::new() }
    }

    /// Gives a document another text. What was known of documents that use it is forgotten; their addresses are given.
    pub(crate) fn put(&mut self, uri: &str, text: IndexedText) -> Vec<String> {
        self.documents.insert(uri.to_owned(), Document { text, analysis: OnceCell::new() });
        self.forget(uri)
    }

    /// Closes a document; what is on disk counts again.
    pub(crate) fn close(&mut self, uri: &str) -> Vec<String> {
        self.documents.remove(uri);
        self.forget(uri)
    }

    /// Forgets what was known of a document and of those that use it.
    pub(crate) fn forget(&mut self, uri: &str) -> Vec<String> {
        let name = name_of(uri);
        let mut forgotten = vec![];
        for (known, document) in &mut self.documents {
            let uses = document.analysis.get().is_some_and(|analysis| {
                let healthy = analysis.healthy.iter().any(|checked| checked.asked.contains(&name));
                healthy || analysis.said.asked.contains(&name)
            });
            if uses || known == uri {
                document.analysis = OnceCell::new();
                forgotten.push(known.clone());
            }
        }
        forgotten
    }

    pub(crate) fn text(&self, uri: &str) -> Option<&IndexedText> {
        self.documents.get(uri).map(|document| &document.text)
    }

    pub(crate) fn uris(&self) -> impl Iterator<Item = &str> {
        self.documents.keys().map(String::as_str)
    }

    /// What is known of an open document.
    pub(crate) fn analysis(&self, uri: &str) -> Option<Rc<DocumentAnalysis>> {
        let document = self.documents.get(uri)?;
        let analyse = || Rc::new(self.analyse(uri, &document.text.text, &BTreeMap::new()));
        Some(document.analysis.get_or_init(analyse).clone())
    }

    /// Analyses a text in the place of a document, with some other texts in the place of files, by their addresses.
    pub(crate) fn analyse(&self, uri: &str, text: &str, others: &BTreeMap<String, String>) -> DocumentAnalysis {
        let healthy = healthy(text);
        let said = self.check(uri, text, others);
        let healthy = (healthy != *text).then(|| self.check(uri, &healthy, others));
        DocumentAnalysis { said, healthy, names: OnceCell::new(), hints: OnceCell::new() }
    }

    /// Checks a text in the place of a document.
    fn check(&self, uri: &str, text: &str, others: &BTreeMap<String, String>) -> CheckedDocument {
        let ((specs, problems, sources), asked) = self.run(uri, text, others);
        let unit = |(id, source): (SourceId, &Source)| {
            let is_root = id == SourceId(0);
            let parse = |text: &str| syntax::parse(id, text, &mut Problems::default());
            let used = || (!is_root).then(|| parse(&healthy(&source.text))).flatten();
            let file = parse(&source.text).or_else(used).unwrap_or_default();
            let uri = if is_root { uri.to_owned() } else { self.uri_of(&source.name) };
            CheckedText { uri, text: IndexedText::new(source.text.as_str()), file }
        };
        let units = sources.iter().map(unit).collect();
        CheckedDocument { specs, problems, units, asked }
    }

    /// The problems of a text in the place of a document.
    pub(crate) fn problems(&self, uri: &str, text: &str) -> Problems {
        let ((_, problems, _), _) = self.run(uri, text, &BTreeMap::new());
        problems
    }

    /// Runs the compiler; gives the names of the files that it asked for, too.
    fn run(&self, uri: &str, text: &str, others: &BTreeMap<String, String>) -> (CheckResult, BTreeSet<String>) {
        let disk: Box<dyn Loader> = match path_of(uri) {
            Some(path) => (self.loader)(&path),
            None => Box::new(NoFiles),
        };
        let name = name_of(uri);
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        let asked = RefCell::new(BTreeSet::from([name.clone()]));
        let loader = Overlay { world: self, others, disk, folder, asked };
        let found = check_all(&loader, Source::new(name, text), &Catalog::default());
        (found, loader.asked.into_inner())
    }

    /// The address of a file: as the editor calls it, where it is open. A file of the program has none: its name stands for it.
    pub(crate) fn uri_of(&self, name: &str) -> String {
        if name.starts_with(OF_PROGRAM) {
            return name.to_owned();
        }
        let open = self.documents.keys().find(|uri| name_of(uri) == name);
        open.cloned().unwrap_or_else(|| address(name))
    }
}

/// Files, of which those that are open are read as they are in the editor.
struct Overlay<'w> {
    world: &'w World,
    others: &'w BTreeMap<String, String>,
    disk: Box<dyn Loader>,
    folder: String,
    asked: RefCell<BTreeSet<String>>,
}

impl Loader for Overlay<'_> {
    fn load(&self, path: &str) -> Result<String, String> {
        let name = format!("{}/{path}", self.folder);
        let uri = self.world.uri_of(&name);
        self.asked.borrow_mut().insert(name);
        let other = self.others.get(&uri).cloned();
        let open = || self.world.text(&uri).map(|text| text.text.clone());
        other.or_else(open).map_or_else(|| self.disk.load(path), Ok)
    }
}

/// The path of a file.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let encoded = uri.strip_prefix("file://")?;
    let encoded = &encoded[encoded.find('/')?..];
    let mut bytes = vec![];
    let mut rest = encoded.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| *first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// What reports call a document: its path, or its address where it is no file.
fn name_of(uri: &str) -> String {
    path_of(uri).map_or_else(|| uri.to_owned(), |path| path.display().to_string())
}

/// The address of a path.
fn address(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    format!("file://{}", path.bytes().map(encode).collect::<String>())
}

/// How often items are left out: each time all that have an error.
const ROUNDS: usize = 4;

/// A text with blanks in the place of the items that can't be parsed, so that what is known of the others is known while one is
/// being written.
fn healthy(text: &str) -> String {
    let mut text = text.to_owned();
    if text.len() > MAX_FILE_BYTES {
        return text;
    }
    for _ in 0..ROUNDS {
        let mut problems = Problems::default();
        if syntax::parse(SourceId(0), &text, &mut problems).is_some() {
            break;
        }
        let starts = item_starts(&text);
        for at in problems.iter().filter_map(|problem| problem.span).map(|span| span.start as usize) {
            let next = starts.partition_point(|start| *start <= at);
            let start = if next == 0 { 0 } else { starts[next - 1] };
            let end = starts.get(next).copied().unwrap_or(text.len());
            let blank: String = text[start..end].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }).collect();
            text.replace_range(start..end, &blank);
        }
    }
    text
}

/// Where lines begin with the word of an item.
fn item_starts(text: &str) -> Vec<usize> {
    let words = grammar::beginnings("item");
    let begins = |line: &&str| {
        let word = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
        words.contains(&word)
    };
    let lines = text.split_inclusive('\n').filter(begins);
    lines.map(|line| line.as_ptr() as usize - text.as_ptr() as usize).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_paths() {
        for (uri, path) in
            [("file:///a%20b/%C3%B6.rt", "/a b/ö.rt"), ("file://localhost/x%2", "/x%2"), ("file:///%zz", "/%zz")]
        {
            assert_eq!(path_of(uri), Some(PathBuf::from(path)), "{uri}");
        }
        assert_eq!(address("/a b/ö.rt"), "file:///a%20b/%C3%B6.rt");
        for none in ["untitled:Untitled-1", "file://", "file:///%ff", ""] {
            assert_eq!(path_of(none), None, "{none}");
        }
    }

    #[test]
    fn items_that_cannot_be_parsed_are_left_out() {
        let text = "let a = 1\nmodel m {\n    embed {{\n}\n\nlet b = = ö\ndef f(x) { out x }\n";
        let left = healthy(text);
        assert_eq!(left.len(), text.len());
        assert_eq!(left.split_whitespace().collect::<Vec<_>>().join(" "), "let a = 1 def f(x) { out x }");
        assert_eq!(left.find("def"), text.find("def"));
        let known = "model m { embed }\n";
        assert_eq!(healthy(known), known);
        healthy(&"{".repeat(1000));
    }
}
