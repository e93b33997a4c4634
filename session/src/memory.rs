//! The memory check before a run: a run that can't fit is refused instead of killed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rtc_base::memory::machine;
use rtc_compiler::pipeline::memory::{Fitted, LargestBatches, Need};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_kernel::Precision;
use rtc_runs::experiment::{Experiment, OptimiserKind};
use rtc_task::{Dataset, Example, Objective, Stream, StreamedRows};
use rtc_train::longest;

use crate::device::Card;
use crate::failure::SessionFailure;
use crate::ranks::on_this_machine;

/// The program itself with its libraries and the stacks of its threads.
const PROGRAM: u64 = 24 << 20;
/// Two copies of parameters and moments exist while a checkpoint is written.
const CHECKPOINT_BYTES_PER_PARAMETER: u64 = 24;
/// The averaged weights, where there are any, and their two copies then.
const AVERAGE_BYTES_PER_PARAMETER: u64 = 12;
/// Memory of a device that a model takes beside its arrays: 32 MiB in which cuBLAS works and as much that it takes by itself; machine
/// code, recorded graphs, and blocks of uploads.
const LIBRARIES: u64 = 128 << 20;
/// Memory of the host through which a model's batches go to its device.
pub(crate) const STAGED: u64 = 16 << 20;
/// Units of sizes in bytes.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Reads a size of memory: a number with a unit, or of bytes.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (text[..digits].parse::<f64>(), text[digits..].trim());
    let factor = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
    match (number, factor) {
        // Larger numbers are no bytes of any machine, and would lose digits.
        (Ok(number), Some(factor)) if (1.0..1e18).contains(&(number * factor as f64)) => {
            Ok((number * factor as f64) as u64)
        }
        _ => Err("a number of bytes is wanted, as in `2GB`, `1.5GiB`, `800MiB` or `2000000000`".to_owned()),
    }
}

/// Bytes in a unit for people: `812.4 MiB`.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// The largest batches of a training: the longest rows that can meet in one, and the heaviest batch of an evaluation.
pub(crate) fn work(experiment: &Experiment, data: &Dataset, parameters: usize) -> LargestBatches {
    let rows = experiment.batch.size.div_ceil(experiment.batch.accumulate.max(1)).max(1);
    // The experiment was checked, so fresh strings can be drawn.
    let drawn = longest(experiment).ok().flatten().unwrap_or_default();
    let mut training: Vec<&Example> = match experiment.fresh {
        None => data.split(&experiment.train).iter().collect(),
        Some(_) => drawn.iter().collect(),
    };
    training.sort_by_key(|example| Reverse(tokens(example)));
    training.truncate(rows);
    let training = match data.streams.get(&experiment.train) {
        Some(Stream(found)) => longest_rows(&**found, rows, data.objective == Objective::Pair),
        None => load(training.into_iter()),
    };
    let average = if experiment.ema.is_some() { AVERAGE_BYTES_PER_PARAMETER } else { 0 };
    let splits = experiment.splits();
    let trained = experiment.fresh.is_none().then_some(experiment.train.as_str());
    let measured =
        splits.iter().filter(|split| Some(**split) != trained).flat_map(|split| data.split(split).chunks(rows));
    let heaviest = measured.max_by_key(|chunk| chunk.iter().map(tokens).sum::<usize>());
    LargestBatches {
        training,
        evaluation: heaviest.map(|chunk| load(chunk.iter())),
        fixed_bytes: shared(data)
            .saturating_add((parameters as u64).saturating_mul(CHECKPOINT_BYTES_PER_PARAMETER + average)),
        target: MemoryTarget::Processor,
    }
}

/// What a training takes of a device beside the arrays that every one has: of every parameter its average, its slow weight and sums
/// of its gradients over parts of a batch, where there are such, and its two copies in 16 bits; and the libraries.
pub(crate) fn beside_on_device(experiment: &Experiment, precision: Precision, parameters: usize) -> u64 {
    let slow = matches!(experiment.optimiser.kind, OptimiserKind::Ranger | OptimiserKind::Formula);
    let narrow = precision == Precision::Bf16;
    let sums = u64::from((experiment.batch.accumulate as u64).max(1).ilog2());
    let arrays = [experiment.ema.is_some(), slow, narrow].map(u64::from).iter().sum::<u64>() + sums;
    LIBRARIES.saturating_add((parameters as u64).saturating_mul(4 * arrays))
}

/// What a limit of a device leaves to arrays.
pub(crate) fn for_arrays(limit: u64) -> u64 {
    limit.saturating_sub(LIBRARIES)
}

/// The longest rows of a file that is read while it is needed. Both sides of a pair count as its longer one.
fn longest_rows(rows: &dyn StreamedRows, count: usize, pairs: bool) -> BatchShape {
    let mut longest: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    for row in 0..rows.count() {
        longest.push(Reverse(rows.length(row)));
        if longest.len() > count {
            longest.pop();
        }
    }
    let mut lengths: Vec<usize> = longest.into_iter().map(|Reverse(length)| length).collect();
    lengths.sort_unstable();
    if pairs {
        lengths.extend_from_within(..);
    }
    BatchShape { lengths, depth: None }
}

/// Bytes that runs in one process have together: the program and the data.
pub fn shared(data: &Dataset) -> u64 {
    let held = data.splits.values().flatten().map(Example::bytes).sum::<usize>();
    // The order of a pass is four bytes per row.
    let found = data.streams.values().map(|Stream(rows)| rows.held() + 8 * rows.count() as u64).sum::<u64>();
    PROGRAM.saturating_add(held as u64).saturating_add(found)
}

fn tokens(example: &Example) -> usize {
    example.tokens.len() + example.second.as_ref().map_or(0, Vec::len)
}

fn load<'e>(examples: impl Iterator<Item = &'e Example> + Clone) -> BatchShape {
    let first = examples.clone().map(|example| example.tokens.len());
    BatchShape { lengths: first.chain(examples.filter_map(|e| Some(e.second.as_ref()?.len()))).collect(), depth: None }
}

/// What one of the processes that train together may take of this machine, where the system says.
fn available() -> Option<u64> {
    machine().map(|total| total / on_this_machine() as u64)
}

/// Refuses a training that needs more than the limit, or more than there is: of the card, or without a limit of this machine.
pub(crate) fn fits(fitted: &Fitted, limit: Option<u64>, card: Option<&Card>) -> Result<(), SessionFailure> {
    let need = fitted.need;
    if let Some(limit) = limit.filter(|_| !fitted.fits) {
        return Err(SessionFailure::Memory(format!(
            "training within {} is not possible: with everything computed again that can be, it takes up to {} ({}); {CURE}",
            bytes(limit),
            bytes(need.total()),
            parts(&need),
        )));
    }
    let without = "`--memory` sets a limit, for which more is computed again, or";
    let (place, has) = match card {
        Some(card) => (card.name.as_str(), Some(card.capacity.total)),
        None => ("this machine", available().filter(|_| limit.is_none())),
    };
    match has {
        Some(total) if need.total() > total => Err(SessionFailure::Memory(format!(
            "training takes up to {} ({}), and {place} has {}{}; {without} {CURE}",
            bytes(need.total()),
            parts(&need),
            bytes(total),
            if on_this_machine() > 1 { " for each rank" } else { "" },
        ))),
        _ => Ok(()),
    }
}

const CURE: &str = "take smaller batches (`--with batch.size=N`, or `--with batch.accumulate=N` for the same updates in parts), shorter \
     rows, a lower bound of the depth, or a narrower model";

/// What makes up a need.
pub(crate) fn parts(need: &Need) -> String {
    let (weights, fixed) = match need.target {
        MemoryTarget::Processor => ("packed weights", "data, checkpoints and the program"),
        MemoryTarget::Device => ("weights of the forward pass", "libraries, kernels and graphs"),
    };
    let lists = match need.lists() {
        some if some > 0 && need.target == MemoryTarget::Processor => {
            format!("lists of its searches {}, ", bytes(some))
        }
        _ => String::new(),
    };
    format!(
        "values of a training step {} {} of an evaluation {}, parameters with gradients and moments {}, {weights} {}, {lists}{fixed} {}",
        bytes(need.training.activations),
        if need.target == MemoryTarget::Processor { "or" } else { "and" },
        bytes(need.evaluation.activations),
        bytes(need.training.parameters),
        bytes(need.weights()),
        bytes(need.fixed_bytes),
    )
}

/// Refuses a model whose parameters alone need more bytes than the machine has.
pub(crate) fn check(needed: u128) -> Result<(), SessionFailure> {
    match machine() {
        Some(total) if needed > u128::from(total) => Err(SessionFailure::Memory(format!(
            "the parameters of the model, their gradients and moments need {}, and this machine has {}; make it narrower",
            bytes(u64::try_from(needed).unwrap_or(u64::MAX)),
            bytes(total)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_machine_has_is_refused() {
        if machine().is_some() {
            assert_eq!(check(1 << 60).map_err(|failure| failure.code()), Err(8));
        }
        assert!(check(1 << 20).is_ok());
    }

    #[test]
    fn sizes_are_read_and_written() {
        let read = ["2GB", "1.5GiB", "800 mib", "4096", "7b", "1kB"].map(parse);
        let sizes = [2_000_000_000, 3 << 29, 800 << 20, 4096, 7, 1000].map(Ok);
        assert_eq!(read, sizes);
        for wrong in ["", "GB", "0", "-1GB", "2 G", "1.2.3MB", "1e9", "99999999TB", "nan", "2GB!"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!([0, 1023, 1024, 3 << 29].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.5 GiB"]);
    }
}
