//! `rtc lsp`, spoken to as an editor does: every message goes through the standard streams of the binary.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Place, RTC};
use serde_json::{Value, json};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// An editor.
struct Editor {
    child: Child,
    messages: Receiver<Value>,
    /// Notifications that were not looked at.
    waiting: Vec<Value>,
    last: i64,
}

impl Editor {
    /// Starts the server.
    fn start(place: &Place) -> Self {
        let mut child = place.command(RTC).arg("lsp").stdin(Stdio::piped()).spawn().expect("the binary runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            while let Some(message) = read(&mut stdout) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        Self { child, messages, waiting: vec![], last: 0 }
    }

    /// Starts the server and the conversation.
    fn open(place: &Place) -> Self {
        let mut editor = Self::start(place);
        let answer = editor.ask("initialize", json!({ "capabilities": {} }));
        assert_eq!(answer["serverInfo"]["name"], "rtc");
        assert_eq!(answer["capabilities"]["positionEncoding"], "utf-16");
        editor.tell("initialized", json!({}));
        editor
    }

    fn write(&mut self, text: &[u8]) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        // The server may have ended; its exit code says so.
        let _ = stdin.write_all(text).and_then(|()| stdin.flush());
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.write(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn next(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("the server answers")
    }

    /// The whole answer to a request.
    fn answer(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.last, "method": method, "params": params }));
        loop {
            let message = self.next();
            if message["id"] == self.last {
                return message;
            }
            self.waiting.push(message);
        }
    }

    /// The result of a request.
    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The code of the error that a request is answered with.
    fn refused(&mut self, method: &str, params: Value) -> i64 {
        let answer = self.answer(method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method} is answered: {answer}"))
    }

    fn show(&mut self, uri: &str, text: &str) {
        self.tell(
            "textDocument/didOpen",
            json!({ "textDocument": { "uri": uri, "languageId": "rt", "version": 1, "text": text } }),
        );
    }

    fn change(&mut self, uri: &str, changes: Value) {
        self.tell(
            "textDocument/didChange",
            json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": changes }),
        );
    }

    fn replace(&mut self, uri: &str, text: &str) {
        self.change(uri, json!([{ "text": text }]));
    }

    /// The next report on a document.
    fn report(&mut self, uri: &str) -> Vec<Value> {
        loop {
            let message = if self.waiting.is_empty() { self.next() } else { self.waiting.remove(0) };
            if message["method"] == "textDocument/publishDiagnostics" && message["params"]["uri"] == uri {
                return message["params"]["diagnostics"].as_array().expect("a list").clone();
            }
        }
    }

    /// What is asked of the place of `¦` in a text, which becomes the text of the document.
    #[track_caller]
    fn ask_at(&mut self, method: &str, uri: &str, marked: &str) -> Value {
        let (before, behind) = marked.split_once('¦').expect("a mark");
        self.replace(uri, &format!("{before}{behind}"));
        self.ask(method, json!({ "textDocument": { "uri": uri }, "position": position(before) }))
    }

    /// Ends the conversation; the exit code.
    fn leave(mut self) -> Option<i32> {
        assert_eq!(self.ask("shutdown", Value::Null), Value::Null);
        self.tell("exit", Value::Null);
        self.child.wait().expect("it ends").code()
    }

    /// Closes the input; the exit code, and what was said on standard error.
    fn ended(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        let _ = self.child.stderr.take().expect("a pipe").read_to_string(&mut said);
        (self.child.wait().expect("it ends").code(), said)
    }
}

/// A server that a failed test leaves behind ends with it.
impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(stdout: &mut impl BufRead) -> Option<Value> {
    let (mut line, mut length) = (String::new(), 0);
    while stdout.read_line(&mut line).ok()? > 0 && !line.trim().is_empty() {
        length = line.trim().strip_prefix("Content-Length: ").map_or(Some(length), |length| length.parse().ok())?;
        line.clear();
    }
    let mut bytes = vec![0; length];
    stdout.read_exact(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// The position behind a text.
fn position(before: &str) -> Value {
    let line = before.matches('\n').count();
    let last = before.rsplit('\n').next().unwrap_or_default();
    json!({ "line": line, "character": last.encode_utf16().count() })
}

/// The byte of a position.
fn offset(text: &str, position: &Value) -> usize {
    let number = |name: &str| position[name].as_u64().expect("a number") as usize;
    let start: usize = text.split_inclusive('\n').take(number("line")).map(str::len).sum();
    let mut units = 0;
    let end = text[start..].char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > number("character")
    });
    end.map_or(text.len(), |(at, _)| start + at)
}

/// What stands in a range.
fn cut<'t>(text: &'t str, range: &Value) -> &'t str {
    &text[offset(text, &range["start"])..offset(text, &range["end"])]
}

/// A text after edits.
fn edited(text: &str, edits: &Value) -> String {
    let mut edits: Vec<_> = edits.as_array().expect("a list of edits").iter().collect();
    edits.sort_by_key(|edit| std::cmp::Reverse(offset(text, &edit["range"]["start"])));
    edits.into_iter().fold(text.to_owned(), |mut text, edit| {
        let (start, end) = (offset(&text, &edit["range"]["start"]), offset(&text, &edit["range"]["end"]));
        text.replace_range(start..end, edit["newText"].as_str().expect("a text"));
        text
    })
}

fn uri(place: &Place, name: &str) -> String {
    let path = place.path(name).display().to_string();
    let encode = |b: u8| if b.is_ascii_graphic() { char::from(b).to_string() } else { format!("%{b:02X}") };
    format!("file://{}", path.bytes().map(encode).collect::<String>())
}

fn codes(report: &[Value]) -> Vec<&str> {
    report.iter().filter_map(|problem| problem["code"].as_str()).collect()
}

const MODEL: &str = "\
/// The reach of a layer.
let reach = 4

/// A window of the past.
/// Source: Beltagy et al. 2020 (Longformer), arXiv:2004.05150.
mask near(d) = j <= i and i - j < d

/// A layer of its own.
def mine(x) {
    /// width of the network
    hidden: int = 8
    /// where the norm stands
    place: word(pre, post) = pre
    inner = gelu(linear(x) { to: hidden }) * when(place == pre, 1.0, 0.5)
    out x + linear(inner)
}

/// Steps of a layer.
def layers(s) {
    /// how many steps
    size: int
    loop { steps: size, carry y = s, y = norm(y) }
    out y
}

/// A small model.
model small {
    embed { width: 16 }
    recur depthwise {
        depth: 3
        halt global { threshold: 0.99 }
        attend self { heads: 2, mask: near(reach) }
        mine { hidden: 16 }
        state = layers(state) { size: reach }
    }
    readout mean
}

/// With another threshold.
variant sure of small { halt.threshold: 0.5 }

variant bare of small { halt none }
";

#[test]
fn problems_are_reported_while_a_text_is_written() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "tiny.rt");
    // What is on disk is right, and does not count.
    let wrong =
        place.read("tiny.rt").replace("dropout: 0.1", "dropuot: 0.1").replace("heads: 2,", "heads: 2, positon: rope,");
    let wrong = wrong.replace("/// A gated", "// \u{1f600} ö\n/// A gated");
    editor.show(&uri, &wrong);
    let report = editor.report(&uri);
    assert_eq!(codes(&report), ["unknown-field", "unknown-field"], "{report:#?}");
    assert_eq!([cut(&wrong, &report[0]["range"]), cut(&wrong, &report[1]["range"])], ["dropuot", "positon"]);
    assert_eq!((&report[0]["severity"], &report[0]["source"]), (&json!(1), &json!("rtc")));
    assert!(report[0]["message"].as_str().expect("a text").contains("did you mean `dropout`?"), "{report:#?}");
    // A part of the text changes.
    let start = position(&wrong[..wrong.find("dropuot").expect("it is there")]);
    let end = json!({ "line": start["line"], "character": start["character"].as_u64().expect("a number") + 7 });
    editor.change(&uri, json!([{ "range": { "start": start, "end": end }, "text": "dropout" }]));
    assert_eq!(codes(&editor.report(&uri)), ["unknown-field"]);
    editor.replace(&uri, &place.read("tiny.rt"));
    assert!(editor.report(&uri).is_empty());
    // A name that is taken twice.
    editor.replace(&uri, &format!("{}\nmodel tiny {{ embed }}", place.read("tiny.rt")));
    let report = editor.report(&uri);
    assert!(codes(&report).contains(&"duplicate-name"), "{report:#?}");
    let related = &report[0]["relatedInformation"][0];
    assert_eq!((&related["location"]["uri"], &related["message"]), (&json!(uri), &json!("the first one")));
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    assert!(editor.report(&uri).is_empty());
}

#[test]
fn columns_are_units_of_utf16() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "ö \u{1f600}.rt");
    let text = "use \"\u{1f600}ö.rt\"\nmodel m { embed { width: 8 }, readout mean } // \u{1f600}\n";
    editor.show(&uri, text);
    let report = editor.report(&uri);
    assert_eq!(codes(&report), ["missing-file"]);
    assert_eq!(cut(text, &report[0]["range"]).trim_matches('"'), "\u{1f600}ö.rt");
    let end = &report[0]["range"]["end"];
    assert!(end == &json!({ "line": 0, "character": 11 }) || end == &json!({ "line": 0, "character": 12 }), "{end}");
}

#[test]
fn files_that_are_used_are_reported_as_they_are_in_the_editor() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    fs::create_dir(place.path("lib")).expect("a new folder");
    place.write("lib/masks.rt", "mask near(d) = i - j < d\n");
    let (main, masks) = (uri(&place, "main.rt"), uri(&place, "lib/masks.rt"));
    let text = "use \"lib/masks.rt\"\nmodel m {\n    embed { width: 8 }\n    attend self { heads: 2, mask: near(2) }\n    readout mean\n}\n";
    editor.show(&main, text);
    assert!(editor.report(&main).is_empty());
    editor.show(&masks, "mask near(d) = i - k < d\n");
    // A mask with a parameter is checked where it is used: its own report is followed by that of the file that uses it.
    while editor.report(&masks).is_empty() {}
    // The file that uses it has no problem of its own; the problem is told once.
    let report = editor.report(&main);
    assert!(report.is_empty(), "{report:#?}");
    editor.replace(&masks, "mask nearer(d) = i - j < d\n");
    assert_eq!(codes(&editor.report(&main)), ["unknown-name"]);
    editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": masks } }));
    assert!(editor.report(&main).is_empty(), "what is on disk counts again");
    // A file that changes on disk.
    place.write("lib/masks.rt", "mask other(d) = i - j < d\n");
    editor.tell("workspace/didChangeWatchedFiles", json!({ "changes": [{ "uri": masks, "type": 2 }] }));
    assert_eq!(codes(&editor.report(&main)), ["unknown-name"]);
    let links = editor.ask_at("textDocument/definition", &main, &text.replace("lib/masks", "lib/ma¦sks"));
    assert_eq!(links[0]["uri"], masks);
}

#[test]
fn hovers_explain_words_values_and_names() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "small.rt");
    editor.show(&uri, MODEL);
    assert!(editor.report(&uri).is_empty());
    let cases: &[(&str, &[&str])] = &[
        (
            "ha¦lt global { threshold",
            &[
                "halt global: ",
                "Source: ",
                "arxiv.org",
                "threshold: 0.99 // line 31",
                "cost: ",
                "// default",
                "// small:sure: threshold: 0.5 // variant sure, line 40",
            ],
        ),
        ("halt glo¦bal {", &["halt global: "]),
        (
            "thre¦shold: 0.99",
            &[
                "**`threshold`** of `halt global`",
                "`0.99`, line 31: `small`",
                "`0.5`, variant sure, line 40: `small:sure`",
            ],
        ),
        ("halt.thresh¦old: 0.5", &["**`threshold`** of `halt global`", "`0.5`, variant sure, line 40"]),
        ("size: rea¦ch }", &["let reach = 4", "The reach of a layer."]),
        (
            "mask: ne¦ar(reach)",
            &[
                "mask near(d) = j <= i and i - j < d",
                "A window of the past.",
                "[arXiv:2004.05150](https://arxiv.org/abs/2004.05150)",
            ],
        ),
        ("mi¦ne { hidden: 16", &["def mine(x)", "A layer of its own."]),
        ("mine { hid¦den: 16", &["hidden: int = 8", "width of the network"]),
        ("out x + lin¦ear(inner)", &["linear: A linear map of the channels"]),
        ("inner = ge¦lu(linear", &["gelu: "]),
        ("linear(x) { t¦o: hidden }", &["**`to`** of `linear`", "channels of the result"]),
        ("    o¦ut x +", &["out: `out x` ends a definition"]),
        ("variant bare of small { halt no¦ne }", &["halt none: "]),
    ];
    for (marked, expected) in cases {
        let plain = marked.replace('¦', "");
        let text = MODEL.replacen(&plain, marked, 1);
        let answer = editor.ask_at("textDocument/hover", &uri, &text);
        let said = answer["contents"]["value"].as_str().unwrap_or_default();
        for part in *expected {
            assert!(said.contains(part), "{marked}: {part} is not in\n{said}");
        }
    }
    let value = MODEL.replacen("heads: 2, mask", "heads: 2, position: xp¦os, mask", 1);
    let said = editor.ask_at("textDocument/hover", &uri, &value)["contents"]["value"].to_string();
    assert!(said.contains("**`position`** of `attend self`") && said.contains("decays scores"), "{said}");
    let wrong = MODEL.replace("threshold: 0.99", "thre¦shhold: 0.99");
    let said = editor.ask_at("textDocument/hover", &uri, &wrong)["contents"]["value"].to_string();
    assert!(said.contains("error[unknown-field]") && said.contains("Right:"), "{said}");
    // What can't be parsed hides nothing of the rest.
    let broken = MODEL.replace("size: reach }", "size: rea¦ch }") + "\nmodel {{\n";
    let said = editor.ask_at("textDocument/hover", &uri, &broken)["contents"]["value"].to_string();
    assert!(said.contains("let reach = 4"), "{said}");
    let nothing = editor.ask_at("textDocument/hover", &uri, &MODEL.replace("/// A small", "/// A sm¦all"));
    assert!(nothing.is_null());
}

/// The words that fit at a mark.
#[track_caller]
fn fitting(editor: &mut Editor, uri: &str, marked: &str) -> Vec<String> {
    let answer = editor.ask_at("textDocument/completion", uri, marked);
    let items = answer.as_array().expect("a list");
    items.iter().map(|item| item["label"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn completions_fit_the_place() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "small.rt");
    place.write("other.rt", "");
    editor.show(&uri, MODEL);
    // What is written at the end of the text, or in the place of something; words that fit, and words that don't.
    let end = |line: &str| format!("{MODEL}{line}");
    let with = |old: &str, new: &str| MODEL.replacen(old, new, 1);
    let cases: &[(String, &[&str], &[&str])] = &[
        (end("mo¦"), &["model", "variant", "def", "mask", "use"], &["attend", "carry"]),
        (end("use \"¦"), &["other.rt", "tiny.rt"], &["tiny.yaml"]),
        (end("variant x of sm¦"), &["small", "small:sure"], &["mine"]),
        (end("variant x of small:¦"), &["sure"], &["small"]),
        (end("def ga¦"), &["gate", "halt", "cell"], &["embed"]),
        (
            with("    readout mean", "    ¦"),
            &["attend", "readout", "carry", "mine", "layers", "dropout", "swiglu"],
            &["model", "threshold", "gate"],
        ),
        (with("state = layers(state) { size: reach }\n", "gate ¦\n"), &["mlp", "none"], &["depth", "attend"]),
        (with("halt global { threshold: 0.99 }", "halt ¦"), &["global", "token", "act", "none"], &["threshold"]),
        (with("threshold: 0.99", "¦"), &["threshold", "cost"], &["heads", "attend"]),
        (with("threshold: 0.99", "sees: ¦"), &["transition"], &["heads", "reach"]),
        (with("mask: near(reach)", "mask: ¦"), &["near", "past", "all", "reach"], &["depthwise"]),
        (with("mask: near(reach)", "position: ¦"), &["xpos", "rope"], &["near"]),
        (with("mine { hidden: 16 }", "mine { ¦ }"), &["hidden", "place"], &["attend", "heads"]),
        (with("mine { hidden: 16 }", "mine { place: ¦ }"), &["pre", "post"], &[]),
        (
            with("inner = gelu(linear(x) { to: hidden })", "inner = li¦"),
            &["linear", "hidden", "x", "swiglu", "mine", "gelu"],
            &["attend"],
        ),
        (with("{ to: hidden }", "{ ¦ }"), &["to", "bias", "init"], &["heads"]),
        (with("    /// where the norm stands", "    ¦"), &["out", "let", "show"], &["attend"]),
        (with("hidden: int = 8", "hidden: ¦"), &["int", "number", "word", "probability"], &["attend"]),
        (
            end("variant y of small { ¦"),
            &["depthwise.halt.threshold", "embed.width", "remove", "wrap", "attend"],
            &["def"],
        ),
        (end("variant y of small {\n    halt.thr¦"), &["halt.threshold"], &["remove"]),
        (end("variant y of small {\n    halt: ¦"), &["global", "token"], &[]),
        (end("variant y of small {\n    add ¦"), &["attend", "norm"], &["embed.width"]),
        (end("variant y of small {\n    add norm after ¦"), &["depthwise.depth"], &["attend"]),
        (end("variant y of small {\n    wrap depthwise in ¦"), &["stack"], &["remove"]),
        ("// mo¦\n".to_owned(), &[], &["model"]),
        ("model m { em¦".to_owned(), &["embed"], &["model"]),
    ];
    for (marked, fit, others) in cases {
        let found = fitting(&mut editor, &uri, marked);
        let line = marked.lines().find(|line| line.contains('¦')).unwrap_or_default();
        for word in *fit {
            assert!(found.iter().any(|found| found == word), "{line}: {word} is not in {found:?}");
        }
        for word in *others {
            assert!(!found.iter().any(|found| found == word), "{line}: {word} is in {found:?}");
        }
    }
    // A path is replaced from its start.
    let marked = end("variant y of small { halt.thr¦");
    let answer = editor.ask_at("textDocument/completion", &uri, &marked);
    let item = answer
        .as_array()
        .expect("a list")
        .iter()
        .find(|item| item["label"] == "halt.threshold")
        .expect("it fits")
        .clone();
    assert_eq!(
        edited(&marked.replace('¦', ""), &json!([item["textEdit"]])),
        end("variant y of small { halt.threshold")
    );
    assert!(item["detail"].as_str().expect("what it means").contains("(now 0.99)"), "{item}");
}

#[test]
fn names_lead_to_their_definitions() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "small.rt");
    editor.show(&uri, MODEL);
    let cases = [
        ("size: rea¦ch }", "let ", "reach"),
        ("mask: ne¦ar(reach)", "mask ", "near"),
        ("steps: si¦ze,", "how many steps\n    ", "size"),
        ("= lay¦ers(state)", "def ", "layers"),
        ("    mi¦ne { hidden", "def ", "mine"),
        ("mine { hid¦den: 16", "network\n    ", "hidden"),
        ("linear(inn¦er)", "= pre\n    ", "inner"),
        ("of sma¦ll {", "model ", "small"),
    ];
    for (marked, before, name) in cases {
        let text = MODEL.replacen(&marked.replace('¦', ""), marked, 1);
        let answer = editor.ask_at("textDocument/definition", &uri, &text);
        let range = &answer[0]["range"];
        assert_eq!(answer[0]["uri"], uri, "{marked}");
        assert_eq!(cut(MODEL, range), name, "{marked}");
        assert!(MODEL[..offset(MODEL, &range["start"])].ends_with(before), "{marked}: {range}");
    }
    assert_eq!(editor.ask_at("textDocument/definition", &uri, &MODEL.replace("embed {", "em¦bed {")), json!([]));
    let marked = MODEL.replace("let reach", "let re¦ach");
    let with = |declaration: bool| {
        let (before, _) = marked.split_once('¦').expect("a mark");
        json!({ "textDocument": { "uri": uri }, "position": position(before), "context": { "includeDeclaration": declaration } })
    };
    editor.replace(&uri, MODEL);
    assert_eq!(editor.ask("textDocument/references", with(true)).as_array().map(Vec::len), Some(3));
    assert_eq!(editor.ask("textDocument/references", with(false)).as_array().map(Vec::len), Some(2));
    assert_eq!(editor.ask("textDocument/documentHighlight", with(true)).as_array().map(Vec::len), Some(3));
    let outline = editor.ask("textDocument/documentSymbol", json!({ "textDocument": { "uri": uri } }));
    let names: Vec<_> =
        outline.as_array().expect("a list").iter().map(|symbol| symbol["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["reach", "near", "mine", "layers", "small", "small:sure", "small:bare"]);
    assert_eq!(outline[2]["children"][0]["name"], "hidden");
}

#[test]
fn names_are_renamed_wherever_they_stand_or_not_at_all() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let (uri, user) = (uri(&place, "small.rt"), uri(&place, "user.rt"));
    place.write("small.rt", MODEL);
    editor.show(&uri, MODEL);
    let using = "use \"small.rt\"\nmodel other {\n    embed { width: 8 }\n    mine { hidden: 4 }\n    readout mean\n}\nvariant far of small { depthwise.depth: 5 }\n";
    editor.show(&user, using);
    let rename = |editor: &mut Editor, marked: &str, name: &str| {
        let text = MODEL.replacen(&marked.replace('¦', ""), marked, 1);
        let before = text.split_once('¦').expect("a mark").0;
        editor.answer(
            "textDocument/rename",
            json!({ "textDocument": { "uri": uri }, "position": position(before), "newName": name }),
        )
    };
    for (marked, old, new) in [
        ("def mi¦ne", "mine", "yours"),
        ("mine { hid¦den: 16", "hidden", "inside"),
        ("model sma¦ll", "small", "large"),
        ("let rea¦ch", "reach", "range"),
        ("def lay¦ers", "layers", "both"),
        ("= gelu(linear(¦x)", "x", "value"),
    ] {
        let answer = rename(&mut editor, marked, new);
        let changes = &answer["result"]["changes"];
        let own = edited(MODEL, &changes[&uri]);
        let word = |text: &str, name: &str| {
            text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| *word == name).count()
        };
        let code = |text: &str| {
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(word(&code(&own), old), 0, "{marked}: {own}");
        assert_eq!(word(&own, new), word(&code(MODEL), old), "{marked}: {own}");
        let other = if changes[&user].is_null() { using.to_owned() } else { edited(using, &changes[&user]) };
        let quoted = other.replace("small.rt", "");
        assert_eq!(
            word(&quoted, old) - usize::from(old == "hidden" && word(&quoted, "hidden") > 0),
            0,
            "{marked}: {other}"
        );
        // Both are right as they were.
        editor.replace(&uri, &own);
        editor.replace(&user, &other);
        while !editor.report(&user).is_empty() {}
        editor.replace(&uri, MODEL);
        editor.replace(&user, using);
    }
    for (marked, name, why) in [
        ("def mi¦ne", "linear", "`linear`"),
        ("def mi¦ne", "two words", "is no name"),
        ("def mi¦ne", "", "is no name"),
        ("let rea¦ch", "near", "near"),
        ("em¦bed {", "embedding", "no name of this file"),
    ] {
        let answer = rename(&mut editor, marked, name);
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{marked} {name}: {answer}"));
        assert!(message.contains(why), "{message}");
    }
    let here = |marked: &str| json!({ "textDocument": { "uri": uri }, "position": position(marked) });
    let range = editor.ask("textDocument/prepareRename", here("/// The reach of a layer.\nlet re"));
    assert_eq!(cut(MODEL, &range), "reach");
    assert!(editor.ask("textDocument/prepareRename", here("/// The")).is_null());
}

#[test]
fn a_text_is_laid_out_as_by_fmt() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "small.rt");
    let loose =
        MODEL.replace("    readout mean", " readout   mean // \u{1f600} ö").replace("let reach = 4", "let reach=4");
    editor.show(&uri, &loose);
    let params = json!({ "textDocument": { "uri": uri }, "options": { "tabSize": 4, "insertSpaces": true } });
    let edits = editor.ask("textDocument/formatting", params.clone());
    let expected = place.rtc_with(&["fmt", "-"], &loose).stdout;
    assert_eq!(edited(&loose, &edits), expected);
    editor.replace(&uri, &expected);
    assert_eq!(editor.ask("textDocument/formatting", params.clone()), json!([]));
    editor.replace(&uri, "model {{");
    assert!(editor.ask("textDocument/formatting", params).is_null());
}

#[test]
fn suggestions_are_actions_that_cure() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "small.rt");
    editor.show(&uri, MODEL);
    let slips = [
        ("threshold: 0.99", "treshold: 0.99", "threshold"),
        ("halt global", "halt globl", "global"),
        ("readout mean", "redout mean", "readout"),
        ("size: reach }", "size: reech }", "reach"),
        ("mask: near(reach)", "mask: neer(reach)", "near"),
        ("of small {", "of smal {", "small"),
        ("mine { hidden", "mine { hiden", "hidden"),
        ("+ linear(inner)", "+ linear(iner)", "inner"),
        ("place: word(", "place: wrd(", "word"),
    ];
    for (right, wrong, name) in slips {
        let text = MODEL.replacen(right, wrong, 1);
        editor.replace(&uri, &text);
        let at = position(&text[..text.find(wrong).expect("it is there")]);
        let end = json!({ "line": at["line"], "character": 99 });
        let params = json!({ "textDocument": { "uri": uri }, "range": { "start": at, "end": end }, "context": { "diagnostics": [] } });
        let actions = editor.ask("textDocument/codeAction", params);
        assert_eq!(actions[0]["title"], format!("Write `{name}`"), "{wrong}: {actions}");
        assert_eq!(edited(&text, &actions[0]["edit"]["changes"][&uri]), MODEL, "{wrong}");
        assert!(actions[0]["diagnostics"][0]["code"].is_string());
    }
    editor.replace(&uri, MODEL);
    let all = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 999, "character": 0 } });
    let params = json!({ "textDocument": { "uri": uri }, "range": all, "context": { "diagnostics": [] } });
    assert_eq!(editor.ask("textDocument/codeAction", params), json!([]));
}

/// The hints of a document, by the texts of their lines.
fn hints(editor: &mut Editor, uri: &str, text: &str) -> BTreeMap<String, String> {
    let all = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 9999, "character": 0 } });
    let answer = editor.ask("textDocument/inlayHint", json!({ "textDocument": { "uri": uri }, "range": all }));
    let lines: Vec<&str> = text.lines().collect();
    let hint = |hint: &Value| {
        let line = hint["position"]["line"].as_u64().expect("a line") as usize;
        (lines[line].trim().to_owned(), hint["label"].as_str().expect("a text").to_owned())
    };
    answer.as_array().expect("a list").iter().map(hint).collect()
}

#[test]
fn hints_say_shapes_and_parameters() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let (uri, text) = (uri(&place, "tiny.rt"), place.read("tiny.rt"));
    editor.show(&uri, &text);
    let found = hints(&mut editor, &uri, &text);
    let listed = place.rtc(&["show", "tiny.rt", "--parameters", "--json"]).json();
    let count = |start: &str| {
        let parameters = listed["parameters"].as_array().expect("a list").iter();
        let own = parameters.filter(|parameter| parameter["name"].as_str().is_some_and(|name| name.starts_with(start)));
        own.map(|parameter| parameter["numbers"].as_u64().expect("a number")).sum::<u64>()
    };
    for (line, path, result) in [
        ("attend self { heads: 2, position: xpos }", "depthwise.self.", "f32[batch, length+2, 16], "),
        ("feedforward { hidden: 16 }", "depthwise.feedforward.", "f32[batch, length+2, 16], "),
        ("gate mlp { hidden: 16 }", "depthwise.gate.", ""),
    ] {
        let (thousands, rest) = (count(path) / 1000, count(path) % 1000);
        let number = if thousands == 0 { rest.to_string() } else { format!("{thousands},{rest:03}") };
        assert_eq!(found.get(line), Some(&format!("{result}{number} parameters")), "{found:#?}");
    }
    assert!(found["embed { width: 16, tokens: start_end }"].ends_with("32 + 16 vocab parameters"), "{found:#?}");
    assert_eq!(found["readout end"], "f32[batch, 16]");
    // The equations of a body, and blocks that stand in several places.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
    let text = fs::read_to_string(root.join("trm.rt")).expect("it is there");
    editor.replace(&uri, &text);
    let found = hints(&mut editor, &uri, &text);
    assert_eq!(
        found.get("share net = two_blocks { heads: heads }").map(String::as_str),
        Some("the function `two_blocks`, 106,496 parameters"),
        "{found:#?}"
    );
    let text = fs::read_to_string(root.join("doubling.rt")).expect("it is there");
    editor.replace(&uri, &text);
    assert!(hints(&mut editor, &uri, &text).values().any(|label| label.contains("parameters")));
    editor.replace(&uri, "model {{");
    assert!(hints(&mut editor, &uri, "model {{").is_empty());
}

#[test]
fn shipped_specs_have_no_problems_and_quick_answers() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs").canonicalize().expect("the specs are there");
    let mut slowest = (Duration::ZERO, String::new());
    for entry in fs::read_dir(&root).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|ending| ending != "rt") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a text");
        let uri = format!("file://{}", path.display());
        let start = Instant::now();
        editor.show(&uri, &text);
        let report = editor.report(&uri);
        let opened = start.elapsed();
        assert!(report.is_empty(), "{uri}: {report:#?}");
        let hints = hints(&mut editor, &uri, &text);
        assert_eq!(hints.is_empty(), !text.contains("\nmodel "), "{uri}");
        // The last letter before every line break is asked about; no request fails.
        for (at, _) in text.match_indices('\n').step_by(7) {
            let here = json!({ "textDocument": { "uri": uri }, "position": position(&text[..at]) });
            for method in ["hover", "completion", "definition", "documentHighlight"] {
                editor.ask(&format!("textDocument/{method}"), here.clone());
            }
        }
        slowest = slowest.max((opened, uri));
    }
    // A program without optimisation, beside other tests; with it, a tenth of this.
    assert!(slowest.0 < Duration::from_secs(2), "{slowest:?}");
    assert_eq!(editor.leave(), Some(0));
}

#[test]
fn a_conversation_ends_as_the_protocol_says() {
    let place = Place::new();
    let mut editor = Editor::start(&place);
    assert_eq!(editor.refused("textDocument/hover", json!({})), -32002);
    editor.tell("textDocument/didOpen", json!({}));
    editor.ask("initialize", json!({ "capabilities": {} }));
    assert_eq!(editor.refused("initialize", json!({})), -32601);
    assert_eq!(editor.refused("textDocument/no_such_request", json!({})), -32601);
    assert_eq!(editor.refused("textDocument/hover", json!({ "position": 5 })), -32602);
    let unknown = json!({ "textDocument": { "uri": "file:///no/such.rt" }, "position": { "line": 0, "character": 0 } });
    assert_eq!(editor.refused("textDocument/hover", unknown), -32602);
    editor.tell("$/no_such_notification", json!([1]));
    editor.ask("shutdown", Value::Null);
    assert_eq!(editor.refused("textDocument/hover", json!({})), -32600);
    editor.tell("exit", Value::Null);
    assert_eq!(editor.child.wait().expect("it ends").code(), Some(0));
    // Without being asked to end, and at the end of the input.
    let mut editor = Editor::open(&place);
    editor.tell("exit", Value::Null);
    assert_eq!(editor.child.wait().expect("it ends").code(), Some(1));
    assert_eq!(Editor::open(&place).ended().0, Some(1));
}

#[test]
fn what_is_no_message_is_answered() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    for hostile in ["{x}", "[]", "{}", "", "5", "\u{0}"] {
        editor.write(format!("Content-Length: {}\r\n\r\n{hostile}", hostile.len()).as_bytes());
        let answer = editor.next();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)), "{hostile}: {answer}");
    }
    // Half of a character.
    editor.write(b"Content-Length: 1\r\n\r\n\xc3");
    assert_eq!(editor.next()["error"]["code"], -32700);
    let long = "x".repeat(100_000);
    editor.write(format!("Content-Length: {}\r\n\r\n{long}", long.len()).as_bytes());
    assert!(editor.next()["error"]["message"].as_str().is_some_and(|message| message.len() < 1000));
    // A header may say more.
    let nested = format!(
        "{{\"jsonrpc\": \"2.0\", \"id\": 7, \"method\": \"textDocument/hover\", \"params\": {}",
        "[".repeat(10_000)
    );
    editor.write(format!("Content-Type: utf-8\r\nCONTENT-LENGTH: {}\r\n\r\n{nested}", nested.len()).as_bytes());
    assert_eq!(editor.next()["error"]["code"], -32700);
    assert_eq!(editor.leave(), Some(0));
}

#[test]
fn what_has_no_header_ends_the_server_with_a_sentence() {
    let place = Place::new();
    for hostile in [
        "Content-Length: -1\r\n\r\n",
        "Content-Length: 99999999999999999999\r\n\r\n",
        "Content-Length: 100000000000\r\n\r\n",
        "No-Length: 2\r\n\r\n{}",
        "no header\r\n\r\n",
        "{\"jsonrpc\": \"2.0\"}\n",
        "Content-Length: 100\r\n\r\n{",
        "Content-Length: 100",
        &"x".repeat(100_000),
    ] {
        let mut editor = Editor::open(&place);
        editor.write(hostile.as_bytes());
        let (code, said) = editor.ended();
        let start = hostile.get(..40).unwrap_or(hostile);
        assert_eq!(code, Some(6), "{start:?}: {said}");
        assert!(said.contains("error: can't read standard input: ") && said.len() < 1000, "{start:?}: {said}");
    }
}

#[test]
fn no_text_stops_the_server() {
    let place = Place::new();
    let mut editor = Editor::open(&place);
    let uri = uri(&place, "hostile.rt");
    let long = "attend self { heads: 8 }\n".repeat(40_000);
    let deep = "{".repeat(5000);
    let sum = format!("let a = {}1\n", "1 + ".repeat(50_000));
    let layers = format!("model m {{\n    embed\n{}    readout mean\n}}\n", "    feedforward\n".repeat(9_000));
    let texts = [
        &long,
        &deep,
        &sum,
        &layers,
        "\u{0}\u{feff}\u{202e}\r\r\n\"",
        "use \"/dev/zero\"\nuse \"../../etc/passwd\"\nuse \"hostile.rt\"\n",
        "\u{1f600}",
        "",
    ];
    editor.show(&uri, "");
    for text in texts {
        editor.replace(&uri, text);
        let all =
            json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 4_000_000_000_u32, "character": 0 } });
        for position in
            [json!({ "line": 0, "character": 1 }), json!({ "line": 4_000_000_000_u32, "character": 4_000_000_000_u32 })]
        {
            let here = json!({
                "textDocument": { "uri": uri }, "position": position, "range": all, "newName": "other",
                "context": { "diagnostics": [], "includeDeclaration": true, "triggerKind": 1 }, "options": { "tabSize": 4, "insertSpaces": true },
            });
            for method in [
                "hover",
                "completion",
                "definition",
                "references",
                "documentHighlight",
                "prepareRename",
                "rename",
                "formatting",
                "codeAction",
                "inlayHint",
                "documentSymbol",
            ] {
                let answer = editor.answer(&format!("textDocument/{method}"), here.clone());
                // A name that is not there can't be renamed; nothing else fails.
                assert!(answer.get("error").is_none() || method == "rename", "{method}: {answer}");
            }
        }
    }
    // Ranges beyond the end, and from the end to the start.
    let far = json!({ "line": 7, "character": 99 });
    let start = json!({ "line": 0, "character": 0 });
    editor.replace(&uri, MODEL);
    editor.change(&uri, json!([{ "range": { "start": { "line": 999, "character": 5 }, "end": far }, "text": "" }]));
    editor.change(&uri, json!([{ "range": { "start": far, "end": start }, "text": "" }, { "text": 5 }]));
    editor.change("file:///never/opened.rt", json!([{ "text": "x" }]));
    editor.replace(&uri, MODEL);
    editor.show("untitled:Untitled-1", "use \"tiny.rt\"\nmodel m { embed, readout mean }");
    assert_eq!(codes(&editor.report("untitled:Untitled-1")), ["missing-file"]);
    assert_eq!(editor.leave(), Some(0));
}
