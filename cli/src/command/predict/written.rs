//! Answers that a model writes token by token, the most probable token each time: targets of `sequences`.

use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::{AskedRow, WrittenAnswer};
use rtc_train::generate::{Generator, Sampling};

use super::answer::{Explanation, SequenceAnswer, SingleAnswer};
use super::source::RowSource;
use super::{ClassNumbers, Options, PredictionFormat};

/// Refuses options that an answer of several passes does not have.
pub(super) fn refuse(
    trained: &TrainedModel,
    options: &Options,
    format: PredictionFormat,
) -> Result<(), SessionFailure> {
    if trained.task.written_answer().is_none() {
        return Ok(());
    }
    let name = trained.task.name();
    let ClassNumbers { probabilities, logits, top } = options.wanted();
    let message = if options.explains() {
        format!(
            "`--show-halting`, `--trees` and `--attention` show one pass over a row, and an answer of `{name}` takes a pass per token: \
             leave them out"
        )
    } else if options.frames {
        format!(
            "`--frames` answers the tokens of a row, and an answer of `{name}` is written behind them: `rtc generate` writes it"
        )
    } else if format == PredictionFormat::Csv && (probabilities || logits || top.is_some()) {
        format!("CSV has a row per answer of `{name}`, without the numbers of its tokens: take `--format jsonl`")
    } else if trained.on_device {
        format!("answers of `{name}` are written on the processor: leave out `--device`")
    } else {
        return Ok(());
    };
    Err(SessionFailure::Usage(message))
}

/// Returns the answers of rows, in their order.
pub(super) fn answers(
    trained: &mut TrainedModel,
    rows: &[AskedRow],
    source: &RowSource,
    wanted: ClassNumbers,
) -> Result<Vec<SequenceAnswer>, SessionFailure> {
    let Some(answer) = trained.task.written_answer() else { return Ok(vec![]) };
    let mut generator = trained.model.generator();
    let unknown = trained.task.unknown();
    let keeps = wanted.probabilities || wanted.logits || wanted.top.is_some();
    let mut one = |row: &AskedRow| {
        let most = room(&generator, row, answer).map_err(|why| source.refused(row.line, why))?;
        let items = write(&mut generator, row, WrittenAnswer { most, ..answer }, keeps)?;
        let tokens = &row.example.tokens;
        Ok(SequenceAnswer {
            text: row.text.clone(),
            tokens: items.iter().map(|item| item.class).collect(),
            items,
            number: None,
            steps: None,
            explanation: Explanation::default(),
            line: row.line,
            label: row.label.clone(),
            count: tokens.len(),
            unknown: tokens.iter().filter(|token| Some(**token) == unknown).count(),
            cut: row.cut,
        })
    };
    rows.iter().map(&mut one).collect()
}

/// Returns the most tokens that the model can write behind a row.
fn room(generator: &Generator<f32>, row: &AskedRow, answer: WrittenAnswer) -> Result<usize, String> {
    let Some(known) = generator.positions() else { return Ok(answer.most) };
    let asked = row.example.tokens.len();
    // The last token is written and not read.
    match (known + 1).saturating_sub(asked) {
        0 => Err(format!(
            "the input has {asked} tokens, its separator counted, and the model has learned {known} positions: give a shorter input"
        )),
        room => Ok(answer.most.min(room)),
    }
}

/// Writes the answer of a row.
fn write(
    generator: &mut Generator<f32>,
    asked: &AskedRow,
    answer: WrittenAnswer,
    keeps: bool,
) -> Result<Vec<SingleAnswer>, SessionFailure> {
    let greedy = Sampling { temperature: 0.0, top_k: None, top_p: None };
    let (mut row, mut items) = (generator.begin(), vec![]);
    let mut logits = generator.read(&mut row, &asked.example.tokens)?;
    loop {
        let class = greedy.choose(&logits, 0.0);
        if class == answer.end {
            return Ok(items);
        }
        let mut item = SingleAnswer { class, labels: None, confidence: 0.0, logits };
        item.confidence = item.probabilities()[class as usize];
        if !keeps {
            item.logits = vec![];
        }
        items.push(item);
        if items.len() >= answer.most {
            return Ok(items);
        }
        logits = generator.read(&mut row, &[class])?;
    }
}
