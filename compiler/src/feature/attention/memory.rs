//! Attention of a chunk to the memory.

use super::{
    ATTENTION_DROPOUT, BIAS, BIAS_INIT, HEAD_WIDTH, HEADS, PROJECTION_BIAS, SLOT_MASK, TALKING, across, bias,
    needs_around,
};
use crate::diag::Problems;
use crate::feature::{Feature, Lowering, Site};

/// The feature.
pub(super) fn memory() -> Feature {
    Feature {
        fields: vec![HEADS, HEAD_WIDTH, SLOT_MASK, BIAS, BIAS_INIT, TALKING, PROJECTION_BIAS, ATTENTION_DROPOUT],
        check,
        ..Feature::row(
            "attend",
            "memory",
            "The tokens of a chunk attend to all slots of the memory; in mask and bias `j` is the slot.",
            "Didolkar et al. 2022 (temporal latent bottleneck), arXiv:2205.14794; Ray Chowdhury and Caragea 2024, Algorithm 4, arXiv:2402.00976",
            Lowering::Layer(|l, block, place| across(l, block, place, place.memory)),
        )
    }
}

fn check(site: &Site<'_>, problems: &mut Problems) {
    bias::check(site, problems);
    needs_around(site, "recur", "chunkwise", "there is no memory here", problems);
}
