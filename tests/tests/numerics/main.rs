//! Numbers: gradients against differences, passes against no passes, rows against batches, and cases done by hand.

mod answers;
mod causality;
mod compositions;
mod device;
mod device_launches;
mod examined;
mod folds;
mod gradients;
mod halting;
mod hand_cases;
mod incremental;
mod long;
mod masks;
mod micro;
mod optimisers;
mod oracle;
mod parity;
mod peer;
mod properties;
mod random;
mod recompute;
mod rows;
mod scans;
mod searches;
mod stopping;
mod trees;
