//! Inlay hints: the type of what a statement gives, and how many numbers it learns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rtc_compiler::ir::graph::{Graph, MAIN, RegionId};
use rtc_compiler::ir::types::{Dim, Type};
use rtc_compiler::lower::{Binding, statements, types};
use rtc_compiler::pipeline::forward;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Span;
use rtc_compiler::spec::{Block, Origin, Spec};

use crate::names::SymbolKey;
use crate::world::{CheckedDocument, DocumentAnalysis, Hint};

/// Returns how many numbers arrays of these axes have, as a text.
pub type NumberCounter = fn(&[Vec<Dim>]) -> String;

/// The rank of a value among those that stand for a statement's result.
type HintRank = (Reverse<usize>, usize);

/// Facts of a statement.
#[derive(Default)]
struct StatementFacts {
    /// The type of its last value in the outermost region that has some, of those with the most axes.
    result: Option<(HintRank, String)>,
    weights: Vec<Vec<Dim>>,
    /// The places in the model at which it stands: a block may be inserted several times.
    places: BTreeSet<String>,
    /// Whether it is an equation.
    equation: bool,
}

impl StatementFacts {
    fn offer(&mut self, worth: HintRank, ty: &Type) {
        if self.result.as_ref().is_none_or(|(best, _)| worth >= *best) {
            self.result = Some((worth, ty.to_string()));
        }
    }
}

/// How many loops are around a region.
fn depth(graph: &Graph, region: RegionId) -> usize {
    std::iter::successors(graph.parent(region), |region| graph.parent(*region)).count()
}

/// Longer models have no hints: the place of a statement is looked up among all of its neighbours.
const MOST: usize = 200;

/// The hints of a document, from its models; variants have the statements of their models.
pub(crate) fn hints(analysis: &DocumentAnalysis, numbers: NumberCounter) -> Vec<Hint> {
    let (known, names) = (analysis.known(), analysis.names());
    let mut all: BTreeMap<Span, StatementFacts> = BTreeMap::new();
    for spec in known.specs.iter().filter(|spec| names.symbols.contains_key(&SymbolKey::Model(spec.name.clone()))) {
        let mut own = BTreeMap::new();
        facts(spec, &mut own);
        own.into_iter().for_each(|(span, facts)| {
            all.entry(span).or_insert(facts);
        });
    }
    let lines: Vec<usize> = all.keys().map(|span| line_end(known, *span)).collect();
    let alone = |end: &usize| lines.iter().filter(|other| *other == end).count() == 1;
    let hint = |((span, facts), end): ((&Span, &StatementFacts), &usize)| {
        let weights = (!facts.weights.is_empty()).then(|| format!("{} parameters", numbers(&facts.weights)));
        let times = (facts.places.len() > 1).then(|| format!("in {} places", facts.places.len()));
        let parts: Vec<String> = facts.result.iter().map(|(_, ty)| ty.clone()).chain(weights).chain(times).collect();
        let offset = if alone(end) { *end } else { span.end as usize };
        // Inside of a line the name of an equation is followed by its text.
        let fits = !parts.is_empty() && (alone(end) || !facts.equation);
        fits.then(|| Hint { offset, label: parts.join(", ") })
    };
    all.iter().zip(&lines).filter_map(hint).collect()
}

/// The end of the line that a statement begins on, without a comment.
fn line_end(checked: &CheckedDocument, span: Span) -> usize {
    let text = &checked.root().text.text;
    let start = (span.end as usize).min(text.len());
    let line = text[start..].split('\n').next().unwrap_or_default();
    start + line.split("//").next().unwrap_or_default().trim_end().len()
}

fn count(block: &Block) -> usize {
    1 + block.children.iter().map(count).sum::<usize>()
}

fn facts(spec: &Spec, found: &mut BTreeMap<Span, StatementFacts>) {
    if count(&spec.root) > MOST {
        return;
    }
    let binding = Binding::from(&Catalog::default());
    let Ok(graph) = forward(spec, &binding) else { return };
    // What is filled in by default stands nowhere.
    let written = |block: &&Block| block.span.source.0 == 0 && block.origin != Origin::Default;
    let mut resolved = BTreeMap::new();
    for id in graph.walk(MAIN) {
        let node = graph.node(id);
        // Weights and inputs are results of nothing.
        if node.operands.is_empty() {
            continue;
        }
        let (chain, rest) = resolved.entry(&node.label).or_insert_with(|| resolve(&spec.root, &node.label));
        let types = node.results.iter().map(|value| graph.ty(*value)).filter(|ty| ty.is_real());
        let Some(ty) = types.rev().max_by_key(|ty| ty.dims().len()) else { continue };
        let depth = node.results.first().map_or(0, |value| depth(&graph, graph.scope(*value)));
        for (n, block) in chain.iter().enumerate().skip(1).filter(|(_, block)| written(block)) {
            let facts = found.entry(block.span).or_default();
            if n + 1 == chain.len() && rest.is_none() {
                // Copies of a stack stand in one place.
                let names = node.label.split('.').filter(|name| name.parse::<usize>().is_err());
                facts.places.insert(names.collect::<Vec<_>>().join("."));
            }
            // A layer gives states; numbers with fewer axes, as those of its steps, may stand behind them.
            let axes = ty.dims().len();
            let rank = if block.is_layer() && block.slot != "recurse" { axes } else { axes.min(2) };
            if n == 1 || block.is_layer() {
                facts.offer((Reverse(depth), rank), ty);
            }
        }
    }
    for parameter in graph.parameters() {
        let (chain, _) = resolve(&spec.root, &parameter.name);
        for span in chain.into_iter().filter(written).map(|block| block.span) {
            found.entry(span).or_default().weights.push(parameter.ty.dims().to_vec());
        }
    }
    for bound in types(spec, &binding).unwrap_or_default() {
        if bound.equation && bound.span.source.0 == 0 {
            let facts = found.entry(bound.span).or_default();
            facts.equation = true;
            // Applied several times, an equation has the type and the weights of the first time.
            if facts.places.insert(bound.path) && facts.result.is_none() {
                facts.result = Some(((Reverse(0), 0), bound.ty));
                facts.weights = bound.weights;
            }
        }
    }
}

/// The statements that a path leads through, the model first, and the first name that is none.
fn resolve<'s, 'p>(root: &'s Block, path: &'p str) -> (Vec<&'s Block>, Option<&'p str>) {
    let mut chain = vec![root];
    for (at, part) in std::iter::once(0).chain(path.match_indices('.').map(|(at, _)| at + 1)).zip(path.split('.')) {
        let longer = statements(root, &path[..at + part.len()]);
        if longer.len() == chain.len() && part.parse::<usize>().is_err() {
            return (chain, Some(part));
        }
        chain = longer;
    }
    (chain, None)
}
