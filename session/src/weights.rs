//! Weights from a file, in place of drawn or saved ones.

use std::path::PathBuf;

use rtc_base::rng::Key;
use rtc_compiler::ir::graph::{Graph, Parameter};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::pipeline;
use rtc_exec::learner::{FlatArrays, LearnerState};
use rtc_exec::model::initial;
use rtc_runs::record::Start;
use rtc_runs::weights::{TensorNames, WeightsFile, fingerprint, fit};

use crate::failure::SessionFailure;

/// A file with weights, and the meaning of its names.
#[derive(Clone, Debug)]
pub struct WeightsChoice {
    /// The file: safetensors, or a PyTorch `state_dict`, nothing of which is executed.
    pub file: PathBuf,
    /// A JSON file with the names that the weights get; their own names without it.
    pub names: Option<PathBuf>,
    /// Paths of the parameters that the file does not have, and that are drawn as in a training from nothing.
    pub drawn: Vec<String>,
}

/// Weights that fit a model.
pub struct Weights {
    /// Where they came from.
    pub(crate) start: Start,
    /// Whether they are the averages of a run, which its checkpoint holds beside the file.
    pub(crate) averaged: bool,
    arrays: FlatArrays,
}

/// The remark on averaged weights.
pub(crate) const AVERAGED: &str =
    "note: these are the averaged weights of the checkpoint (`ema`), by which its run is measured";

/// The names and shapes of parameters.
pub(crate) fn shapes(parameters: &[Parameter]) -> Vec<(String, Vec<usize>)> {
    let shape = |own: &Parameter| own.ty.dims().iter().filter_map(Dim::fixed).collect();
    parameters.iter().map(|own| (own.name.clone(), shape(own))).collect()
}

impl WeightsChoice {
    /// Reads the weights for the model of a graph, and draws those that it lacks from a seed.
    pub fn read(&self, graph: &Graph, seed: u64) -> Result<Weights, SessionFailure> {
        let names = self.names.as_deref().map_or_else(|| Ok(TensorNames::default()), TensorNames::read)?;
        let file = WeightsFile::read(&self.file)?;
        let parameters = pipeline::parameters(graph);
        let shapes = shapes(&parameters);
        let mut arrays = fit(&file, &names, &self.drawn, &shapes).map_err(rtc_runs::error::Error::from)?;
        for (parameter, (name, shape)) in parameters.iter().zip(shapes) {
            arrays.items.entry(name).or_insert_with(|| (shape, initial(parameter, Key::new(seed))));
        }
        let start = Start { file: self.file.display().to_string(), sha256: fingerprint(&arrays) };
        Ok(Weights { start, averaged: file.is_averaged(), arrays })
    }
}

impl Weights {
    /// Returns a remark if they are the averages of a run.
    pub fn remark(&self) -> Option<&'static str> {
        self.averaged.then_some(AVERAGED)
    }

    /// The state of a model that has these weights and was not trained yet.
    pub(crate) fn state(&self) -> LearnerState {
        LearnerState { parameters: self.arrays.clone(), ..LearnerState::default() }
    }
}
