//! Numbers and columns for people.

use rtc_compiler::ir::formula::thousands;

use crate::failure::CommandFailure;

/// Whether a character controls how others are shown or read: control characters, marks of direction, characters without a width.
fn controls(c: char) -> bool {
    let marks = ['\u{200b}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2060}'..='\u{2069}', '\u{feff}'..='\u{feff}'];
    c.is_control() || marks.iter().any(|marks| marks.contains(&c))
}

/// Refuses control characters, as line feeds, where a text goes into lines that other programs read.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), CommandFailure> {
    if text.contains(controls) {
        return Err(CommandFailure::Usage(format!(
            "{what} must have no control characters: got {text:?}. Give another name"
        )));
    }
    Ok(())
}

/// A whole number with commas between thousands.
pub(crate) fn number(value: f64) -> String {
    let digits = thousands(&format!("{:.0}", value.abs()));
    if value < 0.0 && digits != "0" { format!("-{digits}") } else { digits }
}

/// `1 split`, `2 splits`.
pub(crate) fn count(number_of: usize, what: &str) -> String {
    format!("{} {what}{}", number(number_of as f64), if number_of == 1 { "" } else { "s" })
}

/// Rows with aligned columns, two blanks apart, without blanks at the ends of lines.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..).map_while(widest).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

/// A row of CSV (RFC 4180): quotes around what holds a comma, a quote or a line end.
pub(crate) fn csv_row(fields: &[String]) -> String {
    let quoted = |field: &String| match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    };
    fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A span of time: `4.2 s`, `3 min 05 s`, `2 h 10 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_hide_others_are_refused() {
        for text in ["a\nb", "a\u{202e}b", "\u{feff}a", "a\u{200b}"] {
            assert!(check_text("a name", text).is_err(), "{text:?}");
        }
        assert!(check_text("a name", "größe_été-1").is_ok());
    }

    #[test]
    fn numbers_have_commas() {
        let texts = [0.0, 7.0, 999.0, 1000.0, -1_234_567.0, -0.2].map(number);
        assert_eq!(texts, ["0", "7", "999", "1,000", "-1,234,567", "0"]);
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["a", "bb"], ["ccc", "d"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "a    bb\nccc  d\n");
        assert_eq!([4.25, 185.0, 7800.0].map(duration), ["4.2 s", "3 min 05 s", "2 h 10 min"]);
    }
}
