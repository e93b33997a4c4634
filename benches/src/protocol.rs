//! What the command says to the programs that it measures, and what they answer: one JSON object per line.
//!
//! The worker of rtc and `peer.py` (and `tree_peer.py` its own part of them) understand the same requests, so that one loop drives both.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// A batch of rows of equal length.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Rows {
    /// Token ids, row by row.
    pub(crate) tokens: Vec<Vec<u32>>,
    /// The class of every row, or of every token of all rows.
    pub(crate) labels: Vec<u32>,
}

/// A model and the batches on which it works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The model in the words of the peer, see [`rtc_tests::peer::Description`].
    pub(crate) spec: Json,
    /// Where the peer writes the weights that rtc reads; `None` keeps the weights that each program draws.
    pub(crate) weights: Option<String>,
    /// What the peer draws its weights from.
    pub(crate) seed: u64,
    /// The peer multiplies the weights of the embedding.
    pub(crate) embed_gain: f64,
    /// The peer multiplies the weights of the halting head.
    pub(crate) halt_gain: f64,
    /// The peer adds this to the last bias of the halting head.
    pub(crate) halt_bias: f64,
    /// rtc adds this to it once more.
    pub(crate) halt_shift: f64,
    /// The learning rate of AdamW; 0 keeps the weights, and with them the depth of a model that halts.
    pub(crate) learning_rate: f64,
    /// The peer runs its own plain transformer of the same sizes.
    pub(crate) plain: bool,
    /// The peer compiles its cells.
    pub(crate) compile: bool,
    /// What is run in turn.
    pub(crate) batches: Vec<Rows>,
}

/// A model of the table of lengths, and the batches of one row each on which it works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The text of the spec that rtc compiles.
    pub(crate) spec: String,
    /// Which of its models.
    pub(crate) target: Option<String>,
    /// The same model as fields of the peer's `Spec`; what is left out has its default.
    pub(crate) peer: Json,
    /// What is run in turn.
    pub(crate) batches: Vec<Rows>,
}

/// A looped model of the field, and the batches on which it works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Field {
    /// Its name in the table, by which the peer knows it.
    pub(crate) name: String,
    /// The text of the spec that rtc compiles.
    pub(crate) spec: String,
    /// Which of its models.
    pub(crate) target: Option<String>,
    /// Edits of the spec.
    pub(crate) sets: Vec<String>,
    /// Number of tokens, and of classes.
    pub(crate) vocabulary: usize,
    /// Where rtc writes the weights that it has drawn, which the peer reads.
    pub(crate) weights: String,
    /// What is run in turn.
    pub(crate) batches: Vec<Rows>,
}

/// A product with its gradients, which PyTorch runs so many times each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Product {
    pub(crate) rows: usize,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) count: usize,
}

/// What a program is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Make a model.
    Load(Box<Job>),
    /// Make a model of the table of lengths; it is trained by Ranger with clipping.
    Open(Box<Tree>),
    /// Make a looped model of the field; it is trained by AdamW without clipping.
    Field(Box<Field>),
    /// The milliseconds of the fastest runs of products; only PyTorch is asked.
    Product(Product),
    /// The loss of every batch, without dropout.
    Loss,
    /// Training steps on the batches in turn.
    Steps {
        /// How many.
        count: usize,
    },
    /// Forward passes without dropout on the first rows of the batches in turn.
    Infer {
        /// How many.
        count: usize,
        /// How many rows of a batch.
        rows: usize,
    },
    /// The peak of memory so far.
    Memory,
    /// What matrix products reach on the device of rtc, GFLOP/s.
    Peak,
    /// Stop.
    Quit,
}

/// What a program answers. Which fields are filled depends on the request.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// Why there is no answer.
    pub(crate) error: Option<String>,
    /// Milliseconds of every run; of making the model for [`Request::Load`].
    pub(crate) ms: Vec<f64>,
    /// The loss of every batch.
    pub(crate) losses: Vec<f64>,
    /// Mean number of accepted steps of what halts.
    pub(crate) depth: Option<f64>,
    /// Mean number of runs of the recurrent block per batch and recurrence. rtc does not count them: rows leave one by one.
    pub(crate) runs: Option<f64>,
    /// Floating-point operations of one run by the cost model, in 10^9; accepted steps alone are counted.
    pub(crate) gflop: Option<f64>,
    /// Resident memory, MiB: at the start when the program reports itself, the peak for [`Request::Memory`], what rtc expects of
    /// a training step on the longest row for [`Request::Open`].
    pub(crate) mib: f64,
}
