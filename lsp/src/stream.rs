//! Messages on standard input and output.

use std::io::{self, BufRead, ErrorKind, Read, Write};

use lsp_server::{ErrorCode, Message};
use serde_json::json;

/// The longest message that is read, in bytes; the largest spec has a hundredth of it.
const MOST: usize = 64 << 20;
/// The longest header, in bytes.
const HEADER: u64 = 4000;
/// How much of a message is said again, in characters.
const SHOWN: usize = 200;

/// What was read: a message, or why it is none.
pub(crate) type Received = Result<Message, String>;

/// Reads a message; nothing at the end of the input.
///
/// # Errors
/// The header is none, so nothing behind it can be read; or reading failed.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<Received>> {
    let wrong = |why: &str| io::Error::new(ErrorKind::InvalidData, why.to_owned());
    let (mut header, mut lines) = (String::new(), input.by_ref().take(HEADER));
    loop {
        let start = header.len();
        if lines.read_line(&mut header)? == 0 {
            return if header.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
        }
        match &header[start..] {
            "\r\n" => break,
            line if line.ends_with("\r\n") && line.contains(": ") => {}
            _ => return Err(wrong("a line of a header is `Name: value`")),
        }
    }
    let mut fields = header.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("Content-Length"));
    let length = length.and_then(|(_, length)| length.parse::<usize>().ok()).filter(|length| *length <= MOST);
    let length = length.ok_or_else(|| wrong("a header has a Content-Length of at most 64 MiB"))?;
    match Message::read(&mut header.as_bytes().chain(input.take(length as u64))) {
        Ok(message) => Ok(message.map(Ok)),
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Some(Err(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// Writes a message, or the answer to what is none. An editor that has left reads nothing; its input ends, too.
pub(crate) fn write(output: &mut impl Write, message: &Received) {
    let written = match message {
        Ok(message) => message.write(output),
        Err(why) => {
            let why: String = why.chars().take(SHOWN).collect();
            let error = json!({ "code": ErrorCode::ParseError as i32, "message": why });
            let text = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
            write!(output, "Content-Length: {}\r\n\r\n{text}", text.len()).and_then(|()| output.flush())
        }
    };
    drop(written);
}
