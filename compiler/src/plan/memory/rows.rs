//! What the executor keeps besides values: handles, the rows of a turn, where they lie on every axis, and the steps of a tape. Each
//! is a block of its own, so that small turns are made of them for a good part.

use super::loops::Group;
use super::pool::{Amount, filled};
use super::walk::{Env, Walk};
use crate::ir::formula::Formula;
use crate::ir::graph::Node;
use crate::ir::number::Number;
use crate::ir::ops::Op;
use crate::ir::schedule::Axes;
use crate::ir::types::{BATCH, Dim, unframed};

/// Bytes, as the runtime keeps them in `exec`; `tests/tests/memory.rs` compares. A counted handle to numbers or to a list:
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

/// How a turn sees the rows that entered its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// All of them, each once and whole.
    Whole,
    /// A chunk of each.
    Chunks,
    /// Some of them.
    Some,
    /// Some of them, each in one chunk or in several, which are rows of their own.
    Split,
}

impl Seen {
    /// How the turns of a group of a loop see the rows of `env`.
    pub(super) fn of(node: &Node, group: &Group, env: &Env) -> Self {
        let (all, cut) = (group.rows.len() == env.rows, !Axes::of(node).chunk.is_empty());
        match (node.op, all, cut) {
            (Op::Fold, ..) => Self::Split,
            (_, true, false) => Self::Whole,
            (_, true, true) => Self::Chunks,
            (_, false, false) => Self::Some,
            (_, false, true) => Self::Split,
        }
    }
}

impl Walk<'_> {
    /// Bytes of what is kept of a turn that saves so many values.
    pub(super) fn turn(&self, here: &Env, env: &Env, seen: Seen, saves: usize) -> Amount {
        let rows = here.rows as u64;
        let (axes, before) = (self.axes(here), self.axes(env));
        let index = |count: u64| filled(count.max(1).saturating_mul(INDEX));
        // Axes that are new here; the others are shared with the rows that entered.
        let new = if matches!(seen, Seen::Whole | Seen::Chunks) { axes.saturating_sub(before) } else { axes };
        let axis = AXIS + index(rows + 1) + index(rows);
        let own = if matches!(seen, Seen::Some | Seen::Split) { 2 * (HANDLE + index(rows)) } else { 0 };
        let starts = if matches!(seen, Seen::Chunks | Seen::Split) { index(rows) } else { 0 };
        let lists = filled(axes * NAMED) + filled(saves as u64 * SAVED) + STEP;
        let number = new.saturating_mul(axis).saturating_add(own + starts + lists);
        let of_row = INDEX * (2 * new + u64::from(own > 0) * 2 + u64::from(starts > 0));
        let formula = here.symbols.as_ref();
        let formula = formula.map(|sizes| sizes.dim(&Dim::sym(BATCH)).times(&Formula::of(of_row as f64)));
        Amount { number, formula }
    }

    /// Bytes of what is kept of a part of a search that saves so many values: a tape of one step.
    pub(super) fn part_tape(&self, env: &Env, saves: usize) -> Amount {
        self.turn(env, env, Seen::Whole, saves).plus(&Amount::of(TAPE, env.symbols.is_some()))
    }

    /// The same of a turn of a search over these pairs: the parts of it that do not run leave tapes without steps.
    pub(super) fn pairs(&self, pairs: &Env, env: &Env, parts: usize) -> Amount {
        let empty = Amount::of(TAPE * (parts as u64).saturating_sub(1), env.symbols.is_some());
        self.turn(pairs, env, Seen::Split, parts).plus(&empty)
    }

    /// How many axes the executor keeps for these rows: those with STARTs and ENDs around them are axes, too.
    fn axes(&self, env: &Env) -> u64 {
        let framed = |name: &str| self.framed.iter().filter(|framed| unframed(framed).0 == name).count();
        env.names().map(|name| 1 + framed(name) as u64).sum()
    }
}
