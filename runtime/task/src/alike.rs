//! Names of classes that a reader can't tell apart.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization;

/// A sentence for every class that looks as one before it, or is the same number: letters with composed and with combining marks, other
/// blanks, characters without a width, 1 and 1.0.
pub fn alike(classes: &[String]) -> Vec<String> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    let mut found = vec![];
    for class in classes {
        let key = shape(class);
        if let Some(first) = seen.get(&key) {
            let why =
                if shape_of_text(first) == shape_of_text(class) { "look the same" } else { "are the same number" };
            found.push(format!(
                "the classes `{first}` ({}) and `{class}` ({}) {why}, and are two classes: write them alike if they are one",
                written(first),
                written(class)
            ));
        } else {
            seen.insert(key, class);
        }
    }
    found
}

/// What a reader sees; of a number without the zeros at the end of its fraction.
fn shape(class: &str) -> String {
    let text = shape_of_text(class);
    let is_number = |text: &str| text.contains('.') && text.parse::<f64>().is_ok_and(f64::is_finite);
    if is_number(&text) { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn shape_of_text(class: &str) -> String {
    let has_width = |c: &char| !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    let plain: String = class.nfkc().filter(has_width).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text with its characters beyond ASCII as code points.
fn written(class: &str) -> String {
    class.chars().map(|c| if c.is_ascii() { c.to_string() } else { format!("<U+{:04X}>", u32::from(c)) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_look_the_same_are_told() {
        let names = ["caf\u{e9}", "cafe\u{301}", "a b", "a\u{a0}b", "x", "x\u{200b}", "1", "1.0", "2.50", "2.5"];
        let names = names.map(str::to_owned);
        let found = alike(&names);
        assert_eq!(found.len(), 5, "{found:#?}");
        assert!(
            found[0].contains("(caf<U+00E9>) and ") && found[0].contains("(cafe<U+0301>) look the same"),
            "{found:#?}"
        );
        assert!(found[3].contains("`1` (1) and `1.0` (1.0) are the same number"), "{found:#?}");
        let apart = ["cafe", "caf\u{e9}", "01", "1", "a", "A", "ab", "a b", "1.5", "15"].map(str::to_owned);
        assert!(alike(&apart).is_empty(), "{:#?}", alike(&apart));
    }
}
