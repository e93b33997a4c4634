//! The language server.
mod text; mod tokens; pub mod grammar;
