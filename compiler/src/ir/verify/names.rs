//! Names: what nodes, weights, axes and slots are called.
//!
//! A name is a word of letters, digits and `_`, or several with a `.` between them. Exports and messages write names as they are, so that
//! no other text may stand for one.

use std::collections::{BTreeMap, BTreeSet};

use super::GraphChecker;
use crate::ir::attr::{is_name, is_word};
use crate::ir::attribute::{self, Attribute};
use crate::ir::graph::{MAIN, NodeId};
use crate::ir::ops::Op;

/// Attributes that hold a name.
const NAMES: [&Attribute; 3] = [&attribute::NAME.row, &attribute::PARAM.row, &attribute::GROUP.row];

/// Attributes that hold an axis.
const AXES: [&Attribute; 4] = [&attribute::OVER.row, &attribute::AXIS.row, &attribute::FILLED.row, &attribute::CAP.row];

impl GraphChecker<'_> {
    /// Names and the slot of a node are words.
    pub(super) fn words(&mut self, id: NodeId) {
        let node = self.graph.node(id);
        for (attribute, value) in node.attrs.iter() {
            let Some(text) = value.text() else { continue };
            let is = |table: &[&Attribute]| table.iter().any(|row| row.name == attribute);
            if is(&NAMES) && !is_name(text) {
                self.say(id, format!("`{attribute}` must be {NAME}: got {text:?}"));
            }
            if is(&AXES) && !is_word(text) {
                self.say(id, format!("`{attribute}` must be an axis, as `length` or `length+2`: got {text:?}"));
            }
        }
        let results = node.find(attribute::NAMES).unwrap_or_default();
        for name in results.split(',').map(str::trim).filter(|name| !name.is_empty() && !is_name(name)) {
            self.say(id, format!("the name of a result must be {NAME}: got {name:?}"));
        }
        if !node.label.is_empty() && !is_name(&node.label) {
            self.say(id, format!("a slot must be {NAME}: got {:?}", node.label));
        }
    }

    /// Inputs and parameters have distinct names, results are named, and gradients name a parameter.
    pub(super) fn model_names(&mut self) {
        let (mut inputs, mut params) = (BTreeSet::new(), BTreeMap::new());
        for &id in self.graph.nodes(MAIN) {
            let node = self.graph.node(id);
            let name = node.find(attribute::NAME).unwrap_or_default().to_owned();
            let fresh = match node.op {
                Op::Input => inputs.insert(name.clone()),
                Op::Param => params.insert(name.clone(), node.results[0]).is_none(),
                _ => true,
            };
            if !fresh {
                self.say(id, format!("the {} name `{name}` is taken", node.op));
            }
        }
        for id in self.graph.walk(MAIN) {
            let node = self.graph.node(id);
            if node.op == Op::Return {
                let names: Vec<&str> =
                    node.find(attribute::NAMES).unwrap_or_default().split(',').map(str::trim).collect();
                let count = names.iter().filter(|n| !n.is_empty()).count();
                let distinct = names.iter().collect::<BTreeSet<_>>().len();
                if count != node.operands.len() || (count > 0 && distinct != count) {
                    self.say(id, "`return` names each of its operands, once");
                }
            }
            if node.op == Op::Accumulate {
                let param = node.find(attribute::PARAM).and_then(|p| params.get(p)).map(|p| self.graph.ty(*p));
                if param != node.operands.first().map(|x| self.graph.ty(*x)) {
                    self.say(id, "`accumulate` adds a value of the type of a parameter of this graph");
                }
            }
        }
    }
}

/// What a name is, for messages.
const NAME: &str = "letters, digits and `_`, with a `.` between words, as `head.output.weight`";
