//! The text of the experiment that is written for a file.

use std::fmt::Write as _;

use rtc_runtime::task::FileLook;

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

/// A text in YAML, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
