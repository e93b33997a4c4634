//! Learned tables without a name, where an expression that has some is written once and stands in several places.
//!
//! `learn[head]` is a table of its own wherever it is written. An argument of a function is written once, however often the function
//! reads it: its tables get names while the expression is resolved, and those that stand in several places keep one.

use super::{Resolver, Typed};
use crate::expr::Expr;

/// The first letter of the names of tables that the resolver gives.
const GIVEN: char = '#';
/// The first letter of those names that stay.
const KEPT: char = '_';

impl Resolver<'_> {
    /// The same, with a name for every table that has none, and another one for those that other expressions kept.
    pub(super) fn with_named_tables(&mut self, typed: Typed) -> Typed {
        if !typed.expr.is_learned() {
            return typed;
        }
        let mut known: Vec<(String, String)> = vec![];
        let expr = typed.expr.with_lookups(&mut |lookup| match lookup {
            Expr::Learn(name, indices) if name.is_empty() || name.starts_with(KEPT) => {
                let given =
                    known.iter().find(|(own, _)| !name.is_empty() && *own == name).map(|(_, given)| given.clone());
                let given = given.unwrap_or_else(|| {
                    self.tables += 1;
                    known.push((name, format!("{GIVEN}{}", self.tables)));
                    known[known.len() - 1].1.clone()
                });
                Expr::Learn(given, indices)
            }
            other => other,
        });
        Typed { expr, ..typed }
    }
}

/// The same, with names only for tables that stand in several places.
pub(super) fn settled(expr: Expr) -> Expr {
    if !expr.is_learned() {
        return expr;
    }
    let mut names: Vec<(String, usize)> = vec![];
    let expr = expr.with_lookups(&mut |lookup| {
        if let Expr::Learn(name, _) = &lookup {
            match names.iter_mut().find(|(own, _)| own == name) {
                Some((_, count)) => *count += 1,
                None => names.push((name.clone(), 1)),
            }
        }
        lookup
    });
    let several = names.iter().filter(|(name, count)| name.starts_with(GIVEN) && *count > 1);
    let several: Vec<String> = several.map(|(name, _)| name.clone()).collect();
    let free = |n: &usize| !names.iter().any(|(own, _)| *own == format!("{KEPT}{n}"));
    let kept: Vec<usize> = (1..).filter(free).take(several.len()).collect();
    expr.with_lookups(&mut |lookup| match lookup {
        Expr::Learn(name, indices) if name.starts_with(GIVEN) => {
            let place = several.iter().position(|own| *own == name);
            Expr::Learn(place.map_or_else(String::new, |place| format!("{KEPT}{}", kept[place])), indices)
        }
        other => other,
    })
}
