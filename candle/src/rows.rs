//! Tensors of token ids as rows of a batch.

use candle_core::{DType, Device, Result, Tensor, bail};
use rtc_base::batch::{Batch, Labels};

/// Rows end to end, and how they were given.
#[derive(Clone, Debug)]
pub(crate) struct PackedRows {
    pub(crate) batch: Batch,
    /// The length of all rows, where they came as one tensor.
    pub(crate) length: Option<usize>,
}

impl PackedRows {
    /// The rows of a tensor: one of a vector, those of a matrix.
    pub(crate) fn of(tokens: &Tensor, device: &Device) -> Result<Self> {
        let (rows, length) = match *tokens.dims() {
            [length] => (1, length),
            [rows, length] => (rows, length),
            ref other => bail!(
                "token ids are a tensor [length] or [batch, length], and this one has {} axes: {other:?}; rows of different \
                 lengths go to `forward_rows`",
                other.len()
            ),
        };
        let batch = packed(ids(tokens, device, "token")?, vec![length; rows]);
        Ok(Self { batch, length: Some(length) })
    }

    /// A row of each tensor.
    pub(crate) fn of_each(rows: &[Tensor], device: &Device) -> Result<Self> {
        let (mut tokens, mut lengths) = (vec![], vec![]);
        for row in rows {
            let [length] = *row.dims() else {
                bail!("every row is a tensor [length] of token ids, and this one is {:?}", row.dims());
            };
            tokens.extend(ids(row, device, "token")?);
            lengths.push(length);
        }
        Ok(Self { batch: packed(tokens, lengths), length: None })
    }

    /// Number of rows.
    pub(crate) fn count(&self) -> usize {
        self.batch.rows()
    }
}

fn packed(tokens: Vec<u32>, lengths: Vec<usize>) -> Batch {
    let width = lengths.iter().copied().max().unwrap_or(0);
    let ends = lengths.into_iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    let offsets = std::iter::once(0).chain(ends).collect();
    Batch { offsets, tokens, labels: Labels::Class(vec![]), width, depths: None, given: vec![] }
}

/// The ids in a tensor, row after row. They come to the host, which checks them and lays them out.
fn ids(tensor: &Tensor, device: &Device, what: &str) -> Result<Vec<u32>> {
    let numbers = whole(tensor, device, what)?;
    let id = |number: i64| match u32::try_from(number) {
        Ok(id) => Ok(id),
        Err(_) => bail!("{number} is no {what} id: they are counted from 0"),
    };
    numbers.into_iter().map(id).collect()
}

/// The whole numbers in a tensor.
pub(crate) fn whole(tensor: &Tensor, device: &Device, what: &str) -> Result<Vec<i64>> {
    same_device(tensor, device, what)?;
    let flat = tensor.flatten_all()?;
    match tensor.dtype() {
        DType::U32 => Ok(flat.to_vec1::<u32>()?.into_iter().map(i64::from).collect()),
        DType::I64 => flat.to_vec1::<i64>(),
        other => bail!(
            "{what}s are numbers of type u32 or i64, and these are {}: convert them with `to_dtype(DType::U32)`",
            other.as_str()
        ),
    }
}

/// Refuses a tensor that is elsewhere than the model.
pub(crate) fn same_device(tensor: &Tensor, device: &Device, what: &str) -> Result<()> {
    if tensor.device().same_device(device) {
        return Ok(());
    }
    let (there, here) = (tensor.device().location(), device.location());
    bail!("the {what}s are on {there:?}, and the model is on {here:?}: move them with `to_device`")
}
