//! The language server of rtc (`rtc lsp`): what the compiler knows of a spec, for editors.
//!
//! Messages come one after the other and are answered one after the other, by the thread that serves. Nothing is a table of its
//! own: words come from the grammar and from the tables of the compiler, names from the tree of its parser.

#[cfg(feature = "server")]
mod complete;
#[cfg(feature = "server")]
mod edits;
pub mod grammar;
#[cfg(feature = "server")]
pub mod highlight;
#[cfg(feature = "server")]
mod hints;
#[cfg(feature = "server")]
mod hover;
#[cfg(feature = "server")]
mod inside;
#[cfg(feature = "server")]
mod names;
pub mod paths;
#[cfg(feature = "server")]
mod rename;
#[cfg(feature = "server")]
mod report;
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod stream;
#[cfg(feature = "server")]
mod symbols;
#[cfg(feature = "server")]
mod text;
#[cfg(feature = "server")]
mod tokens;
#[cfg(feature = "server")]
mod world;

#[cfg(feature = "server")]
pub use hints::NumberCounter;
#[cfg(feature = "server")]
pub use serve::{converse, requests, serve};
#[cfg(feature = "server")]
pub use server::Host;
#[cfg(feature = "server")]
pub use world::LoaderOf;
