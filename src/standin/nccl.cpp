// Stand-in for libnccl: communicators of one rank, as a program has that was started on one GPU. Collectives are copies
// from what is sent to where it is received, queued on the stream. More ranks are refused: nothing connects the
// simulated devices of two processes. NCCL's header comes only with the library; this declares what it needs of it.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "standin/context.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace reprieve::standin;

namespace {

// ncclResult_t
enum Result : int { success = 0, unhandled_cuda_error = 1, invalid_argument = 4, invalid_usage = 5 };

struct UniqueId {
  char bytes[128];
};

struct Communicator {
  int device = 0;
};

constexpr int no_color = -1;

// Of an element of a ncclDataType_t; 0 for one that is none.
std::uint64_t bytes_of_type(int type) {
  constexpr std::uint64_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < 12 ? bytes[type] : 0;
}

int refuse(const char* what) {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  if (!told.test_and_set())
    std::fprintf(stderr, "reprieve stand-in: %s; its NCCL has communicators of one rank only\n", what);
  return invalid_usage;
}

int make(Communicator** out, int ranks, int rank) {
  if (out == nullptr || rank < 0 || rank >= ranks) return invalid_argument;
  if (ranks != 1) return refuse("a communicator of several ranks was asked for");
  *out = new Communicator{runtime_device()};
  return success;
}

// What `count` elements of one rank come to: themselves.
int pass(const void* from, void* to, std::size_t count, int type, Communicator* communicator, cudaStream_t stream) {
  const std::uint64_t bytes = count * bytes_of_type(type);
  if (communicator == nullptr || bytes_of_type(type) == 0) return invalid_argument;
  if (bytes == 0 || from == to) return success;
  if (initialize() != CUDA_SUCCESS) return unhandled_cuda_error;
  reprieve::simgpu::Transfer transfer;
  transfer.to = reinterpret_cast<std::uintptr_t>(to);
  transfer.from = reinterpret_cast<std::uintptr_t>(from);
  transfer.bytes = bytes;
  const auto code = machine()->copy(communicator->device, transfer, reinterpret_cast<std::uintptr_t>(stream),
                                    reprieve::simgpu::CopyCall::queued);
  return code == reprieve::simgpu::Code::success ? success : unhandled_cuda_error;
}

}  // namespace

EXPORTED int ncclGetVersion(int* out) {
  *out = 22809;  // 2.28.9
  return success;
}
EXPORTED const char* ncclGetErrorString(int result) {
  switch (result) {
    case success: return "no error";
    case unhandled_cuda_error: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case invalid_argument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case invalid_usage: return "invalid usage (the stand-in CUDA runtime's NCCL has communicators of one rank only)";
    default: return "unknown result code";
  }
}
EXPORTED const char* ncclGetLastError(Communicator* /*communicator*/) { return ""; }

EXPORTED int ncclGetUniqueId(UniqueId* out) {
  std::memset(out, 0, sizeof *out);
  std::memcpy(out->bytes, "stand-in", 8);
  return success;
}
EXPORTED int ncclCommInitRank(Communicator** out, int ranks, UniqueId /*id*/, int rank) {
  return make(out, ranks, rank);
}
EXPORTED int ncclCommInitRankConfig(Communicator** out, int ranks, UniqueId /*id*/, int rank, void* /*config*/) {
  return make(out, ranks, rank);
}
EXPORTED int ncclCommInitRankScalable(Communicator** out, int ranks, int rank, int /*ids*/, UniqueId* /*id*/,
                                      void* /*config*/) {
  return make(out, ranks, rank);
}
EXPORTED int ncclCommInitAll(Communicator** out, int devices, const int* /*list*/) { return make(out, devices, 0); }
EXPORTED int ncclCommSplit(Communicator* from, int color, int /*key*/, Communicator** out, void* /*config*/) {
  if (from == nullptr || out == nullptr) return invalid_argument;
  *out = color == no_color ? nullptr : new Communicator(*from);
  return success;
}
EXPORTED int ncclCommFinalize(Communicator* /*communicator*/) { return success; }
EXPORTED int ncclCommDestroy(Communicator* communicator) {
  delete communicator;
  return success;
}
EXPORTED int ncclCommAbort(Communicator* communicator) { return ncclCommDestroy(communicator); }
EXPORTED int ncclCommGetAsyncError(Communicator* communicator, int* out) {
  if (communicator == nullptr || out == nullptr) return invalid_argument;
  *out = success;
  return success;
}
EXPORTED int ncclCommCount(const Communicator* communicator, int* out) {
  if (communicator == nullptr || out == nullptr) return invalid_argument;
  *out = 1;
  return success;
}
EXPORTED int ncclCommUserRank(const Communicator* communicator, int* out) {
  if (communicator == nullptr || out == nullptr) return invalid_argument;
  *out = 0;
  return success;
}
EXPORTED int ncclCommCuDevice(const Communicator* communicator, int* out) {
  if (communicator == nullptr || out == nullptr) return invalid_argument;
  *out = communicator->device;
  return success;
}

EXPORTED int ncclGroupStart() { return success; }
EXPORTED int ncclGroupEnd() { return success; }

EXPORTED int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int /*operation*/,
                           Communicator* communicator, cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
EXPORTED int ncclReduce(const void* from, void* to, std::size_t count, int type, int /*operation*/, int /*root*/,
                        Communicator* communicator, cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
EXPORTED int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int /*operation*/,
                               Communicator* communicator, cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
EXPORTED int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int /*root*/,
                           Communicator* communicator, cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
EXPORTED int ncclBcast(void* /*buffer*/, std::size_t /*count*/, int /*type*/, int /*root*/, Communicator* communicator,
                       cudaStream_t /*stream*/) {
  return communicator != nullptr ? success : invalid_argument;
}
EXPORTED int ncclAllGather(const void* from, void* to, std::size_t count, int type, Communicator* communicator,
                           cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
EXPORTED int ncclAlltoAll(const void* from, void* to, std::size_t count, int type, Communicator* communicator,
                          cudaStream_t stream) {
  return pass(from, to, count, type, communicator, stream);
}
