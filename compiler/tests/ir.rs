//! The IR: text form, verifier, exports, identity, differences and passes, on graphs written by hand.

use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::{text, verify};
use rtc_compiler::pass::dce;

fn case(name: &str) -> String {
    let path = format!("{}/../tests/cases/{name}.rtir", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn graph(source: &str) -> Graph {
    let list = |items: &[String]| items.join("\n");
    let graph = text::parse(source)
        .unwrap_or_else(|p| panic!("{}", list(&p.iter().map(ToString::to_string).collect::<Vec<_>>())));
    verify::verify(&graph)
        .unwrap_or_else(|v| panic!("{}", list(&v.iter().map(ToString::to_string).collect::<Vec<_>>())));
    graph
}

#[test]
fn printing_what_was_printed_changes_nothing() {
    for name in ["ir/recur", "ir/chunks"] {
        let once = text::print(&graph(&case(name)));
        assert_eq!(text::print(&graph(&once)), once);
        let mut same = graph(&once);
        assert!(!dce::run(&mut same), "{name} has no dead code");
    }
}
