//! `rtc export`: a trained model for other programs.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rtc_base::disk::write_file;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::{pass, pipeline};
use rtc_exec::Inference;
use rtc_export::torch;
use rtc_export::weights::{Weight, safetensors};
use rtc_session::definition::GraphFacts;
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::{DOCUMENT, Scale, catalog};
use serde_json::{Value, json};

use crate::exit::{CommandResult, Exit};
use crate::huggingface;
use crate::onnx;
use crate::options::ModelOptions;
use crate::terminal::{Terminal, quoted};

const EXAMPLES: &str = "\
Examples:
  rtc export runs/NAME --format torch --output exported       model.py, tokenizer.py, weights.safetensors, config.json
  rtc export runs/NAME --format torch --output exported --checkpoint last
  rtc export runs/NAME --format onnx --output model.onnx      one file for onnxruntime and other programs
  cd exported && python -c 'from model import Model; print(Model.from_folder(\".\"))'
";

const MORE: &str = "\
`from model import Model; model = Model.from_folder(DIR); logits = model(tokens, lengths)` needs PyTorch and safetensors and \
nothing of rtc. `rtc docs export` says what goes in and what comes out, `rtc docs import` how a published model goes back into its form.
";

/// Arguments of `rtc export`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = MORE)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// What it is written for
    #[arg(long, value_enum)]
    format: FormatArg,
    /// For torch and huggingface the new or empty folder for the files, for onnx the file; what an export to torch or onnx wrote is
    /// overwritten
    #[arg(long, value_name = "PATH")]
    output: PathBuf,
    /// For huggingface: the folder of the published model of which the spec was imported
    #[arg(long, value_name = "FOLDER")]
    like: Option<PathBuf>,
    /// The file that describes the family of this model, as for `rtc import`
    #[arg(long, value_name = "FILE", requires = "like")]
    family: Option<PathBuf>,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// A PyTorch module that can be read and trained
    Torch,
    /// One file for programs that read ONNX
    Onnx,
    /// A folder as that of a published model, which programs that read Hugging Face's format load
    Huggingface,
}

const MODULE: &str = "model.py";
const WEIGHTS: &str = "weights.safetensors";
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.py";
const TRAINED: &str = "tokenizer.json";
const README: &str = "README.md";

/// The page of the folder: its program must be read before it is imported.
const PROGRAM: &str = "\
# A model exported by rtc

`model.py` and `tokenizer.py` are Python programs: importing them runs them. Read them first if the folder comes from somebody else.
`weights.safetensors`, `config.json` and `tokenizer.json`, where there is one, are data and hold no code.

```python
from model import Model
from tokenizer import Tokenizer

model, tokenizer = Model.from_folder(\".\"), Tokenizer.from_folder(\".\")
tokens, lengths = tokenizer([\"a text\"])
logits = model(tokens, lengths)
```
";

/// Writes the files of an export.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    if options.like.is_some() != (options.format == FormatArg::Huggingface) {
        return Err(SessionFailure::Usage(
            "`--format huggingface` and `--like` go together: the folder of the published model of which the spec was imported".to_owned(),
        ));
    }
    let trained = TrainedModel::open(&options.model.choice())?;
    trained.remark_on_weights().iter().for_each(|remark| terminal.message(remark));
    if let Some(like) = &options.like {
        let count = huggingface::write(&trained, (like, options.family.as_deref()), &options.output)?;
        let (output, like) = (quoted(&options.output), quoted(like));
        terminal.message(&format!("wrote {count} files into {output}, a model of the form of {like}"));
        return Ok(Exit::Done);
    }
    let binding = Binding::from(&catalog(&*trained.task, &trained.options));
    let mut graph = pipeline::unlabelled(trained.definition.forward(&catalog(&*trained.task, &trained.options))?);
    let weights = trained.model.weights();
    // A weight that only a simplified graph does without, such as that of a part which is cut off again, is in no run.
    if graph.parameters().iter().any(|p| !weights.items.contains_key(&p.name)) {
        pass::optimise(&mut graph);
    }
    if options.format == FormatArg::Onnx {
        return to_onnx(&trained, &binding, &options.output, terminal);
    }
    to_torch(&trained, &graph, &binding, &options.output, terminal)
}

fn to_torch(
    trained: &TrainedModel,
    graph: &Graph,
    binding: &Binding,
    folder: &Path,
    terminal: &Terminal,
) -> CommandResult {
    let weights = trained.model.weights();
    let weights: Vec<_> =
        weights.items.iter().map(|(name, (shape, numbers))| Weight { name, shape, numbers }).collect();
    let module = torch::module(origin(trained), graph, binding, &weights)
        .map_err(|refused| SessionFailure::Usage(format!("{} as a PyTorch module: {refused}", trained.name)))?;
    prepare(folder)?;
    let config = serde_json::to_string_pretty(&config(trained, graph, binding)).unwrap_or_default() + "\n";
    write_file(&folder.join(MODULE), &module)?;
    write_file(&folder.join(WEIGHTS), safetensors(&weights))?;
    write_file(&folder.join(CONFIG), &config)?;
    write_file(&folder.join(TOKENIZER), torch::TOKENIZER)?;
    write_file(&folder.join(README), PROGRAM)?;
    if let Some(trained) = trained.task.encoding(&trained.options).tokenizer {
        write_file(&folder.join(TRAINED), trained.to_string())?;
    }
    terminal.message(&format!(
        "wrote {MODULE}, {WEIGHTS}, {CONFIG} and {TOKENIZER}; next, in {}: python -c 'from model import Model; print(Model.from_folder(\".\"))'",
        quoted(folder)
    ));
    Ok(Exit::Done)
}

fn to_onnx(trained: &TrainedModel, binding: &Binding, output: &Path, terminal: &Terminal) -> CommandResult {
    onnx::write(trained, scale(trained, binding), output)?;
    let inputs = "inputs tokens[batch, length] and lengths[batch], output logits";
    terminal.message(&format!("wrote {}: {inputs}; `rtc docs export` says more", output.display()));
    Ok(Exit::Done)
}

/// What the module says of its model, and how it makes the numbers of documents.
fn origin(trained: &TrainedModel) -> torch::ModelDescription<'_> {
    let documents = trained.task.document_end().map(|end| (DOCUMENT, end));
    match trained.definition.spec() {
        Some(spec) => torch::ModelDescription { documents, ..spec.into() },
        None => {
            let (name, text) = (trained.definition.name(), trained.definition.text());
            torch::ModelDescription { name, doc: "", kind: "graph", text, documents }
        }
    }
}

/// Makes the folder. One with files that are no export is left alone.
fn prepare(folder: &Path) -> Result<(), SessionFailure> {
    fs::create_dir_all(folder).map_err(|error| SessionFailure::io("create", folder, error))?;
    let entries = fs::read_dir(folder).map_err(|error| SessionFailure::io("read", folder, error))?;
    let own = ["__pycache__", MODULE, WEIGHTS, CONFIG, TOKENIZER, TRAINED, README];
    let foreign = entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
    match foreign.filter(|name| !own.contains(&name.as_str())).min() {
        Some(name) => Err(SessionFailure::Usage(format!(
            "{} holds `{name}`, which is no part of an export: name a new folder",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// The unit of the numbers that a model answers with.
pub(crate) fn scale(trained: &TrainedModel, binding: &Binding) -> Option<Scale> {
    (binding.objective == Objective::Number).then(|| trained.task.scale(&trained.options))
}

/// The kind of answers, as programs are told.
pub(super) fn answers(objective: Objective) -> &'static str {
    match objective {
        Objective::Classify => "class",
        Objective::Pair => "class of a pair",
        Objective::Each => "class of every token",
        Objective::Several => "several labels",
        Objective::Number => "number",
    }
}

/// The facts about a model that `model.py` does not hold.
fn config(trained: &TrainedModel, graph: &Graph, binding: &Binding) -> Value {
    let flat = trained.inference == Inference::Flat;
    json!({
        "model": trained.name,
        "answers": answers(binding.objective),
        "width": GraphFacts(graph).width(),
        "tokens": trained.task.encoding(&trained.options),
        "vocabulary": trained.task.vocabulary(&trained.options),
        "classes": trained.task.classes(&trained.options),
        "outputs": binding.outputs(),
        "scale": scale(trained, binding),
        "takes_depths": torch::takes_depths(graph),
        "inference": if flat { "flat" } else { "recursive" },
        "task": { "name": trained.task.name(), "options": trained.experiment.task.options },
        "run": {
            "folder": trained.path.file_name().map(|name| name.to_string_lossy()),
            "seed": trained.state.seed,
            "updates": trained.state.progress.updates,
            "spec_hash": trained.state.spec_hash,
            "graph_hash": trained.state.graph_hash,
            "versions": trained.state.versions,
        },
    })
}
