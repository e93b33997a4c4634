//! How many cells a device has memory for at the same time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use rtc_session::device::Card;
use rtc_session::failure::SessionFailure;
use rtc_session::job::{Data, Pace};
use rtc_session::memory::bytes;
use rtc_session::text::{count, number};

use super::{CellIndex, Grid};
use crate::terminal::Terminal;

/// What cells take of the memory of a device.
#[derive(Clone, Debug)]
struct Packing<'a> {
    card: &'a Card,
    /// What the smallest and the largest cell take.
    needs: [u64; 2],
}

impl Grid {
    /// How many of some cells are trained at a time, at most as many as asked; what the memory of a device decides is said.
    pub(crate) fn jobs(
        &self,
        most: usize,
        card: Option<&Card>,
        (places, data): (&[CellIndex], &[Option<Arc<Data>>]),
        pace: Pace,
        terminal: &Terminal,
    ) -> Result<usize, SessionFailure> {
        let Some(card) = card else { return Ok(most) };
        let Some(packing) = self.packing(card, places, data, pace)? else { return Ok(most) };
        terminal.message(&packing.sentence());
        Ok(packing.jobs(most))
    }

    /// How some cells share the memory of a device; nothing where none can be planned. Where one takes more than the whole device has,
    /// all are refused.
    fn packing<'a>(
        &self,
        card: &'a Card,
        places: &[CellIndex],
        data: &[Option<Arc<Data>>],
        pace: Pace,
    ) -> Result<Option<Packing<'a>>, SessionFailure> {
        let (mut needs, mut refused) = (BTreeMap::new(), vec![]);
        for place in places {
            let Some(data) = &data[place.model] else { continue };
            let (path, job) = (self.path(*place), self.job(*place, pace.memory));
            // What else is wrong with a cell is told in its turn, and the others go on.
            let Ok(limit) = job.limit(path, pace) else { continue };
            // What a cell takes is no matter of its seed, but of the limit with which it was begun.
            let Entry::Vacant(need) = needs.entry((place.model, limit)) else { continue };
            match job.fit(path, data, pace, Some(card)) {
                Ok(fitted) => {
                    need.insert(fitted.need.total());
                }
                Err(SessionFailure::Memory(reason)) => {
                    refused.push(format!("\n  {}: {reason}", self.label(*place)));
                    need.insert(0);
                }
                Err(_) => {}
            }
        }
        if !refused.is_empty() {
            let cells = count(refused.len(), "cell");
            return Err(SessionFailure::Memory(format!("nothing is trained, {cells} can't be:{}", refused.concat())));
        }
        let ends = needs.values().min().zip(needs.values().max());
        Ok(ends.map(|(least, most)| Packing { card, needs: [*least, *most] }))
    }
}

impl Packing<'_> {
    /// How many cells are trained at a time where so many may be: the smallest ones, if memory is short.
    fn jobs(&self, most: usize) -> usize {
        most.min(at_once(self.card.capacity.free, self.needs[0]))
    }

    /// What was found, and what follows from it.
    fn sentence(&self) -> String {
        let Self { card, needs: [least, most] } = self;
        let free = card.capacity.free;
        let room = |need| number(at_once(free, need) as f64);
        let cells = match least == most {
            true => format!("a cell takes up to {}, room for {}", bytes(*most), room(*most)),
            false => {
                let [least_bytes, most_bytes] = [least, most].map(|need| bytes(*need));
                format!(
                    "cells take up to {most_bytes}, the smallest {least_bytes}, room for {} to {}",
                    room(*most),
                    room(*least)
                )
            }
        };
        let alone = if *most > free { "; one that takes more than is free is trained alone" } else { "" };
        format!("{}: {} of {} are free, {cells}{alone}", card.name, bytes(free), bytes(card.capacity.total))
    }
}

/// How many cells that take so many bytes have room at a time; one that is alone is always tried.
fn at_once(free: u64, need: u64) -> usize {
    usize::try_from(free / need.max(1)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use rtc_cuda::device::Capacity;
    use rtc_kernel::Precision;

    use super::*;

    #[test]
    fn cells_are_as_many_as_memory_and_the_user_allow() {
        let capacity = Capacity { free: 10 << 20, total: 16 << 20 };
        let card = Card { name: "a card".to_owned(), capacity, precision: Precision::F32 };
        let jobs = |needs| [1, 3, 8].map(|most| Packing { card: &card, needs }.jobs(most));
        assert_eq!(jobs([3 << 20, 3 << 20]), [1, 3, 3]);
        assert_eq!(jobs([5 << 20, 10 << 20]), [1, 2, 2]);
        // More than is free is not more than there is.
        assert_eq!(jobs([12 << 20, 12 << 20]), [1, 1, 1]);
        assert_eq!(at_once(u64::MAX, 0), usize::MAX);
    }

    #[test]
    fn the_choice_says_what_it_rests_on() {
        let capacity = Capacity { free: 10 << 20, total: 16 << 20 };
        let card = Card { name: "a card".to_owned(), capacity, precision: Precision::F32 };
        let sentence = |needs| Packing { card: &card, needs }.sentence();
        let alike = "a card: 10.0 MiB of 16.0 MiB are free, a cell takes up to 3.0 MiB, room for 3";
        assert_eq!(sentence([3 << 20, 3 << 20]), alike);
        let others = "a card: 10.0 MiB of 16.0 MiB are free, cells take up to 12.0 MiB, the smallest 2.0 MiB, room for 1 to 5; \
                      one that takes more than is free is trained alone";
        assert_eq!(sentence([2 << 20, 12 << 20]), others);
    }
}
