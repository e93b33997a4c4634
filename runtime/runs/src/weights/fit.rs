//! The tensors of a file as the parameters of a model: all of them, or a list of everything that does not fit.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::format::NumberFormat;
use super::{FileTensor, WeightsError, WeightsFile};
use crate::error::{Error, ExperimentError};
use rtc_base::json;
use rtc_exec::learner::FlatArrays;
use rtc_task::error::suggest;

/// New names of a file's tensors, by their names there. A tensor without one keeps its name.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct TensorNames(BTreeMap<String, Option<TensorDestination>>);

/// The destination of a tensor.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum TensorDestination {
    Named(String),
    Made(TensorUse),
}

/// How parameters are made of a tensor: one is all of it (`to`), or several are parts of its rows (`rows`).
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TensorUse {
    /// The parameters that it is, or that it is an element of.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "one_or_several")]
    pub to: Vec<String>,
    /// The parameters that its rows are, one behind the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// Its rows are so many groups, each with the rows of every parameter: heads that hold queries, keys and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<usize>,
    /// It is this element of the first axis of the parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<usize>,
    /// It is stored as [inputs, outputs].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub transpose: bool,
}

/// A name, or a list of names.
mod one_or_several {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        One(String),
        Several(Vec<String>),
    }

    pub(super) fn serialize<S: Serializer>(names: &[String], serializer: S) -> Result<S::Ok, S::Error> {
        match names {
            [one] => one.serialize(serializer),
            names => names.serialize(serializer),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<String>, D::Error> {
        Ok(match Names::deserialize(deserializer)? {
            Names::One(name) => vec![name],
            Names::Several(names) => names,
        })
    }
}

/// The form of a map of names.
const FORM: &str = "a map of names is a JSON object: \"theirs\": \"ours\", { \"to\": \"ours\", \"transpose\": true }, \
                    { \"rows\": [\"query\", \"key\"] }, or null";

impl TensorNames {
    /// Reads a map: a JSON object with `"theirs": "ours"`, `"theirs": { "to": "ours", "transpose": true }` and the other fields of
    /// [`TensorUse`], or `"theirs": null` for a tensor that is left out.
    ///
    /// # Errors
    /// The file can't be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = super::read(path)?;
        let read: Result<Self, _> = json::value(&text).and_then(|_| serde_json::from_slice(&text));
        let broken = |line: Option<usize>, message: String| {
            Error::from(ExperimentError { file: path.display().to_string(), line, message, others: vec![] })
        };
        let names = read.map_err(|error| broken(Some(error.line()), format!("{error}; {FORM}")))?;
        match names.0.iter().find_map(|(theirs, to)| Some((theirs, fault_of(to.as_ref()?)?))) {
            Some((theirs, fault)) => Err(broken(None, format!("`{theirs}` {fault}; {FORM}"))),
            None => Ok(names),
        }
    }

    /// Says what a tensor is used for; nothing leaves it out.
    pub fn insert(&mut self, theirs: String, destination: Option<TensorUse>) {
        let plain = |TensorUse { to, rows, groups, at, transpose }: &TensorUse| {
            let is_name = to.len() == 1 && rows.is_empty() && groups.is_none() && at.is_none() && !transpose;
            is_name.then(|| TensorDestination::Named(to[0].clone()))
        };
        let destination = destination.map(|own| plain(&own).unwrap_or(TensorDestination::Made(own)));
        self.0.insert(theirs, destination);
    }

    /// What a tensor is used for; nothing where it is left out.
    fn of(&self, theirs: &str) -> Option<TensorUse> {
        let named = |name: &str| TensorUse { to: vec![name.to_owned()], ..TensorUse::default() };
        match self.0.get(theirs) {
            None => Some(named(theirs)),
            Some(None) => None,
            Some(Some(TensorDestination::Named(ours))) => Some(named(ours)),
            Some(Some(TensorDestination::Made(own))) => Some(own.clone()),
        }
    }
}

/// What is wrong with a destination by itself.
fn fault_of(destination: &TensorDestination) -> Option<&'static str> {
    let TensorDestination::Made(own) = destination else { return None };
    match own {
        _ if own.to.is_empty() == own.rows.is_empty() => Some("needs either `to` or `rows`"),
        _ if own.groups.is_some() && own.rows.is_empty() => Some("has `groups`, which belong to `rows`"),
        _ if own.at.is_some() && own.to.is_empty() => Some("has `at`, which belongs to `to`"),
        _ if own.groups == Some(0) => Some("has no `groups`: there is at least 1"),
        _ => None,
    }
}

/// A tensor of the file, or a part of it, under the name that it gets.
pub(super) struct Offered<'a> {
    pub(super) theirs: &'a str,
    /// As it is there.
    from: &'a FileTensor,
    /// As its numbers are read.
    pub(super) tensor: FileTensor,
    /// As it is offered.
    pub(super) shape: Vec<usize>,
    /// The element of the first axis that it is.
    pub(super) at: Option<usize>,
}

impl Offered<'_> {
    /// Its name, that in the file if it is another one, and its shape.
    pub(super) fn called(&self, name: &str) -> String {
        let there = if name == self.theirs { String::new() } else { format!(" (`{}` there)", self.theirs) };
        let element = self.at.map_or_else(String::new, |at| format!(", element {at} of the first axis"));
        format!("`{name}`{there} {:?}{element}", self.shape)
    }
}

/// What is offered under every name: one tensor, or elements of the first axis.
pub(super) type Offers<'a> = BTreeMap<String, Vec<Offered<'a>>>;

/// Whether a parameter is at a path, or below it.
fn is_below(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The parameters of a model, given as names and shapes, from a file; those at and below the paths `drawn`, which the file must not have,
/// are left out.
///
/// # Errors
/// Every other parameter that the file lacks, every tensor that is none, every shape, kind and number that a parameter can't have; a path
/// without a parameter, and one whose parameters the file has.
pub fn fit(
    file: &WeightsFile,
    names: &TensorNames,
    drawn: &[String],
    parameters: &[(String, Vec<usize>)],
) -> Result<FlatArrays, WeightsError> {
    let mut faults = vec![];
    let is_drawn = |name: &str| drawn.iter().any(|path| is_below(name, path));
    let known: Vec<&str> = file.tensors.keys().map(String::as_str).collect();
    for theirs in names.0.keys().filter(|theirs| !file.tensors.contains_key(*theirs)) {
        faults.push(format!("the map names `{theirs}`, which is not there{}", hint(theirs, &known)));
    }
    let mut offered = offered(file, names, parameters, &mut faults);
    let (mut arrays, mut used) = (FlatArrays::default(), vec![]);
    let all: BTreeSet<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    let strangers: Vec<String> = offered.keys().filter(|name| !all.contains(name.as_str())).cloned().collect();
    let strangers: Vec<&str> = strangers.iter().map(String::as_str).collect();
    let paths: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    for path in drawn.iter().filter(|path| !paths.iter().any(|name| is_below(name, path))) {
        faults.push(format!("`--draw {path}`: the model has no parameter there{}", hint(path, &paths)));
    }
    for (name, shape) in parameters {
        match offered.remove(name) {
            None if is_drawn(name) => {}
            Some(_) if is_drawn(name) => {
                faults.push(format!("`{name}` is there, and was to be drawn (`--draw`): leave one of them out"));
            }
            None => faults.push(format!("`{name}` {shape:?} is missing{}", hint(name, &strangers))),
            Some(found) => {
                match taken(file, name, shape, &found) {
                    Ok(numbers) => drop(arrays.items.insert(name.clone(), (shape.clone(), numbers))),
                    Err(fault) => faults.push(fault),
                }
                used.extend(found);
            }
        }
    }
    // Both names of a tied weight are one weight.
    let is_tied = |found: &Offered<'_>| used.iter().any(|used| used.theirs != found.theirs && used.from.is(found.from));
    offered.retain(|_, found| !found.iter().all(is_tied));
    let missing: Vec<&str> =
        parameters.iter().map(|(name, _)| name.as_str()).filter(|name| !known.contains(name)).collect();
    for (name, found) in offered.iter().flat_map(|(name, all)| all.iter().map(move |found| (name, found))) {
        let copied = used.iter().find(|used| equal(file, used.from, found.from));
        let cure = copied.map_or_else(|| hint(name, &missing), |used| copy_of(used.theirs));
        faults.push(format!("{} is no parameter of the model{cure}", found.called(name)));
    }
    if faults.is_empty() { Ok(arrays) } else { Err(WeightsError { file: file.name.clone(), faults }) }
}

/// Whether two tensors are written alike, number for number.
pub(super) fn equal(file: &WeightsFile, a: &FileTensor, b: &FileTensor) -> bool {
    let layout = |tensor: &FileTensor| (tensor.offset, tensor.negative, tensor.kind.clone());
    let same = layout(a) == layout(b) && a.shape == b.shape && a.strides == b.strides;
    same && file.data(a) == file.data(b)
}

/// The tensors that the map leaves out and that are written like one which it uses, each with the name of that one.
pub(super) fn copied<'a>(file: &'a WeightsFile, names: &TensorNames) -> Vec<(&'a str, &'a FileTensor)> {
    let (used, left): (Vec<_>, Vec<_>) = file.tensors.iter().partition(|(theirs, _)| names.of(theirs).is_some());
    let of = |copy: &'a FileTensor| {
        let (theirs, _) = used.iter().find(|(_, own)| equal(file, own, copy))?;
        Some((theirs.as_str(), copy))
    };
    left.into_iter().filter_map(|(_, copy)| of(copy)).collect()
}

/// What to do about a tensor that is a copy of one that the model takes.
fn copy_of(theirs: &str) -> String {
    format!("; it has the numbers of `{theirs}`: if both are one weight, leave it out by `null` in a map of names")
}

/// The tensors of the file under the names that they get. Two that get one name are a fault, unless they are one tensor.
pub(super) fn offered<'a>(
    file: &'a WeightsFile,
    names: &TensorNames,
    parameters: &[(String, Vec<usize>)],
    faults: &mut Vec<String>,
) -> Offers<'a> {
    let mut offered = Offers::new();
    let mut offer = |name: String, own: Offered<'a>, faults: &mut Vec<String>| {
        let known = offered.entry(name.clone()).or_default();
        match known.iter().find(|other| other.at == own.at || other.at.is_none() || own.at.is_none()) {
            Some(other) if other.tensor.is(&own.tensor) && other.at == own.at => {}
            Some(other) => faults.push(format!("`{}` and `{}` both become `{name}`", other.theirs, own.theirs)),
            None => known.push(own),
        }
    };
    for (theirs, from) in &file.tensors {
        let Some(own) = names.of(theirs) else { continue };
        let mut tensor = from.clone();
        if own.transpose {
            tensor.shape.reverse();
            tensor.strides.reverse();
        }
        for name in own.to {
            let shape = tensor.shape.clone();
            offer(name, Offered { theirs, from, tensor: tensor.clone(), shape, at: own.at }, faults);
        }
        if !own.rows.is_empty() {
            match parts(&tensor, &own.rows, own.groups.unwrap_or(1), parameters) {
                Ok(parts) => {
                    for (name, (tensor, shape)) in own.rows.into_iter().zip(parts) {
                        offer(name, Offered { theirs, from, tensor, shape, at: None }, faults);
                    }
                }
                Err(fault) => faults.push(format!("`{theirs}` {:?} {fault}", from.shape)),
            }
        }
    }
    offered
}

/// The rows of each of some parameters, as they are read and with their shape.
fn parts(
    tensor: &FileTensor,
    names: &[String],
    groups: usize,
    parameters: &[(String, Vec<usize>)],
) -> Result<Vec<(FileTensor, Vec<usize>)>, String> {
    let of = |name: &String| {
        let shape = parameters.iter().find(|(own, _)| own == name).map(|(_, shape)| shape);
        let known: Vec<&str> = parameters.iter().map(|(own, _)| own.as_str()).collect();
        let rows = shape.ok_or_else(|| format!("is cut for `{name}`, which is no parameter{}", hint(name, &known)))?;
        let rows = rows.first().copied().unwrap_or(1);
        if rows % groups != 0 {
            return Err(format!("is cut into {groups} groups, and `{name}` has {rows} rows"));
        }
        Ok(rows / groups)
    };
    let each = names.iter().map(of).collect::<Result<Vec<usize>, String>>()?;
    let own: usize = each.iter().sum();
    if tensor.shape.first() != Some(&(groups * own)) {
        return Err(format!(
            "is cut into {} rows{}",
            groups * own,
            if tensor.shape.is_empty() { ", and is one number" } else { "" }
        ));
    }
    let (stride, mut before) = (tensor.strides[0], 0);
    let part = |rows: &usize| {
        let read = FileTensor {
            shape: [&[groups, *rows], &tensor.shape[1..]].concat(),
            strides: [&[own * stride, stride], &tensor.strides[1..]].concat(),
            offset: tensor.offset + before * stride,
            ..tensor.clone()
        };
        before += rows;
        (read, [&[groups * rows], &tensor.shape[1..]].concat())
    };
    Ok(each.iter().map(part).collect())
}

/// The numbers of a parameter, all of them finite.
fn taken(file: &WeightsFile, name: &str, shape: &[usize], found: &[Offered<'_>]) -> Result<Vec<f32>, String> {
    let [one] = found else { return stacked(file, name, shape, found) };
    if one.at.is_some() {
        return stacked(file, name, shape, found);
    }
    numbers(file, name, shape, one)
}

/// The numbers of a parameter whose elements along the first axis are tensors of their own.
fn stacked(file: &WeightsFile, name: &str, shape: &[usize], found: &[Offered<'_>]) -> Result<Vec<f32>, String> {
    let Some((count, element)) = shape.split_first() else {
        return Err(format!("`{name}` is one number, and has no elements that tensors could be"));
    };
    let mut all = vec![];
    for at in 0..*count {
        let one = found.iter().find(|one| one.at == Some(at));
        let one = one.ok_or_else(|| format!("`{name}` {shape:?} lacks element {at} of its first axis"))?;
        all.extend(numbers(file, name, element, one)?);
    }
    match found.iter().find(|one| one.at.is_none_or(|at| at >= *count)) {
        Some(one) => Err(format!("{}, of which `{name}` {shape:?} has {count}", one.called(name))),
        None => Ok(all),
    }
}

/// The numbers of one tensor for a parameter, or an element of it, of this shape.
fn numbers(file: &WeightsFile, name: &str, shape: &[usize], found: &Offered<'_>) -> Result<Vec<f32>, String> {
    let tensor = &found.tensor;
    if found.shape != shape {
        let turned = found.shape.iter().rev().eq(shape);
        let cure = if turned { "; it would fit transposed, which a map of names can say" } else { "" };
        return Err(format!("`{name}` has shape {:?}, the model has {shape:?}{cure}", found.shape));
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
