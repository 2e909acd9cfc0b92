#include "run.hpp"

#include <algorithm>
#include <cstring>

#include "generator.hpp"

namespace reprieve::fuzz {
namespace {

void copy_text(char* to, std::size_t room, const std::string& text) {
  const std::size_t length = std::min(room - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = 0;
}

}  // namespace

bool run_made_up(std::uint64_t list_seed, Workers& workers, Recording& recording) {
  Generator generator(list_seed);
  recording.list_seed = list_seed;
  recording.setup = generator.setup();
  recording.count = 0;
  World world(generator.setup(), workers);
  const std::size_t length = std::min(generator.length(), Recording::most);
  while (!world.failed() && recording.count < length) {
    const std::uint32_t thread = world.thread();
    workers.run(thread, [&] {
      while (!world.failed() && recording.count < length && world.thread() == thread) {
        const Instruction instruction = generator.next(world);
        recording.instructions[recording.count++] = instruction;
        ++recording.executed;
        world.execute(instruction);
      }
    });
  }
  if (!world.failed()) world.finish();
  if (!world.failed()) return true;
  copy_text(recording.kind, sizeof(recording.kind), world.difference()->kind);
  copy_text(recording.text, sizeof(recording.text), world.difference()->text);
  return false;
}

std::optional<Difference> run_given(const Setup& setup, const List& list, Workers& workers) {
  World world(setup, workers);
  world.be_thorough();
  for (std::size_t i = 0; i < list.size() && !world.failed();) {
    const std::uint32_t thread = world.thread();
    workers.run(thread, [&] {
      while (i < list.size() && !world.failed() && world.thread() == thread) world.execute(list[i++]);
    });
  }
  if (!world.failed()) world.finish();
  return world.difference();
}

}  // namespace reprieve::fuzz
