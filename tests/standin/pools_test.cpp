// Memory in stream order.
#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

class StandinPools : public Standin {
 protected:
  void SetUp() override {
    Standin::SetUp();
    ASSERT_TRUE(ok(cudaDeviceGetDefaultMemPool(&pool_, 0)));
    ASSERT_TRUE(ok(cudaMemPoolTrimTo(pool_, 0)));
  }

  std::uint64_t attribute(cudaMemPoolAttr which) const {
    std::uint64_t out = 0;
    EXPECT_TRUE(ok(cudaMemPoolGetAttribute(pool_, which, &out)));
    return out;
  }
  std::uint64_t used() const { return attribute(cudaMemPoolAttrUsedMemCurrent); }
  std::uint64_t reserved() const { return attribute(cudaMemPoolAttrReservedMemCurrent); }

  cudaMemPool_t pool_ = nullptr;
};

TEST_F(StandinPools, CountWhatIsUsedAndReserveWholeSegments) {
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_TRUE(ok(cudaMallocAsync(&first, 100, nullptr)));
  EXPECT_TRUE(ok(cudaMallocAsync(&second, 3 * mib, nullptr)));
  EXPECT_EQ(used(), 100 + 3 * mib);
  EXPECT_EQ(reserved(), 32 * mib);
  EXPECT_TRUE(ok(cudaFreeAsync(second, nullptr)));
  EXPECT_EQ(used(), 100U);
  EXPECT_TRUE(ok(cudaFree(first)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(StandinPools, KeepWhatTheThresholdSays) {
  std::uint64_t threshold = ~std::uint64_t{0};
  EXPECT_TRUE(ok(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold)));
  void* memory = nullptr;
  EXPECT_TRUE(ok(cudaMallocAsync(&memory, 100 * mib, nullptr)));
  EXPECT_TRUE(ok(cudaFreeAsync(memory, nullptr)));
  EXPECT_TRUE(ok(cudaDeviceSynchronize()));
  EXPECT_GE(reserved(), 100 * mib);
  EXPECT_TRUE(ok(cudaMemPoolTrimTo(pool_, 0)));
  EXPECT_EQ(reserved(), 0U);
  threshold = 0;
  EXPECT_TRUE(ok(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold)));
}

TEST_F(StandinPools, RefuseWhatIsNotTheirs) {
  int local = 0;
  void* memory = nullptr;
  EXPECT_TRUE(ok(cudaMallocAsync(&memory, 3 * mib, nullptr)));
  EXPECT_TRUE(fails(cudaFreeAsync(&local, nullptr), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaFreeAsync(static_cast<char*>(memory) + 512, nullptr), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFreeAsync(memory, nullptr)));
  EXPECT_TRUE(fails(cudaFreeAsync(memory, nullptr), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cudaFreeAsync(nullptr, nullptr)));
  std::uint64_t value = 1;
  EXPECT_TRUE(fails(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &value), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemCurrent, &value), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaMemPoolDestroy(pool_), cudaErrorInvalidValue));
  EXPECT_TRUE(fails(cudaDeviceGetDefaultMemPool(&pool_, 9), cudaErrorInvalidDevice));
}

TEST_F(StandinPools, ShareTheDeviceWithPlainMemory) {
  void* plain = nullptr;
  void* pooled = nullptr;
  EXPECT_TRUE(ok(cudaMalloc(&plain, 200 * mib)));
  EXPECT_TRUE(fails(cudaMallocAsync(&pooled, 100 * mib, nullptr), cudaErrorMemoryAllocation));
  EXPECT_EQ(pooled, nullptr);
  EXPECT_TRUE(ok(cudaFree(plain)));
  EXPECT_TRUE(ok(cudaMallocAsync(&pooled, 100 * mib, nullptr)));
  EXPECT_TRUE(ok(cudaFreeAsync(pooled, nullptr)));
}

TEST_F(StandinPools, AreMadeAndDestroyed) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  cudaMemPool_t own = nullptr;
  void* memory = nullptr;
  ASSERT_TRUE(ok(cudaMemPoolCreate(&own, &properties)));
  EXPECT_TRUE(ok(cudaMallocFromPoolAsync(&memory, 1000, own, nullptr)));
  EXPECT_EQ(used(), 0U);
  EXPECT_TRUE(ok(cudaMemPoolDestroy(own)));
  EXPECT_TRUE(ok(cudaMemset(memory, 1, 1000)));
  EXPECT_TRUE(ok(cudaFreeAsync(memory, nullptr)));
}

TEST_F(StandinPools, AccessIsGrantedButNotTakenFromTheOwner) {
  cudaMemAccessDesc access{{cudaMemLocationTypeDevice, 1}, cudaMemAccessFlagsProtReadWrite};
  EXPECT_TRUE(ok(cudaMemPoolSetAccess(pool_, &access, 1)));
  access = {{cudaMemLocationTypeDevice, 0}, cudaMemAccessFlagsProtNone};
  EXPECT_TRUE(fails(cudaMemPoolSetAccess(pool_, &access, 1), cudaErrorInvalidDevice));
}

}  // namespace
}  // namespace reprieve::standin
