//! Beam search over binary trees: the numbers between the scorer and the cell, for all rows of a batch at once.
//!
//! A search merges neighbours of a row until one node is left, and keeps the `width` best ways of doing so. Scorer and
//! cell are not in here: the caller runs them on lists of nodes, in one call for all rows and beams. A whole search is
//!
//! ```text
//! search.leaves(rules, offsets)                 node table = the leaves [positions, d], pair scores = []
//! loop {
//!     score search.fresh()                      append to the pair scores (with Compose::Every: compose first, append
//!                                               to the node table, and score the parents)
//!     if !search.is_busy() { break }
//!     search.step(pair scores, noise, record)   one merge in every beam of every row that is not finished
//!     blend search.blends()                     append to the node table (empty but with Overflow::Soften)
//!     compose search.merges()                   append to the node table (empty with Compose::Every)
//! }
//! blend the roots of every row                  weighed by the softmax of their scores, marginal::weighed
//! ```
//!
//! and with an outer fold, instead of the last line, `align::align` and `search.join` begin the next level, in which the chunks are
//! elements, until every row of the batch is one chunk. Its gradient, with tables of gradients beside those of nodes and pair
//! scores, and `width` places per row for the gradients of accumulated scores, begins with `blend_grad` of the roots and goes
//! through the steps of the record from the last to the first:
//!
//! ```text
//! scorer backwards from the gradients of step.fresh    scatter_add to the nodes (with Compose::Every the cell, too)
//! blend_grad of step.blends                            adds to the nodes, gives the gradients of the shares
//! cell backwards from the gradients of step.merges     scatter_add to the nodes
//! record.score_grad                                    to the scores before the step, and to the pairs; at the start of
//!                                                      a level join_grad instead, to the scores of the level before
//! ```
//!
//! - **Node table.** Leaves first, then what was composed, in the order of the lists. A beam is a list of indices into it, so
//!   a survivor copies `size` integers and no vector.
//! - **Pair scores.** A table like that of the nodes, with an entry per pair of neighbours that was ever seen; a beam holds
//!   the index of each of its pairs. After a merge only the pairs beside it are new. Equal neighbours in two beams of a row
//!   are one entry.
//! - **Sharing.** Beams of a row are alike in most places and soon merge what another one merged before. With
//!   [`SearchRules::share`] that is the same node; without, each beam composes for itself, as it must where the cell draws random
//!   numbers.
//! - **Levels.** Chunks of an outer fold are rows of a search. [`align`] picks which roots stand in which slot, and
//!   [`Search::join`] begins the next level with lists into the same node table; nothing is copied.
//! - **Rows of any length.** A row that has one node left takes no part in further steps; a row with two merges them
//!   unscored. All beams of a row that exist are alive: no mask, no flag, no padding.
//! - **Differentiation.** A [`SearchRecord`] keeps, step by step, lists and the logarithms of the sums of the softmaxes, and no
//!   vector. Chosen indices are constants.
//! - **Random numbers** are keyed by row, step, beam and pair: no row's draws depend on another row.
//!
//! Accumulated scores are double precision whatever the numbers of the nodes are: a sum of a thousand logarithms loses
//! three digits.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

pub mod align;
mod choose;
pub mod marginal;
pub mod nodes;
mod noise;
mod pairs;
mod record;
mod search;
mod soft;
mod step;

pub use choose::{Candidate, log_sum_exp, top_k};
pub use noise::{Noise, NoiseSite, NoiseTarget};
pub use pairs::Pairs;
pub use record::{SearchRecord, SearchStep};
pub use search::{Compose, Overflow, Search, SearchRules};
pub use soft::{BlendTerm, Blends, TermRole};
