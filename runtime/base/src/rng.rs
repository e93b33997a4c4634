//! The one random generator of rtc: counter-based, so every number is a pure function of its key and index.
//!
//! A key is derived from the seed by naming what the numbers are for (`"init"`, `"data"`, `"dropout"`) and where
//! (step, node, row). Nothing is carried from draw to draw: any thread may draw any number, a resumed run draws what
//! the unbroken run would have drawn, and the backward pass redraws the masks of the forward pass.

/// A key of the generator: names a stream of independent random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

/// The golden ratio in 64 bits: consecutive counters become far apart.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): a bijection on 64 bits that passes BigCrush on counters.
#[inline(always)]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Key {
    /// The root key of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(GOLDEN)))
    }

    /// The bits of the key, for generators elsewhere.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The key of a named stream below this one.
    pub fn stream(self, name: &str) -> Self {
        let hash =
            name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3));
        self.at(hash)
    }

    /// The key of the item `index` (a step, a node, a row) below this one.
    #[inline(always)]
    pub fn at(self, index: u64) -> Self {
        Self(mix(self.0.rotate_left(17) ^ mix(index.wrapping_add(GOLDEN))))
    }

    /// The 64 random bits of draw `index`.
    #[inline(always)]
    pub fn bits(self, index: u64) -> u64 {
        mix(self.0.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// Draw `index` as a real number in [0, 1) with 53 random bits.
    #[inline(always)]
    pub fn uniform(self, index: u64) -> f64 {
        (self.bits(index) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Draw `index` as an integer in `0..bound`. The bias of the multiplication is below `bound / 2^64`.
    #[inline(always)]
    pub fn below(self, index: u64, bound: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(bound)) >> 64) as u64
    }

    /// Draw `index` from the standard normal distribution (Box-Muller on draws `2 index` and `2 index + 1`).
    pub fn normal(self, index: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform(2 * index)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(2 * index + 1)).cos()
    }

    /// A sequential reader of this key's draws, for generators that need an unknown number of them.
    pub fn draws(self) -> Draws {
        Draws { key: self, next: 0 }
    }
}

/// Reads the draws of one key in order.
#[derive(Clone, Debug)]
pub struct Draws {
    key: Key,
    next: u64,
}

impl Draws {
    fn step(&mut self) -> u64 {
        let index = self.next;
        self.next += 1;
        index
    }

    /// The next real number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        let index = self.step();
        self.key.uniform(index)
    }

    /// The next integer in `0..bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let index = self.step();
        self.key.below(index, bound)
    }

    /// The next draw from the standard normal distribution (Box-Muller on two numbers).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Puts `items` into a uniformly random order (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

/// The `n`-th of numbers that lie evenly in `0..total`, however many of them are taken: multiples of the golden ratio.
pub fn spread(n: u64, total: u64) -> u64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    (((n as f64 + 0.5) * GOLDEN).fract() * total as f64) as u64
}
