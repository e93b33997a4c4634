//! Parameters in the place of the numbers that a file had for them: the way back of [`fit`](super::fit).

use std::path::PathBuf;

use super::fit::{Offered, copied, offered};
use super::{TensorNames, WeightsError, WeightsFile};
use rtc_exec::learner::FlatArrays;

/// A file with other numbers.
#[derive(Debug)]
pub struct RefilledFile {
    /// The file with these names, shapes and formats.
    pub like: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// The files of `file` with the numbers of `parameters`: each tensor keeps its name, shape, format and place, and has the numbers of the
/// parameters that it is by the map of names. A tensor that the map leaves out is kept, or follows the one of which it is a copy.
///
/// # Errors
/// A parameter that no tensor takes, or that a tensor has in another shape, and a number that is too large for the format of its tensor.
pub fn refill(
    file: &WeightsFile,
    names: &TensorNames,
    parameters: &FlatArrays,
) -> Result<Vec<RefilledFile>, WeightsError> {
    let shapes: Vec<_> = parameters.items.iter().map(|(name, (shape, _))| (name.clone(), shape.clone())).collect();
    let mut faults = vec![];
    let offers = offered(file, names, &shapes, &mut faults);
    let mut files: Vec<RefilledFile> =
        file.files.iter().map(|(like, bytes)| RefilledFile { like: like.clone(), bytes: bytes.clone() }).collect();
    for (name, (shape, numbers)) in &parameters.items {
        let Some(own) = offers.get(name) else {
            faults.push(format!("no tensor of the file is `{name}`"));
            continue;
        };
        let places: usize = own.iter().map(|part| part.shape.iter().product::<usize>()).sum();
        if places != numbers.len() {
            faults.push(format!("the file has {places} of the {} numbers of `{name}` {shape:?}", numbers.len()));
            continue;
        }
        for part in own {
            if let Err(fault) = put(&mut files, name, part, (shape, numbers)) {
                faults.push(fault);
            }
        }
    }
    for (theirs, copy) in copied(file, names) {
        let from = &file.tensors[theirs];
        let bytes = files[from.file].bytes[from.bytes.clone()].to_vec();
        files[copy.file].bytes[copy.bytes.clone()].copy_from_slice(&bytes);
    }
    if faults.is_empty() { Ok(files) } else { Err(WeightsError { file: file.name.clone(), faults }) }
}

/// Writes the numbers of a parameter, or of an element of it, to where the tensor has them.
fn put(
    files: &mut [RefilledFile],
    name: &str,
    part: &Offered<'_>,
    (shape, numbers): (&[usize], &[f32]),
) -> Result<(), String> {
    let tensor = &part.tensor;
    let format = tensor.kind.clone().map_err(|kind| format!("`{}` has numbers of the kind {kind}", part.theirs))?;
    let (own, numbers) = match (part.at, shape.split_first()) {
        (Some(at), Some((count, element))) if at < *count => {
            let size = element.iter().product::<usize>();
            (element, &numbers[at * size..(at + 1) * size])
        }
        (Some(_), _) => return Err(format!("{}, which `{name}` {shape:?} has not", part.called(name))),
        (None, _) => (shape, numbers),
    };
    if own != part.shape {
        return Err(format!("{}, and the model has {own:?}", part.called(name)));
    }
    let bytes = &mut files[tensor.file].bytes[tensor.bytes.clone()];
    for (place, number) in tensor.places().zip(numbers) {
        let here = &mut bytes[place * format.size()..(place + 1) * format.size()];
        format.write(if tensor.negative { -number } else { *number }, here);
        if !format.number(here).is_finite() {
            return Err(format!("`{name}` has the number {number}, which {} has not", format.name()));
        }
    }
    Ok(())
}
