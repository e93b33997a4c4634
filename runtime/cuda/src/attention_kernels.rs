//! Which kernels an attention has: in tiles, or with a warp for each query, and what their names and texts are.
//!
//! Attention is computed in tiles (`kernels/tile.cu`). A warp has a query where a list of distances has gaps, since few keys are seen
//! then, where heads talk, and where an expression makes the scores of products.

use rtc_compiler::expr::ScoreExpr;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN, Node, NodeId};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::places::PairPlaces;
use rtc_compiler::plan::Plan;

use super::device::{GeneratedKernel, KernelTarget};
use rtc_exec::mask;
use rtc_kernel::Precision;

/// The kernel of the gradients of keys and values.
pub(super) const KEYS: &str = "attention_keys";

/// Properties of an attention besides its mask and its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttentionForm {
    /// Whether it goes through a list of distances.
    pub(super) listed: bool,
    /// Whether it has codes of distances.
    pub(super) relative: bool,
    /// How many heads talk.
    pub(super) talking: Option<usize>,
    /// Whether every position has the keys of several steps, and a rule sees positions.
    pub(super) steps: bool,
    /// What multiplies in tiles.
    precision: Precision,
    /// Whether queries, keys and values may be kept in 16 bits.
    may_be_narrow: bool,
    /// Heads, heads of keys, and channels of a head of keys and of values, where kernels are made for them.
    sizes: Option<[usize; 4]>,
    /// Whether scores stay below a bound.
    capped: bool,
    /// Whether an expression makes the scores of products.
    rescored: bool,
}

/// A kernel of an attention.
pub(super) struct AttentionKernel {
    pub(super) name: &'static str,
    pub(super) parameters: &'static str,
    /// The function that it calls, and what that is given.
    function: &'static str,
    passed: &'static str,
    way: KernelTraversal,
    /// Whether queries, keys and values are kept in 16 bits.
    narrow: bool,
}

/// The way of a kernel through queries and keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KernelTraversal {
    Tiles,
    Warps,
    /// With a function for the gradients of one score, which heads that talk have in the place of a rule.
    ByScore,
}

impl AttentionKernel {
    const fn new([name, parameters, function, passed]: [&'static str; 4], way: KernelTraversal) -> Self {
        Self { name, parameters, function, passed, way, narrow: false }
    }

    /// A kernel that asks for the gradients of one score after the other.
    pub(super) const fn by_score(of: [&'static str; 4]) -> Self {
        Self::new(of, KernelTraversal::ByScore)
    }
}

impl AttentionForm {
    /// That of a node, on a device.
    pub(super) fn of(graph: &Graph, node: &Node, listed: bool, target: KernelTarget) -> Self {
        let heads = node.find(attribute::HEADS).unwrap_or(1);
        let key_heads = node.find(attribute::KEY_HEADS).unwrap_or(heads);
        let last = |n: usize| graph.ty(node.operands[n]).dims().last().and_then(|d| d.fixed()).unwrap_or(0);
        let (relative, score) = (node.has(attribute::POSITION), node.attrs.score());
        Self {
            listed,
            relative,
            talking: node.find(attribute::TALKING).unwrap_or(false).then_some(heads),
            steps: graph.ty(node.operands[1]).dims().len() > 3 && PairPlaces::of(graph, node) != PairPlaces::Slots,
            // Codes of distances have products of their own, in single precision.
            precision: if relative { Precision::F32 } else { target.precision },
            may_be_narrow: target.precision == Precision::Bf16,
            sizes: target.fixed_sizes.then(|| [heads, key_heads, last(0) / heads, last(2) / key_heads]),
            capped: score.as_ref().is_ok_and(|score| score.cap().is_some()),
            rescored: matches!(score, Ok(ScoreExpr::Whole(_))),
        }
    }

    /// The same without what a rule has in its own name.
    pub(super) fn of_any_rule(self) -> Self {
        Self { listed: false, relative: false, ..self }
    }

    /// Whether it is computed in tiles; a list, if it has no gaps. Where an expression makes the scores, they are asked one by one.
    pub(super) fn in_tiles(self) -> bool {
        self.talking.is_none() && !self.rescored
    }

    /// What the names of its kernels end with.
    pub(super) fn ending(self) -> String {
        let word = |holds, word: &'static str| if holds { word } else { "" };
        let talking = self.talking.map_or_else(String::new, |heads| format!("_talking_{heads}"));
        let steps = word(self.steps, "_steps");
        format!("{}{}{talking}{steps}", word(self.listed, "_listed"), word(self.relative, "_relative"))
    }

    /// What the names of its kernels in tiles end with besides.
    pub(super) fn in_tiles_ending(self, narrow: bool) -> String {
        let engine =
            if self.precision == Precision::F32 { String::new() } else { format!("_{}", self.precision.name()) };
        let sizes = self.sizes.map_or_else(String::new, |sizes| {
            let capped = if self.capped { "_capped" } else { "" };
            format!("_{}{capped}", sizes.map(|n| n.to_string()).join("x"))
        });
        format!("_tiles{engine}{}{sizes}", if narrow { "_narrow" } else { "" })
    }

    /// What the name of one of its kernels ends with besides.
    pub(super) fn tiles_ending(self, kernel: &AttentionKernel) -> String {
        if kernel.way == KernelTraversal::Tiles { self.in_tiles_ending(kernel.narrow) } else { String::new() }
    }

    /// Parameters of its kernels behind those of every attention.
    pub(super) fn parameters(self) -> String {
        let talking = if self.talking.is_some() { ", const real *of_scores, const real *of_probabilities" } else { "" };
        format!("{talking}{}", if self.steps { ", whole steps" } else { "" })
    }

    /// The call of a kernel's function with a rule, after what it needs.
    pub(super) fn call(self, kernel: &AttentionKernel, rule: &str) -> String {
        let AttentionKernel { function, passed, way, narrow, .. } = kernel;
        let relative = self.relative;
        let rule = if self.steps { format!("of_steps({rule}, steps)") } else { rule.to_owned() };
        if *way == KernelTraversal::Tiles {
            let engine = match self.precision {
                Precision::F32 => "Single",
                Precision::Tf32 => "Tf32",
                Precision::Bf16 => "Bf16",
            };
            let kept = if *narrow { "bf16" } else { "real" };
            return format!("{}{function}<{engine}, {kept}, {relative}>(a, {rule}, {passed});", self.fixed());
        }
        let Some(heads) = self.talking else { return format!("{function}<{relative}>(a, {rule}, {passed});") };
        let rule =
            if *way == KernelTraversal::ByScore { format!("talking({rule}, talk)") } else { format!("{rule}, talk") };
        format!("Talk<{heads}> talk = {{of_scores, of_probabilities}}; {function}<{relative}>(a, {rule}, {passed});")
    }

    /// Says again what is known when the kernel is made, so that the compiler knows it.
    fn fixed(self) -> String {
        let Some([heads, key_heads, e, ev]) = self.sizes else { return String::new() };
        let cap = if self.capped { "" } else { " a.softcap = 0;" };
        format!("a.heads = {heads}; a.key_heads = {key_heads}; a.e = {e}; a.ev = {ev};{cap} ")
    }

    /// The kernels that it has.
    pub(super) fn kernels(self, backward: bool) -> Vec<AttentionKernel> {
        let (by_tiles, by_warps) = (self.in_tiles(), self.listed || !self.in_tiles());
        let mut out = vec![];
        let mut add = |tiles, warps, talking| {
            out.extend(by_tiles.then(|| AttentionKernel::new(tiles, KernelTraversal::Tiles)));
            let narrow = by_tiles && self.may_be_narrow;
            out.extend(
                narrow.then(|| AttentionKernel { narrow, ..AttentionKernel::new(tiles, KernelTraversal::Tiles) }),
            );
            let warps = if self.talking.is_some() { talking } else { warps };
            out.extend(by_warps.then(|| AttentionKernel::new(warps, KernelTraversal::Warps)));
        };
        if !backward {
            let of = |function| ["attention", "real *y", function, "y"];
            add(of("tile_attend"), of("attend"), of("attend_talking"));
            return out;
        }
        let queries = |function| ["attention_queries", "OF_QUERIES", function, "dy, dq, stats, by_keys, by_codes"];
        let talking = [
            "attention_queries",
            "OF_QUERIES, real *d_scores, real *d_probabilities",
            "talking_queries",
            "dy, dq, stats, by_keys, by_codes, d_scores, d_probabilities",
        ];
        add(queries("tile_queries"), queries("attend_queries"), talking);
        let keys = |function| [KEYS, "OF_KEYS", function, "dy, stats, dk, dv"];
        add(keys("tile_keys"), keys("attend_keys"), keys("talking_keys"));
        if self.relative {
            out.push(AttentionKernel::by_score([
                "attention_codes",
                "OF_CODES",
                "attend_codes",
                "dy, stats, d_codes, distances, rows",
            ]));
        }
        if self.listed {
            out.push(AttentionKernel::by_score([
                "attention_values",
                "OF_VALUES",
                "attend_values",
                "dy, stats, d_values, rows",
            ]));
        }
        out
    }

    /// The texts of these kernels, with a rule that is always there.
    fn generated(self, backward: bool) -> Vec<GeneratedKernel> {
        let kernel = |kernel: AttentionKernel| {
            let rule = match (self.listed, kernel.way) {
                (true, KernelTraversal::Tiles) => "Window()",
                (true, _) => "Listed()",
                (false, _) => "Plain()",
            };
            let name = format!("{}{}{}", kernel.name, self.ending(), self.tiles_ending(&kernel));
            let (more, parameters, call) = (self.parameters(), kernel.parameters, self.call(&kernel, rule));
            let source = format!("TEAM({name})(ATTEND{more}, {parameters}) {{ GIVEN {call} }}\n");
            GeneratedKernel { name, source }
        };
        self.kernels(backward).into_iter().map(kernel).collect()
    }
}

/// The kernels of the attentions of a plan whose masks and biases are no expressions, or see positions through their distance alone.
pub(super) fn generated(plan: &Plan, target: KernelTarget) -> Vec<GeneratedKernel> {
    let exprs = mask::exprs(&plan.graph);
    let of = |id: NodeId| {
        let node = plan.graph.node(id);
        let backward = match node.op {
            Op::Attention => false,
            Op::AttentionGrad => true,
            _ => return None,
        };
        let listed = exprs.get(&id).is_some_and(|rule| rule.as_ref().is_ok_and(|rule| rule.by_distance));
        let by_pair = exprs.contains_key(&id) && !listed;
        (!by_pair).then(|| AttentionForm::of(&plan.graph, node, listed, target).generated(backward))
    };
    plan.graph.walk(MAIN).into_iter().filter_map(of).flatten().collect()
}
