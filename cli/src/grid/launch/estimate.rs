//! What cells ask a queue for: memory of the host by the estimate before a training, time by a trial of every model.

use std::collections::BTreeMap;

use rtc_session::failure::SessionFailure;
use rtc_session::text::count;

use super::{JobGroup, Submission};
use crate::grid::dry_run::at_most;
use crate::terminal::Terminal;

/// A cell asks for so many times the forecast with every recurrence at its bound: the machine of the trial is not that of the job.
const TIMES: f64 = 3.0;

/// Seconds for the start of a job, its data and its measurements.
const START: f64 = 600.0;

/// Bytes that a cell asks for beyond a quarter more than its estimate.
const SPARE: u64 = 256 << 20;

/// The resources that a job asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRequest {
    /// In MiB.
    pub(crate) memory: u64,
    /// In minutes; nothing where the user says it.
    pub(crate) minutes: Option<u64>,
}

/// Cells whose needs are alike, up to a factor of two, in groups; each asks for what its largest cell needs.
pub(super) fn groups(submission: &Submission<'_>, terminal: &Terminal) -> Result<Vec<JobGroup>, SessionFailure> {
    let Submission { grid, places, data, pace, card, options } = *submission;
    let seconds = match options.time {
        Some(_) => vec![],
        None => {
            terminal.message(&format!("trying the models of {} for a moment", count(places.len(), "cell")));
            at_most(grid, data, (pace, card))?
        }
    };
    let mut groups: BTreeMap<(u32, u32), JobGroup> = BTreeMap::new();
    let mut memory: BTreeMap<usize, u64> = BTreeMap::new();
    for place in places {
        let need = match memory.get(&place.model) {
            Some(need) => *need,
            None => {
                let of = data[place.model].as_ref().expect("the data of every model with a cell to train was made");
                let job = grid.job(*place, pace.memory);
                let fitted = job.fit(grid.path(*place), of, pace, card)?;
                let need = if card.is_some() { job.on_host(of, &fitted)? } else { fitted.need.total() };
                *memory.entry(place.model).or_insert(need)
            }
        };
        let request = request(need, seconds.get(place.model).copied());
        let kind = (request.memory.ilog2(), request.minutes.map_or(0, u64::ilog2));
        let group = groups.entry(kind).or_insert_with(|| JobGroup { request: request.clone(), cells: vec![] });
        group.request.memory = group.request.memory.max(request.memory);
        group.request.minutes = group.request.minutes.max(request.minutes);
        group.cells.push(grid.key(*place).to_owned());
    }
    Ok(groups.into_values().collect())
}

fn request(bytes: u64, seconds: Option<f64>) -> JobRequest {
    let memory = (bytes.saturating_add(bytes / 4).saturating_add(SPARE) >> 20).max(1);
    let minutes = seconds.map(|seconds| ((seconds * TIMES + START) / 60.0).ceil() as u64);
    JobRequest { memory, minutes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_asks_for_more_than_its_estimate() {
        assert_eq!(request(1 << 30, Some(600.0)), JobRequest { memory: 1024 + 256 + 256, minutes: Some(40) });
        assert_eq!(request(0, None), JobRequest { memory: 256, minutes: None });
    }
}
