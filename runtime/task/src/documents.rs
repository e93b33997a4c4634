//! Documents in the rows of a text: what the value `document` is at every token.

use rtc_base::batch::Given;

/// The name under which models take it, as `document = given(positions(state))`.
pub const DOCUMENT: &str = "document";

/// Returns the value of a row from its token `from` on: the number of the document of every token, counted from 0 in the row. The token
/// `end`, which ends a document, belongs to it.
pub fn documents(tokens: &[u32], end: u32, from: usize) -> Given {
    let mut number = 0.0;
    let numbers = tokens.iter().map(|token| {
        let own = number;
        number += if *token == end { 1.0 } else { 0.0 };
        own
    });
    Given { name: DOCUMENT.into(), numbers: numbers.skip(from).collect() }
}

#[cfg(test)]
mod tests {
    use super::documents;

    #[test]
    fn an_end_belongs_to_what_it_ends() {
        let tokens = [5, 1, 1, 6, 7, 1, 8];
        assert_eq!(documents(&tokens, 1, 0).numbers, [0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0]);
        assert_eq!(documents(&tokens, 1, 5).numbers, [2.0, 3.0]);
        assert_eq!(documents(&tokens, 9, 0).numbers, [0.0; 7]);
    }
}
