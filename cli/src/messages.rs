//! Steps of a session whose remarks and warnings are printed.

use rtc_compiler::diag::Kind;
use rtc_compiler::schema::Catalog;
use rtc_runs::experiment::{Experiment, is_field};
use rtc_session::failure::SessionFailure;
use rtc_session::job::Data;
use rtc_session::spec_file::{CheckedDefinition, SpecArg};

use crate::terminal::Terminal;

/// Loads or generates the data of an experiment, and says how much of it there is.
pub(crate) fn make_data(experiment: &Experiment, terminal: &Terminal) -> Result<Data, SessionFailure> {
    let waiting = terminal.waiting("making the data");
    let data = Data::of(experiment);
    drop(waiting);
    let data = data?;
    data.remarks.iter().for_each(|remark| terminal.message(remark));
    Ok(data)
}

/// Names `--with` for an edit by `--set` whose path begins with a field of experiments that the model does not have.
pub(crate) fn of_experiment_edit(failure: SessionFailure, sets: &[String]) -> SessionFailure {
    let SessionFailure::Spec(found) = &failure else { return failure };
    let misses = |key: &str| {
        let start = format!("there is no `{key}` in ");
        found.0.iter().any(|problem| problem.kind == Kind::PathNotFound && problem.message.starts_with(&start))
    };
    let is_misplaced = |edit: &&String| {
        let key = edit.split(['.', '=']).next().unwrap_or_default().trim();
        is_field(key) && misses(key)
    };
    match sets.iter().find(is_misplaced) {
        Some(edit) => SessionFailure::Usage(format!(
            "`--set {edit}`: the model has no `{}`, which is a field of experiments: `--with {edit}` edits it",
            edit.split(['.', '=']).next().unwrap_or_default()
        )),
        None => failure,
    }
}

/// Checks a spec and prints its warnings; its errors are the failure.
pub(crate) fn check(
    arg: &SpecArg,
    sets: &[String],
    catalog: &Catalog,
    terminal: &Terminal,
) -> Result<CheckedDefinition, SessionFailure> {
    let checked = arg.check(sets, catalog)?;
    terminal.problems(&checked.problems, &checked.sources);
    Ok(checked)
}
