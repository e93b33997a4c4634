//! Tasks of the Long Range Arena (Tay et al. 2021) on bytes and pixels: readers of its published files, and generators of
//! tasks of the same kind that need no download.
//!
//! The generated data is no replacement of the published one: it has its form, lengths and number of classes, so that an
//! experiment can be tried and a model seen to learn. Its ListOps is a part of the task `listops`.

pub(super) mod bytes;
mod canvas;
mod image;
mod pathfinder;
mod paths;
mod picture;
mod retrieval;
mod text;

pub use image::Image;
pub use pathfinder::Pathfinder;
pub use retrieval::{Retrieval, subject};
pub use text::{TextTask, sentiment};

use super::{Example, GenerationRequest, Task};
use crate::error::DataError;
use crate::fingerprint::place;
use crate::pool::{ExampleShare, fill, within};
use rtc_base::rng::{Draws, Key};

/// So many candidates in a row without a new example mean that there are no more.
const PATIENCE: u64 = 20_000;

/// Whether tokens lie in the share of a split.
type Belongs<'a> = &'a dyn Fn(&[u32]) -> bool;

/// Fills a split with what `draw` gives and the split's share takes. Where an example costs much, `draw` can vary what is cheap
/// about it until it belongs to the split.
fn generate(
    task: &dyn Task,
    request: &GenerationRequest<'_>,
    shares: &[(&str, ExampleShare)],
    draw: impl Fn(&mut Draws, Belongs<'_>) -> Option<Example>,
) -> Result<Vec<Example>, DataError> {
    let fail = |message| DataError { file: task.name().into(), line: None, message };
    task.split(request.split).map_err(fail)?;
    let share = shares.iter().find(|(name, _)| *name == request.split).map(|(_, share)| *share);
    let share = share.expect("every split of the task has a share");
    let belongs = |tokens: &[u32]| within(share, place(tokens));
    let key = Key::new(request.seed).stream(task.name()).stream(request.split);
    let candidate = |index| draw(&mut key.at(index).draws(), &belongs).filter(|example| belongs(&example.tokens));
    fill(request, PATIENCE, candidate).map_err(fail)
}
