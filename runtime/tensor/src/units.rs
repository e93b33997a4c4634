//! Ops that work unit by unit: a unit is a row of a matrix here.

use std::ops::Range;

use candle_core::{Result as Candle, Tensor};
use rtc_compiler::ir::attribute::{self, Layout, Origin, Reduction};
use rtc_compiler::ir::pointwise;
use rtc_compiler::ir::types::{BATCH, Dim};
use rtc_compiler::plan::group::units;
use rtc_exec::node_context::NodeContext;
use rtc_exec::rows::BatchView;
use rtc_kernel::Real;
use rtc_kernel::dropout::{Keep, dropout, tied_dropout};
use rtc_kernel::position::Rotation;

use crate::exec::TensorExecutor;
use crate::map;
use crate::value::TensorNumber;

/// `1 / sqrt(square + eps)`; NaN where the square is infinite, so that nobody overlooks it.
fn inverse_root(square: &Tensor, eps: f64) -> Candle<Tensor> {
    (square + eps)?.sqrt()?.recip()? + (square * 0.0)?
}

/// Normalised units, and what they were divided by.
fn normalised(x: &Tensor, eps: f64, centred: bool) -> Candle<(Tensor, Tensor)> {
    let x = if centred { x.broadcast_sub(&x.mean_keepdim(1)?)? } else { x.clone() };
    let scale = inverse_root(&x.sqr()?.mean_keepdim(1)?, eps)?;
    Ok((x.broadcast_mul(&scale)?, scale))
}

/// The units of every row.
fn rows<'v>(view: &'v BatchView, axes: &'v [Dim]) -> impl Iterator<Item = Range<usize>> + 'v {
    (0..view.rows()).map(move |row| match axes {
        [Dim::Sym(b), Dim::Sym(name)] if b == BATCH => view.axis(name).offsets[row]..view.axis(name).offsets[row + 1],
        [Dim::Sym(_), rest @ ..] => {
            let each: usize = rest.iter().filter_map(Dim::fixed).product();
            row * each..(row + 1) * each
        }
        _ => {
            if row == 0 {
                0..1
            } else {
                0..0
            }
        }
    })
}

impl<T: TensorNumber> TensorExecutor<T> {
    /// An operand with a unit in each row.
    pub(crate) fn matrix(&self, c: &NodeContext<'_>, n: usize) -> Candle<Tensor> {
        self.as_units(&self.real(c.operand(n)), units(c.ty(c.operand(n))).1)
    }

    /// Channels of a result.
    fn channels(&self, c: &NodeContext<'_>) -> usize {
        units(c.ty(c.node.results[0])).1
    }

    /// A vector that is added to every unit, where the op has it as an operand.
    fn with_bias(&self, c: &NodeContext<'_>, y: Tensor, n: usize) -> Candle<Tensor> {
        match c.node.operands.get(n) {
            Some(bias) => y.broadcast_add(&self.real(*bias)),
            None => Ok(y),
        }
    }

    /// The same for a factor.
    fn with_gain(&self, c: &NodeContext<'_>, y: &Tensor, n: usize) -> Candle<Tensor> {
        match c.node.operands.get(n) {
            Some(gain) => y.broadcast_mul(&self.real(*gain)),
            None => Ok(y.clone()),
        }
    }

    pub(crate) fn linear(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let w = self.as_units(&self.real(c.operand(1)), c.last(1))?;
        self.with_bias(c, self.matrix(c, 0)?.matmul(&w.t()?)?, 2)
    }

    pub(crate) fn linear_grad_input(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        self.matrix(c, 0)?.matmul(&self.as_units(&self.real(c.operand(1)), c.last(1))?)
    }

    pub(crate) fn linear_grad_weight(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let [dy, x] = [0, 1].map(|n| self.as_units(&self.real(c.operand(n)), c.last(n)));
        dy?.t()?.matmul(&x?)
    }

    pub(crate) fn affine(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        self.with_bias(c, self.with_gain(c, &self.matrix(c, 0)?, 1)?, 2)
    }

    pub(crate) fn layer_norm(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let y = normalised(&self.matrix(c, 0)?, c.get(attribute::EPS), true)?.0;
        self.with_bias(c, self.with_gain(c, &y, 1)?, 2)
    }

    pub(crate) fn layer_norm_grad(&self, c: &NodeContext<'_>) -> Candle<Vec<Tensor>> {
        let (n, scale) = normalised(&self.matrix(c, 0)?, c.get(attribute::EPS), true)?;
        let dy = self.matrix(c, 2)?;
        let g = self.with_gain(c, &dy, 1)?;
        let along = n.broadcast_mul(&(&g * &n)?.mean_keepdim(1)?)?;
        let dx = (g.broadcast_sub(&g.mean_keepdim(1)?)? - along)?.broadcast_mul(&scale)?;
        Ok(vec![dx, (&dy * n)?.sum(0)?, dy.sum(0)?])
    }

    pub(crate) fn rms_norm(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let part = c.last(0) / c.get(attribute::PARTS);
        let x = self.as_units(&self.real(c.operand(0)), part)?;
        self.with_gain(c, &normalised(&x, c.get(attribute::EPS), false)?.0, 1)
    }

    pub(crate) fn rms_norm_grad(&self, c: &NodeContext<'_>) -> Candle<Vec<Tensor>> {
        let part = c.last(0) / c.get(attribute::PARTS);
        let [x, dy] = [0, 1].map(|n| self.as_units(&self.real(c.operand(n)), part));
        let ((n, scale), dy) = (normalised(&x?, c.get(attribute::EPS), false)?, dy?);
        let g = self.with_gain(c, &dy, 2)?;
        let along = n.broadcast_mul(&(&g * &n)?.mean_keepdim(1)?)?;
        let mut results = vec![(g - along)?.broadcast_mul(&scale)?];
        if c.node.results.len() > 1 {
            results.push((dy * n)?.sum(0)?);
        }
        Ok(results)
    }

    pub(crate) fn mapped(&self, c: &NodeContext<'_>) -> Candle<Vec<Tensor>> {
        let rows = pointwise::results(&c.node.attrs).expect("the shape rule has read them");
        let operands: Vec<Tensor> = c.node.operands.iter().map(|v| self.real(*v)).collect();
        map::map(&rows, &operands)
    }

    /// The sum or mean of channels; nothing for the largest, of which Candle finds another one beside NaN.
    pub(crate) fn reduced(&self, c: &NodeContext<'_>) -> Candle<Option<Tensor>> {
        match c.get(attribute::BY) {
            Reduction::Sum => self.matrix(c, 0)?.sum(1).map(Some),
            Reduction::Mean => self.matrix(c, 0)?.mean(1).map(Some),
            Reduction::Max => Ok(None),
        }
    }

    pub(crate) fn broadcast_channels(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let x = self.as_units(&self.real(c.operand(0)), 1)?;
        x.broadcast_as((x.dim(0)?, self.channels(c)))?.contiguous()
    }

    pub(crate) fn slice(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        self.matrix(c, 0)?.narrow(1, c.get(attribute::START), self.channels(c))?.contiguous()
    }

    pub(crate) fn pad(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (x, start) = (self.matrix(c, 0)?, c.get(attribute::START));
        let behind = self.channels(c) - start - x.dim(1)?;
        x.pad_with_zeros(1, start, behind)
    }

    pub(crate) fn dropped_out(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        self.real(c.operand(0)) * self.factors(c)
    }

    /// The factors of dropout, drawn as the processor draws them.
    fn factors(&self, c: &NodeContext<'_>) -> Tensor {
        let (axes, width) = units(c.ty(c.operand(0)));
        let (keep, key) = (Keep::new(c.get(attribute::P)), c.view.key.at(c.get(attribute::STREAM) as u64));
        let count = c.view.units(axes) * width;
        let (ones, mut factors) = (vec![<T as Real>::ONE; count], vec![<T as Real>::ZERO; count]);
        for (row, range) in rows(c.view, axes).enumerate() {
            let (key, own) = (key.at(c.view.ids[row]), range.start * width..range.end * width);
            match c.get(attribute::TIED) {
                true => tied_dropout(&ones[own.clone()], keep, key, width, &mut factors[own]),
                false => dropout(&ones[own.clone()], keep, key, 0, &mut factors[own]),
            }
        }
        self.uploaded(&factors)
    }

    /// Pairs of channels turned by the angles of their position.
    pub(crate) fn rotated(&self, c: &NodeContext<'_>) -> Candle<Tensor> {
        let (axes, width) = units(c.ty(c.operand(0)));
        let heads = c.get(attribute::HEADS);
        let rotation = Rotation::of(&c.node.attrs, width / heads);
        let places: Vec<usize> = match axes {
            [Dim::Sym(b), Dim::Sym(name)] if b == BATCH => {
                let axis = c.view.axis(name);
                let origin = |row: usize| if c.get(attribute::ORIGIN) == Origin::Row { axis.origin[row] } else { 0 };
                let own = |row: usize| (axis.offsets[row]..axis.offsets[row + 1]).map(move |at| (row, at));
                let all = (0..c.view.rows()).flat_map(own);
                all.map(|(row, at)| origin(row) + axis.place(at, row)).collect()
            }
            _ => rows(c.view, axes).flat_map(|range| 0..range.len()).collect(),
        };
        let mut tables = self.tables.borrow_mut();
        let reach = places.iter().max().map_or(0, |place| place + 1);
        let (cosines, sines) = tables.upto(rotation, c.node.find(attribute::ANGLE), reach).numbers();
        let (part, reach) = (rotation.part, cosines.len() / rotation.part);
        let indices = self.indices(&places.iter().map(|place| *place as u32).collect::<Vec<_>>())?;
        let [cosines, sines] = [cosines, sines].map(|table| -> Candle<Tensor> {
            let table = Tensor::from_slice(table, (reach, part), &self.device)?;
            table.index_select(&indices, 0)?.unsqueeze(1)
        });
        let x = self.real(c.operand(0)).reshape((places.len(), heads, width / heads))?;
        let turning = x.narrow(2, 0, part)?.contiguous()?;
        // What stands beside each channel in its pair; the sines have the sign that it gets.
        let half = part / 2;
        let beside = (0..part).map(|channel| match c.get(attribute::LAYOUT) {
            Layout::Pairs => (channel ^ 1) as u32,
            Layout::Half => ((channel + half) % part) as u32,
        });
        let beside: Vec<u32> = beside.collect();
        let sines = if c.get(attribute::TRANSPOSE) { sines?.neg()? } else { sines? };
        let other = turning.index_select(&self.indices(&beside)?, 2)?;
        let turned = (turning.broadcast_mul(&cosines?)? + other.broadcast_mul(&sines)?)?;
        if part == width / heads {
            return Ok(turned);
        }
        Tensor::cat(&[&turned, &x.narrow(2, part, width / heads - part)?.contiguous()?], 2)
    }
}
