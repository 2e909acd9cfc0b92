// Every kind of fault is seen where it is one, and not where the uses are ordered.
#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;
constexpr std::uint64_t KiB = 1'024;

class FaultsTest : public MachineTest {
 protected:
  StreamId a = stream();
  StreamId b = stream();
  std::uint64_t memory = mapped(chunk_bytes);
};

TEST_F(FaultsTest, EarlyUnmapOfQueuedWork) {
  writes(a, memory + 4 * KiB, KiB, ms);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  const std::vector<Fault> seen = machine.faults();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].kind, FaultKind::early_unmap);
  EXPECT_EQ(seen[0].address, memory);
  EXPECT_NE(seen[0].text.find("writer on stream"), std::string::npos) << seen[0].text;
  machine.clear_faults();
  machine.advance(ms);
  EXPECT_EQ(faults(), Kinds{FaultKind::changed_backing});
}

TEST_F(FaultsTest, EarlyUnmapOfReaders) {
  reads(a, memory, KiB, ms);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
}

TEST_F(FaultsTest, UnmapIsEarlyThoughTheWorkHappensToHaveEnded) {
  writes(a, memory, KiB, ms);
  machine.advance(10 * ms);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
}

TEST_F(FaultsTest, UnmapIsNotEarlyOnceTheHostKnows) {
  const auto remap = [&] {
    EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
    map(memory, chunk_bytes, create(chunk_bytes));
    return faults();
  };
  writes(a, memory, KiB, ms);
  const EventId event = recorded(a);
  EXPECT_EQ(machine.event_wait(event, 10 * ms), Code::success);
  EXPECT_EQ(remap(), Kinds{});

  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.event_record(0, event, a), Code::success);
  machine.advance(10 * ms);
  EXPECT_EQ(machine.event_query(event), Code::success);
  EXPECT_EQ(remap(), Kinds{});

  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.stream_synchronize(0, a), Code::success);
  EXPECT_EQ(remap(), Kinds{});

  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.synchronize(0), Code::success);
  EXPECT_EQ(remap(), Kinds{});

  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.event_record_all(0, event), Code::success);
  EXPECT_EQ(machine.event_wait(event, 10 * ms), Code::success);
  EXPECT_EQ(remap(), Kinds{});

  // By way of another stream.
  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.event_record(0, event, a), Code::success);
  EXPECT_EQ(machine.stream_wait(0, b, event), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, b), Code::success);
  EXPECT_EQ(remap(), Kinds{});
}

TEST_F(FaultsTest, AQueryThatSaidNotDoneTellsNothing) {
  writes(a, memory, KiB, ms);
  const EventId event = recorded(a);
  EXPECT_EQ(machine.event_query(event), Code::not_ready);
  machine.advance(10 * ms);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
}

TEST_F(FaultsTest, AnEventBeforeTheWorkTellsNothingOfIt) {
  const EventId event = recorded(a);
  writes(a, memory, KiB, ms);
  machine.advance(10 * ms);
  EXPECT_EQ(machine.event_query(event), Code::success);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
}

TEST_F(FaultsTest, OnlyTheMappingThatIsUsedMustStay) {
  const std::uint64_t alias = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  const std::uint64_t at = reserve(chunk_bytes);
  map(at, chunk_bytes, handle);
  map(alias, chunk_bytes, handle);
  writes(a, at, chunk_bytes, ms);
  EXPECT_EQ(machine.unmap(alias, chunk_bytes), Code::success);
  EXPECT_EQ(machine.release(handle), Code::success);  // still mapped: still there
  machine.advance(10 * ms);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, UnorderedWritesOfTwoStreams) {
  writes(a, memory, 64 * KiB);
  writes(b, memory + 63 * KiB, 64 * KiB);
  const std::vector<Fault> seen = machine.faults();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].kind, FaultKind::unordered_use);
  EXPECT_EQ(seen[0].address, memory + 63 * KiB);
}

TEST_F(FaultsTest, UnorderedReadAndWrite) {
  reads(a, memory, KiB);
  writes(b, memory, KiB);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
  reads(a, memory, KiB);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, UnorderedThoughTheFirstHappensToHaveEnded) {
  writes(a, memory, KiB, ms);
  machine.advance(10 * ms);
  writes(b, memory, KiB, ms);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, ReadsAndNeighboursAreNoConflict) {
  reads(a, memory, 64 * KiB);
  reads(b, memory, 64 * KiB);
  writes(a, memory + 64 * KiB, 64 * KiB);
  writes(b, memory + 128 * KiB, 64 * KiB);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, UnorderedThroughTwoAddresses) {
  const std::uint64_t first = reserve(chunk_bytes);
  const std::uint64_t second = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(first, chunk_bytes, handle);
  map(second, chunk_bytes, handle);
  writes(a, first, KiB);
  writes(a, second, KiB);  // in stream order
  EXPECT_EQ(faults(), Kinds{});
  writes(b, second, KiB);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, UnorderedAfterTheChunkMovedToAnotherAddress) {
  const std::uint64_t first = reserve(chunk_bytes);
  const std::uint64_t second = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  map(first, chunk_bytes, handle);
  writes(a, first, KiB);
  map(second, chunk_bytes, handle);
  EXPECT_EQ(machine.unmap(first, chunk_bytes), Code::success);
  EXPECT_EQ(faults(), Kinds{FaultKind::early_unmap});
  writes(b, second, KiB);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, OrderedByAnEvent) {
  writes(a, memory, KiB, 50 * ms);
  const EventId event = recorded(a);
  EXPECT_EQ(machine.stream_wait(0, b, event), Code::success);
  writes(b, memory, KiB);
  EXPECT_EQ(faults(), Kinds{});
  writes(a, memory, KiB);  // the other way there is no order
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, AnEventRecordedTooEarlyOrdersNothing) {
  const EventId event = recorded(a);
  writes(a, memory, KiB);
  EXPECT_EQ(machine.stream_wait(0, b, event), Code::success);
  writes(b, memory, KiB);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, OrderedThroughAThirdStream) {
  const StreamId c = stream();
  writes(a, memory, KiB);
  EXPECT_EQ(machine.stream_wait(0, c, recorded(a)), Code::success);
  EXPECT_EQ(machine.stream_wait(0, b, recorded(c)), Code::success);
  writes(b, memory, KiB);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, OrderedByTheHost) {
  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.event_wait(recorded(a), 10 * ms), Code::success);
  writes(b, memory, KiB, ms);
  EXPECT_EQ(machine.stream_synchronize(0, b), Code::success);
  writes(a, memory, KiB, ms);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, OrderedByAnEventOfAllStreams) {
  writes(a, memory, KiB, ms);
  const EventId all = event();
  EXPECT_EQ(machine.event_record_all(0, all), Code::success);
  EXPECT_EQ(machine.stream_wait(0, b, all), Code::success);
  writes(b, memory, KiB);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, OrderedByTheLegacyStream) {
  writes(per_thread_stream, memory, KiB, ms);
  writes(legacy_stream, memory, KiB, ms);
  writes(per_thread_stream, memory, KiB, ms);
  EXPECT_EQ(faults(), Kinds{});
  writes(a, memory, KiB);  // a created stream is not in step with it
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(FaultsTest, WorkMayReadAndWriteTheSameBytes) {
  EXPECT_EQ(machine.launch(0, a, {"update", {{memory, 8 * KiB}}, {{memory + KiB, 8 * KiB}}, ms, {}}), Code::success);
  EXPECT_EQ(machine.copy(0, memory, memory + 512, 4 * KiB, a), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, AChunkCreatedAnewHasNoPast) {
  writes(a, memory, KiB, ms);
  EXPECT_EQ(machine.stream_synchronize(0, a), Code::success);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  map(memory, chunk_bytes, create(chunk_bytes));
  writes(b, memory, KiB, ms);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, UseOfUnmappedAddresses) {
  const std::uint64_t at = reserve(4 * chunk_bytes);
  map(at, chunk_bytes, create(chunk_bytes));
  EXPECT_EQ(machine.launch(0, a, {"kernel", {{at + chunk_bytes - 1, 2}}, {}, ms, {}}), Code::illegal_address);
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
  EXPECT_EQ(machine.fill(0, at + 3 * chunk_bytes, 0, 1, a), Code::invalid_value);
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
  EXPECT_EQ(machine.copy(0, at, at + chunk_bytes, 16, a), Code::invalid_value);
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
  EXPECT_EQ(machine.map(at + chunk_bytes, chunk_bytes, create(chunk_bytes)), Code::success);
  EXPECT_EQ(machine.fill(0, at + chunk_bytes, 0, 1, a), Code::invalid_value);  // no access yet
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
  EXPECT_EQ(machine.set_access(0, at + chunk_bytes, chunk_bytes), Code::success);
  EXPECT_EQ(machine.fill(0, at + chunk_bytes - 8, 0, 16, a), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, AccessIsPerDevice) {
  const StreamId other = stream(1);
  EXPECT_EQ(machine.fill(1, memory, 0, 1, other), Code::invalid_value);
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
  EXPECT_EQ(machine.set_access(1, memory, chunk_bytes), Code::success);
  EXPECT_EQ(machine.fill(1, memory, 0, 1, other), Code::success);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(FaultsTest, BackingThatChangedLeavesTheNewBytesAlone) {
  const auto store = [this] { bytes_at(memory)[0] = 0xff; };
  EXPECT_EQ(machine.launch(0, a, {"store", {}, {{memory, 1}}, ms, store}), Code::success);
  EXPECT_EQ(machine.unmap(memory, chunk_bytes), Code::success);
  map(memory, chunk_bytes, create(chunk_bytes));
  machine.advance(10 * ms);
  EXPECT_EQ(bytes_at(memory)[0], 0);
  EXPECT_EQ(faults(), (Kinds{FaultKind::early_unmap, FaultKind::changed_backing}));
}

TEST_F(FaultsTest, FaultsAreCountedAndCleared) {
  for (int i = 0; i < 1'200; ++i) EXPECT_EQ(machine.fill(0, 4096, 0, 1, a), Code::invalid_value);
  EXPECT_EQ(machine.fault_count(), 1'200U);
  EXPECT_EQ(machine.faults().size(), 1'000U);
  machine.clear_faults();
  EXPECT_EQ(machine.fault_count(), 0U);
  EXPECT_TRUE(machine.faults().empty());
}

}  // namespace
}  // namespace reprieve::simgpu
