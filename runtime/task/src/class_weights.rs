//! Weights of classes: what an experiment says of them, and the weight of every answer of an update.

use std::collections::BTreeMap;

use rtc_base::batch::{Batch, Given, Labels};
use rtc_compiler::pipeline::class_weights::CLASS_WEIGHTS;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Objective;
use crate::error::unknown;

/// How much the answers of each class weigh in the training loss.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClassWeights {
    /// Weights that follow from the training rows.
    Computed(ComputedWeights),
    /// A weight for each class that is named; all others weigh 1.
    Named(#[serde(deserialize_with = "by_name")] BTreeMap<String, f64>),
}

/// Weights that follow from the training rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComputedWeights {
    /// `rows / (classes * rows of the class)`: all classes weigh as much together.
    Balanced,
}

/// Reads names of classes, which YAML may take for numbers or truth values.
fn by_name<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    #[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
    #[serde(untagged)]
    enum Name {
        Text(String),
        Number(i64),
        Truth(bool),
    }
    let named = BTreeMap::<Name, f64>::deserialize(from)?;
    let name = |name| match name {
        Name::Text(text) => text,
        Name::Number(number) => number.to_string(),
        Name::Truth(truth) => truth.to_string(),
    };
    Ok(named.into_iter().map(|(key, weight)| (name(key), weight)).collect())
}

impl ClassWeights {
    /// Whether the weights depend on the training rows.
    pub fn are_computed(&self) -> bool {
        matches!(self, Self::Computed(_))
    }

    /// Refuses a weight that is no positive number.
    ///
    /// # Errors
    /// A sentence with the class.
    pub fn check_numbers(&self) -> Result<(), String> {
        let Self::Named(named) = self else { return Ok(()) };
        match named.iter().find(|(_, weight)| !(**weight > 0.0 && weight.is_finite())) {
            Some((class, weight)) => Err(format!(
                "the weight of `{class}` must be positive: got {weight}. Use 0.5, 2, ...; 1 weighs a class as it is"
            )),
            None => Ok(()),
        }
    }

    /// Refuses answers without classes, and names that are none of the classes.
    ///
    /// # Errors
    /// A sentence with the nearest name.
    pub fn check_names(&self, classes: &[String], objective: Objective) -> Result<(), String> {
        if objective == Objective::Number {
            return Err("the answers are numbers, which have no classes: leave it out".to_owned());
        }
        let Self::Named(named) = self else { return Ok(()) };
        match named.keys().find(|name| !classes.contains(name)) {
            Some(name) => Err(unknown("class", name, classes)),
            None => Ok(()),
        }
    }

    /// The weights of the answers. `shares` are those of the classes among the training answers; of several labels, those of the
    /// rows that have each.
    ///
    /// # Errors
    /// As [`Self::check_names`].
    pub fn answers(
        &self,
        classes: &[String],
        objective: Objective,
        shares: impl FnOnce() -> BTreeMap<u32, f64>,
    ) -> Result<AnswerWeights, String> {
        self.check_names(classes, objective)?;
        let (mut present, mut absent) = (vec![1.0; classes.len()], vec![1.0; classes.len()]);
        match self {
            Self::Named(named) => {
                let weights = classes.iter().map(|name| named.get(name).copied().unwrap_or(1.0));
                present = weights.collect();
            }
            Self::Computed(ComputedWeights::Balanced) => {
                let found: Vec<(usize, f64)> =
                    shares().into_iter().map(|(class, share)| (class as usize, share)).collect();
                let among = match objective {
                    // Each label is a question of its own, with two answers.
                    Objective::Several => 2.0,
                    _ => found.len() as f64,
                };
                let weight = |share: f64| if share > 0.0 { 1.0 / (among * share) } else { 1.0 };
                for (class, share) in found {
                    (present[class], absent[class]) = (weight(share), weight(1.0 - share));
                }
            }
        }
        Ok(AnswerWeights { present, absent })
    }
}

/// The weights of answers.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerWeights {
    /// By class; where several labels may hold, that of rows with each.
    pub present: Vec<f64>,
    /// Where several labels may hold, that of rows without each.
    pub absent: Vec<f64>,
}

impl AnswerWeights {
    /// Gives the micro-batches of an update the weights of their answers, whose mean over the whole update becomes 1: the update is
    /// the same however it is cut.
    pub fn give(&self, batches: &mut [(Batch, f64)]) {
        let weights: Vec<Vec<f64>> = batches.iter().map(|(batch, _)| self.of(&batch.labels)).collect();
        let count: f64 = batches.iter().map(|(batch, _)| counted(&batch.labels)).sum();
        let sum: f64 = weights.iter().flatten().sum();
        let scale = if sum > 0.0 { count / sum } else { 1.0 };
        for ((batch, _), own) in batches.iter_mut().zip(weights) {
            let numbers = own.into_iter().map(|weight| weight * scale).collect();
            batch.given.push(Given { name: CLASS_WEIGHTS.into(), numbers });
        }
    }

    /// The weight of every answer, 0 of those that are not scored.
    fn of(&self, labels: &Labels) -> Vec<f64> {
        let of = |class: &u32| self.present[*class as usize];
        match labels {
            Labels::Class(classes) => classes.iter().map(of).collect(),
            Labels::Each { class, weight } => {
                class.iter().zip(weight).map(|(class, weight)| of(class) * f64::from(*weight)).collect()
            }
            Labels::Several(labels) => {
                let sides = self.present.iter().zip(&self.absent).cycle();
                labels.iter().zip(sides).map(|(label, (yes, no))| if *label == 0 { *no } else { *yes }).collect()
            }
            Labels::Number(numbers) => vec![1.0; numbers.len()],
        }
    }
}

/// How many answers are scored.
fn counted(labels: &Labels) -> f64 {
    match labels {
        Labels::Each { weight, .. } => weight.iter().map(|weight| f64::from(*weight)).sum(),
        labels => labels.answers() as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// `compute_class_weight("balanced", classes=np.unique(y), y=y)` of scikit-learn 1.5 for 7, 2 and 1 rows of a, b and c.
    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        let shares = || [(0, 0.7), (1, 0.2), (3, 0.1)].into();
        let balanced = ClassWeights::Computed(ComputedWeights::Balanced);
        let found = balanced.answers(&names(&["a", "b", "none", "c"]), Objective::Classify, shares).expect("classes");
        let meant = [0.476_190_476_190_476_2, 1.666_666_666_666_666_7, 1.0, 3.333_333_333_333_333_5];
        assert!(found.present.iter().zip(meant).all(|(found, meant)| (found - meant).abs() < 1e-12), "{found:?}");
        let several = balanced.answers(&names(&["a", "b"]), Objective::Several, || [(0, 0.25), (1, 0.5)].into());
        let several = several.expect("labels");
        assert!((several.present[0] - 2.0).abs() < 1e-12 && (several.absent[0] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((several.present[1], several.absent[1]), (1.0, 1.0));
    }

    #[test]
    fn names_are_those_of_the_classes_and_weights_are_positive() {
        let read = |text: &str| serde_json::from_str::<ClassWeights>(text);
        let named = read(r#"{"spam": 4, "ham": 1}"#).expect("weights");
        let classes = names(&["ham", "spam"]);
        assert_eq!(named.answers(&classes, Objective::Classify, BTreeMap::new).expect("names").present, [1.0, 4.0]);
        let error = read(r#"{"spom": 4}"#).expect("weights").check_names(&classes, Objective::Classify);
        assert!(error.expect_err("no class").contains("did you mean `spam`"));
        assert!(named.check_names(&[], Objective::Number).is_err_and(|why| why.contains("numbers")));
        for wrong in [r#"{"spam": 0}"#, r#"{"spam": -1}"#] {
            assert!(read(wrong).expect("weights").check_numbers().is_err_and(|why| why.contains("`spam`")));
        }
        assert!(read("\"balancd\"").is_err());
        let numbers: ClassWeights = serde_yaml::from_str("{ 0: 1, 1: 3, true: 2 }").expect("names of any kind");
        let ClassWeights::Named(found) = numbers else { panic!("names") };
        assert_eq!(found.keys().collect::<Vec<_>>(), ["0", "1", "true"]);
    }
}
