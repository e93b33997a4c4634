//! How long the trainings of a run took, and how far it is, from `timing.jsonl`.

use std::path::Path;

use rtc_runtime::record::history::Progress;
use serde::Deserialize;

use crate::failure::Failure;

/// What a line says.
#[derive(Deserialize)]
struct Line {
    /// Seconds since the program opened the folder.
    seconds: f64,
    /// Updates of the whole run, where it begins.
    total: Option<u64>,
}

/// What the times of a run say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// Seconds from the beginning of every program that trained it to the last line that it wrote, together.
    pub(super) seconds: Option<f64>,
    /// Updates of the whole run, if it does not stop early.
    pub(super) total: Option<u64>,
}

impl Times {
    /// Reads them, after all lines were checked.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        Progress::read(folder)?;
        let file = folder.join("timing.jsonl");
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = std::fs::read(&file).map_err(|error| Failure::io("read", &file, error))?;
        Ok(Self::of(&String::from_utf8_lossy(&text)))
    }

    fn of(text: &str) -> Self {
        // The last line may be half of one.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let lines: Vec<Line> = whole.filter_map(|line| serde_json::from_str(line).ok()).collect();
        // Where the clock goes back another program went on.
        let last = |n: &usize| lines.get(n + 1).is_none_or(|next| next.seconds < lines[*n].seconds);
        let seconds = (0..lines.len()).filter(last).map(|n| lines[n].seconds);
        Self {
            seconds: (!lines.is_empty()).then(|| seconds.sum()),
            total: lines.iter().rev().find_map(|line| line.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_run_are_added_up() {
        let line = |seconds: f64| format!("{{\"what\":\"train\",\"update\":1,\"seconds\":{seconds}}}\n");
        let begins = "{\"what\":\"begins\",\"update\":0,\"seconds\":0.5,\"total\":30}\n";
        let text = format!("{begins}{}{}{begins}{}{{\"what\":\"tr", line(2.0), line(4.0), line(3.0));
        assert_eq!(Times::of(&text), Times { seconds: Some(7.0), total: Some(30) });
        assert_eq!(Times::of(""), Times::default());
    }
}
