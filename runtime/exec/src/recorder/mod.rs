//! The recorders: a file each, which the loops know nothing of.

mod halting;
mod states;

use rtc_compiler::ir::types::{Dim, Type};

use crate::rows::BatchView;

pub use halting::{HaltingRecorder, HaltingTrace, UnitHalting};
pub use states::{Owners, StateRecorder, StateTrace};

/// The positions of a row that a state holds: where they begin in the whole row, and how many they are.
fn span(state: &Type, view: &BatchView, row: usize) -> (usize, usize) {
    match (state.ragged(), state.dims().get(1)) {
        (Some(axis), _) => {
            let axis = view.axis(axis);
            (axis.origin[row], axis.len(row))
        }
        (None, Some(Dim::Fixed(slots))) => (0, *slots),
        _ => (0, 1),
    }
}
