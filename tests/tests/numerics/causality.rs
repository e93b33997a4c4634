//! The proof of causality against the truth: what is proved does not move by one bit when later tokens change, when the row
//! ends earlier, or when other rows are others; what is found to leak moves.

use std::path::{Path, PathBuf};

use rtc_base::batch::{Batch, Given, Labels};
use rtc_base::rng::{Draws, Key};
use rtc_compiler::causality::{analyse, leaks};
use rtc_compiler::check::{NoFiles, check_form, names};
use rtc_compiler::expr::{BinaryOp, Env, Expr, Func, ScalarValue, Var, eval};
use rtc_compiler::ir::attr;
use rtc_compiler::ir::attribute;
use rtc_compiler::ir::graph::{Graph, MAIN, Node};
use rtc_compiler::ir::ops::Op;
use rtc_compiler::ir::types::Attr;
use rtc_compiler::lower::Objective;
use rtc_compiler::pipeline::each_step::size;
use rtc_compiler::schema::Catalog;
use rtc_compiler::source::Source;
use rtc_compiler::spec::Spec;
use rtc_compiler::{pass, pipeline};
use rtc_exec::{Executor, Halting};
use rtc_tests::models::{self, VOCAB, binding};
use rtc_tests::numeric::{Arrays, executor, graph, results, strong, weights};

use crate::random;

/// Lengths of the rows that are perturbed.
const LENGTHS: &[usize] = &[7, 3, 13, 1];
/// Draws of the weights.
const DRAWS: u64 = 4;

/// Results of one run, by name, as bits.
type Bits = Vec<(String, Vec<u32>)>;

/// The rows as a batch of a graph: the label of a token says whether the next one is odd, and what comes with the examples besides
/// is what each row has, whatever its tokens are.
fn pack(graph: &Graph, rows: &[Vec<u32>]) -> Batch {
    let ends = rows.iter().scan(0, |at, row| {
        *at += row.len();
        Some(*at)
    });
    Batch {
        offsets: std::iter::once(0).chain(ends).collect(),
        tokens: rows.concat(),
        labels: Labels::Each {
            class: rows.iter().flat_map(|row| row[1..].iter().map(|next| next % 2).chain([0])).collect(),
            weight: vec![1.0; rows.concat().len()],
        },
        width: rows.iter().map(Vec::len).max().unwrap_or(0),
        depths: None,
        given: given(graph, rows),
    }
}

/// What comes with the rows; numbers of positions follow from the position.
fn given(graph: &Graph, rows: &[Vec<u32>]) -> Vec<Given> {
    let inputs = graph.nodes(MAIN).iter().map(|id| graph.node(*id)).filter(|node| node.op == Op::Input);
    let others =
        inputs.filter(|node| !["tokens", "labels", "weights"].iter().any(|own| node.get(attribute::NAME) == *own));
    let numbers = |node: &Node| {
        let ty = graph.ty(node.results[0]);
        let numbers = match ty.ragged() {
            Some(_) => rows.iter().flat_map(|row| (0..row.len()).map(|at| (at * at / 9 % 4) as f64)).collect(),
            None => (0..rows.len() * size(ty).1).map(|n| (n as f64).sin()).collect(),
        };
        Given { name: node.get(attribute::NAME).into(), numbers }
    };
    others.map(numbers).collect()
}

fn draw(lengths: &[usize], vocab: usize, seed: u64) -> Vec<Vec<u32>> {
    let key = |row: usize| Key::new(seed).stream("rows").at(row as u64);
    let row =
        |(n, length): (usize, &usize)| (0..*length as u64).map(|t| key(n).below(t, vocab as u64) as u32).collect();
    lengths.iter().enumerate().map(row).collect()
}

/// The other batches of a comparison: a row, and how many of its first tokens are those of the batch at hand.
fn perturbed(rows: &[Vec<u32>], vocab: usize) -> Vec<(usize, usize, Vec<Vec<u32>>)> {
    let mut found = vec![];
    for (n, row) in rows.iter().enumerate() {
        for t in 0..row.len() {
            let (mut other, mut cut) = (rows.to_vec(), rows.to_vec());
            other[n][t] = (other[n][t] + 1 + (t % (vocab - 1)) as u32) % vocab as u32;
            found.push((n, t, other));
            cut[n].truncate(t + 1);
            found.push((n, t + 1, cut));
        }
    }
    found
}

fn run(executor: &mut Executor<f32>, rows: &[Vec<u32>]) -> Bits {
    let names = results(&executor.plan().graph);
    let outputs = executor.run(&pack(&executor.plan().graph, rows), Key::new(0)).unwrap_or_else(|f| panic!("{f}"));
    let bits = |name: &String| Some((name.clone(), outputs.real(name)?.iter().map(|x| x.to_bits()).collect()));
    names.iter().filter_map(bits).collect()
}

/// The results that moved where nothing that they may depend on did: with the names of those asked for, which have positions.
fn moved(graph: &Graph, weights: &Arrays, asked: &[String], vocab: usize, seed: u64) -> Vec<String> {
    let mut executor = executor::<f32>(graph, weights, Halting::Compact);
    let rows = draw(LENGTHS, vocab, seed);
    let whole = run(&mut executor, &rows);
    let mut moved = vec![];
    for (row, known, others) in perturbed(&rows, vocab) {
        let there = run(&mut executor, &others);
        for ((name, a), (_, b)) in whole.iter().zip(&there).filter(|((name, _), _)| asked.contains(name)) {
            let unit = a.len() / LENGTHS.iter().sum::<usize>();
            let (mut from, mut to) = (0, 0);
            for n in 0..rows.len() {
                // A row sees itself as far as it is known, and nothing of another row.
                let same = if n == row { known } else { rows[n].len() };
                if a[from * unit..(from + same) * unit] != b[to * unit..(to + same) * unit] && !moved.contains(name) {
                    moved.push(name.clone());
                }
                (from, to) = (from + rows[n].len(), to + others[n].len());
            }
        }
    }
    moved
}

/// Whether the logits move for one of the draws.
fn moves(graph: &Graph) -> bool {
    (0..DRAWS).any(|seed| !moved(graph, &strong(graph, seed), &["logits".to_owned()], VOCAB, seed).is_empty())
}

/// Compares verdict and truth of a model; gives the verdict.
fn agree(name: &str, spec: &Spec) -> bool {
    let binding = binding(Objective::Each);
    let forward = pipeline::forward(spec, &binding).unwrap_or_else(|e| panic!("{name}: {e}"));
    let inference = pipeline::inference(spec, &binding).unwrap_or_else(|e| panic!("{name}: {e}"));
    let proved = leaks(&forward, "logits").is_empty();
    assert_eq!(proved, !moves(&inference), "{name}: proved {proved}");
    proved
}

#[test]
fn every_spec_is_what_its_proof_says() {
    let (mut proofs, mut leaks) = (vec![], vec![]);
    for model in models::promising(&[]) {
        if agree(&model.name, &model.spec) { proofs.push(model.name) } else { leaks.push(model.name) }
    }
    assert!(proofs.len() >= 10, "most models are causal by one edit: {proofs:?}");
    assert!(
        leaks.iter().any(|name| name == "tlb:balanced") && leaks.iter().any(|name| name == "tlb:fixed"),
        "{leaks:?}"
    );
}

#[test]
fn every_halting_rule_is_causal_where_it_is_proved() {
    for halt in ["token { sees: state", "token { sees: transition", "global { sees: state", "global { sees: transition"]
    {
        for keys in ["state", "mixture"] {
            let edit = format!("depthwise.halt: {halt}, keys: {keys}, threshold: 0.9, cost: 0.1 }}");
            for (file, name) in [("gut.rt", "gut"), ("gutlb.rt", "gutlb")] {
                let model = models::one(file, name, Objective::Each, &[&edit]);
                assert!(model.spec.root.sees_past(), "{name} with {edit} is proved");
                assert!(agree(&format!("{name} with {edit}"), &model.spec));
            }
        }
    }
}

fn cases(extension: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/causality");
    let entries = std::fs::read_dir(folder).expect("the cases exist");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("the folder can be read").path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == extension));
    files.sort();
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).expect("a case is text"))).collect()
}

#[test]
fn every_case_is_what_its_proof_says() {
    let (mut proofs, mut leaks) = (0, 0);
    for (file, text) in cases("rt") {
        let source = Source::new(file.clone(), text);
        for name in names(&source) {
            let (spec, ..) = check_form(&NoFiles, source.clone(), Some(&name), &[], &Catalog::default());
            let spec = spec.unwrap_or_else(|| panic!("{file}: {name} has errors"));
            if agree(&format!("{file}: {name}"), &spec) { proofs += 1 } else { leaks += 1 }
        }
    }
    assert!(proofs >= 12 && leaks >= 12, "{proofs} proofs, {leaks} leaks");
}

#[test]
fn every_graph_is_what_its_proof_says() {
    let mut seen = 0;
    for (file, text) in cases("rtir") {
        let graph = graph(&text);
        assert_eq!(leaks(&graph, "logits").is_empty(), !moves(&graph), "{file}");
        seen += 1;
    }
    assert!(seen >= 12, "{seen} graphs");
}

/// A random mask, biased to comparisons of positions.
fn mask(draws: &mut Draws, depth: u64) -> Expr {
    use BinaryOp::{And, Eq, Ge, Gt, Le, Lt, Ne, Or};
    let one = |draws: &mut Draws| Box::new(mask(draws, depth - 1));
    match draws.below(if depth == 0 { 3 } else { 8 }) {
        0..=2 => {
            let op = [Eq, Ne, Lt, Le, Le, Gt, Ge][draws.below(7) as usize];
            Expr::Binary(op, Box::new(number(draws, 2)), Box::new(number(draws, 2)))
        }
        3 => Expr::Not(one(draws)),
        4 => Expr::Binary([Eq, Ne][draws.below(2) as usize], one(draws), one(draws)),
        5 => Expr::Binary(Or, one(draws), one(draws)),
        _ => Expr::Binary(And, one(draws), one(draws)),
    }
}

/// A random number of positions and heads.
fn number(draws: &mut Draws, depth: u64) -> Expr {
    use BinaryOp::{Add, Div, Lt, Mul, Pow, Rem, Sub};
    let one = |draws: &mut Draws| Box::new(number(draws, depth - 1));
    match draws.below(if depth == 0 { 5 } else { 10 }) {
        9 => {
            let condition = Expr::Binary(Lt, one(draws), one(draws));
            Expr::Call(Func::When, vec![condition, *one(draws), *one(draws)])
        }
        0 | 1 => Expr::Var(Var::I),
        2 | 3 => Expr::Var(Var::J),
        4 => [Expr::Int(draws.below(4) as i64), Expr::Var(Var::Head)][draws.below(2) as usize].clone(),
        5 => Expr::Call([Func::Min, Func::Max][draws.below(2) as usize], vec![*one(draws), *one(draws)]),
        6 => Expr::Neg(one(draws)),
        _ => Expr::Binary([Add, Sub, Sub, Mul, Div, Rem, Pow][draws.below(7) as usize], one(draws), one(draws)),
    }
}

/// Random masks: one that is accepted shows no later key, at any position of a short row, to any head.
#[test]
fn no_accepted_mask_shows_a_later_key() {
    let (mut accepted, mut open) = (0, 0);
    for seed in 0..6_000 {
        let expr = mask(&mut Key::new(seed).stream("masks").draws(), 3);
        let source = format!(
            "graph \"mask\" {{\n%tokens = input {{name: \"tokens\"}} : u32[batch, length]\n\
             %table = param {{name: \"table\", init: zeros}} : f32[9, 6]\n%x = embed %tokens, %table : f32[batch, length, 6]\n\
             %y = attention %x, %x, %x {{heads: 3, mask: {}}} : f32[batch, length, 6]\nreturn %y {{names: \"logits\"}}\n}}\n",
            attr::print(&Attr::from(&expr))
        );
        let places = (0..9).flat_map(|i| (i + 1..9).flat_map(move |j| (0..3).map(move |head| (i, j, head))));
        let sees =
            |(i, j, head)| eval(&expr, &Env { i, j, head, length: 9, ..Env::default() }) == Ok(ScalarValue::Bool(true));
        let shown = places.clone().find(|place| sees(*place));
        if leaks(&graph(&source), "logits").is_empty() {
            assert_eq!(shown, None, "mask {seed}: {expr}");
            accepted += 1;
        } else {
            open += usize::from(shown.is_none());
        }
    }
    assert!(accepted > 1000, "{accepted} masks are accepted");
    assert!(open < accepted, "{open} masks are refused that show nothing, {accepted} are accepted");
}

/// A node is looked at a few times, however long the model is and however deep its loops nest.
#[test]
fn the_analysis_is_linear() {
    for model in models::promising(&[]).iter().chain(&models::promising(&["stack.copies: 40"])) {
        let graph = pipeline::forward(&model.spec, &binding(Objective::Each)).expect("the spec lowers");
        let (nodes, visits) = (graph.walk(MAIN).len(), analyse(&graph).visits());
        assert!((nodes..4 * nodes).contains(&visits), "{}: {visits} visits of {nodes} nodes", model.name);
    }
}

/// Random graphs: whatever the analysis accepts stays, in every value with positions. What it refuses mostly moves.
#[test]
fn nothing_that_is_accepted_moves() {
    let (mut accepted, mut refused, mut stayed) = (0, 0, 0);
    for seed in 0..300 {
        let source = random::positions(seed);
        let mut graph = graph(&source);
        pass::inference::run(&mut graph);
        let names = results(&graph);
        let (sound, leaking): (Vec<String>, Vec<String>) = {
            let analysis = analyse(&graph);
            let leaks = |name: &String| graph.output(name).is_some_and(|value| analysis.leak(value).is_some());
            names.into_iter().partition(|name| !leaks(name))
        };
        let weights = weights(&graph, seed, 0.7);
        let asked = [sound.clone(), leaking.clone()].concat();
        let moved = moved(&graph, &weights, &asked, random::VOCAB as usize, seed);
        let wrong: Vec<&String> = moved.iter().filter(|name| sound.contains(name)).collect();
        assert!(wrong.is_empty(), "random graph {seed}: {wrong:?} moved\n{source}");
        accepted += sound.len();
        refused += leaking.len();
        stayed += leaking.iter().filter(|name| !moved.contains(name)).count();
    }
    assert!(accepted > 500 && refused > 300, "{accepted} accepted, {refused} refused");
    assert!(stayed * 2 < refused, "{stayed} of {refused} refused values did not move");
}

/// Conditions of a loop: of single positions, of what they have seen so far, of the whole row.
const CONDITIONS: [&str; 8] = [
    "go number(state) > 0 - 0.6",
    "until number(state) > 0.3",
    "go mean((state - before)^2) { over: width } > 0.1",
    "until mean((state - before)^2) { over: width } < 0.3",
    "until number(running_mean(state)) > 0.4",
    "until mean(sum) { over: width } > 0.8",
    "go mean(number(state)) > 0 - 0.2",
    "until number(mean(state)) > 0.5",
];

/// Random loops: positions that leave one by one keep what they had, and of what the row as a whole counts nothing is accepted.
#[test]
fn no_accepted_loop_moves() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..48 {
        let mut draws = Key::new(seed).stream("loops").draws();
        let mut one = |all: &[&'static str]| all[draws.below(all.len() as u64) as usize];
        let behind = one(&["state", "sum", "state + sum", "state + count"]);
        let count: usize = one(&["1", "2", "3"]).parse().expect("a number");
        let conditions: Vec<&str> = (0..count).map(|_| one(&CONDITIONS)).collect();
        let text = format!(
            "model m {{\nembed {{ width: 8 }}\nloop {{\nsteps: 5\ncarry sum = zeros(state)\ncarry count = 0\nbefore = state\n\
             attend self {{ heads: 2 }}\nfeedforward {{ hidden: 6 }}\nsum = 0.5 * sum + state\ncount = count + 1\n{}\n}}\n\
             state = {behind}\nreadout each\n}}\n",
            conditions.join("\n")
        );
        let source = Source::new("loop.rt", text.clone());
        let (spec, problems, _) = check_form(&NoFiles, source, Some("m"), &[], &Catalog::default());
        let spec = spec.unwrap_or_else(|| panic!("{:?}\n{text}", problems.iter().next()));
        let binding = binding(Objective::Each);
        let forward = pipeline::forward(&spec, &binding).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let inference = pipeline::inference(&spec, &binding).unwrap_or_else(|e| panic!("{e}\n{text}"));
        if leaks(&forward, "logits").is_empty() {
            assert!(!moves(&inference), "it is accepted and moves:\n{text}");
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted >= 10 && refused >= 10, "{accepted} accepted, {refused} refused");
}
