//! Windows of large texts, which are read from their files while a training needs them: where each block begins, and with which
//! token, is all that is held.

use sha2::{Digest, Sha256};

use super::language::{EncodedBlock, JoinedText, TextBlock, WindowShape};
use super::placement::RowFilter;
use super::tokens::Tokens;
use crate::Example;
use crate::error::DataError;
use crate::fingerprint::hex;
use crate::masking::Masking;
use crate::stream::StreamedRows;

use std::collections::BTreeMap;
use std::sync::Arc;

/// The way from a text to its windows.
#[derive(Debug)]
pub(super) struct TextSource {
    pub(super) tokens: Arc<Tokens>,
    pub(super) shape: WindowShape,
    /// What is hidden of a window.
    pub(super) masking: Option<Masking>,
}

/// Windows of a part of a text.
#[derive(Debug)]
pub(super) struct TextWindows {
    text: JoinedText,
    source: TextSource,
    /// The byte and the number of the token with which every block begins.
    blocks: Vec<(u64, u64)>,
    /// Where the part ends: its last byte and the number of its tokens.
    end: (u64, u64),
    most: usize,
    /// How often every token is an answer, or may be a hidden one.
    counts: BTreeMap<u32, u64>,
    fingerprint: String,
}

impl TextWindows {
    /// Goes through a part of a text once.
    pub(super) fn find(text: JoinedText, source: TextSource, part: &RowFilter, most: usize) -> Result<Self, DataError> {
        let WindowShape { length, .. } = source.shape;
        let behind_window = source.shape.behind();
        let (mut blocks, mut end, mut hash, mut counts) = (vec![], (0, 0_u64), Sha256::new(), vec![]);
        let encode = |text: &str| source.tokens.encode(text);
        text.encoded(part, encode, |EncodedBlock { at, end: behind, text: block, tokens: found }| {
            blocks.push((at, end.1));
            // Of next tokens the first of all answers nothing.
            let first = if end.1 == 0 { behind_window } else { 0 };
            let answers = &found[first.min(found.len())..];
            let rest = most.saturating_mul(length).saturating_sub((end.1 as usize).saturating_sub(behind_window));
            for token in answers.iter().take(rest) {
                let id = *token as usize;
                if id >= counts.len() {
                    counts.resize(id + 1, 0);
                }
                counts[id] += 1;
            }
            end = (behind, end.1 + found.len() as u64);
            hash.update(&block);
            Ok(true)
        })?;
        hash.update(length.to_le_bytes());
        if let Some(masking) = &source.masking {
            hash.update(format!("{masking:?}"));
        }
        if let Some(begin) = source.shape.begin {
            hash.update(format!("begin {begin}"));
        }
        if let Some(end) = source.shape.document_end {
            hash.update(format!("documents {end}"));
        }
        let fingerprint = hex(&hash.finalize());
        let counts = (0..).zip(counts).filter(|(_, count)| *count > 0).collect();
        Ok(Self { text, source, blocks, end, most, counts, fingerprint })
    }

    /// Number of tokens that are in a window.
    fn all(&self) -> u64 {
        self.end.1.saturating_sub(self.source.shape.behind() as u64)
    }
}

impl StreamedRows for TextWindows {
    fn count(&self) -> usize {
        (self.all() as usize).div_ceil(self.source.shape.length).min(self.most)
    }

    fn length(&self, row: usize) -> usize {
        let length = self.source.shape.length as u64;
        (self.all() - row as u64 * length).min(length) as usize
    }

    fn tokens(&self) -> u64 {
        self.all().min(self.count() as u64 * self.source.shape.length as u64)
    }

    fn label_shares(&self) -> BTreeMap<u32, f64> {
        let all = self.counts.values().sum::<u64>().max(1) as f64;
        self.counts.iter().map(|(token, count)| (*token, *count as f64 / all)).collect()
    }

    fn held(&self) -> u64 {
        (self.blocks.len() * size_of::<(u64, u64)>()) as u64
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    fn row(&self, row: usize) -> Result<Example, DataError> {
        let TextSource { tokens, shape, masking } = &self.source;
        let first = row as u64 * shape.length as u64;
        let wanted = self.length(row) + shape.behind();
        let block = self.blocks.partition_point(|(_, token)| *token <= first) - 1;
        let (at, token) = self.blocks[block];
        let (mut found, mut bytes) = (vec![], vec![]);
        let skip = (first - token) as usize;
        for block in self.text.range(at, self.end.0) {
            let TextBlock { at, text, .. } = block?;
            let (of_block, spans) = tokens.spans(&text).map_err(|why| self.text.fault(at, why))?;
            found.extend(of_block);
            bytes.extend(spans);
            if found.len() >= skip + wanted {
                break;
            }
        }
        let mut window = shape.example(&found[skip..skip + wanted], &bytes[skip..skip + wanted]);
        masking.iter().for_each(|masking| masking.hide(row as u64, &mut window));
        Ok(window)
    }
}
