//! `rtc import`: a published model as a spec.

use std::path::PathBuf;

use clap::Args;
use rtc_session::import::{EXPERIMENT, LoopedLayers, NAMES, RelaxedLayers, SPEC, TEXT, WEIGHTS, import};

use crate::exit::{CommandResult, Exit};
use crate::terminal::{Terminal, quoted};

const EXAMPLES: &str = "\
Examples:
  rtc import SmolLM2-135M --output smol             the folder has config.json, tokenizer.json and model.safetensors
  rtc import SmolLM2-135M --output measured --text letters.txt
  rtc import SmolLM2-135M --output looped --loop 0..1          the same model, its layers 0 and 1 in a loop
  rtc import SmolLM2-135M --output relaxed --loop 0..1 --steps 2 --rank 2
  cd smol && rtc generate model.rt --experiment experiment.yaml --weights ../SmolLM2-135M --weights-map names.json 'Once'
";

const NOTES: &str = "\
Nothing of the folder is copied or executed. model.rt is a spec like others: it is read, edited, compared and trained. `rtc docs import` \
names the families, and says how one is added.
";

/// Arguments of `rtc import`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = NOTES)]
pub(crate) struct Options {
    /// The folder of a model in Hugging Face's format
    folder: PathBuf,
    /// The new folder for the spec, its experiment and the map of names
    #[arg(long, value_name = "FOLDER")]
    output: PathBuf,
    /// A text on which the model is measured and trained; one sentence without it
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Put layers FIRST to LAST, counted from 0, into a loop of one step, whose `steps` are then swept or trained
    #[arg(long, value_name = "FIRST..LAST", value_parser = layers)]
    r#loop: Option<LoopedLayers>,
    /// With --loop: so many steps share the weights of the layers of one, each with low-rank maps of its own beside them
    #[arg(long, value_name = "N", requires_all = ["loop", "rank"], value_parser = clap::value_parser!(u16).range(2..))]
    steps: Option<u16>,
    /// The rank of these maps, which begin as the best ones for what the layers differ by
    #[arg(long, value_name = "R", requires = "steps", value_parser = clap::value_parser!(u16).range(1..))]
    rank: Option<u16>,
    /// A file that describes the family of the model, in the place of those of the program
    #[arg(long, value_name = "FILE")]
    family: Option<PathBuf>,
}

fn layers(text: &str) -> Result<LoopedLayers, String> {
    let ends = text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    ends.map(|(first, last)| LoopedLayers { first, last }).ok_or_else(|| "layers are FIRST..LAST, as 4..11".to_owned())
}

/// Imports.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> CommandResult {
    let Options { folder, output, text, family, r#loop, steps, rank } = options;
    let relaxed = steps.zip(*rank).map(|(steps, rank)| RelaxedLayers { steps: steps.into(), rank: rank.into() });
    let found = import(folder, output, text.as_deref(), family.as_deref(), *r#loop, relaxed)?;
    let names = if relaxed.is_some() { WEIGHTS } else { NAMES };
    let at = output.display();
    let text = if text.is_none() { format!(", {TEXT}") } else { String::new() };
    terminal.message(&format!(
        "{at}: {SPEC}, {EXPERIMENT}, {names}{text}; {}, {} parameters",
        found.family, found.parameters
    ));
    if let Some(begin) = &found.begin {
        terminal
            .message(&format!("the task puts `{begin}` before every text and every prompt: `begin` of {EXPERIMENT}"));
    }
    let path = |name: &str| quoted(&output.join(name));
    let folder = quoted(folder);
    let weights = match relaxed {
        Some(_) => path(WEIGHTS),
        None => format!("{folder} --weights-map {}", path(NAMES)),
    };
    terminal.next(&format!("rtc generate {} --experiment {} --weights {weights} The", path(SPEC), path(EXPERIMENT)));
    Ok(Exit::Done)
}
