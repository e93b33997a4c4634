//! Tensors as a machine: pieces of rows are units that an index names.

use candle_core::{Result as Candle, Tensor};
use rtc_compiler::ir::graph::{RegionId, Value};
use rtc_compiler::plan::{Plan, Step};
use rtc_exec::machine::resume::Resume;
use rtc_exec::machine::{Common, Machine, Nodes, pieces};
use rtc_exec::rows::BatchView;
use rtc_exec::storage::{Buffer, List, Plain, Shared};
use rtc_exec::{ExecutionFault, RunRecords};
use rtc_kernel::Real;
use rtc_kernel::beam::Blends;

use crate::exec::TensorExecutor;
use crate::value::{OnTensors, TensorNumber, TensorValue};

type TensorPieces<T> = pieces::Pieces<OnTensors<T>>;

impl<T: TensorNumber> Machine for TensorExecutor<T> {
    type Arrays = OnTensors<T>;

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

    fn resume(&mut self) -> &mut Option<Resume<OnTensors<T>>> {
        &mut self.resume
    }

    fn slot(&mut self, value: Value) -> &mut Option<TensorValue<T>> {
        &mut self.values[value.index()]
    }

    fn value(&self, value: Value) -> TensorValue<T> {
        self.handle(value)
    }

    fn run_step(&mut self, plan: &Plan, step: &Step, here: &BatchView) -> Result<(), ExecutionFault> {
        self.execute(plan, step, here)
    }

    fn run_group(&mut self, plan: &Plan, region: RegionId, n: usize, here: &BatchView) {
        let own = &plan.regions[region.index()];
        let group = &own.groups[n];
        for step in &own.steps[group.steps.clone()] {
            self.by_unit(plan, step, group, here);
        }
        for inner in &group.inner {
            self.values[inner.value.index()] = None;
        }
    }

    fn take(&self, len: usize) -> TensorValue<T> {
        self.zeros(len)
    }

    fn zeros(&self, len: usize) -> TensorValue<T> {
        TensorValue::Real(self.kept(Tensor::zeros(len, T::DTYPE, &self.device), len))
    }

    fn upload(&self, numbers: List<T>) -> TensorValue<T> {
        TensorValue::Real(self.uploaded(&numbers))
    }

    fn ids(&self, ids: List<u32>) -> TensorValue<T> {
        TensorValue::Index(self.arena.share(ids))
    }

    fn numbers(&self, val: &TensorValue<T>) -> List<T> {
        self.host_numbers(val.array())
    }

    fn truths(&self, val: &TensorValue<T>) -> List<u8> {
        match val {
            TensorValue::Truth(truths) => self.arena.copy(truths),
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    fn gather(&self, from: &TensorValue<T>, pieces: &TensorPieces<T>, width: usize) -> TensorValue<T> {
        match from {
            TensorValue::Real(x) => TensorValue::Real(self.kept(self.gathered(x, pieces, width), pieces.total * width)),
            TensorValue::Index(ids) => TensorValue::Index(self.arena.share(of_pieces(ids, pieces, width))),
            TensorValue::Truth(truths) => TensorValue::Truth(self.arena.share(of_pieces(truths, pieces, width))),
            TensorValue::Tape(_) => unreachable!("a tape has steps, and no pieces"),
        }
    }

    fn scatter(&self, from: &TensorValue<T>, to: &mut TensorValue<T>, pieces: &TensorPieces<T>, width: usize) {
        match (from, to) {
            (TensorValue::Real(from), TensorValue::Real(to)) => {
                *to = self.kept(self.scattered(from, to, pieces, width), to.elem_count());
            }
            (TensorValue::Index(from), TensorValue::Index(to)) => put_pieces(from, to, pieces, width),
            (TensorValue::Truth(from), TensorValue::Truth(to)) => put_pieces(from, to, pieces, width),
            _ => {}
        }
    }

    fn add(&self, from: &TensorValue<T>, to: &mut TensorValue<T>, pieces: Option<&TensorPieces<T>>, width: usize) {
        let (from, sum) = (from.array(), to.array());
        let made = match pieces {
            None => sum + from,
            Some(pieces) => self.places(pieces).and_then(|places| self.added(sum, &places, from, width)),
        };
        *to = TensorValue::Real(self.kept(made, sum.elem_count()));
    }

    fn scale(&self, val: &mut TensorValue<T>, factors: List<T>) {
        let made = val.array() * self.uploaded(&factors);
        *val = TensorValue::Real(self.kept(made, factors.len()));
    }

    /// Tables have no room: what is written behind their end makes them longer.
    fn table(&self, first: &TensorValue<T>, _: usize) -> TensorValue<T> {
        first.clone()
    }

    fn append(&self, table: &mut TensorValue<T>, used: usize, more: &TensorValue<T>) {
        let made = table.array().narrow(0, 0, used).and_then(|first| Tensor::cat(&[&first, more.array()], 0));
        *table = TensorValue::Real(self.kept(made, used + more.array().elem_count()));
    }

    fn nodes(&self, table: &TensorValue<T>, nodes: Nodes<'_>, width: usize) -> TensorValue<T> {
        let ids = nodes.listed();
        let made = self.indices(&ids).and_then(|places| self.selected(table.array(), &places, width));
        TensorValue::Real(self.kept(made, ids.len() * width))
    }

    fn add_nodes(&self, from: &TensorValue<T>, nodes: Nodes<'_>, table: &mut TensorValue<T>, width: usize) {
        let places = self.indices(&nodes.listed());
        let made = places.and_then(|places| self.added(table.array(), &places, from.array(), width));
        *table = TensorValue::Real(self.kept(made, table.array().elem_count()));
    }

    fn blend(&self, blends: Blends<'_>, table: &TensorValue<T>, width: usize) -> TensorValue<T> {
        let made = self.mixed(blends, table.array(), width);
        TensorValue::Real(self.kept(made, blends.len() * width))
    }

    fn blend_grad(
        &self,
        blends: Blends<'_>,
        table: &TensorValue<T>,
        dy: &TensorValue<T>,
        gradients: &mut TensorValue<T>,
        width: usize,
    ) -> List<f64> {
        let made = self.mixed_grad(blends, table.array(), dy.array(), gradients.array(), width);
        match made {
            Ok((slopes, sums)) => {
                *gradients = TensorValue::Real(sums);
                self.arena.list(self.host_numbers(&slopes).iter().map(|x| Real::to_f64(*x)))
            }
            Err(error) => {
                self.note(&error);
                self.arena.filled(blends.terms().len(), 0.0)
            }
        }
    }
}

fn of_pieces<T: TensorNumber, E: Plain>(from: &Buffer<E>, pieces: &TensorPieces<T>, width: usize) -> Buffer<E> {
    let mut out = List::with_capacity_in(pieces.total * width, from.allocator().clone());
    for (start, len) in &pieces.list {
        out.extend_from_slice(&from[start * width..(start + len) * width]);
    }
    out
}

fn put_pieces<T: TensorNumber, E: Plain>(
    from: &Buffer<E>,
    to: &mut Shared<Buffer<E>>,
    pieces: &TensorPieces<T>,
    width: usize,
) {
    let arena = to.allocator().clone();
    let (mut out, mut at) = (arena.copy(to), 0);
    for (start, len) in &pieces.list {
        out[start * width..(start + len) * width].copy_from_slice(&from[at..at + len * width]);
        at += len * width;
    }
    *to = arena.share(out);
}

impl<T: TensorNumber> TensorExecutor<T> {
    /// Places as an index of Candle.
    pub(crate) fn indices(&self, places: &[u32]) -> Candle<Tensor> {
        Tensor::from_slice(places, places.len(), &self.device)
    }

    /// Units of `width` numbers, one below the other.
    pub(crate) fn as_units(&self, x: &Tensor, width: usize) -> Candle<Tensor> {
        x.reshape((x.elem_count() / width.max(1), width))
    }

    /// The units at these places, end to end.
    pub(crate) fn selected(&self, x: &Tensor, places: &Tensor, width: usize) -> Candle<Tensor> {
        if places.elem_count() * width == 0 {
            return Tensor::zeros(0, T::DTYPE, &self.device);
        }
        self.as_units(x, width)?.index_select(places, 0)?.flatten_all()
    }

    /// `to` plus the units of `from` at these places.
    pub(crate) fn added(&self, to: &Tensor, places: &Tensor, from: &Tensor, width: usize) -> Candle<Tensor> {
        if places.elem_count() * width == 0 {
            return Ok(to.clone());
        }
        self.as_units(to, width)?.index_add(places, &self.as_units(from, width)?, 0)?.flatten_all()
    }

    fn places(&self, pieces: &TensorPieces<T>) -> Candle<Tensor> {
        if let Some(places) = pieces.tables.0.get() {
            return Ok(places.clone());
        }
        let units = pieces.list.iter().flat_map(|(start, len)| *start as u32..(start + len) as u32);
        let places = self.indices(&units.collect::<Vec<_>>())?;
        Ok(pieces.tables.0.get_or_init(|| places).clone())
    }

    fn gathered(&self, x: &Tensor, pieces: &TensorPieces<T>, width: usize) -> Candle<Tensor> {
        match &pieces.list[..] {
            [(start, len)] => x.narrow(0, start * width, len * width),
            _ => self.selected(x, &self.places(pieces)?, width),
        }
    }

    fn scattered(&self, from: &Tensor, to: &Tensor, pieces: &TensorPieces<T>, width: usize) -> Candle<Tensor> {
        let units = to.elem_count() / width.max(1);
        let (mut order, mut at): (Vec<u32>, _) = ((0..units as u32).collect(), units as u32);
        for (start, len) in &pieces.list {
            for place in &mut order[*start..start + len] {
                *place = at;
                at += 1;
            }
        }
        self.selected(&Tensor::cat(&[to, from], 0)?, &self.indices(&order)?, width)
    }

    /// The nodes of all terms of sums, the sum of each term, and its share.
    fn terms(&self, blends: Blends<'_>) -> Candle<[Tensor; 3]> {
        let of = (0..blends.len()).flat_map(|k| std::iter::repeat_n(k as u32, blends.of(k).len()));
        let of = self.indices(&of.collect::<Vec<_>>())?;
        let nodes = self.indices(&blends.terms().iter().map(|term| term.node).collect::<Vec<_>>())?;
        let shares: Vec<T> = blends.terms().iter().map(|term| <T as Real>::from_f64(term.share)).collect();
        Ok([nodes, of, Tensor::from_slice(&shares, (shares.len(), 1), &self.device)?])
    }

    fn mixed(&self, blends: Blends<'_>, table: &Tensor, width: usize) -> Candle<Tensor> {
        let zeros = Tensor::zeros(blends.len() * width, T::DTYPE, &self.device)?;
        if blends.terms().is_empty() {
            return Ok(zeros);
        }
        let [nodes, of, shares] = self.terms(blends)?;
        let parts = self.as_units(&self.selected(table, &nodes, width)?, width)?.broadcast_mul(&shares)?;
        self.added(&zeros, &of, &parts, width)
    }

    fn mixed_grad(
        &self,
        blends: Blends<'_>,
        table: &Tensor,
        dy: &Tensor,
        gradients: &Tensor,
        width: usize,
    ) -> Candle<(Tensor, Tensor)> {
        if blends.terms().is_empty() {
            return Ok((Tensor::zeros(0, T::DTYPE, &self.device)?, gradients.clone()));
        }
        let [nodes, of, shares] = self.terms(blends)?;
        let dy = self.as_units(&self.selected(dy, &of, width)?, width)?;
        let slopes = (self.as_units(&self.selected(table, &nodes, width)?, width)? * &dy)?.sum(1)?;
        Ok((slopes, self.added(gradients, &nodes, &dy.broadcast_mul(&shares)?, width)?))
    }
}
