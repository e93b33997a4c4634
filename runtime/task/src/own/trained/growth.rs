//! How long a `tokenizer.json` makes a text: its steps may each double it, and thirty of them fill any memory.

use serde::Serialize;
use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, Tokenizer};

use super::super::MAX_GROWN;
use rtc_compiler::ir::formula::bytes;

/// The most bytes that one step may make of a byte: those of Unicode's longest compatibility decomposition are 33 of 3.
const MOST_OF_A_STEP: u64 = 64;

/// The same of all steps behind those that normalise.
const MOST_OF_OTHERS: u64 = 64;

/// The most steps of a kind.
const MOST_STEPS: usize = 64;

/// A text is normalised piece by piece to see how long it becomes: bytes of a piece, and the most that they may become.
const PIECE: usize = 4096;
const GROWN_PIECE: usize = 256 * PIECE;

/// The most bytes that the steps of a tokenizer make of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// The steps that normalise.
    normalised: u64,
    /// Those behind them: of the pieces, and of the tokens.
    behind: u64,
}

impl Growth {
    /// That of a tokenizer.
    ///
    /// # Errors
    /// A sentence about steps that make too much of a text.
    pub(super) fn of(tokenizer: &Tokenizer) -> Result<Self, String> {
        let normalised = factor("normalizer", tokenizer.get_normalizer(), u64::MAX)?;
        let cut = factor("pre_tokenizer", tokenizer.get_pre_tokenizer(), MOST_OF_OTHERS)?;
        let behind = factor("post_processor", tokenizer.get_post_processor(), MOST_OF_OTHERS / cut)?;
        factor("decoder", tokenizer.get_decoder(), MOST_OF_OTHERS)?;
        Ok(Self { normalised, behind: cut * behind })
    }

    /// Refuses a text that becomes too long. Texts that can't are not looked at.
    pub(super) fn check(self, tokenizer: &Tokenizer, text: &str) -> Result<(), String> {
        let most = MAX_GROWN / self.behind;
        if (text.len() as u64).saturating_mul(self.normalised) <= most {
            return Ok(());
        }
        let mut steps = vec![];
        tokenizer.get_normalizer().iter().for_each(|normalizer| flatten(normalizer, &mut steps));
        let (mut rest, mut grown) = (text, 0);
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(first_piece(rest));
            grown += normalised(&steps, piece)?;
            if grown > most {
                return Err(format!(
                    "the tokenizer makes more than {} of the text: cut the text, or correct the tokenizer",
                    bytes(MAX_GROWN)
                ));
            }
            rest = behind;
        }
        Ok(())
    }
}

/// The bytes of the first piece of a text, which ends between two characters.
fn first_piece(text: &str) -> usize {
    (0..=PIECE.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

/// The length of a piece after all steps.
fn normalised(steps: &[&NormalizerWrapper], piece: &str) -> Result<u64, String> {
    let mut text = NormalizedString::from(piece);
    for step in steps {
        step.normalize(&mut text).map_err(|error| format!("the tokenizer failed: {error}"))?;
        if text.len() > GROWN_PIECE {
            return Err(format!(
                "the `normalizer` of the tokenizer makes more than {GROWN_PIECE} bytes of {}: correct it",
                piece.len()
            ));
        }
    }
    Ok(text.len() as u64)
}

fn flatten<'n>(normalizer: &'n NormalizerWrapper, steps: &mut Vec<&'n NormalizerWrapper>) {
    if let NormalizerWrapper::Sequence(sequence) = normalizer {
        sequence.as_ref().iter().for_each(|inner| flatten(inner, steps));
    } else {
        steps.push(normalizer);
    }
}

/// The most bytes that the steps of a part of a tokenizer make of a byte.
fn factor(part: &str, steps: Option<&impl Serialize>, most: u64) -> Result<u64, String> {
    let value = serde_json::to_value(steps).map_err(|error| error.to_string())?;
    let mut steps = vec![];
    collect(&value, &mut steps);
    if steps.len() > MOST_STEPS {
        let count = steps.len();
        return Err(format!("the `{part}` of this tokenizer.json has {count} steps, and at most {MOST_STEPS} are run"));
    }
    // A text of n bytes becomes one of `times * n + more` bytes at most.
    let (mut times, mut more) = (1_u64, 0_u64);
    for step in steps {
        let [grown, added] = of_step(step);
        if grown.saturating_add(added) > MOST_OF_A_STEP {
            return Err(format!(
                "a step of the `{part}` of this tokenizer.json, `{}`, makes more than {MOST_OF_A_STEP} bytes of one: remove it",
                kind(step)
            ));
        }
        (times, more) = (times.saturating_mul(grown), more.saturating_mul(grown).saturating_add(added));
    }
    let all = times.saturating_add(more);
    if all > most {
        return Err(format!(
            "the steps of the `{part}` of this tokenizer.json make up to {all} bytes of one, and at most {most} are allowed: remove \
             some of them"
        ));
    }
    Ok(all)
}

fn kind(step: &Value) -> &str {
    step["type"].as_str().unwrap_or("?")
}

/// The steps of a part, those of sequences one by one.
fn collect<'v>(step: &'v Value, steps: &mut Vec<&'v Value>) {
    const LISTS: [&str; 4] = ["normalizers", "pretokenizers", "processors", "decoders"];
    match LISTS.iter().find_map(|list| step.get(list)?.as_array()) {
        Some(inner) => inner.iter().for_each(|step| collect(step, steps)),
        None if step.is_null() => {}
        None => steps.push(step),
    }
}

/// How many bytes a step makes of one, and how many it adds to a text.
fn of_step(step: &Value) -> [u64; 2] {
    let length = |field: &str| step[field].as_str().map_or(0, str::len) as u64;
    match kind(step) {
        "Prepend" => [1, length("prepend")],
        "Replace" => match step["pattern"]["String"].as_str().map_or(0, str::len) as u64 {
            // An expression, or a text without characters, may be found between any two characters.
            0 => [1 + length("content"), length("content")],
            pattern => [length("content").div_ceil(pattern).max(1), 0],
        },
        "Precompiled" => [step["precompiled_charsmap"].as_str().map_or(1, longest).max(1), 0],
        "Metaspace" => [length("replacement").max(1), length("replacement")],
        "NFC" => [3, 0],
        "NFD" => [4, 0],
        "NFKC" | "NFKD" => [11, 0],
        "Lowercase" => [2, 0],
        // Blanks around characters, accents apart, small letters.
        "BertNormalizer" => [2 * 4 * 2, 0],
        "ByteLevel" => [2, 2],
        "WordPiece" | "BPEDecoder" | "CTC" => [2, 2],
        "TemplateProcessing" => {
            let pieces = step["single"].as_array().map_or(&[][..], Vec::as_slice);
            [pieces.iter().filter(|piece| piece.get("Sequence").is_some()).count().max(1) as u64, 0]
        }
        // The others cut texts, and leave characters out or put one in the place of one.
        _ => [1, 0],
    }
}

/// The longest text that a map of characters in base64 puts in the place of one: behind a table of so many bytes as the first four say, its
/// texts end in zeros.
fn longest(map: &str) -> u64 {
    let bytes = decoded(map);
    let Some((table, rest)) = bytes.split_first_chunk() else { return 0 };
    let texts = rest.get(u32::from_le_bytes(*table) as usize..).unwrap_or_default();
    texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0) as u64
}

fn decoded(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (vec![], 0_u32, 0);
    for digit in base64.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte)) {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A tokenizer of these parts whose only token is `a`.
    fn tokenizer(parts: &Value) -> Tokenizer {
        let mut file = json!({
            "version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": { "type": "WordLevel", "vocab": { "a": 0 }, "unk_token": "a" },
        });
        for (name, part) in parts.as_object().expect("parts") {
            file[name] = part.clone();
        }
        Tokenizer::from_bytes(file.to_string()).expect("a tokenizer")
    }

    fn growth(parts: &Value) -> Result<Growth, String> {
        Growth::of(&tokenizer(parts))
    }

    fn replace(pattern: &str, content: &str) -> Value {
        json!({ "type": "Replace", "pattern": { "String": pattern }, "content": content })
    }

    #[test]
    fn what_people_use_is_taken() {
        let llama =
            json!({ "type": "Sequence", "normalizers": [{ "type": "Prepend", "prepend": "▁" }, replace(" ", "▁")] });
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true });
        assert_eq!(growth(&json!({ "normalizer": llama })), Ok(Growth { normalised: 12, behind: 1 }));
        assert_eq!(growth(&json!({ "pre_tokenizer": bytes })), Ok(Growth { normalised: 1, behind: 4 }));
        let decoder = json!({ "type": "Sequence", "decoders": [replace("▁", " "), { "type": "ByteFallback" }, { "type": "Fuse" }] });
        assert!(growth(&json!({ "decoder": decoder })).is_ok());
        assert_eq!(growth(&json!({})), Ok(Growth { normalised: 1, behind: 1 }));
    }

    #[test]
    fn steps_that_double_are_counted() {
        let steps = |step: Value, count| vec![step; count];
        let doubles = json!({ "type": "Sequence", "normalizers": steps(replace("a", "aa"), 40) });
        let many = tokenizer(&json!({ "normalizer": doubles }));
        let growth = Growth::of(&many).expect("a text without an `a` stays as it is");
        assert_eq!(growth.normalised, 1 << 40);
        assert_eq!(growth.check(&many, &"b".repeat(100_000)), Ok(()));
        let error = growth.check(&many, "ba").expect_err("too long");
        assert!(error.contains("makes more than 1048576 bytes of 2"), "{error}");
        let few = json!({ "type": "Sequence", "normalizers": steps(replace("a", "aa"), 8) });
        let few = tokenizer(&json!({ "normalizer": few }));
        let growth = Growth { behind: MAX_GROWN >> 16, ..Growth::of(&few).expect("256-fold") };
        let text = |letters| "a".repeat(letters) + &"b".repeat(256);
        assert_eq!(growth.check(&few, &text(255)), Ok(()));
        let error = growth.check(&few, &text(256)).expect_err("too long");
        assert!(error.contains("makes more than 128 MiB of the text"), "{error}");
    }

    #[test]
    fn parts_that_grow_any_text_are_refused() {
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false });
        let sequence = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let template = json!({ "type": "TemplateProcessing", "single": vec![sequence.clone(); 9], "pair": [], "special_tokens": {} });
        for (parts, why) in [
            (
                json!({ "pre_tokenizer": { "type": "Sequence", "pretokenizers": vec![bytes; 20] } }),
                "the steps of the `pre_tokenizer`",
            ),
            (
                json!({ "post_processor": { "type": "Sequence", "processors": vec![template; 2] } }),
                "the steps of the `post_processor`",
            ),
            (
                json!({ "decoder": { "type": "Sequence", "decoders": vec![replace("a", "aa"); 30] } }),
                "the steps of the `decoder`",
            ),
            (json!({ "normalizer": replace("a", &"b".repeat(65)) }), "`Replace`, makes more than 64 bytes of one"),
            (
                json!({ "normalizer": { "type": "Sequence", "normalizers": vec![replace("a", "b"); 65] } }),
                "has 65 steps, and at most 64 are run",
            ),
        ] {
            let error = growth(&parts).expect_err(why);
            assert!(error.contains(why), "{error} should say {why}");
        }
    }

    /// A table of four bytes, then `ab`, a zero and `abc`.
    #[test]
    fn maps_of_characters_are_read() {
        assert_eq!(decoded("BAAAAAAAAABhYgBhYmM="), b"\x04\0\0\0\0\0\0\0ab\0abc");
        assert_eq!(longest("BAAAAAAAAABhYgBhYmM="), 3);
        assert_eq!(longest("////fw=="), 0);
        assert_eq!(longest(""), 0);
    }
}
