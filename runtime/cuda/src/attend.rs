//! Attention on a device: what the kernels are told.
//!
//! A mask of all or of the past costs nothing. Where mask and bias see positions only through their distance, queries go through the
//! distances that the mask shows, so few keys cost little. Other expressions are part of the kernels ([`super::mask_codegen`]).

use rtc_compiler::expr::{ReadFrom, ScalarValue, Var, eval};
use rtc_compiler::ir::attribute::{self, Mask};
use rtc_compiler::ir::graph::Value;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::ir::types::Elem;

use super::active_rows::Ragged;
use super::attention_kernels::{AttentionForm, KEYS};
use super::device::KernelArgument;
use super::dispatch::DeviceNodeContext;
use super::exec::DeviceExecutor;
use super::memory::{DeviceArray, MOST_BLOCKS, address, blocks, flag, int, whole};
use super::offset_lists::OffsetList;
use super::relative::DeviceCodes;
use rtc_exec::ExecutionFault;
use rtc_exec::mask::MaskRule;
use rtc_exec::processor::attention::{apart, whole_keys};
use rtc_exec::processor::history;
use rtc_exec::storage::Element;
use rtc_kernel::dropout::Keep;

/// Channels that a warp adds up.
const SLICE: usize = 128;

/// Queries (keys) of a block in tiles, and the channels that it makes.
const TILE: usize = 64;

/// Threads of such a block.
const TILE_THREADS: u32 = 128;

/// An attention with everything that its kernels read.
pub(super) struct DeviceAttention {
    args: Vec<KernelArgument>,
    pub(super) queries: Ragged,
    pub(super) keys: Ragged,
    pub(super) heads: usize,
    /// Heads of keys and values.
    key_heads: usize,
    /// Channels of a head: of queries and keys, of values.
    pub(super) widths: [usize; 2],
    pub(super) rows: usize,
    /// What the names of its kernels end with.
    kernels: String,
    /// The same for those in tiles, where it is computed so.
    tiles: Option<String>,
    /// Whether queries, keys, values and results are kept in 16 bits.
    narrow: bool,
    /// The matrices of heads that talk; then the step, and the learned tables: what expressions in the kernels read.
    given: Vec<KernelArgument>,
    /// Whether heads talk: then a warp has all of them.
    talking: bool,
    pub(super) rule: Option<Ruled>,
    pub(super) codes: Option<DeviceCodes>,
    history: Option<DeviceHistory>,
    /// What the arguments point to.
    _kept: Vec<DeviceArray>,
}

/// Keys and values of the slots that are filled, each `[positions, steps, width]`.
struct DeviceHistory {
    keys: DeviceArray,
    values: DeviceArray,
    /// Slots of a position, and those that are filled.
    sizes: (usize, usize),
    /// Channels of keys and of values.
    widths: [usize; 2],
}

/// A mask or a bias that is an expression.
pub(super) struct Ruled {
    /// What the names of its kernels end with; none where there is only a mask that sees distances.
    pub(super) name: Option<String>,
    /// The step, and the learned tables.
    pub(super) given: Vec<KernelArgument>,
    /// The operands that are tables.
    pub(super) tables: Vec<Value>,
    /// The operands that are values of positions, each with its channels, and whether the bias reads it.
    pub(super) values: Vec<(Value, usize, bool)>,
    /// The distances that are seen, where positions are seen only through theirs.
    pub(super) list: Option<OffsetList>,
    /// Whether the gradients of keys and values go apart.
    pub(super) stops: bool,
    /// Whether an expression makes the scores of products.
    pub(super) rescored: bool,
    /// How queries and keys get their positions in the row.
    places: PairPlaces,
    /// The arrays that `given` points to.
    _kept: Vec<DeviceArray>,
}

impl Ruled {
    /// Whether the bias has numbers that have gradients.
    fn is_learned(&self) -> bool {
        !self.tables.is_empty() || self.values.iter().any(|(_, _, is_learned)| *is_learned)
    }
}

/// The sharing of keys among heads, and what their products become.
struct ScoreForm {
    heads: usize,
    key_heads: usize,
    scale: f64,
    softcap: Option<f64>,
    causal: bool,
    dropout: (u32, f64, u64),
}

impl<T: Element> DeviceExecutor<T> {
    /// The attention of a node; its step and tables follow the first `fixed` operands.
    fn describe(&mut self, c: &DeviceNodeContext<'_>, fixed: usize) -> Result<DeviceAttention, ExecutionFault> {
        let (keep, key) = (Keep::<T>::new(c.get(attribute::DROPOUT)), c.view.key.at(c.get(attribute::STREAM) as u64));
        let dropped = c.get(attribute::DROPOUT) > 0.0;
        let (threshold, factor) = if dropped { (keep.threshold(), keep.factor().to_f64()) } else { (0, 1.0) };
        let is_step = |v: &&Value| c.ty(**v).elem() == Some(Elem::Index);
        let step = c.node.operands.get(fixed).filter(is_step);
        let step = step.map_or(0, |v| i64::from(self.index(*v).host[0]));
        let axes = [0, 1].map(|n| c.place.axis_of(c.ty(c.operand(n)), &self.pool));
        let rule = self.ruled(c, step, [axes[0].longest, axes[1].longest])?;
        let lies_there = rule.as_ref().is_none_or(|rule| rule.places == PairPlaces::Own);
        let codes = self.relative_codes(c, [axes[0].longest, axes[1].longest]);
        let heads = c.get(attribute::HEADS);
        let scored = ScoreForm {
            heads,
            key_heads: c.get(attribute::KEY_HEADS),
            scale: c.node.attrs.scale(c.last(0) / heads),
            softcap: self.caps.get(&c.step.node).copied(),
            causal: c.get(attribute::MASK) == Mask::Causal && lies_there,
            dropout: (threshold, factor, key.value()),
        };
        // Gradients of biases, of codes and of some pairs alone read what is computed with; so does a recurrence's history.
        let narrow = match fixed {
            3 => self.narrow[c.node.results[0].index()],
            _ => {
                let plain =
                    rule.as_ref().is_none_or(|rule| rule.tables.is_empty() && rule.values.is_empty() && !rule.stops);
                codes.is_none() && plain && self.stored(c.operand(3)).is_narrow()
            }
        };
        let narrow = narrow && (0..3).all(|n| self.stored(c.operand(n)).is_narrow());
        let history = history::sizes(history::slots(c), step as usize).map(|sizes| self.history(c, sizes));
        Ok(self.attend(c, axes, scored, rule, (codes, history), narrow))
    }

    fn history(&self, c: &DeviceNodeContext<'_>, (slots, steps): (usize, usize)) -> DeviceHistory {
        let widths = [1, 2].map(|n| c.last(n));
        let [keys, values] = [1, 2].map(|n| {
            let x = self.real(c.operand(n));
            let packed = self.pool.take::<T>(x.len() / slots * steps);
            let sizes = [int(slots), int(steps), whole(widths[n - 1]), whole(packed.len())];
            self.pool.each("pack_slots", packed.len(), &[&[x.arg(), packed.arg()][..], &sizes].concat());
            packed
        });
        DeviceHistory { keys, values, sizes: (slots, steps), widths }
    }

    /// An axis on which every position stands as often as there are steps.
    fn stretched(&self, c: &DeviceNodeContext<'_>, axis: Ragged, steps: usize) -> Ragged {
        let small = |n: &usize| u32::try_from(n * steps).expect("the keys of a batch are fewer than 2^32");
        let offsets: Vec<u32> = c.axis(1).offsets.iter().map(small).collect();
        Ragged { offsets: self.pool.upload(&offsets), longest: axis.longest * steps, ..axis }
    }

    fn attend(
        &mut self,
        c: &DeviceNodeContext<'_>,
        [queries, keys]: [Ragged; 2],
        ScoreForm { heads, key_heads, scale, softcap, causal, dropout: (threshold, factor, key) }: ScoreForm,
        rule: Option<Ruled>,
        (codes, history): (Option<DeviceCodes>, Option<DeviceHistory>),
        narrow: bool,
    ) -> DeviceAttention {
        let keys = match &history {
            Some(own) => self.stretched(c, keys, own.sizes.1),
            None => keys,
        };
        let widths = [c.last(0) / heads, c.last(2) / key_heads];
        let ids = c.place.ids(&self.pool);
        let list = rule.as_ref().and_then(|rule| rule.list.as_ref());
        let form = AttentionForm::of(&c.plan.graph, c.node, list.is_some(), self.pool.device().target());
        let in_tiles = form.in_tiles() && !list.is_some_and(|list| list.gaps);
        let narrow = narrow && in_tiles && history.is_none();
        let [q, own_k, own_v] =
            [0, 1, 2].map(|n| if narrow { self.stored(c.operand(n)) } else { self.real(c.operand(n)) }.arg());
        let [k, v] = history.as_ref().map_or([own_k, own_v], |own| [own.keys.arg(), own.values.arg()]);
        let shifts = codes.as_ref().map(|codes| codes.shifts.map(|v| self.real(v)));
        let [shift_k, shift_r] = [0, 1].map(|n| address(shifts.as_ref().map(|shifts| &shifts[n])));
        let places = whole_keys(c).filter(|_| rule.is_none()).map(|(_, of)| {
            let small = |place: &usize| u32::try_from(*place).expect("a batch has fewer than 2^32 positions");
            self.pool.upload(&of.iter().map(small).collect::<Vec<_>>())
        });
        let args = vec![
            q,
            k,
            v,
            queries.offsets.arg(),
            keys.offsets.arg(),
            int(heads),
            int(key_heads),
            int(widths[0]),
            int(widths[1]),
            KernelArgument::Real(scale),
            KernelArgument::Real(softcap.unwrap_or(0.0)),
            flag(causal),
            address(places.as_ref()),
            address(list.map(|list| &list.distances)),
            int(list.map_or(0, |list| list.distances.len())),
            address(list.and_then(|list| list.values.as_ref())),
            shift_k,
            shift_r,
            address(codes.as_ref().map(|codes| &codes.mapped)),
            int(codes.as_ref().map_or(0, |codes| codes.last)),
            KernelArgument::Int(threshold as i32),
            KernelArgument::Real(factor),
            self.pool.upload(&[key]).arg(),
            ids.arg(),
        ];
        let own = c.node.behind().talking;
        let matrices = c.node.operands[own].iter().map(|v| self.real(*v)).collect::<Vec<_>>();
        let mut given: Vec<KernelArgument> = matrices.iter().map(DeviceArray::arg).collect();
        given.extend(history.as_ref().filter(|_| form.steps).map(|own| whole(own.sizes.1)));
        let kernels = match &rule {
            Some(Ruled { name: Some(name), given: own, list: None, .. }) => {
                given.extend_from_slice(own);
                format!("_{name}")
            }
            _ => form.ending(),
        };
        let tiles = in_tiles.then(|| format!("{kernels}{}", form.in_tiles_ending(narrow)));
        let (talking, _kept) =
            (form.talking.is_some(), shifts.into_iter().flatten().chain([ids]).chain(matrices).chain(places).collect());
        let rows = c.view.rows();
        DeviceAttention {
            args,
            queries,
            keys,
            heads,
            key_heads,
            widths,
            rows,
            kernels,
            tiles,
            narrow,
            given,
            talking,
            rule,
            codes,
            history,
            _kept,
        }
    }

    /// Starts a kernel of an attention.
    fn start_kernel(&self, kernel: &str, a: &DeviceAttention, grid: [u32; 3], more: &[KernelArgument]) {
        let args = [&a.args[..], &a.given, more].concat();
        self.pool.launch(&format!("{kernel}{}", a.kernels), grid, &args);
    }

    /// Starts a kernel of an attention in tiles, with a block for some of at most `longest` things of every head (of every row).
    fn start_tiles(
        &self,
        kernel: &str,
        a: &DeviceAttention,
        ending: &str,
        [heads, longest]: [usize; 2],
        width: usize,
        more: &[KernelArgument],
    ) {
        let grid = [heads as u32, blocks(longest, TILE), blocks(width, TILE).max(1)];
        let args = [&a.args[..], &a.given, more].concat();
        self.pool.start(&format!("{kernel}{ending}"), grid, TILE_THREADS, &args);
    }

    /// Starts a kernel with a warp for each of at most `longest` things of every head of every row.
    fn start_attention(
        &self,
        kernel: &str,
        a: &DeviceAttention,
        longest: usize,
        width: usize,
        more: &[KernelArgument],
    ) {
        self.start_warps(kernel, a, [a.rows * a.heads, longest], width, more);
    }

    /// Starts a kernel with a warp for each of `count` things of every head (of every row).
    fn start_warps(
        &self,
        kernel: &str,
        a: &DeviceAttention,
        [heads, count]: [usize; 2],
        width: usize,
        more: &[KernelArgument],
    ) {
        let grid = [heads as u32, self.pool.warp_blocks(count), blocks(width, SLICE).max(1)];
        self.start_kernel(kernel, a, grid, more);
    }

    pub(super) fn attention(&mut self, c: &DeviceNodeContext<'_>) -> Result<(), ExecutionFault> {
        let a = self.describe(c, 3)?;
        self.forward(c, &a);
        Ok(())
    }

    fn forward(&mut self, c: &DeviceNodeContext<'_>, a: &DeviceAttention) {
        let y = self.fresh_kept(c, 0, a.narrow);
        match &a.tiles {
            _ if a.talking => self.start_warps("attention", a, [a.rows, a.queries.longest], 1, &[y.arg()]),
            Some(tiles) => {
                self.start_tiles("attention", a, tiles, [a.rows * a.heads, a.queries.longest], a.widths[1], &[y.arg()]);
            }
            None => self.start_attention("attention", a, a.queries.longest, a.widths[1], &[y.arg()]),
        }
        self.put(c, 0, y);
    }

    pub(super) fn attention_grad(&mut self, c: &DeviceNodeContext<'_>) -> Result<(), ExecutionFault> {
        let a = self.describe(c, 4)?;
        let dy = if a.narrow { self.stored(c.operand(3)) } else { self.real(c.operand(3)) };
        let stats = self.backward(c, &a, &dy);
        let (mut more, tables) = a.rule.as_ref().map_or((0, 0), |rule| (rule.values.len(), rule.tables.len()));
        more += tables;
        if let Some(rule) = a.rule.as_ref().filter(|_| more > 0) {
            let slopes = rule.is_learned().then(|| self.bias_slopes(c, &a, rule, &dy, &stats));
            for table in 0..tables {
                slopes.iter().for_each(|slopes| self.table_grad(c, &a, rule, slopes, table));
            }
            for n in 0..rule.values.len() {
                self.value_grad(c, &a, rule, slopes.as_ref(), n);
            }
        }
        if let Some(codes) = &a.codes {
            let width = a.heads * a.widths[0];
            let d_codes = self.pool.take::<T>(codes.count * width);
            let args = [dy.arg(), stats.arg(), d_codes.arg(), int(codes.count), int(a.rows)];
            self.start_warps("attention_codes", &a, [a.heads, codes.count], a.widths[0], &args);
            self.map_grad(c, codes, &d_codes, 3 + more + 2);
        }
        Ok(())
    }

    /// Gradients of queries, keys and values, and of what shifts the queries; gives what further gradients need.
    fn backward(&mut self, c: &DeviceNodeContext<'_>, a: &DeviceAttention, dy: &DeviceArray) -> DeviceArray {
        let dq = self.fresh_kept(c, 0, a.narrow);
        let [dk, dv] = [1, 2].map(|n| match &a.history {
            Some(own) => self.pool.take::<T>(if n == 1 { own.keys.len() } else { own.values.len() }),
            None => self.fresh_kept(c, n, a.narrow),
        });
        let [e, ev] = a.widths;
        let stats = self.pool.take::<T>(3 * dq.len() / e.max(1));
        let parts = a.codes.is_some().then(|| [0, 1].map(|_| self.pool.take::<T>(dq.len())));
        let [by_keys, by_codes] = [0, 1].map(|n| address(parts.as_ref().map(|parts| &parts[n])));
        let of_queries = [dy.arg(), dq.arg(), stats.arg(), by_keys, by_codes];
        let of_keys = [dy.arg(), stats.arg(), dk.arg(), dv.arg()];
        let mut apart = None;
        if a.talking {
            let (count, numbers) = (a.queries.row_of.len(), a.heads * a.heads);
            let matrices = [0, 1].map(|_| self.pool.take::<T>(count * numbers));
            let more = [&of_queries[..], &matrices.each_ref().map(DeviceArray::arg)].concat();
            self.start_warps("attention_queries", a, [a.rows, a.queries.longest], 1, &more);
            self.start_warps(KEYS, a, [a.rows, a.keys.longest], 1, &of_keys);
            for (n, of_queries) in matrices.iter().enumerate() {
                let (y, add) = self.target(c, c.node.results.len() - 2 + n);
                self.sum_rows(of_queries, &y, count, numbers, add);
            }
        } else {
            match &a.tiles {
                Some(tiles) => {
                    let count = [a.rows * a.heads, a.queries.longest];
                    self.start_tiles("attention_queries", a, tiles, count, e, &of_queries);
                }
                None => self.start_attention("attention_queries", a, a.queries.longest, e, &of_queries),
            }
            let keys = |more: &[KernelArgument]| {
                let count = [a.rows * a.key_heads, a.keys.longest];
                match &a.tiles {
                    Some(tiles) => self.start_tiles(KEYS, a, tiles, count, e.max(ev), more),
                    None => self.start_warps(KEYS, a, count, e.max(ev), more),
                }
            };
            match a.rule.as_ref().is_some_and(|rule| rule.stops) {
                true => {
                    let last = c.node.results.len();
                    let [other_dk, other_dv] = [2, 1].map(|n| self.fresh(c, last - n));
                    keys(&[&of_keys[..], &[int(1)]].concat());
                    keys(&[dy.arg(), stats.arg(), other_dk.arg(), other_dv.arg(), int(2)]);
                    apart = Some([(last - 2, other_dk), (last - 1, other_dv)]);
                }
                false => keys(&of_keys),
            }
        }
        let width = a.heads * e;
        let before = a.rule.as_ref().map_or(0, |rule| rule.tables.len() + rule.values.len());
        for (n, part) in parts.iter().flatten().enumerate() {
            let (y, add) = self.target(c, 3 + before + n);
            self.sum_rows(part, &y, part.len() / width.max(1), width, add);
        }
        let unpacked = |n: usize, packed: DeviceArray| {
            let Some(DeviceHistory { sizes: (slots, steps), widths, .. }) = a.history else { return packed };
            let grad = self.fresh(c, n);
            let sizes = [int(slots), int(steps), whole(widths[n - 1]), whole(grad.len())];
            self.pool.each("unpack_slots", grad.len(), &[&[packed.arg(), grad.arg()][..], &sizes].concat());
            grad
        };
        let [dk, dv] = [unpacked(1, dk), unpacked(2, dv)];
        for (n, grad) in [dq, dk, dv].into_iter().enumerate().chain(apart.into_iter().flatten()) {
            self.put_or_add(c, n, grad);
        }
        stats
    }

    /// The gradients of what is added to scores: of every distance of a list, or of every query and key.
    fn bias_slopes(
        &mut self,
        c: &DeviceNodeContext<'_>,
        a: &DeviceAttention,
        rule: &Ruled,
        dy: &DeviceArray,
        stats: &DeviceArray,
    ) -> Slopes {
        if let Some(list) = &rule.list {
            let count = list.distances.len();
            let values = self.pool.zeros::<T>(a.heads * count);
            let args = [dy.arg(), stats.arg(), values.arg(), int(a.rows)];
            self.start_warps("attention_values", a, [a.heads, count], 1, &args);
            return Slopes { numbers: values, scores: None, starts: None };
        }
        let (queries, keys) = (c.axis(0), c.axis(1));
        let slots = a.history.as_ref().map_or(1, |own| own.sizes.1);
        let (mut starts, mut total) = (vec![], 0);
        for row in 0..a.rows {
            starts.push(total as u64);
            total += a.heads * queries.len(row) * keys.len(row) * slots;
        }
        let (numbers, starts) = (self.pool.take::<T>(total), self.pool.upload(&starts));
        let scores = rule.rescored.then(|| self.pool.take::<T>(total));
        let pairs = (0..a.rows).map(|row| queries.len(row) * keys.len(row) * slots).max().unwrap_or(0);
        let across = self.pool.thread_blocks(pairs).min(MOST_BLOCKS as u32);
        let more = [dy.arg(), stats.arg(), numbers.arg(), address(scores.as_ref()), starts.arg()];
        self.start_kernel("attention_slopes", a, [(a.rows * a.heads) as u32, across, 1], &more);
        Slopes { numbers, scores, starts: Some(starts) }
    }

    /// The gradient of a learned table.
    fn table_grad(
        &mut self,
        c: &DeviceNodeContext<'_>,
        a: &DeviceAttention,
        rule: &Ruled,
        slopes: &Slopes,
        table: usize,
    ) {
        let Some(name) = &rule.name else { return };
        let (y, add) = self.target(c, 3 + table);
        let kernel = format!("tables_{name}");
        let Some(list) = &rule.list else {
            let offsets = [a.queries.offsets.arg(), a.keys.offsets.arg(), int(a.rows)];
            let given = [&rule.given[..], &slopes.of_pairs(), &offsets].concat();
            return self.table_of_pairs(&kernel, given, slopes.numbers.len(), (&y, add), table);
        };
        let more = [list.distances.arg(), int(list.distances.len()), int(a.heads), slopes.numbers.arg()];
        let args = [&rule.given[..], &more, &[y.arg(), int(table), flag(add)]].concat();
        self.pool.launch(&kernel, [y.len() as u32, 1, 1], &args);
    }

    /// The gradient of a value that mask and bias read: 0 where only the mask does.
    fn value_grad(
        &mut self,
        c: &DeviceNodeContext<'_>,
        a: &DeviceAttention,
        rule: &Ruled,
        slopes: Option<&Slopes>,
        n: usize,
    ) {
        let result = 3 + rule.tables.len() + n;
        let (value, channels, is_learned) = rule.values[n];
        let (Some(name), Some(slopes), true) = (&rule.name, slopes, is_learned) else {
            let none = self.pool.zeros::<T>(self.real(value).len());
            return self.put_or_add(c, result, none);
        };
        let axis = c.place.axis_of(c.ty(value), &self.pool);
        let (y, add) = self.target(c, result);
        let places = [a.queries.offsets.arg(), a.keys.offsets.arg(), axis.row_of.arg(), int(a.heads), int(channels)];
        let more = [y.arg(), int(rule.tables.len() + n), flag(add), whole(y.len())];
        let args = [&rule.given[..], &slopes.of_pairs(), &places, &more].concat();
        self.pool.each(&format!("read_{name}"), y.len(), &args);
    }

    /// The n-th result: added to its parameter's gradient where the plan says so, else put into the table.
    pub(super) fn put_or_add(&mut self, c: &DeviceNodeContext<'_>, n: usize, grad: DeviceArray) {
        match c.step.accumulates_into[n] {
            Some(parameter) => self.pool.add(&self.pool.widened::<T>(&grad), &self.gradient(parameter)),
            None => self.put(c, n, grad),
        }
    }

    /// Heads, channels of each, and the scale of a geometric attention.
    fn geometric_sizes(c: &DeviceNodeContext<'_>) -> (usize, [KernelArgument; 3]) {
        let heads = c.get(attribute::HEADS);
        let e = c.last(0) / heads;
        (heads, [int(heads), int(e), KernelArgument::Real(c.node.attrs.scale(e))])
    }

    pub(super) fn top_keys(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let (heads, keys) = (c.get(attribute::HEADS), c.get(attribute::COUNT));
        let causal = c.get(attribute::MASK) == Mask::Causal;
        let [q, k] = self.first(c);
        let among = c.node.operands.get(2).map(|among| self.real(*among));
        let (y, count) = (self.fresh(c, 0), axis.row_of.len() * heads);
        let best = self.pool.take::<T>(y.len());
        let given = [q, k, address(among.as_ref()), y.arg(), best.arg(), axis.row_of.arg(), axis.offsets.arg()];
        let sizes = [int(heads), int(c.last(0) / heads), int(keys), flag(causal), whole(count)];
        self.pool.each("top_keys", count, &[&given[..], &sizes].concat());
        self.put(c, 0, y);
    }

    pub(super) fn geometric_attention(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let (heads, sizes) = Self::geometric_sizes(c);
        let sides = c.node.operands.get(3).map(|sides| self.real(*sides));
        let [q, k, v] = self.first(c);
        let (y, count) = (self.fresh(c, 0), axis.row_of.len() * heads);
        let given = [q, k, v, address(sides.as_ref()), y.arg(), axis.row_of.arg(), axis.offsets.arg()];
        self.pool.each("geometric_attention", count, &[&given[..], &sizes, &[whole(count)]].concat());
        self.put(c, 0, y);
    }

    pub(super) fn geometric_attention_grad(&mut self, c: &DeviceNodeContext<'_>) {
        let axis = c.place.axis_of(c.ty(c.operand(0)), &self.pool);
        let (heads, sizes) = Self::geometric_sizes(c);
        let positions = axis.row_of.len();
        let sides = c.node.operands.get(4).map(|sides| self.real(*sides));
        let [q, k, v, dy] = self.first(c);
        let grads: Vec<DeviceArray> = (0..c.node.results.len()).map(|n| self.fresh(c, n)).collect();
        let memory = self.pool.take::<T>(4 * heads * positions);
        let given = [q, k, v, dy, address(sides.as_ref())];
        let results = [0, 1, 2, 3].map(|n| address(grads.get(n)));
        let more = [memory.arg(), axis.offsets.arg()];
        let args = [&given[..], &results, &more, &sizes, &[whole(positions)]].concat();
        self.pool.launch("geometric_attention_grad", [(c.view.rows() * heads) as u32, 1, 1], &args);
        for (n, grad) in grads.into_iter().enumerate() {
            self.put_or_add(c, n, grad);
        }
    }
}

/// Gradients of what is added to scores.
struct Slopes {
    numbers: DeviceArray,
    /// The scaled products, where an expression changes them.
    scores: Option<DeviceArray>,
    /// Where those of a row begin, if every query and key has one.
    starts: Option<DeviceArray>,
}

impl Slopes {
    /// What kernels take that go through all pairs.
    fn of_pairs(&self) -> [KernelArgument; 3] {
        [self.numbers.arg(), address(self.scores.as_ref()), address(self.starts.as_ref())]
    }
}

impl<T: Element> DeviceExecutor<T> {
    /// The mask and the bias of an attention, where they are expressions; `longest` are its queries and keys at most.
    pub(super) fn ruled(
        &mut self,
        c: &DeviceNodeContext<'_>,
        step: i64,
        longest: [usize; 2],
    ) -> Result<Option<Ruled>, ExecutionFault> {
        let exprs = self.exprs.clone();
        let Some(rule) = exprs.get(&c.step.node) else { return Ok(None) };
        let rule = rule.as_ref().map_err(|message| ExecutionFault::Batch(message.clone()))?;
        let name = self.rules.get(&c.step.node).cloned();
        let (first, count) = rule.bias.as_ref().map_or((0, 0), |bias| (bias.first, bias.sizes.len()));
        let tables = c.node.operands[first..first + count].to_vec();
        let reads = |n| rule.bias.as_ref().is_some_and(|bias| bias.uses.contains(&ReadFrom::Value(n)));
        let own = c.node.operands[c.node.behind().reads].iter().zip(&rule.channels).enumerate();
        let values: Vec<_> = own.map(|(n, (v, channels))| (*v, *channels, reads(n))).collect();
        let mut given = vec![KernelArgument::Whole(step)];
        given.extend(tables.iter().chain(values.iter().map(|(v, ..)| v)).map(|v| self.real(*v).arg()));
        let mut kept = vec![];
        match rule.places {
            PairPlaces::Own => {}
            PairPlaces::Slots => {
                let steps = history::sizes(history::slots(c), step as usize).map_or(1, |(_, steps)| steps);
                given.push(whole(steps));
            }
            PairPlaces::Chosen => {
                let places = [0, 1].map(|n| c.place.axis_of(c.ty(c.operand(n)), &self.pool).places);
                given.extend(places.iter().map(|places| address(places.as_ref())));
                let lengths = rule.uses(Var::Length).then(|| {
                    let axis = c.axis(0);
                    let each = (0..c.view.rows()).flat_map(|row| std::iter::repeat_n(axis.part(row), axis.len(row)));
                    let small = |n: usize| u32::try_from(n).expect("a batch has fewer than 2^32 positions");
                    self.pool.upload(&each.map(small).collect::<Vec<_>>())
                });
                given.push(address(lengths.as_ref()));
                kept.extend(places.into_iter().flatten().chain(lengths));
            }
        }
        let list = rule.by_distance.then(|| {
            let (distances, gaps) = self.distances(c, rule, step, longest);
            let values = name.as_ref().filter(|_| rule.bias.is_some()).map(|name| {
                let (heads, count) = (c.get(attribute::HEADS), distances.len());
                let values = self.pool.take::<T>(heads * count);
                let args = [distances.arg(), int(count), int(heads), values.arg(), whole(count)];
                self.pool.each(&format!("values_{name}"), count, &[&given[..], &args].concat());
                values
            });
            OffsetList { distances, gaps, values }
        });
        let (stops, rescored) = (rule.stop.is_some(), rule.bias.as_ref().is_some_and(|bias| bias.is_score));
        Ok(Some(Ruled { name, given, tables, values, list, stops, rescored, places: rule.places, _kept: kept }))
    }

    /// The distances that a mask shows: those of a power of two of positions, so that batches of other lengths find them made.
    fn distances(
        &mut self,
        c: &DeviceNodeContext<'_>,
        rule: &MaskRule,
        step: i64,
        longest: [usize; 2],
    ) -> (DeviceArray, bool) {
        let reads_step = rule.expr.as_ref().is_some_and(|expr| expr.uses(Var::Step));
        let sizes = longest.map(usize::next_power_of_two);
        let seen = (c.step.node, if reads_step { step } else { 0 }, sizes);
        if let Some(known) = self.lists.get(&seen) {
            return known.clone();
        }
        let causal = c.get(attribute::MASK) == Mask::Causal;
        let sees = |distance: &isize| match &rule.expr {
            Some(expr) => eval(expr, &apart(*distance, step, 0)) == Ok(ScalarValue::Bool(true)),
            None => !causal || *distance >= 0,
        };
        let [queries, keys] = sizes.map(|size| size as isize);
        // The device reads them as signed numbers.
        let list: Vec<u32> = (1 - keys..queries).filter(sees).map(|distance| distance as i32 as u32).collect();
        let gaps = list.windows(2).any(|pair| pair[1] != pair[0].wrapping_add(1));
        let list = (self.pool.keep(&list), gaps);
        self.lists.insert(seen, list.clone());
        list
    }
}
