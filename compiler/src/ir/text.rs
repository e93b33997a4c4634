//! The `.rtir` text form of graphs: printing, and reading through [`GraphDocument`].
//!
//! Printing what was read gives the text again, byte for byte, once it was printed: names are unique and in print order.

use pest::Parser;
use pest::error::LineColLocation;
use pest::iterators::Pair;

use super::attr;
use super::document::{GraphDocument, Named, NodeDoc, Problem, RegionDocument};
use super::graph::Graph;
use super::ops::Op;
use crate::source::Position;

/// The column at which labels stand, if the node leaves room.
const LABELS: usize = 88;
/// Longer lines of loops are broken before their parameters.
const WIDTH: usize = 118;
/// How deep brackets may nest. The parser recurses; this bounds its stack.
const BRACKETS: usize = 128;

mod grammar {
    /// Parser of `grammar/rtir.pest`.
    #[derive(pest_derive::Parser)]
    #[grammar = "../grammar/rtir.pest"]
    pub(super) struct TextForm;
}
use grammar::{Rule, TextForm};

/// The graph as text.
pub fn print(graph: &Graph) -> String {
    write(&GraphDocument::from(graph))
}

/// The graph that a text describes, or every problem in it. Syntax errors stop at the first.
pub fn parse(text: &str) -> Result<Graph, Vec<Problem>> {
    read(text).map_err(|p| vec![p])?.to_graph()
}

/// The document as text.
pub fn write(document: &GraphDocument) -> String {
    let mut out = format!("graph {} {{\n", attr::quote(&document.graph));
    write_nodes(&mut out, &document.nodes, 1);
    out += "}\n";
    out
}

/// One node without its body and label: `%y = add %a, %b : f32[batch]`.
pub fn node_line(node: &NodeDoc) -> String {
    let mut out = node.head();
    for (n, operand) in node.operands.iter().enumerate() {
        out += if n == 0 { " %" } else { ", %" };
        out += operand;
    }
    if !node.attrs.is_empty() {
        // In the order of the op's row, so that a parameter's name comes before its initialiser.
        let row: Vec<&str> = Op::named(&node.op)
            .map_or_else(Vec::new, |op| op.def().attrs().map(|takes| takes.attribute.name).collect());
        let mut attrs: Vec<_> = node.attrs.iter().collect();
        attrs.sort_by_key(|(name, _)| row.iter().position(|known| known == name));
        let attrs: Vec<String> = attrs.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        out += &format!(" {{{}}}", attrs.join(", "));
    }
    if !node.results.is_empty() {
        let types: Vec<&str> = node.results.iter().map(|r| r.ty.as_str()).collect();
        out += &format!(" : {}", types.join(", "));
    }
    out
}

fn write_nodes(out: &mut String, nodes: &[NodeDoc], depth: usize) {
    let indent = "  ".repeat(depth);
    for node in nodes {
        let mut line = format!("{indent}{}", node_line(node));
        if let Some(body) = &node.body {
            open_body(&mut line, body, &indent);
            line += "\n";
            write_nodes(&mut line, &body.nodes, depth + 1);
            line += &format!("{indent}}}");
        }
        if !node.label.is_empty() {
            let last = line.rsplit('\n').next().map_or(0, |l| l.chars().count());
            let quoted = if attr::is_word(&node.label) { node.label.clone() } else { attr::quote(&node.label) };
            line += &format!("{}@ {quoted}", " ".repeat(LABELS.saturating_sub(last).max(2)));
        }
        *out += &line;
        out.push('\n');
    }
}

fn open_body(line: &mut String, body: &RegionDocument, indent: &str) {
    let params: Vec<String> = body.params.iter().map(|p| format!("%{}: {}", p.name, p.ty)).collect();
    let short = params.join(", ");
    if line.chars().count() + short.chars().count() + 5 <= WIDTH {
        *line += &format!(" ({short}) {{");
    } else {
        *line += " (";
        for (n, param) in params.iter().enumerate() {
            *line += &format!("{}\n{indent}    {param}", if n > 0 { "," } else { "" });
        }
        *line += &format!("\n{indent}) {{");
    }
}

/// The document that a text describes, or its syntax error with the place and what was expected there.
pub fn read(text: &str) -> Result<GraphDocument, Problem> {
    check_nesting(text)?;
    let mut file = TextForm::parse(Rule::file, text).map_err(syntax_error)?;
    let mut document = GraphDocument::default();
    for part in file.next().into_iter().flat_map(Pair::into_inner) {
        match part.as_rule() {
            Rule::text => document.graph = unquote(&part)?,
            Rule::block => document.nodes = read_block(part)?,
            _ => {}
        }
    }
    Ok(document)
}

fn check_nesting(text: &str) -> Result<(), Problem> {
    let (mut depth, mut quoted, mut comment, mut before) = (0usize, false, false, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '\n' => (quoted, comment) = (false, false),
            _ if comment => {}
            '"' if before != '\\' => quoted = !quoted,
            _ if quoted => {}
            '/' if before == '/' => comment = true,
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // An escaped backslash does not escape what follows.
        before = if c == '\\' && before == '\\' { ' ' } else { c };
        if depth > BRACKETS {
            let message = format!("brackets nest deeper than {BRACKETS}");
            return Err(Problem {
                at: pest::Position::new(text, at).map(|p| place(p.line_col())),
                node: String::new(),
                message,
            });
        }
    }
    Ok(())
}

fn place((line, column): (usize, usize)) -> Position {
    Position { line, column }
}

fn syntax_error(error: pest::error::Error<Rule>) -> Problem {
    let (LineColLocation::Pos(at) | LineColLocation::Span(at, _)) = error.line_col;
    let message = error.renamed_rules(|rule| rule_name(*rule).to_owned()).variant.message().into_owned();
    Problem { at: Some(place(at)), node: String::new(), message }
}

/// What a rule is called in an error.
fn rule_name(rule: Rule) -> &'static str {
    match rule {
        Rule::EOI => "the end of the text",
        Rule::file => "`graph \"name\" { ... }`",
        Rule::block => "`{`",
        Rule::node | Rule::op => "a node",
        Rule::results => "results",
        Rule::operands | Rule::value => "a value such as `%x`",
        Rule::attrs => "attributes in `{ }`",
        Rule::pair | Rule::key => "an attribute's name",
        Rule::types => "`:` and the result types",
        Rule::body => "a body",
        Rule::param => "a parameter such as `%h: f32[batch]`",
        Rule::label => "a label such as `@ slot`",
        Rule::r#type => "a type such as `f32[batch, 8]`",
        Rule::text => "a text in quotes",
        Rule::slot | Rule::word => "a word",
        Rule::attribute | Rule::call | Rule::number => "an attribute such as `10` or `normal(0.02)`",
        _ => "something else",
    }
}

fn unquote(pair: &Pair<'_, Rule>) -> Result<String, Problem> {
    attr::unquote(pair.as_str()).map_err(|message| Problem {
        at: Some(place(pair.line_col())),
        node: String::new(),
        message,
    })
}

fn read_block(block: Pair<'_, Rule>) -> Result<Vec<NodeDoc>, Problem> {
    block.into_inner().map(read_node).collect()
}

fn name(value: &Pair<'_, Rule>) -> String {
    value.as_str().trim_start_matches('%').to_owned()
}

fn read_node(pair: Pair<'_, Rule>) -> Result<NodeDoc, Problem> {
    let at = place(pair.line_col());
    let fail = |message: String| Problem { at: Some(at), node: String::new(), message };
    let mut node = NodeDoc { at: Some(at), ..NodeDoc::default() };
    let (mut names, mut types): (Vec<String>, Vec<String>) = (vec![], vec![]);
    for part in pair.into_inner() {
        match part.as_rule() {
            Rule::results => names = part.into_inner().map(|v| name(&v)).collect(),
            Rule::op => part.as_str().clone_into(&mut node.op),
            Rule::operands => node.operands = part.into_inner().map(|v| name(&v)).collect(),
            Rule::attrs => {
                for pair in part.into_inner() {
                    let mut parts = pair.into_inner().map(|p| p.as_str().to_owned());
                    let (key, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                    if node.attrs.insert(key.clone(), value).is_some() {
                        return Err(fail(format!("attribute `{key}` is given twice")));
                    }
                }
            }
            Rule::types => types = part.into_inner().map(|t| t.as_str().to_owned()).collect(),
            Rule::body => node.body = Some(read_body(part)?),
            Rule::label => node.label = read_label(part)?,
            _ => {}
        }
    }
    if names.len() != types.len() {
        return Err(fail(format!("{} results and {} result types", names.len(), types.len())));
    }
    node.results = names.into_iter().zip(types).map(|(name, ty)| Named { name, ty }).collect();
    Ok(node)
}

fn read_body(pair: Pair<'_, Rule>) -> Result<RegionDocument, Problem> {
    let mut body = RegionDocument::default();
    for part in pair.into_inner() {
        match part.as_rule() {
            Rule::param => {
                let mut parts = part.into_inner();
                let name = parts.next().map(|v| name(&v)).unwrap_or_default();
                let ty = parts.next().map(|t| t.as_str().to_owned()).unwrap_or_default();
                body.params.push(Named { name, ty });
            }
            Rule::block => body.nodes = read_block(part)?,
            _ => {}
        }
    }
    Ok(body)
}

fn read_label(pair: Pair<'_, Rule>) -> Result<String, Problem> {
    match pair.into_inner().next() {
        Some(text) if text.as_rule() == Rule::text => unquote(&text),
        Some(word) => Ok(word.as_str().to_owned()),
        None => Ok(String::new()),
    }
}
