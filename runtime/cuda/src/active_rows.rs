//! The rows that take part at one point, with the tables that kernels read about them.
//!
//! What a point is stands on the host, as for the CPU ([`BatchView`]); the tables are made and copied when the first kernel asks for
//! them, once for a set of rows.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use rtc_compiler::ir::types::{BATCH, Dim, Type};

use super::device::KernelArgument;
use super::memory::{DeviceArray, DevicePool, address, int};
use rtc_base::rng::Key;
use rtc_exec::machine::Active;
use rtc_exec::rows::{Axis, BatchView};

/// The batch as a region sees it. Clones share the tables.
#[derive(Clone, Debug)]
pub struct ActiveRows {
    pub(super) view: BatchView,
    tables: Rc<AxisTables>,
}

#[derive(Debug, Default)]
struct AxisTables {
    axes: RefCell<Vec<(AxisName, Ragged)>>,
    ids: OnceCell<DeviceArray>,
}

/// An axis: one of the batch, or one of a fixed size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AxisName {
    Ragged(Rc<str>),
    Even(usize),
}

/// An axis on the device, and the lengths of its rows on the host.
#[derive(Clone, Debug)]
pub(super) struct Ragged {
    /// Where rows begin, and the total.
    pub(super) offsets: DeviceArray,
    /// Position of the first element of each part within the whole row.
    pub(super) origin: DeviceArray,
    /// The row of every position.
    pub(super) row_of: DeviceArray,
    /// The position of each within the part, where a choice has left only some of them.
    pub(super) places: Option<DeviceArray>,
    /// Length of the longest row.
    pub(super) longest: usize,
}

/// The rows to which units belong, as kernels are told.
pub(super) struct UnitLayout {
    /// The axis, where rows have different numbers of units.
    pub(super) axis: Option<Ragged>,
    /// Units of a row elsewhere.
    pub(super) per: usize,
}

impl From<BatchView> for ActiveRows {
    fn from(view: BatchView) -> Self {
        Self { view, tables: Rc::default() }
    }
}

impl Active for ActiveRows {
    fn view(&self) -> &BatchView {
        &self.view
    }

    fn keyed(&self, key: Key) -> Self {
        Self { view: self.view.keyed(key), tables: self.tables.clone() }
    }
}

impl UnitLayout {
    /// `row_of, offsets, per`.
    pub(super) fn args(&self) -> [KernelArgument; 3] {
        let axis = self.axis.as_ref();
        [address(axis.map(|a| &a.row_of)), address(axis.map(|a| &a.offsets)), int(self.per)]
    }
}

impl ActiveRows {
    /// The ids of the rows, for random numbers.
    pub(super) fn ids(&self, pool: &DevicePool) -> DeviceArray {
        self.tables.ids.get_or_init(|| pool.upload(&self.view.ids)).clone()
    }

    /// The second axis of a batched value.
    pub(super) fn axis_of(&self, ty: &Type, pool: &DevicePool) -> Ragged {
        let name = match ty.dims().get(1) {
            Some(Dim::Sym(axis)) => AxisName::Ragged(Rc::from(axis.as_str())),
            Some(Dim::Fixed(size)) => AxisName::Even(*size),
            None => AxisName::Even(1),
        };
        self.axis(&name, pool)
    }

    pub(super) fn axis(&self, name: &AxisName, pool: &DevicePool) -> Ragged {
        if let Some((_, found)) = self.tables.axes.borrow().iter().find(|(n, _)| n == name) {
            return found.clone();
        }
        let made = match name {
            AxisName::Ragged(name) => upload(self.view.axis(name), pool),
            AxisName::Even(size) => {
                upload(&Axis::of_lengths(std::iter::repeat_n(*size, self.view.rows()), self.view.arena()), pool)
            }
        };
        self.tables.axes.borrow_mut().push((name.clone(), made.clone()));
        made
    }

    /// To which rows the units with these axes belong.
    pub(super) fn units(&self, dims: &[Dim], pool: &DevicePool) -> UnitLayout {
        match dims {
            [Dim::Sym(b), Dim::Sym(axis), ..] if b == BATCH => {
                UnitLayout { axis: Some(self.axis(&AxisName::Ragged(Rc::from(axis.as_str())), pool)), per: 1 }
            }
            [Dim::Sym(_), rest @ ..] => UnitLayout { axis: None, per: rest.iter().filter_map(Dim::fixed).product() },
            _ => UnitLayout { axis: None, per: 1 },
        }
    }
}

fn upload(axis: &Axis, pool: &DevicePool) -> Ragged {
    let rows = axis.origin.len();
    let small = |n: &usize| u32::try_from(*n).expect("a batch has fewer than 2^32 positions");
    let mut table: Vec<u32> = axis.offsets.iter().chain(&axis.origin).map(small).collect();
    for row in 0..rows {
        table.extend(std::iter::repeat_n(row as u32, axis.len(row)));
    }
    let places = axis.chosen.as_ref().map(|chosen| &chosen.places);
    table.extend(places.into_iter().flat_map(|places| places.iter()).map(small));
    let whole = pool.upload(&table);
    Ragged {
        places: places.map(|places| whole.part::<u32>(2 * rows + 1 + axis.total(), places.len())),
        offsets: whole.part::<u32>(0, rows + 1),
        origin: whole.part::<u32>(rows + 1, rows),
        row_of: whole.part::<u32>(2 * rows + 1, axis.total()),
        longest: (0..rows).map(|row| axis.len(row)).max().unwrap_or(0),
    }
}
