//! The path of a leak: from the tokens to the result, over the node at which later tokens come in.

use super::mask::Sight;
use super::{Analysis, Reach};
use crate::ir::graph::{NodeId, Value};
use crate::ir::ops::Op;

/// The reason of a dependence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is made of an operand position by position.
    Flows,
    /// It is an input, and not the tokens: labels, say, which are later tokens themselves.
    Input(String),
    /// The op reads all positions.
    Pool(Op),
    /// The op mixes rows of the batch.
    Mixes(Op),
    /// A mask lets a query see later keys, or does not provably hide them.
    Mask(Sight),
    /// A bias reads the length.
    Bias,
    /// Keys of another axis than the queries', all of which are seen.
    Keys,
    /// The number of steps follows the length.
    Bound,
    /// A cap on the steps follows the length.
    Cap,
    /// A condition for the whole row decides how many steps are taken.
    Go,
    /// The chunks are cut by the length of the row, or of the longest row.
    Cut,
    /// It is what a chunk loop carries, after the last chunk.
    Last,
    /// It belongs to the backward run.
    Backward,
}

/// The cause of a reach.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    /// The node that made it so.
    pub(super) node: NodeId,
    /// The value that it took it from; `None` where it begins.
    pub(super) from: Option<Value>,
    pub(super) why: Why,
}

/// One event of the analysis: a value was raised.
#[derive(Clone, Debug)]
pub(super) struct Raised {
    /// To this.
    pub(super) reach: Reach,
    /// For the sake of this value, which had this reach then.
    pub(super) source: Option<(Value, Reach)>,
    pub(super) node: NodeId,
    pub(super) why: Why,
}

/// One value on the path of a leak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStep {
    pub value: Value,
    /// The node through which it got what it depends on.
    pub node: NodeId,
    /// How.
    pub why: Why,
    /// What it depends on.
    pub reach: Reach,
}

/// A dependence of a result on later tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// The node at which later tokens come in.
    pub node: NodeId,
    /// How they do.
    pub why: Why,
    /// From where it begins (mostly the tokens) to the result.
    pub path: Vec<PathStep>,
}

impl Analysis<'_> {
    /// The leak into a result: `None` if each of its positions depends only on the tokens up to it.
    pub fn leak(&self, result: Value) -> Option<Leak> {
        let answers = self.axis_depth(result) == Some(0);
        if answers && !self.reach(result).leaks() {
            return None;
        }
        let path = self.path(result);
        let entry = path.iter().find(|step| step.reach.leaks()).or(path.last());
        let (node, why) = entry.map_or((self.nodes[0], Why::Flows), |step| (step.node, step.why.clone()));
        Some(Leak { node, why, path })
    }

    /// The chain of events behind the reach of a value, the first one first. Each is older than the next, so that it ends.
    fn path(&self, value: Value) -> Vec<PathStep> {
        let (mut path, mut next) = (vec![], Some((value, self.reach(value))));
        while let Some((value, reach)) = next {
            let Some(raised) = self.history[value.index()].iter().find(|raised| raised.reach == reach) else { break };
            path.push(PathStep { value, node: raised.node, why: raised.why.clone(), reach });
            next = raised.source;
        }
        path.reverse();
        path
    }
}

impl Why {
    /// What happens there, in words that follow the name of the op.
    pub fn describe(&self) -> String {
        match self {
            Self::Flows => "passes it on".to_owned(),
            Self::Input(name) => format!("the input `{name}` holds what comes later"),
            Self::Pool(Op::Position) => "reads the last position, wherever the row ends".to_owned(),
            Self::Pool(_) => "reads all positions".to_owned(),
            Self::Mixes(_) => "mixes the rows of the batch".to_owned(),
            Self::Mask(sight) => sight.describe(),
            Self::Bias => "has a bias that depends on the length".to_owned(),
            Self::Keys => "sees all keys of another axis".to_owned(),
            Self::Bound => "takes as many steps as the length says".to_owned(),
            Self::Cap => "caps the steps by the length".to_owned(),
            Self::Go => "goes on or stops for all positions at once".to_owned(),
            Self::Cut => "cuts the chunks by a length".to_owned(),
            Self::Last => "is known after the last chunk".to_owned(),
            Self::Backward => "belongs to the backward run".to_owned(),
        }
    }
}
