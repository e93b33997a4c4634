//! What holds for every model.

use std::sync::LazyLock;

use rtc_base::batch::{Batch, Labels};
use rtc_base::rng::Key;
use rtc_compiler::causality::leaks;
use rtc_compiler::check::{check, check_form};
use rtc_compiler::diag::{Kind, Problems, Style, render};
use rtc_compiler::ir::cost::Sizes;
use rtc_compiler::ir::diff::diff;
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::{hash, text};
use rtc_compiler::lower::{Binding, Objective, attach_loss, lower};
use rtc_compiler::pipeline;
use rtc_compiler::pipeline::cost::Cost;
use rtc_compiler::pipeline::given::GivenGraph;
use rtc_compiler::pipeline::memory::{LargestBatches, plans_within};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::{Source, Sources};
use rtc_compiler::spec::{self, Spec};
use rtc_compiler::syntax;
use rtc_exec::learner::{LearnError, Learner, UpdateRule};
use rtc_exec::model::Model;
use rtc_exec::storage::Element;
use rtc_exec::{Executor, Halting, parameter_ranges};
use rtc_tests::generated::{Construct, Generated};
use rtc_tests::models::{CLASSES, VOCAB, binding, library};
use rtc_tests::numeric::{
    Arrays, KEY, Run, asking, batch, checked, differences, differentiated, executor, results, run, weights,
};

/// What a model was seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// It compiles.
    Compiled,
    /// Answers are proved to see the past alone.
    Proved,
    /// The proof finds a leak.
    Leaks,
    /// It does, and no number moved.
    LeakStays,
    /// Gradients were compared with differences.
    Slopes,
    /// Another label gives another loss.
    LabelsMatter,
    /// Rows take different numbers of steps.
    Leaves,
    /// Under a limit of memory, more is computed again.
    Again,
    /// Its gradients are too large for single precision.
    Explodes,
    /// It has a construct of the wider family.
    Has(Construct),
}

/// The norm of a gradient whose square is no number of single precision.
const LARGEST: f64 = 1e19;

/// Draws of the weights for models that leak.
const DRAWS: u64 = 4;

/// Lengths of the rows.
const LENGTHS: [usize; 4] = [5, 1, 7, 3];

/// A fault, or nothing.
type Held<T = ()> = Result<T, String>;

fn ensure(holds: bool, fault: impl FnOnce() -> String) -> Held {
    if holds { Ok(()) } else { Err(fault()) }
}

/// A model in all its forms.
struct Subject<'g> {
    number: u64,
    model: &'g Generated,
    spec: Spec,
    binding: Binding,
    forward: Graph,
    inference: Graph,
    /// The training step, with everything kept that the backward run reads.
    kept: Graph,
    weights: Arrays,
    batch: Batch,
}

fn objective(model: &Generated) -> Objective {
    if model.each { Objective::Each } else { Objective::Classify }
}

/// Reports without a panic what the checker said.
fn report(problems: &Problems, sources: &Sources) -> String {
    render(problems, sources, Style::Plain)
}

/// A training step of a model with weights and a batch.
pub(crate) struct Training {
    pub(crate) graph: Graph,
    pub(crate) weights: Arrays,
    pub(crate) batch: Batch,
}

/// The training step of a model; nothing where it is refused.
pub(crate) fn training(number: u64, model: &Generated) -> Option<Training> {
    let (task, catalog) = asked(model);
    let source = Source::new("m.rt", model.text.clone());
    let spec = check_form(&library(), source, None, &[], &catalog).0?;
    let graph = pipeline::training(&spec, &task).ok()?;
    let weights = weights(&pipeline::forward(&spec, &task).ok()?, number, 0.5);
    Some(Training { graph, weights, batch: rows(&task, number) })
}

/// What is asked of a model.
fn asked(model: &Generated) -> (Binding, Catalog) {
    let task = Binding { classes: Some(CLASSES), ..binding(objective(model)) };
    let catalog = Catalog {
        vocabulary: task.vocab,
        classes: task.classes,
        objective: Some(task.objective),
        ..Catalog::default()
    };
    (task, catalog)
}

/// A batch with labels.
fn rows(task: &Binding, number: u64) -> Batch {
    let rows = asking(batch(&LENGTHS, VOCAB as u64, CLASSES as u64, number), task.objective, number);
    Batch { depths: Some(vec![2, 3, 1, 2]), ..rows }
}

/// Examines one model.
///
/// # Errors
/// The first property that does not hold.
pub(crate) fn examine(number: u64, model: &Generated) -> Held<Vec<Seen>> {
    let source = Source::new("m.rt", model.text.clone());
    let (task, catalog) = asked(model);
    let (spec, problems, sources) = check_form(&library(), source.clone(), None, &[], &catalog);
    let spec = spec.ok_or_else(|| report(&problems, &sources))?;
    let mut seen = vec![Seen::Compiled];
    seen.extend(model.constructs.iter().map(|construct| Seen::Has(*construct)));
    reads_back(&spec, model)?;
    let error = |fault: rtc_compiler::ir::graph::InvalidNode| fault.to_string();
    let forward = pipeline::forward(&spec, &task).map_err(error)?;
    let inference = pipeline::inference(&spec, &task).map_err(error)?;
    let kept = pipeline::optimised(&spec, &task).map_err(error)?;
    let (weights, batch) = (weights(&forward, number, 0.5), rows(&task, number));
    let subject = Subject { number, model, spec, binding: task, forward, inference, kept, weights, batch };
    subject.verdict(&source, &catalog, &mut seen)?;
    subject.graphs_read_back(&catalog)?;
    subject.rows_are_independent()?;
    subject.steps_agree(&mut seen)?;
    subject.labels_stay_outside(&mut seen)?;
    subject.gradients_are_slopes(&mut seen)?;
    subject.limits_keep_the_bits(&mut seen)?;
    subject.threads_keep_the_bits()?;
    subject.training_resumes(&mut seen)?;
    subject.costs_are_finite()?;
    Ok(seen)
}

/// The text of the model, and that of its spec, are read back as what they were.
fn reads_back(found: &Spec, model: &Generated) -> Held {
    let again = |text: String| {
        let (spec, problems, sources) =
            check_form(&library(), Source::new("again.rt", text), None, &[], &Catalog::default());
        spec.ok_or_else(|| report(&problems, &sources))
    };
    let formatted =
        syntax::format(&model.text).map_err(|problems| format!("{} syntax errors", problems.iter().count()))?;
    let twice = syntax::format(&formatted).map_err(|_| "the formatted text has errors".to_owned())?;
    ensure(formatted == twice, || "formatting twice differs".to_owned())?;
    let same = again(formatted)?;
    ensure(found.root.same(&same.root), || "formatting changes the meaning".to_owned())?;
    let back = again(spec::text(found))?;
    ensure(found.root.same(&back.root), || "the text of the spec is another spec".to_owned())?;
    ensure(spec::hash(found) == spec::hash(&back), || "the text of the spec has another hash".to_owned())
}

/// Results and gradients as bits.
fn bits(run: &Run) -> Vec<(String, Vec<u64>)> {
    let arrays = run.outputs.iter().chain(&run.gradients);
    arrays.map(|(name, values)| (name.clone(), values.iter().map(|v| v.to_bits()).collect())).collect()
}

fn same_bits(what: &str, a: &Run, b: &Run) -> Held {
    let moved: Vec<String> = bits(a).into_iter().zip(bits(b)).filter(|(a, b)| a != b).map(|(a, _)| a.0).collect();
    ensure(moved.is_empty(), || format!("{what}: other bits of {}", moved.join(", ")))
}

/// A result of a run as bits.
fn result(executor: &mut Executor<f32>, batch: &Batch, name: &str) -> Held<Vec<u32>> {
    let outputs = executor.run(batch, Key::new(KEY)).map_err(|fault| fault.to_string())?;
    let values = outputs.real(name).ok_or_else(|| format!("there is no `{name}`"))?;
    Ok(values.iter().map(|x| x.to_bits()).collect())
}

/// Some tokens of a row as a batch of their own.
fn part(batch: &Batch, row: usize, length: usize) -> Batch {
    let start = batch.offsets[row];
    let range = start..start + length;
    let labels = match &batch.labels {
        Labels::Each { class, weight } => {
            Labels::Each { class: class[range.clone()].to_vec(), weight: weight[range.clone()].to_vec() }
        }
        other => Labels::Class(vec![other.classes()[row]]),
    };
    let depths = batch.depths.as_ref().map(|depths| vec![depths[row]]);
    Batch {
        offsets: vec![0, length],
        tokens: batch.tokens[range].to_vec(),
        labels,
        width: length,
        depths,
        given: vec![],
    }
}

static POOLS: LazyLock<[rayon::ThreadPool; 2]> = LazyLock::new(|| {
    [1, 2].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool starts"))
});

impl Subject<'_> {
    fn executor(&self, graph: &Graph) -> Executor<f32> {
        executor::<f32>(graph, &self.weights, Halting::Compact)
    }

    /// The verdict of the checker is that of the proof, and what is proved does not move by one bit.
    fn verdict(&self, source: &Source, catalog: &Catalog, seen: &mut Vec<Seen>) -> Held {
        if !self.model.each {
            return Ok(());
        }
        let proved = leaks(&self.forward, "logits").is_empty();
        seen.push(if proved { Seen::Proved } else { Seen::Leaks });
        let (accepted, problems, sources) = check(&library(), source.clone(), None, &[], catalog);
        let promises = self.spec.root.sees_past();
        let refused = problems.iter().any(|problem| problem.kind == Kind::LeaksFuture);
        ensure(refused == (promises && !proved) && accepted.is_some() != refused, || {
            format!("proved {proved}, promised {promises}\n{}", report(&problems, &sources))
        })?;
        // One draw of the weights may hide a leak.
        let draws = if proved { 1 } else { DRAWS };
        let mut moves = false;
        for draw in 0..draws {
            moves = moves || self.answers_move(draw)?;
        }
        ensure(!(moves && proved), || "an answer that is proved to see the past alone moves".to_owned())?;
        if !moves && !proved {
            eprintln!("model {}: a leak is found, and no number moves", self.model.name);
            seen.push(Seen::LeakStays);
        }
        Ok(())
    }

    /// Whether later tokens, or an earlier end of the row, move the answer of a token by a bit.
    fn answers_move(&self, draw: u64) -> Held<bool> {
        let weights = weights(&self.forward, self.number + (draw << 32), 0.5 + 0.3 * draw as f64);
        let mut executor = executor::<f32>(&self.inference, &weights, Halting::Compact);
        for (row, length) in LENGTHS.into_iter().enumerate() {
            let whole = part(&self.batch, row, length);
            let logits = result(&mut executor, &whole, "logits")?;
            let unit = logits.len() / length;
            for known in 1..length {
                let mut other = whole.clone();
                other.tokens[known] = (other.tokens[known] + 1 + (known % (VOCAB - 1)) as u32) % VOCAB as u32;
                let shorter = part(&self.batch, row, known);
                for batch in [&other, &shorter] {
                    let there = result(&mut executor, batch, "logits")?;
                    if logits[..known * unit] != there[..known * unit] {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Every graph is the one that its text gives, and the text of the forward graph stands for the model.
    fn graphs_read_back(&self, catalog: &Catalog) -> Held {
        let training = pipeline::training(&self.spec, &self.binding).map_err(|e| e.to_string())?;
        for (stage, graph) in [("forward", &self.forward), ("inference", &self.inference), ("training", &training)] {
            checked(graph, stage);
            let printed = text::print(graph);
            let back = text::parse(&printed).map_err(|problems| format!("{stage}: {problems:?}"))?;
            ensure(hash::hash(&back) == hash::hash(graph), || format!("the {stage} graph has another hash as text"))?;
            ensure(text::print(&back) == printed, || format!("the {stage} graph has another text"))?;
        }
        let given = GivenGraph::read(&text::print(&self.forward)).map_err(|problems| format!("given: {problems:?}"))?;
        let graph = given.forward(catalog).map_err(|problems| format!("given for the task: {problems:?}"))?;
        ensure(hash::hash(&graph) == hash::hash(&self.forward), || "the given graph is another one".to_owned())?;
        let again = pipeline::training(&graph, &self.binding).map_err(|e| e.to_string())?;
        ensure(hash::hash(&again) == hash::hash(&training), || "the given graph is trained otherwise".to_owned())?;
        let difference = diff(&self.forward, &graph, &Sizes::rows(1.0, 10.0));
        ensure(difference.is_empty(), || format!("it differs from itself: {:?}", difference.slots.keys()))
    }

    /// A row has the same bits alone and among others.
    fn rows_are_independent(&self) -> Held {
        let mut executor = self.executor(&self.inference);
        let together = result(&mut executor, &self.batch, "logits")?;
        let total = if self.model.each { self.batch.tokens.len() } else { LENGTHS.len() };
        let unit = together.len() / total;
        for (row, length) in LENGTHS.into_iter().enumerate() {
            let alone = result(&mut executor, &part(&self.batch, row, length), "logits")?;
            let start = if self.model.each { self.batch.offsets[row] } else { row } * unit;
            ensure(alone[..] == together[start..start + alone.len()], || format!("row {row} alone has other bits"))?;
        }
        Ok(())
    }

    /// What halted rows cost changes speed only, and so do the passes of the compiler.
    fn steps_agree(&self, seen: &mut Vec<Seen>) -> Held {
        let compact = run::<f64>(&self.kept, &self.weights, &self.batch, Halting::Compact);
        let finite = |arrays: &Arrays| arrays.values().flatten().all(|x| x.is_finite());
        ensure(finite(&compact.outputs) && finite(&compact.gradients), || "a number is not finite".to_owned())?;
        if compact.outputs.get("depth").is_some_and(|depth| depth.iter().any(|d| *d != depth[0])) {
            seen.push(Seen::Leaves);
        }
        let same = |what: &str, other: &Run| {
            let mut all = differences(&compact.outputs, &other.outputs, 1e-9);
            all.extend(
                differences(&compact.gradients, &other.gradients, 1e-9).into_iter().map(|d| format!("gradient of {d}")),
            );
            ensure(all.is_empty(), || format!("{what}: {}", all.join(", ")))
        };
        for halting in [Halting::Batch, Halting::Never] {
            same(&format!("{halting:?}"), &run::<f64>(&self.kept, &self.weights, &self.batch, halting))?;
        }
        let mut plain = self.forward.clone();
        attach_loss(&mut plain, &self.binding).map_err(|e| e.to_string())?;
        same("without passes", &run::<f64>(&differentiated(&plain), &self.weights, &self.batch, Halting::Compact))
    }

    /// Other labels change no answer, in training and in evaluation; they change the loss.
    fn labels_stay_outside(&self, seen: &mut Vec<Seen>) -> Held {
        let mut other = self.batch.clone();
        let classes = self.binding.classes.unwrap_or(2) as u32;
        match &mut other.labels {
            Labels::Each { class, .. } | Labels::Class(class) | Labels::Several(class) => {
                class.iter_mut().for_each(|class| *class = (*class + 1) % classes);
            }
            Labels::Number(_) => {}
        }
        for graph in [&self.kept, &self.inference] {
            let mut executor = self.executor(graph);
            let (here, there) =
                (result(&mut executor, &self.batch, "logits")?, result(&mut executor, &other, "logits")?);
            ensure(here == there, || "labels reach the answers".to_owned())?;
        }
        let mut executor = self.executor(&self.kept);
        let (here, there) = (result(&mut executor, &self.batch, "loss")?, result(&mut executor, &other, "loss")?);
        if here != there {
            seen.push(Seen::LabelsMatter);
        }
        Ok(())
    }

    /// The slope of the loss along a random direction is what the gradients say.
    fn gradients_are_slopes(&self, seen: &mut Vec<Seen>) -> Held {
        if self.model.cut {
            return Ok(());
        }
        let mut forward = lower(&self.spec, &self.binding).map_err(|e| e.to_string())?;
        attach_loss(&mut forward, &self.binding).map_err(|e| e.to_string())?;
        let gradients = run::<f64>(&self.kept, &self.weights, &self.batch, Halting::Compact).gradients;
        let key = Key::new(self.number).stream("direction");
        let mut executor = executor::<f64>(&forward, &self.weights, Halting::Compact);
        let (mut at, mut along, mut slope): (Vec<f64>, Vec<f64>, f64) = (vec![], vec![], 0.0);
        let plan = executor.plan().clone();
        for (parameter, range) in plan.parameters.iter().zip(parameter_ranges(&plan)) {
            at.extend(&self.weights[&parameter.name]);
            let own = key.stream(&parameter.name);
            along.extend((0..range.len() as u64).map(|n| own.normal(n)));
            let pairs = gradients[&parameter.name].iter().zip(&along[range]);
            slope += pairs.map(|(g, d)| g * d).sum::<f64>();
        }
        let size = gradients.values().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let mut loss = |delta: f64| -> Held<f64> {
            let moved = at.iter().zip(&along).map(|(w, d)| w + delta * d);
            executor.parameters_mut().iter_mut().zip(moved).for_each(|(to, from): (&mut f64, f64)| *to = from);
            let outputs = executor.run(&self.batch, Key::new(KEY)).map_err(|fault| fault.to_string())?;
            Ok(outputs.real("loss").ok_or("there is no loss")?[0])
        };
        let mut differences = vec![];
        // A kink or a jump between the two points is missed by a smaller difference.
        for delta in [1e-5, 1e-6, 1e-7] {
            let found = (loss(delta)? - loss(-delta)?) / (2.0 * delta);
            if (found - slope).abs() < 2e-6 * (1.0 + size) {
                seen.push(Seen::Slopes);
                return Ok(());
            }
            differences.push(found);
        }
        Err(format!("the gradients say {slope:e}, differences {differences:?}"))
    }

    /// What is computed again has the same bits.
    fn limits_keep_the_bits(&self, seen: &mut Vec<Seen>) -> Held {
        let load = BatchShape { lengths: LENGTHS.to_vec(), depth: None };
        let work = LargestBatches { training: load, evaluation: None, fixed_bytes: 0, target: MemoryTarget::Processor };
        let least = plans_within(&self.spec, &self.binding, &work, Some(0)).map_err(|e| e.to_string())?;
        let least = least.training.graph.as_ref();
        checked(least, "the graph that computes again");
        if least.walk(MAIN).len() > self.kept.walk(MAIN).len() {
            seen.push(Seen::Again);
        }
        let [kept, again] =
            [&self.kept, least].map(|graph| run::<f32>(graph, &self.weights, &self.batch, Halting::Compact));
        same_bits("under a limit of memory", &kept, &again)
    }

    fn threads_keep_the_bits(&self) -> Held {
        let on = |pool: &rayon::ThreadPool| {
            pool.install(|| run::<f32>(&self.kept, &self.weights, &self.batch, Halting::Compact))
        };
        same_bits("on two threads", &on(&POOLS[0]), &on(&POOLS[1]))
    }

    /// Training that was interrupted goes on with the same bits. A model whose gradients are too large for single precision, as those of
    /// norms of constants within each other, is refused, and in double precision they are numbers.
    fn training_resumes(&self, seen: &mut Vec<Seen>) -> Held {
        let (mut whole, mut first, mut second) = (self.new_model()?, self.new_model()?, self.new_model()?);
        if let Err(error) = self.update::<f32>(&mut whole, 4) {
            let largest = self.update::<f64>(&mut self.new_model()?, 4).map_err(|error| format!("{error:?}"))?;
            let explodes = matches!(error, LearnError::NonFinite { .. }) && largest > LARGEST;
            return ensure(explodes, || format!("{error:?}, and the largest gradient has the norm {largest:e}"))
                .map(|()| seen.push(Seen::Explodes));
        }
        let broken = |error| format!("{error:?}");
        self.update::<f32>(&mut first, 2).map_err(broken)?;
        second.restore(&first.state()).map_err(broken)?;
        self.update::<f32>(&mut second, 2).map_err(broken)?;
        ensure(whole.executor().parameters() == second.executor().parameters(), || {
            "resuming gives other bits".to_owned()
        })
    }

    fn new_model<T: Element>(&self) -> Held<Model<T>> {
        let (training, inference) = pipeline::plans(&self.spec, &self.binding).map_err(|e| e.to_string())?;
        Ok(Model::new(training, inference, self.binding, self.number))
    }

    /// Makes some updates; the largest norm of their gradients.
    fn update<T: Element>(&self, model: &mut Model<T>, updates: usize) -> Result<f64, LearnError> {
        let rule = UpdateRule { learning_rate: 0.01, weight_decay: 0.1, clip: Some(1.0), ..UpdateRule::ADAMW };
        let mut largest = 0.0_f64;
        for _ in 0..updates {
            model.accumulate(&self.batch, 1.0)?;
            largest = largest.max(model.update(&rule)?);
        }
        Ok(largest)
    }

    fn costs_are_finite(&self) -> Held {
        let cost = Cost::of(&self.spec, &self.binding, LENGTHS.len(), 7).map_err(|e| e.to_string())?;
        let figures = cost.at(LENGTHS.len(), 7, None);
        let all = [figures.parameters, figures.forward, figures.training, figures.depth];
        ensure(all.iter().all(|x| x.is_finite() && *x >= 0.0), || format!("costs {all:?}"))?;
        ensure(figures.training > figures.forward, || format!("costs {all:?}"))?;
        ensure(!results(&self.kept).is_empty(), || "it has no results".to_owned())
    }
}
