//! cuSPARSE, by its definition and without kernels: the host reads the operands of a function from memory of the device, computes in 64 bits, rounds
//! results to their type once, and writes them. Each access is checked as those of a copy are, and numbers that are used must be defined. The work
//! runs in the stream of the handle, or becomes a node of a captured graph.
//!
//! `descriptors.rs`, `products.rs`, `triangular.rs`, `sparse_products.rs`, `conversions.rs` and `older.rs` have the functions that are served,
//! `call.rs` what each does around its body, `objects.rs` what a program has made, `matrix.rs` the forms of matrices, `memory.rs` arrays and the types
//! of their elements, and `algebra.rs` what is computed.

mod algebra;
mod call;
mod conversions;
mod descriptors;
mod matrix;
mod memory;
mod objects;
mod older;
mod products;
mod sparse_products;
mod triangular;

use std::ffi::c_int;

use super::answer::{self, unserved};
use crate::status::Status;

/// A status of cuSPARSE (`cusparseStatus_t`) other than success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure(c_int);

impl Failure {
    const NOT_INITIALIZED: Self = Self(1);
    const ALLOC_FAILED: Self = Self(2);
    const INVALID_VALUE: Self = Self(3);
    const EXECUTION_FAILED: Self = Self(6);
    const MATRIX_TYPE_NOT_SUPPORTED: Self = Self(8);
    const ZERO_PIVOT: Self = Self(9);
    const NOT_SUPPORTED: Self = Self(10);
}

impl answer::Failure for Failure {
    const INTERNAL_ERROR: Self = Self(7);
    const NOT_SUPPORTED: Self = Self::NOT_SUPPORTED;

    fn code(self) -> c_int {
        self.0
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status {
            Status::INVALID_VALUE => Self::INVALID_VALUE,
            Status::OUT_OF_MEMORY => Self::ALLOC_FAILED,
            Status::NOT_INITIALIZED | Status::NO_DEVICE => Self::NOT_INITIALIZED,
            Status::NOT_SUPPORTED => Self::NOT_SUPPORTED,
            _ => Self::EXECUTION_FAILED,
        }
    }
}

type Answer = Result<(), Failure>;

/// The functions that are served.
pub(super) fn served() -> impl Iterator<Item = &'static &'static str> {
    let of_files = [descriptors::NAMES, conversions::NAMES, products::NAMES, sparse_products::NAMES];
    let of_files = of_files.into_iter().chain([triangular::NAMES, older::NAMES]);
    of_files.flatten().flat_map(|names| names.iter())
}

/// What works instead.
const REMEDY: &str = "of cuSPARSE, the generic functions for vectors and for CSR, CSC and COO matrices are served, conversions between these, \
    sums, incomplete factorizations of CSR matrices and tridiagonal systems; convert other formats to CSR, or compute this by kernels of the program";

#[rustfmt::skip]
unserved! { UNSERVED Failure, REMEDY;
    cusparseBlockedEllGet cusparseBsrSetStridedBatch cusparseCaxpyi cusparseCbsr2csr cusparseCbsric02 cusparseCbsric02_analysis
    cusparseCbsric02_bufferSize cusparseCbsrilu02 cusparseCbsrilu02_analysis cusparseCbsrilu02_bufferSize cusparseCbsrilu02_numericBoost
    cusparseCbsrmm cusparseCbsrmv cusparseCbsrsm2_analysis cusparseCbsrsm2_bufferSize cusparseCbsrsm2_solve cusparseCbsrsv2_analysis
    cusparseCbsrsv2_bufferSize cusparseCbsrsv2_solve cusparseCbsrxmv cusparseCcsc2dense cusparseCcsr2bsr cusparseCcsr2csr_compress cusparseCcsr2csru
    cusparseCcsr2dense cusparseCcsr2gebsr cusparseCcsr2gebsr_bufferSize cusparseCcsrcolor cusparseCcsrgemm2 cusparseCcsrgemm2_bufferSizeExt
    cusparseCcsrsm2_analysis cusparseCcsrsm2_bufferSizeExt cusparseCcsrsm2_solve cusparseCcsrsv2_analysis cusparseCcsrsv2_bufferSize
    cusparseCcsrsv2_solve cusparseCcsru2csr cusparseCcsru2csr_bufferSizeExt cusparseCdense2csc cusparseCdense2csr cusparseCgebsr2csr
    cusparseCgebsr2gebsc cusparseCgebsr2gebsc_bufferSize cusparseCgebsr2gebsr cusparseCgebsr2gebsr_bufferSize cusparseCgemmi cusparseCgemvi
    cusparseCgemvi_bufferSize cusparseCgpsvInterleavedBatch cusparseCgpsvInterleavedBatch_bufferSizeExt cusparseCgthr cusparseCgthrz
    cusparseCgtsvInterleavedBatch cusparseCgtsvInterleavedBatch_bufferSizeExt cusparseCnnz_compress cusparseConstBlockedEllGet cusparseConstrainedGeMM
    cusparseConstrainedGeMM_bufferSize cusparseCooAoSGet cusparseCreateBlockedEll cusparseCreateBsr cusparseCreateBsric02Info
    cusparseCreateBsrilu02Info cusparseCreateBsrsm2Info cusparseCreateBsrsv2Info cusparseCreateColorInfo cusparseCreateConstBlockedEll
    cusparseCreateConstBsr cusparseCreateConstSlicedEll cusparseCreateCooAoS cusparseCreateCsrgemm2Info cusparseCreateCsrsm2Info
    cusparseCreateCsrsv2Info cusparseCreateCsru2csrInfo cusparseCreatePruneInfo cusparseCreateSlicedEll cusparseCsctr cusparseCsrmvEx
    cusparseCsrmvEx_bufferSize cusparseDaxpyi cusparseDbsr2csr cusparseDbsric02 cusparseDbsric02_analysis cusparseDbsric02_bufferSize
    cusparseDbsrilu02 cusparseDbsrilu02_analysis cusparseDbsrilu02_bufferSize cusparseDbsrilu02_numericBoost cusparseDbsrmm cusparseDbsrmv
    cusparseDbsrsm2_analysis cusparseDbsrsm2_bufferSize cusparseDbsrsm2_solve cusparseDbsrsv2_analysis cusparseDbsrsv2_bufferSize
    cusparseDbsrsv2_solve cusparseDbsrxmv cusparseDcsc2dense cusparseDcsr2bsr cusparseDcsr2csr_compress cusparseDcsr2csru cusparseDcsr2dense
    cusparseDcsr2gebsr cusparseDcsr2gebsr_bufferSize cusparseDcsrcolor cusparseDcsrgemm2 cusparseDcsrgemm2_bufferSizeExt cusparseDcsrsm2_analysis
    cusparseDcsrsm2_bufferSizeExt cusparseDcsrsm2_solve cusparseDcsrsv2_analysis cusparseDcsrsv2_bufferSize cusparseDcsrsv2_solve cusparseDcsru2csr
    cusparseDcsru2csr_bufferSizeExt cusparseDdense2csc cusparseDdense2csr cusparseDestroyBsric02Info cusparseDestroyBsrilu02Info
    cusparseDestroyBsrsm2Info cusparseDestroyBsrsv2Info cusparseDestroyColorInfo cusparseDestroyCsrgemm2Info cusparseDestroyCsrsm2Info
    cusparseDestroyCsrsv2Info cusparseDestroyCsru2csrInfo cusparseDestroyPruneInfo cusparseDgebsr2csr cusparseDgebsr2gebsc
    cusparseDgebsr2gebsc_bufferSize cusparseDgebsr2gebsr cusparseDgebsr2gebsr_bufferSize cusparseDgemmi cusparseDgemvi cusparseDgemvi_bufferSize
    cusparseDgpsvInterleavedBatch cusparseDgpsvInterleavedBatch_bufferSizeExt cusparseDgthr cusparseDgthrz cusparseDgtsvInterleavedBatch
    cusparseDgtsvInterleavedBatch_bufferSizeExt cusparseDnnz_compress cusparseDpruneCsr2csr cusparseDpruneCsr2csrByPercentage
    cusparseDpruneCsr2csrByPercentage_bufferSizeExt cusparseDpruneCsr2csrNnz cusparseDpruneCsr2csrNnzByPercentage cusparseDpruneCsr2csr_bufferSizeExt
    cusparseDpruneDense2csr cusparseDpruneDense2csrByPercentage cusparseDpruneDense2csrByPercentage_bufferSizeExt cusparseDpruneDense2csrNnz
    cusparseDpruneDense2csrNnzByPercentage cusparseDpruneDense2csr_bufferSizeExt cusparseDroti cusparseDsctr cusparseHpruneCsr2csr
    cusparseHpruneCsr2csrByPercentage cusparseHpruneCsr2csrByPercentage_bufferSizeExt cusparseHpruneCsr2csrNnz cusparseHpruneCsr2csrNnzByPercentage
    cusparseHpruneCsr2csr_bufferSizeExt cusparseHpruneDense2csr cusparseHpruneDense2csrByPercentage cusparseHpruneDense2csrByPercentage_bufferSizeExt
    cusparseHpruneDense2csrNnz cusparseHpruneDense2csrNnzByPercentage cusparseHpruneDense2csr_bufferSizeExt cusparseSaxpyi cusparseSbsr2csr
    cusparseSbsric02 cusparseSbsric02_analysis cusparseSbsric02_bufferSize cusparseSbsrilu02 cusparseSbsrilu02_analysis cusparseSbsrilu02_bufferSize
    cusparseSbsrilu02_numericBoost cusparseSbsrmm cusparseSbsrmv cusparseSbsrsm2_analysis cusparseSbsrsm2_bufferSize cusparseSbsrsm2_solve
    cusparseSbsrsv2_analysis cusparseSbsrsv2_bufferSize cusparseSbsrsv2_solve cusparseSbsrxmv cusparseScsc2dense cusparseScsr2bsr
    cusparseScsr2csr_compress cusparseScsr2csru cusparseScsr2dense cusparseScsr2gebsr cusparseScsr2gebsr_bufferSize cusparseScsrcolor
    cusparseScsrgemm2 cusparseScsrgemm2_bufferSizeExt cusparseScsrsm2_analysis cusparseScsrsm2_bufferSizeExt cusparseScsrsm2_solve
    cusparseScsrsv2_analysis cusparseScsrsv2_bufferSize cusparseScsrsv2_solve cusparseScsru2csr cusparseScsru2csr_bufferSizeExt cusparseSdense2csc
    cusparseSdense2csr cusparseSgebsr2csr cusparseSgebsr2gebsc cusparseSgebsr2gebsc_bufferSize cusparseSgebsr2gebsr cusparseSgebsr2gebsr_bufferSize
    cusparseSgemmi cusparseSgemvi cusparseSgemvi_bufferSize cusparseSgpsvInterleavedBatch cusparseSgpsvInterleavedBatch_bufferSizeExt cusparseSgthr
    cusparseSgthrz cusparseSgtsvInterleavedBatch cusparseSgtsvInterleavedBatch_bufferSizeExt cusparseSnnz_compress cusparseSpGEAM
    cusparseSpGEAM_bufferSize cusparseSpGEAM_createDescr cusparseSpGEAM_destroyDescr cusparseSpGEAM_nnz cusparseSpMMOp cusparseSpMMOp_createPlan
    cusparseSpMMOp_destroyPlan cusparseSpMVDescrGetParam cusparseSpMVDescrSetParam cusparseSpMVGeneric cusparseSpMVGeneric_bufferSize
    cusparseSpMVGeneric_preprocess cusparseSpMVOp cusparseSpMVOp_bufferSize cusparseSpMVOp_createDescr cusparseSpMVOp_createPlan
    cusparseSpMVOp_destroyDescr cusparseSpMVOp_destroyPlan cusparseSpMVOp_setGlobalUserData cusparseSpMV_createDescr cusparseSpMV_destroyDescr
    cusparseSpMatConvert cusparseSpMatConvertDescrCreate cusparseSpMatConvertDescrDestroy cusparseSpMatConvert_analysis
    cusparseSpMatConvert_bufferSize cusparseSpMatGetPointers cusparseSpMatGetSizes cusparseSpMatSetPointers cusparseSpMatSetStridedBatch
    cusparseSpruneCsr2csr cusparseSpruneCsr2csrByPercentage cusparseSpruneCsr2csrByPercentage_bufferSizeExt cusparseSpruneCsr2csrNnz
    cusparseSpruneCsr2csrNnzByPercentage cusparseSpruneCsr2csr_bufferSizeExt cusparseSpruneDense2csr cusparseSpruneDense2csrByPercentage
    cusparseSpruneDense2csrByPercentage_bufferSizeExt cusparseSpruneDense2csrNnz cusparseSpruneDense2csrNnzByPercentage
    cusparseSpruneDense2csr_bufferSizeExt cusparseSroti cusparseSsctr cusparseXbsric02_zeroPivot cusparseXbsrilu02_zeroPivot cusparseXbsrsm2_zeroPivot
    cusparseXbsrsv2_zeroPivot cusparseXcsr2bsrNnz cusparseXcsr2gebsrNnz cusparseXcsrgemm2Nnz cusparseXcsrsm2_zeroPivot cusparseXcsrsv2_zeroPivot
    cusparseXgebsr2gebsrNnz cusparseZaxpyi cusparseZbsr2csr cusparseZbsric02 cusparseZbsric02_analysis cusparseZbsric02_bufferSize cusparseZbsrilu02
    cusparseZbsrilu02_analysis cusparseZbsrilu02_bufferSize cusparseZbsrilu02_numericBoost cusparseZbsrmm cusparseZbsrmv cusparseZbsrsm2_analysis
    cusparseZbsrsm2_bufferSize cusparseZbsrsm2_solve cusparseZbsrsv2_analysis cusparseZbsrsv2_bufferSize cusparseZbsrsv2_solve cusparseZbsrxmv
    cusparseZcsc2dense cusparseZcsr2bsr cusparseZcsr2csr_compress cusparseZcsr2csru cusparseZcsr2dense cusparseZcsr2gebsr
    cusparseZcsr2gebsr_bufferSize cusparseZcsrcolor cusparseZcsrgemm2 cusparseZcsrgemm2_bufferSizeExt cusparseZcsrsm2_analysis
    cusparseZcsrsm2_bufferSizeExt cusparseZcsrsm2_solve cusparseZcsrsv2_analysis cusparseZcsrsv2_bufferSize cusparseZcsrsv2_solve cusparseZcsru2csr
    cusparseZcsru2csr_bufferSizeExt cusparseZdense2csc cusparseZdense2csr cusparseZgebsr2csr cusparseZgebsr2gebsc cusparseZgebsr2gebsc_bufferSize
    cusparseZgebsr2gebsr cusparseZgebsr2gebsr_bufferSize cusparseZgemmi cusparseZgemvi cusparseZgemvi_bufferSize cusparseZgpsvInterleavedBatch
    cusparseZgpsvInterleavedBatch_bufferSizeExt cusparseZgthr cusparseZgthrz cusparseZgtsvInterleavedBatch cusparseZgtsvInterleavedBatch_bufferSizeExt
    cusparseZnnz_compress cusparseZsctr
}
