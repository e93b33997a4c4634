//! Tasks and data through their public functions.

mod flip_flop;
mod formal;
mod listops;
mod logic;
mod lra;
mod own;
mod own_masked;
mod own_sequences;
mod published;
mod random_tables;
mod sudoku;

use std::collections::BTreeMap;

use rtc_task::OptionValue;

/// Options of a task as an experiment gives them.
fn given(options: &[(&str, u64)]) -> BTreeMap<String, OptionValue> {
    options.iter().map(|(name, value)| (name.to_string(), OptionValue::Integer(*value))).collect()
}
