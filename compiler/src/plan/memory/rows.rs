//! What the executor keeps besides values: handles, the rows of a turn, where they lie on every axis, and the steps of a tape. Each
//! is a block of its own, so that small turns are made of them for a good part.

use super::loops::EqualSteps;
use super::pool::{ByteAmount, filled};
use super::walk::{BatchSizes, MemoryWalk};
use crate::ir::attribute::{self, Chunking};
use crate::ir::formula::Formula;
use crate::ir::graph::Node;
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::schedule::Axes;
use crate::ir::types::{BATCH, Dim, Type, unframed};

/// Bytes, as the runtime keeps them in `exec`; `tests/tests/it/memory.rs` compares. A counted handle to numbers or to a list:
pub(super) const HANDLE: u64 = 64;
/// A counted handle to an axis.
const AXIS: u64 = 128;
/// An axis among those of some rows.
const NAMED: u64 = 24;
/// The index of a row, or a place in it.
const INDEX: u64 = 8;
/// A saved value in the list of a step, and a step in the list of its tape.
const SAVED: u64 = 16;
const STEP: u64 = 128;
/// A tape without its steps.
const TAPE: u64 = 128;

/// The view of a turn on the rows that entered its loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnView<'a> {
    /// Whether it has rows of its own: some of them, or chunks that are rows.
    own: bool,
    /// Whether it has chunks of the rows.
    cut: bool,
    /// The axis of chosen positions, each of which has its place listed.
    chosen: Option<&'a str>,
}

impl<'a> TurnView<'a> {
    /// How the turns of a group of a loop see the rows of `env`.
    pub(super) fn of(node: &'a Node, group: &EqualSteps, env: &BatchSizes) -> Self {
        let chosen = node.get(attribute::CUT) == Chunking::Chosen;
        let own = node.op == Op::Fold || chosen || group.rows.len() < env.rows;
        let axis = Axes::of(node).chunk;
        Self { own, cut: !axis.is_empty(), chosen: Some(axis).filter(|_| chosen) }
    }
}

impl MemoryWalk<'_> {
    /// Bytes of what is kept of a turn that saves so many values.
    pub(super) fn turn(&self, here: &BatchSizes, env: &BatchSizes, seen: TurnView<'_>, saves: usize) -> ByteAmount {
        let (axes, before) = (self.axes(here), self.axes(env));
        // Axes that are new here; the others are shared with the rows that entered.
        let new = if seen.own { axes } else { axes.saturating_sub(before) };
        // The ids of its rows, and which of those that entered they are; then where each chunk starts.
        let (own, starts) = (2 * u64::from(seen.own), u64::from(seen.cut));
        let once = new * AXIS + own * HANDLE + filled(axes * NAMED) + filled(saves as u64 * SAVED) + STEP;
        // Of an axis where each row starts, with the end of the last one, and its place in the whole row; and of one of chosen positions of
        // how many they were chosen.
        let lists = 2 * new + own + starts + u64::from(seen.chosen.is_some());
        let list = |rows: u64| filled(rows.saturating_mul(INDEX));
        let rows = here.rows as u64;
        let number = (list(rows + 1).saturating_mul(new)).saturating_add(list(rows).saturating_mul(lists - new));
        let formula = here.symbols.as_ref().map(|sizes| {
            let rows = sizes.dim(&Dim::sym(BATCH)).times(&Formula::of((INDEX * lists) as f64));
            rows.plus(&Formula::of((once + INDEX * new) as f64))
        });
        let turn = ByteAmount { number: number.saturating_add(once), formula };
        // Of every chosen position its place in what is cut, and in the row.
        let places = seen.chosen.map(|axis| {
            let indices = Type::real([Dim::sym(BATCH), Dim::sym(axis), Dim::Fixed((2 * INDEX / 4) as usize)]);
            here.numbers(&indices)
        });
        places.map_or(turn.clone(), |places| turn.plus(&places.times(&ByteAmount::of(4, true))))
    }

    /// Bytes of what is kept of a part of a search that saves so many values: a tape of one step.
    pub(super) fn part_tape(&self, env: &BatchSizes, saves: usize) -> ByteAmount {
        self.turn(env, env, TurnView { own: false, cut: false, chosen: None }, saves)
            .plus(&ByteAmount::of(TAPE, env.symbols.is_some()))
    }

    /// The same of a turn of a search over these pairs: the parts of it that do not run leave tapes without steps.
    pub(super) fn pairs(&self, pairs: &BatchSizes, env: &BatchSizes, parts: usize) -> ByteAmount {
        let empty = ByteAmount::of(TAPE * (parts as u64).saturating_sub(1), env.symbols.is_some());
        self.turn(pairs, env, TurnView { own: true, cut: true, chosen: None }, parts).plus(&empty)
    }

    /// How many axes the executor keeps for these rows: those with STARTs and ENDs around them are axes, too.
    fn axes(&self, env: &BatchSizes) -> u64 {
        let framed = |name: &str| self.framed.iter().filter(|framed| unframed(framed).0 == name).count();
        env.names().map(|name| 1 + framed(name) as u64).sum()
    }
}
