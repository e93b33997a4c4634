//! Opens files of data: regular ones alone, and without waiting for another program.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, BufRead, BufReader};
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};
use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder;

use super::decoded::Decoded;
use super::foreign;
use super::listed::ListReader;
use super::records::BYTE_ORDER_MARK;
use crate::error::DataError;
use crate::reading::{broken, unreadable};

/// Opens a regular file to read. Links are followed.
///
/// # Errors
/// The system refuses, or the path leads to a folder, a pipe, a socket or a device.
pub(crate) fn regular(path: &Path) -> io::Result<File> {
    // Some devices act as soon as they are opened.
    refuse_others(path.metadata()?.file_type())?;
    let mut options = OpenOptions::new();
    options.read(true);
    // The path may lead to a pipe by now, whose opening waits for a writer.
    #[cfg(unix)]
    options.custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits() as i32);
    let file = options.open(path)?;
    refuse_others(file.metadata()?.file_type())?;
    Ok(file)
}

fn refuse_others(found: FileType) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    Err(io::Error::other(match kind(found) {
        FOLDER => "no regular file but a folder: name a file".to_owned(),
        kind => format!("no regular file but {kind}: copy its content into a file, and name that"),
    }))
}

const FOLDER: &str = "a folder";

fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        return FOLDER;
    }
    #[cfg(unix)]
    if found.is_fifo() {
        return "a pipe";
    } else if found.is_socket() {
        return "a socket";
    }
    "a device"
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType as Made, Mode, mknodat};

    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "text").expect("written");
        symlink("file", path("link")).expect("a link");
        mknodat(CWD, path("pipe"), Made::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let _listener = UnixListener::bind(path("socket")).expect("a socket");
        for name in ["file", "link"] {
            assert_eq!(io::read_to_string(regular(&path(name)).expect(name)).expect(name), "text");
        }
        let refused = [
            (path("pipe"), "a pipe: copy its content"),
            (path("socket"), "a socket: copy its content"),
            ("/dev/zero".into(), "a device: copy its content"),
            (path(""), "a folder: name a file"),
        ];
        for (path, expected) in refused {
            let error = regular(&path).expect_err("no file").to_string();
            assert!(error.contains("no regular file but ") && error.contains(expected), "{path:?}: {error}");
        }
        assert_eq!(regular(&path("none")).expect_err("not there").kind(), io::ErrorKind::NotFound);
    }
}

/// Bytes that are read of a file at once.
const BUFFER: usize = 1 << 17;

/// The bytes of a file, unpacked if its name ends in `.gz` or `.zst`.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead + Send>, DataError> {
    let file = BufReader::with_capacity(BUFFER, regular(path).map_err(|error| unreadable(path, error))?);
    Ok(match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file))),
        Some("zst") => {
            let decoder = Decoder::with_buffer(file).map_err(|error| unreadable(path, error))?;
            Box::new(BufReader::with_capacity(BUFFER, decoder))
        }
        _ => Box::new(file),
    })
}

/// As [`open`], as UTF-8: UTF-16 is told by its mark, and other encodings are named. A file of another program is told by its first bytes.
pub(crate) fn open_text(
    path: &Path,
    encoding: Option<&'static Encoding>,
) -> Result<Box<dyn BufRead + Send>, DataError> {
    let mut reader = open(path)?;
    let start = reader.fill_buf().map_err(|error| broken(path, 1, error.to_string()))?;
    if let Some(why) = foreign::by_bytes(start) {
        return Err(unreadable(path, why));
    }
    let encoding = marked(start).or(encoding);
    if let (Some(why), None) = (foreign::without_mark(start), encoding) {
        return Err(unreadable(path, why));
    }
    Ok(match encoding {
        Some(encoding) => Box::new(BufReader::new(Decoded::new(reader, encoding))),
        None => reader,
    })
}

/// As [`open_text`], with the items of a list as lines.
pub(super) fn open_objects(
    path: &Path,
    encoding: Option<&'static Encoding>,
) -> Result<Box<dyn BufRead + Send>, DataError> {
    let mut reader = open_text(path, encoding)?;
    let start = reader.fill_buf().map_err(|error| broken(path, 1, error.to_string()))?;
    Ok(if is_list(start) { Box::new(BufReader::new(ListReader::new(reader))) } else { reader })
}

/// The encoding that the mark at the start of a text says, if it is not UTF-8: no text in UTF-8 begins so.
pub(super) fn marked(start: &[u8]) -> Option<&'static Encoding> {
    match start {
        [0xFF, 0xFE, ..] => Some(UTF_16LE),
        [0xFE, 0xFF, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether a text of JSON begins as a list of objects.
pub(super) fn is_list(start: &[u8]) -> bool {
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
    start.strip_prefix(b"[").is_some_and(|rest| matches!(rest.trim_ascii_start(), [] | [b'{' | b']', ..]))
}
