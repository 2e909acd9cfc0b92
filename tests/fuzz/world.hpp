// Carries out instructions on real allocators over a simulated machine, and compares all that can be seen with the
// shadow. The first difference is kept, and nothing after it is looked at.
//
// There are no callbacks yet, so none of the instructions calls the allocator from inside one.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "device/sim.hpp"
#include "instruction.hpp"
#include "shadow.hpp"
#include "workers.hpp"

namespace reprieve::fuzz {

struct Difference {
  std::string kind;  // the same for the same kind of mistake, whatever the numbers
  std::string text;
};

class World {
 public:
  World(const Setup& setup, Workers& workers);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // On thread `thread()` of the workers.
  void execute(const Instruction& instruction);
  // From outside the workers: settles everything, destroys the allocators and looks for what they left behind.
  void finish();

  std::uint32_t thread() const { return thread_; }
  bool failed() const { return difference_.has_value(); }
  const std::optional<Difference>& difference() const { return difference_; }
  // Look at everything after each instruction, not only now and then.
  void be_thorough() { thorough_ = true; }

  // ---- what a generator may look at ----
  const std::vector<std::uint32_t>& used_slots() const { return used_slots_; }
  bool slot_used(std::uint32_t slot) const { return blocks_[slot].has_value(); }
  const std::optional<Block>& block(std::uint32_t slot) const { return blocks_[slot]; }
  // The number of the block's stream, where the current thread can name it.
  std::optional<std::uint32_t> home_number(const Block& block) const;
  std::uint64_t used_bytes(int device) const { return machine_.used_bytes(device); }

 private:
  struct Outcome {
    Status status;
    std::uint64_t injected = 0;  // failures that were met
  };
  struct OneDevice {
    std::unique_ptr<device::Device> device;
    std::unique_ptr<memory::Allocator> allocator;
    DeviceShadow shadow;
  };

  // ---- world.cpp ----
  void fail(const char* kind, std::string text);
  template <typename F>
  Outcome call(F&& body);
  void after_each();
  void check_faults();
  void dispatch(const Instruction& instruction);
  void steer(const Instruction& instruction);
  OneDevice& device_of(std::uint32_t stream) { return devices_[stream / device_streams % devices_.size()]; }
  int ordinal_of(std::uint32_t stream) const { return static_cast<int>(stream / device_streams % devices_.size()); }

  // ---- world_gpu.cpp: streams, work and captures ----
  LaneId add_lane(int device, simgpu::StreamId id, device::Stream handle);
  LaneId lane_of(std::uint32_t stream) const;
  device::Stream handle_of(std::uint32_t stream) const;
  bool any_held() const;
  bool any_capturing() const;
  bool hidden(const Lane& lane) const;
  bool any_hidden_capture() const;
  bool enqueueable(const Lane& lane) const;
  bool order(LaneId after, LaneId before);
  void use(const Instruction& instruction, bool write);
  bool record(Block& block, LaneId lane, device::Stream handle);
  void synchronize(const Instruction& instruction);
  void begin_capture(const Instruction& instruction);
  void end_capture(LaneId lane);
  void destroy_stream(const Instruction& instruction);
  void replay_graph(const Instruction& instruction);

  // ---- world_memory.cpp ----
  void allocate(std::uint32_t slot, LaneId lane, device::Stream handle, std::uint32_t pool, std::uint64_t bytes,
                bool must_succeed);
  void check_refusal(OneDevice& on, std::uint64_t bytes, const Outcome& outcome, bool pool_exists);
  bool must_fit(const OneDevice& on, std::uint64_t bytes);
  void take_block(std::uint32_t slot, Block block);
  bool free_block(std::uint32_t slot, bool prefer_recorded);
  void free_on(const Instruction& instruction);
  void reallocate(const Instruction& instruction);
  void drop(std::uint32_t slot);
  void free_wrong(std::uint64_t address);
  void trim(const Instruction& instruction);
  void pools(const Instruction& instruction);

  // ---- world_checks.cpp ----
  void check_totals(OneDevice& on);
  void check_blocks(const char* kind, const memory::Totals& said, const Totals& totals);
  void check_total(const char* kind, const char* name, const memory::Counter& counter, const Total& total);
  void check_kinds(const memory::Stats& stats);
  void check_records();
  void check_contents(const Block& block);

  const Setup setup_;
  Workers& workers_;
  mutable simgpu::Machine machine_;
  memory::AddressMap addresses_;
  std::vector<OneDevice> devices_;
  std::vector<Lane> lanes_;
  std::vector<LaneId>
      numbered_;  // lanes of the created streams and the legacy ones, by stream number; per-thread: below
  std::vector<LaneId> per_thread_;  // device * threads + thread
  std::vector<std::optional<Block>> blocks_;
  std::vector<std::uint64_t> freed_at_;  // the address freed last, by slot
  std::vector<std::uint32_t> used_slots_;
  std::vector<std::uint32_t> used_index_;
  std::vector<PrivatePool> pools_;
  std::set<std::int32_t> injected_codes_;
  std::uint64_t next_serial_ = 1;
  std::uint64_t next_value_ = 1;
  std::int64_t wrong_frees_ = 0;
  std::uint32_t thread_ = 0;
  std::uint64_t executed_ = 0;
  bool thorough_ = false;
  bool switched_ = false;  // several threads have run instructions
  std::atomic<std::uint64_t> wrong_reads_{0};
  std::optional<Difference> difference_;
};

}  // namespace reprieve::fuzz
