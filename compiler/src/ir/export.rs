//! Graphs for other tools: YAML and JSON (both read back), DOT and Mermaid (to look at).
//!
//! In the drawings a loop is a cluster, parameters are small shaded boxes beside their only use, and an edge says which
//! of several values flows. Boxes are numbered in print order, so equal graphs give equal drawings.

use super::attribute;
use std::collections::BTreeMap;
use std::fmt::Write;

use super::document::{GraphDocument, Problem};
use super::graph::{Graph, MAIN, NodeId, RegionId, Value, ValueOrigin};
use super::ops::{Flag, Op};
use super::types::Type;

/// The document as YAML.
pub fn yaml(graph: &Graph) -> String {
    serde_yaml::to_string(&GraphDocument::from(graph)).expect("a document is plain data")
}

/// The document as JSON, indented.
pub fn json(graph: &Graph) -> String {
    let mut text = serde_json::to_string_pretty(&GraphDocument::from(graph)).expect("a document is plain data");
    text.push('\n');
    text
}

fn unreadable(message: String) -> Vec<Problem> {
    vec![Problem { at: None, node: String::new(), message }]
}

/// The graph that a YAML document describes.
pub fn from_yaml(text: &str) -> Result<Graph, Vec<Problem>> {
    let document: GraphDocument = serde_yaml::from_str(text).map_err(|e| unreadable(e.to_string()))?;
    document.to_graph()
}

/// The graph that a JSON document describes.
pub fn from_json(text: &str) -> Result<Graph, Vec<Problem>> {
    let document: GraphDocument = serde_json::from_str(text).map_err(|e| unreadable(e.to_string()))?;
    document.to_graph()
}

/// A drawing for Graphviz.
pub fn dot(graph: &Graph) -> String {
    let names = boxes(graph);
    let mut out = format!("digraph \"{}\" {{\n", escape(&graph.name));
    out += "  rankdir=TB\n  compound=true\n  node [shape=box, style=rounded, fontname=\"Helvetica\", fontsize=10]\n";
    out += "  edge [fontname=\"Helvetica\", fontsize=8, color=gray40]\n";
    dot_region(&mut out, graph, MAIN, &names);
    for edge in edges(graph, &names) {
        let label = if edge.label.is_empty() { String::new() } else { format!(" [label=\"{}\"]", escape(&edge.label)) };
        let _ = writeln!(out, "  {} -> {}{label}", edge.from, edge.to);
    }
    out + "}\n"
}

/// A drawing for Mermaid.
pub fn mermaid(graph: &Graph) -> String {
    let names = boxes(graph);
    let mut out = String::from("flowchart TB\n");
    out += "  classDef param fill:#eee,stroke:#aaa,color:#333\n  classDef loop stroke-dasharray:4\n";
    mermaid_region(&mut out, graph, MAIN, &names);
    for edge in edges(graph, &names) {
        let arrow =
            if edge.label.is_empty() { "-->".to_owned() } else { format!("-->|\"{}\"|", entities(&edge.label)) };
        let _ = writeln!(out, "  {} {arrow} {}", edge.from, edge.to);
    }
    out
}

/// The box of each node: `n` and its number in print order.
type Boxes = BTreeMap<NodeId, String>;

fn boxes(graph: &Graph) -> Boxes {
    graph.walk(MAIN).into_iter().enumerate().map(|(n, id)| (id, format!("n{n}"))).collect()
}

fn indent(graph: &Graph, region: RegionId) -> String {
    let around = std::iter::successors(Some(region), |r| graph.parent(*r)).count();
    "  ".repeat(around)
}

fn dot_region(out: &mut String, graph: &Graph, region: RegionId, names: &Boxes) {
    let pad = indent(graph, region);
    if let Some(owner) = graph.owner(region) {
        let _ = writeln!(out, "{pad}{}_in [label=\"{}\", style=dashed]", names[&owner], escape(&entry(graph, region)));
    }
    for &id in graph.nodes(region) {
        let (name, label) = (&names[&id], escape(&caption(graph, id)));
        let style = if graph.node(id).op == Op::Param { ", style=filled, fillcolor=gray92, fontsize=8" } else { "" };
        if let Some(body) = graph.node(id).body {
            let _ = writeln!(out, "{pad}subgraph cluster_{name} {{");
            let title = escape(&slot(graph, id));
            let _ = writeln!(out, "{pad}  label=\"{title}\"\n{pad}  style=rounded\n{pad}  color=gray60");
            let _ = writeln!(out, "{pad}  {name} [label=\"{label}\", style=\"rounded,bold\"]");
            dot_region(out, graph, body, names);
            let _ = writeln!(out, "{pad}}}");
        } else {
            let _ = writeln!(out, "{pad}{name} [label=\"{label}\"{style}]");
        }
    }
}

fn mermaid_region(out: &mut String, graph: &Graph, region: RegionId, names: &Boxes) {
    let pad = indent(graph, region);
    if let Some(owner) = graph.owner(region) {
        let _ = writeln!(out, "{pad}{}_in([\"{}\"]):::loop", names[&owner], entities(&entry(graph, region)));
    }
    for &id in graph.nodes(region) {
        let (name, label) = (&names[&id], entities(&caption(graph, id)));
        if let Some(body) = graph.node(id).body {
            let _ = writeln!(out, "{pad}subgraph {name}_body [\"{}\"]", entities(&slot(graph, id)));
            let _ = writeln!(out, "{pad}  {name}[[\"{label}\"]]");
            mermaid_region(out, graph, body, names);
            let _ = writeln!(out, "{pad}end");
        } else {
            let class = if graph.node(id).op == Op::Param { ":::param" } else { "" };
            let _ = writeln!(out, "{pad}{name}[\"{label}\"]{class}");
        }
    }
}

/// The name of a leaf, else op, telling attributes and result type.
fn caption(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    let types: Vec<String> = node.results.iter().map(|v| graph.ty(*v).to_string()).collect();
    if node.op.has(Flag::Leaf) {
        let name = node.find(attribute::NAME).unwrap_or_default();
        return format!("{name}\n{}", types.join(", "));
    }
    let attrs: Vec<String> = node.attrs.iter().map(|(k, v)| format!("{k} {v}")).collect();
    let mut lines =
        vec![if attrs.is_empty() { node.op.to_string() } else { format!("{} ({})", node.op, attrs.join(", ")) }];
    lines.extend((!types.is_empty() && node.body.is_none()).then(|| types.join(", ")));
    lines.join("\n")
}

fn slot(graph: &Graph, id: NodeId) -> String {
    let node = graph.node(id);
    if node.label.is_empty() { node.op.to_string() } else { node.label.clone() }
}

/// The parameters of a body, as one box.
fn entry(graph: &Graph, region: RegionId) -> String {
    let params: Vec<String> =
        graph.params(region).iter().map(|p| format!("{}: {}", graph.hint(*p), graph.ty(*p))).collect();
    params.join("\n")
}

struct Edge {
    from: String,
    to: String,
    label: String,
}

/// Edges in the order of the nodes that they lead to, each pair of ends once.
fn edges(graph: &Graph, names: &Boxes) -> Vec<Edge> {
    let mut out: Vec<Edge> = vec![];
    for id in graph.walk(MAIN) {
        let first = out.len();
        for value in &graph.node(id).operands {
            let (from, label) = source(graph, *value, names);
            match out[first..].iter_mut().find(|e| e.from == from) {
                Some(edge) if !label.is_empty() && edge.label != label => edge.label += &format!(", {label}"),
                Some(_) => {}
                None => out.push(Edge { from, to: names[&id].clone(), label }),
            }
        }
    }
    out
}

/// The box that a value comes from, and the value's name where the box gives several.
fn source(graph: &Graph, value: Value, names: &Boxes) -> (String, String) {
    let hint = if *graph.ty(value) == Type::Tape { "tape" } else { graph.hint(value) };
    let (node, suffix) = match graph.def(value) {
        ValueOrigin::Result(node, _) => (Some(node), ""),
        ValueOrigin::Param(region, _) => (graph.owner(region), "_in"),
    };
    let name = node.and_then(|n| names.get(&n)).map_or("", String::as_str);
    let single = suffix.is_empty() && node.is_some_and(|n| graph.node(n).results.len() == 1);
    (format!("{name}{suffix}"), if single { String::new() } else { hint.to_owned() })
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn entities(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', "<br/>")
}
