//! Refuses a `tokenizer.json` in a program without the feature `tokenizers`.

use std::collections::BTreeMap;

use serde_json::Value;

/// The tokenizer of a published model: there is none.
#[derive(Clone)]
pub(super) enum TrainedTokenizer {}

impl TrainedTokenizer {
    /// Refuses the file.
    pub(super) fn read(_: &Value) -> Result<Self, String> {
        Err("this rtc was built without tokenizers: build it with `--features tokenizers`".to_owned())
    }

    /// The ids of its tokens.
    pub(super) fn vocabulary(&self) -> BTreeMap<String, u32> {
        match *self {}
    }

    /// The `tokenizer.json`, as a run keeps it.
    pub(super) fn file(&self) -> Option<Value> {
        match *self {}
    }

    /// The tokens of a text.
    pub(super) fn encode(&self, _: &str) -> Result<Vec<u32>, String> {
        match *self {}
    }

    /// The tokens of a text, and the byte of the text at which each ends.
    pub(super) fn ends(&self, _: &str) -> Result<(Vec<u32>, Vec<usize>), String> {
        match *self {}
    }

    /// The text of some tokens.
    pub(super) fn decode(&self, _: &[u32]) -> String {
        match *self {}
    }
}
