//! The attribute table: one row per attribute of an op, with the type of its value.
//!
//! Code reads and writes attributes by the keys of this table: `node.get(attribute::AT)` is an [`At`]. A misspelt attribute
//! does not compile, and a new word is missing in every `match` that does not know it. Which op takes which attributes
//! stands in the op's row; the text form, the verifier and `docs/ops.md` read both tables.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use super::attr;
use super::ops::{AttributeEntry, Op, Takes};
use super::types::Attr;
use crate::expr::{Expr, ScoreExpr};

/// What the angles of rotary positions fall with from pair to pair, if nothing else is said.
pub const USUAL_BASE: f64 = 10_000.0;

/// The kind of an attribute's value.
pub trait AttributeKind {
    /// The value as code reads and writes it.
    type Of<'a>;

    /// What is expected, for messages: `a count`.
    fn expected() -> String;

    /// The value, if the attribute is of this kind.
    fn read(attr: &Attr) -> Option<Self::Of<'_>>;

    /// The attribute with this value.
    fn write(value: Self::Of<'_>) -> Attr;
}

/// An attribute, without the type of its value.
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    /// Name in the text form.
    pub name: &'static str,
    /// What it says.
    pub doc: &'static str,
    /// What its value is, for messages and tables.
    pub expected: fn() -> String,
    /// Whether a value is of its kind.
    pub fits: fn(&Attr) -> bool,
}

/// An attribute with the kind of its value.
pub struct AttributeKey<K: AttributeKind> {
    /// The row of the table.
    pub row: Attribute,
    /// What a node says that does not have it.
    absent: Option<fn(&Attrs) -> K::Of<'_>>,
    kind: PhantomData<fn() -> K>,
}

/// Attributes that several ops have, and can do without, in the order of the text form.
pub struct AttributeGroup(&'static [Takes]);

impl<K: AttributeKind> AttributeKey<K> {
    /// The attribute in the row of an op.
    pub(super) const fn entry(&self, optional: bool) -> AttributeEntry {
        AttributeEntry::One(Takes { attribute: self.row, optional })
    }
}

impl AttributeGroup {
    /// The group in the row of an op.
    pub(super) const fn entry(&self, _: bool) -> AttributeEntry {
        AttributeEntry::Group(self.0)
    }
}

const fn optional(attribute: Attribute) -> Takes {
    Takes { attribute, optional: true }
}

/// How a fold cuts its rows, but for the elements of a chunk.
pub const FOLDING: AttributeGroup = AttributeGroup(&[
    optional(LAST.row),
    optional(PLAN.row),
    optional(SHORT.row),
    optional(SINGLE.row),
    optional(PADDING.row),
]);

/// The places of the last operands of an attention; those of learned tables stand before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The values that mask, bias and `stop` read at positions.
    pub reads: Range<usize>,
    /// The vectors and the matrix of relative positions.
    pub relative: Range<usize>,
    /// The matrices of talking heads: for scores, for probabilities.
    pub talking: Range<usize>,
}

/// The attributes of a node, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(BTreeMap<&'static str, Attr>);

impl Attrs {
    /// No attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// One attribute.
    pub fn of<K: AttributeKind>(key: AttributeKey<K>, value: K::Of<'_>) -> Self {
        Self::new().with(key, value)
    }

    /// These attributes and one more.
    #[must_use]
    pub fn with<K: AttributeKind>(mut self, key: AttributeKey<K>, value: K::Of<'_>) -> Self {
        self.set(key, value);
        self
    }

    /// These attributes and one more, if there is a value for it.
    #[must_use]
    pub fn with_some<K: AttributeKind>(self, key: AttributeKey<K>, value: Option<K::Of<'_>>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// Sets an attribute.
    pub fn set<K: AttributeKind>(&mut self, key: AttributeKey<K>, value: K::Of<'_>) {
        self.insert(&key.row, K::write(value));
    }

    /// Sets an attribute to a value that may be of another kind, which the verifier finds.
    pub fn insert(&mut self, attribute: &Attribute, value: Attr) {
        self.0.insert(attribute.name, value);
    }

    /// Removes an attribute.
    pub fn remove<K: AttributeKind>(&mut self, key: AttributeKey<K>) {
        self.0.remove(key.row.name);
    }

    /// Whether there is the attribute.
    pub fn has<K: AttributeKind>(&self, key: AttributeKey<K>) -> bool {
        self.0.contains_key(key.row.name)
    }

    /// The value of an attribute that a node may do without; none for a value of another kind, which the verifier refuses.
    pub fn find<K: AttributeKind>(&self, key: AttributeKey<K>) -> Option<K::Of<'_>> {
        K::read(self.0.get(key.row.name)?)
    }

    /// The value of an attribute, or what its absence says.
    ///
    /// # Panics
    /// If it is missing and its row gives no value for that: the verifier refuses such nodes.
    pub fn get<K: AttributeKind>(&self, key: AttributeKey<K>) -> K::Of<'_> {
        let absent = || key.absent.map(|absent| absent(self));
        self.find(key).or_else(absent).unwrap_or_else(|| panic!("a verified node has its `{}`", key.row.name))
    }

    /// The factor on the scores of an attention with heads of a width.
    pub fn scale(&self, head_width: usize) -> f64 {
        self.find(SCALE).unwrap_or_else(|| 1.0 / (head_width as f64).sqrt())
    }

    /// What the scaled products of an attention become.
    ///
    /// # Errors
    /// Says what is no expression.
    pub fn score(&self) -> Result<ScoreExpr, String> {
        self.find(SCORE).map_or(Ok(ScoreExpr::PLAIN), |score| Ok(ScoreExpr::of(&Expr::try_from(score)?)))
    }

    /// The last of `count` operands of an attention, by what they are; `count` is without the keys and values of `stop`.
    pub fn behind(&self, count: usize) -> Behind {
        let talking = count.saturating_sub(if self.get(TALKING) { 2 } else { 0 });
        let relative = talking.saturating_sub(if self.has(POSITION) { 3 } else { 0 });
        let reads = relative.saturating_sub(self.get(READS));
        Behind { reads: reads..relative, relative: relative..talking, talking: talking..count }
    }

    /// Keeps the attributes that another op has, too.
    pub fn retain(&mut self, of: Op) {
        self.0.retain(|name, _| of.def().attribute(name).is_some());
    }

    /// Names and values as text, for comparisons and for readers. As text, a number that is none equals itself.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.iter().map(|(name, value)| (name, attr::print(value)))
    }

    /// The attributes by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Attr)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

impl<K: AttributeKind> Clone for AttributeKey<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: AttributeKind> Copy for AttributeKey<K> {}

macro_rules! kinds {
    ($(
        #[doc = $doc:literal]
        $name:ident: $of:ty, $expected:literal, |$attr:ident| $read:expr, |$value:ident| $write:expr;
    )*) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub enum $name {}

        impl AttributeKind for $name {
            type Of<'a> = $of;

            fn expected() -> String {
                $expected.to_owned()
            }

            fn read($attr: &Attr) -> Option<Self::Of<'_>> {
                $read
            }

            fn write($value: Self::Of<'_>) -> Attr {
                $write
            }
        }
    )*};
}

fn count(attr: &Attr, least: usize) -> Option<usize> {
    usize::try_from(attr.int()?).ok().filter(|n| *n >= least)
}

kinds! {
    /// A whole number from 0.
    Count: usize, "a count", |attr| count(attr, 0), |n| n.into();
    /// A whole number from 1.
    Positive: usize, "a positive count", |attr| count(attr, 1), |n| n.into();
    /// A whole number from 2.
    Several: usize, "a count above 1", |attr| count(attr, 2), |n| n.into();
    /// A number.
    Number: f64, "a number", |attr| attr.float(), |x| x.into();
    /// A number above 0.
    PositiveNumber: f64, "a positive number", |attr| attr.float().filter(|x| *x > 0.0 && x.is_finite()), |x| x.into();
    /// A number from 0 to below 1.
    Probability: f64, "a probability below 1", |attr| attr.float().filter(|p| (0.0..1.0).contains(p)), |p| p.into();
    /// A truth value.
    Flag: bool, "`true` or `false`", |attr| attr.text()?.parse().ok(), |flag| Attr::Word(flag.to_string());
    /// A name, as a bare word.
    Name: &'a str, "a name", |attr| attr.text(), |name| name.into();
    /// A name or several, in quotes.
    Text: &'a str, "a name", |attr| attr.text(), |text| Attr::Text(text.to_owned());
    /// An initialiser, or an expression in prefix form.
    Call: &'a Attr, "an expression", |attr| Some(attr), |call| call.clone();
    /// A mask.
    MaskOf: Mask<'a>, "a mask", |attr| Some(Mask::read(attr)), |mask| mask.write();
    /// A number of steps.
    BoundOf: StepBound<'a>, "a count or an expression", |attr| StepBound::read(attr), |bound| bound.write();
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mask<'a> {
    /// All of its row.
    All,
    /// Those up to its own position.
    Causal,
    /// Those for which the expression is true.
    Rule(&'a Attr),
}

impl<'a> Mask<'a> {
    /// The mask that an attribute says.
    pub fn read(attr: &'a Attr) -> Self {
        match attr.text() {
            Some("all") => Self::All,
            Some("causal") => Self::Causal,
            _ => Self::Rule(attr),
        }
    }

    fn write(self) -> Attr {
        match self {
            Self::All => Attr::from("all"),
            Self::Causal => Attr::from("causal"),
            Self::Rule(rule) => rule.clone(),
        }
    }

    /// The expression, where the mask is one.
    pub fn rule(self) -> Option<&'a Attr> {
        if let Self::Rule(rule) = self { Some(rule) } else { None }
    }
}

/// The most steps that a recurrence takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StepBound<'a> {
    /// So many.
    Steps(usize),
    /// The value of the expression for the length of the row.
    Rule(&'a Attr),
}

impl<'a> StepBound<'a> {
    fn read(attr: &'a Attr) -> Option<Self> {
        if attr.int().is_some() { count(attr, 0).map(Self::Steps) } else { Some(Self::Rule(attr)) }
    }

    fn write(self) -> Attr {
        match self {
            Self::Steps(steps) => steps.into(),
            Self::Rule(rule) => rule.clone(),
        }
    }

    /// The number, where it is one for all rows.
    pub fn steps(self) -> Option<usize> {
        if let Self::Steps(steps) = self { Some(steps) } else { None }
    }

    /// The expression, where the bound is one.
    pub fn rule(self) -> Option<&'a Attr> {
        if let Self::Rule(rule) = self { Some(rule) } else { None }
    }
}

/// The words in quotes, with `or` before the last one.
fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// A word of a list.
pub trait AttributeWord: Copy + Default + PartialEq {
    /// The value of this word.
    fn of_name(word: &str) -> Option<Self>;
}

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $says:literal])+ $word:ident = $text:literal,)* })*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $says])+ $word,)* }

        impl $name {
            /// All words.
            pub const ALL: &'static [Self] = &[$(Self::$word,)*];

            /// All words as they are written.
            pub const NAMES: &'static [&'static str] = &[$($text,)*];

            /// The word in the text form.
            pub fn name(self) -> &'static str {
                match self { $(Self::$word => $text,)* }
            }

        }

        impl AttributeWord for $name {
            fn of_name(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$word),)* _ => None }
            }
        }

        /// The first word.
        impl Default for $name {
            fn default() -> Self {
                Self::ALL[0]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl AttributeKind for $name {
            type Of<'a> = Self;

            fn expected() -> String {
                either(Self::NAMES)
            }

            fn read(attr: &Attr) -> Option<Self> {
                Self::of_name(attr.text()?)
            }

            fn write(value: Self) -> Attr {
                Attr::from(value.name())
            }
        }
    )*};
}

words! {
    /// A position of a row.
    At {
        /// The first one.
        First = "first",
        /// The last one.
        Last = "last",
        /// The one before the last one.
        BeforeLast = "before_last",
    }

    /// A side of a position.
    Side {
        /// The positions before it.
        Left = "left",
        /// The positions behind it.
        Right = "right",
    }

    /// What is made of all numbers of an axis.
    Reduction {
        /// Their sum.
        Sum = "sum",
        /// Their mean.
        Mean = "mean",
        /// The largest one.
        Max = "max",
    }

    /// What a rotation does besides turning.
    PositionKind {
        /// Nothing: RoPE, for queries and keys alike.
        Rope = "rope",
        /// The xPos factor of queries.
        XposQuery = "xpos_query",
        /// The xPos factor of keys.
        XposKey = "xpos_key",
    }

    /// Which channels of a head a rotation turns together.
    Layout {
        /// Neighbours: the first with the second, the third with the fourth.
        Pairs = "pairs",
        /// Each of the first half of the turned channels with that of the second half in the same place.
        Half = "half",
    }

    /// Where positions are counted from.
    Origin {
        /// The start of the slice that the loop around has cut.
        Axis = "axis",
        /// The start of the whole row.
        Row = "row",
    }

    /// Which probabilities of classes logits stand for.
    Probabilities {
        /// Those proportional to `exp(a)`.
        Softmax = "softmax",
        /// Those proportional to `a + 1` for logits `a` from 0 on, and to `1 / (1 - a)` below.
        Stablemax = "stablemax",
    }

    /// Positions in the scores of an attention.
    Relative {
        /// By distance, as in Transformer-XL.
        RelativeXl = "relative_xl",
    }

    /// The kernels of a scan.
    ScanKernel {
        /// A diagonal state space.
        S4d = "s4d",
        /// A damped moving average.
        Ema = "ema",
    }

    /// How a continuous system becomes one of steps.
    Discretisation {
        /// By the bilinear rule.
        Bilinear = "bilinear",
        /// With the input held between two positions.
        Held = "zoh",
    }

    /// How `chunks` cuts a row.
    Chunking {
        /// Every row by itself.
        Position = "position",
        /// By the padded width of the batch, into pieces of equal width.
        Balanced = "balanced",
        /// Into one piece: the positions that the first sequence chooses, in their order.
        Chosen = "chosen",
    }

    /// What becomes of the few elements behind the last whole chunk of a fold.
    LastChunk {
        /// Up to half a chunk joins the chunk before.
        Merge = "merge",
        /// They make a chunk.
        Strict = "strict",
    }

    /// Whose length decides how a fold cuts a row.
    CutBy {
        /// Its own.
        Row = "row",
        /// The longest one of the batch.
        Batch = "batch",
    }

    /// Which chunk of a row is the short one.
    Short {
        /// The last one.
        Last = "last",
        /// The first one.
        First = "first",
    }

    /// What a fold does with a row of one element.
    Single {
        /// The element is the result.
        Pass = "pass",
        /// It makes a chunk, once.
        Fold = "fold",
    }

    /// Which short chunks of a fold are filled up.
    Padding {
        /// None.
        None = "none",
        /// Those of the sequence itself.
        Input = "input",
        /// Those of every level.
        Levels = "levels",
    }

    /// Which pairs the cell of a search merges.
    Compose {
        /// Those that were chosen; a pair is scored from its two nodes.
        Chosen = "chosen",
        /// Every pair, as soon as it exists; it is scored from its parent.
        Every = "every",
    }

    /// The fate of the candidates of a search without a beam.
    Overflow {
        /// They are dropped.
        Prune = "prune",
        /// The last beam is the mean of what it and they would be, by the softmax of their scores. Needs `compose: every`.
        Soften = "soften",
    }

    /// What is added to the scores of a search before the best are chosen.
    Noise {
        /// Nothing: evaluation.
        None = "none",
        /// Standard Gumbel noise.
        Gumbel = "gumbel",
    }

    /// What random numbers belong to.
    Draws {
        /// The row.
        Row = "row",
        /// The place in the row, in a search also the level: they are the same for every row, in every batch.
        Level = "level",
    }

    /// Which beams of a chunk fill the slots of the next level.
    Align {
        /// Draws with replacement from the softmax of the chunk's scores.
        Sampled = "sampled",
        /// Draws that are as likely for every beam.
        Uniform = "uniform",
        /// Slot j gets beam j.
        String = "string",
    }

    /// What a parameter is for, where optimisers, costs or analyses treat it apart.
    ParameterRole {
        /// A row is looked up, or stands beside the tokens: vectors of tokens, of positions, of segments, START and END. A table that also
        /// makes the answers stays one.
        Embedding = "embedding",
        /// It belongs to the last map, which makes the answers: its weight, its bias, and what is learned behind it.
        Output = "output",
    }

    /// What a part of a search does with its rows.
    Role {
        /// Joins pairs of nodes.
        Join = "join",
        /// Scores pairs of nodes.
        Score = "score",
    }
}

macro_rules! absent {
    () => {
        None
    };
    (or $other:ident) => {
        Some(|attrs| attrs.get($other))
    };
    ($value:expr) => {
        Some(|_| $value)
    };
}

macro_rules! attributes {
    ($(#[doc = $doc:literal] $key:ident = $name:literal: $kind:ident $(= $absent:expr)? $(, or $other:ident)?;)*) => {
        $(
            #[doc = $doc]
            pub const $key: AttributeKey<$kind> = AttributeKey {
                row: Attribute {
                    name: $name,
                    doc: $doc.trim_ascii(),
                    expected: <$kind as AttributeKind>::expected,
                    fits: |attr| <$kind as AttributeKind>::read(attr).is_some(),
                },
                absent: absent!($($absent)? $(or $other)?),
                kind: PhantomData,
            };
        )*

        /// Every attribute, in the order of the table.
        pub const ALL: &[&Attribute] = &[$(&$key.row,)*];
    };
}

attributes! {
    /// The name of an input or a parameter.
    NAME = "name": Text;
    /// What a parameter is before the training.
    INIT = "init": Call;
    /// The group of parameters with a learning rate of its own.
    GROUP = "group": Name;
    /// What a parameter is for.
    PARAMETER_ROLE = "role": ParameterRole;
    /// The number that stands everywhere.
    VALUE = "value": Number;
    /// A number of leading axes.
    RANK = "rank": Count;
    /// The expression of a map, of the operands `a`, `b`, `c`, ..; `tuple(..)` of several.
    F = "f": Call;
    /// The position that is read.
    AT = "at": At;
    /// The first channel.
    START = "start": Count;
    /// A number of channels.
    WIDTH = "width": Count;
    /// A number of copies, or of chunks of a row.
    COUNT = "count": Positive;
    /// What is made of the numbers of the last axis.
    BY = "by": Reduction;
    /// What is added to a variance or a mean square.
    EPS = "eps": Number;
    /// Equal parts of the last axis: those that are normed each by itself, or cut.
    PARTS = "parts": Positive = 1;
    /// The condition under which a unit is kept.
    WHEN = "when": Flag;
    /// The probability of 0 instead of the number.
    P = "p": Probability;
    /// The stream of random numbers.
    STREAM = "stream": Count = 0;
    /// The deviation of normal numbers, before they are cut.
    STD = "std": PositiveNumber;
    /// How many deviations from 0 normal numbers are cut.
    CUT_AT = "cut": PositiveNumber;
    /// The least number that is drawn.
    LOW = "low": Number;
    /// The largest number that is drawn.
    HIGH = "high": Number;
    /// Whether the positions of a row share a number, so that all of them together get it.
    SHARED = "shared": Flag = false;
    /// Whether the positions of a row share the mask of the first one.
    TIED = "tied": Flag = false;
    /// The rotary position code.
    KIND = "kind": PositionKind;
    /// Which probabilities logits stand for.
    PROBABILITIES = "kind": Probabilities = Probabilities::Softmax;
    /// Heads among which the channels are divided.
    HEADS = "heads": Positive;
    /// Heads of keys and values, each of which as many neighbouring heads of queries read.
    KEY_HEADS = "key_heads": Positive, or HEADS;
    /// The factor on the scores.
    SCALE = "scale": PositiveNumber;
    /// Whether the transposed map is applied.
    TRANSPOSE = "transpose": Flag = false;
    /// Which of two matrices is transposed.
    TRANSPOSED = "transposed": Side;
    /// Where positions are counted from.
    ORIGIN = "origin": Origin = Origin::Axis;
    /// Which channels are turned together, or hold sine and cosine of one angle.
    LAYOUT = "layout": Layout = Layout::Pairs;
    /// What the angles fall with from pair to pair.
    BASE = "base": PositiveNumber = USUAL_BASE;
    /// How many channels of each head are turned, from its first one on.
    PART = "part": Positive;
    /// What the angle of each pair of channels becomes: an expression of the `angle`.
    ANGLE = "angle": Call;
    /// Which keys a query sees: `all`, `causal` or an expression.
    MASK = "mask": MaskOf = Mask::All;
    /// What scores become: an expression of the `score`, which is the scaled product.
    SCORE = "score": Call;
    /// Where gradients of keys and values go apart: an expression.
    STOP = "stop": Call;
    /// How many values mask, score and `stop` read at positions: operands behind the learned tables.
    READS = "reads": Count = 0;
    /// Relative positions in the scores.
    POSITION = "position": Relative;
    /// Whether heads mix their scores, and behind the softmax their probabilities.
    TALKING = "talking": Flag = false;
    /// The probability that a query misses a key.
    DROPOUT = "dropout": Probability = 0.0;
    /// The side of a position that it sees.
    SIDE = "side": Side;
    /// The distance of the nearest position that is seen.
    LAG = "lag": Count;
    /// How the kernel of a scan is made from its parameters.
    KERNEL = "kernel": ScanKernel;
    /// How the continuous system becomes one of steps.
    DISCRETISATION = "discretisation": Discretisation = Discretisation::Bilinear;
    /// The survival that is left where a unit halts.
    THRESHOLD = "threshold": Number;
    /// The axis whose length bounds the steps of a unit.
    CAP = "cap": Text;
    /// The most steps: a number, or an expression of the length.
    BOUND = "bound": BoundOf;
    /// How many numbers are chosen: a number, or an expression of the length and the step.
    OF = "of": BoundOf;
    /// Carried values of a loop.
    CARRIED = "carried": Count = 0;
    /// Outputs of the forward loop whose cotangents an `unwind` takes.
    OUTPUTS = "outputs": Count = 0;
    /// Sequences of the forward loop whose cotangents an `unwind` gives.
    SLICES = "slices": Count = 0;
    /// Elements of a chunk.
    SIZE = "size": Positive;
    /// How a row is cut into chunks.
    CUT = "cut": Chunking = Chunking::Position;
    /// The axis that a loop cuts.
    OVER = "over": Name;
    /// The axis of the elements of a chunk.
    AXIS = "axis": Name;
    /// Elements of a chunk of a fold.
    ARITY = "arity": Several;
    /// What becomes of the elements behind the last whole chunk.
    LAST = "last": LastChunk = LastChunk::Merge;
    /// Whose length decides how a row is cut.
    PLAN = "plan": CutBy = CutBy::Row;
    /// Which chunk of a row is the short one.
    SHORT = "short": Short = Short::Last;
    /// What becomes of a row of one element.
    SINGLE = "single": Single = Single::Pass;
    /// Which short chunks are filled up.
    PADDING = "padding": Padding = Padding::None;
    /// Whether prediction may take a row as one chunk.
    FLAT = "flat": Flag = false;
    /// The axis of the elements of a chunk that is filled up.
    FILLED = "filled": Name;
    /// The largest number of beams of a row.
    BEAMS = "beams": Positive;
    /// Which pairs the cell merges.
    COMPOSE = "compose": Compose = Compose::Chosen;
    /// The fate of candidates without a beam.
    OVERFLOW = "overflow": Overflow = Overflow::Prune;
    /// What is added to the scores before the best are chosen.
    NOISE = "noise": Noise = Noise::None;
    /// What random numbers belong to.
    DRAWS = "draws": Draws = Draws::Row;
    /// The number that stands for a draw in evaluation.
    EVALUATION = "evaluation": Number;
    /// Which beams of a chunk fill the slots of the next level.
    ALIGN = "align": Align = Align::Sampled;
    /// Whether slot 0 gets beam 0 without a draw.
    KEEP_BEST = "keep_best": Flag = false;
    /// What a part of a search does.
    ROLE = "role": Role;
    /// The names of the operands, with commas between them.
    NAMES = "names": Text;
    /// The parameter whose gradient it is.
    PARAM = "param": Text;
}

/// The table of all attributes as Markdown.
pub(super) fn markdown() -> String {
    let row = |row: &&Attribute| format!("| `{}` | {} | {} |\n", row.name, (row.expected)(), row.doc);
    let rows: String = ALL.iter().map(row).collect();
    format!("| attribute | is | what it says |\n|---|---|---|\n{rows}")
}
