//! Colours and styles of pictures: one list of rules, two sets of colours.
//!
//! The colours of series differ in lightness as well as in hue, so that they stay apart for the colour-blind; after the
//! last one the lines are dashed. Heat is one hue from pale to deep.

use std::fmt::Write;

/// How many colours series have.
pub(crate) const SERIES: usize = 8;

/// How many levels of heat there are, from 1 on.
pub(crate) const LEVELS: usize = 10;

/// A name, its light colour, its dark colour.
type Colour = (&'static str, &'static str, &'static str);

const COLOURS: &[Colour] = &[
    ("paper", "#ffffff", "#14181d"),
    ("panel", "#f6f8fa", "#1b2127"),
    ("ink", "#1b1f24", "#e6eaee"),
    ("muted", "#59636e", "#9aa5b0"),
    ("grid", "#e6e9ec", "#2a3138"),
    ("axis", "#9aa3ac", "#56616c"),
    ("accent", "#0a63b8", "#6bb5ff"),
    ("loop", "#eef4fb", "#1c2733"),
    ("hot", "#d55e00", "#ff8a3d"),
    ("s0", "#0072b2", "#58b4f4"),
    ("s1", "#d55e00", "#ff8a3d"),
    ("s2", "#00875f", "#35d1a2"),
    ("s3", "#a9489b", "#e692d3"),
    ("s4", "#a37b00", "#efc24d"),
    ("s5", "#7a4b2a", "#c99c7a"),
    ("s6", "#5f6b76", "#b3bcc5"),
    ("s7", "#b0123b", "#ff7396"),
];

/// The ends of the heat of both themes.
const HEAT: [[[f64; 3]; 2]; 2] =
    [[[222.0, 235.0, 247.0], [8.0, 48.0, 107.0]], [[34.0, 52.0, 72.0], [190.0, 228.0, 255.0]]];

const RULES: &str = "\
.picture text{font-family:\"Noto Sans\",system-ui,\"Segoe UI\",Helvetica,Arial,sans-serif;font-size:12px;fill:var(--ink)}
.picture .paper{fill:var(--paper)}
.picture .title{font-size:14px;font-weight:bold}
.picture .tick,.picture .note{font-size:11px;fill:var(--muted)}
.picture .token{font-size:10px;fill:var(--muted)}
.picture .name{font-weight:bold}
.picture .grid{stroke:var(--grid);stroke-width:1;fill:none}
.picture .axis{stroke:var(--axis);stroke-width:1;fill:none}
.picture .hit{fill:transparent}
.picture .line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}
.picture .faint{fill:none;stroke-width:1;stroke-opacity:.3;stroke-linejoin:round}
.picture .mark{fill:none;stroke:var(--muted);stroke-width:1.2;stroke-dasharray:2 3}
.picture .over{paint-order:stroke;stroke:var(--paper);stroke-width:3;stroke-linejoin:round}
.picture .band{fill-opacity:.16}
.picture .dashed{stroke-dasharray:6 4}
.picture .stair{fill:none;stroke:var(--hot);stroke-width:2}
.picture .box{fill:var(--paper);stroke:var(--axis);stroke-width:1}
.picture .loop{fill:var(--loop);stroke:var(--accent);stroke-width:1.4}
.picture .side{fill:var(--panel);stroke:var(--axis);stroke-width:1;stroke-dasharray:4 3}
.picture .flow{fill:none;stroke:var(--muted);stroke-width:1.3}
.picture .back{fill:none;stroke:var(--accent);stroke-width:1.6}
.picture .track{fill:none;stroke-width:1.6;stroke-linejoin:round}
.picture .ridge{fill:var(--paper);fill-opacity:.8;stroke:var(--s0);stroke-width:1.2;stroke-linejoin:round}
.picture .tip{fill:var(--muted)}
.picture .backtip{fill:var(--accent)}
";

/// The rules with the colours of the light theme, for files, which may have a font of their own.
pub(crate) fn light(family: Option<&str>) -> String {
    let mut rules = rules();
    if let Some(family) = family {
        rules = rules.replacen("font-family:", &format!("font-family:\"{family}\","), 1);
    }
    for (name, colour) in colours(0) {
        rules = rules.replace(&format!("var(--{name})"), &colour);
    }
    rules
}

/// The rules with names for colours, and what the names stand for in both themes, for a page.
pub(crate) fn adaptive() -> String {
    let set = |theme| colours(theme).iter().map(|(name, colour)| format!("--{name}:{colour};")).collect::<String>();
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n{}",
        set(0),
        set(1),
        rules()
    )
}

fn rules() -> String {
    let mut out = RULES.to_owned();
    for n in 0..SERIES {
        writeln!(out, ".picture .l{n}{{stroke:var(--s{n})}}\n.picture .d{n}{{fill:var(--s{n});stroke:var(--paper);stroke-width:1}}\n\
             .picture .r{n}{{fill:none;stroke:var(--s{n});stroke-width:1.8}}\n.picture .b{n}{{fill:var(--s{n})}}")
            .expect("writing to a string does not fail");
    }
    for n in 1..=LEVELS {
        writeln!(out, ".picture .h{n}{{fill:var(--h{n})}}\n.picture .p{n}{{stroke:var(--h{n})}}")
            .expect("writing to a string does not fail");
    }
    out
}

fn colours(theme: usize) -> Vec<(String, String)> {
    let named = COLOURS.iter().map(|(name, light, dark)| ((*name).to_owned(), [*light, *dark][theme].to_owned()));
    let heat = (1..=LEVELS).map(|level| {
        let [from, to] = HEAT[theme];
        let share = (level - 1) as f64 / (LEVELS - 1) as f64;
        let part = |n: usize| (from[n] + share * (to[n] - from[n])).round() as u8;
        (format!("h{level}"), format!("#{:02x}{:02x}{:02x}", part(0), part(1), part(2)))
    });
    named.chain(heat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as WCAG defines it.
    fn luminance(colour: &str) -> f64 {
        let part = |n: usize| {
            let value = f64::from(u8::from_str_radix(&colour[n..n + 2], 16).expect("two digits")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn lines_and_texts_stand_out_from_the_paper_in_both_themes() {
        for theme in 0..2 {
            let colours = colours(theme);
            let paper = luminance(&colours[0].1);
            for (name, colour) in colours
                .iter()
                .filter(|(name, _)| name.starts_with('s') || ["ink", "muted", "hot"].contains(&name.as_str()))
            {
                let (low, high) = (paper.min(luminance(colour)), paper.max(luminance(colour)));
                let contrast = (high + 0.05) / (low + 0.05);
                assert!(contrast >= 3.0, "{name} in theme {theme}: {contrast:.1}");
            }
        }
    }

    #[test]
    fn a_file_names_no_colour_by_a_variable() {
        assert!(!light(None).contains("var("), "{}", light(None));
        assert!(adaptive().contains("prefers-color-scheme:dark"));
    }
}
