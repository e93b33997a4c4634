//! Attention of the memory to a chunk.

use super::{
    ATTENTION_DROPOUT, BIAS, BIAS_INIT, HEAD_WIDTH, HEADS, PROJECTION_BIAS, SLOT_MASK, TALKING, across, bias,
    needs_around,
};
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};

/// The feature.
pub(super) fn chunk() -> Feature {
    Feature {
        fields: vec![HEADS, HEAD_WIDTH, SLOT_MASK, BIAS, BIAS_INIT, TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT],
        check,
        ..Feature::row(
            "attend",
            "chunk",
            "The slots of the memory attend to the tokens of the chunk just read; in mask and bias `i` is the slot.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Algorithm 4, arXiv:2402.00976",
            Lowering::Layer(|l, block, place| across(l, block, place, place.chunk)),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    bias::check(site, problems);
    needs_around(site, "update", "memory", "only the update of a memory reads a chunk", problems);
}
