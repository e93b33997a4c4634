//! Weights from files of other programs: safetensors, and the `state_dict` of a PyTorch module.
//!
//! A file is read as a table of tensors that point into its bytes ([`WeightsFile`]); nothing is executed, and no number is read
//! before its tensor is known to fit. [`fit`] then compares the table with the parameters of a model, and either gives all of them
//! or names everything that does not fit.

mod fit;
mod format;
mod index;
mod pickle;
mod refill;
mod torch;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

use safetensors::tensor::{Dtype, SafeTensors};

use crate::error::{Error, WeightsError};
use crate::record::checkpoint::{AVERAGE, NOT_AVERAGED, averages_beside, pack};
pub use fit::{TensorNames, TensorUse, fingerprint, fit};
use format::NumberFormat;
use index::WeightsIndex;
pub use refill::{RefilledFile, refill};
use rtc_base::disk::IoError;
use rtc_base::json;
use rtc_exec::learner::FlatArrays;

/// How large the description of saved weights may be.
pub mod limits {
    pub use super::pickle::{LONGEST, MOST};
}

/// The files of a folder of Hugging Face's format: all weights, or the index of several files.
const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A tensor of a file.
#[derive(Clone, Debug)]
struct FileTensor {
    shape: Vec<usize>,
    /// Distance between neighbours along each axis, in numbers.
    strides: Vec<usize>,
    /// The first number, counted from the start of `bytes`.
    offset: usize,
    /// How its numbers are written, or the name of a kind that no weight has.
    kind: Result<NumberFormat, String>,
    /// In which of the files its numbers are, and where.
    file: usize,
    bytes: Range<usize>,
    /// Whether the numbers have the other sign there (PyTorch's negative bit).
    negative: bool,
}

impl FileTensor {
    /// Whether both are the same numbers of the file, in the same order.
    fn is(&self, other: &Self) -> bool {
        let place = |of: &Self| (of.file, of.bytes.clone(), of.offset, of.negative, of.kind.clone());
        place(self) == place(other) && self.shape == other.shape && self.strides == other.strides
    }

    /// The places of its numbers among those of its storage, in the order of its axes.
    fn places(&self) -> impl Iterator<Item = usize> {
        let mut index = vec![0; self.shape.len()];
        (0..self.shape.iter().product::<usize>()).map(move |_| {
            let place = self.offset + index.iter().zip(&self.strides).map(|(n, stride)| n * stride).sum::<usize>();
            for (n, size) in index.iter_mut().zip(&self.shape).rev() {
                *n += 1;
                if *n < *size {
                    break;
                }
                *n = 0;
            }
            place
        })
    }
}

/// The bytes of a file; a device or a pipe may have no end.
fn read(path: &Path) -> Result<Vec<u8>, IoError> {
    let failed = IoError::at("read", path);
    match fs::metadata(path) {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(failed(io::Error::other("it is no file"))),
        _ => fs::read(path).map_err(failed),
    }
}

/// The bytes of a safetensors file with these arrays.
///
/// # Errors
/// A sentence about an array whose numbers do not have its shape.
pub fn packed(arrays: &FlatArrays) -> Result<Vec<u8>, String> {
    pack(&[("", arrays)], None)
}

/// A file with named tensors, or several that an index joins.
#[derive(Debug)]
pub struct WeightsFile {
    name: String,
    /// The paths of the files, and their bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
    tensors: BTreeMap<String, FileTensor>,
    averaged: bool,
}

impl WeightsFile {
    /// Reads a safetensors file or a PyTorch `state_dict`, whatever its name ends in; an index of several safetensors files beside it; or
    /// a folder with `model.safetensors` or `model.safetensors.index.json`, as Hugging Face writes it. The weights of a checkpoint of rtc
    /// that has averaged weights are those averages.
    ///
    /// # Errors
    /// A file can't be read, or is none of these.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let found;
        let path = if path.is_dir() {
            found = [INDEX, WHOLE].map(|name| path.join(name)).into_iter().find(|path| path.is_file());
            let fault = format!("a folder without {WHOLE} and {INDEX}");
            let missing = || WeightsError { file: path.display().to_string(), faults: vec![fault] };
            found.as_deref().ok_or_else(missing)?
        } else {
            path
        };
        let bytes = read(path)?;
        let name = path.display().to_string();
        let refused = |fault| WeightsError { file: path.display().to_string(), faults: vec![fault] };
        if let Some(bytes) = averages_beside(path, &bytes).map_err(refused)? {
            let tensors = averages(&bytes).map_err(refused)?;
            return Ok(Self { name, files: vec![(path.to_owned(), bytes)], tensors, averaged: true });
        }
        if let Some(index) = WeightsIndex::of(&bytes).map_err(refused)? {
            let (files, tensors) = index.read(path)?;
            return Ok(Self { name, files, tensors, averaged: false });
        }
        let tensors = match bytes.get(..4) {
            Some(b"PK\x03\x04") => torch::tensors(&bytes),
            Some([0x80, 1..=5, ..]) if SafeTensors::read_metadata(&bytes).is_err() => Err(
                "a PyTorch file of the old form, or a bare pickle; save it again: torch.save(model.state_dict(), FILE)"
                    .to_owned(),
            ),
            _ => safetensors(&bytes),
        };
        let tensors = tensors.map_err(refused)?;
        Ok(Self { name, files: vec![(path.to_owned(), bytes)], tensors, averaged: false })
    }

    /// Where it is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its tensors.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Whether it has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Whether two of its tensors are written alike, number for number.
    pub fn same(&self, a: &str, b: &str) -> bool {
        let both = self.tensors.get(a).zip(self.tensors.get(b));
        both.is_some_and(|(a, b)| fit::equal(self, a, b))
    }

    /// The bytes of the storage of a tensor.
    fn data(&self, tensor: &FileTensor) -> &[u8] {
        &self.files[tensor.file].1[tensor.bytes.clone()]
    }

    /// Whether the weights are averages over updates, which the checkpoint of the file holds beside it.
    pub fn is_averaged(&self) -> bool {
        self.averaged
    }

    /// The numbers of a tensor in the order of its axes.
    fn numbers(&self, tensor: &FileTensor, kind: NumberFormat) -> Vec<f32> {
        let data = self.data(tensor);
        let number = |place: usize| kind.number(&data[place * kind.size()..(place + 1) * kind.size()]);
        let signed = |number: f32| if tensor.negative { -number } else { number };
        tensor.places().map(|place| signed(number(place))).collect()
    }
}

/// The description at the start of a safetensors file, if it has one.
fn header(bytes: &[u8]) -> Option<&[u8]> {
    let (size, rest) = bytes.split_first_chunk()?;
    rest.get(..usize::try_from(u64::from_le_bytes(*size)).ok()?)
}

/// The averaged weights among the arrays of an optimiser.
fn averages(bytes: &[u8]) -> Result<BTreeMap<String, FileTensor>, String> {
    let of = |(name, tensor): (String, FileTensor)| {
        let name = name.strip_prefix(AVERAGE)?.strip_prefix('.')?.to_owned();
        Some((name, tensor))
    };
    Ok(safetensors(bytes)?.into_iter().filter_map(of).collect())
}

/// The tensors of a safetensors file.
fn safetensors(bytes: &[u8]) -> Result<BTreeMap<String, FileTensor>, String> {
    if let Some(Err(error)) = header(bytes).map(json::value)
        && error.is_data()
    {
        return Err(format!("its header is ambiguous: {error}"));
    }
    let neither = |error| format!("neither safetensors ({error}) nor a PyTorch state_dict");
    let file = SafeTensors::deserialize(bytes).map_err(neither)?;
    let (_, about) = SafeTensors::read_metadata(bytes).map_err(neither)?;
    if about.metadata().as_ref().is_some_and(|about| about.contains_key(NOT_AVERAGED)) {
        return Err(
            "it is a copy of weights that a run averages (`ema`), without the averages, by which the run is measured: name the file \
             in the checkpoint of the run"
                .to_owned(),
        );
    }
    let tensor = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let kind = match view.dtype() {
            Dtype::F16 => Ok(NumberFormat::F16),
            Dtype::BF16 => Ok(NumberFormat::Bf16),
            Dtype::F32 => Ok(NumberFormat::F32),
            Dtype::F64 => Ok(NumberFormat::F64),
            other => Err(format!("{other:?}")),
        };
        let start = view.data().as_ptr() as usize - bytes.as_ptr() as usize;
        let (shape, range) = (view.shape().to_vec(), start..start + view.data().len());
        (
            name.to_owned(),
            FileTensor { strides: row_major(&shape), shape, offset: 0, kind, file: 0, bytes: range, negative: false },
        )
    };
    Ok(file.iter().map(tensor).collect())
}

/// The strides of an array whose last axis is contiguous.
fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for n in (1..shape.len()).rev() {
        strides[n - 1] = strides[n] * shape[n].max(1);
    }
    strides
}
