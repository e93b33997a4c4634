//! Sudoku: puzzles with one solution, splits that share no square, and broken rows.

use std::collections::BTreeSet;
use std::fs;

use rtc_task::TaskSettings;
use rtc_task::sudoku::{PuzzleShape, parse};
use rtc_task::{Example, ExampleTarget, OptionValue, Task, load, load_split, resolve_options, task_named};

const SPLITS: [&str; 3] = ["train", "dev", "test"];

fn task() -> &'static dyn Task {
    task_named("sudoku").expect("it exists")
}

fn settings(options: &[(&str, u64)], size: usize) -> TaskSettings {
    TaskSettings {
        name: "sudoku".into(),
        options: options.iter().map(|(name, value)| (name.to_string(), OptionValue::Integer(*value))).collect(),
        sizes: SPLITS.iter().map(|name| (name.to_string(), size)).collect(),
        seed: 5,
        ..TaskSettings::default()
    }
}

/// The filled square of an example.
fn square(example: &Example) -> Vec<u32> {
    let ExampleTarget::Each { class, .. } = &example.label else { panic!("one class per token") };
    class.iter().map(|class| class + 1).collect()
}

/// How many ways there are to fill a puzzle, counted up to two, by trying every digit in every empty cell.
fn ways(cells: &mut [u32], rows: usize, columns: usize) -> usize {
    let side = rows * columns;
    let Some(at) = cells.iter().position(|digit| *digit == 0) else { return 1 };
    let (row, column) = (at / side, at % side);
    let mut found = 0;
    for digit in 1..=side as u32 {
        let taken = (0..cells.len()).any(|other| {
            let (r, c) = (other / side, other % side);
            let same_box = r / rows == row / rows && c / columns == column / columns;
            cells[other] == digit && (r == row || c == column || same_box)
        });
        if !taken && found < 2 {
            cells[at] = digit;
            found += ways(cells, rows, columns);
        }
    }
    cells[at] = 0;
    found
}

#[test]
fn puzzles_have_one_solution_and_as_many_empty_cells_as_asked() {
    for (rows, columns, least, most) in [(2, 2, 4, 8), (2, 3, 8, 14), (3, 2, 8, 14)] {
        let options = [("rows", rows), ("columns", columns), ("least", least), ("most", most)];
        let data = load(&settings(&options, 40), &SPLITS).expect("generated");
        let side = (rows * columns) as usize;
        let mut sizes = BTreeSet::new();
        for example in SPLITS.iter().flat_map(|split| data.split(split)) {
            let empty = example.tokens.iter().filter(|digit| **digit == 0).count() as u32;
            assert_eq!(example.size, Some(empty));
            assert!((1..=most as u32).contains(&empty));
            sizes.insert(empty);
            let scored: Vec<bool> = example.asked().iter().map(|(_, weight)| *weight > 0.0).collect();
            assert_eq!(scored, example.tokens.iter().map(|digit| *digit == 0).collect::<Vec<_>>());
            let filled = square(example);
            assert!(example.tokens.iter().zip(&filled).all(|(given, digit)| *given == 0 || given == digit));
            assert_eq!(ways(&mut example.tokens.clone(), rows as usize, columns as usize), 1);
            assert_eq!(ways(&mut filled.clone(), rows as usize, columns as usize), 1, "no digit is missing");
        }
        assert!(sizes.len() as u64 >= (most - least) / 2, "{sizes:?}");
        assert_eq!((data.vocabulary, data.classes), (side + 1, side));
    }
}

#[test]
fn a_full_square_has_every_digit_in_every_row() {
    let shape = PuzzleShape::of(2, 2);
    assert_eq!(shape.side(), 4);
    // Every row has four digits, but the columns do not.
    let wrong = parse("1234 1234 1234 1234").expect("cells");
    assert!(shape.solve(&wrong).expect_err("columns").contains("occurs twice"));
}

/// Whatever the seed, no square of a test is one of a training, though there are only 288 of this size.
#[test]
fn splits_share_no_square() {
    let options = [("columns", 2), ("least", 4), ("most", 8)];
    let squares = |split: &str, seed| {
        let mut settings = settings(&options, 300);
        settings.seed = seed;
        load_split(&settings, split).expect("generated").iter().map(square).collect::<BTreeSet<_>>()
    };
    let test = squares("test", 5);
    for seed in 0..3 {
        assert!(test.is_disjoint(&squares("train", seed)) && test.is_disjoint(&squares("dev", seed)));
        assert!(squares("dev", seed).is_disjoint(&squares("train", seed + 1)));
    }
}

#[test]
fn generation_is_a_function_of_the_seed_and_a_smaller_split_is_a_prefix() {
    for split in SPLITS {
        let large = load_split(&settings(&[], 30), split).expect("generated");
        let small = load_split(&settings(&[], 10), split).expect("generated");
        assert_eq!(large[..10], small[..], "{split}");
        let mut other = settings(&[], 10);
        other.seed = 6;
        assert_ne!(load_split(&other, split).expect("generated"), small);
    }
    let error = load_split(&settings(&[("least", 9), ("most", 8)], 1), "train").expect_err("no such number");
    assert!(error.message.contains("`least` is 9"), "{error}");
}

#[test]
fn the_depth_is_the_number_of_rounds() {
    // The third cell of the second row has two digits left until the others are filled.
    let puzzle = parse("123. 34.. 2143 43.1").expect("cells");
    let example = PuzzleShape::of(2, 2).example(&puzzle).expect("a puzzle");
    assert_eq!(square(&example), parse("1234 3412 2143 4321").expect("cells"));
    assert_eq!((example.size, example.depth), (Some(4), Some(2)));
    let metric = task().about().metrics[0];
    assert_eq!(metric.name, "exact");
    let mut answer: Vec<u32> = square(&example).iter().map(|digit| digit - 1).collect();
    assert_eq!((metric.count)(&example, &answer).share(), Some(1.0));
    answer[3] = 0;
    assert_eq!((metric.count)(&example, &answer).share(), Some(0.0));
}

#[test]
fn files_are_read_and_broken_rows_are_placed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("test.txt");
    let small = [("columns".to_owned(), OptionValue::Integer(2))].into_iter().collect();
    let options = resolve_options(task().about().options, &small).expect("an option");
    let read = |text: &str| {
        fs::write(&path, text).expect("writable");
        task().read(&path, &options)
    };
    let examples = read("123.3412214.432.\n1230 3412 2140 4320\n").expect("with points and zeros");
    assert_eq!(examples[0], examples[1]);
    for (text, message) in [
        ("123.3412214.432.\n12\n", "has 16 cells"),
        ("123.3412214.432.\n123.3412214.43x.\n", "`x` is no digit"),
        ("123.3412214.432.\n................\n", "it has several solutions"),
    ] {
        let error = read(text).expect_err(message);
        assert_eq!(error.line, Some(2), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
    assert_eq!(task().encode("1 . 3", &options), Ok(vec![1, 0, 3]));
    assert!(!task().next_token(&options), "an answer may depend on all cells");
}
