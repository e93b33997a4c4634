//! The CPU as a machine: buffers in the arena.

use rtc_compiler::ir::graph::{RegionId, Value};
use rtc_compiler::plan::{Plan, Step};

use crate::machine::pieces::Pieces;
use crate::machine::record::RunRecords;
use crate::machine::resume::Resume;
use crate::machine::value::Val;
use crate::machine::{Common, Machine, Nodes};
use crate::processor::Executor;
use crate::rows::BatchView;
use crate::settings::ExecutionFault;
use crate::storage::{Buffer, Element, List, Plain, Shared};
use rtc_kernel::beam::Blends;
use rtc_kernel::beam::nodes::{NodeFeatures, blend, blend_grad, gather, scatter_add};
use rtc_kernel::elementwise;

impl<T: Element> Machine for Executor<T> {
    type Arrays = T;

    fn common(&self) -> Common<'_> {
        Common {
            plan: &self.plan,
            arena: &self.arena,
            axes: &self.axes,
            exprs: &self.exprs,
            halting: self.settings.halting,
            inference: self.settings.inference,
            searches: &self.searches,
            noise: self.noise.as_deref(),
            check_finite: self.settings.check_finite,
        }
    }

    fn records(&mut self) -> &mut RunRecords {
        &mut self.records
    }

    fn resume(&mut self) -> &mut Option<Resume<T>> {
        &mut self.resume
    }

    fn slot(&mut self, value: Value) -> &mut Option<Val<T>> {
        &mut self.memory.values[value.index()]
    }

    /// A parameter is copied into a buffer.
    fn value(&self, value: Value) -> Val<T> {
        match &self.memory.values[value.index()] {
            Some(val) => val.clone(),
            None => Val::real(self.arena.copy(self.memory.real(value))),
        }
    }

    fn run_step(&mut self, plan: &Plan, step: &Step, here: &BatchView) -> Result<(), ExecutionFault> {
        self.execute(plan, step, here)
    }

    fn run_group(&mut self, plan: &Plan, region: RegionId, n: usize, here: &BatchView) {
        let own = &plan.regions[region.index()];
        self.group(plan, own, &own.groups[n], here);
    }

    fn is_left_out(&mut self, together: &[Step]) -> bool {
        self.is_known(together)
    }

    fn keep_once(&mut self, plan: &Plan, together: &[Step]) {
        self.keep_results(plan, together);
    }

    fn take(&self, len: usize) -> Val<T> {
        Val::real(self.arena.take(len))
    }

    fn zeros(&self, len: usize) -> Val<T> {
        Val::real(self.arena.filled(len, T::ZERO))
    }

    fn upload(&self, numbers: List<T>) -> Val<T> {
        Val::real(numbers)
    }

    fn ids(&self, ids: List<u32>) -> Val<T> {
        Val::index(ids)
    }

    fn numbers(&self, val: &Val<T>) -> List<T> {
        self.arena.copy(real(val))
    }

    fn truths(&self, val: &Val<T>) -> List<u8> {
        match val {
            Val::Truth(x) => self.arena.copy(x),
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    fn gather(&self, from: &Val<T>, pieces: &Pieces<T>, width: usize) -> Val<T> {
        match from {
            Val::Real(x) => Val::real(gathered(x, pieces, width)),
            Val::Index(x) => Val::index(gathered(x, pieces, width)),
            Val::Truth(x) => Val::truth(gathered(x, pieces, width)),
            Val::Tape(_) => unreachable!("a tape has steps, and no pieces"),
        }
    }

    fn scatter(&self, from: &Val<T>, to: &mut Val<T>, pieces: &Pieces<T>, width: usize) {
        match (from, to) {
            (Val::Real(from), Val::Real(to)) => scatter(from, own(to), pieces, width),
            (Val::Index(from), Val::Index(to)) => scatter(from, own(to), pieces, width),
            (Val::Truth(from), Val::Truth(to)) => scatter(from, own(to), pieces, width),
            _ => {}
        }
    }

    fn add(&self, from: &Val<T>, to: &mut Val<T>, pieces: Option<&Pieces<T>>, width: usize) {
        let (from, to) = (real(from), own_real(to));
        let Some(pieces) = pieces else { return elementwise::add_assign(to, from) };
        let mut at = 0;
        for (start, len) in &pieces.list {
            elementwise::add_assign(&mut to[start * width..(start + len) * width], &from[at..at + len * width]);
            at += len * width;
        }
    }

    fn scale(&self, val: &mut Val<T>, factors: List<T>) {
        own_real(val).iter_mut().zip(&*factors).for_each(|(x, factor)| *x *= *factor);
    }

    fn table(&self, first: &Val<T>, more: usize) -> Val<T> {
        let (first, mut table) = (real(first), self.arena.list([]));
        table.reserve_exact(first.len() + more);
        table.extend_from_slice(first);
        Val::real(table)
    }

    fn append(&self, table: &mut Val<T>, _: usize, more: &Val<T>) {
        own_real(table).extend_from_slice(real(more));
    }

    fn nodes(&self, table: &Val<T>, nodes: Nodes<'_>, width: usize) -> Val<T> {
        let (count, parts) = parts(nodes, width);
        let mut out = self.arena.take(count * width);
        for (ids, part) in parts.into_iter().flatten() {
            gather(real(table), width, ids, part, &mut out);
        }
        Val::real(out)
    }

    fn add_nodes(&self, from: &Val<T>, nodes: Nodes<'_>, table: &mut Val<T>, width: usize) {
        for (ids, part) in parts(nodes, width).1.into_iter().flatten() {
            scatter_add(real(from), part, ids, width, own_real(table));
        }
    }

    fn blend(&self, blends: Blends<'_>, table: &Val<T>, width: usize) -> Val<T> {
        let mut out = self.arena.take(blends.len() * width);
        blend(blends, real(table), width, &mut out);
        Val::real(out)
    }

    fn blend_grad(
        &self,
        blends: Blends<'_>,
        table: &Val<T>,
        dy: &Val<T>,
        gradients: &mut Val<T>,
        width: usize,
    ) -> List<f64> {
        let mut shares = self.arena.filled(blends.terms().len(), 0.0);
        blend_grad(blends, real(table), width, real(dy), own_real(gradients), &mut shares);
        shares
    }
}

/// A list of nodes, and the part of a row in which each stands.
type NodeList<'a> = (&'a [u32], NodeFeatures);

/// How many nodes there are, and where the lists of them stand in rows of one or two.
fn parts(nodes: Nodes<'_>, width: usize) -> (usize, [Option<NodeList<'_>>; 2]) {
    match nodes {
        Nodes::Single(ids) => (ids.len(), [Some((ids, NodeFeatures::alone(width))), None]),
        Nodes::Pairs(left, right) => {
            let beside = |ids, right| Some((ids, NodeFeatures::beside(width, right)));
            (2 * left.len(), [beside(left, false), beside(right, true)])
        }
    }
}

fn real<T: Element>(val: &Val<T>) -> &[T] {
    match val {
        Val::Real(x) => x,
        _ => unreachable!("the verifier checks element kinds"),
    }
}

fn own_real<T: Element>(val: &mut Val<T>) -> &mut Buffer<T> {
    match val {
        Val::Real(x) => own(x),
        _ => unreachable!("the verifier checks element kinds"),
    }
}

/// A buffer to write, copied first if it has other handles.
fn own<E: Plain>(buffer: &mut Shared<Buffer<E>>) -> &mut Buffer<E> {
    if buffer.get_mut().is_none() {
        let arena = buffer.allocator().clone();
        *buffer = arena.share(arena.copy(buffer));
    }
    buffer.get_mut().expect("it was copied where it had other handles")
}

fn gathered<T: Element, E: Plain>(from: &Buffer<E>, pieces: &Pieces<T>, width: usize) -> Buffer<E> {
    let (mut out, mut at) = (from.allocator().take(pieces.total * width), 0);
    for (start, len) in &pieces.list {
        out[at..at + len * width].copy_from_slice(&from[start * width..(start + len) * width]);
        at += len * width;
    }
    out
}

fn scatter<T: Element, E: Plain>(from: &[E], to: &mut [E], pieces: &Pieces<T>, width: usize) {
    let mut at = 0;
    for (start, len) in &pieces.list {
        to[start * width..(start + len) * width].copy_from_slice(&from[at..at + len * width]);
        at += len * width;
    }
}
