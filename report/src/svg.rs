//! SVG as text: escaping, coordinates, elements.

use std::fmt::Write;

/// Text for XML and HTML, inside elements and quoted attributes. Characters that XML forbids become U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ if c.is_control() => out.push('\u{fffd}'),
            _ => out.push(c),
        }
    }
    out
}

/// A coordinate with at most one digit behind the point.
pub(crate) fn at(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    // No `-0`.
    format!("{}", rounded + 0.0)
}

/// Where a text stands with respect to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The elements of a picture, one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Svg(String);

impl Svg {
    /// The elements as text.
    pub(crate) fn finish(self) -> String {
        self.0
    }

    /// A text.
    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>",
            at(x),
            at(y),
            escape(text)
        ));
    }

    /// A text that runs upwards, centred at its point.
    pub(crate) fn upwards(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y) = (at(x), at(y));
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escape(text)
        ));
    }

    /// A text that runs upwards and ends at its point.
    pub(crate) fn hanging(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let (x, y) = (at(x), at(y));
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\" transform=\"rotate(-90 {x} {y})\">{}</text>",
            escape(text)
        ));
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!("<path class=\"{class}\" d=\"M{} {}L{} {}\"/>", at(x1), at(y1), at(x2), at(y2)));
    }

    /// A rectangle with round corners and, where `title` is not empty, a text that appears under the pointer.
    pub(crate) fn rect(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        round: f64,
        title: &str,
    ) {
        let round = if round > 0.0 { format!(" rx=\"{}\"", at(round)) } else { String::new() };
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{round}{}",
            at(x),
            at(y),
            at(width),
            at(height),
            titled("rect", title)
        ));
    }

    /// A disc with a text that appears under the pointer.
    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        self.push(format_args!(
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"{}",
            at(x),
            at(y),
            at(radius),
            titled("circle", title)
        ));
    }

    /// A path; `data` is made of numbers and letters of ours.
    pub(crate) fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            self.push(format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
        }
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("writing to a string does not fail");
    }
}

/// The end of an element: with a title inside or without.
fn titled(element: &str, title: &str) -> String {
    if title.is_empty() { "/>".to_owned() } else { format!("><title>{}</title></{element}>", escape(title)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_user_writes_is_markup() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{0}\u{8}"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([1.0, 2.25, -0.01, 100.04].map(at), ["1", "2.3", "0", "100"]);
    }
}
