//! From text to tree. The only user of pest for `.rt` files.

use std::cell::RefCell;
use std::sync::LazyLock;

use pest::Parser;
use pest::error::Error;
use pest::iterators::{Pair, Pairs};
use pest::pratt_parser::{Assoc, Op, PrattParser};
use pest_derive::Parser;

use super::ast::{
    AddSide, BodyElement, BodySyntax, Component, Declaration, Def, DefElement, DottedPath, Edit, EditKind, Equation,
    EquationForm, ExprKind, ExprSyntax, FieldSyntax, File, FileItem, FullName, FunctionItem, FunctionRole, ItemKind,
    KeywordArgument, Let, Name, Statement, ValueSyntax,
};
use super::message::{self, ParsedText};
use super::scan::{self, CommentScan};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::expr::BinaryOp;
use crate::source::{SourceId, Span};

#[derive(Parser)]
#[grammar = "../../grammar/rt.pest"]
struct Grammar;

/// The longest text that is parsed.
pub const MAX_FILE_BYTES: usize = 256 * 1024;

/// The most syntax errors that are reported for one file: one per item, until this many.
const MAX_ERRORS: usize = 10;

/// The most tokens of one expression. With the limit on nesting it bounds the depth of the tree.
pub const MAX_EXPR_TOKENS: usize = 400;

/// Parses a file. After an error parsing goes on at the next item, so several errors can be reported; the tree is
/// given only for a text without errors.
pub fn parse(id: SourceId, text: &str, problems: &mut Problems) -> Option<File> {
    if text.len() > MAX_FILE_BYTES {
        let message = format!("the text has {} bytes; at most {MAX_FILE_BYTES} are read", text.len());
        problems.report(Diagnostic::new(Kind::TooLong, Span::new(id, 0, 0), message));
        return None;
    }
    parse_any(id, text, problems)
}

/// Parses a file of any size: formatting may lengthen a text beyond what is read.
pub(super) fn parse_any(id: SourceId, text: &str, problems: &mut Problems) -> Option<File> {
    let found = scan::scan(id, text, problems)?;
    let mut start = 0;
    let mut failed = false;
    for _ in 0..MAX_ERRORS {
        let mut reader = SyntaxReader { id, text, offset: start, scan: &found, problems, failed };
        match Grammar::parse(Rule::file, &text[start..]) {
            Ok(mut pairs) => {
                let items = pairs.next().map(|file| reader.items(file)).unwrap_or_default();
                return if reader.failed { None } else { Some(File { items, comments: found.comments }) };
            }
            Err(error) => {
                failed = true;
                let at = start + reader.syntax_error(&error);
                match message::next_item(text, at) {
                    Some(next) => start = next,
                    None => return None,
                }
            }
        }
    }
    None
}

/// Parses one edit of the command line: the grammar of variants, and `=` may stand for `:`.
pub fn parse_override(id: SourceId, text: &str, problems: &mut Problems) -> Option<Edit> {
    let found = scan::scan(id, text, problems)?;
    let mut reader = SyntaxReader { id, text, offset: 0, scan: &found, problems, failed: false };
    match Grammar::parse(Rule::r#override, text) {
        Ok(mut pairs) => {
            let edit = pairs.next()?.into_inner().next().map(|edit| reader.edit(edit));
            if reader.failed { None } else { edit }
        }
        Err(error) => {
            reader.syntax_error(&error);
            None
        }
    }
}

/// Parses one expression outside of a spec.
pub fn parse_formula(id: SourceId, text: &str, problems: &mut Problems) -> Option<ExprSyntax> {
    let found = scan::scan(id, text, problems)?;
    let mut reader = SyntaxReader { id, text, offset: 0, scan: &found, problems, failed: false };
    match Grammar::parse(Rule::formula, text) {
        Ok(mut pairs) => {
            let expr = pairs.next()?.into_inner().next().map(|expr| reader.expr(expr));
            if reader.failed { None } else { expr }
        }
        Err(error) => {
            reader.syntax_error(&error);
            None
        }
    }
}

/// Turns pest's pairs into the tree. The grammar guarantees their shape, so a missing part is a bug of ours.
struct SyntaxReader<'a> {
    id: SourceId,
    text: &'a str,
    /// Where the parsed part begins in the text.
    offset: usize,
    scan: &'a CommentScan,
    problems: &'a mut Problems,
    /// Whether an error was reported for something that the grammar accepts (a number too large).
    failed: bool,
}

/// The parts of a rule, tokens left out.
struct RuleParts<'a>(Pairs<'a, Rule>);

impl<'a> RuleParts<'a> {
    fn of(pair: Pair<'a, Rule>) -> Self {
        Self(pair.into_inner())
    }

    fn peek(&mut self) -> Option<Rule> {
        loop {
            let rule = self.0.peek()?.as_rule();
            if !is_token(rule) {
                return Some(rule);
            }
            self.0.next();
        }
    }

    /// The next part; the grammar says that it is there.
    fn need(&mut self) -> Pair<'a, Rule> {
        self.next().expect("the grammar requires this part")
    }
}

impl<'a> Iterator for RuleParts<'a> {
    type Item = Pair<'a, Rule>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.find(|pair| !is_token(pair.as_rule()))
    }
}

/// Whether the rule is punctuation or a keyword, which the tree does not hold.
fn is_token(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::separator
            | Rule::line
            | Rule::comma
            | Rule::colon
            | Rule::dot
            | Rule::equals
            | Rule::open
            | Rule::close
            | Rule::open_paren
            | Rule::close_paren
            | Rule::open_bracket
            | Rule::close_bracket
            | Rule::kw_use
            | Rule::kw_let
            | Rule::kw_model
            | Rule::kw_variant
            | Rule::kw_of
            | Rule::kw_mask
            | Rule::kw_bias
            | Rule::kw_score
            | Rule::kw_def
            | Rule::kw_show
            | Rule::kw_carry
            | Rule::kw_share
            | Rule::kw_out
            | Rule::kw_go
            | Rule::kw_until
            | Rule::kw_loss
            | Rule::kw_remove
            | Rule::kw_add
            | Rule::kw_untie
            | Rule::kw_tie
            | Rule::kw_replace
            | Rule::kw_by
            | Rule::kw_wrap
            | Rule::kw_in
            | Rule::kw_learn
            | Rule::EOI
    )
}

impl SyntaxReader<'_> {
    /// The place of a pair. Pest lets a rule end behind the blanks and comments that follow it; they are cut off.
    fn span(&self, pair: &Pair<'_, Rule>) -> Span {
        let span = pair.as_span();
        let (start, mut end) = (self.offset + span.start(), self.offset + span.end());
        loop {
            end = start + self.text[start..end].trim_end().len();
            let last = self.scan.comments.partition_point(|c| (c.span.start as usize) < end);
            match last.checked_sub(1).map(|n| &self.scan.comments[n]) {
                Some(c) if c.span.end as usize == end && (c.span.start as usize) > start => end = c.span.start as usize,
                _ => return Span::new(self.id, start, end),
            }
        }
    }

    fn name(&self, pair: &Pair<'_, Rule>) -> Name {
        let span = self.span(pair);
        Name { text: self.text[span.start as usize..span.end as usize].to_owned(), span }
    }

    /// Reports a syntax error; gives its offset in the parsed part.
    fn syntax_error(&mut self, error: &Error<Rule>) -> usize {
        let place = ParsedText { id: self.id, text: self.text, offset: self.offset, scan: self.scan };
        message::syntax_error(&place, error, self.problems)
    }

    fn items(&mut self, file: Pair<'_, Rule>) -> Vec<FileItem> {
        RuleParts::of(file).map(|pair| self.item(pair)).collect()
    }

    fn item(&mut self, pair: Pair<'_, Rule>) -> FileItem {
        let span = self.span(&pair);
        let rule = pair.as_rule();
        let mut parts = RuleParts::of(pair);
        let kind = match rule {
            Rule::use_item => {
                let quoted = self.name(&parts.need());
                let text = quoted.text.trim_matches('"').to_owned();
                ItemKind::Use { path: Name { text, span: quoted.span } }
            }
            Rule::let_item => ItemKind::Let(self.binding(parts, span)),
            Rule::model_item => {
                let name = self.full_name(parts.need());
                ItemKind::Model { name, body: self.body(parts.need()) }
            }
            Rule::variant_item => {
                let name = self.name(&parts.need());
                let base = self.full_name(parts.need());
                let edits = parts.need();
                let braces = self.span(&edits);
                ItemKind::Variant { name, base, edits: RuleParts::of(edits).map(|e| self.edit(e)).collect(), braces }
            }
            Rule::def_item => ItemKind::Def(self.def(parts)),
            rule => {
                let role = match rule {
                    Rule::mask_item => FunctionRole::Mask,
                    Rule::bias_item => FunctionRole::Bias,
                    _ => FunctionRole::Score,
                };
                let name = self.name(&parts.need());
                let params = (parts.peek() == Some(Rule::params)).then(|| parts.need()).map(|p| self.params(p));
                ItemKind::Function(FunctionItem { role, name, params, body: self.expr(parts.need()) })
            }
        };
        FileItem { doc: self.doc(span), kind, span }
    }

    /// The text of the `///` lines right above a place.
    fn doc(&self, item: Span) -> String {
        let mut lines: Vec<&str> = Vec::new();
        let mut below = item.start as usize;
        for comment in self.scan.comments.iter().rev().skip_while(|c| c.span.start >= item.start) {
            let between = &self.text[comment.span.end as usize..below];
            let alone = self.text[..comment.span.start as usize].rsplit('\n').next().unwrap_or("").trim().is_empty();
            let Some(text) = comment.text.strip_prefix("///").filter(|_| alone) else { break };
            if !between.trim().is_empty() || between.matches('\n').count() != 1 {
                break;
            }
            lines.push(text.strip_prefix(' ').unwrap_or(text));
            below = comment.span.start as usize;
        }
        lines.reverse();
        lines.join("\n")
    }

    fn full_name(&self, pair: Pair<'_, Rule>) -> FullName {
        let mut parts = RuleParts::of(pair);
        let model = self.name(&parts.need());
        FullName { model, variant: parts.next().map(|p| self.name(&p)) }
    }

    fn params(&self, pair: Pair<'_, Rule>) -> Vec<Name> {
        RuleParts::of(pair).map(|p| self.name(&p)).collect()
    }

    fn def(&mut self, mut parts: RuleParts<'_>) -> Def {
        let atomic = (parts.peek() == Some(Rule::atomic)).then(|| parts.need()).map(|p| self.span(&p));
        let first = self.name(&parts.need());
        let second = (parts.peek() == Some(Rule::name)).then(|| parts.need()).map(|p| self.name(&p));
        let (slot, name) = match second {
            Some(name) => (Some(first), name),
            None => (None, first),
        };
        let values = self.params(parts.need());
        let body = parts.need();
        let braces = self.span(&body);
        Def { atomic, slot, name, values, elements: RuleParts::of(body).map(|p| self.def_element(p)).collect(), braces }
    }

    fn def_element(&mut self, pair: Pair<'_, Rule>) -> DefElement {
        let span = self.span(&pair);
        match pair.as_rule() {
            Rule::let_item => DefElement::Let(self.binding(RuleParts::of(pair), span)),
            Rule::out => DefElement::Out(RuleParts::of(pair).map(|value| self.expr(value)).collect(), span),
            Rule::statement => DefElement::Statement(self.statement(pair)),
            Rule::setting => DefElement::Setting(self.declaration(RuleParts::of(pair), span)),
            _ => DefElement::Equation(self.equation(pair)),
        }
    }

    fn equation(&mut self, pair: Pair<'_, Rule>) -> Equation {
        let span = self.span(&pair);
        let form = match pair.as_rule() {
            Rule::show => EquationForm::Show,
            Rule::carry => EquationForm::Carry,
            Rule::share => EquationForm::Share,
            Rule::go => EquationForm::Go,
            Rule::until => EquationForm::Until,
            Rule::loss => EquationForm::Loss,
            _ => EquationForm::Plain,
        };
        let mut parts = RuleParts::of(pair);
        let mut names = vec![];
        while parts.peek() == Some(Rule::name) {
            names.push(self.name(&parts.need()));
        }
        let right = parts.need();
        let value = if right.as_rule() == Rule::value { self.value(right).into_expr() } else { self.expr(right) };
        Equation { form, names, value, span }
    }

    fn declaration(&mut self, mut parts: RuleParts<'_>, span: Span) -> Declaration {
        let name = self.name(&parts.need());
        let mut kind = RuleParts::of(parts.need());
        let (of, args) = (self.name(&kind.need()), kind.next().map(|p| self.arguments(p)).unwrap_or_default());
        let default = parts.next().map(|p| self.value(p));
        Declaration { doc: self.doc(span), name, kind: of, args, default, span }
    }

    fn binding(&mut self, mut parts: RuleParts<'_>, span: Span) -> Let {
        let name = self.name(&parts.need());
        Let { name, value: self.expr(parts.need()), span }
    }

    fn body(&mut self, pair: Pair<'_, Rule>) -> BodySyntax {
        let span = self.span(&pair);
        BodySyntax { elements: RuleParts::of(pair).map(|p| self.element(p)).collect(), span }
    }

    fn element(&mut self, pair: Pair<'_, Rule>) -> BodyElement {
        let span = self.span(&pair);
        match pair.as_rule() {
            Rule::let_item => BodyElement::Let(self.binding(RuleParts::of(pair), span)),
            Rule::field => {
                let mut parts = RuleParts::of(pair);
                let name = self.name(&parts.need());
                BodyElement::Field(FieldSyntax { name, value: self.value(parts.need()), span })
            }
            Rule::equation | Rule::share | Rule::show | Rule::carry | Rule::go | Rule::until | Rule::loss => {
                BodyElement::Equation(self.equation(pair))
            }
            _ => BodyElement::Statement(self.statement(pair)),
        }
    }

    fn statement(&mut self, pair: Pair<'_, Rule>) -> Statement {
        let span = self.span(&pair);
        let mut parts = RuleParts::of(pair);
        let keyword = self.name(&parts.need());
        let word = match parts.peek() {
            Some(Rule::integer) => {
                let pair = parts.need();
                Some(KeywordArgument::Int(self.integer(&pair), self.span(&pair)))
            }
            Some(Rule::word) => Some(KeywordArgument::Name(self.name(&parts.need()))),
            _ => None,
        };
        Statement { keyword, word, body: parts.next().map(|p| self.body(p)), span }
    }

    fn value(&mut self, pair: Pair<'_, Rule>) -> ValueSyntax {
        let inner = RuleParts::of(pair).need();
        if inner.as_rule() != Rule::structured {
            return ValueSyntax::Expr(self.expr(inner));
        }
        let mut parts = RuleParts::of(inner);
        let name = self.name(&parts.need());
        ValueSyntax::Structured(name, self.body(parts.need()))
    }

    fn edit(&mut self, pair: Pair<'_, Rule>) -> Edit {
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::remove => EditKind::Remove(self.path(RuleParts::of(pair).need())),
            Rule::replace => {
                let mut parts = RuleParts::of(pair);
                let path = self.path(parts.need());
                EditKind::ReplaceAt(path, self.element(parts.need()))
            }
            Rule::wrap => {
                let mut parts = RuleParts::of(pair);
                let path = self.path(parts.need());
                EditKind::Wrap(path, self.statement(parts.need()))
            }
            Rule::add => {
                let mut parts = RuleParts::of(pair);
                let element = self.element(parts.need());
                let side = if parts.need().as_str().starts_with("before") { AddSide::Before } else { AddSide::After };
                EditKind::Add(element, side, self.path(parts.need()))
            }
            rule @ (Rule::untie | Rule::tie) => EditKind::Tie(self.path(RuleParts::of(pair).need()), rule == Rule::tie),
            Rule::let_item => EditKind::Let(self.binding(RuleParts::of(pair), span)),
            Rule::set | Rule::override_set => {
                let mut parts = RuleParts::of(pair);
                let path = self.path(parts.need());
                EditKind::Set(path, self.value(parts.need()))
            }
            Rule::assign => {
                let mut parts = RuleParts::of(pair);
                let path = self.path(parts.need());
                EditKind::Assign(path, self.value(parts.need()))
            }
            _ => EditKind::Replace(self.statement(pair)),
        };
        Edit { kind, span }
    }

    fn path(&mut self, pair: Pair<'_, Rule>) -> DottedPath {
        let span = self.span(&pair);
        let mut components = Vec::new();
        for component in RuleParts::of(pair) {
            let mut parts = RuleParts::of(component);
            let name = self.name(&parts.need());
            let index = parts.next().map(|p| usize::try_from(self.integer(&p)).unwrap_or(0));
            components.push(Component { name, index });
        }
        DottedPath { components, span }
    }

    fn arguments(&mut self, pair: Pair<'_, Rule>) -> Vec<ExprSyntax> {
        RuleParts::of(pair).map(|p| self.expr(p)).collect()
    }

    fn integer(&mut self, pair: &Pair<'_, Rule>) -> i64 {
        pair.as_str().trim_end().parse().unwrap_or_else(|_| {
            self.number_too_large(self.span(pair));
            0
        })
    }

    fn number_too_large(&mut self, span: Span) {
        self.failed = true;
        let message = "the number is too large";
        self.problems.report(Diagnostic::new(Kind::OutOfRange, span, message).label("does not fit into 64 bits"));
    }

    /// An expression as it stands in a field, definition or argument list: its length is checked as a whole.
    fn expr(&mut self, pair: Pair<'_, Rule>) -> ExprSyntax {
        let span = self.span(&pair);
        if pair.clone().into_inner().flatten().filter(|p| !is_token(p.as_rule())).count() > MAX_EXPR_TOKENS {
            self.failed = true;
            let message = format!("the expression has more than {MAX_EXPR_TOKENS} tokens");
            let help = "name parts of it with `let` or `mask`";
            self.problems.report(Diagnostic::new(Kind::TooLong, span, message).help(help));
            return ExprSyntax { kind: ExprKind::Int(0), span };
        }
        self.climb(pair)
    }

    fn climb(&mut self, pair: Pair<'_, Rule>) -> ExprSyntax {
        let reader = RefCell::new(self);
        PRECEDENCE
            .map_primary(|pair| reader.borrow_mut().primary(pair))
            .map_prefix(|op, x| {
                let span = reader.borrow().span(&op).to(x.span);
                let x = Box::new(x);
                let kind = if op.as_rule() == Rule::negative { ExprKind::Neg(x) } else { ExprKind::Not(x) };
                ExprSyntax { kind, span }
            })
            .map_infix(|a, op, b| {
                let span = a.span.to(b.span);
                let op = BinaryOp::named(op.as_str()).expect("the grammar has the symbols of the operators");
                ExprSyntax { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), span }
            })
            .parse(pair.into_inner())
    }

    fn primary(&mut self, pair: Pair<'_, Rule>) -> ExprSyntax {
        let pair = if pair.as_rule() == Rule::primary { RuleParts::of(pair).need() } else { pair };
        let span = self.span(&pair);
        let kind = match pair.as_rule() {
            Rule::number => self.number(&pair),
            Rule::truth => ExprKind::Bool(self.name(&pair).text == "true"),
            Rule::learn => {
                let table = pair.as_str().split('[').next().unwrap_or_default().trim().strip_prefix("learn_");
                let table = table.unwrap_or_default().to_owned();
                let mut parts = RuleParts::of(pair);
                let mut indices = vec![];
                while parts.peek() == Some(Rule::expr) {
                    indices.push(self.climb(parts.need()));
                }
                ExprKind::Learn(table, indices, parts.next().map(|p| self.body(p)))
            }
            Rule::call => {
                let mut parts = RuleParts::of(pair);
                let name = self.name(&parts.need());
                let index = (parts.peek() == Some(Rule::index)).then(|| RuleParts::of(parts.need()).need());
                let index = index.map(|p| self.climb(p));
                let args = RuleParts::of(parts.need()).map(|p| self.climb(p)).collect();
                let call = ExprKind::Call(name, args, parts.next().map(|p| self.body(p)));
                match index {
                    Some(index) => ExprKind::Indexed(Box::new(index), Box::new(ExprSyntax { kind: call, span })),
                    None => call,
                }
            }
            Rule::read => {
                let mut parts = RuleParts::of(pair);
                let name = self.name(&parts.need());
                let base = ExprSyntax { kind: ExprKind::Name(name.text), span: name.span };
                ExprKind::Read(Box::new(base), parts.map(|p| self.climb(p)).collect())
            }
            Rule::old => ExprKind::Old(self.path(pair)),
            Rule::group => ExprKind::Group(Box::new(self.climb(RuleParts::of(pair).need()))),
            _ => ExprKind::Name(self.name(&pair).text),
        };
        ExprSyntax { kind, span }
    }

    fn number(&mut self, pair: &Pair<'_, Rule>) -> ExprKind {
        let text = pair.as_str().trim_end();
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return ExprKind::Int(self.integer(pair));
        }
        let value: f64 = text.parse().unwrap_or(f64::INFINITY);
        if !value.is_finite() {
            self.number_too_large(self.span(pair));
        }
        ExprKind::Float(value)
    }
}

/// The precedence table: the one of `BinaryOp::precedence`, with `not` and unary minus.
static PRECEDENCE: LazyLock<PrattParser<Rule>> = LazyLock::new(|| {
    let left = |rule| Op::infix(rule, Assoc::Left);
    PrattParser::new()
        .op(left(Rule::or))
        .op(left(Rule::and))
        .op(Op::prefix(Rule::not))
        .op(left(Rule::equal)
            | left(Rule::unequal)
            | left(Rule::less)
            | left(Rule::at_most)
            | left(Rule::greater)
            | left(Rule::at_least))
        .op(left(Rule::plus) | left(Rule::minus))
        .op(left(Rule::times) | left(Rule::over) | left(Rule::modulo))
        .op(Op::prefix(Rule::negative))
        .op(Op::infix(Rule::power, Assoc::Right))
});
