//! Masks and biases that are expressions: CUDA C for those of a plan, as chains are made for its arithmetic.
//!
//! Where mask and bias see positions only through their distance, attention goes through a list of distances ([`super::offset_lists`]), and
//! only the numbers of the bias need a kernel. Elsewhere the expressions become part of the attention itself, which asks them
//! for every query and key: nothing as large as all pairs is kept, but for the gradients of learned numbers.

use std::fmt::Write as _;

use rtc_compiler::expr::{BinaryOp, Expr, Func, ReadFrom, Var, distances, tables};
use rtc_compiler::ir::graph::{MAIN, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::Plan;
use sha2::{Digest, Sha256};

use super::attention_kernels::{AttentionForm, AttentionKernel, KEYS};
use super::device::{GeneratedKernel, KernelTarget};
use rtc_exec::mask::{self, Bias, MaskRule, is_attention};

/// The kernels of one node's mask and bias.
#[derive(Clone, Debug)]
pub(super) struct MaskKernels {
    /// What their names end with.
    pub(super) name: String,
    pub(super) kernels: Vec<GeneratedKernel>,
}

/// The purpose of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KernelNeeds {
    /// Whether there are gradients.
    backward: bool,
    form: AttentionForm,
    /// Whether it has learned tables, or reads values.
    learned: bool,
    /// Whether the gradients of some pairs go apart.
    stops: bool,
}

/// The kernels of the masks and biases of a plan that are expressions, by node.
pub(super) fn written(plan: &Plan, target: KernelTarget) -> Vec<(NodeId, MaskKernels)> {
    let exprs = mask::exprs(&plan.graph);
    let of = |id: NodeId| {
        let node = plan.graph.node(id);
        let Some(Ok(rule)) = exprs.get(&id).filter(|_| is_attention(node.op)) else { return None };
        let learned = rule.bias.as_ref().is_some_and(|bias| bias.uses.iter().any(|from| *from != ReadFrom::Score));
        let needs = KernelNeeds {
            backward: node.op == Op::AttentionGrad,
            form: AttentionForm::of(&plan.graph, node, rule.by_distance, target),
            learned,
            stops: rule.stop.is_some(),
        };
        Some((id, write(rule, needs)?))
    };
    plan.graph.walk(MAIN).into_iter().filter_map(of).collect()
}

/// The kernels of a rule; none where the fixed ones do.
fn write(rule: &MaskRule, needs: KernelNeeds) -> Option<MaskKernels> {
    let fields = fields(rule);
    let body = expressions(rule);
    // The same expressions with and without codes of distances are other kernels.
    let more = needs.form.of_any_rule().ending();
    let text = format!("{fields} {body} {} {}{more}", needs.form.relative, rule.by_distance);
    let hash: String = Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Attentions of one model may share expressions: the first kernel of a program brings them.
    let shared =
        format!("#ifndef RULE_{hash}\n#define RULE_{hash}\nstruct Rule_{hash} {{\n{fields}{body}}};\n#endif\n");
    let read = [rule.bias.as_ref().map_or(0, |bias| bias.sizes.len()), rule.channels.len()];
    let kernels = match rule.by_distance {
        true => by_distance(&hash, read, rule.bias.is_some(), needs),
        false => by_pair(&hash, read, needs),
    };
    let made =
        |(name, rest): (String, String)| GeneratedKernel { source: format!("{shared}TEAM({name}){rest}\n"), name };
    let kernels: Vec<GeneratedKernel> = kernels.into_iter().map(made).collect();
    (!kernels.is_empty()).then_some(MaskKernels { name: hash, kernels })
}

/// The parameters of a kernel that its expressions read, and the object that holds them, for the pairs of a `part` where it tells some
/// apart. What is read are so many tables and values.
fn given(hash: &str, read: [usize; 2], part: &str) -> (String, String) {
    let parameters: String = names(read).map(|name| format!(", const real *{name}")).collect();
    let values: String = names(read).map(|name| format!(", {name}")).collect();
    (format!("whole step{parameters}"), format!("Rule_{hash} own = {{step{part}{values}}};"))
}

/// What tables and values are called.
fn names([tables, values]: [usize; 2]) -> impl Iterator<Item = String> {
    (0..tables).map(|n| format!("t{n}")).chain((0..values).map(|n| format!("r{n}")))
}

/// Kernels for the numbers of a list of distances: their values, and the gradients of the tables that they are made of.
fn by_distance(hash: &str, read: [usize; 2], biased: bool, needs: KernelNeeds) -> Vec<(String, String)> {
    let (parameters, object) = given(hash, read, "");
    let mut out = vec![];
    if biased {
        let body = format!(
            "({parameters}, const int *list, int listed, int heads, real *values, whole n) {{\n    EACH(i, n)\n    {object}\n    \
             list_value(own, list, listed, heads, values, i);\n}}"
        );
        out.push((format!("values_{hash}"), body));
    }
    if needs.learned && needs.backward {
        let body = format!(
            "({parameters}, const int *list, int listed, int heads, const real *slopes, real *y, int table, int add) {{\n    \
             {object}\n    list_gradient(own, list, listed, heads, slopes, y, table, add);\n}}"
        );
        out.push((format!("tables_{hash}"), body));
    }
    out
}

/// Attention with the expressions in it.
fn by_pair(hash: &str, read: [usize; 2], needs: KernelNeeds) -> Vec<(String, String)> {
    let (parameters, object) = given(hash, read, if needs.stops { ", 0" } else { "" });
    let kernel = |kernel: AttentionKernel| {
        let (own, call) = (needs.form.parameters(), needs.form.call(&kernel, "rule"));
        // The gradients of keys are made in two parts.
        let (object, part) = match needs.stops && kernel.name == KEYS {
            true => (given(hash, read, ", part").1, ", int part"),
            false => (object.clone(), ""),
        };
        let body = format!(
            "(ATTEND{own}, {parameters}, {}{part}) {{\n    GIVEN\n    {object}\n    Evaluated<Rule_{hash}> rule = {{own}};\n    \
             {call}\n}}",
            kernel.parameters
        );
        (format!("{}_{hash}{}", kernel.name, needs.form.tiles_ending(&kernel)), body)
    };
    let mut out: Vec<_> = needs.form.kernels(needs.backward).into_iter().map(kernel).collect();
    if needs.backward && needs.learned {
        let more = "const real *dy, const real *stats, real *slopes, real *scores, const u64 *starts";
        out.push(kernel(AttentionKernel::by_score([
            "attention_slopes",
            more,
            "attend_slopes",
            "dy, stats, slopes, scores, starts",
        ])));
        let body = format!(
            "({parameters}, const real *slopes, const real *scores, const u64 *starts, const u32 *q_offsets, const u32 *k_offsets, int rows, \
             whole total, whole per, whole count, real *parts, int size, int table) {{\n    {object}\n    \
             pair_gradient(own, slopes, scores, starts, q_offsets, k_offsets, rows, total, per, count, parts, size, table);\n}}"
        );
        out.push((format!("tables_{hash}"), body));
        if read[1] > 0 {
            let body = format!(
                "({parameters}, const real *slopes, const real *scores, const u64 *starts, const u32 *q_offsets, const u32 *k_offsets, const u32 *row_of, \
                 int heads, int channels, real *y, int value, int add, whole n) {{\n    EACH(i, n)\n    {object}\n    \
                 value_gradient(own, slopes, scores, starts, q_offsets, k_offsets, row_of, heads, channels, y, value, add, i);\n}}"
            );
            out.push((format!("read_{hash}"), body));
        }
    }
    out
}

/// The members of the object: the step, the part of pairs where gradients go apart (0 for all, 1 for those that stay), the tables, and the
/// values.
fn fields(rule: &MaskRule) -> String {
    let tables = rule.bias.as_ref().map_or(0, |bias| bias.sizes.len());
    let tables: String =
        names([tables, rule.channels.len()]).map(|name| format!("    const real *{name};\n")).collect();
    let part = if rule.stop.is_some() { "    int part;\n" } else { "" };
    format!("{}    whole step;\n{part}{tables}", reach(rule))
}

/// The distances at which keys are seen, as constants; farther than any where that is not known.
fn reach(rule: &MaskRule) -> String {
    const FARTHEST: f64 = (1_i64 << 40) as f64;
    let (low, high) = rule.expr.as_ref().map_or((-FARTHEST, FARTHEST), distances);
    let whole = |x: f64| x.clamp(-FARTHEST, FARTHEST) as i64;
    format!("    static const whole nearest = {}LL, farthest = {}LL;\n", whole(low), whole(high))
}

/// The functions of the object.
fn expressions(rule: &MaskRule) -> String {
    let place = "whole i, whole j, whole length, whole head, RowStarts at";
    let mut out = String::new();
    let none = Bias {
        expr: Expr::Float(0.0),
        is_score: false,
        sizes: vec![],
        uses: vec![],
        first: 0,
        program: None,
        scaled: None,
    };
    let bias = rule.bias.as_ref().unwrap_or(&none);
    let writer = |uses: &[ReadFrom], slopes| MaskWriter {
        uses: uses.to_vec(),
        sizes: &bias.sizes,
        channels: &rule.channels,
        slopes,
        next: 0,
    };
    let of_values = |n: usize| rule.reads[n].iter().map(|value| ReadFrom::Value(*value)).collect::<Vec<_>>();
    let value = writer(&bias.uses, true).text(&bias.expr).into_dual();
    let _ = write!(
        out,
        "    // The bias, or the score, and how it changes with the number that is read at use `by`, which is number `place` of its table, or with \
         the score before it.\n    static const bool is_score = {};\n    \
         __device__ Dual bias({place}, double score, int by, whole &place, bool &ok) const {{\n        return {value};\n    }}\n",
        bias.is_score
    );
    // A score is worked out from the product; what is added before that only hides.
    let more = if bias.is_score { "0" } else { "bias(i, j, length, head, at, 0, -1, unused, ok).value" };
    let mut sees = match &rule.expr {
        Some(mask) => {
            let decided = writer(&of_values(0), false).decided(mask);
            let shows = writer(&of_values(0), false).text(mask).text;
            format!("{decided}        if (!{shows} || !ok) return minus_infinity();\n")
        }
        None => String::new(),
    };
    if let Some(stop) = &rule.stop {
        let text = writer(&of_values(1), false).text(stop).text;
        let _ = write!(
            out,
            "    // Whether the gradients of a pair go apart.\n    __device__ bool stops({place}) const {{\n        bool ok = true;\n        \
             return {text} && ok;\n    }}\n"
        );
        sees += &writer(&of_values(1), false).decided(stop);
        sees += "        if (part && stops(i, j, length, head, at) != (part == 2)) return minus_infinity();\n";
    }
    let _ = write!(
        out,
        "    // What is added to a score; minus infinity where the key is hidden, or the bias has no value.\n    \
         __device__ real added({place}) const {{\n        bool ok = true;\n        whole unused = -1;\n{sees}        \
         double more = {more};\n        \
         return is_bias(more, ok) ? (real)more : minus_infinity();\n    }}\n"
    );
    let tables = bias.sizes.len();
    let number = |from: &ReadFrom| match *from {
        ReadFrom::Table(table) => table.to_string(),
        ReadFrom::Value(value) => (tables + value).to_string(),
        ReadFrom::Score => "-1".to_owned(),
    };
    let by_use = |of: &dyn Fn(usize) -> String, otherwise: &str| {
        let each: String = (0..bias.uses.len()).map(|one| format!("use == {one} ? {} : ", of(one))).collect();
        format!("{each}{otherwise}")
    };
    let indices = tables_of(&bias.expr);
    let at_query = |one: usize| (indices[one].first() == Some(&Expr::Var(Var::I))).to_string();
    let channel = |one: usize| {
        let channel = indices[one].get(1).filter(|_| matches!(bias.uses[one], ReadFrom::Value(_)));
        channel.map_or_else(|| "0".to_owned(), |channel| writer(&[], false).text(channel).text)
    };
    let _ = write!(
        out,
        "    __device__ int uses() const {{ return {}; }}\n    \
         // The table that a use reads; values are counted behind the tables.\n    \
         __device__ int table_of(int use) const {{ return {}; }}\n    \
         // Whether it reads a value at the query, and in which channel.\n    \
         __device__ bool at_query(int use) const {{ return {}; }}\n    \
         __device__ whole channel_of(int use, whole head) const {{ bool ok = true; return {}; }}\n",
        bias.uses.len(),
        by_use(&|one| number(&bias.uses[one]), "-1"),
        by_use(&at_query, "false"),
        by_use(&channel, "0"),
    );
    out
}

/// The indices of all uses of an expression.
fn tables_of(expr: &Expr) -> Vec<&[Expr]> {
    tables(expr).uses.into_iter().map(|(_, indices)| indices).collect()
}

/// The type of an expression in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ScalarKind {
    Truth,
    Whole,
    Real,
    /// A number that changes with learned ones.
    Dual,
}

/// An expression in C.
struct CodeExpression {
    text: String,
    kind: ScalarKind,
}

impl CodeExpression {
    fn new(kind: ScalarKind, text: String) -> Self {
        Self { text, kind }
    }

    /// As a kind that is at least as wide.
    fn widened(&self, kind: ScalarKind) -> String {
        match (self.kind, kind) {
            (ScalarKind::Whole, ScalarKind::Real) => format!("(double){}", self.text),
            (ScalarKind::Whole, ScalarKind::Dual) => format!("dual((double){})", self.text),
            (ScalarKind::Real, ScalarKind::Dual) => format!("dual({})", self.text),
            _ => self.text.clone(),
        }
    }

    fn into_dual(self) -> String {
        self.widened(ScalarKind::Dual)
    }

    /// Without its slope.
    fn number(&self) -> Self {
        match self.kind {
            ScalarKind::Dual => Self::new(ScalarKind::Real, format!("{}.value", self.text)),
            kind => Self::new(kind, self.text.clone()),
        }
    }
}

/// Writes expressions; numbers that are read are counted in reading order.
struct MaskWriter<'a> {
    /// What every use reads.
    uses: Vec<ReadFrom>,
    /// The sizes of the tables, and the channels of the values.
    sizes: &'a [Vec<usize>],
    channels: &'a [usize],
    /// Whether numbers that are read have slopes.
    slopes: bool,
    next: usize,
}

impl MaskWriter<'_> {
    fn text(&mut self, expr: &Expr) -> CodeExpression {
        match expr {
            Expr::Int(i64::MIN) => CodeExpression::new(ScalarKind::Whole, "(whole)LEAST_WHOLE".to_owned()),
            Expr::Int(v) => CodeExpression::new(ScalarKind::Whole, format!("(whole)({v}LL)")),
            Expr::Float(v) => CodeExpression::new(ScalarKind::Real, format!("({v:?})")),
            Expr::Bool(v) => CodeExpression::new(ScalarKind::Truth, v.to_string()),
            Expr::Var(var) => CodeExpression::new(ScalarKind::Whole, variable(*var).to_owned()),
            // The depth of an example is no matter of a mask.
            Expr::Given | Expr::Draw(_) => CodeExpression::new(ScalarKind::Whole, "no_whole(ok)".to_owned()),
            Expr::Neg(x) => {
                let x = self.text(x);
                let zero = CodeExpression::new(ScalarKind::Whole, "(whole)0".to_owned()).widened(x.kind);
                CodeExpression::new(x.kind, format!("minus({zero}, {}, ok)", x.text))
            }
            Expr::Not(x) => CodeExpression::new(ScalarKind::Truth, format!("!{}", self.text(x).text)),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.text(a), self.text(b));
                binary(*op, &a, &b)
            }
            Expr::Call(Func::When, arguments) => {
                let [c, a, b] = &arguments[..] else {
                    return CodeExpression::new(ScalarKind::Whole, "no_whole(ok)".to_owned());
                };
                let first = self.next;
                let condition = self.text(c).text;
                let finite = self.finite(c, first);
                let (a, b) = (self.text(a), self.text(b));
                let kind =
                    if finite.is_empty() { a.kind.max(b.kind) } else { a.kind.max(b.kind).max(ScalarKind::Real) };
                let text = format!("({condition} ? {} : {})", a.widened(kind), b.widened(kind));
                // Nothing is chosen by what is no number.
                let nothing = CodeExpression::new(ScalarKind::Real, "not_a_number()".to_owned()).widened(kind);
                CodeExpression::new(
                    kind,
                    if finite.is_empty() { text } else { format!("(({finite}) ? {text} : {nothing})") },
                )
            }
            Expr::Call(func, arguments) => {
                let arguments: Vec<CodeExpression> = arguments.iter().map(|x| self.text(x)).collect();
                call(*func, &arguments)
            }
            Expr::Learn(_, indices) | Expr::Read(_, indices) => self.read(indices),
            Expr::Score => {
                self.next += 1;
                CodeExpression::new(ScalarKind::Dual, "of_score(score, by == OF_SCORE)".to_owned())
            }
        }
    }

    /// Whether all numbers that a condition reads are finite, from use `first` on; nothing where it reads none.
    fn finite(&mut self, condition: &Expr, first: usize) -> String {
        let after = std::mem::replace(&mut self.next, first);
        let mut found = vec![];
        for (from, indices) in tables(condition).uses {
            let number = match from {
                ReadFrom::Score => {
                    self.next += 1;
                    "score".to_owned()
                }
                ReadFrom::Table(_) | ReadFrom::Value(_) => self.read(indices).number().text,
            };
            found.push(format!("{number} - {number} == 0"));
        }
        self.next = after;
        found.join(" && ")
    }

    fn read(&mut self, indices: &[Expr]) -> CodeExpression {
        let here = self.next;
        self.next += 1;
        let number = match self.uses.get(here).copied() {
            Some(ReadFrom::Value(value)) => self.value(value, indices),
            from => {
                let table = if let Some(ReadFrom::Table(table)) = from { table } else { 0 };
                let sizes = self.sizes.get(table).cloned().unwrap_or_default();
                let mut at = "(whole)0".to_owned();
                for (index, size) in indices.iter().zip(sizes) {
                    let index = self.text(index).text;
                    at = format!("({at} * {size} + inside({index}, {size}, ok))");
                }
                [format!("t{table}"), at]
            }
        };
        let [name, at] = number;
        match self.slopes {
            true => CodeExpression::new(ScalarKind::Dual, format!("learned({name}, {at}, by == {here}, place)")),
            false => CodeExpression::new(ScalarKind::Real, format!("(double){name}[{at}]")),
        }
    }

    /// The array of a value, and where it is read.
    fn value(&mut self, value: usize, indices: &[Expr]) -> [String; 2] {
        let place = if indices.first() == Some(&Expr::Var(Var::I)) { "at.q + i" } else { "at.k + j" };
        let channel = indices.get(1).map_or_else(|| "0".to_owned(), |channel| self.text(channel).text);
        [format!("r{value}"), format!("(({place}) * {} + {channel})", self.channels[value])]
    }

    /// Gives NaN where a value that decides is no finite number: nothing is seen or hidden by one.
    fn decided(&mut self, rule: &Expr) -> String {
        let uses = self.uses.clone();
        let each = uses.iter().zip(tables_of(rule)).filter_map(|(from, indices)| match *from {
            ReadFrom::Value(value) => Some((value, indices)),
            ReadFrom::Table(_) | ReadFrom::Score => None,
        });
        let mut guard = |(value, indices)| {
            let [name, at] = self.value(value, indices);
            format!("        {{ real x = {name}[{at}]; if (x - x != (real)0) return x - x; }}\n")
        };
        each.map(&mut guard).collect()
    }
}

fn variable(var: Var) -> &'static str {
    match var {
        Var::I => "i",
        Var::J => "j",
        Var::Step => "step",
        Var::Length => "length",
        Var::Head => "head",
    }
}

fn binary(op: BinaryOp, a: &CodeExpression, b: &CodeExpression) -> CodeExpression {
    let function = match op {
        BinaryOp::Add => "plus",
        BinaryOp::Sub => "minus",
        BinaryOp::Mul => "times",
        BinaryOp::Div => "quotient",
        BinaryOp::Rem => "modulo",
        BinaryOp::Pow => "power",
        // These stop at the first operand that decides, as in the language.
        BinaryOp::And => return CodeExpression::new(ScalarKind::Truth, format!("({} && {})", a.text, b.text)),
        BinaryOp::Or => return CodeExpression::new(ScalarKind::Truth, format!("({} || {})", a.text, b.text)),
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            let (a, b) = (a.number(), b.number());
            let kind = a.kind.max(b.kind);
            return CodeExpression::new(
                ScalarKind::Truth,
                format!("({} {} {})", a.widened(kind), op.symbol(), b.widened(kind)),
            );
        }
    };
    let kind = a.kind.max(b.kind);
    CodeExpression::new(kind, format!("{function}({}, {}, ok)", a.widened(kind), b.widened(kind)))
}

fn call(func: Func, arguments: &[CodeExpression]) -> CodeExpression {
    match (func, arguments) {
        (Func::Floor, [x]) => CodeExpression::new(ScalarKind::Whole, format!("floor_of({}, ok)", x.text)),
        (Func::Ln, [x]) => {
            let kind = x.kind.max(ScalarKind::Real);
            CodeExpression::new(kind, format!("logarithm_of({}, ok)", x.widened(kind)))
        }
        (func, [x]) if func.of_real(0.0).is_some() => {
            let kind = x.kind.max(ScalarKind::Real);
            CodeExpression::new(kind, format!("{}_of({}, ok)", func.name(), x.widened(kind)))
        }
        (Func::Log, [a, b]) => {
            CodeExpression::new(ScalarKind::Whole, format!("logarithm_up({}, {}, ok)", a.text, b.text))
        }
        (_, [a, b]) => {
            let kind = a.kind.max(b.kind);
            let name = if func == Func::Min { "least" } else { "most" };
            CodeExpression::new(kind, format!("{name}({}, {})", a.widened(kind), b.widened(kind)))
        }
        // The checker counts arguments.
        _ => CodeExpression::new(ScalarKind::Whole, "no_whole(ok)".to_owned()),
    }
}
