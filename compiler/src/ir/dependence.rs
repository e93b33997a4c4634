//! Dependence rules: which positions of its operands an op reads, for the proof that a model sees only the past.
//!
//! A rule is a word; what it means for a graph is worked out by `causality`, whose match over these words is exhaustive.
//! A value with a ragged second axis has positions; all others (row scalars, slots, parameters) have none.

/// What the results of an op depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependence {
    /// On no token and no length: constants, parameters, conditions that hold everywhere.
    Nothing,
    /// On the batch itself: the input `tokens` position by position, any other input as a whole.
    Input,
    /// Position by position; operands without positions count for all of them.
    Units,
    /// As `Units`, on the first operand alone; the other one gives its shape.
    First,
    /// As `Units`, over the channels of the last axis; where that is the ragged one, on all positions.
    Channels,
    /// On all positions of the second axis.
    Pool,
    /// On one position of the second axis, given by `at`; the last one tells the length.
    Position,
    /// On the positions up to the own one.
    Prefix,
    /// On the positions up to the own one for `side: left`, on all of them for `right`.
    Scan,
    /// START before and END behind: positions shift by one, and the row's end shows where it stands.
    Frame,
    /// Position by position, where positions move to make room for others before them, or back.
    Moved,
    /// Queries position by position; keys and values as far as the mask lets them through.
    Attention,
    /// Position by position, and on the length of the axis `cap` where one is given.
    HaltTest,
    /// On what the attribute `bound` reads: nothing, or how long the row is.
    Depth,
    /// On other rows of the batch.
    Rows,
    /// A depth recurrence: carried values round the loop, its bound, and its condition to go on.
    Recur,
    /// A chunk recurrence: carried values from chunk to chunk, slices, and where the chunks are cut.
    Chunks,
    /// A balanced fold or a beam search: what stands in its region, and how many nodes there are, hangs on all positions of the axis.
    Fold,
    /// A part of a loop's region, which runs on rows of its own: what it yields.
    Part,
    /// On everything: ops of the backward run, in which later positions come first.
    Backward,
    /// No results.
    Effect,
}
