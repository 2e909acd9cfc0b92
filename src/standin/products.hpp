// Matrix products as operations queued on a stream of the simulated machine: they take the time that an H200 needs at
// most of its speed, and leave their outputs as they were.
#pragma once

#include <cstdint>

#include "simgpu/work.hpp"
#include "standin/cublas_api.hpp"

namespace reprieve::standin {

// Where a matrix lies, column by column; `batch` of them, `stride` elements apart.
struct Matrix {
  const void* at = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading = 0;  // elements from one column to the next
  std::uint64_t element_bytes = 0;
  std::int64_t batch = 1;
  std::int64_t stride = 0;
};

// Of op(A) (m x k) times op(B) (k x n), `batch` times.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
};

// Counted as a launch of a kernel called `name`. A product without elements is none. In lazy mode the matrices are
// named to the simulated machine, which then finds products on freed memory and on memory that another stream uses.
BlasStatus queue_product(simgpu::KernelId name, const Product& product, const Matrix& a, const Matrix& b,
                         const Matrix& c, cudaStream_t stream);

// Any other operation of cuBLAS's, that does `flops` on matrices that are not named.
BlasStatus queue_operation(simgpu::KernelId name, double flops, cudaStream_t stream);

// Bytes of an element of a cudaDataType; what takes less than a byte counts as one.
std::uint64_t bytes_of_type(int cuda_data_type);

}  // namespace reprieve::standin
