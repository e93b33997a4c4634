//! Sudoku: every row, column and box of a square has every digit once; the model fills in the empty cells.
//!
//! A puzzle is made of a filled square by emptying cells in a random order, each where the puzzle can still be solved by its
//! candidates alone: by filling, again and again, the cells that have one digit left. Such a puzzle has one solution, and the number
//! of its rounds says how many steps the solution takes.

use std::path::Path;

use super::load::lines;
use super::metric::whole;
use super::pool::{Share, fill, place, within};
use super::{
    About, Example, Metric, Objective, OptionField, Options, Request, Split, Target, Task, option, split, splits,
};
use crate::error::DataError;
use crate::rng::{Draws, Key};

/// The sizes of a puzzle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows of a box.
    rows: usize,
    /// Columns of a box.
    columns: usize,
}

impl Shape {
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

    /// The solution of a puzzle by its candidates alone, and its rounds: each fills all cells that have one digit left.
    ///
    /// # Errors
    /// A puzzle that can't be solved so.
    pub fn solve(self, puzzle: &[u32]) -> Result<(Vec<u32>, u32), String> {
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
                return Err("no empty cell has one digit left".to_owned());
            }
            rounds += 1;
        }
        let meet = |a: usize, b: usize| self.groups(a).iter().any(|group| self.groups(b).contains(group));
        let clash = |at: &usize| (0..*at).any(|other| cells[other] == cells[*at] && meet(*at, other));
        let all = (2 << self.side()) - 2;
        if self.taken(&cells).iter().all(|digits| *digits == all) {
            return Ok((cells, rounds));
        }
        let at = (0..cells.len()).find(clash).unwrap_or_default();
        Err(format!("the digit {} of cell {} occurs twice", cells[at], at + 1))
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
            if left > 0 && self.solve(&puzzle).is_ok() {
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
    /// A puzzle of another size, with a digit that is too large, or that its candidates do not solve.
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
            tokens: puzzle.to_vec(),
            second: None,
            label: Target::Each {
                class: solution.iter().map(|digit| digit - 1).collect(),
                weight: puzzle.iter().map(|cell| f32::from(u8::from(empty(cell)))).collect(),
            },
            depth: Some(rounds.max(1)),
            size: Some(puzzle.iter().filter(|cell| empty(cell)).count() as u32),
            given: vec![],
        })
    }
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
const TABLE: [(Split, Share); 3] = [
    (split("train", "puzzles", 20_000, &["train.txt"]), (0.0, 0.7)),
    (split("dev", "the same of other squares, for early stopping", 1_000, &["dev.txt"]), (0.7, 0.8)),
    (split("test", "the same of other squares", 2_000, &["test.txt"]), (0.8, 1.0)),
];

const SPLITS: [Split; TABLE.len()] = splits(&TABLE);

#[rustfmt::skip]
const OPTIONS: [OptionField; 4] = [
    option("rows", 2, 2, 3, "rows of a box"),
    option("columns", 3, 2, 3, "columns of a box; the digits go up to `rows` times `columns`"),
    option("least", 8, 1, 81, "least number of empty cells that is asked for"),
    option("most", 20, 1, 81, "most empty cells; a puzzle has fewer where no further cell can be emptied"),
];

const METRICS: &[Metric] = &[Metric {
    name: "exact",
    doc: "share of the puzzles without a wrong cell; `accuracy` is that of the empty cells",
    count: whole,
}];

/// So often a puzzle is drawn anew before its square lies in its share; one draw in ten does at least.
const ATTEMPTS: u64 = 1_000;
/// So many candidates in a row without a new puzzle mean that there are no more.
const PATIENCE: u64 = 2_000;

fn shape(options: &Options) -> Shape {
    Shape::of(options.get("rows") as usize, options.get("columns") as usize)
}

impl Task for Sudoku {
    fn about(&self) -> About {
        About {
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
        std::iter::once(".".to_owned()).chain(self.classes(options)).collect()
    }

    fn classes(&self, options: &Options) -> Vec<String> {
        (1..=shape(options).side()).map(|digit| digit.to_string()).collect()
    }

    fn generate(&self, request: &Request<'_>) -> Result<Vec<Example>, DataError> {
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
            shape.example(&(0..ATTEMPTS).find_map(puzzle)?).ok()
        };
        fill(request, PATIENCE, candidate).map_err(fail)
    }

    fn read(&self, path: &Path, options: &Options) -> Result<Vec<Example>, DataError> {
        lines(path, |_, text| parse(text).and_then(|puzzle| shape(options).example(&puzzle)).map(Some))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Shape = Shape::of(2, 2);

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

    #[test]
    fn what_is_no_puzzle_is_refused() {
        for (text, message) in [
            ("12", "has 16 cells"),
            ("5...............", "go up to 4"),
            ("................", "no empty cell has one digit left"),
            ("1123341221434321", "occurs twice"),
            ("123....4........", "no digit left"),
        ] {
            let error = SMALL.example(&parse(text).expect("cells")).expect_err(message);
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(parse("1x").is_err());
    }
}
