//! Kernels that change arrays number by number, written once for the processor and for a GPU.
//!
//! Source: rtc.

use super::Real;

/// A kernel that changes `W` arrays and reads `R` others, all of one length, number by number.
pub trait ArrayUpdate<const W: usize, const R: usize> {
    /// Its name on a GPU.
    const NAME: &'static str;
    /// Its constants, in the order in which the GPU is given them.
    fn constants(&self) -> Vec<f64>;
    /// Runs it on the processor.
    fn run<T: Real>(&self, write: [&mut [T]; W], read: [&[T]; R]);
}

/// The square root, under the name that it has on a GPU.
#[inline(always)]
pub(crate) fn root<T: Real>(x: T) -> T {
    x.sqrt()
}

/// The angle of the point (x, y) from the axis of x, under the name that it has on a GPU.
#[inline(always)]
pub(crate) fn angle<T: Real>(y: T, x: T) -> T {
    y.angle(x)
}

/// 1, 0 or -1, under the name that it has on a GPU; 0 for what is no number.
#[inline(always)]
pub(crate) fn sign<T: Real>(x: T) -> T {
    let of = |holds: bool| if holds { T::ONE } else { T::ZERO };
    of(x > T::ZERO) - of(x < T::ZERO)
}

/// Declares kernels: `Name = "name" [written arrays] [read arrays] (constants) { assignments }`. The assignments are Rust and CUDA C
/// at once: the four operations, `root`, `angle`, `sign`, and names from the three lists. `SOURCE` has all of them as CUDA C.
macro_rules! array_updates {
    ($(
        $(#[$doc:meta])*
        $name:ident = $kernel:literal [$($w:ident),*] [$($r:ident),*] ($($c:ident),*) { $($body:tt)* }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $(#[doc = concat!("The constant `", stringify!($c), "` of the kernel.")] pub $c: f64,)*
            }

            const _: () = {
                use $crate::Real;
                use $crate::parallel::{DisjointSlice, each_block, vectorised};
                #[allow(unused_imports, reason = "not every kernel has a function")]
                use $crate::array_update::{ArrayUpdate, angle, root, sign};

                const W: usize = <[&str]>::len(&[$(stringify!($w)),*]);
                const R: usize = <[&str]>::len(&[$(stringify!($r)),*]);

                impl ArrayUpdate<W, R> for $name {
                    const NAME: &'static str = $kernel;

                    fn constants(&self) -> Vec<f64> {
                        vec![$(self.$c),*]
                    }

                    fn run<T: Real>(&self, write: [&mut [T]; W], read: [&[T]; R]) {
                        #[inline(always)]
                        #[allow(
                            unused_mut,
                            unused_assignments,
                            clippy::too_many_arguments,
                            reason = "arrays are variables, whether they are set or read, and there is one for each"
                        )]
                        fn number<T: Real>($(mut $w: T,)* $(mut $r: T,)* $($c: T),*) -> [T; W] {
                            $($body)*
                            [$($w),*]
                        }
                        $(let $c = T::from_f64(self.$c);)*
                        let len = write[0].len();
                        let [$($w),*] = write.map(DisjointSlice::new);
                        let [$($r),*] = read;
                        each_block(len, W + R, |range| {
                            $(
                                #[allow(unsafe_code, reason = "an update is written where its optimiser is")]
                                // SAFETY: the blocks are disjoint.
                                let $w = unsafe { $w.part(range.clone()) };
                            )*
                            $(let $r = &$r[range.clone()];)*
                            vectorised!({
                                    for i in 0..range.len() {
                                        [$($w[i]),*] = number($($w[i],)* $($r[i],)* $($c),*);
                                    }
                                });
                        });
                    }
                }
            };
        )*

        /// The kernels as CUDA C.
        pub const SOURCE: &str = concat!($(
            "KERNEL(", $kernel, ")(",
            $("real *", stringify!($w), "_, ",)*
            $("const real *", stringify!($r), "_, ",)*
            "const real *constants, whole n) {\n    EACH(i, n)\n",
            $("    real ", stringify!($w), " = ", stringify!($w), "_[i];\n",)*
            $("    real ", stringify!($r), " = ", stringify!($r), "_[i];\n",)*
            $("    real ", stringify!($c), " = *constants++;\n",)*
            "    ", stringify!($($body)*), "\n",
            $("    ", stringify!($w), "_[i] = ", stringify!($w), ";\n",)*
            "}\n",
        )*);
    };
}

pub(crate) use array_updates;
