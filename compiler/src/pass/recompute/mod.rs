//! Recomputation: a forward value that only the backward run still needs is computed again there instead of being kept.
//!
//! A loop keeps a value of every step on its tape; the outermost region keeps one from the forward run until its last
//! backward reader. Where its producer can run again on values that are kept anyway, the producer is cloned in front of
//! the first backward reader, and the value dies early. The clone is the same op on the same operands, and a random op
//! draws the same numbers again, because a draw depends on its stream and on the loop counters, which the backward run of
//! a step has too. So every number stays the same, to the bit.
//!
//! - [`run`], the pass, recomputes what is nearly free for the memory that it saves: activations, norms, dropout, moves of
//!   data. Products, attention and rotations stay.
//! - [`RecomputeChoice`] goes on from there, one value after the other, for a caller who wants less memory and pays with time.
//!
//! The pass runs once, after the others: `cse` would merge the clones of the outermost region with their originals.

mod choice;
mod frames;
mod rewrite;

use crate::ir::graph::Graph;

pub use choice::{Move, RecomputeChoice};

/// Recomputes what is nearly free. True when something was.
pub fn run(graph: &mut Graph) -> bool {
    match RecomputeChoice::of_pass(graph).rewritten() {
        Some(rewritten) => {
            *graph = rewritten;
            true
        }
        None => false,
    }
}
