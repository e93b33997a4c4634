//! The vectors that kernels compute with: the widest that the machine has, or fewer, to compare machines.
//!
//! No number depends on them: the elements of a product are chains of their own, and sums within a row are cut into
//! [`LANES`](super::parallel::LANES) parts on every kind.
//!
//! Source: rtc.

use std::sync::atomic::{AtomicU8, Ordering};

use pulp::{Arch, WithSimd};

/// The widest vectors that kernels may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vectors {
    /// All that the machine has.
    #[default]
    Widest,
    /// Those of AVX2, of 256 bits: as on x86 machines without AVX-512.
    Avx2,
    /// One number at a time.
    None,
}

/// Says which vectors a program may use.
const VARIABLE: &str = "RTC_VECTORS";

/// What is allowed, in the order of [`Vectors`].
static ALLOWED: AtomicU8 = AtomicU8::new(0);

impl Vectors {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Widest, Self::Avx2, Self::None];

    /// As `RTC_VECTORS` says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Widest => "widest",
            Self::Avx2 => "avx2",
            Self::None => "none",
        }
    }

    /// Lets the kernels of this process use these vectors and no wider ones from now on.
    ///
    /// # Errors
    /// The machine does not have them.
    pub fn allow(self) -> Result<(), &'static str> {
        if self == Self::Avx2 && avx2().is_none() {
            return Err("this machine has no AVX2");
        }
        ALLOWED.store(self as u8, Ordering::Relaxed);
        Ok(())
    }

    /// Allows what `RTC_VECTORS` says, where it is set.
    ///
    /// # Errors
    /// Another word, or vectors that the machine does not have.
    pub fn from_environment() -> Result<(), String> {
        let Some(wanted) = std::env::var_os(VARIABLE) else { return Ok(()) };
        let named = |vectors: &Self| wanted == vectors.name();
        let names = || Self::ALL.map(Self::name).join(", ");
        let vectors = Self::ALL.into_iter().find(named);
        let vectors = vectors.ok_or_else(|| format!("{VARIABLE} is {wanted:?}; one of {} is wanted", names()))?;
        vectors.allow().map_err(|why| format!("{VARIABLE}={}: {why}", vectors.name()))
    }

    /// What is allowed at present.
    #[inline(always)]
    pub fn allowed() -> Self {
        let allowed = usize::from(ALLOWED.load(Ordering::Relaxed));
        Self::ALL.get(allowed).copied().unwrap_or_default()
    }
}

/// Runs a closure, compiled for the vectors that are allowed: what [`vectorised!`](super::parallel::vectorised) calls. The bound decides what
/// is compiled: a closure that is known to be run once is inlined itself, and not a function of its own that calls it, without vectors.
#[inline(always)]
pub(crate) fn run<R>(op: impl FnOnce() -> R) -> R {
    dispatch(op)
}

/// Runs `op`, compiled for the vectors that are allowed.
#[inline(always)]
pub(crate) fn dispatch<R>(op: impl WithSimd<Output = R>) -> R {
    let arch = if Vectors::allowed() == Vectors::Widest { Arch::new() } else { narrower() };
    arch.dispatch(op)
}

/// The vectors of a process that may not use the widest.
#[cold]
#[inline(never)]
fn narrower() -> Arch {
    avx2().filter(|_| Vectors::allowed() == Vectors::Avx2).unwrap_or(Arch::Scalar)
}

#[cfg(target_arch = "x86_64")]
fn avx2() -> Option<Arch> {
    pulp::x86::V3::try_new().map(Arch::V3)
}

#[cfg(not(target_arch = "x86_64"))]
fn avx2() -> Option<Arch> {
    None
}
