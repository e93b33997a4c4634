//! The syntax tree of an `.rt` file. Every part knows its place, the `span` of the whole; nothing is looked up yet.

use crate::expr::BinaryOp;
use crate::source::Span;

/// A name as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A comment, with its slashes.
#[derive(Clone, Debug, PartialEq)]
pub struct Comment {
    /// The text from `//` to the end of the line, without trailing blanks.
    pub text: String,
    pub span: Span,
}

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// The items in order.
    pub items: Vec<FileItem>,
    /// All comments in order, for the formatter and for docs.
    pub comments: Vec<Comment>,
}

/// One item of a file.
#[derive(Clone, Debug)]
pub struct FileItem {
    /// The text of the `///` lines right above, without the slashes.
    pub doc: String,
    pub kind: ItemKind,
    /// From the keyword to the end.
    pub span: Span,
}

/// The kinds of items.
#[derive(Clone, Debug)]
pub enum ItemKind {
    /// `use "path"`
    Use {
        /// The path without quotes.
        path: Name,
    },
    /// `let name = expr`
    Let(Let),
    /// `model name { ... }`
    Model {
        name: FullName,
        /// The statements.
        body: BodySyntax,
    },
    /// `variant name of base { edits }`
    Variant {
        name: Name,
        /// The edited model, or a variant of it.
        base: FullName,
        /// The edits in order.
        edits: Vec<Edit>,
        /// From `{` to `}`.
        braces: Span,
    },
    /// `mask name(params) = expr` or `bias name(params) = expr`
    Function(FunctionItem),
    /// `def slot name(values) { ... }`
    Def(Def),
}

/// A definition: a layer, a variant of a slot, or a function, by its equations.
#[derive(Clone, Debug)]
pub struct Def {
    /// The word `atomic`, where it says that a kernel stands for the equations.
    pub atomic: Option<Span>,
    /// The slot that it is a variant of; none for a layer or a function.
    pub slot: Option<Name>,
    pub name: Name,
    /// What it is applied to.
    pub values: Vec<Name>,
    /// Settings and equations, in order.
    pub elements: Vec<DefElement>,
    /// From `{` to `}`.
    pub braces: Span,
}

/// What stands between the braces of a definition.
#[derive(Clone, Debug)]
pub enum DefElement {
    /// A constant, known to the elements below it.
    Let(Let),
    /// `name: kind = default`
    Setting(Declaration),
    /// `a, b = expr`, `show a = expr`, `carry a = expr`
    Equation(Equation),
    /// A loop.
    Statement(Statement),
    /// `out expr`, or `out expr, expr` of a definition that gives several values
    Out(Vec<ExprSyntax>, Span),
}

impl DefElement {
    pub fn span(&self) -> Span {
        match self {
            Self::Let(x) => x.span,
            Self::Setting(x) => x.span,
            Self::Equation(x) => x.span,
            Self::Statement(x) => x.span,
            Self::Out(_, span) => *span,
        }
    }
}

/// `name: kind = default`
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The text of the `///` lines right above.
    pub doc: String,
    pub name: Name,
    /// `int`, `number`, `word`, ...
    pub kind: Name,
    /// What is in the parentheses behind the kind: bounds or words.
    pub args: Vec<ExprSyntax>,
    pub default: Option<ValueSyntax>,
    pub span: Span,
}

/// `names = value`, or what a step does with a value.
#[derive(Clone, Debug)]
pub struct Equation {
    pub form: EquationForm,
    /// One name, or one for each of several results; none for `go`, `until` and `loss`.
    pub names: Vec<Name>,
    pub value: ExprSyntax,
    pub span: Span,
}

impl Equation {
    /// What the path of an edit calls it by: `z`, `carry.z`, `until`.
    pub fn called(&self) -> String {
        self.form.called(self.names.first())
    }
}

/// The forms of an equation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EquationForm {
    /// `name = value`
    Plain,
    /// `show name = value`: what stands behind may read it.
    Show,
    /// `carry name = value`: a value handed on from step to step, and its start.
    Carry,
    /// `share name = function`: a function with the same weights wherever it is applied.
    Share,
    /// `go value`: a unit where it is false takes nothing of the step, and no further one.
    Go,
    /// `until value`: a unit where it is true takes no further step.
    Until,
    /// `loss value`: is added to the loss of the model.
    Loss,
}

impl EquationForm {
    /// What the path of an edit calls an equation of this form by.
    pub(crate) fn called(self, name: Option<&Name>) -> String {
        match (name, self) {
            (None, _) => self.word().to_owned(),
            (Some(name), Self::Carry | Self::Share) => format!("{}.{}", self.word(), name.text),
            (Some(name), _) => name.text.clone(),
        }
    }

    /// The word that it begins with; none for a plain equation.
    pub fn word(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Show => "show",
            Self::Carry => "carry",
            Self::Share => "share",
            Self::Go => "go",
            Self::Until => "until",
            Self::Loss => "loss",
        }
    }
}

/// A mask, a bias or a score with a name.
#[derive(Clone, Debug)]
pub struct FunctionItem {
    /// Which of them.
    pub role: FunctionRole,
    pub name: Name,
    /// The parameters; `None` when written without parentheses.
    pub params: Option<Vec<Name>>,
    /// What it stands for.
    pub body: ExprSyntax,
}

/// The role of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionRole {
    /// Says which keys a query sees.
    Mask,
    /// Is added to attention scores.
    Bias,
    /// Is what attention scores become.
    Score,
}

impl FunctionRole {
    /// The word that defines one.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mask => "mask",
            Self::Bias => "bias",
            Self::Score => "score",
        }
    }
}

/// `model` or `model:variant`.
#[derive(Clone, Debug)]
pub struct FullName {
    pub model: Name,
    /// The variant, if one is named.
    pub variant: Option<Name>,
}

impl FullName {
    /// The name with its colon.
    pub fn text(&self) -> String {
        match &self.variant {
            None => self.model.text.clone(),
            Some(variant) => format!("{}:{}", self.model.text, variant.text),
        }
    }

    /// The place of the whole name.
    pub fn span(&self) -> Span {
        self.variant.as_ref().map_or(self.model.span, |v| self.model.span.to(v.span))
    }
}

/// `let name = value`
#[derive(Clone, Debug)]
pub struct Let {
    pub name: Name,
    pub value: ExprSyntax,
    pub span: Span,
}

/// `{ elements }`
#[derive(Clone, Debug)]
pub struct BodySyntax {
    /// The elements in order.
    pub elements: Vec<BodyElement>,
    /// From `{` to `}`.
    pub span: Span,
}

impl BodySyntax {
    /// Hands over the expressions in its fields.
    fn each_value(&mut self, work: &mut impl FnMut(&mut ExprSyntax)) {
        for element in &mut self.elements {
            let BodyElement::Field(field) = element else { continue };
            match &mut field.value {
                ValueSyntax::Expr(expr) => work(expr),
                ValueSyntax::Structured(_, body) => body.each_value(work),
            }
        }
    }
}

/// An element between braces.
#[derive(Clone, Debug)]
pub enum BodyElement {
    /// A constant, known to the elements below it.
    Let(Let),
    /// `name: value`
    Field(FieldSyntax),
    /// `name = value`, on the values of the place
    Equation(Equation),
    /// `keyword [word] [{ ... }]`
    Statement(Statement),
}

impl BodyElement {
    pub fn span(&self) -> Span {
        match self {
            Self::Let(x) => x.span,
            Self::Field(x) => x.span,
            Self::Equation(x) => x.span,
            Self::Statement(x) => x.span,
        }
    }
}

/// `name: value`
#[derive(Clone, Debug)]
pub struct FieldSyntax {
    pub name: Name,
    pub value: ValueSyntax,
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// `attend`
    pub keyword: Name,
    /// `self`, or the number of `stack 3`.
    pub word: Option<KeywordArgument>,
    /// What is in the braces.
    pub body: Option<BodySyntax>,
    pub span: Span,
}

impl Statement {
    /// The place of keyword and word.
    pub fn head(&self) -> Span {
        self.word.as_ref().map_or(self.keyword.span, |word| self.keyword.span.to(word.span()))
    }
}

/// The argument of a keyword.
#[derive(Clone, Debug)]
pub enum KeywordArgument {
    /// A variant.
    Name(Name),
    /// A number.
    Int(i64, Span),
}

impl KeywordArgument {
    pub fn span(&self) -> Span {
        match self {
            Self::Name(name) => name.span,
            Self::Int(_, span) => *span,
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug)]
pub enum ValueSyntax {
    /// An expression; a bare word is one too.
    Expr(ExprSyntax),
    /// `name { fields }`
    Structured(Name, BodySyntax),
}

impl ValueSyntax {
    pub fn span(&self) -> Span {
        match self {
            Self::Expr(expr) => expr.span,
            Self::Structured(name, body) => name.span.to(body.span),
        }
    }
}

/// One edit of a variant or of `--set`.
#[derive(Clone, Debug)]
pub struct Edit {
    pub kind: EditKind,
    pub span: Span,
}

/// The kinds of edits.
#[derive(Clone, Debug)]
pub enum EditKind {
    /// `path: value`; from the command line also `path = value`.
    Set(DottedPath, ValueSyntax),
    /// `path = value` gives a binding another right side.
    Assign(DottedPath, ValueSyntax),
    /// A statement that replaces the one in its slot.
    Replace(Statement),
    /// `remove path`
    Remove(DottedPath),
    /// `replace path by element`; the element is a statement or an equation.
    ReplaceAt(DottedPath, BodyElement),
    /// `wrap path in statement`: the statement takes the place, and what was there stands in it, behind what it has.
    Wrap(DottedPath, Statement),
    /// `add element after path` or `before path`; the element is a statement, an equation or an insertion.
    Add(BodyElement, AddSide, DottedPath),
    /// `untie path` gives every step of a loop weights of its own; `tie path` takes them away.
    Tie(DottedPath, bool),
    /// `let name = value` replaces the constant of that name.
    Let(Let),
}

impl EditKind {
    /// The place that the edit names; none where it names a slot or a constant.
    pub fn path(&self) -> Option<&DottedPath> {
        match self {
            Self::Set(path, _)
            | Self::Assign(path, _)
            | Self::Remove(path)
            | Self::ReplaceAt(path, _)
            | Self::Wrap(path, _)
            | Self::Add(_, _, path)
            | Self::Tie(path, _) => Some(path),
            Self::Replace(_) | Self::Let(_) => None,
        }
    }
}

/// The side of a place on which something is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddSide {
    Before,
    After,
}

impl AddSide {
    pub fn word(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A dotted path.
#[derive(Clone, Debug)]
pub struct DottedPath {
    /// The names between the dots; never empty.
    pub components: Vec<Component>,
    pub span: Span,
}

/// One name of a path.
#[derive(Clone, Debug)]
pub struct Component {
    pub name: Name,
    /// Which of several places, from 1.
    pub index: Option<usize>,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct ExprSyntax {
    pub kind: ExprKind,
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// `true` or `false`
    Bool(bool),
    /// A name or a bare word.
    Name(String),
    /// `-x`
    Neg(Box<ExprSyntax>),
    /// `not x`
    Not(Box<ExprSyntax>),
    /// `a op b`
    Binary(BinaryOp, Box<ExprSyntax>, Box<ExprSyntax>),
    /// `name(args)`, in equations also `name(args) { settings }`
    Call(Name, Vec<ExprSyntax>, Option<BodySyntax>),
    /// `learn[args]`, in equations also `learn[args] { settings }`
    Learn(String, Vec<ExprSyntax>, Option<BodySyntax>),
    /// `name[index](args)`: a call with weights of its own for every value of the index.
    Indexed(Box<ExprSyntax>, Box<ExprSyntax>),
    /// `name[i, channel]`: the value of a name at a position; only in masks and biases.
    Read(Box<ExprSyntax>, Vec<ExprSyntax>),
    /// `depthwise.depth`: the value of a field before an edit; only in edits.
    Old(DottedPath),
    /// `name { settings }`: a function, not applied; only behind `share`.
    Function(Name, BodySyntax),
    /// `(x)`
    Group(Box<ExprSyntax>),
}

impl ValueSyntax {
    /// The right side of an equation with this value: behind `share` a function with settings is not applied.
    pub fn into_expr(self) -> ExprSyntax {
        match self {
            Self::Expr(expr) => expr,
            Self::Structured(name, body) => {
                let span = name.span.to(body.span);
                ExprSyntax { kind: ExprKind::Function(name, body), span }
            }
        }
    }
}

impl ExprSyntax {
    /// Puts an expression in the place of every value of a name, those in settings among them, and says how many there were. Parentheses
    /// stand around one that binds less than what it may stand in.
    pub fn put(&mut self, name: &str, value: &Self) -> usize {
        if matches!(&self.kind, ExprKind::Name(text) if text == name) {
            self.kind = match &value.kind {
                ExprKind::Binary(..) | ExprKind::Neg(_) | ExprKind::Not(_) => ExprKind::Group(Box::new(value.clone())),
                other => other.clone(),
            };
            return 1;
        }
        let mut count = 0;
        self.each_part(&mut |part| count += part.put(name, value));
        count
    }

    /// How many parts it has.
    pub fn size(&mut self) -> usize {
        let mut size = 1;
        self.each_part(&mut |part| size += part.size());
        size
    }

    /// Hands over the expressions that it is made of, those in settings among them.
    pub fn each_part(&mut self, work: &mut impl FnMut(&mut Self)) {
        match &mut self.kind {
            ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Old(_) => {}
            ExprKind::Neg(x) | ExprKind::Not(x) | ExprKind::Group(x) => work(x),
            ExprKind::Binary(_, a, b) | ExprKind::Indexed(a, b) => {
                work(a);
                work(b);
            }
            ExprKind::Call(_, args, body) | ExprKind::Learn(_, args, body) => {
                args.iter_mut().for_each(&mut *work);
                body.iter_mut().for_each(|body| body.each_value(work));
            }
            ExprKind::Read(base, indices) => {
                work(base);
                indices.iter_mut().for_each(work);
            }
            ExprKind::Function(_, body) => body.each_value(work),
        }
    }

    /// The operands of a division that stands alone.
    pub fn as_quotient(&self) -> Option<(&ExprSyntax, &ExprSyntax)> {
        match &self.kind {
            ExprKind::Group(x) => x.as_quotient(),
            ExprKind::Binary(BinaryOp::Div, a, b) => Some((a, b)),
            _ => None,
        }
    }

    /// The name, if the expression is a bare one.
    pub fn as_name(&self) -> Option<Name> {
        match &self.kind {
            ExprKind::Name(text) => Some(Name { text: text.clone(), span: self.span }),
            _ => None,
        }
    }
}
