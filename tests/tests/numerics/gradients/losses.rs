//! Losses over rows and over tokens.

use super::Case;

/// A label for every row.
pub(super) const ROWS: &[Case] = &[
    (
        "cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch]\n%y = cross_entropy %ra, %labels : f32[]",
    ),
    (
        "binary cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch]\n%y = binary_cross_entropy %rs1, %labels : f32[]",
    ),
];

/// Labels and weights for every token.
pub(super) const TOKENS: &[Case] = &[
    (
        "weighted cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]\n%weights = input {name: \"weights\"} : f32[batch, length]\n%y = cross_entropy %a, %labels, %weights : f32[]",
    ),
    (
        "weighted binary cross entropy",
        "f32[]",
        "%labels = input {name: \"labels\"} : u32[batch, length]\n%weights = input {name: \"weights\"} : f32[batch, length]\n%y = binary_cross_entropy %s1, %labels, %weights : f32[]",
    ),
];
