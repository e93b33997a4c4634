//! `rtc predict`: what a trained model says about sequences.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use clap::Args;
use rtc_report::data::{Beam, Tree};
use rtc_runtime::batching::collect;
use rtc_runtime::examine::{TracedUnit, trace};
use rtc_runtime::task::Objective;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::saved::{ModelOptions, Trained};
use crate::terminal::Terminal;
use crate::trees::trees;

const EXAMPLES: &str = "\
Examples:
  rtc predict runs/NAME '[MAX 2 9 [MIN 4 7 ] 0 ]'
  rtc predict runs/NAME < expressions.txt             one sequence per line
  rtc task sample listops | cut -f2 | rtc predict runs/NAME --json
  rtc predict runs/NAME '1 0 + 1 1 > # # # # # #' --depth 2   a class for every token, after two steps
  rtc predict runs/NAME '( not a ) ||| ( a ( or b ) )'   both sides of a pair
  rtc predict runs/NAME '[MAX 2 9 ]' --show-halting   how it halts: what every state weighs in the output
  rtc predict runs/NAME '[MAX 2 9 ]' --weights other.safetensors   with weights of another program
  rtc predict runs/NAME '[MAX 2 9 ]' --trees      what its recursion joins with what
";

const COLUMNS: &str = "\
Every line of the result is: class, its probability, accepted steps of the halting recurrence (`-` without one), the \
sequence. The sides of a pair are written with `|||` between them. With a class per token it is: one class for every token, \
the smallest of their probabilities, and the same. With --json every line is one object.
";

/// Arguments of `rtc predict`.
#[derive(Args)]
#[command(before_help = EXAMPLES, after_help = COLUMNS)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) model: ModelOptions,
    /// The tokens of one sequence, or of a pair as `left ||| right`; without any, every line of standard input is a sequence
    tokens: Vec<String>,
    /// Say how the model halts: below every result a line per halting unit with the weights of its states H0, H1, ...
    #[arg(long)]
    show_halting: bool,
    /// Say which trees its recursion makes: below every result a line per tree with what it weighs, its score, and brackets
    #[arg(long)]
    trees: bool,
    /// Print as JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Predicts one sequence after the other: the result of one is printed before the next is read.
pub(crate) fn run(options: &Options, terminal: &Terminal) -> Outcome {
    let mut trained = Trained::open(&options.model)?;
    let classes = trained.task.classes(&trained.options);
    if !options.tokens.is_empty() {
        predict(&mut trained, &classes, &options.tokens.join(" "), ("arguments", None), options, terminal)?;
        return Ok(Exit::Done);
    }
    if std::io::stdin().is_terminal() {
        terminal.message("reading sequences from standard input, one per line");
    }
    let input = "standard input";
    for (n, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => Failure::data(input, Some(n + 1), "this line is not UTF-8 text"),
            _ => Failure::io("read", Path::new(input), error),
        })?;
        if !line.trim().is_empty() {
            predict(&mut trained, &classes, line.trim(), (input, Some(n + 1)), options, terminal)?;
        }
        if terminal.is_deserted() {
            break;
        }
    }
    Ok(Exit::Done)
}

fn predict(
    trained: &mut Trained,
    classes: &[String],
    text: &str,
    (file, line): (&str, Option<usize>),
    options: &Options,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let example = trained.example(text).map_err(|message| Failure::data(file, line, message))?;
    let found = trained.learner().evaluate(&collect(&[&example], example.length()))?;
    let closer = options.show_halting || options.trees;
    let traced = if closer { Some(trace(&mut trained.model, &example)?) } else { None };
    let halting = traced.as_ref().filter(|_| options.show_halting).map_or(&[][..], |traced| &traced.units);
    let folded = traced.as_ref().filter(|_| options.trees);
    let folded = folded.map_or_else(Vec::new, |traced| trees(trained, &example, &traced.trees));
    let name = |class: &u32| classes.get(*class as usize).cloned().unwrap_or_else(|| class.to_string());
    let names: Vec<String> = found.predictions.iter().map(name).collect();
    let steps = found.depth.map(|(steps, units)| steps / units.max(1) as f64);
    if options.json {
        let mut row = match (trained.task.objective(), &names[..], &found.confidence[..]) {
            (Objective::Classify | Objective::Pair, [class], [confidence]) => {
                json!({ "text": text, "class": class, "confidence": confidence, "steps": steps })
            }
            _ => json!({ "text": text, "classes": names, "confidence": found.confidence, "steps": steps }),
        };
        if options.show_halting {
            row["halting"] = halting.iter().map(unit_json).collect();
        }
        if options.trees {
            row["trees"] = folded.iter().map(tree_json).collect();
        }
        return terminal.result(&format!("{row}\n"));
    }
    let steps = steps.map_or("-".to_owned(), |steps| format!("{steps:.1}"));
    let below: String = halting.iter().map(unit_text).chain(folded.iter().map(tree_text)).collect();
    // Where an answer is a token, the task knows how it is written: characters stand side by side.
    let tokens = trained.task.vocabulary(&trained.options) == classes;
    let written = if tokens { trained.task.decode(&found.predictions, &trained.options) } else { names.join(" ") };
    let least = found.confidence.iter().copied().fold(1.0, f64::min);
    terminal.result(&format!("{written}\t{:.1} %\t{steps}\t{text}\n{below}", 100.0 * least))
}

fn unit_json(TracedUnit { place, unit }: &TracedUnit) -> Value {
    json!({
        "place": place, "start": unit.start, "length": unit.length, "steps": unit.steps(), "weights": unit.weights(),
    })
}

fn tree_json(tree: &Tree) -> Value {
    let beam = |beam: &Beam| {
        let (weight, score, beams) = (beam.weight, beam.score, beam.count);
        json!({ "weight": weight, "score": score, "beams": beams, "tree": tree.bracketed(beam), "spans": beam.spans })
    };
    json!({ "place": tree.place, "trees": tree.beams.iter().map(beam).collect::<Vec<_>>() })
}

/// `    beam: 87.2 %, score -0.35  ( ( [MAX 2 ) ( 9 ] ) )`, a line per tree.
fn tree_text(tree: &Tree) -> String {
    let line = |beam: &Beam| format!("    {}{}  {}\n", tree.place, beam.describe(), tree.bracketed(beam));
    tree.beams.iter().map(line).collect()
}

/// `    depthwise  positions 0-13  steps 4  H0 0.100  H1 0.250 ...`, with START as position 0 where a model has it.
fn unit_text(TracedUnit { place, unit }: &TracedUnit) -> String {
    let positions = match unit.length {
        0 | 1 => format!("position {}", unit.start),
        length => format!("positions {}-{}", unit.start, unit.start + length - 1),
    };
    let weights =
        unit.weights().iter().enumerate().map(|(n, weight)| format!("  H{n} {weight:.3}")).collect::<String>();
    format!("    {place}  {positions}  steps {}{weights}\n", unit.steps())
}
