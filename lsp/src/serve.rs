//! Conversations: with an editor on standard input and output, and with one whose input is all there.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::thread;

use crate::server::{self, Host, Server};
use crate::stream;

/// The names of the requests that are answered.
pub fn requests() -> impl Iterator<Item = &'static str> {
    server::REQUESTS.iter().map(|(name, _)| *name)
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

/// Serves a conversation whose input is all there; what is answered, and how it ended.
pub fn converse(host: &Host, mut input: &[u8]) -> (Vec<u8>, io::Result<bool>) {
    let output: Rc<RefCell<Vec<u8>>> = Rc::default();
    let answers = output.clone();
    let mut server = Server::new(host, Box::new(move |message| stream::write(&mut *answers.borrow_mut(), &message)));
    let ended = loop {
        match stream::read(&mut input) {
            Err(error) => break Err(error),
            Ok(None) => break Ok(server.ended_well(false)),
            Ok(Some(read)) => {
                if server.take(read) {
                    break Ok(server.ended_well(true));
                }
                server.publish();
            }
        }
    };
    (output.take(), ended)
}
