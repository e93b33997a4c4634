//! Runs of tiny models in a temporary folder, trained by the runtime as `rtc train` trains them, and what the runtime predicts of them.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use candle_core::Tensor;
use rtc_compiler::check::{NoFiles, check};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::hash;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline::{self, asked::asked};
use rtc_compiler::source::Source;
use rtc_exec::learner::{BatchAnswers, Learner};
use rtc_exec::model::Model;
use rtc_runs::experiment::{Experiment, ExperimentFile};
use rtc_runs::record::checkpoint::{self, CheckpointSlot};
use rtc_runs::record::{RunFolder, RunInfo, SavedRun};
use rtc_runs::saved::ModelDefinition;
use rtc_task::TaskContext;
use rtc_task::batching::pack;
use rtc_task::{Example, Options, TaskHandle, catalog, load, open_task, sequence};
use rtc_train::{Silent, train};
use tempfile::TempDir;

/// A gated model that halts, with dropout.
pub(crate) const HALTING: &str = "\
model tiny {
    dropout: 0.1
    embed { width: 16, tokens: start_end }
    recur depthwise {
        depth: 3
        halt global { sees: transition, threshold: 0.999, cost: 0.1 }
        gate mlp { hidden: 16 }
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}
";

/// Layers without a loop and without dropout.
pub(crate) const PLAIN: &str = "\
model plain {
    embed { width: 16, tokens: start_end }
    stack 2 {
        attend self { heads: 2, position: xpos }
        feedforward { hidden: 16 }
    }
    readout end
}
";

/// An answer for every token.
pub(crate) const EACH: &str = "\
model each {
    embed { width: 16 }
    stack 1 {
        attend self { heads: 2, position: xpos, mask: past }
        feedforward { hidden: 16 }
    }
    readout each
}
";

/// A loop whose steps come with the examples.
pub(crate) const GIVEN: &str = "\
model given {
    embed { width: 16 }
    recur depthwise {
        depth: given
        start: zero
        inject add
        attend self { heads: 2, mask: past }
        feedforward { hidden: 16 }
    }
    readout each { sees: all }
    head linear
}
";

/// Ten classes.
pub(crate) const LISTOPS: &str = "\
task:
  name: listops
  options: { train_length: 12, held_out_length: 12, depth: 4, arguments: 3 }
  sizes: { train: 64, dev: 16, test: 16 }
";

const TRAINING: &str = "\
optimiser: { learning_rate: 0.01, clip: 1 }
schedule: { kind: constant, warmup: 2 }
batch: { size: 8 }
max_steps: 6
evaluate_every: 3
log_every: 1
";

/// A folder with runs.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::with_prefix("rtc candle ").expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect(name);
    }

    /// Trains a spec for some updates on a task, whose files lie in the folder.
    pub(crate) fn train(&self, name: &str, spec: &str, task: &str) -> Run {
        let file = ExperimentFile::parse("test.yaml", &format!("{task}{TRAINING}evaluate: [dev]\n"));
        let experiment = file.and_then(|file| file.resolve(None, &[]));
        let mut experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        experiment.task.known = TaskContext::new(vec![self.0.path().to_owned()], None);
        let run = Run::new(self.path(name), spec, experiment);
        let experiment = &run.experiment;
        experiment.task.known.ask(asked(&run.graph));
        let data = load(&experiment.task, &experiment.splits()).unwrap_or_else(|error| panic!("{error}"));
        let definition = &run.definition;
        let info = RunInfo {
            model: definition.name().to_owned(),
            seed: SEED,
            spec_hash: definition.hash(),
            graph_hash: hash::hash(&run.graph),
            data_hash: Some(data.fingerprint()),
            splits: data.fingerprints(),
            threads: 1,
            folders: experiment.task.folders(),
            ..RunInfo::default()
        };
        let folder = RunFolder::create(&run.path, &definition.text(), experiment, info);
        let mut folder = folder.unwrap_or_else(|error| panic!("{error}"));
        let (mut model, stop) = (run.model(), AtomicBool::new(false));
        train(&mut model, &data, experiment, &mut folder, &stop, &mut Silent).unwrap_or_else(|error| panic!("{error}"));
        run
    }
}

const SEED: u64 = 1;

/// A run with all that it was made of.
pub(crate) struct Run {
    pub(crate) path: PathBuf,
    pub(crate) task: TaskHandle,
    pub(crate) options: Options,
    definition: ModelDefinition,
    graph: Graph,
    binding: Binding,
    experiment: Experiment,
}

impl Run {
    fn new(path: PathBuf, spec: &str, experiment: Experiment) -> Self {
        let (task, options) = open_task(&experiment.task).unwrap_or_else(|error| panic!("{error}"));
        let catalog = catalog(&*task, &options);
        let (checked, problems, sources) = check(&NoFiles, Source::new("test.rt", spec), None, &[], &catalog);
        let spec = checked.unwrap_or_else(|| panic!("{}", render(&problems, &sources, Style::Plain)));
        let definition = ModelDefinition::Spec(spec);
        let graph = definition.forward(&catalog).unwrap_or_else(|error| panic!("{error}"));
        Self { path, task, options, definition, graph, binding: Binding::from(&catalog), experiment }
    }

    /// The model with freshly drawn parameters.
    pub(crate) fn model(&self) -> Model<f32> {
        let plans = pipeline::plans(&self.graph, &self.binding).unwrap_or_else(|error| panic!("{error}"));
        Model::new(plans.0, plans.1, self.binding, SEED)
    }

    /// The model with the weights of a checkpoint.
    pub(crate) fn trained(&self, slot: CheckpointSlot) -> Model<f32> {
        let mut model = self.model();
        let found = checkpoint::find(&self.path, &SavedRun::checkpoint(&self.path, slot))
            .unwrap_or_else(|error| panic!("{error}"));
        model.restore(&found.checkpoint.learner).expect("a checkpoint of this model");
        model
    }

    /// The example of a text.
    pub(crate) fn example(&self, text: &str) -> Example {
        sequence::example(&*self.task, &self.options, text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// What the best checkpoint answers to some texts at once, as `rtc predict` asks it.
    pub(crate) fn answers(&self, texts: &[&str]) -> BatchAnswers {
        let examples: Vec<Example> = texts.iter().map(|text| self.example(text)).collect();
        let answers = self.trained(CheckpointSlot::Best).answers(&pack(&examples.iter().collect::<Vec<_>>()));
        answers.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies inside the workspace")
}

/// The bits of numbers.
pub(crate) fn bits(numbers: impl IntoIterator<Item = f32>) -> Vec<u32> {
    numbers.into_iter().map(f32::to_bits).collect()
}

/// The bits of numbers in double precision that are exact in single precision.
pub(crate) fn wide_bits(numbers: &[f64]) -> Vec<u32> {
    let narrow = |x: &f64| {
        assert_eq!(f64::from(*x as f32).to_bits(), x.to_bits(), "{x} is no number of single precision");
        *x as f32
    };
    bits(numbers.iter().map(narrow))
}

/// The numbers of a tensor, flat.
pub(crate) fn numbers(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|flat| flat.to_vec1()).expect("f32 numbers")
}

/// The gradients of a loss by the names of the variables.
pub(crate) fn gradients(model: &rtc_candle::Model, loss: &Tensor) -> candle_core::Result<BTreeMap<String, Vec<f32>>> {
    let (found, map) = (loss.backward()?, model.var_map());
    let vars = map.data().lock().expect("nobody panics");
    Ok(vars.iter().filter_map(|(name, var)| Some((name.clone(), numbers(found.get(var)?)))).collect())
}
