//! S4D: diagonal state spaces (Gu et al. 2022), in the two layers that the papers build of it.

use super::{BEFORE, BEHIND, DIRECTION, DROPPED, NORM, STRICTLY_BEHIND, View, both, needs_both, residual};
use crate::diag::{Diagnostic, Kind, Problems};
use crate::feature::{Feature, Lowering, Site};
use crate::ir::attribute::{self, Attrs, Discretisation};
use crate::ir::graph::{InvalidNode, Value};
use crate::ir::ops::Op;
use crate::ir::pointwise::Pointwise;
use crate::ir::types::{Attr, Dim};
use crate::lower::{LinearInit, Lower, Place, need};
use crate::schema::{Bounds, DROPOUT, Default, float, int, optional_word, word};
use crate::spec::Block;

/// The feature.
pub(super) fn s4d() -> Feature {
    Feature {
        fields: vec![
            int(
                "state",
                Default::Int(64),
                STATE,
                "real numbers of state per channel, an even number: half as many modes",
            ),
            optional_word(
                "discretisation",
                &["bilinear", "zoh"],
                "how the continuous system is discretised: `bilinear` (the default) or `zoh` (zero-order hold)",
            ),
            DIRECTION,
            word(
                "join",
                &["concat", "sum"],
                "concat",
                "`concat`: the directions have separate parameters and are concatenated before the linear map; \
                `sum`: they share all parameters but C and are added",
            ),
            word(
                "backward",
                &["trained", "frozen"],
                "trained",
                "`frozen` stops gradients in the backward direction, as in the published code",
            ),
            DROPPED,
            float("output_dropout", Default::Float(0.0), DROPOUT, "dropout after the gate, before the residual sum"),
            NORM,
        ],
        check,
        ..Feature::row(
            "scan",
            "s4d",
            "Diagonal state spaces: scan, GELU, a linear map with a gate, and a residual connection.",
            "Gu et al. 2022 (S4D), arXiv:2206.11893",
            Lowering::Layer(lower),
        )
    }
}

/// Far more than kernels of any length need, and few enough for one product.
const STATE: Bounds = Bounds::closed(2.0, 4096.0);

/// The group of parameters that learn more slowly than the others.
const GROUP: &str = "s4d";

fn check(site: &Site<'_>, problems: &mut Problems) {
    if let Some(state) = site.block.int("state").filter(|n| n % 2 == 1) {
        problems.report(
            Diagnostic::new(
                Kind::Indivisible,
                site.place("state"),
                format!("a state of {state} numbers does not divide into pairs"),
            )
            .help(format!("use `state: {}`: modes are complex numbers", state + 1)),
        );
    }
    needs_both(site, "join", "concat", problems);
    needs_both(site, "backward", "trained", problems);
}

/// `x + drop(GLU(W tied(GELU(tied(scan(x) + D x)))))`: value in the first half of the linear map, gate in the second.
fn lower(l: &mut Lower<'_>, block: &Block, place: &Place) -> Result<Value, InvalidNode> {
    let dropout = need(block.float("dropout"), block, "dropout")?;
    let last = need(block.float("output_dropout"), block, "output_dropout")?;
    let width = l.width;
    residual(l, block, place, |l, x| {
        let y = directions(l, block, x)?;
        let y = l.tied_dropout(y, dropout)?;
        let y = l.map(Pointwise::Gelu, &[y])?;
        let y = l.tied_dropout(y, dropout)?;
        let y = l.linear(y, "mix", Dim::Fixed(2 * width), &LinearInit::FanIn)?;
        let (value, gate) = (l.channels(y, 0, width)?, l.channels(y, width, width)?);
        let gate = l.map(Pointwise::Sigmoid, &[gate])?;
        let y = l.map(Pointwise::Mul, &[value, gate])?;
        l.dropout(y, last)
    })
}

/// The scans of all directions, with their skip connections.
fn directions(l: &mut Lower<'_>, block: &Block, x: Value) -> Result<Value, InvalidNode> {
    let state = need(block.int("state"), block, "state")?;
    let cut = |l: &mut Lower<'_>, y| {
        let frozen = block.word("backward") == Some("frozen");
        if frozen { l.one(Op::Detach, &[y], Attrs::new()) } else { Ok(y) }
    };
    let whole = |l: &mut Lower<'_>, view| {
        let system = System::new(l, block, state)?;
        let c = system.read(l, "c")?;
        let y = system.scan(l, x, c, view)?;
        skip(l, x, y)
    };
    if !both(block)? {
        return l.scoped("forward", |l| whole(l, BEFORE));
    }
    if block.word("join") == Some("concat") {
        let forward = l.scoped("forward", |l| whole(l, BEFORE))?;
        let backward = l.scoped("backward", |l| whole(l, BEHIND))?;
        let backward = cut(l, backward)?;
        return l.one(Op::Concat, &[forward, backward], Attrs::new());
    }
    let system = System::new(l, block, state)?;
    let (before, behind) = (system.read(l, "c")?, system.read(l, "c_backward")?);
    let forward = system.scan(l, x, before, BEFORE)?;
    let forward = skip(l, x, forward)?;
    let backward = system.scan(l, x, behind, STRICTLY_BEHIND)?;
    let backward = cut(l, backward)?;
    l.map(Pointwise::Add, &[forward, backward])
}

/// The parameters of a state space, without what reads it.
struct System {
    log_dt: Value,
    log_decay: Value,
    frequency: Value,
    b: Value,
    pairs: [Dim; 3],
    /// Whether the input is held between two tokens.
    held: bool,
}

impl System {
    /// Steps log-uniform in 1e-3 .. 1e-1, decay 1/2, frequencies as in S4D-Inv, B = 1.
    fn new(l: &mut Lower<'_>, block: &Block, state: usize) -> Result<Self, InvalidNode> {
        let [channels, modes] = [l.width, state / 2].map(Dim::Fixed);
        let steps = Attr::call("uniform", [1e-3_f64.ln().into(), 1e-1_f64.ln().into()]);
        let decay = Attr::call("constant", [0.5_f64.ln().into()]);
        let frequencies = Attr::call("s4d_inverse", [state.into()]);
        let pairs = [channels.clone(), modes.clone(), Dim::Fixed(2)];
        Ok(Self {
            log_dt: l.param_of(GROUP, "log_dt", [channels.clone()], steps)?,
            log_decay: l.param_of(GROUP, "log_decay", [channels.clone(), modes.clone()], decay)?,
            frequency: l.param_of(GROUP, "frequency", [channels, modes], frequencies)?,
            b: l.param_of(GROUP, "b", pairs.clone(), "pairs_of_one".into())?,
            pairs,
            held: block.word("discretisation") == Some("zoh"),
        })
    }

    /// C, a complex normal number of variance 1 per mode.
    fn read(&self, l: &mut Lower<'_>, name: &str) -> Result<Value, InvalidNode> {
        l.param_of(GROUP, name, self.pairs.clone(), Attr::call("normal", [std::f64::consts::FRAC_1_SQRT_2.into()]))
    }

    fn scan(&self, l: &mut Lower<'_>, x: Value, c: Value, view: View) -> Result<Value, InvalidNode> {
        let held = self.held.then_some(Discretisation::Held);
        let attrs = view.attrs().with_some(attribute::DISCRETISATION, held);
        l.one(Op::S4d, &[x, self.log_dt, self.log_decay, self.frequency, self.b, c], attrs)
    }
}

/// `y + D x`.
fn skip(l: &mut Lower<'_>, x: Value, y: Value) -> Result<Value, InvalidNode> {
    let width = Dim::Fixed(l.width);
    let d = l.param_of(GROUP, "skip", [width], Attr::call("normal", [1.0.into()]))?;
    let through = l.one(Op::Affine, &[x, d], Attrs::new())?;
    l.map(Pointwise::Add, &[y, through])
}
