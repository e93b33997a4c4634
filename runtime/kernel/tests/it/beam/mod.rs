//! Beam search: cases by hand, whole searches against an independent implementation, gradients against differences, and what
//! always holds.

mod driver;
mod goldens;
mod gradients;
mod hand;
mod model;
mod properties;
mod s4d;
