//! Long convolutions.

use super::{Case, SEQUENCE, SLOTS};

const S4D_LEFT: &str = "
  %dt = param {name: \"dt\", init: zeros} : f32[4]
  %decay = param {name: \"decay\", init: zeros} : f32[4, 3]
  %turn = param {name: \"turn\", init: zeros} : f32[4, 3]
  %in = param {name: \"in\", init: zeros} : f32[4, 3, 2]
  %out = param {name: \"out\", init: zeros} : f32[4, 3, 2]
  %y = scan %a, %dt, %decay, %turn, %in, %out {kernel: s4d, side: left, lag: 0} : f32[batch, length, 4]";
const S4D_RIGHT: &str = "
  %dt = param {name: \"dt\", init: zeros} : f32[4]
  %decay = param {name: \"decay\", init: zeros} : f32[4, 3]
  %turn = param {name: \"turn\", init: zeros} : f32[4, 3]
  %in = param {name: \"in\", init: zeros} : f32[4, 3, 2]
  %out = param {name: \"out\", init: zeros} : f32[4, 3, 2]
  %y = scan %m, %dt, %decay, %turn, %in, %out {kernel: s4d, side: right, lag: 1} : f32[batch, 3, 4]";
const S4D_HELD: &str = "
  %dt = param {name: \"dt\", init: zeros} : f32[4]
  %decay = param {name: \"decay\", init: zeros} : f32[4, 3]
  %turn = param {name: \"turn\", init: zeros} : f32[4, 3]
  %in = param {name: \"in\", init: zeros} : f32[4, 3, 2]
  %out = param {name: \"out\", init: zeros} : f32[4, 3, 2]
  %y = scan %a, %dt, %decay, %turn, %in, %out {kernel: s4d, discretisation: zoh, lag: 0, side: left} : f32[batch, length, 4]";
const EMA_LEFT: &str = "
  %delta = param {name: \"delta\", init: zeros} : f32[4, 2]
  %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
  %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
  %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
  %y = scan %a, %delta, %alpha, %beta, %gamma {kernel: ema, side: left, lag: 2} : f32[batch, length, 4]";
const EMA_RIGHT: &str = "
  %delta = param {name: \"delta\", init: zeros} : f32[4, 2]
  %alpha = param {name: \"alpha\", init: zeros} : f32[4, 2]
  %beta = param {name: \"beta\", init: zeros} : f32[4, 2]
  %gamma = param {name: \"gamma\", init: zeros} : f32[4, 2]
  %y = scan %b, %delta, %alpha, %beta, %gamma {kernel: ema, side: right, lag: 0} : f32[batch, length, 4]";

/// Both kinds from both sides.
pub(super) const SCANS: &[Case] = &[
    ("s4d from the left", SEQUENCE, S4D_LEFT),
    ("s4d of slots from the right", SLOTS, S4D_RIGHT),
    ("s4d with a held input", SEQUENCE, S4D_HELD),
    ("ema from the left", SEQUENCE, EMA_LEFT),
    ("ema from the right", SEQUENCE, EMA_RIGHT),
];
