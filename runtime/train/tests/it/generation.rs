//! How tokens are chosen, and where a text comes to a stop.

use rtc_base::rng::Key;
use rtc_train::generate::{Sampling, TextPieces, Writing};

const PLAIN: Sampling = Sampling { temperature: 1.0, top_k: None, top_p: None };

/// Shares of the tokens among many draws.
fn shares(sampling: Sampling, logits: &[f64]) -> Vec<f64> {
    const DRAWS: u64 = 40_000;
    let mut counts = vec![0.0; logits.len()];
    for n in 0..DRAWS {
        counts[sampling.choose(logits, Key::new(3).uniform(n)) as usize] += 1.0 / DRAWS as f64;
    }
    counts
}

fn softmax(logits: &[f64], temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|x| (x / temperature).exp()).collect();
    weights.iter().map(|w| w / weights.iter().sum::<f64>()).collect()
}

#[track_caller]
fn close(found: &[f64], expected: &[f64]) {
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01), "{found:?} {expected:?}");
}

#[test]
fn tokens_are_drawn_by_their_probabilities() {
    let logits = [0.3, -1.0, 2.0, 0.3];
    for temperature in [0.5, 1.0, 3.0] {
        close(&shares(Sampling { temperature, ..PLAIN }, &logits), &softmax(&logits, temperature));
    }
}

#[test]
fn without_temperature_the_first_of_the_most_probable_is_taken() {
    let greedy = Sampling { temperature: 0.0, top_k: Some(2), top_p: Some(0.5) };
    for draw in [0.0, 0.5, 0.999] {
        assert_eq!(greedy.choose(&[1.0, 4.0, -2.0, 4.0], draw), 1);
    }
    // The smallest positive temperature is no other rule, only sharper.
    let cold = Sampling { temperature: f64::MIN_POSITIVE, ..PLAIN };
    assert_eq!(cold.choose(&[1.0, 3.0, 2.0], 0.999_999), 1);
}

#[test]
fn only_the_most_probable_tokens_are_left() {
    let logits = [0.1_f64, 0.4, 0.2, 0.3].map(f64::ln);
    close(&shares(Sampling { top_k: Some(2), ..PLAIN }, &logits), &[0.0, 4.0 / 7.0, 0.0, 3.0 / 7.0]);
    close(&shares(Sampling { top_k: Some(9), ..PLAIN }, &logits), &[0.1, 0.4, 0.2, 0.3]);
    // 0.4 and 0.3 are less than 0.75, so 0.2 stays, too.
    close(&shares(Sampling { top_p: Some(0.75), ..PLAIN }, &logits), &[0.0, 4.0 / 9.0, 2.0 / 9.0, 3.0 / 9.0]);
    close(&shares(Sampling { top_p: Some(0.01), ..PLAIN }, &logits), &[0.0, 1.0, 0.0, 0.0]);
    // The share is one of what `top_k` leaves: 4/7 alone is more than a half.
    close(&shares(Sampling { top_k: Some(2), top_p: Some(0.5), ..PLAIN }, &logits), &[0.0, 1.0, 0.0, 0.0]);
}

/// Pieces as they are shown, and the text.
fn written(stops: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
    let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
    let mut writing = Writing::until(&stops);
    let mut shown: Vec<String> = pieces.iter().map(|piece| writing.push(piece).to_owned()).collect();
    shown.push(writing.finish().to_owned());
    (shown, writing.text().to_owned(), writing.is_stopped())
}

#[test]
fn a_text_ends_before_its_stop() {
    let (shown, text, stopped) = written(&["\n\n"], &["a", "\n", "b", "\n", "\n", "c"]);
    assert_eq!(shown, ["a", "", "\nb", "", "", "", ""], "a line end is held back until something follows");
    assert_eq!((text.as_str(), stopped), ("a\nb", true));
}

#[test]
fn what_only_began_like_a_stop_is_shown_at_the_end() {
    let (shown, text, stopped) = written(&["END", "ü!"], &["xE", "N", "ü"]);
    assert_eq!(shown, ["x", "", "EN", "ü"]);
    assert_eq!((text.as_str(), stopped), ("xENü", false));
    let (_, text, stopped) = written(&[], &["a", "b"]);
    assert_eq!((text.as_str(), stopped), ("ab", false));
    let (_, text, stopped) = written(&["", "bc", "abc"], &["xabcbc"]);
    assert_eq!((text.as_str(), stopped), ("x", true), "the first stop that begins, and an empty one is none");
}

#[test]
fn tokens_are_pieces_of_a_text() {
    let words = |tokens: &[u32]| tokens.iter().map(|token| format!("w{token}")).collect::<Vec<_>>().join(" ");
    let mut pieces = TextPieces::behind(&[7]);
    assert_eq!([3, 10].map(|token| pieces.push(token, words)), [" w3", " w10"], "a blank stands before each");
    assert_eq!(TextPieces::default().push(3, words), "w3");

    let bytes = |tokens: &[u32]| {
        String::from_utf8_lossy(&tokens.iter().map(|token| *token as u8).collect::<Vec<u8>>()).into_owned()
    };
    let mut pieces = TextPieces::behind(&"aé".bytes().map(u32::from).collect::<Vec<_>>());
    let shown: Vec<String> = "ü€!".bytes().map(|byte| pieces.push(u32::from(byte), bytes)).collect();
    assert_eq!(shown, ["", "ü", "", "", "€", "!"], "a character is given when it is complete");
    assert_eq!((pieces.push(0xE2, bytes).as_str(), pieces.rest(bytes).as_str()), ("", "\u{fffd}"));
}
