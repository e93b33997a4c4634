//! Recurrences over depth and over chunks, and balanced folds, as `Loop`.
//!
//! All rows stay. A row that takes no part in a step keeps its values, by `Where` on every carried value; since rows are independent, what
//! is computed for it meanwhile is lost without a trace.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::attribute::{self, Chunking, Padding, StepBound};
use rtc_compiler::ir::graph::{Node, RegionId, Value};
use rtc_compiler::ir::loops::Cut;
use rtc_compiler::ir::types::{LENGTH, Type, unframed};

use super::OnnxRefusal;
use super::build::{AxisSize, OnnxBuilder, kind};
use super::expr::{Reads, VariableNames};
use super::nodes::refused;
use super::proto::{AttributeProto, DataType, ValueInfo};

/// A value that goes around in a loop: how it starts, its name inside, and what it becomes.
struct LoopValue {
    kind: DataType,
    start: String,
    inside: String,
    next: String,
}

/// A chunk of more elements than this takes all of them, however many there are.
const LARGEST: usize = 1 << 40;

/// The counter of a loop inside its body.
const STEP: &str = "step";

impl OnnxBuilder<'_> {
    /// Values that go around, with names for the inside.
    fn around(&mut self, starts: Vec<(DataType, String)>) -> Vec<LoopValue> {
        let named = starts.into_iter().map(|(kind, start)| (kind, start, self.fresh("carried")));
        named.map(|(kind, start, inside)| LoopValue { kind, start, inside, next: String::new() }).collect()
    }

    /// Closes the body that is open and emits the loop: gives the last values of what goes around, then what `stacked` gave step by step.
    /// `most` may be empty where `go` alone decides.
    fn looped(
        &mut self,
        (most, goes): (&str, &str),
        step: String,
        (around, go): (Vec<LoopValue>, String),
        stacked: &[String],
    ) -> Vec<String> {
        // An output of a body has to be made in it.
        let own = |b: &mut Self, name: &str| b.op("Identity", &[name]);
        let condition = own(self, &go);
        let outputs: Vec<String> = around.iter().map(|value| own(self, &value.next)).collect();
        let stacks: Vec<String> = stacked.iter().map(|name| own(self, name)).collect();
        let scalar = |name: &str, kind| ValueInfo::new(name, kind, Some(vec![]));
        let mut inputs = vec![scalar(&step, DataType::Int), scalar(&self.fresh("going"), DataType::Bool)];
        inputs.extend(around.iter().map(|value| ValueInfo::new(&value.inside, value.kind, None)));
        let mut given = vec![scalar(&condition, DataType::Bool)];
        given.extend(outputs.iter().zip(&around).map(|(name, value)| ValueInfo::new(name, value.kind, None)));
        given.extend(stacks.iter().map(|name| ValueInfo::new(name, DataType::Float, None)));
        let body = self.close(inputs, given);
        let results: Vec<String> = (0..around.len() + stacks.len()).map(|_| self.fresh("looped")).collect();
        let mut starts = vec![most, goes];
        starts.extend(around.iter().map(|value| value.start.as_str()));
        self.node("Loop", &starts, results.clone(), vec![AttributeProto::graph("body", body)]);
        results
    }

    /// What is carried: the values that a node starts with.
    fn starts(&mut self, operands: &[Value]) -> Vec<(DataType, String)> {
        operands.iter().map(|value| (kind(self.graph.ty(*value)), self.value(*value))).collect()
    }

    /// New values for the rows that take part, old ones for the others.
    fn merge(&mut self, takes: &str, of: &[Value], new: &[String], around: &mut [LoopValue]) {
        for ((value, new), around) in of.iter().zip(new).zip(around) {
            let ty = self.graph.ty(*value);
            around.next = match ty.is_batched() {
                true => self.choose(takes, 1, new, &around.inside, ty),
                false => new.clone(),
            };
        }
    }

    fn body(&mut self, region: RegionId) -> Result<Vec<String>, OnnxRefusal> {
        let graph = self.graph;
        self.region(graph.nodes(region))
    }

    // The recurrence over depth.

    /// `recur`.
    pub(super) fn recur(&mut self, node: &Node) -> Result<(), OnnxRefusal> {
        let body = node.body.ok_or_else(|| refused(node, "a loop without a body"))?;
        let rows = self.rows();
        let (bounds, most) = self.bounds(node)?;
        let zero = self.int(0);
        let begins = self.op("Greater", &[&most, &zero]);
        let live = self.filled(&[AxisSize::Of(rows.clone())], DataType::Bool, 1.0);
        let starts = self.starts(&node.operands);
        let mut around = self.around(starts);
        let mut alive = self.around(vec![(DataType::Bool, live)]).remove(0);
        let step = self.fresh(STEP);
        self.open(rows);
        for (param, value) in self.graph.params(body).iter().zip(&around) {
            self.set(*param, value.inside.clone());
        }
        if let Some(counter) = self.graph.params(body).get(node.operands.len()) {
            self.set(*counter, step.clone());
        }
        let below = self.op("Less", &[&step, &bounds]);
        let active = self.op("And", &[&alive.inside, &below]);
        let mut yields = self.body(body)?;
        alive.next = match yields.len() > node.operands.len() {
            true => self.op("And", &[&active, &yields.pop().unwrap_or_default()]),
            false => active,
        };
        let takes = alive.next.clone();
        self.merge(&takes, &node.operands, &yields, &mut around);
        let one = self.int(1);
        let following = self.op("Add", &[&step, &one]);
        let below = self.op("Less", &[&following, &bounds]);
        let stays = self.op("And", &[&takes, &below]);
        let go = self.any(&stays, None);
        around.push(alive);
        let results = self.looped((&most, &begins), step, (around, go), &[]);
        for (value, name) in node.results.iter().zip(results) {
            self.set(*value, name);
        }
        Ok(())
    }

    /// The most steps of every row, `int64[rows]`, and of all, `int64[]`.
    pub(super) fn bounds(&mut self, node: &Node) -> Result<(String, String), OnnxRefusal> {
        let rows = self.rows();
        let rule = match node.get(attribute::BOUND) {
            StepBound::Steps(steps) => {
                let bounds = self.filled(&[AxisSize::Of(rows)], DataType::Int, steps as f64);
                return Ok((bounds, self.int(steps as i64)));
            }
            StepBound::Rule(rule) => rule,
        };
        let expr = Expr::try_from(rule).map_err(OnnxRefusal)?;
        let axis = node.operands.iter().find_map(|value| self.graph.ty(*value).ragged()).map(str::to_owned);
        let length = axis.map(|axis| self.axis(&axis).lengths);
        let given = if expr.holds_given() { Some(self.given()?) } else { None };
        let places = VariableNames { length, given, ..VariableNames::default() };
        let found = self.steps_of(&expr, &Reads::new(places, 1))?;
        let shape = self.shape(&[AxisSize::Of(rows)]);
        let bounds = self.op("Expand", &[&found, &shape]);
        let most = self.largest(&bounds);
        Ok((bounds, most))
    }

    // The recurrence over chunks.

    /// `chunks`.
    pub(super) fn chunks(&mut self, node: &Node) -> Result<(), OnnxRefusal> {
        let body = node.body.ok_or_else(|| refused(node, "a loop without a body"))?;
        let carried = node.get(attribute::CARRIED);
        let (over, axis) = (node.get(attribute::OVER), node.get(attribute::AXIS));
        let whole = self.axis(over);
        let widths = self.chunk_widths(node, &whole.lengths);
        let numbers = self.div_ceil(&whole.lengths, &widths);
        let (most, width) = (self.largest(&numbers), self.largest(&widths));
        let starts = self.starts(&node.operands[..carried]);
        let mut around = self.around(starts);
        let sequences: Vec<String> = node.operands[carried..].iter().map(|value| self.value(*value)).collect();
        let (zero, one) = (self.int(0), self.int(1));
        let last = self.op("Sub", &[&whole.width, &one]);
        let step = self.fresh(STEP);
        let rows = self.rows();
        self.open(rows);
        let start = self.op("Mul", &[&step, &widths]);
        let left = self.op("Sub", &[&whole.lengths, &start]);
        let length = self.op("Min", &[&left, &widths]);
        let length = self.op("Max", &[&length, &zero]);
        let takes = self.op("Greater", &[&length, &zero]);
        let origin = match &whole.origin {
            Some(origin) => self.op("Add", &[origin, &start]),
            None => start.clone(),
        };
        self.set_axis(axis, length, width.clone(), Some(origin));
        let places = self.range(&width);
        let places = self.spaced(&start, &places, &last);
        let params = self.graph.params(body);
        for (param, value) in params.iter().zip(&around) {
            self.set(*param, value.inside.clone());
        }
        for (param, sequence) in params[carried..].iter().zip(&sequences) {
            let slice = self.take(sequence, &places);
            self.set(*param, slice);
        }
        let yields = self.body(body)?;
        self.merge(&takes, &node.operands[..carried], &yields[..carried], &mut around);
        let always = self.truth(true);
        let results = self.looped((&most, &always), step, (around, always.clone()), &yields[carried..]);
        for (n, (value, name)) in node.results.iter().zip(results).enumerate() {
            let ty = self.graph.ty(*value).clone();
            let name =
                if n < carried || ty == Type::Tape { name } else { self.joined_chunks(&name, &ty, &widths, &width) };
            self.set(*value, name);
        }
        Ok(())
    }

    /// `start + positions` for every row, none of them above `last`.
    fn spaced(&mut self, start: &str, positions: &str, last: &str) -> String {
        let start = self.unsqueeze(start, &[1]);
        let places = self.op("Add", &[&start, positions]);
        self.op("Min", &[&places, last])
    }

    /// The width of the chunks of every row.
    fn chunk_widths(&mut self, node: &Node, lengths: &str) -> String {
        let balanced = node.get(attribute::CUT) == Chunking::Balanced;
        let length = if balanced { self.op("Max", &[lengths, &self.longest.clone()]) } else { lengths.to_owned() };
        let one = self.int(1);
        let width = match (node.find(attribute::COUNT), node.find(attribute::SIZE)) {
            (Some(count), _) => {
                let count = self.int(count.max(1) as i64);
                self.div_ceil(&length, &count)
            }
            (None, Some(size)) if balanced => {
                let size = self.int(size.max(1) as i64);
                let count = self.div_ceil(&length, &size);
                let count = self.op("Max", &[&count, &one]);
                self.div_ceil(&length, &count)
            }
            (None, size) => {
                let rows = self.rows();
                self.filled(&[AxisSize::Of(rows)], DataType::Int, size.unwrap_or(1) as f64)
            }
        };
        self.op("Max", &[&width, &one])
    }

    /// What the steps gave, `[steps, rows, width, ...]`, along the whole axis again.
    fn joined_chunks(&mut self, stacked: &str, ty: &Type, widths: &str, width: &str) -> String {
        let rank = ty.dims().len() as i64;
        let order: Vec<i64> = [1, 0].into_iter().chain(2..rank + 1).collect();
        let turned = self.transpose(stacked, &order);
        let sizes: Vec<i64> =
            [0, -1].into_iter().chain(ty.dims()[2..].iter().map(|dim| dim.fixed().unwrap_or(1) as i64)).collect();
        let row = self.reshape(&turned, &sizes);
        let whole = self.axis(ty.ragged().unwrap_or(LENGTH));
        let positions = self.range(&whole.width);
        let widths = self.unsqueeze(widths, &[1]);
        let chunk = self.op("Div", &[&positions, &widths]);
        let start = self.op("Mul", &[&chunk, &widths]);
        let inside = self.op("Sub", &[&positions, &start]);
        let chunk = self.op("Mul", &[&chunk, width]);
        let place = self.op("Add", &[&chunk, &inside]);
        let shape = self.op("Shape", &[&row]);
        let one = self.int(1);
        let size = self.op("Gather", &[&shape, &one]);
        let last = self.op("Sub", &[&size, &one]);
        let place = self.op("Min", &[&place, &last]);
        self.take(&row, &place)
    }

    // The balanced fold.

    /// `fold`: every level runs the body on all chunks of all rows, `[rows chunks, nodes of a chunk, ...]`. A row that is done has its vector
    /// at its first node.
    pub(super) fn fold(&mut self, node: &Node) -> Result<(), OnnxRefusal> {
        let body = node.body.ok_or_else(|| refused(node, "a loop without a body"))?;
        let cut = Cut::of(node).ok_or_else(|| refused(node, "a fold without an arity"))?;
        let cut = if self.flat && node.get(attribute::FLAT) { cut.flat() } else { cut };
        let over = node.get(attribute::OVER);
        let whole = self.axis(over);
        let rows = self.rows();
        let nodes = self.value(node.operands[0]);
        let longest = self.fold_width(over, &whole.lengths);
        let going = match cut.single {
            true => self.filled(&[AxisSize::Of(rows.clone())], DataType::Bool, 1.0),
            false => self.undone(cut, &whole.lengths, &longest),
        };
        let begins = self.any(&going, None);
        let numbers = node.results.iter().skip(1).filter(|value| *self.graph.ty(**value) != Type::Tape).count();
        let zeros = self.filled(&[AxisSize::Of(rows)], DataType::Float, 0.0);
        let mut starts = vec![
            (DataType::Float, nodes),
            (DataType::Int, whole.lengths),
            (DataType::Int, longest),
            (DataType::Bool, going),
        ];
        starts.extend(std::iter::repeat_n((DataType::Float, zeros), numbers + 1));
        let mut around = self.around(starts);
        let step = self.fresh(STEP);
        let rows = self.rows();
        self.open(rows);
        let go = self.level(node, body, cut, &step, &mut around)?;
        let results = self.looped(("", &begins), step, (around, go), &[]);
        let first = self.int(0);
        let root = self.op_with("Gather", &[&results[0], &first], vec![AttributeProto::int("axis", 1)]);
        self.set(node.results[0], root);
        let least = self.float(1.0);
        let chunks = self.op("Max", &[&results[4], &least]);
        for (value, sum) in node.results[1..].iter().zip(&results[5..]) {
            let mean = self.op("Div", &[sum, &chunks]);
            self.set(*value, mean);
        }
        Ok(())
    }

    /// Nodes of the longest row. The width of the padded batch counts where whole rows are folded.
    fn fold_width(&mut self, over: &str, lengths: &str) -> String {
        let own = self.largest(lengths);
        match unframed(over) {
            (LENGTH, more) => {
                let more = self.int(more as i64);
                let width = self.op("Add", &[&self.longest.clone(), &more]);
                self.op("Max", &[&own, &width])
            }
            _ => own,
        }
    }

    /// Which rows have more than one node left.
    fn undone(&mut self, cut: Cut, left: &str, longest: &str) -> String {
        let one = self.int(1);
        if !cut.by_batch {
            return self.op("Greater", &[left, &one]);
        }
        let goes = self.op("Greater", &[longest, &one]);
        let shape = self.op("Shape", &[left]);
        self.op("Expand", &[&goes, &shape])
    }

    /// Elements of a chunk for rows with so many nodes left.
    fn cut_width(&mut self, cut: Cut, left: &str) -> String {
        let one = self.int(1);
        let left = self.op("Max", &[left, &one]);
        if cut.arity > LARGEST {
            return left;
        }
        let arity = cut.arity as i64;
        let least = if cut.strict { 0 } else { arity + arity / 2 };
        let (arity, least) = (self.int(arity), self.int(least));
        let many = self.op("GreaterOrEqual", &[&left, &least]);
        self.op("Where", &[&many, &arity, &left])
    }

    /// One level, in the body of the loop that is open; says whether another one follows. `around`: nodes, nodes left, nodes of the
    /// longest row, which rows go on, chunks so far, sums of numbers.
    fn level(
        &mut self,
        node: &Node,
        body: RegionId,
        cut: Cut,
        step: &str,
        around: &mut [LoopValue],
    ) -> Result<String, OnnxRefusal> {
        let [nodes, left, longest, going] = [0, 1, 2, 3].map(|n| around[n].inside.clone());
        let (zero, one) = (self.int(0), self.int(1));
        let of_longest = self.cut_width(cut, &longest);
        let width = match cut.by_batch {
            true => {
                let shape = self.op("Shape", &[&left]);
                self.op("Expand", &[&of_longest, &shape])
            }
            false => self.cut_width(cut, &left),
        };
        let number = self.div_ceil(&left, &width);
        let number = self.op("Where", &[&going, &number, &zero]);
        let most = self.largest(&number);
        // Where every chunk begins in its row, and how long it is: [rows, chunks].
        let chunk = self.range(&most);
        let [wide, all, count] = [&width, &left, &number].map(|x| self.unsqueeze(x, &[1]));
        let mut starts = self.op("Mul", &[&chunk, &wide]);
        if cut.first {
            let room = self.op("Mul", &[&count, &wide]);
            let before = self.op("Sub", &[&room, &all]);
            starts = self.op("Sub", &[&starts, &before]);
        }
        let ends = self.op("Add", &[&starts, &wide]);
        let (starts, ends) = (self.op("Max", &[&starts, &zero]), self.op("Min", &[&ends, &all]));
        let lengths = self.op("Sub", &[&ends, &starts]);
        let exists = self.op("Less", &[&chunk, &count]);
        let lengths = self.op("Where", &[&exists, &lengths, &zero]);
        let size = self.largest(&lengths);

        let rows = self.rows();
        let inside = self.op("Mul", &[&rows, &most]);
        self.open_chunks(inside, most.clone());
        let flat = [&starts, &lengths].map(|x| self.reshape(x, &[-1]));
        let [starts, lengths] = flat;
        if let Some(filled) = node.find(attribute::FILLED) {
            let filled_lengths = self.filled_lengths(cut, &lengths, step);
            let width = self.largest(&filled_lengths);
            self.set_axis(filled, filled_lengths, width, None);
        }
        let axis = node.get(attribute::AXIS);
        self.set_axis(axis, lengths, size.clone(), Some(starts.clone()));
        // Every chunk takes its nodes from its row.
        let shape = self.op("Shape", &[&nodes]);
        let width = self.op("Gather", &[&shape, &one]);
        let last = self.op("Sub", &[&width, &one]);
        let own = self.rows_of_chunks(&rows, &most);
        let positions = self.range(&size);
        let places = self.spaced(&starts, &positions, &last);
        let own = self.unsqueeze(&own, &[1]);
        let first = self.op("Mul", &[&own, &width]);
        let places = self.op("Add", &[&first, &places]);
        let dims = self.graph.ty(node.operands[0]).dims()[2..].iter();
        let inner: Vec<i64> = dims.map(|dim| dim.fixed().unwrap_or(1) as i64).collect();
        let packed = self.reshape(&nodes, &[&[-1], &inner[..]].concat());
        let taken = self.op("Gather", &[&packed, &places]);
        self.set(self.graph.params(body)[0], taken);
        let yields = self.body(body)?;
        self.close_chunks();

        let shape = |b: &mut Self, inner: &[usize]| {
            let mut sizes = vec![AxisSize::Of(rows.clone()), AxisSize::Of(most.clone())];
            sizes.extend(inner.iter().map(|n| AxisSize::Is(*n)));
            b.shape(&sizes)
        };
        let widths: Vec<usize> = inner.iter().map(|n| *n as usize).collect();
        let whole = shape(self, &widths);
        let vectors = self.op("Reshape", &[&yields[0], &whole]);
        let kept = self.slice(&nodes, 1, 0, 1);
        let goes = self.unsqueeze(&going, &(1..widths.len() as i64 + 2).collect::<Vec<_>>());
        around[0].next = self.op("Where", &[&goes, &vectors, &kept]);
        around[1].next = self.op("Where", &[&going, &number, &left]);
        around[2].next = self.div_ceil(&longest, &of_longest);
        let chunks = self.cast(&number, DataType::Float);
        around[4].next = self.op("Add", &[&around[4].inside.clone(), &chunks]);
        let nothing = self.float(0.0);
        let grid = shape(self, &[]);
        for (value, more) in around[5..].iter_mut().zip(&yields[1..]) {
            let more = self.op("Reshape", &[more, &grid]);
            let more = self.op("Where", &[&exists, &more, &nothing]);
            let more = self.reduce("ReduceSum", &more, &[1]);
            value.next = self.op("Add", &[&value.inside, &more]);
        }
        let (left, longest) = (around[1].next.clone(), around[2].next.clone());
        let undone = self.undone(cut, &left, &longest);
        around[3].next = self.op("And", &[&going, &undone]);
        Ok(self.any(&around[3].next.clone(), None))
    }

    /// The row of every chunk, by its index: 0, 0, ..., 1, 1, ...
    fn rows_of_chunks(&mut self, rows: &str, chunks: &str) -> String {
        let all = self.op("Mul", &[rows, chunks]);
        let numbers = self.range(&all);
        self.op("Div", &[&numbers, chunks])
    }

    /// Lengths of chunks once they are filled up. Chunks that are none are filled, too, which nobody sees.
    fn filled_lengths(&mut self, cut: Cut, lengths: &str, step: &str) -> String {
        let arity = self.int(i64::try_from(cut.arity).unwrap_or(1));
        let filled = self.op("Max", &[lengths, &arity]);
        match cut.padding {
            Padding::None => lengths.to_owned(),
            Padding::Levels => filled,
            Padding::Input => {
                let zero = self.int(0);
                let is_input = self.op("Equal", &[step, &zero]);
                self.op("Where", &[&is_input, &filled, lengths])
            }
        }
    }
}
