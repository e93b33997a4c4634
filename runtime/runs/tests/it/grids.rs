//! The table of a grid: its numbers by hand, its four formats to the byte, and what it refuses.

use rtc_runs::grid::{Begun, CellState, GridCell, GridRow, MeasuredRun, Sheet, Show, TableFormat, render};
use rtc_runs::record::TrainingFault;
use rtc_runs::record::{RunAnswers, SplitAnswers};
use rtc_task::Tally;
use serde_json::json;

/// Results on two splits with a measure of the task's own.
fn results(accuracy: [f64; 2], data: &str, code: &str) -> MeasuredRun {
    let split = |name: &str, accuracy: f64| {
        json!({
            "split": name, "examples": 50, "scored": 50, "accuracy": accuracy, "loss": 2.0 - accuracy, "mean_depth": 3.25,
            "majority": 0.17, "metrics": { "last_read": accuracy / 2.0 },
        })
    };
    let found = MeasuredRun::of(&json!({
        "best_update": 10, "dev_accuracy": 0.5, "splits": [split("test", accuracy[0]), split("200-300", accuracy[1])],
        "identity": { "data_hash": data, "graph_hash": "g", "versions": { "code": code, "rtc": "1.0" } },
    }));
    found.expect("these are results")
}

fn row(name: &str, parameters: usize, states: [CellState; 2]) -> GridRow {
    let cells =
        (1..).zip(states).map(|(seed, state)| GridCell { seed, path: format!("r/{name}/seed{seed}").into(), state });
    GridRow { name: name.to_owned(), parameters, data: "listops".to_owned(), cells: cells.collect() }
}

fn finished(accuracy: [f64; 2]) -> CellState {
    CellState::Finished(results(accuracy, "d", "c"))
}

/// A name with everything that some format must escape, a cell that failed, and one that is not finished.
fn partial() -> Vec<GridRow> {
    let failed = CellState::Failed(TrainingFault { code: 5, message: "step 3: 100% of a_b is {NaN}".to_owned() }, None);
    let begun = Begun { versions: "code 3f2a, rtc 0.1.0".to_owned() };
    vec![
        row("GUT, 20 \"steps\" & 50% | a_b", 1_234_567, [finished([0.5, 0.25]), finished([0.7, 0.35])]),
        row("ut", 999, [finished([0.4, 0.2]), failed]),
        row("tlb", 12, [CellState::Unfinished(begun), CellState::Absent]),
    ]
}

fn accuracy() -> Show {
    Show { metrics: vec!["accuracy".to_owned()], parameters: true, ..Show::default() }
}

fn sheet(rows: &[GridRow], show: &Show) -> Sheet {
    Sheet::new(rows, show).expect("they may be compared")
}

#[test]
fn text_is_aligned() {
    let expected = "\
model                        seeds  parameters         test     200-300
majority                         -           -         17.0        17.0
GUT, 20 \"steps\" & 50% | a_b      2   1,234,567  60.0 ± 14.1  30.0 ± 7.1
ut [1]                           1         999     40.0 ± -    20.0 ± -
tlb                              0          12            -           -
accuracy in %: mean and sample deviation over as many seeds as the row has
[1] ut seed 2 failed: step 3: 100% of a_b is {NaN}
";
    assert_eq!(render(&sheet(&partial(), &accuracy()), TableFormat::Text), expected);
}

#[test]
fn markdown_is_a_table_with_notes_below() {
    let expected = "\
| model                         | seeds | parameters |            test |        200-300 |
| ----------------------------- | ----: | ---------: | --------------: | -------------: |
| majority                      |     - |          - |            17.0 |           17.0 |
| GUT, 20 \"steps\" & 50% \\| a\\_b |     2 |  1,234,567 | **60.0 ± 14.1** | **30.0 ± 7.1** |
| ut [1]                        |     1 |        999 |        40.0 ± - |       20.0 ± - |
| tlb                           |     0 |         12 |               - |              - |

accuracy in %: mean and sample deviation over as many seeds as the row has  
[1] ut seed 2 failed: step 3: 100% of a\\_b is {NaN}
";
    assert_eq!(render(&sheet(&partial(), &accuracy()), TableFormat::Markdown), expected);
}

#[test]
fn csv_has_all_digits_and_quotes_what_needs_it() {
    let text = render(&sheet(&partial(), &accuracy()), TableFormat::Csv);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "model,seeds,parameters,test,test deviation,200-300,200-300 deviation,notes");
    assert_eq!(lines[1], "majority,,,0.17,,0.17,,");
    let steps = "\"GUT, 20 \"\"steps\"\" & 50% | a_b\",2,1234567,0.6,";
    assert!(lines[2].starts_with(steps), "{}", lines[2]);
    let numbers: Vec<f64> = lines[2][steps.len()..].split(',').filter_map(|field| field.parse().ok()).collect();
    assert_eq!(numbers.len(), 3);
    let deviation = 0.02_f64.sqrt();
    let expected = [deviation, 0.3, deviation / 2.0];
    assert!(numbers.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 1e-12), "{numbers:?}");
    assert_eq!(lines[3], "ut,1,999,0.4,,0.2,,ut seed 2 failed: step 3: 100% of a_b is {NaN}");
    assert_eq!(lines[4], "tlb,0,12,,,,,");
}

#[test]
fn latex_is_a_tabular_with_rules() {
    let expected = "\
% needs \\usepackage{booktabs}
\\begin{tabular}{lrrrr}
\\toprule
model & seeds & parameters & test & 200-300 \\\\
\\midrule
majority & -- & -- & $17.0$ & $17.0$ \\\\
GUT, 20 \"steps\" \\& 50\\% \\textbar{} a\\_b & $2$ & $1{,}234{,}567$ & $\\mathbf{60.0 \\pm 14.1}$ & $\\mathbf{30.0 \\pm 7.1}$ \\\\
ut\\textsuperscript{1} & $1$ & $999$ & $40.0 \\pm -$ & $20.0 \\pm -$ \\\\
tlb & $0$ & $12$ & -- & -- \\\\
\\bottomrule
\\end{tabular}
\\par\\smallskip
{\\footnotesize accuracy in \\%: mean and sample deviation over as many seeds as the row has\\par}
{\\footnotesize \\textsuperscript{1} ut seed 2 failed: step 3: 100\\% of a\\_b is \\{NaN\\}\\par}
";
    assert_eq!(render(&sheet(&partial(), &accuracy()), TableFormat::Latex), expected);
}

/// Reads what the writer may write, and nothing else: tables one below the other.
fn check_latex(text: &str) -> Result<(), String> {
    let body = text.strip_prefix("% needs \\usepackage{booktabs}\n").ok_or("the first line")?;
    body.split("\\par\\bigskip\n").try_for_each(check_tabular)
}

/// A table: commands by name, groups, math, rows of so many cells.
fn check_tabular(body: &str) -> Result<(), String> {
    const COMMANDS: [&str; 16] = [
        "begin",
        "end",
        "toprule",
        "midrule",
        "bottomrule",
        "par",
        "footnotesize",
        "textsuperscript",
        "textbar",
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
        "smallskip",
        "bigskip",
    ];
    let spec = body.strip_prefix("\\begin{tabular}{").and_then(|rest| rest.split('}').next()).ok_or("no tabular")?;
    let (rows, _) = body.split_once("\\end{tabular}\n\\par").ok_or("no end")?;
    if rows.matches("rule\n").count() != 3 || rows.lines().last() != Some("\\bottomrule") {
        return Err("three rules, the last one at the end".to_owned());
    }
    let (mut depth, mut math, mut cells, mut chars) = (0_i32, false, 1, body.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let mut name = String::new();
                while let Some(letter) = chars.peek().copied().filter(char::is_ascii_alphabetic) {
                    name.push(letter);
                    chars.next();
                }
                match name.as_str() {
                    "" => match chars.next() {
                        Some('\\') => {
                            if depth != 0 || math || cells != spec.len() {
                                return Err(format!("a row with {cells} cells at depth {depth}"));
                            }
                            cells = 1;
                        }
                        Some('&' | '%' | '$' | '#' | '_' | '{' | '}') => {}
                        Some(' ') if math => {}
                        other => return Err(format!("\\{other:?}")),
                    },
                    "pm" | "mathbf" if math => {}
                    known if COMMANDS.contains(&known) => {}
                    unknown => return Err(format!("\\{unknown}")),
                }
            }
            '{' => depth += 1,
            '}' => depth -= 1,
            '$' => math = !math,
            '&' if depth == 0 => cells += 1,
            '^' if math => {}
            '&' | '%' | '#' | '_' | '^' | '~' => return Err(format!("a bare {c}")),
            _ => {}
        }
        if depth < 0 {
            return Err("a brace too many".to_owned());
        }
    }
    if depth == 0 && !math && cells == 1 { Ok(()) } else { Err("something is left open".to_owned()) }
}

#[test]
fn latex_of_any_name_is_well_formed() {
    let names = ["\\", "\\\\", "{", "}}{{", "a&b", "$x^2$", "~^_#%", "[1]", "a--b", "\n\t", "<|>", "ü ± µ", ""];
    for name in names {
        let rows = [row(name, 1, [finished([0.5, 0.5]), finished([0.1, 0.2])])];
        for show in [Show::default(), Show { depth: true, baseline: Some(0), ..accuracy() }] {
            let text = render(&sheet(&rows, &show), TableFormat::Latex);
            assert_eq!(check_latex(&text), Ok(()), "{name:?}:\n{text}");
        }
    }
    assert!(
        check_latex("% needs \\usepackage{booktabs}\n\\begin{tabular}{lr}\na_b & 1 \\\\\n\\end{tabular}\n").is_err()
    );
}

#[test]
fn every_accuracy_of_a_task_is_shown_and_others_on_demand() {
    let rows = [row("m", 5, [finished([0.5, 0.25]), finished([0.7, 0.35])])];
    let titles = |show: &Show| sheet(&rows, show).columns.into_iter().map(|column| column.title).collect::<Vec<_>>();
    let all = ["test accuracy", "test last_read", "200-300 accuracy", "200-300 last_read"];
    assert_eq!(titles(&Show::default()), all);
    let loss = Show { metrics: vec!["loss".to_owned()], depth: true, ..Show::default() };
    assert_eq!(titles(&loss), ["test", "200-300", "depth test", "depth 200-300"]);
    let best = Show { best: true, ..accuracy() };
    assert_eq!(titles(&best), ["parameters", "test max", "test", "200-300 max", "200-300"]);
    let text = render(&sheet(&rows, &best), TableFormat::Text);
    assert!(text.contains("70.0  60.0 ± 14.1"), "{text}");
    let least = Show { best: true, ..loss.clone() };
    assert_eq!(titles(&least)[..2], ["test min", "test"]);
    let text = render(&sheet(&rows, &least), TableFormat::Text);
    assert!(text.contains("1.300  1.400 ± 0.141"), "the best loss is the smallest: {text}");
    let text = render(&sheet(&rows, &loss), TableFormat::Text);
    assert!(text.contains("m      1.400 ± 0.141  1.700 ± 0.071  3.25 ± 0.00    3.25 ± 0.00"), "{text}");
    assert!(!text.contains("majority"), "the baseline has no loss");
    let empty = sheet(&[row("m", 5, [CellState::Absent, CellState::Absent])], &Show::default());
    assert_eq!(render(&empty, TableFormat::Text), "model  seeds\nm          0\nno run is finished yet\n");
}

#[test]
fn numbers_are_shown_where_there_is_no_accuracy() {
    let of = |rmse: f64| {
        let split = json!({
            "split": "test", "examples": 50, "scored": 50, "loss": 0.5, "numbers": { "mae": rmse / 2.0, "r2": 0.75, "rmse": rmse },
        });
        CellState::Finished(MeasuredRun::of(&json!({ "splits": [split], "identity": {} })).expect("these are results"))
    };
    let rows = [row("m", 5, [of(2.0), of(4.0)])];
    let found = sheet(&rows, &Show { best: true, ..Show::default() });
    let titles: Vec<&str> = found.columns.iter().map(|column| column.title.as_str()).collect();
    assert_eq!(titles, ["test mae min", "test mae", "test r2 max", "test r2", "test rmse min", "test rmse"]);
    let values: Vec<f64> = found.rows[0].values.iter().filter_map(|value| value.mean).collect();
    assert_eq!(values, [1.0, 1.5, 0.75, 0.75, 2.0, 3.0]);
    assert!(!found.caption.contains('%'), "{}", found.caption);
}

#[test]
fn runs_of_other_data_or_programs_are_refused_or_marked() {
    let of = |data: &str, code: &str| CellState::Finished(results([0.5, 0.5], data, code));
    let rows = [
        row("a", 1, [of("d", "c"), of("d", "c")]),
        row("b", 1, [of("e", "c"), of("d", "c then f")]),
        row("c", 1, [of("d", "c"), of("d", "c")]),
    ];
    let refused = Sheet::new(&rows, &accuracy()).expect_err("they differ");
    let expected = [
        "b seed 1 was trained on other data (e) than most (d)",
        "b seed 2 was trained by another program (code c then f, rtc 1.0) than most (code c, rtc 1.0)",
    ];
    assert_eq!(refused.0, expected);
    let shown = sheet(&rows, &Show { mixed: true, ..accuracy() });
    assert_eq!(shown.notes, expected);
    assert_eq!(
        shown.rows.iter().map(|line| line.notes.clone()).collect::<Vec<_>>(),
        [vec![], vec![], vec![1, 2], vec![]]
    );
    let mut apart = [row("a", 1, [of("d", "c"), of("d", "c")]), row("b", 1, [of("e", "c"), of("e", "c")])];
    assert!(Sheet::new(&apart, &accuracy()).is_err(), "they asked for the same data");
    apart[1].data = "listops, smaller".to_owned();
    assert_eq!(sheet(&apart, &accuracy()).notes, ["b asks for other data than a"]);
    let unknown = [row("a", 1, [of("", "c"), of("d", "c")])];
    assert!(Sheet::new(&unknown, &accuracy()).is_err(), "what an older program did not write is not known to be equal");
}

/// A finished run that keeps its answers: on each of 50 examples one, the first `right` of them right, or of those from
/// `from` on.
fn kept(from: usize, right: usize) -> CellState {
    let tallies = (0..50).map(|n| Tally { right: u64::from((from..from + right).contains(&n)), all: 1 }).collect();
    let split = SplitAnswers::new("test", "examples".to_owned(), [("accuracy", tallies)]);
    let answers = Some(RunAnswers { splits: vec![split] });
    let mut found = results([right as f64 / 50.0, 0.5], "d", "c");
    found.splits.truncate(1);
    CellState::Finished(MeasuredRun { answers, ..found })
}

/// A row with as many seeds as states.
fn seeds(name: &str, states: Vec<CellState>) -> GridRow {
    let cells =
        (1..).zip(states).map(|(seed, state)| GridCell { seed, path: format!("r/{name}/{seed}").into(), state });
    GridRow { name: name.to_owned(), parameters: 1, data: "listops".to_owned(), cells: cells.collect() }
}

fn compared() -> Show {
    Show { metrics: vec!["accuracy".to_owned()], baseline: Some(0), ..Show::default() }
}

#[test]
fn rows_are_compared_with_the_baseline_over_seeds_and_examples() {
    // scipy's ttest_rel and t.interval: better 0.013072, [0.0503, 0.1497]; like it 0.66667, [-0.0507, 0.0640]. Both p-values over
    // seeds are corrected: twice the smaller one, and the larger one.
    let rows = [
        seeds("base", vec![kept(0, 25), kept(0, 27), kept(0, 27)]),
        seeds("better", vec![kept(0, 30), kept(0, 31), kept(0, 33)]),
        seeds("like it", vec![kept(0, 26), kept(0, 26), kept(0, 28)]),
    ];
    let expected = "\
model           test
majority        17.0
base      52.7 ± 2.3
better    62.7 ± 3.1 *
like it   53.3 ± 2.3
accuracy in %: mean and sample deviation over 3 seeds

model    95 % interval  difference from base  p (seeds)    p (examples)
base      [46.9, 58.3]              baseline          -               -
better    [54.8, 69.9]   +10.0 [+5.0, +15.0]      0.026 *         0.002 *
like it   [47.6, 59.0]     +0.7 [-5.1, +6.4]      0.667           0.767
intervals of 95 %: over seeds by Student's t of the logit
difference: mean less that of base with the same seeds, its interval over seeds by the paired t-test
p: over seeds by the paired t-test, over examples by the paired bootstrap; two-sided, corrected for the rows of the table by \
Holm's method; * below 0.05
";
    assert_eq!(render(&sheet(&rows, &compared()), TableFormat::Text), expected);
}

#[test]
fn an_interval_that_disagrees_with_a_corrected_p_value_is_told() {
    // Five rows whose intervals leave out 0, each with an uncorrected p-value of about 0.02: times five it is no difference.
    let row = |name: &str| seeds(name, vec![kept(0, 30), kept(0, 31), kept(0, 33)]);
    let base = seeds("base", vec![kept(0, 25), kept(0, 27), kept(0, 27)]);
    let few = [base.clone(), row("a")];
    let many: Vec<GridRow> = std::iter::once(base).chain(["a", "b", "c", "d", "e"].map(row)).collect();
    let told = |rows: &[GridRow]| {
        render(&sheet(rows, &compared()), TableFormat::Text).contains("where they disagree, the p-value decides")
    };
    assert_eq!((told(&few), told(&many)), (false, true));
}

#[test]
fn one_seed_is_compared_over_examples() {
    // 15 examples are right in `base` alone, 5 in `other` alone: scipy's binomtest(5, 20).pvalue is 0.041389.
    let rows = [seeds("base", vec![kept(0, 40)]), seeds("other", vec![kept(15, 30)])];
    let sheet = sheet(&rows, &compared());
    let worth = sheet.rows[2].values[0].worth;
    assert_eq!(worth.seeds, None);
    assert!((worth.examples.expect("both keep their answers") - 0.041_389_465_332_031_25).abs() < 1e-12, "{worth:?}");
    let text = render(&sheet, TableFormat::Text);
    assert!(text.contains("majority  17.0\nbase      80.0\nother     60.0 *\naccuracy in %, one seed\n"), "{text}");
    // scipy's proportion_ci(method="wilson") of 40 and of 30 in 50.
    for part in
        ["[67.0, 88.8]", "[46.2, 72.4]", "-20.0 [-3", "0.041 *", "by Wilson's formula", "by McNemar's exact test"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("p (seeds)"), "{text}");
}

#[test]
fn what_can_not_be_compared_is_told() {
    let CellState::Finished(measured) = kept(0, 30) else { unreachable!("it is finished") };
    let broken = CellState::Finished(MeasuredRun { answers: None, ..measured });
    let rows = [seeds("base", vec![kept(0, 40)]), seeds("broken", vec![broken])];
    let text = render(&sheet(&rows, &compared()), TableFormat::Text);
    assert!(text.contains("nothing over examples for broken seed 1: answers.json is missing"), "{text}");
    assert!(!text.contains("p ("), "{text}");

    // Other examples, and other seeds, are no pairs.
    let rows = [seeds("base", vec![kept(0, 40), kept(0, 41)]), seeds("later", vec![kept(0, 30), kept(0, 30)])];
    let mut later = rows.clone();
    later[1].cells.iter_mut().for_each(|cell| cell.seed += 7);
    let worth = sheet(&later, &compared()).rows[2].values[0].worth;
    assert_eq!((worth.difference, worth.seeds, worth.examples), (None, None, None));
    assert!(sheet(&rows, &compared()).rows[2].values[0].worth.examples.is_some());
}

#[test]
fn comparisons_are_written_in_every_format() {
    let rows = [
        seeds("base", vec![kept(0, 25), kept(0, 27), kept(0, 27)]),
        seeds("better", vec![kept(0, 30), kept(0, 31), kept(0, 33)]),
    ];
    let sheet = sheet(&rows, &compared());
    let markdown = render(&sheet, TableFormat::Markdown);
    assert!(markdown.contains("| better   | **62.7 ± 3.1** \\* |"), "{markdown}");
    assert!(markdown.contains("| better |  [54.8, 69.9] |  +10.0 [+5.0, +15.0] |  0.013 \\* |"), "{markdown}");
    let latex = render(&sheet, TableFormat::Latex);
    assert_eq!(check_latex(&latex), Ok(()));
    assert!(latex.contains("better & $\\mathbf{62.7 \\pm 3.1}^{*}$"), "{latex}");
    assert!(latex.contains("better & $[54.8,\\ 69.9]$ & $+10.0\\ [+5.0,\\ +15.0]$ & $0.013^{*}$"), "{latex}");
    let csv = render(&sheet, TableFormat::Csv);
    let head = "model,test,test deviation,test low,test high,test difference,test difference low,test difference high,\
                test p seeds,test p examples,notes";
    assert_eq!(csv.lines().next(), Some(head));
    let better: Vec<&str> = csv.lines().last().unwrap_or_default().split(',').collect();
    let number = |at: usize| better[at].parse::<f64>().expect("a number");
    assert!((number(5) - 0.1).abs() < 1e-12 && (number(8) - 0.013_072_457_560_346_548).abs() < 1e-9, "{csv}");
    let json = sheet.to_json();
    let better = &json["rows"][2]["values"]["test"];
    assert_eq!((&better["best"], &better["interval"]["by"]), (&true.into(), &"logit".into()));
    assert_eq!((&json["baseline"], better["p_seeds"].as_f64().map(|p| p < 0.05)), (&"base".into(), Some(true)));
}
