//! Sudoku: every row, column and box of a square has every digit once; the model fills in the empty cells.
//!
//! A puzzle is made of a filled square by emptying cells in a random order, each where the puzzle can still be solved by its
//! candidates alone: by filling, again and again, the cells that have one digit left. Such a puzzle has one solution, and the number
//! of its rounds says how many steps the solution takes.

use std::path::Path;

use super::metric::whole;
use super::{
    Example, ExampleTarget, GenerationRequest, Metric, Objective, OptionField, Options, Split, Task, TaskDescription,
    option, split, splits,
};
use crate::error::DataError;
use crate::fingerprint::place;
use crate::held::lines;
use crate::pool::{ExampleShare, fill, within};
use rtc_base::rng::{Draws, Key};

/// The sizes of a puzzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PuzzleShape {
    /// Rows of a box.
    rows: usize,
    /// Columns of a box.
    columns: usize,
}

impl PuzzleShape {
    /// Puzzles whose boxes have so many rows and columns.
    pub const fn of(rows: usize, columns: usize) -> Self {
        Self { rows, columns }
    }

    /// Cells of a row, of a column and of a box.
    pub const fn side(self) -> usize {
        self.rows * self.columns
    }

    /// The row, the column and the box of a cell, counted together.
    const fn groups(self, at: usize) -> [usize; 3] {
        let (side, row, column) = (self.side(), at / self.side(), at % self.side());
        [row, side + column, 2 * side + row / self.rows * self.rows + column / self.columns]
    }

    /// The digits that every row, column and box has, as bits.
    fn taken(self, cells: &[u32]) -> Vec<u32> {
        let mut taken = vec![0; 3 * self.side()];
        for (at, digit) in cells.iter().enumerate() {
            self.groups(at).into_iter().for_each(|group| taken[group] |= 1 << digit);
        }
        taken
    }

    /// The digits that an empty cell may have.
    fn candidates(self, taken: &[u32], at: usize) -> impl Iterator<Item = u32> + use<> {
        let here = self.groups(at).into_iter().fold(0, |here, group| here | taken[group]);
        (1..=self.side() as u32).filter(move |digit| here >> digit & 1 == 0)
    }

    /// The only solution of a puzzle, and its rounds: each fills all cells that have one digit left, or tries the digits of a cell
    /// where none has.
    ///
    /// # Errors
    /// A puzzle without a solution, with several, or whose search takes too long.
    pub fn solve(self, puzzle: &[u32]) -> Result<(Vec<u32>, u32), String> {
        if let Some(solved) = self.by_candidates(puzzle)? {
            return Ok(solved);
        }
        let mut search = PuzzleSearch { shape: self, found: vec![], left: TRIED };
        search.below(puzzle.to_vec(), 0)?;
        match (search.found.pop(), search.found.pop()) {
            (Some(solved), None) => Ok(solved),
            (None, _) => Err("it has no solution".to_owned()),
            (Some(_), Some(_)) => Err("it has several solutions: give more of its digits".to_owned()),
        }
    }

    /// The solution by candidates alone; nothing of a puzzle that needs a search.
    fn by_candidates(self, puzzle: &[u32]) -> Result<Option<(Vec<u32>, u32)>, String> {
        let (mut cells, mut rounds) = (puzzle.to_vec(), 0);
        while cells.contains(&0) {
            let taken = self.taken(&cells);
            let mut filled = false;
            for (at, cell) in cells.iter_mut().enumerate().filter(|(_, cell)| **cell == 0) {
                let mut digits = self.candidates(&taken, at);
                match (digits.next(), digits.next()) {
                    (None, _) => return Err(format!("cell {} has no digit left", at + 1)),
                    (Some(digit), None) => (*cell, filled) = (digit, true),
                    _ => {}
                }
            }
            if !filled {
                return self.clash(&cells).map_or(Ok(None), Err);
            }
            rounds += 1;
        }
        self.clash(&cells).map_or(Ok(Some((cells, rounds))), Err)
    }

    /// That a digit stands twice in a row, a column or a box, if one does.
    fn clash(self, cells: &[u32]) -> Option<String> {
        let meet = |a: usize, b: usize| self.groups(a).iter().any(|group| self.groups(b).contains(group));
        let twice = |at: &usize| cells[*at] > 0 && (0..*at).any(|other| cells[other] == cells[*at] && meet(*at, other));
        let at = (0..cells.len()).find(twice)?;
        Some(format!("the digit {} of cell {} occurs twice", cells[at], at + 1))
    }

    /// Fills the empty cells with digits in a random order; false if there is no way.
    fn complete(self, cells: &mut [u32], draws: &mut Draws) -> bool {
        let taken = self.taken(cells);
        let open = (0..cells.len()).filter(|at| cells[*at] == 0);
        let Some(at) = open.min_by_key(|at| self.candidates(&taken, *at).count()) else { return true };
        let mut digits: Vec<u32> = self.candidates(&taken, at).collect();
        draws.shuffle(&mut digits);
        for digit in digits {
            cells[at] = digit;
            if self.complete(cells, draws) {
                return true;
            }
        }
        cells[at] = 0;
        false
    }

    /// A puzzle with at most so many empty cells, and its solution.
    fn draw(self, blanks: usize, draws: &mut Draws) -> (Vec<u32>, Vec<u32>) {
        let mut solution = vec![0; self.side() * self.side()];
        self.complete(&mut solution, draws);
        let mut order: Vec<usize> = (0..solution.len()).collect();
        draws.shuffle(&mut order);
        let (mut puzzle, mut left) = (solution.clone(), blanks);
        for at in order {
            let digit = std::mem::take(&mut puzzle[at]);
            if left > 0 && matches!(self.by_candidates(&puzzle), Ok(Some(_))) {
                left -= 1;
            } else {
                puzzle[at] = digit;
            }
        }
        (puzzle, solution)
    }

    /// The example of a puzzle, 0 for an empty cell: its empty cells count, their digits are the classes, from 0 on. Its size is
    /// the number of empty cells, its depth that of the rounds.
    ///
    /// # Errors
    /// A puzzle of another size, with a digit that is too large, or without exactly one solution.
    pub fn example(self, puzzle: &[u32]) -> Result<Example, String> {
        let side = self.side();
        if puzzle.len() != side * side {
            return Err(format!("a puzzle has {} cells, and this one {}", side * side, puzzle.len()));
        }
        if let Some(digit) = puzzle.iter().find(|digit| **digit as usize > side) {
            return Err(format!("the digits go up to {side}, and here is {digit}"));
        }
        let (solution, rounds) = self.solve(puzzle)?;
        let empty = |cell: &u32| *cell == 0;
        Ok(Example {
            label: ExampleTarget::Each {
                class: solution.iter().map(|digit| digit - 1).collect(),
                weight: puzzle.iter().map(|cell| f32::from(u8::from(empty(cell)))).collect(),
            },
            depth: Some(rounds.max(1)),
            size: Some(puzzle.iter().filter(|cell| empty(cell)).count() as u32),
            ..Example::classified(puzzle.to_vec(), 0)
        })
    }
}

/// The cells of which a search tries the digits, at most: far more than the hardest known puzzles of nine digits need.
const TRIED: u32 = 200_000;

/// A search for the solutions of a puzzle, which ends with the second one.
struct PuzzleSearch {
    shape: PuzzleShape,
    /// Solutions with their rounds.
    found: Vec<(Vec<u32>, u32)>,
    /// How many more cells may be tried.
    left: u32,
}

impl PuzzleSearch {
    /// The solutions of a puzzle without a digit that stands twice, after so many rounds.
    fn below(&mut self, mut cells: Vec<u32>, mut rounds: u32) -> Result<(), String> {
        loop {
            let taken = self.shape.taken(&cells);
            let open: Vec<(usize, Vec<u32>)> = (0..cells.len())
                .filter(|at| cells[*at] == 0)
                .map(|at| (at, self.shape.candidates(&taken, at).collect()))
                .collect();
            rounds += u32::from(!open.is_empty());
            let Some((at, digits)) = open.iter().min_by_key(|(_, digits)| digits.len()) else {
                self.found.push((cells, rounds));
                return Ok(());
            };
            match digits.len() {
                0 => return Ok(()),
                1 => {}
                _ => return self.branch(&cells, (*at, digits), rounds),
            }
            let single = |(at, digits): &(usize, Vec<u32>)| Some((*at, *digits.first().filter(|_| digits.len() == 1)?));
            open.iter().filter_map(single).for_each(|(at, digit)| cells[at] = digit);
            if self.shape.clash(&cells).is_some() {
                return Ok(());
            }
        }
    }

    /// Tries every digit of a cell.
    fn branch(&mut self, cells: &[u32], (at, digits): (usize, &[u32]), rounds: u32) -> Result<(), String> {
        let left = self.left.checked_sub(1);
        self.left =
            left.ok_or_else(|| format!("its solution was not found with {TRIED} tries: give more of its digits"))?;
        for digit in digits {
            let mut cells = cells.to_vec();
            cells[at] = *digit;
            self.below(cells, rounds)?;
            if self.found.len() > 1 {
                break;
            }
        }
        Ok(())
    }
}

/// The example as HRM and TRM are published with: every cell is scored, tokens and classes are padding, the empty cell and the
/// digits.
fn with_all_cells(example: Example) -> Example {
    let tokens = example.tokens.iter().map(|cell| cell + 1).collect();
    let label = match example.label {
        ExampleTarget::Each { class, weight } => ExampleTarget::Each {
            class: class.iter().map(|digit| digit + 2).collect(),
            weight: vec![1.0; weight.len()],
        },
        other => other,
    };
    Example { tokens, label, ..example }
}

/// Reads a puzzle: a character per cell, `.` or `0` where it is empty.
///
/// # Errors
/// A character that is none of these.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let cell = |symbol: char| match symbol {
        '.' => Ok(0),
        _ => symbol.to_digit(10).ok_or_else(|| format!("`{symbol}` is no digit and no empty cell")),
    };
    text.chars().filter(|symbol| !symbol.is_whitespace()).map(cell).collect()
}

/// The task.
pub struct Sudoku;

/// Every split with its share of all filled squares.
#[rustfmt::skip]
const TABLE: [(Split, ExampleShare); 3] = [
    (split("train", "puzzles", 20_000, &["train.txt"]), (0.0, 0.7)),
    (split("dev", "the same of other squares, for early stopping", 1_000, &["dev.txt"]), (0.7, 0.8)),
    (split("test", "the same of other squares", 2_000, &["test.txt"]), (0.8, 1.0)),
];

const SPLITS: [Split; TABLE.len()] = splits(&TABLE);

#[rustfmt::skip]
const OPTIONS: [OptionField; 5] = [
    option("rows", 2, 2, 3, "rows of a box"),
    option("columns", 3, 2, 3, "columns of a box; the digits go up to `rows` times `columns`"),
    option("least", 8, 1, 81, "least number of empty cells that is asked for"),
    option("most", 20, 1, 81, "most empty cells; a puzzle has fewer where no further cell can be emptied"),
    option("all_cells", 0, 0, 1, "1: every cell is scored, with 11 tokens and classes of nine digits (padding and the empty cell are two of them), as published for HRM and TRM"),
];

const METRICS: &[Metric] = &[Metric {
    name: "exact",
    doc: "share of the puzzles without a wrong cell; `accuracy` is that of the scored cells",
    count: whole,
}];

/// So often a puzzle is drawn anew before its square lies in its share; one draw in ten does at least.
const ATTEMPTS: u64 = 1_000;
/// So many candidates in a row without a new puzzle mean that there are no more.
const PATIENCE: u64 = 2_000;

/// Whether every cell is scored.
fn all_cells(options: &Options) -> bool {
    options.get("all_cells") == 1
}

/// The example of a puzzle in the form that the options ask for.
fn asked(puzzle: &[u32], options: &Options) -> Result<Example, String> {
    let example = shape(options).example(puzzle)?;
    Ok(if all_cells(options) { with_all_cells(example) } else { example })
}

fn shape(options: &Options) -> PuzzleShape {
    PuzzleShape::of(options.get("rows") as usize, options.get("columns") as usize)
}

impl Task for Sudoku {
    fn about(&self) -> TaskDescription {
        TaskDescription {
            name: "sudoku",
            doc: "the empty cells of a square whose rows, columns and boxes have every digit once",
            source: "rtc; as a task of looped models: Wang et al. 2025 (HRM), arXiv:2506.21734",
            objective: Objective::Each,
            options: &OPTIONS,
            splits: &SPLITS,
            metrics: METRICS,
        }
    }

    /// The answer of a cell may depend on all cells.
    fn next_token(&self, _options: &Options) -> bool {
        false
    }

    fn vocabulary(&self, options: &Options) -> Vec<String> {
        if all_cells(options) {
            return self.classes(options);
        }
        std::iter::once(".".to_owned()).chain(self.classes(options)).collect()
    }

    fn classes(&self, options: &Options) -> Vec<String> {
        let digits = (1..=shape(options).side()).map(|digit| digit.to_string());
        let before: &[&str] = if all_cells(options) { &["pad", "."] } else { &[] };
        before.iter().map(|name| (*name).to_owned()).chain(digits).collect()
    }

    fn generate(&self, request: &GenerationRequest<'_>) -> Result<Vec<Example>, DataError> {
        let fail = |message| DataError { file: self.name().into(), line: None, message };
        let row = self.split(request.split).map_err(fail)?;
        let (_, share) = TABLE.iter().find(|(known, _)| known.name == row.name).expect("splits are its rows");
        let shape = shape(request.options);
        let (least, most) = (request.options.get("least"), request.options.get("most"));
        if least > most {
            return Err(fail(format!("`least` is {least}, and `most` is {most}")));
        }
        let key = Key::new(request.seed).stream("sudoku").stream(row.name);
        let candidate = |index: u64| {
            let puzzle = |attempt| {
                let mut draws = key.at(index).at(attempt).draws();
                let blanks = least + draws.below(most - least + 1);
                let (puzzle, solution) = shape.draw(blanks as usize, &mut draws);
                within(*share, place(&solution)).then_some(puzzle)
            };
            asked(&(0..ATTEMPTS).find_map(puzzle)?, request.options).ok()
        };
        fill(request, PATIENCE, candidate).map_err(fail)
    }

    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        lines(path, |_, text| parse(text).and_then(|puzzle| asked(&puzzle, options)).map(Some))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: PuzzleShape = PuzzleShape::of(2, 2);

    #[test]
    fn a_puzzle_is_solved_by_hand() {
        // Three rows have one empty cell each.
        let puzzle = parse("123. 3412 214. 432.").expect("cells");
        let (solution, rounds) = SMALL.solve(&puzzle).expect("it has one solution");
        assert_eq!(solution, parse("1234 3412 2143 4321").expect("cells"));
        assert_eq!(rounds, 1);
        let example = SMALL.example(&puzzle).expect("a puzzle");
        assert_eq!((example.size, example.depth), (Some(3), Some(1)));
        let asked: Vec<u32> =
            example.asked().into_iter().filter(|(_, weight)| *weight > 0.0).map(|(class, _)| class).collect();
        assert_eq!(asked, [3, 2, 0]);
    }

    /// "AI Escargot" (Inkala 2006), one of the hardest puzzles of nine digits, and one of Sudoku-Extreme's kind with 17 digits.
    #[test]
    fn hard_puzzles_with_one_solution_are_searched() {
        for text in [
            "1....7.9..3..2...8..96..5....53..9...1..8...26....4...3......1..4......7..7...3..",
            "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..",
            "000000010400000000020000000000050407008000300001090000300400200050100000000806000",
        ] {
            let puzzle = parse(text).expect("cells");
            let nine = PuzzleShape::of(3, 3);
            let (solution, rounds) = nine.solve(&puzzle).expect("it has one solution");
            assert!(puzzle.iter().zip(&solution).all(|(given, found)| *given == 0 || given == found) && rounds > 1);
            let all = (2 << 9) - 2;
            assert!(nine.taken(&solution).iter().all(|digits| *digits == all), "{text}");
            let mut open = puzzle.clone();
            open.iter_mut().take(20).for_each(|cell| *cell = 0);
            assert!(nine.solve(&open).expect_err("several").contains("several solutions"), "{text}");
        }
    }

    #[test]
    fn every_cell_may_be_scored_as_published() {
        let puzzle = parse("123. 3412 214. 432.").expect("cells");
        let example = with_all_cells(SMALL.example(&puzzle).expect("a puzzle"));
        assert_eq!(example.tokens[..4], [2, 3, 4, 1]);
        let asked = example.asked();
        assert!(asked.len() == 16 && asked.iter().all(|(_, weight)| *weight == 1.0));
        assert_eq!(asked[..4].iter().map(|(class, _)| *class).collect::<Vec<_>>(), [2, 3, 4, 5]);
    }

    #[test]
    fn what_is_no_puzzle_is_refused() {
        for (text, message) in [
            ("12", "has 16 cells"),
            ("5...............", "go up to 4"),
            ("................", "it has several solutions"),
            ("11..............", "occurs twice"),
            ("1123341221434321", "occurs twice"),
            ("123....4........", "no digit left"),
        ] {
            let error = SMALL.example(&parse(text).expect("cells")).expect_err(message);
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(parse("1x").is_err());
    }
}
