// The process's machine, its settings, and the C interface.
#include "simgpu/process.hpp"

#include <cstring>

#include "machine_test.hpp"
#include "simgpu/settings.hpp"
#include "simgpu/sim.h"

namespace reprieve::simgpu {
namespace {

class ProcessTest : public ::testing::Test {
 protected:
  void TearDown() override {
    reprieve_sim_let_go();
    EXPECT_EQ(running_machine(), nullptr);
  }
  std::shared_ptr<Machine> make(const Options& options, User user = User::library) {
    return process_machine(options, user, error);
  }
  static Options small() {
    Options out = default_options();
    out.sim_capacity = 64 * MiB + 5;
    out.sim_devices = 2;
    return out;
  }

  std::string error;
};

TEST_F(ProcessTest, OneMachineForAllWhoHoldIt) {
  const auto machine = make(small());
  ASSERT_NE(machine, nullptr);
  EXPECT_EQ(make(small()), machine);
  EXPECT_EQ(running_machine(), machine);
  EXPECT_EQ(machine->device_count(), 2);
  EXPECT_EQ(machine->config().device_bytes, 64 * MiB);
  EXPECT_EQ(process_options().sim_devices, 2U);
  EXPECT_EQ(make(default_options()), nullptr);
  EXPECT_EQ(error,
            "the process has 2 simulated GPUs of 64.00 MiB beside 256.00 GiB of host memory; sim_devices, sim_capacity "
            "and sim_host_capacity cannot differ from that");
}

TEST_F(ProcessTest, AnotherIsMadeWhenAllHaveLetGo) {
  auto machine = make(small());
  const std::weak_ptr<Machine> gone = machine;
  machine.reset();
  EXPECT_TRUE(gone.expired());
  const auto next = make(default_options());
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next->device_count(), 1);
}

TEST_F(ProcessTest, AutoIsEagerUnderTheStandin) {
  auto machine = make(small());
  EXPECT_EQ(machine->mode(), Mode::lazy);
  EXPECT_EQ(make(small(), User::standin), machine);
  EXPECT_EQ(machine->mode(), Mode::eager);
  machine.reset();
  Options lazy = small();
  lazy.sim_mode = SimMode::lazy;
  machine = make(lazy, User::standin);
  EXPECT_EQ(machine->mode(), Mode::lazy);
  EXPECT_EQ(machine->config().poison, Poison::on_use);
}

TEST_F(ProcessTest, FailuresAndHeldStreamsComeWithTheOptions) {
  Options options = small();
  options.sim_fail = "create:after=1,times=2,code=801; malloc:";
  options.sim_hold = "legacy,1:1";
  const auto machine = make(options);
  ASSERT_NE(machine, nullptr) << error;
  EXPECT_EQ(machine->pending_failures(), 3U);
  HandleId handle = 0;
  EXPECT_EQ(machine->create(0, Location::device, chunk_bytes, handle), Code::success);
  EXPECT_EQ(machine->create(0, Location::device, chunk_bytes, handle), Code::not_supported);
  std::uint64_t at = 0;
  EXPECT_EQ(machine->malloc(0, 8, at), Code::out_of_memory);
  StreamId held = 0;
  EXPECT_EQ(machine->stream_create(1, held), Code::success);
  EXPECT_EQ(machine->launch(1, held, {}), Code::success);
  EXPECT_EQ(machine->launch(0, legacy_stream, {}), Code::success);
  machine->advance(1'000'000);
  EXPECT_EQ(machine->stream_query(1, held), Code::not_ready);
  EXPECT_EQ(machine->stream_query(0, legacy_stream), Code::not_ready);
}

TEST_F(ProcessTest, BadListsAreRefusedInOneLine) {
  Options options = small();
  for (const char* bad :
       {"creates", "create:after", "create:after=x", "create:code=0", "create:code=1000", "create:n=1"}) {
    options.sim_fail = bad;
    EXPECT_EQ(make(options), nullptr) << bad;
    EXPECT_TRUE(error.starts_with("sim_fail: '")) << error;
  }
  options.sim_fail = "none";
  for (const char* bad : {"0", "2:legacy", "x", "1:", "-1"}) {
    options.sim_hold = bad;
    EXPECT_EQ(make(options), nullptr) << bad;
    EXPECT_EQ(error,
              std::string("sim_hold: '") + bad +
                  "' is not accepted: legacy or the number of a stream (from 1), behind a device from 0 to 1 and "
                  "a colon where it is not device 0");
  }
}

TEST_F(ProcessTest, TheCInterfaceSteersIt) {
  const auto machine = make(small());
  EXPECT_EQ(reprieve_sim_set_capacity(1, 4 * MiB), 0);
  EXPECT_EQ(reprieve_sim_set_capacity(2, 4 * MiB), -1);
  EXPECT_STREQ(reprieve_sim_last_error(), "device 2: there are 2");
  std::uint64_t at = 0;
  EXPECT_EQ(machine->malloc(1, 6 * MiB, at), Code::out_of_memory);
  EXPECT_EQ(machine->malloc(1, 4 * MiB, at), Code::success);
  EXPECT_EQ(reprieve_sim_used_bytes(1), 4 * MiB);
  EXPECT_EQ(reprieve_sim_fail("malloc", 0, 1, 2), 0);
  EXPECT_EQ(reprieve_sim_pending_failures(), 1U);
  reprieve_sim_clear_failures();
  EXPECT_EQ(reprieve_sim_fail("mallocs", 0, 1, 2), -1);
  EXPECT_EQ(reprieve_sim_fail("malloc", 0, 1, 0), -1);
  EXPECT_EQ(machine->launch(0, legacy_stream, {"gemm", {}, {}, 1, {}}), Code::success);
  EXPECT_EQ(reprieve_sim_launches("em"), 1U);
  EXPECT_EQ(reprieve_sim_calls("malloc"), 2U);
  reprieve_sim_reset_counters();
  EXPECT_EQ(reprieve_sim_launches(""), 0U);
  EXPECT_STREQ(reprieve_sim_call_name(0), "reserve");
  EXPECT_EQ(reprieve_sim_call_name(static_cast<int>(call_kinds)), nullptr);
}

TEST_F(ProcessTest, TheCInterfaceHoldsStreamsAndTellsFaults) {
  const auto machine = make(small());
  EXPECT_EQ(reprieve_sim_hold(0, nullptr), 0);
  EXPECT_EQ(reprieve_sim_hold(0, reinterpret_cast<void*>(0x99)), -1);
  EXPECT_EQ(machine->launch(0, legacy_stream, {}), Code::success);
  const std::uint64_t before = reprieve_sim_now_ns();
  reprieve_sim_advance(1'000'000);
  EXPECT_EQ(reprieve_sim_now_ns() - before, 1'000'000U);
  EXPECT_EQ(machine->synchronize(0), Code::launch_timeout);
  EXPECT_EQ(reprieve_sim_fault_count(), 1U);
  char text[10] = {};
  EXPECT_EQ(reprieve_sim_fault(0, text, sizeof text), machine->faults()[0].text.size());
  EXPECT_STREQ(text, "a device'");
  EXPECT_EQ(reprieve_sim_fault(1, text, sizeof text), 0U);
  reprieve_sim_clear_faults();
  EXPECT_EQ(reprieve_sim_fault_count(), 0U);
  EXPECT_EQ(reprieve_sim_release(0, nullptr), 0);
  EXPECT_EQ(machine->synchronize(0), Code::success);
  EXPECT_STREQ(reprieve_sim_mode(), "lazy");
  EXPECT_EQ(reprieve_sim_set_mode("eager"), 0);
  EXPECT_STREQ(reprieve_sim_mode(), "eager");
  EXPECT_EQ(reprieve_sim_set_mode("quick"), -1);
}

TEST_F(ProcessTest, TheCInterfaceMakesAMachineWhereThereIsNone) {
  EXPECT_EQ(reprieve_sim_set_capacity(0, 4 * MiB), 0);
  std::uint64_t free = 0;
  std::uint64_t total = 0;
  EXPECT_EQ(running_machine()->memory_info(0, free, total), Code::success);
  EXPECT_EQ(total, 4 * MiB);
}

TEST_F(ProcessTest, OnlyTheSameVersionIsServed) {
  const Options options = small();
  char error_text[200] = {};
  EXPECT_EQ(reprieve_sim_open_backend("9.9.9", &options, sizeof options, error_text, sizeof error_text), nullptr);
  EXPECT_EQ(std::string(error_text),
            std::string("libreprieve_simgpu.so is of version ") + reprieve_sim_version() + ", libreprieve.so of 9.9.9");
}

}  // namespace
}  // namespace reprieve::simgpu
