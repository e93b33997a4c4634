//! Syntax errors in the words of the language.

use pest::error::{Error, ErrorVariant, InputLocation};

use super::habit;
use super::parse::Rule;
use super::scan::CommentScan;
use crate::diag::{Diagnostic, Kind, Problems, did_you_mean};
use crate::source::{SourceId, Span};

/// The words that begin an item.
const ITEM_WORDS: [&str; 8] = ["use", "let", "model", "variant", "mask", "bias", "score", "def"];

/// The same for messages.
const ITEMS: &str = "`use`, `let`, `model`, `variant`, `mask`, `bias`, `score` or `def`";

/// The text that was parsed.
pub(super) struct ParsedText<'a> {
    pub(super) id: SourceId,
    pub(super) text: &'a str,
    /// Where the parsed part begins in the text.
    pub(super) offset: usize,
    pub(super) scan: &'a CommentScan,
}

/// Reports pest's error in the words of the language; gives its offset in the parsed part.
pub(super) fn syntax_error(place: &ParsedText<'_>, error: &Error<Rule>, problems: &mut Problems) -> usize {
    let at = match error.location {
        InputLocation::Pos(at) | InputLocation::Span((at, _)) => at,
    };
    let expected = match &error.variant {
        ErrorVariant::ParsingError { positives, .. } => expected(positives),
        ErrorVariant::CustomError { .. } => Vec::new(),
    };
    let start = place.offset + at;
    let found = found(place.text, start);
    // A line break is shown as the place in front of it, not as two lines.
    let width = if found == "\n" { 0 } else { found.len() };
    let span = Span::new(place.id, start, start + width);
    let shown = match found {
        "" => "the end of the text".to_owned(),
        "\n" => "the end of the line".to_owned(),
        other => format!("`{other}`"),
    };
    let mut diagnostic = Diagnostic::new(Kind::Syntax, span, format!("{shown} can't stand here"));
    if !expected.is_empty() {
        diagnostic = diagnostic.label(format!("expected {}", join(&expected)));
    }
    if let Some(open) = place.scan.unclosed.filter(|_| found.is_empty()) {
        diagnostic = diagnostic.note(open, "this is not closed");
    }
    if expected.contains(&ITEMS) {
        diagnostic = diagnostic.help(did_you_mean(found, ITEM_WORDS));
    }
    problems.report(diagnostic.help(habit::hint(place.text, start, found, &expected)));
    at
}

/// The start of the first line after `at` that begins with an item keyword.
pub(super) fn next_item(text: &str, at: usize) -> Option<usize> {
    let mut from = at;
    loop {
        let line = from + text.get(from..)?.find('\n')? + 1;
        let word: &str = text[line..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
        if ITEM_WORDS.contains(&word) {
            return Some(line);
        }
        from = line;
    }
}

/// The token at an offset: a word, a number, a line break, or one character.
fn found(text: &str, at: usize) -> &str {
    let rest = &text[at.min(text.len())..];
    let word = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    if word > 0 {
        return &rest[..word];
    }
    rest.chars().next().map_or("", |c| &rest[..c.len_utf8()])
}

/// The tokens that pest expected, in plain words, in a fixed order and without repetition.
fn expected(rules: &[Rule]) -> Vec<&'static str> {
    let mut words: Vec<&'static str> = Vec::new();
    for word in rules.iter().filter_map(|&rule| human(rule)) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    // What is always possible there says little beside what is likely meant.
    let has = |word: &str| words.contains(&word);
    if has("`:`") && has("`{`") {
        return vec!["`:`", "`{`", "a variant", "a line break"];
    }
    let unsaid: &[&str] = match () {
        () if has("a value") => &["a name", "`(`"],
        () if has("an operator") => &["`(`", "the end"],
        () if has(ITEMS) => &["a line break"],
        () => &[],
    };
    words.retain(|word| !unsaid.contains(word));
    words
}

/// A rule as people call it; `None` for what is better left unsaid.
fn human(rule: Rule) -> Option<&'static str> {
    Some(match rule {
        Rule::file
        | Rule::use_item
        | Rule::let_item
        | Rule::model_item
        | Rule::variant_item
        | Rule::mask_item
        | Rule::bias_item
        | Rule::score_item
        | Rule::def_item
        | Rule::kw_def
        | Rule::atomic
        | Rule::kw_use
        | Rule::kw_model
        | Rule::kw_variant
        | Rule::kw_mask
        | Rule::kw_bias
        | Rule::kw_score => ITEMS,
        Rule::field | Rule::statement | Rule::equation | Rule::share | Rule::go | Rule::until | Rule::loss => {
            "a field or a statement"
        }
        Rule::set
        | Rule::override_set
        | Rule::assign
        | Rule::remove
        | Rule::add
        | Rule::replace
        | Rule::wrap
        | Rule::untie
        | Rule::tie
        | Rule::r#override => "an edit",
        Rule::formula => "a formula",
        Rule::setting | Rule::show | Rule::carry | Rule::out => "a setting or an equation",
        Rule::kind => "a kind",
        Rule::edits | Rule::body | Rule::def_body | Rule::open => "`{`",
        Rule::full_name | Rule::name | Rule::component | Rule::path => "a name",
        Rule::params | Rule::open_paren | Rule::arguments => "`(`",
        Rule::value
        | Rule::expr
        | Rule::primary
        | Rule::number
        | Rule::reference
        | Rule::call
        | Rule::old
        | Rule::group => "a value",
        Rule::separator | Rule::line => "a line break",
        Rule::comma => "`,`",
        Rule::colon => "`:`",
        Rule::equals => "`=`",
        Rule::dot => "`.`",
        Rule::close => "`}`",
        Rule::close_paren => "`)`",
        Rule::open_bracket => "`[`",
        Rule::close_bracket => "`]`",
        Rule::integer => "a whole number",
        Rule::string => "a path in quotes",
        Rule::kw_of => "`of`",
        Rule::kw_by => "`by`",
        Rule::kw_in => "`in`",
        Rule::side => "`after` or `before`",
        Rule::EOI => "the end",
        Rule::infix
        | Rule::or
        | Rule::and
        | Rule::equal
        | Rule::unequal
        | Rule::at_most
        | Rule::at_least
        | Rule::less
        | Rule::greater
        | Rule::plus
        | Rule::times
        | Rule::over
        | Rule::modulo
        | Rule::power => "an operator",
        _ => return None,
    })
}

fn join(words: &[&str]) -> String {
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => (*only).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
