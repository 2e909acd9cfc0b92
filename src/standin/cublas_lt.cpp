// Stand-in for libcublasLt: one algorithm fits everything and needs no workspace; products are queued (products.hpp).
#include <cstring>

#include "standin/cublas_api.hpp"
#include "standin/products.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace reprieve::standin;

namespace reprieve::standin {

struct LtHandle {};
struct LtPreference {};
struct LtDescription {
  int transpose_a = 0;
  int transpose_b = 0;
};
struct LtLayout {
  int type = 0;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::int64_t leading = 0;
  int batch = 1;
  std::int64_t stride = 0;
};

namespace {

template <typename Value>
int assign(Value& member, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes < sizeof(Value)) return blas_invalid_value;
  std::memcpy(&member, from, sizeof(Value));
  return blas_success;
}

Matrix matrix(const void* at, const LtLayout& layout) {
  return {at,
          static_cast<std::int64_t>(layout.rows),
          static_cast<std::int64_t>(layout.columns),
          layout.leading,
          bytes_of_type(layout.type),
          layout.batch,
          layout.stride};
}

}  // namespace
}  // namespace reprieve::standin

EXPORTED std::size_t cublasLtGetVersion() { return blas_version; }

EXPORTED int cublasLtCreate(LtHandle** out) {
  *out = new LtHandle;
  return blas_success;
}

EXPORTED int cublasLtDestroy(LtHandle* handle) {
  delete handle;
  return blas_success;
}

EXPORTED int cublasLtMatmulDescCreate(LtDescription** out, int /*compute_type*/, int /*scale_type*/) {
  *out = new LtDescription;
  return blas_success;
}

EXPORTED int cublasLtMatmulDescDestroy(LtDescription* description) {
  delete description;
  return blas_success;
}

EXPORTED int cublasLtMatmulDescSetAttribute(LtDescription* description, int attribute, const void* value,
                                            std::size_t bytes) {
  switch (attribute) {
    case lt_transpose_a: return assign(description->transpose_a, value, bytes);
    case lt_transpose_b: return assign(description->transpose_b, value, bytes);
    default: return blas_success;
  }
}

EXPORTED int cublasLtMatrixLayoutCreate(LtLayout** out, int type, std::uint64_t rows, std::uint64_t columns,
                                        std::int64_t leading) {
  *out = new LtLayout{type, rows, columns, leading};
  return blas_success;
}

EXPORTED int cublasLtMatrixLayoutDestroy(LtLayout* layout) {
  delete layout;
  return blas_success;
}

EXPORTED int cublasLtMatrixLayoutSetAttribute(LtLayout* layout, int attribute, const void* value, std::size_t bytes) {
  switch (attribute) {
    case lt_batch_count: return assign(layout->batch, value, bytes);
    case lt_batch_stride: return assign(layout->stride, value, bytes);
    default: return blas_success;
  }
}

EXPORTED int cublasLtMatmulPreferenceCreate(LtPreference** out) {
  *out = new LtPreference;
  return blas_success;
}

EXPORTED int cublasLtMatmulPreferenceDestroy(LtPreference* preference) {
  delete preference;
  return blas_success;
}

EXPORTED int cublasLtMatmulPreferenceSetAttribute(LtPreference* /*preference*/, int /*attribute*/,
                                                  const void* /*value*/, std::size_t /*bytes*/) {
  return blas_success;
}

EXPORTED int cublasLtMatmulAlgoGetHeuristic(LtHandle* /*handle*/, LtDescription* /*description*/, LtLayout* /*a*/,
                                            LtLayout* /*b*/, LtLayout* /*c*/, LtLayout* /*d*/,
                                            LtPreference* /*preference*/, int wanted, LtHeuristicResult* results,
                                            int* found) {
  if (wanted < 1) return blas_invalid_value;
  results[0] = {.algorithm = {}, .workspace_bytes = 0, .state = blas_success, .waves = 1, .reserved = {}};
  *found = 1;
  return blas_success;
}

EXPORTED int cublasLtMatmul(LtHandle* handle, LtDescription* description, const void* /*alpha*/, const void* a,
                            LtLayout* a_layout, const void* b, LtLayout* b_layout, const void* /*beta*/,
                            const void* /*c*/, LtLayout* /*c_layout*/, void* d, LtLayout* d_layout,
                            const LtAlgorithm* /*algorithm*/, void* /*workspace*/, std::size_t /*workspace_bytes*/,
                            cudaStream_t stream) {
  static const auto name = reprieve::simgpu::kernel_id("cublasLtMatmul");
  if (handle == nullptr) return blas_not_initialized;
  const std::uint64_t k = description->transpose_a == 0 ? a_layout->columns : a_layout->rows;
  const Product size{static_cast<std::int64_t>(d_layout->rows), static_cast<std::int64_t>(d_layout->columns),
                     static_cast<std::int64_t>(k), d_layout->batch};
  return queue_product(name, size, matrix(a, *a_layout), matrix(b, *b_layout), matrix(d, *d_layout), stream);
}
