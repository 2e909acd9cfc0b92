#include "standin/variables.hpp"

#include <map>
#include <mutex>
#include <unordered_map>

#include "standin/context.hpp"

namespace reprieve::standin {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t shared_block_bytes = std::size_t{2} << 20;

struct Variable {
  std::size_t bytes = 0;
  std::map<int, std::uint64_t> addresses;  // by device
};

struct Block {
  std::uint64_t next = 0;
  std::size_t left = 0;
};

struct Variables {
  std::mutex mutex;
  std::unordered_map<const void*, Variable> by_symbol;
  std::map<int, Block> blocks;  // by device: where the next variable goes
};

Variables& variables() {
  static auto* const all = new Variables;  // other libraries' destructors still call in
  return *all;
}

simgpu::Code place(Variables& all, int device, std::size_t bytes, std::uint64_t& address) {
  const std::size_t taken = (bytes + alignment - 1) / alignment * alignment;
  Block& block = all.blocks[device];
  if (taken > block.left) {
    const std::size_t fresh = taken > shared_block_bytes ? taken : shared_block_bytes;
    if (const simgpu::Code code = machine()->malloc(device, fresh, block.next); code != simgpu::Code::success) {
      return code;
    }
    block.left = fresh;
    // On the legacy stream, like the copies to and from variables that follow.
    const simgpu::Fill zeros{block.next, 0, 1, fresh, 0, 1};
    if (const simgpu::Code code = machine()->fill(device, zeros, simgpu::legacy_stream);
        code != simgpu::Code::success) {
      return code;
    }
  }
  address = block.next;
  block.next += taken;
  block.left -= taken;
  return simgpu::Code::success;
}

}  // namespace

void register_variable(const void* symbol, const char*, std::size_t bytes) {
  const std::lock_guard lock(variables().mutex);
  variables().by_symbol[symbol].bytes = bytes;
}

void forget_variable(const void* symbol) {
  const std::lock_guard lock(variables().mutex);
  variables().by_symbol.erase(symbol);
}

CUresult variable_address(const void* symbol, int device, std::uint64_t& address, std::size_t& bytes) {
  const std::lock_guard lock(variables().mutex);
  const auto found = variables().by_symbol.find(symbol);
  if (found == variables().by_symbol.end()) return static_cast<CUresult>(cudaErrorInvalidSymbol);
  Variable& variable = found->second;
  bytes = variable.bytes;
  if (const auto placed = variable.addresses.find(device); placed != variable.addresses.end()) {
    address = placed->second;
    return CUDA_SUCCESS;
  }
  const simgpu::Code code = place(variables(), device, bytes, address);
  if (code == simgpu::Code::success) variable.addresses.emplace(device, address);
  return static_cast<CUresult>(code);
}

}  // namespace reprieve::standin
