//! Successive halving, as an experiment asks for it: at some updates the worst rows of a grid are stopped.
//!
//! Source: Jamieson and Talwalkar 2016 (arXiv 1502.07943), Algorithm 1; as one bracket of Hyperband (Li et al. 2018, JMLR 18).

use schemars::JsonSchema;
use serde_yaml::Value;

/// At which updates rows are stopped, and how many go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Halving {
    /// The share of the rows that goes on, between 0 and 1.
    keep: f64,
    /// The updates, in ascending order.
    pub at: Vec<u64>,
}

/// The block as it is written.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code, reason = "only its form is read")]
pub(super) struct Halved {
    /// The share of the rows that goes on, as `1/3` or `0.5`.
    keep: Share,
    /// The updates at which rows are stopped, in ascending order.
    at: Vec<u64>,
}

/// A share.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "only its form is read")]
enum Share {
    /// `0.5`
    Number(f64),
    /// `1/3`
    Text(String),
}

/// What is wrong with a share.
const KEEP: &str = "`keep` is the share of the rows that goes on, between 0 and 1, as in `1/3`";

/// What is wrong with the updates.
const AT: &str = "`at` lists updates in ascending order, as in `[500, 1500]`";

impl Halving {
    /// A share, as `1/3` or `0.5`, and updates.
    ///
    /// # Errors
    /// A sentence.
    pub fn new(keep: &str, at: Vec<u64>) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let share = match keep.split_once('/') {
            Some((a, b)) => number(a).zip(number(b)).map(|(a, b)| a / b),
            None => number(keep),
        };
        let keep = share.filter(|keep| *keep > 0.0 && *keep < 1.0).ok_or(KEEP)?;
        let ascends = at.windows(2).all(|pair| pair[0] < pair[1]);
        if at.is_empty() || at[0] == 0 || !ascends { Err(AT.to_owned()) } else { Ok(Self { keep, at }) }
    }

    /// `1/3@500,1500`, as on the command line.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || "a share and updates are wanted, as in `1/3@500,1500`".to_owned();
        let (keep, at) = text.split_once('@').ok_or_else(form)?;
        let at = at.split(',').map(|update| update.trim().parse().ok()).collect::<Option<_>>().ok_or_else(form)?;
        Self::new(keep, at)
    }

    /// The block `halving`.
    pub(super) fn read(block: &Value) -> Result<Self, String> {
        let form = || "takes a share and updates, as in `{ keep: 1/3, at: [500, 1500] }`".to_owned();
        let fields = block.as_mapping().ok_or_else(form)?;
        let known = fields.keys().all(|key| matches!(key.as_str(), Some("keep" | "at")));
        let keep = match fields.get("keep") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => return Err(form()),
        };
        let at = fields.get("at").and_then(Value::as_sequence).filter(|_| known).ok_or_else(form)?;
        let at = at.iter().map(Value::as_u64).collect::<Option<_>>().ok_or(AT)?;
        Self::new(&keep, at)
    }

    /// How many of so many rows go on: at least one.
    pub fn kept(&self, rows: usize) -> usize {
        // A third of nine is three, also where the quotient is rounded up.
        ((rows as f64 * self.keep - 1e-9).ceil() as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_updates_are_read_and_checked() {
        let third = Halving::parse("1/3@500,1500").expect("valid");
        assert_eq!(third.at, [500, 1500]);
        assert_eq!([1, 2, 3, 4, 9, 10].map(|rows| third.kept(rows)), [1, 1, 1, 2, 3, 4]);
        let block = |text: &str| Halving::read(&serde_yaml::from_str(text).expect("YAML"));
        assert_eq!(block("{ keep: 1/3, at: [500, 1500] }"), Ok(third));
        assert_eq!(block("{ keep: 0.5, at: [2] }").map(|half| half.kept(5)), Ok(3));
        for wrong in
            ["{ keep: 1, at: [5] }", "{ keep: 1/2, at: [] }", "{ keep: 1/2, at: [5, 5] }", "{ keep: 1/2 }", "7"]
        {
            assert!(block(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1/3", "1/3@", "2@5", "1/0@5", "x@5", "1/2@0"] {
            assert!(Halving::parse(wrong).is_err(), "{wrong}");
        }
    }
}
