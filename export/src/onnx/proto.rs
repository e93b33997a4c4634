//! The part of ONNX's protocol buffers that exported models use: `onnx.proto` of ONNX 1.12 (IR version 8), message by message.

use prost::Message;

/// A file.
#[derive(Clone, PartialEq, Message)]
pub struct Model {
    /// Version of the format itself.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// The program that made it.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// Its version.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// What it is, for people.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// What it computes.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Versions of the sets of operators.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSet>,
    /// Facts by name.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<MetadataEntry>,
}

/// A version of a set of operators; that without a domain is ONNX's own.
#[derive(Clone, PartialEq, Message)]
pub struct OperatorSet {
    /// Whose operators they are.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// Their version.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A fact.
#[derive(Clone, PartialEq, Message)]
pub struct MetadataEntry {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// Its value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Nodes in execution order, with what goes in and out.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// A name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants by name.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Inputs.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfo>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfo>,
}

/// A call of an operator.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of what it takes; an empty one is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of what it gives.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its own name.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The operator.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// Its constants.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
}

/// A constant of a node.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// A number.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// A whole number.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// The body of a loop.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Whole numbers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Which of these it is.
    #[prost(int32, optional, tag = "20")]
    pub kind: Option<i32>,
}

/// A constant array.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Its shape.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// What its numbers are.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// Its name.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Its numbers, little end first.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub raw_data: Option<Vec<u8>>,
}

/// An input or an output.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfo {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// What it is, for people.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
}

/// The type of a value; here always that of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// The type of a tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorType>,
}

/// What a tensor holds, and its shape where that is said.
#[derive(Clone, PartialEq, Message)]
pub struct TensorType {
    /// What its numbers are.
    #[prost(int32, optional, tag = "1")]
    pub elem_type: Option<i32>,
    /// Its axes.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShape>,
}

/// Axes.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShape {
    /// One after the other.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<Dimension>,
}

/// An axis with a size, or with a name where the size comes with the inputs.
#[derive(Clone, PartialEq, Message)]
pub struct Dimension {
    /// The size.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}

/// Kinds of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum DataType {
    /// Single precision.
    Float = 1,
    /// Whole numbers.
    Int = 7,
    /// Truth values.
    Bool = 9,
    /// Double precision.
    Double = 11,
}

impl AttributeProto {
    /// A whole number.
    pub fn int(name: &str, value: i64) -> Self {
        Self { name: Some(name.to_owned()), i: Some(value), kind: Some(2), ..Self::default() }
    }

    /// Whole numbers.
    pub fn ints(name: &str, values: &[i64]) -> Self {
        Self { name: Some(name.to_owned()), ints: values.to_vec(), kind: Some(7), ..Self::default() }
    }

    /// A number.
    pub fn float(name: &str, value: f64) -> Self {
        Self { name: Some(name.to_owned()), f: Some(value as f32), kind: Some(1), ..Self::default() }
    }

    /// A tensor.
    pub fn tensor(name: &str, value: TensorProto) -> Self {
        Self { name: Some(name.to_owned()), t: Some(value), kind: Some(4), ..Self::default() }
    }

    /// A body.
    pub fn graph(name: &str, value: GraphProto) -> Self {
        Self { name: Some(name.to_owned()), g: Some(value), kind: Some(5), ..Self::default() }
    }
}

impl TensorProto {
    /// An array under a name.
    pub fn new(name: &str, kind: DataType, dims: &[usize], bytes: Vec<u8>) -> Self {
        let dims = dims.iter().map(|n| *n as i64).collect();
        Self { dims, data_type: Some(kind as i32), name: Some(name.to_owned()), raw_data: Some(bytes) }
    }
}

impl ValueInfo {
    /// A tensor whose axes are named or sized; `None` says nothing of them.
    pub fn new(name: &str, kind: DataType, axes: Option<Vec<Dimension>>) -> Self {
        let shape = axes.map(|dim| TensorShape { dim });
        let tensor_type = TensorType { elem_type: Some(kind as i32), shape };
        Self {
            name: Some(name.to_owned()),
            r#type: Some(TypeProto { tensor_type: Some(tensor_type) }),
            doc_string: None,
        }
    }
}

impl Dimension {
    /// An axis whose size comes with the inputs.
    pub fn named(name: &str) -> Self {
        Self { dim_param: Some(name.to_owned()), ..Self::default() }
    }

    /// An axis of this size.
    pub fn sized(size: usize) -> Self {
        Self { dim_value: Some(size as i64), ..Self::default() }
    }
}
