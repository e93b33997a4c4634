//! Ops that move whole units between positions and rows: an index says which unit stands where.

use candle_core::{Result as Candle, Tensor};
use rtc_compiler::ir::attribute::{self, At, Side};
use rtc_compiler::ir::types::{Dim, Type};
use rtc_exec::node_context::NodeContext;
use rtc_exec::rows::Axis;
use rtc_kernel::{Real, truth};

use crate::exec::TensorExecutor;
use crate::value::TensorNumber;

/// The row of every position.
fn row_of(axis: &Axis) -> Vec<u32> {
    let rows = 0..axis.origin.len();
    rows.flat_map(|row| std::iter::repeat_n(row as u32, axis.len(row))).collect()
}

impl<T: TensorNumber> TensorExecutor<T> {
    fn flat_zeros(&self, len: usize) -> Candle<Tensor> {
        Tensor::zeros(len, T::DTYPE, &self.device)
    }

    /// The vectors of ids.
    pub(crate) fn embed(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let places = self.indices(self.index(c.operand(0)))?;
        self.selected(&self.real(c.operand(1)), &places, c.width(1))
    }

    pub(crate) fn embed_grad(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let table = self.flat_zeros(c.view.extent(c.ty(c.node.results[0])))?;
        let width = c.width(2);
        self.added(&table, &self.indices(self.index(c.operand(0)))?, &self.real(c.operand(1)), width)
    }

    /// Sums over the positions of rows, or means.
    pub(crate) fn pooled(&self, c: &NodeContext<'_>, mean: bool) -> Candle<Tensor> {
        let (axis, width) = (c.axis(0), c.inner(0));
        let zeros = self.flat_zeros(c.view.rows() * width)?;
        let sums = self.added(&zeros, &self.indices(&row_of(&axis))?, &self.real(c.operand(0)), width)?;
        if mean { self.shared_out(&sums, &axis, width) } else { Ok(sums) }
    }

    /// Each row over its length.
    fn shared_out(&self, x: &Tensor, axis: &Axis, width: usize) -> Candle<Tensor> {
        let share = |row| <T as Real>::from_f64(1.0 / axis.len(row).max(1) as f64);
        let shares: Vec<T> = (0..axis.origin.len()).map(share).collect();
        let shares = Tensor::from_slice(&shares, (shares.len(), 1), &self.device)?;
        self.as_units(x, width)?.broadcast_mul(&shares)?.flatten_all()
    }

    /// The numbers of rows at all their positions, which are those of operand 1, or equal parts of them.
    pub(crate) fn broadcast_rows(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let axis = c.axis(1);
        let width = c.view.extent(c.ty(c.operand(0))) / c.view.rows();
        let x = self.real(c.operand(0));
        let x = if c.get(attribute::SHARED) { self.shared_out(&x, &axis, width)? } else { x };
        self.selected(&x, &self.indices(&row_of(&axis))?, width)
    }

    /// One position of every row, zeros where it has none.
    pub(crate) fn position(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axis, width) = (c.axis(0), c.inner(0));
        let places: Vec<u32> = (0..c.view.rows()).map(|row| place(&axis, row, c.get(attribute::AT))).collect();
        let behind = Tensor::cat(&[self.real(c.operand(0)), self.flat_zeros(width)?], 0)?;
        self.selected(&behind, &self.indices(&places)?, width)
    }

    pub(crate) fn position_grad(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axis, width) = (c.axis(1), c.inner(1));
        let found = (0..c.view.rows()).map(|row| (row as u32, place(&axis, row, c.get(attribute::AT))));
        let (rows, places): (Vec<u32>, Vec<u32>) = found.filter(|(_, place)| *place < axis.total() as u32).unzip();
        let dy = self.selected(&self.real(c.operand(0)), &self.indices(&rows)?, width)?;
        self.added(&self.flat_zeros(axis.total() * width)?, &self.indices(&places)?, &dy, width)
    }

    /// Each position gets what stands `lag` before or behind it in its row, or zeros.
    pub(crate) fn shift(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axis, width, lag) = (c.axis(0), c.inner(0), c.get(attribute::LAG));
        let none = axis.total();
        let places = (0..c.view.rows()).flat_map(|row| {
            let (start, end) = (axis.offsets[row], axis.offsets[row + 1]);
            (start..end).map(move |at| match c.get(attribute::SIDE) {
                Side::Left => at.checked_sub(lag).filter(|from| *from >= start).unwrap_or(none),
                Side::Right => at.checked_add(lag).filter(|from| *from < end).unwrap_or(none),
            } as u32)
        });
        let places = self.indices(&places.collect::<Vec<_>>())?;
        let behind = Tensor::cat(&[self.real(c.operand(0)), self.flat_zeros(width)?], 0)?;
        self.selected(&behind, &places, width)
    }

    /// Rows between START and END.
    pub(crate) fn frame(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axis, width) = (c.axis(0), c.last(0));
        let start = axis.total() as u32;
        let places = (0..c.view.rows()).flat_map(|row| {
            let own = axis.offsets[row] as u32..axis.offsets[row + 1] as u32;
            std::iter::once(start).chain(own).chain(std::iter::once(start + 1))
        });
        let places = self.indices(&places.collect::<Vec<_>>())?;
        let [x, first, last] = [0, 1, 2].map(|n| self.real(c.operand(n)));
        self.selected(&Tensor::cat(&[x, first, last], 0)?, &places, width)
    }

    pub(crate) fn frame_grad(&self, c: &NodeContext<'_>) -> Candle<Vec<Tensor>> {
        let (axis, width) = (c.axis(1), c.last(0));
        let rows = c.view.rows();
        let framed = |row: usize| axis.offsets[row] + 2 * row;
        let inner = (0..rows).flat_map(|row| (0..axis.len(row)).map(move |at| (framed(row) + 1 + at) as u32));
        let starts = (0..rows).map(|row| framed(row) as u32);
        let ends = (0..rows).map(|row| (framed(row) + 1 + axis.len(row)) as u32);
        let dy = self.real(c.operand(0));
        let of = |places: Vec<u32>| self.selected(&dy, &self.indices(&places)?, width);
        let summed = |x: Tensor| self.as_units(&x, width)?.sum(0);
        Ok(vec![of(inner.collect())?, summed(of(starts.collect())?)?, summed(of(ends.collect())?)?])
    }

    /// Numbers of units, one for each position or group of channels that operand `x` has in a unit.
    fn spread(&self, c: &NodeContext<'_>, s: &Tensor, x: usize, of: &Type) -> Candle<(Tensor, usize)> {
        let (whole, own) = (c.ty(c.operand(x)).dims(), of.dims());
        let width = |dims: &[Dim]| dims.iter().filter_map(Dim::fixed).product::<usize>();
        match whole.get(own.len()) {
            Some(Dim::Sym(axis)) if own.len() == 1 => {
                let rows = self.indices(&row_of(c.view.axis(axis)))?;
                Ok((self.selected(s, &rows, 1)?, width(&whole[own.len() + 1..])))
            }
            _ => Ok((s.clone(), width(&whole[own.len()..]))),
        }
    }

    /// `x` times a number of each unit; `s` is the operand that has these.
    pub(crate) fn mul_unit(&self, c: &NodeContext<'_>, x: usize, s: usize) -> Candle<Tensor> {
        let (s, width) = self.spread(c, &self.real(c.operand(s)), 0, c.ty(c.operand(s)))?;
        let x = self.real(c.operand(x));
        self.as_units(&x, width)?.broadcast_mul(&self.as_units(&s, 1)?)?.flatten_all()
    }

    /// The sum of `a b` over the numbers of each unit.
    pub(crate) fn dot_unit(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let of = c.ty(c.node.results[0]);
        let units = c.view.extent(of);
        let zeros = self.flat_zeros(units)?;
        let (counted, width) = self.spread(c, &zeros, 0, of)?;
        let sums = self.as_units(&(self.real(c.operand(0)) * self.real(c.operand(1)))?, width)?.sum(1)?;
        match c.ty(c.operand(0)).dims().get(of.dims().len()) {
            Some(Dim::Sym(axis)) if of.dims().len() == 1 => {
                debug_assert_eq!(counted.elem_count(), sums.elem_count());
                self.added(&zeros, &self.indices(&row_of(c.view.axis(axis)))?, &sums, 1)
            }
            _ => Ok(sums),
        }
    }

    /// Vectors before the positions of every row.
    pub(crate) fn prefix(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axis, width) = (c.axis(0), c.last(0));
        let [x, v] = [0, 1].map(|n| self.real(c.operand(n)));
        let (more, behind) = (v.elem_count() / c.view.rows() / width, axis.total());
        let places = (0..c.view.rows()).flat_map(|row| {
            let first = behind + row * more;
            (first..first + more).chain(axis.offsets[row]..axis.offsets[row + 1]).map(|at| at as u32)
        });
        self.selected(&Tensor::cat(&[x, v], 0)?, &self.indices(&places.collect::<Vec<_>>())?, width)
    }

    /// The first positions of every row, or those after them.
    pub(crate) fn parted(&self, c: &NodeContext<'_>, count: usize, behind: bool) -> Candle<Tensor> {
        let (axis, width) = (c.axis(0), c.last(0));
        let places = (0..c.view.rows()).flat_map(|row| {
            let (start, end) = (axis.offsets[row], axis.offsets[row + 1]);
            let own = if behind { start + count..end } else { start..start + count };
            own.map(|at| at as u32)
        });
        self.selected(&self.real(c.operand(0)), &self.indices(&places.collect::<Vec<_>>())?, width)
    }

    /// Codes of positions are added: the rows of a learned table.
    pub(crate) fn add_position(&self, c: &NodeContext<'_>, table: &Tensor) -> Candle<Tensor> {
        let codes = self.selected(table, &self.indices(&places_within(&c.axis(0)))?, c.last(0))?;
        self.real(c.operand(0)) + codes
    }

    pub(crate) fn add_position_grad(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let table = self.flat_zeros(c.view.extent(c.ty(c.node.results[0])))?;
        self.added(&table, &self.indices(&places_within(&c.axis(0)))?, &self.real(c.operand(0)), c.last(0))
    }

    /// Numbers of units by truth values: `yes` where they hold, `no` where they do not, NaN where nobody knows. `x` is the operand whose
    /// numbers they are.
    pub(crate) fn chosen(&self, c: &NodeContext<'_>, x: usize, yes: &Tensor, no: &Tensor) -> Candle<Tensor> {
        let condition = if x == 0 { 1 } else { 0 };
        let flags: Vec<T> = self.truth(c.operand(condition)).iter().map(|flag| factor(*flag)).collect();
        let (flags, width) = self.spread(c, &self.uploaded(&flags), x, c.ty(c.operand(condition)))?;
        let flags = self.as_units(&flags, 1)?.broadcast_as((flags.elem_count(), width))?.contiguous()?.flatten_all()?;
        // Unknown is NaN, which is neither 0 nor 1.
        let (zeros, ones) = (flags.zeros_like()?, flags.ones_like()?);
        flags.eq(&ones)?.where_cond(yes, &flags.eq(&zeros)?.where_cond(no, &flags)?)
    }
}

/// The position of every position within its row.
fn places_within(axis: &Axis) -> Vec<u32> {
    (0..axis.origin.len()).flat_map(|row| (0..axis.len(row)).map(move |at| (axis.before + at) as u32)).collect()
}

/// 1, 0, or NaN where nobody knows.
fn factor<T: TensorNumber>(flag: u8) -> T {
    match flag {
        truth::FALSE => <T as Real>::ZERO,
        truth::TRUE => <T as Real>::ONE,
        _ => <T as Real>::NAN,
    }
}

/// The place of a position of a row among all positions; the one behind the last where the row has none.
fn place(axis: &Axis, row: usize, at: At) -> u32 {
    let back = match at {
        At::First => axis.len(row),
        At::Last => 1,
        At::BeforeLast => 2,
    };
    let is_there = axis.len(row) > 0 && axis.len(row) >= back;
    (if is_there { axis.offsets[row + 1] - back } else { axis.total() }) as u32
}
