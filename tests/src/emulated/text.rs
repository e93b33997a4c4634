//! The text of kernels as the emulated device compiles it.

use std::fmt::Write;

/// The names of the kernels of a text, and whether the threads of each meet.
pub(super) fn kernels(source: &str) -> Vec<(&str, bool)> {
    let kernel = |line| {
        let (word, rest): (&str, &str) = str::split_once(line, '(')?;
        let (name, _) = rest.split_once(')')?;
        ["KERNEL", "TEAM"].contains(&word).then_some((name, word == "TEAM"))
    };
    source.lines().filter_map(kernel).collect()
}

/// Tells the emulator of every variable in shared memory where it is declared: what a block finds there, how much it has of it,
/// and what the checker of races takes for shared all depend on that.
///
/// # Panics
/// When a declaration is not on one line.
pub(super) fn with_declared(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    for line in source.lines() {
        out += line;
        let code = line.split("//").next().unwrap_or(line);
        if let Some((_, declared)) = code.split_once("__shared__ ") {
            let (declared, rest) = declared.split_once(';').unwrap_or_else(|| panic!("more than one line: {line}"));
            assert!(!rest.contains("__shared__"), "more than one declaration: {line}");
            out.truncate(out.len() - (line.len() - code.len()) - rest.len());
            for name in names(declared) {
                let _ = write!(out, " emulated::shared(&{name}, sizeof {name});");
            }
            out += rest;
        }
        out.push('\n');
    }
    out
}

/// The names of a list of declarations: what stands before the first bracket of each, or before its end.
fn names(declared: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = declared.split(|c| {
        depth += i32::from("([<".contains(c)) - i32::from(")]>".contains(c));
        c == ',' && depth == 0
    });
    let name = |part: &'_ str| -> usize { part.find('[').unwrap_or(part.len()) };
    parts.map(|part| part[..name(part)].split_whitespace().next_back().unwrap_or_default()).collect()
}

/// Gives every meeting of a block or a warp a number, from 1 on, by which it can be left out. Returns their lines, too, each with its number
/// and the line before it.
pub(super) fn with_numbered_meetings(source: &str) -> (String, Vec<String>) {
    let (mut out, mut lines) = (String::with_capacity(source.len()), vec![]);
    let mut before = "";
    for (n, line) in source.lines().enumerate() {
        let mut rest = line;
        while let Some(at) = rest.find("__sync") {
            let end = rest[at..].find("();").map(|end| at + end + "();".len());
            let Some(end) = end.filter(|end| ["__syncwarp();", "__syncthreads();"].contains(&&rest[at..*end])) else {
                out += &rest[..at + 1];
                rest = &rest[at + 1..];
                continue;
            };
            lines.push(format!("{}: {before} {}", n + 1, line.trim()));
            let meeting = &rest[at..end - 1];
            let _ = write!(out, "{}(void)(emulated::meets({}) && ({meeting}, true));", &rest[..at], lines.len());
            rest = &rest[end..];
        }
        out += rest;
        out.push('\n');
        before = line.trim();
    }
    (out, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_of_where_they_are_declared() {
        let text = "    __shared__ real left[TILE][TILE + 1], right[sizeof(Pair<int, 2>)]; // a, b\n    __shared__ alignas(16) u8 all[9]; int n;\n// __shared__ x\n";
        let expected = "    __shared__ real left[TILE][TILE + 1], right[sizeof(Pair<int, 2>)]; emulated::shared(&left, sizeof left); \
                        emulated::shared(&right, sizeof right); \n    __shared__ alignas(16) u8 all[9]; \
                        emulated::shared(&all, sizeof all); int n;\n// __shared__ x\n";
        assert_eq!(with_declared(text), expected);
    }

    #[test]
    fn meetings_have_numbers() {
        let (text, lines) = with_numbered_meetings("a(); __syncwarp();\n__syncthreads(); b __sync(); // __syncwarp\n");
        assert_eq!(
            text,
            "a(); (void)(emulated::meets(1) && (__syncwarp(), true));\n\
             (void)(emulated::meets(2) && (__syncthreads(), true)); b __sync(); // __syncwarp\n"
        );
        assert_eq!(
            lines,
            ["1:  a(); __syncwarp();", "2: a(); __syncwarp(); __syncthreads(); b __sync(); // __syncwarp"]
        );
    }
}
