//! Models for other programs: text of a PyTorch module, bytes of an ONNX graph.

pub mod onnx;
pub mod torch;
pub mod weights;

/// What an export can't say.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} can't be exported")]
pub struct Refused(pub String);
