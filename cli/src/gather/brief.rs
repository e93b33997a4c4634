//! Which values of a complete spec need not be written.

use std::collections::BTreeSet;

use rtc_compiler::check::{NoFiles, check};
use rtc_compiler::schema::{Catalog, Default};
use rtc_compiler::source::Source;
use rtc_compiler::spec::{Block, Origin, Spec, text};

/// The path of a field: the places of the statements around it, and its name.
type FieldPath = (Vec<usize>, String);

/// The spec with the origin `Default` for every value that follows from the others. Without all of them it is the same model: that
/// is tried, from the outermost statement inwards, and where it fails every value counts as written.
pub(super) fn with_origins(spec: Spec, catalog: &Catalog) -> Spec {
    let mut kept = BTreeSet::new();
    fields(&spec.root, &mut vec![], &mut |path, block| {
        let field = block.feature.fields.iter().find(|field| *field.name == *path.1);
        if field.is_none_or(|field| matches!(field.default, Default::Required)) {
            kept.insert(path);
        }
    });
    loop {
        let short = Spec { root: with(&spec.root, &mut vec![], &kept), ..spec.clone() };
        let source = Source::new("spec.rt", text(&short));
        let Some(again) = check(&NoFiles, source, None, &[], catalog).0 else { return spec };
        let mut differ: Vec<FieldPath> = vec![];
        fields(&spec.root, &mut vec![], &mut |path, block| {
            let (own, found) = (block.fields.get(path.1.as_str()), at(&again.root, &path.0));
            let found = found.and_then(|found| found.fields.get(path.1.as_str()));
            if found.map(|found| &found.value) != own.map(|own| &own.value) {
                differ.push(path);
            }
        });
        let outermost = differ.iter().map(|(place, _)| place.len()).min();
        if outermost.is_none() && spec.root.same(&again.root) {
            return Spec { root: marked(&spec.root, &mut vec![], &kept), ..spec };
        }
        // What is written outside may be what fields inside follow from.
        let before = kept.len();
        kept.extend(differ.into_iter().filter(|(place, _)| Some(place.len()) == outermost));
        if kept.len() == before {
            return spec;
        }
    }
}

/// The statement at a place.
fn at<'b>(root: &'b Block, place: &[usize]) -> Option<&'b Block> {
    place.iter().try_fold(root, |block, n| block.children.get(*n))
}

/// Every field with the statement that it is of.
fn fields(block: &Block, place: &mut Vec<usize>, each: &mut impl FnMut(FieldPath, &Block)) {
    for name in block.fields.keys() {
        each((place.clone(), name.to_string()), block);
    }
    for (n, child) in block.children.iter().enumerate() {
        place.push(n);
        fields(child, place, each);
        place.pop();
    }
}

/// The statement with what is kept alone.
fn with(block: &Block, place: &mut Vec<usize>, kept: &BTreeSet<FieldPath>) -> Block {
    let mut out = inside(block, place, |child, place| with(child, place, kept));
    out.fields.retain(|name, _| kept.contains(&(place.clone(), name.to_string())));
    out
}

/// The statement with the origin of what is not kept.
fn marked(block: &Block, place: &mut Vec<usize>, kept: &BTreeSet<FieldPath>) -> Block {
    let mut out = inside(block, place, |child, place| marked(child, place, kept));
    for (name, setting) in &mut out.fields {
        if !kept.contains(&(place.clone(), name.to_string())) {
            setting.origin = Origin::Default;
        }
    }
    out
}

fn inside(block: &Block, place: &mut Vec<usize>, mut each: impl FnMut(&Block, &mut Vec<usize>) -> Block) -> Block {
    let mut child = |(n, child)| {
        place.push(n);
        let out = each(child, place);
        place.pop();
        out
    };
    Block { children: block.children.iter().enumerate().map(&mut child).collect(), ..block.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "\
model small {
    dropout: 0.1
    embed { width: 16 }
    recur depthwise {
        depth: 4
        halt global { threshold: 0.9 }
        attend self { heads: 2, dropout: 0.2 }
        feedforward { hidden: 32 }
    }
    readout mean
}
";

    /// The fields whose values have to be written.
    fn needed(spec: &Spec) -> Vec<FieldPath> {
        let mut found = vec![];
        fields(&spec.root, &mut vec![], &mut |path, block| {
            if !matches!(block.fields[path.1.as_str()].origin, Origin::Default | Origin::Derived(_)) {
                found.push(path);
            }
        });
        found
    }

    #[test]
    fn a_complete_spec_tells_what_was_written() {
        let catalog = Catalog { vocabulary: Some(9), classes: Some(4), ..Catalog::default() };
        let read = |text: &str| check(&NoFiles, Source::new("small.rt", text), None, &[], &catalog).0.expect("right");
        let written = read(SPEC);
        let complete = read(&text(&written));
        assert!(needed(&complete).len() > 20, "everything is written");
        assert_eq!(needed(&with_origins(complete, &catalog)), needed(&written));
    }
}
