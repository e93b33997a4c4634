//! The tensors of a file as the parameters of a model: all of them, or a list of everything that does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{FileTensor, NumberFormat, WeightsError, WeightsFile};
use crate::error::{Error, ExperimentError};
use rtc_base::json;
use rtc_exec::learner::FlatArrays;
use rtc_task::error::suggest;

/// New names of a file's tensors, by their names there. A tensor without one keeps its name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct TensorNames(BTreeMap<String, Option<TensorDestination>>);

/// The destination of a tensor.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum TensorDestination {
    Named(String),
    Turned {
        to: String,
        #[serde(default)]
        transpose: bool,
    },
}

impl TensorNames {
    /// Reads a map: a JSON object with `"theirs": "ours"`, `"theirs": { "to": "ours", "transpose": true }`, or `"theirs": null`
    /// for a tensor that is left out.
    ///
    /// # Errors
    /// The file can't be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = super::read(path)?;
        json::value(&text).and_then(|_| serde_json::from_slice(&text)).map_err(|error| {
            let form = "a map of names is a JSON object: \"theirs\": \"ours\", { \"to\": \"ours\", \"transpose\": true }, or null";
            let message = format!("{error}; {form}");
            ExperimentError { file: path.display().to_string(), line: Some(error.line()), message, others: vec![] }
                .into()
        })
    }

    /// The name that a tensor gets, and whether it is turned; nothing where it is left out.
    fn of(&self, theirs: &str) -> Option<(String, bool)> {
        match self.0.get(theirs) {
            None => Some((theirs.to_owned(), false)),
            Some(None) => None,
            Some(Some(TensorDestination::Named(ours))) => Some((ours.clone(), false)),
            Some(Some(TensorDestination::Turned { to, transpose })) => Some((to.clone(), *transpose)),
        }
    }
}

/// A tensor of the file under the name that it gets.
struct Offered<'a> {
    theirs: &'a str,
    /// As it is there.
    from: &'a FileTensor,
    /// As it is offered.
    tensor: FileTensor,
}

impl Offered<'_> {
    /// Its name, that in the file if it is another one, and its shape.
    fn called(&self, name: &str) -> String {
        let there = if name == self.theirs { String::new() } else { format!(" (`{}` there)", self.theirs) };
        format!("`{name}`{there} {:?}", self.tensor.shape)
    }
}

/// The parameters of a model, given as names and shapes, from a file.
///
/// # Errors
/// Every parameter that the file lacks, every tensor that is none, every shape, kind and number that a parameter can't have.
pub fn fit(
    file: &WeightsFile,
    names: &TensorNames,
    parameters: &[(String, Vec<usize>)],
) -> Result<FlatArrays, WeightsError> {
    let mut faults = vec![];
    let known: Vec<&str> = file.tensors.keys().map(String::as_str).collect();
    for theirs in names.0.keys().filter(|theirs| !file.tensors.contains_key(*theirs)) {
        faults.push(format!("the map names `{theirs}`, which is not there{}", hint(theirs, &known)));
    }
    let mut offered = offered(file, names, &mut faults);
    let (mut arrays, mut used) = (FlatArrays::default(), vec![]);
    let all: BTreeSet<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    let strangers: Vec<String> = offered.keys().filter(|name| !all.contains(name.as_str())).cloned().collect();
    let strangers: Vec<&str> = strangers.iter().map(String::as_str).collect();
    for (name, shape) in parameters {
        match offered.remove(name) {
            None => faults.push(format!("`{name}` {shape:?} is missing{}", hint(name, &strangers))),
            Some(found) => {
                match taken(file, name, shape, &found) {
                    Ok(numbers) => drop(arrays.items.insert(name.clone(), (shape.clone(), numbers))),
                    Err(fault) => faults.push(fault),
                }
                used.push(found);
            }
        }
    }
    // Both names of a tied weight are one weight.
    offered.retain(|_, found| !used.iter().any(|used| used.from.is(found.from)));
    let missing: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| !known.contains(name)).collect();
    for (name, found) in &offered {
        let copied = used.iter().find(|used| equal(file, used.from, found.from));
        let cure = copied.map_or_else(|| hint(name, &missing), |used| copy_of(used.theirs));
        faults.push(format!("{} is no parameter of the model{cure}", found.called(name)));
    }
    if faults.is_empty() { Ok(arrays) } else { Err(WeightsError { file: file.name.clone(), faults }) }
}

/// Whether two tensors are written alike, number for number.
fn equal(file: &WeightsFile, a: &FileTensor, b: &FileTensor) -> bool {
    let layout = |tensor: &FileTensor| (tensor.offset, tensor.negative, tensor.kind.clone());
    let same = layout(a) == layout(b) && a.shape == b.shape && a.strides == b.strides;
    same && file.bytes[a.bytes.clone()] == file.bytes[b.bytes.clone()]
}

/// What to do about a tensor that is a copy of one that the model takes.
fn copy_of(theirs: &str) -> String {
    format!("; it has the numbers of `{theirs}`: if both are one weight, leave it out by `null` in a map of names")
}

/// The tensors of the file under the names that they get. Two that get one name are a fault, unless they are one tensor.
fn offered<'a>(file: &'a WeightsFile, names: &TensorNames, faults: &mut Vec<String>) -> BTreeMap<String, Offered<'a>> {
    let mut offered: BTreeMap<String, Offered<'a>> = BTreeMap::new();
    for (theirs, tensor) in &file.tensors {
        let Some((ours, turned)) = names.of(theirs) else { continue };
        let from = tensor;
        let mut tensor = from.clone();
        if turned {
            tensor.shape.reverse();
            tensor.strides.reverse();
        }
        if let Some(other) = offered.get(&ours) {
            if !other.tensor.is(&tensor) {
                faults.push(format!("`{}` and `{theirs}` both become `{ours}`", other.theirs));
            }
            continue;
        }
        offered.insert(ours, Offered { theirs, from, tensor });
    }
    offered
}

/// The numbers of a parameter, all of them finite.
fn taken(file: &WeightsFile, name: &str, shape: &[usize], found: &Offered<'_>) -> Result<Vec<f32>, String> {
    let tensor = &found.tensor;
    if tensor.shape != shape {
        let turned = tensor.shape.iter().rev().eq(shape);
        let cure = if turned { "; it would fit transposed, which a map of names can say" } else { "" };
        return Err(format!("`{name}` has shape {:?}, the model has {shape:?}{cure}", tensor.shape));
    }
    let kind: NumberFormat = tensor.kind.clone().map_err(|kind| {
        format!("`{name}` has numbers of the kind {kind}; weights are float16, bfloat16, float32 or float64")
    })?;
    let numbers = file.numbers(tensor, kind);
    match numbers.iter().position(|number| !number.is_finite()) {
        Some(at) => Err(format!("`{name}` has {} as its number {at}, counted from 0, as float32", numbers[at])),
        None => Ok(numbers),
    }
}

fn hint(name: &str, candidates: &[&str]) -> String {
    suggest(name, candidates.iter().copied()).map(|near| format!("; is it `{near}`?")).unwrap_or_default()
}

/// A hash of names, shapes and numbers: the same for equal weights, whatever file they came from.
pub fn fingerprint(arrays: &FlatArrays) -> String {
    let mut hash = Sha256::new();
    for (name, (shape, numbers)) in &arrays.items {
        hash.update(format!("{name} {shape:?}\n"));
        hash.update(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
