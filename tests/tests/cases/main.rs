//! Every file of `tests/cases` is a test: the language, the graph, and the models of the field against reference numbers.

mod field;
mod ir;
mod language;

datatest_stable::harness! {
    { test = language::errors, root = "cases/errors", pattern = r"^[^/]*\.rt$" },
    { test = language::edits, root = "cases/edits", pattern = r"^[^/]*\.rt$" },
    { test = language::fmt, root = "cases/fmt", pattern = r"^[^/]*\.rt$" },
    { test = language::show, root = "cases/show", pattern = r"^[^/]*\.rt$" },
    { test = language::lower, root = "cases/lower", pattern = r"^[^/]*\.rt$" },
    { test = language::grad, root = "cases/grad", pattern = r"^[^/]*\.rt$" },
    { test = language::causality, root = "cases/causality", pattern = r"^[^/]*\.rt$" },
    { test = language::complete, root = "cases", pattern = r"^README\.md$" },
    { test = language::shipped, root = "../specs", pattern = r"^[^/]*\.rt$" },
    { test = language::written, root = "../docs", pattern = r"^(causality|looped_models|own_layers)\.md$" },
    { test = language::ablations, root = "../docs", pattern = r"^ablations\.md$" },
    { test = language::generated, root = "../docs", pattern = r"^(language|diagnostics)\.md$" },
    { test = ir::print, root = "cases/ir", pattern = r"\.rtir$" },
    { test = ir::causality, root = "cases/causality", pattern = r"\.rtir$" },
    { test = ir::passes, root = "cases/passes", pattern = r"\.rtir$" },
    { test = field::double, root = "cases/routing", pattern = r"^[^/]*\.rt$" },
    { test = field::single, root = "cases/routing", pattern = r"^[^/]*\.rt$" },
    { test = field::double, root = "cases/latent", pattern = r"^[^/]*\.rt$" },
    { test = field::single, root = "cases/latent", pattern = r"^[^/]*\.rt$" },
}
