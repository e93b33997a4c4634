//! Sampling: the choice of the next token from its logits.

/// A rule for choosing tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the most probable token.
    pub temperature: f64,
    /// Only so many of the most probable tokens are left.
    pub top_k: Option<usize>,
    /// Only the fewest tokens are left, the most probable first, whose probabilities sum to this (Holtzman et al. 2020, arXiv
    /// 1904.09751).
    pub top_p: Option<f64>,
}

impl Sampling {
    /// The token that the draw, in [0, 1), falls on. Of equal logits the one with the smaller id stands first.
    pub fn choose(&self, logits: &[f64], draw: f64) -> u32 {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let at = |id: u32| logits[id as usize];
        let before = |a: &u32, b: &u32| at(*b).total_cmp(&at(*a)).then(a.cmp(b));
        if self.temperature == 0.0 {
            return ids.into_iter().min_by(before).unwrap_or(0);
        }
        if self.top_k.is_some() || self.top_p.is_some() {
            ids.sort_unstable_by(before);
        }
        ids.truncate(self.top_k.unwrap_or(usize::MAX).max(1));
        let most = ids.iter().map(|id| at(*id)).fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = ids.iter().map(|id| ((at(*id) - most) / self.temperature).exp()).collect();
        let kept = self.top_p.map_or(weights.len(), |p| nucleus(&weights, p));
        let total: f64 = weights[..kept].iter().sum();
        ids[reached(&weights[..kept], draw * total)]
    }
}

/// How many of the weights, the largest first, sum to at least the share `p` of all.
fn nucleus(weights: &[f64], p: f64) -> usize {
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let enough = weights.iter().position(|weight| {
        sum += weight;
        sum >= p * total
    });
    enough.map_or(weights.len(), |last| last + 1)
}

/// The first weight at which the sum goes beyond a number; the last one that is not 0 where rounding lets none.
fn reached(weights: &[f64], number: f64) -> usize {
    let mut sum = 0.0;
    let beyond = weights.iter().position(|weight| {
        sum += weight;
        sum > number
    });
    beyond.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0)
}
