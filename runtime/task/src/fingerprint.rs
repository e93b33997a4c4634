//! Fingerprints of examples and of files.

use rtc_base::rng::mix;
use sha2::{Digest, Sha256};

use crate::example::{Example, ExampleTarget};

/// The first bytes of a hash as text.
pub(super) fn hex(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Feeds examples to SHA-256, every list behind its length.
#[derive(Default)]
pub(super) struct Hasher(Sha256);

impl Hasher {
    /// Feeds bytes as they are.
    pub(super) fn feed(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.update(bytes);
    }

    pub(super) fn split(&mut self, name: &str, examples: &[Example]) {
        self.numbers(&[name.len() as u32, examples.len() as u32]);
        self.0.update(name);
        examples.iter().for_each(|example| self.example(example));
    }

    /// The hash of all that was fed.
    pub(super) fn text(self) -> String {
        hex(&self.0.finalize())
    }

    fn numbers(&mut self, numbers: &[u32]) {
        let mut bytes = [[0; 4]; 256];
        for numbers in numbers.chunks(bytes.len()) {
            bytes.iter_mut().zip(numbers).for_each(|(bytes, number)| *bytes = number.to_le_bytes());
            self.0.update(bytes[..numbers.len()].as_flattened());
        }
    }

    fn list(&mut self, numbers: &[u32]) {
        self.numbers(&[numbers.len() as u32]);
        self.numbers(numbers);
    }

    pub(super) fn example(&mut self, example: &Example) {
        self.list(&example.tokens);
        self.list(example.second.as_deref().unwrap_or(&[]));
        match &example.label {
            ExampleTarget::Class(class) => self.numbers(&[0, *class]),
            ExampleTarget::Each { class, weight } => {
                self.numbers(&[1]);
                self.list(class);
                self.list(&weight.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>());
            }
            ExampleTarget::Number(number) => self.numbers(&[3, number.to_bits()]),
            ExampleTarget::Several(labels) => {
                self.numbers(&[4]);
                self.list(&labels.iter().map(|label| u32::from(*label)).collect::<Vec<_>>());
            }
        }
        // Nothing is added where there is none, so that older fingerprints stay as they were.
        example.depth.iter().for_each(|depth| self.numbers(&[2, *depth]));
        for given in &example.given {
            self.numbers(&[5, given.name.len() as u32, given.numbers.len() as u32]);
            self.0.update(&*given.name);
            given.numbers.iter().for_each(|number| self.0.update(number.to_bits().to_le_bytes()));
        }
    }
}

/// The place of a token sequence in [0, 1), the same for every seed.
pub(super) fn place(tokens: &[u32]) -> f64 {
    (hash(tokens) >> 11) as f64 / (1_u64 << 53) as f64
}

pub(super) fn hash(tokens: &[u32]) -> u64 {
    mix(tokens.iter().fold(0xCBF2_9CE4_8422_2325_u64, |h, t| (h ^ u64::from(*t)).wrapping_mul(0x0100_0000_01B3)))
}
