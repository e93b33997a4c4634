//! The results of a run, by name.

use rtc_compiler::ir::attribute;
use std::rc::Rc;

use rtc_compiler::ir::graph::MAIN;
use rtc_compiler::plan::Plan;

use crate::arena::Arena;
use crate::machine::value::Val;
use crate::storage::{Element, List};

/// The names of the results of a graph, in the order in which it returns them.
pub fn output_names(plan: &Plan) -> Rc<[String]> {
    let end = plan.graph.terminator(MAIN).map(|n| plan.graph.node(n));
    let names = end.and_then(|end| end.find(attribute::NAMES)).unwrap_or_default();
    names.split(',').map(|n| n.trim().to_owned()).collect()
}

/// The results of a run, by name.
#[derive(Debug)]
pub struct Outputs<T: Element> {
    pub(crate) names: Rc<[String]>,
    pub(crate) values: List<Val<T>>,
}

impl<T: Element> Outputs<T> {
    /// Real results, by the place of their names; `None` for others.
    pub fn new(names: Rc<[String]>, values: Vec<Option<Vec<T>>>, arena: &Arena) -> Self {
        let val = |numbers: Option<Vec<T>>| match numbers {
            Some(numbers) => Val::real(arena.copy(&numbers)),
            None => Val::truth(arena.list([])),
        };
        Self { names, values: arena.list(values.into_iter().map(val)) }
    }

    /// The numbers of a real result; `None` when the graph has no such result.
    pub fn real(&self, name: &str) -> Option<&[T]> {
        match self.values.get(self.names.iter().position(|n| n == name)?)? {
            Val::Real(buffer) => Some(buffer),
            _ => None,
        }
    }

    /// A scalar result.
    pub fn scalar(&self, name: &str) -> Option<f64> {
        self.real(name)?.first().map(|x| x.to_f64())
    }
}
