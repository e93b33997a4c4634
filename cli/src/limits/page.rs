//! The tables of docs/limits.md.

use std::fmt::Write;
use std::path::Path;

use rtc_compiler::check::limits as check;
use rtc_compiler::define::limits as define;
use rtc_compiler::ir::formula::{bytes, thousands};
use rtc_compiler::pipeline::given;
use rtc_compiler::syntax;
use rtc_runs::experiment::limits as experiment;
use rtc_runs::weights::limits as weights;
use rtc_session::limits::FILE;
use rtc_task::{MAX_EXAMPLES, characters, formal, limits as task, program};

use super::{ANALYSED, BEYOND, DEPTH, FIGURE, FONT, GENERATED, PREDICTED, SECONDS, THREADS};

/// A limit: its subject, its size, the default, and the setting that changes it.
type LimitRow = (&'static str, String, &'static str, &'static str);

fn count(number: impl ToString) -> String {
    thousands(&number.to_string())
}

fn specs() -> Vec<LimitRow> {
    vec![
        ("a file, before it is parsed", bytes(FILE), "", ""),
        ("a spec file, and every file that it uses", bytes(syntax::MAX_FILE_BYTES as u64), "", ""),
        ("files that a spec uses", count(check::MAX_FILES), "", ""),
        ("brackets within each other", count(syntax::MAX_NESTING), "", ""),
        ("tokens of an expression", count(syntax::MAX_EXPR_TOKENS), "", ""),
        ("parts of a mask or bias after inlining", count(check::MAX_NODES), "", ""),
        ("depth of a mask or bias after inlining", count(check::MAX_DEPTH), "", ""),
        ("statements and fields of a model", count(check::MAX_ELEMENTS), "", ""),
        ("statements of a model, each counted as often as it is copied", count(check::MAX_COPIED), "", ""),
        ("statements of a model, each counted three times for every loop around it", count(check::MAX_WALKED), "", ""),
        ("steps of loops within each other, multiplied", count(check::MAX_STEPS), "", ""),
        ("edits of a model by its variants", count(check::MAX_EDITS), "", "`--set`, `variant`"),
        ("expressions of the equations that a model works out", count(define::MAX_EXPRESSIONS), "", ""),
        ("expressions within each other, definitions included", count(define::DEEPEST), "", ""),
        (
            "steps of a recurrence in a graph, and of those within each other, multiplied",
            count(given::MOST_STEPS),
            "",
            "`bound`",
        ),
        ("nodes of a graph, each counted three times for every loop around it", count(given::MOST_WALKED), "", ""),
    ]
}

fn experiments() -> Vec<LimitRow> {
    vec![
        ("an experiment", bytes(experiment::MOST_BYTES as u64), "", ""),
        ("open brackets in it", count(experiment::MOST_OPEN), "", ""),
        (
            "bytes of its values, each counted as often as aliases (`*name`) repeat it",
            bytes(experiment::MOST_REPEATED as u64),
            "",
            "",
        ),
        ("experiments that extend one another", count(experiment::MOST_LAYERS), "", "`extends`"),
        ("rows of a sweep", count(experiment::MOST_ROWS), "", "`grid`"),
        ("values of `--sweep` and `evaluate_at`", count(experiment::MOST_VALUES), "", "of a path"),
    ]
}

fn data() -> Vec<LimitRow> {
    vec![
        ("a line of a file of rows, and one of `rtc predict`", bytes(task::MAX_LINE), "", ""),
        (
            "a split of your own that is held, in memory",
            bytes(4 * task::MAX_HELD_TOKENS as u64),
            "all rows",
            "`task.sizes`",
        ),
        (
            "the examples of a file of another task, in memory",
            format!("{}, or what the machine has", bytes(task::MAX_HELD_BYTES)),
            "",
            "",
        ),
        ("the text of `characters`", bytes(characters::MAX_TEXT), "", ""),
        ("a packed text, or one in a column, unpacked", bytes(task::MAX_TEXT), "", ""),
        ("rows of a packed file, or of Parquet", count(task::MAX_PACKED_ROWS), "", ""),
        ("rows of a packed file, or of Parquet, unpacked", bytes(task::MAX_UNPACKED), "", ""),
        ("a page of Parquet, unpacked", bytes(task::MAX_PAGE), "", ""),
        ("values of the columns of Parquet that are read", count(task::MAX_VALUES), "", ""),
        ("different keys of JSON lines that `rtc task check` looks at", count(task::MAX_KEYS), "", ""),
        ("a text after the steps of a `tokenizer.json`", bytes(task::MAX_GROWN), "", ""),
        ("rows of a training file, for shares and numbers", count(task::MAX_ROWS), "", ""),
        (
            "different tokens of a training file",
            count(task::MAX_PIECES),
            "50,000 in the vocabulary",
            "`task.vocabulary`",
        ),
        ("classes of a column", count(task::MAX_CLASSES), "", ""),
        ("a `tokenizer.json`", bytes(task::MAX_TOKENIZER), "", ""),
        (
            "tokens of a row of your own",
            count(task::MAX_LENGTH),
            "512, for `language` and `masked` 256",
            "`task.length`",
        ),
        ("generated examples of a split", count(MAX_EXAMPLES), "as published", "`task.sizes`"),
        ("length of generated strings", count(formal::MAX_LENGTH), "as published", "`task.options`"),
        ("the files that the command of a program names", bytes(program::MOST_BYTES), "", ""),
        ("seconds in which a program prints nothing", count(program::SILENCE.as_secs()), "", ""),
        (
            "seconds for rows that children print after the end of their program",
            count(program::GRACE.as_secs()),
            "",
            "",
        ),
    ]
}

fn commands() -> Vec<LimitRow> {
    vec![
        ("threads", count(THREADS), "all of the machine", "`--threads`"),
        (
            "memory of a training",
            "what the machine has: less where control groups or `ulimit -v` allow less".to_owned(),
            "no limit of its own",
            "`--memory`",
        ),
        (
            "seconds of `check`, `cost`, `task check`, `eval`, `predict`, `report`, `verify`, and of what `train` reads",
            count(SECONDS),
            "no limit",
            "`--time-limit`",
        ),
        ("steps of a model with `depth: given`", count(DEPTH), "those of the example", "`--depth`"),
        ("steps behind those of the example", count(BEYOND), "20", "`--beyond`"),
        ("tokens that are generated", count(GENERATED), "200", "`--length`"),
        ("tokens of an analysed row", count(ANALYSED), "none is analysed", "`--analyses`"),
        ("width of a figure", format!("{} mm", count((FIGURE * 25.4 / 72.0).round())), "by content", "`--width`"),
        ("the file of a font", bytes(FONT), "", "`--font`"),
        (
            "sequences that are predicted together",
            bytes(PREDICTED as u64),
            "1, with `--input` 32 sequences",
            "`--batch`",
        ),
        ("the pickle in a file of `torch.save`", bytes(weights::LONGEST as u64), "", ""),
        ("objects in it", count(weights::MOST), "", ""),
    ]
}

/// The tables, for `docs/limits.md`.
fn markdown() -> String {
    let mut out = String::new();
    for (title, rows) in
        [("Specs", specs()), ("Experiments", experiments()), ("Data", data()), ("Commands", commands())]
    {
        let _ = write!(out, "\n## {title}\n\n| what | at most | default | set by |\n|---|---|---|---|\n");
        for (what, most, default, set) in rows {
            let _ = writeln!(out, "| {what} | {most} | {default} | {set} |");
        }
    }
    out
}

/// The tables of the page are made from the limits; `RTC_UPDATE=1` writes them.
#[test]
fn every_limit_is_in_the_documentation() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/limits.md");
    let text = std::fs::read_to_string(&path).expect("the page exists");
    let (before, _) = text.split_once("<!-- generated: limits -->\n").expect("a marker of the start");
    let expected = format!("{before}<!-- generated: limits -->\n{}\n<!-- end -->\n", markdown());
    if expected != text {
        assert!(std::env::var_os("RTC_UPDATE").is_some(), "docs/limits.md is not current: run with RTC_UPDATE=1");
        std::fs::write(path, expected).expect("writable");
    }
}
