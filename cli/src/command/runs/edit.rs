//! What `rtc runs` does with runs: tags, notes, names, removal; and their records.

use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::Subcommand;
use rtc_runtime::record::RunInfo;

use crate::failure::{Exit, Failure, Outcome};
use crate::folders::{LAST, find, grids_with, name, size};
use crate::job::lock;
use crate::labels::Labels;
use crate::memory::bytes;
use crate::terminal::Terminal;
use crate::text::{columns, count};

use super::records::records;

/// Its arguments.
#[derive(Subcommand)]
pub(crate) enum Edit {
    /// Print all that a run or a grid has recorded, checked, as JSON
    Records {
        /// The folder of a run or a grid, its name below `runs`, or `@last`
        run: PathBuf,
    },
    /// Give a run tags
    Tag {
        /// The folder of a run, its name below `runs`, or `@last`
        run: PathBuf,
        /// Words without blanks and commas
        #[arg(required = true, value_name = "NAME", value_parser = tag)]
        tags: Vec<String>,
    },
    /// Take tags from a run
    Untag {
        /// The folder of a run, its name below `runs`, or `@last`
        run: PathBuf,
        /// Tags that it has
        #[arg(required = true, value_name = "NAME")]
        tags: Vec<String>,
    },
    /// Write a note on a run, in place of the one that it has
    Note {
        /// The folder of a run, its name below `runs`, or `@last`
        run: PathBuf,
        /// The note; an empty one removes it
        text: String,
    },
    /// Give the folder of a run another name; the command that began it goes on with it there
    Rename {
        /// The folder of a run, its name below `runs`, or `@last`
        run: PathBuf,
        /// The new name, in the same folder
        new: String,
    },
    /// Remove runs with all their files
    Remove {
        /// The folders of runs, their names below `runs`, or `@last`
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// Remove them; without it, what would go is listed
        #[arg(long)]
        yes: bool,
    },
}

/// Reads a tag.
fn tag(text: &str) -> Result<String, String> {
    let is_word = !text.is_empty() && !text.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control());
    is_word.then(|| text.to_owned()).ok_or_else(|| "a tag is a word without blanks and commas".to_owned())
}

pub(super) fn run(edit: &Edit, terminal: &Terminal) -> Outcome {
    match edit {
        Edit::Records { run } => records(run, terminal),
        Edit::Tag { run, tags } => label(run, terminal, |labels| {
            let new = tags.iter().filter(|tag| !labels.tags.contains(tag)).cloned().collect::<Vec<_>>();
            // A tag may be given twice.
            new.into_iter().for_each(|tag| {
                if !labels.tags.contains(&tag) {
                    labels.tags.push(tag)
                }
            });
            Ok(())
        }),
        Edit::Untag { run, tags } => label(run, terminal, |labels| {
            if let Some(tag) = tags.iter().find(|tag| !labels.tags.contains(tag)) {
                return Err(Failure::Usage(format!("the run has no tag `{tag}`; it has {}", said(&labels.tags))));
            }
            labels.tags.retain(|tag| !tags.contains(tag));
            Ok(())
        }),
        Edit::Note { run, text } => label(run, terminal, |labels| {
            labels.note = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            Ok(())
        }),
        Edit::Rename { run, new } => rename(run, new, terminal),
        Edit::Remove { runs, yes } => remove(runs, *yes, terminal),
    }
}

fn said(tags: &[String]) -> String {
    if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }
}

/// Changes what is said of a run, and prints its tags.
fn label(run: &Path, terminal: &Terminal, change: impl Fn(&mut Labels) -> Result<(), Failure>) -> Outcome {
    let path = find(run)?;
    let mut labels = Labels::read(&path, &RunInfo::read(&path)?)?;
    change(&mut labels)?;
    labels.write(&path)?;
    let note = labels.note.map_or_else(String::new, |note| format!("; note: {note}"));
    terminal.message(&format!("{}: tags: {}{note}", name(&path), said(&labels.tags)));
    Ok(Exit::Done)
}

/// The folder of a run that is to be moved or removed, which must be one and no link to one.
fn own(run: &Path) -> Result<PathBuf, Failure> {
    let path = find(run)?;
    match fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        true => Err(Failure::Usage(format!("{} is a link: name the folder that it leads to", path.display()))),
        false => Ok(path),
    }
}

fn rename(run: &Path, new: &str, terminal: &Terminal) -> Outcome {
    let path = own(run)?;
    let mut parts = Path::new(new).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && new != LAST;
    if !is_name {
        return Err(Failure::Usage(format!("`{new}` is no name of a folder: a run stays in the folder that it is in")));
    }
    let to = path.with_file_name(new);
    if fs::symlink_metadata(&to).is_ok() {
        return Err(Failure::Usage(format!("there is a {} already", to.display())));
    }
    if let Some(grid) = grids_with(&path)?.first() {
        return Err(Failure::Usage(format!(
            "{} is a cell of the grid {}, which finds it by this name",
            path.display(),
            grid.display()
        )));
    }
    let _lock = lock(&path)?;
    let mut labels = Labels::read(&path, &RunInfo::read(&path)?)?;
    let old = path.file_name().map(|name| name.to_string_lossy().into_owned());
    // Where it was begun; a run that gets its first name back was never renamed.
    labels.was = labels.was.or(old).filter(|was| was != new);
    labels.write(&path)?;
    fs::rename(&path, &to).map_err(|error| Failure::io("rename", &path, error))?;
    terminal.result(&format!("{}\n", to.display()))?;
    Ok(Exit::Done)
}

fn remove(runs: &[PathBuf], yes: bool, terminal: &Terminal) -> Outcome {
    let mut paths = runs.iter().map(|run| own(run)).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    paths.dedup();
    // A run that is being trained stays.
    let _locks = if yes { paths.iter().map(|path| lock(path)).collect::<Result<Vec<_>, _>>()? } else { vec![] };
    for path in &paths {
        for grid in grids_with(path)? {
            terminal.message(&format!(
                "{} is a cell of the grid {}, which would train it again",
                path.display(),
                grid.display()
            ));
        }
    }
    let sizes = paths.iter().map(|path| size(path)).collect::<Result<Vec<_>, _>>()?;
    let all = vec![count(paths.len(), "run"), bytes(sizes.iter().sum())];
    let rows = paths.iter().zip(&sizes).map(|(path, size)| vec![path.display().to_string(), bytes(*size)]);
    let table = columns(&rows.chain([all]).collect::<Vec<_>>());
    if !yes {
        terminal.result(&table)?;
        return Err(Failure::Usage("nothing was removed: `--yes` removes these runs".to_owned()));
    }
    for path in &paths {
        // Without this file the folder is none of a run, should the rest be cut off.
        let file = path.join("run.json");
        fs::remove_file(&file).map_err(|error| Failure::io("remove", &file, error))?;
        fs::remove_dir_all(path).map_err(|error| Failure::io("remove", path, error))?;
    }
    terminal.result(&table)?;
    Ok(Exit::Done)
}
