//! How weights start: what a linear map says of itself, and what `starts`, `starts_std` and `starts_cut` of `model` say of all.

use crate::ir::types::{Attr, Dim};

/// How a linear map starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LinearInit {
    /// Xavier-uniform with a gain, without a bias: the projections of attention.
    Projection(f64),
    /// The same with a bias, from 0.
    BiasedProjection(f64),
    /// Xavier-uniform, bias N(0, 1e-6).
    Xavier,
    /// Uniform in +-1/sqrt(inputs), weight and bias.
    FanIn,
    /// Normal with this standard deviation, bias 0.
    Normal(f64),
    /// 1 on the diagonal and 0 elsewhere, bias 0.
    Identity,
    /// The weight as another one, and the bias from a number on.
    From(Box<LinearInit>, f64),
    /// As another one, the weight times a factor.
    Scaled(Box<LinearInit>, f64),
}

impl LinearInit {
    /// Whether the weight starts uniformly: only these follow what the model says.
    fn is_uniform(&self) -> bool {
        match self {
            Self::Projection(_) | Self::BiasedProjection(_) | Self::Xavier | Self::FanIn => true,
            Self::Normal(_) | Self::Identity => false,
            Self::From(init, _) | Self::Scaled(init, _) => init.is_uniform(),
        }
    }
}

/// How the maps of a model start that would start uniformly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Maps {
    /// Normal, cut at 2 deviations, with the deviation `1 / sqrt(inputs)` after the cut. The normal starts of other weights are cut
    /// in the same way and keep their deviation.
    /// Source: LeCun et al. 1998, Efficient BackProp, Section 4.6; the cut as in Flax and in the code of HRM and TRM.
    Lecun,
    /// Normal with this deviation.
    Normal(f64),
    /// Orthogonal rows or columns, whose numbers have this deviation. So does the table of tokens with its own deviation.
    /// Source: Saxe et al. 2014, arXiv:1312.6120.
    Orthogonal(f64),
}

/// The starts of a model.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Starts {
    /// How maps start that would start uniformly.
    pub(crate) maps: Option<Maps>,
    /// How many deviations from 0 normal starts are cut, without another factor.
    pub(crate) cut: Option<f64>,
}

/// The cut of [`Maps::Lecun`], in deviations.
const LECUN_CUT: f64 = 2.0;
/// The deviation of a normal number that is cut at 2 deviations: `sqrt(1 - 2 c p(c) / (2 P(c) - 1))` with the density p and the
/// distribution P at c = 2.
const LECUN_LEFT: f64 = 0.879_625_661_034_239_8;

impl Starts {
    /// The start of the weight of a linear map from so many inputs.
    pub(crate) fn weight(&self, init: &LinearInit, inputs: &Dim) -> Attr {
        let root = (inputs.fixed().unwrap_or(1) as f64).sqrt();
        let by_model = self.maps.filter(|_| init.is_uniform());
        match (init, by_model) {
            (LinearInit::From(init, _), _) => self.weight(init, inputs),
            (LinearInit::Scaled(init, factor), _) => scaled(self.weight(init, inputs), *factor),
            (_, Some(Maps::Lecun)) => normal(1.0 / root),
            (_, Some(Maps::Normal(std))) => normal(std),
            (_, Some(Maps::Orthogonal(std))) => Attr::call("orthogonal", [std.into()]),
            (LinearInit::Projection(gain) | LinearInit::BiasedProjection(gain), None) => {
                Attr::call("xavier", [(*gain).into()])
            }
            (LinearInit::Xavier, None) => Attr::call("xavier", [1.0.into()]),
            (LinearInit::FanIn, None) => fan_in(inputs),
            (LinearInit::Normal(std), None) => normal(*std),
            (LinearInit::Identity, None) => "identity".into(),
        }
    }

    /// The start of its bias, if it may have one.
    pub(crate) fn bias(&self, init: &LinearInit, inputs: &Dim) -> Option<Attr> {
        match init {
            LinearInit::Projection(_) => None,
            LinearInit::From(_, bias) => Some(Attr::call("constant", [(*bias).into()])),
            LinearInit::Scaled(init, _) => self.bias(init, inputs),
            LinearInit::Xavier if self.maps.is_none() => Some(normal(1e-6)),
            LinearInit::FanIn if self.maps.is_none() => Some(fan_in(inputs)),
            _ => Some("zeros".into()),
        }
    }

    /// The start of the table of tokens, of this deviation.
    pub(crate) fn table(&self, std: f64) -> Attr {
        match self.maps {
            Some(Maps::Orthogonal(_)) => Attr::call("orthogonal", [std.into()]),
            _ => normal(std),
        }
    }

    /// A start with its normal numbers cut as the model says.
    pub(crate) fn cut(&self, start: Attr) -> Attr {
        let Attr::Call(name, args) = &start else { return start };
        let (Some(std), "normal") = (args.first().and_then(Attr::float), name.as_str()) else { return start };
        match (self.maps, self.cut) {
            _ if std == 0.0 => start,
            (Some(Maps::Lecun), _) => Attr::call("normal", [(std / LECUN_LEFT).into(), LECUN_CUT.into()]),
            (_, Some(cut)) => Attr::call("normal", [std.into(), cut.into()]),
            _ => start,
        }
    }
}

fn normal(std: f64) -> Attr {
    Attr::call("normal", [std.into()])
}

fn fan_in(inputs: &Dim) -> Attr {
    Attr::call("fan_in", [inputs.fixed().unwrap_or(1).into()])
}

/// A start times a factor. What does not depend on a scale stays.
fn scaled(start: Attr, factor: f64) -> Attr {
    match &start {
        Attr::Call(name, args) => match (name.as_str(), args.first().and_then(Attr::float)) {
            ("fan_in", Some(inputs)) => {
                let end = factor / inputs.sqrt();
                Attr::call("uniform", [(-end).into(), end.into()])
            }
            (name, Some(size)) => Attr::call(name, [(factor * size).into()]),
            _ => start,
        },
        _ => start,
    }
}
