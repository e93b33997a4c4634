//! What is measured: one table of models, one of sizes, and two special cases.

use rtc_base::rng::Key;
use serde_json::{Value as Json, json};

use crate::protocol::{Job, Rows};

/// Number of token ids, as ListOps has.
const VOCAB: usize = 20;
/// Number of classes.
const CLASSES: usize = 10;
/// Batches that are run in turn.
const BATCHES: u64 = 4;
/// Dropout of training, on values and on attention weights: the peer's default.
const DROPOUT: f64 = 0.1;
/// Learning rate of models whose depth does not depend on their weights.
const LEARNING_RATE: f64 = 1e-4;

/// A kind of model, in the words of the peer's table of variants.
#[derive(Debug)]
struct Family {
    name: &'static str,
    /// Layers, or the bound of the recurrence.
    layers: usize,
    engine: &'static str,
    shared: bool,
    gate: bool,
    halt: Option<&'static str>,
    look: bool,
    keys: &'static str,
    pool: &'static str,
}

const TRANSFORMER: Family = Family {
    name: "transformer",
    layers: 6,
    engine: "depth",
    shared: false,
    gate: false,
    halt: None,
    look: false,
    keys: "state",
    pool: "mean",
};
const UT: Family = Family { name: "ut", layers: 10, shared: true, halt: Some("token"), keys: "mix", ..TRANSFORMER };
const GUT: Family = Family {
    name: "gut",
    layers: 10,
    shared: true,
    gate: true,
    halt: Some("global"),
    look: true,
    pool: "end",
    ..TRANSFORMER
};
const TLB: Family = Family { name: "tlb", layers: 5, engine: "chunk", ..TRANSFORMER };
const GUTLB: Family = Family { name: "gutlb", layers: 5, engine: "chunk", pool: "mean", ..GUT };

/// Widths and the shape of a batch.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// What a case's name ends in.
    suffix: &'static str,
    dim: usize,
    heads: usize,
    hidden: usize,
    batch: usize,
    length: usize,
}

const D128: Size = Size { suffix: "", dim: 128, heads: 8, hidden: 512, batch: 32, length: 100 };
const D64: Size = Size { suffix: "_d64", dim: 64, hidden: 256, ..D128 };
const D512: Size = Size { suffix: "_d512", dim: 512, hidden: 1024, batch: 8, ..D128 };
const L1000: Size = Size { suffix: "_l1000", batch: 4, length: 1000, ..D128 };
const TINY: Size = Size { suffix: "", dim: 16, heads: 2, hidden: 32, batch: 4, length: 12 };

/// Every model at these sizes.
const GRID: [(Size, &[Family]); 4] = [
    (D128, &[TRANSFORMER, UT, GUT, TLB, GUTLB]),
    (D64, &[TRANSFORMER, UT, GUT, TLB, GUTLB]),
    (D512, &[TRANSFORMER, UT, GUT, TLB, GUTLB]),
    (L1000, &[TRANSFORMER, GUT, TLB, GUTLB]),
];

/// The models that a card is measured with, at the sizes that fill it.
const CARD: [&Family; 4] = [&TRANSFORMER, &GUT, &TLB, &GUTLB];
/// The size at which a card is measured beside a plain transformer with PyTorch's best attention.
const CARD_PLAIN: Size = Size { suffix: "_card_d512_b32_l1024", batch: 32, length: 1024, ..D512 };
const CARD_SIZES: [Size; 12] = [
    Size { suffix: "_card_d128_b32_l100", ..D128 },
    Size { suffix: "_card_d128_b32_l512", length: 512, ..D128 },
    Size { suffix: "_card_d128_b32_l1024", length: 1024, ..D128 },
    Size { suffix: "_card_d128_b256_l100", batch: 256, ..D128 },
    Size { suffix: "_card_d128_b256_l512", batch: 256, length: 512, ..D128 },
    Size { suffix: "_card_d128_b256_l1024", batch: 256, length: 1024, ..D128 },
    Size { suffix: "_card_d512_b32_l100", batch: 32, ..D512 },
    Size { suffix: "_card_d512_b32_l512", batch: 32, length: 512, ..D512 },
    CARD_PLAIN,
    Size { suffix: "_card_d512_b256_l100", batch: 256, ..D512 },
    Size { suffix: "_card_d512_b256_l512", batch: 256, length: 512, ..D512 },
    Size { suffix: "_card_d512_b256_l1024", batch: 256, length: 1024, ..D512 },
];

/// The case of `--quick`.
pub(crate) const SMOKE: &str = "smoke";

/// What is different about a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Both programs run the same model on the same weights.
    Same,
    /// The peer runs a plain transformer of its own.
    Plain,
    /// Weights for which rows halt after 1 to 10 steps.
    Spread,
}

/// One case.
#[derive(Debug)]
pub(crate) struct Case {
    /// How `--cases` calls it.
    pub(crate) name: String,
    /// What is different about it.
    pub(crate) kind: Kind,
    family: &'static Family,
    size: Size,
}

/// What is added to the halting bias of a spread case, from deep to shallow: mean depths from 10 to 2.
pub(crate) const SHIFTS: [f64; 7] = [-24.0, -6.0, -2.0, 0.0, 2.0, 4.0, 6.0];

/// All cases, in the order in which they run.
pub(crate) fn all() -> Vec<Case> {
    let case = |name: String, kind, family, size| Case { name, kind, family, size };
    let mut cases = vec![];
    for (size, families) in &GRID {
        for family in *families {
            cases.push(case(format!("{}{}", family.name, size.suffix), Kind::Same, family, *size));
        }
    }
    for size in CARD_SIZES {
        for family in CARD {
            cases.push(case(format!("{}{}", family.name, size.suffix), Kind::Same, family, size));
        }
    }
    cases.push(case("transformer_sdpa".to_owned(), Kind::Plain, &TRANSFORMER, D128));
    cases.push(case(format!("transformer_sdpa{}", CARD_PLAIN.suffix), Kind::Plain, &TRANSFORMER, CARD_PLAIN));
    cases.push(case("halting".to_owned(), Kind::Spread, &GUT, D128));
    cases.push(case(SMOKE.to_owned(), Kind::Same, &GUTLB, TINY));
    cases
}

impl Case {
    /// Rows of a batch.
    pub(crate) fn batch(&self) -> usize {
        self.size.batch
    }

    /// Tokens of a row.
    pub(crate) fn length(&self) -> usize {
        self.size.length
    }

    /// True for the cases of `--device cuda`.
    pub(crate) fn for_cards(&self) -> bool {
        self.size.suffix.starts_with("_card")
    }

    /// True when the depth of the model depends on its weights.
    pub(crate) fn halts(&self) -> bool {
        self.family.halt.is_some()
    }

    /// The model in a line.
    pub(crate) fn describe(&self) -> String {
        let (f, s) = (self.family, self.size);
        let layers = if f.shared { format!("bound {}", f.layers) } else { format!("{} layers", f.layers) };
        let what = match self.kind {
            Kind::Same => "",
            Kind::Plain => "; the peer is a plain transformer with scaled_dot_product_attention",
            Kind::Spread => "; rows halt after 1 to 10 steps",
        };
        format!(
            "{}, {layers}, width {}, {} heads, hidden {}, batch {}, length {}{what}",
            f.name, s.dim, s.heads, s.hidden, s.batch, s.length
        )
    }

    /// The model in the words of the peer, with this dropout.
    fn spec(&self, dropout: f64) -> Json {
        let (f, s) = (self.family, self.size);
        json!({
            "model": f.name, "task": "classify", "vocab": VOCAB, "classes": CLASSES,
            "dim": s.dim, "heads": s.heads, "head_dim": s.dim / s.heads, "dff": s.hidden,
            "layers": f.layers, "updates": 1, "chunk": 10, "chunking": "plain", "slots": 10,
            "p_drop": dropout, "p_attn": dropout, "beta": 0.1, "threshold": 0.999,
            "engine": f.engine, "shared": f.shared, "gate": f.gate, "halt": f.halt, "look": f.look, "kv": f.keys,
            "pool": f.pool, "stop": true, "fixed": false,
        })
    }

    /// What a program is to load for training steps.
    pub(crate) fn job(&self, weights: Option<String>) -> Job {
        let spread = self.kind == Kind::Spread;
        // Found by trying seeds and gains; at this seed every depth from 1 to 10 occurs without dropout.
        let (seed, embed_gain, halt_gain, halt_bias) = if spread { (2, 50.0, 4.0, -2.0) } else { (0, 1.0, 1.0, 0.0) };
        Job {
            spec: self.spec(DROPOUT),
            weights,
            seed,
            embed_gain,
            halt_gain,
            halt_bias,
            halt_shift: 0.0,
            learning_rate: if self.halts() { 0.0 } else { LEARNING_RATE },
            plain: self.kind == Kind::Plain,
            compile: false,
            batches: (0..BATCHES).map(|n| self.rows(n)).collect(),
        }
    }

    /// The same without dropout, to compare losses.
    pub(crate) fn exact(&self, weights: Option<String>) -> Job {
        Job { spec: self.spec(0.0), ..self.job(weights) }
    }

    /// Random rows. Those of a spread case repeat one token each most of the time: means of random rows are all alike, and
    /// would halt together.
    fn rows(&self, batch: u64) -> Rows {
        let mut draws = Key::new(7).at(batch).draws();
        let mut below = |n: usize| draws.below(n as u64) as u32;
        let mut token = |row: usize| match below(5) {
            0..4 if self.kind == Kind::Spread => (row % VOCAB) as u32,
            _ => below(VOCAB),
        };
        let tokens = (0..self.size.batch).map(|row| (0..self.size.length).map(|_| token(row)).collect()).collect();
        Rows { tokens, labels: (0..self.size.batch).map(|_| below(CLASSES)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtc_compiler::pipeline;
    use rtc_tests::peer::Description;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_model() {
        let cases = all();
        for (n, case) in cases.iter().enumerate() {
            assert!(cases[..n].iter().all(|other| other.name != case.name), "{}", case.name);
            let model = Description(case.spec(DROPOUT));
            let spec = rtc_tests::spec(&model.source(), &model.binding());
            assert!(pipeline::plans(&spec, &model.binding()).is_ok(), "{}", case.name);
        }
    }

    #[test]
    fn batches_are_the_same_in_every_run() {
        let case = &all()[0];
        assert_eq!(case.rows(1).tokens, case.rows(1).tokens);
        assert_ne!(case.rows(0).tokens, case.rows(1).tokens);
    }
}
