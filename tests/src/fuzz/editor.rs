//! The language server.

use rtc_lsp::{Host, converse, requests};
use serde_json::{Value, json};

use super::language::Library;

const HOST: Host = Host { loader: |_| Box::new(Library), numbers: |arrays| arrays.len().to_string(), version: "" };

/// A document of which nothing but its bytes is known, and everything that can be asked of a place in it; the same bytes as the input of
/// the server.
pub(super) fn document(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let number = bytes.iter().fold(7_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let (line, character) = (number % (text.lines().count() + 2), number / 64 % 80);
    let uri = json!({ "uri": "file:///folder/document.rt" });
    let opened = json!({ "uri": uri["uri"], "languageId": "rt", "version": 1, "text": text });
    let everything = json!({
        "textDocument": uri, "position": { "line": line, "character": character }, "newName": "other",
        "range": { "start": { "line": 0, "character": 0 }, "end": { "line": 99_999, "character": 0 } },
        "context": { "diagnostics": [], "includeDeclaration": true, "triggerKind": 1 },
        "options": { "tabSize": 4, "insertSpaces": true },
    });
    let mut input = vec![];
    let mut say = |method: &str, id: Option<usize>, params: &Value| {
        let mut message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        id.into_iter().for_each(|id| message["id"] = id.into());
        let text = message.to_string();
        input.extend(format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes());
    };
    say("initialize", Some(0), &json!({}));
    say("textDocument/didOpen", None, &json!({ "textDocument": opened }));
    requests().enumerate().for_each(|(n, method)| say(method, Some(n + 1), &everything));
    let (output, ended) = converse(&HOST, &input);
    let output = String::from_utf8(output).expect("answers are texts");
    // Quotes of the document are written as `\"`.
    assert!(!output.contains("\"code\":-32603"), "a request has no answer: {output}");
    assert_eq!(output.matches("Content-Length: ").count().min(requests().count()), requests().count(), "{output}");
    assert!(!ended.expect("the input is read to its end"), "the conversation was left");
    // It ends, and says nothing that is no text.
    String::from_utf8(converse(&HOST, bytes).0).expect("answers are texts");
}
