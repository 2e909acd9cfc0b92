// Launching a kernel: what a GPU would refuse, and how long it is taken to run.
#include <algorithm>
#include <array>
#include <utility>

#include "standin/context.hpp"
#include "standin/kernels.hpp"
#include "standin/properties.hpp"

namespace reprieve::standin {
namespace {

constexpr int warp = 32;
constexpr int most_threads_a_block = 1024;
constexpr int most_threads_a_multiprocessor = 2048;
constexpr int most_blocks_a_multiprocessor = 32;
constexpr int reserved_shared_bytes = 1 << 10;  // a block, for the system
constexpr int most_shared_bytes = 227 << 10;    // a block
constexpr int shared_bytes_a_multiprocessor = 228 << 10;

// Not measured: a kernel is taken to start in 2 us and to move 16 bytes a thread at 4 TB/s.
constexpr std::uint64_t start_ns = 2'000;
constexpr std::uint64_t threads_a_ns = 250;

std::uint64_t threads_of(const dim3& shape) { return std::uint64_t{shape.x} * shape.y * shape.z; }

std::uint64_t duration_ns(const Launch& launch) {
  return start_ns + threads_of(launch.grid) * threads_of(launch.block) / threads_a_ns;
}

bool is_possible(const dim3& grid, const dim3& block) {
  if (threads_of(grid) == 0 || threads_of(block) == 0) return false;
  return block.x <= 1024 && block.y <= 1024 && block.z <= 64 && threads_of(block) <= most_threads_a_block &&
         grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535;
}

// What the multiprocessor can set aside as shared memory, in KiB; the rest is its L1 cache.
constexpr std::array<int, 10> shared_kib{0, 8, 16, 32, 64, 100, 132, 164, 196, 228};

int shared_bytes_set_aside(const Kernel& kernel, int bytes_a_block) {
  const int percent = kernel.carveout_percent.load();
  if (percent < 0) return shared_bytes_a_multiprocessor;
  const int wanted = std::max(shared_bytes_a_multiprocessor / 100 * percent, bytes_a_block);
  const auto* const found =
      std::find_if(shared_kib.begin(), shared_kib.end(), [wanted](int kib) { return kib << 10 >= wanted; });
  return found != shared_kib.end() ? *found << 10 : shared_bytes_a_multiprocessor;
}

CUresult check(Kernel& kernel, const Launch& launch) {
  if (!is_possible(launch.grid, launch.block)) return CUDA_ERROR_INVALID_VALUE;
  if (launch.shared_bytes > static_cast<std::size_t>(kernel.dynamic_shared_limit.load())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!launch.cooperative) return CUDA_SUCCESS;
  int blocks = 0;
  const CUresult result =
      most_active_blocks(kernel, static_cast<int>(threads_of(launch.block)), launch.shared_bytes, blocks);
  if (result != CUDA_SUCCESS) return result;
  const auto multiprocessors =
      static_cast<std::uint64_t>(device_attribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).value_or(1));
  const bool fits = threads_of(launch.grid) <= static_cast<std::uint64_t>(blocks) * multiprocessors;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
}

// Queues it on the device that is current, which must be the stream's.
CUresult queue(simgpu::Work work, simgpu::StreamId stream, int device) {
  const int own = machine()->stream_device(stream);
  if (own >= 0 && own != device) return CUDA_ERROR_INVALID_HANDLE;
  const simgpu::Code code = machine()->launch(device, stream, std::move(work));
  if (code != simgpu::Code::illegal_address) return static_cast<CUresult>(code);
  spoil(device, CUDA_ERROR_ILLEGAL_ADDRESS);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult launch(Kernel& kernel, const Launch& launch, void** arguments, int current_device) {
  if (const CUresult result = check(kernel, launch); result != CUDA_SUCCESS) return result;
  simgpu::Work work;
  work.duration_ns = duration_ns(launch);
  const KernelEffect* const effect = kernel.effect();
  if (effect != nullptr && arguments != nullptr) effect->describe(arguments, launch.grid.y, work);
  work.kernel = kernel.id();
  return queue(std::move(work), launch.stream, current_device);
}

CUresult most_active_blocks(Kernel& kernel, int threads, std::size_t shared_bytes, int& out) {
  if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  out = 0;
  if (threads > most_threads_a_block || shared_bytes > most_shared_bytes) return CUDA_SUCCESS;
  const int rounded_threads = (threads + warp - 1) / warp * warp;
  const int bytes = static_cast<int>(shared_bytes) + reserved_shared_bytes;
  out = std::min({most_blocks_a_multiprocessor, most_threads_a_multiprocessor / rounded_threads,
                  shared_bytes_set_aside(kernel, bytes) / bytes});
  return CUDA_SUCCESS;
}

void best_block_size(int& threads, int& blocks) {
  threads = most_threads_a_block;
  blocks = most_threads_a_multiprocessor / most_threads_a_block *
           device_attribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).value_or(1);
}

CUresult set_function_attribute(Kernel& kernel, CUfunction_attribute which, int value) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      if (value < 0 || value > most_shared_bytes) return CUDA_ERROR_INVALID_VALUE;
      kernel.dynamic_shared_limit.store(value);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      kernel.carveout_percent.store(value);
      return CUDA_SUCCESS;
    // Clusters are only a shape of the launch, and the simulation knows no shapes.
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult function_attribute(Kernel& kernel, CUfunction_attribute which, int& out) {
  constexpr int registers = 32;  // of a thread: not read from the device code
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: out = most_threads_a_block; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: out = registers; return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      out = device_attribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR).value_or(0) * 10 +
            device_attribute(0, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR).value_or(0);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: out = kernel.dynamic_shared_limit.load(); return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: out = kernel.carveout_percent.load(); return CUDA_SUCCESS;
    default: break;
  }
  if (which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
  out = 0;  // static shared, constant and local memory, clusters
  return CUDA_SUCCESS;
}

}  // namespace reprieve::standin
