//! Models for programs that read Hugging Face's format.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rtc_base::disk::write_file;
use rtc_compiler::ir::cost::Sizes;
use rtc_compiler::ir::diff::diff;
use rtc_exec::learner::FlatArrays;
use rtc_runs::weights::refill;
use rtc_session::failure::SessionFailure;
use rtc_session::import::PublishedModel;
use rtc_session::model::plain;
use rtc_session::saved::TrainedModel;
use rtc_task::catalog;
use rtc_train::generate::writes_next_tokens;

/// Extensions of the files that are copied: the configuration, the tokenizer, an index.
const COPIED: [&str; 4] = ["json", "txt", "jinja", "model"];

/// Writes the weights of a model into a new folder, in the names, shapes and formats of a published one that computes the same, with its
/// other files. `family` is the file of a family that is none of the program's. Returns how many files there are.
///
/// # Errors
/// The model computes something else; a number that its format has not; the folder is not empty, or can't be written.
pub(crate) fn write(
    trained: &TrainedModel,
    (like, family): (&Path, Option<&Path>),
    output: &Path,
) -> Result<usize, SessionFailure> {
    if !writes_next_tokens(&*trained.task, &trained.options) {
        let task = trained.task.name();
        return Err(SessionFailure::Usage(format!(
            "`--format huggingface` is for models that answer with the next token, and the answers of `{task}` are others"
        )));
    }
    let facts = catalog(&*trained.task, &trained.options);
    let published = PublishedModel::read(like, family, &facts)?;
    let difference = diff(&plain(&trained.definition.forward(&facts)?), &plain(&published.graph), &Sizes::row(2));
    if !difference.is_empty() {
        let slots: Vec<String> = difference.slots.keys().take(3).map(|slot| format!("`{slot}`")).collect();
        return Err(SessionFailure::Usage(format!(
            "{} does not compute the same as {} (it differs in {}), so its form has no place for it: `rtc export --format torch` takes any model",
            trained.name,
            like.display(),
            slots.join(", ")
        )));
    }
    let renamed: BTreeMap<String, String> = difference.renamed.parameters.into_iter().collect();
    let named = trained.model.weights().items.into_iter();
    let named = named.map(|(name, array)| (renamed.get(&name).cloned().unwrap_or(name), array));
    let weights = FlatArrays { items: named.collect() };
    let files = refill(&published.file, &published.names, &weights).map_err(rtc_runs::error::Error::from)?;
    let listed = |folder: &Path| -> Result<Vec<PathBuf>, SessionFailure> {
        let entries = fs::read_dir(folder).map_err(|error| SessionFailure::io("read", folder, error))?;
        Ok(entries.filter_map(Result::ok).map(|entry| entry.path()).collect())
    };
    fs::create_dir_all(output).map_err(|error| SessionFailure::io("create", output, error))?;
    if !listed(output)?.is_empty() {
        let path = output.display();
        return Err(SessionFailure::Usage(format!("{path} is not empty: name a new folder")));
    }
    let is_copied = |path: &PathBuf| path.extension().is_some_and(|end| COPIED.iter().any(|known| end == *known));
    let mut count = files.len();
    for path in listed(like)?.into_iter().filter(|path| path.is_file() && is_copied(path)) {
        let bytes = fs::read(&path).map_err(|error| SessionFailure::io("read", &path, error))?;
        write_file(&output.join(path.file_name().unwrap_or_default()), bytes)?;
        count += 1;
    }
    for file in files {
        write_file(&output.join(file.like.file_name().unwrap_or_default()), file.bytes)?;
    }
    Ok(count)
}
