//! Beam alignment between the levels of an outer fold: which beam of a chunk fills which slot of the next level.
//!
//! Source: Ray Chowdhury and Caragea 2023 (recursion in recursion), Section 3.1, Eq. 8 and 9, arXiv:2311.04449.

use std::ops::Range;

use super::marginal::softmax;
use super::search::Search;
use crate::Real;
use rtc_base::rng::Key;

/// How slots are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// By draws with replacement from the softmax of the chunk's scores.
    Sampled {
        /// Slot 0 gets beam 0 without a draw.
        keep_best: bool,
    },
    /// By draws that are as likely for every beam.
    Uniform {
        /// Slot 0 gets beam 0 without a draw.
        keep_best: bool,
    },
    /// Slot j gets beam j. A beam of the next level needs a beam in this place from every chunk.
    String,
}

/// The source of the draws.
#[derive(Clone, Copy)]
pub enum DrawSource<'a> {
    /// From the key of each chunk; a key belongs to row, level and chunk.
    Keys(&'a [Key]),
    /// What the function says for chunk and slot.
    Given(&'a dyn Fn(usize, usize) -> usize),
}

/// Beams by chunk and slot: constants of the gradient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BeamSlots {
    starts: Vec<usize>,
    beams: Vec<u32>,
}

impl BeamSlots {
    /// The beams in the slots of a chunk.
    pub fn of(&self, chunk: usize) -> &[u32] {
        let end = self.starts.get(chunk + 1).copied().unwrap_or(self.beams.len());
        &self.beams[self.starts[chunk]..end]
    }

    /// How many slots all of these chunks have.
    pub(super) fn live(&self, chunks: Range<usize>) -> usize {
        chunks.map(|chunk| self.of(chunk).len()).min().unwrap_or(0)
    }
}

/// Fills the slots of every chunk of a finished level. Row `r` of the batch has chunks `outer[r]..outer[r + 1]`.
///
/// All chunks of a row get as many slots as the fullest one has beams. A row of one chunk is through: it keeps its beams.
pub fn align(search: &Search, rule: Align, outer: &[usize], draws: DrawSource, slots: &mut BeamSlots) {
    slots.starts.clear();
    slots.beams.clear();
    for row in outer.windows(2) {
        let chunks = row[0]..row[1];
        let most = chunks.clone().map(|chunk| search.live(chunk)).max().unwrap_or(0);
        for chunk in chunks.clone() {
            let live = search.live(chunk);
            slots.starts.push(slots.beams.len());
            if chunks.len() == 1 {
                slots.beams.extend(0..live as u32);
                continue;
            }
            match rule {
                // A lone leaf stands in every slot: all trees over it are the same.
                Align::String if live == 1 && search.length(chunk) == 1 => {
                    slots.beams.extend(std::iter::repeat_n(0, most));
                }
                Align::String => slots.beams.extend(0..live as u32),
                Align::Sampled { keep_best } | Align::Uniform { keep_best } => {
                    let scores = matches!(rule, Align::Sampled { .. }).then(|| search.scores(chunk));
                    for slot in 0..most {
                        let beam = if slot == 0 && keep_best { 0 } else { draw(draws, chunk, slot, live, scores) };
                        slots.beams.push(beam as u32);
                    }
                }
            }
        }
    }
}

/// A beam of a chunk: by the softmax of the scores if there are any, else any of them.
fn draw(draws: DrawSource, chunk: usize, slot: usize, live: usize, scores: Option<&[f64]>) -> usize {
    let key = match draws {
        DrawSource::Given(given) => return given(chunk, slot).min(live - 1),
        DrawSource::Keys(keys) => keys[chunk],
    };
    let Some(scores) = scores else { return key.below(slot as u64, live as u64) as usize };
    f64::with_scratch(live, |weights| {
        softmax(scores, weights);
        let mut rest = key.uniform(slot as u64);
        // What rounding leaves over belongs to the last one.
        weights
            .iter()
            .position(|weight| {
                rest -= weight;
                rest < 0.0
            })
            .unwrap_or(live - 1)
    })
}

/// The gradient of `Search::join`: `dscores` (`width` places per row of the next level) adds up in `dends` (`width` places per
/// row of this level), which is overwritten.
pub fn join_grad(slots: &BeamSlots, offsets: &[usize], width: usize, dscores: &[f64], dends: &mut [f64]) {
    dends.fill(0.0);
    for (row, span) in offsets.windows(2).enumerate() {
        for chunk in span[0]..span[1] {
            // Places that are no beam have gradient 0.
            for (&beam, &slope) in slots.of(chunk).iter().zip(&dscores[row * width..][..width]) {
                dends[chunk * width + beam as usize] += slope;
            }
        }
    }
}
