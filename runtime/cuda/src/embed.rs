//! Ops around tokens on a device: embeddings, frames, fillings, codes of positions.

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;

use super::active_rows::{AxisName, Ragged};
use super::device::KernelArgument;
use super::dispatch::DeviceNodeContext;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, MOST_BLOCKS, flag, int, whole};
use super::value::Sorted;
use rtc_exec::ExecutionFault;
use rtc_exec::machine::requirements::{equally_long, too_few_positions};
use rtc_exec::storage::Element;

/// Rows of one block of the sum that is the gradient of a pad.
const PAD_ROWS: usize = 128;

impl<T: Element> DeviceExecutor<T> {
    pub(super) fn embed_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let (table, add) = self.target(c, 0);
        if !add {
            self.pool.device().clear(table.at(), table.len() * size_of::<T>());
        }
        let (ids, width) = (self.index(c.operand(0)), c.last(1));
        let sorted = ids.sorted(table.len() / width.max(1), &self.pool);
        self.add_by_id(sorted, &self.real(c.operand(1)), &table, width);
    }

    /// Adds `dy[ids, width]` to the rows of a table that the ids name.
    pub(super) fn add_by_id(&self, sorted: &Sorted, dy: &DeviceArray, table: &DeviceArray, width: usize) {
        let (pieces, joins) = (sorted.pieces.len() / 2, sorted.joins.len() / 3);
        let (parts, across) = (self.pool.take::<T>(sorted.parts * width), self.pool.thread_blocks(width));
        let places = [sorted.order.arg(), sorted.pieces.arg()];
        let args = [&places[..], &[dy.arg(), table.arg(), parts.arg(), int(width)]].concat();
        self.pool.launch("embed_grad", [pieces as u32, across, 1], &args);
        let args = [sorted.joins.arg(), parts.arg(), table.arg(), int(width)];
        self.pool.launch("embed_join", [joins as u32, across, 1], &args);
    }

    pub(super) fn frame(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.node.results[0]), &self.pool);
        let places = [axis.row_of.arg(), axis.offsets.arg(), int(c.last(0))];
        self.produce(c, "frame", &self.first::<3>(c), &places);
    }

    pub(super) fn prefix(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.node.results[0]), &self.pool);
        let places = [axis.row_of.arg(), axis.offsets.arg(), int(c.last(0)), int(c.last(1))];
        self.produce(c, "prefix", &self.first::<2>(c), &places);
    }

    pub(super) fn unprefix(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.node.results[0]), &self.pool);
        let d = c.last(0);
        let sizes = [axis.row_of.arg(), int(d), int(d * c.get(attribute::COUNT))];
        self.produce(c, "unprefix", &self.first::<1>(c), &sizes);
    }

    /// `[rows, columns]` of every row the other way round; operand `like` has the positions, as many as `count` in every row.
    pub(super) fn transpose(
        &mut self,
        c: &DeviceNodeContext<'_>,
        (like, count): (usize, usize),
        (rows, columns): (usize, usize),
    ) -> Result<(), ExecutionFault> {
        equally_long(c.view.axis(c.ty(c.operand(like)).ragged().unwrap_or_default()), count)?;
        self.produce(c, "transpose", &self.first::<1>(c), &[int(rows), int(columns)]);
        Ok(())
    }

    pub(super) fn frame_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let (inner, framed) = (c.ty(c.operand(1)), c.ty(c.operand(0)));
        let (inner, framed) = (c.place.axis_of(inner, &self.pool), c.place.axis_of(framed, &self.pool));
        let (dy, d) = (self.real(c.operand(0)), c.last(0));
        let dx = self.fresh(c, 0);
        self.pool.each("frame_grad", dx.len(), &[dy.arg(), dx.arg(), inner.row_of.arg(), int(d), whole(dx.len())]);
        self.put_or_add(c, 0, dx);
        for n in [1, 2] {
            let (y, add) = self.target(c, n);
            let (last, rows) = (flag(n == 2), int(c.view.rows()));
            self.pool.each("frame_ends", d, &[dy.arg(), y.arg(), framed.offsets.arg(), last, int(d), rows, flag(add)]);
        }
    }

    /// Codes of positions: learned ones, as far as their table reaches, or sines and cosines.
    pub(super) fn add_position(&mut self, c: &DeviceNodeContext<'_>) -> Result<(), ExecutionFault> {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let codes = match c.node.operands.get(1) {
            Some(table) => {
                too_few_positions(axis.longest, c.ty(*table))?;
                self.real(*table)
            }
            None => self.waves(c.last(0), axis.longest),
        };
        let x = self.real(c.operand(0)).arg();
        let places = [axis.row_of.arg(), axis.offsets.arg(), int(c.last(0))];
        self.produce(c, "add_position", &[x, codes.arg()], &places);
        Ok(())
    }

    /// The gradient of a learned code.
    pub(super) fn add_position_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let dy = self.real(c.operand(0)).arg();
        let (codes, add) = self.target(c, 0);
        let sizes = [int(c.last(0)), whole(c.view.rows()), flag(add), whole(codes.len())];
        self.pool.each(
            "add_position_grad",
            codes.len(),
            &[&[dy, codes.arg(), axis.offsets.arg()][..], &sizes].concat(),
        );
    }

    /// Sines and cosines for so many positions. Tables grow to powers of two, and seldom.
    pub(super) fn waves(&mut self, width: usize, positions: usize) -> DeviceArray {
        grown(&mut self.waves, width, positions, |count| {
            self.codes.extend_to(width, count);
            self.pool.keep(self.codes.of(width))
        })
    }

    /// The axis of the rows as they are, and the one to which they are filled.
    fn filled(&self, c: &DeviceNodeContext<'_>, (rows, full): (usize, &str)) -> [Ragged; 2] {
        [c.place.axis_of(c.ty(c.operand(rows)), &self.pool), c.place.axis(&AxisName::Ragged(full.into()), &self.pool)]
    }

    pub(super) fn pad_ragged(&mut self, c: &DeviceNodeContext<'_>) {
        let [from, to] = self.filled(c, (0, c.get(attribute::AXIS)));
        let sizes = [to.row_of.arg(), to.offsets.arg(), from.offsets.arg(), int(c.last(0))];
        self.produce(c, "pad_ragged", &self.first::<2>(c), &sizes);
    }

    pub(super) fn pad_ragged_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let full = c.ty(c.operand(0)).ragged().unwrap_or_default();
        let [from, to] = self.filled(c, (1, full));
        let (dy, d, rows) = (self.real(c.operand(0)), c.last(0), c.view.rows());
        let dx = self.fresh(c, 0);
        let tables = [to.offsets.arg(), from.offsets.arg(), int(d)];
        let args = [&[dy.arg(), dx.arg(), from.row_of.arg()][..], &tables, &[whole(dx.len())]].concat();
        self.pool.each("pad_ragged_grad", dx.len(), &args);
        self.put_or_add(c, 0, dx);
        let per = PAD_ROWS.max(rows.div_ceil(MOST_BLOCKS));
        let count = rows.div_ceil(per).max(1);
        let sums = self.pool.take::<T>(count * d);
        let args: Vec<KernelArgument> = [&[dy.arg(), sums.arg()][..], &tables, &[whole(rows), int(per)]].concat();
        self.pool.launch("pad_ragged_pad_grad", [self.pool.thread_blocks(d), count as u32, 1], &args);
        let (pad, add) = self.target(c, 1);
        self.sum_rows(&sums, &pad, count, d, add);
    }
}

/// What was made for so many positions. Where that is too short, it is made anew for the next power of two.
pub(super) fn grown<K: Ord, V: Clone>(
    known: &mut BTreeMap<K, (usize, V)>,
    key: K,
    positions: usize,
    make: impl FnOnce(usize) -> V,
) -> V {
    if let Some((_, found)) = known.get(&key).filter(|(count, _)| *count >= positions) {
        return found.clone();
    }
    let count = positions.next_power_of_two();
    let made = make(count);
    known.insert(key, (count, made.clone()));
    made
}
