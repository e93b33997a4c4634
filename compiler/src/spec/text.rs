//! A spec as a complete `.rt` text, and its identity.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::{Block, FieldValue, Origin, Setting, Spec};
use crate::define::{self, Definition, read_names};
use crate::feature::{Feature, Lowering};
use crate::syntax::{self, documentation};

/// The longest line that braces are kept on, as in the formatter.
const WIDTH: usize = 100;

/// The complete model: every field written out. Checking it gives an equal spec.
pub fn text(spec: &Spec) -> String {
    written(spec, false)
}

/// The definitions of the library that the model uses, each behind those that it applies: the equations behind its words.
pub fn library(spec: &Spec) -> String {
    let mut found = vec![];
    used(&spec.root, true, &mut found);
    let library = found.iter().filter_map(|feature| feature.definition()).filter(|definition| definition.library);
    library.map(|definition| format!("{}\n\n", definition.documented)).collect()
}

/// As `text`, with a comment on every line that says where its value came from, unless it was written in the file.
pub fn text_with_origins(spec: &Spec) -> String {
    written(spec, true)
}

fn written(spec: &Spec, origins: bool) -> String {
    let mut out = definitions(spec, |definition| &definition.documented);
    out += &format!("{}model {} ", documentation(&spec.doc, ""), spec.name);
    SpecWriter { out: &mut out, origins }.braces(&spec.root, 0);
    out + "\n"
}

/// SHA-256 of what the model is: its text without name and docs, in hexadecimal.
pub fn hash(spec: &Spec) -> String {
    let mut out = definitions(spec, |definition| &definition.text);
    SpecWriter { out: &mut out, origins: false }.braces(&spec.root, 0);
    Sha256::digest(out.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The definitions that the model uses and that are not in the library, each behind those that it applies.
fn definitions(spec: &Spec, text: fn(&Definition) -> &str) -> String {
    let mut found = vec![];
    used(&spec.root, false, &mut found);
    let own = found.iter().filter_map(|feature| feature.definition());
    let text = own.map(|definition| format!("{}\n\n", text(definition))).collect::<String>();
    named(spec, &found) + &text
}

/// The masks, biases and constants of the files that equations of the model read, by name.
fn named(spec: &Spec, definitions: &[Arc<Feature>]) -> String {
    let mut open: Vec<String> = vec![];
    let mut read = |definition: &Definition| {
        let values = definition.values();
        values.for_each(|value| read_names(value, &mut |name| open.push(name.text.clone())));
    };
    definitions.iter().filter_map(|feature| feature.definition()).for_each(&mut read);
    runs(&spec.root, &mut read);
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    while let Some(name) = open.pop() {
        let Some(definition) = spec.named.find(&name).filter(|_| !found.contains_key(&name)) else { continue };
        found.insert(name, format!("{}\n\n", syntax::named(definition.item())));
        read_names(definition.body(), &mut |name| open.push(name.text.clone()));
    }
    found.into_values().collect()
}

/// Every run of equations in a body.
fn runs(block: &Block, found: &mut impl FnMut(&Definition)) {
    if let Lowering::Equations(run) = &block.feature.lower {
        found(run);
    }
    block.children.iter().for_each(|child| runs(child, found));
}

fn used(block: &Block, library: bool, found: &mut Vec<Arc<Feature>>) {
    define::collect(&block.feature, library, found);
    for setting in block.fields.values() {
        if let FieldValue::Function(inner) = &setting.value {
            used(inner, library, found);
        }
    }
    block.children.iter().for_each(|child| used(child, library, found));
}

struct SpecWriter<'a> {
    out: &'a mut String,
    origins: bool,
}

impl SpecWriter<'_> {
    fn block(&mut self, block: &Block, indent: usize) {
        if block.feature.is_equations() {
            let pad = "    ".repeat(indent);
            let lines = block.feature.text().unwrap_or_default().lines().map(|line| format!("{pad}{line}"));
            self.out.push_str(&lines.collect::<Vec<_>>().join("\n"));
            return;
        }
        self.pad(indent);
        self.out.push_str(&block.slot);
        let word = block.fields.get("copies").filter(|_| block.variant.is_empty());
        match word {
            Some(copies) => self.out.push_str(&format!(" {}", copies.value)),
            None if block.variant.is_empty() => {}
            None => self.out.push_str(&format!(" {}", block.variant)),
        }
        if fields(block).next().is_some() || !block.children.is_empty() {
            self.out.push(' ');
            self.braces(block, indent);
        } else {
            self.comment(&block.origin);
        }
    }

    /// Fields first, in the order of their names, then the statements.
    fn braces(&mut self, block: &Block, indent: usize) {
        if block.children.is_empty() && !self.origins {
            let line: Vec<String> = fields(block).map(|(name, s)| format!("{name}: {}", s.value)).collect();
            let line = if line.is_empty() { "{ }".to_owned() } else { format!("{{ {} }}", line.join(", ")) };
            let column = self.out.rsplit('\n').next().unwrap_or("").chars().count();
            if column + line.chars().count() <= WIDTH {
                self.out.push_str(&line);
                return;
            }
        }
        self.out.push('{');
        self.comment(&block.origin);
        self.out.push('\n');
        for (name, setting) in fields(block) {
            self.pad(indent + 1);
            self.out.push_str(&format!("{name}: {}", setting.value));
            self.comment(&setting.origin);
            self.out.push('\n');
        }
        for child in &block.children {
            self.block(child, indent + 1);
            self.out.push('\n');
        }
        self.pad(indent);
        self.out.push('}');
    }

    fn comment(&mut self, origin: &Origin) {
        if !self.origins {
            return;
        }
        let text = match origin {
            Origin::Written(_) => return,
            Origin::Variant(name, _) => format!(" // variant {name}"),
            Origin::Override(n) => format!(" // --set {n}"),
            Origin::Derived(rule) => format!(" // from {rule}"),
            Origin::Default => " // default".to_owned(),
        };
        self.out.push_str(&text);
    }

    fn pad(&mut self, indent: usize) {
        self.out.extend(std::iter::repeat_n("    ", indent));
    }
}

/// The fields inside the braces: all but the number behind the keyword.
fn fields(block: &Block) -> impl Iterator<Item = (&str, &Setting)> {
    let behind = |name: &str| name == "copies" && block.variant.is_empty();
    block.fields.iter().map(|(name, setting)| (&**name, setting)).filter(move |(name, _)| !behind(name))
}
