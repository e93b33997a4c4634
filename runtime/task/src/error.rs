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

/// The candidate that `name` was probably meant to be: the nearest by edits, if at most a third of it differs.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
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
    }
}
