//! From a model's syntax to a tree of statements in which definitions with loops are written out and optional statements filled in.
//!
//! Values stay as written, each with the scope that it is read in.

use std::collections::BTreeMap;
use std::slice::SliceIndex;
use std::sync::Arc;

use super::items::{DefinedItems, Model, refuse_reserved};
use super::write_out;
use crate::define::EQUATIONS;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{self, Feature};
use crate::resolve::{NameBinding, ScopeId, Scopes};
use crate::schema::{Children, FOLDING};
use crate::source::Span;
use crate::syntax::{MAX_NESTING, ast};

/// The most statements, fields and equations of one model.
pub const MAX_ELEMENTS: usize = 10_000;

/// The author of a statement or field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Author {
    /// The model in the file.
    File,
    /// A variant.
    Variant(String),
    /// The n-th `--set`, from 1.
    Override(usize),
    /// None: it is filled in.
    Default,
}

/// A statement.
#[derive(Clone, Debug)]
pub(super) struct StatementTree {
    pub(super) keyword: ast::Name,
    /// The variant.
    pub(super) word: Option<ast::Name>,
    pub(super) fields: Vec<TreeField>,
    pub(super) children: Vec<StatementTree>,
    pub(super) author: Author,
    /// Keyword and word.
    pub(super) span: Span,
    /// What is visible at the end of the braces.
    pub(super) scope: ScopeId,
    /// The constants of the braces.
    pub(super) lets: BTreeMap<String, ScopeId>,
    /// The feature that it names, if there is one.
    feature: Option<Arc<Feature>>,
    /// For a run of equations, these, each with the scope that it is read in.
    pub(super) equations: Vec<(ast::Equation, ScopeId)>,
    /// For the root, the name of the model.
    pub(super) model: String,
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct TreeField {
    pub(super) name: ast::Name,
    pub(super) value: ast::ValueSyntax,
    pub(super) scope: ScopeId,
    pub(super) author: Author,
}

impl StatementTree {
    /// A statement without content.
    fn new(items: &DefinedItems<'_>, keyword: ast::Name, word: Option<ast::Name>, author: Author, span: Span) -> Self {
        let (fields, children, lets) = (Vec::new(), Vec::new(), BTreeMap::new());
        let feature = items.feature(&keyword.text, word.as_ref().map_or("", |w| w.text.as_str())).cloned();
        let (equations, model) = (Vec::new(), String::new());
        Self { keyword, word, fields, children, author, span, scope: None, lets, feature, equations, model }
    }

    /// A part of a run of equations; none where it has none of them.
    pub(super) fn part(
        &self,
        range: impl SliceIndex<[(ast::Equation, ScopeId)], Output = [(ast::Equation, ScopeId)]>,
    ) -> Option<Self> {
        let equations = self.equations[range].to_vec();
        (!equations.is_empty()).then(|| Self { equations, ..self.clone() })
    }

    /// Whether it is a layer.
    pub(super) fn is_layer(&self) -> bool {
        let named = || FOLDING.contains(&self.keyword.text.as_str()) || !self.equations.is_empty();
        self.feature.as_ref().map_or_else(named, |feature| feature.is_layer())
    }

    /// Keyword and word: `attend self`.
    pub(super) fn title(&self) -> String {
        match &self.word {
            None => self.keyword.text.clone(),
            Some(word) => format!("{} {}", self.keyword.text, word.text),
        }
    }

    /// The feature that it names, if there is one.
    pub(super) fn feature(&self) -> Option<&Arc<Feature>> {
        self.feature.as_ref()
    }
}

/// The tree of a model as the file writes it. Its elements are counted, and the limit of nesting holds again: definitions
/// that are written out could grow without end.
pub(super) fn model(
    items: &DefinedItems<'_>,
    model: Model<'_>,
    scopes: &mut Scopes,
    problems: &mut Problems,
) -> Option<StatementTree> {
    let before = problems.len();
    write_out::bound(&model.body.elements, &mut scopes.taken);
    write_out::shared(&model.body.elements, &mut scopes.shared);
    let mut expander = Expander::new(items, Author::File, scopes, problems);
    let name = ast::Name { text: "model".to_owned(), span: model.name.span() };
    let span = name.span;
    let mut tree = StatementTree::new(items, name, None, Author::File, span);
    tree.model = model.name.text();
    expander.elements(&mut tree, &model.body.elements, None);
    if expander.count > MAX_ELEMENTS && problems.len() > before {
        return None;
    }
    fill(items, &mut tree);
    Some(tree)
}

/// The trees of one element written by an edit, in the scope of its new place. What they leave out is filled in with the
/// whole model.
pub(super) fn element(
    items: &DefinedItems<'_>,
    element: &ast::BodyElement,
    scope: ScopeId,
    author: &Author,
    scopes: &mut Scopes,
    problems: &mut Problems,
) -> Vec<StatementTree> {
    let mut expander = Expander::new(items, author.clone(), scopes, problems);
    let span = element.span();
    let mut holder = StatementTree::new(items, ast::Name { text: String::new(), span }, None, author.clone(), span);
    expander.elements(&mut holder, std::slice::from_ref(element), scope);
    if expander.count > MAX_ELEMENTS {
        return Vec::new();
    }
    holder.children
}

/// Fills in the default variant of every optional statement that is not written, at any depth.
pub(super) fn fill(items: &DefinedItems<'_>, tree: &mut StatementTree) {
    fill_below(items, tree, &mut vec![]);
}

/// The same for a statement in those with the keywords `around`.
fn fill_below(items: &DefinedItems<'_>, tree: &mut StatementTree, around: &mut Vec<String>) {
    let rules: &'static [Children] = tree.feature().map_or(&[], |f| f.children);
    for rule in rules {
        let Some(absent) = rule.absent else { continue };
        let Some(slot) = rule.slots.first() else { continue };
        if rule.outermost && around.contains(&tree.keyword.text) {
            continue;
        }
        if !tree.children.iter().any(|c| c.keyword.text == *slot) {
            let name = |text: &str| ast::Name { text: text.to_owned(), span: tree.span };
            let mut child = StatementTree::new(items, name(slot), Some(name(absent)), Author::Default, tree.span);
            child.scope = tree.scope;
            tree.children.push(child);
        }
    }
    around.push(tree.keyword.text.clone());
    tree.children.iter_mut().for_each(|child| fill_below(items, child, around));
    around.pop();
}

pub(super) struct Expander<'e, 'a> {
    pub(super) items: &'e DefinedItems<'a>,
    pub(super) scopes: &'e mut Scopes,
    pub(super) problems: &'e mut Problems,
    author: Author,
    count: usize,
    level: usize,
    /// The definitions that are being written out.
    pub(super) active: Vec<String>,
    /// The equation of the model that all of them come from.
    pub(super) outermost: Option<Span>,
}

impl<'e, 'a> Expander<'e, 'a> {
    fn new(items: &'e DefinedItems<'a>, author: Author, scopes: &'e mut Scopes, problems: &'e mut Problems) -> Self {
        Self { items, scopes, problems, author, count: 0, level: 0, active: Vec::new(), outermost: None }
    }

    /// Adds elements to a statement; gives the scope behind the last one.
    pub(super) fn elements(&mut self, tree: &mut StatementTree, elements: &[ast::BodyElement], scope: ScopeId) {
        let mut scope = scope;
        let mut own: BTreeMap<&str, Span> = BTreeMap::new();
        for element in elements {
            self.count += 1;
            if self.count > MAX_ELEMENTS {
                self.too_long(element.span());
                break;
            }
            match element {
                ast::BodyElement::Let(binding) => {
                    refuse_reserved(&binding.name, self.problems);
                    if let Some(first) = own.insert(&binding.name.text, binding.name.span) {
                        let message = format!("the constant `{}` is defined twice", binding.name.text);
                        let diagnostic = Diagnostic::new(Kind::DuplicateName, binding.name.span, message);
                        self.problems.report(diagnostic.note(first, "the first one"));
                    }
                    let value = NameBinding::Written(binding.value.clone(), scope);
                    scope = self.scopes.bind(scope, &binding.name.text, value);
                    tree.lets.insert(binding.name.text.clone(), scope);
                }
                ast::BodyElement::Field(field) => tree.fields.push(TreeField {
                    name: field.name.clone(),
                    value: field.value.clone(),
                    scope,
                    author: self.author.clone(),
                }),
                ast::BodyElement::Statement(statement) => {
                    if let Some(child) = self.statement(statement, scope) {
                        tree.children.push(child);
                    }
                }
                ast::BodyElement::Equation(equation) => self.equation(tree, equation, scope),
            }
        }
        tree.scope = scope;
    }

    /// Adds an equation to the run that it continues, or begins one.
    pub(super) fn equation(&mut self, tree: &mut StatementTree, equation: &ast::Equation, scope: ScopeId) {
        if self.is_written_out(tree, equation, scope) {
            return;
        }
        let run = tree.children.last_mut().filter(|last| !last.equations.is_empty() && last.author == self.author);
        if let Some(run) = run {
            run.span = if run.span.source == equation.span.source { run.span.to(equation.span) } else { run.span };
            run.equations.push((equation.clone(), scope));
            return;
        }
        let keyword = ast::Name { text: EQUATIONS.to_owned(), span: equation.span };
        let mut run = StatementTree::new(self.items, keyword, None, self.author.clone(), equation.span);
        (run.scope, run.equations) = (scope, vec![(equation.clone(), scope)]);
        tree.children.push(run);
    }

    fn too_long(&mut self, span: Span) {
        let message = format!("the model has more than {MAX_ELEMENTS} statements and fields");
        if !self.problems.kinds().contains(&Kind::TooLong) {
            self.problems.report(Diagnostic::new(Kind::TooLong, self.outermost.unwrap_or(span), message));
        }
    }

    fn statement(&mut self, statement: &ast::Statement, scope: ScopeId) -> Option<StatementTree> {
        self.level += 1;
        let result = if self.level > MAX_NESTING {
            let message = format!("statements are nested more than {MAX_NESTING} deep");
            let place = self.outermost.unwrap_or(statement.head());
            self.problems.report(Diagnostic::new(Kind::TooDeep, place, message));
            None
        } else {
            let variant = match &statement.word {
                Some(ast::KeywordArgument::Name(name)) if !is_counted(&statement.keyword.text) => Some(name.clone()),
                _ => None,
            };
            let (keyword, author) = (statement.keyword.clone(), self.author.clone());
            let mut tree = StatementTree::new(self.items, keyword, variant, author, statement.head());
            self.count(&mut tree, statement.word.as_ref(), scope);
            let elements = statement.body.as_ref().map_or(&[][..], |b| &b.elements);
            self.elements(&mut tree, elements, scope);
            Some(tree)
        };
        self.level -= 1;
        result
    }

    /// The number behind the keyword: for `stack` that of copies, which may be a constant's name.
    fn count(&self, tree: &mut StatementTree, word: Option<&ast::KeywordArgument>, scope: ScopeId) {
        let counted = is_counted(&tree.keyword.text);
        let value = match word {
            None => return,
            Some(ast::KeywordArgument::Name(_)) if !counted => return,
            Some(ast::KeywordArgument::Name(name)) => ast::ExprKind::Name(name.text.clone()),
            Some(ast::KeywordArgument::Int(n, _)) => ast::ExprKind::Int(*n),
        };
        let span = word.map_or(tree.span, ast::KeywordArgument::span);
        let name = if counted { COPIES } else { "" };
        tree.fields.push(TreeField {
            name: ast::Name { text: name.to_owned(), span },
            value: ast::ValueSyntax::Expr(ast::ExprSyntax { kind: value, span }),
            scope,
            author: self.author.clone(),
        });
    }
}

/// The field that stands behind the keyword of counted statements.
pub(super) const COPIES: &str = "copies";

/// Whether a number stands behind the keyword.
pub(super) fn is_counted(keyword: &str) -> bool {
    feature::feature(keyword, "").is_some_and(|f| f.fields.iter().any(|field| field.name == COPIES))
}
