//! Baselines of a run on files of the user's own, fitted to its training split.

use rtc_runs::experiment::Experiment;
use rtc_runs::record::table::ResultsRow;
use rtc_task::{BagOfWords, Dataset, Example, Trigram, check_own};

/// The baselines that the answers of a training split have.
#[derive(Debug, Default)]
pub(crate) struct Baselines {
    bag_of_words: Option<BagOfWords>,
    trigram: Option<Trigram>,
}

impl Baselines {
    /// Fits the baselines of a run; none for a task of the program.
    pub(crate) fn fit(experiment: &Experiment, data: &Dataset) -> Self {
        if check_own(&experiment.task).is_none() {
            return Self::default();
        }
        let train = data.split(&experiment.train);
        Self { bag_of_words: BagOfWords::fit(train), trigram: Trigram::fit(train, data.vocabulary) }
    }

    /// Adds what the baselines reach on the examples of a row.
    pub(crate) fn beside(&self, row: ResultsRow, examples: &[Example]) -> ResultsRow {
        let bag_of_words = self.bag_of_words.as_ref().and_then(|model| model.accuracy(examples));
        let trigram = self.trigram.as_ref().and_then(|model| model.measure(examples));
        ResultsRow {
            bag_of_words,
            trigram: trigram.map(|found| found.accuracy),
            trigram_perplexity: trigram.map(|found| found.perplexity),
            ..row
        }
    }
}
