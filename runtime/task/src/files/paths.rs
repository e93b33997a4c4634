//! Files by patterns: `*` and `?` in the last part of a path.

use std::path::{Path, PathBuf};

use crate::error::DataError;
use crate::reading::{entries, unreadable};

/// Whether a path is a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// The files that a path means, in the order of their names; one that is no pattern means itself.
///
/// # Errors
/// No file has such a name, or a folder has one.
pub(crate) fn matching(path: &Path) -> Result<Vec<PathBuf>, DataError> {
    // A file may have the name of a pattern.
    if !is_pattern(&path.to_string_lossy()) || path.is_file() {
        return if path.is_dir() { Err(unreadable(path, FOLDER)) } else { Ok(vec![path.to_owned()]) };
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_pattern(&folder.to_string_lossy()) {
        return Err(unreadable(path, "`*` and `?` can stand in the name of a file, not in that of a folder"));
    }
    let own = |path: &Path| path.file_name().map(|own| own.to_string_lossy().into_owned()).unwrap_or_default();
    let name = own(path);
    let mut found = entries(folder)?;
    found.retain(|path| fits(&name, &own(path)) && path.is_file());
    found.sort();
    if found.is_empty() { Err(unreadable(path, "no file has such a name")) } else { Ok(found) }
}

const FOLDER: &str = "this is a folder: name a file, or a pattern as `part-*.csv`";

/// Whether a path leads somewhere.
pub fn there(path: &Path) -> bool {
    if is_pattern(&path.to_string_lossy()) { matching(path).is_ok() } else { path.exists() }
}

/// Whether a name fits a pattern: `*` stands for any characters, `?` for one. A `*` takes as few characters as it can, and only the last
/// one that was met takes more: the time grows with the product of both lengths at most.
fn fits(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.chars(), name.chars());
    // What stands behind the last `*`, and the name behind the characters that it took.
    let mut last = None;
    loop {
        let left = name.clone();
        match (pattern.next(), name.next()) {
            (Some('*'), _) => {
                name = left.clone();
                last = Some((pattern.clone(), left));
            }
            (None, None) => return true,
            (Some(wanted), Some(c)) if wanted == '?' || wanted == c => {}
            (None | Some(_), _) => {
                let Some((behind, taken)) = &mut last else { return false };
                if taken.next().is_none() {
                    return false;
                }
                (pattern, name) = (behind.clone(), taken.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, expected) in [
            ("part-*.csv", "part-01.csv", true),
            ("part-*.csv", "part-01.csv.gz", false),
            ("p?.t*", "pä.txt", true),
            ("*", "", true),
            ("?", "", false),
            ("**a", "bca", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
            ("*ab*b", "aabcb", true),
            ("*ab*bc", "aabcb", false),
            ("*?a", "a", false),
            ("*.c?v*", "é.a.csv", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// A reader that tries every end of every `*` would not be done in a lifetime.
    #[test]
    fn many_stars_take_no_longer_than_the_name_is_long() {
        assert!(!fits(&format!("{}b", "a*".repeat(120)), &"a".repeat(250)));
        assert!(fits(&format!("{}b", "a*".repeat(120)), &format!("{}b", "a".repeat(250))));
    }
}
