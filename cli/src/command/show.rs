//! `rtc show`: a complete spec, with where every value comes from.

use clap::Args;
use rtc_compiler::source::{Sources, Span};
use rtc_compiler::spec::{self, Block, Origin, Setting, hash, text_with_origins};
use serde_json::{Map, Value, json};

use crate::failure::{Exit, Outcome};
use crate::model::TaskFacts;
use crate::spec_file::{Checked, SpecArg};
use crate::terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  rtc show gut                               defaults and derived values written out
  rtc show gut:no_gate --set embed.width=64  with what the variant and the edit change
  rtc show gut --json                        for programs
";

/// Arguments of `rtc show`.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Options {
    /// The spec: `file.rt`, or `file.rt:variant`
    spec: String,
    /// Edit the model, as in `depthwise.depth=20`
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Show it as it is for this task
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Prints the spec.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let catalog = TaskFacts::named(options.task.as_deref())?.catalog();
    let Checked { spec, sources, .. } = SpecArg::parse(&options.spec).check(&options.set, &catalog, terminal)?;
    if options.json {
        let model = tree(&spec.root, &sources);
        terminal.json(&json!({ "name": spec.name, "doc": spec.doc, "hash": hash(&spec), "model": model }))?;
    } else {
        terminal.result(&text_with_origins(&spec))?;
    }
    Ok(Exit::Done)
}

/// A block with everything inside it.
fn tree(block: &Block, sources: &Sources) -> Value {
    let field = |(name, setting): (&&'static str, &Setting)| {
        let entry = json!({ "value": value(&setting.value), "origin": origin(&setting.origin, sources) });
        ((*name).to_owned(), entry)
    };
    json!({
        "slot": block.slot, "variant": block.variant, "origin": origin(&block.origin, sources),
        "fields": block.fields.iter().map(field).collect::<Map<_, _>>(),
        "children": block.children.iter().map(|child| tree(child, sources)).collect::<Vec<_>>(),
    })
}

/// Numbers as numbers, words and expressions as text.
fn value(value: &spec::Value) -> Value {
    match value {
        spec::Value::Int(number) => json!(number),
        spec::Value::Float(number) => json!(number),
        spec::Value::Word(_) | spec::Value::Expr(_) => json!(value.to_string()),
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
