//! The `config.json` of a model in Hugging Face's format, as its library writes it today and as most files have it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rtc_base::json;
use serde_json::{Map, Value};

use super::family::{ModelFamily, Sliding};
use crate::failure::SessionFailure;

/// ConfigFields that change no number of a model that is evaluated, or are read elsewhere.
const WITHOUT_EFFECT: &[&str] = &[
    "_attn_implementation_autoset",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_sliding_window_pattern",
    "add_cross_attention",
    "architectures",
    "attention_dropout",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "do_sample",
    "dtype",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "max_length",
    "max_position_embeddings",
    "model_type",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "problem_type",
    "return_dict",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
    "vocab_size",
];

/// ConfigFields by which positions turn channels; every family may have them.
const ROPE: &[&str] = &[
    "partial_rotary_factor",
    "rope_local_base_freq",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rope_type",
    "rotary_emb_base",
    "rotary_pct",
    "type",
];

/// The positions of the rows that a model was trained on before its angles were slowed down.
const TRAINED_LENGTH: &str = "original_max_position_embeddings";

/// Angles that are slower than usual, as settings of a layer.
struct SlowerAngles {
    kind: String,
    angle: String,
    /// A factor on the scores.
    scale: Option<String>,
}

/// The fields of a model.
#[derive(Debug)]
pub(super) struct Config {
    name: String,
    fields: Map<String, Value>,
}

/// A field's value for a layer, or for the model.
pub(super) type ConfigFields = BTreeMap<String, Value>;

impl Config {
    /// Reads it.
    ///
    /// # Errors
    /// The file can't be read, or is no object.
    pub(super) fn read(path: &Path) -> Result<Self, SessionFailure> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| SessionFailure::io("read", path, error))?;
        match json::value(&bytes) {
            Ok(Value::Object(fields)) => Ok(Self { name, fields }),
            Ok(_) => Err(refused(&name, "it is no object")),
            Err(error) => Err(refused(&name, &error.to_string())),
        }
    }

    /// Its family.
    pub(super) fn model_type(&self) -> Result<&str, SessionFailure> {
        self.fields.get("model_type").and_then(Value::as_str).ok_or_else(|| self.refused("it has no `model_type`"))
    }

    /// The failure of a file that can't be imported.
    pub(super) fn refused(&self, why: &str) -> SessionFailure {
        refused(&self.name, why)
    }

    /// The fields of the model, complete; with those of every family: `head_dim`, `num_key_value_heads`.
    ///
    /// # Errors
    /// A field is missing, has a value that can't be imported, or is not known.
    pub(super) fn of_model(&self, family: &ModelFamily) -> Result<ConfigFields, SessionFailure> {
        let own = self.fields.iter().filter(|(_, value)| !value.is_null());
        let mut fields: ConfigFields = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        for (name, value) in &family.defaults {
            fields.entry(name.clone()).or_insert_with(|| value.clone());
        }
        let known: BTreeSet<&str> = WITHOUT_EFFECT.iter().chain(ROPE).copied().chain(family.names()).collect();
        let strange: Vec<&String> = fields.keys().filter(|name| !known.contains(name.as_str())).collect();
        if !strange.is_empty() {
            let names: Vec<String> = strange.iter().map(|name| format!("`{name}`")).collect();
            let (names, what) = (names.join(", "), family.model_type.as_str());
            return Err(self.refused(&format!(
                "nothing is known of {names} in a model of the family `{what}`, which may change its numbers; set what has no effect to null"
            )));
        }
        for (name, values) in &family.only {
            if let Some(value) = fields.get(name).filter(|value| !values.contains(value)) {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                let values = values.join(" or ");
                return Err(self.refused(&format!("`{name}` is {value}, and only {values} can be imported")));
            }
        }
        let count = |fields: &ConfigFields, name: &str| fields.get(name).and_then(Value::as_u64);
        if let (Some(width), Some(heads)) = (count(&fields, "hidden_size"), count(&fields, "num_attention_heads"))
            && heads > 0
        {
            fields.entry("head_dim".to_owned()).or_insert_with(|| (width / heads).into());
            fields.entry("num_key_value_heads".to_owned()).or_insert_with(|| heads.into());
        }
        for (name, field) in
            [("activation", "hidden_act"), ("activation", "hidden_activation"), ("activation", "activation_function")]
        {
            if let Some(function) = fields.get(field).filter(|_| family.names().any(|known| known == field)) {
                let function = self.activation(field, function)?;
                fields.insert(name.to_owned(), function.into());
            }
        }
        Ok(fields)
    }

    /// The function that rtc has for theirs.
    fn activation(&self, field: &str, value: &Value) -> Result<&'static str, SessionFailure> {
        Ok(match value.as_str() {
            Some("silu" | "swish") => "silu",
            Some("gelu") => "gelu",
            Some("gelu_new" | "gelu_pytorch_tanh" | "gelu_fast") => "gelu_tanh",
            Some("relu") => "relu",
            Some("tanh") => "tanh",
            _ => return Err(self.refused(&format!("`{field}` is {value}, which is no function that can be imported"))),
        })
    }

    /// The fields of a layer: those of the model, with `theta`, `part`, `angle` and `rope_scale` of its positions, the keys that are `seen`,
    /// and whether it `turns`.
    ///
    /// # Errors
    /// Positions that can't be imported.
    pub(super) fn of_layer(
        &self,
        model: &ConfigFields,
        family: &ModelFamily,
        layer: usize,
    ) -> Result<ConfigFields, SessionFailure> {
        let mut fields = model.clone();
        let is_sliding = self.is_sliding(model, family.sliding.as_ref(), layer)?;
        // What no line of the family reads would be left out without a word.
        let takes = |name: &str| family.names().any(|known| known == name);
        let window = model.get("sliding_window").filter(|_| is_sliding);
        if window.is_some() && !takes("seen") {
            let what = format!("layer {layer} sees a window, which no layer of `{}` does", family.model_type);
            return Err(self.refused(&what));
        }
        let seen = window.map_or_else(|| "past".to_owned(), |window| format!("window({window})"));
        fields.insert("seen".to_owned(), seen.into());
        let rope = self.rope(model, is_sliding)?;
        if let Some(theta) = rope.get("rope_theta") {
            fields.insert("theta".to_owned(), theta.clone());
        }
        let part = rope.get("partial_rotary_factor").and_then(Value::as_f64).filter(|part| *part != 1.0);
        let width = model.get("head_dim").and_then(Value::as_u64);
        let part = part.zip(width).map(|(part, width)| (width as f64 * part) as u64);
        if let Some(part) = part {
            if !takes("part") {
                let what = format!("a part of its channels turns, and all do in a layer of `{}`", family.model_type);
                return Err(self.refused(&what));
            }
            fields.insert("part".to_owned(), part.into());
        }
        if let Some(slower) = self.slower(&rope, part.or(width), part.is_some())? {
            for (name, text) in [("angle", Some(slower.angle)), ("rope_scale", slower.scale)] {
                if let Some(text) = text {
                    if !takes(name) {
                        let (kind, family) = (slower.kind.as_str(), &family.model_type);
                        return Err(
                            self.refused(&format!("no layer of `{family}` takes positions of the kind `{kind}`"))
                        );
                    }
                    fields.insert(name.to_owned(), text.into());
                }
            }
        }
        let turned = model.get("no_rope_layers").and_then(Value::as_array);
        let interval = model.get("no_rope_layer_interval").and_then(Value::as_u64).filter(|every| *every > 0);
        let turns = match (turned, interval) {
            (Some(turned), _) => turned.get(layer).and_then(Value::as_u64) == Some(1),
            (None, Some(every)) => !(layer as u64 + 1).is_multiple_of(every),
            (None, None) => true,
        };
        fields.insert("turns".to_owned(), turns.into());
        Ok(fields)
    }

    /// Whether a layer sees a window only.
    fn is_sliding(&self, model: &ConfigFields, rule: Option<&Sliding>, layer: usize) -> Result<bool, SessionFailure> {
        if let Some(types) = model.get("layer_types").and_then(Value::as_array) {
            return match types.get(layer).and_then(Value::as_str) {
                Some("sliding_attention") => Ok(true),
                Some("full_attention") => Ok(false),
                other => Err(self.refused(&format!(
                    "`layer_types` has {} for layer {layer}, and only full and sliding attention can be imported",
                    other.unwrap_or("nothing")
                ))),
            };
        }
        let number = |name: &str| model.get(name).and_then(Value::as_u64);
        Ok(match rule {
            None => false,
            Some(Sliding::Always(_)) => true,
            Some(Sliding::FullEvery { full_every, otherwise }) => {
                let every =
                    number(full_every).or_else(|| number(&format!("_{full_every}"))).unwrap_or(*otherwise).max(1);
                !(layer as u64 + 1).is_multiple_of(every)
            }
            Some(Sliding::From { from: field, only_if }) => {
                model.get(only_if) == Some(&Value::Bool(true)) && number(field).is_some_and(|from| layer as u64 >= from)
            }
        })
    }

    /// The angles of a layer that are slower than usual, for so many channels that turn.
    fn slower(
        &self,
        rope: &Map<String, Value>,
        channels: Option<u64>,
        in_part: bool,
    ) -> Result<Option<SlowerAngles>, SessionFailure> {
        let kind = ["rope_type", "type"].iter().find_map(|name| rope.get(*name)).and_then(Value::as_str);
        let Some(kind) = kind.filter(|kind| *kind != "default") else { return Ok(None) };
        let refused = |what: &str| {
            Err(self.refused(&format!("its positions are of the kind `{kind}`{what}, which can't be imported")))
        };
        let known = ["factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "attention_factor"];
        let known: Vec<&str> = known.into_iter().chain(ROPE.iter().copied()).chain([TRAINED_LENGTH]).collect();
        if let Some((name, _)) = rope.iter().find(|(name, value)| !known.contains(&name.as_str()) && !value.is_null()) {
            return refused(&format!(" with `{name}`"));
        }
        let number = |name: &str| match rope.get(name).and_then(Value::as_f64).filter(|number| *number > 0.0) {
            Some(number) => Ok(number),
            None => Err(self.refused(&format!("`{name}` of its positions is no number above 0"))),
        };
        let or = |name: &str, usual: f64| {
            if rope.get(name).is_some_and(|own| !own.is_null()) { number(name) } else { Ok(usual) }
        };
        let factor = number("factor")?;
        let (angle, scale) = match (kind, channels) {
            ("linear", _) => (format!("angle / {factor:?}"), None),
            ("llama3", _) => {
                let (low, high) = (number("low_freq_factor")?, number("high_freq_factor")?);
                (format!("llama3(angle, {factor:?}, {low:?}, {high:?}, {:?})", number(TRAINED_LENGTH)?), None)
            }
            // The factor on cosines and sines is one on scores where all channels turn.
            ("yarn", Some(channels)) if !in_part => {
                let (fast, slow) = (or("beta_fast", 32.0)?, or("beta_slow", 1.0)?);
                let (length, base) = (number(TRAINED_LENGTH)?, number("rope_theta")?);
                let wave = or("attention_factor", if factor > 1.0 { 0.1 * factor.ln() + 1.0 } else { 1.0 })?;
                let angle = format!("yarn(angle, {factor:?}, {fast:?}, {slow:?}, {length:?}, {base:?}, {channels})");
                (angle, Some(format!("{wave:?}^2 / {channels}^0.5")))
            }
            _ => return refused(if kind == "yarn" { " for a part of the channels" } else { "" }),
        };
        Ok(Some(SlowerAngles { kind: kind.to_owned(), angle, scale }))
    }

    /// The positions of a layer: `rope_theta`, `partial_rotary_factor`.
    fn rope(&self, model: &ConfigFields, is_sliding: bool) -> Result<Map<String, Value>, SessionFailure> {
        let object = |name: &str| model.get(name).and_then(Value::as_object);
        let own = |name: &str| model.get(name).cloned();
        let mut rope = match object("rope_parameters") {
            Some(all) => {
                let of_type = if is_sliding { "sliding_attention" } else { "full_attention" };
                let own = all.get(of_type).and_then(Value::as_object);
                own.cloned().unwrap_or_else(|| all.clone())
            }
            None => object("rope_scaling").cloned().unwrap_or_default(),
        };
        if is_sliding && let (None, Some(local)) = (object("rope_parameters"), own("rope_local_base_freq")) {
            rope = Map::from_iter([("rope_theta".to_owned(), local)]);
        }
        // The older name first: the other one may be what a family has without it.
        let names = [
            ("rope_theta", ["rotary_emb_base", "rope_theta"]),
            ("partial_rotary_factor", ["rotary_pct", "partial_rotary_factor"]),
        ];
        for (name, field) in names.into_iter().flat_map(|(name, fields)| fields.map(|field| (name, field))) {
            if let Some(value) = own(field) {
                rope.entry(name).or_insert(value);
            }
        }
        Ok(rope)
    }
}

fn refused(file: &str, why: &str) -> SessionFailure {
    SessionFailure::Usage(format!("{file}: {why}"))
}
