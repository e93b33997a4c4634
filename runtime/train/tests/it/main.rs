//! Training and its record through their public functions, with a learner that needs no graph.

mod checkpoints;
mod disks;
mod generation;
mod masked;
mod mock;
mod power;
mod ranks;
mod records;
mod training;
