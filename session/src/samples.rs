//! Whether a model can write the texts that an experiment asks for during the training.

use rtc_compiler::expr::Expr;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::pipeline::asked::{ExternalInput, asked};
use rtc_runs::experiment::Experiment;
use rtc_task::{DOCUMENT, open_task};
use rtc_train::encode_prompts;
use rtc_train::generate::learned_positions;

use crate::failure::SessionFailure;

/// Refuses texts that the model can't write.
///
/// # Errors
/// A task without next tokens, a prompt that is not read, more positions than were learned, values or a depth that come with the rows.
pub(crate) fn require_samples(experiment: &Experiment, graph: &Graph) -> Result<(), SessionFailure> {
    let Some(settings) = &experiment.samples else { return Ok(()) };
    let (task, options) = open_task(&experiment.task)?;
    let prompts = encode_prompts(settings, &*task, &options).map_err(SessionFailure::Usage)?;
    let is_known = |asked: &ExternalInput| asked.name == DOCUMENT && task.document_end().is_some();
    if !asked(graph).iter().all(is_known) || takes_depth(graph) {
        let message =
            "`samples` continues texts, and this model takes more from its rows than their tokens: leave it out";
        return Err(SessionFailure::Usage(message.to_owned()));
    }
    let Some(known) = learned_positions(graph) else { return Ok(()) };
    for (prompt, tokens) in settings.prompts.iter().zip(prompts) {
        // The last token is written and not read.
        let room = (known + 1).saturating_sub(tokens.len());
        if settings.length as usize > room {
            let advice = if room == 0 { "shorten the prompt".to_owned() } else { format!("use `length: {room}`") };
            return Err(SessionFailure::Usage(format!(
                "`samples.length` must be at most {room} behind the {} tokens of `{prompt}`, since the model learns {known} positions: \
                 got {}; {advice}",
                tokens.len(),
                settings.length,
            )));
        }
    }
    Ok(())
}

/// Whether a number of steps comes with the rows.
fn takes_depth(graph: &Graph) -> bool {
    let bounds = graph.walk(MAIN).into_iter().filter_map(|id| graph.node(id).find(attribute::BOUND)?.rule());
    bounds.filter_map(|rule| Expr::try_from(rule).ok()).any(|expr| expr.holds_given())
}
