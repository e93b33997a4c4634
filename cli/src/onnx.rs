//! A trained model as an ONNX file.

use std::path::Path;

use rtc_base::disk::write_output;
use rtc_exec::Inference;
use rtc_export::onnx::{OnnxMetadata, onnx};
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::Scale;
use serde_json::json;

/// Writes the model with its weights; the file is there completely or not at all.
pub(crate) fn write(trained: &TrainedModel, scale: Option<Scale>, output: &Path) -> Result<(), SessionFailure> {
    let bytes = onnx(trained.model.forward_graph(), &trained.model.weights().items, &about(trained, scale))
        .map_err(|refused| SessionFailure::Usage(refused.to_string()))?;
    Ok(write_output(output, bytes)?)
}

fn about(trained: &TrainedModel, scale: Option<Scale>) -> OnnxMetadata {
    let list = |names: Vec<String>| json!(names).to_string();
    let encoding = trained.task.encoding(&trained.options);
    let facts = [
        ("model", trained.name.clone()),
        ("task", trained.task.name().to_owned()),
        ("vocabulary", list(trained.task.vocabulary(&trained.options))),
        ("classes", list(trained.task.classes(&trained.options))),
        ("tokens", json!(encoding).to_string()),
        ("updates", trained.state.progress.updates.to_string()),
        ("spec_hash", trained.definition.hash()),
    ];
    let tokenizer = encoding.tokenizer.map(|tokenizer| ("tokenizer", tokenizer.to_string()));
    let more = scale.map(|scale| ("scale", json!(scale).to_string())).into_iter().chain(tokenizer);
    OnnxMetadata {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        doc: format!("{} for {}, exported by rtc", trained.name, trained.task.name()),
        facts: facts.into_iter().chain(more).map(|(name, fact)| (name.to_owned(), fact)).collect(),
        flat: trained.inference == Inference::Flat,
    }
}
