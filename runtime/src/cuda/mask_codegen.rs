//! Masks and biases that are expressions: CUDA C for those of a plan, as chains are made for its arithmetic.
//!
//! Where mask and bias see positions only through their distance, attention goes through a list of distances ([`super::offset_lists`]), and
//! only the numbers of the bias need a kernel. Elsewhere the expressions become part of the attention itself, which asks them
//! for every query and key: nothing as large as all pairs is kept, but for the gradients of learned numbers.

use rtc_compiler::ir::attribute;
use std::fmt::Write as _;

use rtc_compiler::expr::{BinaryOp, Expr, Func, Var, distances};
use rtc_compiler::ir::graph::{Graph, MAIN, Node, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::plan::Plan;
use sha2::{Digest, Sha256};

use super::device::Generated;
use crate::exec::mask::{self, Bias, Rule};

/// The kernels of one node's mask and bias.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// What their names end with.
    pub(super) name: String,
    pub(super) kernels: Vec<Generated>,
}

/// What a kernel is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// Whether there are gradients.
    backward: bool,
    form: Form,
    /// Whether it has learned numbers.
    learned: bool,
    /// Whether the gradients of some pairs go apart.
    stops: bool,
}

/// What an attention is besides its mask and its bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// Whether it goes through a list of distances.
    pub(super) listed: bool,
    /// Whether it has codes of distances.
    pub(super) relative: bool,
    /// How many heads talk.
    pub(super) talking: Option<usize>,
    /// Whether every position has the keys of several steps.
    pub(super) steps: bool,
}

impl Form {
    /// That of a node.
    pub(super) fn of(graph: &Graph, node: &Node, listed: bool) -> Self {
        let talking = node.get(attribute::TALKING).then(|| node.get(attribute::HEADS));
        let steps = graph.ty(node.operands[1]).dims().len() > 3;
        Self { listed, relative: node.has(attribute::POSITION), talking, steps }
    }

    /// Whether it is one of the kernels that are always there.
    fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// What the names of its kernels end with.
    pub(super) fn ending(self) -> String {
        let word = |holds, word: &'static str| if holds { word } else { "" };
        let talking = self.talking.map_or_else(String::new, |heads| format!("_talking_{heads}"));
        let steps = word(self.steps, "_steps");
        format!("{}{}{talking}{steps}", word(self.listed, "_listed"), word(self.relative, "_relative"))
    }

    /// Parameters of its kernels behind those of every attention.
    fn parameters(self) -> String {
        let talking = if self.talking.is_some() { ", const real *of_scores, const real *of_probabilities" } else { "" };
        format!("{talking}{}", if self.steps { ", whole steps" } else { "" })
    }

    /// The call of a kernel's function with a rule, after its object for heads that talk.
    fn call(self, Shared { function, passed, by_score, .. }: &Shared, rule: &str) -> String {
        let relative = self.relative;
        let rule = if self.steps { format!("of_steps({rule}, steps)") } else { rule.to_owned() };
        let Some(heads) = self.talking else { return format!("{function}<{relative}>(a, {rule}, {passed});") };
        let rule = if *by_score { format!("talking({rule}, talk)") } else { format!("{rule}, talk") };
        format!("Talk<{heads}> talk = {{of_scores, of_probabilities}}; {function}<{relative}>(a, {rule}, {passed});")
    }
}

/// The kernels of the masks and biases of a plan that are expressions, by node.
pub(super) fn written(plan: &Plan) -> Vec<(NodeId, Written)> {
    let exprs = mask::exprs(&plan.graph);
    let of = |id: NodeId| {
        let node = plan.graph.node(id);
        let Some(Ok(rule)) = exprs.get(&id).filter(|_| is_attention(node.op)) else { return None };
        let learned = rule.bias.as_ref().is_some_and(|bias| !bias.sizes.is_empty());
        let needs = Needs {
            backward: node.op == Op::AttentionGrad,
            form: Form::of(&plan.graph, node, rule.by_distance),
            learned,
            stops: rule.stop.is_some(),
        };
        Some((id, write(rule, needs)?))
    };
    plan.graph.walk(MAIN).into_iter().filter_map(of).collect()
}

/// The kernels for lists of distances, for codes of distances and for heads that talk which a plan needs: few models have such attentions.
pub(super) fn forms(plan: &Plan) -> Vec<Generated> {
    let exprs = mask::exprs(&plan.graph);
    let of = |id: NodeId| {
        let node = Some(plan.graph.node(id)).filter(|node| is_attention(node.op))?;
        let listed = exprs.get(&id).is_some_and(|rule| rule.as_ref().is_ok_and(|rule| rule.by_distance));
        let by_pair = exprs.contains_key(&id) && !listed;
        let form = Form::of(&plan.graph, node, listed);
        (!by_pair && !form.is_plain()).then(|| of_form(form, node.op == Op::AttentionGrad))
    };
    plan.graph.walk(MAIN).into_iter().filter_map(of).flatten().collect()
}

fn is_attention(op: Op) -> bool {
    matches!(op, Op::Attention | Op::AttentionGrad)
}

/// A kernel of an attention.
struct Shared {
    name: &'static str,
    parameters: &'static str,
    /// The function that it calls, and what that is given.
    function: &'static str,
    passed: &'static str,
    /// Whether the function asks for the gradients of one score after the other; else it has a form of its own for heads that talk.
    by_score: bool,
}

impl Shared {
    const fn new([name, parameters, function, passed]: [&'static str; 4], by_score: bool) -> Self {
        Self { name, parameters, function, passed, by_score }
    }
}

/// The kernel of the gradients of keys and values.
const KEYS: &str = "attention_keys";

/// The kernels that every attention has.
fn shared(backward: bool, form: Form) -> Vec<Shared> {
    let own = |of_all, of_talking| Shared::new(if form.talking.is_some() { of_talking } else { of_all }, false);
    if !backward {
        let of = |function| ["attention", "real *y", function, "y"];
        return vec![own(of("attend"), of("attend_talking"))];
    }
    let mut out = vec![
        own(
            ["attention_queries", "OF_QUERIES", "attend_queries", "dy, dq, stats, by_keys, by_codes"],
            [
                "attention_queries",
                "OF_QUERIES, real *d_scores, real *d_probabilities",
                "talking_queries",
                "dy, dq, stats, by_keys, by_codes, d_scores, d_probabilities",
            ],
        ),
        own(
            [KEYS, "OF_KEYS", "attend_keys", "dy, stats, dk, dv"],
            [KEYS, "OF_KEYS", "talking_keys", "dy, stats, dk, dv"],
        ),
    ];
    if form.relative {
        let codes = ["attention_codes", "OF_CODES", "attend_codes", "dy, stats, d_codes, distances, rows"];
        out.push(Shared::new(codes, true));
    }
    if form.listed {
        let values = ["attention_values", "OF_VALUES", "attend_values", "dy, stats, d_values, rows"];
        out.push(Shared::new(values, true));
    }
    out
}

/// The kernels of one form.
fn of_form(form: Form, backward: bool) -> Vec<Generated> {
    let rule = if form.listed { "Listed()" } else { "Plain()" };
    let kernel = |shared: Shared| {
        let name = format!("{}{}", shared.name, form.ending());
        let (more, parameters, call) = (form.parameters(), shared.parameters, form.call(&shared, rule));
        let source = format!("TEAM({name})(ATTEND{more}, {parameters}) {{ GIVEN {call} }}\n");
        Generated { name, source }
    };
    shared(backward, form).into_iter().map(kernel).collect()
}

/// The kernels of a rule; none where the fixed ones do.
fn write(rule: &Rule, needs: Needs) -> Option<Written> {
    let fields = fields(rule);
    let body = expressions(rule);
    // The same expressions with and without codes of distances are other kernels.
    let more = Form { listed: false, relative: false, ..needs.form }.ending();
    let text = format!("{fields} {body} {} {}{more}", needs.form.relative, rule.by_distance);
    let hash: String = Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Attentions of one model may share expressions: the first kernel of a program brings them.
    let shared =
        format!("#ifndef RULE_{hash}\n#define RULE_{hash}\nstruct Rule_{hash} {{\n{fields}{body}}};\n#endif\n");
    let tables = rule.bias.as_ref().map_or(0, |bias| bias.sizes.len());
    let kernels = match rule.by_distance {
        true => by_distance(&hash, tables, rule.bias.is_some(), needs),
        false => by_pair(&hash, tables, needs),
    };
    let made = |(name, rest): (String, String)| Generated { source: format!("{shared}TEAM({name}){rest}\n"), name };
    let kernels: Vec<Generated> = kernels.into_iter().map(made).collect();
    (!kernels.is_empty()).then_some(Written { name: hash, kernels })
}

/// The parameters of a kernel that its expressions read, and the object that holds them, for the pairs of a `part` where it tells some
/// apart.
fn given(hash: &str, tables: usize, part: &str) -> (String, String) {
    let parameters: String = (0..tables).map(|n| format!(", const real *t{n}")).collect();
    let values: String = (0..tables).map(|n| format!(", t{n}")).collect();
    (format!("whole step{parameters}"), format!("Rule_{hash} own = {{step{part}{values}}};"))
}

/// Kernels for the numbers of a list of distances: their values, and the gradients of the tables that they are made of.
fn by_distance(hash: &str, tables: usize, biased: bool, needs: Needs) -> Vec<(String, String)> {
    let (parameters, object) = given(hash, tables, "");
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
fn by_pair(hash: &str, tables: usize, needs: Needs) -> Vec<(String, String)> {
    let (parameters, object) = given(hash, tables, if needs.stops { ", 0" } else { "" });
    let kernel = |shared: Shared| {
        let (own, call) = (needs.form.parameters(), needs.form.call(&shared, "rule"));
        // The gradients of keys are made in two parts.
        let (object, part) = match needs.stops && shared.name == KEYS {
            true => (given(hash, tables, ", part").1, ", int part"),
            false => (object.clone(), ""),
        };
        let body = format!(
            "(ATTEND{own}, {parameters}, {}{part}) {{\n    GIVEN\n    {object}\n    Evaluated<Rule_{hash}> rule = {{own}};\n    \
             {call}\n}}",
            shared.parameters
        );
        (format!("{}_{hash}", shared.name), body)
    };
    let mut out: Vec<_> = shared(needs.backward, needs.form).into_iter().map(kernel).collect();
    if needs.backward && needs.learned {
        let more = "const real *dy, const real *stats, real *slopes, const u64 *starts";
        out.push(kernel(Shared::new(["attention_slopes", more, "attend_slopes", "dy, stats, slopes, starts"], true)));
        let body = format!(
            "({parameters}, const real *slopes, const u64 *starts, const u32 *q_offsets, const u32 *k_offsets, int rows, \
             int heads, real *y, int table, int add) {{\n    {object}\n    \
             pair_gradient(own, slopes, starts, q_offsets, k_offsets, rows, heads, y, table, add);\n}}"
        );
        out.push((format!("tables_{hash}"), body));
    }
    out
}

/// The members of the object: the step, the part of pairs where gradients go apart (0 for all, 1 for those that stay), and the tables.
fn fields(rule: &Rule) -> String {
    let tables = rule.bias.as_ref().map_or(0, |bias| bias.sizes.len());
    let tables: String = (0..tables).map(|n| format!("    const real *t{n};\n")).collect();
    let part = if rule.stop.is_some() { "    int part;\n" } else { "" };
    format!("{}    whole step;\n{part}{tables}", reach(rule))
}

/// The distances at which keys are seen, as constants; farther than any where that is not known.
fn reach(rule: &Rule) -> String {
    const FARTHEST: f64 = (1_i64 << 40) as f64;
    let (low, high) = rule.expr.as_ref().map_or((-FARTHEST, FARTHEST), distances);
    let whole = |x: f64| x.clamp(-FARTHEST, FARTHEST) as i64;
    format!("    static const whole nearest = {}LL, farthest = {}LL;\n", whole(low), whole(high))
}

/// The functions of the object.
fn expressions(rule: &Rule) -> String {
    let place = "whole i, whole j, whole length, whole head";
    let mut out = String::new();
    let none = Bias { expr: Expr::Float(0.0), sizes: vec![], uses: vec![], first: 0 };
    let bias = rule.bias.as_ref().unwrap_or(&none);
    let mut writer = Writer { bias, next: 0 };
    let value = writer.text(&bias.expr).into_dual();
    let _ = write!(
        out,
        "    // The bias, and how it changes with the number that is read at use `by`, which is number `place` of its table.\n    \
         __device__ Dual bias({place}, int by, whole &place, bool &ok) const {{\n        return {value};\n    }}\n"
    );
    let mut sees = match &rule.expr {
        Some(mask) => format!("        if (!{} || !ok) return minus_infinity();\n", writer.text(mask).text),
        None => String::new(),
    };
    if let Some(stop) = &rule.stop {
        let text = writer.text(stop).text;
        let _ = write!(
            out,
            "    // Whether the gradients of a pair go apart.\n    __device__ bool stops({place}) const {{\n        bool ok = true;\n        \
             return {text} && ok;\n    }}\n"
        );
        sees += "        if (part && stops(i, j, length, head) != (part == 2)) return minus_infinity();\n";
    }
    let _ = write!(
        out,
        "    // What is added to a score; minus infinity where the key is hidden, or the bias has no value.\n    \
         __device__ real added({place}) const {{\n        bool ok = true;\n        whole unused = -1;\n{sees}        \
         double more = bias(i, j, length, head, -1, unused, ok).value;\n        \
         return ok ? (real)more : minus_infinity();\n    }}\n"
    );
    let uses: String =
        bias.uses.iter().enumerate().map(|(use_, table)| format!("use == {use_} ? {table} : ")).collect();
    let _ = write!(
        out,
        "    __device__ int uses() const {{ return {}; }}\n    __device__ int table_of(int use) const {{ return {uses}-1; }}\n",
        bias.uses.len()
    );
    out
}

/// What an expression is in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Truth,
    Whole,
    Real,
    /// A number that changes with learned ones.
    Dual,
}

/// An expression in C.
struct Text {
    text: String,
    kind: Kind,
}

impl Text {
    fn new(kind: Kind, text: String) -> Self {
        Self { text, kind }
    }

    /// As a kind that is at least as wide.
    fn widened(&self, kind: Kind) -> String {
        match (self.kind, kind) {
            (Kind::Whole, Kind::Real) => format!("(double){}", self.text),
            (Kind::Whole, Kind::Dual) => format!("dual((double){})", self.text),
            (Kind::Real, Kind::Dual) => format!("dual({})", self.text),
            _ => self.text.clone(),
        }
    }

    fn into_dual(self) -> String {
        self.widened(Kind::Dual)
    }

    /// Without its slope.
    fn number(&self) -> Self {
        match self.kind {
            Kind::Dual => Self::new(Kind::Real, format!("{}.value", self.text)),
            kind => Self::new(kind, self.text.clone()),
        }
    }
}

/// Writes expressions; learned numbers are counted in reading order.
struct Writer<'a> {
    bias: &'a Bias,
    next: usize,
}

impl Writer<'_> {
    fn text(&mut self, expr: &Expr) -> Text {
        match expr {
            Expr::Int(i64::MIN) => Text::new(Kind::Whole, "(whole)LEAST_WHOLE".to_owned()),
            Expr::Int(v) => Text::new(Kind::Whole, format!("(whole)({v}LL)")),
            Expr::Float(v) => Text::new(Kind::Real, format!("({v:?})")),
            Expr::Bool(v) => Text::new(Kind::Truth, v.to_string()),
            Expr::Var(var) => Text::new(Kind::Whole, variable(*var).to_owned()),
            // The depth of an example is no matter of a mask.
            Expr::Given | Expr::Draw(_) => Text::new(Kind::Whole, "no_whole(ok)".to_owned()),
            Expr::Neg(x) => {
                let x = self.text(x);
                let zero = Text::new(Kind::Whole, "(whole)0".to_owned()).widened(x.kind);
                Text::new(x.kind, format!("minus({zero}, {}, ok)", x.text))
            }
            Expr::Not(x) => Text::new(Kind::Truth, format!("!{}", self.text(x).text)),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.text(a), self.text(b));
                binary(*op, &a, &b)
            }
            Expr::Call(func, arguments) => {
                let arguments: Vec<Text> = arguments.iter().map(|x| self.text(x)).collect();
                call(*func, &arguments)
            }
            Expr::Learn(_, indices) => self.learned(indices),
        }
    }

    fn learned(&mut self, indices: &[Expr]) -> Text {
        let here = self.next;
        self.next += 1;
        let table = self.bias.uses.get(here).copied().unwrap_or(0);
        let sizes = self.bias.sizes.get(table).cloned().unwrap_or_default();
        let mut at = "(whole)0".to_owned();
        for (index, size) in indices.iter().zip(sizes) {
            let index = self.text(index).text;
            at = format!("({at} * {size} + inside({index}, {size}, ok))");
        }
        Text::new(Kind::Dual, format!("learned(t{table}, {at}, by == {here}, place)"))
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

fn binary(op: BinaryOp, a: &Text, b: &Text) -> Text {
    let function = match op {
        BinaryOp::Add => "plus",
        BinaryOp::Sub => "minus",
        BinaryOp::Mul => "times",
        BinaryOp::Div => "quotient",
        BinaryOp::Rem => "modulo",
        BinaryOp::Pow => "power",
        // These stop at the first operand that decides, as in the language.
        BinaryOp::And => return Text::new(Kind::Truth, format!("({} && {})", a.text, b.text)),
        BinaryOp::Or => return Text::new(Kind::Truth, format!("({} || {})", a.text, b.text)),
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            let (a, b) = (a.number(), b.number());
            let kind = a.kind.max(b.kind);
            return Text::new(Kind::Truth, format!("({} {} {})", a.widened(kind), op.symbol(), b.widened(kind)));
        }
    };
    let kind = a.kind.max(b.kind);
    Text::new(kind, format!("{function}({}, {}, ok)", a.widened(kind), b.widened(kind)))
}

fn call(func: Func, arguments: &[Text]) -> Text {
    match (func, arguments) {
        (Func::Floor, [x]) => Text::new(Kind::Whole, format!("floor_of({}, ok)", x.text)),
        (Func::Ln, [x]) => {
            let kind = x.kind.max(Kind::Real);
            Text::new(kind, format!("logarithm_of({}, ok)", x.widened(kind)))
        }
        (Func::Log, [a, b]) => Text::new(Kind::Whole, format!("logarithm_up({}, {}, ok)", a.text, b.text)),
        (_, [a, b]) => {
            let kind = a.kind.max(b.kind);
            let name = if func == Func::Min { "least" } else { "most" };
            Text::new(kind, format!("{name}({}, {})", a.widened(kind), b.widened(kind)))
        }
        // The checker counts arguments.
        _ => Text::new(Kind::Whole, "no_whole(ok)".to_owned()),
    }
}
