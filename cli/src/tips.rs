//! Tips for arguments that are refused: the option that is meant, the command that has it, and values in words.

use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Options as other programs name them, with the arguments of rtc.
const OPTIONS: [(&[&str], &str); 12] = [
    (&["--lr", "--learning-rate", "--learning_rate"], "--with optimiser.learning_rate=RATE"),
    (&["--wd", "--weight-decay", "--weight_decay"], "--with optimiser.weight_decay=RATE"),
    (&["--optimizer", "--optimiser"], "--with optimiser.kind=NAME"),
    (&["--epochs", "--num-epochs", "--num_epochs"], "--with epochs=N"),
    (&["--batch-size", "--batch_size", "--bs"], "--with batch.size=N"),
    (&["--steps", "--max_steps", "--num-steps", "--iterations"], "--max-steps N"),
    (&["--warmup", "--warmup-steps", "--warmup_steps"], "--with schedule.warmup=N"),
    (&["--dropout"], "--set dropout=SHARE"),
    (&["--gpu", "--gpus", "--cuda"], "--device cuda"),
    (&["--config", "--cfg", "--task"], "--experiment FILE"),
    (&["--output-dir", "--output_dir", "--save-dir", "--out"], "--runs DIR"),
    (&["--name", "--run-name", "--run_name"], "--run NAME"),
];

/// Commands as other programs name them, with the tip that names the one of rtc.
const COMMANDS: [(&[&str], &str); 12] = [
    (
        &["run", "fit", "start", "learn", "pretrain", "resume", "continue"],
        "`rtc train` trains a model, or goes on with its training",
    ),
    (
        &["finetune", "fine-tune", "fine_tune"],
        "`rtc train SPEC --weights FILE` begins with the weights of another training",
    ),
    (
        &["test", "evaluate", "validate", "score", "benchmark"],
        "`rtc eval RUN` measures a trained model on splits of its task",
    ),
    (&["infer", "inference", "classify", "ask", "embed"], "`rtc predict RUN` asks a trained model"),
    (&["sample", "write", "chat"], "`rtc generate RUN` lets a trained model write on"),
    (
        &["compare", "plot", "figure", "visualize", "visualise", "board", "dashboard", "tensorboard"],
        "`rtc report RUN ..` shows runs beside each other; `rtc diff A B` compares specs",
    ),
    (
        &["sweep", "search", "grid", "tune", "experiment"],
        "`rtc ablate EXPERIMENT` trains every model of a comparison with every seed",
    ),
    (
        &["convert", "onnx", "save", "pack"],
        "`rtc export RUN --format FORMAT --output PATH` writes a trained model for other programs",
    ),
    (&["lint", "parse"], "`rtc check SPEC` reports every problem in specs"),
    (
        &["new", "init", "create", "edit"],
        "`rtc show NAME > my.rt` begins a spec, `rtc task check DATA --write my.yaml` an experiment",
    ),
    (
        &["list", "ls", "models", "specs", "history", "log", "logs"],
        "`rtc runs` lists runs, `rtc task list` tasks, `rtc docs catalogue` the built-in specs",
    ),
    (
        &["data", "dataset", "datasets", "preprocess", "inspect"],
        "`rtc task check FILE` says what would be read of a data file",
    ),
];

/// Values of options as other programs name them: the option, their value, and the value of rtc.
const VALUES: [(&str, &[&str], &str); 5] = [
    ("--device", &["gpu", "gpu:0", "cuda:0", "nvidia"], "cuda"),
    ("--device", &["mps", "metal", "apple"], "candle-metal"),
    ("--precision", &["fp32", "float32", "float", "single", "32"], "f32"),
    ("--precision", &["bfloat16", "fp16", "float16", "half", "16", "mixed"], "bf16"),
    ("--precision", &["tensorfloat32", "tf-32"], "tf32"),
];

/// Takes numbers below 0 for values of all options, which refuse them in their own words.
pub(crate) fn with_negative_numbers(command: Command) -> Command {
    let takes = |arg: Arg| if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg };
    command.mut_args(takes).mut_subcommands(with_negative_numbers)
}

/// Returns the tip for a refused argument. Takes a suggestion out of the error that the tip is better than.
pub(crate) fn tip(told: &mut clap::Error, command: &Command, args: &[String]) -> Option<String> {
    let refused = RefusedArguments::new(command, args);
    if told.kind() == ErrorKind::InvalidSubcommand {
        let name = told.get(ContextKind::InvalidSubcommand)?.to_string();
        let (_, way) = COMMANDS
            .iter()
            .find(|(names, _)| refused.command.get_name() == command.get_name() && names.contains(&&*name))?;
        told.remove(ContextKind::SuggestedSubcommand);
        return Some((*way).to_owned());
    }
    let argument = told.get(ContextKind::InvalidArg).map(ToString::to_string)?;
    match told.kind() {
        ErrorKind::UnknownArgument => {
            let tip = refused.unknown(&argument);
            // A text may begin with a dash; the value of an option rarely does.
            if tip.is_some() || !refused.takes_text() {
                told.remove(ContextKind::Suggested);
            }
            if tip.is_some() {
                told.remove(ContextKind::SuggestedArg);
                told.remove(ContextKind::Usage);
            }
            tip
        }
        ErrorKind::InvalidValue => {
            let value = told.get(ContextKind::InvalidValue).map(|value| value.to_string().to_lowercase())?;
            let option = argument.split(' ').next().unwrap_or_default();
            let is_meant = |(own, others, _): &&(&str, &[&str], &str)| *own == option && others.contains(&&*value);
            let (.., meant) = VALUES.iter().find(is_meant)?;
            told.insert(ContextKind::SuggestedValue, ContextValue::String((*meant).to_owned()));
            None
        }
        _ => None,
    }
}

/// Arguments of which one is refused, with the command that they name.
struct RefusedArguments<'a> {
    root: &'a Command,
    command: &'a Command,
    /// The words of the command.
    path: String,
    args: &'a [String],
}

impl<'a> RefusedArguments<'a> {
    fn new(root: &'a Command, args: &'a [String]) -> Self {
        let (mut command, mut path) = (root, root.get_name().to_owned());
        for arg in args.iter().filter(|arg| !arg.starts_with('-')) {
            let Some(inner) = command.find_subcommand(arg) else { break };
            (command, path) = (inner, format!("{path} {}", inner.get_name()));
        }
        Self { root, command, path, args }
    }

    /// Whether the command takes texts as arguments.
    fn takes_text(&self) -> bool {
        ["predict", "generate"].contains(&self.command.get_name())
    }

    /// Returns the tip for an argument that the command does not have.
    fn unknown(&self, argument: &str) -> Option<String> {
        let name = argument.split(['=', ' ']).next().unwrap_or(argument);
        if name.starts_with("--") {
            return self.option(name);
        }
        if name.starts_with('-') {
            return self.one_dash();
        }
        let is_yaml = |text: &str| text.ends_with(".yaml") || text.ends_with(".yml");
        let is_beside = |text: &&String| is_yaml(text) && !text.starts_with('-');
        let file =
            if is_yaml(argument) { Some(argument) } else { self.args.iter().find(is_beside).map(String::as_str) };
        let data = || {
            let is_data = rtc_task::file_format(Path::new(argument)).is_some();
            is_data.then(|| {
                let written = Path::new(argument).with_extension("yaml");
                format!(
                    "`rtc task check {argument} --write {0}` writes an experiment for this file: `--experiment {0}`",
                    written.display()
                )
            })
        };
        if has(self.command, "row") && !is_yaml(argument) {
            return Some(format!("`--row {argument}` names a row of the comparison"));
        }
        let takes = has(self.command, "experiment");
        match file {
            Some(file) if takes => Some(format!("`--experiment {file}` names the experiment")),
            None if takes => data(),
            _ => None,
        }
    }

    /// Returns the tip for an option that the command does not have.
    fn option(&self, name: &str) -> Option<String> {
        let way = OPTIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, way)| *way);
        if let Some(way) = way {
            let long = way.trim_start_matches('-').split(' ').next().unwrap_or_default();
            return Some(match has(self.command, long) {
                true => format!("here it is `{way}`"),
                false => format!("`{}` has no `{name}`: `rtc train` takes it, as `{way}`", self.path),
            });
        }
        let owners = owners(self.root, self.root.get_name(), name.trim_start_matches('-'));
        let owners: Vec<String> = owners.into_iter().map(|owner| format!("`{owner}`")).collect();
        match &owners[..] {
            [] => None,
            [only] => Some(format!("`{}` has no `{name}`: {only} has it", self.path)),
            [first @ .., last] => {
                Some(format!("`{}` has no `{name}`: {} and {last} have it", self.path, first.join(", ")))
            }
        }
    }

    /// Returns the tip for an option that is written with one dash.
    fn one_dash(&self) -> Option<String> {
        let words = self.args.iter().filter(|arg| arg.starts_with('-') && !arg.starts_with("--"));
        let mut names = words.map(|word| word.trim_start_matches('-').split('=').next().unwrap_or_default());
        names.find_map(|name| match has(self.command, name) || has(self.root, name) {
            true => Some(format!("options of several letters have two dashes: `--{name}`")),
            false if name.len() > 1 => self.option(&format!("--{name}")),
            false => None,
        })
    }
}

/// Whether a command has an option of this name.
fn has(command: &Command, long: &str) -> bool {
    command.get_arguments().any(|arg| arg.get_long() == Some(long))
}

/// The commands that have an option of this name, each with all of its words.
fn owners(command: &Command, path: &str, long: &str) -> Vec<String> {
    let mut found = if has(command, long) { vec![path.to_owned()] } else { vec![] };
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        found.extend(owners(inner, &format!("{path} {}", inner.get_name()), long));
    }
    found
}

/// The text of an error with the words of the number parsers in words of the command line.
pub(crate) fn in_words(text: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("invalid digit found in string", "a whole number, 0 or more, is wanted"),
        ("cannot parse integer from empty string", "a whole number, 0 or more, is wanted"),
        ("number too large to fit in target type", "the number is too large"),
        ("number too small to fit in target type", "the number is too small"),
        ("invalid float literal", "a number is wanted"),
        ("cannot parse float from empty string", "a number is wanted"),
    ];
    let words = WORDS.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    range_in_words(&words).unwrap_or(words)
}

/// The text with `0 is not in 1..=9` as a sentence; nothing if it has none.
fn range_in_words(text: &str) -> Option<String> {
    let (before, behind) = text.split_once(" is not in ")?;
    let (before, _) = before.rsplit_once(": ")?;
    let end = behind.find(|c: char| !(c.is_ascii_digit() || ".=-".contains(c))).unwrap_or(behind.len());
    let (low, high) = behind[..end].split_once("..=")?;
    let is_open = [u64::from(u32::MAX), u64::MAX, i64::MAX as u64].iter().any(|most| most.to_string() == high);
    let range = if is_open { format!("from {low} on") } else { format!("from {low} to {high}") };
    Some(format!("{before}: a whole number {range} is wanted{}", &behind[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_refused_in_words() {
        let of = |why: &str| in_words(&format!("error: invalid value 'x' for '--top <N>': {why}\n\nmore"));
        let said = |why: &str| format!("error: invalid value 'x' for '--top <N>': {why}\n\nmore");
        assert_eq!(of("0 is not in 1..=4294967295"), said("a whole number from 1 on is wanted"));
        assert_eq!(of("0 is not in 1..=1000"), said("a whole number from 1 to 1000 is wanted"));
        assert_eq!(of("invalid digit found in string"), said("a whole number, 0 or more, is wanted"));
        assert_eq!(of("seconds are wanted"), said("seconds are wanted"));
    }
}
