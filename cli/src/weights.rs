//! `--weights`: weights from a file, in place of drawn or saved ones.

use std::path::PathBuf;

use clap::Args;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::pipeline;
use rtc_exec::learner::{FlatArrays, LearnerState};
use rtc_runs::record::Start;
use rtc_runs::weights::{TensorNames, WeightsFile, fingerprint, fit};

use crate::failure::CommandFailure;

/// Which file, and what its names mean.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WeightsOptions {
    /// Take the weights from this file: safetensors, or a PyTorch `state_dict`, nothing of which is executed
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// A JSON file with the names that the weights get: `{"theirs": "ours", "other": {"to": "ours", "transpose": true}}`
    #[arg(long, value_name = "FILE", requires = "weights")]
    pub(crate) weights_map: Option<PathBuf>,
}

/// Weights that fit a model.
pub(crate) struct Weights {
    /// Where they came from.
    pub(crate) start: Start,
    /// Whether they are the averages of a run, which its checkpoint holds beside the file.
    pub(crate) averaged: bool,
    arrays: FlatArrays,
}

/// What to say of averaged weights.
pub(crate) const AVERAGED: &str =
    "note: these are the averaged weights of the checkpoint (`ema`), by which its run is measured";

impl WeightsOptions {
    /// The weights for the model of a graph, where a file is named.
    pub(crate) fn read(&self, graph: &Graph) -> Result<Option<Weights>, CommandFailure> {
        let Some(path) = &self.weights else { return Ok(None) };
        let names = self.weights_map.as_deref().map_or_else(|| Ok(TensorNames::default()), TensorNames::read)?;
        let file = WeightsFile::read(path)?;
        let shape = |dims: &[Dim]| dims.iter().filter_map(Dim::fixed).collect();
        let parameters: Vec<(String, Vec<usize>)> =
            pipeline::parameters(graph).into_iter().map(|p| (p.name, shape(p.ty.dims()))).collect();
        let arrays = fit(&file, &names, &parameters).map_err(rtc_runs::error::Error::from)?;
        let start = Start { file: path.display().to_string(), sha256: fingerprint(&arrays) };
        Ok(Some(Weights { start, averaged: file.is_averaged(), arrays }))
    }
}

impl Weights {
    /// The state of a model that has these weights and was not trained yet.
    pub(crate) fn state(&self) -> LearnerState {
        LearnerState { parameters: self.arrays.clone(), ..LearnerState::default() }
    }
}
