//! The words of the grammar, from the grammar itself (`grammar/rt.pest`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use pest_meta::ast::Expr;
use pest_meta::parser::{Rule, consume_rules, parse};

static RULES: LazyLock<BTreeMap<String, Expr>> = LazyLock::new(|| {
    let text = include_str!("../../grammar/rt.pest");
    // The compiler is built from the same text.
    let pairs = parse(Rule::grammar_rules, text).unwrap_or_else(|error| panic!("the grammar: {error}"));
    let rules = consume_rules(pairs).unwrap_or_else(|errors| panic!("the grammar: {errors:?}"));
    rules.into_iter().map(|rule| (rule.name, rule.expr)).collect()
});

/// The words that a rule may begin with: `model`, `def`, .. for `item`.
pub fn beginnings(rule: &str) -> Vec<&'static str> {
    let mut found = vec![];
    if let Some(expr) = RULES.get(rule) {
        begin(expr, &mut found);
    }
    found.dedup();
    found
}

/// All words of the grammar.
pub fn words() -> Vec<&'static str> {
    let mut found: Vec<&str> = RULES.keys().flat_map(|rule| beginnings(rule)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn begin(expr: &'static Expr, found: &mut Vec<&'static str>) {
    match expr {
        Expr::Str(word) if word.bytes().all(|b| b.is_ascii_alphabetic()) => found.push(word),
        Expr::Ident(name) => RULES.get(name).into_iter().for_each(|inner| begin(inner, found)),
        Expr::Choice(a, b) => [a, b].into_iter().for_each(|expr| begin(expr, found)),
        Expr::Seq(first, then) => match &**first {
            Expr::NegPred(_) | Expr::PosPred(_) => begin(then, found),
            first => {
                begin(first, found);
                if matches!(first, Expr::Opt(_) | Expr::Rep(_)) {
                    begin(then, found);
                }
            }
        },
        Expr::Opt(inner) | Expr::Rep(inner) | Expr::RepOnce(inner) => begin(inner, found),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_grammar() {
        let items = ["use", "let", "model", "variant", "mask", "bias", "score", "atomic", "def"];
        assert_eq!(beginnings("item"), items);
        for word in ["remove", "replace", "wrap", "add"] {
            assert!(beginnings("edit").contains(&word), "{word}");
        }
        for word in ["carry", "go", "until", "loss", "share", "show", "let"] {
            assert!(beginnings("element").contains(&word) && beginnings("def_element").contains(&word), "{word}");
        }
        assert!(["of", "by", "in", "after", "and", "true", "learn"].iter().all(|word| words().contains(word)));
        assert!(beginnings("no_such_rule").is_empty());
    }
}
