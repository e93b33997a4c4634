//! The size of a model: every copy of a layer counted, and every turn of a loop.

use crate::define;
use crate::diag::{Diagnostic, Kind, Problems};
use crate::spec::Block;

/// The most statements of a model, each counted as often as it is copied: a graph has a dozen nodes for each.
pub const MAX_COPIED: usize = 5_000;

/// The most steps of loops within each other, multiplied.
pub const MAX_STEPS: usize = 1_000_000;

/// The most statements of a model, each counted as often as costs and memory walk through it: see `walks`.
pub const MAX_WALKED: usize = 50_000;

/// Statements that repeat the statements inside of them.
const LOOPS: [&str; 3] = ["loop", "recur", "recurse"];

/// Reports the innermost statement whose copies are too many, or whose loops are too long or too deep.
pub(super) fn check(root: &Block, problems: &mut Problems) {
    check_steps(root, 1, problems);
    if let Some(block) = innermost(root, &copied, MAX_COPIED) {
        let message = format!("the model has more than {MAX_COPIED} statements after stacks are copied");
        return problems.report(Diagnostic::new(Kind::TooLong, block.span, message));
    }
    if let Some(block) = innermost(root, &walked, MAX_WALKED) {
        let message = format!(
            "the model has more than {MAX_WALKED} statements, each counted three times for every loop around it"
        );
        problems.report(
            Diagnostic::new(Kind::TooLong, block.span, message)
                .label("too many loops stand within each other here")
                .help("put fewer loops within each other; a loop that ends early counts four times, one with `grad` steps twice"),
        );
    }
}

/// Reports the outermost loop with which the steps of loops within each other, multiplied, are too many.
fn check_steps(block: &Block, around: usize, problems: &mut Problems) {
    let all = around.saturating_mul(steps(block));
    if all <= MAX_STEPS {
        return block.children.iter().for_each(|child| check_steps(child, all, problems));
    }
    // A loop that has too many steps by itself has a message of its own.
    if around > 1 {
        let message = format!("loops within each other take at most {MAX_STEPS} steps, multiplied");
        let problem = Diagnostic::new(Kind::TooLong, block.span, message);
        problems.report(
            problem.label(format!("up to here they take {all}")).help("give this loop, or one around it, fewer steps"),
        );
    }
}

/// The innermost statement with more than `most` by this count; nothing where the outermost has fewer.
fn innermost<'b>(root: &'b Block, count: &dyn Fn(&Block) -> usize, most: usize) -> Option<&'b Block> {
    let mut found = Some(root).filter(|root| count(root) > most)?;
    while let Some(inner) = found.children.iter().find(|child| count(child) > most) {
        found = inner;
    }
    Some(found)
}

/// Number of statements that come from this one; it does not overflow.
fn copied(block: &Block) -> usize {
    let inside = block.children.iter().map(copied).fold(0, usize::saturating_add);
    inside.saturating_mul(copies(block)).saturating_add(1)
}

/// Number of statements from this one on that are walked; it does not overflow.
fn walked(block: &Block) -> usize {
    let inside = block.children.iter().map(walked).fold(0, usize::saturating_add);
    inside.saturating_mul(copies(block)).saturating_mul(walks(block)).saturating_add(1)
}

fn copies(block: &Block) -> usize {
    block.int("copies").or_else(|| block.int("layers")).unwrap_or(1)
}

/// Steps of a loop, where they are a number.
fn steps(block: &Block) -> usize {
    let steps = || block.int("steps").or_else(|| block.int("depth"));
    Some(block).filter(|_| is_loop(block)).and_then(|_| steps()).unwrap_or(1)
}

fn is_loop(block: &Block) -> bool {
    LOOPS.contains(&&*block.slot)
}

/// How often costs and memory walk through the inside of a statement: three steps of a loop show how the others go on, rows that leave
/// it early try one more, and a gradient through the last steps alone makes two loops.
fn walks(block: &Block) -> usize {
    if !is_loop(block) {
        return 1;
    }
    let halts = block.child("halt").is_some_and(|halt| halt.variant != "none");
    let ends = halts || define::conditions(block).next().is_some();
    (3 + usize::from(ends)) * if block.int("grad").is_some() { 2 } else { 1 }
}
