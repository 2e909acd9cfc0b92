// The contract's memory calls.
#include <set>

#include "conformance.hpp"

namespace reprieve::device {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

}  // namespace

TEST_P(Conformance, PropertiesDescribeTheDevice) {
  const Properties& properties = device().properties();
  EXPECT_EQ(properties.ordinal, 0);
  EXPECT_FALSE(properties.name.empty());
  ASSERT_GT(properties.granularity, 0U);
  EXPECT_EQ(properties.granularity & (properties.granularity - 1), 0U);
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_TRUE(succeeded(device().memory_info(free, total)));
  EXPECT_EQ(properties.total_bytes, total);
}

TEST_P(Conformance, OpenRefusesAnOrdinalThatIsNoDevice) {
  std::unique_ptr<Device> none;
  EXPECT_TRUE(failed_as(subject_->backend().open(-1, none), Errc::invalid_argument));
  EXPECT_TRUE(failed_as(subject_->backend().open(subject_->backend().device_count(), none), Errc::invalid_argument));
  EXPECT_EQ(none, nullptr);
}

TEST_P(Conformance, EveryDeviceCanBeUsed) {
  for (int ordinal = 0; ordinal < subject_->backend().device_count(); ++ordinal) {
    ASSERT_TRUE(succeeded(subject_->backend().open(ordinal, device_)));
    EXPECT_EQ(device().properties().ordinal, ordinal);
    const Region region = this->region(granule());
    Stream stream{};
    ASSERT_TRUE(succeeded(device().stream_create(stream)));
    fill(region.at, 7, region.bytes, stream);
    finish(stream);
    EXPECT_TRUE(holds(region.at, region.bytes, 7));
    EXPECT_TRUE(succeeded(device().stream_destroy(stream)));
    destroy(region);
  }
}

TEST_P(Conformance, ReserveHonoursTheAlignment) {
  for (const std::size_t alignment : {std::size_t{0}, granule(), 64 * MiB, 1024 * MiB}) {
    Address at = 0;
    ASSERT_TRUE(succeeded(device().reserve(3 * granule(), alignment, at)));
    EXPECT_NE(at, 0U);
    EXPECT_EQ(at % (alignment == 0 ? granule() : alignment), 0U);
    EXPECT_TRUE(succeeded(device().unreserve(at, 3 * granule())));
  }
}

TEST_P(Conformance, ReservationsCostNoMemoryAndDoNotOverlap) {
  const std::size_t bytes = std::size_t{1} << 36;
  const std::size_t before = free_bytes();
  const Address first = reserve(bytes);
  const Address second = reserve(bytes);
  EXPECT_TRUE(first + bytes <= second || second + bytes <= first);
  EXPECT_TRUE(taken_since(before, 0));
  EXPECT_TRUE(succeeded(device().unreserve(first, bytes)));
  EXPECT_TRUE(succeeded(device().unreserve(second, bytes)));
}

TEST_P(Conformance, ReserveRefusesOddSizesAndAlignments) {
  Address at = 1;
  EXPECT_TRUE(failed_as(device().reserve(0, 0, at), Errc::invalid_argument));
  EXPECT_TRUE(failed_as(device().reserve(granule() + 1, 0, at), Errc::invalid_argument));
  EXPECT_TRUE(failed_as(device().reserve(granule(), 3 * granule(), at), Errc::invalid_argument));
  EXPECT_EQ(at, 1U);
}

TEST_P(Conformance, UnreserveRefusesWhatIsNotARangeOfReserve) {
  const Address at = reserve(4 * granule());
  EXPECT_TRUE(failed_as(device().unreserve(at, 2 * granule()), Errc::invalid_argument));
  EXPECT_TRUE(failed_as(device().unreserve(at + granule(), 3 * granule()), Errc::invalid_argument));
  EXPECT_TRUE(succeeded(device().unreserve(at, 4 * granule())));
}

TEST_P(Conformance, UnreserveRefusesARangeWithAMapping) {
  const Address at = reserve(4 * granule());
  const Handle handle = create(granule());
  map(at + 2 * granule(), granule(), handle);
  EXPECT_TRUE(failed_as(device().unreserve(at, 4 * granule()), Errc::invalid_argument));
  fill(at + 2 * granule(), 1, granule(), legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(holds(at + 2 * granule(), granule(), 1));
  EXPECT_TRUE(succeeded(device().unmap(at + 2 * granule(), granule())));
  EXPECT_TRUE(succeeded(device().release(handle)));
  EXPECT_TRUE(succeeded(device().unreserve(at, 4 * granule())));
}

TEST_P(Conformance, CreateRefusesOddSizes) {
  Handle handle{12345};
  for (const Location where : {Location::device, Location::host}) {
    EXPECT_TRUE(failed_as(device().create(0, where, handle), Errc::invalid_argument));
    EXPECT_TRUE(failed_as(device().create(granule() / 2, where, handle), Errc::invalid_argument));
    EXPECT_TRUE(failed_as(device().create(granule() + 512, where, handle), Errc::invalid_argument));
  }
  EXPECT_EQ(handle, Handle{12345});
}

TEST_P(Conformance, CreateBeyondTheDeviceIsOutOfMemoryAndTakesNothing) {
  const std::size_t before = free_bytes();
  const std::size_t total = device().properties().total_bytes;
  Handle handle{12345};
  const Status status = device().create((total / granule() + 1) * granule(), Location::device, handle);
  EXPECT_TRUE(failed_as(status, Errc::out_of_memory));
  EXPECT_EQ(status.driver, 2);  // CUDA_ERROR_OUT_OF_MEMORY
  EXPECT_EQ(handle, Handle{12345});
  EXPECT_TRUE(taken_since(before, 0));
}

TEST_P(Conformance, MemoryInfoFollowsCreateAndRelease) {
  const std::size_t bytes = 32 * granule();
  const std::size_t before = free_bytes();
  const Handle handle = create(bytes);
  EXPECT_TRUE(taken_since(before, bytes));
  EXPECT_TRUE(succeeded(device().release(handle)));
  EXPECT_TRUE(taken_since(before, 0));
}

TEST_P(Conformance, HostChunksTakeNoDeviceMemory) {
  const std::size_t before = free_bytes();
  const Handle handle = create(4 * granule(), Location::host);
  EXPECT_TRUE(taken_since(before, 0));
  EXPECT_TRUE(succeeded(device().release(handle)));
}

TEST_P(Conformance, AReleasedChunkLivesUntilItsLastMappingIsGone) {
  const std::size_t before = free_bytes();
  const std::size_t bytes = 16 * granule();
  const Address first = reserve(bytes);
  const Address second = reserve(bytes);
  const Handle handle = create(bytes);
  map(first, bytes, handle);
  map(second, bytes, handle);
  fill(first, 0x5c, bytes, legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(succeeded(device().release(handle)));
  EXPECT_TRUE(holds(first, bytes, 0x5c));
  EXPECT_TRUE(taken_since(before, bytes));
  EXPECT_TRUE(succeeded(device().unmap(first, bytes)));
  EXPECT_TRUE(holds(second, bytes, 0x5c));
  EXPECT_TRUE(taken_since(before, bytes));
  EXPECT_TRUE(succeeded(device().unmap(second, bytes)));
  EXPECT_TRUE(taken_since(before, 0));
  EXPECT_TRUE(succeeded(device().unreserve(first, bytes)));
  EXPECT_TRUE(succeeded(device().unreserve(second, bytes)));
}

TEST_P(Conformance, AHandleMapsWholeOnly) {
  const Address at = reserve(8 * granule());
  const Handle handle = create(4 * granule());
  EXPECT_TRUE(failed_as(device().map(at, 2 * granule(), handle), Errc::not_supported));
  EXPECT_TRUE(failed_as(device().map(at, 8 * granule(), handle), Errc::not_supported));
  map(at, 4 * granule(), handle);  // the failed calls left nothing behind
  EXPECT_TRUE(succeeded(device().unmap(at, 4 * granule())));
  EXPECT_TRUE(succeeded(device().release(handle)));
  EXPECT_TRUE(succeeded(device().unreserve(at, 8 * granule())));
}

// Addresses beyond a reservation, and unmapping what is not mapped: preconditions, which the driver does not check.
TEST_P(Conformance, MapRefusesAddressesThatAreMapped) {
  const Address at = reserve(6 * granule());
  const Handle kept = create(2 * granule());
  const Handle other = create(2 * granule());
  map(at + 2 * granule(), 2 * granule(), kept);
  fill(at + 2 * granule(), 0x11, 2 * granule(), legacy_stream);
  finish(legacy_stream);
  for (const std::size_t granules : {1U, 2U, 3U}) {
    EXPECT_TRUE(failed_as(device().map(at + granules * granule(), 2 * granule(), other), Errc::invalid_argument))
        << granules;
  }
  EXPECT_TRUE(holds(at + 2 * granule(), 2 * granule(), 0x11));
  for (const std::size_t granules : {0U, 4U}) {
    map(at + granules * granule(), 2 * granule(), other);
    EXPECT_TRUE(succeeded(device().unmap(at + granules * granule(), 2 * granule())));
  }
  EXPECT_TRUE(succeeded(device().unmap(at + 2 * granule(), 2 * granule())));
  EXPECT_TRUE(succeeded(device().release(kept)));
  EXPECT_TRUE(succeeded(device().release(other)));
  EXPECT_TRUE(succeeded(device().unreserve(at, 6 * granule())));
}

TEST_P(Conformance, SetAccessCoversSeveralMappingsButNoGap) {
  const Address at = reserve(8 * granule());
  const Handle first = create(2 * granule());
  const Handle second = create(4 * granule());
  EXPECT_TRUE(succeeded(device().map(at, 2 * granule(), first)));
  EXPECT_TRUE(succeeded(device().map(at + 2 * granule(), 4 * granule(), second)));
  EXPECT_TRUE(failed_as(device().set_access(at, 8 * granule()), Errc::invalid_argument));
  EXPECT_TRUE(succeeded(device().set_access(at, 6 * granule())));
  fill(at + granule(), 0x42, 3 * granule(), legacy_stream);  // across the border of the chunks
  finish(legacy_stream);
  EXPECT_TRUE(holds(at + granule(), 3 * granule(), 0x42));
  EXPECT_TRUE(succeeded(device().unmap(at, 2 * granule())));
  EXPECT_TRUE(succeeded(device().unmap(at + 2 * granule(), 4 * granule())));
  EXPECT_TRUE(succeeded(device().release(first)));
  EXPECT_TRUE(succeeded(device().release(second)));
  EXPECT_TRUE(succeeded(device().unreserve(at, 8 * granule())));
}

TEST_P(Conformance, UnmapRefusesParts) {
  const Address at = reserve(8 * granule());
  const Handle handle = create(4 * granule());
  map(at, 4 * granule(), handle);
  fill(at, 0x33, 4 * granule(), legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(failed_as(device().unmap(at, 2 * granule()), Errc::invalid_argument));
  EXPECT_TRUE(failed_as(device().unmap(at + granule(), 3 * granule()), Errc::invalid_argument));
  EXPECT_TRUE(holds(at, 4 * granule(), 0x33));
  EXPECT_TRUE(succeeded(device().unmap(at, 4 * granule())));
  EXPECT_TRUE(succeeded(device().release(handle)));
  EXPECT_TRUE(succeeded(device().unreserve(at, 8 * granule())));
}

TEST_P(Conformance, OneHandleAtTwoAddressesIsTheSameMemory) {
  const std::size_t bytes = 2 * granule();
  const Region region = this->region(bytes);
  const Address alias = reserve(bytes);
  map(alias, bytes, region.handle);
  fill(region.at, 0x01, bytes, legacy_stream);
  fill(alias + granule(), 0x02, granule(), legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(holds(alias, granule(), 0x01));
  EXPECT_TRUE(holds(region.at + granule(), granule(), 0x02));
  EXPECT_TRUE(succeeded(device().unmap(alias, bytes)));
  EXPECT_TRUE(holds(region.at, granule(), 0x01));
  EXPECT_TRUE(succeeded(device().unreserve(alias, bytes)));
  destroy(region);
}

TEST_P(Conformance, AddressesTakeAnotherChunkAndChunksKeepTheirData) {
  const std::size_t bytes = 2 * granule();
  const Address at = reserve(bytes);
  const Handle first = create(bytes);
  const Handle second = create(bytes);
  map(at, bytes, first);
  fill(at, 0x0f, bytes, legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(succeeded(device().unmap(at, bytes)));
  map(at, bytes, second);
  fill(at, 0xf0, bytes, legacy_stream);
  finish(legacy_stream);
  EXPECT_TRUE(holds(at, bytes, 0xf0));
  EXPECT_TRUE(succeeded(device().unmap(at, bytes)));
  map(at, bytes, first);
  EXPECT_TRUE(holds(at, bytes, 0x0f));
  EXPECT_TRUE(succeeded(device().unmap(at, bytes)));
  EXPECT_TRUE(succeeded(device().release(first)));
  EXPECT_TRUE(succeeded(device().release(second)));
  EXPECT_TRUE(succeeded(device().unreserve(at, bytes)));
}

TEST_P(Conformance, DataTravelsBetweenDeviceAndHostChunks) {
  const Region here = region(2 * granule());
  const Region there = region(2 * granule(), Location::host);
  const Stream stream = this->stream();
  fill(here.at, 0x77, here.bytes, stream);
  fill(there.at, 0x00, there.bytes, stream);
  EXPECT_TRUE(succeeded(device().copy(there.at, here.at, here.bytes, stream)));
  fill(here.at, 0x00, here.bytes, stream);
  EXPECT_TRUE(succeeded(device().copy(here.at + granule(), there.at, granule(), stream)));
  finish(stream);
  EXPECT_TRUE(holds(there.at, there.bytes, 0x77));
  EXPECT_TRUE(holds(here.at, granule(), 0x00));
  EXPECT_TRUE(holds(here.at + granule(), granule(), 0x77));
  destroy(here);
  destroy(there);
}

TEST_P(Conformance, CopyAndFillTakeAnyByteRange) {
  const Region region = this->region(2 * granule());
  const Stream stream = this->stream();
  fill(region.at, 1, region.bytes, stream);
  fill(region.at + granule() - 3, 2, 7, stream);
  EXPECT_TRUE(succeeded(device().copy(region.at + 13, region.at + granule() - 3, 7, stream)));
  finish(stream);
  EXPECT_TRUE(holds(region.at, 13, 1));
  EXPECT_TRUE(holds(region.at + 13, 7, 2));
  EXPECT_TRUE(holds(region.at + 20, granule() - 23, 1));
  EXPECT_TRUE(holds(region.at + granule() - 3, 7, 2));
  EXPECT_TRUE(holds(region.at + granule() + 4, granule() - 4, 1));
  destroy(region);
}

TEST_P(Conformance, EveryCallIsCounted) {
  const CallStats before = device().call_stats();
  destroy(region(granule()));
  std::size_t free = free_bytes();
  EXPECT_GT(free, 0U);
  const CallStats after = device().call_stats();
  const std::set<Call> made = {Call::reserve, Call::create,  Call::map,       Call::set_access,
                               Call::unmap,   Call::release, Call::unreserve, Call::memory_info};
  for (std::size_t i = 0; i < call_kinds; ++i) {
    const bool expected = made.count(static_cast<Call>(i)) == 1;
    EXPECT_EQ(after.count[i] - before.count[i], expected ? 1U : 0U) << call_name(static_cast<Call>(i));
  }
  EXPECT_GT(after.driver_ns, before.driver_ns);
  EXPECT_GT(after.wall_ns, before.wall_ns);
}

TEST_P(Conformance, DescribeGivesTheDriversNameOfACode) {
  EXPECT_NE(device().describe(2).find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << device().describe(2);
  EXPECT_NE(device().describe(700).find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << device().describe(700);
  EXPECT_FALSE(device().describe(123456).empty());
}

}  // namespace reprieve::device
