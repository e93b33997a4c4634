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
mod stream;
mod symbols;
mod text;
mod tokens;
mod world;

use std::io;
use std::sync::mpsc::channel;
use std::thread;

pub use hints::Numbers;
pub use world::LoaderOf;

use server::Server;

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
/// The input is no stream of messages, or can't be read.
pub fn serve(host: &Host) -> io::Result<bool> {
    let (sender, messages) = channel();
    thread::Builder::new().name("rtc input".to_owned()).spawn(move || {
        let mut input = io::stdin().lock();
        while let Some(read) = stream::read(&mut input).transpose() {
            let is_last = read.is_err();
            if sender.send(read).is_err() || is_last {
                break;
            }
        }
    })?;
    let mut server = Server::new(host, Box::new(|message| stream::write(&mut io::stdout().lock(), &message)));
    loop {
        let next = messages.try_recv().or_else(|_| {
            // Reports wait until nothing else does: every letter of a quick hand would be checked.
            server.publish();
            messages.recv()
        });
        let Ok(read) = next else { return Ok(server.ended_well(false)) };
        if server.take(read?) {
            return Ok(server.ended_well(true));
        }
    }
}
