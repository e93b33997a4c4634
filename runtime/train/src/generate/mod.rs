//! Generation: a trained model of next tokens writes on.
//!
//! A [`Generator`] reads tokens into [`GenerationRow`]s and gives the logits of the token that comes next; [`Sampling`] chooses it. Where the
//! graph allows it ([`rtc_compiler::incremental`]), a token costs the work of one position; else the whole row is computed again.
//! Both give the same numbers, up to rounding in scans.

mod sampling;
mod writing;

use std::sync::Arc;

use rtc_compiler::incremental::{Incremental, incremental};
use rtc_compiler::ir::graph::{Graph, MAIN};
use rtc_compiler::ir::ops::Op;

use rtc_base::batch::{Batch, Given, Labels};
use rtc_base::rng::Key;
use rtc_exec::learner::LearnError;
use rtc_exec::model::{ForwardPass, as_learn_error, logits_per_item};
use rtc_exec::storage::Element;
use rtc_exec::{ExecutionFault, Executor, Past};
use rtc_task::{Objective, Options, Task, documents};
pub use sampling::Sampling;
pub use writing::{TextPieces, Writing};

/// A model with fixed weights that continues rows.
#[derive(Debug)]
pub struct Generator<T: Element> {
    executor: Executor<T>,
    /// How new positions are computed alone, or why they can't be.
    how: Result<Arc<Incremental>, String>,
    /// Logits of one position.
    logits: usize,
    key: Key,
    updates: u64,
    /// The token that ends a document, where the model may take the numbers of documents.
    document_end: Option<u32>,
}

/// The tokens of one row, and what they have left for the next ones.
#[derive(Clone, Debug)]
pub struct GenerationRow<T: Element> {
    tokens: Vec<u32>,
    past: Option<Past<T>>,
}

impl<T: Element> GenerationRow<T> {
    /// The tokens that were read.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

impl<T: Element> Generator<T> {
    /// A generator from an executor of forward passes with the weights of a model.
    pub fn new(pass: ForwardPass<T>) -> Self {
        let ForwardPass { executor, binding, key, updates } = pass;
        let how = incremental(executor.plan(), "logits").map(Arc::new);
        Self { executor, how, logits: logits_per_item(&binding), key, updates, document_end: None }
    }

    /// The same for a task whose rows come with the numbers of documents ([`Task::document_end`]).
    #[must_use]
    pub fn with_documents(mut self, task: &dyn Task) -> Self {
        self.document_end = task.document_end();
        self
    }

    /// Why the whole row is computed again for every token; nothing where a token costs one position.
    pub fn recomputes(&self) -> Option<&str> {
        self.how.as_ref().err().map(String::as_str)
    }

    /// Computes the whole row for every token from now on: the same text, slower, to compare.
    pub fn recompute(&mut self) {
        self.how = Err("it was asked for".to_owned());
    }

    /// The most positions that a row can have, where the model has learned a number of them.
    pub fn positions(&self) -> Option<usize> {
        learned_positions(&self.executor.plan().graph)
    }

    /// A row without tokens.
    pub fn begin(&self) -> GenerationRow<T> {
        GenerationRow { tokens: vec![], past: self.how.as_ref().ok().map(|how| Past::new(how.clone())) }
    }

    /// Reads some tokens, at least one, and gives a logit for every token that can come next.
    ///
    /// # Errors
    /// Tokens that the model does not know, more positions than it has learned, and a logit that is not finite.
    pub fn read(&mut self, row: &mut GenerationRow<T>, tokens: &[u32]) -> Result<Vec<f64>, LearnError> {
        if tokens.is_empty() {
            return Err(LearnError::Batch("a row needs at least one token to go on from".to_owned()));
        }
        let before = row.tokens.len();
        row.tokens.extend_from_slice(tokens);
        let given = |from| self.document_end.map(|end| documents(&row.tokens, end, from));
        let last: Result<Vec<f64>, ExecutionFault> = match &mut row.past {
            Some(past) => {
                let given = given(before);
                let logits = self.executor.extend(past, (tokens, given.as_slice()), self.key);
                logits.map(|logits| last(&logits, self.logits))
            }
            None => {
                let outputs = self.executor.run(&alone(&row.tokens, given(0)), self.key);
                outputs.map(|outputs| last(outputs.real("logits").unwrap_or_default(), self.logits))
            }
        };
        let last = last.map_err(|fault| as_learn_error(fault, self.updates))?;
        match last.iter().all(|x| x.is_finite()) {
            true => Ok(last),
            false => Err(LearnError::NonFinite { step: self.updates, node: "the logits".to_owned() }),
        }
    }
}

/// The most positions that a row of a model can have, where the model has learned a number of them.
pub fn learned_positions(graph: &Graph) -> Option<usize> {
    let nodes = graph.walk(MAIN).into_iter().map(|id| graph.node(id)).filter(|node| node.op == Op::AddPosition);
    nodes.filter_map(|node| graph.ty(*node.operands.get(1)?).dims()[0].fixed()).min()
}

/// Whether the answers of a task are the tokens that come next, so that a model can write on.
pub fn writes_next_tokens(task: &dyn Task, options: &Options) -> bool {
    let next = task.objective() == Objective::Each && task.next_token(options);
    next && task.vocabulary(options) == task.classes(options)
}

/// The logits of the last position. One logit is that of the second of two tokens against the first.
fn last<T: Element>(logits: &[T], each: usize) -> Vec<f64> {
    let own = logits[logits.len() - each..].iter().map(|x| x.to_f64());
    if each == 1 { std::iter::once(0.0).chain(own).collect() } else { own.collect() }
}

/// A batch of one row, of which only the logits are asked, with the numbers of its documents.
pub(crate) fn alone(tokens: &[u32], documents: Option<Given>) -> Batch {
    let count = tokens.len();
    let labels = Labels::Each { class: vec![0; count], weight: vec![0.0; count] };
    let given = documents.into_iter().collect();
    Batch { offsets: vec![0, count], tokens: tokens.to_vec(), labels, width: count, depths: None, given }
}
