//! Cases of the IR: every `cases/ir/*.rtir` prints as its golden says, every `cases/passes/PASS/*.rtir` becomes what its
//! golden shows, `cases/causality/*.rtir` depend on what theirs say. The goldens lie beside the cases.

use std::path::Path;

use rtc_compiler::causality;
use rtc_compiler::ir::graph::Graph;
use rtc_compiler::ir::{text, verify};
use rtc_compiler::pass;

/// Runs of one pass until it changes nothing; more than this is a pass that never settles.
const RUNS: usize = 8;

pub(crate) fn print(case: &Path, source: String) -> datatest_stable::Result<()> {
    let graph = read(&source)?;
    let printed = text::print(&graph);
    if text::print(&read(&printed)?) != printed {
        return Err("the printed text reads back as another graph".into());
    }
    golden(case, &printed);
    Ok(())
}

pub(crate) fn passes(case: &Path, source: String) -> datatest_stable::Result<()> {
    let name = case.parent().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or_default();
    let mut graph = read(&source)?;
    for _ in 0..RUNS {
        let changed = pass::run(name, &mut graph).ok_or(format!("there is no pass `{name}`"))?;
        check(&graph)?;
        if !changed {
            golden(case, &text::print(&graph));
            return Ok(());
        }
    }
    Err(format!("`{name}` still changes the graph after {RUNS} runs").into())
}

/// What every node depends on, and the verdict, which the name of the file begins with.
pub(crate) fn causality(case: &Path, source: String) -> datatest_stable::Result<()> {
    let graph = read(&source)?;
    let leaks = case.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("leak_"));
    if leaks == causality::leaks(&graph, "logits").is_empty() {
        return Err(format!("expected {}", if leaks { "a leak" } else { "a proof" }).into());
    }
    golden(case, &causality::text(&graph, "logits"));
    Ok(())
}

fn read(source: &str) -> Result<Graph, String> {
    let lines = |items: Vec<String>| items.join("\n");
    let graph = text::parse(source).map_err(|p| lines(p.iter().map(ToString::to_string).collect()))?;
    check(&graph)?;
    Ok(graph)
}

fn check(graph: &Graph) -> Result<(), String> {
    let broken = verify::verify(graph).err().unwrap_or_default();
    if broken.is_empty() { Ok(()) } else { Err(broken.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")) }
}

fn golden(case: &Path, text: &str) {
    let mut settings = insta::Settings::clone_current();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(case.parent().unwrap_or(case));
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let name = case.file_stem().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
    settings.bind(|| insta::assert_snapshot!(name, text));
}
