//! The executor through its public functions: arena and updates.

mod arena;
mod updates;
