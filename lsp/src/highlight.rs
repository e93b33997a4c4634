//! The TextMate grammar of specs, which colours them in editors: its words are those of the grammar and of the tables.

use rtc_compiler::define::KINDS;
use rtc_compiler::expr::Var;
use rtc_compiler::feature;
use serde_json::{Value, json};

use crate::complete::applied;
use crate::grammar;

/// The grammar as `editors/vscode` has it.
pub fn textmate() -> Value {
    const OPERATORS: [&str; 3] = ["and", "or", "not"];
    const TRUTHS: [&str; 2] = ["true", "false"];
    let keywords = grammar::words().into_iter().filter(|word| !OPERATORS.contains(word) && !TRUTHS.contains(word));
    let rule = |scope: &str, pattern: String| json!({ "name": format!("{scope}.rt"), "match": pattern });
    let defining = "\\b(model|variant|mask|bias|score|def)\\s+(?:(\\w+)\\s+)?(\\w+)(?=\\s*(?:[({=:]|of\\b))";
    json!({
        "$schema": "https://raw.githubusercontent.com/martinring/tmlanguage/master/tmlanguage.json",
        "name": "rtc spec",
        "scopeName": "source.rt",
        "patterns": [
            rule("comment.line.documentation", "///.*$".to_owned()),
            rule("comment.line.double-slash", "//.*$".to_owned()),
            rule("string.quoted.double", "\"[^\"]*\"?".to_owned()),
            { "match": defining, "captures": {
                "1": { "name": "keyword.control.rt" }, "2": { "name": "storage.type.rt" }, "3": { "name": "entity.name.function.rt" },
            } },
            rule("constant.numeric", "\\b[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?\\b".to_owned()),
            { "match": format!("\\b(\\w+)\\s*:\\s*({})(?=\\s*(?:=|\\(|$))", any(KINDS)), "captures": {
                "1": { "name": "variable.parameter.rt" }, "2": { "name": "support.type.rt" },
            } },
            rule("variable.parameter", "\\b[A-Za-z_]\\w*(?=\\s*:)".to_owned()),
            rule("support.function", format!("\\b({})(?=\\s*[\\[({{])", any(applied().map(|(name, _)| name)))),
            rule("keyword.operator.word", format!("\\b({})\\b", any(OPERATORS))),
            rule("constant.language", format!("\\b({})\\b", any(TRUTHS))),
            rule("keyword.control", format!("\\b({})\\b(?!\\s*[.:=])", any(keywords))),
            rule("storage.type", format!("\\b({})\\b(?!\\s*[.:=(\\[])", any(feature::slots().iter().map(|slot| &*slot.name)))),
            rule("variable.language", format!("\\b({})\\b", any(Var::ALL.iter().map(|var| var.name())))),
            rule("keyword.operator", "[-+*/%^=<>!]".to_owned()),
        ],
    })
}

/// Any of some words; the pattern of each ends where the word does.
fn any<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().collect::<Vec<_>>().join("|")
}
