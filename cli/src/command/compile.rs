//! `rtc compile`: the stages of a spec on its way to a plan.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rtc_base::disk::write_output;
use rtc_compiler::ir::{export, text};
use rtc_compiler::pipeline::memory::{LargestBatches, Need, plans_within};
use rtc_compiler::plan::memory::{BatchShape, MemoryTarget};
use rtc_compiler::schema::Catalog;
use rtc_compiler::{causality, pipeline, plan, spec};
use rtc_session::definition::need_spec;
use rtc_session::failure::SessionFailure;
use rtc_session::memory;
use rtc_session::model::{Compiled, catalog_of};
use rtc_session::spec_file::SpecArg;

use crate::exit::{CommandResult, Exit};
use crate::messages::check;
use crate::terminal::Terminal;
use crate::text::columns;

const EXAMPLES: &str = "\
Examples:
  rtc compile gut                           the forward graph
  rtc compile gut:no_gate --emit optimised  the training step after all passes
  rtc compile gut --emit plan --inference   what runs for a prediction
  rtc compile gut --task listops --emit yaml -o gut.yaml
  rtc compile gut --emit causality          which tokens every node depends on
  rtc compile gut --emit plan --batch 32 --length 100 --memory 400MB
  rtc compile gut --emit dot | dot -Tsvg > gut.svg
  rtc compile gut --emit dot --level slots | dot -Tpdf > gut.pdf   the structure, for a paper
";

/// Arguments of `rtc compile`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The spec: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`
    spec: String,
    /// What to print
    #[arg(long, value_enum, default_value_t = Stage::Graph, value_name = "STAGE")]
    emit: Stage,
    /// With `--emit dot`: the operations, or the statements of the spec with what differs from their defaults
    #[arg(long, value_enum, default_value_t = PictureLevel::Nodes, value_name = "LEVEL")]
    level: PictureLevel,
    /// Compile for this task; without one, vocabulary and classes stay symbolic
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Edit the model, as in `depthwise.depth=20`
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Take the optimised forward pass without dropout instead of the training step or the graph as lowered
    #[arg(long)]
    inference: bool,
    /// With `--emit plan`: compute more again until a training step takes less than this, as in `2GB`, `800MiB`
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    /// With `--emit plan`: say what a training step of so many rows takes
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: Option<u32>,
    /// With `--emit plan`: the tokens of these rows
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    length: Option<u32>,
    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// The complete spec
    Spec,
    /// The forward graph as lowered
    Graph,
    /// The graph with loss and gradients, before optimisation
    Grad,
    /// The graph of a training step after all passes
    Optimised,
    /// The plan of a training step: order, lifetimes, reuse
    Plan,
    /// Which tokens every node of the forward graph depends on, and the proof or the leaks of a model that sees the past
    Causality,
    /// The forward graph as YAML
    Yaml,
    /// The forward graph as JSON
    Json,
    /// The forward graph for Graphviz
    Dot,
    /// The forward graph for Mermaid
    Mermaid,
}

/// The level of detail of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PictureLevel {
    /// Every operation of the forward graph
    Nodes,
    /// Every statement of the spec
    Slots,
}

/// Prints the stage, and one line about the model.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    if options.inference && options.emit == Stage::Grad {
        return Err(SessionFailure::Usage(
            "`--inference` has no gradients: leave it out, or choose another `--emit`".into(),
        ));
    }
    if options.inference && options.emit == Stage::Causality {
        return Err(SessionFailure::Usage("the proof is made on the graph as lowered: leave `--inference` out".into()));
    }
    if options.level == PictureLevel::Slots && options.emit != Stage::Dot {
        return Err(SessionFailure::Usage("`--level slots` is for Graphviz: add `--emit dot`".into()));
    }
    let asked = options.memory.is_some() || options.batch.is_some() || options.length.is_some();
    if asked && (options.inference || options.emit != Stage::Plan) {
        return Err(SessionFailure::Usage(
            "`--memory`, `--batch` and `--length` are about the plan of a training step: add `--emit plan`, without \
             `--inference`"
                .into(),
        ));
    }
    let task = catalog_of(options.task.as_deref())?;
    let arg = SpecArg::parse(&options.spec);
    // A model that fails its proof is shown before it is refused.
    let refused = match options.emit {
        Stage::Causality => arg.check(&options.set, &task).err(),
        _ => None,
    };
    let checked = match refused {
        Some(_) => arg.check_form(&options.set, &task)?,
        None => check(&arg, &options.set, &task, terminal)?,
    };
    // What was refused is not refused again.
    let facts = Catalog { next_token: task.next_token && refused.is_none(), ..task };
    let compiled = Compiled::new(checked.definition, &facts)?;
    let text = if asked { planned(&compiled, options)? } else { stage(&compiled, options)? };
    match &options.output {
        None => terminal.result(&text)?,
        Some(path) => write_output(path, &text)?,
    }
    if let Some(failure) = refused {
        return Err(failure);
    }
    terminal.message(&compiled.summary());
    Ok(Exit::Done)
}

/// Rows and tokens of a batch for which nothing else was asked.
const BATCH: (u32, u32) = (32, 100);

/// The plan of a training step for a batch, after what it takes, keeps and computes again.
fn planned(compiled: &Compiled, options: &Options) -> Result<String, SessionFailure> {
    let (rows, length) = (options.batch.unwrap_or(BATCH.0), options.length.unwrap_or(BATCH.1));
    let work = LargestBatches {
        training: BatchShape::even(rows as usize, length as usize),
        evaluation: None,
        fixed_bytes: 0,
        target: MemoryTarget::Processor,
    };
    let fitted = plans_within(&compiled.graph, &compiled.binding, &work, options.memory)?;
    if let Some(limit) = options.memory.filter(|_| !fitted.fits) {
        return Err(SessionFailure::Memory(format!(
            "a training step of {rows} rows of {length} tokens within {} is not possible: the least is {}",
            memory::bytes(limit),
            memory::bytes(fitted.need.total())
        )));
    }
    let line = |what: &str, need: &Need| {
        let (all, values) = (memory::bytes(need.total()), memory::bytes(need.training.activations));
        let lists = match need.lists() {
            0 => String::new(),
            lists => format!(", lists of its searches: {}", memory::bytes(lists)),
        };
        vec![what.to_owned(), all, format!("of it values: {values}{lists}")]
    };
    let mut lines = vec![line("everything kept", &fitted.all_kept), line("without a limit", &fitted.without_limit)];
    lines.extend(options.memory.map(|limit| line(&format!("within {}", memory::bytes(limit)), &fitted.need)));
    let list = |name: &str, values: &[String]| {
        format!("{name}:\n{}", values.iter().map(|value| format!("  {value}\n")).collect::<String>())
    };
    Ok(format!(
        "a training step of {rows} rows of {length} tokens takes at most\n{}{}{}{}",
        columns(&lines),
        list("kept for the backward run", &fitted.kept),
        list("computed again in the backward run", &fitted.again),
        plan::text(&fitted.training)
    ))
}

fn stage(compiled: &Compiled, options: &Options) -> Result<String, SessionFailure> {
    let Compiled { definition, binding, graph: lowered } = compiled;
    let optimised =
        || if options.inference { pipeline::inference(lowered, binding) } else { pipeline::training(lowered, binding) };
    let graph = match options.inference {
        true => &pipeline::inference(lowered, binding)?,
        false => lowered,
    };
    Ok(match options.emit {
        Stage::Spec => spec::text(need_spec(definition, "spec to print")?),
        Stage::Graph => text::print(graph),
        Stage::Grad => text::print(&pipeline::differentiated(lowered, binding)?),
        Stage::Optimised => text::print(&optimised()?),
        Stage::Causality => causality::text(graph, "logits"),
        Stage::Plan => plan::text(&plan::plan(optimised()?)),
        Stage::Yaml => export::yaml(graph),
        Stage::Json => export::json(graph),
        Stage::Dot if options.level == PictureLevel::Slots => {
            rtc_report::dot(need_spec(definition, "statements to draw")?)
        }
        Stage::Dot => export::dot(graph),
        Stage::Mermaid => export::mermaid(graph),
    })
}
