//! Expressions of masks, biases, depths and constants: names are looked up, masks inlined, constants put in, kinds checked.

mod functions;
mod named;
mod scope;
mod tables;

pub(crate) use named::NamedExpression;
pub use named::NamedExpressions;
pub(crate) use scope::{NameBinding, PositionValue, ScopeId, Scopes};

use crate::diag::{Diagnostic, Kind, Problems, did_you_mean, list};
use crate::expr::{
    BinaryOp, Distribution, Draw, Expr, Func, LARGEST_WHOLE, Per, ScalarValue, Var, constant, derived, is_natural,
    lifted, simplify,
};
use crate::schema::{FieldKind, StatementField};
use crate::source::Span;
use crate::syntax::ast::{self, ExprKind, FunctionRole};

/// The largest number of nodes after inlining; also the most look-ups on the way there.
pub const MAX_NODES: usize = 10_000;

/// The deepest tree after inlining.
pub const MAX_DEPTH: usize = 200;

/// The kind of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExpressionType {
    Int,
    Float,
    Bool,
}

impl Typed {
    /// An expression without names.
    pub(crate) fn of(expr: Expr, ty: ExpressionType) -> Self {
        let (depth, size) = measures(&expr);
        Self { expr, ty, depth, size, ratio: false, power: None }
    }

    /// The same, measured anew.
    fn remeasured(self) -> Self {
        let (depth, size) = measures(&self.expr);
        Self { depth, size, ..self }
    }

    /// What to do where it should be a whole number, if a quotient or a power is why it is none.
    pub(crate) fn cure(&self) -> &str {
        match (&self.power, self.ratio) {
            _ if self.ty != ExpressionType::Float => "",
            (Some(cure), _) => cure,
            (None, true) => ROUNDS,
            (None, false) => "",
        }
    }
}

impl ExpressionType {
    fn is_number(self) -> bool {
        self != Self::Bool
    }

    /// The kind in words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Int => "a whole number",
            Self::Float => "a real number",
            Self::Bool => "true or false",
        }
    }
}

/// A resolved expression with its kind and measures.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: ExpressionType,
    depth: usize,
    size: usize,
    /// Whether it holds a real quotient of whole numbers.
    ratio: bool,
    /// What is whole in the place of a power in it whose exponent may be negative.
    power: Option<String>,
}

/// How values are read.
const READS: &str =
    "`c[i]` is what `c` has at the query, `c[j]` at the key, and `c[j, head]` the same in the channel of the head";

/// The cure where a whole number is wanted.
const ROUNDS: &str = "`/` is the real quotient: `floor(a / b)` rounds it down to a whole number";

/// The depth of a tree, and its number of nodes.
fn measures(expr: &Expr) -> (usize, usize) {
    let inner = expr.operands().into_iter().map(measures);
    inner.fold((1, 1), |(depth, size), (d, s)| (depth.max(d + 1), size + s))
}

/// What an expression may use in its place.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    vars: &'static [Var],
    given: bool,
    learn: bool,
    /// The number that it changes, by its name.
    changes: Option<&'static Expr>,
    /// Words that stand for a whole value; the caller knows their meaning.
    pub(crate) words: &'static [&'static str],
    place: &'static str,
}

/// Masks and biases by name.
const ATTENTION: Allowed =
    Allowed { vars: &Var::ALL, given: false, learn: true, changes: None, words: &[], place: "a mask or bias" };
/// The mask of an attention.
const MASK: Allowed = Allowed { words: &["past", "all"], ..ATTENTION };
/// The bias of an attention.
const BIAS: Allowed = Allowed { words: &["none"], ..ATTENTION };
/// What the scores of an attention become.
const SCORE: Allowed = Allowed { changes: Some(&Expr::Score), place: "a score", ..BIAS };
/// What the angles of rotary positions become.
const ANGLE: Allowed = Allowed { changes: Some(&Expr::Angle), words: &["none"], place: "an angle", ..CONSTANT };
/// Depths.
pub(crate) const DEPTH: Allowed =
    Allowed { vars: &[Var::Length], given: true, learn: false, changes: None, words: &[], place: "a depth" };
/// Numbers of choices in equations.
pub(crate) const CHOICES: Allowed =
    Allowed { vars: &[Var::Length, Var::Step], place: "a number of choices", ..CONSTANT };
/// Plain numbers.
pub(crate) const CONSTANT: Allowed =
    Allowed { vars: &[], given: false, learn: false, changes: None, words: &[], place: "a constant" };

impl Allowed {
    /// What the mask, the bias or the score of an attention may use.
    pub(crate) fn of_pairs(field: &StatementField) -> Self {
        match (&field.kind, &*field.name) {
            (FieldKind::Mask, _) => MASK,
            (_, "score") => SCORE,
            (_, "angle") => ANGLE,
            _ => BIAS,
        }
    }

    /// Whether it may read values at the query and the key.
    pub(crate) fn reads(&self) -> bool {
        self.vars.contains(&Var::J)
    }

    /// What a definition of a name may use.
    pub(crate) fn of_function(role: FunctionRole) -> Self {
        if role == FunctionRole::Score { SCORE } else { ATTENTION }
    }
}

/// Resolves one expression.
pub(crate) struct Resolver<'r> {
    named: &'r NamedExpressions,
    scopes: &'r mut Scopes,
    problems: &'r mut Problems,
    allowed: Allowed,
    /// The definitions being inlined.
    active: Vec<String>,
    visits: usize,
    level: usize,
    /// Who shares a draw that does not say so: those who share the one that it stands in.
    per: Per,
    /// The whole expression, where a report of its size belongs.
    whole: Span,
    /// How many learned tables got a name.
    tables: usize,
}

impl<'r> Resolver<'r> {
    /// A resolver for one expression.
    pub(crate) fn new(
        named: &'r NamedExpressions,
        scopes: &'r mut Scopes,
        problems: &'r mut Problems,
        allowed: Allowed,
    ) -> Self {
        Self {
            named,
            scopes,
            problems,
            allowed,
            active: Vec::new(),
            visits: 0,
            level: 0,
            per: Per::Row,
            whole: Span::default(),
            tables: 0,
        }
    }

    /// The expression in its simplest form; `None` if a problem was reported.
    pub(crate) fn expression(&mut self, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<Typed> {
        self.whole = expr.span;
        let mut typed = self.resolve(expr, scope)?;
        typed.expr = tables::settled(simplify(typed.expr));
        Some(typed)
    }

    /// The mask or bias of a field; `None` if a problem was reported.
    pub(crate) fn of_pairs(&mut self, field: &StatementField, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<Expr> {
        let is_mask = field.kind == FieldKind::Mask;
        let typed = self.expression(expr, scope)?;
        if is_mask != (typed.ty == ExpressionType::Bool) {
            let (kind, message, label) = match is_mask {
                true => (Kind::MaskNotBoolean, "a mask must be true or false", "this is a number"),
                false => (Kind::BiasNotNumber, "a bias, a score or an angle must be a number", "this is true or false"),
            };
            return self.problems.fail(Diagnostic::new(kind, expr.span, message).label(label));
        }
        if is_mask && typed.expr.is_learned() {
            let message = format!("`{}` takes {}", field.name, field.kind.describe());
            return self.wrong(expr.span, &message, "a mask can't hold `learn`");
        }
        Some(typed.expr)
    }

    /// Checks a mask or bias without parameters by itself.
    pub(crate) fn function(&mut self, function: &ast::FunctionItem) -> Option<Typed> {
        self.whole = function.body.span;
        self.inline(function, &[], function.name.span, None)
    }

    fn resolve(&mut self, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<Typed> {
        self.visits += 1;
        if self.visits > MAX_NODES {
            return self.too_long();
        }
        self.level += 1;
        let typed = if self.level > MAX_DEPTH { self.too_deep() } else { self.node(expr, scope) };
        self.level -= 1;
        let typed = typed?;
        if typed.size > MAX_NODES {
            return self.too_long();
        }
        if typed.depth > MAX_DEPTH {
            return self.too_deep();
        }
        Some(typed)
    }

    fn too_long(&mut self) -> Option<Typed> {
        self.too_big(Kind::TooLong, format!("the expression has more than {MAX_NODES} parts after inlining"))
    }

    fn too_deep(&mut self) -> Option<Typed> {
        self.too_big(Kind::TooDeep, format!("the expression is nested more than {MAX_DEPTH} deep after inlining"))
    }

    /// One report is enough: the definitions that make one expression too big make others too big as well.
    fn too_big(&mut self, kind: Kind, message: String) -> Option<Typed> {
        if !self.problems.kinds().contains(&kind) {
            self.problems.report(Diagnostic::new(kind, self.whole, message));
        }
        None
    }

    fn node(&mut self, expr: &ast::ExprSyntax, scope: ScopeId) -> Option<Typed> {
        match &expr.kind {
            ExprKind::Int(v) if v.unsigned_abs() as f64 > LARGEST_WHOLE => {
                let message = format!("`{v}` is too large for an expression");
                let diagnostic = Diagnostic::new(Kind::OutOfRange, expr.span, message);
                self.problems.fail(diagnostic.label("whole numbers are exact up to 2^52"))
            }
            ExprKind::Int(v) => leaf(Expr::Int(*v), ExpressionType::Int),
            ExprKind::Float(v) => leaf(Expr::Float(*v), ExpressionType::Float),
            ExprKind::Bool(v) => leaf(Expr::Bool(*v), ExpressionType::Bool),
            ExprKind::Group(x) => self.resolve(x, scope),
            ExprKind::Name(name) => self.name(name, expr.span, scope),
            ExprKind::Neg(x) => {
                let operand = self.resolve(x, scope)?;
                self.number(&operand, x.span, "`-`")?;
                let ty = operand.ty;
                self.join(vec![operand], ty, expr.span, |mut xs| Expr::Neg(Box::new(xs.remove(0))))
            }
            ExprKind::Not(x) => {
                let operand = self.resolve(x, scope)?;
                self.condition(&operand, x.span, "`not`")?;
                self.join(vec![operand], ExpressionType::Bool, expr.span, |mut xs| Expr::Not(Box::new(xs.remove(0))))
            }
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, expr.span, scope),
            ExprKind::Old(path) => {
                let message = "the value of a field can only be read by an edit";
                let help = "as in `depthwise.depth: 2 * depthwise.depth` of a variant, or in `--set`";
                self.problems.fail(Diagnostic::new(Kind::UnknownName, path.span, message).help(help))
            }
            ExprKind::Call(name, args, body) if self.allowed.given && Distribution::named(&name.text).is_some() => {
                self.draw(name, args, body.as_ref(), scope)
            }
            ExprKind::Function(_, body) | ExprKind::Call(_, _, Some(body)) | ExprKind::Learn(_, _, Some(body)) => {
                let message = format!("nothing in braces has a meaning in {}", self.allowed.place);
                self.problems.fail(Diagnostic::new(Kind::Syntax, body.span, message).help("only equations have it"))
            }
            ExprKind::Indexed(index, _) => {
                let message = format!("an index has no meaning in {}", self.allowed.place);
                self.problems.fail(Diagnostic::new(Kind::Syntax, index.span, message).help("only equations have it"))
            }
            ExprKind::Read(base, indices) => self.read(base, indices, expr.span, scope),
            ExprKind::Call(name, args, None) => self.call(name, args, expr.span, scope),
            ExprKind::Learn(table, indices, None) => self.learn(table, indices, expr.span, scope),
        }
    }

    /// A number that is drawn: `poisson(mean) { per: batch, evaluation: 32 }`.
    fn draw(
        &mut self,
        name: &ast::Name,
        args: &[ast::ExprSyntax],
        body: Option<&ast::BodySyntax>,
        scope: ScopeId,
    ) -> Option<Typed> {
        let distribution = Distribution::named(&name.text)?;
        if args.len() != distribution.arity() {
            return self.problems.fail(wrong_arity(&name.text, distribution.arity(), args.len(), name.span, None));
        }
        let (mut per, mut expected) = (self.per, None);
        for element in body.map_or(&[][..], |body| &body.elements) {
            let field = match element {
                ast::BodyElement::Field(ast::FieldSyntax { name, value: ast::ValueSyntax::Expr(value), .. }) => {
                    Some((name, value))
                }
                _ => None,
            };
            let known = match field.map(|(name, value)| (name.text.as_str(), value)) {
                Some(("per", value)) => {
                    let word = value.as_name().and_then(|word| Per::named(&word.text));
                    per = word.unwrap_or(per);
                    word.is_some()
                }
                Some(("evaluation", value)) => {
                    expected = match self.resolve(value, scope)?.expr {
                        Expr::Int(v) if v >= 0 => Some(ScalarValue::Int(v)),
                        Expr::Float(v) if v >= 0.0 && !distribution.is_whole() => Some(ScalarValue::Float(v)),
                        _ => None,
                    };
                    expected.is_some()
                }
                _ => false,
            };
            if !known {
                let message = "a draw has the settings `per: row`, `per: batch` and `evaluation: n`";
                let help = "`per` says who shares the number, `evaluation` what stands for it where nothing is drawn";
                return self.problems.fail(Diagnostic::new(Kind::WrongType, element.span(), message).help(help));
            }
        }
        let mut operands = vec![];
        let outer = std::mem::replace(&mut self.per, per);
        for arg in args {
            let operand = self.resolve(arg, scope);
            operands
                .extend(operand.filter(|typed| self.number(typed, arg.span, &format!("`{}`", name.text)).is_some()));
        }
        self.per = outer;
        if operands.len() < args.len() {
            return None;
        }
        let real = |x: &Typed| match x.expr.without_draws() {
            Expr::Int(v) => Some(v as f64),
            Expr::Float(v) => Some(v),
            _ => None,
        };
        let numbers: Vec<f64> = operands.iter().filter_map(real).collect();
        if numbers.len() == operands.len() {
            let known = [numbers[0], numbers.get(1).copied().unwrap_or_default()];
            if !distribution.allows(known) {
                let message = format!("`{}` takes {}", name.text, distribution.parameters());
                let given = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
                let diagnostic = Diagnostic::new(Kind::OutOfRange, name.span, message);
                return self.problems.fail(diagnostic.label(format!("here it has {given}")));
            }
        }
        let expected = match (expected, &numbers[..]) {
            (Some(expected), _) => expected,
            (None, [p]) if distribution == Distribution::Geometric && *p > 0.0 => {
                ScalarValue::Int((1.0 / p).round() as i64)
            }
            (None, [mean]) if distribution == Distribution::Poisson => ScalarValue::Int(mean.round() as i64),
            (None, [mean, _]) if distribution == Distribution::Lognormal => ScalarValue::Float(*mean),
            (None, [a, b]) if distribution == Distribution::Uniform => ScalarValue::Int(((a + b) / 2.0).round() as i64),
            _ => {
                let message = format!("what stands for `{}` in evaluation is not known", name.text);
                let help = "write `{ evaluation: n }` behind it";
                return self.problems.fail(Diagnostic::new(Kind::MissingField, name.span, message).help(help));
            }
        };
        let ty = if distribution.is_whole() { ExpressionType::Int } else { ExpressionType::Float };
        self.join(operands, ty, name.span, |args| {
            Expr::Draw(Box::new(Draw { distribution, args, stream: 0, per, expected }))
        })
    }

    fn name(&mut self, name: &str, span: Span, scope: ScopeId) -> Option<Typed> {
        match self.scopes.find(scope, name).cloned() {
            Some(NameBinding::Written(value, scope)) => return self.resolve(&value, scope),
            Some(NameBinding::Resolved(typed)) => {
                let typed = typed?;
                self.visits += typed.size;
                if !typed.expr.is_learned() {
                    return Some(typed);
                }
                // All that read the name read the same tables.
                let typed = self.with_named_tables(typed);
                self.scopes.replace(scope, name, NameBinding::Resolved(Some(typed.clone())));
                return Some(typed);
            }
            Some(NameBinding::Value(_)) => {
                let message = format!("`{name}` is a value of every position");
                let diagnostic = Diagnostic::new(Kind::WrongType, span, message);
                return self.problems.fail(diagnostic.help(READS));
            }
            None => {}
        }
        if let Some(var) = Var::ALL.into_iter().find(|v| v.name() == name) {
            if self.allowed.vars.contains(&var) {
                return leaf(Expr::Var(var), ExpressionType::Int);
            }
            return self.misplaced(name, span);
        }
        if let Some(changed) = self.allowed.changes.filter(|changed| changed.to_string() == name) {
            return leaf(changed.clone(), ExpressionType::Float);
        }
        match name {
            "past" if self.allowed.reads() => return leaf(Expr::past(), ExpressionType::Bool),
            "all" if self.allowed.reads() => return leaf(Expr::Bool(true), ExpressionType::Bool),
            "none" if self.allowed.reads() => return leaf(Expr::Float(0.0), ExpressionType::Float),
            "none" | "past" | "all" => return self.misplaced(name, span),
            _ => {}
        }
        if name == "given" {
            return if self.allowed.given {
                leaf(Expr::Given, ExpressionType::Int)
            } else {
                self.misplaced(name, span)
            };
        }
        match self.named.find(name) {
            Some(NamedExpression::Let(binding)) => {
                let value = self.scopes.globals.get(name).cloned();
                self.guarded(name, span, |this| this.resolve(value.as_ref().unwrap_or(&binding.value), None))
            }
            Some(NamedExpression::Function(function)) => self.inline(function, &[], span, scope),
            None => self.unknown(name, span, scope, false),
        }
    }

    fn misplaced(&mut self, name: &str, span: Span) -> Option<Typed> {
        let message = format!("`{name}` has no meaning in {}", self.allowed.place);
        let mut usable: Vec<&str> = self.allowed.vars.iter().map(|v| v.name()).collect();
        if self.allowed.given {
            usable.push("given");
        }
        let help = if usable.is_empty() { String::new() } else { format!("it may use {}", list(usable, "and")) };
        self.problems.fail(Diagnostic::new(Kind::UnknownName, span, message).help(help))
    }

    fn unknown(&mut self, name: &str, span: Span, scope: ScopeId, functions: bool) -> Option<Typed> {
        let mut known = self.scopes.names(scope);
        known.extend(self.named.names());
        known.extend(self.allowed.vars.iter().map(|v| v.name()));
        known.extend(match self.allowed.changes {
            Some(Expr::Score) => Some("score"),
            Some(_) => Some("angle"),
            None => None,
        });
        if functions {
            known.extend(Func::ALL.iter().map(|f| f.name()));
            derived().for_each(|name| known.push(name));
        }
        // Inside a larger expression a word has no value.
        known.extend(self.allowed.words.iter().filter(|_| self.level == 1));
        let hint = did_you_mean(name, known);
        let message = format!("`{name}` is not defined");
        let help = match name {
            "score" => "only `score` reads it: `score: score + ..` is what a bias adds",
            "angle" => "only `angle` reads it: `angle: angle / 8` turns pairs of channels more slowly",
            _ => "",
        };
        self.problems.fail(Diagnostic::new(Kind::UnknownName, span, message).label(hint).help(help))
    }

    /// Runs with the definition marked as being inlined; reports one that is marked already.
    fn guarded(&mut self, name: &str, span: Span, run: impl FnOnce(&mut Self) -> Option<Typed>) -> Option<Typed> {
        if self.active.iter().any(|a| a == name) {
            let help = format!("the chain: {} -> {name}", self.active.join(" -> "));
            let message = format!("`{name}` is defined through itself");
            return self.problems.fail(Diagnostic::new(Kind::CyclicDefinition, span, message).help(help));
        }
        self.active.push(name.to_owned());
        let result = run(self);
        self.active.pop();
        result
    }

    /// The body of a mask or bias with its arguments put in.
    fn inline(
        &mut self,
        function: &ast::FunctionItem,
        args: &[ast::ExprSyntax],
        span: Span,
        scope: ScopeId,
    ) -> Option<Typed> {
        let params = function.params.as_deref().unwrap_or(&[]);
        if params.len() != args.len() {
            let name = &function.name;
            return self.problems.fail(wrong_arity(&name.text, params.len(), args.len(), span, Some(name.span)));
        }
        let mut inner: ScopeId = None;
        for (param, arg) in params.iter().zip(args) {
            let value = arg.as_name().and_then(|name| self.scopes.find(scope, &name.text));
            let bound = match value.filter(|value| matches!(value, NameBinding::Value(_))) {
                Some(value) => value.clone(),
                None => NameBinding::Resolved(self.resolve(arg, scope).map(|typed| self.with_named_tables(typed))),
            };
            inner = self.scopes.bind(inner, &param.text, bound);
        }
        let typed = self.guarded(&function.name.text, span, |this| this.resolve(&function.body, inner))?;
        let (kind, needs, fits) = match function.role {
            FunctionRole::Mask => (Kind::MaskNotBoolean, "true or false", typed.ty == ExpressionType::Bool),
            FunctionRole::Bias | FunctionRole::Score => (Kind::BiasNotNumber, "a number", typed.ty.is_number()),
        };
        if !fits {
            let message = format!("the {} `{}` must be {needs}", function.role.word(), function.name.text);
            let label = format!("this is {}", typed.ty.describe());
            return self.problems.fail(Diagnostic::new(kind, function.body.span, message).label(label));
        }
        Some(typed)
    }

    fn call(&mut self, name: &ast::Name, args: &[ast::ExprSyntax], span: Span, scope: ScopeId) -> Option<Typed> {
        if let Some(func) = Func::named(&name.text, args.len()) {
            return match func {
                Func::When => self.choice(args, span, scope),
                func => self.builtin(func, args, span, scope),
            };
        }
        match self.named.find(&name.text) {
            Some(NamedExpression::Function(function)) if self.scopes.find(scope, &name.text).is_none() => {
                self.inline(function, args, span, scope)
            }
            Some(NamedExpression::Let(_)) => self.problems.fail(wrong_arity(&name.text, 0, args.len(), span, None)),
            _ if self.scopes.find(scope, &name.text).is_some() => {
                self.problems.fail(wrong_arity(&name.text, 0, args.len(), span, None))
            }
            _ => match self.derived(&name.text, args, span, scope) {
                Some(typed) => typed,
                None => self.unknown(&name.text, name.span, scope, true),
            },
        }
    }

    fn builtin(&mut self, func: Func, args: &[ast::ExprSyntax], span: Span, scope: ScopeId) -> Option<Typed> {
        if args.len() != func.arity() {
            return self.problems.fail(wrong_arity(func.name(), func.arity(), args.len(), span, None));
        }
        if let (Func::Floor, [arg]) = (func, args)
            && let Some((a, b)) = arg.as_quotient()
        {
            return self.floor_of_quotient((a, b), arg.span, span, scope);
        }
        let what = format!("`{}`", func.name());
        let mut operands = Vec::new();
        for arg in args {
            let operand = self.resolve(arg, scope);
            let operand = operand.filter(|typed| {
                if func == Func::Log {
                    self.integer(typed, arg.span, &what).is_some()
                } else {
                    self.number(typed, arg.span, &what).is_some()
                }
            });
            operands.push(operand);
        }
        let operands: Vec<Typed> = operands.into_iter().collect::<Option<_>>()?;
        if func == Func::Log && matches!(operands[1].expr, Expr::Int(base) if base < 2) {
            let message = "the base of `log` must be at least 2";
            return self.problems.fail(Diagnostic::new(Kind::OutOfRange, args[1].span, message));
        }
        let ty = match func {
            Func::Ln | Func::Exp | Func::Sqrt | Func::Tanh | Func::Sigmoid => ExpressionType::Float,
            Func::Floor => ExpressionType::Int,
            _ if operands.iter().any(|x| x.ty == ExpressionType::Float) => ExpressionType::Float,
            _ => ExpressionType::Int,
        };
        let typed = self.join(operands, ty, span, |xs| Expr::Call(func, xs))?;
        Some(Typed { ratio: typed.ratio && func != Func::Floor, ..typed })
    }

    /// `floor(a / b)`: of whole numbers the whole quotient, else the real one rounded down. The operands are resolved once.
    fn floor_of_quotient(
        &mut self,
        (a, b): (&ast::ExprSyntax, &ast::ExprSyntax),
        quotient: Span,
        span: Span,
        scope: ScopeId,
    ) -> Option<Typed> {
        let (left, right) = (self.resolve(a, scope), self.resolve(b, scope));
        let (left, right) = (left?, right?);
        if left.ty == ExpressionType::Int && right.ty == ExpressionType::Int {
            return self.join(vec![left, right], ExpressionType::Int, span, |xs| operation(xs, Expr::whole_quotient));
        }
        let real = self.operation(BinaryOp::Div, (left, a.span), (right, b.span), quotient)?;
        let typed = self.join(vec![real], ExpressionType::Int, span, |xs| Expr::Call(Func::Floor, xs))?;
        Some(Typed { ratio: false, ..typed })
    }

    /// What a value has at the query or the key: `c[i]`, or `c[j, head]` where it has channels.
    fn read(
        &mut self,
        base: &ast::ExprSyntax,
        indices: &[ast::ExprSyntax],
        span: Span,
        scope: ScopeId,
    ) -> Option<Typed> {
        let Some(name) = base.as_name() else { return self.wrong(base.span, "a value is read by its name", "") };
        let value = match self.scopes.find(scope, &name.text) {
            Some(NameBinding::Value(value)) => value.clone(),
            Some(_) => {
                return self.wrong(base.span, &format!("`{}` is no value of positions", name.text), "it has no index");
            }
            None => return self.unknown(&name.text, base.span, scope, false),
        };
        let given = indices.len();
        let (at, channel) = match (indices, value.channels) {
            ([at], None) => (at, None),
            ([at, channel], Some(_)) => (at, Some(channel)),
            (_, channels) => {
                let message = format!(
                    "`{}` has {}",
                    name.text,
                    if channels.is_some() { "a position and a channel" } else { "a position" }
                );
                let label = format!(
                    "here {} given",
                    if given == 1 { "1 index is".to_owned() } else { format!("{given} indices are") }
                );
                return self.problems.fail(Diagnostic::new(Kind::WrongArity, span, message).label(label).help(READS));
            }
        };
        let place = self.resolve(at, scope)?;
        if !matches!(place.expr, Expr::Var(Var::I | Var::J)) {
            let diagnostic = Diagnostic::new(Kind::WrongType, at.span, "a value is read at the query or at the key");
            return self.problems.fail(diagnostic.label("this is neither `i` nor `j`").help(READS));
        }
        let mut places = vec![place];
        if let Some(channel) = channel {
            let typed = self.resolve(channel, scope)?;
            self.integer(&typed, channel.span, "a channel")?;
            let moves = [Var::I, Var::J, Var::Step, Var::Length].into_iter().any(|var| typed.expr.uses(var));
            if moves || typed.expr.reads() || typed.expr.is_learned() {
                return self.wrong(
                    channel.span,
                    "a channel is a number, or a number of every head",
                    "this is another one",
                );
            }
            places.push(typed);
        }
        let truth = value.truth;
        self.join(places, if truth { ExpressionType::Bool } else { ExpressionType::Float }, span, |indices| {
            let read = Expr::Read(value.name, indices);
            match truth {
                true => Expr::Binary(BinaryOp::Ne, Box::new(read), Box::new(Expr::Float(0.0))),
                false => read,
            }
        })
    }

    fn learn(&mut self, table: &str, indices: &[ast::ExprSyntax], span: Span, scope: ScopeId) -> Option<Typed> {
        if !self.allowed.learn {
            let message = format!("`learn` has no meaning in {}", self.allowed.place);
            let help = "only biases may hold `learn`";
            return self.problems.fail(Diagnostic::new(Kind::UnknownName, span, message).help(help));
        }
        if indices.is_empty() {
            let message = "`learn` of a bias has an index for each axis of its table";
            let help = "`learn[min(i - j, 15)]` is one number for each distance";
            return self.problems.fail(Diagnostic::new(Kind::WrongArity, span, message).help(help));
        }
        let mut operands = Vec::new();
        for index in indices {
            let operand = self.resolve(index, scope);
            operands.push(operand.filter(|typed| self.integer(typed, index.span, "an index of `learn`").is_some()));
        }
        let operands: Vec<Typed> = operands.into_iter().collect::<Option<_>>()?;
        if let Some(n) = operands.iter().position(|x| x.expr.reads()) {
            return self.wrong(indices[n].span, "an index of `learn` can't read a value", "needs a fixed number");
        }
        if let Some(n) = operands.iter().position(|x| x.expr.is_learned()) {
            return self.wrong(indices[n].span, "an index of `learn` can't be learned itself", "needs a fixed number");
        }
        self.join(operands, ExpressionType::Float, span, |indices| Expr::Learn(table.to_owned(), indices))
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        a: &ast::ExprSyntax,
        b: &ast::ExprSyntax,
        span: Span,
        scope: ScopeId,
    ) -> Option<Typed> {
        let (left, right) = (self.resolve(a, scope), self.resolve(b, scope));
        self.operation(op, (left?, a.span), (right?, b.span), span)
    }

    /// An operation on two operands, each with its place.
    fn operation(
        &mut self,
        op: BinaryOp,
        (mut left, a): (Typed, Span),
        (right, b): (Typed, Span),
        span: Span,
    ) -> Option<Typed> {
        let what = format!("`{}`", op.symbol());
        // A whole number to a power that may be negative is a real one, as `2^-3` is 0.125.
        if op == BinaryOp::Pow
            && left.ty == ExpressionType::Int
            && right.ty == ExpressionType::Int
            && !is_natural(&right.expr)
        {
            let power = Some(format!("`{}` is whole", whole_power(&left.expr, &right.expr)));
            let (depth, size) = (left.depth + 1, left.size + 2);
            left = Typed { expr: real(left.expr), ty: ExpressionType::Float, depth, size, power, ..left };
        }
        if op == BinaryOp::Div && left.ty == ExpressionType::Int && right.ty == ExpressionType::Int {
            return self.real_quotient(left, right, span);
        }
        if matches!(op, BinaryOp::Eq | BinaryOp::Ne) && (left.ratio || right.ratio) {
            let message = format!("`{}` of real quotients hardly ever holds", op.symbol());
            let diagnostic = Diagnostic::new(Kind::WrongType, span, message).help(ROUNDS);
            let elsewhere =
                self.whole.source != span.source || self.whole.end <= span.start || span.end <= self.whole.start;
            return self.problems.fail(if elsewhere {
                diagnostic.note(self.whole, "it is used here")
            } else {
                diagnostic
            });
        }
        let ty = match op {
            BinaryOp::And | BinaryOp::Or => {
                let fits = (self.condition(&left, a, &what), self.condition(&right, b, &what));
                fits.0.and(fits.1)?;
                ExpressionType::Bool
            }
            BinaryOp::Eq | BinaryOp::Ne if left.ty == ExpressionType::Bool && right.ty == ExpressionType::Bool => {
                ExpressionType::Bool
            }
            _ => {
                let fits = (self.number(&left, a, &what), self.number(&right, b, &what));
                fits.0.and(fits.1)?;
                match (op.is_boolean(), left.ty, right.ty) {
                    (true, ..) => ExpressionType::Bool,
                    (_, ExpressionType::Int, ExpressionType::Int) => ExpressionType::Int,
                    _ => ExpressionType::Float,
                }
            }
        };
        let size = left.size + right.size;
        let typed = self.join(vec![left, right], ty, span, |xs| {
            let whole = operation(xs, |a, b| Expr::Binary(op, Box::new(a), Box::new(b)));
            let is_read_twice = whole.is_learned() || whole.holds_draw();
            if op.is_comparison() && !is_read_twice { lifted(whole, size, MAX_NODES) } else { whole }
        })?;
        let is_lifted = op.is_comparison() && !matches!(typed.expr, Expr::Binary(own, ..) if own == op);
        Some(if is_lifted { typed.remeasured() } else { typed })
    }

    /// `a / b` of whole numbers; that of constants is whole where it comes out so.
    fn real_quotient(&mut self, a: Typed, b: Typed, span: Span) -> Option<Typed> {
        if let (Expr::Int(x), Expr::Int(0)) = (&a.expr, &b.expr) {
            let message = format!("`{x} / 0` has no value");
            return self.problems.fail(Diagnostic::new(Kind::OutOfRange, span, message).label("division by zero"));
        }
        let typed = self.join(vec![a, b], ExpressionType::Float, span, |xs| operation(xs, Expr::quotient))?;
        let ty = if matches!(typed.expr, Expr::Int(_)) { ExpressionType::Int } else { ExpressionType::Float };
        Some(Typed { ty, ratio: ty == ExpressionType::Float, ..typed })
    }

    /// Puts operands together. A constant that has no value is reported here, where its place is known.
    fn join(
        &mut self,
        operands: Vec<Typed>,
        ty: ExpressionType,
        span: Span,
        make: impl FnOnce(Vec<Expr>) -> Expr,
    ) -> Option<Typed> {
        let depth = 1 + operands.iter().map(|x| x.depth).max().unwrap_or(0);
        let size = 1 + operands.iter().map(|x| x.size).sum::<usize>();
        let ratio = ty != ExpressionType::Bool && operands.iter().any(|x| x.ratio);
        let power = operands.iter().find_map(|x| x.power.clone()).filter(|_| ty == ExpressionType::Float);
        let expr = make(operands.into_iter().map(|x| x.expr).collect());
        match constant(&expr) {
            Some(Ok(value)) => Some(Typed { expr: value, ty, depth: 1, size: 1, ratio, power }),
            Some(Err(error)) => {
                let message = format!("`{expr}` has no value");
                self.problems.fail(Diagnostic::new(Kind::OutOfRange, span, message).label(error.to_string()))
            }
            None => Some(Typed { expr, ty, depth, size, ratio, power }),
        }
    }

    fn condition(&mut self, typed: &Typed, span: Span, what: &str) -> Option<()> {
        self.demand(typed.ty == ExpressionType::Bool, typed, span, &format!("{what} needs a condition"))
    }

    fn number(&mut self, typed: &Typed, span: Span, what: &str) -> Option<()> {
        self.demand(typed.ty.is_number(), typed, span, &format!("{what} needs a number"))
    }

    fn integer(&mut self, typed: &Typed, span: Span, what: &str) -> Option<()> {
        self.demand(typed.ty == ExpressionType::Int, typed, span, &format!("{what} needs a whole number"))
    }

    fn demand(&mut self, fits: bool, typed: &Typed, span: Span, message: &str) -> Option<()> {
        if fits {
            return Some(());
        }
        let diagnostic = Diagnostic::new(Kind::WrongType, span, message);
        let diagnostic = diagnostic.label(format!("this is {}", typed.ty.describe()));
        self.problems.fail(diagnostic.help(typed.cure()))
    }

    fn wrong<T>(&mut self, span: Span, message: &str, label: &str) -> Option<T> {
        self.problems.fail(Diagnostic::new(Kind::WrongType, span, message).label(label))
    }
}

fn operation(mut operands: Vec<Expr>, make: impl FnOnce(Expr, Expr) -> Expr) -> Expr {
    let b = operands.pop().expect("two operands were given");
    let a = operands.pop().expect("two operands were given");
    make(a, b)
}

/// The power whose exponent is 0 where it would be negative.
fn whole_power(base: &Expr, exponent: &Expr) -> Expr {
    let exponent = Expr::Call(Func::Max, vec![exponent.clone(), Expr::Int(0)]);
    Expr::Binary(BinaryOp::Pow, Box::new(base.clone()), Box::new(exponent))
}

/// A whole number as a real one.
fn real(expr: Expr) -> Expr {
    match expr {
        Expr::Int(v) => Expr::Float(v as f64),
        other => Expr::Binary(BinaryOp::Mul, Box::new(Expr::Float(1.0)), Box::new(other)),
    }
}

fn leaf(expr: Expr, ty: ExpressionType) -> Option<Typed> {
    Some(Typed { expr, ty, depth: 1, size: 1, ratio: false, power: None })
}

/// The report of a wrong number of arguments.
pub(crate) fn wrong_arity(name: &str, takes: usize, given: usize, span: Span, definition: Option<Span>) -> Diagnostic {
    let plural = |n: usize| if n == 1 { "1 argument".to_owned() } else { format!("{n} arguments") };
    let message = format!(
        "`{name}` takes {}, but {} given",
        plural(takes),
        if given == 1 { "1 is".to_owned() } else { format!("{given} are") }
    );
    let diagnostic = Diagnostic::new(Kind::WrongArity, span, message);
    match definition {
        Some(place) => diagnostic.note(place, "defined here"),
        None => diagnostic,
    }
}
