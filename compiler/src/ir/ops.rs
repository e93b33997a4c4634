//! The op table: one row per op.
//!
//! A row gives the name, the operands with what their elements are (those after `;` are optional), the attributes (those with `?` are optional),
//! the shape rule, the gradient rule, the cost rule, the dependence rule, flags, its roles in a group, how many results 16 bits are enough
//! for, and one line of documentation. The printer, the parser, the verifier, the builder, the `grad` pass, the cost model, the proof of
//! causality, executors and the generated page `docs/ops.md` read the row; the runtime executes ops in one exhaustive match, so a new row
//! does not compile until it can run.
//!
//! What a row takes, kernels take: kinds and sizes are checked here and in the shape rules, and nowhere else. `numerics mutated` tries it.

use super::attribute::{self, Attribute};
use std::fmt;

use super::cost::{self, CostRule};
use super::dependence::Dependence;
use super::formula::Formula;
use super::gradient::{self, GradientRule};
use super::pointwise;
use super::shape::{self, ShapeRule};
use super::types::{Elem, Type};

/// The row of an op.
#[derive(Debug)]
pub struct OpDef {
    /// Name in the text form.
    pub name: &'static str,
    /// What it computes.
    pub doc: &'static str,
    /// Operands that must be given.
    pub operands: &'static [Operand],
    /// Operands that may follow.
    pub optional: &'static [Operand],
    /// Attributes and groups of them, in the order of the text form.
    attrs: &'static [AttributeEntry],
    /// Result types from operand types and attributes.
    pub shape: ShapeRule,
    /// How cotangents of the results become cotangents of the operands.
    pub gradient: GradientRule,
    /// Floating-point operations.
    pub cost: CostRule,
    /// Which positions of the operands the results depend on.
    pub dependence: Dependence,
    /// Properties that passes, plans and executors ask for.
    pub flags: &'static [Flag],
    /// What operands and results are to an op that works unit by unit; `None` for any other.
    pub by_unit: Option<&'static Roles>,
    /// Number of results, from the first on, that a device may keep in 16 bits where it computes with 16 bits.
    pub narrow: usize,
}

impl OpDef {
    /// Operand `n`, if the row names it.
    pub fn operand(&self, n: usize) -> Option<&'static Operand> {
        self.operands.iter().chain(self.optional).nth(n)
    }

    /// The kind of the elements of operand `n`. Operands that the row doesn't name are numbers, those of loops and of what ends or saves
    /// them anything.
    pub fn kind(&self, n: usize) -> OperandKind {
        let other = || if self.flags.contains(&Flag::Hands) { OperandKind::Any } else { OperandKind::Number };
        self.operand(n).map_or_else(other, |operand| operand.kind)
    }

    /// The attributes, in the order of the text form.
    pub fn attrs(&self) -> impl Iterator<Item = &'static Takes> + use<> {
        self.attrs.iter().flat_map(|entry| match entry {
            AttributeEntry::One(takes) => std::slice::from_ref(takes),
            AttributeEntry::Group(group) => group,
        })
    }

    /// The attribute of this name, if the op takes it.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        self.attrs().map(|takes| &takes.attribute).find(|attribute| attribute.name == name)
    }
}

/// An operand of an op.
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    /// Its name in the row.
    pub name: &'static str,
    /// The kind of its elements.
    pub kind: OperandKind,
}

/// The kind of the elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    /// Real numbers.
    Number,
    /// Ids, labels, counters.
    Index,
    /// Truth values.
    Truth,
    /// Real numbers, or in their place a counter of steps.
    NumberOrIndex,
    /// Real numbers or truth values.
    NumberOrTruth,
    /// Anything: only the axes are read, or it is handed on.
    Any,
}

impl OperandKind {
    /// Whether an operand of this type has such elements.
    pub fn holds(self, ty: &Type) -> bool {
        let kinds: &[Elem] = match self {
            Self::Number => &[Elem::Real],
            Self::Index => &[Elem::Index],
            Self::Truth => &[Elem::Bool],
            Self::NumberOrIndex => &[Elem::Real, Elem::Index],
            Self::NumberOrTruth => &[Elem::Real, Elem::Bool],
            Self::Any => return true,
        };
        ty.elem().is_some_and(|elem| kinds.contains(&elem))
    }
}

impl fmt::Display for OperandKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Number => "numbers",
            Self::Index => "indices",
            Self::Truth => "truth values",
            Self::NumberOrIndex => "numbers or a counter",
            Self::NumberOrTruth => "numbers or truth values",
            Self::Any => "anything",
        })
    }
}

/// The kind of an operand as the table writes it, a number where it writes none.
macro_rules! kind {
    () => {
        OperandKind::Number
    };
    (index) => {
        OperandKind::Index
    };
    (truth) => {
        OperandKind::Truth
    };
    (number_or_index) => {
        OperandKind::NumberOrIndex
    };
    (number_or_truth) => {
        OperandKind::NumberOrTruth
    };
    (any) => {
        OperandKind::Any
    };
}

/// An attribute of an op.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    /// Its row.
    pub attribute: Attribute,
    /// Whether the op can do without it.
    pub optional: bool,
}

/// An attribute in the row of an op, or a group of attributes that several ops have.
#[derive(Clone, Copy, Debug)]
pub enum AttributeEntry {
    /// One attribute.
    One(Takes),
    /// A group.
    Group(&'static [Takes]),
}

/// What operands and results are to an op that works unit by unit: position by position, slot by slot, row by row.
#[derive(Debug, PartialEq, Eq)]
pub struct Roles {
    /// Operands that every unit needs whole: weights, biases, gains.
    pub whole: &'static [usize],
    /// Results that are sums over the units.
    pub sums: &'static [usize],
}

const fn only(roles: &'static [Roles]) -> Option<&'static Roles> {
    match roles {
        [roles] => Some(roles),
        _ => None,
    }
}

/// A property of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// Draws random numbers: two equal nodes are not equal in value unless their stream is the same.
    Random,
    /// Has an effect besides its results: never removed, never merged, never moved.
    Effect,
    /// Takes any number of operands.
    Variadic,
    /// Ends a region.
    Terminator,
    /// Has a region that runs several times.
    Loop,
    /// Takes its value from outside the graph: an input or a parameter.
    Leaf,
    /// Costs far more than moving its data: worth leaving a loop for, and too much to be computed again for a little memory.
    Heavy,
    /// Its result has the numbers of its first operand in their order, and shares their buffer.
    Alias,
    /// Can add its results to what is there, such as the gradient of a parameter.
    Accumulates,
    /// Looks along the row, and the runtime can take it up where earlier positions have left it.
    Continues,
    /// Works over the last axis, also where that is the ragged one: then the positions of a row belong together, and the op does not work
    /// unit by unit.
    Lengthwise,
    /// Reads each number of its first operand before it writes it, and can write its result there.
    InPlace,
    /// Decides something by what it reads, or adds up what nothing may be lost of: no operand of it is kept in 16 bits.
    Exact,
    /// Hands operands on, of whatever type they are.
    Hands,
}

macro_rules! ops {
    ($(
        #[doc = $doc:literal]
        $name:ident = $text:literal ($($operand:ident $(: $kind:ident)?),* $(; $($optional:ident $(: $possible:ident)?),*)?) {$($attr:ident $(? $($never:lifetime)?)?),*}
            => $shape:ident, $gradient:ident, $cost:ident, $dependence:ident $([$($flag:ident),*])?
            $(by_unit [$($whole:literal),*] [$($sum:literal),*])? $(narrow $narrow:expr)?;
    )*) => {
        /// An operation of the IR.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Op { $(#[doc = $doc] $name,)* }

        impl Op {
            /// Every op, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The row of the table.
            pub fn def(self) -> &'static OpDef {
                match self {
                    $(Self::$name => {
                        const DEF: OpDef = OpDef {
                            name: $text,
                            doc: $doc.trim_ascii(),
                            operands: &[$(Operand { name: stringify!($operand), kind: kind!($($kind)?) }),*],
                            optional: &[$($(Operand { name: stringify!($optional), kind: kind!($($possible)?) }),*)?],
                            attrs: &[$(attribute::$attr.entry(false $(|| true $($never)?)?)),*],
                            shape: shape::$shape,
                            gradient: gradient::$gradient,
                            dependence: Dependence::$dependence,
                            cost: CostRule { number: cost::$cost::<f64>, formula: cost::$cost::<Formula> },
                            flags: &[$($(Flag::$flag),*)?],
                            by_unit: only(&[$(Roles { whole: &[$($whole),*], sums: &[$($sum),*] })?]),
                            narrow: 0 $(+ $narrow)?,
                        };
                        &DEF
                    })*
                }
            }
        }
    };
}

ops! {
    /// A value of the batch: token ids, labels, weights.
    Input = "input" () {NAME} => declared, none, free, Input [Leaf];
    /// A trainable array, how it starts, the group of parameters to which it belongs, where it is in one, and its role, where it has one.
    Param = "param" () {NAME, INIT, GROUP?, PARAMETER_ROLE?} => declared, none, free, Nothing [Leaf];
    /// `value` everywhere, with the first `rank` axes of `like`, and before the last of these with an axis of `count` slots, where a count is given.
    Full = "full" (like: any) {VALUE, RANK, COUNT?} => full, none, free, Nothing;
    /// True everywhere, with the first `rank` axes of `like`.
    True = "true" (like: any) {RANK} => all_true, none, free, Nothing;
    /// The number of the `step`, from 0, as a number of every row of `like`.
    StepNumber = "step_number" (step: index, like: any) {} => step_number, none, free, Nothing;
    /// How many steps the `bound` gives every row of `like`: those that a recurrence of this bound takes over these rows, unless it halts.
    DepthOf = "depth_of" (like: any) {BOUND} => row_number, none, free, Depth;

    /// Rows of the table, one per id: `y[t] = table[ids[t]]`. A counter of steps, below the size of the first axis, reads what a weight has for its step: `w[step]`.
    Embed = "embed" (ids: index, table) {} => embed, embed, free, Units narrow 1;
    /// Every position plus the code of its place in the row: its row of the `table`, or sines and cosines, `sin(p w_k)` and `cos(p w_k)` with `w_k = 10000^(-2k/width)`.
    AddPosition = "add_position" (x; table) {} => add_position, add_position, elementwise, Units;
    /// The number of every position in its row, from 0.
    Positions = "positions" (like) {} => positions, none, free, Units;
    /// Sines and cosines of every number `n` as `width` channels: `sin(n w_k)` and `cos(n w_k)` with `w_k = base^(-2k/width)`, side by side (`layout: pairs`), or the sines in the first half of the channels. An odd width has one sine more.
    Sinusoid = "sinusoid" (n) {WIDTH, LAYOUT?, BASE?} => sinusoid, sinusoid, transcendental, Units;
    /// START before and END after every row.
    Frame = "frame" (x, start, end) {} => frame, frame, free, Frame;
    /// Every row of `x` behind the positions that the channels of `v` are, one after the other.
    Prefix = "prefix" (x, v) {} => with_prefix, prefix, free, Moved;
    /// Every row without the `count` positions that a `prefix` has put before it.
    Unprefix = "unprefix" (x) {COUNT} => without_prefix, unprefix, free, Moved;
    /// Rows of `count` positions the other way round: for every channel its numbers at all positions.
    Transpose = "transpose" (x) {COUNT} => transpose, transpose, free, Pool;
    /// The inverse of `transpose`: positions like those of `like`.
    TransposeBack = "transpose_back" (x, like: any) {} => transpose_back, transpose_back, free, First;
    /// The same array for every row of the batch.
    BroadcastBatch = "broadcast_batch" (x, like: any) {} => broadcast_batch, broadcast_batch, free, First;
    /// Mean over the second axis, row by row.
    Mean = "mean" (x) {} => pool, mean, elementwise, Pool;
    /// Sum over the second axis, row by row.
    Sum = "sum" (x) {} => pool, sum, elementwise, Pool;
    /// The row's value of `x` at every position of the second axis of `like`, or an equal part of it where it is `shared`.
    BroadcastRows = "broadcast_rows" (x, like: any) {SHARED?} => broadcast_rows, broadcast_rows, free, First;
    /// Sum over the positions up to and including each one, from the first position on (`side: left`) or from the last one back (`right`).
    RunningSum = "running_sum" (x) {SIDE} => along_rows, running_sum, elementwise, Scan [Continues];
    /// The `first`, the `last` or the `before_last` position of every row.
    Position = "position" (x) {AT} => pool, position, free, Position;
    /// Largest value over the second axis, channel by channel.
    Max = "max" (x) {} => pool, max, elementwise, Pool;
    /// The value `lag` positions before every one (`side: left`) or behind it (`side: right`); 0 where the row has none.
    Shift = "shift" (x) {SIDE, LAG} => along_rows, shift, free, Scan [Continues];
    /// The sum, the mean or the largest number of the last axis, which then has size 1. NaN is larger than any number.
    Reduce = "reduce" (x) {BY} => reduce, reduce, reduction, Channels by_unit [] [];
    /// A last axis of size 1 as one of `width` equal channels.
    BroadcastChannels = "broadcast_channels" (x) {WIDTH} => broadcast_channels, broadcast_channels, free, Units by_unit [] [];
    /// Softmax over the last axis: the channels of every unit, or the positions of every row where each has one number.
    Softmax = "softmax" (x) {} => softmax, softmax, transcendental, Channels [Lengthwise, Exact] by_unit [] [];
    /// 1 for the numbers of the last axis that are among the largest, else 0: the channels of every unit, or the positions of every row where each has one number. `of` says how many, at least one; of equal numbers the first are taken. A NaN among them makes all results of its row or unit NaN. Where `among` is given, only numbers count whose place in it is not 0, and no more are chosen than there are.
    Top = "top" (x; among: number_or_index, step: index) {OF} => top, none, transcendental, Channels [Exact];
    /// `a` and `b` side by side on the last axis.
    Concat = "concat" (a, b) {} => concat, concat, free, Units by_unit [] [];
    /// `width` channels from `start` on the last axis.
    Slice = "slice" (x) {START, WIDTH} => slice, slice, free, Units by_unit [] [];
    /// Channels of `x` placed at `start` of a last axis of `width`, zeros elsewhere.
    Pad = "pad" (x) {START, WIDTH} => pad, pad, free, Units by_unit [] [];
    /// Without the last axis of size 1.
    Squeeze = "squeeze" (x) {} => squeeze, squeeze, free, Units [Alias];
    /// With a last axis of size 1.
    Unsqueeze = "unsqueeze" (x) {} => unsqueeze, unsqueeze, free, Units [Alias];
    /// The last axis cut into equal `parts`, which become an axis before it.
    Split = "split" (x) {PARTS} => split, split, free, Units [Alias];
    /// The last two axes as one.
    Merge = "merge" (x) {} => merge, merge, free, Units [Alias];
    /// The product `a b` of two matrices of every unit, which are the last two axes. The one on the side `transposed` is transposed before.
    Matmul = "matmul" (a, b) {TRANSPOSED?} => matmul, matmul, matmul, Units;
    /// Slot number `step` of every unit, on its first axis; a unit is a row, or a position where the second axis is ragged.
    SlotGet = "slot_get" (x, step: index) {} => slot_get, slot_get, free, Units;
    /// `x` with `y` in the place of slot number `step` of every unit.
    SlotSet = "slot_set" (x, y, step: index) {} => slot_set, slot_set, free, Units [InPlace];
    /// Features of two sentences u (first half of the rows) and v: `[u; v; u v; |u - v|]`.
    Pair = "pair" (x) {} => pair, pair, elementwise, Rows;

    /// `y = x w^T + bias`, with `w` of shape [outputs, inputs].
    Linear = "linear" (x, w; bias) {} => linear, linear, linear, Channels [Heavy] by_unit [1, 2] [] narrow 1;
    /// `(x - mean) / sqrt(var + eps) gain`, plus `bias` where one is given, over the last axis. NaN where the squares overflow.
    LayerNorm = "layer_norm" (x, gain; bias) {EPS} => affine, layer_norm, norm, Channels by_unit [1, 2] [] narrow 1;
    /// `x / sqrt(mean(x^2) + eps)`, times `gain` where one is given, over the last axis, or over each of its `parts`, which share the gain. NaN where the squares overflow.
    RmsNorm = "rms_norm" (x; gain) {EPS, PARTS?} => rms_norm, rms_norm, norm, Channels by_unit [1] [] narrow 1;
    /// `gain x`, plus `bias` where one is given, with a number of each per channel.
    Affine = "affine" (x, gain; bias) {} => affine, affine, elementwise, Channels by_unit [1, 2] [] narrow 1;
    /// The expression `f` of the numbers `a`, `b`, `c`, ... that the operands, all of one type, have in one place; `tuple(..)` gives several results.
    Map = "map" () {F} => map, map, map, Units [Variadic] by_unit [] [] narrow pointwise::MOST;
    /// `x`, through which no gradient goes back.
    Detach = "detach" (x) {} => same, none, free, Units [Alias];
    /// `a` where the unit's condition holds, else `b`, NaN where it is unknown; a unit is a row, or a position of a row.
    Select = "select" (c: truth, a: number_or_truth, b: number_or_truth) {} => select, select, elementwise, Units;
    /// `x` where the unit's condition equals `when`, else 0, NaN where it is unknown.
    MaskUnit = "mask_unit" (x, c: truth) {WHEN} => of_units, mask_unit, elementwise, Units;
    /// Every unit of `x` times its own number `s`.
    MulUnit = "mul_unit" (x, s) {} => of_units, mul_unit, elementwise, Units;
    /// Scalar product of `a` and `b` unit by unit; a unit is an index into the first `rank` axes.
    DotUnit = "dot_unit" (a, b) {RANK} => dot_unit, none, elementwise, Units;
    /// `q + s h` with one number `s` per unit.
    AddScaled = "add_scaled" (q, h, s) {} => add_scaled, add_scaled, elementwise, Units [InPlace];
    /// Inverted dropout: 0 with probability `p`, else `x / (1 - p)`. The mask is a function of seed, update, loop counters, `stream`, row and index; where it is `tied`, the positions of a row share that of the first.
    Dropout = "dropout" (x) {P, STREAM, TIED?} => dropout, dropout, elementwise, Units [Random] by_unit [] [] narrow 1;
    /// Independent normal numbers around 0 of deviation `std`, one for every number of `like`; where a `cut` is given, those of the normal distribution that is cut so many deviations from 0. They are a function of seed, update, loop counters, `stream`, row and index, also in evaluation, where `draws: level` lets all rows have the same, unless a number stands for them there.
    Normal = "normal" (like) {STD, CUT_AT?, STREAM, DRAWS?, EVALUATION?} => drawn, none, transcendental, Nothing [Random] by_unit [] [];
    /// Independent numbers between `low` and `high`, each as likely, one for every number of `like`; drawn as those of `normal`.
    Uniform = "uniform" (like) {LOW, HIGH, STREAM, DRAWS?, EVALUATION?} => drawn, none, elementwise, Nothing [Random] by_unit [] [];
    /// Rotary position code on channel pairs of every head: `rope`, `xpos_query` or `xpos_key`. Pair i of the r channels that are turned, all or the first `part` of a head, turns by `base^(-2i/r)` a position. `transpose` gives the transposed map.
    Rotate = "rotate" (x) {KIND, HEADS, TRANSPOSE?, ORIGIN?, LAYOUT?, BASE?, PART?, ANGLE?} => rotate, rotate, elementwise, Channels [Heavy] by_unit [] [] narrow 1;
    /// The row behind as many copies of `pad` as its length on `axis`, which is the axis of the result, takes.
    PadRagged = "pad_ragged" (x, pad) {AXIS} => pad_ragged, pad_ragged, free, Units;
    /// Softmax attention: queries `q`, keys `k`, values `v`, head by head; products times `scale` or `head_width^-1/2` become scores, which the expression `score` changes: `add(score, sub(j, i))`. Where there are fewer `key_heads`, neighbouring heads share keys and values: head i reads key head `i key_heads / heads`, rounded down. Its learned tables follow, one for each `learn` in it, then the values that `reads` counts, numbers or channels of every position of `q` or `k`: `read_n(i)` in `mask`, `score` and `stop` is that of the query in value n, `read_n(j, c)` that of the key in channel c. With `position: relative_xl` the last operands are `u`, `v` and `W`, and products are `(q + u) k + (q + v) W s`, where `s` are sines and cosines of the distance. Where heads are `talking`, two matrices [heads, heads] stand last: head g takes the softmax of `sum over h of L[h, g] score[h]`, and head f the values by `sum over g of P[g, f] probability[g]`, with `dropout` before the sum; a key that a head does not see adds nothing to the scores of others and stays unseen by that head. Where every position of `k` and `v` has slots, [batch, length, slots, width], a query sees in one softmax what the mask shows in each of slots 0 to `step`: `j` is the position that has the slot. There is no `position` and no `stop` there. Values may have other channels than keys, and results have those of values. With `stop`, two more operands stand last, of the types of `k` and `v`, whose numbers are not read: they take the gradients of keys and values from the pairs of query and key for which `stop` holds, and `k` and `v` those from the others.
    Attention = "attention" (q, k, v; step: number_or_index) {HEADS, KEY_HEADS?, SCALE?, MASK?, SCORE?, STOP?, READS?, POSITION?, TALKING?, DROPOUT?, STREAM?} => attention, attention, attention, Attention [Random, Variadic, Heavy, Continues] narrow 1;
    /// Attention to the nearest key that matches, head by head: with `p = sigmoid(score)`, scores being products times `scale` or `head_width^-1/2`, a key gets the weight `p` times the product of `1 - p` over all nearer keys, divided by the sum of the weights of the query. A query does not see itself, and of two keys at one distance the one in front is nearer. `sides`, two numbers of every head, are added to the scores of keys behind and in front.
    GeometricAttention = "geometric_attention" (q, k, v; sides) {HEADS, SCALE?} => geometric_attention, geometric_attention, geometric_attention, Attention [Heavy];
    /// The places in the row of the `count` keys that have the largest products with a query, head by head from the largest on; of equal ones the first. -1 stands where the query sees no more keys: with `mask: causal` it sees those up to its own position, and where `among` is given only those whose number in it is not 0. Where a product is NaN, or a number of `among`, all places of the query in that head are.
    TopKeys = "top_keys" (q, k; among) {HEADS, COUNT, MASK?} => top_keys, none, top_keys, Attention [Heavy, Continues, Exact];
    /// Every channel of every row convolved with a kernel of its own. The `kernel` is made by the diagonal state space of S4D from the parameters `log_dt, log_decay, frequency, b, c`, or by a damped moving average in several dimensions from `delta, alpha, beta, gamma`. `side: left` sees the positions before, `right` those behind, from a distance of `lag` on. For S4D, `discretisation: zoh` holds the input between positions; without it the rule is bilinear.
    Scan = "scan" (x) {KERNEL, SIDE, LAG, DISCRETISATION?} => scan, scan, scan, Scan [Heavy, Continues, Variadic];
    /// The neighbour of every position on one `side` among `x`, by the existence `e` of the positions: going away from position i, position j gets the weight `min(e_j, what is left of 1)`.
    Neighbours = "neighbours" (x, e) {SIDE} => neighbours, neighbours, neighbours, Scan;

    /// True while a unit with survival `t` after this step goes on: `1 - t < threshold`, and `step` at most the row's length on the axis `cap`, where one is given; unknown where t is not finite. A loop whose condition is unknown ends the run.
    HaltTest = "halt_test" (t, step: index) {THRESHOLD, CAP?} => halt_test, none, elementwise, HaltTest [Exact];
    /// Both conditions; one that does not hold decides, and else it is unknown where one of them is.
    And = "and" (a: truth, b: truth) {} => alike, none, elementwise, Units;
    /// True for a row with at least one true position; unknown where it is for one of them.
    Any = "any" (x: truth) {} => any, none, elementwise, Pool;
    /// True for a row with more than one position on the second axis.
    LongerThanOne = "longer_than_one" (x: any) {} => any, none, free, Pool;

    /// Mean of all elements, weighted when `weights` are given, which have no gradient. An element of weight 0 is left out even if it is not finite; without any weight the mean is 0.
    Average = "average" (x; weights) {} => average, average, elementwise, Rows [Exact];
    /// The cross entropy of every label: `-log p(label)`, where the logits of a unit stand for probabilities of classes by `kind`. A single logit is that of label 1 against label 0. The `average`, by the `weights` of its units if they have any, is the loss of a task.
    CrossEntropyEach = "cross_entropy_each" (logits, labels: index) {PROBABILITIES?} => of_labels, cross_entropy_each, transcendental, Units [Exact];
    /// 1 where the largest logit of a unit, the first of equals, is that of its label, else 0. A single logit says 1 where it is positive, else 0. NaN where a logit is NaN.
    Right = "right" (logits, labels: index) {} => of_labels, none, elementwise, Units [Exact];

    /// Depth recurrence: runs its region on the carried values until a row's `go` is false (that step is rejected, the row keeps what it had) or `bound` steps are done.
    Recur = "recur" () {BOUND} => declared, none, region, Recur [Variadic, Loop, Hands];
    /// Chunk recurrence: runs its region once per chunk of every row, from left to right; rows without a token in the chunk take no part. With `cut: chosen` there is one chunk, of the positions where the first sequence is not 0: rows of which nothing is chosen take no part, and outputs are 0 at all other positions.
    Chunks = "chunks" () {CARRIED, SIZE?, COUNT?, CUT?, OVER, AXIS} => declared, none, region, Chunks [Variadic, Loop, Hands];
    /// Balanced fold: cuts every row into chunks of `arity`, runs its region on all chunks of all rows at once (inside, a row is a chunk), and goes on with the vectors that it yields, until one is left. Further results are means of further yielded numbers over the chunks of a row.
    Fold = "fold" () {ARITY, FOLDING, FLAT?, OVER, AXIS, FILLED?} => declared, none, region, Fold [Variadic, Loop, Hands];
    /// Beam search over binary trees: joins neighbours of a row until one node is left, keeps the best `beams` ways of doing so, and gives the mean of their roots by the softmax of their scores. Its region has a `part` that joins two nodes and one that scores a pair. With an `arity` the search runs on chunks, and then on chunks of their roots, whose beams `align` brings together.
    Beam = "beam" () {BEAMS, COMPOSE?, OVERFLOW?, NOISE?, DRAWS?, ALIGN?, KEEP_BEST?, ARITY?, LAST?, PLAN?, FLAT?, OVER, AXIS} => declared, none, region, Fold [Variadic, Loop, Hands];
    /// Part of the region of a `beam`, on rows of its own: with `role: join` the pairs of nodes that are joined, with `role: score` those that are scored.
    Part = "part" () {ROLE} => declared, none, region, Part [Variadic, Loop, Hands];
    /// What a region hands to the next step; for `recur` a last boolean says which rows accept the step.
    Yield = "yield" () {} => nothing, none, free, Effect [Variadic, Terminator, Effect, Hands];
    /// Values of this step that the backward loop reads.
    Save = "save" () {} => nothing, none, free, Effect [Variadic, Effect, Hands];
    /// The results of the graph, named.
    Return = "return" () {NAMES} => nothing, none, free, Effect [Variadic, Terminator, Effect, Hands];

    /// Gradient of `linear` for its input: `dy w`.
    LinearGradInput = "linear_grad_input" (dy, w) {} => linear_grad_input, none, linear, Backward by_unit [1] [] narrow 1;
    /// Gradient of `linear` for its weight: `dy^T x`.
    LinearGradWeight = "linear_grad_weight" (dy, x, w) {} => linear_grad_weight, none, linear_weight, Backward [Accumulates];
    /// Sum over all axes but the last.
    ColumnSum = "column_sum" (dy) {} => last_axis, none, reduction, Backward by_unit [] [0];
    /// Gradients of `layer_norm` for input, gain and bias.
    LayerNormGrad = "layer_norm_grad" (x, gain, dy) {EPS} => layer_norm_grad, none, norm, Backward by_unit [1] [1, 2] narrow 1;
    /// Gradients of `rms_norm` for the input and, where one is given, the gain.
    RmsNormGrad = "rms_norm_grad" (x, dy; gain) {EPS, PARTS?} => rms_norm_grad, none, norm, Backward by_unit [2] [1] narrow 1;
    /// Gradients of `attention` for `q`, `k`, `v` and what follows the step; the probabilities are computed again. Those of the pairs for which `stop` holds come last.
    AttentionGrad = "attention_grad" (q, k, v, dy; step: number_or_index) {HEADS, KEY_HEADS?, SCALE?, MASK?, SCORE?, STOP?, READS?, POSITION?, TALKING?, DROPOUT?, STREAM?} => attention_grad, none, attention_grad, Backward [Random, Variadic] narrow 3;
    /// Gradient of `add_position` for the table.
    AddPositionGrad = "add_position_grad" (dy, table) {} => add_position_grad, none, reduction, Backward [Accumulates];
    /// Gradient of `sinusoid` for the numbers.
    SinusoidGrad = "sinusoid_grad" (dy, n) {LAYOUT?, BASE?} => sinusoid_grad, none, transcendental, Backward;
    /// Gradients of `geometric_attention` for `q`, `k`, `v` and the `sides` where there are some; the weights are computed again.
    GeometricAttentionGrad = "geometric_attention_grad" (q, k, v, dy; sides) {HEADS, SCALE?} => geometric_attention_grad, none, geometric_attention_grad, Backward;
    /// Gradients of `scan` for all its operands; the kernels are made again.
    ScanGrad = "scan_grad" (x, dy) {KERNEL, SIDE, LAG, DISCRETISATION?} => scan_grad, none, scan_grad, Backward [Accumulates, Variadic];
    /// Gradients of `neighbours` for `x` and `e`. Where existence and what is left are equal, the existence has the slope.
    NeighboursGrad = "neighbours_grad" (x, e, dy) {SIDE} => neighbours_grad, none, neighbours_grad, Backward;
    /// Gradient of `embed` for the table: `dy` in the places of the ids, zeros elsewhere. Added to the gradient of a parameter it takes the time of those places alone.
    EmbedGrad = "embed_grad" (ids: index, dy, table) {} => embed_grad, none, scatter, Backward [Accumulates];
    /// Gradients of `frame` for the row, START and END.
    FrameGrad = "frame_grad" (dy, x, start, end) {} => frame_grad, none, free, Backward [Accumulates];
    /// Gradient of `prefix` for `v`: the first `count` positions of every row, side by side.
    PrefixGrad = "prefix_grad" (dy) {COUNT} => prefix_grad, none, free, Backward;
    /// Gradients of `pad_ragged` for the row and the pad.
    PadRaggedGrad = "pad_ragged_grad" (dy, x, pad) {} => pad_ragged_grad, none, reduction, Backward [Accumulates];
    /// Sum over the batch: the gradient of `broadcast_batch`.
    SumBatch = "sum_batch" (dy) {} => without_batch, none, reduction, Backward [Accumulates];
    /// Gradient of `position`.
    PositionGrad = "position_grad" (dy, x) {AT} => pool_grad, none, free, Backward;
    /// Gradient of `max`: to the first position that holds the largest value.
    MaxGrad = "max_grad" (dy, x) {} => pool_grad, none, elementwise, Backward;
    /// Gradient of `reduce` by the largest number: to the first channel that holds it.
    ReduceMaxGrad = "reduce_max_grad" (dy, x) {} => reduce_grad, none, elementwise, Backward by_unit [] [];
    /// Gradient of `softmax`, from its result `y`: `y (dy - sum(y dy))`.
    SoftmaxGrad = "softmax_grad" (y, dy) {} => softmax_grad, none, elementwise, Backward [Lengthwise] by_unit [] [];
    /// Gradient of `pair`.
    PairGrad = "pair_grad" (dy, x) {} => pair_grad, none, elementwise, Backward;
    /// Gradient of `cross_entropy_each` for the logits.
    CrossEntropyEachGrad = "cross_entropy_each_grad" (dy, logits, labels: index) {PROBABILITIES?} => of_labels_grad, none, transcendental, Backward;
    /// Gradient of `average`: `dy / count` everywhere, or `dy weight / sum of weights`.
    AverageGrad = "average_grad" (dy, x; weights) {} => average_grad, none, elementwise, Backward;
    /// The backward loop of a `recur`, `chunks`, `fold`, `beam` or `part`: runs its region over the taped steps from the last to the first. Region parameters: cotangents of the carried values after the step, of the step's outputs, then the saved values. It yields cotangents of the carried values before the step, of the step's slices, then contributions to captured values, which are summed.
    Unwind = "unwind" () {CARRIED?, OUTPUTS?, SLICES?, AXIS?, OVER?, BOUND?, SIZE?, COUNT?, ARITY?, FOLDING, FILLED?, BEAMS?, ROLE?} => declared, none, region, Backward [Variadic, Loop, Hands];
    /// Adds `x` to the gradient of the parameter `param`.
    Accumulate = "accumulate" (x) {PARAM} => nothing, none, elementwise, Effect [Effect, Exact];
}

impl Op {
    /// The op of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.def().name == name)
    }

    /// True when the row carries the flag.
    pub fn has(self, flag: Flag) -> bool {
        self.def().flags.contains(&flag)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.def().name)
    }
}

/// The tables of all ops, of their attributes and of the functions of `map` as Markdown, for `docs/ops.md`.
pub fn markdown() -> String {
    let mut out = String::from("| op | operands | attributes | what it computes |\n|---|---|---|---|\n");
    for op in Op::ALL {
        let def = op.def();
        let mut operands: Vec<String> = def.operands.iter().map(|o| o.name.to_owned()).collect();
        operands.extend(def.optional.iter().map(|o| format!("{}?", o.name)));
        if op.has(Flag::Variadic) {
            operands.push("...".to_owned());
        }
        let attr = |takes: &Takes| format!("{}{}", takes.attribute.name, if takes.optional { "?" } else { "" });
        let attrs: Vec<String> = def.attrs().map(attr).collect();
        let doc = def.doc.replace('|', "\\|");
        out += &format!("| `{}` | {} | {} | {doc} |\n", def.name, operands.join(", "), attrs.join(", "));
    }
    format!(
        "{out}\nThe attributes:\n\n{}\nFunctions of `map`. A map of one function is written as that function: `add %x, %y`.\n\n{}",
        attribute::markdown(),
        pointwise::markdown()
    )
}
