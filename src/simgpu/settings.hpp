// The options of the simulation that are lists in one text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simgpu/failures.hpp"

namespace reprieve::simgpu {

struct FailureRule {
  Call call{};
  std::uint64_t after = 0;
  std::uint64_t times = 1;
  Code code = Code::out_of_memory;
};

// "create:after=3,times=1,code=2;malloc:times=2". False, and one line in `error`, where the text is none.
bool parse_failures(std::string_view text, std::vector<FailureRule>& out, std::string& error);

struct HeldStream {
  int device = 0;
  std::uint64_t number = 0;  // 0: the legacy stream, else the N-th that is created on the device
};

// "legacy,2,1:legacy,1:7": of device 0 where none is named.
bool parse_held_streams(std::string_view text, int devices, std::vector<HeldStream>& out, std::string& error);

}  // namespace reprieve::simgpu
