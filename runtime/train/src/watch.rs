//! Records of a training besides its metrics: texts that the model writes after some updates, and histograms of its parameters.
//!
//! Neither changes a number of the training: texts come from forward passes without dropout, and their draws have a seed of their own.

use rtc_base::rng::Key;
use rtc_exec::learner::{LearnError, Learner};
use rtc_runs::error::Error;
use rtc_runs::experiment::{Experiment, HistogramSettings, SampleSettings};
use rtc_runs::record::RunFolder;
use rtc_runs::record::watched::{ArrayHistogram, HistogramLine, ParameterHistograms, SampleEnd, SampleLine};
use rtc_task::{Options, Task, TaskHandle, documents};

use crate::generate::{Sampling, TextPieces, Writing, alone, writes_next_tokens};

/// Encodes the prompts of an experiment.
///
/// # Errors
/// A task whose answers are not next tokens; a prompt that has no tokens or unknown ones.
pub fn encode_prompts(settings: &SampleSettings, task: &dyn Task, options: &Options) -> Result<Vec<Vec<u32>>, String> {
    if !writes_next_tokens(task, options) {
        let name = task.name();
        return Err(format!(
            "`samples` needs a task whose answers are next tokens, as `language`, and those of `{name}` are others: leave it out"
        ));
    }
    let encode = |prompt: &String| match task.encode(prompt, options) {
        Ok(tokens) if tokens.is_empty() => {
            Err(format!("`samples.prompts`: `{prompt}` has no token: write at least one token to continue"))
        }
        Ok(tokens) => match task.cut(prompt)? {
            0 => Ok(tokens),
            cut => Err(format!("`samples.prompts`: `{prompt}` is {cut} tokens too long for the task: shorten it")),
        },
        Err(why) => Err(format!("`samples.prompts`: `{prompt}`: {why}")),
    };
    settings.prompts.iter().map(encode).collect()
}

/// Records what an experiment asks for.
pub(crate) struct Watcher {
    sampler: Option<TextSampler>,
    histograms: Option<HistogramSettings>,
}

impl Watcher {
    /// Returns the watcher of an experiment.
    pub(crate) fn of(experiment: &Experiment, task: &TaskHandle, options: &Options) -> Result<Self, String> {
        Ok(Self { sampler: TextSampler::of(experiment, task, options)?, histograms: experiment.histograms })
    }

    /// Records what is due after an update, whose gradients are still there. A resumed run has the records of its last checkpoint: the
    /// caller must save that of this update afterwards.
    pub(crate) fn record(&self, learner: &mut dyn Learner, run: &mut RunFolder, update: u64) -> Result<(), Error> {
        if self.histograms.is_some_and(|asked| update.is_multiple_of(asked.every)) {
            run.histogram(&histograms(learner, update))?;
        }
        if let Some(sampler) = self.sampler.as_ref().filter(|sampler| sampler.is_due(update)) {
            for line in sampler.write(learner, update)? {
                run.sample(&line)?;
            }
        }
        Ok(())
    }
}

/// Writes the texts of an experiment.
struct TextSampler {
    settings: SampleSettings,
    prompts: Vec<Vec<u32>>,
    task: TaskHandle,
    options: Options,
}

impl TextSampler {
    /// Returns the sampler of an experiment, if it asks for texts.
    fn of(experiment: &Experiment, task: &TaskHandle, options: &Options) -> Result<Option<Self>, String> {
        let Some(settings) = &experiment.samples else { return Ok(None) };
        let prompts = encode_prompts(settings, &**task, options)?;
        Ok(Some(Self { settings: settings.clone(), prompts, task: task.clone(), options: options.clone() }))
    }

    /// Whether texts are due after so many updates.
    fn is_due(&self, updates: u64) -> bool {
        updates.is_multiple_of(self.settings.every)
    }

    /// Writes a text for every prompt: those of `rtc generate` with the same settings.
    fn write(&self, learner: &mut dyn Learner, update: u64) -> Result<Vec<SampleLine>, LearnError> {
        (0..self.prompts.len()).map(|n| self.text(learner, update, n)).collect()
    }

    fn text(&self, learner: &mut dyn Learner, update: u64, n: usize) -> Result<SampleLine, LearnError> {
        let SampleSettings { length, temperature, top_k, top_p, seed, .. } = self.settings;
        let sampling = Sampling { temperature, top_k: top_k.map(|k| k as usize), top_p };
        let key = Key::new(seed).stream("generate").at(n as u64).at(0);
        let prompt = &self.prompts[n];
        let answer = self.task.written_answer();
        // An answer is a text of its own.
        let before = if answer.is_some() { &[][..] } else { prompt };
        let (mut pieces, mut writing) = (TextPieces::behind(before), Writing::until(&[]));
        let written = |tokens: &[u32]| self.task.written(tokens, &self.options);
        let mut row = prompt.clone();
        let end = loop {
            let token =
                sampling.choose(&self.next_logits(learner, &row)?, key.uniform((row.len() - prompt.len()) as u64));
            row.push(token);
            if answer.is_some_and(|answer| answer.end == token) {
                break SampleEnd::Answer;
            }
            writing.push(&pieces.push(token, written));
            if row.len() - prompt.len() == length as usize {
                break SampleEnd::Length;
            }
        };
        writing.push(&pieces.rest(written));
        writing.finish();
        let (prompt, text) = (self.settings.prompts[n].clone(), writing.text().to_owned());
        Ok(SampleLine { update, prompt, text, end })
    }

    /// Returns the logits of the token behind a row, from a pass over the whole row: every learner has that.
    fn next_logits(&self, learner: &mut dyn Learner, row: &[u32]) -> Result<Vec<f64>, LearnError> {
        let given = self.task.document_end().map(|end| documents(row, end, 0));
        let answers = learner.answers(&alone(row, given)).map_err(|error| error.at("a text of `samples`"))?;
        let logits = answers.logits.len().checked_sub(answers.classes).map(|start| answers.logits[start..].to_vec());
        logits.ok_or_else(|| LearnError::Batch("a text of `samples`: the model has no logits".to_owned()))
    }
}

/// Returns the histograms of all parameters after an update, whose gradients are still there.
fn histograms(learner: &mut dyn Learner, update: u64) -> HistogramLine {
    let mut gradients = learner.gradients().items;
    let weights = learner.state().parameters.items;
    let both = |(name, (_, weights)): (String, (Vec<usize>, Vec<f32>))| {
        let gradients = gradients.remove(&name).map(|(_, gradients)| gradients).unwrap_or_default();
        let found =
            ParameterHistograms { weights: ArrayHistogram::of(&weights), gradients: ArrayHistogram::of(&gradients) };
        (name, found)
    };
    HistogramLine { update, parameters: weights.into_iter().map(both).collect() }
}
