//! The rows of the problem kinds: code, severity, what it means, a spec that has it and one that does not.
//!
//! One row per kind, nothing else: what is done with a row is said by the macro.

use super::kinds::Severity;

/// An example, line by line. The lines in braces stand in a model of width 8.
macro_rules! example {
    ($($before:literal)* { $($inside:literal)* } $($after:literal)*) => {
        concat!(
            $($before, "\n",)*
            "model m {\n    embed { width: 8 }\n",
            $("    ", $inside, "\n",)*
            "}\n",
            $($after, "\n",)*
        )
    };
    ($($line:literal)*) => { concat!($($line, "\n",)*) };
}

/// Declares the kinds, one row each. Examples are checked as `example.rt`, for the task that `kinds` gives them.
macro_rules! declare {
    ($(#[doc = $summary:literal] $name:ident = $code:literal, $severity:ident,
        doc: $doc:literal, bad: $bad:tt, good: $good:tt;)*) => {
        /// What sort of problem a diagnostic reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $summary] $name,)*
        }

        impl Kind {
            /// All kinds in the order of the table.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// The word-shaped code: `unknown-field`.
            pub fn code(self) -> &'static str {
                match self { $(Kind::$name => $code,)* }
            }

            /// Error or warning.
            pub fn severity(self) -> Severity {
                match self { $(Kind::$name => Severity::$severity,)* }
            }

            /// What the kind means, in one sentence.
            pub fn summary(self) -> &'static str {
                match self { $(Kind::$name => $summary.trim_ascii_start(),)* }
            }

            /// Why it is a problem and what is right.
            pub fn doc(self) -> &'static str {
                match self { $(Kind::$name => $doc,)* }
            }

            /// A spec that has this problem and no other.
            pub fn bad(self) -> &'static str {
                match self { $(Kind::$name => example! $bad,)* }
            }

            /// A spec like the bad one, without any problem.
            pub fn good(self) -> &'static str {
                match self { $(Kind::$name => example! $good,)* }
            }
        }
    };
}

declare! {
    /// The text does not follow the grammar.
    Syntax = "syntax", Error,
        doc: "A field is `name: value`, a statement is `keyword [word] [{ ... }]`, and a line break or a comma stands between them.",
        bad: [
            "model m {"
            "    embed { width = 8 }"
            "    readout mean"
            "}"
        ],
        good: [{ "readout mean" }];

    /// Brackets, statements or definitions are nested too deeply.
    TooDeep = "too-deep", Error,
        doc: "Nesting is limited to 64 levels in the text, and expressions to 200 levels after masks are inlined, so that no file can exhaust the stack.",
        bad: [
            "let x = (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))"
            { "readout mean" }
        ],
        good: ["let x = (1 + 2) * 3" { "readout mean" }];

    /// A file, an expression or an expanded model is too long.
    TooLong = "too-long", Error,
        doc: "A file has at most 256 KiB, an expression at most 400 tokens as written and 10,000 after masks are inlined, a model at most 10,000 statements and equations after definitions with loops are written out, and 5,000 after stacks are copied.",
        bad: [
            "mask m0 = i < j"
            "mask m1 = m0 or m0"
            "mask m2 = m1 or m1"
            "mask m3 = m2 or m2"
            "mask m4 = m3 or m3"
            "mask m5 = m4 or m4"
            "mask m6 = m5 or m5"
            "mask m7 = m6 or m6"
            "mask m8 = m7 or m7"
            "mask m9 = m8 or m8"
            "mask m10 = m9 or m9"
            "mask m11 = m10 or m10"
            "mask m12 = m11 or m11"
            "mask m13 = m12 or m12"
            {
                "attend self { heads: 2, mask: m13 }"
                "readout mean"
            }
        ],
        good: [
            "mask m0 = i < j"
            "mask m1 = m0 or i == j"
            {
                "attend self { heads: 2, mask: m1 }"
                "readout mean"
            }
        ];

    /// A file named by `use` can't be read.
    MissingFile = "missing-file", Error,
        doc: "The path is relative to the file that uses it.",
        bad: ["use \"nowhere.rt\"" { "readout mean" }],
        good: [{ "readout mean" }];

    /// A `use` path leaves the folder of the spec.
    IncludeOutsideRoot = "include-outside-root", Error,
        doc: "Paths are relative, with `/` between folders, and stay inside the folder of the file that was asked for.",
        bad: ["use \"../other.rt\"" { "readout mean" }],
        good: [{ "readout mean" }];

    /// A file uses itself, directly or through others.
    CyclicUse = "cyclic-use", Error,
        doc: "Move what both files need into a third one.",
        bad: ["use \"example.rt\"" { "readout mean" }],
        good: [{ "readout mean" }];

    /// Two items have the same name, or a name of the language is taken.
    DuplicateName = "duplicate-name", Error,
        doc: "Models share one set of names; `let`, `mask` and `bias` share another, in which `i`, `j`, `step`, `length`, `head`, `given`, `none`, `min`, `max`, `log` and `learn` are taken.",
        bad: ["mask near = i - j < 4" "mask near = j <= i" { "readout mean" }],
        good: ["mask near = i - j < 4" "mask causal = j <= i" { "readout mean" }];

    /// There is no model of this name.
    UnknownModel = "unknown-model", Error,
        doc: "Give the name of a model of the file, or add the file that has it with `use`.",
        bad: [{ "readout mean" } "variant small of n { embed.width: 4 }"],
        good: [{ "readout mean" } "variant small of m { embed.width: 4 }"];

    /// The model has no variant of this name.
    UnknownVariantOf = "unknown-variant-of", Error,
        doc: "`variant a of m:b` edits the variant `b` of `m`.",
        bad: [{ "readout mean" } "variant small of m:tiny { embed.width: 4 }"],
        good: [
            { "readout mean" }
            "variant tiny of m { embed.width: 2 }"
            "variant small of m:tiny { embed.width: 4 }"
        ];

    /// A variant is based on itself, directly or through others.
    CyclicVariant = "cyclic-variant", Error,
        doc: "One variant of the chain must be based on the model.",
        bad: [{ "readout mean" } "variant a of m:b { embed.width: 2 }" "variant b of m:a { embed.width: 4 }"],
        good: [{ "readout mean" } "variant a of m { embed.width: 2 }" "variant b of m:a { embed.width: 4 }"];

    /// A name in an expression is not defined here.
    UnknownName = "unknown-name", Error,
        doc: "Expressions know `let` constants, masks, biases, the parameters of their mask, and the variables that make sense in their place: `i`, `j`, `step`, `length`, `head` in masks and biases; `length` and `given` in depths.",
        bad: [{ "attend self { heads: 2, mask: causal }" "readout mean" }],
        good: ["mask causal = j <= i" { "attend self { heads: 2, mask: causal }" "readout mean" }];

    /// A mask, a bias or a function is given the wrong number of arguments, or its results the wrong number of names.
    WrongArity = "wrong-arity", Error,
        doc: "The number of arguments is that of the definition, and so is that of the names before `=`.",
        bad: ["mask near(c) = i - j < c" { "attend self { heads: 2, mask: near(1, 2) }" "readout mean" }],
        good: ["mask near(c) = i - j < c" { "attend self { heads: 2, mask: near(2) }" "readout mean" }];

    /// A definition, a mask, a bias or a `let` is defined through itself.
    CyclicDefinition = "cyclic-definition", Error,
        doc: "What a name stands for is put in its place, so nothing can hold itself.",
        bad: ["mask near = near or i == j" { "attend self { heads: 2, mask: near }" "readout mean" }],
        good: ["mask near = i - j < 4 or i == j" { "attend self { heads: 2, mask: near }" "readout mean" }];

    /// No statement begins with this word.
    UnknownStatement = "unknown-statement", Error,
        doc: "The statements are those of the table of features.",
        bad: [{ "feedfoward { hidden: 16 }" "readout mean" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// The statement has no such variant, or needs one and has none.
    UnknownVariant = "unknown-variant", Error,
        doc: "`halt`, `attend`, `recur` and others name their variant after the keyword; `embed` and `feedforward` have none.",
        bad: [{
            "recur depthwise {"
            "    halt globally"
            "    feedforward { hidden: 16 }"
            "    depth: 2"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    halt global"
            "    feedforward { hidden: 16 }"
            "    depth: 2"
            "}"
            "readout mean"
        }];

    /// The statement can't stand here.
    MisplacedStatement = "misplaced-statement", Error,
        doc: "`attend memory` needs a chunk-wise recurrence around it, `attend chunk` stands in `update memory`, `halt` in `recur depthwise`.",
        bad: [{ "attend memory { heads: 2 }" "readout mean" }],
        good: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "}"
            "readout mean"
        }];

    /// A statement that is needed is missing.
    MissingStatement = "missing-statement", Error,
        doc: "A model needs `embed` and `readout`; a chunk-wise recurrence needs `memory`.",
        bad: [{}],
        good: [{ "readout mean" }];

    /// A statement that can stand once stands more often.
    DuplicateStatement = "duplicate-statement", Error,
        doc: "Remove one, or use a variant to replace it.",
        bad: [{ "readout mean" "readout end" }],
        good: [{ "readout mean" }];

    /// The statement has no field of this name.
    UnknownField = "unknown-field", Error,
        doc: "The fields of every statement are in the table of features.",
        bad: [{ "feedforward { hiden: 16, hidden: 16 }" "readout mean" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// A field without a default is missing.
    MissingField = "missing-field", Error,
        doc: "Sizes that decide what a model is have no default.",
        bad: [{ "feedforward" "readout mean" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// A field is given twice in the same braces.
    DuplicateField = "duplicate-field", Error,
        doc: "Remove one, or change the value in a variant.",
        bad: [{ "feedforward { hidden: 16, hidden: 32 }" "readout mean" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// Two fields that exclude each other are both given.
    ExclusiveFields = "exclusive-fields", Error,
        doc: "A chunk-wise recurrence has either a `size` or a number of `chunks`.",
        bad: [{
            "recur chunkwise {"
            "    size: 4"
            "    chunks: 2"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur chunkwise {"
            "    chunks: 2"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "}"
            "readout mean"
        }];

    /// A setting is written that has no effect here.
    IdleField = "idle-field", Error,
        doc: "What is written acts, or is refused: a setting that belongs to another choice would be an ablation of nothing. Leave it out, or write the choice that it belongs to; a variant takes it out with `remove`.",
        bad: [{ "state = linear(state) { std: 0.5 }" "readout mean" }],
        good: [{ "state = linear(state) { init: normal, std: 0.5 }" "readout mean" }];

    /// An equation in a loop or a stack binds a name that is bound outside.
    RebindsOuter = "rebinds-outer", Error,
        doc: "A body hands on `state` and what its loop carries. Any other name that it binds is its own and has its value in this step alone, so the outer value would stay as it was. `carry y = y` in the first line of the loop hands the value on; else choose another name.",
        bad: [{
            "y = linear(state)"
            "loop {"
            "    steps: 2"
            "    y = y + gelu(y)"
            "    state = state + y"
            "}"
            "readout mean"
        }],
        good: [{
            "y = linear(state)"
            "loop {"
            "    steps: 2"
            "    carry y = y"
            "    y = y + gelu(y)"
            "    state = state + y"
            "}"
            "readout mean"
        }];

    /// A value that the labels are in goes where the answers could depend on it.
    LabelsLeak = "labels-leak", Error,
        doc: "What comes of `answer(..)` and `right(..)` may be weighted, averaged and paid by `loss`, and go nowhere else.",
        bad: [{ "state = state + answer(mean(state))" "readout mean" }],
        good: [{ "loss 0.5 * average(answer(mean(state)))" "readout mean" }];

    /// A value is not of the kind that the field takes.
    WrongType = "wrong-type", Error,
        doc: "The kind of every field is in the table of features. In equations every array has a type: `real[pos, 64]` has 64 channels at every position, `real[]` is one number for every row, `bool[pos]` is true or false at every position. An operator joins arrays whose common axes have the same size, and repeats one along the axes that it has not; the message names the types.",
        bad: [{ "feedforward { hidden: gelu }" "readout mean" }],
        good: [{ "feedforward { hidden: 16, activation: gelu }" "readout mean" }];

    /// A number is outside the range of its field, or can't be computed.
    OutOfRange = "out-of-range", Error,
        doc: "The range of every field is in the table of features. A division by zero and a number that does not fit have no value.",
        bad: [{ "feedforward { hidden: 0 }" "readout mean" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// A size must divide another, or must be even, and does not.
    Indivisible = "indivisible", Error,
        doc: "Heads share the width evenly unless `head_width` is given; `xpos` and `rope` turn pairs of channels.",
        bad: [{ "attend self { heads: 3 }" "readout mean" }],
        good: [{ "attend self { heads: 4 }" "readout mean" }];

    /// A mask is a number; it must be true or false.
    MaskNotBoolean = "mask-not-boolean", Error,
        doc: "A mask says for a query `i` and a key `j` whether the query may see the key.",
        bad: ["mask near = i - j" { "readout mean" }],
        good: ["mask near = i - j < 4" { "readout mean" }];

    /// A bias or a score is true or false; it must be a number.
    BiasNotNumber = "bias-not-number", Error,
        doc: "A bias is added to the attention score of a query `i` and a key `j`, and a score is what that becomes.",
        bad: ["bias slope = j <= i" { "readout mean" }],
        good: ["bias slope = j - i" { "readout mean" }];

    /// A gate reads a value that the layer before it does not show.
    GateWithoutFeedforward = "gate-without-feedforward", Error,
        doc: "A gate has the result of the layers and their input, and further values by the names under which the last layer shows them (`show normed = norm(x)`). The gates of the library read `normed`, which `feedforward` shows: its normed input.",
        bad: [{
            "recur depthwise {"
            "    depth: 2"
            "    gate mlp { hidden: 16 }"
            "    attend self { heads: 2 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    depth: 2"
            "    gate mlp { hidden: 16 }"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }];

    /// A recurrence or stack has no layer.
    EmptyRecurrence = "empty-recurrence", Error,
        doc: "Without a layer there is nothing to repeat.",
        bad: [{
            "recur depthwise {"
            "    depth: 2"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    depth: 2"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }];

    /// Nothing in a fold makes one vector.
    FoldNeedsReducer = "fold-needs-reducer", Error,
        doc: "A `recurse` ends with exactly one statement that makes one vector of a sequence: a `cell`, a `pool` or another `recurse`.",
        bad: [{
            "recurse balanced {"
            "    arity: 4"
            "    feedforward { hidden: 16 }"
            "}"
            "readout root"
        }],
        good: [{
            "recurse balanced {"
            "    arity: 4"
            "    feedforward { hidden: 16 }"
            "    pool mean"
            "}"
            "readout root"
        }];

    /// There is one vector where a sequence is needed.
    NoSequence = "no-sequence", Error,
        doc: "`recurse`, and inside of it `cell` and `pool`, make one vector of a sequence. What comes after has nothing to work on: so they come last in the model, in a chunk or in another fold, and are read out with `readout root`.",
        bad: [{
            "recurse chain {"
            "    cell gru"
            "}"
            "readout mean"
        }],
        good: [{
            "recurse chain {"
            "    cell gru"
            "}"
            "readout root"
        }];

    /// A cell joins two vectors, and a chunk has more.
    CellTakesTwo = "cell-takes-two", Error,
        doc: "In a balanced fold a cell joins neighbours, so that chunks have two elements. For larger chunks a chain runs its cell through the chunk.",
        bad: [{
            "recurse balanced {"
            "    arity: 8"
            "    cell grc { hidden: 16 }"
            "}"
            "readout root"
        }],
        good: [{
            "recurse balanced {"
            "    arity: 8"
            "    recurse chain {"
            "        cell grc { hidden: 16 }"
            "    }"
            "}"
            "readout root"
        }];

    /// A softened beam needs what all pairs are joined to.
    SoftNeedsParents = "soft-needs-parents", Error,
        doc: "`select one_soft` mixes what has no beam of its own, so every pair must have been joined: `score parent` does that before it scores.",
        bad: [{
            "recurse beam {"
            "    size: 3"
            "    select one_soft"
            "    cell gru"
            "}"
            "readout root"
        }],
        good: [{
            "recurse beam {"
            "    size: 3"
            "    score parent"
            "    select one_soft"
            "    cell gru"
            "}"
            "readout root"
        }];

    /// `align` stands where no beams are.
    AlignNeedsBeams = "align-needs-beams", Error,
        doc: "`align` says which beams of the chunks of a balanced fold belong together. There are such beams where a `recurse beam` is all that stands in the fold; layers beside it, and its own `leaf`, work on single vectors.",
        bad: [{
            "recurse balanced {"
            "    arity: 4"
            "    align string"
            "    pool mean"
            "}"
            "readout root"
        }],
        good: [{
            "recurse balanced {"
            "    arity: 4"
            "    align string"
            "    recurse beam {"
            "        size: 3"
            "        cell gru"
            "    }"
            "}"
            "readout root"
        }];

    /// The cell hands on a memory, which only a chain carries.
    CellNeedsChain = "cell-needs-chain", Error,
        doc: "`cell lstm` has a memory besides its vector. The nodes of a tree are single vectors.",
        bad: [{
            "recurse balanced {"
            "    arity: 2"
            "    cell lstm"
            "}"
            "readout root"
        }],
        good: [{
            "recurse balanced {"
            "    arity: 2"
            "    cell gru"
            "}"
            "readout root"
        }];

    /// A chain has no cell.
    ChainNeedsCell = "chain-needs-cell", Error,
        doc: "A chain joins its state with one element after the other, and a `cell` is what joins two vectors. A pool or a fold makes a vector of a whole sequence.",
        bad: [{
            "recurse chain {"
            "    pool mean"
            "}"
            "readout root"
        }],
        good: [{
            "recurse chain {"
            "    cell elman"
            "}"
            "readout root"
        }];

    /// `readout root` needs a `recurse` as the last layer of the model.
    ReadoutNeedsRecurse = "readout-needs-recurse", Error,
        doc: "The root is the one vector that a fold leaves. Without a fold there is a sequence, which is read out with `mean`, `end`, `first`, `max` or `each`.",
        bad: [{ "feedforward { hidden: 16 }" "readout root" }],
        good: [{
            "recurse balanced {"
            "    arity: 2"
            "    cell grc { hidden: 16 }"
            "}"
            "readout root"
        }];

    /// `readout memory` needs a chunk-wise recurrence directly in the model.
    ReadoutNeedsMemory = "readout-needs-memory", Error,
        doc: "The memory that is read out is that of the last chunk-wise recurrence of the model.",
        bad: [{ "feedforward { hidden: 16 }" "readout memory" }],
        good: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "    update memory { attend chunk { heads: 2 } }"
            "}"
            "readout memory"
        }];

    /// `readout memory` reads a memory that never changes.
    ReadoutNeedsUpdate = "readout-needs-update", Error,
        doc: "Without `update memory` the memory does not depend on the input.",
        bad: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "}"
            "readout memory"
        }],
        good: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "    update memory { attend chunk { heads: 2 } }"
            "}"
            "readout memory"
        }];

    /// The readout does not give what the task asks for.
    ObjectiveMismatch = "objective-mismatch", Error,
        doc: "A task with one answer per row needs one vector per row; a task with an answer per token needs `readout each`, and no `recurse`, whose vector holds later tokens, too. (These examples are checked for a task with one class per row.)",
        bad: [{ "feedforward { hidden: 16 }" "readout each" }],
        good: [{ "feedforward { hidden: 16 }" "readout mean" }];

    /// An answer that may see only the past depends on later tokens.
    LeaksFuture = "leaks-future", Error,
        doc: "`readout each` promises that an answer depends only on the tokens up to its own, and the compiler proves it on the graph. Here the proof fails: the report shows the place where later tokens come in, and the way from there to the answers. How long a row is counts as its last token. `rtc compile --emit causality` prints what every node depends on. With `readout each { sees: all }` nothing has to be proved, and tasks that ask for later tokens refuse the model.",
        bad: [{ "attend self { heads: 2, mask: j <= i + 1 }" "readout each" }],
        good: [{ "attend self { heads: 2, mask: j <= i }" "readout each" }];

    /// The task asks for later tokens, and the model may see them.
    NeedsPast = "needs-past", Error,
        doc: "A model that sees the tokens that it is asked for learns to copy them. Tasks whose answers are later tokens take `readout each { sees: past }` alone, which is the default.",
        bad: [{ "attend self { heads: 2 }" "readout each { sees: all }" }],
        good: [{ "attend self { heads: 2 }" "readout each" }];

    /// START and END stand around rows whose tokens answer one by one.
    FramedAnswers = "framed-answers", Error,
        doc: "A task with an answer per token has none for START and END; END would tell, besides, where the row ends.",
        bad: [
            "model m {"
            "    embed { width: 8, tokens: start_end }"
            "    feedforward { hidden: 16 }"
            "    readout each"
            "}"
        ],
        good: [{ "feedforward { hidden: 16 }" "readout each" }];

    /// The path of an edit names nothing in the model.
    PathNotFound = "path-not-found", Error,
        doc: "A path names statements by their variant (`depthwise`, `self`) or keyword (`halt`, `embed`), from the outside inwards, and may leave out outer ones.",
        bad: [{ "feedforward { hidden: 16 }" "readout mean" } "variant v of m { depthwise.depth: 3 }"],
        good: [
            {
                "recur depthwise {"
                "    depth: 2"
                "    feedforward { hidden: 16 }"
                "}"
                "readout mean"
            }
            "variant v of m { depthwise.depth: 3 }"
        ];

    /// The path of an edit names more than one statement.
    AmbiguousPath = "ambiguous-path", Error,
        doc: "Name an outer statement too, or number the places: `feedforward[2].hidden`.",
        bad: [
            {
                "feedforward { hidden: 16 }"
                "feedforward { hidden: 16 }"
                "readout mean"
            }
            "variant v of m { feedforward.hidden: 8 }"
        ],
        good: [
            {
                "feedforward { hidden: 16 }"
                "feedforward { hidden: 16 }"
                "readout mean"
            }
            "variant v of m { feedforward[2].hidden: 8 }"
        ];

    /// The halting rule has nothing to decide: the depth is 1.
    HaltNeverFires = "halt-never-fires", Warning,
        doc: "With one step there is no later step to save.",
        bad: [{
            "recur depthwise {"
            "    depth: 1"
            "    halt global"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    depth: 2"
            "    halt global"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }];

    /// An index of a learned table has no bound.
    UnboundedIndex = "unbounded-index", Error,
        doc: "The compiler finds the size of a table from its indices: `head` has the heads, `min`, `max` and `%` bound a number, and so do the comparisons of the mask. An index must be at least 0.",
        bad: [{ "attend self { heads: 2, mask: j <= i, bias: learn[head, i - j] }" "readout mean" }],
        good: [{ "attend self { heads: 2, mask: j <= i, bias: learn[head, min(i - j, 7)] }" "readout mean" }];

    /// The input never enters a recurrence that starts from zero.
    InputLost = "input-lost", Error,
        doc: "With `start: zero` the first state is 0, so the input must come in by `inject` or `attend input`.",
        bad: [{
            "recur depthwise {"
            "    depth: 3"
            "    start: zero"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    depth: 3"
            "    start: zero"
            "    inject add"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }];

    /// A halting cost is paid although the depth is given by each example.
    CostWithoutHalting = "cost-without-halting", Warning,
        doc: "With `depth: given` the number of steps is not the model's to choose, so the cost pulls against the data.",
        bad: [{
            "recur depthwise {"
            "    depth: given"
            "    halt global"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur depthwise {"
            "    depth: given"
            "    halt global { cost: 0.0 }"
            "    feedforward { hidden: 16 }"
            "}"
            "readout mean"
        }];

    /// The memory slots start equal and nothing can tell them apart.
    IdenticalSlots = "identical-slots", Warning,
        doc: "With a zero start and no dropout every slot gets the same gradient for ever, so all of them act as one. Use `init: normal`, or dropout.",
        bad: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2 }"
            "    attend memory { heads: 2 }"
            "    update memory { attend chunk { heads: 2 } }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "    update memory { attend chunk { heads: 2 } }"
            "}"
            "readout mean"
        }];

    /// Nothing reads the memory.
    DeadMemory = "dead-memory", Warning,
        doc: "Without `attend memory` in the recurrence, and with another readout, the slots get no gradient.",
        bad: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend self { heads: 2 }"
            "}"
            "readout mean"
        }],
        good: [{
            "recur chunkwise {"
            "    size: 4"
            "    memory { slots: 2, init: normal }"
            "    attend memory { heads: 2 }"
            "}"
            "readout mean"
        }];

    /// Nothing reads what a loop leaves.
    DeadLoop = "dead-loop", Warning,
        doc: "A loop hands on `state`, where a step changes it, and the values of `carry`, which are known behind it. Where nothing reads them the loop changes no answer, and its weights get no gradient.",
        bad: [{
            "loop {"
            "    steps: 2"
            "    carry y = 0.1 * state"
            "    y = linear(y)"
            "}"
            "readout mean"
        }],
        good: [{
            "loop {"
            "    steps: 2"
            "    carry y = 0.1 * state"
            "    y = linear(y)"
            "}"
            "state = y"
            "readout mean"
        }];

    /// A value is carried from step to step, and never changes.
    UnchangedCarry = "unchanged-carry", Warning,
        doc: "`carry name = start` says what the first step reads, and an equation `name = ..` below it what the next step reads. Without one every step reads the start.",
        bad: [{
            "loop {"
            "    steps: 2"
            "    carry y = 0.1 * state"
            "    state = norm(state + y)"
            "}"
            "readout mean"
        }],
        good: [{
            "loop {"
            "    steps: 2"
            "    carry y = 0.1 * state"
            "    state = norm(state + y)"
            "    y = 0.5 * y"
            "}"
            "readout mean"
        }];

    /// An edit leaves a binding that nothing reads.
    UnreadBinding = "unread-binding", Error,
        doc: "What a variant or `--set` takes the last reader from would stay in the model with its weights, and without a use. It is removed by an edit of its own.",
        bad: [
            "def perceptron(x) {"
            "    out linear(x)"
            "}"
            { "share net = perceptron { }" "state = state + net(state)" "readout mean" }
            "variant plain of m { state = state + linear(state) }"
        ],
        good: [
            "def perceptron(x) {"
            "    out linear(x)"
            "}"
            { "share net = perceptron { }" "state = state + net(state)" "readout mean" }
            "variant plain of m {"
            "    state = state + linear(state)"
            "    remove share.net"
            "}"
        ];
}
