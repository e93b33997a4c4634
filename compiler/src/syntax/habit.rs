//! What people bring from other languages, and how it is said here.

use crate::diag::function_named;

/// Help for a word that begins a statement elsewhere; nothing for other words.
pub(crate) fn word(word: &str) -> &'static str {
    match word {
        "block" => "equations and loops get a name by `def name(x) { .. out y }`, and layers stand where they are used",
        "return" => "a definition gives its result by `out x`",
        "if" | "elif" | "else" => "a choice is a value: `when(c, a, b)` is `a` where `c` is true, else `b`",
        "for" | "while" => "steps are those of `loop { steps: 8, .. }`; `until c` ends them before",
        _ => "",
    }
}

/// Help for what can't stand at `at`, where these were expected.
pub(super) fn hint(text: &str, at: usize, found: &str, expected: &[&str]) -> String {
    let expects = |word: &str| expected.contains(&word);
    let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
    let behind = behind.get(found.len()..).unwrap_or("");
    let line = &before[before.rfind('\n').map_or(0, |n| n + 1)..];
    let last = last_name(before);
    let known = [first_name(line), last, found].map(word).into_iter().find(|help| !help.is_empty());
    if let Some(help) = known {
        return help.to_owned();
    }
    if behind.starts_with('=') && !behind.starts_with("==") && ["+", "-", "*", "/"].contains(&found) && !last.is_empty()
    {
        return format!("there is no `{found}=`: write `{last} = {last} {found} ..`");
    }
    match found {
        "(" if dotted(before).contains('.') => without_dots(dotted(before), behind),
        ":" | "=" if called(before).is_some() => settings(before, found, behind),
        ":" if expects("`{`") => "a body stands in braces: `{ .. }`".to_owned(),
        "[" if expects("a value") => "values stand side by side by `cat(a, b)`".to_owned(),
        "*" if before.ends_with('*') => "a power is written `x^2`".to_owned(),
        "@" => "`linear(x)` is the product with weights".to_owned(),
        "?" => word("if").to_owned(),
        "=" if expects("`:`") => "a field is written `name: value`".to_owned(),
        ";" => "statements end with the line; no `;` is needed".to_owned(),
        "\"" => "words are written without quotes; only the path of `use` has them".to_owned(),
        "#" => "a comment begins with `//`".to_owned(),
        "&" | "|" | "!" => "the logical operators are `and`, `or` and `not`".to_owned(),
        _ => String::new(),
    }
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name that a text begins with, behind blanks.
fn first_name(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c| !in_name(c)).unwrap_or(text.len())]
}

/// The name that a text ends with, before blanks.
fn last_name(text: &str) -> &str {
    ending(text, in_name)
}

/// The names with dots between them that a text ends with.
fn dotted(text: &str) -> &str {
    ending(text, |c| in_name(c) || c == '.')
}

fn ending(text: &str, of: impl Fn(char) -> bool) -> &str {
    let text = text.trim_end();
    &text[text.trim_end_matches(of).len()..]
}

/// `torch.lerp(..)` is `lerp(..)`, and `x.mean()` is `mean(x)`.
fn without_dots(path: &str, behind: &str) -> String {
    let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
    let is_module = ["torch", "nn", "functional", "F", "np", "jnp", "jax", "tf", "math", "self"]
        .contains(&owner.rsplit('.').next().unwrap_or_default());
    let name = name.to_ascii_lowercase();
    if ["tril", "triu", "triu_", "tril_"].contains(&&*name) {
        return "a mask is an expression of the query `i` and the key `j`: `mask: past`, the same as `mask: j <= i`, hides all that \
                comes later"
            .to_owned();
    }
    let name = function_named(&name).map_or(name, str::to_owned);
    let args = match (is_module, behind.trim_start().starts_with(')')) {
        (true, _) => "..".to_owned(),
        (false, true) => owner.to_owned(),
        (false, false) => format!("{owner}, .."),
    };
    format!("names have no dots: write `{name}({args})`")
}

/// The place of the parenthesis that is open at the end of a text, behind a name.
fn called(before: &str) -> Option<usize> {
    let mut closed = 0;
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' => closed += 1,
            '(' if closed > 0 => closed -= 1,
            '(' => return Some(at).filter(|at| !last_name(&before[..*at]).is_empty()),
            '{' | '}' => return None,
            _ => {}
        }
    }
    None
}

/// `sum(x, over: width)` is `sum(x) { over: width }`.
fn settings(before: &str, found: &str, behind: &str) -> String {
    let open = called(before).unwrap_or(before.len());
    let line = &before[before[..open].rfind('\n').map_or(0, |n| n + 1)..open];
    if first_name(line) == "def" && !line.contains('{') {
        return "values have names alone; a setting stands in the braces, as `hidden: int = 8`".to_owned();
    }
    let (function, setting) = (last_name(&before[..open]), last_name(before));
    let short = |text: &str| {
        let text = text.trim().trim_end_matches(',').trim_end();
        if text.is_empty() || text.len() > 40 || text.contains('\n') { "..".to_owned() } else { text.to_owned() }
    };
    let args = short(before.get(open + 1..before.trim_end().len() - setting.len()).unwrap_or(""));
    let behind = behind.strip_prefix('=').filter(|_| found == "=").unwrap_or(behind);
    let value = short(&behind[..behind.find([',', ')', '\n']).unwrap_or(behind.len())]);
    format!("settings stand in braces behind the call: `{function}({args}) {{ {setting}: {value} }}`")
}
