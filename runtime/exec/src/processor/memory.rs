//! The values that exist at some moment of a run, and the parameters.

use std::ops::Range;

use rtc_compiler::ir::graph::Value;

use crate::machine::value::Val;
use crate::storage::{Buffer, Element};

/// The values that exist now, and the parameters.
#[derive(Debug)]
pub(crate) struct ValueMemory<T: Element> {
    pub(super) values: Vec<Option<Val<T>>>,
    pub(super) parameters: Vec<T>,
    /// Where the value of a `param` node lies in `parameters`.
    pub(super) ranges: Vec<Option<Range<usize>>>,
}

impl<T: Element> ValueMemory<T> {
    /// The numbers of a real value or parameter.
    pub(super) fn real(&self, value: Value) -> &[T] {
        match (&self.values[value.index()], &self.ranges[value.index()]) {
            (Some(Val::Real(buffer)), _) => buffer.as_slice(),
            (_, Some(range)) => &self.parameters[range.clone()],
            _ => unreachable!("the plan keeps a value until its last use"),
        }
    }

    pub(super) fn index(&self, value: Value) -> &[u32] {
        match &self.values[value.index()] {
            Some(Val::Index(data)) => data,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn truth(&self, value: Value) -> &[u8] {
        match &self.values[value.index()] {
            Some(Val::Truth(data)) => data,
            _ => unreachable!("the verifier checks element kinds"),
        }
    }

    pub(super) fn set_real(&mut self, value: Value, buffer: Buffer<T>) {
        self.set(value, Val::real(buffer));
    }

    /// Whether a value is a parameter.
    pub(super) fn is_parameter(&self, value: Value) -> bool {
        self.ranges[value.index()].is_some()
    }

    pub(super) fn set(&mut self, value: Value, val: Val<T>) {
        self.values[value.index()] = Some(val);
    }

    /// Takes a value out of the table if its buffer has no other handle.
    pub(super) fn take_unique(&mut self, value: Value) -> Option<Buffer<T>> {
        match self.values[value.index()].take() {
            Some(Val::Real(shared)) => match shared.try_unwrap() {
                Ok(buffer) => Some(buffer),
                Err(shared) => {
                    self.values[value.index()] = Some(Val::Real(shared));
                    None
                }
            },
            other => {
                self.values[value.index()] = other;
                None
            }
        }
    }
}
