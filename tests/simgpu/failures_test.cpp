#include "simgpu/failures.hpp"

#include <functional>

#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

using FailuresTest = MachineTest;

TEST_F(FailuresTest, FailAfterSomeCallsAndSoManyTimes) {
  machine.fail(Call::create, 2, 3, Code::out_of_memory);
  EXPECT_EQ(machine.pending_failures(), 3U);
  std::vector<bool> failed;
  for (int i = 0; i < 7; ++i) {
    HandleId handle = 0;
    failed.push_back(machine.create(0, Location::device, chunk_bytes, handle) == Code::out_of_memory);
  }
  EXPECT_EQ(failed, (std::vector<bool>{false, false, true, true, true, false, false}));
  EXPECT_EQ(machine.pending_failures(), 0U);
  EXPECT_EQ(machine.used_bytes(0), 4 * chunk_bytes);
}

TEST_F(FailuresTest, RulesOfOneKindFollowEachOther) {
  machine.fail(Call::reserve, 0, 1, Code::unknown);
  machine.fail(Call::reserve, 1, 1, Code::out_of_memory);
  std::uint64_t at = 0;
  EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::unknown);
  EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::success);
  EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::out_of_memory);
  EXPECT_EQ(machine.reserve(chunk_bytes, 0, at), Code::success);
}

TEST_F(FailuresTest, OtherKindsGoOnAndAClearEndsThem) {
  machine.fail(Call::map, 0, 5, Code::unknown);
  const std::uint64_t at = reserve(chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  EXPECT_EQ(machine.map(at, chunk_bytes, handle), Code::unknown);
  EXPECT_EQ(machine.mapping_count(), 0U);
  machine.clear_failures();
  EXPECT_EQ(machine.pending_failures(), 0U);
  map(at, chunk_bytes, handle);
}

TEST_F(FailuresTest, EveryKindOfCallHasANameOfItsOwn) {
  for (std::size_t i = 0; i < call_kinds; ++i) {
    const auto call = static_cast<Call>(i);
    EXPECT_EQ(find_call(call_name(call)), call) << call_name(call);
  }
  EXPECT_EQ(find_call("mallocs"), std::nullopt);
}

TEST_F(FailuresTest, EveryKindOfCallCanFailAndThenChangesNothing) {
  const std::uint64_t at = reserve(4 * chunk_bytes);
  const HandleId handle = create(chunk_bytes);
  const HandleId spare = create(chunk_bytes);
  map(at, chunk_bytes, handle);
  const StreamId stream = this->stream();
  const EventId event = recorded(stream);
  const std::uint64_t plain = malloc(8);
  std::uint64_t pinned = 0;
  ASSERT_EQ(machine.host_alloc(0, 8, pinned), Code::success);
  GraphId graph = 0;
  GraphExecId exec = 0;
  ASSERT_EQ(machine.graph_create(graph), Code::success);
  ASSERT_EQ(machine.graph_instantiate(graph, exec), Code::success);
  IpcMemory ticket;
  int own[8] = {};
  const std::uint64_t host_used = machine.host_used_bytes();
  std::uint64_t out = 0;
  bool flag = false;
  const std::vector<std::pair<Call, std::function<Code()>>> calls = {
      {Call::reserve, [&] { return machine.reserve(chunk_bytes, 0, out); }},
      {Call::unreserve, [&] { return machine.unreserve(at, 4 * chunk_bytes); }},
      {Call::create, [&] { return machine.create(0, Location::device, chunk_bytes, out); }},
      {Call::release, [&] { return machine.release(handle); }},
      {Call::map, [&] { return machine.map(at + chunk_bytes, chunk_bytes, spare); }},
      {Call::set_access, [&] { return machine.set_access(1, at, chunk_bytes); }},
      {Call::unmap, [&] { return machine.unmap(at, chunk_bytes); }},
      {Call::memory_info, [&] { return machine.memory_info(0, out, out); }},
      {Call::event_create, [&] { return machine.event_create(0, out); }},
      {Call::event_destroy, [&] { return machine.event_destroy(event); }},
      {Call::event_record, [&] { return machine.event_record(0, event, stream); }},
      {Call::event_record_all, [&] { return machine.event_record_all(0, event); }},
      {Call::event_query, [&] { return machine.event_query(event); }},
      {Call::event_wait, [&] { return machine.event_wait(event, 1); }},
      {Call::stream_create, [&] { return machine.stream_create(0, out); }},
      {Call::stream_destroy, [&] { return machine.stream_destroy(0, stream); }},
      {Call::stream_synchronize, [&] { return machine.stream_synchronize(0, stream); }},
      {Call::stream_wait, [&] { return machine.stream_wait(0, stream, event); }},
      {Call::is_capturing, [&] { return machine.is_capturing(0, stream, flag); }},
      {Call::copy, [&] { return machine.copy(0, at, at + 64, 32, stream); }},
      {Call::fill, [&] { return machine.fill(0, at, 1, 32, stream); }},
      {Call::launch, [&] { return machine.launch(0, stream, {}); }},
      {Call::malloc, [&] { return machine.malloc(0, 8, out); }},
      {Call::free, [&] { return machine.free(plain); }},
      {Call::host_alloc, [&] { return machine.host_alloc(0, 8, out); }},
      {Call::host_free, [&] { return machine.host_free(pinned); }},
      {Call::host_register, [&] { return machine.host_register(0, address_of(own), sizeof own); }},
      {Call::host_unregister, [&] { return machine.host_unregister(address_of(own)); }},
      {Call::malloc_async, [&] { return machine.malloc_async(machine.default_pool(0), 8, stream, out); }},
      {Call::free_async, [&] { return machine.free_async(plain, 0, stream); }},
      {Call::synchronize, [&] { return machine.synchronize(0); }},
      {Call::stream_query, [&] { return machine.stream_query(0, stream); }},
      {Call::host_function, [&] { return machine.launch_host(0, stream, [&] { flag = true; }); }},
      {Call::begin_capture, [&] { return machine.begin_capture(0, stream, CaptureMode::relaxed); }},
      {Call::end_capture, [&] { return machine.end_capture(0, stream, out); }},
      {Call::graph_instantiate, [&] { return machine.graph_instantiate(graph, out); }},
      {Call::graph_launch, [&] { return machine.graph_launch(0, exec, stream); }},
      {Call::ipc_export, [&] { return machine.ipc_export(plain, ticket); }},
      {Call::ipc_import, [&] { return machine.ipc_import(0, ticket, out); }},
  };
  ASSERT_EQ(calls.size(), call_kinds);
  for (const auto& [kind, call] : calls) {
    machine.fail(kind, 0, 1, Code::illegal_address);
    EXPECT_EQ(call(), Code::illegal_address) << static_cast<int>(kind);
    EXPECT_EQ(machine.pending_failures(), 0U) << static_cast<int>(kind);
  }
  machine.advance(1'000'000);
  EXPECT_EQ(out, 0U);
  EXPECT_EQ(bytes_at(at)[0], 0);
  EXPECT_EQ(machine.used_bytes(0), 3 * chunk_bytes);
  EXPECT_EQ(machine.host_used_bytes(), host_used);
  EXPECT_FALSE(flag);
  EXPECT_EQ(machine.mapping_count(), 1U);
  EXPECT_EQ(machine.event_query(event), Code::success);
  EXPECT_EQ(machine.fill(1, at, 1, 1, this->stream(1)), Code::invalid_value);  // no access was given
  EXPECT_EQ(machine.stream_destroy(0, stream), Code::success);
}

TEST(CodesTest, HaveCudasNames) {
  EXPECT_STREQ(code_name(2), "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_STREQ(code_name(900), "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  EXPECT_STREQ(code_text(700), "an illegal memory access was encountered");
  EXPECT_STREQ(code_name(-5), "CUDA_ERROR");
}

}  // namespace
}  // namespace reprieve::simgpu
