//! Collapsed halting: a trained model in which every example takes the same number of steps.
//!
//! The steps of an example are the mean over its units (rows, chunks or positions), as the graph gives them. Their mean and their
//! deviation over the examples of a split say whether they depend on the example at all, and the bounds of the recurrences where
//! they got stuck.

use rtc_exec::bounds::StepBounds;
use rtc_runs::record::table::ResultsRow;

/// Halting got stuck at an end when the mean is at most so many steps away from it, and the deviation no larger than [`SPREAD`].
const NEAR: f64 = 0.15;
/// The largest deviation over the examples at an end: one example in seven takes one step more than the others.
const SPREAD: f64 = 0.35;
/// The largest deviation in between, where nothing but a fixed number of steps is as small.
const FIXED: f64 = 0.05;

/// Where halting got stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    Least,
    Most,
    Between,
}

/// Where the halting of a model got stuck on a split, if it did.
fn stuck(row: &ResultsRow, bounds: StepBounds) -> Option<Stuck> {
    let (mean, deviation) = row.mean_depth.zip(row.depth_deviation)?;
    let near_most = bounds.most.is_some_and(|most| mean >= most as f64 - NEAR);
    // Where one step is the bound there is no choice, and nothing is stuck.
    match deviation {
        _ if bounds.most.is_some_and(|most| most <= bounds.least) || row.examples < 2 => None,
        _ if deviation <= SPREAD && mean <= bounds.least as f64 + NEAR => Some(Stuck::Least),
        _ if deviation <= SPREAD && near_most => Some(Stuck::Most),
        _ if deviation <= FIXED => Some(Stuck::Between),
        _ => None,
    }
}

/// One line that says so when the halting of a trained model does nothing on any of the splits that were measured.
pub fn note(rows: &[ResultsRow], bounds: Option<StepBounds>) -> Option<String> {
    let bounds = bounds?;
    let (row, rest) = rows.split_first()?;
    let how = stuck(row, bounds)?;
    if rest.iter().any(|row| stuck(row, bounds) != Some(how)) {
        return None;
    }
    let (mean, deviation) = row.mean_depth.zip(row.depth_deviation)?;
    let of = bounds.most.map(|most| format!(" of at most {most}")).unwrap_or_default();
    let cure = match how {
        Stuck::Least => "a smaller `cost` or a negative `bias` of `halt` lets it go on",
        Stuck::Most => "a larger `cost` of `halt` lets it stop earlier, unless it needs all of them",
        Stuck::Between => "`halt none` with that depth is the same model",
    };
    Some(format!(
        "halting does nothing: about {mean:.2} steps{of} for every example of {} (deviation {deviation:.2}); {cure}, see \
         `rtc docs halting_collapse`",
        row.split
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Option<StepBounds> = Some(StepBounds { least: 1, most: Some(5) });

    fn row(mean: f64, deviation: f64) -> ResultsRow {
        ResultsRow {
            split: "dev".into(),
            examples: 100,
            scored: 100,
            accuracy: Some(0.5),
            metrics: std::collections::BTreeMap::new(),
            numbers: std::collections::BTreeMap::new(),
            loss: 1.0,
            perplexity: None,
            mean_depth: Some(mean),
            depth_deviation: Some(deviation),
            majority: Some(0.5),
            bag_of_words: None,
            trigram: None,
            trigram_perplexity: None,
            lengths: vec![],
            classes: vec![],
        }
    }

    #[test]
    fn a_model_that_is_stuck_is_told_where() {
        for (mean, deviation, expected) in [
            (1.06, 0.2, "smaller `cost`"),
            (0.0, 0.0, "smaller `cost`"),
            (4.95, 0.1, "larger `cost`"),
            (3.0, 0.01, "`halt none`"),
        ] {
            let found = note(&[row(mean, deviation)], FIVE).unwrap_or_else(|| panic!("{mean} is stuck"));
            assert!(found.contains(expected) && found.contains(&format!("{mean:.2} steps of at most 5")), "{found}");
        }
    }

    #[test]
    fn what_depends_on_the_example_is_not_stuck() {
        for (mean, deviation) in [(1.6, 0.5), (1.1, 0.6), (3.0, 0.2), (4.9, 0.8)] {
            assert_eq!(note(&[row(mean, deviation)], FIVE), None, "{mean} {deviation}");
        }
        assert_eq!(note(&[row(1.0, 0.0), row(2.0, 0.7)], FIVE), None, "one split is enough to show that it halts");
        assert_eq!(note(&[row(1.0, 0.0)], Some(StepBounds { least: 1, most: Some(1) })), None, "there is no choice");
        assert_eq!(note(&[row(1.0, 0.0)], None), None, "it does not halt");
        assert_eq!(note(&[], FIVE), None);
        let silent = ResultsRow { mean_depth: None, ..row(1.0, 0.0) };
        assert_eq!(note(&[silent], FIVE), None);
    }
}
