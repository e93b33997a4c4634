//! Records of a training besides its metrics: the texts that the model wrote, and how its parameters were distributed.

use std::fmt::Write;

use rtc_runs::record::watched::{ArrayHistogram, HistogramLine, ParameterHistograms, SampleLine};

use crate::data::{ReportRun, RunReport};
use crate::picture::Picture;
use crate::scale::number;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at, escape};

/// The most updates that a table or a picture shows: the first, the last, and others at equal distances.
const MOST: usize = 12;
/// The most parameters with a picture; the page says how many there are.
const PARAMETERS: usize = 60;

const LEFT: f64 = 52.0;
const ROOM: f64 = 236.0;
const RIGHT: f64 = 12.0;
/// The distance of two ridges, and the height of one: neighbours overlap.
const APART: f64 = 13.0;
const HEIGHT: f64 = 26.0;

const SAMPLES: &str = "What the model wrote behind every prompt (`samples` of the experiment). The draws are the same after every update.";
const HISTOGRAMS: &str = "The weights of every parameter and the gradients of its updates before clipping (`histograms` of the experiment). \
    A ridge is an update, and each is as high as the others. The numbers stand under the pointer.";

/// The texts of all runs, and the histograms of their parameters; nothing where none were recorded.
pub(crate) fn records(report: &RunReport, style: &FigureStyle) -> String {
    let several = report.runs.len() > 1;
    let mut out = String::new();
    for run in &report.runs {
        let of = if several { format!(" of {}", run.name) } else { String::new() };
        out += &texts(run, &of, !several);
        out += &histograms(run, &of, style);
    }
    out
}

/// The elements that are shown of some: the first, the last, and others at equal distances.
fn thinned<T>(all: &[T]) -> Vec<&T> {
    let last = all.len().saturating_sub(1);
    match all.len() <= MOST {
        true => all.iter().collect(),
        false => (0..MOST).map(|n| &all[n * last / (MOST - 1)]).collect(),
    }
}

fn texts(run: &ReportRun, of: &str, open: bool) -> String {
    if run.samples.is_empty() {
        return String::new();
    }
    let mut updates: Vec<u64> = run.samples.iter().map(|line| line.update).collect();
    updates.dedup();
    let shown: Vec<u64> = thinned(&updates).into_iter().copied().collect();
    let mut prompts: Vec<&str> = vec![];
    for line in &run.samples {
        if !prompts.contains(&line.prompt.as_str()) {
            prompts.push(&line.prompt);
        }
    }
    let left_out = match updates.len() > shown.len() {
        true => format!(" The table has {} of {} updates.", shown.len(), updates.len()),
        false => String::new(),
    };
    let open = if open { " open=\"open\"" } else { "" };
    let mut out = format!(
        "<details class=\"samples\"{open}><summary>Samples{}</summary>\n<p class=\"sub\">{}{left_out}</p>\n<div class=\"wide\"><table>\n\
         <thead><tr><th scope=\"col\">prompt</th><th scope=\"col\" class=\"n\">update</th><th scope=\"col\">text</th></tr></thead>\n<tbody>\n",
        escape(of),
        escape(SAMPLES),
    );
    for prompt in prompts {
        let own = run.samples.iter().filter(|line| line.prompt == prompt && shown.contains(&line.update));
        out += &own.map(row).collect::<String>();
    }
    out + "</tbody></table></div>\n</details>\n"
}

fn row(line: &SampleLine) -> String {
    format!(
        "<tr><td class=\"long\">{}</td><td class=\"n\">{}</td><td class=\"long written\">{}</td></tr>\n",
        escape(&line.prompt),
        line.update,
        escape(&line.text)
    )
}

fn histograms(run: &ReportRun, of: &str, style: &FigureStyle) -> String {
    let Some(last) = run.histograms.last() else { return String::new() };
    let shown = thinned(&run.histograms);
    let names: Vec<&String> = last.parameters.keys().collect();
    let mut told = HISTOGRAMS.to_owned();
    if run.histograms.len() > shown.len() {
        told += &format!(" The pictures have {} of {} updates.", shown.len(), run.histograms.len());
    }
    if names.len() > PARAMETERS {
        told += &format!(" They are of the first {PARAMETERS} of {} parameters.", names.len());
    }
    let mut out = format!(
        "<details class=\"histograms\"><summary>Histograms{}</summary>\n<p class=\"sub\">{}</p>\n<div class=\"row\">\n",
        escape(of),
        escape(&told)
    );
    for name in names.into_iter().take(PARAMETERS) {
        for (what, part) in KINDS {
            out += &ridges((run, name, what), &shown, part, style).map_or_else(String::new, |picture| picture.figure());
        }
    }
    out + "</div>\n</details>\n"
}

/// The arrays of a parameter that have histograms.
type PartOf = fn(&ParameterHistograms) -> &ArrayHistogram;
const KINDS: [(&str, PartOf); 2] = [("weights", |of| &of.weights), ("gradients", |of| &of.gradients)];

/// A ridge per update, the first one at the top, above one axis; nothing where no number is finite.
fn ridges(
    (run, name, what): (&ReportRun, &str, &str),
    shown: &[&HistogramLine],
    part: PartOf,
    style: &FigureStyle,
) -> Option<Picture> {
    let found = shown.iter().filter_map(|line| Some((line.update, part(line.parameters.get(name)?))));
    let found: Vec<(u64, &ArrayHistogram)> = found.filter(|(_, histogram)| histogram.count() > 0).collect();
    let (_, first) = found.first()?;
    let range = found.iter().fold((first.min, first.max), |(min, max), (_, one)| (min.min(one.min), max.max(one.max)));
    // Equal numbers have an axis, too.
    let (min, max) = if range.1 > range.0 { range } else { (range.0 - 0.5, range.1 + 0.5) };
    let x = |value: f64| LEFT + ROOM * (value - min) / (max - min);
    let title = format!("{name}: {what}");
    let mut svg = Svg::default();
    let lower = style.title(&mut svg, (8.0, LEFT + ROOM), &title);
    let top = 30.0 + lower + HEIGHT;
    let bottom = top + APART * (found.len() - 1) as f64;
    if min < 0.0 && max > 0.0 {
        svg.line("grid", (x(0.0), top - HEIGHT), (x(0.0), bottom));
    }
    for (n, (update, histogram)) in found.iter().enumerate() {
        let y = top + APART * n as f64;
        svg.path("ridge", &ridge(histogram, &x, y));
        svg.text("tick", (LEFT - 6.0, y + 3.0), Anchor::End, &number(*update as f64));
    }
    svg.line("axis", (LEFT, bottom), (LEFT + ROOM, bottom));
    svg.text("tick", (LEFT, bottom + 14.0), Anchor::Start, &short(min));
    svg.text("tick", (LEFT + ROOM, bottom + 14.0), Anchor::End, &short(max));
    for (n, (update, histogram)) in found.iter().enumerate() {
        let y = top + APART * n as f64;
        svg.rect("hit", (LEFT, y - APART), (ROOM, APART), 0.0, &described(*update, histogram));
    }
    let name = format!("histogram-{}-{name}-{what}", run.name);
    Some(Picture::new(&name, &title, (LEFT + ROOM + RIGHT, bottom + 20.0), svg, style))
}

/// The outline of a histogram above a height.
fn ridge(histogram: &ArrayHistogram, x: &dyn Fn(f64) -> f64, y: f64) -> String {
    let ArrayHistogram { min, max, .. } = histogram;
    // Few numbers in many intervals are all teeth.
    let together = match histogram.count() {
        0..64 => 4,
        64..256 => 2,
        _ => 1,
    };
    let counts: Vec<u64> = histogram.counts.chunks(together).map(|some| some.iter().sum()).collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mut data = format!("M{} {}", at(x(*min)), at(y));
    if max <= min {
        write!(data, "V{}V{}", at(y - HEIGHT), at(y)).expect("a string takes any text");
        return data;
    }
    for (n, count) in counts.iter().enumerate() {
        let middle = min + (max - min) * (n as f64 + 0.5) / counts.len() as f64;
        let height = HEIGHT * *count as f64 / most;
        write!(data, "L{} {}", at(x(middle)), at(y - height)).expect("a string takes any text");
    }
    write!(data, "L{} {}", at(x(*max)), at(y)).expect("a string takes any text");
    data
}

fn described(update: u64, histogram: &ArrayHistogram) -> String {
    let ArrayHistogram { min, max, rms, not_finite, .. } = histogram;
    let mut text = format!(
        "update {update}\nleast {}, largest {}, root mean square {}, {} numbers",
        short(*min),
        short(*max),
        short(*rms),
        number(histogram.count() as f64)
    );
    if *not_finite > 0 {
        text += &format!(", {not_finite} not finite");
    }
    text
}

/// A number in three digits.
fn short(value: f64) -> String {
    if value == 0.0 {
        return "0.00".to_owned();
    }
    if (1e-3..1e5).contains(&value.abs()) {
        let digits = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
        return format!("{value:.digits$}");
    }
    format!("{value:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_shown() {
        let all: Vec<usize> = (0..100).collect();
        let shown = thinned(&all);
        assert_eq!((shown.len(), *shown[0], *shown[MOST - 1]), (MOST, 0, 99));
        assert_eq!(thinned(&all[..3]), [&0, &1, &2]);
        assert!(thinned::<usize>(&[]).is_empty());
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.0, 1.0, -0.012_34, 1234.5, 1e-9].map(short), ["0.00", "1.00", "-0.0123", "1234", "1.00e-9"]);
    }
}
