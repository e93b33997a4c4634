//! The formatter: one canonical layout, comments kept where they are.
//!
//! Indentation is four blanks. Braces that were on one line stay so if the line fits; others get one element per line.
//! Runs of empty lines become one. Formatting what was formatted changes nothing.

use super::ast::{
    BodyElement, BodySyntax, Comment, Component, Declaration, Def, DefElement, DottedPath, Edit, EditKind, Equation,
    ExprKind, ExprSyntax, File, FileItem, ItemKind, KeywordArgument, Let, Name, Statement, ValueSyntax,
};
use super::parse::parse_any;
use crate::diag::Problems;
use crate::expr::BinaryOp;
use crate::source::{SourceId, Span};

/// The longest line that braces are kept on.
const WIDTH: usize = 100;

/// The text in canonical layout; the syntax errors if it has any.
pub fn format(text: &str) -> Result<String, Problems> {
    let mut problems = Problems::default();
    match parse_any(SourceId(0), text, &mut problems) {
        Some(file) => Ok(print(&file, text)),
        None => Err(problems),
    }
}

/// A definition alone, one element per line, with the documentation of its settings where `docs` says so. Numbers are
/// written in their shortest form.
pub fn definition(def: &Def, docs: bool) -> String {
    let printer = SyntaxPrinter { text: "", comments: &[], out: String::new(), indent: 0, last: 0 };
    let mut out = def_head(def) + "{\n";
    for element in &def.elements {
        if let (DefElement::Setting(setting), true) = (element, docs) {
            out += &documentation(&setting.doc, "    ");
        }
        out += &format!("    {}\n", printer.def_element(element));
    }
    out + "}"
}

/// Documentation as `///` lines behind an indentation.
pub fn documentation(text: &str, indent: &str) -> String {
    let line = |line: &str| format!("{indent}{}\n", format!("/// {line}").trim_end());
    if text.is_empty() { String::new() } else { text.split('\n').map(line).collect() }
}

/// An equation alone, numbers in their shortest form.
pub fn equation(equation: &Equation) -> String {
    SyntaxPrinter { text: "", comments: &[], out: String::new(), indent: 0, last: 0 }.equation(equation)
}

/// A constant, mask or bias of a file alone, numbers in their shortest form.
pub fn named(kind: ItemKind) -> String {
    let mut printer = SyntaxPrinter { text: "", comments: &[], out: String::new(), indent: 0, last: 0 };
    printer.item(&FileItem { doc: String::new(), kind, span: Span::default() });
    printer.out
}

/// An expression alone, numbers in their shortest form.
pub fn expression(expr: &ExprSyntax) -> String {
    SyntaxPrinter { text: "", comments: &[], out: String::new(), indent: 0, last: 0 }.expr(expr)
}

fn print(file: &File, text: &str) -> String {
    let mut printer = SyntaxPrinter { text, comments: &file.comments, out: String::new(), indent: 0, last: 0 };
    for item in &file.items {
        printer.line_start(item.span.start);
        printer.item(item);
        printer.line_end(item.span.end, None);
    }
    printer.line_start(text.len() as u32);
    printer.out
}

struct SyntaxPrinter<'a> {
    text: &'a str,
    /// Comments not printed yet.
    comments: &'a [Comment],
    out: String,
    indent: usize,
    /// Offset in the source up to which everything is printed.
    last: u32,
}

impl<'a> SyntaxPrinter<'a> {
    /// Prints the comments that stand before `next` on lines of their own, and at most one empty line before each.
    fn comments_before(&mut self, next: u32) {
        while let Some((comment, rest)) = self.comments.split_first().filter(|(c, _)| c.span.start < next) {
            self.comments = rest;
            self.empty_line(comment.span.start);
            self.pad();
            self.out.push_str(&comment.text);
            self.out.push('\n');
            self.last = self.last.max(comment.span.end);
        }
    }

    /// The comments before `next`, and what stands before it on its line.
    fn line_start(&mut self, next: u32) {
        self.comments_before(next);
        if (next as usize) < self.text.len() {
            self.empty_line(next);
            self.pad();
        }
    }

    /// An empty line if the source has one between the last printed place and `next`.
    fn empty_line(&mut self, next: u32) {
        // A comment inside an expression comes behind it.
        let between = self.text.get(self.last as usize..next as usize).unwrap_or("");
        if between.matches('\n').count() > 1 && !self.out.is_empty() && !self.just_opened() {
            self.out.push('\n');
        }
    }

    /// Whether the last line opens a brace; one in a comment does not.
    fn just_opened(&self) -> bool {
        let line = self.out.trim_end_matches('\n').rsplit('\n').next().unwrap_or("");
        line.split("//").next().is_some_and(|code| code.trim_end().ends_with('{'))
    }

    /// Ends the line of an element that ends at `end`, taking along a comment on the same line of the source.
    /// `until` is the start of what follows on the same line, if anything does.
    fn line_end(&mut self, end: u32, until: Option<u32>) {
        self.last = end;
        if let Some((comment, rest)) = self.comments.split_first() {
            let start = comment.span.start;
            let same_line = start >= end && !self.text[end as usize..start as usize].contains('\n');
            if same_line && until.is_none_or(|u| start < u) {
                self.comments = rest;
                self.out.push(' ');
                self.out.push_str(&comment.text);
                self.last = comment.span.end;
            }
        }
        self.out.push('\n');
    }

    fn pad(&mut self) {
        self.out.extend(std::iter::repeat_n("    ", self.indent));
    }

    fn word(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn item(&mut self, item: &FileItem) {
        match &item.kind {
            ItemKind::Use { path } => self.word(&format!("use \"{}\"", path.text)),
            ItemKind::Let(binding) => self.word(&self.binding(binding)),
            ItemKind::Model { name, body } => {
                self.word(&format!("model {} ", name.text()));
                self.body(body);
            }
            ItemKind::Variant { name, base, edits, braces } => {
                self.word(&format!("variant {} of {} ", name.text, base.text()));
                let parts: Vec<BracedItem<'_>> = edits.iter().map(BracedItem::Edit).collect();
                self.braces(&parts, *braces);
            }
            ItemKind::Def(def) => {
                self.word(&def_head(def));
                let parts: Vec<BracedItem<'_>> = def.elements.iter().map(BracedItem::Def).collect();
                self.braces(&parts, def.braces);
            }
            ItemKind::Function(function) => {
                let role = function.role.word();
                let params = function.params.as_ref().map_or_else(String::new, |p| format!("({})", names(p)));
                self.word(&format!("{role} {}{params} = {}", function.name.text, self.expr(&function.body)));
            }
        }
    }

    fn body(&mut self, body: &BodySyntax) {
        self.braces(&elements(body), body.span);
    }

    /// Braces with their content: on one line if they were and still fit.
    fn braces(&mut self, parts: &[BracedItem<'_>], span: Span) {
        let source = &self.text[span.start as usize..span.end as usize];
        if !source.contains('\n') {
            let line = self.one_line(parts);
            let column = self.out.rsplit('\n').next().unwrap_or("").chars().count();
            if column + line.chars().count() <= WIDTH {
                self.word(&line);
                return;
            }
        }
        let inside = self.comments.first().is_some_and(|c| c.span.start < span.end);
        if parts.is_empty() && !inside {
            self.word("{ }");
            return;
        }
        self.word("{");
        self.indent += 1;
        self.line_end(span.start + 1, parts.first().map(|p| p.span().start));
        for (n, part) in parts.iter().enumerate() {
            self.line_start(part.span().start);
            self.part(part);
            self.line_end_after(part.span().end, parts.get(n + 1).map(|p| p.span().start));
        }
        // No empty line follows the last comment.
        self.comments_before(span.end - 1);
        self.indent -= 1;
        self.pad();
        self.word("}");
        self.last = span.end;
    }

    /// As `line_end`, past a comma between the element and its comment.
    fn line_end_after(&mut self, end: u32, next: Option<u32>) {
        let rest = &self.text[end as usize..];
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        let comma = rest[blanks..].starts_with(',');
        self.line_end(if comma { end + blanks as u32 + 1 } else { end }, next);
    }

    fn part(&mut self, part: &BracedItem<'_>) {
        let (lead, body, tail) = self.pieces(part);
        self.word(&lead);
        if let Some(body) = body {
            self.body(body);
        }
        self.word(&tail);
    }

    /// Braces on one line, with all braces inside.
    fn one_line(&self, parts: &[BracedItem<'_>]) -> String {
        let unbroken = |part: &BracedItem<'_>| {
            let (lead, body, tail) = self.pieces(part);
            lead + &body.map_or_else(String::new, |body| self.one_line(&elements(body))) + &tail
        };
        match parts {
            [] => "{ }".to_owned(),
            _ => format!("{{ {} }}", parts.iter().map(unbroken).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The texts before and after the braces of a part, and the braces.
    fn pieces<'p>(&self, part: &BracedItem<'p>) -> (String, Option<&'p BodySyntax>, String) {
        match part {
            BracedItem::Element(element) => (self.lead(element), body_of(element), String::new()),
            BracedItem::Edit(edit) => self.edit(edit),
            BracedItem::Def(DefElement::Statement(statement)) => {
                (lead(statement), statement.body.as_ref(), String::new())
            }
            BracedItem::Def(element) => (self.def_element(element), None, String::new()),
        }
    }

    fn def_element(&self, element: &DefElement) -> String {
        match element {
            DefElement::Let(binding) => self.binding(binding),
            DefElement::Setting(setting) => self.declaration(setting),
            DefElement::Equation(equation) => self.equation(equation),
            DefElement::Out(values, _) => format!("out {}", self.list(values)),
            DefElement::Statement(statement) => {
                let body = statement.body.as_ref().map_or_else(String::new, |body| self.one_line(&elements(body)));
                lead(statement) + &body
            }
        }
    }

    fn equation(&self, equation: &Equation) -> String {
        let (word, value) = (equation.form.word(), self.expr(&equation.value));
        let space = if word.is_empty() { "" } else { " " };
        match &equation.names[..] {
            [] => format!("{word}{space}{value}"),
            bound => format!("{word}{space}{} = {value}", names(bound)),
        }
    }

    fn declaration(&self, setting: &Declaration) -> String {
        let args = if setting.args.is_empty() { String::new() } else { format!("({})", self.list(&setting.args)) };
        let default = setting.default.as_ref().map_or_else(String::new, |value| format!(" = {}", self.value(value)));
        format!("{}: {}{args}{default}", setting.name.text, setting.kind.text)
    }

    /// A value on one line.
    fn value(&self, value: &ValueSyntax) -> String {
        match value {
            ValueSyntax::Expr(expr) => self.expr(expr),
            ValueSyntax::Structured(name, body) => format!("{}{}", name.text, self.settings(Some(body))),
        }
    }

    /// What stands behind the name of a call.
    fn applied(&self, call: &ExprSyntax) -> String {
        match &call.kind {
            ExprKind::Call(_, args, body) => format!("({}){}", self.list(args), self.settings(body.as_ref())),
            _ => String::new(),
        }
    }

    /// The braces behind a call, on the same line.
    fn settings(&self, body: Option<&BodySyntax>) -> String {
        body.map_or_else(String::new, |body| format!(" {}", self.one_line(&elements(body))))
    }

    /// The text of an element before its braces.
    fn lead(&self, element: &BodyElement) -> String {
        match element {
            BodyElement::Let(binding) => self.binding(binding),
            BodyElement::Equation(equation) => self.equation(equation),
            BodyElement::Field(field) => match &field.value {
                ValueSyntax::Expr(expr) => format!("{}: {}", field.name.text, self.expr(expr)),
                ValueSyntax::Structured(name, _) => format!("{}: {} ", field.name.text, name.text),
            },
            BodyElement::Statement(statement) => lead(statement),
        }
    }

    fn edit<'e>(&self, edit: &'e Edit) -> (String, Option<&'e BodySyntax>, String) {
        match &edit.kind {
            EditKind::Set(path, ValueSyntax::Expr(expr)) => {
                (format!("{}: {}", self.path(path), self.expr(expr)), None, String::new())
            }
            EditKind::Set(path, ValueSyntax::Structured(name, body)) => {
                (format!("{}: {} ", self.path(path), name.text), Some(body), String::new())
            }
            EditKind::Assign(path, value) => {
                (format!("{} = {}", self.path(path), self.expr(&value.clone().into_expr())), None, String::new())
            }
            EditKind::Replace(statement) => {
                let space = if statement.body.is_some() { " " } else { "" };
                (format!("{}{space}", head(statement)), statement.body.as_ref(), String::new())
            }
            EditKind::ReplaceAt(path, element) => {
                let lead = format!("replace {} by {}", self.path(path), self.lead(element));
                (lead, body_of(element), String::new())
            }
            EditKind::Wrap(path, statement) => self.around("wrap", path, "in", statement),
            EditKind::Remove(path) => (format!("remove {}", self.path(path)), None, String::new()),
            EditKind::Add(element, side, path) => {
                let behind = format!(" {} {}", side.word(), self.path(path));
                (format!("add {}", self.lead(element)), body_of(element), behind)
            }
            EditKind::Tie(path, tied) => {
                (format!("{} {}", if *tied { "tie" } else { "untie" }, self.path(path)), None, String::new())
            }
            EditKind::Let(binding) => (self.binding(binding), None, String::new()),
        }
    }

    /// The text of a number; none where only the tree is known.
    fn as_written(&self, span: Span) -> Option<String> {
        self.text.get(span.start as usize..span.end as usize).map(str::to_owned)
    }

    fn around<'e>(
        &self,
        what: &str,
        path: &DottedPath,
        how: &str,
        statement: &'e Statement,
    ) -> (String, Option<&'e BodySyntax>, String) {
        let space = if statement.body.is_some() { " " } else { "" };
        let lead = format!("{what} {} {how} {}{space}", self.path(path), head(statement));
        (lead, statement.body.as_ref(), String::new())
    }

    fn binding(&self, binding: &Let) -> String {
        format!("let {} = {}", binding.name.text, self.expr(&binding.value))
    }

    fn path(&self, path: &DottedPath) -> String {
        let texts: Vec<String> = path.components.iter().map(component).collect();
        texts.join(".")
    }

    fn list(&self, exprs: &[ExprSyntax]) -> String {
        exprs.iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    /// An expression with blanks around operators; parentheses and numbers stay as written.
    fn expr(&self, expr: &ExprSyntax) -> String {
        match &expr.kind {
            ExprKind::Int(v) => self.as_written(expr.span).unwrap_or_else(|| v.to_string()),
            ExprKind::Float(v) => self.as_written(expr.span).unwrap_or_else(|| format!("{v:?}")),
            ExprKind::Bool(v) => v.to_string(),
            ExprKind::Name(name) => name.clone(),
            ExprKind::Neg(x) => format!("-{}", self.expr(x)),
            ExprKind::Not(x) => format!("not {}", self.expr(x)),
            ExprKind::Binary(BinaryOp::Pow, a, b) => format!("{}^{}", self.expr(a), self.expr(b)),
            ExprKind::Binary(op, a, b) => format!("{} {} {}", self.expr(a), op.symbol(), self.expr(b)),
            ExprKind::Call(name, ..) => format!("{}{}", name.text, self.applied(expr)),
            ExprKind::Indexed(index, call) => match &call.kind {
                ExprKind::Call(name, ..) => format!("{}[{}]{}", name.text, self.expr(index), self.applied(call)),
                _ => self.expr(call),
            },
            ExprKind::Learn(table, args, body) => {
                let name = if table.is_empty() { "learn".to_owned() } else { format!("learn_{table}") };
                format!("{name}[{}]{}", self.list(args), self.settings(body.as_ref()))
            }
            ExprKind::Read(base, indices) => format!("{}[{}]", self.expr(base), self.list(indices)),
            ExprKind::Old(path) => self.path(path),
            ExprKind::Function(name, body) => format!("{}{}", name.text, self.settings(Some(body))),
            ExprKind::Group(x) => format!("({})", self.expr(x)),
        }
    }
}

/// An element, an edit or a part of a definition: what stands between braces.
enum BracedItem<'a> {
    Element(&'a BodyElement),
    Edit(&'a Edit),
    Def(&'a DefElement),
}

impl BracedItem<'_> {
    fn span(&self) -> Span {
        match self {
            Self::Element(element) => element.span(),
            Self::Edit(edit) => edit.span,
            Self::Def(element) => element.span(),
        }
    }
}

fn elements(body: &BodySyntax) -> Vec<BracedItem<'_>> {
    body.elements.iter().map(BracedItem::Element).collect()
}

fn body_of(element: &BodyElement) -> Option<&BodySyntax> {
    match element {
        BodyElement::Field(field) => match &field.value {
            ValueSyntax::Structured(_, body) => Some(body),
            ValueSyntax::Expr(_) => None,
        },
        BodyElement::Statement(statement) => statement.body.as_ref(),
        BodyElement::Let(_) | BodyElement::Equation(_) => None,
    }
}

/// The text of a statement before its braces.
fn lead(statement: &Statement) -> String {
    format!("{}{}", head(statement), if statement.body.is_some() { " " } else { "" })
}

/// Keyword and word of a statement.
fn head(statement: &Statement) -> String {
    match &statement.word {
        None => statement.keyword.text.clone(),
        Some(KeywordArgument::Name(name)) => format!("{} {}", statement.keyword.text, name.text),
        Some(KeywordArgument::Int(n, _)) => format!("{} {n}", statement.keyword.text),
    }
}

/// `def gate mlp(result, input, normed) `
fn def_head(def: &Def) -> String {
    let atomic = if def.atomic.is_some() { "atomic " } else { "" };
    let slot = def.slot.as_ref().map_or_else(String::new, |slot| format!("{} ", slot.text));
    format!("{atomic}def {slot}{}({}) ", def.name.text, names(&def.values))
}

fn names(params: &[Name]) -> String {
    params.iter().map(|p| p.text.as_str()).collect::<Vec<_>>().join(", ")
}

fn component(component: &Component) -> String {
    match component.index {
        None => component.name.text.clone(),
        Some(n) => format!("{}[{n}]", component.name.text),
    }
}
