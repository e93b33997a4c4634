//! What a model answers on the first examples of a split: how often which class for which, and some examples.

use rtc_exec::learner::Evaluation;
use rtc_report::data::{Confusion, ExampleAnswer, ReportAnswers};
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::batching::pack;
use rtc_task::{Dataset, Example, ExampleTarget, Tally, sample, scored, set_text};

/// How many examples are shown of a split: wrong ones first, of which the model was surest, and as many right ones.
const SHOWN: usize = 4;
/// The most classes of a matrix.
const CLASSES: usize = 20;
/// The longest text of an example, in characters.
const TEXT: usize = 300;

/// An example that was answered.
struct AnsweredExample<'a> {
    at: usize,
    example: &'a Example,
    said: Vec<u32>,
    sure: Option<f64>,
    number: Option<f64>,
}

/// The answers of a model on the first split that has examples.
pub(super) fn answers(
    trained: &mut TrainedModel,
    run: &str,
    data: &Dataset,
) -> Result<Option<ReportAnswers>, SessionFailure> {
    let splits = trained.experiment.evaluate.clone();
    let Some(split) = splits.iter().find(|split| !data.split(split).is_empty()) else { return Ok(None) };
    let examples = data.split(split);
    let batch = trained.batch().max(1);
    let mut answered = vec![];
    for (n, chunk) in examples.chunks(batch).enumerate() {
        let refs: Vec<&Example> = chunk.iter().collect();
        let found = trained.model.evaluate(&pack(&refs)).map_err(|error| error.at(split))?;
        let Evaluation { predictions, confidence, numbers, .. } = found;
        let (mut said, mut sure, mut numbers) = (predictions.into_iter(), confidence.into_iter(), numbers.into_iter());
        for (k, example) in chunk.iter().enumerate() {
            let own: Vec<u32> = said.by_ref().take(example.classes()).collect();
            let all: Vec<f64> = sure.by_ref().take(own.len()).collect();
            let sure = all.first().copied().filter(|_| matches!(example.label, ExampleTarget::Class(_)));
            let number = if let ExampleTarget::Number(_) = example.label { numbers.next() } else { None };
            answered.push(AnsweredExample { at: n * batch + k, example, said: own, sure, number });
        }
    }
    let confusion = confusion(trained, &answered);
    let shown = chosen(&answered).into_iter().map(|one| told(trained, one)).collect();
    let (run, split) = (run.to_owned(), split.clone());
    Ok(Some(ReportAnswers { run, split, examples: examples.len(), confusion, shown }))
}

/// Whether all answers are right; nothing of a number, or where none counts.
fn is_right(one: &AnsweredExample<'_>) -> Option<bool> {
    let Tally { right, all } = scored(one.example, &one.said);
    (one.number.is_none() && all > 0).then_some(right == all)
}

/// Wrong answers, the surest first, then right ones in their order; of numbers, which are never quite right, the first examples.
fn chosen<'a, 'b>(answered: &'b [AnsweredExample<'a>]) -> Vec<&'b AnsweredExample<'a>> {
    let known = answered.iter().filter(|one| one.number.is_some() || is_right(one).is_some());
    let (right, mut wrong): (Vec<_>, Vec<_>) = known.partition(|one| is_right(one) == Some(true));
    wrong.sort_by(|a, b| b.sure.unwrap_or(0.0).total_cmp(&a.sure.unwrap_or(0.0)));
    wrong.into_iter().take(SHOWN).chain(right.into_iter().take(SHOWN)).collect()
}

/// The matrix of a task with one class per row, if it has few classes.
fn confusion(trained: &TrainedModel, answered: &[AnsweredExample<'_>]) -> Option<Confusion> {
    let classes = trained.task.classes(&trained.options);
    if !(2..=CLASSES).contains(&classes.len()) {
        return None;
    }
    let mut counts = vec![vec![0; classes.len()]; classes.len()];
    for one in answered {
        let (ExampleTarget::Class(right), [said]) = (&one.example.label, one.said.as_slice()) else { return None };
        *counts.get_mut(*right as usize)?.get_mut(*said as usize)? += 1;
    }
    Some(Confusion { classes, counts })
}

fn told(trained: &TrainedModel, one: &AnsweredExample<'_>) -> ExampleAnswer {
    let AnsweredExample { at, example, said, sure, number } = one;
    let classes = trained.task.classes(&trained.options);
    let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
    let Tally { right, all } = scored(example, said);
    let said = match &example.label {
        ExampleTarget::Class(_) => said.iter().map(name).collect(),
        ExampleTarget::Each { .. } => format!("{right} of {all} right"),
        ExampleTarget::Number(_) => {
            number.map_or("-".to_owned(), |number| trained.task.scale(&trained.options).text(number))
        }
        ExampleTarget::Several(_) => set_text(&classes, said.iter().map(|label| *label == 1)),
    };
    let row = sample(&*trained.task, &trained.options, std::slice::from_ref(*example), 1).pop();
    let (input, label) = row.map_or_else(Default::default, |row| (row.text, row.label));
    ExampleAnswer {
        number: at + 1,
        input: cut(&input),
        right: cut(&label),
        said: cut(&said),
        sure: *sure,
        is_right: is_right(one),
    }
}

/// A text with an ellipsis where it is too long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
