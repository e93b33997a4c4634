//! Positions relative to one another: the code of every distance of a batch, and what their gradients become.
#![allow(unsafe_code, reason = "blocks of distances write disjoint ranges")]

use rtc_compiler::ir::attribute::{self, Mask};
use rtc_compiler::ir::graph::Value;

use crate::node_context::NodeContext;
use crate::processor::Executor;
use crate::processor::ValueMemory;
use crate::processor::attention::DistanceSpan;
use crate::storage::{Buffer, Element};
use rtc_kernel::attention::{Attention, Relative};
use rtc_kernel::parallel::{DisjointSlice, block, each};
use rtc_kernel::product::{self, Orientation};
use rtc_kernel::{Precision, Write};

/// Distances of one task.
const DISTANCES: usize = 64;

/// Codes of distances, from the largest down.
#[derive(Clone, Debug)]
pub(super) struct DistanceCodes<T: Element> {
    /// `u`, `v` and the map of the codes.
    operands: [Value; 3],
    /// Sines and cosines, `[distances, channels]`.
    waves: Buffer<T>,
    channels: usize,
    /// What the map makes of them, `[distances, heads e]`.
    mapped: Buffer<T>,
    last: isize,
}

impl<T: Element> Executor<T> {
    /// The codes of all distances between so many queries and keys, for an attention that takes them.
    pub(super) fn codes(&mut self, c: &NodeContext<'_>, span: DistanceSpan) -> Option<DistanceCodes<T>> {
        let attribute::Relative::RelativeXl = c.node.find(attribute::POSITION)?;
        let own = c.node.behind().relative;
        let operands = *c.node.operands[own.clone()].first_chunk::<3>()?;
        let (map, channels) = (operands[2], c.last(own.end - 1));
        let ahead = if c.get(attribute::MASK) == Mask::Causal { 1 } else { span.keys };
        let (last, count) = (span.queries as isize - 1, (span.queries + ahead).saturating_sub(1));
        self.waves.extend_to(channels, span.queries.max(ahead));
        self.pack(map, Orientation::Transposed, channels, Precision::F32);
        let mut waves = self.arena.take(count * channels);
        let sines = channels.div_ceil(2);
        for (row, wave) in waves.chunks_exact_mut(channels.max(1)).enumerate() {
            let distance = last - row as isize;
            wave.copy_from_slice(&self.waves.of(channels)[distance.unsigned_abs() * channels..][..channels]);
            if distance < 0 {
                wave[..sines].iter_mut().for_each(|sine| *sine = -*sine);
            }
        }
        let width = c.last(0);
        let mut mapped = self.arena.take(count * width);
        let (x, out) = (waves.as_slice(), DisjointSlice::new(mapped.as_mut_slice()));
        let packed = &self.packs[&(map, Orientation::Transposed)].packed;
        each(count.div_ceil(DISTANCES), count * channels * width / 4, |i| {
            let range = block(i, DISTANCES, count);
            // SAFETY: the blocks of distances are disjoint.
            let y = unsafe { out.part(range.start * width..range.end * width) };
            product::product(&x[range.start * channels..range.end * channels], packed, y, Write::Replace);
        });
        Some(DistanceCodes { operands, waves, channels, mapped, last })
    }
}

impl<T: Element> DistanceCodes<T> {
    /// What the kernel takes.
    pub(super) fn relative<'a>(&'a self, memory: &'a ValueMemory<T>) -> Relative<'a, T> {
        let shifts = [0, 1].map(|n| memory.real(self.operands[n]));
        Relative { shifts, codes: &self.mapped, last: self.last }
    }

    /// How many queries they reach.
    pub(super) fn queries(&self) -> usize {
        self.last.unsigned_abs() + 1
    }

    /// The gradients of `u`, `v` and the map, from those of each head, which follow one another every `width` numbers.
    pub(super) fn gradients(
        &self,
        spec: &Attention<'_>,
        heads: &[T],
        width: usize,
        executor: &Executor<T>,
    ) -> [Buffer<T>; 3] {
        let (e, arena) = (spec.head_width, &executor.arena);
        let stride = spec.heads * e;
        let count = self.mapped.len() / stride.max(1);
        let [mut u, mut v] = [0; 2].map(|_| arena.filled(stride, T::ZERO));
        let (mut codes, mut map) = (arena.filled(count * stride, T::ZERO), arena.take(stride * self.channels));
        for (head, part) in heads.chunks_exact(width).enumerate() {
            let (own, shifts) = part[width - (count + 2) * e..].split_at(count * e);
            u[head * e..(head + 1) * e].copy_from_slice(&shifts[..e]);
            v[head * e..(head + 1) * e].copy_from_slice(&shifts[e..]);
            for (code, own) in codes.chunks_exact_mut(stride).zip(own.chunks_exact(e)) {
                code[head * e..(head + 1) * e].copy_from_slice(own);
            }
        }
        let f32 = Precision::F32;
        product::outer(&self.waves, &codes, &mut map, count, self.channels, stride, Write::Replace, f32);
        [u, v, map]
    }
}
