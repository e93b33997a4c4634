//! Whole searches, forward and backward: what a loop of the executor does with the kernels.

use rtc_base::rng::Key;
use rtc_kernel::Real;
use rtc_kernel::beam::align::{self, Align, BeamSlots, DrawSource};
use rtc_kernel::beam::marginal::{softmax_grad, weighed};
use rtc_kernel::beam::nodes::{NodeFeatures, blend, blend_grad, gather, scatter_add};
use rtc_kernel::beam::{BlendTerm, Blends, Compose, Noise, Pairs, Search, SearchRecord, SearchRules};

use super::model::Model;

/// How a batch is searched.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) rules: SearchRules,
    /// Children of a chunk of the outer fold; none: one search over the whole row.
    pub(crate) arity: Option<usize>,
    pub(crate) align: Align,
    /// The beam of chunk and slot, instead of draws.
    pub(crate) given: Option<&'a (dyn Fn(usize, usize) -> usize + Sync)>,
    /// Whether choices are disturbed.
    pub(crate) noisy: bool,
}

impl Plan<'_> {
    pub(crate) fn flat(rules: SearchRules) -> Self {
        Self { rules, arity: None, align: Align::Sampled { keep_best: true }, given: None, noisy: false }
    }

    pub(crate) fn chunked(rules: SearchRules, arity: usize) -> Self {
        Self { arity: Some(arity), ..Self::flat(SearchRules { chunk: arity, ..rules }) }
    }
}

/// Rows and their keys.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) offsets: &'a [usize],
    pub(crate) keys: &'a [Key],
}

/// The beams of one row after a step, as an independent implementation reports them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) row: usize,
    pub(crate) scores: Vec<f64>,
    pub(crate) beams: Vec<Vec<u32>>,
}

/// A search with everything that its gradient needs.
pub(crate) struct Run<T> {
    pub(crate) search: Search,
    pub(crate) record: SearchRecord,
    pub(crate) nodes: Vec<T>,
    pub(crate) pair_scores: Vec<T>,
    /// Slots and offsets between the levels.
    pub(crate) joints: Vec<(BeamSlots, Vec<usize>)>,
    /// Every step's beams, row by row.
    pub(crate) seen: Vec<Vec<Seen>>,
    roots: Vec<BlendTerm>,
    root_offsets: Vec<usize>,
    pub(crate) out: Vec<T>,
}

/// Where chunks begin in the elements, and rows in the chunks.
pub(crate) fn cut(outer: &[usize], arity: Option<usize>) -> (Vec<usize>, Vec<usize>) {
    let (mut chunks, mut rows) = (vec![0], vec![0]);
    for row in outer.windows(2) {
        let size = row[1] - row[0];
        let width = arity.filter(|k| size >= k + k / 2).unwrap_or(size);
        chunks.extend((row[0] + width..row[1]).step_by(width));
        chunks.push(row[1]);
        rows.push(chunks.len() - 1);
    }
    (chunks, rows)
}

/// `[m, 2 width]`: the first features of left and right nodes side by side.
fn beside<T: Real>(nodes: &[T], d: usize, width: usize, pairs: Pairs) -> Vec<T> {
    let mut out = vec![T::ZERO; pairs.left.len() * 2 * width];
    gather(nodes, d, pairs.left, NodeFeatures::beside(width, false), &mut out);
    gather(nodes, d, pairs.right, NodeFeatures::beside(width, true), &mut out);
    out
}

fn beside_back<T: Real>(dy: &[T], d: usize, width: usize, pairs: Pairs, dnodes: &mut [T]) {
    scatter_add(dy, NodeFeatures::beside(width, false), pairs.left, d, dnodes);
    scatter_add(dy, NodeFeatures::beside(width, true), pairs.right, d, dnodes);
}

/// One key per chunk.
fn chunk_keys(batch: Batch, rows: &[usize], level: u64) -> Vec<Key> {
    let chunks = rows.windows(2).zip(batch.keys);
    chunks.flat_map(|(row, key)| (0..(row[1] - row[0]) as u64).map(move |chunk| key.at(level).at(chunk))).collect()
}

impl<T: Real> Run<T> {
    /// Searches over `leaves[positions, d]`.
    pub(crate) fn forward(model: &Model<T>, plan: Plan, batch: Batch, leaves: &[T]) -> Self {
        Self::forward_seen(model, plan, batch, leaves, |_| {})
    }

    /// The same, and calls `look` after every scoring.
    pub(crate) fn forward_seen(
        model: &Model<T>,
        plan: Plan,
        batch: Batch,
        leaves: &[T],
        mut look: impl FnMut(&Self),
    ) -> Self {
        let mut run = Self {
            search: Search::default(),
            record: SearchRecord::default(),
            nodes: leaves.to_vec(),
            pair_scores: vec![],
            joints: vec![],
            seen: vec![],
            roots: vec![],
            root_offsets: vec![0],
            out: vec![],
        };
        let (chunks, mut rows) = cut(batch.offsets, plan.arity);
        run.search.leaves(plan.rules, &chunks);
        for level in 0.. {
            let keys = chunk_keys(batch, &rows, level);
            run.level(model, plan, &keys, &mut look);
            if rows.windows(2).all(|row| row[1] - row[0] == 1) {
                break;
            }
            let mut slots = BeamSlots::default();
            let align_keys: Vec<Key> = keys.iter().map(|key| key.stream("align")).collect();
            let draws = plan.given.map_or(DrawSource::Keys(&align_keys), |given| DrawSource::Given(given));
            align::align(&run.search, plan.align, &rows, draws, &mut slots);
            let chunks;
            (chunks, rows) = cut(&rows, plan.arity);
            run.search.join(&slots, &chunks);
            run.joints.push((slots, chunks));
        }
        run.finish(model.d);
        run
    }

    fn level(&mut self, model: &Model<T>, plan: Plan, keys: &[Key], look: &mut impl FnMut(&Self)) {
        self.search.record_start(&mut self.record);
        loop {
            self.score(model, plan.rules.compose);
            look(self);
            if !self.search.is_busy() {
                return;
            }
            let noise = if plan.noisy { Noise::Gumbel(keys) } else { Noise::None };
            let busy: Vec<usize> = (0..self.search.rows()).filter(|&row| self.search.size(row) > 1).collect();
            self.search.step(&self.pair_scores, noise, Some(&mut self.record));
            let mut mixed = vec![T::ZERO; self.search.blends().len() * model.d];
            blend(self.search.blends(), &self.nodes, model.d, &mut mixed);
            self.nodes.extend(mixed);
            let pairs = beside(&self.nodes, model.d, model.d, self.search.merges());
            self.nodes.extend(model.compose(&pairs));
            let seen = |row: usize| Seen {
                row,
                scores: self.search.scores(row).to_vec(),
                beams: (0..self.search.live(row)).map(|beam| self.search.beam(row, beam).to_vec()).collect(),
            };
            self.seen.push(busy.into_iter().map(seen).collect());
        }
    }

    fn score(&mut self, model: &Model<T>, compose: Compose) {
        let fresh = self.search.fresh();
        match compose {
            Compose::Chosen => {
                let pairs = beside(&self.nodes, model.d, model.slice, fresh);
                self.pair_scores.extend(model.score_pairs(&pairs));
            }
            Compose::Every => {
                let parents = model.compose(&beside(&self.nodes, model.d, model.d, fresh));
                self.pair_scores.extend(model.score_parents(&parents));
                self.nodes.extend(parents);
            }
        }
        assert_eq!((self.nodes.len(), self.pair_scores.len()), (self.search.nodes() * model.d, self.search.pairs()));
    }

    fn finish(&mut self, d: usize) {
        for row in 0..self.search.rows() {
            self.roots.extend(weighed(&self.search, row));
            self.root_offsets.push(self.roots.len());
        }
        self.out = vec![T::ZERO; self.search.rows() * d];
        blend(Blends::new(&self.root_offsets, &self.roots), &self.nodes, d, &mut self.out);
    }

    /// The gradients of the leaves; those of the parameters are added to `grads`.
    pub(crate) fn backward(&self, model: &Model<T>, compose: Compose, dout: &[T], grads: &mut [Vec<T>]) -> Vec<T> {
        let (d, width) = (model.d, self.search.width());
        let mut dnodes = vec![T::ZERO; self.nodes.len()];
        let mut dpairs = vec![T::ZERO; self.pair_scores.len()];
        let mut droots = vec![0.0; self.roots.len()];
        let roots = Blends::new(&self.root_offsets, &self.roots);
        blend_grad(roots, &self.nodes, d, dout, &mut dnodes, &mut droots);
        let mut dscores = vec![0.0; self.search.rows() * width];
        for (row, span) in self.root_offsets.windows(2).enumerate() {
            let weights: Vec<f64> = self.roots[span[0]..span[1]].iter().map(|root| root.share).collect();
            softmax_grad(&weights, &mut droots[span[0]..span[1]]);
            dscores[row * width..][..span[1] - span[0]].copy_from_slice(&droots[span[0]..span[1]]);
        }
        let mut joints = self.joints.iter().rev();
        for index in (0..self.record.len()).rev() {
            let step = self.record.step(index);
            let blends = step.first_node..step.first_node + step.blends.len();
            let fresh = step.first_pair..step.first_pair + step.fresh.left.len();
            let made = |count: usize| blends.end * d..(blends.end + count) * d;
            match compose {
                Compose::Chosen => {
                    let pairs = beside(&self.nodes, d, model.slice, step.fresh);
                    let dpairs = model.score_pairs_back(&pairs, &dpairs[fresh], grads);
                    beside_back(&dpairs, d, model.slice, step.fresh, &mut dnodes);
                    let pairs = beside(&self.nodes, d, d, step.merges);
                    let dpairs = model.compose_back(&pairs, &dnodes[made(step.merges.left.len())], grads);
                    beside_back(&dpairs, d, d, step.merges, &mut dnodes);
                }
                Compose::Every => {
                    let parents = made(fresh.len());
                    let dparents = model.score_parents_back(&self.nodes[parents.clone()], &dpairs[fresh], grads);
                    dnodes[parents.clone()].iter_mut().zip(dparents).for_each(|(sum, x)| *sum += x);
                    let pairs = beside(&self.nodes, d, d, step.fresh);
                    let dpairs = model.compose_back(&pairs, &dnodes[parents], grads);
                    beside_back(&dpairs, d, d, step.fresh, &mut dnodes);
                }
            }
            let mut dshares = vec![0.0; step.blends.terms().len()];
            let dmixed = dnodes[blends.start * d..blends.end * d].to_vec();
            blend_grad(step.blends, &self.nodes, d, &dmixed, &mut dnodes, &mut dshares);
            if !self.record.is_start(index) {
                self.record.score_grad(index, width, &self.pair_scores, &dshares, &mut dscores, &mut dpairs);
            } else if let Some((slots, offsets)) = joints.next() {
                let mut dends = vec![0.0; offsets[offsets.len() - 1] * width];
                align::join_grad(slots, offsets, width, &dscores, &mut dends);
                dscores = dends;
            }
        }
        dnodes.truncate(self.leaves() * d);
        dnodes
    }

    /// Nodes with which the search began.
    fn leaves(&self) -> usize {
        self.record.step(0).first_node
    }
}
