//! Errors of data, and the wording of messages about names.

use rtc_compiler::diag::distance;

/// A broken row of a data file, or a split that can't be filled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", located(file, *line, message))]
pub struct DataError {
    /// The file, or the task for generated data.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

/// `file:line: message`, the form that editors turn into a link.
pub fn located(file: &str, line: Option<usize>, message: &str) -> String {
    line.map_or_else(|| format!("{file}: {message}"), |line| format!("{file}:{line}: {message}"))
}

/// The candidate that `name` was probably meant to be: one with the same words in another order, the only one that goes on from it, or the
/// nearest by edits, if at most a third of it differs.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let words = |name: &str| {
        let mut words: Vec<String> = name.split(['_', '-']).map(str::to_lowercase).collect();
        words.sort();
        words
    };
    let turned = || candidates.iter().find(|candidate| words(candidate) == words(name));
    let longer = || {
        let mut longer = candidates.iter().filter(|candidate| name.len() > 2 && candidate.starts_with(name));
        longer.next().filter(|_| longer.next().is_none())
    };
    let most = (name.chars().count() / 3).max(1);
    let near = || {
        let distances = candidates.iter().map(|candidate| (distance(name, candidate), candidate));
        distances.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, near)| near)
    };
    turned().or_else(longer).or_else(near).copied()
}

/// The sentence for a name that is none of the candidates: what it is, the near one, and the whole list.
pub fn unknown<N: AsRef<str>>(what: &str, name: &str, candidates: impl IntoIterator<Item = N>) -> String {
    let candidates: Vec<N> = candidates.into_iter().collect();
    let known: Vec<&str> = candidates.iter().map(N::as_ref).collect();
    format!("there is no {what} `{name}`{} (known: {})", hint(name, &known), known.join(", "))
}

/// The end of a sentence about a wrong name, where one of the candidates is near.
pub fn hint(name: &str, candidates: &[&str]) -> String {
    suggest(name, candidates.iter().copied()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        assert_eq!(suggest("learning_rat", ["batch", "learning_rate"]), Some("learning_rate"));
        assert_eq!(suggest("wamup", ["warmup", "total"]), Some("warmup"));
        assert_eq!(suggest("xyz", ["warmup", "total"]), None);
        assert_eq!(suggest("lats", ["best", "last"]), Some("last"));
        assert_eq!(suggest("acc", ["auc", "accuracy", "balanced_accuracy"]), Some("accuracy"));
        assert_eq!(suggest("f1_macro", ["f1", "macro_f1"]), Some("macro_f1"));
        assert_eq!(suggest("los", ["loss", "lost"]), Some("loss"), "two go on from it");
        assert_eq!(suggest("a", ["abc"]), None);
    }
}
