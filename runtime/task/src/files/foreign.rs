//! Files that are no tables or texts which a task reads: told by the ending of the name or by the first bytes, with what to do.

/// A kind of file of another program.
struct Foreign {
    /// Endings of its names, in lower case.
    endings: &'static [&'static str],
    /// Its first bytes, each kind's own; no text begins so.
    starts: &'static [&'static [u8]],
    /// The sentence that names the kind and the cure.
    cure: &'static str,
}

const FOREIGN: &[Foreign] = &[
    Foreign {
        endings: &["xlsx", "xls", "xlsm", "ods"],
        starts: &[b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"],
        cure: "a workbook has sheets and formulas: save the sheet as CSV (UTF-8)",
    },
    Foreign {
        endings: &["zip", "tar", "tgz", "7z", "rar"],
        starts: &[b"PK\x03\x04", b"7z\xBC\xAF\x27\x1C", b"Rar!\x1A\x07"],
        cure: "an archive may hold several files: unpack it, and name a file that was in it; a workbook is saved as CSV (UTF-8)",
    },
    Foreign {
        endings: &["bz2", "xz", "lz4"],
        starts: &[b"BZh91AY&SY", b"\xFD7zXZ\0", b"\x04\x22\x4D\x18"],
        cure: "this packing is not read: unpack the file, or pack it by gzip (.gz) or Zstandard (.zst)",
    },
    Foreign {
        endings: &[],
        starts: &[b"\x1F\x8B\x08"],
        cure: "its bytes are packed by gzip, and its name does not end in .gz: add that to it",
    },
    Foreign {
        endings: &[],
        starts: &[b"\x28\xB5\x2F\xFD"],
        cure: "its bytes are packed by Zstandard, and its name does not end in .zst: add that to it",
    },
    Foreign {
        endings: &[],
        starts: &[b"PAR1\x15"],
        cure: "its bytes are Apache Parquet: name it .parquet, or say `format: parquet`",
    },
    Foreign {
        endings: &["feather", "arrow", "ipc"],
        starts: &[b"ARROW1\0\0"],
        cure: "a file of Apache Arrow: write it as Parquet, as `pandas.read_feather(file).to_parquet(\"rows.parquet\")` does",
    },
    Foreign {
        endings: &["pkl", "pickle"],
        starts: &[b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"],
        cure: "a pickle runs code where it is read: write it as Parquet, as `pandas.read_pickle(file).to_parquet(\"rows.parquet\")` does",
    },
    Foreign {
        endings: &["npy", "npz"],
        starts: &[b"\x93NUMPY"],
        cure: "an array of NumPy has no names of columns: write it as Parquet, as `pandas.DataFrame(array, columns=names)\
               .to_parquet(\"rows.parquet\")` does",
    },
    Foreign {
        endings: &["h5", "hdf5", "hdf", "mat"],
        starts: &[b"\x89HDF\r\n\x1A\n"],
        cure: "a file of HDF5 or MATLAB holds several arrays: write the rows as Parquet, as `DataFrame.to_parquet` of pandas does",
    },
    Foreign {
        endings: &["db", "sqlite", "sqlite3"],
        starts: &[b"SQLite format 3\0"],
        cure: "a database of SQLite holds several tables: write the rows of one, as `sqlite3 -header -csv FILE 'select * from t' > t.csv` does",
    },
    Foreign {
        endings: &["pdf", "doc", "docx", "rtf", "epub"],
        starts: &[b"%PDF-"],
        cure: "a document has pages and fonts: save its text as .txt (UTF-8)",
    },
    Foreign {
        endings: &["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff"],
        starts: &[b"\x89PNG\r\n\x1A\n", b"\xFF\xD8\xFF", b"GIF87a", b"GIF89a"],
        cure: "a picture is no table: write its pixels as a list of numbers per row, as `{\"pixels\": [0, 255], \"label\": \"cat\"}` of JSON",
    },
];

/// The sentence about a file of another program by the ending of its name.
pub(super) fn by_ending(ending: &str) -> Option<&'static str> {
    FOREIGN.iter().find(|kind| kind.endings.contains(&ending)).map(|kind| kind.cure)
}

/// The sentence about a file that is opened as text, and whose first bytes are those of another program's file.
pub(super) fn by_bytes(start: &[u8]) -> Option<&'static str> {
    let begins = |kind: &&Foreign| kind.starts.iter().any(|bytes| start.starts_with(bytes));
    FOREIGN.iter().find(begins).map(|kind| kind.cure)
}

/// The sentence about bytes of UTF-16 without its mark: a zero beside each of the first characters.
pub(super) fn without_mark(start: &[u8]) -> Option<&'static str> {
    let pairs = || start.as_chunks::<2>().0.iter().take(16);
    let zero = |at: usize| pairs().count() == 16 && pairs().all(|pair| pair[at] == 0 && pair[1 - at] != 0);
    if zero(1) {
        Some(
            "every second byte is zero, as in UTF-16 without its mark: `encoding: utf-16le` (`--encoding utf-16le` of `rtc task check`) reads it",
        )
    } else if zero(0) {
        Some(
            "every second byte is zero, as in UTF-16 without its mark: `encoding: utf-16be` (`--encoding utf-16be` of `rtc task check`) reads it",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell_one_kind_and_no_text() {
        for kind in FOREIGN {
            for start in kind.starts {
                assert_eq!(by_bytes(&[start, &b" and more"[..]].concat()), Some(kind.cure));
                let others = FOREIGN.iter().flat_map(|other| other.starts).filter(|other| start.starts_with(other));
                assert_eq!(others.count(), 1, "{start:?} is told once");
            }
        }
        for text in ["text,label\n", "PAR1,x\n", "\u{80}\u{3}", "", "PK,label\n", "BZh9,x"] {
            assert_eq!(by_bytes(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn utf_16_without_its_mark_is_told() {
        let of = |text: &str, bytes: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(bytes).collect::<Vec<u8>>();
        let text = "review,verdict of it\nx,y\n";
        assert!(without_mark(&of(text, u16::to_le_bytes)).is_some_and(|why| why.contains("utf-16le")));
        assert!(without_mark(&of(text, u16::to_be_bytes)).is_some_and(|why| why.contains("utf-16be")));
        for start in [&b"\0"[..], b"a\0b\0", &[0; 64], text.as_bytes()] {
            assert_eq!(without_mark(start), None);
        }
    }
}
