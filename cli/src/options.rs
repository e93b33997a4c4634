//! Options that several commands have: a trained model, its device, weights from a file, and programs of experiments.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use rtc_cuda::Launching;
use rtc_exec::{Halting, Inference};
use rtc_kernel::Precision;
use rtc_session::device::{DeviceChoice, DeviceKind};
use rtc_session::saved::{BEST, ModelChoice};
use rtc_session::weights::WeightsChoice;

use crate::choice::choice;
use crate::limits;
use crate::terminal::quoted;
use crate::threads;

/// Which trained model, and how it computes.
#[derive(Args)]
pub(crate) struct ModelOptions {
    /// The folder of a run, its name below `runs`, or `@last`; with `--weights` and `--experiment`, a spec
    pub(crate) run: PathBuf,
    /// The checkpoint: `best`, `last`, the update of one that was kept, or the folder of another one of the run
    #[arg(long, value_name = "WHICH", default_value = BEST)]
    pub(crate) checkpoint: String,
    /// What sequences that have halted cost; changes speed alone
    #[arg(long, value_enum, default_value_t = HaltingArg::Compact)]
    halting: HaltingArg,
    /// Steps of a model with `depth: given`, in place of those that come with the examples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=limits::DEPTH))]
    depth: Option<u32>,
    /// Whether the outer recursion of a fold is left out, with the same weights [default: as the experiment says]
    #[arg(long, value_enum)]
    inference: Option<InferenceArg>,
    /// Number of threads; changes speed alone
    #[arg(long, value_name = "N", value_parser = threads::parse)]
    pub(crate) threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) weights: WeightsOptions,
    /// With `--weights`: there is no run; the model is this spec in this experiment, a YAML file or a name
    #[arg(long, value_name = "FILE|NAME", requires = "weights")]
    experiment: Option<String>,
    #[command(flatten)]
    device: DeviceOptions,
}

impl ModelOptions {
    /// Returns the model that the options name.
    pub(crate) fn choice(&self) -> ModelChoice {
        ModelChoice {
            run: self.run.clone(),
            checkpoint: self.checkpoint.clone(),
            weights: self.weights.choice(),
            experiment: self.experiment.clone(),
            halting: self.halting.into(),
            depth: self.depth.map(|depth| depth as usize),
            inference: self.inference.map(Inference::from),
            device: self.device.choice(),
        }
    }

    /// The options that another command needs for the same weights, each behind a blank.
    pub(crate) fn named(&self) -> String {
        let mut text = String::new();
        let weights = &self.weights;
        let files = [("weights", &weights.weights), ("weights-map", &weights.weights_map)];
        for (name, value) in files.into_iter().filter_map(|(name, file)| Some((name, file.as_deref()?))) {
            text += &format!(" --{name} {}", quoted(value));
        }
        text.extend(weights.draw.iter().map(|path| format!(" --draw {path}")));
        if let Some(experiment) = &self.experiment {
            text += &format!(" --experiment {}", quoted(Path::new(experiment)));
        }
        if self.checkpoint != BEST {
            text += &format!(" --checkpoint {}", quoted(Path::new(&self.checkpoint)));
        }
        text
    }
}

choice! {
    /// `--halting`.
    pub(crate) enum HaltingArg for Halting {
        /// They leave the batch
        Compact,
        /// They stay until all have halted
        Batch,
        /// Every recurrence runs to its bound
        Never,
    }
}

choice! {
    /// `--inference`.
    enum InferenceArg for Inference {
        /// Chunks, and chunks of their vectors, as in training
        Recursive,
        /// Every row is one chunk of the outermost balanced fold
        Flat,
    }
}

/// Which file of weights, and what its names mean.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WeightsOptions {
    /// Take the weights from this file: safetensors, or a PyTorch `state_dict`, nothing of which is executed
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// A JSON file with the names that the weights get: `{"theirs": "ours", "other": {"to": "ours", "transpose": true}}`
    #[arg(long, value_name = "FILE", requires = "weights")]
    weights_map: Option<PathBuf>,
    /// Draw the parameters at and below this path, which the file does not have; may be given several times
    #[arg(long, value_name = "PATH", requires = "weights")]
    draw: Vec<String>,
}

impl WeightsOptions {
    /// Returns the file, if one is named.
    pub(crate) fn choice(&self) -> Option<WeightsChoice> {
        Some(WeightsChoice { file: self.weights.clone()?, names: self.weights_map.clone(), drawn: self.draw.clone() })
    }
}

/// Where a command computes.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct DeviceOptions {
    /// Where to compute
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    device: DeviceArg,
    /// How exact matrix products with weights are: bf16 is faster where the machine has it
    #[arg(long, value_enum, default_value_t = PrecisionArg::F32)]
    precision: PrecisionArg,
    /// How the work of `--device cuda` is started; the numbers are the same
    #[arg(long, value_enum, default_value_t = LaunchArg::Graph)]
    launch: LaunchArg,
}

impl DeviceOptions {
    /// Returns the device that the options name.
    pub(crate) fn choice(self) -> DeviceChoice {
        DeviceChoice { kind: self.device.into(), precision: self.precision.into(), launching: self.launch.into() }
    }
}

choice! {
    /// `--device`.
    #[derive(Default)]
    enum DeviceArg for DeviceKind {
        /// The processor
        #[default]
        Cpu,
        /// A graphics card
        Cuda,
        /// Tensors of Candle on the processor: slower, to compare with
        Candle,
        /// Tensors of Candle on a card of NVIDIA
        CandleCuda,
        /// Tensors of Candle on a card of Apple
        CandleMetal,
    }
}

choice! {
    /// `--precision`.
    #[derive(Default)]
    enum PrecisionArg for Precision {
        /// Single precision
        #[default]
        F32,
        /// Operands are rounded to 10 bits behind the point
        Tf32,
        /// Operands are rounded to 7 bits behind the point
        Bf16,
    }
}

choice! {
    /// `--launch`.
    #[derive(Default)]
    enum LaunchArg for Launching {
        /// What comes again is recorded as a CUDA graph and replayed
        #[default]
        Graph,
        /// Kernel by kernel
        Direct,
    }
}

/// Whether programs of experiments may run.
#[derive(Args)]
pub(crate) struct ProgramOptions {
    /// Let the program run with which the experiment makes its rows; what it printed once is kept, and needs no program
    #[arg(long)]
    pub(crate) run_commands: bool,
}
