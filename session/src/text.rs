//! Names and numbers for people.

use rtc_compiler::ir::formula::thousands;

use crate::failure::SessionFailure;

/// Whether a character controls how others are shown or read: control characters, marks of direction, characters without a width.
fn controls(c: char) -> bool {
    let marks = ['\u{200b}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2060}'..='\u{2069}', '\u{feff}'..='\u{feff}'];
    c.is_control() || marks.iter().any(|marks| marks.contains(&c))
}

/// Refuses control characters, as line feeds, where a text goes into lines that other programs read.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), SessionFailure> {
    if text.contains(controls) {
        return Err(SessionFailure::Usage(format!(
            "{what} must have no control characters: got {text:?}. Give another name"
        )));
    }
    Ok(())
}

/// A whole number with commas between thousands.
pub fn number(value: f64) -> String {
    let digits = thousands(&format!("{:.0}", value.abs()));
    if value < 0.0 && digits != "0" { format!("-{digits}") } else { digits }
}

/// `1 split`, `2 splits`.
pub fn count(number_of: usize, what: &str) -> String {
    format!("{} {what}{}", number(number_of as f64), if number_of == 1 { "" } else { "s" })
}

/// A span of time: `4.2 s`, `3 min 05 s`, `2 h 10 min`.
pub fn duration(seconds: f64) -> String {
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
    fn spans_of_time_have_units() {
        assert_eq!([4.25, 185.0, 7800.0].map(duration), ["4.2 s", "3 min 05 s", "2 h 10 min"]);
    }
}
