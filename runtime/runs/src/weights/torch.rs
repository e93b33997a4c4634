//! The form of `torch.save` since PyTorch 1.6: a zip archive of a pickle, which says what the tensors are, and a file of numbers
//! for every storage. Storages are not compressed, so tensors point into the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::ops::Range;

use candle_core::pickle::Object;
use zip::{CompressionMethod, ZipArchive};

use super::{FileTensor, NumberFormat, pickle};

const PICKLE: &str = "data.pkl";
const SAVE: &str = "save the tensors alone: torch.save(model.state_dict(), FILE)";

/// The files of an archive by name, as places in its bytes.
type ArchiveRanges = BTreeMap<String, Range<usize>>;

/// The tensors of a `state_dict`.
pub(super) fn tensors(bytes: &[u8]) -> Result<BTreeMap<String, FileTensor>, String> {
    let places = places(bytes).map_err(|why| format!("a PyTorch file that is damaged: {why}"))?;
    let pickles: Vec<&String> = places.keys().filter(|name| *name == PICKLE || name.ends_with("/data.pkl")).collect();
    let [pickle] = pickles[..] else {
        let count = if pickles.is_empty() { "no" } else { "more than one" };
        return Err(format!("a zip archive, but not one of torch.save: {count} {PICKLE}"));
    };
    let folder = pickle.trim_end_matches(PICKLE);
    if places.get(&format!("{folder}byteorder")).is_some_and(|place| bytes[place.clone()] != *b"little") {
        return Err("its numbers have the big end first".to_owned());
    }
    let Object::Dict(entries) = pickle::object(&bytes[places[pickle].clone()])? else {
        return Err(format!("it holds no dictionary; {SAVE}"));
    };
    let mut tensors = BTreeMap::new();
    for (name, object) in entries {
        let Object::Unicode(name) = name else { return Err(format!("a key of it is no name; {SAVE}")) };
        // Versions of modules, which `state_dict` keeps beside the tensors.
        if name == "_metadata" {
            continue;
        }
        let tensor = tensor(&object, folder, &places).map_err(|why| format!("`{name}` {why}"))?;
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(format!("`{name}` is in it twice"));
        }
    }
    Ok(tensors)
}

/// Where the files of a zip archive are.
fn places(bytes: &[u8]) -> Result<ArchiveRanges, String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    once(bytes, usize::try_from(archive.central_directory_start()).unwrap_or(usize::MAX), archive.len())?;
    let mut places = ArchiveRanges::new();
    for n in 0..archive.len() {
        let file = archive.by_index(n).map_err(|error| error.to_string())?;
        let name = file.name().map_err(|error| error.to_string())?.into_owned();
        if file.compression() != CompressionMethod::Stored {
            return Err(format!("`{name}` is compressed, and torch.save compresses nothing"));
        }
        let start = file.data_start().and_then(|start| usize::try_from(start).ok());
        let place = start.zip(usize::try_from(file.size()).ok()).and_then(|(start, size)| {
            let end = start.checked_add(size)?;
            (end <= bytes.len()).then_some(start..end)
        });
        places.insert(name.clone(), place.ok_or_else(|| format!("`{name}` reaches beyond its end"))?);
    }
    Ok(places)
}

/// Refuses an archive whose directory, which begins at `at`, names a file twice: readers differ in which of the two they take. The
/// library that reads it has `known` names, each once.
fn once(bytes: &[u8], mut at: usize, known: usize) -> Result<(), String> {
    const ENTRY: usize = 46;
    let mut names = BTreeSet::new();
    while let Some(entry) =
        bytes.get(at..).and_then(|rest| rest.get(..ENTRY)).filter(|entry| entry.starts_with(b"PK\x01\x02"))
    {
        let size = |at: usize| usize::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
        let name = bytes.get(at + ENTRY..at + ENTRY + size(28)).unwrap_or_default();
        if !names.insert(name) {
            return Err(format!("`{}` is in it twice", String::from_utf8_lossy(name)));
        }
        at += ENTRY + size(28) + size(30) + size(32);
    }
    if names.len() == known { Ok(()) } else { Err("its directory can't be read".to_owned()) }
}

/// A tensor, or a parameter around one.
fn tensor(object: &Object, folder: &str, places: &ArchiveRanges) -> Result<FileTensor, String> {
    let (call, args) = called(object).ok_or_else(|| format!("is no tensor; {SAVE}"))?;
    match (call, args) {
        ("_rebuild_parameter", [inner, ..]) if called(inner).is_some_and(|(call, _)| call == "_rebuild_tensor_v2") => {
            tensor(inner, folder, places)
        }
        ("_rebuild_tensor_v2", [Object::PersistentLoad(storage), offset, shape, strides, more @ ..]) => {
            let broken = || "has a description that is damaged".to_owned();
            let (kind, bytes) = self::storage(storage, folder, places)?;
            let offset = size(offset).ok_or_else(broken)?;
            let (shape, strides) = sizes(shape).zip(sizes(strides)).ok_or_else(broken)?;
            let negative = more.get(2).map_or(Ok(false), is_negative)?;
            let tensor = FileTensor { shape, strides, offset, kind, file: 0, bytes, negative };
            if reach(&tensor).is_none_or(|end| end > tensor.bytes.len()) {
                return Err("reaches beyond the numbers of its storage".to_owned());
            }
            Ok(tensor)
        }
        _ => Err(format!("is no tensor; {SAVE}")),
    }
}

/// Whether the bits that PyTorch keeps beside a tensor say that its numbers have the other sign.
fn is_negative(bits: &Object) -> Result<bool, String> {
    let unknown = || "has a description that this program does not know".to_owned();
    let bits = match bits {
        Object::None => return Ok(false),
        Object::Dict(bits) => bits,
        _ => return Err(unknown()),
    };
    let mut negative = false;
    for bit in bits {
        match bit {
            (Object::Unicode(name), Object::Bool(set)) if name == "neg" => negative = *set,
            // Numbers that are not complex are their own conjugates; complex ones are refused by their kind.
            (Object::Unicode(name), Object::Bool(_)) if name == "conj" => {}
            (Object::Unicode(name), _) => {
                return Err(format!("has the mark `{name}`, which this program does not know: clone it"));
            }
            _ => return Err(unknown()),
        }
    }
    Ok(negative)
}

/// Name of a function and its arguments.
fn called(object: &Object) -> Option<(&str, &[Object])> {
    let Object::Reduce { callable, args } = object else { return None };
    match (&**callable, &**args) {
        (Object::Class { class_name, .. }, Object::Tuple(args)) => Some((class_name, args)),
        _ => None,
    }
}

/// How the numbers of a storage are written, and where they are.
fn storage(
    id: &Object,
    folder: &str,
    places: &ArchiveRanges,
) -> Result<(Result<NumberFormat, String>, Range<usize>), String> {
    let Object::Tuple(parts) = id else { return Err("has a storage without a name".to_owned()) };
    let [_, Object::Class { class_name, .. }, Object::Unicode(key), ..] = &parts[..] else {
        return Err("has a storage without a name".to_owned());
    };
    let kind = match class_name.as_str() {
        "HalfStorage" => Ok(NumberFormat::F16),
        "BFloat16Storage" => Ok(NumberFormat::Bf16),
        "FloatStorage" => Ok(NumberFormat::F32),
        "DoubleStorage" => Ok(NumberFormat::F64),
        other => Err(other.trim_end_matches("Storage").to_lowercase()),
    };
    let file = format!("{folder}data/{key}");
    let place = places.get(&file).ok_or_else(|| format!("has its numbers in `{file}`, which is not there"))?;
    Ok((kind, place.clone()))
}

/// The end of the last number of a tensor, in bytes of its storage; nothing where it is too large to say, or has no axes to match.
fn reach(tensor: &FileTensor) -> Option<usize> {
    if tensor.shape.len() != tensor.strides.len() {
        return None;
    }
    if tensor.shape.contains(&0) {
        return Some(0);
    }
    let mut last = tensor.offset;
    for (size, stride) in tensor.shape.iter().zip(&tensor.strides) {
        last = last.checked_add((size - 1).checked_mul(*stride)?)?;
    }
    last.checked_add(1)?.checked_mul(tensor.kind.as_ref().map_or(1, |kind| kind.size()))
}

fn size(object: &Object) -> Option<usize> {
    match object {
        Object::Int(n) => usize::try_from(*n).ok(),
        Object::Long(n) => usize::try_from(*n).ok(),
        _ => None,
    }
}

fn sizes(object: &Object) -> Option<Vec<usize>> {
    let Object::Tuple(items) = object else { return None };
    items.iter().map(size).collect()
}
