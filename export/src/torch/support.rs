//! The Python that a module may need besides its own class: sections, each written only where it is used.

/// A section: its text, the names that it defines, and the sections that it builds on.
struct SupportSection {
    name: &'static str,
    text: &'static str,
    uses: &'static [&'static str],
}

macro_rules! sections {
    ($($name:literal ($($uses:literal),*),)*) => {
        /// All sections, each behind those that it uses.
        const SECTIONS: &[SupportSection] = &[$(SupportSection {
            name: $name,
            text: include_str!(concat!("support/", $name, ".py")),
            uses: &[$($uses),*],
        },)*];
    };
}

sections! {
    "slots" (),
    "parameter" (),
    "rows" (),
    "inputs" (),
    "frame" (),
    "prefix" (),
    "unprefix" (),
    "transposed" (),
    "pad_ragged" (),
    "positions" (),
    "add_position" (),
    "waves" (),
    "rotate" (),
    "conditions" (),
    "lerp" (),
    "quiet" (),
    "times" ("quiet"),
    "whole" (),
    "log" (),
    "numbers" ("quiet"),
    "look_up" (),
    "defined" (),
    "attention" (),
    "rms_norm" (),
    "relative" ("positions"),
    "geometric_attention" (),
    "convolve" (),
    "s4d" ("convolve"),
    "ema" ("convolve"),
    "tied_dropout" (),
    "cut_normal" (),
    "running_sum" (),
    "largest" (),
    "shift" (),
    "softmax_along" (),
    "before_last" (),
    "pair" (),
    "neighbours" (),
    "recur" ("rows"),
    "widths" (),
    "chunks" ("rows"),
    "chosen" ("rows"),
    "top" (),
    "top_keys" (),
    "cut" (),
    "fold" ("rows", "cut"),
    "fixed_bits" (),
    "beam" ("rows", "cut", "fixed_bits"),
}

/// The text of some sections and of those that they use, in the order of the table.
pub(super) fn text(wanted: &[&str]) -> String {
    let mut needed = wanted.to_vec();
    for section in SECTIONS.iter().rev() {
        if needed.contains(&section.name) {
            needed.extend(section.uses);
        }
    }
    let used = SECTIONS.iter().filter(|section| needed.contains(&section.name));
    used.map(|section| section.text.trim_end()).collect::<Vec<_>>().join("\n\n\n")
}

/// The names that the sections define, which no value may have.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let lines = SECTIONS.iter().flat_map(|section| section.text.lines());
    lines.filter_map(|line| {
        let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?;
        rest.split(['(', ':']).next()
    })
}
