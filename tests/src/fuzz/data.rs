//! Files of rows, of texts and of pictures, as a task reads them; and sequences of which a model is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rtc_task::error::DataError;
use rtc_task::sequence::{LineError, Lines, example};
use rtc_task::{DataSource, TaskContext, TaskSettings};
use rtc_task::{Example, ExampleTarget, Options, Task, TextForm, describe, load, look, open_task, sample};

use super::folder::{Parts, is_inside};

/// The most examples of a split.
const EXAMPLES: usize = 50;

/// The settings of a task, as JSON before the files.
fn settings(parts: &Parts<'_>, folder: &Path) -> Option<TaskSettings> {
    let mut settings: TaskSettings = serde_json::from_slice(parts.head).ok()?;
    let kept = parts.file("task.json").map(serde_json::from_slice).transpose().ok()?.map(Arc::new);
    settings.known = TaskContext::new(vec![folder.to_owned()], kept);
    let in_the_folder = match &settings.data {
        Some(DataSource::Files(files)) => {
            files.values().all(|file| file != "generated" && is_inside(file.trim_end_matches('%')))
        }
        Some(DataSource::Folder(folder)) => folder == "." || is_inside(folder),
        // A program must not run, and what is generated is not read.
        Some(DataSource::Program(_)) | None => false,
    };
    let tokens = settings.tokens.as_deref().is_none_or(is_inside);
    (in_the_folder && tokens).then_some(settings)
}

/// The rows of a task from its files.
pub(super) fn rows(bytes: &[u8]) {
    let parts = Parts::of(bytes);
    let folder = parts.written();
    for (name, _) in &parts.files {
        match look(&folder.path().join(name), TextForm::default()) {
            Ok(look) => look.problems.iter().for_each(refused),
            Err(error) => refused(&error),
        }
    }
    let Some(mut settings) = settings(&parts, folder.path()) else { return };
    for split in ["train", "dev", "test"] {
        let size = settings.sizes.entry(split.to_owned()).or_insert(EXAMPLES);
        *size = EXAMPLES.min(*size);
    }
    let splits: Vec<&str> = match &settings.data {
        Some(DataSource::Files(files)) => {
            ["train", "dev", "test"].into_iter().filter(|split| files.contains_key(*split)).collect()
        }
        _ => vec!["train"],
    };
    let data = match load(&settings, &splits) {
        Ok(data) => data,
        Err(error) => return refused(&error),
    };
    let (task, options) = open_task(&settings).expect("it was opened to be loaded");
    for split in &splits {
        let examples = data.split(split);
        sound(&*task, &options, examples);
        describe(examples);
        sample(&*task, &options, examples, 3);
    }
    task.problems(&settings, 3).iter().for_each(refused);
    // What a run keeps of a task stands for its training file.
    if let Some(kept) = task.kept() {
        let known = TaskContext::new(vec![folder.path().to_owned()], Some(Arc::new(kept)));
        let again = load(&TaskSettings { known, ..settings }, &splits).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.fingerprint(), data.fingerprint());
    }
}

fn refused(error: &DataError) {
    assert!(!error.message.trim().is_empty() && error.line.is_none_or(|line| line > 0), "{error:?}");
}

/// Tokens and classes are those that the task has.
fn sound(task: &dyn Task, options: &Options, examples: &[Example]) {
    let (vocabulary, classes) = (task.vocabulary(options).len(), task.classes(options).len());
    for example in examples {
        let sides = [Some(&example.tokens), example.second.as_ref()];
        for token in sides.into_iter().flatten().flatten() {
            assert!((*token as usize) < vocabulary, "token {token} of {vocabulary}");
        }
        assert!(!example.tokens.is_empty(), "an example without tokens");
        match &example.label {
            ExampleTarget::Class(class) => assert!((*class as usize) < classes, "class {class} of {classes}"),
            ExampleTarget::Each { class, weight } => {
                assert_eq!((class.len(), weight.len()), (example.tokens.len(), example.tokens.len()));
                assert!(class.iter().all(|class| (*class as usize) < classes), "{class:?} of {classes}");
            }
            ExampleTarget::Number(number) => assert!(number.is_finite(), "{number}"),
            ExampleTarget::Several(labels) => assert_eq!(labels.len(), classes),
        }
    }
}

/// Lines of which a model of a task is asked. The task is one of the program, or what a run keeps of another one.
pub(super) fn predictions(bytes: &[u8]) {
    let parts = Parts::of(bytes);
    let Ok(mut settings) = serde_json::from_slice::<TaskSettings>(parts.head) else { return };
    let kept = parts.file("task.json").and_then(|kept| serde_json::from_slice(kept).ok());
    let own = kept.is_some();
    settings.known = TaskContext::new(vec![], kept.map(Arc::new));
    // Without what a run keeps, files would be learned from.
    settings.data = own.then(|| DataSource::Files(BTreeMap::new()));
    let (task, options) = match open_task(&settings) {
        Ok(opened) => opened,
        Err(error) => return refused(&error),
    };
    for line in Lines::new(parts.file("lines").unwrap_or_default()) {
        let line = match line {
            Ok(line) => line,
            Err(LineError::Broken(number, why)) => {
                assert!(number > 0 && !why.is_empty());
                break;
            }
            Err(LineError::Io(error)) => panic!("{error}"),
        };
        match example(&*task, &options, &line.text) {
            Ok(example) => {
                sound_question(&*task, &options, &example);
                // What a person reads is another way to write the sequence; unknown tokens of one's own have no other.
                let shown = task.decode(&example.tokens, &options);
                task.written(&example.tokens, &options);
                if !own {
                    assert_eq!(task.encode(&shown, &options).as_ref(), Ok(&example.tokens), "{shown}");
                }
            }
            Err(why) => assert!(!why.trim().is_empty()),
        }
    }
}

/// The answer of a question says nothing, so that a task without classes has questions, too.
fn sound_question(task: &dyn Task, options: &Options, example: &Example) {
    sound(task, options, &[Example { label: ExampleTarget::Number(0.0), ..example.clone() }]);
}
