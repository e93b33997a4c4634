//! A map from pieces of texts. Most pieces are short, and a short one is its own key: it is found without a look at another place in
//! memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

use foldhash::fast::RandomState;

/// The most bytes of a short piece.
const SHORT: usize = 15;

/// A map from pieces of texts.
#[derive(Clone, Debug)]
pub(super) struct PieceMap<V> {
    short: HashMap<u128, V, RandomState>,
    long: HashMap<String, V, RandomState>,
}

impl<V> Default for PieceMap<V> {
    fn default() -> Self {
        Self { short: HashMap::default(), long: HashMap::default() }
    }
}

/// A short piece as a number, with its length in the last byte; nothing for a long one.
fn packed(piece: &str) -> Option<u128> {
    let (bytes, length) = (piece.as_bytes(), piece.len());
    // Two numbers that share the bytes in the middle.
    let number = match length {
        0 => 0,
        1..=3 => bytes.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte)),
        4..=7 => {
            let [first, last] =
                [bytes.first_chunk()?, bytes.last_chunk()?].map(|half| u128::from(u32::from_le_bytes(*half)));
            first | last << (8 * (length - 4))
        }
        8..=SHORT => {
            let [first, last] =
                [bytes.first_chunk()?, bytes.last_chunk()?].map(|half| u128::from(u64::from_le_bytes(*half)));
            first | last << (8 * (length - 8))
        }
        _ => return None,
    };
    Some(number | (length as u128) << (8 * SHORT))
}

/// The piece that was packed.
fn unpacked(key: u128) -> String {
    let bytes = key.to_le_bytes();
    str::from_utf8(&bytes[..usize::from(bytes[SHORT])]).expect("a piece was packed").to_owned()
}

impl<V: Copy> PieceMap<V> {
    /// Number of pieces.
    pub(super) fn len(&self) -> usize {
        self.short.len() + self.long.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a piece.
    pub(super) fn get(&self, piece: &str) -> Option<V> {
        match packed(piece) {
            Some(key) => self.short.get(&key).copied(),
            None => self.long.get(piece).copied(),
        }
    }

    /// The value of a piece, which is `first` if it has none.
    pub(super) fn get_or_insert(&mut self, piece: &str, first: V) -> &mut V {
        match packed(piece) {
            Some(key) => self.short.entry(key).or_insert(first),
            None => {
                if !self.long.contains_key(piece) {
                    self.long.insert(piece.to_owned(), first);
                }
                self.long.get_mut(piece).expect("it was inserted")
            }
        }
    }

    /// Adds the values of another map to those of this one.
    pub(super) fn merge(&mut self, mut other: Self, add: impl Fn(&mut V, V)) {
        if self.len() < other.len() {
            mem::swap(self, &mut other);
        }
        merge(&mut self.short, other.short, &add);
        merge(&mut self.long, other.long, &add);
    }

    /// The pieces with their values, in any order.
    pub(super) fn into_pieces(self) -> impl Iterator<Item = (String, V)> {
        self.short.into_iter().map(|(key, value)| (unpacked(key), value)).chain(self.long)
    }
}

/// Adds the values of a map to those of another.
fn merge<K: Eq + Hash, V: Copy>(
    all: &mut HashMap<K, V, RandomState>,
    other: HashMap<K, V, RandomState>,
    add: &impl Fn(&mut V, V),
) {
    other.into_iter().for_each(|(key, value)| {
        all.entry(key).and_modify(|all| add(all, value)).or_insert(value);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_pieces_are_found() {
        for length in 0..20 {
            let piece = &"abcdefghijklmnopqrst"[..length];
            assert_eq!(packed(piece).map(unpacked).as_deref(), Some(piece).filter(|_| length <= SHORT));
        }
        let pieces = ["", "a", "a\0", "\0", "fifteen bytes !", "sixteen bytes !!", "é", "日本日本日", "日本日本日本"];
        let mut map = PieceMap::default();
        for (n, piece) in pieces.iter().enumerate() {
            assert_eq!(map.get(piece), None, "{piece}");
            *map.get_or_insert(piece, 0) += n;
        }
        assert!(pieces.iter().enumerate().all(|(n, piece)| map.get(piece) == Some(n)));
        let mut other = PieceMap::default();
        other.get_or_insert("a", 7);
        other.merge(map, |all, own| *all += own);
        assert_eq!((other.len(), other.get("a")), (pieces.len(), Some(8)));
        let mut found: Vec<String> = other.into_pieces().map(|(piece, _)| piece).collect();
        found.sort();
        let mut expected = pieces.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected);
    }
}
