//! The receptive field of every value of a graph: the proof that a model sees only the past, or the path of a leak.
//!
//! The analysis is a pure function of the graph. It gives every value a [`Reach`], the smallest that it can prove, by
//! raising reaches along the edges until nothing changes; each op's row in the table of ops says how (`dependence`). A value is raised
//! at most once per kind of reach, and raising it looks at its users alone, so that the work grows linearly with the graph.
//!
//! **Sound, not complete.** What an answer depends on is never more than its reach says. The reach may say more than there
//! is: that two terms cancel, or that a mask is causal for a reason other than linear arithmetic, is not seen.
//!
//! **What is no dependence.** That a position exists is known to it. How many positions follow is not: a length counts as
//! the last token of its row. Random numbers (dropout) are not looked at: they hold no token.

mod flow;
mod linear;
mod loops;
mod mask;
mod path;
mod text;

use crate::ir::attribute::{self, Chunking};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use mask::Sight;
pub use path::{Leak, Why};
pub use text::text;

use crate::ir::dependence::Dependence;
use crate::ir::graph::{Graph, MAIN, NodeId, RegionId, Value, ValueOrigin};
use crate::ir::ops::Op;
use crate::ir::places::chooses;
use crate::ir::types::{CLASSES, VOCAB, unframed};
use path::{Cause, Raised};

/// How far into its row, and beyond, a value depends on tokens: each kind includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// On no token.
    Nothing,
    /// On tokens before the chunk that it belongs to.
    Earlier,
    /// On tokens up to its own position; without positions, up to the first position of the row or chunk.
    Own,
    /// On all tokens of the part of the row that so many chunk loops around it have cut out: 0 is the whole row, 1 its chunk.
    Whole(Reverse<usize>),
    /// On other rows of the batch.
    Rows,
}

impl Reach {
    /// The whole of what the `depth` chunk loops around have cut out.
    pub(crate) fn whole(depth: usize) -> Self {
        Self::Whole(Reverse(depth))
    }

    /// Whether it includes later tokens.
    pub fn leaks(self) -> bool {
        self > Self::Own
    }
}

/// The result of the analysis.
#[derive(Clone, Debug)]
pub struct Analysis<'g> {
    graph: &'g Graph,
    reach: Vec<Reach>,
    /// For each value the reaches that it was raised to, one after the other, and why.
    history: Vec<Vec<Raised>>,
    /// How many chunk loops are around the region.
    depths: Vec<usize>,
    /// Leaks that are taken for granted, so that others come to light.
    forgiven: BTreeSet<NodeId>,
    /// Nodes whose operands were raised, by their place in the graph.
    open: BTreeSet<usize>,
    visits: usize,
    nodes: Vec<NodeId>,
    places: BTreeMap<NodeId, usize>,
}

/// The reach of every value of the graph.
pub fn analyse(graph: &Graph) -> Analysis<'_> {
    forgiving(graph, BTreeSet::new())
}

/// Every leak into the result of this name that is not only a consequence of others, in the order in which they are found.
/// None means that each position of the result provably depends on the tokens up to it. A result without positions, one
/// answer for a row, leaks as a whole.
pub fn leaks(graph: &Graph, result: &str) -> Vec<Leak> {
    /// More leaks than this have one cause that repeats.
    const MOST: usize = 16;
    let mut forgiven = BTreeSet::new();
    let mut found: Vec<Leak> = vec![];
    while let Some(leak) = graph.output(result).and_then(|v| forgiving(graph, forgiven.clone()).leak(v)) {
        let new = forgiven.insert(leak.node);
        found.push(leak);
        if !new || found.len() == MOST {
            break;
        }
    }
    found
}

fn forgiving(graph: &Graph, forgiven: BTreeSet<NodeId>) -> Analysis<'_> {
    let nodes = graph.walk(MAIN);
    let mut analysis = Analysis {
        graph,
        reach: vec![Reach::Nothing; graph.value_count()],
        history: vec![vec![]; graph.value_count()],
        depths: vec![0; graph.region_count()],
        forgiven,
        open: (0..nodes.len()).collect(),
        visits: 0,
        places: nodes.iter().enumerate().map(|(place, node)| (*node, place)).collect(),
        nodes,
    };
    analysis.measure();
    analysis.settle();
    analysis
}

impl Analysis<'_> {
    /// What the value depends on.
    pub fn reach(&self, value: Value) -> Reach {
        self.reach[value.index()]
    }

    /// How many times a node was looked at: what the analysis cost.
    pub fn visits(&self) -> usize {
        self.visits
    }

    /// Finds how many chunk loops are around every region. Regions come before those inside them.
    fn measure(&mut self) {
        for &id in &self.nodes {
            let node = self.graph.node(id);
            if let Some(body) = node.body {
                // Positions that are chosen belong to the part of the row that they were chosen of.
                let cuts = node.op == Op::Chunks && node.get(attribute::CUT) != Chunking::Chosen;
                self.depths[body.index()] = self.depths[node.region.index()] + usize::from(cuts);
            }
        }
    }

    /// Raises reaches until nothing changes.
    fn settle(&mut self) {
        while let Some(place) = self.open.pop_first() {
            self.visits += 1;
            self.visit(self.nodes[place]);
        }
    }

    fn visit(&mut self, id: NodeId) {
        match self.graph.node(id).op.def().dependence {
            Dependence::Nothing => {}
            Dependence::Effect => self.leave(id),
            Dependence::Input => self.input(id),
            Dependence::Units => self.units(id, usize::MAX),
            Dependence::First => self.first(id),
            Dependence::Channels => self.channels(id),
            Dependence::Pool => self.pool(id),
            Dependence::Position => self.position(id),
            Dependence::Prefix => self.units(id, usize::MAX),
            Dependence::Scan => self.scan(id),
            Dependence::Frame => self.frame(id),
            Dependence::Moved => self.moved(id),
            Dependence::Attention => self.attention(id),
            Dependence::HaltTest => self.halt_test(id),
            Dependence::Depth => self.depth(id),
            Dependence::Rows => self.rows(id),
            Dependence::Recur => self.recur(id),
            Dependence::Chunks => self.chunks(id),
            Dependence::Fold => self.fold(id),
            Dependence::Part => self.part(id),
            Dependence::Backward => self.everything(id, Why::Backward),
        }
    }

    /// Raises a value to at least `reach`.
    fn raise(&mut self, value: Value, reach: Reach, cause: Cause) {
        let reach = self.confined(value, reach);
        if reach <= self.reach[value.index()] {
            return;
        }
        self.reach[value.index()] = reach;
        let source = cause.from.map(|from| (from, self.reach(from)));
        self.history[value.index()].push(Raised { reach, source, node: cause.node, why: cause.why });
        for user in self.graph.users(value) {
            self.open.extend(self.places.get(&user));
        }
    }

    /// A position of an axis that was not cut by the innermost chunk loop around may lie before the chunk: there, what is
    /// known up to the chunk is known too early.
    fn confined(&self, value: Value, reach: Reach) -> Reach {
        let here = self.depths[self.graph.scope(value).index()];
        match self.axis_depth(value) {
            Some(depth) if depth < here && reach > Reach::Nothing => reach.max(Reach::whole(depth)),
            _ => reach,
        }
    }

    /// How many chunk loops have cut the positions of a value; `None` for a value without positions.
    fn axis_depth(&self, value: Value) -> Option<usize> {
        let axis = self.graph.ty(value).ragged().filter(|axis| ![VOCAB, CLASSES].contains(axis))?;
        Some(self.depth_of(axis, self.graph.scope(value)))
    }

    /// How many chunk loops have cut an axis, as a region calls it; START and END around it make no difference.
    fn depth_of(&self, axis: &str, region: RegionId) -> usize {
        let (base, _) = unframed(axis);
        let mut around = Some(region);
        while let Some(region) = around {
            let owner = self.graph.owner(region).map(|id| self.graph.node(id)).filter(|node| node.op == Op::Chunks);
            if owner.is_some_and(|node| node.get(attribute::AXIS) == base) {
                return self.depths[region.index()];
            }
            around = self.graph.parent(region);
        }
        0
    }

    /// Whether the positions of an axis were chosen of those of another one.
    fn is_chosen_of(&self, axis: Option<&str>, over: Option<&str>) -> bool {
        let node = |id: &NodeId| self.graph.node(*id);
        let chooses = |id: &NodeId| axis.is_some_and(|axis| chooses(node(id), axis));
        self.nodes.iter().any(|id| chooses(id) && node(id).find(attribute::OVER) == over)
    }

    /// The operand that reaches farthest, and how far.
    fn farthest(&self, operands: &[Value]) -> (Reach, Option<Value>) {
        let mut best = (Reach::Nothing, None);
        for &value in operands {
            if best.1.is_none() || self.reach(value) > best.0 {
                best = (self.reach(value), Some(value));
            }
        }
        best
    }

    /// The recurrence whose steps a value counts.
    fn counts_steps(&self, value: Value) -> Option<NodeId> {
        let ValueOrigin::Param(region, n) = self.graph.def(value) else { return None };
        let owner = self.graph.owner(region).filter(|id| self.graph.node(*id).op == Op::Recur)?;
        (n == self.graph.node(owner).operands.len()).then_some(owner)
    }
}
