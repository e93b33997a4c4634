//! Nodes and pairs of a search: which exist, and which a step makes.
//!
//! Source: Ray Chowdhury and Caragea 2023 (beam tree), arXiv:2305.19999, and (efficient beam tree), arXiv:2307.10779.

use std::ops::Range;

use super::search::{Compose, SearchRules};

/// Stands where a pair has no score, for it is never chosen among others.
pub(super) const UNSCORED: u32 = u32::MAX;

/// Pairs of nodes: two lists of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pairs<'a> {
    /// The left nodes.
    pub left: &'a [u32],
    /// The right nodes.
    pub right: &'a [u32],
}

/// Growing lists of pairs.
#[derive(Debug, Default)]
pub(super) struct PairTable {
    pub(super) left: Vec<u32>,
    pub(super) right: Vec<u32>,
}

impl PairTable {
    pub(super) fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
    }

    /// Bytes of both lists, as far as they are filled.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.left) + size_of_val(&*self.right)
    }

    fn push(&mut self, left: u32, right: u32) {
        self.left.push(left);
        self.right.push(right);
    }

    pub(super) fn view(&self) -> Pairs<'_> {
        self.part(0..self.left.len())
    }

    pub(super) fn part(&self, range: Range<usize>) -> Pairs<'_> {
        Pairs { left: &self.left[range.clone()], right: &self.right[range] }
    }

    /// Appends these; returns where they stand.
    pub(super) fn extend(&mut self, pairs: Pairs) -> Range<usize> {
        let start = self.left.len();
        self.left.extend(pairs.left);
        self.right.extend(pairs.right);
        start..self.left.len()
    }
}

/// Stands where there is no node or no further pair.
const NONE: u32 = u32::MAX;

/// A pair that exists.
#[derive(Clone, Copy, Debug)]
struct ExistingPair {
    left: u32,
    right: u32,
    /// The pair before it with the same younger node.
    older: u32,
    /// What it was composed to.
    parent: u32,
}

/// Numbers of nodes and pairs that exist, and the pairs that the last step made.
#[derive(Debug, Default)]
pub(super) struct PairCounts {
    rules: SearchRules,
    pub(super) nodes: u32,
    known: Vec<ExistingPair>,
    /// The last pair whose younger node is this one; nodes behind the end have none.
    newest: Vec<u32>,
    pub(super) fresh: PairTable,
    pub(super) merges: PairTable,
}

impl PairCounts {
    /// Begins with these nodes and no pair.
    pub(super) fn begin(&mut self, rules: SearchRules, nodes: usize) {
        self.rules = rules;
        self.nodes = nodes as u32;
        self.known.clear();
        self.newest.clear();
    }

    /// Bytes of the lists, as far as they are filled.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.known) + size_of_val(&*self.newest) + self.fresh.bytes() + self.merges.bytes()
    }

    /// Pairs so far.
    pub(super) fn pairs(&self) -> usize {
        self.known.len()
    }

    /// The node that a pair was composed to, with [`Compose::Every`].
    pub(super) fn parent(&self, pair: u32) -> u32 {
        self.known[pair as usize].parent
    }

    /// Whether pairs of a row with so many nodes are scored or composed before one is chosen.
    pub(super) fn wants_pairs(&self, size: usize) -> bool {
        size > if self.rules.compose == Compose::Every { 1 } else { 2 }
    }

    /// The number of a pair. A pair has few neighbours that are older than its younger node, so the search is short.
    pub(super) fn pair(&mut self, left: u32, right: u32) -> u32 {
        let young = left.max(right) as usize;
        if self.newest.len() <= young {
            self.newest.resize(young + 1, NONE);
        }
        let mut at = self.newest[young];
        while at != NONE {
            let known = self.known[at as usize];
            if (known.left, known.right) == (left, right) {
                return at;
            }
            at = known.older;
        }
        self.fresh.push(left, right);
        let mut parent = NONE;
        if self.rules.compose == Compose::Every {
            parent = self.nodes;
            self.nodes += 1;
        }
        let pair = self.known.len() as u32;
        self.known.push(ExistingPair { left, right, older: self.newest[young], parent });
        self.newest[young] = pair;
        pair
    }

    /// The node that a chosen pair becomes.
    pub(super) fn merge(&mut self, pair: u32, left: u32, right: u32) -> u32 {
        let known = self.known.get_mut(pair as usize);
        if let Some(known) = &known
            && known.parent != NONE
        {
            return known.parent;
        }
        self.merges.push(left, right);
        let node = self.nodes;
        self.nodes += 1;
        if let Some(known) = known
            && self.rules.share
        {
            known.parent = node;
        }
        node
    }
}
