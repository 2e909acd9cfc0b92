// Captures record work, and graphs run it again.
#include "machine_test.hpp"

namespace reprieve::simgpu {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class GraphTest : public MachineTest {
 protected:
  void begin(StreamId stream) { EXPECT_EQ(machine.begin_capture(0, stream, CaptureMode::global), Code::success); }
  GraphId end(StreamId stream) {
    GraphId out = 0;
    EXPECT_EQ(machine.end_capture(0, stream, out), Code::success);
    return out;
  }
  GraphExecId executable(GraphId graph) {
    GraphExecId out = 0;
    EXPECT_EQ(machine.graph_instantiate(graph, out), Code::success);
    return out;
  }
  void run(GraphExecId exec, StreamId stream) {
    EXPECT_EQ(machine.graph_launch(0, exec, stream), Code::success);
    EXPECT_EQ(machine.stream_synchronize(0, stream), Code::success);
  }
  void adds(StreamId stream, std::uint64_t place, unsigned char n) {
    EXPECT_EQ(machine.launch(0, stream,
                             {"add",
                              {{place, 1}},
                              {{place, 1}},
                              1'000,
                              [place, n] { *bytes_at(place) = static_cast<unsigned char>(*bytes_at(place) + n); }}),
              Code::success);
  }
  std::size_t node_count(GraphId graph) {
    std::vector<NodeId> nodes;
    EXPECT_EQ(machine.graph_nodes(graph, nodes), Code::success);
    return nodes.size();
  }
  CaptureInfo info(StreamId stream) {
    CaptureInfo out;
    EXPECT_EQ(machine.capture_info(0, stream, out), Code::success);
    return out;
  }
  // `second` joins the capture of `first`; and the other way back.
  void follow(StreamId second, StreamId first) {
    EXPECT_EQ(machine.stream_wait(0, second, recorded(first)), Code::success);
  }

  StreamId main = stream();
  StreamId side = stream();
  std::uint64_t at = malloc(4 * MiB);
};

TEST_F(GraphTest, CapturedWorkRunsAtEachLaunch) {
  begin(main);
  adds(main, at, 3);
  EXPECT_EQ(machine.copy(0, at + 64, at, 1, main), Code::success);
  const GraphId graph = end(main);
  EXPECT_EQ(node_count(graph), 2U);
  machine.advance(ms);
  EXPECT_EQ(bytes_at(at)[0], 0);
  const GraphExecId exec = executable(graph);
  EXPECT_EQ(machine.graph_destroy(graph), Code::success);
  for (int i = 1; i <= 3; ++i) {
    run(exec, main);
    EXPECT_EQ(bytes_at(at)[64], 3 * i);
  }
  EXPECT_EQ(machine.launches("add"), 3U);
  EXPECT_EQ(machine.graph_exec_destroy(exec), Code::success);
  EXPECT_EQ(machine.graph_launch(0, exec, main), Code::invalid_value);
  EXPECT_EQ(machine.graph_exec_destroy(exec), Code::invalid_value);
  EXPECT_EQ(machine.graph_destroy(graph), Code::invalid_value);
}

TEST_F(GraphTest, ALaunchIsInStreamOrder) {
  begin(main);
  adds(main, at, 1);
  const GraphExecId exec = executable(end(main));
  EXPECT_EQ(machine.fill(0, at, 10, 1, side), Code::success);
  EXPECT_EQ(machine.graph_launch(0, exec, side), Code::success);
  EXPECT_EQ(machine.copy(0, at + 8, at, 1, side), Code::success);
  EXPECT_EQ(machine.graph_exec_destroy(exec), Code::success);  // while it is queued
  EXPECT_EQ(machine.stream_synchronize(0, side), Code::success);
  EXPECT_EQ(bytes_at(at)[8], 11);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(GraphTest, BranchesRunAtTheSameTimeAndAreJoined) {
  begin(main);
  works(main, 10 * ms);
  follow(side, main);
  works(main, 10 * ms);
  works(side, 10 * ms);
  EXPECT_EQ(machine.fill(0, at, 7, 8, side), Code::success);
  follow(main, side);
  reads(main, at, 8);
  const GraphExecId exec = executable(end(main));
  const std::uint64_t before = machine.now_ns();
  run(exec, main);
  EXPECT_GE(machine.now_ns() - before, 20 * ms);
  EXPECT_LT(machine.now_ns() - before, 25 * ms);
  EXPECT_EQ(bytes_at(at)[0], 7);
  run(exec, main);
  EXPECT_EQ(faults(), Kinds{});
}

TEST_F(GraphTest, BranchesThatNothingPutsInOrderAreAFault) {
  begin(main);
  works(main, 1);
  follow(side, main);
  writes(main, at, 8);
  writes(side, at, 8);
  follow(main, side);
  const GraphExecId exec = executable(end(main));
  EXPECT_EQ(faults(), Kinds{});
  run(exec, main);
  EXPECT_EQ(faults(), Kinds{FaultKind::unordered_use});
}

TEST_F(GraphTest, AnUnjoinedBranchIsRefused) {
  begin(main);
  works(main, 1);
  follow(side, main);
  works(side, 1);
  GraphId graph = 0;
  EXPECT_EQ(machine.end_capture(0, main, graph), Code::capture_unjoined);
  EXPECT_EQ(graph, 0U);
  EXPECT_EQ(info(side).status, CaptureStatus::none);
  begin(main);
  EXPECT_EQ(machine.end_capture(0, main), Code::success);
}

TEST_F(GraphTest, WhatACaptureTellsOfItself) {
  EXPECT_EQ(info(main).status, CaptureStatus::none);
  begin(main);
  const CaptureInfo empty = info(main);
  EXPECT_EQ(empty.status, CaptureStatus::active);
  EXPECT_TRUE(empty.dependencies.empty());
  works(main, 1);
  const CaptureInfo one = info(main);
  EXPECT_EQ(one.id, empty.id);
  ASSERT_EQ(one.dependencies.size(), 1U);
  follow(side, main);
  EXPECT_EQ(info(side).id, one.id);
  works(side, 1);
  const NodeId on_side = info(side).dependencies[0];
  // A node by hand, behind both, which then stands for the streams' own.
  NodeId by_hand = 0;
  EXPECT_EQ(machine.graph_add(one.graph, {one.dependencies[0], on_side}, {}, by_hand), Code::success);
  EXPECT_EQ(machine.update_capture_dependencies(0, main, {by_hand}, false), Code::success);
  EXPECT_EQ(info(main).dependencies, std::vector<NodeId>{by_hand});
  EXPECT_EQ(machine.update_capture_dependencies(0, main, {on_side}, true), Code::success);
  EXPECT_EQ(info(main).dependencies, (std::vector<NodeId>{by_hand, on_side}));
  EXPECT_EQ(machine.update_capture_dependencies(0, main, {12345}, true), Code::invalid_value);
  EXPECT_EQ(machine.graph_destroy(one.graph), Code::invalid_value);
  EXPECT_EQ(end(main), one.graph);
  EXPECT_EQ(node_count(one.graph), 3U);
  begin(main);
  EXPECT_NE(info(main).id, one.id);
  EXPECT_EQ(machine.event_query(recorded(side)), Code::capture_unsupported);
  EXPECT_EQ(info(main).status, CaptureStatus::invalidated);
  EXPECT_EQ(machine.end_capture(0, main), Code::capture_invalidated);
}

TEST_F(GraphTest, GraphsByHandRunInTheOrderOfTheirNodes) {
  GraphId graph = 0;
  EXPECT_EQ(machine.graph_create(graph), Code::success);
  std::string order;
  const auto add = [&](char name, const std::vector<NodeId>& after) {
    Node node;
    node.kind = NodeKind::kernel;
    node.work = {"kernel", {}, {}, ms, [&order, name] { order += name; }};
    NodeId out = 0;
    EXPECT_EQ(machine.graph_add(graph, after, std::move(node), out), Code::success);
    return out;
  };
  const NodeId a = add('a', {});
  const NodeId b = add('b', {a});
  const NodeId c = add('c', {a});
  add('d', {b, c});
  NodeId out = 0;
  EXPECT_EQ(machine.graph_add(graph, {77}, {}, out), Code::invalid_value);
  const GraphExecId exec = executable(graph);
  const std::uint64_t before = machine.now_ns();
  run(exec, main);
  EXPECT_EQ(order, "abcd");
  EXPECT_LT(machine.now_ns() - before, 4 * ms);
}

TEST_F(GraphTest, HostFunctionsRunAtEachLaunch) {
  int ran = 0;
  begin(main);
  EXPECT_EQ(machine.launch_host(0, main, [&] { ++ran; }), Code::success);
  const GraphExecId exec = executable(end(main));
  EXPECT_EQ(ran, 0);
  run(exec, main);
  run(exec, main);
  EXPECT_EQ(ran, 2);
}

TEST_F(GraphTest, ExternalEventsAreRecordedAtEachLaunch) {
  const EventId event = this->event();
  begin(main);
  works(main, 10 * ms);
  EXPECT_EQ(machine.event_record(0, event, main, true), Code::success);
  works(main, 10 * ms);
  const GraphExecId exec = executable(end(main));
  EXPECT_EQ(machine.graph_launch(0, exec, main), Code::success);
  const std::uint64_t before = machine.now_ns();
  EXPECT_EQ(machine.event_synchronize(event), Code::success);
  EXPECT_LT(machine.now_ns() - before, 12 * ms);
  EXPECT_EQ(machine.stream_query(0, main), Code::not_ready);
}

TEST_F(GraphTest, AGraphLaunchedIntoACaptureBecomesPartOfIt) {
  begin(main);
  adds(main, at, 2);
  const GraphExecId inner = executable(end(main));
  begin(main);
  adds(main, at, 1);
  EXPECT_EQ(machine.graph_launch(0, inner, main), Code::success);
  const GraphId graph = end(main);
  EXPECT_EQ(node_count(graph), 2U);
  EXPECT_EQ(machine.graph_exec_destroy(inner), Code::success);
  run(executable(graph), main);
  EXPECT_EQ(bytes_at(at)[0], 3);
}

TEST_F(GraphTest, AReplayOnFreedMemoryIsAFault) {
  begin(main);
  writes(main, at, 8);
  const GraphExecId exec = executable(end(main));
  EXPECT_EQ(machine.free(at), Code::success);
  EXPECT_EQ(machine.graph_launch(0, exec, main), Code::illegal_address);
  EXPECT_EQ(faults(), Kinds{FaultKind::unmapped_use});
}

TEST_F(GraphTest, MemoryAllocatedInACaptureIsTheGraphs) {
  const std::uint64_t used = machine.used_bytes(0);
  begin(main);
  const std::uint64_t inside = malloc_async(100, main);
  EXPECT_EQ(machine.fill(0, inside, 4, 100, main), Code::success);
  EXPECT_EQ(machine.copy(0, at, inside, 100, main), Code::success);
  EXPECT_EQ(machine.free_async(inside, 0, main), Code::success);
  const GraphId graph = end(main);
  const GraphExecId exec = executable(graph);
  EXPECT_EQ(machine.graph_destroy(graph), Code::success);
  EXPECT_EQ(machine.graph_launch(0, exec, main), Code::success);
  EXPECT_EQ(machine.used_bytes(0), used + 2 * MiB);
  EXPECT_EQ(machine.graph_exec_destroy(exec), Code::success);
  EXPECT_EQ(machine.stream_synchronize(0, main), Code::success);
  EXPECT_EQ(bytes_at(at)[99], 4);
  EXPECT_EQ(machine.used_bytes(0), used);
  EXPECT_EQ(faults(), Kinds{});
}

}  // namespace
}  // namespace reprieve::simgpu
