//! Suggestions: the nearest of the names that would have been valid.

/// The candidate nearest to `written`, if it is near enough to be a slip of the pen.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let reach = match written.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    candidates
        .into_iter()
        .map(|name| (distance(written, name), name))
        .filter(|&(d, name)| d <= reach && d < name.chars().count())
        .min_by_key(|&(d, _)| d)
        .map(|(_, name)| name)
}

/// "did you mean `heads`?", or nothing when no candidate is near.
pub fn did_you_mean<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    closest(written, candidates).map_or_else(String::new, |name| format!("did you mean `{name}`?"))
}

/// "`a`, `b` and `c`" with the given last word.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    let quoted: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match quoted.split_last() {
        None => "none".to_owned(),
        Some((only, [])) => only.clone(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
    }
}

/// Edit distance in which swapping two neighbours counts once (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().take(64).collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (n, row) in rows.iter_mut().enumerate() {
        row[0] = n;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("heads", "heads"), 0);
        assert_eq!(distance("haeds", "heads"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn suggests_only_near_names() {
        assert_eq!(closest("hedas", ["heads", "hidden"]), Some("heads"));
        assert_eq!(closest("quux", ["heads", "hidden"]), None);
        assert_eq!(list(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
