//! Cases of the independent PyTorch implementations: folders with weights, one batch, and the numbers that follow from both.

use std::path::{Path, PathBuf};

use rtc_base::batch::{Batch, Labels};
use rtc_exec::learner::UpdateRule;
use rtc_exec::model::Model;
use rtc_exec::parameter_ranges;
use rtc_exec::storage::Element;
use rtc_kernel::Real;
use serde_json::Value as Json;

use crate::peer::{Tensors, holders, load};

/// How far a computed array may be from the reference.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Of logits and losses.
    pub outputs: f64,
    /// Of gradients.
    pub gradients: f64,
}

/// In double precision.
pub const DOUBLE: Tolerance = Tolerance { outputs: 1e-10, gradients: 1e-10 };
/// In single precision.
pub const SINGLE: Tolerance = Tolerance { outputs: 1e-5, gradients: 1e-4 };

/// One folder.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The name of the folder.
    pub name: String,
    /// What describes the model and the batch.
    pub meta: Json,
    /// The weights.
    pub weights: Tensors,
    /// The batch, and what the model makes of it.
    pub io: Tensors,
    /// The gradient of the loss for every weight.
    pub gradients: Tensors,
    /// The weights after an update.
    pub after: Tensors,
}

/// The folder of fixtures that an environment variable names; without it one in `shared/fixtures` beside the project.
pub fn folder(variable: &str, default: &str) -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures").join(default);
    std::env::var_os(variable).map_or_else(beside, PathBuf::from)
}

impl Fixture {
    /// Reads a folder.
    ///
    /// # Panics
    /// When a file is missing or broken.
    pub fn read(folder: &Path) -> Self {
        let meta = std::fs::read(folder.join("meta.json"));
        let meta = meta.unwrap_or_else(|e| panic!("{}: {e}", folder.join("meta.json").display()));
        let tensors = |file: &str| load(&folder.join(file)).unwrap_or_else(|e| panic!("{e}"));
        Self {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            meta: serde_json::from_slice(&meta).expect("meta.json is JSON"),
            weights: tensors("weights.safetensors"),
            io: tensors("io.safetensors"),
            gradients: tensors("grads.safetensors"),
            after: tensors("after_adamw.safetensors"),
        }
    }

    /// The update that its further numbers follow from: AdamW behind clipping.
    pub fn update_rule(&self) -> UpdateRule {
        let rule = &self.meta["after_adamw"];
        let number = |key: &str| rule[key].as_f64().unwrap_or_default();
        UpdateRule {
            learning_rate: number("lr"),
            beta1: rule["betas"][0].as_f64().unwrap_or_default(),
            beta2: rule["betas"][1].as_f64().unwrap_or_default(),
            epsilon: number("eps"),
            weight_decay: number("weight_decay"),
            clip: Some(number("clip_norm")),
            ..UpdateRule::ADAMW
        }
    }

    /// True where every token is answered.
    pub fn each(&self) -> bool {
        self.io["labels"].shape == self.io["keep"].shape
    }

    /// Positions that hold real tokens, row after row.
    fn kept(&self) -> Vec<usize> {
        self.io["keep"].data.iter().enumerate().filter(|(_, k)| **k != 0.0).map(|(n, _)| n).collect()
    }

    /// Its batch, without padding.
    pub fn batch(&self) -> Batch {
        let keep = &self.io["keep"];
        let (rows, width) = (keep.shape[0], keep.shape[1]);
        let kept = self.kept();
        let mut offsets = vec![0];
        for row in 0..rows {
            let count = kept.iter().filter(|n| **n / width == row).count();
            offsets.push(offsets[row] + count);
        }
        let pick = |name: &str| kept.iter().map(|n| self.io[name].data[*n]).collect::<Vec<f64>>();
        let labels = if self.each() {
            Labels::Each {
                class: pick("labels").iter().map(|v| *v as u32).collect(),
                weight: pick("weight").iter().map(|v| *v as f32).collect(),
            }
        } else {
            Labels::Class(self.io["labels"].data.iter().map(|v| *v as u32).collect())
        };
        Batch {
            offsets,
            tokens: pick("tokens").iter().map(|v| *v as u32).collect(),
            labels,
            width,
            depths: None,
            given: vec![],
        }
    }

    /// Numbers of rows, or of their positions without padding, with all that belongs to each of them.
    pub fn of_rows(&self, name: &str) -> Vec<f64> {
        let (all, keep) = (&self.io[name], &self.io["keep"]);
        if all.shape.len() < 2 || all.shape[..2] != keep.shape {
            return all.data.clone();
        }
        let each = all.shape[2..].iter().product::<usize>();
        self.kept().iter().flat_map(|n| &all.data[n * each..(n + 1) * each]).copied().collect()
    }

    /// The logits that are expected; those of padded tokens have no counterpart.
    pub fn logits(&self) -> Vec<f64> {
        let logits = &self.io["logits"];
        if !self.each() {
            return logits.data.clone();
        }
        let outputs = logits.shape.last().copied().unwrap_or(1);
        self.kept().iter().flat_map(|n| &logits.data[n * outputs..(n + 1) * outputs]).copied().collect()
    }

    /// Compares the gradient of every weight that parameters of the model hold; `names` are the names that they may have. The
    /// gradient of a weight that several hold is the sum of theirs.
    ///
    /// # Panics
    /// When sizes differ.
    pub fn compare_gradients<T: Element>(
        &self,
        model: &mut Model<T>,
        names: &dyn Fn(&str) -> Vec<String>,
        limit: f64,
        comparison: &mut Comparison,
    ) {
        let plan = model.executor().plan().clone();
        let ranges = parameter_ranges(&plan);
        let largest = self.gradients.values().flat_map(|t| &t.data).fold(0.0, |m: f64, v| m.max(v.abs()));
        for (weight, expected) in &self.gradients {
            let holders = holders(&plan, &names(weight));
            let mut sum = vec![0.0; expected.data.len()];
            for n in &holders {
                let gradient = doubles(&model.executor().gradients()[ranges[*n].clone()]);
                assert_eq!(gradient.len(), sum.len(), "{}: the size of `{weight}`", self.name);
                sum.iter_mut().zip(gradient).for_each(|(sum, one)| *sum += one);
            }
            if !holders.is_empty() {
                // A gradient that is zero in exact arithmetic has no scale of its own.
                comparison.check(&format!("gradient of {weight}"), &sum, &expected.data, largest * 1e-3, limit);
            }
        }
    }
}

/// The differences between a run and a fixture that are too large.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// A line for each.
    pub faults: Vec<String>,
}

impl Comparison {
    /// The largest difference relative to the largest reference value must be `limit` at most; `floor` bounds that value from
    /// below.
    ///
    /// # Panics
    /// When sizes differ.
    pub fn check(&mut self, what: &str, ours: &[f64], reference: &[f64], floor: f64, limit: f64) {
        assert_eq!(ours.len(), reference.len(), "the size of {what}");
        let scale = reference.iter().fold(floor, |m, v| m.max(v.abs()));
        let far = |(a, b): (&f64, &f64)| if (a - b).is_finite() { (a - b).abs() / scale } else { f64::INFINITY };
        let farthest = ours.iter().zip(reference).map(far).fold(0.0, f64::max);
        if farthest > limit {
            self.faults.push(format!("{what} differs by {farthest:.1e} (limit {limit:.0e})"));
        }
    }
}

/// Numbers in double precision.
pub fn doubles<T: Real>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}
