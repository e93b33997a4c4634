//! The language server of rtc (`rtc lsp`): what the compiler knows of a spec, for editors.
//!
//! Messages come one after the other and are answered one after the other, by the thread that serves. Nothing is a table of its
//! own: words come from the grammar and from the tables of the compiler, names from the tree of its parser.

mod complete;
mod edits;
pub mod grammar;
pub mod highlight;
mod hints;
mod hover;
mod inside;
mod names;
pub mod paths;
mod report;
mod server;
mod symbols;
mod text;
mod tokens;
mod world;

use std::io;
use std::panic::{self, AssertUnwindSafe};

use lsp_server::Connection;

pub use hints::Numbers;
pub use world::LoaderOf;

/// What the server takes from the program around it.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The files that a file on disk may use.
    pub loader: LoaderOf,
    /// How numbers of parameters are written.
    pub numbers: Numbers,
    /// The version of the program.
    pub version: &'static str,
}

/// Serves an editor on standard input and output until it leaves; whether it left as the protocol says.
///
/// # Errors
/// The input is no message of the protocol, or can't be read.
pub fn serve(host: &Host) -> io::Result<bool> {
    let (connection, threads) = Connection::stdio();
    let Connection { sender, receiver } = connection;
    let mut server = server::Server::new(host, Box::new(move |message| sender.send(message).is_ok()));
    let exited = loop {
        let waiting = receiver.try_recv().ok();
        let next = waiting.or_else(|| {
            // Reports wait until nothing else does: every letter of a quick hand would be checked.
            server.publish();
            receiver.recv().ok()
        });
        let Some(message) = next else { break false };
        if server.take(message) {
            break true;
        }
    };
    let well = server.ended_well(exited);
    drop(server);
    // A length that no memory has ends the thread that reads.
    let ended = panic::catch_unwind(AssertUnwindSafe(|| threads.join()));
    ended.unwrap_or_else(|_| Err(io::Error::other("a message is too long"))).map_err(short)?;
    Ok(well)
}

/// An error without the message that it is about, which may be of any length.
fn short(error: io::Error) -> io::Error {
    const MOST: usize = 200;
    let text = error.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => io::Error::new(error.kind(), format!("{} ..", &text[..end])),
        None => error,
    }
}
