//! The learner of rank 0: it hands out work to all ranks, and is to the training loop what a learner alone would be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::message::{BatchReports, RankAnswer, RankCommand, fingerprint, receive};
use super::serve::apply;
use super::wire::Wire;
use super::{RankError, Ranks, broadcast};
use rtc_base::batch::Batch;
use rtc_exec::bounds::StepBounds;
use rtc_exec::gradient_tree::{deal, dealt};
use rtc_exec::learner::{
    BatchAnswers, Carry, Distributed, Evaluation, FlatArrays, LearnError, Learner, LearnerState, RemainingState,
    StepReport, UpdateRule,
};

/// How evenly the ranks have worked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Balance {
    /// Seconds of the slowest rank of every update, for its micro-batches.
    pub slowest: f64,
    /// Seconds of a rank on the mean.
    pub mean: f64,
}

impl Balance {
    /// How much longer the slowest rank takes than the mean one: 1 where all take the same time; nothing where none has worked.
    pub fn imbalance(self) -> Option<f64> {
        (self.mean > 0.0).then(|| self.slowest / self.mean)
    }

    fn add(&mut self, seconds: &[f64]) {
        self.slowest += seconds.iter().copied().fold(0.0, f64::max);
        self.mean += seconds.iter().sum::<f64>() / seconds.len() as f64;
    }
}

/// A learner whose work is shared by all ranks.
#[derive(Debug)]
pub struct SharedLearner<'a, L: Distributed + ?Sized> {
    learner: &'a mut L,
    ranks: &'a dyn Ranks,
    /// Is set where any rank was asked to stop.
    stop: &'a AtomicBool,
    /// How many micro-batches every call since the last update has given to each rank.
    calls: Vec<Vec<u64>>,
    balance: Balance,
    /// A failure that could not be told where it came up.
    failed: Option<RankError>,
}

/// Tells all ranks of which model they make a copy; [`joined`](super::joined) hears whether they could.
///
/// # Errors
/// A rank has ended.
pub fn begin(ranks: &dyn Ranks, how: &str) -> Result<(), RankError> {
    tell(ranks, |_| RankCommand::Begin(how.to_owned()))
}

/// Lets all other ranks end with an exit code. Those that have ended before need not be told.
pub fn end(ranks: &dyn Ranks, code: u8) {
    for rank in 1..ranks.size() {
        let _ = ranks.send(rank, &RankCommand::End(code).to_bytes());
    }
}

/// Tells every other rank something.
fn tell(ranks: &dyn Ranks, command: impl Fn(usize) -> RankCommand) -> Result<(), RankError> {
    (1..ranks.size()).try_for_each(|rank| ranks.send(rank, &command(rank).to_bytes()))
}

impl<'a, L: Distributed + ?Sized> SharedLearner<'a, L> {
    /// The learner of rank 0, whose ranks have joined. `stop` ends the training; it is set where another rank is asked to stop.
    pub fn new(learner: &'a mut L, ranks: &'a dyn Ranks, stop: &'a AtomicBool) -> Self {
        Self { learner, ranks, stop, calls: vec![], balance: Balance::default(), failed: None }
    }

    /// How evenly the ranks have worked so far.
    pub fn balance(&self) -> Balance {
        self.balance
    }

    fn tell(&mut self, command: impl Fn(usize) -> RankCommand) -> Result<(), LearnError> {
        self.failed.take().map_or(Ok(()), Err)?;
        Ok(tell(self.ranks, command)?)
    }

    /// The results of all ranks in their order, and how long each took; `mine` are those of rank 0. Every answer is read, that after a
    /// failure nobody waits to be heard.
    fn gather<T: Wire>(&self, mine: (Result<T, LearnError>, f64)) -> Result<(Vec<T>, Vec<f64>), LearnError> {
        let (mut outcomes, mut times) = (vec![mine.0], vec![mine.1]);
        for rank in 1..self.ranks.size() {
            let RankAnswer { outcome, seconds, stopping } = receive::<RankAnswer<T>>(self.ranks, rank)?;
            if stopping {
                self.stop.store(true, Ordering::Relaxed);
            }
            outcomes.push(outcome);
            times.push(seconds);
        }
        Ok((outcomes.into_iter().collect::<Result<_, _>>()?, times))
    }

    /// Refuses numbers that are not the same on all ranks.
    fn require_same<T: Wire + PartialEq>(&self, mine: Result<T, LearnError>, what: &str) -> Result<(), LearnError> {
        let (all, _) = self.gather((mine, 0.0))?;
        match all.iter().position(|other| *other != all[0]) {
            Some(rank) => Err(LearnError::Ranks(format!(
                "{what} of rank {rank} is not that of rank 0: the machines do not compute the same numbers; the same command \
                 goes on from the last checkpoint, where all ranks agreed"
            ))),
            None => Ok(()),
        }
    }
}

/// What a batch is expected to cost, by which it is dealt: its tokens. How long its rows go on before they halt is known afterwards.
fn cost(batch: &Batch) -> u64 {
    batch.tokens.len().max(1) as u64
}

/// Does something, and says how many seconds it took.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed().as_secs_f64())
}

impl<L: Distributed + ?Sized> Learner for SharedLearner<'_, L> {
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        let all = self.accumulate_all(&[(batch.clone(), share)], meanwhile)?;
        Ok(all.into_iter().next().map(|(report, _)| report).unwrap_or_default())
    }

    fn accumulate_all(
        &mut self,
        batches: &[(Batch, f64)],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<BatchReports, LearnError> {
        let counts = deal(&batches.iter().map(|(batch, _)| cost(batch)).collect::<Vec<_>>(), self.ranks.size());
        let first: u64 = self.calls.iter().flatten().sum();
        let part = |rank| {
            let own = dealt(&counts, rank);
            (first + own.start, &batches[own.start as usize..own.end as usize])
        };
        self.tell(|rank| {
            let (start, part) = part(rank);
            RankCommand::Accumulate(start, part.to_vec())
        })?;
        let (start, own) = part(0);
        self.learner.at_leaf(start);
        let mine = timed(|| self.learner.accumulate_all(own, meanwhile));
        self.calls.push(counts);
        let (all, times) = self.gather(mine)?;
        self.balance.add(&times);
        Ok(all.into_iter().flatten().collect())
    }

    fn carries(&self) -> &[Carry] {
        self.learner.carries()
    }

    fn left(&mut self) -> RemainingState {
        self.learner.left()
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        let calls = std::mem::take(&mut self.calls);
        self.tell(|_| RankCommand::Update(calls.clone(), *rule))?;
        let norm = apply(self.learner, self.ranks, &calls, rule)?;
        self.require_same(norm.clone().map(f64::to_bits), "the gradient")?;
        norm
    }

    fn average(&mut self, decay: f64) {
        if let Err(error) = tell(self.ranks, |_| RankCommand::Average(decay)) {
            self.failed = Some(error);
        }
        self.learner.average(decay);
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        self.learner.evaluate(batch)
    }

    fn evaluate_all(&mut self, batches: &[Batch]) -> Result<Vec<Evaluation>, LearnError> {
        let counts = deal(&batches.iter().map(cost).collect::<Vec<_>>(), self.ranks.size());
        let part = |rank| {
            let own = dealt(&counts, rank);
            &batches[own.start as usize..own.end as usize]
        };
        self.tell(|rank| RankCommand::Evaluate(part(rank).to_vec()))?;
        let mine = timed(|| self.learner.evaluate_all(part(0)));
        let (all, _) = self.gather(mine)?;
        Ok(all.into_iter().flatten().collect())
    }

    fn at_once(&self) -> usize {
        self.ranks.size()
    }

    fn answers(&mut self, batch: &Batch) -> Result<BatchAnswers, LearnError> {
        self.learner.answers(batch)
    }

    fn require_agreement(&mut self) -> Result<(), LearnError> {
        if self.ranks.size() == 1 {
            return Ok(());
        }
        self.tell(|_| RankCommand::Fingerprint)?;
        self.require_same(Ok(fingerprint(&self.learner.state())), "the state")
    }

    fn gradients(&mut self) -> FlatArrays {
        self.learner.gradients()
    }

    fn state(&self) -> LearnerState {
        self.learner.state()
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        self.calls.clear();
        self.tell(|_| RankCommand::Restore)?;
        if self.ranks.size() > 1 {
            broadcast(self.ranks, Some(state.to_bytes()))?;
        }
        let mine = self.learner.restore(state);
        self.gather((mine, 0.0)).map(drop)
    }

    fn parameter_count(&self) -> usize {
        self.learner.parameter_count()
    }

    fn halting_bounds(&self) -> Option<StepBounds> {
        self.learner.halting_bounds()
    }
}
