//! What `rtc runs` does with runs: tags, notes, names, removal; and their records.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use clap::Subcommand;
use rtc_base::disk::beneath;
use rtc_session::failure::SessionFailure;
use rtc_session::folders::{LAST, RUNS, check_name, find, grids_with, name};
use rtc_session::job::lock;
use rtc_session::labels::RunLabels;

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;

use super::records::records;
use super::remove::{purge, remove, restore};

/// Its arguments.
#[derive(Subcommand)]
pub(crate) enum RunEdit {
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
    /// Put runs aside, into a hidden folder beside them: `rtc runs restore` brings them back
    Remove {
        /// The folders of runs, their names below `runs`, or `@last`
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// Remove them; without it, what would go is listed
        #[arg(long)]
        yes: bool,
        /// Remove files in their folders, too, that are no part of a run
        #[arg(long)]
        all_files: bool,
    },
    /// Bring a removed run back
    Restore {
        /// The folder of the run as it was, or its name below `runs`
        run: PathBuf,
    },
    /// Remove the runs for good that `rtc runs remove` has put aside
    Purge {
        /// The folder with removed runs, searched with all folders below
        #[arg(default_value = RUNS)]
        folder: PathBuf,
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

pub(super) fn run(edit: &RunEdit, terminal: &Terminal) -> CommandResult {
    match edit {
        RunEdit::Records { run } => records(run, terminal),
        RunEdit::Tag { run, tags } => label(run, terminal, |labels| {
            let new = tags.iter().filter(|tag| !labels.tags.contains(tag)).cloned().collect::<Vec<_>>();
            // A tag may be given twice.
            new.into_iter().for_each(|tag| {
                if !labels.tags.contains(&tag) {
                    labels.tags.push(tag)
                }
            });
            Ok(())
        }),
        RunEdit::Untag { run, tags } => label(run, terminal, |labels| {
            if let Some(tag) = tags.iter().find(|tag| !labels.tags.contains(tag)) {
                return Err(SessionFailure::Usage(format!(
                    "the run has no tag `{tag}`; it has {}",
                    said(&labels.tags)
                )));
            }
            labels.tags.retain(|tag| !tags.contains(tag));
            Ok(())
        }),
        RunEdit::Note { run, text } => label(run, terminal, |labels| {
            labels.note = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            Ok(())
        }),
        RunEdit::Rename { run, new } => rename(run, new, terminal),
        RunEdit::Remove { runs, yes, all_files } => remove(runs, *yes, *all_files, terminal),
        RunEdit::Restore { run } => restore(run, terminal),
        RunEdit::Purge { folder, yes } => purge(folder, *yes, terminal),
    }
}

fn said(tags: &[String]) -> String {
    if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }
}

/// Changes what is said of a run, and prints its tags.
fn label(
    run: &Path,
    terminal: &Terminal,
    change: impl FnOnce(&mut RunLabels) -> Result<(), SessionFailure>,
) -> CommandResult {
    let path = find(run)?;
    owned(&path)?;
    let labels = RunLabels::change(&path, change)?;
    let note = labels.note.map_or_else(String::new, |note| format!("; note: {note}"));
    terminal.message(&format!("{}: tags: {}{note}", name(&path), said(&labels.tags)));
    Ok(Exit::Done)
}

/// Refuses the run of another user.
pub(super) fn owned(path: &Path) -> Result<(), SessionFailure> {
    if beneath::is_owned(path) {
        return Ok(());
    }
    let other =
        io::Error::other("it belongs to another user, and nothing of it is changed: copy it, and change the copy");
    Err(SessionFailure::io("change", path, other))
}

/// The folder of a run that is to be moved or removed, which must be one and no link to one. A slash after the name of a link would
/// lead to the folder: it is cut off.
pub(super) fn unlinked(run: &Path) -> Result<PathBuf, SessionFailure> {
    let path: PathBuf = find(run)?.components().collect();
    match fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        true => Err(SessionFailure::Usage(format!("{} is a link: name the folder that it leads to", path.display()))),
        false => Ok(path),
    }
}

fn rename(run: &Path, new: &str, terminal: &Terminal) -> CommandResult {
    let path = unlinked(run)?;
    owned(&path)?;
    let mut parts = Path::new(new).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) && new != LAST;
    if !is_name {
        return Err(SessionFailure::Usage(format!(
            "`{new}` is no name of a folder: a run stays in the folder that it is in"
        )));
    }
    check_name("the new name", new)?;
    let to = path.with_file_name(new);
    if fs::symlink_metadata(&to).is_ok() {
        return Err(SessionFailure::Usage(format!("there is a {} already", to.display())));
    }
    if let Some(grid) = grids_with(&path)?.first() {
        return Err(SessionFailure::Usage(format!(
            "{} is a cell of the grid {}, which finds it by this name",
            path.display(),
            grid.display()
        )));
    }
    let _lock = lock(&path)?;
    let old = path.file_name().map(|name| name.to_string_lossy().into_owned());
    RunLabels::change(&path, |labels| {
        // Where it was begun; a run that gets its first name back was never renamed.
        labels.was = labels.was.take().or(old).filter(|was| was != new);
        Ok(())
    })?;
    fs::rename(&path, &to).map_err(|error| SessionFailure::io("rename", &path, error))?;
    terminal.result(&format!("{}\n", to.display()))?;
    Ok(Exit::Done)
}
