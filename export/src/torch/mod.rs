//! A model as a PyTorch module: the text of `model.py`.
//!
//! The module is written from the forward graph as lowered. Rows lie packed as in rtc itself, so no padding can be seen by
//! anything. Every op is one expression (`ops`); a loop is a loop of Python around the method of its body (`loops`,
//! `region`); parameters are modules under their names in the spec (`parts`); `support` holds the functions that are more
//! than an expression.

mod code;
mod expression;
mod layers;
mod loops;
mod ops;
mod parts;
mod python;
mod region;
mod scope;
mod support;

use rtc_compiler::ir::attribute::{self, StepBound};
use rtc_compiler::ir::graph::{Graph, MAIN, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::schedule::recur;
use rtc_compiler::ir::types::Elem;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::pass::branches::Branches;
use rtc_compiler::pass::dce;
use rtc_compiler::spec::{Spec, text};

use crate::Refused;
use crate::weights::Weight;
use code::Binds;
use parts::ModuleParameters;
use python::{docstring, repr};
use region::{MethodWriter, TorchMethod};

/// The text of `tokenizer.py`: how texts become tokens, by the facts in `config.json`.
pub const TOKENIZER: &str = include_str!("tokenizer.py");

/// The description of a model in the text of a module.
#[derive(Clone, Debug)]
pub struct ModelDescription<'a> {
    /// The name of the model.
    pub name: &'a str,
    /// What it is, in sentences; may be empty.
    pub doc: &'a str,
    /// What `text` is: `spec` or `graph`.
    pub kind: &'static str,
    /// What the model was made of.
    pub text: String,
    /// The value that is the number of every token's document in its row, from 0, and the token that ends one.
    pub documents: Option<(&'a str, u32)>,
}

impl<'a> From<&'a Spec> for ModelDescription<'a> {
    fn from(spec: &'a Spec) -> Self {
        Self { name: &spec.name, doc: &spec.doc, kind: "spec", text: text(spec), documents: None }
    }
}

/// The text of `model.py` for the forward graph of a model, as lowered for a task. The module has the parameters that a result reads, and
/// those of `weights` that none does, so that a file of these weights is loaded completely.
///
/// # Errors
/// What a module can't say, by name.
pub fn module<'a>(
    origin: impl Into<ModelDescription<'a>>,
    graph: &Graph,
    binding: &Binding,
    weights: &[Weight<'_>],
) -> Result<String, Refused> {
    let (origin, graph) = (&origin.into(), &answering(graph));
    let parts = ModuleParameters::new(graph, weights)?;
    let branches = Branches::of(graph);
    let mut writer =
        MethodWriter { graph, parts: &parts, branches, methods: vec![], sections: vec![], flat: false, copy: None };
    let inputs: Vec<Value> = graph
        .nodes(MAIN)
        .iter()
        .map(|id| graph.node(*id))
        .filter(|n| n.op == Op::Input)
        .map(|n| n.results[0])
        .collect();
    let documents = origin.documents.filter(|(name, _)| given_values(graph).any(|given| given == *name));
    if let Some(name) = given_values(graph).find(|given| documents.is_none_or(|(name, _)| name != *given)) {
        return Err(Refused(format!("the value `{name}`, which comes with the examples")));
    }
    let is_document = |v: &&Value| graph.ty(**v).elem() == Some(Elem::Real);
    let name = |v: &Value| if is_document(&v) { "document" } else { "tokens" };
    let named: Vec<(Value, String)> = inputs.iter().map(|v| (*v, name(v).to_owned())).collect();
    let main = writer.body(MAIN, &named)?;
    let documents = documents.zip(inputs.iter().find(is_document)).map(|((_, end), v)| {
        let unit = if graph.ty(*v).dims().len() > 2 { "[..., None]" } else { "" };
        DocumentNumbers { end, unit }
    });
    let end =
        graph.terminator(MAIN).map(|id| graph.node(id)).ok_or_else(|| Refused("a graph without results".to_owned()))?;
    let names = end.get(attribute::NAMES);
    let results = names.split(',').map(str::trim).zip(&end.operands);
    let results = results.map(|(name, v)| Ok((name.to_owned(), writer.operand(&main, *v)?.inside(Binds::Argument))));
    let results = results.collect::<Result<Vec<_>, Refused>>()?;
    let given = takes_depths(graph);
    let mut sections = vec!["slots", "rows", "inputs"];
    sections.append(&mut writer.sections);
    let code = parts.code();
    if code.contains("parameter(") {
        sections.push("parameter");
    }
    let mut class = format!("class Model(Slots):\n    \"\"\"{}\"\"\"\n\n", docstring(&title(origin)));
    class += "    def __init__(self):\n        super().__init__()\n";
    class += &code;
    if writer.flat {
        class += "        self.flat = False  # in evaluation, leaves out the outermost recursion\n";
    }
    class += &entry(binding.objective, given, writer.flat);
    class += &outputs(&main.lines, &results, binding.objective, (given, documents));
    class.extend(writer.methods.iter().map(written));
    if writer.flat {
        class += FLAT;
    }
    let body = format!("{}\n\n\n{class}", support::text(&sections));
    Ok(format!("{}\n\n\n{body}", header(origin, &body)))
}

/// The graph without what no result reads, with the numbers of steps that stand for drawn ones.
fn answering(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    for id in graph.walk(MAIN) {
        let settled = graph.node(id).find(attribute::BOUND).and_then(recur::without_draws);
        if let Some(bound) = &settled {
            graph.set_attr(id, attribute::BOUND, StepBound::Rule(bound));
        }
    }
    while dce::run(&mut graph) {}
    graph
}

/// The names of values that come with the examples, beside their tokens.
pub(crate) fn given_values(graph: &Graph) -> impl Iterator<Item = &str> {
    let inputs = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Input);
    inputs.map(|node| node.get(attribute::NAME)).filter(|name| *name != "tokens")
}

/// Whether the number of steps comes with the examples.
pub fn takes_depths(graph: &Graph) -> bool {
    let bounds = graph.walk(MAIN).into_iter().filter_map(|id| graph.node(id).find(attribute::BOUND)?.rule());
    bounds.filter_map(|rule| rtc_compiler::expr::Expr::try_from(rule).ok()).any(|expr| expr.holds_given())
}

const FLAT: &str = "
    def is_flat(self):
        return self.flat and not self.training

    def cut(self, cut):
        return cut.whole() if self.is_flat() else cut
";

fn title(origin: &ModelDescription<'_>) -> String {
    match origin.doc.lines().next() {
        Some(line) if !line.is_empty() => line.to_owned(),
        _ => format!("The model `{}`.", origin.name),
    }
}

/// What stands before the first section: the docstring and the imports.
fn header(origin: &ModelDescription<'_>, body: &str) -> String {
    let mut out = format!(
        "\"\"\"The model `{}`, written by `rtc export`.

    model = Model.from_folder(\"the folder of this file\")
    logits = model(tokens, lengths)

Its {}:

{}\"\"\"

",
        docstring(origin.name),
        origin.kind,
        docstring(&origin.text),
    );
    for module in ["json", "math"] {
        if body.contains(&format!("{module}.")) {
            out += &format!("import {module}\n");
        }
    }
    out += "from functools import cached_property
from itertools import accumulate
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn";
    out
}

/// `from_folder` and `forward`.
fn entry(objective: Objective, depths: bool, flat: bool) -> String {
    let mut args = "tokens, lengths".to_owned();
    if objective == Objective::Pair {
        args += ", second_tokens, second_lengths";
    }
    if depths {
        args += ", depths";
    }
    let given = match objective {
        Objective::Pair => "first and second tokens [B, S] and [B, T] with their lengths [B]",
        _ => "tokens [B, S], of which the first `lengths` [B] of a row count",
    };
    let answer = match objective {
        Objective::Classify | Objective::Pair => "Logits [B, classes]",
        Objective::Each => "Logits [B, S, classes]",
        Objective::Several => "A logit for every label, [B, labels],",
        Objective::Number => "A number for every row, [B, 1], in the unit of the model,",
    };
    let shape = format!("{answer} of {given}.");
    let mut out = "
    @classmethod
    def from_folder(cls, folder):
        \"\"\"The trained model of a folder, in evaluation mode.\"\"\"
        model = cls()
        model.load_state_dict(load_file(Path(folder) / \"weights.safetensors\"))
"
    .to_owned();
    if flat {
        out += "        model.flat = json.loads((Path(folder) / \"config.json\").read_text(encoding=\"utf-8\"))[\"inference\"] == \"flat\"\n";
    }
    out += "        return model.eval()\n";
    out += &format!(
        "\n    def forward(self, {args}):\n        \"\"\"{shape}\"\"\"\n        return self.outputs({args})[\"logits\"]\n"
    );
    out
}

/// How the numbers of documents are made of the tokens.
#[derive(Clone, Copy)]
struct DocumentNumbers {
    /// The token that ends a document.
    end: u32,
    /// The index that adds an axis of one channel, where the model has one.
    unit: &'static str,
}

fn outputs(
    lines: &[String],
    results: &[(String, String)],
    objective: Objective,
    (given, documents): (bool, Option<DocumentNumbers>),
) -> String {
    let mut out = String::new();
    let depths = if given { ", depths" } else { "" };
    let second = if objective == Objective::Pair { ", second_tokens, second_lengths" } else { "" };
    out += &format!("\n    def outputs(self, tokens, lengths{second}{depths}):\n");
    out += &format!("        \"\"\"{}\"\"\"\n", described(results));
    let own = if given { ", torch.as_tensor(depths).tolist()" } else { "" };
    if objective == Objective::Pair {
        out += "        lengths, second_lengths = checked(tokens, lengths), checked(second_tokens, second_lengths)\n";
        out += &format!(
            "        rows = Rows.of(lengths + second_lengths, tokens.device{})\n",
            if given { ", 2 * torch.as_tensor(depths).tolist()" } else { "" }
        );
        out += "        first, second = Axis(lengths, tokens.device), Axis(second_lengths, tokens.device)\n";
        out += "        tokens = torch.cat([first.pack(tokens), second.pack(second_tokens)])\n\n";
    } else {
        out += &format!("        rows = Rows.of(checked(tokens, lengths), tokens.device{own})\n");
        if let Some(DocumentNumbers { end, unit }) = documents {
            out += &format!("        ends = (tokens == {end}).to(next(self.parameters()).dtype)\n");
            out += &format!("        document = rows[\"length\"].pack(ends.cumsum(1) - ends){unit}\n");
        }
        out += "        tokens = rows[\"length\"].pack(tokens)\n\n";
    }
    for line in lines {
        out += &if line.is_empty() { "\n".to_owned() } else { format!("        {line}\n") };
    }
    let value = |(name, code): &(String, String)| match (name.as_str(), objective) {
        ("logits", Objective::Each) => format!("\"logits\": rows[\"length\"].pad({code})"),
        _ => format!("{}: {code}", repr(name)),
    };
    let entries: Vec<String> = results.iter().map(value).collect();
    out += &format!("        return {{{}}}\n", entries.join(", "));
    out
}

fn described(results: &[(String, String)]) -> &'static str {
    if results.len() > 1 {
        "The logits, the penalty to be added to the loss, and of every row the cost of its steps and their number."
    } else {
        "The logits by their name."
    }
}

fn written(method: &TorchMethod) -> String {
    let params: String = method.params.iter().map(|name| format!(", {name}")).collect();
    let mut out = format!("\n    def {}(self, rows{params}):\n        \"\"\"{}\"\"\"\n", method.name, method.doc);
    for line in &method.lines {
        out += &if line.is_empty() { "\n".to_owned() } else { format!("        {line}\n") };
    }
    out
}
