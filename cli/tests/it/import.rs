//! `rtc import`: folders in Hugging Face's format become specs that give the numbers of the published model.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rtc_export::weights::{Weight, safetensors};
use rtc_tests::python::{self, Process};
use serde_json::{Value, json};

use crate::support::{Answer, Place};

/// Fixtures that can't be imported, and why.
const REFUSED: &[(&str, &str)] = &[("bert", "nothing is known of the family `bert`")];

/// The words of the tokenizer; the model has two ids more.
const WORDS: [&str; 10] = ["<s>", "<unk>", "The", "quick", "brown", "fox", "jumps", "over", "the", "lazy"];
/// Ids of the model.
const IDS: usize = 12;

/// The fields of a published model of two layers.
fn config() -> Value {
    json!({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "rope_scaling": null, "tie_word_embeddings": false,
        "attention_bias": false, "mlp_bias": false, "vocab_size": IDS, "bos_token_id": 0, "torch_dtype": "float32",
        "is_llama_config": true, "rope_interleaved": false, "transformers.js_config": {},
    })
}

/// The shapes of its weights.
fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![IDS, 8]),
        ("lm_head.weight".to_owned(), vec![IDS, 8]),
        ("model.norm.weight".to_owned(), vec![8]),
    ];
    for layer in 0..2 {
        for (name, shape) in [
            ("input_layernorm", vec![8]),
            ("post_attention_layernorm", vec![8]),
            ("self_attn.q_proj", vec![8, 8]),
            ("self_attn.k_proj", vec![4, 8]),
            ("self_attn.v_proj", vec![4, 8]),
            ("self_attn.o_proj", vec![8, 8]),
            ("mlp.gate_proj", vec![12, 8]),
            ("mlp.up_proj", vec![12, 8]),
            ("mlp.down_proj", vec![8, 12]),
        ] {
            shapes.push((format!("model.layers.{layer}.{name}.weight"), shape));
        }
    }
    shapes
}

/// Writes weights of these shapes; those of the head are 0.
fn write_weights(place: &Place, file: &str, shapes: &[(String, Vec<usize>)]) {
    let numbers = |name: &str, count: usize| -> Vec<f32> {
        let of = |n: usize| {
            if name == "lm_head.weight" { 0.0 } else { ((n * 37 + name.len() * 11) % 19) as f32 / 19.0 - 0.4 }
        };
        (0..count).map(of).collect()
    };
    let all: Vec<Vec<f32>> = shapes.iter().map(|(name, shape)| numbers(name, shape.iter().product())).collect();
    let pairs = shapes.iter().zip(&all);
    let weights: Vec<Weight<'_>> = pairs.map(|((name, shape), numbers)| Weight { name, shape, numbers }).collect();
    fs::write(place.path(file), safetensors(&weights)).expect("a new file");
}

/// Writes the folder of a published model.
pub(crate) fn publish(place: &Place, name: &str) {
    fs::create_dir_all(place.path(name)).expect("a new folder");
    place.write(&format!("{name}/config.json"), &config().to_string());
    let vocabulary: Value = WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    let special = json!({"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true});
    let begin = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing", "single": [begin, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
        },
        "decoder": null, "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    });
    place.write(&format!("{name}/tokenizer.json"), &tokenizer.to_string());
    write_weights(place, &format!("{name}/model.safetensors"), &shapes());
}

/// The model that [`publish`] writes, as a spec.
const SPEC: &str = "\
use \"lib/pretrained.rt\"

/// Llama 1 to 3, and models of their form: 2 layers, imported from `published`.
/// Source: Touvron et al. 2023, arXiv:2302.13971; Grattafiori et al. 2024, arXiv:2407.21783.
model llama {
    embed { width: 8 }
    stack 2 {
        llama_layer {
            heads: 2
            key_heads: 1
            head_width: 4
            hidden: 12
            eps: 0.00001
            base: 500000.0
        }
    }
    norm { kind: rms, eps: 0.00001 }
    readout each
    head linear { bias: false }
}
";

/// The arguments behind a command that use the imported model.
const WITH: [&str; 6] =
    ["--experiment", "own/experiment.yaml", "--weights", "published", "--weights-map", "own/names.json"];

#[test]
fn a_published_model_becomes_a_spec_that_runs() {
    let place = Place::new();
    publish(&place, "published");
    let said = place.rtc(&["import", "published", "--output", "own"]);
    said.code(0)
        .says("own: model.rt, experiment.yaml, names.json, text.txt; llama")
        .says("the task puts `<s>` before every text");
    said.says("next: rtc generate own/model.rt --experiment own/experiment.yaml --weights published");
    assert_eq!(place.read("own/model.rt"), SPEC);
    assert!(
        place.read("own/experiment.yaml").contains("\n  begin: \"<s>\"\n"),
        "{}",
        place.read("own/experiment.yaml")
    );
    assert!(place.read("own/text.txt").starts_with("The quick brown fox"), "{}", place.read("own/text.txt"));
    place.rtc(&["check", "own/model.rt"]).code(0);
    place.rtc(&["fmt", "--check", "own/model.rt"]).code(0);
    // A head of zeros gives every id the same probability.
    let found = place.rtc(&[&["eval", "own/model.rt", "--json"], &WITH[..]].concat()).code(0).json();
    let perplexity = found["splits"][0]["perplexity"].as_f64().expect("a number");
    assert!((perplexity - IDS as f64).abs() < 1e-4, "{found:#}");
    place.rtc(&[&["generate", "own/model.rt", "The quick", "--length", "3"], &WITH[..]].concat()).code(0);
    // The spec is one like others: what it edits it trains.
    let looped =
        "replace stack by loop { steps: 2, llama_layer { heads: 2, key_heads: 1, head_width: 4, hidden: 12 } }";
    place.rtc(&["check", "own/model.rt", "--set", looped]).code(0);
    // Updates go on from the weights, and the map is no part of the run.
    let train = [&["train", "own/model.rt", "--max-steps", "2", "--run", "r", "--quiet"], &WITH[..]].concat();
    place.rtc(&train).code(0);
    place.rtc(&["generate", "r", "The", "--length", "2"]).code(0);
}

#[test]
fn names_without_a_prefix_and_tied_heads_that_are_saved_twice_are_known() {
    let place = Place::new();
    publish(&place, "published");
    let bare = |(name, shape): (String, Vec<usize>)| (name.trim_start_matches("model.").to_owned(), shape);
    let mut tied = config();
    tied["tie_word_embeddings"] = true.into();
    place.write("published/config.json", &tied.to_string());
    let all: Vec<_> = shapes().into_iter().map(bare).filter(|(name, _)| name != "lm_head.weight").collect();
    write_weights(&place, "published/model.safetensors", &all);
    place.rtc(&["import", "published", "--output", "bare"]).code(0);
    assert!(place.read("bare/model.rt").contains("head tied\n"), "{}", place.read("bare/model.rt"));
    // The head of the file is another matrix than the table.
    write_weights(&place, "published/model.safetensors", &shapes());
    place.rtc(&["import", "published", "--output", "apart"]).code(0);
    assert!(place.read("apart/model.rt").contains("head linear { bias: false }\n"), "{}", place.read("apart/model.rt"));
}

#[test]
fn what_cannot_be_imported_is_said_and_leaves_nothing() {
    let place = Place::new();
    publish(&place, "published");
    let import = ["import", "published", "--output", "own"];
    for (field, value, said) in [
        ("mlp_bias", json!(true), "`mlp_bias` is true, and only false can be imported"),
        ("attention_sinks", json!(4), "nothing is known of `attention_sinks` in a model of the family `llama`"),
        ("hidden_act", json!("mish"), "`hidden_act` is \"mish\", which is no function that can be imported"),
        ("rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "its positions are of the kind `dynamic`"),
        (
            "rope_scaling",
            json!({"rope_type": "llama3", "factor": 2.0}),
            "`low_freq_factor` of its positions is no number",
        ),
        (
            "rope_scaling",
            json!({"rope_type": "yarn", "factor": 2.0, "truncate": false}),
            "its positions are of the kind `yarn` with `truncate`, which can't be imported",
        ),
        ("model_type", json!("lama"), "nothing is known of the family `lama` (known: cohere, gemma2"),
        ("partial_rotary_factor", json!(0.5), "a part of its channels turns, and all do in a layer of `llama`"),
        ("num_hidden_layers", json!(0), "`num_hidden_layers` is no number from 1 to 1000"),
        ("num_hidden_layers", json!(4_000_000_000_u64), "`num_hidden_layers` is no number from 1 to 1000"),
        (
            "layer_types",
            json!(["full_attention", "linear_attention"]),
            "`layer_types` has linear_attention for layer 1",
        ),
    ] {
        let mut changed = config();
        changed[field] = value;
        place.write("published/config.json", &changed.to_string());
        place.rtc(&import).code(2).says("published/config.json: ").says(said);
        assert!(!place.path("own").exists(), "{field}");
    }
    place.write("published/config.json", "[]");
    place.rtc(&import).code(2).says("published/config.json: it is no object");
    place.write("published/config.json", &config().to_string());
    let mut few = shapes();
    few.retain(|(name, _)| name != "model.layers.1.mlp.up_proj.weight");
    few.push(("model.layers.1.mlp.up_proj.bias".to_owned(), vec![12]));
    write_weights(&place, "published/model.safetensors", &few);
    let said = place.rtc(&import);
    said.code(7)
        .says("`layers.1.mlp.up_proj.weight` is missing, of which `stack.1.llama_layer.network.up.weight` is made");
    said.says("`model.layers.1.mlp.up_proj.bias` is no weight of the family `llama`");
    assert!(!place.path("own").exists());
    let mut other = shapes();
    other[0].1 = vec![IDS + 1, 8];
    write_weights(&place, "published/model.safetensors", &other);
    place.rtc(&import).code(7).says("`embed.table` has shape [13, 8], the model has [12, 8]");
    assert!(!place.path("own").exists());
    write_weights(&place, "published/model.safetensors", &shapes());
    fs::create_dir(place.path("own")).expect("a new folder");
    place.write("own/kept", "");
    place.rtc(&import).code(2).says("own is there already, and is no empty folder");
    let mut biased = config();
    biased["attention_bias"] = true.into();
    place.write("published/config.json", &biased.to_string());
    place
        .rtc(&[&import[..], &["--loop", "0..1", "--steps", "2", "--rank", "1"]].concat())
        .code(2)
        .says("its layers have no form with");
    place.write("published/config.json", &config().to_string());
    place.rtc(&["import", "nowhere", "--output", "new"]).code(6).says("nowhere/config.json");
    place.write("family.yaml", "model_type: mine\n");
    place
        .rtc(&["import", "published", "--output", "new", "--family", "family.yaml"])
        .code(2)
        .says("family.yaml: no family");
}

#[test]
fn a_family_of_a_file_is_taken() {
    let place = Place::new();
    publish(&place, "published");
    let own = include_str!("../../../specs/families/llama.yaml").replace("model_type: llama", "model_type: mine");
    place.write("mine.yaml", &own);
    place.rtc(&["import", "published", "--output", "own", "--family", "mine.yaml"]).code(0).says("; mine, ");
    assert!(place.read("own/model.rt").contains("model mine {"), "{}", place.read("own/model.rt"));
    let back = ["export", "own/model.rt", "--output", "back", "--format", "huggingface"];
    let back = [&back[..], &WITH[..]].concat();
    place.rtc(&back).code(2).says("`--format huggingface` and `--like` go together");
    let like = ["--like", "published", "--family", "mine.yaml"];
    place.rtc(&[&back[..], &like[..]].concat()).code(0).says("wrote 3 files into");
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        let bytes = |folder: &str| fs::read(place.path(folder).join(name)).expect("a file");
        assert!(bytes("back") == bytes("published"), "{name}");
    }
    place.rtc(&[&back[..], &like[..]].concat()).code(2).says("is not empty: name a new folder");
}

/// A published model that is imported and compared with its numbers in double precision.
struct Published<'p> {
    place: &'p Place,
    /// Its folder in `RTC_PRETRAINED`.
    path: PathBuf,
    /// The folder with links to its files.
    name: String,
}

impl<'p> Published<'p> {
    /// One with this file as its `config.json`.
    fn new(place: &'p Place, path: &Path, config: &str) -> Self {
        let name = format!("{}-{config}", path.file_name().expect("a name").to_string_lossy());
        fs::create_dir_all(place.path(&name)).expect("a new folder");
        for file in fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            let own = file.file_name().expect("a name").to_string_lossy().into_owned();
            let is_weights = own.ends_with(".safetensors") && !own.starts_with("model");
            if !own.starts_with("config") && !is_weights {
                symlink(&file, place.path(&format!("{name}/{own}"))).expect("a new link");
            }
        }
        symlink(path.join(config), place.path(&format!("{name}/config.json"))).expect("a new link");
        Self { place, path: path.to_owned(), name }
    }

    /// Imports it into a new folder.
    fn import(&self, own: &str, options: &[&str]) -> Answer {
        self.place.rtc(&[&["import", &self.name, "--output", own], options].concat())
    }

    /// The arguments by which a command takes the spec of a folder with the weights of this one.
    fn with(&self, own: &str) -> [String; 7] {
        let file = |name: &str| format!("{own}/{name}");
        let [experiment, map] = ["experiment.yaml", "names.json"].map(file);
        let [e, w, m] = ["--experiment", "--weights", "--weights-map"].map(str::to_owned);
        [file("model.rt"), e, experiment, w, self.name.clone(), m, map]
    }

    /// Writes the weights back, which gives the bytes of every file.
    fn comes_back(&self, own: &str) {
        let (back, with) = (format!("{own}/back"), self.with(own));
        let args = ["export", "--format", "huggingface", "--like", &self.name, "--output", &back];
        self.place.rtc(&args.into_iter().chain(with.iter().map(String::as_str)).collect::<Vec<_>>()).code(0);
        let names = |folder: &str| {
            let entries = fs::read_dir(self.place.path(folder)).expect("a folder");
            let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&back), names(&self.name));
        for name in names(&back) {
            let bytes = |folder: &str| fs::read(self.place.path(folder).join(&name)).expect("a file");
            assert!(bytes(&back) == bytes(&self.name), "{own}: {name:?} differs");
        }
    }

    /// Adds a tensor of another file to the weights.
    fn add(&self, python: &mut Process, from: &Path, tensor: &str) {
        let file = self.place.path(&self.name).join("model.safetensors");
        python.ask(&json!({ "add": from, "tensor": tensor, "into": file }));
    }

    /// Compares what the spec of a folder gives with the numbers behind a prefix; tells how many gradients were compared.
    fn compare(&self, python: &mut Process, own: &str, prefix: &str) -> u64 {
        self.compare_with(python, own, prefix, &[])
    }

    /// The same with further arguments.
    fn compare_with(&self, python: &mut Process, own: &str, prefix: &str, more: &[&str]) -> u64 {
        let found = self.differences(python, own, prefix, more);
        for what in ["logits", "gradients"] {
            assert!(found[what].as_f64().is_some_and(|far| far < 1e-10), "{own}, {prefix}{what}: {found}");
        }
        found["compared"].as_u64().expect("a number")
    }

    /// The largest differences.
    fn differences(&self, python: &mut Process, own: &str, prefix: &str, more: &[&str]) -> Value {
        let (map, exported) = (format!("{own}/names.json"), format!("{own}/exported-{prefix}"));
        let with = self.with(own);
        let args = ["export", "--format", "torch", "--output", &exported].into_iter();
        let args = args.chain(with.iter().map(String::as_str)).chain(more.iter().copied());
        self.place.rtc(&args.collect::<Vec<_>>()).code(0);
        python.ask(&json!({
            "exported": self.place.path(&exported), "io": self.path.join("io.safetensors"), "names": self.place.path(&map),
            "prefix": prefix,
        }))
    }
}

/// The folders of `RTC_PRETRAINED`, and a Python that compares; none where one of them is missing.
fn folders() -> Option<(Vec<PathBuf>, Process)> {
    let Some(folder) = std::env::var_os("RTC_PRETRAINED") else {
        python::skip("RTC_PRETRAINED names no folder with published models");
        return None;
    };
    let python = Process::start("pretrained.py")?;
    let mut folders: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    folders.retain(|path| path.join("io.safetensors").is_file() && path.join("config.json").is_file());
    folders.sort();
    Some((folders, python))
}

/// Every folder, in today's form and in that of older files, by the path of a user: import, export, PyTorch.
#[test]
fn folders_give_the_float64_numbers_of_their_models() {
    let Some((folders, mut python)) = folders() else { return };
    let (place, mut compared) = (Place::new(), 0);
    for path in folders {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        // Retrofits have a test of their own.
        if name.starts_with("retrofit-") {
            continue;
        }
        for config in ["config.json", "config.hub.json"].into_iter().filter(|config| path.join(config).is_file()) {
            let published = Published::new(&place, &path, config);
            let own = format!("{name}-{config}-own");
            let said = published.import(&own, &[]);
            if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                said.code(2).says(why);
                continue;
            }
            said.code(0);
            assert!(published.compare(&mut python, &own, "") > 5, "{name}, {config}");
            published.comes_back(&own);
            compared += 1;
        }
    }
    assert!(compared > 0, "no folder could be compared");
}

/// The middle layers of a model several times, without training: at one step the model itself.
#[test]
fn looped_layers_give_the_float64_numbers_of_the_retrofit() {
    let Some((folders, mut python)) = folders() else { return };
    let Some(path) = folders.iter().find(|path| path.ends_with("retrofit-llama-loop")) else {
        return python::skip("RTC_PRETRAINED has no retrofit-llama-loop");
    };
    let place = Place::new();
    let published = Published::new(&place, path, "config.json");
    published.import("looped", &["--loop", "1..2"]).code(0);
    published.import("whole", &[]).code(0);
    let spec = place.read("looped/model.rt");
    for (steps, gradients) in [(1, 0), (2, 18), (4, 38)] {
        place.write("looped/model.rt", &spec.replace("steps: 1", &format!("steps: {steps}")));
        assert_eq!(published.compare(&mut python, "looped", &format!("r{steps}.")), gradients, "{steps} steps");
    }
    // One step is the published model.
    place.write("looped/model.rt", &spec);
    let with = ["--experiment", "looped/experiment.yaml", "--weights", &published.name];
    let eval = |own: &str| {
        let (spec, map) = (format!("{own}/model.rt"), format!("{own}/names.json"));
        let args = [&["eval", &spec, "--json", "--weights-map", &map], &with[..]].concat();
        place.rtc(&args).code(0).json()["splits"][0]["loss"].clone()
    };
    assert_eq!(eval("looped"), eval("whole"));
    published.import("wrong", &["--loop", "2..4"]).code(2).says("`--loop 2..4`: the model has layers 0..3");
    published.import("wrong", &["--loop", "2"]).code(2).says("layers are FIRST..LAST");
}

/// An adapter before the looped layers, which begins as the state itself: drawn where the folder has none, or given beside it.
#[test]
fn adapters_give_the_float64_numbers_of_the_retrofit() {
    let Some((folders, mut python)) = folders() else { return };
    let Some(path) = folders.iter().find(|path| path.ends_with("retrofit-llama-inject")) else {
        return python::skip("RTC_PRETRAINED has no retrofit-llama-inject");
    };
    let place = Place::new();
    let published = Published::new(&place, path, "config.json");
    published.import("own", &["--loop", "1..2"]).code(0);
    let spec = place.read("own/model.rt");
    let injected = |steps: usize| {
        let added = format!(
            "loop {{\n        steps: {steps}\n        adapter = linear(cat(state, e)) {{ bias: false, init: identity }}\n        state = adapter"
        );
        spec.replace("    loop {\n        steps: 1", &format!("    e = state\n    {added}"))
    };
    place.write("own/model.rt", &injected(1));
    let with = published.with("own");
    let eval = |more: &[&str]| {
        let args = ["eval", "--json"].into_iter().chain(with.iter().map(String::as_str));
        place.rtc(&args.chain(more.iter().copied()).collect::<Vec<_>>())
    };
    eval(&[]).code(7).says("`loop.adapter.weight` [32, 64] is missing");
    eval(&["--draw", "loop.adaptor"]).code(7).says("`--draw loop.adaptor`: the model has no parameter there");
    eval(&["--draw", "loop"]).code(7).says("is there, and was to be drawn (`--draw`): leave one of them out");
    let loss = eval(&["--draw", "loop.adapter"]).code(0).json()["splits"][0]["loss"].clone();
    place.write("own/model.rt", &spec);
    assert_eq!(eval(&[]).code(0).json()["splits"][0]["loss"], loss, "the adapter begins as the state");
    place.write("own/model.rt", &injected(1));
    published.compare_with(&mut python, "own", "identity.r1.", &["--draw", "loop.adapter"]);
    // The stored adapter, as one more file of the folder.
    published.add(&mut python, &path.join("retrofit.safetensors"), "adapter.weight");
    let mut names: Value = serde_json::from_str(&place.read("own/names.json")).expect("JSON");
    names["adapter.weight"] = "loop.adapter.weight".into();
    place.write("own/names.json", &names.to_string());
    for (steps, gradients) in [(1, 0), (2, 0), (4, 39)] {
        place.write("own/model.rt", &injected(steps));
        assert_eq!(published.compare(&mut python, "own", &format!("r{steps}.")), gradients, "{steps} steps");
    }
}

/// A trained model in the form of the published one, by the library itself.
#[test]
fn trained_models_are_loaded_by_transformers() {
    let Some((folders, mut python)) = folders() else { return };
    let place = Place::new();
    let mut loaded = 0;
    for name in ["gemma3", "gpt2", "llama", "phi3", "qwen2"] {
        let Some(path) = folders.iter().find(|path| path.ends_with(name)) else { continue };
        let published = Published::new(&place, path, "config.json");
        let own = format!("{name}-own");
        published.import(&own, &["--loop", "1..1"]).code(0);
        let (run, with) = (format!("{name}-run"), published.with(&own));
        let train = ["train", "--run", &run, "--max-steps", "3", "--quiet", "--with", "optimiser.learning_rate=0.001"];
        let train = train.into_iter().chain(with.iter().map(String::as_str));
        place.rtc(&train.collect::<Vec<_>>()).code(0);
        let (back, exported) = (format!("{name}-back"), format!("{name}-exported"));
        let to = ["export", &run, "--format", "huggingface", "--like", &published.name, "--output", &back];
        place.rtc(&to).code(0).says("a model of the form of");
        // As it is in the folder: the formats of files may have fewer digits.
        let mut again = with.clone();
        again[4].clone_from(&back);
        let export = ["export", "--format", "torch", "--output", &exported].into_iter();
        place.rtc(&export.chain(again.iter().map(String::as_str)).collect::<Vec<_>>()).code(0);
        let tokens: Vec<u32> = (0..11).map(|n| 7 + 23 * n % 280).collect();
        let found = python.ask(&json!({
            "published": place.path(&back), "exported": place.path(&exported), "tokens": tokens,
        }));
        assert_eq!(found["missing"], json!([]), "{name}");
        assert!(found["logits"].as_f64().is_some_and(|far| far < 5e-5), "{name}: {found}");
        assert_eq!(found["text"], found["own"], "{name}");
        // What is no model of the family any more is not written as one.
        let spec = place.read(&format!("{own}/model.rt")).replace("steps: 1", "steps: 2");
        place.write(&format!("{own}/model.rt"), &spec);
        let to = ["export", "--format", "huggingface", "--like", &published.name, "--output", "wrong"].into_iter();
        let said = place.rtc(&to.chain(with.iter().map(String::as_str)).collect::<Vec<_>>());
        said.code(2).says("does not compute the same as").says("`rtc export --format torch` takes any model");
        assert!(!place.path("wrong").exists(), "{name}");
        loaded += 1;
    }
    assert!(loaded > 0, "no folder could be compared");
}

/// Layers that share their weights but for low-rank maps of every step: with the stored maps, and with those that import finds.
#[test]
fn relaxed_layers_give_the_float64_numbers_of_the_retrofit() {
    let Some((folders, mut python)) = folders() else { return };
    let Some(path) = folders.iter().find(|path| path.ends_with("retrofit-llama-relaxed")) else {
        return python::skip("RTC_PRETRAINED has no retrofit-llama-relaxed");
    };
    let place = Place::new();
    let published = Published::new(&place, path, "config.json");
    let relaxed = ["--loop", "0..3", "--steps", "2", "--rank", "4"];
    published
        .import("own", &relaxed)
        .code(0)
        .says("own: model.rt, experiment.yaml, weights.safetensors, text.txt; llama");
    let of = |map: &str| match map.split_once('.').expect("a module and a map").1 {
        "q_proj" => "query",
        "k_proj" => "key",
        "v_proj" => "value",
        "o_proj" => "output",
        "gate_proj" => "gate",
        "up_proj" => "up",
        "down_proj" => "down",
        other => panic!("{other}"),
    };
    let layer = |n: usize| format!("loop.stack.{n}.relaxed_llama_layer");
    let mut names = json!({ "model.embed_tokens.weight": "embed.table", "model.norm.weight": "norm.norm.weight" });
    for shared in 0..2 {
        for (theirs, own) in [("input_layernorm", "before"), ("post_attention_layernorm", "between")] {
            names[format!("shared.{shared}.{theirs}.weight")] = format!("{}.{own}.weight", layer(shared)).into();
        }
        for map in ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"].into_iter().chain([
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ]) {
            let own = format!("{}.{}", layer(shared), of(map));
            names[format!("shared.{shared}.{map}.weight")] = format!("{own}.shared.weight").into();
            for step in 0..2 {
                for (theirs, part) in [("A", "a"), ("B", "b")] {
                    names[format!("lora.{}.{map}.{theirs}", shared + 2 * step)] =
                        json!({ "to": format!("{own}.own.{part}.weight"), "at": step });
                }
            }
        }
    }
    place.write("own/names.json", &names.to_string());
    fs::create_dir(place.path("stored")).expect("a new folder");
    symlink(path.join("retrofit.safetensors"), place.path("stored/model.safetensors")).expect("a new link");
    let stored = Published { place: &place, path: path.clone(), name: "stored".to_owned() };
    assert_eq!(stored.compare(&mut python, "own", ""), 76);
    // Weights of an import are single numbers, as the stored ones are.
    place.write("own/names.json", "{}");
    let found = Published { place: &place, path: path.clone(), name: "own/weights.safetensors".to_owned() };
    let found = found.differences(&mut python, "own", "", &[]);
    assert!(found["logits"].as_f64().is_some_and(|far| far < 1e-5), "{found}");
    for (options, why) in [
        (["--loop", "0..3", "--steps", "3", "--rank", "4"], "`--steps 3`: 4 layers stand in the loop"),
        (["--loop", "0..3", "--steps", "2", "--rank", "17"], "`--rank 17`: `loop.stack.0.relaxed_llama_layer.key"),
        (["--loop", "0..4", "--steps", "2", "--rank", "4"], "`--loop 0..4`: the model has layers 0..3"),
    ] {
        published.import("wrong", &options).code(2).says(why);
        assert!(!place.path("wrong").exists(), "{why}");
    }
    published.import("wrong", &["--steps", "2", "--rank", "4"]).code(2).says("--loop");
}
