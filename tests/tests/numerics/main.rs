//! Numbers: gradients against differences, passes against no passes, rows against batches, and cases done by hand.

mod causality;
mod device;
mod folds;
mod gradients;
mod halting;
mod hand_cases;
mod long;
mod micro;
mod oracle;
mod properties;
mod random;
mod recompute;
mod rows;
mod scans;
