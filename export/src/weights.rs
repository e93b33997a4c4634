//! Parameters as a file of the safetensors format.

use safetensors::tensor::{Dtype, TensorView};

/// A parameter: its name, its shape and its numbers.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// Its name in the spec.
    pub name: &'a str,
    /// Its shape.
    pub shape: &'a [usize],
    /// Its numbers, the last axis running fastest.
    pub numbers: &'a [f32],
}

/// The bytes of a file with these parameters.
///
/// # Panics
/// When numbers and shape of a parameter do not fit one another.
pub fn safetensors(weights: &[Weight<'_>]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> =
        weights.iter().map(|w| w.numbers.iter().flat_map(|number| number.to_le_bytes()).collect()).collect();
    let views = weights.iter().zip(&bytes).map(|(weight, bytes)| {
        let view = TensorView::new(Dtype::F32, weight.shape.to_vec(), bytes).expect("a shape for its numbers");
        (weight.name, view)
    });
    safetensors::serialize(views, None).expect("names and shapes are plain text and numbers")
}
