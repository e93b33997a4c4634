//! The states of a trained model along their principal components, and the saliency of its tokens.

use std::collections::BTreeMap;

use rtc_base::rng::Key;
use rtc_compiler::ir::roles;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline;
use rtc_compiler::schema::Catalog;
use rtc_report::data::{Cloud, SaliencyShares};
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::formal::automaton::Automaton;
use rtc_task::formal::{Formal, StringDraw};
use rtc_task::{Example, Objective, catalog};
use rtc_train::examine::components::components;
use rtc_train::examine::states::{PositionState, States, states};

/// How many rows are analysed.
pub(super) const ANALYSED: usize = 8;
/// How many states of a recurrence are drawn.
const STATES: usize = 1600;
/// How many groups have a colour of their own; what else there is has one together.
const GROUPS: usize = 7;

/// Strings of a length, with random numbers that no split has.
pub(super) fn strings(formal: &Formal, trained: &TrainedModel, length: usize) -> Vec<Example> {
    let length = length.max(formal.shortest);
    let key = Key::new(trained.experiment.task.seed).stream(formal.name).stream("analyses");
    let one = |index: usize| {
        let draw = StringDraw { length, longest: None, index: index as u64, options: &trained.options };
        formal.fresh(&draw, &mut key.at(index as u64).draws())
    };
    (0..ANALYSED).map(one).collect()
}

/// Both pictures, from these rows; none of a model that answers for pairs.
pub(super) fn analyse(
    trained: &mut TrainedModel,
    rows: &[Example],
) -> Result<(Vec<Cloud>, Option<SaliencyShares>), SessionFailure> {
    if trained.task.objective() == Objective::Pair {
        return Ok((vec![], None));
    }
    let automaton = trained.task.formal().and_then(|formal| Automaton::of(formal, &trained.options));
    let seen = states(&mut *trained.model, rows, STATES)?;
    let clouds = seen.iter().map(|states| cloud(states, rows, automaton.as_ref())).collect();
    Ok((clouds, saliency(trained, rows)?))
}

fn cloud(found: &States, rows: &[Example], automaton: Option<&Automaton>) -> Cloud {
    let vectors: Vec<&[f32]> = found.states.iter().map(|state| state.vector.as_slice()).collect();
    let seen = components(&vectors);
    let names: Vec<(usize, String)> = found.states.iter().map(|state| meaning(state, rows, automaton)).collect();
    let mut count: BTreeMap<&(usize, String), usize> = BTreeMap::new();
    for name in &names {
        *count.entry(name).or_default() += 1;
    }
    let mut kept: Vec<_> = count.iter().collect();
    kept.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    kept.truncate(GROUPS);
    kept.sort_by(|a, b| a.0.cmp(b.0));
    let mut groups: Vec<(String, Vec<[f64; 2]>)> = kept.iter().map(|((_, name), _)| (name.clone(), vec![])).collect();
    let mut others = vec![];
    for ((_, name), point) in names.iter().zip(seen.points) {
        match groups.iter_mut().find(|(group, _)| group == name) {
            Some((_, points)) => points.push(point),
            None => others.push(point),
        }
    }
    if !others.is_empty() {
        groups.push(("others".to_owned(), others));
    }
    Cloud { place: found.place.clone(), shares: seen.shares, groups }
}

/// What a state stands for: where its part of the string takes every state of the automaton; without one, its step. The number
/// orders the names.
fn meaning(state: &PositionState, rows: &[Example], automaton: Option<&Automaton>) -> (usize, String) {
    let Some(automaton) = automaton else { return (state.step, format!("step {}", state.step + 1)) };
    let part = rows.get(state.example).and_then(|row| row.tokens.get(state.seen.clone()));
    let across = automaton.across(part.unwrap_or_default());
    let from: Vec<String> = (0..across.len()).map(|n| n.to_string()).collect();
    let to: Vec<String> = across.iter().map(u32::to_string).collect();
    (0, format!("{} to {}", from.join(" "), to.join(" ")))
}

/// How much the answer depends on each token, as the mean over the rows.
fn saliency(trained: &TrainedModel, rows: &[Example]) -> Result<Option<SaliencyShares>, SessionFailure> {
    let Some(length) = rows.first().map(|row| row.tokens.len()) else { return Ok(None) };
    let facts = catalog(&*trained.task, &trained.options);
    let classes = trained.task.classes(&trained.options).len();
    let facts = Catalog { vocabulary: Some(length), ..facts };
    // The table of vectors of a graph may have a size of its own, and one that makes the answers can't stand for other tokens.
    let Ok(graph) = trained.definition.forward(&facts) else { return Ok(None) };
    if roles::token_tables(&graph).is_none() {
        return Ok(None);
    }
    let plan = pipeline::slopes(&graph, &Binding::from(&facts))?;
    let (mut shares, mut examples) = (vec![0.0; length], 0);
    for own in trained.model.saliency(plan, classes, rows)?.into_iter().flatten() {
        shares.iter_mut().zip(&own).for_each(|(sum, share)| *sum += share);
        examples += 1;
    }
    shares.iter_mut().for_each(|sum| *sum /= examples.max(1) as f64);
    Ok((examples > 0).then_some(SaliencyShares { examples, shares }))
}
