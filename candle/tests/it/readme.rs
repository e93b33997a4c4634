//! The example of the README and that of its page are the ones that are compiled, and the first does what it says.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{HALTING, LISTOPS, Place, root};
use candle_core::{D, Device, Result};
use candle_nn::Module;
use rtc_candle::Model;

/// The first block of Rust of a page behind a heading.
fn block(page: &str, heading: &str) -> String {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let behind = text.split_once(heading).unwrap_or_else(|| panic!("{page} has no `{heading}`")).1;
    let block = behind.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    block.unwrap_or_else(|| panic!("{page} has no block of Rust behind `{heading}`")).0.to_owned()
}

/// An example from its first import on.
fn example(name: &str) -> String {
    let path = root().join("candle/examples").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let start = text.find("\nuse ").expect("it imports Candle") + 1;
    text[start..].to_owned()
}

/// A program that cargo has built beside this test.
fn program(name: &str) -> std::path::PathBuf {
    let own = std::env::current_exe().expect("this program");
    let folder = own.parent().and_then(Path::parent).expect("tests lie in `deps`");
    let path = folder.join("examples").join(name);
    assert!(path.exists(), "{} is missing: `cargo test -p rtc-candle` builds it", path.display());
    path
}

#[test]
fn the_pages_show_the_examples() {
    assert_eq!(block("README.md", "\n## In a Candle program\n"), example("spec.rs"));
    assert_eq!(block("docs/candle.md", "\n## Asking a model\n"), example("module.rs"));
    assert_eq!(block("docs/candle.md", "\n## Training\n"), example("train.rs"));
}

#[test]
fn the_examples_run() -> Result<()> {
    let place = Place::new();
    fs::create_dir(place.path("runs")).expect("a new folder");
    place.train("runs/NAME", HALTING, LISTOPS);
    let run = |name: &str| {
        let done = Command::new(program(name)).current_dir(place.path("")).output().expect("it starts");
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    };
    let model = Model::open(place.path("runs/NAME"), &Device::Cpu)?;
    let logits = model.forward(&model.encode("[MAX 2 9 [MIN 4 7 ] 0 ]")?)?;
    let class = logits.argmax(D::Minus1)?.to_vec1::<u32>()?[0];
    assert_eq!(run("module"), format!("{}\n", model.classes()[class as usize]));

    // Candle's random numbers on the CPU have no seed: chance is a third, and 0.95 and more are usual.
    let right: f32 = run("spec").trim().parse().expect("a share");
    assert!(right > 0.8, "{right} of the rows");

    run("train");
    let saved = candle_core::safetensors::load(place.path("tuned.safetensors"), &Device::Cpu)?;
    let map = model.var_map();
    let vars = map.data().lock().expect("nobody panics");
    assert_eq!(saved.len(), vars.len());
    let moved = |name: &String| -> Result<bool> {
        let change = (&saved[name] - vars[name].as_tensor())?.abs()?.max_all()?.to_scalar::<f32>()?;
        Ok(change > 0.0)
    };
    assert!(saved.keys().map(moved).collect::<Result<Vec<_>>>()?.contains(&true), "nothing was trained");
    Ok(())
}
