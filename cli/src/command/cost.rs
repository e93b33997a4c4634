//! `rtc cost`: what models cost, as formulas and as numbers, side by side.

use std::fmt::Write;

use clap::{Args, ValueEnum};
use rtc_compiler::ir::formula::{Formula, Legend};
use rtc_compiler::pipeline::cost::{Cost, Figures};
use rtc_compiler::schema::Catalog;
use rtc_exec::model::matrices;
use rtc_kernel::optimiser::ParameterMatrix;
use rtc_session::failure::SessionFailure;
use rtc_session::memory::bytes;
use rtc_session::model::{Compiled, catalog_of};
use rtc_session::spec_file::SpecArg;
use rtc_session::text::number;
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::messages::check;
use crate::terminal::Terminal;
use crate::text::columns;
use crate::time::TimeLimit;

const EXAMPLES: &str = "\
Examples:
  rtc cost gut --task listops                 one model, rows of 100 tokens, batch 32
  rtc cost gut gut:no_halt tlb                models side by side
  rtc cost gut --depth 4.5 --length 100,1000  rows that halt after 4.5 steps on the mean
  rtc cost gut --optimiser muon               the products of Muon's updates, too
  rtc cost gut --set depthwise.depth=40 --batch 8 --json
";

const NOTES: &str = "\
B is the number of rows, n their length, depth the steps that a row takes on the mean in a recurrence that halts (--depth; \
without it the bound). Multiply and add are two operations; of an update the products of Muon are counted, and nothing \
else. Memory is that of the values of one batch; parameters with gradients and moments come on top. `rtc docs cost` says what \
is counted and what is free.
";

/// Arguments of `rtc cost`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Options {
    /// The specs: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`
    #[arg(required = true)]
    specs: Vec<String>,
    /// Count for this task: without one, vocabulary and classes count as 1
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Edit all models, as in `depthwise.depth=20`
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Rows of a batch
    #[arg(long, value_name = "ROWS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Tokens of the rows
    #[arg(long, value_name = "TOKENS", value_delimiter = ',', default_value = "100")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    length: Vec<u32>,
    /// Steps that a row takes on the mean where a recurrence halts, at most the bound
    #[arg(long, value_name = "STEPS", value_parser = steps)]
    depth: Option<f64>,
    /// Count what updates by this optimiser take besides: `muon` multiplies matrices, and keeps some
    #[arg(long, value_enum, default_value_t = OptimiserArg::Adamw)]
    optimiser: OptimiserArg,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(crate) time: TimeLimit,
}

/// `--optimiser`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OptimiserArg {
    /// Number by number
    Adamw,
    /// Matrix by matrix
    Muon,
}

fn steps(text: &str) -> Result<f64, String> {
    let steps = text.parse::<f64>().ok().filter(|steps| (0.0..=1e9).contains(steps));
    steps.ok_or_else(|| "a number of steps is wanted, as in `10` or `4.5`".to_owned())
}

/// A model with its costs, in general and for every length.
struct CostLine {
    name: String,
    cost: Cost,
    figures: Vec<(u32, Figures)>,
    /// What Muon updates, where it was asked for.
    matrices: Option<Vec<ParameterMatrix>>,
}

impl CostLine {
    /// Operations of an update, where any are counted.
    fn update(&self) -> Option<f64> {
        Some(self.matrices.as_ref()?.iter().map(ParameterMatrix::operations).sum())
    }

    /// Bytes of a training step with all that stays.
    fn total(&self, figures: &Figures) -> u64 {
        let beside: usize = self.matrices.iter().flatten().map(ParameterMatrix::beside).sum();
        figures.training_memory.total().saturating_add(4 * beside as u64)
    }
}

/// Prints the costs.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let task = catalog_of(options.task.as_deref())?;
    let lines = options.specs.iter().map(|spec| line(spec, options, &task, terminal));
    let lines = lines.collect::<Result<Vec<_>, SessionFailure>>()?;
    if options.json {
        terminal.json(&Value::Array(lines.iter().map(|line| to_json(line, options)).collect()))?;
    } else {
        let formulas = lines.iter().map(formulas).collect::<String>();
        terminal.result(&format!("{formulas}{}", table(&lines, options)))?;
    }
    Ok(Exit::Done)
}

fn line(spec: &str, options: &Options, task: &Catalog, terminal: &Terminal) -> Result<CostLine, SessionFailure> {
    let checked = check(&SpecArg::parse(spec), &options.set, task, terminal)?;
    let compiled = Compiled::new(checked.definition, task)?;
    let rows = options.batch as usize;
    let longest = options.length.iter().copied().max().unwrap_or(1);
    let cost = Cost::of(&compiled.graph, &compiled.binding, rows, longest as usize)?;
    let at = |length: &u32| (*length, cost.at(rows, *length as usize, options.depth));
    let figures = options.length.iter().map(at).collect();
    let matrices = (options.optimiser == OptimiserArg::Muon).then(|| matrices(&compiled.graph));
    Ok(CostLine { name: compiled.name().to_owned(), cost, figures, matrices })
}

/// The formulas of a model by what they give, as people and as programs call it.
fn named(cost: &Cost) -> [(&'static str, &'static str, &Formula); 8] {
    [
        ("parameters", "parameters", &cost.parameters),
        ("embedding", "embedding", &cost.embedding),
        ("forward", "forward", &cost.forward),
        ("training", "training", &cost.training),
        ("computed again", "again", &cost.again),
        ("sequential depth", "depth", &cost.depth),
        ("memory forward", "forward_memory", &cost.forward_memory),
        ("memory training", "training_memory", &cost.training_memory),
    ]
}

fn formulas(line: &CostLine) -> String {
    let mut legend = Legend::default();
    let rows = named(&line.cost).map(|(name, _, formula)| vec![format!("  {name}"), legend.text(formula)]);
    let mut out = format!("{}\n{}", line.name, columns(&rows));
    if let Some(update) = line.update() {
        let _ = writeln!(
            out,
            "  an update by Muon multiplies matrices in {} operations, whatever the batch",
            operations(update)
        );
    }
    for meaning in legend.lines() {
        let _ = writeln!(out, "  where {meaning}");
    }
    if line.cost.at_most {
        out += "  at most: beams that are alike share what they join, so operations and memory may be less\n";
    }
    if line.figures.iter().any(|(_, figures)| figures.extended) {
        let most = number(line.cost.walked as f64);
        let _ = writeln!(out, "  memory of rows of more than {most} tokens: about, extended from shorter ones");
    }
    out.push('\n');
    out
}

/// A line for every model and length.
fn table(lines: &[CostLine], options: &Options) -> String {
    let titles = [
        "model",
        "length",
        "parameters",
        "embedding",
        "forward",
        "training",
        "again",
        "depth",
        "memory forward",
        "training",
        "with weights",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for line in lines {
        for (length, f) in &line.figures {
            let mut row = vec![line.name.clone(), number(f64::from(*length))];
            row.extend([f.parameters, f.embedding].map(number));
            row.extend([f.forward, f.training, f.again].map(operations));
            row.push(number(f.depth));
            let memory = [f.forward_memory.activations, f.training_memory.activations, line.total(f)];
            row.extend(memory.map(bytes));
            rows.push(row);
        }
    }
    let depth = options.depth.map_or("the bound of".to_owned(), |depth| format!("{depth} steps in"));
    format!("{} rows, {depth} every recurrence that halts\n{}", number(f64::from(options.batch)), columns(&rows))
}

/// Operations in a unit for people: `4.21 G`.
fn operations(count: f64) -> String {
    let units = [(1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let unit = units.iter().find(|(size, _)| count >= *size);
    unit.map_or(number(count), |(size, unit)| format!("{:.2}{unit}", count / size))
}

fn to_json(line: &CostLine, options: &Options) -> Value {
    let formulas = named(&line.cost).map(|(_, key, formula)| (key.to_owned(), Value::from(formula.to_string())));
    let figures = line.figures.iter().map(|(length, f)| {
        json!({
            "batch": options.batch, "length": length, "depth_given": options.depth,
            "parameters": f.parameters, "embedding": f.embedding,
            "forward": f.forward, "training": f.training, "again": f.again, "depth": f.depth,
            "forward_memory": f.forward_memory.activations, "training_memory": f.training_memory.activations,
            "training_total": line.total(f), "update": line.update(), "memory_extended": f.extended,
        })
    });
    json!({
        "model": line.name, "at_most": line.cost.at_most,
        "formulas": formulas.into_iter().collect::<serde_json::Map<_, _>>(),
        "figures": figures.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_units() {
        assert_eq!([12.0, 4_210.0, 3.2e9, 7e16].map(operations), ["12", "4.21 k", "3.20 G", "70.00 P"]);
        assert!(["-1", "x", "nan", "inf"].iter().all(|text| steps(text).is_err()));
    }
}
