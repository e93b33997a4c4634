//! A baseline of next tokens: an interpolated trigram with the smoothing of Witten and Bell.
//!
//! The probability of a token behind a context of up to two tokens is `(c(context token) + t(context) p(token)) / (c(context) +
//! t(context))`. `c` counts in training, `t` is the number of different tokens behind the context, and `p` is the probability behind the
//! context without its first token; behind no context at all it is that of the vocabulary, each token alike. Sources: Witten and Bell
//! 1991, IEEE Transactions on Information Theory 37(4), method C; interpolated as in Chen and Goodman 1998, Harvard TR-10-98.
//!
//! A context reaches back to the start of its row, as that of a model does.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Example, ExampleTarget};

/// The most scored tokens of a training split: each may be a count of its own.
const MOST_TOKENS: usize = 5_000_000;

/// A model of next tokens that sees two tokens back.
#[derive(Clone, Debug)]
pub struct Trigram {
    /// Counts behind contexts of no token, of one and of two.
    tables: [ContextCounts; 3],
    vocabulary: usize,
}

/// What a trigram says of a split.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrigramScore {
    /// The share of scored tokens that it takes for the likeliest.
    pub accuracy: f64,
    /// `exp` of the mean loss of the scored tokens.
    pub perplexity: f64,
}

/// Counts of tokens behind contexts. A key is a context, filled up with zeros in front, and the token behind it.
#[derive(Clone, Debug, Default)]
struct ContextCounts {
    keys: Vec<[u32; 3]>,
    /// How often the keys before each come, and then how often all do.
    before: Vec<u64>,
}

/// The contexts of a place, the shortest first.
type Contexts = [[u32; 2]; 3];

impl ContextCounts {
    fn of(mut found: Vec<[u32; 3]>) -> Self {
        found.sort_unstable();
        let mut counts = Self { keys: vec![], before: vec![0] };
        let mut all = 0;
        for same in found.chunk_by(|a, b| a == b) {
            all += same.len() as u64;
            counts.keys.push(same[0]);
            counts.before.push(all);
        }
        counts
    }

    /// The keys with a context.
    fn behind(&self, [first, second]: [u32; 2]) -> Range<usize> {
        let from = self.keys.partition_point(|key| [key[0], key[1]] < [first, second]);
        from..from + self.keys[from..].partition_point(|key| [key[0], key[1]] == [first, second])
    }

    /// How often some keys come.
    fn count(&self, keys: Range<usize>) -> u64 {
        self.before[keys.end] - self.before[keys.start]
    }
}

impl Trigram {
    /// Counts a training split; `None` where the answers are others than the next tokens, and above 5 million of them.
    pub fn fit(examples: &[Example], vocabulary: usize) -> Option<Self> {
        let scored: usize = examples.iter().map(|example| answers(example).map(Iterator::count)).sum::<Option<_>>()?;
        if scored == 0 || scored > MOST_TOKENS {
            return None;
        }
        let mut found = [vec![], vec![], vec![]];
        for (tokens, at, answer) in examples.iter().filter_map(answers).flatten() {
            let (contexts, known) = contexts(tokens, at);
            for (keys, [first, second]) in found.iter_mut().zip(contexts).take(known) {
                keys.push([first, second, answer]);
            }
        }
        Some(Self { tables: found.map(ContextCounts::of), vocabulary })
    }

    /// Measures a split; `None` without a scored next token.
    pub fn measure(&self, examples: &[Example]) -> Option<TrigramScore> {
        let (mut nats, mut right, mut all) = (0.0, 0_u64, 0_u64);
        let mut known_answers = BTreeMap::new();
        for example in examples {
            for (tokens, at, answer) in answers(example)? {
                let (contexts, known) = contexts(tokens, at);
                let contexts = &contexts[..known];
                nats -= self.probability(contexts, answer).ln();
                let likeliest = *known_answers.entry(contexts.to_vec()).or_insert_with(|| self.likeliest(contexts));
                right += u64::from(likeliest == answer);
                all += 1;
            }
        }
        let share = |sum: f64| sum / all as f64;
        (all > 0).then(|| TrigramScore { accuracy: share(right as f64), perplexity: share(nats).exp() })
    }

    /// Returns the probability of a token behind contexts, of which the last is the longest.
    fn probability(&self, contexts: &[[u32; 2]], token: u32) -> f64 {
        let uniform = 1.0 / self.vocabulary as f64;
        self.tables.iter().zip(contexts).fold(uniform, |shorter, (table, [first, second])| {
            let keys = table.behind([*first, *second]);
            if keys.is_empty() {
                return shorter;
            }
            let own = table.keys[keys.clone()].binary_search(&[*first, *second, token]);
            let own = own.map_or(0, |at| table.count(keys.start + at..keys.start + at + 1));
            let kinds = keys.len() as f64;
            (own as f64 + kinds * shorter) / (table.count(keys) as f64 + kinds)
        })
    }

    /// Returns the likeliest token behind contexts, the first of equal ones.
    fn likeliest(&self, contexts: &[[u32; 2]]) -> u32 {
        let mut best = 0;
        for (length, (table, context)) in self.tables.iter().zip(contexts).enumerate() {
            // A token that never stood behind this context is no likelier than the likeliest behind the shorter one.
            let seen = table.keys[table.behind(*context)].iter().map(|[.., token]| *token);
            let mut tokens: Vec<u32> = seen.chain([best]).collect();
            tokens.sort_unstable();
            let of = |token: u32| self.probability(&contexts[..=length], token);
            let better = |(best, most): (u32, f64), token| {
                let own = of(token);
                if own > most { (token, own) } else { (best, most) }
            };
            best = tokens[1..].iter().copied().fold((tokens[0], of(tokens[0])), better).0;
        }
        best
    }
}

/// The contexts of the answer at a place, and how many of them there are.
fn contexts(tokens: &[u32], at: usize) -> (Contexts, usize) {
    match at {
        0 => ([[0, 0], [0, tokens[0]], [0, 0]], 2),
        _ => ([[0, 0], [0, tokens[at]], [tokens[at - 1], tokens[at]]], 3),
    }
}

/// The tokens of an example with the places and tokens of its scored answers; `None` where answers are no next tokens.
fn answers(example: &Example) -> Option<impl Iterator<Item = (&[u32], usize, u32)>> {
    let ExampleTarget::Each { class, weight } = &example.label else { return None };
    let tokens = example.tokens.as_slice();
    let is_next = !tokens.is_empty() && class.len() == tokens.len() && class[..tokens.len() - 1] == tokens[1..];
    let scored = class.iter().zip(weight).enumerate().filter(|(_, (_, weight))| **weight > 0.0);
    is_next.then(|| scored.map(move |(at, (class, _))| (tokens, at, *class)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtc_base::rng::Key;

    const WORDS: u32 = 6;

    /// Rows in which a token depends on the two before it.
    fn rows(count: u64, seed: u64) -> Vec<Example> {
        let row = |n: u64| {
            let mut draws = Key::new(seed).at(n).draws();
            let mut tokens = vec![0, 1];
            for _ in 0..2 + n % 9 {
                let last = tokens.len() - 1;
                let next = (tokens[last] + 2 * tokens[last - 1] + draws.below(3) as u32 / 2) % (WORDS - 1);
                tokens.push(next);
            }
            let (class, weight) = (tokens[1..].to_vec(), vec![1.0; tokens.len() - 1]);
            Example {
                label: ExampleTarget::Each { class, weight },
                ..Example::classified(tokens[..tokens.len() - 1].to_vec(), 0)
            }
        };
        (0..count).map(row).collect()
    }

    /// The formula on slices, without tables: how often a token stands behind a context, counted anew.
    fn by_hand(train: &[Example], context: &[u32], token: u32) -> f64 {
        let behind: Vec<u32> = train
            .iter()
            .flat_map(|row| {
                let whole: Vec<u32> =
                    row.tokens[..1].iter().copied().chain(row.asked().iter().map(|(c, _)| *c)).collect();
                let ends = 1..whole.len();
                let found = ends.filter(|end| whole[..*end].ends_with(context)).map(|end| whole[end]);
                found.collect::<Vec<_>>()
            })
            .collect();
        let shorter = match context {
            [] => 1.0 / f64::from(WORDS),
            [_, shorter @ ..] => by_hand(train, shorter, token),
        };
        let kinds = behind.iter().collect::<std::collections::BTreeSet<_>>().len() as f64;
        let own = behind.iter().filter(|other| **other == token).count() as f64;
        if behind.is_empty() { shorter } else { (own + kinds * shorter) / (behind.len() as f64 + kinds) }
    }

    #[test]
    fn perplexity_and_accuracy_are_those_of_the_formula() {
        let (train, dev) = (rows(60, 1), rows(25, 2));
        let model = Trigram::fit(&train, WORDS as usize).expect("next tokens");
        let (mut nats, mut right, mut all) = (0.0, 0, 0);
        for row in &dev {
            for (at, (answer, _)) in row.asked().into_iter().enumerate() {
                let context = &row.tokens[at.saturating_sub(1)..=at];
                let shares: Vec<f64> = (0..WORDS).map(|token| by_hand(&train, context, token)).collect();
                assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{shares:?}");
                let most = shares.iter().copied().fold(0.0, f64::max);
                let likeliest = shares.iter().position(|share| *share == most).expect("one of them");
                nats -= shares[answer as usize].ln();
                right += u32::from(likeliest == answer as usize);
                all += 1;
            }
        }
        let found = model.measure(&dev).expect("next tokens");
        assert!((found.perplexity - (nats / f64::from(all)).exp()).abs() < 1e-12, "{found:?}");
        assert_eq!(found.accuracy, f64::from(right) / f64::from(all));
        assert!(found.accuracy > 0.5 && found.perplexity < 4.0, "{found:?}");
    }

    #[test]
    fn other_answers_have_no_trigram() {
        let tagged = Example {
            label: ExampleTarget::Each { class: vec![1, 0, 1], weight: vec![1.0; 3] },
            ..Example::classified(vec![1, 2, 3], 0)
        };
        assert!(Trigram::fit(&[tagged], 4).is_none());
        assert!(Trigram::fit(&[Example::classified(vec![1, 2], 0)], 4).is_none());
        assert!(Trigram::fit(&[], 4).is_none());
        // Of a row that is scored in part, that part alone is counted and measured.
        let mut half = rows(1, 1).remove(0);
        if let ExampleTarget::Each { weight, .. } = &mut half.label {
            weight[1..].fill(0.0);
        }
        let model = Trigram::fit(std::slice::from_ref(&half), WORDS as usize).expect("a next token");
        assert_eq!(model.tables.each_ref().map(|table| table.keys.len()), [1, 1, 0]);
    }
}
