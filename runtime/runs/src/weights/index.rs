//! The index of weights in several files: `weight_map` says for every tensor which safetensors file beside the index has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{FileTensor, read, safetensors};
use crate::error::{Error, WeightsError};
use rtc_base::json;

/// The bytes of files, and their tensors.
pub(super) type JoinedFiles = (Vec<(PathBuf, Vec<u8>)>, BTreeMap<String, FileTensor>);

/// The file of every tensor.
pub(super) struct WeightsIndex(BTreeMap<String, String>);

impl WeightsIndex {
    /// The index that a file is; nothing if it is something else.
    ///
    /// # Errors
    /// A sentence about a `weight_map` that is none.
    pub(super) fn of(bytes: &[u8]) -> Result<Option<Self>, String> {
        if bytes.first() != Some(&b'{') {
            return Ok(None);
        }
        let Ok(index) = json::value(bytes) else { return Ok(None) };
        let Some(map) = index.get("weight_map") else { return Ok(None) };
        let map = map.as_object().ok_or("an index whose `weight_map` is no object")?;
        let file = |(tensor, file): (&String, &serde_json::Value)| {
            let name = file.as_str().ok_or_else(|| format!("an index that has no name of a file for `{tensor}`"))?;
            match Path::new(name).file_name().is_some_and(|own| own == name) {
                true => Ok((tensor.clone(), name.to_owned())),
                false => Err(format!("an index that names `{name}`, which is no file beside it")),
            }
        };
        map.iter().map(file).collect::<Result<_, String>>().map(|map| Some(Self(map)))
    }

    /// The files beside an index, and their tensors.
    ///
    /// # Errors
    /// A file can't be read or is no safetensors file, lacks a tensor, or has one that the index has not there.
    pub(super) fn read(self, path: &Path) -> Result<JoinedFiles, Error> {
        let names: BTreeSet<&String> = self.0.values().collect();
        let (mut files, mut tensors, mut faults) = (vec![], BTreeMap::new(), vec![]);
        for (n, name) in names.into_iter().enumerate() {
            let path = path.with_file_name(name);
            let bytes = read(&path)?;
            match safetensors(&bytes) {
                Err(fault) => faults.push(format!("{name}: {fault}")),
                Ok(own) => {
                    for (tensor, found) in own {
                        match self.0.get(&tensor) {
                            Some(file) if file == name => drop(tensors.insert(tensor, FileTensor { file: n, ..found })),
                            Some(file) => faults.push(format!("{name} has `{tensor}`, which the index has in {file}")),
                            None => faults.push(format!("{name} has `{tensor}`, which the index has not")),
                        }
                    }
                    let lacks = self.0.iter().filter(|(tensor, file)| *file == name && !tensors.contains_key(*tensor));
                    faults
                        .extend(lacks.map(|(tensor, _)| format!("{name} lacks `{tensor}`, which the index has there")));
                }
            }
            files.push((path, bytes));
        }
        if faults.is_empty() {
            Ok((files, tensors))
        } else {
            Err(WeightsError { file: path.display().to_string(), faults }.into())
        }
    }
}
