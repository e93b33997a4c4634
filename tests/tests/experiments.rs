//! Every experiment compiles with every model that it has a block for, and those of the paper's size have the size that the paper's has.

use std::path::{Path, PathBuf};

use rtc_compiler::check::{Loader, check, names};
use rtc_compiler::diag::{Style, render};
use rtc_compiler::ir::types::Dim;
use rtc_compiler::lower::Binding;
use rtc_compiler::pipeline;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_runtime::experiment::{EMBEDDED, Experiment, ExperimentFile};
use rtc_runtime::task::{Objective, resolve_options, task_named};

/// Parameters of the published models, in the order of `MODELS`, with the width by which a vocabulary that is smaller by one
/// has fewer: theirs has padding, separators and unknown words. For the two chunk models that may be another width.
const PUBLISHED: &[(&str, usize, [usize; 5], [usize; 2])] = &[
    ("listops", 18, [8_680_970, 2_641_931, 3_954_187, 8_167_946, 6_592_011], [512, 512]),
    ("logic", 14, [9_463_815, 3_424_776, 4_737_032, 8_945_671, 7_369_736], [512, 512]),
    ("flip_flop", 5, [19_168_769, 3_680_258, 6_042_114, 16_028_673, 10_251_778], [512, 512]),
    ("lra_listops", 18, [8_680_970, 2_641_931, 3_954_187, 8_208_906, 6_632_971], [512, 512]),
    ("lra_text", 257, [3_287_297, 987_138, 1_578_242, 2_633_985, 2_239_234], [256, 256]),
    ("lra_retrieval", 257, [889_985, 313_346, 461_442, 727_169, 628_098], [128, 128]),
    ("lra_image", 256, [117_130, 133_771, 183_179, 217_610, 283_659], [128, 128]),
    ("lra_pathfinder", 256, [87_169, 58_178, 78_850, 316_033, 282_498], [64, 128]),
];
const MODELS: [&str; 5] = ["transformer", "ut", "gut", "tlb", "gutlb"];

fn specs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../specs")
}

/// Every file of specs.
fn sources() -> Vec<Source> {
    let entries = std::fs::read_dir(specs()).expect("specs/ exists");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("specs/ can be read").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "rt"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a spec is readable");
    paths.iter().map(|path| Source::new(path.display().to_string(), read(path))).collect()
}

/// Reads the specs.
struct Folder(PathBuf);

impl Loader for Folder {
    fn load(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.0.join(path)).map_err(|_| "not found".to_owned())
    }
}

/// Number of parameters of a model in an experiment; `name` is that of a block, as `gut:no_gate`.
fn parameters(experiment: &Experiment, name: &str) -> usize {
    let task = task_named(&experiment.task.name).expect("the experiment was checked");
    let options = resolve_options(task.options(), &experiment.task.options).expect("the experiment was checked");
    let catalog = Catalog {
        task: Some(task.name().to_owned()),
        vocabulary: Some(task.vocabulary(&options).len()),
        classes: Some(task.classes(&options).len()),
        objective: Some(task.objective()),
        next_token: task.next_token(),
    };
    // A block of a model is for its causal variant where every token is answered.
    let each = task.objective() == Objective::Each && !name.contains(':');
    let name = if each { format!("{name}:causal") } else { name.to_owned() };
    let source = sources().into_iter().find(|source| names(source).contains(&name));
    let source = source.unwrap_or_else(|| panic!("no spec has `{name}`"));
    let (spec, problems, sources) = check(&Folder(specs()), source, Some(&name), &experiment.set, &catalog);
    let spec = spec.unwrap_or_else(|| panic!("{name}: {}", render(&problems, &sources, Style::Plain)));
    let graph = pipeline::forward(&spec, &Binding::from(&catalog)).expect("it lowers");
    let size = |dims: &[Dim]| dims.iter().filter_map(Dim::fixed).product::<usize>();
    graph.parameters().iter().map(|parameter| size(parameter.ty.dims())).sum()
}

#[test]
fn every_model_of_every_experiment_compiles() {
    for (name, text) in EMBEDDED {
        let file = ExperimentFile::parse(name, text).expect("valid");
        for model in file.models() {
            assert!(parameters(&file.resolve(Some(model), &[]).expect("valid"), model) > 1_000, "{name} {model}");
        }
    }
}

#[test]
fn experiments_of_the_papers_size_have_the_published_numbers_of_parameters() {
    for (name, vocabulary, counts, widths) in PUBLISHED {
        let file = ExperimentFile::embedded(name).expect("embedded");
        for (n, model) in MODELS.iter().enumerate() {
            let experiment = file.resolve(Some(model), &[]).expect("valid");
            let task = task_named(&experiment.task.name).expect("checked");
            let options = resolve_options(task.options(), &experiment.task.options).expect("checked");
            let fewer = vocabulary - task.vocabulary(&options).len();
            let width = if model.ends_with("lb") { widths[1] } else { widths[0] };
            assert_eq!(parameters(&experiment, model), counts[n] - fewer * width, "{name} {model}");
        }
    }
}
