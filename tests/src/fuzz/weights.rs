//! Weights of other programs, and maps of their names.

use rtc_runs::error::Error;
use rtc_runs::error::WeightsError;
use rtc_runs::weights::{TensorNames, WeightsFile, fingerprint, fit};
use safetensors::tensor::{Dtype, SafeTensors};
use tempfile::TempDir;

use super::folder::write;

/// The most numbers of a parameter that is read.
const NUMBERS: usize = 1 << 16;

/// A file of weights, whatever wrote it.
pub(super) fn file(bytes: &[u8]) {
    let folder = TempDir::new().expect("a temporary folder");
    write(folder.path(), "theirs.bin", bytes);
    let file = match WeightsFile::read(&folder.path().join("theirs.bin")) {
        Ok(file) => file,
        Err(error) => return refused(&error),
    };
    // Without any parameter, every tensor of the file is a fault with its name and shape.
    let tensors = match fit(&file, &TensorNames::default(), &[], &[]) {
        Ok(_) => vec![],
        Err(error) => error.faults.iter().filter_map(|fault| tensor(fault)).collect::<Vec<_>>(),
    };
    let small =
        |shape: &[usize]| shape.iter().try_fold(1_usize, |n, size| n.checked_mul(*size)).is_some_and(|n| n <= NUMBERS);
    if !tensors.iter().all(|(_, shape)| small(shape)) {
        return;
    }
    match fit(&file, &TensorNames::default(), &[], &tensors) {
        Ok(arrays) => {
            fingerprint(&arrays);
            for (name, shape) in &tensors {
                let (own, numbers) = &arrays.items[name];
                assert_eq!((own, numbers.len()), (shape, shape.iter().product()), "{name}");
            }
            if let Ok(theirs) = SafeTensors::deserialize(bytes) {
                for (name, view) in theirs.iter().filter(|(_, view)| view.dtype() == Dtype::F32) {
                    let own: Vec<u8> = arrays.items[name].1.iter().flat_map(|number| number.to_le_bytes()).collect();
                    assert_eq!(own, view.data(), "{name}");
                }
            }
        }
        Err(error) => told(&error),
    }
}

/// The name and the shape in `NAME [2, 3] is no parameter of the model`.
fn tensor(fault: &str) -> Option<(String, Vec<usize>)> {
    let (tensor, _) = fault.rsplit_once(" is no parameter of the model")?;
    let (name, shape) = tensor.rsplit_once(" [")?;
    let sizes = shape.strip_suffix(']')?.split(", ").filter(|size| !size.is_empty());
    Some((name.trim_matches('`').to_owned(), sizes.map(str::parse).collect::<Result<_, _>>().ok()?))
}

fn told(error: &WeightsError) {
    assert!(!error.faults.is_empty() && error.faults.iter().all(|fault| !fault.trim().is_empty()), "{error:?}");
}

fn refused(error: &Error) {
    match error {
        Error::Weights(error) => told(error),
        other => assert!(other.to_string().contains("theirs"), "{other}"),
    }
}

/// A map of names, and what becomes of a file by it.
pub(super) fn names(bytes: &[u8]) {
    let folder = TempDir::new().expect("a temporary folder");
    write(folder.path(), "theirs.json", bytes);
    write(folder.path(), "theirs.bin", include_bytes!("../../corpus/safetensors/float32"));
    let names = match TensorNames::read(&folder.path().join("theirs.json")) {
        Ok(names) => names,
        Err(error) => return refused(&error),
    };
    let file = WeightsFile::read(&folder.path().join("theirs.bin")).expect("a good file");
    match fit(&file, &names, &[], &[("linear.weight".to_owned(), vec![3, 2])]) {
        Ok(arrays) => assert_eq!(arrays.items["linear.weight"].1, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]),
        Err(error) => told(&error),
    }
}
