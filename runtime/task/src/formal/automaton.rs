//! The automata of the regular tasks: what a part of a string does to each of their states.

use super::Formal;
use super::accept::{DYCK, TOMITA};
use super::regular::{CYCLE_NAVIGATION, EVEN_PAIRS, PARITY_CHECK};
use crate::Options;

/// A finite automaton that begins in state 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Automaton {
    /// For every state the state behind each token.
    pub steps: Vec<Vec<u32>>,
    /// The class that each state answers.
    pub classes: Vec<u32>,
}

impl Automaton {
    /// The automaton of a task; nothing if the answer needs infinitely many states, or if no automaton is defined.
    pub fn of(task: &Formal, options: &Options) -> Option<Self> {
        Some(match task.name {
            name if name == EVEN_PAIRS.name => Self::table(&[[1, 2], [1, 3], [4, 2], [1, 3], [4, 2]], &[0, 0, 0, 1, 1]),
            name if name == PARITY_CHECK.name => Self::table(&[[0, 1], [1, 0]], &[0, 1]),
            // Token 0 is a step back.
            name if name == CYCLE_NAVIGATION.name => {
                Self::table(&[[4, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]], &[0, 1, 2, 3, 4])
            }
            name if name == TOMITA.name => tomita(options.get("language"))?,
            name if name == DYCK.name => brackets(options.get("depth")),
            _ => return None,
        })
    }

    /// The automaton of these steps and classes.
    fn table<const TOKENS: usize>(steps: &[[u32; TOKENS]], classes: &[u32]) -> Self {
        Self { steps: steps.iter().map(|step| step.to_vec()).collect(), classes: classes.to_vec() }
    }

    /// The state behind some tokens, for each state before them.
    pub fn across(&self, tokens: &[u32]) -> Vec<u32> {
        let step = |state: u32, token: &u32| self.steps[state as usize].get(*token as usize).copied().unwrap_or(state);
        (0..self.steps.len() as u32).map(|state| tokens.iter().fold(state, step)).collect()
    }
}

/// Tomita's languages 1 to 7; class 1 is inside.
#[rustfmt::skip]
fn tomita(language: u64) -> Option<Automaton> {
    Some(match language {
        1 => Automaton::table(&[[0, 1], [1, 1]], &[1, 0]),
        2 => Automaton::table(&[[2, 1], [0, 2], [2, 2]], &[1, 0, 0]),
        3 => Automaton::table(&[[0, 1], [3, 0], [3, 1], [2, 4], [4, 4]], &[1, 1, 1, 0, 0]),
        4 => Automaton::table(&[[1, 0], [2, 0], [3, 0], [3, 3]], &[1, 1, 1, 0]),
        // Zeros modulo 2, and two times ones modulo 2.
        5 => Automaton::table(&[[1, 2], [0, 3], [3, 0], [2, 1]], &[1, 0, 0, 0]),
        6 => Automaton::table(&[[1, 2], [2, 0], [0, 1]], &[1, 0, 0]),
        7 => Automaton::table(&[[0, 1], [2, 1], [2, 3], [4, 3], [4, 4]], &[1, 1, 1, 1, 0]),
        _ => return None,
    })
}

/// How many brackets are open, and behind all of them one state for what no bracket mends.
fn brackets(depth: u64) -> Automaton {
    let (depth, lost) = (depth as u32, depth as u32 + 1);
    let open = |open: u32| vec![open + 1, open.checked_sub(1).unwrap_or(lost)];
    let steps = (0..=depth).map(open).chain([vec![lost, lost]]).collect();
    Automaton { steps, classes: (0..=lost).map(|state| u32::from(state == 0)).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{ExampleTarget, OptionValue, Task, resolve_options};

    /// All strings up to a length.
    fn strings(tokens: usize, longest: usize) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = vec![vec![]];
        let mut from = 0;
        for _ in 0..longest {
            let (start, end) = (from, all.len());
            from = end;
            for n in start..end {
                for token in 0..tokens as u32 {
                    let longer = [all[n].as_slice(), &[token]].concat();
                    all.push(longer);
                }
            }
        }
        all.split_off(1)
    }

    #[track_caller]
    fn agrees(task: &Formal, options: &[(&str, u64)]) {
        let given: BTreeMap<String, OptionValue> =
            options.iter().map(|(name, value)| ((*name).to_owned(), OptionValue::Integer(*value))).collect();
        let options = resolve_options(task.about().options, &given).expect("these are its options");
        let automaton = Automaton::of(task, &options).expect("it has an automaton");
        let tokens = (task.vocabulary)(&options).len();
        for string in strings(tokens, if tokens == 2 { 10 } else { 7 }) {
            let label = (task.example)(&options, &string).expect("every string has an answer").label;
            let state = automaton.across(&string)[0];
            assert_eq!(
                label,
                ExampleTarget::Class(automaton.classes[state as usize]),
                "{} {options:?} {string:?}",
                task.name
            );
        }
    }

    #[test]
    fn automata_answer_as_their_tasks() {
        for task in [&EVEN_PAIRS, &PARITY_CHECK, &CYCLE_NAVIGATION] {
            agrees(task, &[]);
        }
        for language in 1..=7 {
            agrees(&TOMITA, &[("language", language)]);
        }
        for depth in 1..=4 {
            agrees(&DYCK, &[("depth", depth)]);
        }
    }

    #[test]
    fn a_part_of_a_string_maps_every_state() {
        let options = resolve_options(PARITY_CHECK.about().options, &BTreeMap::new()).expect("there are defaults");
        let parity = Automaton::of(&PARITY_CHECK, &options).expect("it has an automaton");
        assert_eq!(parity.across(&[1, 0, 1]), [0, 1]);
        assert_eq!(parity.across(&[1, 0]), [1, 0]);
        assert_eq!(parity.across(&[]), [0, 1], "nothing changes nothing");
    }
}
