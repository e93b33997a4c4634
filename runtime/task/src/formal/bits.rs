//! Arithmetic on numbers of any size as lists of bits, least significant first.

/// The bits without zeros at the end that add nothing; the number 0 keeps one.
pub(super) fn trimmed(mut bits: Vec<u32>) -> Vec<u32> {
    let used = bits.iter().rposition(|bit| *bit == 1).map_or(1, |last| last + 1);
    bits.resize(used, 0);
    bits
}

/// The sum of two numbers, one bit longer than the longer of them.
pub(super) fn add(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut carry = 0;
    let digit = |at| {
        let sum = a.get(at).unwrap_or(&0) + b.get(at).unwrap_or(&0) + carry;
        carry = sum / 2;
        sum % 2
    };
    (0..=a.len().max(b.len())).map(digit).collect()
}

/// The product of two numbers, as long as both together.
pub(super) fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut columns = vec![0_u64; a.len() + b.len()];
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x == 1) {
        for (j, y) in b.iter().enumerate() {
            columns[i + j] += u64::from(x * y);
        }
    }
    let mut carry = 0;
    let digit = |column: &u64| {
        let sum = column + carry;
        carry = sum / 2;
        (sum % 2) as u32
    };
    columns.iter().map(digit).collect()
}

/// The root of a number, rounded down, in half as many bits (rounded up): digit by digit, as on paper.
pub(super) fn root(bits: &[u32]) -> Vec<u32> {
    let half = bits.len().div_ceil(2);
    let (mut rest, mut root) = (vec![0], vec![]);
    for pair in (0..half).rev() {
        rest.splice(0..0, [bits[2 * pair], *bits.get(2 * pair + 1).unwrap_or(&0)]);
        let trial: Vec<u32> = [&[1, 0], &root[..]].concat();
        let fits = subtract(&mut rest, &trial);
        root.insert(0, u32::from(fits));
    }
    root
}

/// Takes `b` away from `a` if it is not larger, and says whether it did.
fn subtract(a: &mut [u32], b: &[u32]) -> bool {
    let at = |list: &[u32], n: usize| list.get(n).copied().unwrap_or(0);
    let longest = a.len().max(b.len());
    let differs = (0..longest).rev().find(|n| at(a, *n) != at(b, *n));
    if differs.is_some_and(|n| at(a, n) < at(b, n)) {
        return false;
    }
    let mut borrow = 0;
    for (n, digit) in a.iter_mut().enumerate() {
        let take = at(b, n) + borrow;
        borrow = u32::from(*digit < take);
        *digit = (*digit + 2 * borrow) - take;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(number: u64, length: usize) -> Vec<u32> {
        (0..length).map(|n| (number >> n & 1) as u32).collect()
    }

    #[test]
    fn small_numbers_agree_with_the_machine() {
        for a in 0..64 {
            assert_eq!(root(&bits(a, 6)), bits(a.isqrt(), 3));
            assert_eq!(root(&bits(a, 7)), bits(a.isqrt(), 4));
            for b in 0..32 {
                assert_eq!(add(&bits(a, 6), &bits(b, 5)), bits(a + b, 7));
                assert_eq!(multiply(&bits(a, 6), &bits(b, 5)), bits(a * b, 11));
            }
        }
        assert_eq!(trimmed(bits(6, 9)), [0, 1, 1]);
        assert_eq!(trimmed(bits(0, 4)), [0]);
    }
}
