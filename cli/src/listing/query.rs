//! Which runs of a list are shown, and in which order.

use std::cmp::Ordering;

use rtc_session::memory;
use serde_json::Value;

use super::fields::{FieldValueKind, ListColumn, plain};
use super::{ListedRun, RunScore};

/// Units of time, in seconds.
pub(super) const AGES: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86400)];

/// What a condition asks of a field, the longer signs first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    NotEqual,
    AtLeast,
    AtMost,
    Equal,
    More,
    Less,
    Contains,
}

const SIGNS: [(&str, Sign); 7] = [
    ("!=", Sign::NotEqual),
    (">=", Sign::AtLeast),
    ("<=", Sign::AtMost),
    ("=", Sign::Equal),
    (">", Sign::More),
    ("<", Sign::Less),
    ("~", Sign::Contains),
];

/// `FIELD=VALUE`, or with another sign.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) column: ListColumn,
    sign: Sign,
    text: String,
    /// The value as a number of the field, where it is one.
    number: Option<f64>,
    /// Whether the value is a share as in `50%`: scores that are none have no such value.
    is_share: bool,
}

impl Condition {
    /// Reads one. The value of a field with numbers must be a number.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let at = text.find(['=', '!', '>', '<', '~']).filter(|at| *at > 0);
        let cut = at.and_then(|at| {
            let (sign, kind) = SIGNS.iter().find(|(sign, _)| text[at..].starts_with(sign))?;
            Some((&text[..at], *kind, &text[at + sign.len()..]))
        });
        let (name, sign, value) = cut.ok_or_else(|| {
            "a condition is wanted, as `state=finished`, `score>50%`, `age<2d`, `model~gut`".to_owned()
        })?;
        let column = ListColumn::named(name.trim());
        let value = value.trim();
        let number = operand(column.kind(), value)?;
        let orders = matches!(sign, Sign::AtLeast | Sign::AtMost | Sign::More | Sign::Less);
        if orders && number.is_none() {
            return Err(format!("`{value}` is no number: `{}` takes `=`, `!=` and `~` for it", column.name()));
        }
        let is_share = column.kind() == Some(FieldValueKind::Score) && value.ends_with('%');
        Ok(Self { column, sign, text: value.to_owned(), number, is_share })
    }

    /// Whether it holds for a run. Of a field without a value nothing holds but that it is not equal.
    pub(crate) fn holds(&self, run: &ListedRun) -> bool {
        let is_comparable = !self.is_share || run.score.as_ref().is_some_and(RunScore::is_share);
        let value = if is_comparable { self.column.value(run) } else { Value::Null };
        let parts = match &value {
            Value::Array(items) => items.as_slice(),
            one => std::slice::from_ref(one),
        };
        let is_equal = || parts.iter().any(|part| self.is(part)) || plain(&value) == self.text && !value.is_null();
        let compare = |wanted: &[Ordering]| {
            let order = value.as_f64().zip(self.number).and_then(|(value, wanted)| value.partial_cmp(&wanted));
            order.is_some_and(|order| wanted.contains(&order))
        };
        match self.sign {
            Sign::Equal => is_equal(),
            Sign::NotEqual => !is_equal(),
            Sign::Contains => parts.iter().any(|part| plain(part).contains(&self.text)),
            Sign::AtLeast => compare(&[Ordering::Greater, Ordering::Equal]),
            Sign::AtMost => compare(&[Ordering::Less, Ordering::Equal]),
            Sign::More => compare(&[Ordering::Greater]),
            Sign::Less => compare(&[Ordering::Less]),
        }
    }

    fn is(&self, value: &Value) -> bool {
        match (value.as_f64(), self.number) {
            (Some(value), Some(wanted)) => value == wanted,
            _ => !value.is_null() && plain(value) == self.text,
        }
    }
}

/// A value as a number: `50%`, `2GB`, `12h`. Texts, and settings, may be something else.
fn operand(kind: Option<FieldValueKind>, text: &str) -> Result<Option<f64>, String> {
    let number = || text.parse::<f64>().ok().filter(|number| number.is_finite());
    let is_wanted = |what: &str| format!("`{text}` is none: {what} is wanted");
    match kind {
        Some(FieldValueKind::Text | FieldValueKind::List) => Ok(None),
        None => Ok(number()),
        Some(FieldValueKind::Number) => number().map(Some).ok_or_else(|| is_wanted("a number")),
        Some(FieldValueKind::Bytes) => memory::parse(text).map(|bytes| Some(bytes as f64)),
        Some(FieldValueKind::Score) => {
            let share = text.strip_suffix('%').and_then(|share| share.trim().parse::<f64>().ok());
            let found = share.map(|share| share / 100.0).or_else(number);
            found.map(Some).ok_or_else(|| is_wanted("a number, or a share as in `50%`,"))
        }
        Some(FieldValueKind::Age) => {
            let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
            let unit = AGES.iter().find(|(unit, _)| *unit == text[digits..].trim());
            let found = unit.zip(text[..digits].parse::<f64>().ok()).map(|((_, length), count)| count * *length as f64);
            found.map(Some).ok_or_else(|| is_wanted("a time as in `90s`, `45min`, `12h`, `2d`"))
        }
    }
}

/// `FIELD`, or `-FIELD` for the largest first; of the score for the best first, which is the smallest perplexity or error.
#[derive(Clone)]
pub(crate) struct ListOrder {
    pub(crate) column: ListColumn,
    is_reversed: bool,
}

impl ListOrder {
    pub(crate) fn parse(text: &str) -> Self {
        let name = text.strip_prefix('-');
        Self { column: ListColumn::named(name.unwrap_or(text)), is_reversed: name.is_some() }
    }

    /// Which run comes first. One without a value comes last.
    pub(crate) fn compare(&self, a: &ListedRun, b: &ListedRun) -> Ordering {
        if let (Some(FieldValueKind::Score), Some(first), Some(second)) = (self.column.kind(), &a.score, &b.score) {
            let order = first.compare(second);
            let order = if self.is_reversed { order.reverse() } else { order };
            // Scores of different measures have no order: each measure has its place.
            return first.measure.cmp(second.measure).then(order);
        }
        let [a, b] = [a, b].map(|run| self.column.value(run));
        let order = match (&a, &b) {
            (Value::Null, _) | (_, Value::Null) => return a.is_null().cmp(&b.is_null()),
            _ => match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => plain(&a).cmp(&plain(&b)),
            },
        };
        if self.is_reversed { order.reverse() } else { order }
    }
}
