//! A task on files as every other task: its facts, and what it reads, encodes and writes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

use serde_json::Value;

use super::plan::{self, CustomTaskKind};
use super::{HELD, Own, RowFilter, split};
use crate::error::DataError;
use crate::files::{Column, Format, paths};
use crate::masking::Masking;
use crate::share::SplitSource;
use crate::stream::Stamp;
use crate::{Answer, GenerationRequest, GivenColumn, SEVERAL, Scale, Split, Stream, WrittenAnswer, line};
use crate::{
    AskedRow, AskedRows, Cuts, Encoding, Example, Files, Objective, Options, Task, TaskDescription, TaskSettings,
};

impl Task for Own {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: self.plan.kind.name(),
            doc: self.plan.kind.doc(),
            source: match self.plan.kind {
                CustomTaskKind::Masked => "Devlin et al. 2019, Section 3.1, arXiv:1810.04805",
                _ => "rtc",
            },
            objective: match self.plan.kind {
                CustomTaskKind::Table => match self.plan.answer {
                    Answer::Class => Objective::Classify,
                    Answer::Labels => Objective::Several,
                    Answer::Number => Objective::Number,
                },
                CustomTaskKind::Pairs => Objective::Pair,
                CustomTaskKind::Tagging
                | CustomTaskKind::Sequences
                | CustomTaskKind::Language
                | CustomTaskKind::Masked => Objective::Each,
            },
            options: &[],
            splits: &[],
            metrics: match (self.plan.kind, self.plan.answer) {
                (CustomTaskKind::Tagging | CustomTaskKind::Sequences, _) => crate::metric::WHOLE,
                (_, Answer::Labels) => SEVERAL,
                _ => &[],
            },
        }
    }

    fn next_token(&self, _options: &Options) -> bool {
        self.plan.kind.is_next_token()
    }

    fn written_answer(&self) -> Option<WrittenAnswer> {
        self.answer_end().map(|end| WrittenAnswer { end, most: self.plan.length })
    }

    fn vocabulary(&self, _options: &Options) -> Vec<String> {
        let mut names = self.learned.tokens.names();
        names.extend(self.marks().iter().map(|name| (*name).to_owned()));
        names
    }

    fn classes(&self, options: &Options) -> Vec<String> {
        if self.plan.kind.answers_tokens() { self.vocabulary(options) } else { self.learned.classes.clone() }
    }

    fn split_names(&self) -> Vec<String> {
        self.splits.clone()
    }

    fn split(&self, name: &str) -> Result<Split, String> {
        split(self.name(), &self.splits, name)
    }

    fn scale(&self, _options: &Options) -> Scale {
        self.learned.scale
    }

    fn perplexity(&self) -> bool {
        self.plan.kind.answers_tokens()
    }

    fn knows_bytes(&self) -> bool {
        self.plan.kind.is_next_token()
    }

    fn masking(&self) -> Option<Masking> {
        self.row_masking()
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let message =
            format!("the split `{}` has no file, and nothing is generated for `{}`", request.split, self.name());
        Err(DataError { file: self.name().to_owned(), line: None, message })
    }

    fn read(&self, path: &Path, _options: &Options) -> Result<Vec<Example>, DataError> {
        self.part_of(&[path.to_owned()], &RowFilter::All, usize::MAX).map(|(rows, _)| rows)
    }

    fn read_files(&self, files: &Files<'_>) -> Result<Option<Vec<Example>>, DataError> {
        match self.found(files)? {
            Some((paths, part)) => {
                let (rows, cuts) = self.part_of(&paths, &part, files.most)?;
                self.has_cut(files.split, cuts);
                Ok(Some(rows))
            }
            None => Ok(None),
        }
    }

    fn stream(&self, files: &Files<'_>) -> Result<Option<Stream>, DataError> {
        let Some((paths, part)) = self.found(files)? else { return Ok(None) };
        let mut bytes = 0;
        for path in &paths {
            bytes += Stamp::of(path)?.bytes();
        }
        if bytes <= HELD {
            return Ok(None);
        }
        self.unheld(&paths, &part, files.most)
    }

    fn encode(&self, text: &str, _options: &Options) -> Result<Vec<u32>, String> {
        let mut tokens: Vec<u32> = self.begin.into_iter().collect();
        tokens.extend(self.between_marks(text, |text| self.learned.tokens.read(text))?);
        if !self.plan.kind.reads_windows() {
            tokens.truncate(self.plan.length);
        }
        // An empty text stays one, which is refused.
        let separator = self.separator().filter(|_| !tokens.is_empty());
        tokens.extend(separator);
        Ok(tokens)
    }

    fn encoding(&self, _options: &Options) -> Encoding {
        let is_text = self.plan.kind.reads_windows();
        let length = (!is_text).then_some(self.plan.length);
        let replaced = if is_text { vec![["\r\n".to_owned(), "\n".to_owned()]] } else { vec![] };
        let (before, behind) = (self.begin.into_iter().collect(), self.separator().into_iter().collect());
        let marks = self.mask().map(|(name, mask)| (name.to_owned(), mask)).into_iter().collect();
        Encoding { length, replaced, before, behind, marks, ..self.learned.tokens.encoding() }
    }

    fn on_one_line(&self, text: &str) -> String {
        match self.plan.kind {
            kind if kind.reads_windows() => line::written(&text.replace("\r\n", "\n"), false),
            _ => line::written(text, false),
        }
    }

    fn decode(&self, tokens: &[u32], _options: &Options) -> String {
        let sides = self.plan.kind == CustomTaskKind::Pairs;
        self.marked(tokens, |tokens| self.learned.tokens.written(tokens, sides))
    }

    fn written(&self, tokens: &[u32], _options: &Options) -> String {
        self.marked(tokens, |tokens| self.learned.tokens.text(tokens))
    }

    fn problems(&self, settings: &TaskSettings, most: usize) -> Vec<DataError> {
        let mut problems = vec![];
        let splits: Vec<&str> = self.splits.iter().map(String::as_str).collect();
        let settings = match settings.made(&splits) {
            Ok(settings) => settings,
            Err(problem) => return vec![problem],
        };
        for text in plan::files(&settings).into_iter().flat_map(BTreeMap::values) {
            let Ok(SplitSource::File(file)) = SplitSource::parse(text) else { continue };
            match paths::matching(&settings.locate(file)) {
                Ok(files) => files.iter().for_each(|path| problems.extend(self.problems_of(path, most))),
                Err(problem) => problems.push(problem),
            }
        }
        problems.truncate(most);
        problems
    }

    fn kept(&self) -> Option<Value> {
        Some(self.learned.kept())
    }

    fn unknown(&self) -> Option<u32> {
        self.learned.tokens.unknown()
    }

    fn begin(&self) -> Option<u32> {
        self.begin
    }

    fn document_end(&self) -> Option<u32> {
        self.document_end
    }

    fn given(&self) -> Vec<GivenColumn> {
        self.plan.given.clone()
    }

    fn columns(&self) -> Vec<Column> {
        self.input_columns().to_vec()
    }

    fn label_column(&self) -> Option<Column> {
        self.label().cloned()
    }

    fn format(&self) -> Option<Format> {
        self.plan.layout.format
    }

    fn cuts(&self, split: &str) -> Cuts {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner).get(split).copied().unwrap_or_default()
    }

    fn cut(&self, text: &str) -> Result<usize, String> {
        let count = self.learned.tokens.read(text)?.len();
        Ok(if self.plan.kind.reads_windows() { 0 } else { count.saturating_sub(self.plan.length) })
    }

    fn rows_asked(
        &self,
        path: &Path,
        format: Format,
        wanted: &[&str],
        _options: &Options,
    ) -> Result<AskedRows, DataError> {
        self.asked_file(path, format, wanted)
    }

    fn object(&self, text: &str, wanted: &[&str]) -> Result<AskedRow, String> {
        self.asked_object(text, wanted)
    }
}
