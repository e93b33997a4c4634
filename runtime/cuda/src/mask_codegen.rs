//! Masks and biases that are expressions: CUDA C for those of a plan, as chains are made for its arithmetic.
//!
//! Where mask and bias see positions only through their distance, attention goes through a list of distances ([`super::offset_lists`]), and
//! only the numbers of the bias need a kernel. Elsewhere the expressions become part of the attention itself, which asks them
//! for every query and key: nothing as large as all pairs is kept, but for the gradients of learned numbers.

use std::fmt::Write as _;

use rtc_compiler::expr::{BiasFacts, Expr, LARGEST_BIAS, ReadFrom, Var, distances};
use rtc_compiler::ir::graph::{MAIN, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::ir::pointwise::Scalar;
use rtc_compiler::ir::scalar::{ExprScalar, Leaf, Untold};
use rtc_compiler::plan::Plan;
use sha2::{Digest, Sha256};

use super::attention_kernels::{AttentionForm, AttentionKernel, KEYS};
use super::device::{GeneratedKernel, KernelTarget};
use super::fusion;
use rtc_exec::mask::{self, MaskRule, is_attention};

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
    let body = expressions(rule).expect("a rule has programs of the same expressions");
    // The same expressions with and without codes of distances are other kernels.
    let more = needs.form.of_any_rule().ending();
    let text = format!("{fields} {body} {} {}{more}", needs.form.relative, rule.by_distance);
    let hash: String = Sha256::digest(&text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    // Attentions of one model may share expressions: the first kernel of a program brings them.
    let shared =
        format!("#ifndef RULE_{hash}\n#define RULE_{hash}\nstruct Rule_{hash} {{\n{fields}{body}}};\n#endif\n");
    let read = RuleReads::of(rule);
    let kernels = match rule.by_distance {
        true => by_distance(&hash, read, rule.bias.is_some(), needs),
        false => by_pair(&hash, read, needs),
    };
    let made =
        |(name, rest): (String, String)| GeneratedKernel { source: format!("{shared}TEAM({name}){rest}\n"), name };
    let kernels: Vec<GeneratedKernel> = kernels.into_iter().map(made).collect();
    (!kernels.is_empty()).then_some(MaskKernels { name: hash, kernels })
}

/// Inputs of the expressions of a rule, besides the step.
#[derive(Clone, Copy)]
struct RuleReads {
    tables: usize,
    values: usize,
    places: PairPlaces,
}

impl RuleReads {
    fn of(rule: &MaskRule) -> Self {
        let tables = rule.bias.as_ref().map_or(0, |bias| bias.sizes.len());
        Self { tables, values: rule.channels.len(), places: rule.places }
    }

    /// Type and name of every table and value, then of the places. For chosen positions these are the places of queries and of keys, and for
    /// every query the length of its row; a null pointer stands for places that are the numbers themselves, and for a length that nothing reads.
    fn names(self) -> Vec<(&'static str, String)> {
        let numbers = (0..self.tables).map(|n| format!("t{n}")).chain((0..self.values).map(|n| format!("r{n}")));
        let places: &[(&str, &str)] = match self.places {
            PairPlaces::Own => &[],
            PairPlaces::Chosen => {
                &[("const u32 *", "query_places"), ("const u32 *", "key_places"), ("const u32 *", "lengths")]
            }
            PairPlaces::Slots => &[("whole ", "slots")],
        };
        let places = places.iter().map(|(ty, name)| (*ty, (*name).to_owned()));
        numbers.map(|name| ("const real *", name)).chain(places).collect()
    }
}

/// The parameters of a kernel that its expressions read, and the object that holds them, for the pairs of a `part` where it tells some
/// apart.
fn given(hash: &str, read: RuleReads, part: &str) -> (String, String) {
    let names = read.names();
    let parameters: String = names.iter().map(|(ty, name)| format!(", {ty}{name}")).collect();
    let values: String = names.iter().map(|(_, name)| format!(", {name}")).collect();
    (format!("whole step{parameters}"), format!("Rule_{hash} own = {{step{part}{values}}};"))
}

/// Kernels for the numbers of a list of distances: their values, and the gradients of the tables that they are made of.
fn by_distance(hash: &str, read: RuleReads, biased: bool, needs: KernelNeeds) -> Vec<(String, String)> {
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
fn by_pair(hash: &str, read: RuleReads, needs: KernelNeeds) -> Vec<(String, String)> {
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
        if read.values > 0 {
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
    let tables: String = RuleReads::of(rule).names().iter().map(|(ty, name)| format!("    {ty}{name};\n")).collect();
    let part = if rule.stop.is_some() { "    int part;\n" } else { "" };
    format!("{}    whole step;\n{part}{tables}", reach(rule))
}

/// The distances at which keys are seen, as constants; farther than any where that is not known.
fn reach(rule: &MaskRule) -> String {
    const FARTHEST: f64 = (1_i64 << 40) as f64;
    let mask = rule.expr.as_ref().filter(|_| rule.places == PairPlaces::Own);
    let (low, high) = mask.map_or((-FARTHEST, FARTHEST), distances);
    let whole = |x: f64| x.clamp(-FARTHEST, FARTHEST) as i64;
    format!("    static const whole nearest = {}LL, farthest = {}LL;\n", whole(low), whole(high))
}

/// What the functions of the object take: the positions of a query and a key, the queries of the row, the head, and where the row begins.
const PLACE: &str = "whole i, whole j, whole length, whole head, RowStarts at";

/// The functions of the object.
fn expressions(rule: &MaskRule) -> Result<String, Untold> {
    let is_score = rule.bias.as_ref().is_some_and(|bias| bias.is_score);
    let slots = if rule.places == PairPlaces::Slots { "slots" } else { "1" };
    let mut out = format!(
        "    static const bool is_score = {is_score};\n    // Keys of a position.\n    __device__ whole keys_of_position() const {{ return {slots}; }}\n{}",
        number(rule)?
    );
    let mut sees = String::new();
    if let Some(mask) = &rule.expr {
        out += &truth(mask, "shows", rule)?;
        sees += "        double shown = shows(i, j, length, head, at);\n        if (shown != shown) return not_a_number();\n        \
                 if (shown == 0) return minus_infinity();\n";
    }
    if let Some(stop) = &rule.stop {
        out += &truth(stop, "stops", rule)?;
        sees += "        double stopped = stops(i, j, length, head, at);\n        if (stopped != stopped) return not_a_number();\n        \
                 if (part && (stopped != 0) != (part == 2)) return minus_infinity();\n";
    }
    // A score is worked out from the product; what is added before that only hides.
    let more = if is_score { "0" } else { "number(i, j, length, head, at, 0)" };
    let _ = write!(
        out,
        "    // What is added to a score; minus infinity where the key is hidden, or the bias has no number.\n    \
         __device__ real added({PLACE}) const {{\n{sees}        return {more};\n    }}\n"
    );
    Ok(out)
}

/// Whether a mask or `stop` holds. Nothing is seen or hidden by a number that is not finite.
fn truth(expr: &Expr, name: &str, rule: &MaskRule) -> Result<String, Untold> {
    let own = ExprScalar::plain(expr, &BiasFacts::of_rows(usize::MAX, None))?;
    let function = PairFunction::new(&own, rule);
    let (lines, result) = function.value();
    let is_broken = |n: usize| format!("        if (l{n} != l{n}) return not_a_number();\n");
    let broken: String = function.reads().map(is_broken).collect();
    Ok(format!(
        "    // 1 where it holds, else 0; NaN where that can't be told.\n    \
         __device__ double {name}({PLACE}) const {{\n{lines}{broken}        return {result} > 0 ? 1 : 0;\n    }}\n"
    ))
}

/// The bias, or the score, with its derivatives.
fn number(rule: &MaskRule) -> Result<String, Untold> {
    let none = (Expr::Float(0.0), vec![], vec![]);
    let (expr, uses, sizes) =
        rule.bias.as_ref().map_or(none, |bias| (bias.expr.clone(), bias.uses.clone(), bias.sizes.clone()));
    let own = ExprScalar::new(&expr, &uses, &sizes, &BiasFacts::of_rows(usize::MAX, None), LARGEST_BIAS)?;
    let function = PairFunction::new(&own, rule);
    let (value, result) = function.value();
    let broken: String = function.reads().map(|n| format!(" || l{n} != l{n}")).collect();
    let (by_score, by_read): (Vec<_>, Vec<_>) =
        own.shares().into_iter().partition(|(leaf, _)| own.leaves[*leaf] == Leaf::Score);
    let by_score = match &by_score[..] {
        [(_, share)] => function.slope(share, ""),
        _ => "        return 0;\n".to_owned(),
    };
    let (mut slopes, mut table_of, mut at_query) = (String::new(), String::new(), String::new());
    for (n, (leaf, share)) in by_read.iter().enumerate() {
        let (table, of_query) = match own.leaves[*leaf] {
            Leaf::Table { table, .. } => (table, false),
            Leaf::Value { value, of_query, .. } => (sizes.len() + value, of_query),
            Leaf::Var(_) | Leaf::Given | Leaf::Score => continue,
        };
        let place = format!("        place = p{leaf} == p{leaf} ? (whole)p{leaf} : -1;\n");
        slopes += &format!("        if (read == {n}) {{\n{}        }}\n", function.slope(share, &place));
        table_of += &format!("read == {n} ? {table} : ");
        at_query += &format!("read == {n} ? {of_query} : ");
    }
    Ok(format!(
        "    // What is added to a score, or the score: minus infinity where it has no number, and NaN where one that is read is not finite.\n    \
         __device__ real number({PLACE}, double score) const {{\n{value}        double y = {result};\n        \
         return y == y ? (real)y : (false{broken}) ? not_a_number() : minus_infinity();\n    }}\n    \
         // Its derivative by the score before it, and by a number that is read, with the place of that in its table, or the channel of its \
         value.\n    \
         __device__ double by_score({PLACE}, double score) const {{\n{value}        double y = {result};\n{by_score}    }}\n    \
         __device__ double slope({PLACE}, double score, int read, whole &place) const {{\n{value}        double y = {result};\n{slopes}        \
         return 0;\n    }}\n    \
         __device__ int reads() const {{ return {}; }}\n    \
         // The table that is read; values are counted behind the tables.\n    \
         __device__ int table_of(int read) const {{ return {table_of}-1; }}\n    \
         // Whether it is a value at the query.\n    \
         __device__ bool at_query(int read) const {{ return {at_query}false; }}\n",
        by_read.len(),
    ))
}

/// A variable, where pairs stand in their rows.
fn placed(var: Var, places: PairPlaces) -> &'static str {
    match (places, var) {
        (PairPlaces::Chosen, Var::I) => "query_places ? query_places[at.q + i] : i",
        (PairPlaces::Chosen, Var::J) => "key_places ? key_places[at.k + j] : j",
        (PairPlaces::Chosen, Var::Length) => "lengths ? lengths[at.q + i] : length",
        (PairPlaces::Slots, Var::J) => "j / slots",
        _ => var.name(),
    }
}

/// The lines of a function of a pair: its leaves `l{n}` with their places `p{n}`, then its steps.
struct PairFunction<'a> {
    own: &'a ExprScalar,
    leaves: String,
    names: Vec<String>,
}

impl<'a> PairFunction<'a> {
    /// The leaves of a function of a rule.
    fn new(own: &'a ExprScalar, rule: &MaskRule) -> Self {
        let (mut lines, mut names) = (String::new(), vec![]);
        for (n, leaf) in own.leaves.iter().enumerate() {
            let place = |at: &Scalar| {
                let (steps, results) = fusion::steps(std::slice::from_ref(at), &names, &format!("i{n}_"), "double");
                format!("{steps}    double p{n} = {};\n", results[0])
            };
            lines += &match leaf {
                Leaf::Var(var) => format!("    double l{n} = (double)({});\n", placed(*var, rule.places)),
                // The depth of an example is no matter of a mask.
                Leaf::Given => format!("    double l{n} = NOT_A_NUMBER;\n"),
                Leaf::Score => format!("    double l{n} = sound(score);\n"),
                Leaf::Table { table, at } => place(at) + &format!("    double l{n} = look_up(t{table}, p{n});\n"),
                Leaf::Value { value, of_query, channel } => {
                    let position = match (of_query, rule.places) {
                        (true, _) => "at.q + i",
                        (false, PairPlaces::Slots) => "(at.k + j) / slots",
                        (false, _) => "at.k + j",
                    };
                    place(channel.as_ref().unwrap_or(&Scalar::Number(0.0)))
                        + &format!(
                            "    double l{n} = look_up(r{value} + ({position}) * {}, p{n});\n",
                            rule.channels[*value]
                        )
                }
            };
            names.push(format!("l{n}"));
        }
        Self { own, leaves: lines, names }
    }

    /// All lines, and what the function gives.
    fn value(&self) -> (String, String) {
        let (lines, mut results) = fusion::steps(std::slice::from_ref(&self.own.scalar), &self.names, "s", "double");
        (format!("{}{lines}", self.leaves), results.remove(0))
    }

    /// The lines that return the derivative by a leaf, which gets this share of a cotangent of 1, after `place`.
    fn slope(&self, share: &Scalar, place: &str) -> String {
        let cotangent = self.names.len() + 1;
        let slope = share.with(&|n| if n == cotangent { Scalar::Number(1.0) } else { Scalar::Operand(n) });
        let operands = [&self.names[..], &["y".to_owned()]].concat();
        let (lines, results) = fusion::steps(&[slope], &operands, "d", "double");
        format!("{lines}{place}        double d = {};\n        return y == y && d - d == 0 ? d : 0;\n", results[0])
    }

    /// The leaves that are read.
    fn reads(&self) -> impl Iterator<Item = usize> {
        let is_read = |leaf: &Leaf| matches!(leaf, Leaf::Table { .. } | Leaf::Value { .. } | Leaf::Score);
        self.own.leaves.iter().enumerate().filter(move |(_, leaf)| is_read(leaf)).map(|(n, _)| n)
    }
}
