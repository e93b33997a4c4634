//! Dense attention over padded rows. The rarer forms of the op are left to the processor: biases and other scores than bounded ones, relative positions, heads that
//! talk, slots, and gradients that go apart.

use candle_core::{Result as Candle, Tensor};
use rtc_compiler::expr::Var;
use rtc_compiler::ir::attribute::{self, Mask};
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::types::Elem;
use rtc_exec::mask::mark;
use rtc_exec::node_context::NodeContext;
use rtc_exec::rows::Axis;
use rtc_kernel::attention::MaskRow;
use rtc_kernel::dropout::{Keep, dropout};

use crate::exec::TensorExecutor;
use crate::map::softmax_grad;
use crate::value::TensorNumber;

/// Attributes that are computed here; an attention with others is the processor's.
const KNOWN: [&str; 7] = ["dropout", "heads", "key_heads", "mask", "scale", "score", "stream"];

/// The sizes of a padded attention.
struct PaddedSizes {
    rows: usize,
    heads: usize,
    key_heads: usize,
    queries: usize,
    keys: usize,
    scale: f64,
    softcap: Option<f64>,
}

/// What forward and backward runs share.
struct PaddedAttention {
    /// Queries `[rows, heads, queries, width]`, and keys and values with as many heads.
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Softmax of the scores.
    probabilities: Tensor,
    /// The derivative of scores by products.
    slope: Option<Tensor>,
    /// Factors of dropout.
    factors: Option<Tensor>,
}

/// The places of packed positions in padded rows; those of padding name the position behind the last.
fn padded_places(axis: &Axis, longest: usize) -> Vec<u32> {
    let none = axis.total() as u32;
    let row = |row: usize| {
        let (start, len) = (axis.offsets[row], axis.len(row));
        (0..longest).map(move |at| if at < len { (start + at) as u32 } else { none })
    };
    (0..axis.origin.len()).flat_map(row).collect()
}

/// The places in padded rows of packed positions.
fn packed_places(axis: &Axis, longest: usize) -> Vec<u32> {
    let row = |row: usize| (0..axis.len(row)).map(move |at| (row * longest + at) as u32);
    (0..axis.origin.len()).flat_map(row).collect()
}

fn longest(axis: &Axis) -> usize {
    (0..axis.origin.len()).map(|row| axis.len(row)).max().unwrap_or(0)
}

impl<T: TensorNumber> TensorExecutor<T> {
    /// The sizes of an attention whose step is operand `fixed`; nothing where it has a form that the processor computes.
    fn sizes(&self, c: &NodeContext<'_>, fixed: usize) -> Option<PaddedSizes> {
        let node = c.node;
        let others = node.attrs.iter().any(|(name, _)| !KNOWN.contains(&name));
        let is_step = |n: usize| node.operands.get(n).is_some_and(|v| c.ty(*v).elem() == Some(Elem::Index));
        let more = node.operands.len() > fixed + usize::from(is_step(fixed));
        let slots = c.ty(c.operand(1)).dims().len() != c.ty(c.operand(0)).dims().len();
        let (queries, keys) = (c.axis(0), c.axis(1));
        let part = [&queries, &keys].iter().any(|axis| axis.before > 0 || axis.chosen.is_some());
        let heads = c.get(attribute::HEADS);
        let rule = self.exprs.get(&c.step.node);
        let others = others || rule.is_some_and(|rule| rule.as_ref().map_or(true, |rule| rule.bias.is_some()));
        if others || more || slots || part {
            return None;
        }
        let head_width = c.last(0) / heads;
        Some(PaddedSizes {
            rows: c.view.rows(),
            heads,
            key_heads: c.get(attribute::KEY_HEADS),
            queries: longest(&queries),
            keys: longest(&keys),
            scale: node.attrs.scale(head_width),
            softcap: self.caps.get(&c.step.node).copied(),
        })
    }

    /// Packed positions as `[rows, heads, longest, width]`.
    fn padded(&self, x: &Tensor, axis: &Axis, longest: usize, heads: usize) -> Candle<Tensor> {
        let width = x.elem_count() / axis.total();
        let with_none = Tensor::cat(&[x, &Tensor::zeros(width, T::DTYPE, &self.device)?], 0)?;
        let rows = self.selected(&with_none, &self.indices(&padded_places(axis, longest))?, width)?;
        rows.reshape((axis.origin.len(), longest, heads, width / heads))?.transpose(1, 2)?.contiguous()
    }

    /// The reverse.
    fn packed(&self, x: &Tensor, axis: &Axis, longest: usize) -> Candle<Tensor> {
        let (_, heads, _, width) = x.dims4()?;
        let rows = x.transpose(1, 2)?.contiguous()?.flatten_all()?;
        self.selected(&rows, &self.indices(&packed_places(axis, longest))?, heads * width)
    }

    /// 1 where a query sees a key: `[rows, heads or 1, queries, keys]`.
    fn mask(&self, c: &NodeContext<'_>, s: &PaddedSizes, fixed: usize) -> Candle<Tensor> {
        let (queries, keys) = (c.axis(0), c.axis(1));
        let is_step = |v: &&Value| c.ty(**v).elem() == Some(Elem::Index);
        let step = c.node.operands.get(fixed).filter(is_step).map_or(0, |v| i64::from(self.index(*v)[0]));
        let key = (queries.offsets.to_vec(), keys.offsets.to_vec(), step);
        if let Some((_, known)) = self.masks.borrow().get(&c.step.node).filter(|(known, _)| *known == key) {
            return Ok(known.clone());
        }
        let rule = self.exprs.get(&c.step.node).and_then(|rule| rule.as_ref().ok()?.expr.as_ref());
        let by_head = rule.is_some_and(|expr| expr.uses(Var::Head));
        let heads = if by_head { s.heads } else { 1 };
        let causal = c.get(attribute::MASK) == Mask::Causal;
        let mut flags: Vec<u8> = Vec::with_capacity(s.rows * heads * s.queries * s.keys);
        for row in 0..s.rows {
            let (nq, nk) = (queries.len(row), keys.len(row));
            for head in 0..heads {
                for query in 0..s.queries {
                    let mut seen = vec![query < nq; nk];
                    match rule {
                        Some(expr) if query < nq => {
                            mark(expr, step, MaskRow { row, head, query, queries: nq, first: 0 }, &mut seen);
                        }
                        None if causal => seen.iter_mut().enumerate().for_each(|(j, seen)| *seen &= j <= query),
                        _ => {}
                    }
                    seen.resize(s.keys, false);
                    flags.extend(seen.into_iter().map(u8::from));
                }
            }
        }
        let made = Tensor::from_vec(flags, (s.rows, heads, s.queries, s.keys), &self.device)?;
        self.masks.borrow_mut().insert(c.step.node, (key, made.clone()));
        Ok(made)
    }

    /// The factors of dropout on probabilities, drawn as the processor draws them.
    fn dropped(&self, c: &NodeContext<'_>, s: &PaddedSizes) -> Candle<Option<Tensor>> {
        let p = c.get(attribute::DROPOUT);
        if p <= 0.0 {
            return Ok(None);
        }
        let (queries, keys) = (c.axis(0), c.axis(1));
        let row_keys = c.view.row_keys(c.get(attribute::STREAM) as u64);
        let (one, zero) = (<T as rtc_kernel::Real>::ONE, <T as rtc_kernel::Real>::ZERO);
        let mut factors = vec![zero; s.rows * s.heads * s.queries * s.keys];
        for (n, out) in factors.chunks_exact_mut(s.keys).enumerate() {
            let (row, head, query) = (n / (s.heads * s.queries), n / s.queries % s.heads, n % s.queries);
            if query < queries.len(row) {
                let ones = vec![one; keys.len(row)];
                let key = row_keys[row].at(head as u64).at(query as u64);
                dropout(&ones, Keep::new(p), key, 0, &mut out[..ones.len()]);
            }
        }
        Tensor::from_vec(factors, (s.rows, s.heads, s.queries, s.keys), &self.device).map(Some)
    }

    /// Heads of keys and values for every head of queries.
    fn shared(x: &Tensor, s: &PaddedSizes) -> Candle<Tensor> {
        if s.heads == s.key_heads {
            return Ok(x.clone());
        }
        let (rows, heads, keys, width) = x.dims4()?;
        let of = s.heads / heads;
        let every = x.unsqueeze(2)?.broadcast_as((rows, heads, of, keys, width))?;
        every.contiguous()?.reshape((rows, s.heads, keys, width))
    }

    /// The gradient of what [`Self::shared`] has repeated.
    fn unshared(dx: &Tensor, s: &PaddedSizes) -> Candle<Tensor> {
        if s.heads == s.key_heads {
            return Ok(dx.clone());
        }
        let (rows, _, keys, width) = dx.dims4()?;
        dx.reshape((rows, s.key_heads, s.heads / s.key_heads, keys, width))?.sum(2)
    }

    fn attended(&self, c: &NodeContext<'_>, s: &PaddedSizes, fixed: usize) -> Candle<PaddedAttention> {
        let (queries, keys) = (c.axis(0), c.axis(1));
        let q = self.padded(&self.real(c.operand(0)), &queries, s.queries, s.heads)?;
        let [k, v] = [1, 2].map(|n| {
            let x = self.padded(&self.real(c.operand(n)), &keys, s.keys, s.key_heads)?;
            Self::shared(&x, s)
        });
        let (k, v) = (k?, v?);
        let products = q.matmul(&k.transpose(2, 3)?.contiguous()?)?;
        let (scores, slope) = match s.softcap {
            None => ((products * s.scale)?, None),
            Some(most) => {
                let t = (products * (s.scale / most))?.tanh()?;
                let slope = ((t.sqr()?.neg()? + 1.0)? * s.scale)?;
                ((t * most)?, Some(slope))
            }
        };
        let seen = self.mask(c, s, fixed)?.broadcast_as(scores.shape())?.contiguous()?;
        let hidden = Tensor::full(<T as rtc_kernel::Real>::NEG_INFINITY, scores.shape(), &self.device)?;
        let scores = seen.where_cond(&scores, &hidden)?;
        // A query that sees no key has no probabilities: what is divided by 0 there is 0, and NaN of scores stays.
        let largest = scores.max_keepdim(3)?;
        let zeros = largest.zeros_like()?;
        let largest = largest.eq(&hidden.narrow(3, 0, 1)?)?.where_cond(&zeros, &largest)?;
        let e = scores.broadcast_sub(&largest)?.exp()?;
        let sums = e.sum_keepdim(3)?;
        let sums = sums.eq(&zeros)?.where_cond(&zeros.ones_like()?, &sums)?;
        let probabilities = e.broadcast_div(&sums)?;
        let factors = self.dropped(c, s)?;
        Ok(PaddedAttention { q, k, v, probabilities, slope, factors })
    }

    /// `attention`; nothing where the processor computes it.
    pub(crate) fn attention(&self, c: &NodeContext<'_>) -> Candle<Option<Tensor>> {
        let Some(s) = self.sizes(c, 3) else { return Ok(None) };
        let own = self.attended(c, &s, 3)?;
        let weights = match &own.factors {
            Some(factors) => (&own.probabilities * factors)?,
            None => own.probabilities,
        };
        self.packed(&weights.matmul(&own.v)?, &c.axis(0), s.queries).map(Some)
    }

    /// `attention_grad`: of queries, keys and values.
    pub(crate) fn attention_grad(&self, c: &NodeContext<'_>) -> Candle<Option<Vec<Tensor>>> {
        let Some(s) = self.sizes(c, 4) else { return Ok(None) };
        let (queries, keys) = (c.axis(0), c.axis(1));
        let own = self.attended(c, &s, 4)?;
        let dy = self.padded(&self.real(c.operand(3)), &queries, s.queries, s.heads)?;
        let mut dweights = dy.matmul(&own.v.transpose(2, 3)?.contiguous()?)?;
        let mut weights = own.probabilities.clone();
        if let Some(factors) = &own.factors {
            (dweights, weights) = ((dweights * factors)?, (weights * factors)?);
        }
        let dscores = softmax_grad(&own.probabilities, &dweights)?;
        let dproducts = match own.slope {
            Some(slope) => (dscores * slope)?,
            None => (dscores * s.scale)?,
        };
        let turned = |x: &Tensor| x.transpose(2, 3)?.contiguous();
        let dq = dproducts.matmul(&own.k)?;
        let dk = Self::unshared(&turned(&dproducts)?.matmul(&own.q)?, &s)?;
        let dv = Self::unshared(&turned(&weights)?.matmul(&dy)?, &s)?;
        Ok(Some(vec![
            self.packed(&dq, &queries, s.queries)?,
            self.packed(&dk, &keys, s.keys)?,
            self.packed(&dv, &keys, s.keys)?,
        ]))
    }
}
