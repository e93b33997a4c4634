//! The output of predictions: lines for people, JSON lines, CSV; to standard output or to a file.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rtc_base::disk::special;
use rtc_report::data::{AttentionPanel, Beam, RecursionTree};
use rtc_session::failure::SessionFailure;
use rtc_session::saved::TrainedModel;
use rtc_task::{Objective, Options, TaskHandle, set_text};
use rtc_train::examine::TracedUnit;
use serde_json::{Map, Value, json};

use super::answer::{SequenceAnswer, SingleAnswer};
use super::{ClassNumbers, PredictionFormat};
use crate::attention::NamedAttention;
use crate::terminal::Terminal;
use crate::text::csv_row;

/// Takes answers in their order.
pub(super) struct Output<'a> {
    format: PredictionFormat,
    wanted: ClassNumbers,
    task: TaskHandle,
    options: Options,
    /// Names of the classes, and of the tokens.
    classes: Vec<String>,
    vocabulary: Vec<String>,
    /// Whether an answer is a text that the model writes.
    is_text: bool,
    /// How many answers were written.
    written: usize,
    /// Whether the rows have a column of labels: it is one of CSV, too, then. The first row says it.
    labelled: bool,
    terminal: &'a Terminal,
    file: Option<FreshFile>,
}

/// A file that takes its name when it is complete, and is removed when it never is.
struct FreshFile {
    to: BufWriter<File>,
    /// Absent where the name is that of a device or a pipe, which is written into.
    fresh: Option<PathBuf>,
    path: PathBuf,
}

impl FreshFile {
    /// Begins a file; `input` is the file that is read meanwhile, and must be another one.
    fn create(path: &Path, input: Option<&Path>) -> Result<Self, SessionFailure> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".part");
        let fresh = PathBuf::from(fresh);
        if let Some(input) = input.filter(|input| [path, &fresh].iter().any(|own| is_same(own, input))) {
            return Err(SessionFailure::Usage(format!(
                "`--output {}` would overwrite the input {}: name another file",
                path.display(),
                input.display()
            )));
        }
        if let Some(file) = special(path) {
            let file = file.map_err(|error| SessionFailure::io("write", path, error))?;
            return Ok(Self { to: BufWriter::new(file), fresh: None, path: path.to_owned() });
        }
        // Of a command that was killed, or a link that leads elsewhere.
        let _ = fs::remove_file(&fresh);
        let file = File::create_new(&fresh).map_err(|error| SessionFailure::io("write", path, error))?;
        Ok(Self { to: BufWriter::new(file), fresh: Some(fresh), path: path.to_owned() })
    }

    fn write(&mut self, text: &str) -> Result<(), SessionFailure> {
        self.to.write_all(text.as_bytes()).map_err(|error| SessionFailure::io("write", &self.path, error))
    }

    fn finish(mut self) -> Result<(), SessionFailure> {
        let failed = |error| SessionFailure::io("write", &self.path, error);
        self.to.flush().map_err(failed)?;
        self.fresh.as_ref().map_or(Ok(()), |fresh| fs::rename(fresh, &self.path)).map_err(failed)
    }
}

impl Drop for FreshFile {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name.
        self.fresh.iter().for_each(|fresh| drop(fs::remove_file(fresh)));
    }
}

/// Whether two paths lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

impl<'a> Output<'a> {
    pub(super) fn open(
        trained: &TrainedModel,
        format: PredictionFormat,
        asked: &super::Options,
        terminal: &'a Terminal,
    ) -> Result<Self, SessionFailure> {
        let wanted = asked.wanted();
        let (task, options) = (trained.task.clone(), trained.options.clone());
        if task.objective() == Objective::Number && (wanted.probabilities || wanted.logits || wanted.top.is_some()) {
            let message = "the answers of this model are numbers: there are no classes with probabilities or logits";
            return Err(SessionFailure::Usage(message.to_owned()));
        }
        let (classes, vocabulary) = (task.classes(&options), task.vocabulary(&options));
        let file = asked.output.as_deref().map(|path| FreshFile::create(path, asked.input.as_deref())).transpose()?;
        let (is_text, written, labelled) = (task.written_answer().is_some(), 0, false);
        Ok(Self { format, wanted, task, options, classes, vocabulary, is_text, written, labelled, terminal, file })
    }

    pub(super) fn write(&mut self, answer: &SequenceAnswer) -> Result<(), SessionFailure> {
        if self.written == 0 {
            self.labelled = answer.label.is_some();
        }
        if self.format == PredictionFormat::Csv
            && !self.labelled
            && answer.label.as_ref().is_some_and(|label| !label.is_null())
        {
            return Err(SessionFailure::Usage(format!(
                "line {} has a label, and the first input is a text without one, so this CSV has no column for it: take `--format \
                 jsonl`, or give all inputs as JSON objects",
                answer.line
            )));
        }
        let text = match self.format {
            PredictionFormat::Text => self.text(answer),
            PredictionFormat::Jsonl => format!("{}\n", self.object(answer)),
            PredictionFormat::Csv => self.rows(answer),
        };
        self.written += 1;
        self.put(&text)
    }

    fn put(&mut self, text: &str) -> Result<(), SessionFailure> {
        match &mut self.file {
            Some(file) => file.write(text),
            None => self.terminal.result(text),
        }
    }

    /// Gives a file its name.
    pub(super) fn finish(mut self) -> Result<(), SessionFailure> {
        if self.format == PredictionFormat::Csv && self.written == 0 {
            let head = self.head();
            self.put(&head)?;
        }
        match self.file {
            Some(file) => file.finish(),
            None => Ok(()),
        }
    }

    fn each(&self) -> bool {
        self.task.objective() == Objective::Each
    }

    fn number(&self, answer: &SequenceAnswer) -> Option<f64> {
        answer.number.map(|number| self.task.scale(&self.options).of_model(number))
    }

    /// The class, the labels with commas between, or the number.
    fn name(&self, item: &SingleAnswer) -> String {
        match &item.labels {
            Some(labels) => set_text(&self.classes, labels.iter().copied()),
            None => self.class(item.class as usize),
        }
    }

    fn class(&self, class: usize) -> String {
        self.classes.get(class).cloned().unwrap_or_else(|| class.to_string())
    }

    fn token(&self, token: u32) -> String {
        self.vocabulary.get(token as usize).cloned().unwrap_or_else(|| token.to_string())
    }

    /// A line of tabs, and what was asked for besides below it.
    fn text(&self, answer: &SequenceAnswer) -> String {
        let steps = answer.steps.map_or("-".to_owned(), |steps| format!("{steps:.1}"));
        // Where an answer is a token, the task knows how it is written: characters stand side by side.
        let written = match answer.number {
            Some(number) => self.task.scale(&self.options).text(number),
            None if self.vocabulary == self.classes => self.task.decode(&predictions(answer), &self.options),
            None => answer.items.iter().map(|item| self.name(item)).collect::<Vec<_>>().join(" "),
        };
        let least = answer.items.iter().map(|item| item.confidence).reduce(f64::min);
        let sure = least.map_or("-".to_owned(), |least| format!("{:.1} %", 100.0 * least));
        let numbers: String = answer.items.iter().enumerate().map(|(n, item)| self.numbers(answer, n, item)).collect();
        let halting: String = answer.explanation.halting.iter().flatten().map(unit_text).collect();
        let trees: String = answer.explanation.trees.iter().flatten().map(tree_text).collect();
        let attention: String = answer.explanation.attention.iter().map(attention_text).collect();
        format!("{written}\t{sure}\t{steps}\t{}\n{numbers}{halting}{trees}{attention}", answer.text)
    }

    /// `    9  87.2 %  logit 3.512`, the most probable class first.
    fn numbers(&self, answer: &SequenceAnswer, n: usize, item: &SingleAnswer) -> String {
        let ClassNumbers { probabilities, logits, top } = self.wanted;
        if !probabilities && !logits && top.is_none() {
            return String::new();
        }
        let place = match answer.tokens.get(n).filter(|_| self.each()) {
            Some(token) => format!("{n} {}  ", self.token(*token)),
            None => String::new(),
        };
        let line = |(class, probability): (usize, f64)| {
            let share =
                if probabilities || top.is_some() { format!("  {:.1} %", 100.0 * probability) } else { String::new() };
            let logit = if logits { format!("  logit {:.4}", item.logits[class]) } else { String::new() };
            format!("    {place}{}{share}{logit}\n", self.class(class))
        };
        item.top(top.unwrap_or(usize::MAX)).into_iter().map(line).collect()
    }

    fn object(&self, answer: &SequenceAnswer) -> Value {
        let names: Vec<String> = answer.items.iter().map(|item| self.name(item)).collect();
        let confidence: Vec<f64> = answer.items.iter().map(|item| item.confidence).collect();
        let mut row = json!({ "text": answer.text });
        if self.is_text {
            row["target"] = json!(self.task.written(&predictions(answer), &self.options));
        }
        match (self.task.objective(), &answer.items[..]) {
            (Objective::Number, _) => row["number"] = json!(self.number(answer)),
            (Objective::Several, [SingleAnswer { labels: Some(labels), .. }]) => {
                let there = self.classes.iter().zip(labels).filter(|(_, there)| **there);
                row["labels"] = there.map(|(name, _)| name.as_str()).collect();
                row["confidence"] = json!(confidence[0]);
            }
            (Objective::Classify | Objective::Pair, [_]) => {
                row["class"] = json!(names[0]);
                row["confidence"] = json!(confidence[0]);
            }
            _ => {
                row["classes"] = json!(names);
                row["confidence"] = json!(confidence);
            }
        }
        row["steps"] = json!(answer.steps);
        if let Some(label) = answer.label.as_ref().filter(|label| !label.is_null()) {
            row["label"] = label.clone();
        }
        if self.task.unknown().is_some() {
            row["unknown"] = json!(answer.unknown);
        }
        if answer.cut > 0 {
            row["cut"] = json!(answer.cut);
        }
        self.add_explanation(&mut row, answer);
        row
    }

    /// Adds the numbers of classes, the halting and the trees that were asked for.
    fn add_explanation(&self, row: &mut Value, answer: &SequenceAnswer) {
        let ClassNumbers { probabilities, logits, top } = self.wanted;
        if probabilities {
            row["probabilities"] = self.of_items(answer, |item| self.by_class(&item.probabilities()));
        }
        if logits {
            row["logits"] = self.of_items(answer, |item| self.by_class(&item.logits));
        }
        if let Some(count) = top {
            let one = |(class, p): (usize, f64)| json!({ "class": self.class(class), "probability": p });
            row["top"] = self.of_items(answer, |item| item.top(count).into_iter().map(&one).collect());
        }
        if let Some(units) = &answer.explanation.halting {
            row["halting"] = units.iter().map(unit_json).collect();
        }
        if let Some(trees) = &answer.explanation.trees {
            row["trees"] = trees.iter().map(tree_json).collect();
        }
        if let Some(NamedAttention { panels, notes }) = &answer.explanation.attention {
            row["attention"] = panels.iter().map(attention_json).collect();
            row["attention_notes"] = json!(notes);
        }
    }

    /// The value of the answer, or a list with that of every token.
    fn of_items(&self, answer: &SequenceAnswer, value: impl Fn(&SingleAnswer) -> Value) -> Value {
        match (&answer.items[..], self.each()) {
            ([item], false) => value(item),
            (items, _) => items.iter().map(value).collect(),
        }
    }

    fn by_class(&self, numbers: &[f64]) -> Value {
        let named = numbers.iter().enumerate().map(|(class, number)| (self.class(class), json!(number)));
        Value::Object(named.collect::<Map<_, _>>())
    }

    /// The names of the columns.
    fn head(&self) -> String {
        let own: &[&str] = match self.task.objective() {
            Objective::Each if self.is_text => &["text", "target", "confidence", "steps"],
            Objective::Each => &["sequence", "position", "token", "class", "confidence", "steps"],
            Objective::Classify | Objective::Pair => &["text", "class", "confidence", "steps"],
            Objective::Several => &["text", "labels", "confidence", "steps"],
            Objective::Number => &["text", "number", "steps"],
        };
        let mut names: Vec<String> = own.iter().map(|name| (*name).to_owned()).collect();
        let of_classes = |word: &str| self.classes.iter().map(|class| format!("{word} {class}")).collect::<Vec<_>>();
        let ClassNumbers { probabilities, logits, top } = self.wanted;
        if probabilities {
            names.extend(of_classes("probability"));
        }
        if logits {
            names.extend(of_classes("logit"));
        }
        for n in 1..=top.unwrap_or(0).min(self.classes.len()) {
            names.extend([format!("class {n}"), format!("probability {n}")]);
        }
        if self.labelled {
            names.push("label".to_owned());
        }
        csv_row(&names)
    }

    /// The label of an answer, or of its item `n`, as a cell; none where the file has no labels.
    fn label(&self, answer: &SequenceAnswer, n: usize) -> Vec<String> {
        let text = |label: &Value| match label {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let cell = match &answer.label {
            None => String::new(),
            Some(Value::Array(labels)) if self.each() => labels.get(n).map_or_else(String::new, text),
            Some(Value::Array(labels)) => labels.iter().map(text).collect::<Vec<_>>().join(", "),
            Some(label) => text(label),
        };
        if self.labelled { vec![cell] } else { vec![] }
    }

    /// A row per sequence, or per token; the first ones below the names of the columns.
    fn rows(&self, answer: &SequenceAnswer) -> String {
        let head = if self.written == 0 { self.head() } else { String::new() };
        let steps = answer.steps.map_or_else(String::new, |steps| steps.to_string());
        if let Some(number) = self.number(answer) {
            let row = [answer.text.clone(), number.to_string(), steps];
            return head + &csv_row(&[&row[..], &self.label(answer, 0)].concat());
        }
        if self.is_text {
            let target = self.task.written(&predictions(answer), &self.options);
            let sure = answer.items.iter().map(|item| item.confidence).fold(1.0, f64::min);
            let row = [answer.text.clone(), target, sure.to_string(), steps];
            return head + &csv_row(&[&row[..], &self.label(answer, 0)].concat());
        }
        let row = |(n, item): (usize, &SingleAnswer)| {
            let place = match self.each() {
                true => vec![(self.written + 1).to_string(), n.to_string(), self.token(answer.tokens[n])],
                false => vec![answer.text.clone()],
            };
            let own = [self.name(item), item.confidence.to_string(), steps.clone()];
            csv_row(&[&place[..], &own, &self.columns(item), &self.label(answer, n)].concat())
        };
        head + &answer.items.iter().enumerate().map(row).collect::<String>()
    }

    fn columns(&self, item: &SingleAnswer) -> Vec<String> {
        let ClassNumbers { probabilities, logits, top } = self.wanted;
        let mut columns = vec![];
        if probabilities {
            columns.extend(item.probabilities().iter().map(f64::to_string));
        }
        if logits {
            columns.extend(item.logits.iter().map(f64::to_string));
        }
        for (class, probability) in top.map_or_else(Vec::new, |count| item.top(count)) {
            columns.extend([self.class(class), probability.to_string()]);
        }
        columns
    }
}

/// The classes of an answer.
fn predictions(answer: &SequenceAnswer) -> Vec<u32> {
    answer.items.iter().map(|item| item.class).collect()
}

fn unit_json(TracedUnit { place, unit }: &TracedUnit) -> Value {
    json!({
        "place": place, "start": unit.start, "length": unit.length, "steps": unit.steps(), "weights": unit.weights(),
    })
}

fn attention_json(panel: &AttentionPanel) -> Value {
    let weights: Vec<Vec<&[f64]>> = (0..panel.heads).map(|head| panel.rows(head).collect()).collect();
    json!({ "place": panel.place, "queries": panel.queries, "keys": panel.keys, "weights": weights })
}

/// `    self  head 1  position 3 [MIN: 2 (1) 0.512, 5 (2) 0.231`, a line per query and head, and the notes.
fn attention_text(found: &NamedAttention) -> String {
    /// Keys of a line.
    const HEAVIEST: usize = 3;
    let mut text = String::new();
    for (panel, head) in found.panels.iter().flat_map(|panel| (0..panel.heads).map(move |head| (panel, head))) {
        for (query, weights) in panel.rows(head).enumerate() {
            let mut order: Vec<usize> = (0..weights.len()).filter(|key| weights[*key] > 0.0).collect();
            order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
            let one = |key: &usize| format!("{} ({key}) {:.3}", panel.keys[*key], weights[*key]);
            let keys: Vec<String> = order.iter().take(HEAVIEST).map(one).collect();
            let keys = if keys.is_empty() { "no key".to_owned() } else { keys.join(", ") };
            text += &format!("    {}  head {}  {} ({query}): {keys}\n", panel.place, head + 1, panel.queries[query]);
        }
    }
    text + &found.notes.iter().map(|note| format!("    {note}\n")).collect::<String>()
}

fn tree_json(tree: &RecursionTree) -> Value {
    let beam = |beam: &Beam| {
        let (weight, score, beams) = (beam.weight, beam.score, beam.count);
        json!({ "weight": weight, "score": score, "beams": beams, "tree": tree.bracketed(beam), "spans": beam.spans })
    };
    json!({ "place": tree.place, "trees": tree.beams.iter().map(beam).collect::<Vec<_>>() })
}

/// `    beam: 87.2 %, score -0.35  ( ( [MAX 2 ) ( 9 ] ) )`, a line per tree.
fn tree_text(tree: &RecursionTree) -> String {
    let line = |beam: &Beam| format!("    {}  {}\n", tree.describe(beam), tree.bracketed(beam));
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
