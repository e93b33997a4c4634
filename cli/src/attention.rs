//! Where the attentions of a model look on an example, with the names of its tokens.

use rtc_report::data::AttentionPanel;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::Example;
use rtc_train::examine::attention::{AttendedUnits, ExampleAttention, attention};

/// The attention of a model on an example.
pub(crate) struct NamedAttention {
    /// The runs of its attentions, in their order.
    pub(crate) panels: Vec<AttentionPanel>,
    /// A sentence on every attention that has no map, and one if there are no others.
    pub(crate) notes: Vec<String>,
}

/// The attention of a model on an example, both sides of a pair.
pub(crate) fn named(trained: &mut TrainedModel, example: &Example) -> Result<NamedAttention, SessionFailure> {
    let ExampleAttention { runs, without } = attention(&mut *trained.model, example)?;
    let sides = [Some(&example.tokens), example.second.as_ref()];
    let tokens = |row: usize| sides.get(row).copied().flatten().map_or(&[][..], Vec::as_slice);
    let name = |units: &AttendedUnits, row: usize| -> Vec<String> {
        let of = |names: &[String], places: &[usize]| {
            places.iter().map(|at| names.get(*at).cloned().unwrap_or_else(|| at.to_string())).collect()
        };
        match units {
            AttendedUnits::Positions(places) => of(&trained.positions(tokens(row)), places),
            AttendedUnits::Tokens(places) => of(&trained.names(tokens(row)), places),
            AttendedUnits::Slots(count) => (1..=*count).map(|n| format!("slot {n}")).collect(),
            AttendedUnits::Parts(count) => (1..=*count).map(|n| format!("node {n}")).collect(),
        }
    };
    let panels: Vec<AttentionPanel> = runs
        .iter()
        .map(|run| {
            let mut place = run.place.clone();
            if runs.iter().any(|other| other.place == run.place && other.turn > 0) {
                place += &format!(", run {}", run.turn + 1);
            }
            if example.second.is_some() {
                place += if run.row == 0 { ", first sequence" } else { ", second sequence" };
            }
            let (queries, keys) = (name(&run.queries, run.row), name(&run.keys, run.row));
            AttentionPanel { place, heads: run.heads, queries, keys, weights: run.weights.clone() }
        })
        .collect();
    let mut notes = without;
    if panels.is_empty() && notes.is_empty() {
        notes.push("the model has no attention".to_owned());
    }
    Ok(NamedAttention { panels, notes })
}
