// The driver's virtual memory management.
#include <unistd.h>

#include "standin_test.hpp"

namespace reprieve::standin {
namespace {

constexpr std::size_t granule = 2 * mib;

class StandinVmm : public Standin {
 protected:
  void SetUp() override {
    Standin::SetUp();
    ASSERT_TRUE(ok(cuMemAddressReserve(&at_, 16 * granule, 0, 0, 0)));
  }
  void TearDown() override {
    EXPECT_TRUE(ok(cuMemAddressFree(at_, 16 * granule)));
    Standin::TearDown();
  }

  static CUmemAllocationProp properties(CUmemLocationType type = CU_MEM_LOCATION_TYPE_DEVICE, int id = 0) {
    CUmemAllocationProp out{};
    out.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    out.location = {type, id};
    return out;
  }
  static CUmemGenericAllocationHandle create(std::size_t bytes, const CUmemAllocationProp& wanted = properties()) {
    CUmemGenericAllocationHandle out = 0;
    EXPECT_TRUE(ok(cuMemCreate(&out, bytes, &wanted, 0)));
    return out;
  }
  static CUmemAccessDesc access(int device = 0) {
    return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  }
  static cudaMemoryType type_of(CUdeviceptr pointer) {
    cudaPointerAttributes out{};
    EXPECT_TRUE(ok(cudaPointerGetAttributes(&out, reinterpret_cast<void*>(pointer))));
    return out.type;
  }

  CUdeviceptr at_ = 0;
};

TEST_F(StandinVmm, WhatIsMadeMustMakeSense) {
  std::size_t bytes = 0;
  CUmemAllocationProp wanted = properties();
  EXPECT_TRUE(ok(cuMemGetAllocationGranularity(&bytes, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
  EXPECT_EQ(bytes, granule);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_TRUE(gives(cuMemCreate(&handle, 1000, &wanted, 0), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemCreate(&handle, 0, &wanted, 0), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemCreate(&handle, granule, &wanted, 5), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemCreate(&handle, std::size_t{1} << 50, &wanted, 0), CUDA_ERROR_OUT_OF_MEMORY));
  wanted.location.id = 9;
  EXPECT_TRUE(gives(cuMemCreate(&handle, granule, &wanted, 0), CUDA_ERROR_INVALID_DEVICE));
  wanted = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 99);
  EXPECT_TRUE(gives(cuMemCreate(&handle, granule, &wanted, 0), CUDA_ERROR_INVALID_VALUE));
}

TEST_F(StandinVmm, AHandleMapsWhole) {
  const CUmemGenericAllocationHandle handle = create(2 * granule);
  EXPECT_TRUE(gives(cuMemMap(at_, granule, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED));
  EXPECT_TRUE(gives(cuMemMap(at_, granule, granule, handle, 0), CUDA_ERROR_NOT_SUPPORTED));
  EXPECT_TRUE(gives(cuMemMap(at_ + 64 * granule, 2 * granule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(ok(cuMemMap(at_, 2 * granule, 0, handle, 0)));
  EXPECT_TRUE(gives(cuMemUnmap(at_, granule), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemAddressFree(at_, 16 * granule), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(ok(cuMemUnmap(at_, 2 * granule)));
  EXPECT_TRUE(ok(cuMemRelease(handle)));
}

TEST_F(StandinVmm, MappedMemoryIsUsedOnceAccessible) {
  const CUmemGenericAllocationHandle handle = create(2 * granule);
  const CUmemAccessDesc wanted = access();
  EXPECT_EQ(type_of(at_), cudaMemoryTypeUnregistered);
  ASSERT_TRUE(ok(cuMemMap(at_, 2 * granule, 0, handle, 0)));
  EXPECT_EQ(type_of(at_), cudaMemoryTypeDevice);
  EXPECT_TRUE(gives(cuMemsetD8(at_, 1, 16), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemSetAccess(at_, granule, &wanted, 1), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(gives(cuMemSetAccess(at_, 3 * granule, &wanted, 1), CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(ok(cuMemSetAccess(at_, 2 * granule, &wanted, 1)));
  EXPECT_TRUE(ok(cuMemsetD32(at_, 0x01020304, 4)));
  EXPECT_EQ(read(reinterpret_cast<std::uint32_t*>(at_), 4)[3], 0x01020304U);
  unsigned long long flags = 0;
  CUmemLocation location = wanted.location;
  EXPECT_TRUE(ok(cuMemGetAccess(&flags, &location, at_)));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  location.id = 1;
  EXPECT_TRUE(ok(cuMemGetAccess(&flags, &location, at_)));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  EXPECT_TRUE(ok(cuMemGetAddressRange(&base, &bytes, at_ + granule + 5)));
  EXPECT_EQ(base, at_);
  EXPECT_EQ(bytes, 2 * granule);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_TRUE(ok(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at_ + 5))));
  CUmemAllocationProp back{};
  EXPECT_TRUE(ok(cuMemGetAllocationPropertiesFromHandle(&back, again)));
  EXPECT_EQ(back.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_TRUE(ok(cuMemRelease(again)));
  EXPECT_TRUE(fails(cudaFree(reinterpret_cast<void*>(at_)), cudaErrorInvalidValue));
  EXPECT_TRUE(ok(cuMemUnmap(at_, 2 * granule)));
  EXPECT_TRUE(ok(cuMemRelease(handle)));
  EXPECT_EQ(type_of(at_), cudaMemoryTypeUnregistered);
}

TEST_F(StandinVmm, OneHandleAtTwoAddressesIsTheSameMemory) {
  const CUmemGenericAllocationHandle handle = create(granule);
  const CUmemAccessDesc wanted = access();
  for (const CUdeviceptr each : {at_, at_ + 4 * granule}) {
    ASSERT_TRUE(ok(cuMemMap(each, granule, 0, handle, 0)));
    ASSERT_TRUE(ok(cuMemSetAccess(each, granule, &wanted, 1)));
  }
  EXPECT_TRUE(ok(cuMemsetD8(at_, 7, granule)));
  EXPECT_EQ(read(reinterpret_cast<unsigned char*>(at_ + 4 * granule), 1)[0], 7);
  EXPECT_TRUE(ok(cuMemRelease(handle)));
  EXPECT_TRUE(ok(cuMemUnmap(at_, granule)));
  EXPECT_EQ(read(reinterpret_cast<unsigned char*>(at_ + 4 * granule), 1)[0], 7);
  EXPECT_TRUE(ok(cuMemUnmap(at_ + 4 * granule, granule)));
}

TEST_F(StandinVmm, HostMemoryCanBeMappedForTheDevice) {
  const std::uint64_t before = reprieve_sim_used_bytes(0);
  const CUmemGenericAllocationHandle handle = create(granule, properties(CU_MEM_LOCATION_TYPE_HOST));
  const CUmemAccessDesc wanted = access();
  EXPECT_EQ(reprieve_sim_used_bytes(0), before);
  ASSERT_TRUE(ok(cuMemMap(at_, granule, 0, handle, 0)));
  ASSERT_TRUE(ok(cuMemSetAccess(at_, granule, &wanted, 1)));
  EXPECT_EQ(type_of(at_), cudaMemoryTypeHost);
  EXPECT_TRUE(ok(cuMemsetD8(at_, 4, 16)));
  EXPECT_EQ(read(reinterpret_cast<unsigned char*>(at_), 1)[0], 4);
  CUmemAllocationProp back{};
  EXPECT_TRUE(ok(cuMemGetAllocationPropertiesFromHandle(&back, handle)));
  EXPECT_EQ(back.location.type, CU_MEM_LOCATION_TYPE_HOST_NUMA);
  EXPECT_TRUE(ok(cuMemUnmap(at_, granule)));
  EXPECT_TRUE(ok(cuMemRelease(handle)));
}

TEST_F(StandinVmm, HandlesTravelAsFiles) {
  CUmemAllocationProp wanted = properties();
  const CUmemGenericAllocationHandle plain = create(granule, wanted);
  int file = -1;
  EXPECT_TRUE(gives(cuMemExportToShareableHandle(&file, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                    CUDA_ERROR_INVALID_VALUE));
  EXPECT_TRUE(ok(cuMemRelease(plain)));
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemGenericAllocationHandle handle = create(granule, wanted);
  ASSERT_TRUE(ok(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)));
  CUmemGenericAllocationHandle imported = 0;
  ASSERT_TRUE(ok(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)));
  close(file);
  const CUmemAccessDesc both = access();
  for (const auto& [address, each] : {std::pair{at_, handle}, std::pair{at_ + granule, imported}}) {
    ASSERT_TRUE(ok(cuMemMap(address, granule, 0, each, 0)));
    ASSERT_TRUE(ok(cuMemSetAccess(address, granule, &both, 1)));
  }
  EXPECT_TRUE(ok(cuMemsetD8(at_, 6, 16)));
  EXPECT_EQ(read(reinterpret_cast<unsigned char*>(at_ + granule), 1)[0], 6);
  EXPECT_TRUE(ok(cuMemUnmap(at_, 2 * granule)));
  EXPECT_TRUE(ok(cuMemRelease(handle)));
  EXPECT_TRUE(ok(cuMemRelease(imported)));
  EXPECT_TRUE(gives(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(std::intptr_t{999}),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                    CUDA_ERROR_UNKNOWN));
}

}  // namespace
}  // namespace reprieve::standin
