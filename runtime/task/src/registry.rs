//! The table of tasks, and the task of an experiment.

use std::collections::BTreeMap;

use rtc_compiler::schema::Catalog;

use crate::error::{DataError, unknown};
use crate::options::{Options, resolve_options};
use crate::own::NAMES as OWN_TASKS;
use crate::task::strings::Formal;
use crate::task::{Task, TaskHandle, TaskSettings};
use crate::{characters, flip_flop, formal, listops, logic, lra, own, share, sudoku};

/// Every task.
pub static TASKS: &[&dyn Task] = &[
    &listops::ListOps,
    &logic::Logic,
    &flip_flop::FlipFlop,
    &lra::TextTask,
    &lra::Retrieval,
    &lra::Image,
    &lra::Pathfinder,
    &characters::Characters,
    &sudoku::Sudoku,
    &formal::regular::EVEN_PAIRS,
    &formal::regular::MODULAR_ARITHMETIC,
    &formal::regular::PARITY_CHECK,
    &formal::regular::CYCLE_NAVIGATION,
    &formal::DYCK,
    &formal::TOMITA,
    &formal::transduce::MODULAR_ARITHMETIC_BRACKETS,
    &formal::transduce::SOLVE_EQUATION,
    &formal::transduce::REVERSE_STRING,
    &formal::transduce::STACK_MANIPULATION,
    &formal::transduce::BINARY_ADDITION,
    &formal::transduce::BINARY_MULTIPLICATION,
    &formal::transduce::COMPUTE_SQRT,
    &formal::transduce::DUPLICATE_STRING,
    &formal::transduce::MISSING_DUPLICATE,
    &formal::transduce::ODDS_FIRST,
    &formal::transduce::BUCKET_SORT,
    &formal::looped::PARITY,
    &formal::looped::COPY,
    &formal::looped::ADDITION,
    &formal::looped::BINARY_SUM,
    &formal::looped::MULTIPLICATION,
    &formal::looped::UNIQUE_SET,
];

/// Opens the task of an experiment, with its complete options.
///
/// # Errors
/// A name or an option that there is not, or a training file from which nothing can be learned.
pub fn open_task(settings: &TaskSettings) -> Result<(TaskHandle, Options), DataError> {
    if let Some(task) = settings.known.task.get() {
        return Ok((task.clone(), Options::default()));
    }
    if let Some(own) = own::open(settings, settings.known.kept.as_deref()) {
        let task = settings.known.task.get_or_init({
            let own = own?;
            || TaskHandle::Own(own)
        });
        return Ok((task.clone(), Options::default()));
    }
    let plain = |message| DataError { file: settings.name.clone(), line: None, message };
    let task = task_named(&settings.name).map_err(plain)?;
    let options = resolve_options(task.about().options, &settings.options).map_err(plain)?;
    Ok((TaskHandle::BuiltIn(task), options))
}

/// What the compiler is told about a task with these options.
pub fn catalog(task: &dyn Task, options: &Options) -> Catalog {
    Catalog {
        task: Some(task.name().to_owned()),
        vocabulary: Some(task.vocabulary(options).len()),
        classes: Some(task.classes(options).len()),
        objective: Some(task.objective()),
        next_token: task.next_token(options),
    }
}

/// The task of this name, or a sentence that lists the tasks.
pub fn task_named(name: &str) -> Result<&'static dyn Task, String> {
    TASKS.iter().copied().find(|task| task.name() == name).ok_or_else(|| {
        let names = TASKS.iter().map(|task| task.name()).chain(OWN_TASKS.map(|(name, _)| name));
        let plain = name.to_lowercase().replace(['-', ' '], "_");
        let meant = SYNONYMS.iter().find(|(_, others)| others.contains(&&*plain));
        match (is_own(name), meant) {
            (true, _) => format!("`{name}` is a task on files of your own: only an experiment says which they are"),
            (false, Some((own, _))) => format!("there is no task `{name}`; on files of your own it is `{own}`"),
            (false, None) => unknown("task", name, names),
        }
    })
}

/// Tasks on files of the user as other programs name them.
const SYNONYMS: [(&str, &[&str]); 6] = [
    (
        "table",
        &[
            "classification",
            "text_classification",
            "sequence_classification",
            "classify",
            "classifier",
            "regression",
            "sentiment",
            "tabular",
            "csv",
        ],
    ),
    ("pairs", &["pair", "nli", "entailment", "similarity", "pair_classification", "sentence_pair", "paraphrase"]),
    ("tagging", &["ner", "pos", "token_classification", "sequence_labeling", "sequence_labelling", "tags"]),
    (
        "sequences",
        &[
            "seq2seq",
            "translation",
            "summarization",
            "summarisation",
            "question_answering",
            "text2text",
            "text2text_generation",
        ],
    ),
    ("masked", &["mlm", "masked_lm", "masked_language_modeling", "masked_language_modelling", "fill_mask"]),
    (
        "language",
        &[
            "lm",
            "language_model",
            "language_modeling",
            "language_modelling",
            "causal_lm",
            "text_generation",
            "generation",
            "text",
        ],
    ),
];

/// Whether a task on files of the user has this name.
fn is_own(name: &str) -> bool {
    OWN_TASKS.iter().any(|(own, _)| *own == name)
}

/// Refuses a name that no task has, built in or on files of the user.
///
/// # Errors
/// As [`task_named`].
pub fn check_name(name: &str) -> Result<(), String> {
    if is_own(name) { Ok(()) } else { task_named(name).map(drop) }
}

/// The task on strings of this name, if it is one.
pub fn formal_named(name: &str) -> Option<&'static Formal> {
    task_named(name).ok()?.formal()
}

/// Whether a task on files of the user's own has a split; nothing for other tasks.
pub fn own_split(settings: &TaskSettings, name: &str) -> Option<Result<(), String>> {
    own::split_names(settings).map(|splits| own::split(&settings.name, &splits, name).map(drop))
}

/// Refuses shares of a training file that make no sense.
pub fn check_shares(files: &BTreeMap<String, String>) -> Result<(), String> {
    share::shares(files).map(drop)
}
