//! The protocol: requests and notifications of an editor, and what is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use lsp_server::{ErrorCode, Message, Notification, Request, Response};
use lsp_types::{
    CodeActionParams, CompletionParams, DidChangeTextDocumentParams, DidChangeWatchedFilesParams,
    DidCloseTextDocumentParams, DidOpenTextDocumentParams, DocumentFormattingParams, DocumentHighlight,
    DocumentSymbolParams, GotoDefinitionParams, HoverParams, InlayHintParams, Position, PublishDiagnosticsParams,
    ReferenceParams, RenameParams, TextDocumentPositionParams,
};
use rtc_compiler::diag::suggested;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::complete::complete;
use crate::edits::{cure, definitions, format, places, references};
use crate::hints::{NumberCounter, hints};
use crate::hover::hover;
use crate::rename::{rename, renamed_range};
use crate::report::{ProblemReports, report, reports};
use crate::stream::Received;
use crate::symbols::symbols;
use crate::text::IndexedText;
use crate::world::{DocumentAnalysis, LoaderOf, World};

/// Services of the program around the server.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// The files that a file on disk may use.
    pub loader: LoaderOf,
    /// How numbers of parameters are written.
    pub numbers: NumberCounter,
    /// The version of the program.
    pub version: &'static str,
}

/// Why a request has no answer.
pub(crate) struct Refusal(ErrorCode, String);

pub(crate) type RequestResult = Result<Value, Refusal>;
pub(crate) type Handler = fn(&Server, Value) -> RequestResult;

/// So many suggestions are tried at most: each is a check of the whole text.
const MOST_CURES: usize = 5;

/// The requests that are answered, by their names.
pub(crate) const REQUESTS: &[(&str, Handler)] = &[
    ("textDocument/hover", |server, params| {
        answer(params, |p: HoverParams| server.hover(&p.text_document_position_params))
    }),
    ("textDocument/completion", |server, params| {
        answer(params, |p: CompletionParams| server.complete(&p.text_document_position))
    }),
    ("textDocument/definition", |server, params| {
        answer(params, |p: GotoDefinitionParams| server.definition(&p.text_document_position_params))
    }),
    ("textDocument/references", |server, params| answer(params, |p: ReferenceParams| server.references(&p))),
    ("textDocument/documentHighlight", |server, params| {
        answer(params, |p: lsp_types::DocumentHighlightParams| server.highlight(&p.text_document_position_params))
    }),
    ("textDocument/prepareRename", |server, params| {
        answer(params, |p: TextDocumentPositionParams| server.prepare_rename(&p))
    }),
    ("textDocument/rename", |server, params| answer(params, |p: RenameParams| server.rename(&p))),
    ("textDocument/formatting", |server, params| answer(params, |p: DocumentFormattingParams| server.format(&p))),
    ("textDocument/codeAction", |server, params| answer(params, |p: CodeActionParams| server.actions(&p))),
    ("textDocument/inlayHint", |server, params| answer(params, |p: InlayHintParams| server.hints(&p))),
    ("textDocument/documentSymbol", |server, params| answer(params, |p: DocumentSymbolParams| server.symbols(&p))),
];

/// Reads the parameters and writes the answer.
fn answer<P: DeserializeOwned, R: Serialize>(
    params: Value,
    run: impl FnOnce(P) -> Result<R, Refusal>,
) -> RequestResult {
    let params =
        serde_json::from_value(params).map_err(|error| Refusal(ErrorCode::InvalidParams, error.to_string()))?;
    serde_json::to_value(run(params)?).map_err(|error| Refusal(ErrorCode::InternalError, error.to_string()))
}

/// How far a conversation is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Running,
    Ending,
}

/// A conversation with an editor.
pub(crate) struct Server {
    world: World,
    host: Host,
    phase: Phase,
    send: Box<dyn Fn(Received)>,
    /// The documents whose problems are to be reported.
    dirty: BTreeSet<String>,
    /// What was found in each document and the files that it uses.
    found: BTreeMap<String, ProblemReports>,
}

impl Server {
    pub(crate) fn new(host: &Host, send: Box<dyn Fn(Received)>) -> Self {
        let world = World::new(host.loader);
        Self { world, host: *host, phase: Phase::Start, send, dirty: BTreeSet::new(), found: BTreeMap::new() }
    }

    /// Whether the conversation ended as the protocol says, after `exit` or at the end of the input; one that never began did.
    pub(crate) fn ended_well(&self, exited: bool) -> bool {
        self.phase == Phase::Ending || self.phase == Phase::Start && !exited
    }

    /// Takes what was read; whether it is the last message.
    pub(crate) fn take(&mut self, read: Received) -> bool {
        match read {
            Err(why) => (self.send)(Err(why)),
            Ok(Message::Request(request)) => {
                let response = self.respond(request);
                (self.send)(Ok(response.into()));
            }
            Ok(Message::Notification(Notification { method, .. })) if method == "exit" => return true,
            Ok(Message::Notification(notification)) => {
                // A text on which the compiler fails has no reports; the message was printed.
                let noted = panic::catch_unwind(AssertUnwindSafe(|| self.note(notification)));
                noted.unwrap_or_default();
            }
            // Nothing is asked of the editor.
            Ok(Message::Response(_)) => {}
        }
        false
    }

    fn respond(&mut self, Request { id, method, params }: Request) -> Response {
        let answered = match (self.phase, method.as_str()) {
            (Phase::Start, "initialize") => {
                self.phase = Phase::Running;
                Ok(
                    json!({ "capabilities": capabilities(), "serverInfo": { "name": "rtc", "version": self.host.version } }),
                )
            }
            (Phase::Start, _) => Err(Refusal(ErrorCode::ServerNotInitialized, "`initialize` comes first".to_owned())),
            (Phase::Running, "shutdown") => {
                self.phase = Phase::Ending;
                Ok(Value::Null)
            }
            (Phase::Running, _) => match REQUESTS.iter().find(|(name, _)| *name == method) {
                None => Err(Refusal(ErrorCode::MethodNotFound, format!("there is no request `{method}`"))),
                Some((_, handler)) => panic::catch_unwind(AssertUnwindSafe(|| handler(self, params)))
                    .unwrap_or_else(|_| Err(Refusal(ErrorCode::InternalError, "a fault of rtc".to_owned()))),
            },
            (Phase::Ending, _) => Err(Refusal(ErrorCode::InvalidRequest, "the server is ending".to_owned())),
        };
        match answered {
            Ok(result) => Response::new_ok(id, result),
            Err(Refusal(code, message)) => Response::new_err(id, code as i32, message),
        }
    }

    /// A notification; one that is unknown, or has other parameters, changes nothing.
    fn note(&mut self, Notification { method, params }: Notification) {
        fn read<P: DeserializeOwned>(params: Value) -> Option<P> {
            serde_json::from_value(params).ok()
        }
        if self.phase != Phase::Running {
            return;
        }
        let changed = match method.as_str() {
            "textDocument/didOpen" => read(params).map(|DidOpenTextDocumentParams { text_document: opened }| {
                self.world.put(opened.uri.as_str(), IndexedText::new(opened.text))
            }),
            "textDocument/didChange" => read(params).and_then(|params: DidChangeTextDocumentParams| {
                let uri = params.text_document.uri.as_str();
                let text = self.world.text(uri)?.clone();
                Some(self.world.put(uri, params.content_changes.into_iter().fold(text, IndexedText::changed)))
            }),
            "textDocument/didClose" => read(params).map(|params: DidCloseTextDocumentParams| {
                let uri = params.text_document.uri.as_str();
                let changed = self.world.close(uri);
                self.dirty.insert(uri.to_owned());
                changed
            }),
            "workspace/didChangeWatchedFiles" => read(params).map(|params: DidChangeWatchedFilesParams| {
                params.changes.iter().flat_map(|change| self.world.forget(change.uri.as_str())).collect()
            }),
            _ => None,
        };
        self.dirty.extend(changed.into_iter().flatten());
    }

    /// Reports the problems of what has changed.
    pub(crate) fn publish(&mut self) {
        for uri in std::mem::take(&mut self.dirty) {
            let checked = || self.world.analysis(&uri).map(|analysis| reports(&analysis.said));
            let now = panic::catch_unwind(AssertUnwindSafe(checked)).ok().flatten().unwrap_or_default();
            let before = self.found.remove(&uri).unwrap_or_default();
            let touched: BTreeSet<String> = before.keys().chain(now.keys()).cloned().collect();
            if !now.is_empty() {
                self.found.insert(uri, now);
            }
            touched.iter().for_each(|uri| self.report(uri));
        }
    }

    /// Reports what was found in a text, by whichever document uses it, each problem once.
    fn report(&self, uri: &str) {
        let Ok(address) = uri.parse() else { return };
        let mut diagnostics = vec![];
        for found in self.found.values().filter_map(|reports| reports.get(uri)).flatten() {
            if !diagnostics.contains(found) {
                diagnostics.push(found.clone());
            }
        }
        let params = PublishDiagnosticsParams::new(address, diagnostics, None);
        (self.send)(Ok(Notification::new("textDocument/publishDiagnostics".to_owned(), params).into()));
    }

    fn analysis(&self, uri: &lsp_types::Uri) -> Result<Rc<DocumentAnalysis>, Refusal> {
        let unknown = || Refusal(ErrorCode::InvalidParams, format!("{} is not open", uri.as_str()));
        self.world.analysis(uri.as_str()).ok_or_else(unknown)
    }

    fn text(&self, uri: &lsp_types::Uri) -> Result<&IndexedText, Refusal> {
        let unknown = || Refusal(ErrorCode::InvalidParams, format!("{} is not open", uri.as_str()));
        self.world.text(uri.as_str()).ok_or_else(unknown)
    }

    /// A document with a place in it.
    fn at(&self, params: &TextDocumentPositionParams) -> Result<(Rc<DocumentAnalysis>, &IndexedText, usize), Refusal> {
        let uri = &params.text_document.uri;
        let text = self.text(uri)?;
        Ok((self.analysis(uri)?, text, text.offset(params.position)))
    }

    fn hover(&self, params: &TextDocumentPositionParams) -> Result<Value, Refusal> {
        let (analysis, text, offset) = self.at(params)?;
        let Some((said, bytes)) = hover(&analysis, text, offset) else { return Ok(Value::Null) };
        Ok(json!({ "contents": { "kind": "markdown", "value": said }, "range": text.area(bytes) }))
    }

    fn complete(&self, params: &TextDocumentPositionParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, text, offset) = self.at(params)?;
        Ok(complete(&analysis, text, offset))
    }

    fn definition(&self, params: &TextDocumentPositionParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, _, offset) = self.at(params)?;
        Ok(definitions(&analysis, offset))
    }

    fn references(&self, params: &ReferenceParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, _, offset) = self.at(&params.text_document_position)?;
        Ok(references(&self.world, &analysis, offset, params.context.include_declaration))
    }

    fn highlight(&self, params: &TextDocumentPositionParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, text, offset) = self.at(params)?;
        let places = places(&self.world, &analysis, offset).map(|(places, _)| places).unwrap_or_default();
        let own = places.get(params.text_document.uri.as_str()).cloned().unwrap_or_default();
        let highlight = |(start, end)| DocumentHighlight { range: text.area(start..end), kind: None };
        Ok(own.into_iter().map(highlight).collect::<Vec<_>>())
    }

    fn prepare_rename(&self, params: &TextDocumentPositionParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, text, offset) = self.at(params)?;
        Ok(renamed_range(&analysis, offset).map(|span| text.area_of(span)))
    }

    fn rename(&self, params: &RenameParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, _, offset) = self.at(&params.text_document_position)?;
        let edits = rename(&self.world, &analysis, offset, &params.new_name);
        Ok(json!({ "changes": edits.map_err(|why| Refusal(ErrorCode::RequestFailed, why))? }))
    }

    fn format(&self, params: &DocumentFormattingParams) -> Result<impl Serialize + use<>, Refusal> {
        Ok(format(self.text(&params.text_document.uri)?))
    }

    fn actions(&self, params: &CodeActionParams) -> Result<impl Serialize + use<>, Refusal> {
        let uri = params.text_document.uri.as_str();
        let (analysis, text) = (self.analysis(&params.text_document.uri)?, self.text(&params.text_document.uri)?);
        let (start, end) = (text.offset(params.range.start), text.offset(params.range.end));
        let meant = analysis.said.problems.iter().filter(|problem| {
            problem.span.is_some_and(|span| span.start as usize <= end && start <= span.end as usize)
        });
        let action = |problem| {
            let (name, edit) = cure(&self.world, &analysis, problem)?;
            Some(json!({
                "title": format!("Write `{name}`"), "kind": "quickfix", "isPreferred": true,
                "diagnostics": [report(&analysis.said, problem)], "edit": { "changes": { uri: [edit] } },
            }))
        };
        Ok(meant
            .filter(|problem| suggested(&problem.label).is_some())
            .take(MOST_CURES)
            .filter_map(action)
            .collect::<Vec<_>>())
    }

    fn hints(&self, params: &InlayHintParams) -> Result<impl Serialize + use<>, Refusal> {
        let (analysis, text) = (self.analysis(&params.text_document.uri)?, self.text(&params.text_document.uri)?);
        let hints = analysis.hints.get_or_init(|| hints(&analysis, self.host.numbers));
        let inside = |position: &Position| params.range.start <= *position && *position <= params.range.end;
        let shown = hints.iter().map(|hint| (text.position(hint.offset), &hint.label)).filter(|(at, _)| inside(at));
        let hint = |(position, label): (Position, &String)| json!({ "position": position, "label": label, "paddingLeft": true });
        Ok(shown.map(hint).collect::<Vec<_>>())
    }

    fn symbols(&self, params: &DocumentSymbolParams) -> Result<impl Serialize + use<>, Refusal> {
        Ok(symbols(self.analysis(&params.text_document.uri)?.known().root()))
    }
}

/// What the server can do.
fn capabilities() -> Value {
    json!({
        "positionEncoding": "utf-16",
        "textDocumentSync": { "openClose": true, "change": 2 },
        "hoverProvider": true,
        "completionProvider": { "triggerCharacters": [".", ":", " ", "{", "\"", "/"] },
        "definitionProvider": true,
        "referencesProvider": true,
        "documentHighlightProvider": true,
        "renameProvider": { "prepareProvider": true },
        "documentFormattingProvider": true,
        "codeActionProvider": { "codeActionKinds": ["quickfix"] },
        "inlayHintProvider": true,
        "documentSymbolProvider": true,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::path::Path;

    use rtc_compiler::check::NoFiles;

    use super::*;

    const URI: &str = "file:///spec.rt";

    /// Texts that are being written: specs that end anywhere, or have a hole or a stray sign anywhere.
    fn unfinished() -> Vec<(String, usize)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs");
        let files = fs::read_dir(folder).expect("the specs are there").map(|entry| entry.expect("a file").path());
        let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|ending| ending == "rt")).collect();
        files.sort();
        let mut found = vec![];
        for (n, path) in files.iter().enumerate() {
            let text = fs::read_to_string(path).expect("a text");
            let cuts = (0..text.len()).filter(|at| text.is_char_boundary(*at)).skip(37 * n % 101).step_by(331);
            for (m, at) in cuts.enumerate() {
                let (before, behind) = text.split_at(at);
                let rest = behind.find('\n').map_or("", |line| &behind[line..]);
                let text = [before.to_owned(), format!("{before}{rest}"), format!("{before}{{ö\u{1f600}\"{behind}")];
                found.push((text[m % 3].clone(), at));
            }
        }
        found
    }

    #[test]
    fn texts_that_are_being_written_have_answers() {
        let sent: Rc<RefCell<Vec<Received>>> = Rc::default();
        let log = sent.clone();
        let send = Box::new(move |message| log.borrow_mut().push(message));
        let host = Host { loader: |_| Box::new(NoFiles), numbers: |arrays| arrays.len().to_string(), version: "" };
        let mut server = Server::new(&host, send);
        let ask = |server: &mut Server, method: &str, params: Value| {
            server.take(Ok(Request::new(1.into(), method.to_owned(), params).into()));
        };
        ask(&mut server, "initialize", json!({}));
        let texts = unfinished();
        assert!(texts.len() > 100, "{}", texts.len());
        for (text, at) in texts {
            let position = IndexedText::new(text.as_str()).position(at);
            let end = Position::new(u32::MAX, 0);
            let opened = json!({ "textDocument": { "uri": URI, "languageId": "rt", "version": 1, "text": text } });
            server.take(Ok(Notification::new("textDocument/didOpen".to_owned(), opened).into()));
            server.publish();
            let here = json!({
                "textDocument": { "uri": URI }, "position": position, "range": { "start": Position::default(), "end": end },
                "newName": "other", "context": { "diagnostics": [], "includeDeclaration": true, "triggerKind": 1 },
                "options": { "tabSize": 4, "insertSpaces": true },
            });
            REQUESTS.iter().for_each(|(method, _)| ask(&mut server, method, here.clone()));
            for message in sent.borrow_mut().drain(..) {
                if let Ok(Message::Response(response)) = message
                    && let Err(error) = response.response_result
                {
                    assert_eq!(error.code, ErrorCode::RequestFailed as i32, "{}: {text}", error.message);
                }
            }
        }
    }

    /// A text that is too large for a spec has one report, and answers without content.
    #[test]
    fn a_text_that_is_too_large_has_one_report() {
        let sent: Rc<RefCell<Vec<Received>>> = Rc::default();
        let log = sent.clone();
        let host = Host { loader: |_| Box::new(NoFiles), numbers: |arrays| arrays.len().to_string(), version: "" };
        let mut server = Server::new(&host, Box::new(move |message| log.borrow_mut().push(message)));
        server.take(Ok(Request::new(1.into(), "initialize".to_owned(), json!({})).into()));
        let text = "let a = = é\n".repeat(30_000);
        let opened = json!({ "textDocument": { "uri": URI, "languageId": "rt", "version": 1, "text": text } });
        server.take(Ok(Notification::new("textDocument/didOpen".to_owned(), opened).into()));
        sent.borrow_mut().clear();
        server.publish();
        let here = json!({ "textDocument": { "uri": URI }, "position": { "line": 9, "character": 4 } });
        server.take(Ok(Request::new(2.into(), "textDocument/hover".to_owned(), here).into()));
        let sent = sent.borrow();
        let [Ok(Message::Notification(reports)), Ok(Message::Response(hover))] = &sent[..] else {
            panic!("a report and an answer: {sent:?}")
        };
        let reports = reports.params["diagnostics"].as_array().expect("reports");
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0]["message"].to_string().contains("at most 262144 are read"), "{reports:?}");
        assert!(matches!(&hover.response_result, Ok(Value::Null)), "{hover:?}");
    }
}
