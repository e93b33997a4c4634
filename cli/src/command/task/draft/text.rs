//! The text of the experiment that is written for a file.

use std::fmt::Write as _;
use std::path::Path;

use rtc_session::text::number;
use rtc_task::{FileLook, Format, file_format};

use super::{AnswerArg, Draft, TaskArg};

/// The experiment for a file of this name.
pub(super) fn experiment(name: &str, found: &FileLook, draft: &Draft) -> String {
    let share = if draft.task == TaskArg::Language { "5%" } else { "10%" };
    let mut text =
        format!("task:\n  name: {}\n  data: {{ train: {}, dev: {share} }}\n", draft.task.name(), quoted(name));
    let column = |at: &usize| {
        let name = &found.columns[*at].name;
        if found.headless { name.clone() } else { quoted(name) }
    };
    let mut line = |name: &str, value: String| writeln!(text, "  {name}: {value}").expect("a text takes all");
    if file_format(Path::new(name)) != Some(found.format) {
        line("format", format_name(found.format).to_owned());
    }
    match &draft.inputs[..] {
        [] => {}
        [input] => line("input", column(input)),
        inputs => line("input", format!("[{}]", inputs.iter().map(column).collect::<Vec<_>>().join(", "))),
    }
    if let Some(label) = &draft.label {
        line("label", column(label));
    }
    if draft.answer != AnswerArg::Class {
        line("answer", draft.answer.name().to_owned());
    }
    if let Some(separator) = draft.separator {
        line("separator", quoted(&separator.to_string()));
    }
    if matches!(found.format, Format::Csv | Format::Tsv) {
        if !found.form.quotes {
            line("quotes", "none".to_owned());
        }
        if let Some(mark) = found.form.delimiter {
            line("delimiter", quoted(&char::from(mark).to_string()));
        }
    }
    if draft.inputs.iter().chain(&draft.label).any(|&column| found.columns[column].class_names) {
        line("class_names", "file".to_owned());
    }
    if let Some(encoding) = found.form.encoding {
        line("encoding", encoding.name().to_lowercase());
    }
    if draft.comma {
        line("decimal", "comma".to_owned());
    }
    if draft.skips {
        line("unlabelled", "skip".to_owned());
    }
    if draft.stratify {
        line("stratify", "true".to_owned());
    }
    if draft.task != TaskArg::Tagging {
        line("tokens", draft.tokens.to_owned());
    }
    if let Some(length) = draft.length {
        line("length", length.to_string());
    }
    let warmup = warmup(found.rows, draft.task);
    text += &format!(
        "optimiser: {{ learning_rate: 0.001, clip: 1 }}\nschedule: {{ kind: cosine, warmup: {warmup} }}\n\
         batch: {{ size: {BATCH}, buckets: length }}\nepochs: {EPOCHS}\nevaluate: [dev]\n"
    );
    text + &sizes(found.rows)
}

/// Rows of an update, and passes over them.
const BATCH: usize = 32;
const EPOCHS: usize = 5;

/// Updates of the warm-up: 100, or a tenth of those of the run. Those of `language` are counted by windows, not by rows.
fn warmup(rows: usize, task: TaskArg) -> usize {
    let updates = (rows - rows / 10).div_ceil(BATCH) * EPOCHS;
    if task == TaskArg::Language { 100 } else { (updates / 10).clamp(1, 100) }
}

/// The name of a format in experiments.
fn format_name(format: Format) -> &'static str {
    match format {
        Format::Csv => "csv",
        Format::Tsv => "tsv",
        Format::Json => "json",
        Format::Parquet => "parquet",
        Format::Text => "text",
    }
}

/// Rows up to which models have a quarter of the widths of the papers, and half of them.
const FEW: [usize; 2] = [20_000, 200_000];

/// The built-in models as wide as the papers have them, with their settings that are widths or numbers of heads.
const WIDE: [(&str, &[&str]); 5] = [
    ("transformer", &["embed.width", "self.heads", "feedforward.hidden"]),
    ("ut", &["embed.width", "self.heads", "feedforward.hidden"]),
    ("gut", &["embed.width", "self.heads", "feedforward.hidden", "mlp.hidden"]),
    (
        "tlb",
        &[
            "embed.width",
            "stack.self.heads",
            "stack.memory.heads",
            "stack.feedforward.hidden",
            "update.chunk.heads",
            "update.feedforward.hidden",
        ],
    ),
    (
        "gutlb",
        &[
            "embed.width",
            "depthwise.self.heads",
            "depthwise.memory.heads",
            "depthwise.feedforward.hidden",
            "mlp.hidden",
            "update.chunk.heads",
            "update.feedforward.hidden",
        ],
    ),
];

/// Widths for models on a number of rows: the models of the papers learn few rows by heart.
fn sizes(rows: usize) -> String {
    let (share, part) = match rows {
        _ if rows <= FEW[0] => (4, "A quarter"),
        _ if rows <= FEW[1] => (2, "Half"),
        _ => return String::new(),
    };
    let mut text = format!("# {part} of the papers' widths, for {} rows.\nmodels:\n", number(rows as f64));
    for (model, paths) in WIDE {
        let set = paths.iter().map(|path| {
            let value = match path.rsplit('.').next() {
                Some("heads") => 16 / share,
                Some("width") => 512 / share,
                _ if *path == "update.feedforward.hidden" => 512 / share,
                _ => 1024 / share,
            };
            format!("{path}={value}")
        });
        writeln!(text, "  {model}: {{ set: [{}] }}", set.collect::<Vec<_>>().join(", ")).expect("a text takes all");
    }
    text
}

/// A text in YAML, whatever is in it: between `'` ends of lines would be blanks.
fn quoted(text: &str) -> String {
    let is_marked = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if !text.contains(is_marked) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let one = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if is_marked(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(one).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_as_they_are() {
        for name in
            ["text", "it's", "a: b #c", "a\nb", "a\r\n\"b\\\"", "a\tb", "a\u{85}b\u{2028}c", "{a}", "", " a ", "ä"]
        {
            assert_eq!(serde_yaml::from_str::<String>(&quoted(name)).as_deref().ok(), Some(name), "{}", quoted(name));
        }
    }
}
