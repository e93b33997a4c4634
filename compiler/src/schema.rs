//! The form of statements, as plain data: fields, kinds, defaults, bounds, what may stand inside.
//!
//! Parsing, checking, defaults, `rtc show`, the reference pages and completion read the same rows.

use std::borrow::Cow;
use std::sync::Arc;

use crate::syntax::ast;

/// A text of a table in this program, or of a definition in a file.
pub type Text = Cow<'static, str>;

/// A group of slots that may stand inside a statement.
#[derive(Clone, Copy, Debug)]
pub struct Children {
    /// The keywords.
    pub slots: &'static [&'static str],
    /// At least so many.
    pub min: usize,
    /// At most so many.
    pub max: usize,
    /// The variant that is filled in when none is written.
    pub absent: Option<&'static str>,
    /// Whether it is filled in only where no statement of the same keyword stands around this one.
    pub outermost: bool,
}

impl Children {
    /// Exactly one statement of the slot.
    pub const fn one(slots: &'static [&'static str]) -> Self {
        Self { slots, min: 1, max: 1, absent: None, outermost: false }
    }

    /// At most one; nothing is filled in.
    pub const fn optional(slots: &'static [&'static str]) -> Self {
        Self { slots, min: 0, max: 1, absent: None, outermost: false }
    }

    /// At most one; this variant without one.
    pub const fn or(slots: &'static [&'static str], absent: &'static str) -> Self {
        Self { slots, min: 0, max: 1, absent: Some(absent), outermost: false }
    }

    /// At most one; this variant without one, but nothing inside another statement of the same keyword.
    pub const fn or_outermost(slots: &'static [&'static str], absent: &'static str) -> Self {
        Self { outermost: true, ..Self::or(slots, absent) }
    }

    /// Any number, in the order written.
    pub const fn any(slots: &'static [&'static str]) -> Self {
        Self { slots, min: 0, max: usize::MAX, absent: None, outermost: false }
    }
}

/// The slots of layers: statements whose order matters and that may repeat.
pub const LAYERS: &[&str] = &["attend", "feedforward", "norm", "scan", "mega", "stack", "recur", "loop"];
/// Layers, of which the last may fold the sequence to one vector.
pub const FOLDING: &[&str] = &["attend", "feedforward", "norm", "scan", "mega", "stack", "recur", "loop", "recurse"];
/// What may stand in a fold: layers, then what makes one vector of a sequence.
pub const FOLD_BODY: &[&str] =
    &["attend", "feedforward", "norm", "scan", "mega", "stack", "recur", "loop", "recurse", "cell", "pool"];

/// One field of a statement.
#[derive(Clone, Debug)]
pub struct StatementField {
    pub name: Text,
    /// What it takes.
    pub kind: FieldKind,
    /// What it is when not written.
    pub default: Default,
    /// The range of a number.
    pub bounds: Bounds,
    /// What it means, with its unit.
    pub doc: Text,
    /// What another field must say for this one to have an effect.
    pub beside: Option<FieldCondition>,
}

/// The required value of a field of the same statement.
#[derive(Clone, Copy, Debug)]
pub struct FieldCondition {
    /// The other field.
    pub field: &'static str,
    /// Its values, as they are written.
    pub words: &'static [&'static str],
}

impl StatementField {
    /// The same field, which acts only where another one has one of these values.
    pub(crate) fn beside(self, field: &'static str, words: &'static [&'static str]) -> Self {
        Self { beside: Some(FieldCondition { field, words }), ..self }
    }

    /// How it is written and what it means, for the help of messages.
    pub fn about(&self) -> String {
        let what = format!("`{}: ...` is {}", self.name, self.kind.describe());
        if self.doc.is_empty() { what } else { format!("{what}: {}", self.doc) }
    }

    /// What its values must be.
    pub fn range(&self) -> String {
        let bounds = self.bounds.describe();
        if bounds.is_empty() { self.kind.describe() } else { bounds }
    }
}

/// The words of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Words {
    /// Those of a row of a table.
    Fixed(&'static [&'static str]),
    /// Those that a definition lists.
    Written(Arc<[String]>),
}

impl Words {
    /// The words in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> + Clone {
        let (fixed, written): (&[&str], &[String]) = match self {
            Self::Fixed(words) => (words, &[]),
            Self::Written(words) => (&[], words),
        };
        fixed.iter().copied().chain(written.iter().map(String::as_str))
    }

    /// Whether it is one of them.
    pub fn contains(&self, word: &str) -> bool {
        self.iter().any(|w| w == word)
    }
}

/// What a field takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// A whole number.
    Int,
    /// A real number.
    Float,
    /// A real number, or one of some words that stand for one.
    FloatOr(&'static [&'static str]),
    /// A whole number, or one of some words.
    IntOr(&'static [&'static str]),
    /// One of some words.
    Word(Words),
    /// `true` or `false`.
    Truth,
    /// A function of one value: a pointwise function, a definition, or a word of equations, with its settings.
    Function,
    /// A boolean expression, `past` or `all`.
    Mask,
    /// A number expression or `none`.
    Bias,
    /// A whole number, an expression of `length`, or `given`.
    Depth,
    /// A whole number, or an expression of `length` and `step`.
    Choices,
}

impl FieldKind {
    /// What is expected, for messages and tables.
    pub fn describe(&self) -> String {
        match self {
            Self::Int => "a whole number".to_owned(),
            Self::Float => "a number".to_owned(),
            Self::FloatOr(words) => format!("a number, or {}", crate::diag::list(words.iter().copied(), "or")),
            Self::IntOr(words) => format!("a whole number, or {}", crate::diag::list(words.iter().copied(), "or")),
            Self::Word(choices) => crate::diag::list(choices.iter(), "or"),
            Self::Truth => "true or false".to_owned(),
            Self::Function => "a function of one value, as `gelu` or `mlp { hidden: 64 }`".to_owned(),
            Self::Mask => "a mask: a true-or-false expression, the name of a mask, `past`, or `all`".to_owned(),
            Self::Bias => "a bias: a number expression, the name of a bias, or `none`".to_owned(),
            Self::Depth => "a whole number, an expression of `length`, or `given`".to_owned(),
            Self::Choices => "a whole number, or an expression of `length` and `step`".to_owned(),
        }
    }
}

/// What a field is when it is not written.
#[derive(Clone, Debug)]
pub enum Default {
    /// It must be written.
    Required,
    /// It is left out of the spec.
    Absent,
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A word.
    Word(Text),
    /// `true` or `false`.
    Truth(bool),
    /// Worked out from other fields.
    Derived(Derived),
}

/// A rule that works a field out.
#[derive(Clone, Debug)]
pub enum Derived {
    /// The dropout of the model.
    ModelDropout,
    /// The attention dropout of the model.
    ModelAttentionDropout,
    /// The width of the embedding.
    Width,
    /// The width shared evenly by the heads of this statement.
    WidthPerHead,
    /// The first word in a model that sees only the past, the second one in all others.
    Sees(&'static str, &'static str),
    /// An expression over `width` and the settings before it, and its text.
    Written(Arc<ast::ExprSyntax>, Arc<str>),
}

impl Derived {
    /// The rule as shown to users.
    pub fn text(&self) -> &str {
        match self {
            Self::ModelDropout => "model.dropout",
            Self::ModelAttentionDropout => "model.attention_dropout",
            Self::Width => "embed.width",
            Self::WidthPerHead => "embed.width / heads",
            Self::Sees(..) => "readout.sees",
            Self::Written(_, text) => text,
        }
    }
}

/// The range of a number; both ends are included unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the lower end itself is excluded.
    pub open_low: bool,
    /// Whether the upper end itself is excluded.
    pub open_high: bool,
}

impl Bounds {
    /// Any finite number.
    pub const ANY: Bounds = Bounds::closed(f64::MIN, f64::MAX);

    /// From `low` to `high`, both included.
    pub const fn closed(low: f64, high: f64) -> Self {
        Self { low, high, open_low: false, open_high: false }
    }

    /// Above 0, and at most `high`.
    pub const fn above_zero(high: f64) -> Self {
        Self { low: 0.0, high, open_low: true, open_high: false }
    }

    /// Whether the number is inside.
    pub fn hold(&self, v: f64) -> bool {
        let low = if self.open_low { v > self.low } else { v >= self.low };
        low && if self.open_high { v < self.high } else { v <= self.high }
    }

    /// The range in words.
    pub fn describe(&self) -> String {
        let low = match (self.low == f64::MIN, self.open_low) {
            (true, _) => None,
            (_, true) => Some(format!("above {}", short(self.low))),
            (_, false) => Some(format!("at least {}", short(self.low))),
        };
        let high = match (self.high == f64::MAX, self.open_high) {
            (true, _) => None,
            (_, true) => Some(format!("below {}", short(self.high))),
            (_, false) => Some(format!("at most {}", short(self.high))),
        };
        [low, high].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// A number in words: very large ones by their power of ten.
pub(crate) fn short(v: f64) -> String {
    if v.abs() < 1e15 { format!("{v}") } else { format!("{v:e}") }
}

/// Widths, heads, slots and other sizes: far above what fits a machine, far below what overflows.
pub const SIZE: Bounds = Bounds::closed(1.0, 1_048_576.0);
/// Lengths of axes that equations make.
pub(crate) const AXIS: Bounds = Bounds::closed(1.0, 2_097_152.0);
/// The field of a loop that says whether its steps have the same weights.
pub(crate) const TIED: &str = "tied";
/// Numbers of steps.
pub const STEPS: Bounds = Bounds::closed(1.0, 1_000_000.0);
/// Numbers of layers with their own weights.
pub const COPIES: Bounds = Bounds::closed(1.0, 1_000.0);
/// Probabilities of dropping a value.
pub const DROPOUT: Bounds = Bounds { low: 0.0, high: 1.0, open_low: false, open_high: true };
/// Numbers from zero.
pub const POSITIVE: Bounds = Bounds::closed(0.0, f64::MAX);
/// Weights and samples: far above what trains, far below what overflows in single precision.
pub const WEIGHT: Bounds = Bounds::closed(-1e30, 1e30);
/// Standard deviations of weights.
pub const SPREAD: Bounds = Bounds { low: 0.0, ..WEIGHT };
/// Thresholds strictly between 0 and 1.
pub const INSIDE_UNIT: Bounds = Bounds { low: 0.0, high: 1.0, open_low: true, open_high: true };

/// A whole-number field.
pub const fn int(name: &'static str, default: Default, bounds: Bounds, doc: &'static str) -> StatementField {
    StatementField {
        name: Text::Borrowed(name),
        kind: FieldKind::Int,
        default,
        bounds,
        doc: Text::Borrowed(doc),
        beside: None,
    }
}

/// A real-number field.
pub const fn float(name: &'static str, default: Default, bounds: Bounds, doc: &'static str) -> StatementField {
    StatementField {
        name: Text::Borrowed(name),
        kind: FieldKind::Float,
        default,
        bounds,
        doc: Text::Borrowed(doc),
        beside: None,
    }
}

/// A word field with its choices and default.
pub const fn word(
    name: &'static str,
    choices: &'static [&'static str],
    default: &'static str,
    doc: &'static str,
) -> StatementField {
    words(name, choices, Default::Word(Text::Borrowed(default)), doc)
}

/// A word field that is left out of specs which do not write it, so that these stay what they were before it existed.
pub const fn optional_word(name: &'static str, choices: &'static [&'static str], doc: &'static str) -> StatementField {
    words(name, choices, Default::Absent, doc)
}

/// A word field with two defaults: one in a model that sees only the past, the other in all others.
pub const fn by_sees(
    name: &'static str,
    choices: &'static [&'static str],
    (past, all): (&'static str, &'static str),
    doc: &'static str,
) -> StatementField {
    words(name, choices, Default::Derived(Derived::Sees(past, all)), doc)
}

/// A field of one of some words.
pub const fn words(
    name: &'static str,
    choices: &'static [&'static str],
    default: Default,
    doc: &'static str,
) -> StatementField {
    of_kind(name, FieldKind::Word(Words::Fixed(choices)), default, doc)
}

/// A field of any kind, without bounds.
pub const fn of_kind(name: &'static str, kind: FieldKind, default: Default, doc: &'static str) -> StatementField {
    StatementField {
        name: Text::Borrowed(name),
        kind,
        default,
        bounds: Bounds::ANY,
        doc: Text::Borrowed(doc),
        beside: None,
    }
}

/// What the compiler knows of the task that a spec is checked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The name of the task.
    pub task: Option<String>,
    /// Number of token ids; symbolic when unknown.
    pub vocabulary: Option<usize>,
    /// Number of classes; symbolic when unknown.
    pub classes: Option<usize>,
    /// What the task asks for; unknown without a task.
    pub objective: Option<Objective>,
    /// Whether the answers are later tokens, so that a model must not see them.
    pub next_token: bool,
}

/// What a task asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// One class per row.
    #[default]
    Classify,
    /// One class per pair of rows; first sentences are the first half of the batch.
    Pair,
    /// One class per token.
    Each,
    /// One number per row.
    Number,
    /// A yes or no per row for each of some labels.
    Several,
}
