//! Splits of published files, and of the files that an experiment names.

use std::path::Path;

use super::{DataFolder, Files, Task};
use crate::error::DataError;
use crate::example::Example;
use crate::files::paths::matching;
use crate::fingerprint::place;
use crate::reading::{find, nothing_published, unreadable};
use crate::share::{SplitSource, TRAIN, ranges, shares};

/// Reads a split from the first file there is of those that its row names.
///
/// In a folder without a file for dev, dev is the first rows of the training file, and training the rest; in an experiment
/// without dev, training is all of them.
pub(crate) fn by_name<T: Task + ?Sized>(task: &T, folder: &DataFolder<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let find = |name: &str| find(folder.path, task.about().splits.iter().find(|row| row.name == name)?.files);
    if task.about().splits.iter().all(|row| find(row.name).is_none()) {
        let names: Vec<&str> = task.about().splits.iter().flat_map(|row| row.files.first()).copied().collect();
        return Err(nothing_published(folder.path, &names.join(", ")));
    }
    let read = |path: &Path| task.read(path, folder.options);
    match (folder.split, find(folder.split), find("train")) {
        ("train", Some(path), _) if find("dev").is_none() => {
            let mut rows = read(&path)?;
            if (1..=folder.dev).contains(&rows.len()) {
                return Err(no_training_row(&path, rows.len(), folder.dev));
            }
            Ok(Some(rows.split_off(folder.dev.min(rows.len()))))
        }
        (_, Some(path), _) => read(&path).map(Some),
        ("dev", None, Some(path)) if folder.dev > 0 => Ok(Some(read(&path)?.into_iter().take(folder.dev).collect())),
        _ => Ok(None),
    }
}

/// Reads a split as an experiment with a file per split says it.
pub(crate) fn by_file<T: Task + ?Sized>(task: &T, files: &Files<'_>) -> Result<Option<Vec<Example>>, DataError> {
    let fail = |message| DataError { file: task.name().to_owned(), line: None, message };
    let said = |split: &str| files.named.get(split).map(|text| SplitSource::parse(text)).transpose().map_err(fail);
    let read = |file: &str| -> Result<Vec<Example>, DataError> {
        let mut rows = vec![];
        for path in matching(&files.settings.locate(file))? {
            rows.extend(task.read(&path, files.options)?);
        }
        Ok(rows)
    };
    let head = said("dev")?.is_none() && files.dev > 0;
    match (files.split, said(files.split)?, said(TRAIN)?) {
        (TRAIN, Some(SplitSource::File(file)), _) => {
            let mut rows = read(file)?;
            if head && (1..=files.dev).contains(&rows.len()) {
                return Err(no_training_row(&files.settings.locate(file), rows.len(), files.dev));
            }
            let rows = if head { rows.split_off(files.dev.min(rows.len())) } else { rows };
            part(rows, files, None).map(Some).map_err(fail)
        }
        (_, Some(SplitSource::File(file)), _) => read(file).map(Some),
        (split, Some(SplitSource::Share(_)), Some(SplitSource::File(train))) => {
            part(read(train)?, files, Some(split)).map(Some).map_err(fail)
        }
        ("dev", None, Some(SplitSource::File(train))) if head => {
            Ok(Some(read(train)?.into_iter().take(files.dev).collect()))
        }
        (_, Some(SplitSource::Generated), _) => Ok(None),
        (split, ..) => Err(fail(format!(
            "files are named, and none for `{split}`: name one under `task.data`, a share of `train` as `10%`, or say `generated`"
        ))),
    }
}

/// The rows of a training file that a share of it has; without a split, those that no share has.
fn part(rows: Vec<Example>, files: &Files<'_>, split: Option<&str>) -> Result<Vec<Example>, String> {
    let shares = shares(files.named)?;
    let hash = |row: &Example| place(&row.key()).to_bits();
    let ranges = ranges(rows.iter().map(hash).collect(), &shares);
    let of = |row: &Example| {
        let own = |range: &Option<[u64; 2]>| range.is_some_and(|[first, last]| (first..=last).contains(&hash(row)));
        ranges.iter().position(own).map(|at| shares[at].0)
    };
    Ok(rows.into_iter().filter(|row| of(row) == split).collect())
}

/// The error of a training file that is all head.
fn no_training_row(path: &Path, rows: usize, dev: usize) -> DataError {
    let cure = match rows {
        1 => "name a file for `dev`".to_owned(),
        _ => format!("set `task.sizes.dev` below {rows}, or name a file for `dev`"),
    };
    let plural = if rows == 1 { "row" } else { "rows" };
    let why = format!(
        "it has {rows} {plural}, the first {dev} (`task.sizes.dev`) are `dev`, and none is left to train on: {cure}"
    );
    unreadable(path, why)
}
