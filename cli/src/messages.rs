//! Steps of a session whose remarks and warnings are printed.

use rtc_compiler::schema::Catalog;
use rtc_runs::experiment::Experiment;
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
