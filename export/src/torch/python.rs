//! Text of a user as text of Python: strings, docstrings, comments and names.

/// Words of Python.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Names that PyTorch's modules, or the classes of an export, use themselves.
const OF_MODULES: &[&str] = &[
    "T_destination",
    "add_module",
    "apply",
    "bfloat16",
    "buffers",
    "call_super_init",
    "children",
    "compile",
    "cpu",
    "cuda",
    "cut",
    "double",
    "dump_patches",
    "eval",
    "extra_repr",
    "flat",
    "float",
    "forward",
    "from_folder",
    "get_buffer",
    "get_extra_state",
    "get_parameter",
    "get_submodule",
    "half",
    "hold",
    "ipu",
    "is_flat",
    "load_state_dict",
    "modules",
    "mtia",
    "named_buffers",
    "named_children",
    "named_modules",
    "named_parameters",
    "outputs",
    "parameters",
    "register_backward_hook",
    "register_buffer",
    "register_forward_hook",
    "register_forward_pre_hook",
    "register_full_backward_hook",
    "register_full_backward_pre_hook",
    "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook",
    "register_module",
    "register_parameter",
    "register_state_dict_post_hook",
    "register_state_dict_pre_hook",
    "requires_grad_",
    "set_extra_state",
    "set_submodule",
    "share_memory",
    "state_dict",
    "to",
    "to_empty",
    "train",
    "training",
    "type",
    "xpu",
    "zero_grad",
];

/// Names that a module imports, or that Python itself has and the text of a module uses.
const OF_FILE: &[&str] = &[
    "F",
    "Model",
    "Path",
    "accumulate",
    "bool",
    "cached_property",
    "checked",
    "dict",
    "enumerate",
    "float",
    "int",
    "isinstance",
    "json",
    "len",
    "list",
    "load_file",
    "math",
    "max",
    "min",
    "nn",
    "property",
    "range",
    "reversed",
    "set",
    "sorted",
    "str",
    "sum",
    "super",
    "torch",
    "tuple",
    "zip",
];

/// Characters of a text as they stand between quotes: no quote, backslash, control character, or one that can't be seen.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '"' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c if u32::from(c) < 0x100 => out += &format!("\\x{:02x}", u32::from(c)),
            c if u32::from(c) < 0x1_0000 => out += &format!("\\u{:04x}", u32::from(c)),
            c => out += &format!("\\U{:08x}", u32::from(c)),
        }
    }
    out
}

/// A text as a string of Python.
pub(super) fn repr(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// A text inside `"""`, with its lines as they are. No quote stands before another one, nor before those that end the string.
pub(super) fn docstring(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\n' => out.push(c),
            '"' if characters.peek().is_some_and(|next| *next != '"') => out.push(c),
            c => out += &escaped(c.encode_utf8(&mut [0; 4])),
        }
    }
    out
}

/// A text behind `#`, on one line.
pub(super) fn comment(text: &str) -> String {
    escaped(text)
}

/// A text as a name of Python: letters, digits and `_`, no word of the language, and none that the file uses itself.
pub(super) fn identifier(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_alphabetic()) { plain } else { format!("x{plain}") }
}

/// Whether a name means something else in the text of a module.
pub(super) fn is_taken(name: &str) -> bool {
    KEYWORDS.contains(&name) || OF_FILE.contains(&name) || super::support::names().any(|own| own == name)
}

/// Whether a name of a method or of a part of the model would hide what PyTorch or the module has under it.
pub(super) fn is_of_modules(name: &str) -> bool {
    OF_MODULES.contains(&name)
}

/// Whether a name can stand before `=` in a call. Python changes names that begin with `__` inside a class.
pub(super) fn is_argument(name: &str) -> bool {
    identifier(name) == name && !KEYWORDS.contains(&name)
}

/// Whether a part of the model can be reached as the attribute of this name.
pub(super) fn is_attribute(name: &str) -> bool {
    is_argument(name) && !is_of_modules(name)
}

#[cfg(test)]
mod tests {
    use super::{comment, docstring, identifier, is_attribute, repr};

    #[test]
    fn texts_are_strings_of_python() {
        assert_eq!(repr("plain name.é"), "\"plain name.é\"");
        assert_eq!(repr("a\"b\\c\n\t\r\0"), r#""a\"b\\c\n\t\x0d\x00""#);
        assert_eq!(repr("\u{85}\u{2028}\u{202e}\u{1f600}"), r#""\x85\u2028\u202e\U0001f600""#);
    }

    #[test]
    fn no_text_ends_a_docstring() {
        assert_eq!(docstring("two\nlines, \"quoted\" here"), "two\nlines, \"quoted\" here");
        assert_eq!(docstring("ends with \"it\""), r#"ends with "it\""#);
        assert_eq!(docstring("\"\"\"\"x\\\""), r#"\"\"\""x\\\""#);
        assert_eq!(docstring("a \\ b \0"), r"a \\ b \x00");
    }

    #[test]
    fn no_text_ends_a_comment() {
        assert_eq!(comment("a.b\nimport os\r\u{2028}"), "a.b\\nimport os\\x0d\\u2028");
    }

    #[test]
    fn names_are_words() {
        assert_eq!(["a.b-c", "", "3", "__debug__", "né"].map(identifier), ["a_b_c", "x", "x3", "x__debug__", "n_"]);
        for name in ["None", "class", "_x", "__init__", "train", "a b", "1", "", "é"] {
            assert!(!is_attribute(name), "{name}");
        }
        assert!(is_attribute("self") && is_attribute("match") && is_attribute("torch"));
    }
}
