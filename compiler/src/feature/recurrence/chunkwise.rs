//! Chunk-wise recurrence: the row is cut into chunks, read from left to right, with a memory of slots between them.

use super::{gate_reads_shown, has_layers};
use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site, memory, stack};
use crate::ir::attribute::{self, Attrs};
use crate::ir::graph::{InvalidNode, NewNode, RegionId, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::lower::{Halted, LayerInputs, Lower, choice, group, need};
use crate::schema::{Children, Default, FOLDING, SIZE, int, word};
use crate::spec::Block;

/// The feature.
pub(super) fn chunkwise() -> Feature {
    Feature {
        fields: vec![
            int("size", Default::Absent, SIZE, "tokens of a chunk; either this or `chunks`"),
            int("chunks", Default::Absent, SIZE, "number of chunks; either this or `size`"),
            word(
                "cut",
                &["position", "balanced"],
                "position",
                "`position`: every chunk but the last is full; `balanced`: equal chunks for the width of the \
                padded batch, as in the published code",
            ),
            word(
                "positions",
                &["local", "global"],
                "local",
                "`local`: positions start at 0 in every chunk; `global`: they run through the row",
            ),
        ],
        children: const {
            &[
                Children::one(&["memory"]),
                Children::or(&["gate"], "none"),
                Children::any(FOLDING),
                Children::optional(&["update"]),
            ]
        },
        check,
        ..Feature::row(
            "recur",
            "chunkwise",
            "Cuts the row into chunks and runs its layers on one chunk after the other with the same weights. A \
        memory of slots is read inside a chunk and updated after it (Temporal Latent Bottleneck).",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Section 4.2, arXiv:2402.00976",
            Lowering::Layer(lower),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    has_layers(site, problems);
    gate_reads_shown(site, problems);
    one_length(site, problems);
    not_nested(site, problems);
    if let Some(memory) = site.block.child("memory") {
        memory_is_read(site, memory, problems);
        slots_can_differ(site, memory, problems);
    }
}

/// Either the size or the number of chunks is given.
fn one_length(site: &Site<'_>, problems: &mut Problems) {
    match (site.block.int("size"), site.block.int("chunks")) {
        (Some(_), Some(_)) => problems.report(
            Diagnostic::new(Kind::ExclusiveFields, site.place("chunks"), "`size` and `chunks` exclude each other")
                .note(site.place("size"), "the size is given here")
                .help("keep one; a variant takes the other out with `remove chunkwise.size`"),
        ),
        (None, None) => problems.report(
            Diagnostic::new(Kind::MissingField, site.block.span, "`recur chunkwise` needs `size` or `chunks`")
                .help("`size: 20` for chunks of 20 tokens, `chunks: 5` for 5 chunks of any length"),
        ),
        _ => {}
    }
}

/// Chunks of chunks have no meaning: the inner memory would not know which chunk it belongs to.
fn not_nested(site: &Site<'_>, problems: &mut Problems) {
    if let Some(outer) = site.ancestors.iter().find(|b| b.slot == "recur" && b.variant == "chunkwise") {
        problems.report(
            Diagnostic::new(Kind::MisplacedStatement, site.block.span, "`recur chunkwise` can't stand in another one")
                .note(outer.span, "the outer one"),
        );
    }
}

/// Whether the memory reaches the result: through `attend memory` or the readout.
fn memory_is_read(site: &Site<'_>, memory: &Block, problems: &mut Problems) {
    let read_out = site.ancestors.first().and_then(|root| root.child("readout")).is_some_and(|r| r.variant == "memory");
    if !read_out && !site.block.any(&|b| b.slot == "attend" && b.variant == "memory") {
        problems.report(
            Diagnostic::new(Kind::DeadMemory, memory.span, "nothing reads the memory")
                .label("gets no gradient")
                .help("add `attend memory { heads: ... }` to the layers of the chunk"),
        );
    }
}

/// Equal slots stay equal unless dropout falls on them differently.
fn slots_can_differ(site: &Site<'_>, memory: &Block, problems: &mut Problems) {
    let several = memory.int("slots").is_some_and(|n| n > 1);
    let acts_on_slots = |b: &Block| b.slot == "attend" && ["memory", "chunk"].contains(&&*b.variant);
    let update = site.block.child("update");
    let noisy = |b: &Block| b.float("dropout").is_none_or(|p| p > 0.0);
    // The model's dropout also falls on the output of the update's attention.
    let model = site.ancestors.first().and_then(|m| m.float("dropout")).is_some_and(|p| p > 0.0);
    let noise = (model && update.is_some())
        || site.block.any(&|b| acts_on_slots(b) && noisy(b))
        || update.is_some_and(|u| u.any(&|b| b.slot == "feedforward" && noisy(b)));
    if several && memory.word("init") == Some("zeros") && !noise {
        problems.report(
            Diagnostic::new(Kind::IdenticalSlots, memory.span, "all slots of the memory stay equal for ever")
                .label("they start from zeros, and no dropout tells them apart")
                .help("use `init: normal`, or dropout"),
        );
    }
}

/// `H_c = Block(X_c, M_c)` and `M_{c+1} = Update(M_c, H_c)` over the chunks of a row: gives the chunk states in the order
/// of the row and leaves the final memory behind.
fn lower(l: &mut Lower<'_>, block: &Block, place: &LayerInputs) -> Result<Value, InvalidNode> {
    let memory = need(block.child("memory"), block, "memory")?;
    let start = l.scoped("memory", |l| memory::start(l, memory, place.state))?;
    let over = l.ragged(place.state)?;
    let axis = l.new_axis("chunk");
    let region = l.graph().add_region();
    let memory_type = l.graph().ty(start).clone();
    let m = l.graph().add_param(region, memory_type, "memory");
    let chunk_type = l.with_axis(place.state, &axis);
    let x = l.graph().add_param(region, chunk_type, "chunk");
    let ((states, next), halted) = l.inside(region, |l| {
        let global_positions = block.word("positions") == Some("global");
        let here = LayerInputs { memory: Some(m), step: place.step, global_positions, ..LayerInputs::at(x) };
        let states = group(l, block, &here)?;
        define::keeps_positions(l, block, x, states)?;
        // A fold leaves one vector of the chunk: it stands at every position.
        let folded = l.graph().ty(states).ragged().is_none();
        let states = if folded { l.one(Op::BroadcastRows, &[states, x], Attrs::new())? } else { states };
        Ok((states, updated(l, block, (m, states), place.step)?))
    })?;
    let sums = row_sums(l, region, &halted, place.state)?;
    let carried = 1 + sums.inits.len();
    // Carried values come first, and the sums have come after the chunk.
    l.graph().move_param_last(region, x);
    let yields: Vec<Value> = [next].into_iter().chain(sums.yields).chain([states]).collect();
    l.inside(region, |l| l.emit(Op::Yield, &yields, Attrs::new()))?;
    let operands: Vec<Value> = [start].into_iter().chain(sums.inits).chain([place.state]).collect();
    let types = operands.iter().map(|v| l.graph().ty(*v).clone()).collect();
    let attrs = chunk_attrs(block, carried, &over, &axis)?;
    let out =
        l.emit_loop(NewNode { op: Op::Chunks, operands, attrs, types, body: Some(region), label: String::new() })?;
    l.graph().set_hint(out[0], "memory");
    l.memory = Some(out[0]);
    mean_over_chunks(l, &halted, &out)?;
    Ok(out[carried])
}

/// The memory after a chunk; without `update` it passes through.
fn updated(
    l: &mut Lower<'_>,
    block: &Block,
    (memory, states): (Value, Value),
    step: Option<Value>,
) -> Result<Value, InvalidNode> {
    let Some(update) = block.child("update") else { return Ok(memory) };
    let here = LayerInputs { chunk: Some(states), step, ..LayerInputs::at(memory) };
    l.scoped("update", |l| stack::copies(l, update, &here, "layers"))
}

fn chunk_attrs(block: &Block, carried: usize, over: &str, axis: &str) -> Result<Attrs, InvalidNode> {
    let attrs = Attrs::of(attribute::CARRIED, carried)
        .with(attribute::CUT, choice(block, "cut")?)
        .with(attribute::OVER, over)
        .with(attribute::AXIS, axis);
    Ok(match block.int("chunks") {
        Some(count) => attrs.with(attribute::COUNT, count),
        None => attrs.with(attribute::SIZE, need(block.int("size"), block, "size")?),
    })
}

/// Sums over the chunks of a row: for every halting recurrence its ponder cost and depth, and the number of chunks.
struct RowSums {
    inits: Vec<Value>,
    yields: Vec<Value>,
}

fn row_sums(l: &mut Lower<'_>, region: RegionId, halted: &[Halted], like: Value) -> Result<RowSums, InvalidNode> {
    let mut sums = RowSums { inits: vec![], yields: vec![] };
    if halted.is_empty() {
        return Ok(sums);
    }
    let zero = l.full(like, 0.0, 1)?;
    let ty = l.graph().ty(zero).clone();
    for (value, hint) in halted.iter().flat_map(|h| [(h.ponder_cost, "ponder_cost"), (h.depth, "depth")]) {
        let sum = l.graph().add_param(region, ty.clone(), hint);
        let (next, _) = l.inside(region, |l| l.map(Pointwise::Add, &[sum, value]))?;
        sums.inits.push(zero);
        sums.yields.push(next);
    }
    let seen = l.graph().add_param(region, ty, "seen");
    let (next, _) = l.inside(region, |l| l.shifted(seen, 1.0))?;
    sums.inits.push(zero);
    sums.yields.push(next);
    Ok(sums)
}

/// A row's ponder cost is the mean over its chunks.
fn mean_over_chunks(l: &mut Lower<'_>, halted: &[Halted], out: &[Value]) -> Result<(), InvalidNode> {
    let seen = out[2 * halted.len() + usize::from(!halted.is_empty())];
    for (n, one) in halted.iter().enumerate() {
        let ponder_cost = l.map(Pointwise::Div, &[out[1 + 2 * n], seen])?;
        let depth = l.map(Pointwise::Div, &[out[2 + 2 * n], seen])?;
        l.halted.push(Halted { ponder_cost, depth, weight: one.weight });
    }
    Ok(())
}
