//! Groups of parameters with settings of the optimiser of their own.

use std::collections::{BTreeMap, BTreeSet};

use rtc_compiler::diag::{closest, list};
use rtc_compiler::ir::attribute::ParameterRole;
use rtc_compiler::ir::graph::{FIXED, Parameter};
use rtc_exec::learner::{GROUPS, GroupRule, MOST_GROUPS};
use rtc_exec::model::ParameterGroups;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Optimiser;

/// Most groups of an experiment.
pub(super) const MOST: usize = MOST_GROUPS - GROUPS.len();

/// Parameters of one axis: biases, weights of norms and other vectors.
const VECTORS: &str = "vectors";
/// Parameters of two axes or more.
const MATRICES: &str = "matrices";

/// Parameters whose updates differ from those of all others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OptimiserGroup {
    /// Names of parameters with `*` for any text, roles (`embedding`, `output`), `vectors` (one axis) or `matrices`.
    pub parameters: Vec<String>,
    /// Base learning rate, which the schedule scales; 0 keeps the parameters as they are. Without it, that of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning_rate: Option<f64>,
    /// Decoupled weight decay. Without it, that of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_decay: Option<f64>,
}

impl OptimiserGroup {
    /// Returns the settings of an update whose schedule has this factor.
    pub(super) fn rule(&self, factor: f64) -> GroupRule {
        GroupRule { learning_rate: self.learning_rate.map(|rate| rate * factor), weight_decay: self.weight_decay }
    }

    /// Whether a pattern of the group matches a parameter.
    fn has(&self, parameter: &Parameter) -> bool {
        self.parameters.iter().any(|pattern| matches(pattern, parameter))
    }
}

/// Whether a pattern matches a parameter.
fn matches(pattern: &str, parameter: &Parameter) -> bool {
    let axes = parameter.ty.dims().len();
    match pattern {
        VECTORS => axes < 2,
        MATRICES => axes > 1,
        _ => parameter.role.is_some_and(|role| role.name() == pattern) || is_like(pattern, &parameter.name),
    }
}

/// Whether a text has the form of a pattern, in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    let mut starts = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    starts.any(|at| is_like(tail, &rest[at..]))
}

impl Optimiser {
    /// Returns the names of the parameters that are held, as no pattern of `trained` is theirs.
    ///
    /// # Errors
    /// A sentence about a pattern without a parameter.
    pub fn held(&self, parameters: &[Parameter]) -> Result<BTreeSet<String>, String> {
        let Some(trained) = &self.trained else { return Ok(BTreeSet::new()) };
        let known = || parameters.iter().filter(|parameter| parameter.group.as_deref() != Some(FIXED));
        match trained.iter().find(|pattern| !known().any(|parameter| matches(pattern, parameter))) {
            Some(pattern) => Err(unmatched("trained", pattern, known())),
            None => {
                let is_held = |own: &&Parameter| !trained.iter().any(|pattern| matches(pattern, own));
                Ok(known().filter(is_held).map(|parameter| parameter.name.clone()).collect())
            }
        }
    }

    /// Returns the group of every parameter of a model that is in one.
    ///
    /// # Errors
    /// A pattern without a parameter that is trained; a parameter in two groups; a sentence in both cases.
    pub fn parameter_groups(&self, parameters: &[Parameter]) -> Result<ParameterGroups, String> {
        let held = self.held(parameters)?;
        let is_trained = |own: &&Parameter| own.group.as_deref() != Some(FIXED) && !held.contains(&own.name);
        let trained = || parameters.iter().filter(is_trained);
        let mut found: BTreeMap<String, (usize, &str)> = BTreeMap::new();
        for (n, (name, group)) in self.groups.iter().enumerate() {
            if let Some(pattern) = group.parameters.iter().find(|pattern| !trained().any(|p| matches(pattern, p))) {
                return Err(unmatched(&format!("groups.{name}"), pattern, trained()));
            }
            for parameter in trained().filter(|parameter| group.has(parameter)) {
                if let Some((_, other)) = found.insert(parameter.name.clone(), (GROUPS.len() + n, name)) {
                    return Err(format!(
                        "`optimiser.groups`: `{}` is in the groups `{other}` and `{name}`: leave it out of one of them",
                        parameter.name
                    ));
                }
            }
        }
        Ok(found.into_iter().map(|(parameter, (index, _))| (parameter, index)).collect())
    }

    /// Returns the broken rule of a group, if there is one.
    pub(super) fn wrong_group(&self) -> Option<String> {
        if self.groups.len() > MOST {
            return Some(format!("there are {} groups, and at most {MOST} are possible", self.groups.len()));
        }
        let positive = |number: f64| number >= 0.0 && number.is_finite();
        self.groups.iter().find_map(|(name, group)| {
            let OptimiserGroup { parameters, learning_rate, weight_decay } = group;
            let why = if parameters.is_empty() {
                "`parameters` needs at least one name, pattern or role"
            } else if !learning_rate.is_none_or(positive) {
                "`learning_rate` must be 0 or more"
            } else if !weight_decay.is_none_or(positive) {
                "`weight_decay` must be 0 or more"
            } else if learning_rate.is_none() && weight_decay.is_none() {
                "a `learning_rate` or a `weight_decay` is needed"
            } else if !self.decays() && weight_decay.is_some_and(|decay| decay > 0.0) {
                "`adam` has no weight decay; use `adamw`"
            } else {
                return None;
            };
            Some(format!("`{name}`: {why}"))
        })
    }
}

/// Explains that no parameter has the form of a pattern in a field of `optimiser`.
fn unmatched<'a>(field: &str, pattern: &str, parameters: impl Iterator<Item = &'a Parameter> + Clone) -> String {
    let near = closest(pattern, parameters.clone().map(|parameter| &*parameter.name));
    let near = near.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    let mut words = vec![VECTORS, MATRICES];
    for role in parameters.filter_map(|parameter| parameter.role).map(ParameterRole::name) {
        if !words.contains(&role) {
            words.push(role);
        }
    }
    format!(
        "`optimiser.{field}`: no parameter of the model that is trained is `{pattern}`{near}. `rtc show MODEL --parameters` lists the names, \
         `*` stands for any text, and {} are words here",
        list(words, "and")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name) in
            [("a.b", "a.b"), ("a.*", "a.b.c"), ("*", "x"), ("*norm*", "body.norm1.scale"), ("a*b*c", "a.b.bc")]
        {
            assert!(is_like(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a.b", "a.b.c"), ("a.*", "b.a.c"), ("*norm", "norm.scale"), ("a*b*c", "a.c.b"), ("", "x")]
        {
            assert!(!is_like(pattern, name), "{pattern} {name}");
        }
    }
}
