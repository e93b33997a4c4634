//! The text of the experiment that is written for a file.

use std::fmt::Write as _;

use rtc_task::{FileLook, Format};

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
    if let Some(encoding) = found.form.encoding {
        line("encoding", encoding.name().to_lowercase());
    }
    if draft.comma {
        line("decimal", "comma".to_owned());
    }
    if draft.skips {
        line("unlabelled", "skip".to_owned());
    }
    if draft.task != TaskArg::Tagging {
        line("tokens", draft.tokens.to_owned());
    }
    if let Some(length) = draft.length {
        line("length", length.to_string());
    }
    text + "optimiser: { learning_rate: 0.001, clip: 1 }\nschedule: { kind: cosine, warmup: 100 }\n\
            batch: { size: 32, buckets: length }\nepochs: 5\nevaluate: [dev]\n# A quarter of the paper's widths.\nmodels:\n  \
            gut: { set: [embed.width=128, self.heads=4, feedforward.hidden=256, mlp.hidden=256] }\n"
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
