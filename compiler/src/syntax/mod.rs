//! From text to tree and back: the only part of the compiler that knows how a spec is written.

pub mod ast;
mod habit;
mod message;
mod parse;
mod print;
mod scan;

pub(crate) use habit::word as habit;
pub use parse::{MAX_EXPR_TOKENS, MAX_FILE_BYTES, parse, parse_formula, parse_override};
pub use print::{definition, documentation, equation, expression, format, named};
pub use scan::MAX_NESTING;
