// Copies and fills as the CUDA runtime has them: between any kinds of memory, in rows, with patterns.
#include <cstring>
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

// Above this, rows are taken for one range with their gaps.
constexpr std::uint64_t rows_apart = 4096;

unsigned char* bytes_at(std::uint64_t address) {
  return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address));
}

void add_rows(std::vector<Range>& out, std::uint64_t at, std::uint64_t bytes, std::uint64_t pitch, std::uint64_t rows) {
  if (rows > rows_apart) {
    out.push_back({at, pitch * (rows - 1) + bytes});
    return;
  }
  for (std::uint64_t row = 0; row < rows; ++row) out.push_back({at + row * pitch, bytes});
}

void copy_rows(const Transfer& transfer) {
  for (std::uint64_t row = 0; row < transfer.rows; ++row) {
    std::memmove(bytes_at(transfer.to + row * transfer.to_pitch), bytes_at(transfer.from + row * transfer.from_pitch),
                 transfer.bytes);
  }
}

void fill_rows(const Fill& fill) {
  for (std::uint64_t row = 0; row < fill.rows; ++row) {
    unsigned char* const at = bytes_at(fill.to + row * fill.pitch);
    if (fill.element_bytes == 1) {
      std::memset(at, static_cast<int>(fill.value & 0xff), fill.bytes);
      continue;
    }
    // The low bytes come first: the platform is x86-64.
    for (std::uint64_t i = 0; i < fill.bytes; i += fill.element_bytes)
      std::memcpy(at + i, &fill.value, fill.element_bytes);
  }
}

// Rows that follow each other without a gap are one.
template <typename Rows>
bool gapless(const Rows& rows, std::uint64_t pitch) {
  return rows.rows == 1 || pitch == rows.bytes;
}

}  // namespace

// What the two sides of a copy are.
struct Machine::Sides {
  bool to_pageable = false;
  bool from_pageable = false;
  bool to_host = false;  // pageable or pinned
  bool from_host = false;
};

bool Machine::is_pageable(std::uint64_t address) const {
  return space_.find_mapping(address) == nullptr && !space_.owns(address);
}

Machine::Sides Machine::look_at_sides(const Transfer& transfer) const {
  Sides out;
  const auto is_host = [&](std::uint64_t address) {
    const auto mapping = space_.find_mapping(address);
    return mapping != nullptr && mapping->physical->where == Location::host;
  };
  out.to_pageable = is_pageable(transfer.to);
  out.from_pageable = is_pageable(transfer.from);
  out.to_host = out.to_pageable || is_host(transfer.to);
  out.from_host = out.from_pageable || is_host(transfer.from);
  return out;
}

Code Machine::copy(int device, const Transfer& given, StreamId stream, CopyCall call) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::copy); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  Transfer transfer = given;
  if (transfer.bytes == 0 || transfer.rows == 0) return Code::success;
  if (transfer.rows > 1 && (transfer.to_pitch < transfer.bytes || transfer.from_pitch < transfer.bytes)) {
    return Code::invalid_value;
  }
  if (gapless(transfer, transfer.to_pitch) && gapless(transfer, transfer.from_pitch)) {
    transfer.bytes *= transfer.rows;
    transfer.rows = 1;
  }
  // Legal while another stream captures, though it may wait.
  if (call == CopyCall::synchronous && queue->capture != nullptr) {
    queue->capture->invalidated = true;
    return Code::capture_unsupported;
  }
  if (const Code code = admit(*queue); code != Code::success) return code;

  const Sides sides = look_at_sides(transfer);
  Work work;
  work.name = "copy";
  work.overwrites = transfer.rows <= rows_apart;
  work.any_device = true;
  if (!sides.from_pageable) add_rows(work.reads, transfer.from, transfer.bytes, transfer.from_pitch, transfer.rows);
  if (!sides.to_pageable) add_rows(work.writes, transfer.to, transfer.bytes, transfer.to_pitch, transfer.rows);
  work.duration_ns = costs::copy_work_ns(transfer.bytes * transfer.rows, sides.to_host || sides.from_host);
  const bool returns_when_done =
      sides.to_pageable || (call == CopyCall::synchronous && (sides.to_host || sides.from_host));
  const bool runs_before_return =
      returns_when_done || (mode() == Mode::eager && timeline_.free_to_run(*queue)) || queue->capture != nullptr;
  if (sides.from_pageable && !runs_before_return) {
    auto staged = std::make_shared<std::vector<unsigned char>>(transfer.bytes * transfer.rows);
    Transfer into = transfer;
    into.to = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(staged->data()));
    into.to_pitch = transfer.bytes;
    copy_rows(into);
    work.effect = [staged, transfer]() mutable {
      transfer.from = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(staged->data()));
      transfer.from_pitch = transfer.bytes;
      copy_rows(transfer);
    };
  } else {
    work.effect = [transfer] { copy_rows(transfer); };
  }
  if (const Code code = submit(*queue, NodeKind::copy, std::move(work), Code::invalid_value); code != Code::success) {
    return code;
  }
  if (!returns_when_done || queue->capture != nullptr) return Code::success;
  const Placed placed = queue->last;
  const Code code = wait_endless(turn, {{placed, queue->clock}}, "a copy that returns when it is done");
  // The caller's memory may be gone when the stream goes on.
  if (code != Code::success) placed->on_done = nullptr;
  return code;
}

Code Machine::fill(int device, const Fill& given, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::fill); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  Fill fill = given;
  const bool element_fits = fill.element_bytes == 1 || fill.element_bytes == 2 || fill.element_bytes == 4;
  if (!element_fits || fill.bytes % fill.element_bytes != 0 || fill.to % fill.element_bytes != 0 ||
      (fill.rows > 1 && fill.pitch < fill.bytes)) {
    return Code::invalid_value;
  }
  if (fill.bytes == 0 || fill.rows == 0) return Code::success;
  if (gapless(fill, fill.pitch)) {
    fill.bytes *= fill.rows;
    fill.rows = 1;
  }
  Work work;
  work.name = "fill";
  work.overwrites = fill.rows <= rows_apart;
  add_rows(work.writes, fill.to, fill.bytes, fill.pitch, fill.rows);
  work.duration_ns = costs::fill_work_ns(fill.bytes * fill.rows);
  work.effect = [fill] { fill_rows(fill); };
  return submit(*queue, NodeKind::fill, std::move(work), Code::invalid_value);
}

}  // namespace reprieve::simgpu
