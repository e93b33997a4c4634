//! Matrix products by cuBLAS.

use std::ffi::c_int;

use cudarc::cublas::result::{self, CublasError};
use cudarc::cublas::sys;
use cudarc::driver;

use super::super::device::{Matrix, Product};
use crate::kernel::Precision;

/// Memory for the library, as much as it is said to want on large devices. With memory of its own it need not ask for any while
/// a graph is recorded, and chooses the same way to multiply whether one is or not.
const WORKSPACE: usize = 32 << 20;

/// Whether the library is on this machine.
#[cfg(not(feature = "linked"))]
pub(super) fn is_there() -> bool {
    // SAFETY: opening the library runs nothing but its own start.
    unsafe { sys::is_culib_present() }
}

/// A program that is linked with it would not run without it.
#[cfg(feature = "linked")]
pub(super) fn is_there() -> bool {
    true
}

/// The library, working on one stream.
pub(super) struct Blas {
    handle: sys::cublasHandle_t,
    compute: sys::cublasComputeType_t,
    workspace: driver::sys::CUdeviceptr,
}

impl Blas {
    pub(super) fn new(stream: driver::sys::CUstream, precision: Precision) -> Result<Self, String> {
        let failed = |error: CublasError| format!("cuBLAS can't be used: {error:?}");
        let handle = result::create_handle().map_err(failed)?;
        // SAFETY: the stream lives as long as the device that owns both.
        unsafe { result::set_stream(handle, stream.cast()) }.map_err(failed)?;
        let room =
            |error: driver::result::DriverError| format!("cuBLAS can't be used: there is no room for it: {error:?}");
        // SAFETY: a plain request; the memory stays for as long as the handle, which goes first.
        let workspace = unsafe { driver::result::malloc_sync(WORKSPACE) }.map_err(room)?;
        // SAFETY: it is as long as is said.
        unsafe { sys::cublasSetWorkspace_v2(handle, workspace as *mut _, WORKSPACE) }.result().map_err(failed)?;
        let compute = match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
        };
        Ok(Self { handle, compute, workspace })
    }

    /// `y = a b`, or `y += a b`. The library counts columns first, so it is asked for the transposed product `b a`.
    pub(super) fn multiply(&self, p: &Product) -> Result<(), String> {
        let small = |n: usize| c_int::try_from(n).map_err(|_| format!("a matrix has {n} rows or columns"));
        let ((left, b_step), (right, a_step)) = (turned(p.b, p.n, p.k), turned(p.a, p.k, p.m));
        let operation = |transposed| match transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let (alpha, beta) = (1.0_f32, if p.add { 1.0_f32 } else { 0.0 });
        let float = sys::cudaDataType::CUDA_R_32F;
        // SAFETY: the arrays have the sizes that the product says.
        let outcome = unsafe {
            result::gemm_ex(
                self.handle,
                operation(left),
                operation(right),
                small(p.n)?,
                small(p.m)?,
                small(p.k)?,
                (&raw const alpha).cast(),
                p.b.at as *const _,
                float,
                small(b_step)?,
                p.a.at as *const _,
                float,
                small(a_step)?,
                (&raw const beta).cast(),
                p.y as *mut _,
                float,
                small(p.n)?,
                self.compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        outcome.map_err(|error| format!("{error:?}"))
    }
}

/// How the library is given a matrix so that it sees its transpose, of `rows` rows and `columns` columns, counting columns first:
/// whether it must transpose, and the step from one column to the next as it lies in memory.
fn turned(matrix: Matrix, rows: usize, columns: usize) -> (bool, usize) {
    // The library wants a step of at least a column even where there is no second one.
    match matrix.columns {
        1 => (false, matrix.rows.max(rows)),
        step => (true, step.max(columns)),
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: nobody uses the handle any more, and with it the workspace.
        unsafe {
            let _ = result::destroy_handle(self.handle);
            let _ = driver::result::free_sync(self.workspace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library does: `c[i + j ldc] = sum over p of a(i, p) b(p, j)`, columns first.
    fn library(
        (m, n, k): (usize, usize, usize),
        (a, (turn_a, lda)): (&[f64], (bool, usize)),
        (b, (turn_b, ldb)): (&[f64], (bool, usize)),
    ) -> Vec<f64> {
        assert!(lda >= if turn_a { k } else { m } && ldb >= if turn_b { n } else { k }, "the library refuses the step");
        let at =
            |x: &[f64], turn: bool, ld: usize, i: usize, j: usize| if turn { x[j + i * ld] } else { x[i + j * ld] };
        let term = |i: usize, j: usize, p: usize| at(a, turn_a, lda, i, p) * at(b, turn_b, ldb, p, j);
        (0..m * n).map(|c| (0..k).map(|p| term(c % m, c / m, p)).sum()).collect()
    }

    #[test]
    fn the_library_is_asked_for_the_product_that_is_meant() {
        for (m, n, k) in [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 4), (1, 1, 1), (5, 2, 2)] {
            for (a_turned, b_turned) in [(false, false), (false, true), (true, false), (true, true)] {
                let a: Vec<f64> = (0..m * k).map(|n| n as f64 + 1.0).collect();
                let b: Vec<f64> = (0..k * n).map(|n| 2.0 - n as f64).collect();
                let matrix = |turned, rows, columns| match turned {
                    true => Matrix { at: 0, rows: 1, columns: rows },
                    false => Matrix { at: 0, rows: columns, columns: 1 },
                };
                let (left, right) = (matrix(a_turned, m, k), matrix(b_turned, k, n));
                let of = |x: &[f64], of: Matrix, i: usize, j: usize| x[i * of.rows + j * of.columns];
                let meant = |i: usize, j: usize| (0..k).map(|p| of(&a, left, i, p) * of(&b, right, p, j)).sum::<f64>();
                let meant: Vec<f64> = (0..m * n).map(|y| meant(y / n, y % n)).collect();
                let asked = library((n, m, k), (&b, turned(right, n, k)), (&a, turned(left, k, m)));
                assert_eq!(asked, meant, "{m} {n} {k}, {a_turned} {b_turned}");
            }
        }
    }
}
