//! The depth recurrence.

use std::rc::Rc;

use rtc_compiler::expr::{Env as Names, Expr, Value as Number, eval};
use rtc_compiler::ir::graph::{Node, RegionId};
use rtc_compiler::ir::types::{Attr, Type};

use super::{BodyResult, State, Uncut};
use crate::exec::rows::Env;
use crate::exec::storage::Element;
use crate::exec::value::{TapeStep, Val};
use crate::exec::{Executor, Fault, Halting};

/// The rows that are still going.
struct Going<T: Element> {
    /// Their indices among the rows that entered.
    rows: Vec<usize>,
    /// Their carried values.
    values: Vec<Val<T>>,
    /// The batch as the body sees it.
    env: Env,
    /// Captured values as they were when all rows were going.
    uncut: Uncut<T>,
}

impl<T: Element> Executor<T> {
    /// `recur`: every row runs until its `go` is false or its bound is reached.
    pub(in crate::exec) fn recur(&mut self, node: &Node, env: &Env) -> Result<(), Fault> {
        let body = node.body.expect("the verifier gives every loop a body");
        let halts = self.plan.regions[body.index()].yields.len() > node.operands.len();
        let bounds = self.step_bounds(node, env)?;
        let longest = bounds.iter().copied().max().unwrap_or(0);
        let values: Vec<Val<T>> = node.operands.iter().map(|v| self.value(*v)).collect();
        let mut done = State { values: values.clone(), types: self.types(&node.operands) };
        let mut going = Going { rows: (0..env.rows()).collect(), values, env: env.clone(), uncut: vec![] };
        let mut live = vec![true; env.rows()];
        let saved_types = self.saved_types(body);
        let mut tape = vec![];
        for step in 0..longest {
            let keep: Vec<usize> = (0..going.rows.len()).filter(|n| bounds[going.rows[*n]] > step).collect();
            if keep.len() < going.rows.len() {
                self.leave(&mut done, &going, env, &keep);
                self.narrow(body, &mut going, &keep, &done.types);
            }
            if going.rows.is_empty() {
                break;
            }
            let (out, go) = self.step(body, &mut going, env, step, halts)?;
            let (here, types) = (going.env.clone(), saved_types.clone());
            let taped = TapeStep { env: here, rows: None, starts: vec![], saved: out.saved, types };
            for (n, row) in going.rows.iter().enumerate() {
                live[*row] &= go.as_ref().is_none_or(|go| go[n] != 0);
            }
            let keep: Vec<usize> = (0..going.rows.len()).filter(|n| live[going.rows[*n]]).collect();
            if !keep.is_empty() {
                tape.push(self.accepting(taped, &keep, &going.rows, env.rows()));
            }
            if keep.len() == going.rows.len() {
                going.values = out.yields;
            } else if self.halting == Halting::Compact {
                self.leave(&mut done, &going, env, &keep);
                going.values = out.yields;
                self.narrow(body, &mut going, &keep, &done.types);
            } else {
                going.values = self.freeze(&keep, out.yields, &going, &done.types);
            }
            if keep.is_empty() && self.halting != Halting::Never {
                break;
            }
        }
        if going.rows.len() == env.rows() {
            done.values = std::mem::take(&mut going.values);
        } else {
            self.leave(&mut done, &going, env, &[]);
        }
        self.put_back(going.uncut);
        self.finish(node, env, done, tape);
        Ok(())
    }

    /// Runs the body once; gives its results and, from a body that halts, `go` of every row.
    #[expect(clippy::type_complexity, reason = "the two halves of what a body yields")]
    fn step(
        &mut self,
        body: RegionId,
        going: &mut Going<T>,
        env: &Env,
        step: usize,
        halts: bool,
    ) -> Result<(BodyResult<T>, Option<Rc<Vec<u8>>>), Fault> {
        going.env.key = env.key.at(step as u64);
        // A row that rejects the step needs its carried values again.
        let mut params = if halts { going.values.clone() } else { std::mem::take(&mut going.values) };
        params.push(Val::Index(Rc::new(vec![u32::try_from(step).unwrap_or(u32::MAX)])));
        let mut out = self.body(body, params, &going.env)?;
        let go = match out.yields.pop_if(|v| halts && matches!(v, Val::Bool(_))) {
            Some(Val::Bool(go)) => Some(go),
            _ => None,
        };
        Ok((out, go))
    }

    /// The taped step of only the rows that accepted it: the others take no part in its backward run.
    fn accepting(&self, taped: TapeStep<T>, keep: &[usize], rows: &[usize], entered: usize) -> TapeStep<T> {
        let kept: Vec<usize> = keep.iter().map(|n| rows[*n]).collect();
        let cut = if keep.len() == rows.len() {
            taped
        } else {
            let place = place_of(keep, rows.len());
            taped.select(&place, &self.pool).expect("at least one row accepts the step")
        };
        TapeStep { rows: (kept.len() < entered).then(|| Rc::new(kept)), ..cut }
    }

    /// The bound of every row.
    fn step_bounds(&self, node: &Node, env: &Env) -> Result<Vec<usize>, Fault> {
        let attr = node.attrs.get("bound").cloned().unwrap_or(Attr::Int(0));
        if let Attr::Int(n) = attr {
            return Ok(vec![usize::try_from(n).unwrap_or(0); env.rows()]);
        }
        let expr = Expr::try_from(&attr).map_err(Fault::Batch)?;
        let axis = node.operands.iter().find_map(|v| self.plan.graph.ty(*v).ragged().map(str::to_owned));
        let axis = axis.ok_or_else(|| Fault::Batch("a depth over the length needs a sequence".to_owned()))?;
        let length = |row: usize| env.axis(&axis).len(row) as i64;
        let bound = |row: usize| {
            let names = Names { length: length(row), ..Names::default() };
            match eval(&expr, &names) {
                Ok(Number::Int(n)) => Ok(usize::try_from(n).unwrap_or(0)),
                Ok(other) => Err(Fault::Batch(format!("a depth must be a whole number, not {other:?}"))),
                Err(e) => Err(Fault::Batch(format!("the depth of a row has no value: {e}"))),
            }
        };
        (0..env.rows()).map(bound).collect()
    }

    /// Writes the values of the rows that are not in `keep` (indices among those going) to their final places.
    fn leave(&self, done: &mut State<T>, going: &Going<T>, env: &Env, keep: &[usize]) {
        let leaving: Vec<usize> = (0..going.rows.len()).filter(|n| keep.binary_search(n).is_err()).collect();
        let rows: Vec<usize> = leaving.iter().map(|n| going.rows[*n]).collect();
        let old = std::mem::take(&mut done.values);
        let parts = old.into_iter().zip(&going.values).zip(&done.types);
        done.values = parts
            .map(|((old, new), ty)| {
                let part = new.select(ty, &going.env, &leaving, &self.pool);
                self.scattered(old, &part, ty, env, &rows)
            })
            .collect();
    }

    /// Goes on with only the rows in `keep` (indices among those going).
    fn narrow(&mut self, body: RegionId, going: &mut Going<T>, keep: &[usize], types: &[Type]) {
        for (val, ty) in going.values.iter_mut().zip(types) {
            *val = val.select(ty, &going.env, keep, &self.pool);
        }
        let before = self.cut_captures(body, &going.env, keep);
        if going.uncut.is_empty() {
            going.uncut = before;
        }
        going.env = going.env.select(keep);
        going.rows = keep.iter().map(|n| going.rows[*n]).collect();
    }

    /// The new values of the rows in `keep`, the old ones of the others.
    fn freeze(&self, keep: &[usize], new: Vec<Val<T>>, going: &Going<T>, types: &[Type]) -> Vec<Val<T>> {
        let rejected: Vec<usize> = (0..going.rows.len()).filter(|n| keep.binary_search(n).is_err()).collect();
        let parts = new.into_iter().zip(&going.values).zip(types);
        parts
            .map(|((new, old), ty)| {
                let part = old.select(ty, &going.env, &rejected, &self.pool);
                self.scattered(new, &part, ty, &going.env, &rejected)
            })
            .collect()
    }
}

fn place_of(keep: &[usize], count: usize) -> Vec<Option<usize>> {
    let mut place = vec![None; count];
    for (new, &old) in keep.iter().enumerate() {
        place[old] = Some(new);
    }
    place
}
