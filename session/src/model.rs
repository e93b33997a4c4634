//! A compiled model with its identity, and what the compiler is told about a task.

use std::collections::{BTreeMap, BTreeSet};

use rtc_compiler::formula::UpdateFormula;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::hash;
use rtc_compiler::ir::types::{Dim, LENGTH};
use rtc_compiler::lower::Binding;
use rtc_compiler::pass::inline;
use rtc_compiler::pipeline::{
    self, Forward,
    asked::{ExternalInput, asked},
    class_weights::{WeightFault, Weighted},
    each_step::{EachStep, Unfit},
    held::Held,
    memory::{Fitted, LargestBatches, plans_within},
};
use rtc_compiler::plan::Plan;
use rtc_compiler::plan::memory::BYTES_PER_PARAMETER;
use rtc_compiler::schema::{Catalog, Objective};
use rtc_exec::learner::Distributed;
use rtc_exec::model::{Backend, Model, ModelOn, ParameterGroups};
use rtc_exec::{Halting, Inference};
use rtc_runs::experiment::{Experiment, Supervision};
use rtc_runs::saved::ModelDefinition;
use rtc_task::error::hint;
use rtc_task::{DOCUMENT, OWN_TASKS, catalog, open_task, resolve_options, task_named};
use rtc_train::examine::Examined;

use crate::device::{Card, ExecutionTarget, OpenDevice};
use crate::failure::SessionFailure;
use crate::memory;
use crate::samples::require_samples;
use crate::text::number;

/// The task of this name with its default options; nothing is known without a name.
pub fn catalog_of(name: Option<&str>) -> Result<Catalog, SessionFailure> {
    let Some(name) = name else { return Ok(Catalog::default()) };
    let task = task_named(name).map_err(SessionFailure::Usage)?;
    let options = resolve_options(task.about().options, &BTreeMap::new()).map_err(SessionFailure::Usage)?;
    Ok(catalog(task, &options))
}

/// Refuses an experiment whose rows come without a value that a model takes.
pub(crate) fn provided(asked: &[ExternalInput], model: &str, experiment: &Experiment) -> Result<(), SessionFailure> {
    if asked.is_empty() {
        return Ok(());
    }
    let (task, _) = open_task(&experiment.task)?;
    let (given, documents) = (task.given(), task.document_end().is_some());
    let is_document = |asked: &&ExternalInput| documents && asked.name == DOCUMENT;
    if let Some(asked) = asked.iter().find(is_document)
        && (asked.things.is_some() || asked.around != Some(0) || asked.width() != 1)
    {
        let why = format!(
            "the model {model} takes `{DOCUMENT}` in another form than a number of every token, which `documents` gives: write \
             `{DOCUMENT} = given(positions(state))` where the state has the positions of the tokens"
        );
        return Err(SessionFailure::data(task.name(), None, why));
    }
    let is_there = |asked: &ExternalInput| is_document(&asked) || given.iter().any(|given| *given.name == *asked.name);
    let Some(missing) = asked.iter().find(|asked| !is_there(asked)) else { return Ok(()) };
    let (task, name) = (task.name(), &missing.name);
    let cure = if task == "language" && name == DOCUMENT {
        "the task has no `documents`: name the token that ends a document, as `documents: \"\\n\"` in `task`".to_owned()
    } else if ["language", "masked"].contains(&task) {
        format!("`{task}` has no rows: take another task on files of your own")
    } else if task == "sequences" {
        "`sequences` takes no values: write them into the input text, or take another task on files of your own"
            .to_owned()
    } else if OWN_TASKS.iter().any(|(own, _)| *own == task) {
        let names: Vec<&str> = given.iter().map(|given| &*given.name).collect();
        let near = hint(name, &names);
        format!("its column is not named: say `given: {{ {name}: COLUMN }}` in the `task` of the experiment{near}")
    } else {
        format!(
            "no values come with those of {task}: a task on files of your own has them, as `given: {{ {name}: COLUMN }}`"
        )
    };
    let why = format!("the model {model} takes `{name}` from the rows, as `{name} = given(..)`, and {cure}");
    Err(SessionFailure::data(task, None, why))
}

/// A model with its forward graph.
#[derive(Debug)]
pub struct Compiled {
    /// The spec, or the graph in its place.
    pub definition: ModelDefinition,
    /// What is known of the task.
    pub binding: Binding,
    /// The forward graph as lowered: its hash is the model's identity, which no optimisation changes.
    pub graph: Graph,
}

impl Compiled {
    /// Makes the forward graph for a task. Without one the model is asked for what it answers: a class for every row or for every token.
    pub fn new(definition: ModelDefinition, task: &Catalog) -> Result<Self, SessionFailure> {
        let graph = definition.forward(task)?;
        let by_token = graph.output("logits").is_some_and(|logits| graph.ty(logits).ragged() == Some(LENGTH));
        if task.objective.is_none() && by_token {
            let task = Catalog { objective: Some(Objective::Each), ..task.clone() };
            let graph = definition.forward(&task)?;
            return Ok(Self { definition, binding: Binding::from(&task), graph });
        }
        Ok(Self { definition, binding: Binding::from(task), graph })
    }

    /// Whether rows or positions leave a recurrence, so that their steps are counted.
    pub fn halts(&self) -> bool {
        self.graph.output("depth").is_some()
    }

    /// Returns how the model computes in a training by an experiment, on a processor.
    ///
    /// # Errors
    /// Groups of the optimiser that the model lacks.
    pub fn computing(&self, experiment: &Experiment) -> Result<Computing, SessionFailure> {
        let formula = experiment.optimiser.read_formula().transpose().map_err(SessionFailure::Usage)?;
        let (groups, inference) = (self.groups(experiment)?, experiment.inference);
        Ok(Computing { groups, formula, inference, ..Computing::default() })
    }

    /// Returns the groups of the optimiser of an experiment, by the parameters of the model.
    pub(crate) fn groups(&self, experiment: &Experiment) -> Result<ParameterGroups, SessionFailure> {
        experiment.optimiser.parameter_groups(&pipeline::parameters(&self.graph)).map_err(SessionFailure::Usage)
    }

    /// Tells an experiment what the model takes from the rows, so that they are held to it while they are read.
    ///
    /// # Errors
    /// Values that the rows lack; groups of the optimiser that the model lacks; texts that it can't write.
    pub fn takes_from(&self, experiment: &Experiment) -> Result<(), SessionFailure> {
        let asked = asked(&self.graph);
        provided(&asked, self.name(), experiment)?;
        self.groups(experiment)?;
        require_samples(experiment, &self.graph)?;
        experiment.task.known.ask(asked);
        Ok(())
    }

    /// The name of the model.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Hash of the normalised spec, or of the graph in its place.
    pub fn spec_hash(&self) -> String {
        self.definition.hash()
    }

    /// Hash of the forward graph.
    pub fn graph_hash(&self) -> String {
        hash::hash(&self.graph)
    }

    /// Number of trainable numbers; axes that only a task gives count as 1.
    pub fn parameter_count(&self) -> usize {
        let size = |dims: &[Dim]| dims.iter().map(|dim| dim.fixed().unwrap_or(1)).product::<usize>();
        pipeline::parameters(&self.graph).iter().map(|parameter| size(parameter.ty.dims())).sum()
    }

    /// Number of trainable numbers as text, with the sizes that only a task gives: `1,234 + 64 vocab`.
    pub fn parameters(&self) -> String {
        let parameters = pipeline::parameters(&self.graph);
        numbers(&parameters.iter().map(|parameter| parameter.ty.dims().to_vec()).collect::<Vec<_>>())
    }

    /// One line: name, parameters, nodes, hashes.
    pub fn summary(&self) -> String {
        format!(
            "{}: {} parameters, {} nodes, spec {}, graph {}",
            self.name(),
            self.parameters(),
            self.graph.walk(MAIN).len(),
            short(&self.spec_hash()),
            short(&self.graph_hash()),
        )
    }

    /// The plans of training and inference for the batches of `work` within `limit` bytes, and within the memory of the card.
    pub fn fit(
        &self,
        work: &LargestBatches,
        limit: Option<u64>,
        form: TrainingForm,
        card: Option<&Card>,
    ) -> Result<Fitted, SessionFailure> {
        memory::check(self.parameter_count() as u128 * u128::from(BYTES_PER_PARAMETER))?;
        let fitted = plans_within(&self.trained(form)?, &self.binding, work, limit)?;
        memory::fits(&fitted, limit, card)?;
        Ok(fitted)
    }

    /// The model in the form in which it is trained.
    pub fn trained(&self, form: TrainingForm) -> Result<Box<dyn Forward + '_>, SessionFailure> {
        let weighted = form.weighted.then(|| Weighted::new(&self.graph, &self.binding)).transpose();
        let weighted = weighted.map_err(|fault| match fault {
            WeightFault::Graph(fault) => fault.into(),
            WeightFault::Model(_) => SessionFailure::Usage(format!("`loss.class_weights`: {fault}")),
        })?;
        let model: Box<dyn Forward + '_> = match (form.supervision, weighted) {
            (Supervision::AllSteps, None) => Box::new(self.graph.clone()),
            (Supervision::AllSteps, Some(weighted)) => Box::new(weighted),
            (Supervision::EachStep, None) => Box::new(self.each_step()?),
            (Supervision::EachStep, Some(weighted)) => Box::new(EachStep::of_weighted(weighted).map_err(unfit)?),
        };
        Ok(match form.held {
            held if held.is_empty() => model,
            parameters => Box::new(Held { model, parameters }),
        })
    }

    /// What an experiment makes of the training graph.
    ///
    /// # Errors
    /// Parameters to be trained that the model lacks.
    pub fn form(&self, experiment: &Experiment) -> Result<TrainingForm, SessionFailure> {
        let held = experiment.optimiser.held(&pipeline::parameters(&self.graph)).map_err(SessionFailure::Usage)?;
        let weighted = experiment.loss.class_weights.is_some();
        Ok(TrainingForm { supervision: experiment.supervision, weighted, held })
    }

    /// The model with an update after every step of its loop.
    pub fn each_step(&self) -> Result<EachStep<'_, Graph>, SessionFailure> {
        EachStep::new(&self.graph, &self.binding).map_err(unfit)
    }

    /// The plans of training and inference without a limit.
    pub fn plans(&self) -> Result<(Plan, Plan), SessionFailure> {
        memory::check(self.parameter_count() as u128 * u128::from(BYTES_PER_PARAMETER))?;
        Ok(pipeline::plans(&self.graph, &self.binding)?)
    }

    /// The model of these plans, with freshly drawn parameters, which are the same on every machine.
    pub fn model(&self, plans: (Plan, Plan), seed: u64, how: Computing) -> Result<AnyModel, SessionFailure> {
        let (training, inference) = plans;
        match &how.place.machine {
            OpenDevice::Processor => self.set(Model::new(training, inference, self.binding, seed), &how),
            OpenDevice::Tensors(device) => {
                self.set(rtc_tensor::model(training, inference, self.binding, seed, device.clone()), &how)
            }
            OpenDevice::Card(device) => {
                let mut model = rtc_cuda::model(training, inference, self.binding, seed, device.clone())?;
                let bytes = how.memory.map(memory::for_arrays);
                model.executor().pool().hold_at_most(bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)));
                self.set(model, &how)
            }
        }
    }

    fn set<B: Backend<Number = f32> + 'static>(
        &self,
        mut model: ModelOn<B>,
        how: &Computing,
    ) -> Result<AnyModel, SessionFailure> {
        let name = self.name();
        if how.depth.is_some() && !model.takes_depth() {
            let message = format!("`--depth` is for models with `depth: given`; the steps of {name} are its own");
            return Err(SessionFailure::Usage(message));
        }
        model.set_groups(&how.groups);
        model.set_formula(how.formula.clone());
        model.set_halting(how.halting);
        model.set_precision(how.place.precision);
        model.set_depth(how.depth);
        model.set_inference(how.inference).map_err(|_| {
            SessionFailure::Usage(format!(
                "flat inference leaves out the outer recursion of `recurse balanced`, and {name} has none that it can do \
                 without: a cell joins two vectors"
            ))
        })?;
        Ok(Box::new(model))
    }
}

/// A graph without loops of one step, which compute what their bodies do.
pub fn plain(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    inline::run_for_comparison(&mut graph);
    graph
}

/// What an experiment makes of the training graph of a model.
#[derive(Clone, Debug)]
pub struct TrainingForm {
    /// When the weights of the model move.
    pub supervision: Supervision,
    /// Whether answers have weights in the loss.
    pub weighted: bool,
    /// The parameters that are left as they are.
    pub held: BTreeSet<String>,
}

/// The failure of a model that can't be trained step by step.
fn unfit(unfit: Unfit) -> SessionFailure {
    match unfit {
        Unfit::Graph(fault) => fault.into(),
        Unfit::Model(_) => SessionFailure::Usage(format!("`supervision: each_step`: {unfit}")),
    }
}

/// How many numbers arrays of these axes have, as text.
pub fn numbers(arrays: &[Vec<Dim>]) -> String {
    let mut terms: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for dims in arrays {
        let (mut factor, mut names) = (1, vec![]);
        for dim in dims {
            match dim {
                Dim::Fixed(size) => factor *= size,
                Dim::Sym(name) => names.push(name.as_str()),
            }
        }
        *terms.entry(names).or_default() += factor;
    }
    let term = |(names, factor): (&Vec<&str>, &usize)| {
        [vec![number(*factor as f64)], names.iter().map(|name| (*name).to_owned()).collect()].concat().join(" ")
    };
    terms.iter().map(term).collect::<Vec<_>>().join(" + ")
}

/// The abilities of every model: analyses, trainings, and trainings on several ranks.
pub trait Capable: Examined<Number = f32> + Distributed {}

impl<M: Examined<Number = f32> + Distributed> Capable for M {}

/// A model on any machine.
pub type AnyModel = Box<dyn Capable>;

/// How a model computes.
#[derive(Clone, Debug, Default)]
pub struct Computing {
    /// Where and how exactly.
    pub place: ExecutionTarget,
    /// The bytes that it may hold on a device, where there is a limit.
    pub memory: Option<u64>,
    /// What rows that have halted cost.
    pub halting: Halting,
    /// Parameters whose updates differ from those of all others.
    pub groups: ParameterGroups,
    /// The optimiser, where it is a formula.
    pub formula: Option<UpdateFormula>,
    /// Steps of every row in place of those that come with the examples.
    pub depth: Option<usize>,
    /// Whether evaluations leave out the outer recursion.
    pub inference: Inference,
}

/// The start of a hash, enough to tell models apart by eye.
pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec_file::SpecArg;

    /// What `rtc cost MODEL` and `rtc compile MODEL --emit optimised` begin with.
    #[test]
    fn every_model_has_a_training_step_without_a_task() {
        let named = SpecArg::built_in_models().into_iter().filter_map(|name| Some((SpecArg::built_in(&name)?, name)));
        let models: Vec<(SpecArg, String)> = named.filter(|(arg, _)| arg.model_name().is_ok()).collect();
        assert!(models.len() > 30, "{}", models.len());
        for (arg, name) in models {
            let free = Catalog::default();
            let definition = arg.check(&[], &free).expect(&name).definition;
            let Compiled { binding, graph, .. } = Compiled::new(definition, &free).expect(&name);
            if let Err(fault) = pipeline::differentiated(&graph, &binding) {
                panic!("{name}: {fault}");
            }
        }
    }
}
