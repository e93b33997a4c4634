//! Variants and `--set`: edits of the tree of statements, before defaults and derived values are worked out. Those of equations are in
//! [`bindings`], those of definitions in [`definitions`].

mod bindings;
pub(super) mod definitions;
pub(super) mod unread;

use bindings::Bound;
pub(super) use bindings::OLD;

use super::expand::{self, Author, COPIES, StatementTree, TreeField, is_counted};
use super::items::DefinedItems;
use crate::define::{self, Definition, STATE};
use crate::diag::{Diagnostic, Kind, Problems, closest, did_you_mean, list};
use crate::feature;
use crate::resolve::{NameBinding, ScopeId, Scopes};
use crate::schema::{Default, TIED};
use crate::source::Span;
use crate::syntax::ast;

/// Applies edits to a tree.
pub(super) struct Editor<'e, 'a> {
    pub(super) items: &'e DefinedItems<'a>,
    pub(super) scopes: &'e mut Scopes,
    pub(super) problems: &'e mut Problems,
    /// Names of the paths so far.
    pub(super) named: Vec<PathName>,
}

/// A name of a path, and its meaning.
pub(super) struct PathName {
    pub(super) span: Span,
    /// The place of the same name where it is defined, or that of an equation without a name.
    pub(super) target: Span,
    /// Whether the target has no name, or the fixed name of the state.
    pub(super) is_fixed: bool,
}

impl PathName {
    /// The last name of a path that means an equation.
    fn of(path: &ast::DottedPath, equation: &ast::Equation) -> Option<Self> {
        let last = &path.components.last()?.name;
        let bound = equation.names.iter().find(|name| name.text == last.text);
        let target = bound.map_or(equation.span, |name| name.span);
        Some(Self { span: last.span, target, is_fixed: bound.is_none() || last.text == STATE })
    }

    /// The name of the model that a path begins with.
    fn model(tree: &StatementTree, path: &ast::DottedPath) -> Option<Self> {
        let first = path.components.first().filter(|first| is_model(tree, first) && first.name.text == tree.model)?;
        Some(Self { span: first.name.span, target: tree.span, is_fixed: false })
    }
}

/// A statement by the indices on the way to it from the model.
type StatementPath = Vec<usize>;

impl Editor<'_, '_> {
    /// Applies one edit; reports it if it can't be.
    pub(super) fn apply(&mut self, tree: &mut StatementTree, edit: &ast::Edit, author: &Author) {
        self.named.extend(edit.kind.path().and_then(|path| PathName::model(tree, path)));
        match &edit.kind {
            ast::EditKind::Set(path, value) => self.set(tree, path, value, author),
            ast::EditKind::Assign(path, value) => self.assign(tree, path, value),
            ast::EditKind::ReplaceAt(path, element) => self.replace_at(tree, path, element, author),
            ast::EditKind::Wrap(path, statement) => self.wrap(tree, path, statement, author),
            ast::EditKind::Replace(statement) => self.replace(tree, statement, author),
            ast::EditKind::Remove(path) => self.remove(tree, path),
            ast::EditKind::Add(element, side, path) => self.add(tree, element, (*side, path), author),
            ast::EditKind::Tie(path, tied) => self.tie(tree, path, *tied, author),
            ast::EditKind::Let(binding) => self.rebind(tree, binding),
        }
        expand::fill(self.items, tree);
    }

    /// `path: value` sets a field, or replaces the statement that the path names.
    fn set(&mut self, tree: &mut StatementTree, path: &ast::DottedPath, value: &ast::ValueSyntax, author: &Author) {
        let Some((last, outer)) = path.components.split_last() else { return };
        if !Self::names_statement(tree, path) {
            match self.binding(tree, path) {
                // The command line has one sign for both.
                Bound::At(place) if matches!(author, Author::Override(_)) => {
                    return self.put_value(tree, &place, value, path.span);
                }
                Bound::At(place) => return self.takes_equals(tree, &place, path),
                Bound::Refused => return,
                Bound::Not => {}
            }
        }
        let Some(place) = self.find(tree, outer) else { return };
        let node = at(tree, &place);
        let known = node.feature().map_or(&[][..], |f| &f.fields);
        let is_field = last.index.is_none() && known.iter().any(|f| f.name == last.name.text);
        if is_field {
            let (mut value, mut scope) = (value.clone(), node.scope);
            if let ast::ValueSyntax::Expr(expr) = &mut value {
                let Some(known) = self.old_values(tree, expr, scope) else { return };
                scope = known;
            }
            let node = at_mut(tree, &place);
            let field = TreeField { name: last.name.clone(), value, scope, author: author.clone() };
            node.fields.retain(|f| f.name.text != last.name.text);
            node.fields.push(field);
            return;
        }
        if !candidates(tree, &place, &last.name.text, !outer.is_empty()).is_empty() {
            if let Some(place) = self.find(tree, &path.components) {
                self.replace_by_value(tree, &place, value, path.span, author);
            }
            return;
        }
        self.no_such_field(tree, &place, &last.name, !outer.is_empty());
    }

    /// Puts a name in the place of every value of a field that an edit reads, and binds it to that value; gives the scope
    /// that knows the names.
    fn old_values(&mut self, tree: &StatementTree, expr: &mut ast::ExprSyntax, scope: ScopeId) -> Option<ScopeId> {
        match &mut expr.kind {
            ast::ExprKind::Old(path) => {
                self.named.extend(PathName::model(tree, path));
                let (last, outer) = path.components.split_last()?;
                let place = self.find(tree, outer)?;
                let node = at(tree, &place);
                let written = node.fields.iter().find(|f| f.name.text == last.name.text && last.index.is_none());
                let default = || {
                    let field = node.feature()?.fields.iter().find(|f| f.name == last.name.text)?;
                    Some(match &field.default {
                        Default::Int(v) => ast::ExprKind::Int(*v),
                        Default::Float(v) => ast::ExprKind::Float(*v),
                        _ => return None,
                    })
                };
                let old = match written {
                    Some(TreeField { value: ast::ValueSyntax::Expr(old), scope, .. }) => Some((old.clone(), *scope)),
                    Some(_) => None,
                    None => default().map(|kind| (ast::ExprSyntax { kind, span: expr.span }, None)),
                };
                let Some((old, its_scope)) = old else {
                    let message = format!("`{}` has no value `{}` to read", node.title(), last.name.text);
                    let help = "only a number that is written, or a plain default, can be read by an edit";
                    return self.problems.fail(Diagnostic::new(Kind::PathNotFound, path.span, message).help(help));
                };
                // No name of the language has a dot, so none is hidden.
                let name = path.components.iter().map(|c| c.name.text.as_str()).collect::<Vec<_>>().join(".");
                let scope = self.scopes.bind(scope, &name, NameBinding::Written(old, its_scope));
                expr.kind = ast::ExprKind::Name(name);
                Some(scope)
            }
            ast::ExprKind::Neg(x) | ast::ExprKind::Not(x) | ast::ExprKind::Group(x) => self.old_values(tree, x, scope),
            ast::ExprKind::Binary(_, a, b) => {
                let scope = self.old_values(tree, a, scope)?;
                self.old_values(tree, b, scope)
            }
            ast::ExprKind::Call(_, args, _) => {
                args.iter_mut().try_fold(scope, |scope, arg| self.old_values(tree, arg, scope))
            }
            _ => Some(scope),
        }
    }

    /// `replace path by element`. What repeats a body hands it on to a statement that does so and has none of its own.
    fn replace_at(
        &mut self,
        tree: &mut StatementTree,
        path: &ast::DottedPath,
        element: &ast::BodyElement,
        author: &Author,
    ) {
        if !Self::names_statement(tree, path) {
            match self.binding(tree, path) {
                Bound::At(place) => return self.put_element(tree, &place, element, None, author),
                Bound::Refused => return,
                Bound::Not => {}
            }
        }
        let Some(place) = self.find_named(tree, path) else { return };
        if place.is_empty() {
            let message = "the model itself can't be replaced";
            self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message));
            return;
        }
        let old = at(tree, &place).clone();
        self.put(tree, &place, element.clone(), author);
        let ast::BodyElement::Statement(ast::Statement { keyword, word, body: None, .. }) = element else { return };
        let word = match word {
            Some(ast::KeywordArgument::Name(name)) => name.text.as_str(),
            _ => "",
        };
        let repeats = |keyword: &str, word: &str| define::repeated(keyword, word).is_some();
        let old_word = old.word.as_ref().map_or("", |word| word.text.as_str());
        if repeats(&keyword.text, word) && repeats(&old.keyword.text, old_word) {
            let new = at_mut(tree, &place);
            new.children.splice(0..0, old.children.into_iter().filter(StatementTree::is_layer));
        }
    }

    /// `wrap path in statement`
    fn wrap(&mut self, tree: &mut StatementTree, path: &ast::DottedPath, statement: &ast::Statement, author: &Author) {
        if let (false, Bound::At(_)) = (Self::names_statement(tree, path), self.binding(tree, path)) {
            let message = format!("`{}` is a binding, and stands in no statement", bindings::written(path));
            let help = format!("its right side may be applied to: `{} = f(old)`", bindings::written(path));
            self.problems.report(Diagnostic::new(Kind::WrongType, path.span, message).help(help));
            return;
        }
        let Some(place) = self.find_named(tree, path) else { return };
        let Some((&index, parent)) = place.split_last() else {
            let message = "the model itself can't stand in a statement";
            self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message));
            return;
        };
        let inner = at(tree, &place).clone();
        self.put(tree, &place, ast::BodyElement::Statement(statement.clone()), author);
        if let Some(outer) = at_mut(tree, parent).children.get_mut(index) {
            outer.children.push(inner);
        }
    }

    fn no_such_field(&mut self, tree: &StatementTree, place: &[usize], name: &ast::Name, named: bool) {
        let node = at(tree, place);
        let title = node.title();
        let message = format!("`{title}` has no field or statement `{}`", name.text);
        let own = node.feature().map_or(&[][..], |f| &f.fields);
        let mut diagnostic = Diagnostic::new(Kind::PathNotFound, name.span, message);
        // Where a statement is named, another one is not what was meant.
        let inside: Vec<String> = all(tree)
            .filter(|(at, _)| !named || at.starts_with(place))
            .filter(|(_, t)| t.feature().is_some_and(|f| f.fields.iter().any(|f| f.name == name.text)))
            .map(|(place, _)| format!("`{}.{}`", path_of(tree, &place), name.text))
            .collect();
        if let Some(near) = closest(&name.text, own.iter().map(|f| &*f.name)) {
            diagnostic = diagnostic.label(format!("did you mean `{near}`?"));
        } else if !inside.is_empty() {
            diagnostic = diagnostic.label(format!("did you mean {}?", inside.join(" or ")));
        } else if !own.is_empty() {
            diagnostic = diagnostic.help(format!("its fields are {}", list(own.iter().map(|f| &*f.name), "and")));
        }
        let bound = bindings::names(tree, place);
        if let Some(near) = closest(&name.text, bound.iter().map(String::as_str)) {
            diagnostic = diagnostic.help(format!("it binds `{near}`"));
        } else if !bound.is_empty() {
            diagnostic = diagnostic.help(format!("it binds {}", list(bound.iter().map(String::as_str), "and")));
        }
        self.problems.report(diagnostic);
    }

    /// `depthwise.gate: none` and `depthwise.halt: token { cost: 0.0 }` replace a whole statement.
    fn replace_by_value(
        &mut self,
        tree: &mut StatementTree,
        place: &[usize],
        value: &ast::ValueSyntax,
        span: Span,
        author: &Author,
    ) {
        let node = at(tree, place);
        let counted = is_counted(&node.keyword.text);
        let (word, body) = match value {
            ast::ValueSyntax::Expr(expr) if counted => {
                let (mut expr, scope) = (expr.clone(), node.scope);
                let Some(scope) = self.old_values(tree, &mut expr, scope) else { return };
                let name = ast::Name { text: COPIES.to_owned(), span: expr.span };
                let field = TreeField { name, value: ast::ValueSyntax::Expr(expr), scope, author: author.clone() };
                let node = at_mut(tree, place);
                node.fields.retain(|f| f.name.text != COPIES);
                node.fields.push(field);
                return;
            }
            ast::ValueSyntax::Expr(expr) => (expr.as_name(), None),
            ast::ValueSyntax::Structured(name, body) => (Some(name.clone()), Some(body.clone())),
        };
        let Some(word) = word.filter(|_| !counted) else {
            let message = format!("`{}` is a statement, so its value is a variant", node.keyword.text);
            let help = "as in `depthwise.gate: none` or `depthwise.gate: mlp { hidden: 64 }`";
            self.problems.report(Diagnostic::new(Kind::WrongType, value.span(), message).help(help));
            return;
        };
        let keyword = ast::Name { text: node.keyword.text.clone(), span: word.span };
        let statement = ast::Statement { keyword, word: Some(ast::KeywordArgument::Name(word)), body, span };
        self.put(tree, place, ast::BodyElement::Statement(statement), author);
    }

    /// Puts a statement in the place of another.
    fn put(&mut self, tree: &mut StatementTree, place: &[usize], element: ast::BodyElement, author: &Author) {
        let Some((&index, parent)) = place.split_last() else { return };
        let parent = at_mut(tree, parent);
        let new = expand::element(self.items, &element, parent.scope, author, self.scopes, self.problems);
        parent.children.splice(index..=index, new);
    }

    /// A statement alone replaces the one in its slot.
    fn replace(&mut self, tree: &mut StatementTree, statement: &ast::Statement, author: &Author) {
        let keyword = &statement.keyword;
        let mut places = written_first(all(tree).filter(|(_, t)| t.keyword.text == keyword.text).collect());
        let is_layer = places.iter().any(|place| at(tree, place).is_layer());
        if places.len() > 1 && is_layer {
            let word = match &statement.word {
                Some(ast::KeywordArgument::Name(name)) => Some(&name.text),
                _ => None,
            };
            places.retain(|place| at(tree, place).word.as_ref().map(|w| &w.text) == word);
        }
        match places.as_slice() {
            [only] => self.put(tree, only, ast::BodyElement::Statement(statement.clone()), author),
            [] => self.put_in_empty_slot(tree, statement, author),
            several => {
                let variants = feature::slot(&keyword.text).is_some_and(feature::Slot::has_variants);
                let how = if variants { "PATH: variant { ... }" } else { "PATH.field: value" };
                let help = format!("say which one: `{how}` with one of these paths");
                let numbered = candidates(tree, &[], &keyword.text, false);
                self.ambiguous(tree, &keyword.text, statement.head(), several, &numbered, &help);
            }
        }
    }

    /// A statement whose slot is empty goes to the only place that has the slot.
    fn put_in_empty_slot(&mut self, tree: &mut StatementTree, statement: &ast::Statement, author: &Author) {
        let keyword = &statement.keyword;
        let takes = |t: &StatementTree| {
            let rules = t.feature().map_or(&[][..], |f| f.children);
            rules.iter().any(|r| r.max == 1 && r.slots.contains(&keyword.text.as_str()))
        };
        let places: Vec<StatementPath> = std::iter::once((Vec::new(), &*tree))
            .chain(all(tree))
            .filter(|(_, t)| takes(t))
            .map(|(place, _)| place)
            .collect();
        match places.as_slice() {
            [only] => {
                let parent = at_mut(tree, only);
                let element = ast::BodyElement::Statement(statement.clone());
                let new = expand::element(self.items, &element, parent.scope, author, self.scopes, self.problems);
                parent.children.extend(new);
            }
            [] => {
                let message = format!("the model has no `{}` to replace", keyword.text);
                let mut diagnostic = Diagnostic::new(Kind::PathNotFound, keyword.span, message);
                if feature::slot(&keyword.text).is_none() {
                    diagnostic =
                        diagnostic.label(did_you_mean(&keyword.text, feature::slots().iter().map(|s| &*s.name)));
                } else {
                    diagnostic = diagnostic.help("put it in with `add ... after PATH`");
                }
                self.problems.report(diagnostic);
            }
            several => {
                let message = format!("`{}` can stand in more than one place", keyword.text);
                let mut diagnostic = Diagnostic::new(Kind::AmbiguousPath, statement.head(), message);
                for place in several.iter().take(MOST_SHOWN) {
                    diagnostic = diagnostic.note(at(tree, place).span, "it can stand in here");
                }
                let help = "name the place: `add ... after PATH`, with the path of a statement inside";
                self.problems.report(diagnostic.help(help));
            }
        }
    }

    /// Removes a statement, a field or a binding.
    fn remove(&mut self, tree: &mut StatementTree, path: &ast::DottedPath) {
        let Some((last, outer)) = path.components.split_last() else { return };
        if !Self::names_statement(tree, path) {
            match self.binding(tree, path) {
                Bound::At(place) => return self.remove_binding(tree, &place),
                Bound::Refused => return,
                Bound::Not => {}
            }
        }
        let Some(place) = self.find(tree, outer) else { return };
        let node = at_mut(tree, &place);
        if let Some(n) = node.fields.iter().position(|f| f.name.text == last.name.text && f.name.text != COPIES) {
            node.fields.remove(n);
            return;
        }
        let Some(place) = self.find_named(tree, path) else { return };
        let node = at(tree, &place);
        let Some((&index, parent)) = place.split_last() else {
            self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, "the model itself can't be removed"));
            return;
        };
        if node.author == Author::Default {
            let message = format!("`{}` is not written, so it can't be removed", node.title());
            self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message));
            return;
        }
        at_mut(tree, parent).children.remove(index);
    }

    /// Puts a statement, an equation or a block before or behind a statement or a binding.
    fn add(
        &mut self,
        tree: &mut StatementTree,
        element: &ast::BodyElement,
        (side, path): (ast::AddSide, &ast::DottedPath),
        author: &Author,
    ) {
        if !Self::names_statement(tree, path) {
            match self.binding(tree, path) {
                Bound::At(place) => return self.put_element(tree, &place, element, Some(side), author),
                Bound::Refused => return,
                Bound::Not => {}
            }
        }
        let Some(place) = self.find_named(tree, path) else { return };
        let Some((&index, parent)) = place.split_last() else {
            let message = format!("nothing can stand {} the model", side.word());
            self.problems.report(Diagnostic::new(Kind::PathNotFound, path.span, message));
            return;
        };
        let parent = at_mut(tree, parent);
        let new = expand::element(self.items, element, parent.scope, author, self.scopes, self.problems);
        let at = index + usize::from(side == ast::AddSide::After);
        parent.children.splice(at..at, new);
    }

    /// `untie path` and `tie path`
    fn tie(&mut self, tree: &mut StatementTree, path: &ast::DottedPath, tied: bool, author: &Author) {
        let Some(place) = self.find_named(tree, path) else { return };
        let node = at(tree, &place);
        if !node.feature().is_some_and(|feature| feature.fields.iter().any(|field| field.name == TIED)) {
            let title = node.title();
            let mut diagnostic = Diagnostic::new(
                Kind::PathNotFound,
                path.span,
                format!("`{title}` has no steps whose weights could be tied"),
            );
            diagnostic = match node.keyword.text.as_str() {
                "recur" => diagnostic.help(format!(
                    "layers with weights of their own are a stack: `replace {} by stack 4`",
                    bindings::written(path)
                )),
                "stack" => diagnostic.help("its layers have weights of their own; a `loop` has the same in every step"),
                _ => diagnostic.help("a `loop` has"),
            };
            self.problems.report(diagnostic);
            return;
        }
        let value = ast::ValueSyntax::Expr(ast::ExprSyntax { kind: ast::ExprKind::Bool(tied), span: path.span });
        let name = ast::Name { text: TIED.to_owned(), span: path.span };
        let node = at_mut(tree, &place);
        let field = TreeField { name, value, scope: node.scope, author: author.clone() };
        node.fields.retain(|field| field.name.text != TIED);
        node.fields.push(field);
    }

    /// Gives a constant of the model, or of a file, another value.
    fn rebind(&mut self, tree: &StatementTree, binding: &ast::Let) {
        let name = &binding.name.text;
        if let Some(scope) = tree.lets.get(name) {
            self.scopes.rebind(*scope, binding.value.clone());
        } else if self.items.named().is_constant(name) {
            self.scopes.globals.insert(name.clone(), binding.value.clone());
        } else {
            let message = format!("there is no constant `{name}` to replace");
            let hint = did_you_mean(name, tree.lets.keys().map(String::as_str));
            self.problems.report(Diagnostic::new(Kind::PathNotFound, binding.name.span, message).label(hint));
        }
    }

    /// The statement of a path that may name a binding, too: what is missing is said of both.
    fn find_named(&mut self, tree: &StatementTree, path: &ast::DottedPath) -> Option<StatementPath> {
        let outer = path.components.split_last().map_or(&[][..], |(_, outer)| outer);
        if Self::names_statement(tree, path) || path.components.len() == 1 || Self::place_of(tree, outer).is_none() {
            return self.find(tree, &path.components);
        }
        self.no_such_binding(tree, path);
        None
    }

    /// The statement of a path; reports a path that names none or several.
    fn find(&mut self, tree: &StatementTree, components: &[ast::Component]) -> Option<StatementPath> {
        let Miss { place, component, found } = match walk(tree, components) {
            Ok(place) => return Some(place),
            Err(miss) => miss,
        };
        let (name, span) = (&component.name.text, component.name.span);
        match (component.index, found.as_slice()) {
            (_, []) => self.not_found(tree, &place, &component.name),
            (None, several) => {
                self.ambiguous(tree, name, span, several, several, "use one of these paths");
                None
            }
            (Some(index), several) => {
                let message = format!("there is no `{name}[{index}]`");
                let label = format!("there are {}, counted from 1", several.len());
                self.problems.fail(Diagnostic::new(Kind::PathNotFound, span, message).label(label))
            }
        }
    }

    fn not_found(&mut self, tree: &StatementTree, place: &[usize], name: &ast::Name) -> Option<StatementPath> {
        let inside = at(tree, place);
        let names: Vec<String> = all(inside).flat_map(|(_, t)| names_of(t)).collect();
        let message = format!("there is no `{}` in `{}`", name.text, inside.title());
        let diagnostic = Diagnostic::new(Kind::PathNotFound, name.span, message);
        let library = || feature::feature(&name.text, "")?.definition().filter(|definition| definition.is_copied());
        if let Some(definition) = place.is_empty().then(library).flatten() {
            self.of_library(definition, name.span);
            return None;
        }
        if let Some(definition) = place.is_empty().then(|| self.items.definition_named(&name.text)).flatten() {
            let bound: Vec<String> = definition.bound().map(|bound| format!("{}.{bound}", name.text)).collect();
            let help = format!("of this definition an edit may name {}", list(bound.iter().map(String::as_str), "and"));
            return self.problems.fail(diagnostic.label("no equation of the definition is called so").help(help));
        }
        let bound = bindings::names(tree, place);
        let hint = did_you_mean(&name.text, names.iter().chain(&bound).map(String::as_str));
        self.problems.fail(diagnostic.label(hint))
    }

    /// Reports an edit of an equation of the library.
    fn of_library(&mut self, definition: &Definition, span: Span) {
        let def = &definition.def;
        let name = &def.name.text;
        let slot = def.slot.as_ref().map(|slot| format!("{} ", slot.text)).unwrap_or_default();
        let values = def.values.iter().map(|value| value.text.as_str()).collect::<Vec<_>>().join(", ");
        let message = format!("`{name}` is a definition of the library, whose equations can't be edited");
        let copy = format!(
            "write a copy in the file, `def {slot}my_{name}({values}) {{ .. }}`: `rtc explain {slot}{name}` prints its equations"
        );
        let bound = definition.bound().next().unwrap_or("out");
        let apply = format!("apply `my_{name}` in the place of `{name}`: edits name `my_{name}.{bound}`");
        self.problems.report(Diagnostic::new(Kind::PathNotFound, span, message).help(copy).help(apply));
    }

    /// Reports a name that means several places. Each is shown with its number, if a path can hold it, and with its
    /// path, if no other one has the same.
    fn ambiguous(
        &mut self,
        tree: &StatementTree,
        name: &str,
        span: Span,
        places: &[StatementPath],
        numbered: &[StatementPath],
        help: &str,
    ) {
        let message = format!("`{name}` names {} statements", places.len());
        let mut diagnostic = Diagnostic::new(Kind::AmbiguousPath, span, message);
        let paths: Vec<String> = places.iter().map(|place| path_of(tree, place)).collect();
        for (place, path) in places.iter().zip(&paths).take(MOST_SHOWN) {
            let number = numbered.iter().position(|p| p == place).map(|n| format!("`{name}[{}]`", n + 1));
            let unique = paths.iter().filter(|p| *p == path).count() == 1 && path != name;
            let path = unique.then(|| format!("`{path}`"));
            let ways: Vec<String> = number.into_iter().chain(path).collect();
            let label = if ways.is_empty() { "one of them".to_owned() } else { ways.join(" or ") };
            diagnostic = diagnostic.note(at(tree, place).span, label);
        }
        self.problems.report(diagnostic.help(help));
    }
}

/// The first name of a path that means no statement or several.
struct Miss<'c> {
    /// The statement of the names before it.
    place: StatementPath,
    component: &'c ast::Component,
    /// The statements that it may mean.
    found: Vec<StatementPath>,
}

/// The statement of a path.
fn walk<'c>(tree: &StatementTree, components: &'c [ast::Component]) -> Result<StatementPath, Miss<'c>> {
    let mut place = StatementPath::new();
    for (n, component) in components.iter().enumerate() {
        let name = &component.name.text;
        if n == 0 && is_model(tree, component) {
            continue;
        }
        let found = candidates(tree, &place, name, n > 0);
        let meant = match (component.index, found.as_slice()) {
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(index), several) => index.checked_sub(1).and_then(|n| several.get(n)),
        };
        let Some(meant) = meant.cloned() else { return Err(Miss { place, component, found }) };
        place = meant;
    }
    Ok(place)
}

/// Whether the first name of a path means the model itself: `model`, or its own name if no statement or binding has it.
fn is_model(tree: &StatementTree, first: &ast::Component) -> bool {
    let name = &first.name.text;
    let is_free = || candidates(tree, &[], name, false).is_empty() && !bindings::is_bound(tree, name);
    first.index.is_none() && (name == "model" || *name == tree.model && is_free())
}

/// The most places that a report of an ambiguous path shows.
const MOST_SHOWN: usize = 6;

/// The statements below `place` that a name may mean: those of the shallowest depth. A keyword goes before the variant
/// of a layer, and that before another variant (`memory` is the statement before `attend memory`, and that before
/// `readout memory`). A name behind a dot means a statement right inside, if there is one. What is written goes before
/// what is filled in.
fn candidates(tree: &StatementTree, place: &[usize], name: &str, behind_dot: bool) -> Vec<StatementPath> {
    let by_word = |t: &StatementTree| t.word.as_ref().is_some_and(|w| w.text == name);
    let ways: [&dyn Fn(&StatementTree) -> bool; 3] =
        [&|t| t.keyword.text == name, &|t| by_word(t) && t.is_layer(), &by_word];
    let inside = at(tree, place);
    let found = ways
        .iter()
        .map(|fits| all(inside).filter(|(_, t)| fits(t)).collect::<Vec<_>>())
        .find(|found| !found.is_empty())
        .unwrap_or_default();
    let direct: Vec<(StatementPath, &StatementTree)> = found.iter().filter(|(p, _)| p.len() == 1).cloned().collect();
    let found = if behind_dot && !direct.is_empty() { direct } else { found };
    let places = written_first(found);
    let depth = places.iter().map(Vec::len).min().unwrap_or(0);
    let full = |below: StatementPath| place.iter().copied().chain(below).collect();
    places.into_iter().filter(|p| p.len() == depth).map(full).collect()
}

/// The written ones of some statements, or all of them if none is written.
fn written_first(found: Vec<(StatementPath, &StatementTree)>) -> Vec<StatementPath> {
    let written = found.iter().any(|(_, t)| t.author != Author::Default);
    found.into_iter().filter(|(_, t)| !written || t.author != Author::Default).map(|(place, _)| place).collect()
}

/// The names that a path may call a statement by.
fn names_of(tree: &StatementTree) -> Vec<String> {
    let word = tree.word.as_ref().map(|w| w.text.clone());
    std::iter::once(tree.keyword.text.clone()).chain(word).collect()
}

/// All statements inside, in the order of the text.
fn all(tree: &StatementTree) -> impl Iterator<Item = (StatementPath, &StatementTree)> {
    let mut found = Vec::new();
    let mut waiting: Vec<(StatementPath, &StatementTree)> = vec![(Vec::new(), tree)];
    while let Some((place, node)) = waiting.pop() {
        for (n, child) in node.children.iter().enumerate().rev() {
            let mut below = place.clone();
            below.push(n);
            waiting.push((below, child));
        }
        if !place.is_empty() {
            found.push((place, node));
        }
    }
    found.into_iter()
}

fn at<'t>(tree: &'t StatementTree, place: &[usize]) -> &'t StatementTree {
    place.iter().fold(tree, |node, &n| &node.children[n])
}

fn at_mut<'t>(tree: &'t mut StatementTree, place: &[usize]) -> &'t mut StatementTree {
    place.iter().fold(tree, |node, &n| &mut node.children[n])
}

/// The dotted path of a statement, each part by variant for layers and by keyword for others.
fn path_of(tree: &StatementTree, place: &[usize]) -> String {
    let mut node = tree;
    let mut parts = Vec::new();
    for &n in place {
        node = &node.children[n];
        let by_word = node.is_layer();
        let word = node.word.as_ref().filter(|_| by_word);
        parts.push(word.map_or(node.keyword.text.as_str(), |w| w.text.as_str()));
    }
    if parts.is_empty() { "model".to_owned() } else { parts.join(".") }
}
