//! The arena: blocks never overlap, begin at a cache line, and serve any other shape once they are given back.

use rtc_base::rng::Key;
use rtc_exec::arena::ALIGN;
use rtc_exec::arena::Arena;
use rtc_exec::storage::List;

#[test]
fn blocks_are_aligned_and_hold_what_was_written() {
    let arena = Arena::default();
    let mut draws = Key::new(3).draws();
    let mut held: Vec<(u32, List<u32>)> = vec![];
    let (rounds, large) = if cfg!(miri) { (300, 2_000) } else { (20_000, 100_000) };
    for n in 0..rounds {
        if held.len() < 100 && draws.below(2) == 0 {
            let most = if draws.below(4) == 0 { large } else { 200 };
            let block = arena.filled(draws.below(most) as usize, n);
            assert!(block.is_empty() || block.as_ptr().addr().is_multiple_of(ALIGN));
            held.push((n, block));
        } else if !held.is_empty() {
            let (n, block) = held.swap_remove(draws.below(held.len() as u64) as usize);
            assert!(block.iter().all(|x| *x == n), "block {n} was written by another");
        }
    }
    assert_eq!(arena.usage().chunks, 1);
}

/// A hundred blocks of one size, freed in any order, leave room for a single one as large as all of them.
#[test]
fn free_neighbours_become_one() {
    let arena = Arena::default();
    let mut blocks: Vec<_> = (0..100).map(|_| arena.take::<f32>(10_000)).collect();
    let full = arena.usage();
    Key::new(1).draws().shuffle(&mut blocks);
    drop(blocks);
    let whole = arena.take::<f32>(990_000);
    assert_eq!(arena.usage(), full);
    drop(whole);
}

#[test]
fn the_last_handle_drops_the_value() {
    let arena = Arena::default();
    let outside = std::rc::Rc::new(());
    let first = arena.share(outside.clone());
    let second = first.clone();
    let first = first.try_unwrap().expect_err("there are two handles");
    drop(first);
    assert_eq!(std::rc::Rc::strong_count(&outside), 2);
    drop(second.try_unwrap().expect("this is the only handle"));
    assert_eq!(std::rc::Rc::strong_count(&outside), 1);
}
