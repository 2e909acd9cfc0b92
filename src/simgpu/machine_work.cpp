// Queued work: kernels, copies, fills and host functions.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "simgpu/turn.hpp"

namespace reprieve::simgpu {
namespace {

unsigned char* bytes_at(std::uint64_t address) {
  return reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address));
}

}  // namespace

Code Machine::find_pieces(const Queue& queue, const Work& work, std::vector<Access>& out, Code unmapped) {
  for (const bool write : {false, true}) {
    for (const Range& range : write ? work.writes : work.reads) {
      if (range.bytes == 0) continue;
      Access access{{}, range.address, range.bytes, write};
      const int device = work.any_device ? AddressSpace::any_device : queue.device;
      if (!space_.pieces(range.address, range.bytes, device, access.pieces)) {
        const WorkId id{0, 0, work.name, work.kernel, queue.stream, queue.device};
        report(FaultKind::unmapped_use, range.address, range.bytes,
               fmt::format("use of unmapped addresses: the {} {} {:#x}, {} bytes, not all of it mapped and accessible",
                           describe(id), write ? "writes" : "reads", range.address, range.bytes));
        return unmapped;
      }
      out.push_back(std::move(access));
    }
  }
  return Code::success;
}

// Enters the uses into the histories of the bytes; whatever they are not ordered after is reported.
void Machine::note_uses(Queue& queue, const std::vector<Access>& accesses, const std::shared_ptr<const WorkId>& id) {
  for (const Access& access : accesses) {
    for (const Piece& piece : access.pieces) {
      Mapping& mapping = *piece.mapping;
      const Use use{id, piece.at};
      const Use conflict = mapping.physical->history.add(piece.physical_begin(), piece.physical_begin() + piece.bytes,
                                                         access.write, use, queue.clock, known_);
      if (conflict) {
        report(FaultKind::unordered_use, piece.at, piece.bytes,
               fmt::format("unordered use: the {} {} {:#x}, {} bytes, which the {} uses at {:#x}; nothing puts one "
                           "after the other",
                           describe(*id), access.write ? "writes" : "reads", piece.at, piece.bytes,
                           describe(*conflict.work), conflict.address));
      }
      std::erase_if(mapping.users, [&](const Use& user) { return user.work->queue == queue.index; });
      mapping.users.push_back(use);
    }
  }
}

void Machine::run_work(const Work& work, const std::vector<Access>& accesses, const WorkId* id) {
  for (const Access& access : accesses) {
    for (const Piece& piece : access.pieces) {
      if (piece.mapping->alive) continue;
      report(FaultKind::changed_backing, piece.at, piece.bytes,
             fmt::format("backing changed before use: what {:#x} was mapped to when the {} was queued had been "
                         "unmapped by the time it ran",
                         piece.at, describe(*id)));
      return;
    }
  }
  if (!work.effect) return;
  for (const Access& access : accesses) {
    for (const Piece& piece : access.pieces) settle(piece, access.write && work.overwrites);
  }
  work.effect();
}

Code Machine::enqueue_work(Queue& queue, Work work, Code unmapped, std::vector<std::shared_ptr<Operation>> after) {
  std::vector<Access> accesses;
  if (const Code code = find_pieces(queue, work, accesses, unmapped); code != Code::success) return code;
  const bool at_once = mode() == Mode::eager && after.empty() && timeline_.free_to_run(queue);
  std::shared_ptr<Operation> operation;
  if (at_once) {
    now_ns_.store(timeline_.pass(queue, now_ns(), work.duration_ns), std::memory_order_relaxed);
  } else {
    operation = std::make_shared<Operation>();
    operation->enqueued_ns = now_ns();
    operation->duration_ns = work.duration_ns;
    operation->after = std::move(after);
    timeline_.enqueue(queue, operation);
  }
  inform(queue);
  std::shared_ptr<const WorkId> id;
  if (!accesses.empty()) {
    queue.clock.set(queue.index, ++queue.uses);
    id = std::make_shared<const WorkId>(
        WorkId{queue.index, queue.uses, work.name, work.kernel, queue.stream, queue.device});
    note_uses(queue, accesses, id);
  }
  if (at_once) {
    run_work(work, accesses, id.get());
    return Code::success;
  }
  if (work.effect || !accesses.empty()) {
    operation->on_done = [this, id, work = std::move(work), accesses = std::move(accesses)] {
      run_work(work, accesses, id.get());
    };
  }
  timeline_.run_until(now_ns());
  return Code::success;
}

Code Machine::submit(Queue& queue, NodeKind kind, Work&& work, Code unmapped) {
  if (const Code code = admit(queue); code != Code::success) return code;
  if (queue.capture == nullptr) {
    if (kind == NodeKind::kernel) count_launch(work);
    return enqueue_work(queue, std::move(work), unmapped);
  }
  Node node;
  node.kind = kind;
  node.work = std::move(work);
  add_node(queue, std::move(node));
  return Code::success;
}

Code Machine::launch(int device, StreamId stream, Work work) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::launch); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  return submit(*queue, NodeKind::kernel, std::move(work), Code::illegal_address);
}

Code Machine::copy(int device, std::uint64_t to, std::uint64_t from, std::uint64_t bytes, StreamId stream) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::copy); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (bytes == 0) return Code::success;
  bool over_pcie = false;
  for (const std::uint64_t side : {to, from}) {
    std::vector<Piece> pieces;
    if (!space_.pieces(side, bytes, device, pieces)) continue;  // reported below
    for (const Piece& piece : pieces) over_pcie |= piece.mapping->physical->where == Location::host;
  }
  Work work{"copy", {{from, bytes}}, {{to, bytes}}, costs::copy_work_ns(bytes, over_pcie), {}};
  work.overwrites = true;
  work.effect = [to, from, bytes] { std::memmove(bytes_at(to), bytes_at(from), bytes); };
  return submit(*queue, NodeKind::copy, std::move(work), Code::invalid_value);
}

Code Machine::fill(int device, std::uint64_t to, std::uint8_t value, std::uint64_t bytes, StreamId stream) {
  return fill(device, Fill{to, value, 1, bytes, 0, 1}, stream);
}

Code Machine::launch_host(int device, StreamId stream, HostFunction function) {
  Turn turn(*this);
  if (const Code code = turn.begin(Call::host_function); code != Code::success) return code;
  spend(costs::launch_ns);
  Queue* queue = find_queue(device, stream);
  if (queue == nullptr) return Code::invalid_handle;
  if (!function) return Code::invalid_value;
  if (const Code code = admit(*queue); code != Code::success) return code;
  if (queue->capture != nullptr) {
    Node node;
    node.kind = NodeKind::host;
    node.host = std::move(function);
    add_node(*queue, std::move(node));
    return Code::success;
  }
  enqueue_host(*queue, std::move(function), {});
  return Code::success;
}

void Machine::enqueue_host(Queue& queue, HostFunction function, std::vector<std::shared_ptr<Operation>> after) {
  auto operation = std::make_shared<Operation>();
  operation->enqueued_ns = now_ns();
  operation->duration_ns = costs::host_function_ns;
  operation->after = std::move(after);
  operation->host = std::move(function);
  timeline_.enqueue(queue, operation);
  inform(queue);
  timeline_.run_until(now_ns());
}

}  // namespace reprieve::simgpu
