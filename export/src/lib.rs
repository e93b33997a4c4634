//! Models for other programs: text of a PyTorch module, bytes of an ONNX graph.

pub mod onnx;
