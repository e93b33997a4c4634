//! The state of a beam search beside the values of its region: lists of nodes, pairs and choices, which are used again.

use rtc_compiler::ir::attribute::{self, Draws};
use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use rtc_compiler::ir::graph::Node;
use rtc_compiler::ir::loops::Cut;

use crate::arena::Arena;
use crate::machine::MachineArrays;
use crate::machine::value::Val;
use crate::rows::BatchView;
use crate::storage::{List, Shared};
use rtc_base::rng::Key;
use rtc_kernel::beam::align::BeamSlots;
use rtc_kernel::beam::{BlendTerm, Blends, NoiseSite, Search, SearchRecord};

/// Searches that are not running, with their memory.
#[derive(Clone, Default)]
pub struct Searches(Rc<RefCell<Vec<Lists>>>);

impl fmt::Debug for Searches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} searches", self.0.borrow().len())
    }
}

/// Draws that are given instead of made, for comparisons with other implementations.
pub trait NoiseSource: fmt::Debug + Sync {
    /// The noise at a place of a level, where choices are disturbed.
    fn noise(&self, level: u64, site: NoiseSite) -> f64;
    /// The beam that stands in a slot of a chunk, all chunks of a level counted through.
    fn beam(&self, level: u64, chunk: usize, slot: usize) -> usize;
}

/// The lists of one search, of all its levels.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    pub(crate) search: Search,
    pub(crate) record: SearchRecord,
    /// Between the levels: which beams stand in which slots, and where chunks begin among the roots.
    pub(crate) joints: Vec<Joint>,
    /// How many of those there are.
    pub(crate) joined: usize,
    /// Where chunks begin among the elements of the level, and rows among the chunks.
    pub(crate) chunks: Vec<usize>,
    pub(crate) rows: Vec<usize>,
    /// Where rows began among the elements of the level.
    outer: Vec<usize>,
    /// One key per chunk.
    pub(crate) keys: Vec<Key>,
}

/// What stands between two levels.
#[derive(Debug, Default)]
pub(crate) struct Joint {
    pub(crate) slots: BeamSlots,
    pub(crate) chunks: Vec<usize>,
}

/// The lists of a search that runs or will run backwards; they go back when dropped.
#[derive(Debug)]
pub(crate) struct PooledSearch {
    lists: Option<Lists>,
    home: Searches,
}

impl Searches {
    /// Bytes of the lists of all searches that are not running, as the last ones have left them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.borrow().iter().map(|lists| lists.search.bytes() + lists.record.bytes()).sum()
    }

    /// Lists for a new search.
    pub(crate) fn acquire(&self) -> PooledSearch {
        let mut lists = self.0.borrow_mut().pop().unwrap_or_default();
        lists.record.clear();
        lists.joined = 0;
        PooledSearch { lists: Some(lists), home: self.clone() }
    }
}

impl Drop for PooledSearch {
    fn drop(&mut self) {
        self.home.0.borrow_mut().extend(self.lists.take());
    }
}

impl Deref for PooledSearch {
    type Target = Lists;

    fn deref(&self) -> &Lists {
        self.lists.as_ref().expect("lists are there until they go back")
    }
}

impl DerefMut for PooledSearch {
    fn deref_mut(&mut self) -> &mut Lists {
        self.lists.as_mut().expect("lists are there until they go back")
    }
}

impl Lists {
    /// Cuts the elements of `outer` (where each row begins, and the end) into chunks; `longest` is the length of the padded batch.
    pub(crate) fn cut(&mut self, cut: Cut, longest: usize, outer: &[usize]) {
        self.chunks.clear();
        self.rows.clear();
        self.chunks.push(0);
        self.rows.push(0);
        for row in outer.windows(2) {
            let length = row[1] - row[0];
            let width = cut.width(if cut.by_batch { longest } else { length });
            self.chunks.extend(cut.chunks(length, width).map(|(start, nodes)| row[0] + start + nodes));
            self.rows.push(self.chunks.len() - 1);
        }
    }

    /// One key for every chunk of a level: draws belong to the row, so that no other row changes them. Those of evaluation belong
    /// to the place in the row alone: they are the same in every batch.
    pub(crate) fn set_keys(&mut self, node: &Node, view: &BatchView, level: u64) {
        self.keys.clear();
        for (row, chunks) in self.rows.windows(2).enumerate() {
            let key = match node.get(attribute::DRAWS) {
                Draws::Row => view.key.at(view.ids[row]),
                Draws::Level => Key::new(0),
            };
            let key = key.stream("beams").at(level);
            self.keys.extend((0..chunks[1] - chunks[0]).map(|chunk| key.at(chunk as u64)));
        }
    }

    /// Whether every row is one chunk.
    pub(crate) fn is_last(&self) -> bool {
        self.rows.windows(2).all(|row| row[1] - row[0] == 1)
    }

    /// Cuts the roots of this level, and begins the next one with the beams that the last slots pick.
    pub(crate) fn rise(&mut self, cut: Cut, longest: usize) {
        let mut outer = std::mem::take(&mut self.outer);
        std::mem::swap(&mut outer, &mut self.rows);
        self.cut(cut, longest, &outer);
        self.outer = outer;
        let joint = &mut self.joints[self.joined];
        joint.chunks.clone_from(&self.chunks);
        self.search.join(&joint.slots, &joint.chunks);
        self.joined += 1;
    }

    /// Room for the slots between this level and the next one.
    pub(crate) fn slots(&mut self) -> &mut BeamSlots {
        if self.joints.len() == self.joined {
            self.joints.push(Joint::default());
        }
        &mut self.joints[self.joined].slots
    }
}

/// The course of a search, for its backward run: its lists, and the numbers that its choices hang on.
#[derive(Debug)]
pub(crate) struct SearchTrace<A: MachineArrays> {
    pub(crate) lists: PooledSearch,
    /// The table of nodes, leaves first, how many there are, and the numbers of each.
    pub(crate) nodes: Val<A>,
    pub(crate) count: usize,
    pub(crate) width: usize,
    /// Where the leaves of each row begin, and the end.
    pub(crate) leaves: List<usize>,
    /// The scores of all pairs.
    pub(crate) scores: List<A::Number>,
    /// The roots of all rows with their weights, and where rows begin.
    pub(crate) roots: List<BlendTerm>,
    pub(crate) offsets: List<usize>,
}

impl<A: MachineArrays> SearchTrace<A> {
    /// The means of the roots.
    pub(crate) fn roots(&self) -> Blends<'_> {
        Blends::new(&self.offsets, &self.roots)
    }
}

/// The course of a search, as it stands on a tape.
#[derive(Clone, Debug)]
pub(crate) struct TapedSearch<A: MachineArrays> {
    pub(crate) trace: Shared<SearchTrace<A>>,
    /// The rows of the search that are left, where some have been left out.
    pub(crate) rows: Option<Shared<List<usize>>>,
}

impl<A: MachineArrays> TapedSearch<A> {
    /// The rows of the search that are left.
    pub(crate) fn kept(&self, arena: &Arena) -> List<usize> {
        match &self.rows {
            Some(rows) => arena.copy(rows),
            None => arena.list(0..self.trace.offsets.len() - 1),
        }
    }

    /// The same of only some of the rows: the others get no gradient.
    pub(crate) fn select(&self, rows: &[usize], arena: &Arena) -> Self {
        let kept = arena.list(rows.iter().map(|n| self.rows.as_ref().map_or(*n, |rows| rows[*n])));
        Self { trace: self.trace.clone(), rows: Some(arena.share(kept)) }
    }
}
