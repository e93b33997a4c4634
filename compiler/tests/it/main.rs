//! The graph and its verifier, and settings.

mod ir;
mod settings;
