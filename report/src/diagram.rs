//! The structure of a model, drawn from its spec: layers from top to bottom, recurrences as boxes around what they repeat.

use rtc_compiler::spec::{Block, Origin, Setting, Spec};

use crate::data::Model;
use crate::picture::Picture;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};

/// The narrowest box of a layer, on a page and in any picture.
const LAYER: f64 = 290.0;
const LEAST: f64 = 60.0;
const PADDING: f64 = 12.0;
/// Room for the arrow back, on the right of a recurrence.
const BACK: f64 = 22.0;
const GAP: f64 = 16.0;
/// From what stands above to the first layer of a recurrence.
const ENTRY: f64 = 24.0;
const TITLE_LINE: f64 = 22.0;
const DETAIL_LINE: f64 = 15.0;
const MARGIN: f64 = 16.0;

/// Statements beside the flow: they say how their recurrence works.
const BESIDE: &[&str] = &["halt", "inject", "memory"];

/// Statements that come after the layers, wherever they are written.
const AFTER: &[&str] = &["gate", "update"];

/// The picture of a model's structure, where there is a spec of it.
pub(crate) fn structure(model: &Model, style: &FigureStyle) -> Option<Picture> {
    let root = &model.spec.as_ref()?.root;
    let natural = natural_width(root, LAYER).max(style.width_of(&model.name, 14.5) + 2.0 * MARGIN);
    // In a narrow column layers are narrower, and their texts are cut.
    let least = natural_width(root, LEAST);
    let width = style.asked().map_or(natural, |asked| natural.min(asked - 2.0 * MARGIN).max(least));
    let title = format!("Structure of {}", model.name);
    let mut svg = Svg::default();
    let mut top = 34.0 + style.title(&mut svg, (MARGIN, MARGIN + width), &title);
    for (n, block) in flow(root).iter().enumerate() {
        if n > 0 {
            arrow(&mut svg, MARGIN + width / 2.0, top, top + GAP);
            top += GAP;
        }
        top += draw(&mut svg, block, (MARGIN, top), width, style);
    }
    let size = (width + 2.0 * MARGIN, top + MARGIN);
    Some(Picture::new(&format!("structure-{}", model.name), &title, size, svg, style))
}

/// The structure for Graphviz: a box per statement, a frame around what holds others.
pub fn dot(spec: &Spec) -> String {
    let mut out = format!(
        "digraph {} {{\n  node [shape=box, fontname=\"Helvetica\", fontsize=11];\n  \
         graph [fontname=\"Helvetica\", fontsize=11, labeljust=l];\n",
        quoted(&spec.name)
    );
    let mut boxes = 0;
    chain(&flow(&spec.root), &mut boxes, &mut out);
    out + "}\n"
}

/// Statements one after the other; gives the first box and the last one.
fn chain(blocks: &[&Block], boxes: &mut usize, out: &mut String) -> Option<(usize, usize)> {
    let mut ends: Option<(usize, usize)> = None;
    for block in blocks {
        let (first, last) = framed(block, boxes, out);
        if let Some((_, before)) = ends {
            *out += &format!("  n{before} -> n{first};\n");
        }
        ends = Some((ends.map_or(first, |(first, _)| first), last));
    }
    ends
}

/// A statement with all in it; gives its first box and its last one.
fn framed(block: &Block, boxes: &mut usize, out: &mut String) -> (usize, usize) {
    let own = *boxes;
    *boxes += 1;
    let label = [heading(block), details(block)].join("\n").trim_end().to_owned();
    let style = if BESIDE.contains(&&*block.slot) { "dashed" } else { "rounded" };
    if is_leaf(block) {
        *out += &format!("  n{own} [label={}, style={style}];\n", quoted(&label));
        return (own, own);
    }
    // The lines of a frame begin on its left.
    let label = quoted(&(label + "\n")).replace("\\n", "\\l");
    *out += &format!("  subgraph cluster{own} {{\n  label={label}; style={style};\n");
    for child in beside(block) {
        framed(child, boxes, out);
    }
    let ends = chain(&flow(block), boxes, out);
    if ends.is_none() {
        *out += &format!("  n{own} [label=\"\", style=invis];\n");
    }
    *out += "  }\n";
    let (first, last) = ends.unwrap_or((own, own));
    if is_loop(block) {
        *out += &format!("  n{last} -> n{first} [constraint=false];\n");
    }
    (first, last)
}

/// A text of Graphviz.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// The layers of the states, in order.
fn flow(block: &Block) -> Vec<&Block> {
    let says = |child: &&Block| child.variant != "none" && !BESIDE.contains(&&*child.slot);
    let (after, layers): (Vec<_>, Vec<_>) = block.children.iter().filter(says).partition(|c| AFTER.contains(&&*c.slot));
    let mut all = layers;
    // The gate mixes before the memory is updated.
    all.extend(AFTER.iter().flat_map(|slot| after.iter().copied().filter(move |c| c.slot == *slot)));
    all
}

/// What stands beside the flow.
fn beside(block: &Block) -> Vec<&Block> {
    block.children.iter().filter(|child| child.variant != "none" && BESIDE.contains(&&*child.slot)).collect()
}

fn is_loop(block: &Block) -> bool {
    ["recur", "recurse"].contains(&&*block.slot)
}

fn is_leaf(block: &Block) -> bool {
    flow(block).is_empty() && beside(block).is_empty()
}

/// The width of a statement whose innermost layers are so wide.
fn natural_width(block: &Block, layer: f64) -> f64 {
    let inner = flow(block).into_iter().map(|child| natural_width(child, layer)).fold(layer, f64::max);
    match (is_leaf(block), is_loop(block), &*block.slot) {
        (true, ..) => layer,
        (_, _, "model") => inner,
        (_, back, _) => inner + 2.0 * PADDING + if back { BACK } else { 0.0 },
    }
}

/// Draws a statement and all in it; gives its height.
fn draw(svg: &mut Svg, block: &Block, (x, y): (f64, f64), width: f64, style: &FigureStyle) -> f64 {
    let height = height(block);
    let class = match (is_loop(block), BESIDE.contains(&&*block.slot)) {
        (true, _) => "loop",
        (_, true) => "side",
        _ => "box",
    };
    let round = if is_loop(block) { 10.0 } else { 5.0 };
    svg.rect(class, (x, y), (width, height), round, &everything(block));
    svg.text(
        "name",
        (x + PADDING, y + 16.0),
        Anchor::Start,
        &style.fitted(&heading(block), 12.5, width - 2.0 * PADDING),
    );
    let details = details(block);
    let mut top = y + TITLE_LINE;
    if !details.is_empty() {
        svg.text("note", (x + PADDING, top + 9.0), Anchor::Start, &style.fitted(&details, 11.0, width - 2.0 * PADDING));
        top += DETAIL_LINE;
    }
    let inner = width - 2.0 * PADDING - if is_loop(block) { BACK } else { 0.0 };
    for child in beside(block) {
        top += draw(svg, child, (x + PADDING, top + 4.0), inner, style) + 4.0;
    }
    let children = flow(block);
    if children.is_empty() {
        return height;
    }
    let middle = x + PADDING + inner / 2.0;
    if is_loop(block) {
        arrow(svg, middle, top + ENTRY - GAP, top + ENTRY);
    }
    top += if is_loop(block) { ENTRY } else { 4.0 };
    let first = top;
    for (n, child) in children.iter().enumerate() {
        if n > 0 {
            arrow(svg, middle, top, top + GAP);
            top += GAP;
        }
        top += draw(svg, child, (x + PADDING, top), inner, style);
    }
    if is_loop(block) {
        back(svg, (middle, x + width - PADDING - BACK / 2.0 + 2.0), (top, first - GAP / 2.0));
    }
    height
}

fn height(block: &Block) -> f64 {
    let own = TITLE_LINE + if details(block).is_empty() { 0.0 } else { DETAIL_LINE };
    let side: f64 = beside(block).into_iter().map(|child| height(child) + 4.0).sum();
    let children = flow(block);
    let entry = if is_loop(block) { ENTRY } else { 4.0 } - GAP;
    let inner: f64 = children.iter().map(|child| height(child) + GAP).sum::<f64>() + entry;
    let inner = if children.is_empty() { 0.0 } else { inner };
    let end = match (children.is_empty(), side > 0.0) {
        (false, _) => PADDING + 4.0,
        (true, true) => 8.0,
        (true, false) => 2.0,
    };
    own + side + inner + end
}

/// `attend self`, `stack × 3`, `recur depthwise × 10`.
fn heading(block: &Block) -> String {
    let times = block.int("copies").filter(|_| block.slot == "stack");
    times.map_or_else(|| block.title(), |times| format!("{} × {times}", block.title()))
}

/// The fields that differ from their defaults, on one line.
fn details(block: &Block) -> String {
    let shown = block.fields.iter().filter(|(name, setting)| !follows(setting) && *name != "copies");
    shown.map(|(name, setting)| format!("{name} {}", setting.value)).collect::<Vec<_>>().join(", ")
}

/// Whether a value need not be written.
fn follows(setting: &Setting) -> bool {
    matches!(setting.origin, Origin::Default | Origin::Derived(_))
}

/// The spec without the values that need not be written.
pub(crate) fn brief(spec: &Spec) -> Spec {
    fn of(block: &Block) -> Block {
        let fields = block.fields.iter().filter(|(_, setting)| !follows(setting));
        Block {
            fields: fields.map(|(name, setting)| (name.clone(), setting.clone())).collect(),
            children: block.children.iter().map(of).collect(),
            ..block.clone()
        }
    }
    Spec { root: of(&spec.root), ..spec.clone() }
}

/// All fields, for the pointer.
fn everything(block: &Block) -> String {
    let fields = block.fields.iter().map(|(name, setting)| format!("{name}: {}", setting.value));
    [block.title()].into_iter().chain(fields).collect::<Vec<_>>().join("\n")
}

fn arrow(svg: &mut Svg, x: f64, from: f64, to: f64) {
    svg.line("flow", (x, from), (x, to - 4.0));
    svg.path("tip", &format!("M{} {}l-4 -6h8z", at(x), at(to)));
}

/// The way back of a recurrence: out at the bottom, up on the right, in at the top.
fn back(svg: &mut Svg, (middle, right): (f64, f64), (bottom, top): (f64, f64)) {
    let (low, high) = (bottom + 8.0, top);
    svg.path(
        "back",
        &format!("M{} {}V{}H{}V{}H{}", at(middle), at(bottom), at(low), at(right), at(high), at(middle + 8.0)),
    );
    svg.path("backtip", &format!("M{} {}l7 -4v8z", at(middle + 2.0), at(high)));
}
