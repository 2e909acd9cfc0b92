// reprieve_fuzz [--instructions N] [--seed S] [--shrink-seconds T]
//
// The lists run in a child process, so that a crash or a hang is found and shrunk like any other failure. Exit code 1
// on a failure, 2 on a wrong argument.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <string_view>

#include "run.hpp"
#include "shrink.hpp"

namespace reprieve::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned longest_list_seconds = 120;  // a list takes milliseconds, with sanitizers less than a second

struct Arguments {
  std::uint64_t instructions = 100'000;
  std::uint64_t seed = 0;
  std::uint64_t shrink_seconds = 60;
};

// How a child ended: empty where all was well, the kind of difference, or the signal.
template <typename F>
std::string in_child(Recording& recording, F&& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const bool well = body();
    std::fflush(nullptr);
    _exit(well ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no child process";
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "hang" : fmt::format("signal {}", strsignal(WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) == 0) return {};
  return recording.kind[0] != 0 ? recording.kind : fmt::format("exit code {}", WEXITSTATUS(status));
}

std::string run_lists(const Arguments& arguments, Recording& recording) {
  return in_child(recording, [&] {
    Workers workers(threads);
    std::mt19937_64 seeds(arguments.seed);
    for (std::uint64_t said = 1'000'000; recording.executed < arguments.instructions;) {
      alarm(longest_list_seconds);
      if (!run_made_up(seeds(), workers, recording)) return false;
      if (recording.executed < said) continue;
      fmt::print("{} instructions\n", recording.executed);
      said += 1'000'000;
    }
    return true;
  });
}

std::string run_one(const Setup& setup, const List& list, Recording& recording) {
  recording.kind[0] = recording.text[0] = 0;
  return in_child(recording, [&] {
    alarm(longest_list_seconds);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) return false;  // a sanitizer's report, each time
    Workers workers(threads);
    const std::optional<Difference> difference = run_given(setup, list, workers);
    if (!difference) return true;
    std::snprintf(recording.kind, sizeof(recording.kind), "%s", difference->kind.c_str());
    std::snprintf(recording.text, sizeof(recording.text), "%s", difference->text.c_str());
    return false;
  });
}

void shrink_and_print(const Arguments& arguments, Recording& recording, const std::string& kind) {
  const Setup setup = recording.setup;
  List list(recording.instructions, recording.instructions + recording.count);
  fmt::print("{}: {}\nThe list with seed {}, {} instructions, is being shrunk.\n", kind, recording.text,
             recording.list_seed, list.size());
  const auto fails = [&](const List& candidate) { return run_one(setup, candidate, recording) == kind; };
  if (fails(list)) {
    list = shrink(std::move(list), fails, Clock::now() + std::chrono::seconds(arguments.shrink_seconds));
    fails(list);
  } else {
    fmt::print("Run once more with all checks after each instruction, it does not fail so.\n");
  }
  fmt::print("\n{}\n", as_code(setup, list, fmt::format("{}: {}", kind, recording.text)));
}

bool parse(int count, char** texts, Arguments& out) {
  for (int i = 1; i < count; i += 2) {
    const std::string_view name = texts[i];
    std::uint64_t* value = name == "--instructions"     ? &out.instructions
                           : name == "--seed"           ? &out.seed
                           : name == "--shrink-seconds" ? &out.shrink_seconds
                                                        : nullptr;
    const std::string_view text = i + 1 < count ? texts[i + 1] : "";
    if (value == nullptr ||
        std::from_chars(text.data(), text.data() + text.size(), *value).ptr != text.data() + text.size() ||
        text.empty()) {
      fmt::print(stderr, "usage: reprieve_fuzz [--instructions N] [--seed S] [--shrink-seconds T]\n");
      return false;
    }
  }
  return true;
}

int run(int count, char** texts) {
  Arguments arguments;
  arguments.seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  if (!parse(count, texts, arguments)) return 2;
  void* const shared = mmap(nullptr, sizeof(Recording), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  auto& recording = *new (shared) Recording();
  fmt::print("seed {}\n", arguments.seed);
  const Clock::time_point start = Clock::now();
  const std::string kind = run_lists(arguments, recording);
  const std::chrono::duration<double> seconds = Clock::now() - start;
  if (kind.empty()) {
    fmt::print("{} instructions without a difference, {:.1f} s\n", recording.executed, seconds.count());
    return 0;
  }
  fmt::print("failed after {} instructions, {:.1f} s\n", recording.executed, seconds.count());
  shrink_and_print(arguments, recording, kind);
  return 1;
}

}  // namespace
}  // namespace reprieve::fuzz

int main(int count, char** texts) { return reprieve::fuzz::run(count, texts); }
