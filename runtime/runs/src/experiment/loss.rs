//! What the training loss is made of besides the model.

use rtc_task::class_weights::ClassWeights;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The loss of a training. Evaluations measure every answer alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LossSettings {
    /// How much the answers of each class weigh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
}

impl LossSettings {
    /// Whether the loss is the mean of all answers.
    pub(super) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses weights that are no positive numbers.
    pub(super) fn check(&self) -> Result<(), String> {
        self.class_weights.as_ref().map_or(Ok(()), ClassWeights::check_numbers)
    }
}
