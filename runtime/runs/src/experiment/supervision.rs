//! When the weights of a model that pays losses in the steps of a loop are updated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// After which steps of its outermost loop the weights are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Supervision {
    /// Once, after all of them: with the sum of their losses.
    #[default]
    AllSteps,
    /// After every one: what the loop carries stays with its row until that is through, and the next example takes its place.
    EachStep,
}

impl Supervision {
    /// Whether an update takes all steps.
    pub(super) fn is_of_all_steps(&self) -> bool {
        *self == Self::AllSteps
    }
}
