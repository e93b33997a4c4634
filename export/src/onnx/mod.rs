//! An ONNX model of a compiled graph: opset 17, with loops and halting as `Loop`, the weights as initialisers.
//!
//! The graph of a forward pass goes node by node to operators of ONNX; `build` says how rows are laid out. Inputs are
//! `tokens[batch, length]` and `lengths[batch]`, for a model whose depth comes with the examples `depths[batch]`, and of pairs
//! `tokens_2`, `lengths_2` and `depths_2` besides; the output is `logits`. What lies behind the end of a row changes nothing.

mod attend;
mod build;
mod crvnn_om_ops;
mod expr;
mod loops;
mod nodes;
mod position;
pub mod proto;
mod scan;

use rtc_compiler::ir::attribute;
use std::collections::BTreeMap;
use std::fmt;

use prost::Message;
use rtc_compiler::ir::graph::{Graph, MAIN, Value};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::{BATCH, Dim, LENGTH, PAIRS};
use rtc_compiler::pass;

use crate::torch::{given_values, takes_depths};
use build::{AxisSize, OnnxBuilder};
use proto::{DataType, Dimension, MetadataEntry, Model, OperatorSet, ValueInfo};

/// The version of ONNX's operators: the first with layer norm as one.
const OPSET: i64 = 17;
/// The version of the format that belongs to it.
const IR_VERSION: i64 = 8;
/// The most bytes that a file in this format can have.
const MOST: usize = (1 << 31) - 1;

/// The result that is exported.
const LOGITS: &str = "logits";
/// Names of inputs and outputs.
const RESERVED: [&str; 7] = ["tokens", "lengths", "depths", "tokens_2", "lengths_2", "depths_2", LOGITS];

/// Parameters by name: shape and numbers.
pub type ParameterArrays = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The part of a graph that ONNX cannot say, or that this export does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnnxRefusal(pub String);

impl fmt::Display for OnnxRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OnnxRefusal {}

/// The metadata of the file besides the graph.
#[derive(Clone, Debug, Default)]
pub struct OnnxMetadata {
    /// The version of rtc.
    pub version: String,
    /// What the model is, for people.
    pub doc: String,
    /// Facts for programs: vocabulary, classes, ...
    pub facts: Vec<(String, String)>,
    /// Whether the outermost balanced fold takes every row as one chunk.
    pub flat: bool,
}

/// The bytes of an ONNX file: the graph of a forward pass (`pipeline::inference`) with its weights.
///
/// # Errors
/// An op that ONNX has no words for, with its name and the slot of the spec that it comes from.
pub fn onnx(graph: &Graph, weights: &ParameterArrays, about: &OnnxMetadata) -> Result<Vec<u8>, OnnxRefusal> {
    let graph = &answering(graph)?;
    if let Some(name) = given_values(graph).next() {
        let message = format!("the model takes `{name}` from the examples, and an ONNX file has the tokens alone");
        return Err(OnnxRefusal(message));
    }
    let mut builder = OnnxBuilder::new(graph, weights);
    builder.flat = about.flat;
    let mut inputs = vec![];
    begin(&mut builder, &mut inputs);
    for id in graph.nodes(MAIN) {
        builder.export(*id)?;
    }
    let logits = graph.output(LOGITS).ok_or_else(no_logits)?;
    let output = end(&mut builder, logits);
    let (node, initializer) = builder.finish();
    let name = Some(graph.name.clone());
    let graph = proto::GraphProto { node, name, initializer, input: inputs, output: vec![output] };
    let facts = about.facts.iter();
    let model = Model {
        ir_version: Some(IR_VERSION),
        producer_name: Some("rtc".to_owned()),
        producer_version: Some(about.version.clone()),
        doc_string: Some(about.doc.clone()),
        graph: Some(graph),
        opset_import: vec![OperatorSet { domain: Some(String::new()), version: Some(OPSET) }],
        metadata_props: facts
            .map(|(key, value)| MetadataEntry { key: Some(key.clone()), value: Some(value.clone()) })
            .collect(),
    };
    match model.encoded_len() {
        len if len > MOST => {
            Err(OnnxRefusal(format!("an ONNX file has at most 2 GiB, and this one would have {len} bytes")))
        }
        _ => Ok(model.encode_to_vec()),
    }
}

/// The graph without what its logits do not depend on, as the costs of halting.
fn answering(graph: &Graph) -> Result<Graph, OnnxRefusal> {
    let mut graph = graph.clone();
    let (logits, end) = graph.output(LOGITS).zip(graph.terminator(MAIN)).ok_or_else(no_logits)?;
    graph.set_operands(end, vec![logits]);
    graph.set_attr(end, attribute::NAMES, LOGITS);
    while pass::dce::run(&mut graph) {}
    Ok(graph)
}

fn no_logits() -> OnnxRefusal {
    OnnxRefusal("the graph has no logits".to_owned())
}

/// Whether rows are read in pairs.
fn is_paired(graph: &Graph) -> bool {
    graph.walk(MAIN).iter().any(|id| graph.node(*id).op == Op::Pair)
}

/// Declares the inputs, and the rows and their axis.
fn begin(b: &mut OnnxBuilder<'_>, inputs: &mut Vec<ValueInfo>) {
    let rows = |name: &str| ValueInfo::new(name, DataType::Int, Some(vec![Dimension::named(BATCH)]));
    let grid = |name: &str, axis: &str| {
        ValueInfo::new(name, DataType::Int, Some(vec![Dimension::named(BATCH), Dimension::named(axis)]))
    };
    inputs.extend([grid("tokens", LENGTH), rows("lengths")]);
    let (mut tokens, mut lengths) = ("tokens".to_owned(), "lengths".to_owned());
    let mut given = takes_depths(b.graph).then(|| "depths".to_owned());
    inputs.extend(given.iter().map(|name| rows(name)));
    if is_paired(b.graph) {
        inputs.extend([grid("tokens_2", "length_2"), rows("lengths_2")]);
        inputs.extend(given.iter().map(|_| rows("depths_2")));
        tokens = both(b, "tokens", "tokens_2");
        lengths = b.concat(&["lengths", "lengths_2"], 0);
        given = given.map(|first| b.concat(&[&first, "depths_2"], 0));
    }
    let shape = b.op("Shape", &[&tokens]);
    let sizes: Vec<String> = (0..2)
        .map(|axis| {
            let at = b.int(axis);
            b.op("Gather", &[&shape, &at])
        })
        .collect();
    b.set_rows(sizes[0].clone(), given);
    b.longest = b.largest(&lengths);
    b.set_axis(LENGTH, lengths, sizes[1].clone(), None);
    // What stands behind a row need not be a token.
    let mask = b.axis(LENGTH).mask;
    let zero = b.int(0);
    let known = b.op("Where", &[&mask, &tokens, &zero]);
    for id in b.graph.nodes(MAIN) {
        let node = b.graph.node(*id);
        if node.op == Op::Input {
            b.set(node.results[0], known.clone());
        }
    }
}

/// Two batches of rows one under the other, the narrower one widened.
fn both(b: &mut OnnxBuilder<'_>, first: &str, second: &str) -> String {
    let one = b.int(1);
    let widths = [first, second].map(|x| {
        let shape = b.op("Shape", &[x]);
        b.op("Gather", &[&shape, &one])
    });
    let width = b.op("Max", &[&widths[0], &widths[1]]);
    let zero = b.int(0);
    let wide = [first, second].into_iter().zip(&widths).map(|(x, own)| {
        let more = b.op("Sub", &[&width, own]);
        let pads = b.shape(&[AxisSize::Is(0), AxisSize::Is(0), AxisSize::Is(0), AxisSize::Of(more)]);
        b.op("Pad", &[x, &pads, &zero])
    });
    let wide: Vec<String> = wide.collect();
    b.concat(&[&wide[0], &wide[1]], 0)
}

/// Declares the output. Behind the end of a row, answers for every token are 0.
fn end(b: &mut OnnxBuilder<'_>, logits: Value) -> ValueInfo {
    let ty = b.graph.ty(logits).clone();
    let mut value = b.value(logits);
    if let Some(axis) = b.axis_of(logits) {
        let (mask, zero) = (b.unsqueeze(&axis.mask, &[2]), b.float(0.0));
        value = b.op("Where", &[&mask, &value, &zero]);
    }
    b.node("Identity", &[&value], vec![LOGITS.to_owned()], vec![]);
    let axis = |dim: &Dim| match dim {
        Dim::Fixed(n) => Dimension::sized(*n),
        Dim::Sym(name) if name == PAIRS => Dimension::named(BATCH),
        Dim::Sym(name) => Dimension::named(name),
    };
    ValueInfo::new(LOGITS, DataType::Float, Some(ty.dims().iter().map(axis).collect()))
}
