// Stand-in for libcublas: handles keep what is set on them, and products are queued (products.hpp). What torch imports
// beyond this is a generated stub.
#include "standin/cublas_api.hpp"

#include <cstdint>

#include "standin/products.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace reprieve::standin;
using reprieve::simgpu::kernel_id;
using reprieve::simgpu::KernelId;

namespace reprieve::standin {

struct BlasHandle {
  cudaStream_t stream = nullptr;
  int pointer_mode = 0;  // CUBLAS_POINTER_MODE_HOST
  int math_mode = 0;     // CUBLAS_DEFAULT_MATH
  int atomics_mode = 0;  // CUBLAS_ATOMICS_NOT_ALLOWED
};

namespace {

// One product of BLAS, C = op(A) op(B): `a`, `b` and `c` without their shapes, which follow from m, n, k.
BlasStatus product(KernelId name, const BlasHandle* handle, int transpose_a, int transpose_b, const Product& size,
                   Matrix a, Matrix b, Matrix c) {
  if (handle == nullptr) return blas_not_initialized;
  a.rows = transpose_a == 0 ? size.m : size.k;
  a.columns = transpose_a == 0 ? size.k : size.m;
  b.rows = transpose_b == 0 ? size.k : size.n;
  b.columns = transpose_b == 0 ? size.n : size.k;
  c.rows = size.m;
  c.columns = size.n;
  a.batch = b.batch = c.batch = size.batch;
  if (a.leading < a.rows || b.leading < b.rows || c.leading < c.rows) return blas_invalid_value;
  return queue_product(name, size, a, b, c, handle->stream);
}

BlasStatus operation(KernelId name, const BlasHandle* handle, double flops) {
  return handle == nullptr ? blas_not_initialized : queue_operation(name, flops, handle->stream);
}

}  // namespace
}  // namespace reprieve::standin

EXPORTED int cublasCreate_v2(BlasHandle** out) {
  if (out == nullptr) return blas_invalid_value;
  *out = new BlasHandle;
  return blas_success;
}

EXPORTED int cublasDestroy_v2(BlasHandle* handle) {
  delete handle;
  return blas_success;
}

EXPORTED int cublasGetVersion_v2(BlasHandle* /*handle*/, int* out) {
  *out = blas_version;
  return blas_success;
}

EXPORTED int cublasSetStream_v2(BlasHandle* handle, cudaStream_t stream) {
  if (handle == nullptr) return blas_not_initialized;
  handle->stream = stream;
  return blas_success;
}

EXPORTED int cublasGetStream_v2(BlasHandle* handle, cudaStream_t* out) {
  if (handle == nullptr) return blas_not_initialized;
  *out = handle->stream;
  return blas_success;
}

EXPORTED int cublasSetWorkspace_v2(BlasHandle* handle, void* /*workspace*/, std::size_t /*bytes*/) {
  return handle == nullptr ? blas_not_initialized : blas_success;
}

#define SETTING(Name, member)                                   \
  EXPORTED int cublasSet##Name(BlasHandle* handle, int value) { \
    if (handle == nullptr) return blas_not_initialized;         \
    handle->member = value;                                     \
    return blas_success;                                        \
  }                                                             \
  EXPORTED int cublasGet##Name(BlasHandle* handle, int* out) {  \
    if (handle == nullptr) return blas_not_initialized;         \
    *out = handle->member;                                      \
    return blas_success;                                        \
  }

SETTING(PointerMode_v2, pointer_mode)
SETTING(MathMode, math_mode)
SETTING(AtomicsMode, atomics_mode)

EXPORTED const char* cublasGetStatusName(int status) {
  switch (status) {
    case blas_success: return "CUBLAS_STATUS_SUCCESS";
    case blas_not_initialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case blas_alloc_failed: return "CUBLAS_STATUS_ALLOC_FAILED";
    case blas_invalid_value: return "CUBLAS_STATUS_INVALID_VALUE";
    case blas_execution_failed: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case blas_not_supported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

EXPORTED const char* cublasGetStatusString(int status) { return cublasGetStatusName(status); }

// NOLINTBEGIN(bugprone-macro-parentheses): the arguments are types and parts of names
// gemm, gemmStridedBatched, gemv and trsm of one letter of BLAS.
#define PRODUCTS_OF(Letter, Scalar, element_bytes)                                                                   \
  EXPORTED int cublas##Letter##gemm_v2(BlasHandle* handle, int transpose_a, int transpose_b, int m, int n, int k,    \
                                       const Scalar* /*alpha*/, const Scalar* a, int lda, const Scalar* b, int ldb,  \
                                       const Scalar* /*beta*/, Scalar* c, int ldc) {                                 \
    static const KernelId name = kernel_id("cublas" #Letter "gemm_v2");                                              \
    return product(name, handle, transpose_a, transpose_b, {m, n, k}, {a, 0, 0, lda, element_bytes},                 \
                   {b, 0, 0, ldb, element_bytes}, {c, 0, 0, ldc, element_bytes});                                    \
  }                                                                                                                  \
  EXPORTED int cublas##Letter##gemmStridedBatched(                                                                   \
      BlasHandle* handle, int transpose_a, int transpose_b, int m, int n, int k, const Scalar* /*alpha*/,            \
      const Scalar* a, int lda, long long stride_a, const Scalar* b, int ldb, long long stride_b,                    \
      const Scalar* /*beta*/, Scalar* c, int ldc, long long stride_c, int batch) {                                   \
    static const KernelId name = kernel_id("cublas" #Letter "gemmStridedBatched");                                   \
    return product(name, handle, transpose_a, transpose_b, {m, n, k, batch},                                         \
                   {a, 0, 0, lda, element_bytes, 1, stride_a}, {b, 0, 0, ldb, element_bytes, 1, stride_b},           \
                   {c, 0, 0, ldc, element_bytes, 1, stride_c});                                                      \
  }                                                                                                                  \
  EXPORTED int cublas##Letter##gemv_v2(BlasHandle* handle, int /*transpose*/, int m, int n, const Scalar* /*alpha*/, \
                                       const Scalar* /*a*/, int /*lda*/, const Scalar* /*x*/, int /*incx*/,          \
                                       const Scalar* /*beta*/, Scalar* /*y*/, int /*incy*/) {                        \
    static const KernelId name = kernel_id("cublas" #Letter "gemv_v2");                                              \
    return operation(name, handle, 2.0 * m * n);                                                                     \
  }                                                                                                                  \
  EXPORTED int cublas##Letter##trsm_v2(BlasHandle* handle, int side, int /*uplo*/, int /*transpose*/,                \
                                       int /*diagonal*/, int m, int n, const Scalar* /*alpha*/, const Scalar* /*a*/, \
                                       int /*lda*/, Scalar* /*b*/, int /*ldb*/) {                                    \
    static const KernelId name = kernel_id("cublas" #Letter "trsm_v2");                                              \
    return operation(name, handle, 1.0 * m * n * (side == 0 ? m : n));                                               \
  }

PRODUCTS_OF(S, float, 4)
PRODUCTS_OF(D, double, 8)
PRODUCTS_OF(C, ComplexFloat, 8)
PRODUCTS_OF(Z, ComplexDouble, 16)

#define DOT_OF(Name, Scalar)                                                                                   \
  EXPORTED int cublas##Name(BlasHandle* handle, int n, const Scalar* /*x*/, int /*incx*/, const Scalar* /*y*/, \
                            int /*incy*/, Scalar* /*result*/) {                                                \
    static const KernelId name = kernel_id("cublas" #Name);                                                    \
    return operation(name, handle, 2.0 * n);                                                                   \
  }
// NOLINTEND(bugprone-macro-parentheses)

DOT_OF(Sdot_v2, float)
DOT_OF(Ddot_v2, double)
DOT_OF(Cdotu_v2, ComplexFloat)
DOT_OF(Cdotc_v2, ComplexFloat)
DOT_OF(Zdotu_v2, ComplexDouble)
DOT_OF(Zdotc_v2, ComplexDouble)

EXPORTED int cublasDotEx(BlasHandle* handle, int n, const void* /*x*/, int /*x_type*/, int /*incx*/, const void* /*y*/,
                         int /*y_type*/, int /*incy*/, void* /*result*/, int /*result_type*/, int /*execution_type*/) {
  static const KernelId name = kernel_id("cublasDotEx");
  return operation(name, handle, 2.0 * n);
}

EXPORTED int cublasSgemmEx(BlasHandle* handle, int transpose_a, int transpose_b, int m, int n, int k,
                           const float* /*alpha*/, const void* a, int a_type, int lda, const void* b, int b_type,
                           int ldb, const float* /*beta*/, void* c, int c_type, int ldc) {
  static const KernelId name = kernel_id("cublasSgemmEx");
  return product(name, handle, transpose_a, transpose_b, {m, n, k}, {a, 0, 0, lda, bytes_of_type(a_type)},
                 {b, 0, 0, ldb, bytes_of_type(b_type)}, {c, 0, 0, ldc, bytes_of_type(c_type)});
}

EXPORTED int cublasGemmEx(BlasHandle* handle, int transpose_a, int transpose_b, int m, int n, int k,
                          const void* /*alpha*/, const void* a, int a_type, int lda, const void* b, int b_type, int ldb,
                          const void* /*beta*/, void* c, int c_type, int ldc, int /*compute_type*/, int /*algorithm*/) {
  static const KernelId name = kernel_id("cublasGemmEx");
  return product(name, handle, transpose_a, transpose_b, {m, n, k}, {a, 0, 0, lda, bytes_of_type(a_type)},
                 {b, 0, 0, ldb, bytes_of_type(b_type)}, {c, 0, 0, ldc, bytes_of_type(c_type)});
}

EXPORTED int cublasGemmStridedBatchedEx(BlasHandle* handle, int transpose_a, int transpose_b, int m, int n, int k,
                                        const void* /*alpha*/, const void* a, int a_type, int lda, long long stride_a,
                                        const void* b, int b_type, int ldb, long long stride_b, const void* /*beta*/,
                                        void* c, int c_type, int ldc, long long stride_c, int batch,
                                        int /*compute_type*/, int /*algorithm*/) {
  static const KernelId name = kernel_id("cublasGemmStridedBatchedEx");
  return product(name, handle, transpose_a, transpose_b, {m, n, k, batch},
                 {a, 0, 0, lda, bytes_of_type(a_type), 1, stride_a}, {b, 0, 0, ldb, bytes_of_type(b_type), 1, stride_b},
                 {c, 0, 0, ldc, bytes_of_type(c_type), 1, stride_c});
}
