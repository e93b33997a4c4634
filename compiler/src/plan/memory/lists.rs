//! What a beam search keeps beside its values: lists of nodes and pairs while it runs, and, where it will run backwards, a
//! record of all its choices, which holds `b n^2 / 2` indices for `b` beams over `n` nodes.
//!
//! These lists lie outside of the arena, and are kept from one search to the next. What follows is an upper bound: beams that
//! are alike share pairs, and a beam of which nothing is taken leaves no list.

use std::collections::BTreeMap;

use crate::ir::schedule::beam::{BeamRules, Count, Stretch, live_after};

/// Bytes of the entries, as the runtime keeps them in `kernel/beam`; `tests/tests/it/memory.rs` compares.
const INDEX: u64 = 4;
const SCORE: u64 = 8;
const PAIR: u64 = 2 * INDEX;
const KNOWN_PAIR: u64 = 16;
const CANDIDATE: u64 = 40;
/// A row of a search: its place, its choice, its part of further lists.
const ROW: u64 = 128;
/// A row in a recorded step, and the step.
const ROW_STEP: u64 = 88;
const STEP: u64 = 80;
/// A beam before a recorded step.
const BEAM: u64 = 16;
/// A mean of nodes, and a node in it: of every beam the joined one, the old one and the next.
const MEAN: u64 = 12;
const TERM: u64 = 24;

/// Bytes of the lists of a search over rows of these lengths; `recorded` for one that will run backwards.
pub(super) fn bytes(beams: &BeamRules, lengths: &[usize], recorded: bool) -> u64 {
    let mut rows: BTreeMap<usize, u64> = BTreeMap::new();
    for length in lengths {
        *rows.entry(*length).or_default() += 1;
    }
    let each = rows.iter().map(|(length, count)| {
        let record = if recorded { record(beams, *length) } else { 0 };
        count.saturating_mul(running(beams, *length).saturating_add(record))
    });
    let all = each.fold(0, u64::saturating_add);
    // Rows take their steps together.
    let steps = lengths.iter().max().map_or(0.0, |longest| beams.count(*longest, Count::Steps));
    if recorded { all.saturating_add(STEP * steps as u64) } else { all }
}

/// What a row takes while it is searched: most in its first level.
fn running(beams: &BeamRules, length: usize) -> u64 {
    let (width, nodes) = (beams.size as u64, length as u64);
    let chunks = length.div_ceil(beams.cut.width(length).max(1)) as u64;
    let count = |what: Count| beams.count(length, what).ceil() as u64;
    // Nodes and pairs of every beam, before and after a step.
    let lists = 4 * INDEX * width * nodes;
    let choices = chunks * (ROW + width * (3 * SCORE + 3 * INDEX) + width * width * CANDIDATE);
    let known = KNOWN_PAIR * count(Count::Scored) + INDEX * (nodes + count(Count::Made));
    lists + choices + known + PAIR * nodes
}

/// What is recorded of a row.
fn record(beams: &BeamRules, length: usize) -> u64 {
    let count = |what: Count| beams.count(length, what).ceil() as u64;
    let pairs = PAIR * (count(Count::Scored) + if beams.every { 0 } else { count(Count::Joined) });
    let chunks = beams.chunks(length).map(|(n, nodes, live)| (n as u64).saturating_mul(chunk(beams, nodes, live)));
    chunks.fold(pairs, u64::saturating_add)
}

/// What is recorded of a chunk that begins with `live` beams.
fn chunk(beams: &BeamRules, nodes: usize, live: usize) -> u64 {
    let mut sum: u128 = 0;
    for stretch in beams.stretches(nodes, live) {
        let Stretch { high, low, live: before } = stretch;
        // Bytes go along with the nodes, so that the first and the last step give the mean.
        let ends = u128::from(step(beams, high, before)) + u128::from(step(beams, low, before));
        sum += ends * stretch.steps() as u128 / 2;
    }
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// What is recorded of a step with so many nodes and beams before it.
fn step(beams: &BeamRules, size: usize, live: usize) -> u64 {
    let before = live as u64;
    let mixes = beams.mixes(live, size);
    let taken = if mixes { live * beams.size.min(size - 1) } else { live_after(live, size, beams.size) };
    let nodes = (size - 1) as u64;
    let kept = if size > 2 { INDEX * before * nodes } else { 0 };
    let mixed = if mixes { (MEAN + 3 * before * TERM) * nodes } else { 0 };
    ROW_STEP + BEAM * before + CANDIDATE * taken as u64 + kept + mixed
}
