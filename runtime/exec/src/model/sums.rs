//! The sums of the gradients of micro-batches, in the order of the [`tree`](crate::tree).

use std::ops::Range;

use super::{ArrayMemory, Backend, BackendArray, ModelOn};
use crate::gradient_tree::LeafBlock;
use crate::learner::Distributed;
use crate::learner::LearnError;
use crate::storage::Element;
use rtc_kernel::optimiser::{Accumulate, Assign};

/// Sums over blocks of micro-batches: the last one lies in the gradients of the executor, those before it in arrays of their own, at most
/// one for each power of two.
#[derive(Debug)]
pub(super) struct Sums<A> {
    before: Vec<(LeafBlock, A)>,
    last: Option<LeafBlock>,
    /// Arrays for later sums.
    free: Vec<A>,
}

impl<A> Default for Sums<A> {
    fn default() -> Self {
        Self { before: vec![], last: None, free: vec![] }
    }
}

impl<A> Sums<A> {
    /// Puts the last sum aside, so that the gradients are free for the next micro-batch.
    pub(super) fn put_aside<T: Element, M: ArrayMemory<T, Array = A>>(
        &mut self,
        memory: &M,
        gradients: &A,
        len: usize,
    ) {
        if let Some(block) = self.last.take() {
            let mut array = self.free.pop();
            memory.copy(gradients, &mut array, len);
            self.before.extend(array.map(|array| (block, array)));
        }
    }

    /// Takes the gradients as those of a micro-batch, to which the sums before it that are due by then are added.
    pub(super) fn add_leaf<T: Element, M: ArrayMemory<T, Array = A>>(
        &mut self,
        memory: &M,
        gradients: &mut A,
        leaf: u64,
        all: &Range<usize>,
    ) {
        let mut block = LeafBlock::leaf(leaf);
        while let Some((before, array)) = self.before.pop_if(|(before, _)| before.joins(block)) {
            memory.each(&Accumulate {}, [gradients], [&array], all);
            block = before.with(block);
            self.free.push(array);
        }
        self.last = Some(block);
    }

    /// Lets the gradients be the sum over all micro-batches.
    pub(super) fn finish<T: Element, M: ArrayMemory<T, Array = A>>(
        &mut self,
        memory: &M,
        gradients: &mut A,
        all: &Range<usize>,
    ) {
        while let Some((before, array)) = self.before.pop() {
            memory.each(&Accumulate {}, [gradients], [&array], all);
            self.last = self.last.map(|last| before.with(last));
            self.free.push(array);
        }
    }

    /// Forgets all sums.
    pub(super) fn clear(&mut self) {
        self.free.extend(self.before.drain(..).map(|(_, array)| array));
        self.last = None;
    }
}

impl<B: Backend> ModelOn<B> {
    /// Lets the gradients of the executor be the sum over all micro-batches so far; an update begins with that.
    pub fn sum_gradients(&mut self) {
        let (gradients, all) = (self.training.arrays().1, 0..self.segments.len());
        self.sums.finish(&self.memory, gradients, &all);
    }
}

impl<B: Backend<Number = f32>> Distributed for ModelOn<B> {
    fn at_leaf(&mut self, leaf: u64) {
        self.micro = leaf;
    }

    fn gradient_len(&self) -> usize {
        self.segments.len()
    }

    fn take_sums(&mut self) -> Vec<(LeafBlock, Vec<f32>)> {
        let memory = &self.memory;
        let numbers = |array: &BackendArray<B>| memory.numbers(array);
        let mut all: Vec<_> = self.sums.before.iter().map(|(block, array)| (*block, numbers(array))).collect();
        if let Some(block) = self.sums.last {
            all.push((block, numbers(self.training.arrays().1)));
        }
        self.sums.clear();
        all
    }

    fn set_sum(&mut self, sum: Vec<f32>) -> Result<(), LearnError> {
        let all = 0..self.segments.len();
        if sum.len() != all.len() {
            let message = format!("a gradient has {} numbers, and {} came", all.len(), sum.len());
            return Err(LearnError::Ranks(message));
        }
        self.sums.clear();
        let sum = self.memory.keep(sum);
        self.memory.each(&Assign {}, [self.training.arrays().1], [&sum], &all);
        self.healthy()
    }
}
