//! Updates on several ranks: every number has the bits of one rank with as many micro-batches.

use std::sync::atomic::AtomicBool;

use rtc_base::batch::Batch;
use rtc_base::rng::Key;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline;
use rtc_compiler::plan::Plan;
use rtc_exec::gradient_tree::LeafBlock;
use rtc_exec::learner::Distributed;
use rtc_exec::learner::{
    BatchAnswers, Evaluation, FlatArrays, LearnError, Learner, LearnerState, StepReport, UpdateRule,
};
use rtc_exec::model::Model as Trained;
use rtc_task::Example;
use rtc_task::batching::{pack, split};
use rtc_tests::models::{self, CLASSES, Model, VOCAB, binding};
use rtc_train::ranks::threads::on_threads;
use rtc_train::ranks::{Ranks, SharedLearner, end, joined, serve};

const LENGTHS: [usize; 11] = [7, 1, 12, 4, 9, 2, 5, 5, 13, 3, 8];

const RULE: UpdateRule = UpdateRule { learning_rate: 1e-2, weight_decay: 0.1, clip: Some(1.0), ..UpdateRule::ADAMW };

fn examples() -> Vec<Example> {
    let draw = |row: usize, n: usize, bound: usize| Key::new(5).at(row as u64).below(n as u64, bound as u64) as u32;
    let tokens = |row: usize, length: usize| (0..length).map(|n| draw(row, n, VOCAB)).collect();
    let example = |(row, &length): (usize, &usize)| Example::classified(tokens(row, length), draw(row, 99, CLASSES));
    LENGTHS.iter().enumerate().map(example).collect()
}

/// Everything that updates and evaluations give.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    reports: Vec<StepReport>,
    norms: Vec<u64>,
    evaluations: Vec<Evaluation>,
    state: LearnerState,
}

/// Some updates with evaluations.
fn work(learner: &mut dyn Learner, parts: usize) -> Result<Seen, LearnError> {
    let examples = examples();
    let all: Vec<&Example> = examples.iter().collect();
    let (batches, mut seen) = (split(&all, parts), Seen::default());
    let measured: Vec<Batch> = all.chunks(4).map(pack).collect();
    for _ in 0..2 {
        let reports = learner.accumulate_all(&batches, &mut || {})?;
        seen.reports.extend(reports.into_iter().map(|(report, _)| report));
        seen.norms.push(learner.update(&RULE)?.to_bits());
        learner.average(0.9);
        seen.evaluations.extend(learner.evaluate_all(&measured)?);
    }
    learner.require_agreement()?;
    seen.state = learner.state();
    // What was restored goes on alike.
    learner.restore(&seen.state)?;
    learner.accumulate_all(&batches, &mut || {})?;
    seen.norms.push(learner.update(&RULE)?.to_bits());
    Ok(seen)
}

fn plans(model: &Model) -> (Plan, Plan) {
    pipeline::plans(&model.spec, &binding(Objective::Classify)).expect("it can be lowered")
}

fn trained((training, inference): &(Plan, Plan), seed: u64) -> Trained<f32> {
    Trained::new(training.clone(), inference.clone(), binding(Objective::Classify), seed)
}

/// What rank 0 sees, and what became of the others, whose learners are made by their ranks.
fn shared<L: Distributed>(
    size: usize,
    make: impl Fn(usize) -> L + Sync,
    work: impl Fn(&mut dyn Learner) -> Result<Seen, LearnError> + Sync,
) -> (Result<Seen, LearnError>, Vec<Result<u8, String>>) {
    let one = |ranks: &dyn Ranks| {
        let (mut learner, stop) = (make(ranks.rank()), AtomicBool::new(false));
        if ranks.rank() > 0 {
            return (None, serve(Ok(&mut learner), ranks, &stop).map_err(|error| error.to_string()));
        }
        let seen = joined(ranks).and_then(|()| work(&mut SharedLearner::new(&mut learner, ranks, &stop)));
        end(ranks, 0);
        (Some(seen), Ok(0))
    };
    let (mut first, mut others) = (None, vec![]);
    for ended in on_threads(size, one) {
        match ended {
            Ok((Some(seen), _)) => first = Some(seen),
            Ok((None, ended)) => others.push(ended),
            Err(_) => others.push(Err("panic".to_owned())),
        }
    }
    (first.expect("rank 0 does not panic"), others)
}

#[test]
fn ranks_change_no_bit() {
    for model in models::telling(Objective::Classify, &[]) {
        let plans = plans(&model);
        for parts in [4, 8] {
            let alone = work(&mut trained(&plans, 1), parts).expect("it can be trained");
            for size in [1, 2, 3, 4, 8] {
                let (seen, others) = shared(size, |_| trained(&plans, 1), |learner| work(learner, parts));
                let seen = seen.expect("it can be trained");
                assert_eq!(seen.reports, alone.reports, "{}: {parts} parts, {size} ranks", model.name);
                assert!(seen == alone, "{}: {parts} parts give other bits on {size} ranks", model.name);
                assert_eq!(others, vec![Ok(0); size - 1]);
            }
        }
    }
}

/// Micro-batches that come one by one, as they do outside of a training, are shared and summed alike.
#[test]
fn micro_batches_may_come_in_several_calls() {
    let model = models::one("gut.rt", "gut", Objective::Classify, &[]);
    let plans = plans(&model);
    let by_calls = |learner: &mut dyn Learner, calls: &[usize]| {
        let examples = examples();
        let all: Vec<&Example> = examples.iter().collect();
        let batches = split(&all, 11);
        let mut rest = &batches[..];
        for count in calls {
            let (now, later) = rest.split_at(*count);
            learner.accumulate_all(now, &mut || {})?;
            rest = later;
        }
        let norms = vec![learner.update(&RULE)?.to_bits()];
        Ok(Seen { norms, state: learner.state(), ..Seen::default() })
    };
    let alone = by_calls(&mut trained(&plans, 1), &[11]).expect("it can be trained");
    for calls in [&[11][..], &[1, 1, 9], &[4, 4, 3], &[5, 6]] {
        for size in [2, 3, 4] {
            let (seen, _) = shared(size, |_| trained(&plans, 1), |learner| by_calls(learner, calls));
            assert!(seen.expect("it can be trained") == alone, "{calls:?} on {size} ranks");
        }
    }
}

/// Where a rank panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Accumulate,
    Sum,
    Update,
    Evaluate,
    State,
}

/// A model that panics in one place, if it has one.
struct Dying {
    model: Trained<f32>,
    place: Option<Place>,
}

impl Dying {
    fn at(&mut self, place: Place) -> &mut Trained<f32> {
        assert_ne!(self.place, Some(place), "this rank dies here");
        &mut self.model
    }
}

impl Learner for Dying {
    fn accumulate_while(
        &mut self,
        batch: &Batch,
        share: f64,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<StepReport, LearnError> {
        self.at(Place::Accumulate).accumulate_while(batch, share, meanwhile)
    }

    fn update(&mut self, rule: &UpdateRule) -> Result<f64, LearnError> {
        self.at(Place::Update).update(rule)
    }

    fn average(&mut self, decay: f64) {
        self.model.average(decay);
    }

    fn evaluate(&mut self, batch: &Batch) -> Result<Evaluation, LearnError> {
        self.at(Place::Evaluate).evaluate(batch)
    }

    fn answers(&mut self, batch: &Batch) -> Result<BatchAnswers, LearnError> {
        self.model.answers(batch)
    }

    fn gradients(&mut self) -> FlatArrays {
        self.model.gradients()
    }

    fn state(&self) -> LearnerState {
        assert_ne!(self.place, Some(Place::State), "this rank dies here");
        self.model.state()
    }

    fn restore(&mut self, state: &LearnerState) -> Result<(), LearnError> {
        self.model.restore(state)
    }

    fn parameter_count(&self) -> usize {
        self.model.parameter_count()
    }
}

impl Distributed for Dying {
    fn at_leaf(&mut self, leaf: u64) {
        self.model.at_leaf(leaf);
    }

    fn gradient_len(&self) -> usize {
        self.model.gradient_len()
    }

    fn take_sums(&mut self) -> Vec<(LeafBlock, Vec<f32>)> {
        self.at(Place::Sum).take_sums()
    }

    fn set_sum(&mut self, sum: Vec<f32>) -> Result<(), LearnError> {
        self.model.set_sum(sum)
    }
}

#[test]
fn a_rank_that_dies_ends_all_others() {
    let plans = plans(&models::one("gut.rt", "gut", Objective::Classify, &[]));
    for place in [Place::Accumulate, Place::Sum, Place::Update, Place::Evaluate, Place::State] {
        for size in [2, 3, 4] {
            let make = |rank| Dying { model: trained(&plans, 1), place: (rank == 1).then_some(place) };
            let (seen, others) = shared(size, make, |learner| work(learner, 8));
            let why = seen.expect_err("a rank has died");
            assert!(matches!(&why, LearnError::Ranks(text) if text.contains("has ended before its time")), "{why:?}");
            assert_eq!(others[0], Err("panic".to_owned()), "{place:?} on {size} ranks");
        }
    }
}

#[test]
fn a_batch_that_a_rank_cannot_take_is_refused_as_on_one_rank() {
    let plans = plans(&models::one("gut.rt", "gut", Objective::Classify, &[]));
    let wrong = |learner: &mut dyn Learner| {
        let mut examples = examples();
        examples[6].tokens[0] = VOCAB as u32 + 7;
        let all: Vec<&Example> = examples.iter().collect();
        learner.accumulate_all(&split(&all, 8), &mut || {}).map(|_| Seen::default())
    };
    let alone = wrong(&mut trained(&plans, 1)).expect_err("there is no such token");
    for size in [2, 4] {
        let (seen, others) = shared(size, |_| trained(&plans, 1), wrong);
        assert_eq!(seen.expect_err("there is no such token"), alone);
        assert_eq!(others, vec![Ok(0); size - 1], "the others are told to end");
    }
}

#[test]
fn a_rank_with_other_weights_is_found() {
    let plans = plans(&models::one("gut.rt", "gut", Objective::Classify, &[]));
    let agree = |learner: &mut dyn Learner| learner.require_agreement().map(|()| Seen::default());
    let (seen, _) = shared(3, |rank| trained(&plans, 1 + u64::from(rank == 2)), agree);
    let why = seen.expect_err("the weights of rank 2 are others");
    assert!(matches!(&why, LearnError::Ranks(text) if text.starts_with("the state of rank 2 is not that of rank 0")));
    let (seen, _) = shared(3, |_| trained(&plans, 1), agree);
    assert!(seen.is_ok());
}

#[test]
fn a_rank_without_a_model_is_told_of() {
    let ended = on_threads(3, |ranks| {
        if ranks.rank() == 0 {
            let why = joined(ranks);
            end(ranks, 6);
            return (why.err(), Ok(6));
        }
        let model = trained(&plans(&models::one("gut.rt", "gut", Objective::Classify, &[])), 1);
        let mut model = (ranks.rank() != 2).then_some(model);
        let made = model.as_mut().ok_or_else(|| "it has no device".to_owned());
        (None, serve(made, ranks, &AtomicBool::new(false)))
    });
    let ended: Vec<_> = ended.into_iter().map(|ended| ended.expect("no panic")).collect();
    assert_eq!(ended[0].0, Some(LearnError::Ranks("rank 2: it has no device".to_owned())));
    assert!(ended.iter().all(|(_, code)| *code == Ok(6)), "{ended:?}");
}
