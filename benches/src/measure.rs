//! One case on one number of threads: equal losses first, then both programs in turn.

use std::path::Path;
use std::process::Command;

use crate::cases::{Case, Kind, SHIFTS};
use crate::child::Child;
use crate::device::{Kind as Device, Place};
use crate::failure::Failure;
use crate::peak;
use crate::peer::Peer;
use crate::protocol::{Job, Request};
use crate::report::{Depth, Line, Losses, Runs, Side, Spread};

/// The driver of the implementation, beside this crate, and the file that it drives.
pub(crate) const PEER: (&str, &str) = ("peer.py", "recurrent_torch.py");
/// Runs before the first one that counts, besides the first step.
const WARM_UP: usize = 3;
/// The same for compiled cells: each shape and each mode is compiled when it is first met.
const WARM_UP_COMPILED: usize = 6;
/// The length of rows at which a single row is measured, too.
const SINGLE_ROW_LENGTH: usize = 100;

/// How much is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    /// Runs that count, at least.
    pub(crate) steps: usize,
    /// How often the programs change places.
    pub(crate) rounds: usize,
}

impl Amount {
    /// Runs of a round.
    pub(crate) fn per_round(self) -> usize {
        self.steps.div_ceil(self.rounds)
    }
}

/// A bench: what stays the same for all cases.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    /// The peer; without one, rtc alone is measured.
    pub(crate) peer: Option<&'a Peer>,
    /// Whether the compiled peer is measured, too.
    pub(crate) compile: bool,
    /// Where the programs compute.
    pub(crate) place: Place,
    /// How much is run.
    pub(crate) amount: Amount,
    /// A folder for weights.
    pub(crate) scratch: &'a Path,
}

/// A program with what was measured of it.
struct Runner {
    child: Child,
    side: Side,
}

impl Bench<'_> {
    /// Measures a case.
    ///
    /// # Errors
    /// Programs that fail. Losses that differ are in the line, with the times.
    pub(crate) fn measure(&self, case: &Case, threads: usize) -> Result<Line, Failure> {
        let path = self.scratch.join(format!("{}.safetensors", case.name)).to_string_lossy().into_owned();
        let shared = self.peer.is_some() && case.kind != Kind::Plain;
        let job = case.job(Some(path.clone()));
        let own = Job { weights: shared.then_some(path), ..job.clone() };
        // The peer is loaded first: it writes the weights.
        let mut others = vec![];
        if let Some(peer) = self.peer {
            let command = || peer.command(PEER.0, threads, self.place);
            others.push(Runner::start("pytorch", &mut command(), job.clone())?);
            if self.compile {
                let compiled = Job { compile: true, ..job };
                others.push(Runner::start("compiled", &mut command(), compiled)?);
            }
        }
        let losses = match others.first_mut().filter(|_| shared) {
            Some(peer) => Some(compare(peer, case, own.weights.clone(), (threads, self.place))?),
            None => None,
        };
        let mut runners = vec![Runner::start("rtc", &mut worker(threads, self.place)?, own)?];
        runners.append(&mut others);
        let peak = self.train(&mut runners, threads)?;
        self.infer(&mut runners, case)?;
        let sides = runners.into_iter().map(|runner| runner.side).collect();
        let (batch, length) = (case.batch(), case.length());
        Ok(Line { case: case.name.clone(), threads, batch, length, losses, peak, sides })
    }

    /// Training steps of all programs in turn; gives the peak of the machine, the best of the bursts between them.
    fn train(&self, runners: &mut [Runner], threads: usize) -> Result<f64, Failure> {
        for runner in &mut *runners {
            runner.warm_up()?;
        }
        let mut peak = 0.0_f64;
        for _ in 0..self.amount.rounds {
            for runner in &mut *runners {
                runner.steps(self.amount.per_round())?;
            }
            peak = peak.max(match self.place.device {
                Device::Cpu => peak::burst(threads),
                Device::Cuda => runners[0].child.ask(&Request::Peak)?.gflop.unwrap_or(0.0),
            });
        }
        for runner in runners {
            runner.side.memory_mib = runner.child.ask(&Request::Memory)?.mib - runner.child.start_mib;
        }
        Ok(peak)
    }

    fn infer(&self, runners: &mut [Runner], case: &Case) -> Result<(), Failure> {
        let single = case.length() == SINGLE_ROW_LENGTH && case.batch() > 1;
        let shapes = [Some(case.batch()), single.then_some(1)];
        for rows in shapes.into_iter().flatten() {
            for runner in &mut *runners {
                runner.infer(runner.warm_up_runs(), rows)?;
                *runner.side.infer_mut(rows) = Runs::default();
            }
            for _ in 0..self.amount.rounds {
                for runner in &mut *runners {
                    runner.infer(self.amount.per_round(), rows)?;
                }
            }
        }
        Ok(())
    }

    /// rtc's time per step for weights that let rows halt earlier and earlier.
    ///
    /// # Errors
    /// A program that fails.
    pub(crate) fn depths(&self, case: &Case, threads: usize) -> Result<Vec<Depth>, Failure> {
        let Some(peer) = self.peer else { return Ok(vec![]) };
        let path = self.scratch.join(format!("{}.safetensors", case.name)).to_string_lossy().into_owned();
        let mut command = peer.command(PEER.0, threads, self.place);
        Runner::start("pytorch", &mut command, case.job(Some(path.clone())))?;
        let mut measured: Vec<Runs> = SHIFTS.iter().map(|_| Runs::default()).collect();
        let mut child = Child::start("rtc", &mut worker(threads, self.place)?)?;
        for _ in 0..self.amount.rounds {
            for (shift, runs) in SHIFTS.iter().zip(&mut measured) {
                let job = Job { halt_shift: *shift, ..case.job(Some(path.clone())) };
                child.ask(&Request::Load(Box::new(job)))?;
                child.ask(&Request::Steps { count: WARM_UP })?;
                runs.add(child.ask(&Request::Steps { count: self.amount.per_round() })?);
            }
        }
        let line = |(shift, runs): (&f64, &Runs)| Depth {
            case: case.name.clone(),
            threads,
            shift: *shift,
            depth: runs.depth().unwrap_or(0.0),
            ms: Spread::of(&runs.ms),
        };
        Ok(SHIFTS.iter().zip(&measured).map(line).collect())
    }
}

impl Runner {
    /// Starts a program and loads a model.
    fn start(name: &'static str, command: &mut Command, job: Job) -> Result<Self, Failure> {
        let mut child = Child::start(name, command)?;
        let built: f64 = child.ask(&Request::Load(Box::new(job)))?.ms.iter().sum();
        let mut side = Side::new(name);
        side.first_step_ms = child.start_ms + built;
        Ok(Self { child, side })
    }

    /// The first step, and some more that do not count.
    fn warm_up(&mut self) -> Result<(), Failure> {
        self.steps(1)?;
        self.side.first_step_ms += self.side.train.ms.iter().sum::<f64>();
        self.steps(self.warm_up_runs())?;
        self.side.train = Runs::default();
        Ok(())
    }

    fn warm_up_runs(&self) -> usize {
        if self.child.name == "compiled" { WARM_UP_COMPILED } else { WARM_UP }
    }

    fn steps(&mut self, count: usize) -> Result<(), Failure> {
        self.side.train.add(self.child.ask(&Request::Steps { count })?);
        Ok(())
    }

    fn infer(&mut self, count: usize, rows: usize) -> Result<(), Failure> {
        let answer = self.child.ask(&Request::Infer { count, rows })?;
        self.side.infer_mut(rows).add(answer);
        Ok(())
    }
}

/// The losses of both programs for the same weights and batches, without dropout.
fn compare(
    peer: &mut Runner,
    case: &Case,
    weights: Option<String>,
    (threads, place): (usize, Place),
) -> Result<Losses, Failure> {
    let mut child = Child::start("rtc", &mut worker(threads, place)?)?;
    let equal = place.equal();
    child.ask(&Request::Load(Box::new(case.exact(weights))))?;
    let ours = child.ask(&Request::Loss)?.losses;
    let theirs = peer.child.ask(&Request::Loss)?.losses;
    let apart = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(f64::MIN_POSITIVE);
    // A loss that is not a number is as far away as can be.
    let far = |d: f64| if d.is_nan() { f64::INFINITY } else { d };
    let difference = ours.iter().zip(&theirs).map(apart).map(far).fold(0.0, f64::max);
    let differ = (ours.len() != theirs.len() || difference > equal).then(|| {
        format!(
            "{}: the losses differ by {difference:.1e}, more than {equal:.0e}: rtc {ours:?}, pytorch {theirs:?}",
            case.name
        )
    });
    Ok(Losses { rtc: ours, pytorch: theirs, difference, differ })
}

/// The command that starts this program as the side of rtc.
pub(crate) fn worker(threads: usize, place: Place) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Broken(e.to_string()))?;
    let mut command = Command::new(program);
    command.arg("worker").arg("--threads").arg(threads.to_string());
    place.tell(&mut command);
    place.tell_worker(&mut command);
    // Candle looks the number of cores up on every product unless it is told.
    command.env("RAYON_NUM_THREADS", threads.to_string()).env("CANDLE_NUM_THREADS", threads.to_string());
    Ok(command)
}
