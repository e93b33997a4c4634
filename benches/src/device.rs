//! Where both programs compute: `--device` and `--precision`, as the programs understand them; and how rtc starts its work.

use std::process::Command;

use clap::{Args, ValueEnum};
use rtc_cuda::Launching;
use rtc_kernel::Precision;

/// The device of a bench.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Where both programs compute
    #[arg(long, value_enum, default_value_t = Kind::Cpu)]
    pub(crate) device: Kind,
    /// Precision of products with weights: `bf16` is autocast in PyTorch
    #[arg(long, value_enum, default_value_t = Digits::F32)]
    pub(crate) precision: Digits,
    /// How rtc starts the work of `--device cuda`
    #[arg(long, value_enum, default_value_t = Launch::Graph)]
    pub(crate) launch: Launch,
}

/// `--launch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Launch {
    /// What comes again is recorded as a CUDA graph and replayed
    #[default]
    Graph,
    /// Kernel by kernel
    Direct,
}

impl From<Launch> for Launching {
    fn from(launch: Launch) -> Self {
        match launch {
            Launch::Graph => Self::Graph,
            Launch::Direct => Self::Direct,
        }
    }
}

/// `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The processor
    #[default]
    Cpu,
    /// A graphics card
    Cuda,
}

/// `--precision`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Digits {
    /// Single precision
    #[default]
    F32,
    /// Operands are rounded to 10 bits behind the point
    Tf32,
    /// Operands are rounded to 7 bits behind the point
    Bf16,
}

impl From<Digits> for Precision {
    fn from(digits: Digits) -> Self {
        match digits {
            Digits::F32 => Self::F32,
            Digits::Tf32 => Self::Tf32,
            Digits::Bf16 => Self::Bf16,
        }
    }
}

impl Place {
    /// Tells a program what is not the default of all of them, single precision on a CPU.
    pub(crate) fn tell(self, command: &mut Command) {
        if self.device == Kind::Cuda {
            command.args(["--device", "cuda"]);
        }
        if self.precision != Digits::F32 {
            command.args(["--precision", Precision::from(self.precision).name()]);
        }
    }

    /// Tells the worker what the peer does not know.
    pub(crate) fn tell_worker(self, command: &mut Command) {
        let launch = if self.launch == Launch::Graph { "graph" } else { "direct" };
        command.args(["--launch", launch]);
    }

    /// Relative difference of two losses up to which they are equal.
    pub(crate) fn equal(self) -> f64 {
        if self.precision == Digits::F32 { 1e-5 } else { 2e-2 }
    }
}
