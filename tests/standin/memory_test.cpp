// Plain, pinned and registered memory, copies and fills, and what a pointer is.
#include <algorithm>
#include <array>
#include <numeric>

#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinMemory : public Standin {
 protected:
  static std::size_t free_bytes() {
    std::size_t now = 0;
    std::size_t total = 0;
    EXPECT_TRUE(ok(cudaMemGetInfo(&now, &total)));
    return now;
  }

  static cudaPointerAttributes attributes(const void* pointer) {
    cudaPointerAttributes out{};
    EXPECT_TRUE(ok(cudaPointerGetAttributes(&out, pointer)));
    return out;
  }
};

TEST_F(StandinMemory, IsTakenFromTheDeviceAndGivenBack) {
  const std::size_t before = free_bytes();
  char* const memory = device_memory<char>(10 * mib);
  EXPECT_EQ(free_bytes(), before - 10 * mib);
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(StandinMemory, NothingIsNoMemory) {
  void* out = this;
  EXPECT_TRUE(ok(cudaMalloc(&out, 0)));
  EXPECT_EQ(out, nullptr);
  EXPECT_TRUE(ok(cudaFree(nullptr)));
  EXPECT_TRUE(ok(cudaFreeHost(nullptr)));
}

TEST_F(StandinMemory, RunsOutAndSaysSo) {
  void* out = this;
  EXPECT_TRUE(fails(cudaMalloc(&out, capacity + 1), cudaErrorMemoryAllocation));
  EXPECT_EQ(out, nullptr);
  EXPECT_TRUE(fails(cudaMalloc(&out, ~std::size_t{0}), cudaErrorMemoryAllocation));
  EXPECT_TRUE(fails(cudaHostAlloc(&out, std::size_t{1} << 50, 0), cudaErrorMemoryAllocation));
}

TEST_F(StandinMemory, OnlyWhatWasAllocatedIsFreed) {
  char* const memory = device_memory<char>(1000);
  char* const pinned = pinned_memory<char>(1000);
  int local = 0;
  EXPECT_TRUE(fails(cudaFree(memory + 8), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaFree(pinned), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaFree(&local), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaFreeHost(memory), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaFreeHost(&local), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(fails(cudaFree(memory), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFreeHost(pinned)));
}

TEST_F(StandinMemory, HostMemoryIsRegisteredOnce) {
  std::vector<char> memory(1 << 16);
  int local = 0;
  EXPECT_TRUE(ok(cudaHostRegister(memory.data(), memory.size(), 0)));
  EXPECT_TRUE(fails(cudaHostRegister(memory.data(), memory.size(), 0), cudaErrorHostMemoryAlreadyRegistered));
  EXPECT_TRUE(fails(cudaHostRegister(memory.data() + 4096, 4096, 0), cudaErrorHostMemoryAlreadyRegistered));
  EXPECT_TRUE(fails(cudaHostUnregister(&local), cudaErrorHostMemoryNotRegistered));
  EXPECT_TRUE(fails(cudaFreeHost(memory.data()), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaHostUnregister(memory.data())));
  EXPECT_TRUE(fails(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered));
  EXPECT_TRUE(fails(cudaHostRegister(nullptr, 100, 0), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaHostRegister(memory.data(), 0, 0), cudaErrorInvalidValue));
}

TEST_F(StandinMemory, APointerIsWhatItIs) {
  int local = 0;
  EXPECT_EQ(attributes(&local).type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes(&local).device, cudaInvalidDeviceId);
  EXPECT_EQ(attributes(&local).hostPointer, &local);
  EXPECT_EQ(attributes(nullptr).type, cudaMemoryTypeUnregistered);

  ASSERT_TRUE(ok(cudaSetDevice(1)));
  char* const memory = device_memory<char>(1000);
  ASSERT_TRUE(ok(cudaSetDevice(0)));
  EXPECT_EQ(attributes(memory + 10).type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes(memory + 10).device, 1);
  EXPECT_EQ(attributes(memory + 10).devicePointer, memory + 10);
  EXPECT_EQ(attributes(memory + 10).hostPointer, nullptr);
  EXPECT_EQ(attributes(memory + 1000).type, cudaMemoryTypeUnregistered);
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_EQ(attributes(memory).type, cudaMemoryTypeUnregistered);

  char* const pinned = pinned_memory<char>(1000);
  EXPECT_EQ(attributes(pinned + 5).type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes(pinned + 5).hostPointer, pinned + 5);
  EXPECT_EQ(attributes(pinned + 5).devicePointer, pinned + 5);
  EXPECT_TRUE(ok(cudaFreeHost(pinned)));

  std::vector<char> registered(1 << 16);
  EXPECT_TRUE(ok(cudaHostRegister(registered.data(), registered.size(), 0)));
  EXPECT_EQ(attributes(registered.data() + 5000).type, cudaMemoryTypeHost);
  EXPECT_TRUE(ok(cudaHostUnregister(registered.data())));
  EXPECT_EQ(attributes(registered.data()).type, cudaMemoryTypeUnregistered);

  void* managed = nullptr;
  EXPECT_TRUE(ok(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal)));
  EXPECT_EQ(attributes(managed).type, cudaMemoryTypeManaged);
  EXPECT_EQ(attributes(managed).hostPointer, managed);
  EXPECT_TRUE(ok(cudaFree(managed)));
}

TEST_F(StandinMemory, CopiesCarryBytesBothWays) {
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  int* const first = device_memory<int>(numbers.size());
  int* const second = device_memory<int>(numbers.size());
  EXPECT_TRUE(ok(cudaMemcpy(first, numbers.data(), numbers.size() * sizeof(int), cudaMemcpyHostToDevice)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(second, first, numbers.size() * sizeof(int), cudaMemcpyDeviceToDevice, nullptr)));
  EXPECT_EQ(read(second, numbers.size()), numbers);
  EXPECT_TRUE(ok(cudaFree(first)));
  EXPECT_TRUE(ok(cudaFree(second)));
}

TEST_F(StandinMemory, CopiesBetweenDevices) {
  int* const here = device_memory<int>(4);
  ASSERT_TRUE(ok(cudaSetDevice(1)));
  int* const there = device_memory<int>(4);
  ASSERT_TRUE(ok(cudaSetDevice(0)));
  const std::vector<int> numbers{1, 2, 3, 4};
  EXPECT_TRUE(ok(cudaMemcpy(here, numbers.data(), 16, cudaMemcpyHostToDevice)));
  EXPECT_TRUE(ok(cudaMemcpyPeerAsync(there, 1, here, 0, 16, nullptr)));
  EXPECT_EQ(read(there, 4), numbers);
  EXPECT_TRUE(fails(cudaMemcpyPeerAsync(there, 9, here, 0, 16, nullptr), cudaErrorInvalidDevice));
  EXPECT_TRUE(ok(cudaFree(here)));
  EXPECT_TRUE(ok(cudaFree(there)));
}

TEST_F(StandinMemory, TheDirectionMustFit) {
  char* const memory = device_memory<char>(mib);
  std::vector<char> host(2 * mib);
  EXPECT_TRUE(fails(cudaMemcpy(host.data(), memory, 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaMemcpy(host.data(), memory, 4, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue));
  EXPECT_TRUE(
      fails(cudaMemcpy(host.data(), memory, 4, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection));
  EXPECT_TRUE(fails(cudaMemcpy(nullptr, memory, 4, cudaMemcpyDefault), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaMemcpy(memory, host.data(), 2 * mib, cudaMemcpyHostToDevice), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(fails(cudaMemcpy(memory, host.data(), 4, cudaMemcpyHostToDevice), cudaErrorInvalidValue));
}

TEST_F(StandinMemory, RowsAreCopiedAndFilledByTheirPitches) {
  char* const memory = device_memory<char>(64);
  EXPECT_TRUE(ok(cudaMemset(memory, 0, 64)));
  EXPECT_TRUE(ok(cudaMemset2DAsync(memory, 16, 7, 4, 3, nullptr)));
  const std::vector<char> filled = read(memory, 64);
  EXPECT_EQ(std::count(filled.begin(), filled.end(), 7), 12);
  EXPECT_EQ(filled[16], 7);
  EXPECT_EQ(filled[4], 0);
  std::array<char, 12> rows{};
  EXPECT_TRUE(ok(cudaMemcpy2DAsync(rows.data(), 4, memory, 16, 4, 3, cudaMemcpyDeviceToHost, nullptr)));
  EXPECT_EQ(std::count(rows.begin(), rows.end(), 7), 12);
  EXPECT_TRUE(fails(cudaMemcpy2DAsync(rows.data(), 4, memory, 16, 6, 2, cudaMemcpyDefault, nullptr),
                    cudaErrorInvalidPitchValue));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinMemory, OnlyKnownMemoryIsFilled) {
  char* const memory = device_memory<char>(100);
  char* const pinned = pinned_memory<char>(100);
  int local = 0;
  EXPECT_TRUE(ok(cudaMemset(pinned, 3, 100)));
  EXPECT_EQ(pinned[99], 3);
  EXPECT_TRUE(fails(cudaMemset(&local, 0, 4), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaMemset(nullptr, 0, 4), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaMemset(memory, 0, 0)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_TRUE(fails(cudaMemset(memory, 0, 4), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFreeHost(pinned)));
}

TEST_F(StandinMemory, FreshMemoryIsPoisoned) {
  unsigned char* const memory = device_memory<unsigned char>(16);
  const std::vector<unsigned char> fresh = read(memory, 16);
  EXPECT_EQ(std::count(fresh.begin(), fresh.end(), 0xa5), 16);
  EXPECT_TRUE(ok(cudaFree(memory)));
}

TEST_F(StandinMemory, FreeWaitsForTheDevice) {
  lazy();
  char* const memory = device_memory<char>(mib);
  char* const kept = pinned_memory<char>(1);
  *kept = 1;
  const cudaStream_t side = stream();
  EXPECT_TRUE(ok(cudaMemsetAsync(memory, 5, mib, side)));
  EXPECT_TRUE(ok(cudaMemcpyAsync(kept, memory, 1, cudaMemcpyDefault, side)));
  EXPECT_TRUE(ok(cudaFree(memory)));
  EXPECT_EQ(*kept, 5);
  EXPECT_EQ(faults(), std::vector<std::string>{});
  EXPECT_TRUE(ok(cudaStreamDestroy(side)));
  EXPECT_TRUE(ok(cudaFreeHost(kept)));
}

TEST_F(StandinMemory, CallsFailWhereATestSaysSo) {
  ASSERT_EQ(reprieve_sim_fail("malloc", 1, 1, 2), 0);
  char* const memory = device_memory<char>(100);
  void* out = nullptr;
  EXPECT_TRUE(fails(cudaMalloc(&out, 100), cudaErrorMemoryAllocation));
  EXPECT_TRUE(ok(cudaMalloc(&out, 100)));
  EXPECT_TRUE(ok(cudaFree(out)));
  EXPECT_TRUE(ok(cudaFree(memory)));
}

}  // namespace
}  // namespace reprieve::standin
