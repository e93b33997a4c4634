//! Layer norm as a layer of its own.

use super::Slot;
use crate::define;
use crate::schema::{Field, word};

/// The keyword and its only form: the word of equations, on the state.
pub(super) fn slot() -> Slot {
    Slot::new("norm", "A norm as a layer of its own.", vec![define::norm()])
}

/// Where the norm of a layer with a residual connection stands.
pub(super) const PLACE: Field = word(
    "norm",
    &["pre", "post"],
    "pre",
    "`pre`: `x + f(norm x)`; `post`: `norm(x + f(x))`, as in the original Transformer",
);
