//! The checked spec: a tree of blocks in which every field has a value and every value knows where it came from.
//!
//! No syntax is left here: variants, `--set` edits, `use`, `let`, `block` calls and defaults are worked out.

mod bindings;
mod text;

use std::collections::BTreeMap;
use std::fmt;

pub use crate::resolve::NamedExpressions;
pub use bindings::{bindings, equations, is_by_variant, statements, without_equations};
pub use text::{hash, library, text, text_with_origins};

use std::sync::Arc;

use crate::expr::Expr;
use crate::feature::Feature;
use crate::schema::Text;
use crate::source::Span;

/// A complete, checked model.
#[derive(Clone, Debug)]
pub struct Spec {
    /// `gut`, or `gut:no_gate` for a variant.
    pub name: String,
    /// The text of the `///` comment on the model, empty without one.
    pub doc: String,
    /// The `model` block itself: its fields (`dropout`, ...) and its statements in order.
    pub root: Block,
    /// The masks, biases and constants of the files, which equations read by name.
    pub named: Arc<NamedExpressions>,
}

/// One statement of the spec with all its fields filled in.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is: a row of the table of features, or a definition.
    pub feature: Arc<Feature>,
    /// The keyword: `embed`, `recur`, `halt`, `attend`, `stack`, ...
    pub slot: Text,
    /// The variant's name (`depthwise`, `global`, `self`, ...), empty for slots that have only one.
    pub variant: Text,
    /// Every field that the schema of the variant declares.
    pub fields: BTreeMap<Text, Setting>,
    /// Statements inside the braces, in order.
    pub children: Vec<Block>,
    /// The place of the keyword and variant in the source; that of the surrounding statement if filled in by default.
    pub span: Span,
    /// Where the statement came from: never `Derived`.
    pub origin: Origin,
}

/// The value of a field and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub value: FieldValue,
    /// Where the value was written.
    pub origin: Origin,
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    /// Written in the file, at this place.
    Written(Span),
    /// Set by the variant of this name.
    Variant(String, Span),
    /// Set by the n-th `--set` on the command line, counted from 1.
    Override(usize),
    /// Worked out from another field, named here (`embed.width / heads`, `model.dropout`).
    Derived(String),
    /// The default of the schema.
    Default,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue {
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A bare word: one of the choices of the field.
    Word(String),
    /// `true` or `false`.
    Truth(bool),
    /// An expression over `i`, `j`, `step`, `length`, `head` with all names resolved (masks, biases, depths).
    Expr(Expr),
    /// A definition, or a word of equations, with its settings.
    Function(Arc<Block>),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(v) => write!(f, "{v}"),
            Self::Float(v) => write!(f, "{v:?}"),
            Self::Word(v) => write!(f, "{v}"),
            Self::Truth(v) => write!(f, "{v}"),
            Self::Expr(v) => write!(f, "{v}"),
            Self::Function(block) => {
                write!(f, "{}", block.title())?;
                let fields: Vec<String> = block.fields.iter().map(|(name, s)| format!("{name}: {}", s.value)).collect();
                if fields.is_empty() { Ok(()) } else { write!(f, " {{ {} }}", fields.join(", ")) }
            }
        }
    }
}

impl PartialEq for Block {
    /// Whether both say the same, wherever they were written.
    fn eq(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl Block {
    /// Keyword and variant as written: `attend self`.
    pub fn title(&self) -> String {
        self.feature.title()
    }

    /// The variant, or the keyword of a statement without variants: what its nodes and parameters are called by.
    pub fn name(&self) -> &str {
        if self.variant.is_empty() { &self.slot } else { &self.variant }
    }

    /// Whether it is a layer: a statement that makes new states of the states before it.
    pub fn is_layer(&self) -> bool {
        self.feature.is_layer()
    }

    /// Whether this is a model whose answers may depend only on the tokens up to them.
    pub fn sees_past(&self) -> bool {
        self.child("readout").is_some_and(|readout| readout.word("sees") == Some("past"))
    }

    /// Whether this statement or one inside it has the property.
    pub fn any(&self, property: &dyn Fn(&Block) -> bool) -> bool {
        property(self) || self.children.iter().any(|c| c.any(property))
    }

    /// Whether both say the same, wherever they were written.
    pub fn same(&self, other: &Block) -> bool {
        let values = |b: &Block| b.fields.iter().map(|(name, s)| (name.clone(), s.value.clone())).collect::<Vec<_>>();
        self.slot == other.slot
            && self.variant == other.variant
            && self.feature.text() == other.feature.text()
            && values(self) == values(other)
            && self.children.len() == other.children.len()
            && self.children.iter().zip(&other.children).all(|(a, b)| a.same(b))
    }

    /// The first child in `slot`.
    pub fn child(&self, slot: &str) -> Option<&Block> {
        self.children.iter().find(|c| c.slot == slot)
    }

    /// An integer field; `None` when the field is absent or holds something else.
    pub fn int(&self, field: &str) -> Option<usize> {
        match self.fields.get(field)?.value {
            FieldValue::Int(v) => usize::try_from(v).ok(),
            _ => None,
        }
    }

    /// A number field; integers widen.
    pub fn float(&self, field: &str) -> Option<f64> {
        match self.fields.get(field)?.value {
            FieldValue::Int(v) => Some(v as f64),
            FieldValue::Float(v) => Some(v),
            _ => None,
        }
    }

    /// A word field.
    pub fn word(&self, field: &str) -> Option<&str> {
        match &self.fields.get(field)?.value {
            FieldValue::Word(v) => Some(v),
            _ => None,
        }
    }

    /// A field that is true or false.
    pub fn truth(&self, field: &str) -> Option<bool> {
        match self.fields.get(field)?.value {
            FieldValue::Truth(v) => Some(v),
            _ => None,
        }
    }

    /// An expression field.
    pub fn expr(&self, field: &str) -> Option<&Expr> {
        match &self.fields.get(field)?.value {
            FieldValue::Expr(v) => Some(v),
            _ => None,
        }
    }
}
