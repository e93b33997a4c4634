//! Models of the independent PyTorch implementation: how it describes them, the same models in the language, and what it
//! calls their parameters.
//!
//! A description is the JSON object of its `Spec` dataclass, as in the `meta.json` of a fixture.

use std::collections::BTreeMap;
use std::path::Path;

use rtc_compiler::lower::{Binding, Objective};
use rtc_compiler::plan::Plan;
use rtc_exec::model::Model;
use rtc_exec::parameter_ranges;
use rtc_exec::storage::Element;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value as Json;

/// A tensor of a file, whatever its precision there.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// The numbers, the last axis fastest.
    pub data: Vec<f64>,
}

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// The tensors of a safetensors file.
///
/// # Errors
/// A file that can't be read, or holds another type than f64, f32, i64 and u8.
pub fn load(path: &Path) -> Result<Tensors, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(|e| at(&e))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| at(&e))?;
    let named = |(name, view): (&str, safetensors::tensor::TensorView<'_>)| {
        let data = numbers(view.dtype(), view.data()).ok_or_else(|| at(&format!("{:?}", view.dtype())))?;
        Ok((name.to_owned(), Tensor { shape: view.shape().to_vec(), data }))
    };
    file.iter().map(named).collect()
}

fn numbers(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    let of_8 = |b: &[u8]| <[u8; 8]>::try_from(b).expect("pieces of 8 bytes");
    let of_4 = |b: &[u8]| <[u8; 4]>::try_from(b).expect("pieces of 4 bytes");
    Some(match dtype {
        Dtype::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(of_8(b))).collect(),
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(of_4(b)))).collect(),
        Dtype::I64 => bytes.chunks_exact(8).map(|b| i64::from_le_bytes(of_8(b)) as f64).collect(),
        Dtype::U8 => bytes.iter().map(|b| f64::from(*b)).collect(),
        _ => return None,
    })
}

/// A model as the implementation describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Description(pub Json);

impl Description {
    fn int(&self, key: &str) -> usize {
        self.0[key].as_u64().unwrap_or_default() as usize
    }

    fn float(&self, key: &str) -> f64 {
        self.0[key].as_f64().unwrap_or_default()
    }

    /// The word of a field, `none` where there is none.
    pub fn word(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or("none")
    }

    fn flag(&self, key: &str) -> bool {
        self.0[key].as_bool().unwrap_or(false)
    }

    /// True for a language model: every token is answered, and sees only those before it.
    pub fn causal(&self) -> bool {
        self.word("task") == "lm"
    }

    /// What its task asks for.
    pub fn binding(&self) -> Binding {
        let objective = match self.word("task") {
            "pair" => Objective::Pair,
            "lm" => Objective::Each,
            _ => Objective::Classify,
        };
        Binding { vocab: Some(self.int("vocab")), classes: Some(self.int("classes")), objective }
    }

    /// The spec of the model in the language.
    pub fn source(&self) -> String {
        let depth = self.word("engine") == "depth";
        let tokens = if depth && !self.causal() { "start_end" } else { "none" };
        let readout = match (self.causal(), depth, self.word("pool")) {
            // Its causal models see the length of the row: in the cap of their steps, in the cut of their chunks.
            (true, ..) => "each { sees: all }".to_owned(),
            (_, true, "end") => "end".to_owned(),
            (_, true, _) => "mean".to_owned(),
            (_, false, "end") => "memory { pool: last }".to_owned(),
            (_, false, _) => "memory".to_owned(),
        };
        let body = if depth { self.depth_block() } else { self.chunk_block() };
        let width = self.int("dim");
        let dropout = format!("dropout: {:?}, attention_dropout: {:?}", self.float("p_drop"), self.float("p_attn"));
        format!(
            "model case {{\n  {dropout}\n  embed {{ width: {width}, tokens: {tokens} }}\n{body}\n  readout {readout}\n}}\n"
        )
    }

    fn heads(&self) -> String {
        format!("heads: {}, head_width: {}", self.int("heads"), self.int("head_dim"))
    }

    /// One layer, or several with weights of their own.
    fn layers(&self) -> String {
        let heads = self.heads();
        let memory =
            if self.word("engine") == "chunk" { format!("attend memory {{ {heads} }}\n") } else { String::new() };
        let gate =
            if self.flag("gate") { format!("gate mlp {{ hidden: {} }}\n", self.int("dff")) } else { String::new() };
        let mask = if self.causal() { ", mask: past" } else { "" };
        let layer = format!(
            "{gate}attend self {{ {heads}, position: xpos{mask} }}\n{memory}feedforward {{ hidden: {} }}\n",
            self.int("dff")
        );
        if self.flag("shared") { layer } else { format!("stack {} {{\n{layer}}}\n", self.int("layers")) }
    }

    fn halting(&self) -> String {
        let sees = if self.flag("look") { "transition" } else { "state" };
        let common = format!("sees: {sees}, threshold: {:?}, cost: {:?}", self.float("threshold"), self.float("beta"));
        match self.word("halt") {
            "token" => {
                let keys = if self.word("kv") == "mix" { "mixture" } else { "state" };
                format!("halt token {{ {common}, keys: {keys} }}\n")
            }
            "global" => {
                let mean = if self.causal() { "past" } else { "all" };
                format!("halt global {{ {common}, mean: {mean} }}\n")
            }
            _ => String::new(),
        }
    }

    fn depth_block(&self) -> String {
        if !self.flag("shared") {
            return self.layers();
        }
        format!("recur depthwise {{\ndepth: {}\n{}{}}}\n", self.int("layers"), self.halting(), self.layers())
    }

    fn chunk_block(&self) -> String {
        let size = if self.flag("fixed") {
            format!("chunks: {}", self.int("chunks"))
        } else {
            format!("size: {}", self.int("chunk"))
        };
        let balanced = self.word("chunking") != "plain" || self.flag("fixed");
        let cut = if balanced { "balanced" } else { "position" };
        let inner = if self.flag("shared") { self.depth_block() } else { self.layers() };
        format!(
            "recur chunkwise {{\n{size}\ncut: {cut}\nmemory {{ slots: {} }}\n{inner}\nupdate memory {{\nlayers: {}\nattend chunk {{ {} }}\nfeedforward {{ hidden: {} }}\n}}\n}}\n",
            self.int("slots"),
            self.int("updates"),
            self.heads(),
            self.int("dim")
        )
    }

    /// Our name of one of its parameters; `None` for a name that it does not use.
    pub fn rename(&self, name: &str) -> Option<String> {
        let depth = self.word("engine") == "depth";
        let outer = if depth { "" } else { "chunkwise." };
        let layer = |n: &str| {
            if self.flag("shared") { format!("{outer}depthwise") } else { format!("{outer}stack.{n}") }
        };
        let parts: Vec<&str> = name.split('.').collect();
        Some(match parts.as_slice() {
            ["embed", "weight"] => "embed.table".to_owned(),
            ["enc", "start" | "end"] => format!("embed.{}", parts[1]),
            ["enc", "memory"] => "chunkwise.memory.slots".to_owned(),
            ["enc", "n_out", p] => format!("readout.norm.{p}"),
            ["head_a", p] => format!("head.hidden.{p}"),
            ["head_b", p] => format!("head.output.{p}"),
            ["enc", "halting", "head", which, p] => {
                format!("{}.halt.{}.{p}", layer("0"), if *which == "a" { "hidden" } else { "output" })
            }
            ["enc", "cells", n, rest @ ..] => format!("{}.{}", layer(n), Self::within(rest, "self")?),
            ["enc", "updates", n, rest @ ..] => format!("chunkwise.update.{n}.{}", Self::within(rest, "chunk")?),
            _ => return None,
        })
    }

    fn within(rest: &[&str], target: &str) -> Option<String> {
        Some(match rest {
            ["n_self", p] => format!("self.norm.{p}"),
            ["n_ff", p] => format!("feedforward.norm.{p}"),
            ["n_cross", p] => format!("memory.norm.{p}"),
            ["n_mem", p] if target == "chunk" => format!("chunk.norm.{p}"),
            ["n_mem", p] => format!("memory.source_norm.{p}"),
            ["n_chunk", p] => format!("chunk.source_norm.{p}"),
            ["att", m, p] => format!("{target}.{}.{p}", Self::projection(m)),
            ["cross", m, p] => format!("memory.{}.{p}", Self::projection(m)),
            ["ff", m, p] => format!("feedforward.{m}.{p}"),
            ["gate", m, p] => format!("gate.{m}.{p}"),
            _ => return None,
        })
    }

    fn projection(m: &str) -> &'static str {
        match m {
            "q" => "query",
            "k" => "key",
            "v" => "value",
            _ => "output",
        }
    }

    /// Gives the model the weights of the implementation, and returns those that it has no parameter for, by their
    /// names there.
    ///
    /// # Errors
    /// An unknown name, a size that differs, or a parameter of the model that got no value.
    pub fn fill<T: Element>(&self, model: &mut Model<T>, weights: &Tensors) -> Result<Vec<String>, String> {
        if let Some(name) = weights.keys().find(|name| self.rename(name).is_none()) {
            return Err(format!("unknown parameter `{name}`"));
        }
        let Filled { idle, empty } = fill(model, weights, &|name| self.rename(name).into_iter().collect())?;
        if empty.is_empty() { Ok(idle) } else { Err(format!("no values for {empty:?}")) }
    }
}

/// What [`fill`] could not do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filled {
    /// Tensors that the model has no parameter for, by their own names.
    pub idle: Vec<String>,
    /// Parameters of the model that no tensor is for.
    pub empty: Vec<String>,
}

/// Gives the model the weights of a file; `names` are the names that the parameters with a tensor may have.
///
/// # Errors
/// A size that differs.
pub fn fill<T: Element>(
    model: &mut Model<T>,
    weights: &Tensors,
    names: &dyn Fn(&str) -> Vec<String>,
) -> Result<Filled, String> {
    let plan = model.executor().plan().clone();
    let ranges = parameter_ranges(&plan);
    let mut filled = Filled { idle: vec![], empty: plan.parameters.iter().map(|p| p.name.clone()).collect() };
    for (name, tensor) in weights {
        let names = names(name);
        let holders = holders(&plan, &names);
        if holders.is_empty() {
            filled.idle.push(name.clone());
        }
        filled.empty.retain(|empty| !names.contains(empty));
        for n in holders {
            let target = &mut model.executor().parameters_mut()[ranges[n].clone()];
            if target.len() != tensor.data.len() {
                let ours = &plan.parameters[n].name;
                return Err(format!("`{ours}` has {} numbers, `{name}` {}", target.len(), tensor.data.len()));
            }
            for (to, from) in target.iter_mut().zip(&tensor.data) {
                *to = T::from_f64(*from);
            }
        }
    }
    Ok(filled)
}

/// The parameters that have one of these names.
pub fn holders(plan: &Plan, names: &[String]) -> Vec<usize> {
    let all = plan.parameters.iter().enumerate();
    all.filter(|(_, parameter)| names.contains(&parameter.name)).map(|(n, _)| n).collect()
}
