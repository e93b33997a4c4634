//! The size of a model, every copy of a layer counted.

use crate::diag::{Diagnostic, Kind, Problems};
use crate::spec::Block;

/// The most statements of a model, each counted as often as it is copied: a graph has a dozen nodes for each.
pub const MAX_COPIED: usize = 5_000;

/// Reports the innermost statement whose copies are too many.
pub(super) fn check(root: &Block, problems: &mut Problems) {
    if size(root) <= MAX_COPIED {
        return;
    }
    let mut block = root;
    while let Some(inner) = block.children.iter().find(|child| size(child) > MAX_COPIED) {
        block = inner;
    }
    let message = format!("the model has more than {MAX_COPIED} statements after stacks are copied");
    problems.report(Diagnostic::new(Kind::TooLong, block.span, message));
}

/// Number of statements that come from this one; it does not overflow.
fn size(block: &Block) -> usize {
    let copies = block.int("copies").or_else(|| block.int("layers")).unwrap_or(1);
    let inside = block.children.iter().map(size).fold(0, usize::saturating_add);
    inside.saturating_mul(copies).saturating_add(1)
}
