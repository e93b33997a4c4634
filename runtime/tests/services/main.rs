//! The parts of the runtime that know nothing of graphs or kernels, tested through their public functions.

mod checkpoints;
mod disks;
mod experiments;
mod extends;
mod flip_flop;
mod formal;
mod generation;
mod grids;
mod listops;
mod logic;
mod lra;
mod mock;
mod own;
mod power;
mod published;
mod ranks;
mod records;
mod sudoku;
mod training;
mod weights;

use std::collections::BTreeMap;

use rtc_runtime::task::OptionValue;

/// Options of a task as an experiment gives them.
fn given(options: &[(&str, u64)]) -> BTreeMap<String, OptionValue> {
    options.iter().map(|(name, value)| (name.to_string(), OptionValue::Integer(*value))).collect()
}
