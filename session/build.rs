//! Gives the program a hash of the code that decides its numbers, so that results can say what made them.

#![allow(clippy::print_stdout, reason = "this is how a build script talks to cargo")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What decides numbers, from the folder of this package: the compiler, the runtime, the grammar, and their libraries.
const PARTS: [&str; 11] = [
    "../compiler/src",
    "../runtime/base/src",
    "../runtime/kernel/src",
    "../runtime/exec/src",
    "../runtime/cuda/src",
    "../runtime/tensor/src",
    "../runtime/task/src",
    "../runtime/runs/src",
    "../runtime/train/src",
    "../grammar",
    "../Cargo.lock",
];

fn main() {
    let mut texts = BTreeMap::new();
    for part in PARTS {
        assert!(Path::new(part).exists(), "{part} is not there, and the hash of the code would not know of it");
        println!("cargo::rerun-if-changed={part}");
        collect(Path::new(part), &mut texts);
    }
    let mut hash = Sha256::new();
    for (path, text) in &texts {
        for bytes in [path.as_bytes(), text] {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        }
    }
    let code: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=RTC_CODE={code}");
}

/// The files below a path, by name, so that their order is no matter of the machine. What can't be read is left out.
fn collect(path: &Path, texts: &mut BTreeMap<String, Vec<u8>>) {
    let inside = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
    };
    if path.is_dir() {
        inside(path).iter().for_each(|path| collect(path, texts));
    } else if let Ok(text) = fs::read(path) {
        texts.insert(path.to_string_lossy().replace('\\', "/"), text);
    }
}
