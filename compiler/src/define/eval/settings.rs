//! The settings of what equations apply: written, left out, or worked out from others.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Eval;
use crate::define::constant::{self, Constant};
use crate::define::item::{ExpressionValue, FunctionValue};
use crate::diag::{Diagnostic, Kind, did_you_mean, list};
use crate::feature::{Feature, Idle, idle};
use crate::ir::types::Dim;
use crate::schema::{Default, Derived, FieldKind, StatementField, short};
use crate::source::Span;
use crate::spec::{Block, FieldValue, Origin, Setting};
use crate::syntax::ast::{self, BodyElement};

impl Eval<'_, '_> {
    /// The settings of a definition or a word that is applied, each of the kind that its field takes.
    pub(super) fn settings(
        &mut self,
        feature: &Arc<Feature>,
        body: Option<&ast::BodySyntax>,
        span: Span,
    ) -> Option<Block> {
        let mut block = Block {
            feature: feature.clone(),
            slot: feature.slot.clone(),
            variant: feature.variant.clone(),
            fields: BTreeMap::new(),
            children: vec![],
            span,
            origin: Origin::Written(span),
        };
        let title = feature.title();
        let mut complete = true;
        let mut seen: BTreeMap<&str, Span> = BTreeMap::new();
        for element in body.map_or(&[][..], |body| &body.elements) {
            let BodyElement::Field(written) = element else {
                let message = format!("`{title}` has settings only: `name: value`");
                complete = self.wrong::<()>(element.span(), message, "").is_some();
                continue;
            };
            let name = &written.name.text;
            let Some(field) = feature.fields.iter().find(|f| f.name == *name) else {
                if feature.definition().is_some_and(|d| d.broken) {
                    complete = false;
                    continue;
                }
                let names = || feature.fields.iter().map(|f| &*f.name);
                let mut diagnostic = Diagnostic::new(
                    Kind::UnknownField,
                    written.name.span,
                    format!("`{title}` has no setting `{name}`"),
                );
                diagnostic = diagnostic.label(did_you_mean(name, names()));
                diagnostic = match names().next() {
                    None => diagnostic.help(format!("`{title}` has no settings")),
                    Some(_) => diagnostic.help(format!("its settings are {}", list(names(), "and"))),
                };
                complete = self.report::<()>(diagnostic).is_some();
                continue;
            };
            if let Some(first) = seen.insert(&field.name, written.name.span) {
                let message = format!("`{name}` is given twice");
                let diagnostic = Diagnostic::new(Kind::DuplicateField, written.name.span, message);
                complete = self.report::<()>(diagnostic.label("the second one").note(first, "the first one")).is_some();
                continue;
            }
            match self.given(field, &written.value) {
                Some(Some(value)) => {
                    let origin = self.origin(field, &written.value, body);
                    block.fields.insert(field.name.clone(), Setting { value, origin });
                }
                Some(None) => {}
                None => complete = false,
            }
        }
        for field in feature.fields.iter().filter(|_| complete).collect::<Vec<_>>() {
            if block.fields.contains_key(&field.name) {
                continue;
            }
            match self.filled(field, &block) {
                Ok(Some(value)) => {
                    block.fields.insert(field.name.clone(), Setting { value, origin: Origin::Default });
                }
                Ok(None) => {}
                Err(why) => {
                    let (kind, help) = match &field.default {
                        Default::Required => (Kind::MissingField, field.about()),
                        Default::Derived(Derived::WidthPerHead) => {
                            (Kind::Indivisible, format!("change `heads`, or write `{}: ..`", field.name))
                        }
                        _ => (Kind::OutOfRange, format!("write `{}: ..`, which must be {}", field.name, field.range())),
                    };
                    let diagnostic = Diagnostic::new(kind, span, format!("`{title}` {why}"));
                    complete = self.report::<()>(diagnostic.help(help)).is_some();
                }
            }
        }
        for Idle { field, message, help } in idle(&block) {
            let here = body.and_then(|body| written_at(body, &field.name)).map(ast::ValueSyntax::span);
            let from = match block.fields.get(&field.name).map(|setting| &setting.origin) {
                Some(Origin::Written(from) | Origin::Variant(_, from)) => Some(*from),
                _ => None,
            };
            let diagnostic = Diagnostic::new(Kind::IdleField, from.or(here).unwrap_or(span), message).help(help);
            let handed = here.filter(|here| from.is_some_and(|from| from != *here));
            let diagnostic = match handed {
                Some(here) => diagnostic.note(here, format!("`{title}` gets it here")),
                None => diagnostic,
            };
            complete = self.report::<()>(diagnostic).is_some();
        }
        complete.then_some(block)
    }

    /// Where the value of a setting was written: what is handed on by a name has the origin of what it names, and what the
    /// library says itself nobody has written. A default that is handed on has no use that gives it an effect where the definition itself
    /// writes the setting that decides: there the definition has written it.
    fn origin(&self, field: &StatementField, value: &ast::ValueSyntax, body: Option<&ast::BodySyntax>) -> Origin {
        let here = || if self.in_library() { Origin::Default } else { Origin::Written(value.span()) };
        let Some(setting) = self.handed_setting(value) else { return here() };
        let decides = field.beside.map(|beside| body.and_then(|body| written_at(body, beside.field)));
        let fixed = decides.is_some_and(|value| value.is_none_or(|value| self.handed_setting(value).is_none()));
        match &setting.origin {
            Origin::Default | Origin::Derived(_) if fixed => here(),
            origin => origin.clone(),
        }
    }

    /// The setting of the definition that a value hands on by its name.
    fn handed_setting(&self, value: &ast::ValueSyntax) -> Option<&Setting> {
        let ast::ValueSyntax::Expr(expr) = value else { return None };
        let name = expr.as_name().filter(|name| !self.frame.names.contains_key(&name.text))?;
        self.frame.block.as_ref()?.fields.get(name.text.as_str())
    }

    /// Whether a name is bound here, or a setting of the definition.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.frame.names.contains_key(name) || self.setting(name).is_some()
    }

    /// A setting that is written: `None` was reported, `Some(None)` leaves it out.
    pub(super) fn given(&mut self, field: &StatementField, value: &ast::ValueSyntax) -> Option<Option<FieldValue>> {
        let span = value.span();
        let takes = format!("`{}` takes {}", field.name, field.kind.describe());
        let expr = match value {
            ast::ValueSyntax::Expr(expr) => expr,
            ast::ValueSyntax::Structured(name, body) if field.kind == FieldKind::Function => {
                let Some(feature) = self.find(&name.text) else { return self.unknown(&name.text, name.span) };
                let block = self.settings(&feature, Some(body), span)?;
                return Some(Some(FieldValue::Function(Arc::new(block))));
            }
            ast::ValueSyntax::Structured(..) => return self.wrong(span, takes, "this has settings of its own"),
        };
        let word = expr.as_name().map(|name| name.text);
        if let (FieldKind::Word(words), Some(word)) = (&field.kind, &word)
            && words.contains(word)
            && !self.frame.names.contains_key(word)
        {
            return Some(Some(FieldValue::Word(word.clone())));
        }
        if let (FieldKind::Word(words), Some(word)) = (&field.kind, &word)
            && !self.is_known(word)
        {
            let hint = did_you_mean(word, words.iter());
            let label = if hint.is_empty() { format!("not `{word}`") } else { hint };
            return self.wrong(span, takes, label);
        }
        if let (FieldKind::Mask, Some("past" | "all")) | (FieldKind::Bias, Some("none")) =
            (&field.kind, word.as_deref())
        {
            return Some(word.map(FieldValue::Word));
        }
        if field.kind == FieldKind::Choices {
            return self.number_of_choices(field, expr).map(Some);
        }
        if word.as_deref() == Some("none") {
            if matches!(field.default, Default::Absent) {
                return Some(None);
            }
            return self.wrong(span, takes, "it can't be left out");
        }
        if matches!(field.kind, FieldKind::Mask | FieldKind::Bias)
            && !word.as_ref().is_some_and(|name| self.is_known(name))
        {
            return self.of_pairs(field, expr).map(|rule| Some(FieldValue::Expr(rule)));
        }
        let item = self.expr(expr, None)?;
        let described = item.describe();
        let value = match (&field.kind, item) {
            // What was left out by the caller is left out here.
            (_, ExpressionValue::Constant(Constant::None)) => return Some(None),
            (FieldKind::Int, ExpressionValue::Constant(Constant::Int(v))) => FieldValue::Int(v),
            (FieldKind::Int, ExpressionValue::Size(Dim::Fixed(n))) => FieldValue::Int(n as i64),
            (FieldKind::Int, ExpressionValue::Size(dim)) => FieldValue::Word(dim.to_string()),
            (FieldKind::Float | FieldKind::FloatOr(_), ExpressionValue::Constant(constant))
                if constant.number().is_some() =>
            {
                FieldValue::Float(constant.number().unwrap_or_default())
            }
            (FieldKind::Truth, ExpressionValue::Constant(Constant::Truth(v))) => FieldValue::Truth(v),
            (FieldKind::Word(words), ExpressionValue::Constant(Constant::Word(word, _))) if words.contains(&word) => {
                FieldValue::Word(word)
            }
            (FieldKind::Mask, ExpressionValue::Mask(value)) | (FieldKind::Bias, ExpressionValue::Bias(value)) => value,
            (FieldKind::Function, ExpressionValue::Function(FunctionValue::Pointwise(func))) => {
                FieldValue::Word(func.def().name.to_owned())
            }
            (FieldKind::Function, ExpressionValue::Function(FunctionValue::Block(block))) => {
                FieldValue::Function(block)
            }
            _ => {
                let hint = match (&field.kind, word) {
                    (FieldKind::Word(words), Some(word)) => did_you_mean(&word, words.iter()),
                    _ => String::new(),
                };
                let label = if hint.is_empty() { format!("this is {described}") } else { hint };
                let divides = matches!(expr.kind, ast::ExprKind::Binary(crate::expr::BinaryOp::Div, ..));
                let help = if divides && field.kind == FieldKind::Int { "`floor(a / b)` rounds down" } else { "" };
                return self.report(Diagnostic::new(Kind::WrongType, span, takes).label(label).help(help));
            }
        };
        let number = match value {
            FieldValue::Int(v) => Some(v as f64),
            FieldValue::Float(v) => Some(v),
            _ => None,
        };
        if let Some(v) = number.filter(|v| !field.bounds.hold(*v)) {
            let message = format!("`{}` must be {}", field.name, field.bounds.describe());
            return self.fail(Kind::OutOfRange, span, message, format!("this is {}", short(v)));
        }
        Some(Some(value))
    }

    /// A setting that is not written; the error ends a sentence.
    pub(super) fn filled(&self, field: &StatementField, block: &Block) -> Result<Option<FieldValue>, String> {
        Ok(Some(match &field.default {
            Default::Required => return Err(format!("needs `{}`", field.name)),
            Default::Absent => return Ok(None),
            Default::Int(v) => FieldValue::Int(*v),
            Default::Float(v) => FieldValue::Float(*v),
            Default::Truth(v) => FieldValue::Truth(*v),
            Default::Word(word) => FieldValue::Word(word.to_string()),
            Default::Derived(Derived::Sees(past, all)) => {
                FieldValue::Word(if self.l.sees_past { past } else { all }.to_string())
            }
            Default::Derived(rule) => {
                let value = derived(rule, self.l.width, self.l.residual_dropout, self.l.attention_dropout, block)?;
                worked_out(field, value)?
            }
        }))
    }
}

/// What is written for a setting.
fn written_at<'b>(body: &'b ast::BodySyntax, name: &str) -> Option<&'b ast::ValueSyntax> {
    body.elements.iter().find_map(|element| match element {
        BodyElement::Field(field) if field.name.text == name => Some(&field.value),
        _ => None,
    })
}

/// The value of a setting that was worked out; the error ends a sentence.
pub(crate) fn worked_out(field: &StatementField, value: f64) -> Result<FieldValue, String> {
    let is_whole = value.fract() == 0.0;
    if !field.bounds.hold(value) || field.kind == FieldKind::Int && !is_whole {
        return Err(format!("works `{}` out as {value}", field.name));
    }
    Ok(if field.kind == FieldKind::Int { FieldValue::Int(value as i64) } else { FieldValue::Float(value) })
}

/// The value of a derived setting; the error ends a sentence.
pub(crate) fn derived(
    rule: &Derived,
    width: usize,
    dropout: f64,
    attention_dropout: f64,
    block: &Block,
) -> Result<f64, String> {
    Ok(match rule {
        Derived::ModelDropout => dropout,
        Derived::ModelAttentionDropout => attention_dropout,
        Derived::Width => width as f64,
        Derived::WidthPerHead => {
            let heads = block.int("heads").unwrap_or(1).max(1);
            if !width.is_multiple_of(heads) {
                return Err(format!("has {heads} heads, which can't share a width of {width} evenly"));
            }
            (width / heads) as f64
        }
        Derived::Sees(..) => return Err("has a word that is no number".to_owned()),
        Derived::Written(expr, text) => {
            let known = |name: &str| match name {
                "width" => Some(Constant::Int(width as i64)),
                "dropout" => Some(Constant::Float(dropout)),
                "attention_dropout" => Some(Constant::Float(attention_dropout)),
                name => match block.fields.get(name)?.value {
                    FieldValue::Int(v) => Some(Constant::Int(v)),
                    FieldValue::Float(v) => Some(Constant::Float(v)),
                    _ => None,
                },
            };
            let value = constant::constant(expr, &known).map_err(|(_, why)| format!("needs `{text}`: {why}"))?;
            value.number().ok_or_else(|| format!("needs a number, and `{text}` is {}", value.describe()))?
        }
    })
}
