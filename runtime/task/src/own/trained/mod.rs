//! The tokenizer of a published model, and how long it makes texts.

mod growth;

use std::collections::BTreeMap;

use serde_json::Value;
use tokenizers::Tokenizer;

use growth::Growth;

/// A tokenizer.
#[derive(Clone)]
pub(super) struct TrainedTokenizer {
    tokenizer: Tokenizer,
    growth: Growth,
}

impl TrainedTokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// A sentence about a file that is none, or about steps that make too much of a text.
    pub(super) fn read(file: &Value) -> Result<Self, String> {
        let text = file.to_string();
        let mut tokenizer =
            Tokenizer::from_bytes(text.as_bytes()).map_err(|error| format!("this is no tokenizer.json: {error}"))?;
        let growth = Growth::of(&tokenizer)?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| error.to_string())?;
        Ok(Self { tokenizer, growth })
    }

    /// The ids of its tokens.
    pub(super) fn vocabulary(&self) -> BTreeMap<String, u32> {
        self.tokenizer.get_vocab(true).into_iter().collect()
    }

    /// The `tokenizer.json`, as a run keeps it.
    pub(super) fn file(&self) -> Option<Value> {
        self.tokenizer.to_string(false).ok().and_then(|text| serde_json::from_str(&text).ok())
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// A sentence about a text that becomes too long, or a step that fails.
    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, String> {
        self.growth.check(&self.tokenizer, text)?;
        let found = self.tokenizer.encode_fast(text, false);
        found.map(|found| found.get_ids().to_vec()).map_err(|error| format!("the tokenizer failed: {error}"))
    }

    /// The tokens of a text, and the byte of the text at which each ends.
    ///
    /// # Errors
    /// As [`TrainedTokenizer::encode`].
    pub(super) fn ends(&self, text: &str) -> Result<(Vec<u32>, Vec<usize>), String> {
        self.growth.check(&self.tokenizer, text)?;
        let found = self.tokenizer.encode(text, false).map_err(|error| format!("the tokenizer failed: {error}"))?;
        Ok((found.get_ids().to_vec(), found.get_offsets().iter().map(|(_, end)| *end).collect()))
    }

    /// The text of some tokens; none where they have no text.
    pub(super) fn decode(&self, tokens: &[u32]) -> String {
        self.tokenizer.decode(tokens, false).unwrap_or_default()
    }
}
