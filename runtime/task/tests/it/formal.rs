//! Tasks on strings of a length: published labels, languages by enumeration, generators against definitions, hostile options.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rtc_base::rng::Key;
use rtc_task::TaskSettings;
use rtc_task::formal::{Formal, StringDraw};
use rtc_task::{
    Example, ExampleTarget, Options, TASKS, Task, load, load_split, majority_share, resolve_options, task_named,
};

use crate::given;

fn formal(name: &str) -> &'static Formal {
    task_named(name).expect("it exists").formal().expect("a task on strings")
}

fn all() -> impl Iterator<Item = &'static Formal> {
    TASKS.iter().filter_map(|task| task.formal())
}

fn options(task: &Formal, options: &[(&str, u64)]) -> Options {
    resolve_options(task.options, &given(options)).expect("valid options")
}

/// The example of a text with blanks between its tokens, or without where every token is one character.
fn read(name: &str, set: &[(&str, u64)], text: &str) -> Result<Example, String> {
    let task = formal(name);
    let options = options(task, set);
    let spaced = if text.contains(' ') { text.to_owned() } else { text.chars().flat_map(|c| [c, ' ']).collect() };
    (task.example)(&options, &task.encode(&spaced, &options)?)
}

fn class(name: &str, set: &[(&str, u64)], text: &str) -> u32 {
    match read(name, set, text).unwrap_or_else(|error| panic!("{name} {text}: {error}")).label {
        ExampleTarget::Class(class) => class,
        _ => panic!("{name} has one class"),
    }
}

/// The scored answers as text, `.` for the others.
fn answers(example: &Example, names: &[String]) -> String {
    let ExampleTarget::Each { class, weight } = &example.label else { panic!("one class per token") };
    let word = |(class, weight): (&u32, &f32)| if *weight > 0.0 { names[*class as usize].as_str() } else { "." };
    class.iter().zip(weight).map(word).collect::<Vec<_>>().join(" ")
}

fn string(name: &str, text: &str) -> (String, Option<u32>) {
    let task = formal(name);
    let found = read(name, &[], text).unwrap_or_else(|error| panic!("{name} {text}: {error}"));
    (answers(&found, &(task.classes)(&options(task, &[]))), found.depth)
}

/// A task, its options, and strings with their classes.
type Labelled = (&'static str, &'static [(&'static str, u64)], &'static [(&'static str, u32)]);

#[test]
fn published_labels() {
    let cases: &[Labelled] = &[
        ("even_pairs", &[], &[("001110", 0), ("0101001", 1), ("10", 1), ("0", 0)]),
        ("parity_check", &[], &[("1010100", 1), ("01111", 0)]),
        ("cycle_navigation", &[], &[("+1 -1 0 -1 -1", 3), ("+1 +1 +1 -1", 2)]),
        (
            "modular_arithmetic",
            &[("plus", 0)],
            &[("1+2*3", 2), ("1-1-1", 4), ("0*1+4*3-2", 0), ("3-4*2", 0), ("2*3*4-1+0", 3)],
        ),
        ("modular_arithmetic", &[], &[("+1+2*3", 2), ("+4", 4)]),
        (
            "tomita",
            &[("language", 3)],
            &[
                ("0", 1),
                ("1", 1),
                ("01", 1),
                ("110", 1),
                ("100", 1),
                ("1100", 1),
                ("0110", 1),
                ("10", 0),
                ("101", 0),
                ("1000", 0),
            ],
        ),
        ("tomita", &[("language", 4)], &[("001100", 1), ("100100", 1), ("0001", 0), ("1001000", 0)]),
        ("tomita", &[("language", 5)], &[("00", 1), ("0011", 1), ("0101", 1), ("0110", 1), ("010", 0), ("0111", 0)]),
        (
            "tomita",
            &[("language", 6)],
            &[("01", 1), ("000", 1), ("111", 1), ("0011", 1), ("0", 0), ("0001", 0), ("00111", 0)],
        ),
        ("tomita", &[("language", 7)], &[("0101", 1), ("1101", 1), ("1010", 0)]),
        ("tomita", &[("language", 2)], &[("1010", 1), ("0101", 0), ("101", 0)]),
        ("tomita", &[("language", 1)], &[("000", 1), ("010", 0)]),
        ("solve_equation", &[], &[("(x-4)=2", 1), ("x=3", 3)]),
        ("modular_arithmetic_brackets", &[], &[("(-4)", 1), ("(2*(1--2))", 1)]),
        ("missing_duplicate", &[], &[("0?00", 0), ("1 0 1 1 ? 1 pad", 0), ("?1", 1)]),
    ];
    for (name, set, labels) in cases {
        for (text, expected) in *labels {
            assert_eq!(class(name, set, text), *expected, "{name} {text}");
        }
    }
    let ids = |set: &[(&str, u64)], text| read("modular_arithmetic", set, text).expect("an expression").tokens;
    assert_eq!(ids(&[("plus", 0)], "1+2*3"), [1, 5, 2, 7, 3]);
    assert_eq!(ids(&[], "+1+2*3"), [5, 1, 5, 2, 7, 3]);
    let deep = "0".repeat(12) + &"1".repeat(12);
    let deeper = format!("0{deep}1");
    let brackets = [
        ("0101", [1, 1, 1, 1]),
        ("001011", [1, 1, 1, 1]),
        ("000111", [0, 1, 1, 1]),
        ("00100111", [0, 1, 1, 1]),
        ("00001111", [0, 0, 1, 1]),
        (&deep, [0, 0, 0, 1]),
        (&deeper, [0; 4]),
        ("0110", [0; 4]),
    ];
    for (text, expected) in brackets {
        assert_eq!([2, 3, 4, 12].map(|depth| class("dyck", &[("depth", depth)], text)), expected, "{text}");
    }
}

#[test]
fn published_answers_of_several_tokens() {
    let blanks = |input: &str, count: usize| format!("{input}{}", " _".repeat(count));
    let cases = [
        ("stack_manipulation", blanks("0 1 1 0 push1 pop pop", 8), 7, "1 1 0 end . . . ."),
        ("stack_manipulation", blanks("0 pop pop push1", 5), 4, "1 end . . ."),
        ("odds_first", blanks("0 0 1 1 0 1 0 1", 8), 8, "0 1 1 1 0 1 0 0"),
        ("binary_addition", blanks("0 0 1 + 0 1 1 0 1", 10), 9, "0 1 0 1 1 end . . . ."),
        ("binary_addition", blanks("0 + 0", 4), 3, "0 end . ."),
        ("binary_multiplication", blanks("1 1 * 1 1", 5), 5, "1 0 0 1 end"),
        ("bucket_sort", blanks("1 0 2 0 4 1 1 2", 8), 8, "0 0 1 1 1 2 2 4"),
        ("reverse_string", blanks("0 1 1", 3), 3, "1 1 0"),
        ("duplicate_string", blanks("0 1", 4), 2, "0 1 0 1"),
        ("compute_sqrt", blanks("1 1 0 1 0", 3), 5, "1 0 1"),
    ];
    for (name, text, ignored, expected) in cases {
        assert_eq!(string(name, &text).0, ". ".repeat(ignored) + expected, "{name} {text}");
    }
}

#[test]
fn published_rows_with_the_full_output() {
    let ends = |input: &str, count: usize| format!("{input} >{}", " #".repeat(count));
    let cases = [
        ("looped_parity", ends("0 0 0 1 1", 1), ". . . . . 0 #".to_owned(), 5),
        ("looped_copy", ends("1 0 1", 6), ". . . 1 0 1".to_owned() + &" #".repeat(4), 3),
        ("looped_addition", ends("1 0 + 1 1", 6), ". . . . . 1 0 1".to_owned() + &" #".repeat(4), 2),
        ("looped_binary_sum", ends("1 1 1 1 1 1", 8), ". . . . . . 0 1 1".to_owned() + &" #".repeat(6), 6),
        ("looped_binary_sum", ends("0 0", 8), ". .".to_owned() + &" #".repeat(9), 2),
        ("looped_multiplication", ends("1 1 * 1 1 0", 13), ". . . . . . 0 1 0 0 1".to_owned() + &" #".repeat(9), 6),
        ("looped_unique_set", ends("14 1 14 12 1", 8), ". . . . . 14 1 12".to_owned() + &" #".repeat(6), 5),
    ];
    for (name, text, expected, steps) in cases {
        assert_eq!(string(name, &text), (expected, Some(steps)), "{name}");
    }
    // Width of a row in a test of length n: the published one with n + 1 in the place of the stage.
    let widths = [
        ("looped_parity", 5, 7),
        ("looped_copy", 3, 10),
        ("looped_addition", 2, 12),
        ("looped_binary_sum", 6, 15),
        ("looped_multiplication", 3, 20),
        ("looped_unique_set", 5, 14),
    ];
    for (name, length, width) in widths {
        let task = formal(name);
        let options = options(task, &[]);
        for (longest, length, width) in [(None, length, width), (Some(length), 1, width), (Some(length), length, width)]
        {
            let draw = StringDraw { length, longest, index: 0, options: &options };
            assert_eq!(task.fresh(&draw, &mut Key::new(1).draws()).tokens.len(), width, "{name}");
        }
    }
}

#[test]
fn answers_as_next_tokens_and_behind_pauses() {
    let of = |name: &str, set: &[(&str, u64)], text: &str| {
        let task = formal(name);
        let options = options(task, set);
        let tokens = task.encode(text, &options).expect("known tokens");
        let example = (task.example)(&options, &tokens).expect("a row");
        let ExampleTarget::Each { class, weight } = &example.label else { panic!("one per token") };
        let names = (task.classes)(&options);
        let answer = class.iter().zip(weight).map(|(class, weight)| match weight {
            0.0 => ".",
            _ => names[*class as usize].as_str(),
        });
        let answer = answer.collect::<Vec<_>>().join(" ");
        // What was made reads back as itself.
        assert_eq!((task.example)(&options, &example.tokens), Ok(example.clone()), "{name} {text}");
        (task.decode(&example.tokens, &options), answer, example.depth)
    };
    let row = |tokens: &str, answer: &str, depth| (tokens.to_owned(), answer.to_owned(), Some(depth));
    let (next, pauses) = ([("next_token", 1)], [("pause", 2)]);
    let both = [("next_token", 1), ("pause", 2)];
    assert_eq!(of("looped_copy", &next, "1 0 1 > # # # #"), row("1 0 1 > 1 0 1", ". . . 1 0 1 #", 3));
    assert_eq!(of("looped_parity", &next, "1 0 1 >"), row("1 0 1 > 0", ". . . 0 #", 3));
    assert_eq!(of("looped_parity", &both, "1 1 1 >"), row("1 1 1 > pause pause 1", ". . . . . 1 #", 3));
    assert_eq!(of("looped_parity", &pauses, "1 1 1 > # #"), row("1 1 1 > pause pause # #", ". . . . . 1 # #", 3));
    assert_eq!(of("looped_addition", &next, "1 0 + 1 1 > #"), row("1 0 + 1 1 > 1 0 1", ". . . . . 1 0 1 #", 2));
    // No ones have an empty answer: it ends at once.
    assert_eq!(of("looped_binary_sum", &next, "0 0 > #"), row("0 0 >", ". . #", 2));
    assert_eq!(of("looped_unique_set", &both, "7 7 9 >").0, "7 7 9 > pause pause 7 9");

    let task = formal("looped_copy");
    for (set, wrong, message) in [(&next[..], "1 0 > 1 1", "wrong answer"), (&[][..], "1 0 > 1 0", "to its end")] {
        let options = options(task, set);
        let tokens = task.encode(wrong, &options).expect("known tokens");
        let error = (task.example)(&options, &tokens).expect_err(wrong);
        assert!(error.contains(message), "{error}");
    }
    let promised = |set| task_named("looped_copy").expect("it exists").next_token(&options(task, set));
    assert!(promised(&next) && !promised(&pauses), "only then the answers are later tokens");
    for length in 1..20 {
        for longest in [None, Some(20)] {
            let options = options(task, &both);
            let draw = StringDraw { length, longest, index: 0, options: &options };
            let found = task.fresh(&draw, &mut Key::new(1).at(length as u64).draws());
            assert_eq!((found.tokens.len(), found.size), (2 * length + 3, Some(length as u32)), "rows have no tail");
        }
    }
}

/// Number of strings of lengths 1 to 8.
#[test]
fn languages_have_the_published_sizes() {
    let cases: &[(&str, &str, u64, [usize; 8])] = &[
        ("tomita", "language", 3, [2, 3, 6, 10, 18, 32, 56, 100]),
        ("tomita", "language", 4, [2, 4, 7, 13, 24, 44, 81, 149]),
        ("tomita", "language", 5, [0, 2, 0, 8, 0, 32, 0, 128]),
        ("tomita", "language", 6, [0, 2, 2, 6, 10, 22, 42, 86]),
        ("dyck", "depth", 2, [0, 1, 0, 2, 0, 4, 0, 8]),
        ("dyck", "depth", 3, [0, 1, 0, 2, 0, 5, 0, 13]),
        ("dyck", "depth", 4, [0, 1, 0, 2, 0, 5, 0, 14]),
        ("dyck", "depth", 12, [0, 1, 0, 2, 0, 5, 0, 14]),
    ];
    for (name, option, value, expected) in cases {
        let task = formal(name);
        let options = options(task, &[(option, *value)]);
        let inside = |tokens: &[u32]| (task.example)(&options, tokens).expect("bits").label == ExampleTarget::Class(1);
        let strings = |length| (0..1_u32 << length).map(move |n| (0..length).map(|b| n >> b & 1).collect::<Vec<u32>>());
        let sizes: Vec<usize> = (1..=8).map(|length| strings(length).filter(|s| inside(s)).count()).collect();
        assert_eq!(sizes, expected, "{name} {value}");
    }
}

/// The third language again, as the published automaton.
#[test]
fn the_third_language_is_that_of_its_automaton() {
    const STEPS: [[usize; 2]; 5] = [[0, 1], [3, 0], [3, 1], [2, 4], [4, 4]];
    let task = formal("tomita");
    let options = options(task, &[("language", 3)]);
    for length in 1..=12 {
        for n in 0..1_u32 << length {
            let tokens: Vec<u32> = (0..length).map(|b| n >> b & 1).collect();
            let state = tokens.iter().fold(0, |state, bit| STEPS[state][*bit as usize]);
            let label = (task.example)(&options, &tokens).expect("bits").label;
            assert_eq!(label, ExampleTarget::Class(u32::from(state < 3)), "{tokens:?}");
        }
    }
}

/// Every language draws half of the strings of a length inside, where strings of both kinds exist.
#[test]
fn classes_are_balanced_where_both_exist() {
    let languages = (1..=7).map(|n| ("tomita", "language", n)).chain([2, 3, 4, 12].map(|n| ("dyck", "depth", n)));
    for (name, option, value) in languages {
        let task = formal(name);
        let options = options(task, &[(option, value)]);
        for length in (1..=30).chain([75, 100]) {
            let inside = |index| {
                let draw = StringDraw { length, longest: None, index, options: &options };
                let found = task.fresh(&draw, &mut Key::new(3).at(index).draws());
                assert_eq!(found.tokens.len(), length);
                found.label == ExampleTarget::Class(1)
            };
            let count = (0..20).filter(|index| inside(*index)).count();
            let odd = length % 2 == 1;
            let expected = match (name, value) {
                ("dyck", _) | ("tomita", 2 | 5) if odd => 0,
                ("tomita", 6) if length == 1 => 0,
                ("tomita", 3) if length == 1 => 20,
                ("tomita", 4) if length < 3 => 20,
                ("tomita", 7) if length <= 4 => 20,
                _ => 10,
            };
            assert_eq!(count, expected, "{name} {value} of length {length}");
        }
    }
}

#[test]
fn parity_has_as_many_ones_as_it_is_told() {
    let settings = |set: &[(&str, u64)]| TaskSettings {
        name: "parity_check".into(),
        options: given(set),
        sizes: BTreeMap::from([("41-60".into(), 400), ("dev".into(), 400)]),
        seed: 1,
        ..TaskSettings::default()
    };
    let share = |set: &[(&str, u64)], split: &str| {
        let found = load_split(&settings(set), split).expect("generated");
        let ones = found.iter().flat_map(|example| &example.tokens).filter(|bit| **bit == 1).count();
        ones as f64 / found.iter().map(|example| example.tokens.len()).sum::<usize>() as f64
    };
    for percent in [10, 30, 50, 70, 90] {
        let expected = percent as f64 / 100.0;
        assert!((share(&[("test_ones", percent)], "41-60") - expected).abs() < 0.02, "{percent}");
        assert!((share(&[("test_ones", percent)], "dev") - 0.5).abs() < 0.02, "{percent}");
        assert!((share(&[("ones", percent)], "dev") - expected).abs() < 0.02, "{percent}");
    }
}

#[test]
fn every_task_draws_strings_of_the_length_that_it_understands() {
    for task in all() {
        let options = options(task, &[]);
        let (vocabulary, classes) = ((task.vocabulary)(&options).len() as u32, (task.classes)(&options).len() as u32);
        for length in task.shortest..=60 {
            for index in 0..4 {
                for longest in [None, Some(60)] {
                    let draw = StringDraw { length, longest, index, options: &options };
                    let key = Key::new(9).at(length as u64).at(index);
                    let found = task.fresh(&draw, &mut key.draws());
                    assert_eq!(found, task.fresh(&draw, &mut key.draws()), "{}: the same draws", task.name);
                    assert!(found.tokens.iter().all(|token| *token < vocabulary), "{}", task.name);
                    let size = found.size.expect("a length") as usize;
                    let even = task.name == "modular_arithmetic" && length % 2 == 0;
                    assert_eq!(size, length - usize::from(even), "{}", task.name);
                    let labels = match &found.label {
                        ExampleTarget::Class(class) => std::slice::from_ref(class),
                        ExampleTarget::Each { class, weight } => {
                            assert_eq!((class.len(), weight.len()), (found.tokens.len(), class.len()), "{}", task.name);
                            assert!(weight.contains(&1.0), "{}", task.name);
                            class
                        }
                        others => panic!("{}: {others:?}", task.name),
                    };
                    assert!(labels.iter().all(|class| *class < classes), "{}", task.name);
                }
            }
        }
    }
}

#[test]
fn splits_are_ranges_of_lengths_in_turn() {
    for task in all() {
        let settings = |seed, size: usize| TaskSettings {
            name: task.name.into(),
            options: given(&[("train_length", 8), ("test_length", 12)]),
            sizes: ["train", "dev", "test", "long", "5-9"].map(|split| (split.to_string(), size)).into(),
            seed,
            ..TaskSettings::default()
        };
        let splits = ["train", "dev", "test", "long", "5-9"];
        let data = load(&settings(1, 20), &splits).expect("generated");
        let sizes = |split: &str| data.split(split).iter().filter_map(|e| e.size).collect::<BTreeSet<u32>>();
        let expected = |from: u32, to: u32| -> BTreeSet<u32> {
            let even = |n: &u32| task.name != "modular_arithmetic" || n % 2 == 1;
            (from..=to)
                .flat_map(|n| [n, n - 1])
                .filter(even)
                .filter(|n| *n >= from || task.name == "modular_arithmetic")
                .collect()
        };
        assert_eq!(sizes("long"), expected(9, 12), "{}", task.name);
        assert_eq!(sizes("5-9"), expected(5, 9), "{}", task.name);
        assert!(*sizes("train").last().expect("some") <= 8, "{}", task.name);
        let small = load(&settings(1, 7), &splits).expect("generated");
        assert!(splits.iter().all(|split| data.split(split)[..7] == *small.split(split)), "{}", task.name);
        assert_ne!(data.fingerprint(), load(&settings(2, 20), &splits).expect("generated").fingerprint());
    }
    let count = |name: &str, split: &str| task_named(name).expect("a task").split(split).map(|split| split.count);
    assert_eq!(count("tomita", "51-100"), Ok(50 * 512));
    for wrong in ["9-5", "0-5", "5-", "-5", "a-b", "1-10001", "1-99999999999999999999", "5"] {
        assert!(count("tomita", wrong).is_err(), "{wrong}");
    }
    assert!(count("listops", "5-9").is_err(), "only tasks on strings have them");
    let all = TaskSettings {
        name: "tomita".into(),
        options: given(&[]),
        sizes: BTreeMap::new(),
        seed: 0,
        ..TaskSettings::default()
    };
    let error = load_split(&all, "1-10000").expect_err("too many").message;
    assert!(error.contains("ask for fewer"), "{error}");
    let short = TaskSettings { options: given(&[("test_length", 50)]), ..all };
    let error = load_split(&short, "long").expect_err("no such lengths").message;
    assert!(error.contains("`long` needs a `test_length` above 50"), "{error}");
}

/// As in the published generators: operands are uniform from 1 on. Of two bits three of four numbers are left, each as often.
#[test]
fn operands_that_are_drawn_are_above_zero() {
    const NONE: u32 = u32::MAX;
    for (name, sign, blank) in [("binary_addition", 2, 3), ("binary_multiplication", 2, 3), ("compute_sqrt", NONE, 2)] {
        let (task, settings) = (formal(name), options(formal(name), &[]));
        let mut single = [0; 4];
        for n in 0..4000 {
            let length = task.shortest + n as usize % 6;
            let draw = StringDraw { length, longest: None, index: n, options: &settings };
            let tokens = (task.draw)(&draw, &mut Key::new(3).at(n).draws());
            let input = tokens.iter().position(|token| *token == blank).expect("blanks for the answer");
            for operand in tokens[..input].split(|token| *token == sign) {
                assert!(operand.contains(&1), "{name}: {tokens:?}");
                if let [a, b] = operand {
                    single[(2 * a + b) as usize] += 1;
                }
            }
        }
        let (least, most) = (single[1..].iter().min(), single[1..].iter().max());
        assert!(single[0] == 0 && *least.expect("three") * 4 > *most.expect("three") * 3, "{name}: {single:?}");
    }
}

#[test]
fn answers_of_a_file_are_worked_out_and_broken_rows_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rows.txt");
    let task = formal("binary_addition");
    let options = options(task, &[]);
    fs::write(&path, "1 + 1 _ _ _ _\n0 1 + 1 _ _ _ _ _\n").expect("written");
    let found = task.read(&path, &options).expect("readable");
    assert_eq!(found.len(), 2);
    for (broken, line) in
        [("1 + 1 _ _\n", 1), ("1 + 1 _ _ _ _\n1 + + 1 _ _ _ _ _\n", 2), ("1 + 1 _ _ _ _\n\n", 2), ("x\n", 1)]
    {
        fs::write(&path, broken).expect("written");
        assert_eq!(task.read(&path, &options).expect_err(broken).line, Some(line), "{broken}");
    }
    for task in all() {
        let options = resolve_options(task.options, &BTreeMap::new()).expect("defaults");
        let ids = (task.vocabulary)(&options).len() as u32;
        for tokens in [vec![], vec![0], vec![ids - 1], vec![ids], vec![u32::MAX], (0..ids).collect(), vec![3; 40]] {
            // What is no string of the task is refused in words.
            let _: Result<Example, String> = (task.example)(&options, &tokens);
        }
    }
}

#[test]
fn the_characters_of_a_text_are_cut_into_windows() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text: String = (0..4_000).map(|n| char::from(b'a' + (n * 7 % 26) as u8)).collect();
    fs::write(folder.path().join("input.txt"), &text).expect("written");
    let settings = |data: bool| TaskSettings {
        name: "characters".into(),
        options: given(&[("length", 10)]),
        sizes: ["dev", "1x", "8x"].map(|split| (split.to_string(), 12)).into(),
        data: data.then(|| rtc_task::DataSource::Folder(folder.path().display().to_string())),
        seed: 0,
        ..TaskSettings::default()
    };
    let splits = ["train", "dev", "1x", "8x"];
    let data = load(&settings(true), &splits).expect("readable");
    assert_eq!(data.generated, Vec::<String>::new());
    assert_eq!(data.split("train").len(), 359);
    let (task, none) = (task_named("characters").expect("it exists"), Options::default());
    assert_eq!(task.encode("a b\n⏎é", &none), Ok(vec![65, 0, 66, 95, 95, 96]));
    assert_eq!(task.decode(&[65, 0, 66, 95, 96], &none), "a b⏎�");
    for (split, length, scored) in [("train", 10, 10), ("dev", 10, 10), ("1x", 10, 1), ("8x", 80, 1)] {
        for example in data.split(split) {
            let ExampleTarget::Each { class, weight } = &example.label else { panic!("one per token") };
            assert_eq!((example.tokens.len(), &class[..length - 1]), (length, &example.tokens[1..]), "{split}");
            assert_eq!(weight.iter().filter(|weight| **weight == 1.0).count(), scored, "{split}");
            assert_eq!(weight[length - 1], 1.0, "{split}");
        }
    }
    assert!(load(&settings(false), &splits).expect("generated").split("train").len() > 1_000);
    let mut long = settings(true);
    long.options = given(&[("length", 100)]);
    let error = load(&long, &splits).expect_err("too short").message;
    assert!(error.contains("windows of 800 characters"), "{error}");
}

/// Always answering the most frequent class is no better than guessing where classes are balanced.
#[test]
fn the_majority_of_a_balanced_language_is_a_half() {
    let settings = TaskSettings {
        name: "tomita".into(),
        options: given(&[("language", 5)]),
        sizes: BTreeMap::from([("52-100".into(), 49 * 20)]),
        seed: 0,
        ..TaskSettings::default()
    };
    let found = load_split(&settings, "52-100").expect("generated");
    // 24 odd lengths have only strings outside, 25 even ones have half of them: the published floor of 74.5 %.
    assert!((majority_share(&found) - 36.5 / 49.0).abs() < 1e-12);
}
