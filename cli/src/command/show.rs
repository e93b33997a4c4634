//! `rtc show`: a complete spec or experiment, with where every value comes from.

use clap::Args;
use rtc_compiler::check::Override;
use rtc_compiler::ir::attribute::ParameterRole;
use rtc_compiler::ir::graph::Parameter;
use rtc_compiler::ir::types::Dim;
use rtc_compiler::ir::{export, text};
use rtc_compiler::pipeline;
use rtc_compiler::schema::{Catalog, Text};
use rtc_compiler::source::{Sources, Span};
use rtc_compiler::spec::{self, Block, Origin, Setting, hash, library, text_with_origins};
use rtc_runs::experiment::ExperimentSetting;
use rtc_session::definition::need_spec;
use rtc_session::experiment_file::{ForModel, OpenedExperiment};
use rtc_session::failure::SessionFailure;
use rtc_session::model::{Compiled, catalog_of};
use rtc_session::saved::catalog_in;
use rtc_session::spec_file::{CheckedDefinition, SpecArg};
use rtc_session::text::number;
use serde_json::{Map, Value, json};

use crate::exit::{CommandResult, Exit};
use crate::terminal::Terminal;
use crate::text::columns;

const EXAMPLES: &str = "\
Examples:
  rtc show gut                                    defaults and derived values written out
  rtc show gut:no_gate --set embed.width=64       with what the variant and the edit change
  rtc show gut --json                             for programs
  rtc show gut --expand                           with the equations behind its words
  rtc show gut --parameters                       names, shapes, roles, start and number of its weights
  rtc show gut --parameters --experiment listops  with the sizes that only a task gives
  rtc show --experiment listops_smoke             the experiment itself: every value with its file and line
";

/// Arguments of `rtc show`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The spec: `file.rt`, `file.rt:variant`, or a graph, `file.rtir`; without it the experiment is shown
    #[arg(required_unless_present = "experiment")]
    spec: Option<String>,
    /// Edit the model, as in `depthwise.depth=20`
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Show it as it is for this task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Show it as it is in this experiment: a YAML file, or the name of one that is built in
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "task")]
    experiment: Option<String>,
    /// List its parameters: name, shape, how it starts, and how many numbers it has
    #[arg(long)]
    parameters: bool,
    /// Print the equations of the library's words before it
    #[arg(long, conflicts_with = "parameters")]
    expand: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the spec.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let Some(spec) = &options.spec else { return experiment(options, terminal) };
    let arg = SpecArg::parse(spec);
    let (facts, mut edits) = match &options.experiment {
        Some(experiment) => in_experiment(experiment, &arg, terminal)?,
        None => (catalog_of(options.task.as_deref())?, vec![]),
    };
    edits.extend(Override::numbered(&options.set));
    let CheckedDefinition { definition, problems, sources } = arg.check_edited(&edits, &facts)?;
    terminal.problems(&problems, &sources);
    if options.parameters {
        return parameters(options, &Compiled::new(definition, &facts)?, terminal);
    }
    if arg.is_graph() && !options.expand {
        return graph(options, &Compiled::new(definition, &facts)?, terminal);
    }
    let spec = need_spec(&definition, "words to expand")?;
    if options.json {
        let model = tree(&spec.root, &sources);
        let mut shown = json!({ "name": spec.name, "doc": spec.doc, "hash": hash(spec), "model": model });
        if options.expand {
            shown["library"] = library(spec).into();
        }
        terminal.json(&shown)?;
    } else {
        if options.expand {
            terminal.result(&library(spec))?;
        }
        terminal.result(&text_with_origins(spec))?;
    }
    Ok(Exit::Done)
}

/// Prints the graph that was named in place of a spec: it has no settings, and so no origins of them.
fn graph(options: &Options, compiled: &Compiled, terminal: &Terminal) -> CommandResult {
    if !options.json {
        terminal.result(&text::print(&compiled.graph))?;
        return Ok(Exit::Done);
    }
    let graph: Value = serde_json::from_str(&export::json(&compiled.graph)).unwrap_or_default();
    terminal.json(&json!({ "name": compiled.name(), "hash": compiled.spec_hash(), "graph": graph }))?;
    Ok(Exit::Done)
}

/// Prints the experiment that was named in place of a spec.
fn experiment(options: &Options, terminal: &Terminal) -> CommandResult {
    if options.parameters || options.expand || !options.set.is_empty() {
        return Err(SessionFailure::Usage("`--parameters`, `--expand` and `--set` need a spec".to_owned()));
    }
    let OpenedExperiment { file, name, .. } =
        OpenedExperiment::open(options.experiment.as_deref().unwrap_or_default())?;
    if !options.json {
        terminal.result(&file.text_with_places()?)?;
        return Ok(Exit::Done);
    }
    let row = |ExperimentSetting { path, value, place }: ExperimentSetting| {
        let origin = match place {
            Some((file, line)) => json!({ "kind": "written", "place": format!("{file}:{line}") }),
            None => json!({ "kind": "default" }),
        };
        json!({ "path": path, "value": value, "origin": origin })
    };
    let settings: Vec<Value> = file.settings()?.into_iter().map(row).collect();
    terminal.json(&json!({ "name": name, "settings": settings }))?;
    Ok(Exit::Done)
}

/// The task of an experiment, and its edits of the model.
fn in_experiment(
    experiment: &str,
    arg: &SpecArg,
    terminal: &Terminal,
) -> Result<(Catalog, Vec<Override>), SessionFailure> {
    let opened = OpenedExperiment::open(experiment)?;
    let model = arg.model_name()?;
    let ForModel { experiment, edits, note } = opened.resolve_for(arg, &model, &[])?;
    note.iter().for_each(|note| terminal.message(note));
    Ok((catalog_in(&experiment)?, edits))
}

/// Prints the parameters, in the order of their names.
fn parameters(options: &Options, compiled: &Compiled, terminal: &Terminal) -> CommandResult {
    let mut parameters = pipeline::parameters(&compiled.graph);
    parameters.sort_by(|a, b| a.name.cmp(&b.name));
    if options.json {
        let name = compiled.name();
        let listed: Vec<Value> = parameters.iter().map(parameter_json).collect();
        terminal.json(&json!({ "name": name, "hash": compiled.spec_hash(), "parameters": listed }))?;
        return Ok(Exit::Done);
    }
    let title = ["parameter", "shape", "role", "start", "numbers"].map(str::to_owned).to_vec();
    let role = |p: &Parameter| p.role.map_or_else(String::new, |role| role.to_string());
    let row = |p: &Parameter| vec![p.name.clone(), shape(p.ty.dims()), role(p), p.init.to_string(), count(p.ty.dims())];
    let mut rows: Vec<Vec<String>> = std::iter::once(title).chain(parameters.iter().map(row)).collect();
    rows.push(vec![
        format!("{} parameters", parameters.len()),
        String::new(),
        String::new(),
        String::new(),
        compiled.parameters(),
    ]);
    terminal.result(&columns(&rows))?;
    Ok(Exit::Done)
}

fn parameter_json(parameter: &Parameter) -> Value {
    let axis = |dim: &Dim| dim.fixed().map_or_else(|| json!(dim.symbol()), |size| json!(size));
    let dims = parameter.ty.dims();
    json!({
        "name": parameter.name, "shape": dims.iter().map(axis).collect::<Vec<_>>(), "start": parameter.init.to_string(),
        "group": parameter.group,
        "role": parameter.role.map(ParameterRole::name), "numbers": dims.iter().map(Dim::fixed).product::<Option<usize>>(),
    })
}

/// `[vocab, 64]`.
fn shape(dims: &[Dim]) -> String {
    format!("[{}]", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "))
}

/// `4,096`, or `64 vocab` where only a task says how many.
fn count(dims: &[Dim]) -> String {
    let known = number(dims.iter().filter_map(Dim::fixed).product::<usize>() as f64);
    let names = dims.iter().filter_map(Dim::symbol);
    std::iter::once(known.as_str()).chain(names).collect::<Vec<_>>().join(" ")
}

/// A block with everything inside it.
fn tree(block: &Block, sources: &Sources) -> Value {
    let field = |(name, setting): (&Text, &Setting)| {
        let entry = json!({ "value": value(&setting.value), "origin": origin(&setting.origin, sources) });
        (name.to_string(), entry)
    };
    json!({
        "slot": block.slot, "variant": block.variant, "origin": origin(&block.origin, sources),
        "fields": block.fields.iter().map(field).collect::<Map<_, _>>(),
        "children": block.children.iter().map(|child| tree(child, sources)).collect::<Vec<_>>(),
    })
}

/// Numbers as numbers, words and expressions as text.
fn value(value: &spec::FieldValue) -> Value {
    match value {
        spec::FieldValue::Int(number) => json!(number),
        spec::FieldValue::Float(number) => json!(number),
        spec::FieldValue::Truth(truth) => json!(truth),
        spec::FieldValue::Word(_) | spec::FieldValue::Expr(_) | spec::FieldValue::Function(_) => {
            json!(value.to_string())
        }
    }
}

fn origin(origin: &Origin, sources: &Sources) -> Value {
    match origin {
        Origin::Written(span) => json!({ "kind": "written", "place": place(*span, sources) }),
        Origin::Variant(name, span) => json!({ "kind": "variant", "variant": name, "place": place(*span, sources) }),
        Origin::Override(number) => json!({ "kind": "set", "number": number }),
        Origin::Derived(rule) => json!({ "kind": "derived", "from": rule }),
        Origin::Default => json!({ "kind": "default" }),
    }
}

fn place(span: Span, sources: &Sources) -> Option<String> {
    let source = sources.get(span.source)?;
    Some(format!("{}:{}", source.name, source.position(span.start)))
}
