#include "standin/products.hpp"

#include <library_types.h>
#include <algorithm>
#include <utility>

#include "standin/context.hpp"

namespace reprieve::standin {

namespace {

// Half of what one H200 was measured to do with bfloat16 (790 TFLOP/s): few products of a training run do better.
constexpr double flops_a_nanosecond = 400e3;
constexpr double shortest_ns = 2'000;

std::uint64_t bytes_of(const Matrix& matrix) {
  if (matrix.rows <= 0 || matrix.columns <= 0) return 0;
  const std::int64_t one = matrix.leading * (matrix.columns - 1) + matrix.rows;
  const std::int64_t all =
      std::max<std::int64_t>(matrix.stride, 0) * (std::max<std::int64_t>(matrix.batch, 1) - 1) + one;
  return static_cast<std::uint64_t>(all) * matrix.element_bytes;
}

simgpu::Range range_of(const Matrix& matrix) { return {reinterpret_cast<std::uintptr_t>(matrix.at), bytes_of(matrix)}; }

BlasStatus queue(simgpu::Work work, double flops, cudaStream_t stream) {
  if (initialize() != CUDA_SUCCESS) return blas_not_initialized;
  const int current = use_runtime_device();
  if (lasting_error(current) != CUDA_SUCCESS) return blas_execution_failed;
  simgpu::Machine& gpus = *machine();
  const auto id = reinterpret_cast<simgpu::StreamId>(stream);
  const int owner = gpus.stream_device(id);
  work.duration_ns = static_cast<std::uint64_t>(std::max(shortest_ns, flops / flops_a_nanosecond));
  const simgpu::Code code = gpus.launch(owner >= 0 ? owner : current, id, std::move(work));
  return code == simgpu::Code::success ? blas_success : blas_execution_failed;
}

}  // namespace

BlasStatus queue_product(simgpu::KernelId name, const Product& product, const Matrix& a, const Matrix& b,
                         const Matrix& c, cudaStream_t stream) {
  if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0) return blas_invalid_value;
  if (product.m == 0 || product.n == 0 || product.batch == 0) return blas_success;
  simgpu::Work work;
  work.kernel = name;
  // Naming memory makes the simulation commit it, which a rehearsal of a large job could not afford.
  if (initialize() == CUDA_SUCCESS && machine()->mode() == simgpu::Mode::lazy) {
    if (product.k > 0) work.reads = {range_of(a), range_of(b)};
    work.writes = {range_of(c)};
  }
  const double flops = 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
                       static_cast<double>(product.k) * static_cast<double>(product.batch);
  return queue(std::move(work), flops, stream);
}

BlasStatus queue_operation(simgpu::KernelId name, double flops, cudaStream_t stream) {
  simgpu::Work work;
  work.kernel = name;
  return queue(std::move(work), flops, stream);
}

std::uint64_t bytes_of_type(int cuda_data_type) {
  switch (cuda_data_type) {
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    case CUDA_R_32F:
    case CUDA_R_32I:
    case CUDA_R_32U:
    case CUDA_C_16F:
    case CUDA_C_16BF: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 1;
  }
}

}  // namespace reprieve::standin
