//! `rtc compile`: the stages of a spec on its way to a plan.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use rtc_compiler::ir::{export, text};
use rtc_compiler::{pipeline, plan, spec};

use crate::failure::{Exit, Failure, Outcome};
use crate::model::{Compiled, TaskFacts};
use crate::spec_file::SpecArg;
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc compile specs/gut.rt                                  the forward graph
  rtc compile specs/gut.rt:no_gate --emit optimised         the training step after all passes
  rtc compile specs/gut.rt --emit plan --inference          what runs for a prediction
  rtc compile specs/gut.rt --task listops --emit yaml -o gut.yaml
  rtc compile specs/gut.rt --emit dot | dot -Tsvg > gut.svg
";

/// Arguments of `rtc compile`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The spec: `file.rt`, or `file.rt:variant`
    spec: String,
    /// What to print
    #[arg(long, value_enum, default_value_t = Stage::Graph, value_name = "STAGE")]
    emit: Stage,
    /// Compile for this task; without one, vocabulary and classes stay symbolic
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Edit the model, as in `depthwise.depth=20`
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Take the optimised forward pass without dropout instead of the training step or the graph as lowered
    #[arg(long)]
    inference: bool,
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
    /// The forward graph as YAML
    Yaml,
    /// The forward graph as JSON
    Json,
    /// The forward graph for Graphviz
    Dot,
    /// The forward graph for Mermaid
    Mermaid,
}

/// Prints the stage, and one line about the model.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    if options.inference && options.emit == Stage::Grad {
        return Err(Failure::Usage("`--inference` has no gradients: leave it out, or choose another `--emit`".into()));
    }
    let task = TaskFacts::named(options.task.as_deref())?;
    let checked = SpecArg::parse(&options.spec).check(&options.set, &task.catalog(), terminal)?;
    let compiled = Compiled::new(checked.spec, &task)?;
    let text = stage(&compiled, options)?;
    match &options.output {
        None => terminal.result(&text)?,
        Some(path) => std::fs::write(path, &text).map_err(|error| Failure::io("write", path, error))?,
    }
    terminal.message(&compiled.summary());
    Ok(Exit::Done)
}

fn stage(compiled: &Compiled, options: &Options) -> Result<String, Failure> {
    let Compiled { spec, binding, graph } = compiled;
    let optimised =
        || if options.inference { pipeline::inference(spec, binding) } else { pipeline::training(spec, binding) };
    let graph = match options.inference {
        true => &pipeline::inference(spec, binding)?,
        false => graph,
    };
    Ok(match options.emit {
        Stage::Spec => spec::text(spec),
        Stage::Graph => text::print(graph),
        Stage::Grad => text::print(&pipeline::differentiated(spec, binding)?),
        Stage::Optimised => text::print(&optimised()?),
        Stage::Plan => plan::text(&plan::plan(optimised()?)),
        Stage::Yaml => export::yaml(graph),
        Stage::Json => export::json(graph),
        Stage::Dot => export::dot(graph),
        Stage::Mermaid => export::mermaid(graph),
    })
}
