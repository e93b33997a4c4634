//! From a spec to a model that is not trained.

use candle_core::{Device, Result, bail};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::lower::Binding;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_exec::model::initial;
use rtc_session::failure::SessionFailure;
use rtc_session::model::Compiled;
use rtc_session::spec_file::SpecArg;

use crate::failure::failed;
use crate::open::{ModelFacts, Options, SavedParameter, engine, tokens_only};
use crate::worker::Engine;

/// A spec, with what a task would say of it: what its rows have and what they are asked.
///
/// ```no_run
/// use candle_core::Device;
/// use rtc_candle::{Model, ModelSpec};
///
/// let spec = ModelSpec { name: "gut:no_gate".into(), set: vec!["width = 32".into()], vocabulary: 12, classes: 10, ..ModelSpec::default() };
/// let model = Model::new(&spec, &Device::Cpu)?;
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// As on the command line: a file, one with a variant as `gut.rt:no_gate`, or the name of one that is part of rtc, as `gut`.
    pub name: String,
    /// Edits, as those of `--set`.
    pub set: Vec<String>,
    /// Number of token ids.
    pub vocabulary: usize,
    /// Number of classes or labels; 0 where the answer is a number.
    pub classes: usize,
    /// The kind of answer.
    pub objective: Objective,
    /// The seed of the first weights, and of what a model draws.
    pub seed: u64,
}

impl Default for ModelSpec {
    fn default() -> Self {
        Self { name: String::new(), set: vec![], vocabulary: 0, classes: 0, objective: Objective::Classify, seed: 0 }
    }
}

/// Compiles a spec, and draws its weights as `rtc train` does.
pub(crate) fn compile(spec: &ModelSpec, options: &Options, device: &Device) -> Result<(Engine, ModelFacts)> {
    let least = match spec.objective {
        Objective::Classify | Objective::Pair | Objective::Each => 2,
        Objective::Several => 1,
        Objective::Number => 0,
    };
    if spec.vocabulary == 0 {
        bail!("`vocabulary` of the `ModelSpec` is 0: say how many token ids there are");
    }
    if spec.classes < least || least == 0 && spec.classes > 0 {
        let wanted = if least == 0 { "no classes".to_owned() } else { format!("at least {least}") };
        bail!("`classes` of the `ModelSpec` is {}, and `{:?}` has {wanted}", spec.classes, spec.objective);
    }
    let catalog = Catalog {
        vocabulary: Some(spec.vocabulary),
        classes: Some(spec.classes),
        objective: Some(spec.objective),
        ..Catalog::default()
    };
    let checked = SpecArg::parse(&spec.name).check(&spec.set, &catalog).map_err(refused)?;
    let compiled = Compiled::new(checked.definition, &catalog).map_err(refused)?;
    tokens_only(&compiled.graph, &format!("the model {}", compiled.name()))?;
    let binding = Binding::from(&catalog);
    let inference = options.inference.unwrap_or_default();
    let (engine, own) = engine((compiled.graph, binding, spec.seed), options, inference, device)?;
    let key = rtc_base::rng::Key::new(spec.seed);
    let parameters = own.iter().map(|own| SavedParameter::new(own, initial(own, key))).collect();
    Ok((engine, ModelFacts { parameters, task: None, binding, updates: 0 }))
}

/// A failure with the report of a spec's problems.
fn refused(failure: SessionFailure) -> candle_core::Error {
    match &failure {
        SessionFailure::Spec(found) => failed(render(&found.0, &found.1, Style::Plain)),
        _ => failed(failure),
    }
}
