//! From a node of the IR to operators of ONNX: the one match over the ops. What is not in it is refused.

use rtc_compiler::ir::attr;
use rtc_compiler::ir::attribute::{self, At, Chunking, Reduction, Side};
use rtc_compiler::ir::graph::{Node, NodeId, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::pointwise::{self, NumberSource, Pointwise, PointwiseSteps, Scalar};
use rtc_compiler::ir::types::{Attr, Dim};

use super::OnnxRefusal;
use super::build::{AxisSize, OnnxBuilder, RaggedAxis};
use super::proto::{AttributeProto, DataType};

impl OnnxBuilder<'_> {
    /// Exports one node.
    pub(super) fn export(&mut self, id: NodeId) -> Result<(), OnnxRefusal> {
        let graph = self.graph;
        let node = graph.node(id);
        match node.op {
            Op::Input | Op::Return | Op::Yield => return Ok(()),
            Op::Param => return self.parameter(node),
            Op::Recur => return self.recur(node),
            Op::Chunks if node.get(attribute::CUT) == Chunking::Chosen => {
                return Err(refused(node, "computed for chosen positions alone"));
            }
            Op::Top | Op::TopKeys => return Err(refused(node, "a choice")),
            Op::Chunks => return self.chunks(node),
            Op::Fold => return self.fold(node),
            _ => {}
        }
        let x: Vec<String> = node.operands.iter().map(|value| self.value(*value)).collect();
        let out = self.single(node, &x)?;
        self.set(node.results[0], out);
        Ok(())
    }

    /// An op with one result, from the names of its operands.
    fn single(&mut self, node: &Node, x: &[String]) -> Result<String, OnnxRefusal> {
        let names: Vec<&str> = x.iter().map(String::as_str).collect();
        Ok(match node.op {
            Op::Full => self.full(node, DataType::Float, node.get(attribute::VALUE)),
            Op::True => self.full(node, DataType::Bool, 1.0),
            Op::Embed => self.op_with("Gather", &[&x[1], &x[0]], vec![AttributeProto::int("axis", 0)]),
            Op::AddPosition => self.add_position(node, &names),
            Op::Positions => self.place_numbers(node),
            Op::Sinusoid => self.sinusoid(node, &x[0]),
            Op::Rotate => self.rotate(node, &x[0]),
            Op::Frame => self.frame(node, &names),
            Op::PadRagged => self.pad_ragged(node, &names),
            Op::Prefix => {
                let width = self.graph.ty(node.operands[0]).dims().last().and_then(Dim::fixed).unwrap_or(1);
                let vectors = self.reshape(&x[1], &[0, -1, width as i64]);
                self.concat(&[&vectors, &x[0]], 1)
            }
            Op::Unprefix => {
                let start = self.ints(&[node.get(attribute::COUNT) as i64]);
                let (end, axis) = (self.ints(&[i64::MAX]), self.ints(&[1]));
                self.op("Slice", &[&x[0], &start, &end, &axis])
            }
            Op::Transpose | Op::TransposeBack => {
                return Err(refused(node, "for rows of one length, which a file can't check"));
            }
            Op::BroadcastBatch => {
                let apart = self.unsqueeze(&x[0], &[0]);
                self.expanded(&apart, node.results[0])
            }
            Op::BroadcastRows if node.get(attribute::SHARED) => return Err(refused(node, "the gradient of a mean")),
            Op::BroadcastRows => {
                let apart = self.unsqueeze(&x[0], &[1]);
                self.expanded(&apart, node.results[0])
            }
            Op::Mean | Op::Sum => self.pooled(node, &x[0]),
            Op::RunningSum => self.running_sum(node, &x[0]),
            Op::Max => self.max(node, &x[0]),
            Op::Shift => self.shift(node, &x[0]),
            Op::Softmax => {
                let along_rows = self.rank(node.operands[0]) == 2;
                let shown =
                    if along_rows { self.existing(node.operands[0], &x[0], f64::NEG_INFINITY) } else { x[0].clone() };
                let shares = self.op_with("Softmax", &[&shown], vec![AttributeProto::int("axis", -1)]);
                // A row without positions has NaN there.
                if along_rows { self.existing(node.operands[0], &shares, 0.0) } else { shares }
            }
            Op::Reduce => {
                let kind = match node.get(attribute::BY) {
                    Reduction::Sum => "ReduceSum",
                    Reduction::Mean => "ReduceMean",
                    Reduction::Max => "ReduceMax",
                };
                let one = self.reduce(kind, &x[0], &[-1]);
                self.unsqueeze(&one, &[-1])
            }
            Op::BroadcastChannels => self.expanded(&x[0], node.results[0]),
            Op::Position => self.position(node, &x[0]),
            Op::Concat => self.concat(&names, -1),
            Op::Slice => {
                let (start, width) = (node.get(attribute::START), node.get(attribute::WIDTH));
                self.slice(&x[0], -1, start as i64, (start + width) as i64)
            }
            Op::Pad => self.padded(node, &x[0]),
            Op::Squeeze => self.squeeze(&x[0], &[-1]),
            Op::Unsqueeze => self.unsqueeze(&x[0], &[-1]),
            Op::Split => {
                let dims = self.graph.ty(node.results[0]).dims();
                let kept = vec![0; dims.len() - 2];
                let shape: Vec<i64> = kept.into_iter().chain([node.get(attribute::PARTS) as i64, -1]).collect();
                self.reshape(&x[0], &shape)
            }
            Op::Merge => {
                let rank = self.rank(node.results[0]);
                let width = self.graph.ty(node.results[0]).dims()[rank - 1].fixed().unwrap_or(1);
                let shape: Vec<i64> = vec![0; rank - 1].into_iter().chain([width as i64]).collect();
                self.reshape(&x[0], &shape)
            }
            Op::Matmul => {
                let mut sides = [x[0].clone(), x[1].clone()];
                if let Some(side) = node.find(attribute::TRANSPOSED) {
                    let rank = self.rank(node.operands[0]) as i64;
                    let order: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
                    let n = usize::from(side == Side::Right);
                    sides[n] = self.transpose(&x[n], &order);
                }
                self.op("MatMul", &[&sides[0], &sides[1]])
            }
            Op::Detach => x[0].clone(),
            Op::Dropout if node.get(attribute::P) == 0.0 => x[0].clone(),
            Op::SlotGet => {
                let (axis, _) = self.slots(node);
                self.op_with("Gather", &[&x[0], &x[1]], vec![AttributeProto::int("axis", axis as i64)])
            }
            Op::SlotSet => self.put(node, &names),
            Op::StepNumber => {
                let step = self.cast(&x[0], DataType::Float);
                self.expanded(&step, node.results[0])
            }
            Op::DepthOf => {
                let (bounds, _) = self.bounds(node)?;
                let zero = self.int(0);
                let steps = self.op("Max", &[&bounds, &zero]);
                self.cast(&steps, DataType::Float)
            }
            Op::Pair => self.pair(&x[0]),

            Op::Linear => self.linear(&names),
            Op::LayerNorm => {
                let attributes =
                    vec![AttributeProto::int("axis", -1), AttributeProto::float("epsilon", node.get(attribute::EPS))];
                self.op_with("LayerNormalization", &names, attributes)
            }
            Op::RmsNorm => self.rms_norm(node, &names),
            Op::Affine => {
                let scaled = self.op("Mul", &[&x[0], &x[1]]);
                if let [_, _, bias] = &names[..] { self.op("Add", &[&scaled, bias]) } else { scaled }
            }
            Op::Map => self.map(node, x)?,
            Op::And => self.op("And", &names),
            Op::Select => {
                let (units, ty) = (self.rank(node.operands[0]), self.graph.ty(node.results[0]));
                self.choose(&x[0], units, &x[1], &x[2], ty)
            }
            Op::MaskUnit => self.mask_unit(node, &names),
            Op::MulUnit => {
                let by = self.wide(&x[1], node.operands[1], node.operands[0]);
                self.op("Mul", &[&x[0], &by])
            }
            Op::AddScaled => {
                let by = self.wide(&x[2], node.operands[2], node.operands[0]);
                let more = self.op("Mul", &[&x[1], &by]);
                self.op("Add", &[&x[0], &more])
            }

            Op::Attention => self.attention(node, &names)?,
            Op::GeometricAttention => self.geometric_attention(node, &names),
            Op::Scan => self.scan(node, &x[0])?,
            Op::Neighbours => self.neighbours(node, &names),
            Op::HaltTest => self.halt_test(node, &names),
            Op::Any => {
                let exists = match self.axis_of(node.operands[0]) {
                    Some(axis) => self.op("And", &[&x[0], &axis.mask]),
                    None => x[0].clone(),
                };
                self.any(&exists, Some(&[1]))
            }
            Op::LongerThanOne => {
                let one = self.int(1);
                let lengths = self.lengths(node.operands[0]);
                self.op("Greater", &[&lengths, &one])
            }
            Op::Normal | Op::Uniform => {
                return Err(refused(node, "a random draw, which is another one in every program that reads the file"));
            }
            Op::Beam | Op::Part => return Err(refused(node, "a beam search, which ONNX has no words for")),
            _ => return Err(refused(node, "no op of a forward pass")),
        })
    }

    /// Number of axes of a value.
    pub(super) fn rank(&self, value: Value) -> usize {
        self.graph.ty(value).dims().len()
    }

    /// A number per unit, with the axes that `like` has besides.
    fn wide(&mut self, x: &str, value: Value, like: Value) -> String {
        let axes: Vec<i64> = (self.rank(value)..self.rank(like)).map(|n| n as i64).collect();
        if axes.is_empty() { x.to_owned() } else { self.unsqueeze(x, &axes) }
    }

    /// The lengths of the second axis of a value, ragged or not, `int64[rows]`.
    pub(super) fn lengths(&mut self, value: Value) -> String {
        match self.axis_of(value) {
            Some(axis) => axis.lengths,
            None => {
                let size = self.graph.ty(value).dims().get(1).and_then(Dim::fixed).unwrap_or(1);
                let rows = self.rows();
                self.filled(&[AxisSize::Of(rows)], DataType::Int, size as f64)
            }
        }
    }

    fn sizes(&mut self, dims: &[Dim]) -> Vec<AxisSize> {
        dims.iter().map(|dim| self.size(dim)).collect()
    }

    fn full(&mut self, node: &Node, kind: DataType, value: f64) -> String {
        let dims = self.graph.ty(node.results[0]).dims();
        let sizes = self.sizes(dims);
        self.filled(&sizes, kind, value)
    }

    /// A value stretched to the axes of another one.
    pub(super) fn expanded(&mut self, x: &str, to: Value) -> String {
        let dims = self.graph.ty(to).dims();
        let sizes = self.sizes(dims);
        let shape = self.shape(&sizes);
        self.op("Expand", &[x, &shape])
    }

    /// What exists of a value with a ragged axis; `other` stands where nothing does.
    pub(super) fn existing(&mut self, value: Value, x: &str, other: f64) -> String {
        let Some(axis) = self.axis_of(value) else { return x.to_owned() };
        let mask = match self.rank(value) {
            2 => axis.mask,
            rank => self.unsqueeze(&axis.mask, &(2..rank as i64).collect::<Vec<_>>()),
        };
        let other = self.float(other);
        self.op("Where", &[&mask, x, &other])
    }

    /// Lengths as numbers of at least 1, with as many axes as a value without its second one.
    fn counts(&mut self, value: Value) -> String {
        let lengths = self.lengths(value);
        let one = self.int(1);
        let counts = self.op("Max", &[&lengths, &one]);
        let counts = self.cast(&counts, DataType::Float);
        let more: Vec<i64> = (1..self.rank(value) as i64 - 1).collect();
        if more.is_empty() { counts } else { self.unsqueeze(&counts, &more) }
    }

    fn pooled(&mut self, node: &Node, x: &str) -> String {
        let existing = self.existing(node.operands[0], x, 0.0);
        let sum = self.reduce("ReduceSum", &existing, &[1]);
        if node.op == Op::Sum {
            return sum;
        }
        let counts = self.counts(node.operands[0]);
        self.op("Div", &[&sum, &counts])
    }

    fn running_sum(&mut self, node: &Node, x: &str) -> String {
        let back = node.get(attribute::SIDE) == Side::Right;
        // Nothing that stands behind the last position of a row counts.
        let x = if back { self.existing(node.operands[0], x, 0.0) } else { x.to_owned() };
        let axis = self.int(1);
        self.op_with("CumSum", &[&x, &axis], vec![AttributeProto::int("reverse", i64::from(back))])
    }

    fn max(&mut self, node: &Node, x: &str) -> String {
        let existing = self.existing(node.operands[0], x, f64::NEG_INFINITY);
        let largest = self.reduce("ReduceMax", &existing, &[1]);
        let (lengths, zero, nothing) = (self.lengths(node.operands[0]), self.int(0), self.float(0.0));
        let some = self.op("Greater", &[&lengths, &zero]);
        let ty = self.graph.ty(node.results[0]);
        let some = match ty.dims().len() {
            1 => some,
            rank => self.unsqueeze(&some, &(1..rank as i64).collect::<Vec<_>>()),
        };
        self.op("Where", &[&some, &largest, &nothing])
    }

    /// One position of every row; 0 where a row has none.
    fn position(&mut self, node: &Node, x: &str) -> String {
        let (lengths, zero) = (self.lengths(node.operands[0]), self.int(0));
        let back = match node.get(attribute::AT) {
            At::First => lengths.clone(),
            At::Last => self.int(1),
            At::BeforeLast => self.int(2),
        };
        let at = self.op("Sub", &[&lengths, &back]);
        let inside = self.op("Less", &[&at, &lengths]);
        let behind = self.op("GreaterOrEqual", &[&at, &zero]);
        let is_there = self.op("And", &[&inside, &behind]);
        let at = self.op("Max", &[&at, &zero]);
        let at = self.unsqueeze(&at, &[1]);
        let taken = self.take(x, &at);
        let taken = self.squeeze(&taken, &[1]);
        let is_there = match self.rank(node.results[0]) {
            1 => is_there,
            rank => self.unsqueeze(&is_there, &(1..rank as i64).collect::<Vec<_>>()),
        };
        let nothing = self.float(0.0);
        self.op("Where", &[&is_there, &taken, &nothing])
    }

    /// The value `lag` positions before or behind; 0 where the row has none.
    fn shift(&mut self, node: &Node, x: &str) -> String {
        let dims = self.graph.ty(node.operands[0]).dims();
        let (zero, one) = (self.int(0), self.int(1));
        let width = match self.size(&dims[1]) {
            AxisSize::Of(name) => name,
            AxisSize::Is(n) => self.int(n as i64),
        };
        let (positions, last) = (self.range(&width), self.op("Sub", &[&width, &one]));
        let (lag, lengths) = (self.int(node.get(attribute::LAG) as i64), self.lengths(node.operands[0]));
        let at = self.op(if node.get(attribute::SIDE) == Side::Left { "Sub" } else { "Add" }, &[&positions, &lag]);
        let lengths = self.unsqueeze(&lengths, &[1]);
        let before = self.op("Less", &[&at, &lengths]);
        let behind = self.op("GreaterOrEqual", &[&at, &zero]);
        let is_there = self.op("And", &[&before, &behind]);
        let at = self.op("Max", &[&at, &zero]);
        let at = self.op("Min", &[&at, &last]);
        let taken = self.op_with("Gather", &[x, &at], vec![AttributeProto::int("axis", 1)]);
        let more: Vec<i64> = (2..dims.len() as i64).collect();
        let is_there = if more.is_empty() { is_there } else { self.unsqueeze(&is_there, &more) };
        let nothing = self.float(0.0);
        self.op("Where", &[&is_there, &taken, &nothing])
    }

    /// START, the row, END.
    fn frame(&mut self, node: &Node, x: &[&str]) -> String {
        let Some(RaggedAxis { lengths, .. }) = self.axis_of(node.operands[0]) else { return x[0].to_owned() };
        let width = self.graph.ty(node.operands[1]).dims().iter().filter_map(Dim::fixed).product();
        let [start, end] = [x[1], x[2]].map(|edge| self.reshape(edge, &[1, 1, width as i64]));
        let rows = self.rows();
        let shape = self.shape(&[AxisSize::Of(rows), AxisSize::Is(1), AxisSize::Is(width)]);
        let starts = self.op("Expand", &[&start, &shape]);
        let ends = self.op("Expand", &[&end, &shape]);
        let whole = self.concat(&[&starts, x[0], &ends], 1);
        // END stands right behind the row, and not behind the widest one.
        let framed = self.axis_of(node.results[0]).unwrap_or_else(|| unreachable!("a frame keeps its axis"));
        let (positions, one) = (self.range(&framed.width), self.int(1));
        let last = self.op("Add", &[&lengths, &one]);
        let last = self.unsqueeze(&last, &[1]);
        let is_last = self.op("Equal", &[&positions, &last]);
        let is_last = self.unsqueeze(&is_last, &[2]);
        self.op("Where", &[&is_last, &end, &whole])
    }

    /// Every row behind copies of `pad`.
    fn pad_ragged(&mut self, node: &Node, x: &[&str]) -> String {
        let (from, to) = (self.lengths(node.operands[0]), self.lengths(node.results[0]));
        let width = self.graph.ty(node.operands[1]).dims().iter().filter_map(Dim::fixed).product::<usize>();
        let Some(axis) = self.axis_of(node.results[0]) else { return x[0].to_owned() };
        let before = self.op("Sub", &[&to, &from]);
        let before = self.unsqueeze(&before, &[1]);
        let positions = self.range(&axis.width);
        let at = self.op("Sub", &[&positions, &before]);
        let (zero, one) = (self.int(0), self.int(1));
        let is_pad = self.op("Less", &[&at, &zero]);
        let dims = self.graph.ty(node.operands[0]).dims();
        let last = match self.size(&dims[1]) {
            AxisSize::Of(name) => self.op("Sub", &[&name, &one]),
            AxisSize::Is(n) => self.int(n as i64 - 1),
        };
        let at = self.op("Max", &[&at, &zero]);
        let at = self.op("Min", &[&at, &last]);
        let taken = self.take(x[0], &at);
        let (is_pad, pad) = (self.unsqueeze(&is_pad, &[2]), self.reshape(x[1], &[1, 1, width as i64]));
        self.op("Where", &[&is_pad, &pad, &taken])
    }

    /// Zeros around the channels.
    fn padded(&mut self, node: &Node, x: &str) -> String {
        let rank = self.rank(node.operands[0]);
        let own = self.graph.ty(node.operands[0]).dims().last().and_then(Dim::fixed).unwrap_or(0);
        let (start, width) = (node.get(attribute::START), node.get(attribute::WIDTH));
        let mut pads = vec![0; 2 * rank];
        (pads[rank - 1], pads[2 * rank - 1]) = (start as i64, (width - start - own) as i64);
        let (pads, zero) = (self.ints(&pads), self.float(0.0));
        self.op("Pad", &[x, &pads, &zero])
    }

    /// One slot replaced.
    fn put(&mut self, node: &Node, x: &[&str]) -> String {
        let (axis, slots) = self.slots(node);
        let mut shape = vec![1; self.rank(node.operands[0])];
        shape[axis] = slots as i64;
        let numbers = self.ints(&(0..slots as i64).collect::<Vec<_>>());
        let numbers = self.reshape(&numbers, &shape);
        let is_slot = self.op("Equal", &[&numbers, x[2]]);
        let new = self.unsqueeze(x[1], &[axis as i64]);
        self.op("Where", &[&is_slot, &new, x[0]])
    }

    /// The axis of slots of the first operand, and their number.
    fn slots(&self, node: &Node) -> (usize, usize) {
        self.graph.ty(node.operands[0]).slots().expect("the shape rule has found slots")
    }

    /// `[u; v; u v; |u - v|]` of the first and the second half of the rows.
    fn pair(&mut self, x: &str) -> String {
        let rows = self.rows();
        let two = self.int(2);
        let half = self.op("Div", &[&rows, &two]);
        let (zero, half, rows, axis) =
            (self.ints(&[0]), self.reshape(&half, &[1]), self.reshape(&rows, &[1]), self.ints(&[0]));
        let u = self.op("Slice", &[x, &zero, &half, &axis]);
        let v = self.op("Slice", &[x, &half, &rows, &axis]);
        let product = self.op("Mul", &[&u, &v]);
        let difference = self.op("Sub", &[&u, &v]);
        let distance = self.op("Abs", &[&difference]);
        self.concat(&[&u, &v, &product, &distance], -1)
    }

    /// `x w^T + bias`.
    pub(super) fn linear(&mut self, x: &[&str]) -> String {
        let turned = self.transpose(x[1], &[1, 0]);
        let product = self.op("MatMul", &[x[0], &turned]);
        if let [_, _, bias] = x { self.op("Add", &[&product, bias]) } else { product }
    }

    /// Every part of the last axis over the root of its mean square.
    fn rms_norm(&mut self, node: &Node, x: &[&str]) -> String {
        let width = self.graph.ty(node.operands[0]).dims().last().and_then(Dim::fixed).unwrap_or(1) as i64;
        let (parts, whole) = (node.get(attribute::PARTS) as i64, vec![0; self.rank(node.operands[0]) - 1]);
        let cut = match parts {
            1 => x[0].to_owned(),
            _ => self.reshape(x[0], &[&whole[..], &[parts, width / parts]].concat()),
        };
        let squares = self.op("Mul", &[&cut, &cut]);
        let mean = self.reduce("ReduceMean", &squares, &[-1]);
        let mean = self.unsqueeze(&mean, &[-1]);
        let eps = self.float(node.get(attribute::EPS));
        let mean = self.op("Add", &[&mean, &eps]);
        let root = self.op("Sqrt", &[&mean]);
        let mut y = self.op("Div", &[&cut, &root]);
        if let [_, gain] = x {
            y = self.op("Mul", &[&y, gain]);
        }
        if parts == 1 { y } else { self.reshape(&y, &[&whole[..], &[width]].concat()) }
    }

    /// A map, function by function.
    fn map(&mut self, node: &Node, x: &[String]) -> Result<String, OnnxRefusal> {
        let results = pointwise::results(&node.attrs).map_err(OnnxRefusal)?;
        self.scalar(&results[0], x, DataType::Float).map_err(|OnnxRefusal(what)| refused(node, &what))
    }

    /// A function of numbers of one kind, step by step.
    pub(super) fn scalar(&mut self, expr: &Scalar, x: &[String], kind: DataType) -> Result<String, OnnxRefusal> {
        let steps = PointwiseSteps::of(std::slice::from_ref(expr));
        let mut made: Vec<String> = vec![];
        for step in &steps.steps {
            let args: Vec<String> = step.args.iter().map(|arg| self.source(*arg, x, &made, kind)).collect();
            made.push(match (step.func, step.args.get(1)) {
                (Pointwise::LogUp, Some(NumberSource::Number(base))) if *base >= 2.0 => {
                    let n = self.cast(&args[0], DataType::Double);
                    let count = self.log_up(&n, *base);
                    self.cast(&count, kind)
                }
                (Pointwise::LogUp, _) => {
                    return Err(OnnxRefusal("a logarithm of whole numbers with a base that is no constant".to_owned()));
                }
                (func, _) => {
                    let form = attr::parse(func.def().onnx);
                    let form = form.map_err(|_| OnnxRefusal("only part of backward runs".to_owned()))?;
                    self.operators(&form, &args, kind)
                }
            });
        }
        Ok(self.source(steps.results[0], x, &made, kind))
    }

    fn source(&mut self, source: NumberSource, x: &[String], made: &[String], kind: DataType) -> String {
        match source {
            NumberSource::Operand(n) => x[n].clone(),
            NumberSource::Number(value) => self.real(value, kind),
            NumberSource::Step(n) => made[n].clone(),
        }
    }

    /// A number of a kind.
    fn real(&mut self, value: f64, kind: DataType) -> String {
        if kind == DataType::Double { self.double(value) } else { self.float(value) }
    }

    /// The operators that a function is made of, over its operands `a`, `b`, `c`.
    fn operators(&mut self, form: &Attr, x: &[String], kind: DataType) -> String {
        match form {
            Attr::Call(name, args) => {
                let args: Vec<String> = args.iter().map(|arg| self.operators(arg, x, kind)).collect();
                self.op(name, &args.iter().map(String::as_str).collect::<Vec<_>>())
            }
            Attr::Word(name) => {
                x[["a", "b", "c"].iter().position(|operand| operand == name).unwrap_or_default()].clone()
            }
            number => self.real(number.float().unwrap_or_default(), kind),
        }
    }

    fn mask_unit(&mut self, node: &Node, x: &[&str]) -> String {
        let condition = self.wide(x[1], node.operands[1], node.operands[0]);
        let zero = self.float(0.0);
        let (held, other) = if node.get(attribute::WHEN) { (x[0], &*zero) } else { (&*zero, x[0]) };
        self.op("Where", &[&condition, held, other])
    }

    /// Whether units with survival `t` go on.
    fn halt_test(&mut self, node: &Node, x: &[&str]) -> String {
        let (one, threshold) = (self.float(1.0), self.float(node.get(attribute::THRESHOLD)));
        let halted = self.op("Sub", &[&one, x[0]]);
        let goes = self.op("Less", &[&halted, &threshold]);
        let Some(axis) = node.find(attribute::CAP).map(str::to_owned) else { return goes };
        let lengths = self.axis(&axis).lengths;
        let open = self.op("LessOrEqual", &[x[1], &lengths]);
        let open = if self.rank(node.operands[0]) > 1 { self.unsqueeze(&open, &[1]) } else { open };
        self.op("And", &[&goes, &open])
    }
}

/// What can't be exported, and where it stands in the spec.
pub(super) fn refused(node: &Node, what: &str) -> OnnxRefusal {
    let place = if node.label.is_empty() { "the model".to_owned() } else { format!("`{}`", node.label) };
    OnnxRefusal(format!("{place} can't be exported as ONNX: its op `{}` is {what}", node.op))
}
