//! ListOpsMix ("Recursion in Recursion"): the short expressions of ListOps and the long ones of the Long Range Arena in one
//! training split.

use crate::error::DataError;
use crate::{Example, GenerationRequest, Options};

/// The split whose examples training gets, too.
pub(super) const LONG: &str = "lra-train";

/// Of so many examples of the published mixture ...
const ALL: usize = 90_000 + 96_000;
/// ... so many are long.
const LONG_OF_ALL: usize = 96_000;

/// Whether a split is a mixture.
pub(super) fn is_mixed(split: &str, options: &Options) -> bool {
    split == "train" && options.get("mix") == 1
}

/// Long examples among the first `count`.
fn long_among(count: usize) -> usize {
    count * LONG_OF_ALL / ALL
}

/// Generates both parts with `part`; the first examples of a mixture are those of a smaller one.
pub(super) fn generate(
    request: &GenerationRequest<'_>,
    part: impl Fn(&GenerationRequest<'_>) -> Result<Vec<Example>, DataError>,
) -> Result<Vec<Example>, DataError> {
    let long = long_among(request.count);
    let short = part(&GenerationRequest { count: request.count - long, ..*request })?;
    Ok(spread(short, part(&GenerationRequest { split: LONG, count: long, ..*request })?))
}

/// Both parts in their order, the long examples evenly among the others; what is left of one stands at the end.
pub(super) fn spread(short: Vec<Example>, long: Vec<Example>) -> Vec<Example> {
    let count = short.len() + long.len();
    let (mut short, mut long) = (short.into_iter(), long.into_iter());
    let next = |n: usize| match long_among(n + 1) > long_among(n) {
        true => long.next().or_else(|| short.next()),
        false => short.next().or_else(|| long.next()),
    };
    (0..count).filter_map(next).collect()
}
