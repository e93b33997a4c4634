//! Trees: the positions of an input from left to right, and above them their joins up to the root.

use std::fmt::Write;

use crate::data::{Beam, InputTrace, Model, RecursionTree};
use crate::picture::Picture;
use crate::style::FigureStyle;
use crate::svg::{Anchor, Svg, at};

const LEFT: f64 = 16.0;
const RIGHT: f64 = 16.0;
/// Room for the positions, if they need no more.
const ROOM: f64 = 520.0;
/// The most positions of a tree that is drawn; longer ones are text alone.
const MOST: usize = 200;
const NAME_SIZE: f64 = 10.0;
const NAME_WIDTH: f64 = 11.0;
const NAME_ROOM: f64 = 44.0;

/// A picture per chosen input of a model, with all its trees one below the other.
pub(crate) fn trees(model: &Model, style: &FigureStyle) -> Vec<Picture> {
    let drawn = model.traces.iter().enumerate().filter(|(_, trace)| trace.trees.iter().any(is_drawn));
    drawn.map(|(n, trace)| tree(&format!("tree-{}-{}", model.name, n + 1), trace, style)).collect()
}

/// Neither nothing nor too much.
fn is_drawn(tree: &RecursionTree) -> bool {
    (2..=MOST).contains(&tree.positions.len())
}

fn tree(name: &str, trace: &InputTrace, style: &FigureStyle) -> Picture {
    let drawn = trace.trees.iter().filter(|tree| is_drawn(tree));
    let layouts: Vec<TreeLayout<'_>> =
        drawn.flat_map(|t| t.beams.iter().map(|beam| TreeLayout::new(t, beam, style))).collect();
    let title = style.width_of(&trace.title, 16.5).clamp(330.0, ROOM);
    let widest = layouts.iter().map(TreeLayout::width).fold(title, f64::max);
    let width = style.width_or(LEFT + widest + RIGHT);
    let widest = width - LEFT - RIGHT;
    let mut svg = Svg::default();
    let mut top = 34.0 + style.title(&mut svg, (LEFT, LEFT + widest), &trace.title);
    for layout in &layouts {
        layout.draw(&mut svg, top, widest);
        top += layout.height();
    }
    Picture::new(name, &trace.title, (width, top), svg, style)
}

/// A join: its place, in positions and in levels above them, and the places of its parts.
struct TreeNode {
    span: (usize, usize),
    at: (f64, usize),
    parts: Vec<(f64, usize)>,
}

/// Positions of the nodes of a tree.
struct TreeLayout<'a> {
    tree: &'a RecursionTree,
    beam: &'a Beam,
    nodes: Vec<TreeNode>,
    /// Levels above the positions.
    levels: usize,
    /// The width of a position, and the height of a level.
    cell: (f64, f64),
    style: &'a FigureStyle,
}

impl<'a> TreeLayout<'a> {
    fn new(tree: &'a RecursionTree, beam: &'a Beam, style: &'a FigureStyle) -> Self {
        let nodes = nodes(beam, tree.positions.len());
        let levels = nodes.iter().map(|node| node.at.1).max().unwrap_or(1);
        let count = tree.positions.len() as f64;
        let width = match style.asked() {
            None => (ROOM / count).clamp(NAME_WIDTH, 30.0),
            Some(asked) => ((asked - LEFT - RIGHT) / count).min(30.0),
        };
        let height = (180.0 / levels as f64).clamp(3.0, 22.0);
        Self { tree, beam, nodes, levels, cell: (width, height), style }
    }

    fn width(&self) -> f64 {
        self.cell.0 * self.tree.positions.len() as f64
    }

    /// Whether positions have room for their names, as they always have on a page.
    fn is_named(&self) -> bool {
        self.cell.0 >= NAME_WIDTH - 2.0
    }

    fn height(&self) -> f64 {
        26.0 + self.cell.1 * self.levels as f64 + if self.is_named() { NAME_ROOM } else { 0.0 } + 20.0
    }

    fn draw(&self, svg: &mut Svg, top: f64, room: f64) {
        let bottom = top + 26.0 + self.cell.1 * self.levels as f64;
        svg.text(
            "name",
            (LEFT, top + 14.0),
            Anchor::Start,
            &self.style.fitted(&self.tree.describe(self.beam), 12.5, room),
        );
        let point = |(x, level): (f64, usize)| (LEFT + self.cell.0 * (x + 0.5), bottom - self.cell.1 * level as f64);
        let mut lines = String::new();
        for node in &self.nodes {
            // Corners: straight lines would cross those of other nodes.
            let y = point(node.at).1;
            let (first, last) = (point(node.parts[0]).0, point(node.parts[node.parts.len() - 1]).0);
            write!(lines, "M{} {}H{}", at(first), at(y), at(last)).expect("a string takes any text");
            for part in &node.parts {
                let (part_x, part_y) = point(*part);
                write!(lines, "M{} {}V{}", at(part_x), at(part_y), at(y)).expect("a string takes any text");
            }
        }
        svg.path("flow", &lines);
        for node in &self.nodes {
            let words = self.tree.positions.get(node.span.0..node.span.0 + node.span.1).unwrap_or_default();
            svg.circle("tip", point(node.at), 2.0_f64.min(self.cell.1 / 2.0), &words.join(" "));
        }
        for (n, name) in self.tree.positions.iter().enumerate().filter(|_| self.is_named()) {
            let x = LEFT + self.cell.0 * (n as f64 + 0.5) + 3.5;
            svg.hanging("token", (x, bottom + 5.0), &self.style.fitted(name, NAME_SIZE, NAME_ROOM - 8.0));
        }
    }
}

/// The nodes of a beam over `leaves` positions. What does not fit there, or into what stands around it, is left out.
fn nodes(beam: &Beam, leaves: usize) -> Vec<TreeNode> {
    let mut nodes: Vec<TreeNode> = vec![];
    // What has no parent yet, from left to right; between them are leaves.
    let mut open: Vec<usize> = vec![];
    for &(start, length) in &beam.spans {
        let end = start.saturating_add(length);
        let first = open.partition_point(|n| nodes[*n].span.0 < start);
        let ends_before = first == 0 || {
            let (start_before, length_before) = nodes[open[first - 1]].span;
            start_before + length_before <= start
        };
        let ends_inside = open[first..].iter().all(|n| nodes[*n].span.0 + nodes[*n].span.1 <= end);
        if length < 2 || end > leaves || !ends_before || !ends_inside {
            continue;
        }
        let (mut parts, mut position) = (vec![], start);
        for n in open.drain(first..) {
            let (from, count) = nodes[n].span;
            parts.extend((position..from).map(|leaf| (leaf as f64, 0)));
            parts.push(nodes[n].at);
            position = from + count;
        }
        parts.extend((position..end).map(|leaf| (leaf as f64, 0)));
        let middle = (parts[0].0 + parts[parts.len() - 1].0) / 2.0;
        let level = 1 + parts.iter().map(|part| part.1).max().unwrap_or(0);
        open.push(nodes.len());
        nodes.push(TreeNode { span: (start, length), at: (middle, level), parts });
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beam(spans: &[(usize, usize)]) -> Beam {
        Beam { weight: 1.0, spans: spans.to_vec(), ..Beam::default() }
    }

    #[test]
    fn parents_stand_above_the_middle_of_their_parts() {
        let nodes = nodes(&beam(&[(1, 2), (0, 3), (0, 5)]), 5);
        let places: Vec<(f64, usize)> = nodes.iter().map(|node| node.at).collect();
        assert_eq!(places, [(1.5, 1), (0.75, 2), (2.375, 3)]);
        assert_eq!(nodes[2].parts, [(0.75, 2), (3.0, 0), (4.0, 0)]);
    }

    #[test]
    fn spans_that_cross_or_lead_out_are_left_out() {
        assert_eq!(nodes(&beam(&[(0, 2), (1, 2), (0, 9), (3, 1), (0, 4)]), 4).len(), 2);
        assert!(nodes(&beam(&[(usize::MAX, 3)]), 4).is_empty());
    }
}
