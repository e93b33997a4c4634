//! The angles of rotary positions.
//!
//! Pair k of r channels turns by `w_k = base^(-2k/r)` from one position to the next, or by what an expression makes of this `angle`: models
//! that were trained on short rows are run on longer ones with slower angles.
//!
//! Source: Su et al. 2021 (RoPE), arXiv:2104.09864; slower angles: Chen et al. 2023, arXiv:2306.15595; Peng et al. 2023 (YaRN),
//! arXiv:2309.00071.

use super::attribute::{self, Attrs};
use crate::expr::{Env, Expr, ScalarValue, reading};

/// The angles of the pairs of so many channels.
///
/// # Errors
/// One sentence about the first pair whose angle has no number.
pub fn angles(channels: usize, base: f64, expr: Option<&Expr>) -> Result<Vec<f64>, String> {
    let plain = |pair: usize| base.powf(-(2.0 * pair as f64 / channels as f64));
    let changed = |pair: usize| {
        let angle = plain(pair);
        let Some(expr) = expr else { return Ok(angle) };
        let found = match reading(expr, &Env::default(), &mut |_, _| Ok(angle)) {
            Ok(ScalarValue::Float(found)) => Some(found),
            Ok(ScalarValue::Int(found)) => Some(found as f64),
            _ => None,
        };
        found
            .filter(|angle| angle.is_finite())
            .ok_or_else(|| format!("`{expr}` has no number for the angle {angle:?} of pair {pair}"))
    };
    (0..channels / 2).map(changed).collect()
}

/// The angles of a node, with heads of a width.
///
/// # Errors
/// As [`angles`], and what is no expression of the angle.
pub fn of_node(attrs: &Attrs, head_width: usize) -> Result<Vec<f64>, String> {
    let expr = attrs.find(attribute::ANGLE).map(Expr::try_from).transpose()?;
    let is_other = |part: &Expr| {
        matches!(part, Expr::Var(_) | Expr::Given | Expr::Score | Expr::Learn(..) | Expr::Read(..) | Expr::Draw(_))
    };
    if let Some(expr) = expr.as_ref().filter(|expr| expr.any(&is_other)) {
        return Err(format!("`{expr}` reads more than the angle"));
    }
    angles(attrs.find(attribute::PART).unwrap_or(head_width), attrs.get(attribute::BASE), expr.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::attr;

    fn of(text: &str) -> Result<Vec<f64>, String> {
        let expr = Expr::try_from(&attr::parse(text).expect("an attribute"))?;
        angles(4, 100.0, Some(&expr))
    }

    #[test]
    fn angles_are_changed_by_expressions() {
        assert_eq!(angles(4, 100.0, None), Ok(vec![1.0, 0.1]));
        assert_eq!(of("div(angle, 4)"), Ok(vec![0.25, 0.1 / 4.0]));
        assert_eq!(of("when(lt(angle, 0.5), 0.0, angle)"), Ok(vec![1.0, 0.0]));
        assert!(of("log(sub(angle, 0.5))").is_err_and(|why| why.contains("of pair 1")));
    }
}
