//! The files of `editors/`: their words are those of the compiler.

use std::fs;
use std::path::Path;

use rtc_lsp::{grammar, highlight};
use serde_json::Value;

fn path(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../editors/vscode").join(name)
}

fn read(name: &str) -> Value {
    let text = fs::read_to_string(path(name)).expect(name);
    serde_json::from_str(&text).expect(name)
}

/// `RTC_UPDATE=1` writes it.
#[test]
fn the_colours_are_those_of_the_language() {
    let (name, expected) = ("syntaxes/rt.tmLanguage.json", highlight::textmate());
    if std::env::var_os("RTC_UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&expected).expect("it is JSON");
        fs::write(path(name), text + "\n").expect(name);
    }
    assert_eq!(read(name), expected, "{name} is not current: run with RTC_UPDATE=1");
    let text = expected.to_string();
    let missing: Vec<_> = grammar::words().into_iter().filter(|word| !text.contains(word)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_extension_names_files_that_are_there() {
    let package = read("package.json");
    let main = package["main"].as_str().expect("a path");
    let language = &package["contributes"]["languages"][0];
    let grammar = &package["contributes"]["grammars"][0];
    assert_eq!(language["extensions"], serde_json::json!([".rt"]));
    assert_eq!(grammar["scopeName"], read("syntaxes/rt.tmLanguage.json")["scopeName"]);
    for file in [main, language["configuration"].as_str().expect("a path"), grammar["path"].as_str().expect("a path")] {
        assert!(path(file).is_file(), "{file}");
    }
    assert_eq!(read("language-configuration.json")["comments"]["lineComment"], "//");
    assert_eq!(package["version"], env!("CARGO_PKG_VERSION"));
}
