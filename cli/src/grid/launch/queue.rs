//! Slurm and HyperQueue: a script, a list of cells, and the program that puts both into the queue.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use rtc_session::failure::SessionFailure;
use rtc_session::text::count;

use super::script::Script;
use super::words::CellWords;
use super::{JobGroup, Launcher, Submission, numbered};
use crate::terminal::Terminal;

/// Seconds before the end of its time in which a job is told, so that it saves.
const NOTICE: u32 = 120;

/// Puts a group of cells into the queue.
pub(super) fn submit(
    submission: &Submission<'_>,
    group: &JobGroup,
    (folder, words): (&Path, &CellWords),
    terminal: &Terminal,
) -> Result<(), SessionFailure> {
    let list: String = group.cells.iter().map(|key| format!("{key}\n")).collect();
    let (list, n) = numbered(folder, |n| format!("cells-{n}"), &list)?;
    let slurm = submission.options.launcher == Launcher::Slurm;
    let script = if slurm { array(submission, group, (folder, n)) } else { Script { directives: vec![], again: None } };
    let kind = if slurm { "slurm" } else { "hyperqueue" };
    let path = folder.join(format!("{kind}-{n}.sh"));
    let written = fs::write(&path, script.text(&list, words)?);
    // The half-written script is of no use; that it can't be removed changes nothing about the failure.
    written.inspect_err(|_| drop(fs::remove_file(&path))).map_err(|error| SessionFailure::io("write", &path, error))?;
    let mut command = if slurm { sbatch(submission) } else { hq(submission, group, (folder, n)) };
    command.args(&submission.options.launcher_option);
    if slurm {
        command.arg(&path);
    } else {
        command.args(["--", "sh"]).arg(&path);
    }
    let answer = run(&mut command, &path)?;
    terminal.message(&format!("{} in the queue by {}: {answer}", count(group.cells.len(), "cell"), path.display()));
    Ok(())
}

/// A job array of Slurm. What the user says on the command line of `sbatch` is stronger than the lines of the script.
fn array(submission: &Submission<'_>, group: &JobGroup, (folder, n): (&Path, u64)) -> Script<'static> {
    // A `%` in a path is one only where it stands twice: others begin a pattern.
    let output = format!("{}/slurm-{n}-%a.out", folder.display().to_string().replace('%', "%%"));
    let options = submission.options;
    let memory = options.mem.clone().unwrap_or_else(|| format!("{}M", group.request.memory));
    let minutes = group.request.minutes.map(|minutes| minutes.to_string());
    let mut asked = vec![
        format!("--array=1-{}", group.cells.len()),
        format!("--job-name={}", submission.name()),
        format!("--mem={memory}"),
        "--cpus-per-task=1".to_owned(),
        "--requeue".to_owned(),
        "--open-mode=append".to_owned(),
        format!("--signal=B:TERM@{NOTICE}"),
        format!("--output={output}"),
    ];
    asked.extend(options.time.clone().or(minutes).map(|time| format!("--time={time}")));
    let directives = asked.into_iter().map(|option| format!("#SBATCH {}", escaped(&option))).collect();
    Script { directives, again: Some(REQUEUE) }
}

/// Queues the task of an array again: the job number of one of its tasks is that of the whole array.
const REQUEUE: &str =
    "scontrol requeue \"${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}\"";

/// A word of a directive. `sbatch` takes a character behind a backslash as it is, in and out of quotation marks, and reads
/// `packjob` in a line as a blank.
fn escaped(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=./:,@%+".contains(c);
    let escape = |c: char| if is_plain(c) { c.to_string() } else { format!("\\{c}") };
    let escaped: String = word.chars().map(escape).collect();
    let lower = escaped.to_ascii_lowercase();
    let ends: Vec<usize> = lower.match_indices("packjob").map(|(at, _)| at + 1).collect();
    ends.into_iter().rev().fold(escaped, |mut text, at| {
        text.insert(at, '\\');
        text
    })
}

fn sbatch(submission: &Submission<'_>) -> Command {
    let mut command = Command::new("sbatch");
    command.arg("--parsable");
    // An option of their own, so that `--launcher-option` behind them is stronger.
    command.arg(format!("--comment=rtc ablate {}", submission.grid.folder.display()));
    command
}

/// A task array of HyperQueue, which takes memory in MiB as the resource `mem`.
fn hq(submission: &Submission<'_>, group: &JobGroup, (folder, n): (&Path, u64)) -> Command {
    let options = submission.options;
    let mut command = Command::new("hq");
    command.args(["submit", "--array", &format!("1-{}", group.cells.len()), "--name", &submission.name()]);
    command.args(["--cpus", "1", "--resource"]);
    command.arg(format!("mem={}", options.mem.clone().unwrap_or_else(|| group.request.memory.to_string())));
    let minutes = group.request.minutes.map(|minutes| format!("{minutes}m"));
    if let Some(time) = options.time.clone().or(minutes) {
        command.args(["--time-request", &time]);
    }
    let log = |end: &str| folder.join(format!("hyperqueue-{n}-%{{TASK_ID}}.{end}"));
    command.arg("--stdout").arg(log("out")).arg("--stderr").arg(log("err"));
    command
}

/// What a program of a queue answers.
fn run(command: &mut Command, script: &Path) -> Result<String, SessionFailure> {
    let program = command.get_program().to_string_lossy().into_owned();
    let answer = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(SessionFailure::Usage(format!(
                "there is no `{program}` here: give this command on a machine that submits jobs, where it must be in PATH; \
                 {} is the script, and `--launcher commands` prints the commands for any other queue",
                script.display()
            )));
        }
        answer => answer.map_err(|error| SessionFailure::io("start", Path::new(&program), error))?,
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if answer.status.success() {
        return Ok(format!("{program} {}", text(&answer.stdout)));
    }
    let why = std::io::Error::other(format!("{}: {}", answer.status, text(&answer.stderr)));
    Err(SessionFailure::io("submit with", Path::new(&program), why))
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn words_of_directives_are_escaped() {
        assert_eq!(escaped("--job-name=rtc-a b's \"x\"#"), r#"--job-name=rtc-a\ b\'s\ \"x\"\#"#);
        assert_eq!(escaped(r"--output=a\b"), r"--output=a\\b");
        assert_eq!(escaped("--job-name=my_PackJob"), r"--job-name=my_P\ackJob");
        assert_eq!(escaped("--output=/r/é-%a.out"), "--output=/r/é-%a.out");
    }
}
