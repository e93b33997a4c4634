//! A family of published models: the spec that its `config.json` becomes, and the names of its weights.
//!
//! A family is a YAML file, `specs/families/*.yaml`. `<field>` in its lines stands for a field of `config.json`. A line with a field that is
//! not there is left out; `<field!value>` leaves it out where the field has this value, `<field?a:b>` is `a` where it is true and else `b`,
//! and leaves the line out where that is empty.

use std::collections::BTreeMap;

use rtc_runs::weights::TensorUse;
use serde::Deserialize;
use serde_json::Value;

use super::config::ConfigFields;

/// A family.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelFamily {
    /// By which `config.json` names it.
    pub(super) model_type: String,
    /// What it is, for people.
    pub(super) about: String,
    /// Paper or code.
    pub(super) source: String,
    /// Values of fields that `config.json` leaves out.
    #[serde(default)]
    pub(super) defaults: BTreeMap<String, Value>,
    /// ConfigFields that can be imported with these values only.
    #[serde(default)]
    pub(super) only: BTreeMap<String, Vec<Value>>,
    /// ConfigFields that change no number.
    #[serde(default)]
    unused: Vec<String>,
    /// Which layers see a window, where `layer_types` does not say it.
    pub(super) sliding: Option<Sliding>,
    /// The field with the number of layers.
    pub(super) layers: String,
    /// The fields of `embed`.
    pub(super) embed: Vec<String>,
    /// A layer.
    pub(super) layer: FamilyLayer,
    /// Another one, for layers that don't turn by their positions.
    pub(super) unturned: Option<FamilyLayer>,
    /// Lines behind the layers.
    #[serde(default)]
    pub(super) after: Vec<String>,
    /// ConfigFields of a tied head.
    #[serde(default)]
    pub(super) tied: Vec<String>,
    /// What all names of weights begin with, but those of `names`; files of the bare model lack it.
    pub(super) prefix: String,
    /// The names of the weights that belong to no layer.
    pub(super) names: BTreeMap<String, Option<TensorRole>>,
    /// The names of those of a layer, behind this: `layers.<layer>.`.
    pub(super) layer_prefix: String,
    /// Within a layer; `<expert>` counts the experts.
    pub(super) layer_names: BTreeMap<String, Option<TensorRole>>,
    /// The field with the number of experts.
    pub(super) experts: Option<String>,
}

/// Which layers see a window.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Sliding {
    /// All of them, where there is one: `always`.
    Always(AlwaysSliding),
    /// All but every so many-th.
    FullEvery {
        /// The field that says how many.
        full_every: String,
        /// Without the field.
        otherwise: u64,
    },
    /// Those from one on.
    From {
        /// The field with the first of them.
        from: String,
        /// If this one is true.
        only_if: String,
    },
}

/// `always`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum AlwaysSliding {
    /// The word.
    Always,
}

/// The text of a layer.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum FamilyLayer {
    /// A definition with its settings.
    Statement {
        /// The definition.
        name: String,
        /// Its settings.
        settings: Vec<String>,
    },
    /// Equations; all layers must be alike.
    Equations {
        /// Their lines.
        lines: Vec<String>,
    },
}

/// What a tensor is in the model, by templates; without one it is left out.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum TensorRole {
    /// This parameter.
    Named(String),
    /// What [`TensorUse`] says.
    Made(RoleTemplate),
}

/// [`TensorUse`] by templates.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleTemplate {
    /// The parameter.
    pub(super) to: Option<String>,
    /// The parameters that its rows are.
    #[serde(default)]
    pub(super) rows: Vec<String>,
    /// Groups of rows.
    pub(super) groups: Option<String>,
    /// The element of the first axis.
    pub(super) at: Option<String>,
    /// Stored as [inputs, outputs].
    #[serde(default)]
    pub(super) transpose: bool,
}

impl FamilyLayer {
    fn lines(&self) -> &[String] {
        match self {
            Self::Statement { settings: lines, .. } | Self::Equations { lines } => lines,
        }
    }
}

impl TensorRole {
    /// The use in a layer of the model, whose parameters begin with `place`.
    pub(super) fn at(&self, place: &str, fields: &ConfigFields) -> Option<TensorUse> {
        let made = match self {
            Self::Named(name) => RoleTemplate { to: Some(name.clone()), ..RoleTemplate::default() },
            Self::Made(made) => made.clone(),
        };
        let named = |name: &String| format!("{place}{name}");
        let number = |text: &Option<String>| Some(filled(text.as_ref()?, fields)?.parse().ok());
        Some(TensorUse {
            to: made.to.iter().map(named).collect(),
            rows: made.rows.iter().map(named).collect(),
            groups: match number(&made.groups) {
                Some(groups) => Some(groups?),
                None => None,
            },
            at: match number(&made.at) {
                Some(at) => Some(at?),
                None => None,
            },
            transpose: made.transpose,
        })
    }
}

/// The families that are part of the program.
const BUILT_IN: &[&str] = &[
    include_str!("../../../specs/families/cohere.yaml"),
    include_str!("../../../specs/families/gemma2.yaml"),
    include_str!("../../../specs/families/gemma3_text.yaml"),
    include_str!("../../../specs/families/gpt2.yaml"),
    include_str!("../../../specs/families/gpt_neox.yaml"),
    include_str!("../../../specs/families/granite.yaml"),
    include_str!("../../../specs/families/llama.yaml"),
    include_str!("../../../specs/families/mistral.yaml"),
    include_str!("../../../specs/families/mixtral.yaml"),
    include_str!("../../../specs/families/olmo2.yaml"),
    include_str!("../../../specs/families/olmoe.yaml"),
    include_str!("../../../specs/families/phi3.yaml"),
    include_str!("../../../specs/families/qwen2.yaml"),
    include_str!("../../../specs/families/qwen3.yaml"),
    include_str!("../../../specs/families/smollm3.yaml"),
    include_str!("../../../specs/families/stablelm.yaml"),
];

impl ModelFamily {
    /// The families of the program.
    pub(super) fn built_in() -> impl Iterator<Item = Self> {
        BUILT_IN.iter().map(|text| Self::read(text).expect("a family of the program can be read"))
    }

    /// Reads one.
    ///
    /// # Errors
    /// A sentence about what is wrong.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        serde_yaml::from_str(text).map_err(|error| error.to_string())
    }

    /// The fields of `config.json` that it knows.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let lines = [&self.embed[..], &self.after, &self.tied, self.layer.lines()].into_iter().flatten();
        let lines = lines.chain(self.unturned.iter().flat_map(FamilyLayer::lines));
        let of_lines = lines.flat_map(|line| Placeholder::all(line)).map(|found| found.field);
        let listed = self.defaults.keys().chain(self.only.keys()).chain(&self.unused).chain(&self.experts);
        let sliding = match &self.sliding {
            Some(Sliding::FullEvery { full_every, .. }) => vec![full_every.as_str()],
            Some(Sliding::From { from, only_if }) => vec![from.as_str(), only_if.as_str()],
            Some(Sliding::Always(_)) | None => vec![],
        };
        let listed = listed.chain([&self.layers]).map(String::as_str);
        of_lines.chain(listed).chain(sliding).chain(["sliding_window", "layer_types"])
    }
}

/// `<field>`, `<field!value>` or `<field?a:b>` in a line.
#[derive(Clone, Copy, Debug)]
struct Placeholder<'t> {
    /// With its brackets.
    text: &'t str,
    field: &'t str,
    rest: &'t str,
}

impl<'t> Placeholder<'t> {
    fn all(line: &'t str) -> impl Iterator<Item = Self> {
        let after = line.split('<').skip(1).filter_map(|rest| rest.split_once('>').map(|(inside, _)| inside));
        after.map(|inside| {
            let end = inside.find(['!', '?']).unwrap_or(inside.len());
            // The brackets lie around what stands inside.
            let start = inside.as_ptr().addr() - line.as_ptr().addr() - 1;
            Self { text: &line[start..start + inside.len() + 2], field: &inside[..end], rest: &inside[end..] }
        })
    }

    /// What it stands for; nothing leaves the line out.
    fn value(self, fields: &ConfigFields) -> Option<String> {
        let value = fields.get(self.field);
        match self.rest.split_at_checked(1) {
            Some(("?", choices)) => {
                let (yes, no) = choices.split_once(':')?;
                let chosen = if value == Some(&Value::Bool(true)) { yes } else { no };
                (!chosen.is_empty()).then(|| chosen.to_owned())
            }
            Some(("!", usual)) => {
                let value = written(value?);
                let same = |a: &str, b: &str| a == b || a.parse::<f64>().is_ok_and(|a| b.parse() == Ok(a));
                (!same(&value, usual)).then_some(value)
            }
            _ => value.map(written),
        }
    }
}

/// A value as a spec has it.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A line with the values of its fields; nothing where it is left out.
pub(super) fn filled(line: &str, fields: &ConfigFields) -> Option<String> {
    let mut text = line.to_owned();
    for found in Placeholder::all(line) {
        text = text.replacen(found.text, &found.value(fields)?, 1);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_filled_or_left_out() {
        let fields: ConfigFields = [("a", Value::from(3)), ("b", Value::from(1e-6)), ("c", Value::from(true))]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        for (line, text) in [
            ("x: <a>", Some("x: 3")),
            ("x: <a> and <b>", Some("x: 3 and 1e-6")),
            ("x: <z>", None),
            ("x: <a!3>", None),
            ("x: <a!4>", Some("x: 3")),
            ("x: <b!0.000001>", None),
            ("x: <c?yes:no>", Some("x: yes")),
            ("x: <z?yes:no>", Some("x: no")),
            ("x: <z?yes:>", None),
        ] {
            assert_eq!(filled(line, &fields).as_deref(), text, "{line}");
        }
    }

    #[test]
    fn families_can_be_read_and_have_names_of_their_own() {
        let names: Vec<String> = ModelFamily::built_in().map(|family| family.model_type).collect();
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(names, sorted);
        let page = include_str!("../../../docs/import.md");
        for name in &names {
            assert!(page.contains(&format!("\n| `{name}` | ")), "{name} is not in docs/import.md");
        }
        let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
        ModelFamily::read(example.expect("the page has a family")).expect("the family of the page");
    }
}
