//! Matrix products by cuBLASLt.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;

use cudarc::cublaslt::result::{self, CublasError};
use cudarc::cublaslt::sys;
use cudarc::driver;

use super::super::device::kept_size;
use super::super::device::{DeviceMatrix, MatrixProduct, ProductDistance};
use rtc_kernel::Precision;

/// Memory for the library, as much as it is said to want on large devices. All work is in one stream, so products take turns with it.
const WORKSPACE: usize = 32 << 20;

/// The largest alignment that the library knows of, in bytes.
const ALIGNED: u64 = 256;

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
    handle: sys::cublasLtHandle_t,
    stream: driver::sys::CUstream,
    compute: sys::cublasComputeType_t,
    workspace: driver::sys::CUdeviceptr,
    /// How products of a form are done. The library is asked once for each: what it answers depends on the form alone, so a run
    /// that comes again computes in the same way.
    known: RefCell<BTreeMap<ProductForm, Result<ProductPlan, CublasError>>>,
}

/// Forms of products that are known at a time: a description takes some hundred bytes of the library's.
const MOST_FORMS: usize = 4096;

/// Properties of a product before it is done, as the library sees it: columns first, so `y` transposed is `b` transposed
/// times `a` transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProductForm {
    left: ProductFactor,
    right: ProductFactor,
    out: MatrixLayout,
    add: bool,
    bias: bool,
    /// How many there are, and how far apart, as a product has it.
    count: usize,
    apart: ProductDistance,
    /// The alignment of the two factors and of what is written, in bytes.
    aligned: [u32; 3],
    /// Whether the two factors and what is written, and with it the bias, are kept in 16 bits.
    narrow: [bool; 3],
}

/// A factor: how it lies, and whether it is transposed before it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ProductFactor {
    layout: MatrixLayout,
    transposed: bool,
}

/// A matrix in memory, column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MatrixLayout {
    rows: usize,
    columns: usize,
    /// From one column to the next.
    step: usize,
}

impl ProductForm {
    fn of(p: &MatrixProduct) -> Self {
        // That of all products, which is a power of two.
        let aligned = |at: u64, apart: usize, narrow: bool| {
            let all = at | (apart * kept_size(narrow, size_of::<f32>())) as u64 | ALIGNED;
            (all & all.wrapping_neg()) as u32
        };
        // The library has no word for the alignment of a bias; it is read as the result is written.
        let bias = p.bias.map_or(ALIGNED as u32, |at| aligned(at, p.apart.bias, p.narrow));
        Self {
            left: turned(p.b, p.n, p.k),
            right: turned(p.a, p.k, p.m),
            out: MatrixLayout { rows: p.n, columns: p.m, step: p.n },
            add: p.add,
            bias: p.bias.is_some(),
            count: p.count,
            apart: p.apart,
            aligned: [
                aligned(p.b.at, p.apart.b, p.b.narrow),
                aligned(p.a.at, p.apart.a, p.a.narrow),
                aligned(p.y, p.apart.y, p.narrow).min(bias),
            ],
            narrow: [p.b.narrow, p.a.narrow, p.narrow],
        }
    }
}

/// How the library is given a matrix so that it sees its transpose, of `rows` rows and `columns` columns.
fn turned(matrix: DeviceMatrix, rows: usize, columns: usize) -> ProductFactor {
    // The library wants a step of at least a column even where there is no second one.
    match matrix.columns {
        1 => ProductFactor { layout: MatrixLayout { rows, columns, step: matrix.rows.max(rows) }, transposed: false },
        step => ProductFactor {
            layout: MatrixLayout { rows: columns, columns: rows, step: step.max(columns) },
            transposed: true,
        },
    }
}

impl Blas {
    pub(super) fn new(stream: driver::sys::CUstream, precision: Precision) -> Result<Self, String> {
        let handle = result::create_handle().map_err(|error| format!("cuBLASLt can't be used: {error:?}"))?;
        let room =
            |error: driver::result::DriverError| format!("cuBLASLt can't be used: there is no room for it: {error:?}");
        // SAFETY: a plain request; the memory stays for as long as the handle, which goes first.
        let workspace = unsafe { driver::result::malloc_sync(WORKSPACE) }.map_err(room)?;
        let compute = match precision {
            Precision::F32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            Precision::Bf16 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_16BF,
        };
        Ok(Self { handle, stream, compute, workspace, known: RefCell::default() })
    }

    /// `y = a b`, or `y += a b`, plus a bias where there is one.
    pub(super) fn multiply(&self, p: &MatrixProduct) -> Result<(), String> {
        let told = |error| format!("cuBLASLt can't do [{}, {}] x [{}, {}]: {error:?}", p.m, p.k, p.k, p.n);
        self.known(p, |plan| plan.and_then(|plan| plan.start(self, p)).map_err(told))
    }

    /// Whether the library has a way to do it.
    pub(super) fn can(&self, p: &MatrixProduct) -> bool {
        self.known(p, |plan| plan.is_ok())
    }

    /// Gives how products of this form are done.
    fn known<R>(&self, p: &MatrixProduct, then: impl FnOnce(Result<&ProductPlan, CublasError>) -> R) -> R {
        let mut known = self.known.borrow_mut();
        let form = ProductForm::of(p);
        // Batches of any number of rows are forms without end. The library answers the same when it is asked again.
        if known.len() >= MOST_FORMS && !known.contains_key(&form) {
            known.clear();
        }
        let plan = known.entry(form).or_insert_with(|| ProductPlan::new(self.handle, self.compute, &form));
        then(plan.as_ref().map_err(|error| *error))
    }
}

/// The plan for products of a form: descriptions, and the way that the library has chosen.
struct ProductPlan {
    product: sys::cublasLtMatmulDesc_t,
    /// Left, right, result.
    matrices: [sys::cublasLtMatrixLayout_t; 3],
    way: sys::cublasLtMatmulAlgo_t,
}

/// Says something of a product that was made.
fn of_product<V>(
    product: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &V,
) -> Result<(), CublasError> {
    // SAFETY: the description lives, and so does the value, which is as long as is said.
    unsafe { result::set_matmul_desc_attribute(product, attribute, (&raw const *value).cast(), size_of::<V>()) }
}

/// Says something of a matrix that was made.
fn of_matrix<V>(
    matrix: sys::cublasLtMatrixLayout_t,
    attribute: sys::cublasLtMatrixLayoutAttribute_t,
    value: &V,
) -> Result<(), CublasError> {
    // SAFETY: as above.
    unsafe { result::set_matrix_layout_attribute(matrix, attribute, (&raw const *value).cast(), size_of::<V>()) }
}

impl ProductPlan {
    fn new(
        handle: sys::cublasLtHandle_t,
        compute: sys::cublasComputeType_t,
        form: &ProductForm,
    ) -> Result<Self, CublasError> {
        use sys::cublasLtMatmulDescAttributes_t as Of;
        let float = sys::cudaDataType::CUDA_R_32F;
        let kept = |narrow| if narrow { sys::cudaDataType::CUDA_R_16BF } else { float };
        // Factors that are kept in 16 bits need no rounding; sums are single precision in any case.
        let compute = if form.narrow[0] { sys::cublasComputeType_t::CUBLAS_COMPUTE_32F } else { compute };
        let mut plan = Self {
            product: result::create_matmul_desc(compute, float)?,
            matrices: [std::ptr::null_mut(); 3],
            way: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
        };
        let layouts = [form.left.layout, form.right.layout, form.out].into_iter().zip(form.narrow);
        for (matrix, (layout, narrow)) in plan.matrices.iter_mut().zip(layouts) {
            let (rows, columns) = (layout.rows as u64, layout.columns as u64);
            *matrix = result::create_matrix_layout(kept(narrow), rows, columns, layout.step as i64)?;
        }
        // The library's numbers for "as it is" and "transposed".
        of_product(plan.product, Of::CUBLASLT_MATMUL_DESC_TRANSA, &i32::from(form.left.transposed))?;
        of_product(plan.product, Of::CUBLASLT_MATMUL_DESC_TRANSB, &i32::from(form.right.transposed))?;
        if form.bias {
            // A number for each row of the result as the library sees it.
            let epilogue = sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS;
            of_product(plan.product, Of::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
            of_product(plan.product, Of::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &(kept(form.narrow[2]) as i32))?;
        }
        if form.count > 1 {
            let ProductDistance { a, b, y, bias } = form.apart;
            for (matrix, apart) in plan.matrices.into_iter().zip([b, a, y]) {
                use sys::cublasLtMatrixLayoutAttribute_t as As;
                of_matrix(matrix, As::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &(form.count as i32))?;
                of_matrix(matrix, As::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &(apart as i64))?;
            }
            if form.bias {
                of_product(plan.product, Of::CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &(bias as i64))?;
            }
        }
        plan.way = plan.chosen(handle, form.aligned)?;
        Ok(plan)
    }

    /// What the library thinks the fastest way, for addresses that are aligned so.
    fn chosen(
        &self,
        handle: sys::cublasLtHandle_t,
        [left, right, written]: [u32; 3],
    ) -> Result<sys::cublasLtMatmulAlgo_t, CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Wish;
        let preference = result::create_matmul_pref()?;
        let wish = |attribute, (value, size): (*const c_void, usize)| {
            // SAFETY: the wishes live, and so do the values, which are as long as is said.
            unsafe { result::set_matmul_pref_attribute(preference, attribute, value, size) }
        };
        let bytes = |aligned: &u32| ((&raw const *aligned).cast(), size_of::<u32>());
        let workspace = WORKSPACE as u64;
        let [a, b, y] = self.matrices;
        let found =
            wish(Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, ((&raw const workspace).cast(), size_of::<u64>()))
                .and_then(|()| wish(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(&left)))
                .and_then(|()| wish(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(&right)))
                .and_then(|()| wish(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytes(&written)))
                .and_then(|()| wish(Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytes(&written)))
                // SAFETY: all descriptions live.
                .and_then(|()| unsafe {
                    result::get_matmul_algo_heuristic(handle, self.product, a, b, y, y, preference)
                });
        // SAFETY: it was made above, and is not used any more.
        let _ = unsafe { result::destroy_matmul_pref(preference) };
        Ok(found?.algo)
    }

    fn start(&self, blas: &Blas, p: &MatrixProduct) -> Result<(), CublasError> {
        let (alpha, beta) = (1.0_f32, if p.add { 1.0_f32 } else { 0.0 });
        let [left, right, out] = self.matrices;
        if let Some(bias) = p.bias {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            of_product(self.product, attribute, &bias)?;
        }
        // SAFETY: the arrays have the sizes that the product says. The library reads descriptions and factors during the call.
        unsafe {
            result::matmul(
                blas.handle,
                self.product,
                (&raw const alpha).cast(),
                (&raw const beta).cast(),
                p.b.at as *const _,
                left,
                p.a.at as *const _,
                right,
                p.y as *const _,
                out,
                p.y as *mut _,
                out,
                &raw const self.way,
                blas.workspace as *mut _,
                WORKSPACE,
                blas.stream.cast(),
            )
        }
    }
}

impl Drop for ProductPlan {
    fn drop(&mut self) {
        // SAFETY: nobody uses them any more; the library takes none for what was never made.
        unsafe {
            let _ = result::destroy_matmul_desc(self.product);
            for matrix in self.matrices.into_iter().filter(|matrix| !matrix.is_null()) {
                let _ = result::destroy_matrix_layout(matrix);
            }
        }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.known.get_mut().clear();
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

    /// What the library does: `d(i, j) = sum over p of a(i, p) b(p, j) + bias(i)`, columns first.
    fn library(form: &ProductForm, a: &[f64], b: &[f64], bias: &[f64]) -> Vec<f64> {
        let ProductForm { left, right, out, .. } = form;
        for layout in [left.layout, right.layout, *out] {
            assert!(layout.step >= layout.rows, "the library refuses the step");
        }
        let at = |x: &[f64], side: &ProductFactor, i: usize, j: usize| {
            let (row, column) = if side.transposed { (j, i) } else { (i, j) };
            assert!(row < side.layout.rows && column < side.layout.columns, "the matrix is larger than was said");
            x[row + column * side.layout.step]
        };
        let terms = if left.transposed { left.layout.rows } else { left.layout.columns };
        let one = |c: usize| {
            let (i, j) = (c % out.rows, c / out.rows);
            bias[i] + (0..terms).map(|p| at(a, left, i, p) * at(b, right, p, j)).sum::<f64>()
        };
        (0..out.rows * out.columns).map(one).collect()
    }

    #[test]
    fn the_library_is_asked_for_the_product_that_is_meant() {
        for (m, n, k) in [(2, 3, 4), (1, 3, 4), (2, 1, 4), (2, 3, 1), (1, 1, 4), (1, 1, 1), (5, 2, 2)] {
            for (a_turned, b_turned) in [(false, false), (false, true), (true, false), (true, true)] {
                let a: Vec<f64> = (0..m * k).map(|n| n as f64 + 1.0).collect();
                let b: Vec<f64> = (0..k * n).map(|n| 2.0 - n as f64).collect();
                let bias: Vec<f64> = (0..n).map(|n| 0.5 * n as f64).collect();
                let matrix = |turned, rows, columns| match turned {
                    true => DeviceMatrix::turned(0, rows),
                    false => DeviceMatrix::straight(0, columns),
                };
                let (left, right) = (matrix(a_turned, m, k), matrix(b_turned, k, n));
                let of = |x: &[f64], of: DeviceMatrix, i: usize, j: usize| x[i * of.rows + j * of.columns];
                let meant = |i: usize, j: usize| (0..k).map(|p| of(&a, left, i, p) * of(&b, right, p, j)).sum::<f64>();
                let meant: Vec<f64> = (0..m * n).map(|y| bias[y % n] + meant(y / n, y % n)).collect();
                let asked = library(&ProductForm::of(&MatrixProduct::new(left, right, 0, [m, n, k])), &b, &a, &bias);
                assert_eq!(asked, meant, "{m} {n} {k}, {a_turned} {b_turned}");
            }
        }
    }

    #[test]
    fn alignments_are_those_of_the_addresses() {
        let (a, b) = (DeviceMatrix::straight(1 << 20, 8), DeviceMatrix::straight((1 << 20) + 16, 8));
        let product = MatrixProduct::new(a, b, 4100, [8, 8, 8]);
        assert_eq!(ProductForm::of(&product).aligned, [16, 256, 4]);
        let product = MatrixProduct { y: 8192, ..product };
        assert_eq!(ProductForm::of(&product).aligned, [16, 256, 256]);
        assert_eq!(ProductForm::of(&product.biased(Some(8200))).aligned, [16, 256, 8]);
        let apart = ProductDistance { a: 8, b: 0, y: 64, bias: 0 };
        assert_eq!(ProductForm::of(&MatrixProduct { count: 2, apart, ..product }).aligned, [16, 32, 256]);
    }
}
