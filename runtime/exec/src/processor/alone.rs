//! Single steps for machines that leave some of their ops to the processor.

use rtc_compiler::plan::group::Group;
use rtc_compiler::plan::{Plan, RegionPlan, Step};

use crate::machine::value::Val;
use crate::processor::Executor;
use crate::rows::BatchView;
use crate::settings::ExecutionFault;
use crate::storage::Element;
use rtc_compiler::ir::graph::Value;

impl<T: Element> Executor<T> {
    /// Runs one step of its plan that is neither a loop nor an input, on operands that the caller gives; `group` is the group that the
    /// step stands in. Gives all results, also those that the plan adds to a gradient.
    ///
    /// # Errors
    /// A batch that the op can't take.
    pub fn alone(
        &mut self,
        plan: &Plan,
        step: &Step,
        group: Option<&Group>,
        view: &BatchView,
        operands: impl IntoIterator<Item = (Value, Val<T>)>,
    ) -> Result<Vec<Option<Val<T>>>, ExecutionFault> {
        // What it keeps of parameters is that of the caller's, who may have changed them.
        self.version += 1;
        let mut given = vec![];
        for (value, val) in operands {
            self.memory.set(value, val);
            given.push(value);
        }
        let results = &plan.graph.node(step.node).results;
        let own = Step { frees: vec![], in_place: None, accumulates_into: vec![None; results.len()], node: step.node };
        let done = match group {
            Some(group) => {
                let group = Group { steps: 0..1, inner: vec![], scratch: 0, ..group.clone() };
                self.group(plan, &RegionPlan { steps: vec![own], ..RegionPlan::default() }, &group, view);
                Ok(())
            }
            None => self.execute(plan, &own, view),
        };
        for value in given {
            self.memory.values[value.index()] = None;
        }
        let results = results.iter().map(|value| self.memory.values[value.index()].take()).collect();
        done.map(|()| results)
    }
}
