//! The inputs of a target: its seeds, and what is made of them. Every input is a pure function of its number and the seeds.

use std::fs;
use std::path::{Path, PathBuf};

use rtc_base::rng::{Draws, Key};

/// The most bytes of an input that is made of seeds.
pub const LONGEST: usize = 1 << 16;

/// What is inserted: what formats are written with, and what commonly goes wrong at their edges.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b"\0",
    b"\"",
    b"\"\"",
    b"'",
    b"`",
    b"\\",
    b"\\x",
    b"\\u0000",
    b"\\ud800",
    b",",
    b":",
    b": ",
    b";",
    b"=",
    b"#",
    b"- ",
    b"* ",
    b"*a",
    b"&a ",
    b"<<: *a",
    b"? ",
    b"|",
    b"|||",
    b">",
    b"!!",
    b"%",
    b"@",
    b"~",
    b"(",
    b")",
    b"[",
    b"]",
    b"{",
    b"}",
    b"[]",
    b"{}",
    b"((((((((((((((((",
    b"[[[[[[[[[[[[[[[[",
    b"{{{{{{{{{{{{{{{{",
    b"{\"a\":{\"a\":{\"a\":",
    b"null",
    b"true",
    b"false",
    b"none",
    b"nan",
    b"NaN",
    b".inf",
    b"-inf",
    b"Infinity",
    b"\xEF\xBB\xBF",
    b"\xC3\xA9",
    b"\xF0\x9F\x99\x82",
    b"\xE2\x80\xA8",
    b"\xC3",
    b"\xFF",
    b"\xFF\xFF\xFF\xFF",
    b"\xFF\xFF\xFF\x7F",
    b"\x00\x00\x00\x80",
    b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
    b"\x1F\x8B",
    b"\x28\xB5\x2F\xFD",
    b"PK\x03\x04",
    b"PAR1",
    b"\x80\x02",
    b"../",
    b"\n=== ",
];

/// What numbers become.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "0.5",
    "-0.0",
    "1e-320",
    "1e308",
    "1e309",
    "1e99999",
    "00",
    "0x10",
];

/// The seeds of a target.
#[derive(Clone, Debug)]
pub struct Corpus {
    name: String,
    seeds: Vec<(String, Vec<u8>)>,
}

impl Corpus {
    /// The folder of a target's seeds.
    pub fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
    }

    /// Reads the seeds of a target, in the order of their names.
    ///
    /// # Panics
    /// When there are none.
    pub fn read(name: &str) -> Self {
        let folder = Self::folder(name);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let seed = |entry: fs::DirEntry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        };
        let mut seeds: Vec<(String, Vec<u8>)> = entries.map(|entry| seed(entry.expect("readable"))).collect();
        seeds.sort();
        assert!(!seeds.is_empty(), "{}: there are no seeds", folder.display());
        Self { name: name.to_owned(), seeds }
    }

    /// Number of seeds, which are the first inputs.
    pub fn len(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.seeds.is_empty()
    }

    /// What an input is called.
    pub fn title(&self, number: u64) -> String {
        match self.seeds.get(number as usize) {
            Some((file, _)) => format!("{}/{file}", self.name),
            None => format!("{} {number}", self.name),
        }
    }

    /// The input of a number.
    pub fn input(&self, number: u64) -> Vec<u8> {
        if let Some((_, seed)) = self.seeds.get(number as usize) {
            return seed.clone();
        }
        let draws = &mut Key::new(7).stream("fuzz").stream(&self.name).at(number).draws();
        let mut bytes = self.pick(draws).to_vec();
        for _ in 0..=draws.below(5) {
            self.change(&mut bytes, draws);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn pick(&self, draws: &mut Draws) -> &[u8] {
        &self.seeds[draws.below(self.seeds.len() as u64) as usize].1
    }

    /// Makes one change.
    fn change(&self, bytes: &mut Vec<u8>, draws: &mut Draws) {
        let (from, to) = part(bytes, draws);
        match draws.below(13) {
            0 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << draws.below(8);
                }
            }
            1 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte = draws.below(256) as u8;
                }
            }
            2 => drop(bytes.drain(from..to)),
            3 => bytes.truncate(from),
            4 => {
                let times = 1 << draws.below(10);
                let block = bytes[from..to].repeat(times.min(LONGEST / (to - from).max(1)));
                bytes.splice(from..from, block);
            }
            5 => drop(bytes.splice(from..from, piece(draws).iter().copied())),
            6 => drop(bytes.splice(from..to, piece(draws).iter().copied())),
            7 => {
                let other = self.pick(draws);
                let (start, end) = part(other, draws);
                bytes.splice(from..from, other[start..end].iter().copied());
            }
            8 => {
                let other = self.pick(draws);
                let (start, _) = part(other, draws);
                bytes.splice(from.., other[start..].iter().copied());
            }
            9 | 10 => number(bytes, from, draws),
            11 => lines(bytes, from, draws),
            _ => word(bytes, from, draws),
        }
    }
}

fn piece(draws: &mut Draws) -> &'static [u8] {
    PIECES[draws.below(PIECES.len() as u64) as usize]
}

/// A part of some bytes, mostly a short one.
fn part(bytes: &[u8], draws: &mut Draws) -> (usize, usize) {
    let from = draws.below(bytes.len() as u64 + 1) as usize;
    let most = if draws.below(8) == 0 { bytes.len() as u64 + 1 } else { 12 };
    (from, (from + draws.below(most) as usize).min(bytes.len()))
}

/// The run of bytes of one kind around a place.
fn run(bytes: &[u8], at: usize, of: fn(&u8) -> bool) -> (usize, usize) {
    let from = bytes[..at].iter().rposition(|byte| !of(byte)).map_or(0, |n| n + 1);
    let to = bytes[at..].iter().position(|byte| !of(byte)).map_or(bytes.len(), |n| at + n);
    (from, to)
}

/// Writes another number over the next one.
fn number(bytes: &mut Vec<u8>, from: usize, draws: &mut Draws) {
    let Some(at) = bytes[from..].iter().position(u8::is_ascii_digit) else { return };
    let (start, end) = run(bytes, from + at, u8::is_ascii_digit);
    let number = NUMBERS[draws.below(NUMBERS.len() as u64) as usize];
    bytes.splice(start..end, number.bytes());
}

/// Writes another word of the same text over the one of a place.
fn word(bytes: &mut Vec<u8>, from: usize, draws: &mut Draws) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (start, end) = run(bytes, from, is_word);
    let (other, last) = run(bytes, draws.below(bytes.len() as u64 + 1) as usize, is_word);
    let other = bytes[other..last].to_vec();
    bytes.splice(start..end, other);
}

/// Doubles the line of a place, or swaps it with another.
fn lines(bytes: &mut Vec<u8>, from: usize, draws: &mut Draws) {
    let n = bytes[..from].iter().filter(|byte| **byte == b'\n').count();
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    match draws.below(2) {
        0 => lines.insert(n, lines[n].clone()),
        _ => {
            let other = draws.below(lines.len() as u64) as usize;
            lines.swap(n, other);
        }
    }
    *bytes = lines.join(&b'\n');
}
