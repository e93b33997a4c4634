//! Values as tensors.

use std::cell::OnceCell;
use std::marker::PhantomData;

use candle_core::{Tensor, WithDType};
use rtc_exec::machine::{MachineArrays, value};
use rtc_exec::rows::BatchView;
use rtc_exec::storage::{Buffer, Element, Shared};

/// A number type of rtc and of Candle.
pub trait TensorNumber: Element + WithDType {}

impl TensorNumber for f32 {}
impl TensorNumber for f64 {}

/// The arrays of a device of Candle. Reals are flat tensors without gaps. Ids and truth values stay on the host, which decides by them.
#[derive(Clone, Debug)]
pub struct OnTensors<T>(PhantomData<T>);

impl<T: TensorNumber> MachineArrays for OnTensors<T> {
    type Number = T;
    type Reals = Tensor;
    type Ids = Shared<Buffer<u32>>;
    type Truths = Shared<Buffer<u8>>;
    type Active = BatchView;
    type Tables = PieceIndices;
}

/// The places of pieces, one unit after the other, as a tensor that is made when it is asked for.
#[derive(Debug, Default)]
pub struct PieceIndices(pub(super) OnceCell<Tensor>);

/// A value of the graph. Cloning shares the data.
pub(super) type TensorValue<T> = value::Val<OnTensors<T>>;
