//! Attention masks written as expressions.

use rtc_compiler::expr::Expr;
use rtc_compiler::expr::{Env, Value, eval};

use crate::kernel::attention::{MaskKind, MaskRow};

/// Which keys a query sees.
#[derive(Clone, Debug)]
pub(super) enum Mask {
    /// All of its row.
    All,
    /// Those up to its own position.
    Causal,
    /// Those for which the expression holds at this step.
    Expr(Expr, i64),
}

/// Marks the keys that a query sees.
type Marker = Box<dyn Fn(MaskRow, &mut [bool]) + Sync>;

/// A mask in the form that the kernel takes.
pub(super) enum Rule {
    Fixed(MaskKind<'static>),
    Dense(Marker),
}

impl Rule {
    pub(super) fn kind(&self) -> MaskKind<'_> {
        match self {
            Self::Fixed(kind) => *kind,
            Self::Dense(rule) => MaskKind::Dense(rule),
        }
    }
}

/// An expression that fails to evaluate at a position (a division by zero) hides the key.
pub(super) fn mask_of(mask: &Mask) -> Rule {
    match mask {
        Mask::All => Rule::Fixed(MaskKind::All),
        Mask::Causal => Rule::Fixed(MaskKind::Causal),
        Mask::Expr(expr, step) => {
            let (expr, step) = (expr.clone(), *step);
            Rule::Dense(Box::new(move |at, seen| {
                let length = at.queries as i64;
                for (j, flag) in seen.iter_mut().enumerate() {
                    let env = Env { i: at.query as i64, j: j as i64, step, length, head: at.head as i64, given: None };
                    *flag = eval(&expr, &env) == Ok(Value::Bool(true));
                }
            }))
        }
    }
}
