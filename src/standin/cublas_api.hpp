// cuBLAS and cuBLASLt as far as the stand-in implements them. Their headers come only with the libraries themselves,
// which are large and of no use here.
// Enumerations are passed as int, as the ABI has it; handles and descriptions are ours to define.
#pragma once

#include <cstddef>
#include <cstdint>

#include "standin/cuda_api.hpp"

namespace reprieve::standin {

struct BlasHandle;
struct LtHandle;
struct LtDescription;
struct LtLayout;
struct LtPreference;

// Passed by address only.
struct ComplexFloat;
struct ComplexDouble;

enum BlasStatus : int {
  blas_success = 0,
  blas_not_initialized = 1,
  blas_alloc_failed = 3,
  blas_invalid_value = 7,
  blas_execution_failed = 13,
  blas_not_supported = 15,
};

// As cublasGetVersion() reports it: that of CUDA 13.0's wheels.
inline constexpr int blas_version = 130100;

// cublasLtMatmulAlgo_t, cublasLtMatmulHeuristicResult_t
struct LtAlgorithm {
  std::uint64_t data[8];
};
struct LtHeuristicResult {
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  int state;  // BlasStatus
  float waves;
  int reserved[4];
};

// Those of cublasLtMatmulDescAttributes_t and cublasLtMatrixLayoutAttribute_t that tell how large a product is.
inline constexpr int lt_transpose_a = 3;  // int, a cublasOperation_t
inline constexpr int lt_transpose_b = 4;
inline constexpr int lt_batch_count = 5;   // int
inline constexpr int lt_batch_stride = 6;  // int64_t, in elements

}  // namespace reprieve::standin
