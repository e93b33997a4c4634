//! A device as a machine: arrays of a pool. What the host decides by is copied to it; all else stays.

use std::rc::Rc;

use rtc_compiler::ir::graph::{RegionId, Value};
use rtc_compiler::plan::{Plan, Step};

use super::active_rows::ActiveRows;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, blocks, int, whole};
use super::value::{DeviceValue, Ids, OnDevice};
use rtc_exec::machine::pieces;
use rtc_exec::machine::resume::Resume;
use rtc_exec::machine::{Common, Machine, Nodes};
use rtc_exec::storage::{Element, List, Plain};
use rtc_exec::{ExecutionFault, RunRecords};
use rtc_kernel::beam::Blends;

type DevicePieces<T> = pieces::Pieces<OnDevice<T>>;

/// Sums of nodes.
struct NodeMix {
    starts: DeviceArray,
    nodes: Rc<Ids>,
    /// The sum of every term.
    of: DeviceArray,
    shares: DeviceArray,
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("a batch has fewer than 2^32 positions")
}

impl<T: Element> Machine for DeviceExecutor<T> {
    type Arrays = OnDevice<T>;

    fn common(&self) -> Common<'_> {
        Common {
            plan: &self.plan,
            arena: &self.arena,
            axes: &self.axes,
            exprs: &self.exprs,
            halting: self.settings.halting,
            inference: self.settings.inference,
            searches: &self.searches,
            noise: None,
            check_finite: self.settings.check_finite,
        }
    }

    fn records(&mut self) -> &mut RunRecords {
        &mut self.records
    }

    fn resume(&mut self) -> &mut Option<Resume<OnDevice<T>>> {
        &mut self.resume
    }

    fn slot(&mut self, value: Value) -> &mut Option<DeviceValue<T>> {
        &mut self.values[value.index()]
    }

    fn value(&self, value: Value) -> DeviceValue<T> {
        self.handle(value)
    }

    fn run_step(&mut self, plan: &Plan, step: &Step, here: &ActiveRows) -> Result<(), ExecutionFault> {
        self.execute(plan, step, here)
    }

    fn run_group(&mut self, plan: &Plan, region: RegionId, n: usize, here: &ActiveRows) {
        self.group(plan, region, n, here);
    }

    fn take(&self, len: usize) -> DeviceValue<T> {
        DeviceValue::Real(self.pool.take::<T>(len))
    }

    fn zeros(&self, len: usize) -> DeviceValue<T> {
        DeviceValue::Real(self.pool.zeros::<T>(len))
    }

    fn upload(&self, numbers: List<T>) -> DeviceValue<T> {
        DeviceValue::Real(self.pool.upload(&numbers))
    }

    fn ids(&self, ids: List<u32>) -> DeviceValue<T> {
        DeviceValue::Index(Ids::new(ids.to_vec()))
    }

    fn numbers(&self, val: &DeviceValue<T>) -> List<T> {
        self.arena.copy(&self.pool.download::<T>(&self.wide_array(val)))
    }

    fn truths(&self, val: &DeviceValue<T>) -> List<u8> {
        match val {
            DeviceValue::Truth(x) => self.arena.copy(&self.pool.download::<u8>(x)),
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    fn gather(&self, from: &DeviceValue<T>, pieces: &DevicePieces<T>, width: usize) -> DeviceValue<T> {
        match from {
            DeviceValue::Real(x) => {
                let out = self.pool.take_kept::<T>(pieces.total * width, x.is_narrow());
                DeviceValue::Real(self.gathered(x, out, x.size::<T>(), pieces, width))
            }
            DeviceValue::Truth(x) => {
                let out = self.pool.take::<u8>(pieces.total * width);
                DeviceValue::Truth(self.gathered(x, out, size_of::<u8>(), pieces, width))
            }
            DeviceValue::Index(ids) => {
                let pieces = pieces.list.iter().map(|(start, len)| start * width..(start + len) * width);
                DeviceValue::Index(Ids::new(pieces.flat_map(|range| ids.host[range].iter().copied()).collect()))
            }
            DeviceValue::Tape(_) => unreachable!("a tape has steps, and no pieces"),
        }
    }

    fn scatter(&self, from: &DeviceValue<T>, to: &mut DeviceValue<T>, pieces: &DevicePieces<T>, width: usize) {
        match (from, to) {
            (DeviceValue::Real(from), DeviceValue::Real(to)) => {
                // What is kept in 16 bits in one of both is widened.
                let from = if to.is_narrow() { from.clone() } else { self.pool.widened::<T>(from) };
                if !from.is_narrow() && to.is_narrow() {
                    *to = self.pool.widened::<T>(to);
                }
                let to = self.own::<T>(to);
                self.scattered(&from, to, from.size::<T>(), pieces, width);
            }
            (DeviceValue::Truth(from), DeviceValue::Truth(to)) => {
                let to = self.own::<u8>(to);
                self.scattered(from, to, size_of::<u8>(), pieces, width);
            }
            (DeviceValue::Index(from), DeviceValue::Index(to)) => {
                let (mut ids, mut at) = (to.host.clone(), 0);
                for (start, len) in &pieces.list {
                    ids[start * width..(start + len) * width].copy_from_slice(&from.host[at..at + len * width]);
                    at += len * width;
                }
                *to = Ids::new(ids);
            }
            _ => {}
        }
    }

    fn add(&self, from: &DeviceValue<T>, to: &mut DeviceValue<T>, pieces: Option<&DevicePieces<T>>, width: usize) {
        let (from, to) = (&self.wide_array(from), self.own_real(to));
        let Some(pieces) = pieces else { return self.pool.add(from, to) };
        let tables = pieces.tables.add.get_or_init(|| {
            let upload = |table: Vec<[u32; 4]>| (self.pool.upload(table.as_flattened()), table.len());
            addends(&pieces.list).into_iter().map(upload).collect()
        });
        for (table, count) in tables {
            let args = [from.arg(), to.arg(), table.arg(), whole(width)];
            self.move_pieces("pieces_add", (*count, pieces), width, &args);
        }
    }

    fn scale(&self, val: &mut DeviceValue<T>, factors: List<T>) {
        let (x, factors) = (self.own_real(val), self.pool.upload(&factors));
        self.pool.each("multiply_by", x.len(), &[x.arg(), factors.arg(), whole(x.len())]);
    }

    fn table(&self, first: &DeviceValue<T>, more: usize) -> DeviceValue<T> {
        let first = self.wide_array(first);
        let table = self.pool.take::<T>(first.len() + more);
        self.pool.device().copy(first.at(), table.at(), first.len() * size_of::<T>());
        DeviceValue::Real(table)
    }

    fn append(&self, table: &mut DeviceValue<T>, used: usize, more: &DeviceValue<T>) {
        let (more, size) = (self.wide_array(more), size_of::<T>());
        if used + more.len() > table.array().len() {
            let larger = self.pool.take::<T>(2 * (used + more.len()));
            self.pool.device().copy(table.array().at(), larger.at(), used * size);
            *table = DeviceValue::Real(larger);
        }
        self.pool.device().copy(more.at(), table.array().at() + (used * size) as u64, more.len() * size);
    }

    fn nodes(&self, table: &DeviceValue<T>, nodes: Nodes<'_>, width: usize) -> DeviceValue<T> {
        let ids = nodes.listed();
        let (ids, y) = (self.pool.upload(&ids), self.pool.take::<T>(ids.len() * width));
        let args = [table.array().arg(), ids.arg(), y.arg(), int(width), whole(y.len())];
        self.pool.each("pair_nodes", y.len(), &args);
        DeviceValue::Real(y)
    }

    fn add_nodes(&self, from: &DeviceValue<T>, nodes: Nodes<'_>, table: &mut DeviceValue<T>, width: usize) {
        self.add_to_nodes(&self.wide_array(from), &Ids::new(nodes.listed()), self.own_real(table), width);
    }

    fn blend(&self, blends: Blends<'_>, table: &DeviceValue<T>, width: usize) -> DeviceValue<T> {
        let (mix, y) = (self.mix(blends), self.pool.take::<T>(blends.len() * width));
        let lists = [mix.starts.arg(), mix.nodes.array(&self.pool).arg(), mix.shares.arg()];
        let args = [&[table.array().arg()][..], &lists, &[y.arg(), int(width), whole(y.len())]].concat();
        self.pool.each("mix_nodes", y.len(), &args);
        DeviceValue::Real(y)
    }

    fn blend_grad(
        &self,
        blends: Blends<'_>,
        table: &DeviceValue<T>,
        dy: &DeviceValue<T>,
        gradients: &mut DeviceValue<T>,
        width: usize,
    ) -> List<f64> {
        let (mix, terms, dy) = (self.mix(blends), blends.terms().len(), &self.wide_array(dy));
        let slopes = self.pool.take::<f64>(terms);
        let ids = mix.nodes.array(&self.pool).arg();
        let args = [table.array().arg(), mix.of.arg(), ids, dy.arg(), slopes.arg(), int(width), whole(terms)];
        self.pool.each_warp("mix_shares", terms, &args);
        let parts = self.pool.take::<T>(terms * width);
        let args = [mix.of.arg(), mix.shares.arg(), dy.arg(), parts.arg(), int(width), whole(parts.len())];
        self.pool.each("mix_terms", parts.len(), &args);
        self.add_to_nodes(&parts, &mix.nodes, self.own_real(gradients), width);
        self.arena.copy(&self.pool.download::<f64>(&slopes))
    }
}

/// Pieces that are added, from where they start and how long they are: from, to, length, and how often. What is added to one
/// place is added in the order of the list: by one block of threads where it follows one another. Blocks run in any order, so
/// the places of a launch rise, and one that does not begins another launch.
fn addends(pieces: &[(usize, usize)]) -> Vec<Vec<[u32; 4]>> {
    let (mut launches, mut at, mut end): (Vec<Vec<[u32; 4]>>, _, _) = (vec![], 0, 0);
    for (start, len) in pieces {
        let piece = [small(at), small(*start), small(*len), 1];
        match launches.last_mut() {
            Some(table) => match table.last_mut() {
                Some([_, to, length, repeats]) if [*to, *length] == piece[1..3] => *repeats += 1,
                _ if *start >= end => table.push(piece),
                _ => launches.push(vec![piece]),
            },
            None => launches.push(vec![piece]),
        }
        (at, end) = (at + len, start + len);
    }
    launches
}

impl<T: Element> DeviceExecutor<T> {
    fn gathered(
        &self,
        from: &DeviceArray,
        out: DeviceArray,
        size: usize,
        pieces: &DevicePieces<T>,
        width: usize,
    ) -> DeviceArray {
        let table = pieces.tables.gather.get_or_init(|| self.piece_table(pieces, |start, at| [start, at]));
        let args = [from.arg(), out.arg(), table.arg(), whole(width)];
        self.move_pieces(copying(size), (pieces.list.len(), pieces), width, &args);
        out
    }

    fn scattered(&self, from: &DeviceArray, to: &DeviceArray, size: usize, pieces: &DevicePieces<T>, width: usize) {
        let table = pieces.tables.scatter.get_or_init(|| self.piece_table(pieces, |start, at| [at, start]));
        let args = [from.arg(), to.arg(), table.arg(), whole(width)];
        self.move_pieces(copying(size), (pieces.list.len(), pieces), width, &args);
    }

    /// From, to and length of every piece, from where it starts and where it lies among all pieces.
    fn piece_table(&self, pieces: &DevicePieces<T>, ends: impl Fn(u32, u32) -> [u32; 2]) -> DeviceArray {
        let mut at = 0;
        let table = pieces.list.iter().flat_map(|(start, len)| {
            at += len;
            let [from, to] = ends(small(*start), small(at - len));
            [from, to, small(*len)]
        });
        self.pool.upload(&table.collect::<Vec<_>>())
    }

    fn move_pieces(
        &self,
        kernel: &str,
        (count, pieces): (usize, &DevicePieces<T>),
        width: usize,
        args: &[super::device::KernelArgument],
    ) {
        let longest = pieces.list.iter().map(|(_, len)| len * width).max().unwrap_or(0);
        let grid = [blocks(count, 1), self.pool.thread_blocks(longest.div_ceil(4)).min(64), 1];
        self.pool.launch(kernel, grid, args);
    }

    /// An array to write, copied first if it has other handles.
    fn own<'a, E: Plain>(&self, array: &'a mut DeviceArray) -> &'a DeviceArray {
        if !array.is_alone() {
            let own = self.pool.take_kept::<E>(array.len(), array.is_narrow());
            self.pool.device().copy(array.at(), own.at(), array.len() * array.size::<E>());
            *array = own;
        }
        array
    }

    /// The numbers of a real value as they are computed with.
    fn wide_array(&self, val: &DeviceValue<T>) -> DeviceArray {
        self.pool.widened::<T>(val.array())
    }

    fn own_real<'a>(&self, val: &'a mut DeviceValue<T>) -> &'a DeviceArray {
        match val {
            DeviceValue::Real(x) => {
                // Sums are made in full.
                if x.is_narrow() {
                    *x = self.pool.widened::<T>(x);
                }
                self.own::<T>(x)
            }
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    /// Adds `dy[ids, width]` to the rows of a table that the ids name, each in the order of the list.
    fn add_to_nodes(&self, dy: &DeviceArray, ids: &Ids, table: &DeviceArray, width: usize) {
        // Searches differ from step to step, so tables of one size would make nothing come again.
        self.add_by_id(ids.sorted(0, &self.pool), dy, table, width);
    }

    fn mix(&self, blends: Blends<'_>) -> NodeMix {
        let (mut starts, mut of) = (vec![0_u32], vec![]);
        for k in 0..blends.len() {
            of.extend(std::iter::repeat_n(k as u32, blends.of(k).len()));
            starts.push(of.len() as u32);
        }
        let shares: Vec<T> = blends.terms().iter().map(|term| T::from_f64(term.share)).collect();
        let nodes = Ids::new(blends.terms().iter().map(|term| term.node).collect());
        let [starts, of] = [starts, of].map(|list| self.pool.upload(&list));
        NodeMix { starts, nodes, of, shares: self.pool.upload(&shares) }
    }
}

/// The kernel that copies pieces of numbers of this size.
fn copying(size: usize) -> &'static str {
    match size {
        1 => "pieces_1",
        2 => "pieces_2",
        4 => "pieces_4",
        _ => "pieces_8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `pieces_add` does, launch after launch, the blocks of each in falling order: no order of theirs may matter.
    fn added(pieces: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let mut to = vec![vec![]; 12];
        for table in addends(pieces) {
            for [from, start, len, repeats] in table.into_iter().rev().map(|piece| piece.map(|n| n as usize)) {
                for i in 0..len {
                    to[start + i].extend((0..repeats).map(|n| from + n * len + i));
                }
            }
        }
        to
    }

    #[test]
    fn additions_to_one_place_keep_their_order() {
        let lists: [&[(usize, usize)]; 5] = [
            &[(0, 2), (2, 2), (4, 3)],
            &[(0, 2), (0, 2), (0, 2), (5, 1)],
            &[(6, 2), (0, 2), (6, 2), (6, 2), (0, 2)],
            &[(3, 4), (5, 4), (3, 4)],
            &[(9, 1), (8, 1), (7, 2)],
        ];
        for pieces in lists {
            let (mut to, mut at) = (vec![vec![]; 12], 0);
            for (start, len) in pieces {
                for i in 0..*len {
                    to[start + i].push(at + i);
                }
                at += len;
            }
            assert_eq!(added(pieces), to, "{pieces:?}");
        }
        assert_eq!(addends(lists[0]).len(), 1, "rising places are one launch");
        assert_eq!(addends(lists[1]), [[[0, 0, 2, 3], [6, 5, 1, 1]]], "and so are equal ones side by side");
    }
}
