//! Short names for the symbols of formulas, and formulas written with them.

use super::{Formula, SizeSymbol, SymbolDefinition, search_words, strict, words};

/// Short names for symbols that are made of others: `K = ceil(n / 20)`. Formulas of one model share it.
#[derive(Clone, Debug, Default)]
pub struct Legend {
    names: Vec<(SizeSymbol, String)>,
    lines: Vec<String>,
}

impl Legend {
    /// The text of a formula, what every row costs in brackets: `B (...) + 1`.
    pub fn text(&mut self, formula: &Formula) -> String {
        let (without, per_row) = formula.divided("B");
        if per_row.terms.len() < 2 {
            return self.short(formula);
        }
        let per_row = format!("B ({})", self.short(&per_row));
        if without.terms.is_empty() { per_row } else { format!("{per_row} + {}", self.short(&without)) }
    }

    /// What the short names stand for, a line each.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    fn short(&mut self, formula: &Formula) -> String {
        formula.text(&mut |symbol| self.name(symbol))
    }

    fn name(&mut self, symbol: &SizeSymbol) -> String {
        if let Some((_, name)) = self.names.iter().find(|(known, _)| known == symbol) {
            return name.clone();
        }
        let (letter, meaning) = match &*symbol.made {
            SymbolDefinition::Given => return symbol.text.to_string(),
            SymbolDefinition::Pieces(all, piece) => {
                let (all, piece) = (self.short(all), self.short(piece));
                ("K", format!("ceil({} / {})", brackets(all), brackets(piece)))
            }
            SymbolDefinition::Least(a, b, letter) => (*letter, format!("min({}, {})", self.short(a), self.short(b))),
            SymbolDefinition::Depth(..) => ("T", symbol.text.to_string()),
            SymbolDefinition::Mean(all, parts) => {
                let (all, parts) = (self.short(all), self.short(parts));
                ("W", format!("{} / {}", brackets(all), brackets(parts)))
            }
            SymbolDefinition::Search(beams, length, count) => {
                let (letter, meaning) = words(*count);
                (letter, format!("{meaning} of a search over {}, {}", self.short(length), search_words(*beams)))
            }
            SymbolDefinition::Fold(cut, length, part) => {
                let (letter, _, meaning) = part.words();
                (letter, format!("{meaning} of a fold of {} by {}{}", self.short(length), cut.arity, strict(*cut)))
            }
        };
        let before = self.names.iter().filter(|(_, name)| name.starts_with(letter)).count();
        let name = if before == 0 { letter.to_owned() } else { format!("{letter}{}", before + 1) };
        self.names.push((symbol.clone(), name.clone()));
        self.lines.push(format!("{name} = {meaning}"));
        name
    }
}

fn brackets(text: String) -> String {
    if text.contains(' ') { format!("({text})") } else { text }
}
