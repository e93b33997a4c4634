//! The limits of what is read. docs/limits.md has them beside those of the other crates.

/// The most bytes of a file of text that is read: a spec, an experiment, a graph.
pub const FILE: u64 = 1 << 24;
