//! The commands, one file each: `Options` are its arguments, `run` does it.

mod ablate;
mod arguments;
mod check;
mod compile;
mod complete;
mod completions;
mod cost;
mod diff;
mod docs;
mod eval;
mod explain;
mod export;
mod fmt;
mod generate;
mod import;
mod lsp;
mod predict;
mod report;
mod runs;
mod schema;
mod show;
mod task;
mod train;
mod verify;

pub(crate) use arguments::Cli;
use clap::Subcommand;

use crate::exit::CommandResult;
use crate::terminal::Terminal;
use crate::time::TimeLimit;

/// A command with its arguments.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Report every problem in specs
    Check(check::Options),
    /// Print a stage of a compiled spec: its graph, gradient, plan, ...
    Compile(compile::Options),
    /// Put spec files into the canonical layout
    Fmt(fmt::Options),
    /// Print a complete spec, with where every value comes from
    Show(show::Options),
    /// Explain a code that `rtc check` reports
    Explain(explain::Options),
    /// Print a page of the documentation
    Docs(docs::Options),
    /// Say what differs between two specs, as graphs
    Diff(diff::Options),
    /// Say what models cost: parameters, operations, depth, memory
    Cost(cost::Options),
    /// Train a model, or go on with its training
    Train(train::Options),
    /// Train every model of a comparison with every seed, and print the table
    Ablate(ablate::Options),
    /// Measure a trained model on splits of its task
    Eval(eval::Options),
    /// Ask a trained model about sequences
    Predict(predict::Options),
    /// Let a trained model of next tokens write on
    Generate(generate::Options),
    /// Write a trained model for other programs
    Export(export::Options),
    /// Make a spec of a published model
    Import(import::Options),
    /// Put curves, tables and pictures of runs on one page
    Report(report::Options),
    /// Check that runs are as they were written, and that their results come out again
    Verify(verify::Options),
    /// List runs, tag, note, rename and remove them
    Runs(runs::Options),
    /// List, describe and sample the tasks
    Task(task::Options),
    /// Serve an editor: problems, completions, hovers and names of specs
    Lsp(lsp::Options),
    /// Print the JSON Schema of experiments, for editors
    Schema(schema::Options),
    /// Print the completions of a shell
    Completions(completions::Options),
    /// Print what can stand at the end of a line
    #[command(hide = true)]
    Complete(complete::Options),
}

impl Command {
    /// The number of threads asked for, where a command takes one.
    pub(crate) fn threads(&self) -> Option<usize> {
        match self {
            Self::Train(options) => options.threads.map(usize::from),
            Self::Eval(options) => options.model.threads.map(usize::from),
            Self::Predict(options) => options.model.threads.map(usize::from),
            Self::Generate(options) => options.model.threads.map(usize::from),
            Self::Export(options) => options.model.threads.map(usize::from),
            Self::Report(options) => options.threads.map(usize::from),
            Self::Verify(options) => options.threads.map(usize::from),
            _ => None,
        }
    }

    /// How long it may take, where a command has a limit.
    pub(crate) fn time_limit(&self) -> Option<TimeLimit> {
        match self {
            Self::Check(options) => Some(options.time),
            Self::Cost(options) => Some(options.time),
            Self::Eval(options) => Some(options.time),
            Self::Predict(options) => Some(options.time),
            Self::Report(options) => Some(options.time),
            Self::Verify(options) => Some(options.time),
            Self::Task(options) => options.time_limit(),
            _ => None,
        }
    }

    /// Runs it.
    pub(crate) fn run(&self, terminal: &Terminal) -> CommandResult {
        match self {
            Self::Check(options) => check::run(options, terminal),
            Self::Compile(options) => compile::run(options, terminal),
            Self::Fmt(options) => fmt::run(options, terminal),
            Self::Show(options) => show::run(options, terminal),
            Self::Explain(options) => explain::run(options, terminal),
            Self::Docs(options) => docs::run(options, terminal),
            Self::Diff(options) => diff::run(options, terminal),
            Self::Cost(options) => cost::run(options, terminal),
            Self::Train(options) => train::run(options, terminal),
            Self::Ablate(options) => ablate::run(options, terminal),
            Self::Eval(options) => eval::run(options, terminal),
            Self::Predict(options) => predict::run(options, terminal),
            Self::Generate(options) => generate::run(options, terminal),
            Self::Export(options) => export::run(options, terminal),
            Self::Import(options) => import::run(options, terminal),
            Self::Report(options) => report::run(options, terminal),
            Self::Verify(options) => verify::run(options, terminal),
            Self::Runs(options) => runs::run(options, terminal),
            Self::Task(options) => task::run(options, terminal),
            Self::Lsp(options) => lsp::run(options),
            Self::Schema(options) => schema::run(options, terminal),
            Self::Completions(options) => completions::run(options, terminal),
            Self::Complete(options) => complete::run(options, terminal),
        }
    }
}
