//! Hidden tokens of `masked` (Devlin et al. 2019, Section 3.1, arXiv:1810.04805): a share of the tokens of a row is the answer, and is
//! replaced by a mask, by another token, or stays.

use rtc_base::rng::Key;

use crate::example::{Example, ExampleTarget};

/// The share of hidden tokens behind a mask, and of those that another token replaces; the others stay.
const MASKED: f64 = 0.8;
const REPLACED: f64 = 0.1;

/// The draw of the hidden tokens of a row: a function of the seed of the task, of the row, and of the pass in training.
///
/// The answers of a row are all of its tokens, so that a row can be drawn again.
#[derive(Clone, Debug, PartialEq)]
pub struct Masking {
    key: Key,
    share: f64,
    /// The mask. Smaller ids are tokens of texts.
    mask: u32,
}

impl Masking {
    /// Returns the draw of a share of the tokens, whose ids are below that of the mask.
    pub(super) fn new(seed: u64, share: f64, mask: u32) -> Self {
        Self { key: Key::new(seed).stream("masked"), share, mask }
    }

    /// Hides tokens of a row as every measurement has them.
    pub(super) fn hide(&self, row: u64, example: &mut Example) {
        self.draw(self.key.stream("measured").at(row), example);
    }

    /// Returns a row with the tokens hidden that a pass over the training rows hides, from 0.
    pub fn of_pass(&self, example: &Example, row: u64, pass: u64) -> Example {
        let mut drawn = example.clone();
        self.draw(self.key.stream("trained").at(pass).at(row), &mut drawn);
        drawn
    }

    /// Hides the share of the tokens, at least one, at places that are drawn without repetition.
    fn draw(&self, key: Key, Example { tokens, label, .. }: &mut Example) {
        let ExampleTarget::Each { class, weight } = label else { return };
        tokens.clone_from(class);
        weight.fill(0.0);
        let all = tokens.len();
        let hidden = ((self.share * all as f64).round() as usize).max(1).min(all);
        let (mut draws, mut places) = (key.draws(), (0..all).collect::<Vec<usize>>());
        for n in 0..hidden {
            let other = n + draws.below((all - n) as u64) as usize;
            places.swap(n, other);
            let at = places[n];
            weight[at] = 1.0;
            let chance = draws.uniform();
            let another = draws.below(u64::from(self.mask).max(1)) as u32;
            if chance < MASKED {
                tokens[at] = self.mask;
            } else if chance < MASKED + REPLACED {
                tokens[at] = another;
            }
        }
    }
}
