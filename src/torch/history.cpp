#include "torch/history.hpp"

#include <c10/util/ApproximateClock.h>

#include <algorithm>

namespace reprieve::torch_adapter {
namespace {

thread_local std::vector<std::string> compile_contexts;
thread_local std::string metadata_of_user;

constexpr size_t annotations_kept = 100'000;

}  // namespace

void History::update_listening() { listening_.store(recording() || !trackers_.empty(), std::memory_order_relaxed); }

void History::set(bool enabled, Recorder recorder, size_t max_entries, When when, bool clear,
                  const std::vector<std::string>& skip_actions) {
  unsigned skipped = 0;
  for (const std::string& action : skip_actions) {
    skipped |= 1U << static_cast<unsigned>(c10::CachingDeviceAllocator::parseTraceEntryAction(action));
  }
  const std::scoped_lock lock(mutex_);
  recorder_.store(recorder, std::memory_order_relaxed);
  max_entries_ = std::max<size_t>(max_entries, 1);
  skipped_actions_ = skipped;
  when_.store(enabled ? when : When::NEVER, std::memory_order_relaxed);
  if (!enabled || clear) {
    rings_.clear();
    annotations_.clear();
  }
  if (!enabled) {
    contexts_.clear();
    deferred_.clear();
  }
  for (Ring& ring : rings_) {
    // A ring that is smaller from now on keeps its newest entries.
    std::rotate(ring.entries.begin(), ring.entries.begin() + static_cast<std::ptrdiff_t>(ring.next),
                ring.entries.end());
    ring.next = 0;
    if (ring.entries.size() > max_entries_) {
      ring.entries.erase(ring.entries.begin(), ring.entries.end() - static_cast<std::ptrdiff_t>(max_entries_));
    }
  }
  recording_.store(enabled, std::memory_order_relaxed);
  update_listening();
}

void History::add_tracker(Tracker tracker) {
  const std::scoped_lock lock(mutex_);
  trackers_.push_back(std::move(tracker));
  update_listening();
}

History::Context History::gather(When level) const {
  if (static_cast<int>(when_.load(std::memory_order_relaxed)) < static_cast<int>(level)) return nullptr;
  const Recorder recorder = recorder_.load(std::memory_order_relaxed);
  return recorder == nullptr ? nullptr : recorder();
}

History::Entry History::make(Entry::Action action, int device, size_t address, size_t bytes, cudaStream_t stream,
                             c10::MempoolId_t pool, Context context) const {
  const bool with_stack = static_cast<int>(when_.load(std::memory_order_relaxed)) >= static_cast<int>(When::ALLOC);
  return {action,
          static_cast<c10::DeviceIndex>(device),
          address,
          bytes,
          stream,
          std::move(pool),
          c10::getApproximateTime(),
          with_stack ? std::move(context) : nullptr,
          compile_contexts.empty() ? std::string() : compile_contexts.back(),
          metadata_of_user};
}

// Precondition: mutex_ is held.
void History::keep(Entry entry) {
  for (const Tracker& tracker : trackers_) tracker(entry);
  if (!recording() || (skipped_actions_ >> static_cast<unsigned>(entry.action_) & 1U) != 0) return;
  const auto index = static_cast<size_t>(entry.device_);
  if (rings_.size() <= index) rings_.resize(index + 1);
  Ring& ring = rings_[index];
  if (ring.entries.size() < max_entries_) {
    ring.entries.push_back(std::move(entry));
    return;
  }
  ring.entries[ring.next] = std::move(entry);
  ring.next = (ring.next + 1) % ring.entries.size();
}

void History::record(Entry::Action action, int device, size_t address, size_t bytes, cudaStream_t stream,
                     c10::MempoolId_t pool, Context context) {
  Entry entry = make(action, device, address, bytes, stream, std::move(pool), std::move(context));
  const std::scoped_lock lock(mutex_);
  keep(std::move(entry));
}

void History::record_free(const void* ptr, int device, size_t bytes, cudaStream_t stream, c10::MempoolId_t pool,
                          const Context& context, bool deferred) {
  const auto address = reinterpret_cast<size_t>(ptr);
  // Where frees' own stacks are not gathered, they are shown with their allocation's.
  const Context shown = context != nullptr ? context : context_of(ptr);
  Entry requested = make(Entry::FREE_REQUESTED, device, address, bytes, stream, pool, shown);
  Entry completed = make(Entry::FREE_COMPLETED, device, address, bytes, stream, pool, shown);
  Context dropped;  // its destructor may want the GIL
  const std::scoped_lock lock(mutex_);
  keep(std::move(requested));
  if (deferred) {
    deferred_.insert_or_assign(ptr, std::move(completed));
  } else {
    keep(std::move(completed));
  }
  if (const auto found = contexts_.find(ptr); found != contexts_.end()) {
    dropped = std::move(found->second);
    contexts_.erase(found);
  }
}

void History::deferred_free_over(const void* ptr) {
  const std::scoped_lock lock(mutex_);
  const auto found = deferred_.find(ptr);
  if (found == deferred_.end()) return;
  found->second.time_.approx_t_ = c10::getApproximateTime();
  keep(std::move(found->second));
  deferred_.erase(found);
}

void History::remember(const void* ptr, Context context) {
  if (context == nullptr) return;
  const std::scoped_lock lock(mutex_);
  contexts_[ptr] = std::move(context);
}

History::Context History::context_of(const void* ptr) const {
  const std::scoped_lock lock(mutex_);
  const auto found = contexts_.find(ptr);
  return found == contexts_.end() ? nullptr : found->second;
}

void History::annotate(int device, const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (!recording()) return;
  Annotation annotation(static_cast<c10::DeviceIndex>(device), c10::getApproximateTime());
  for (const auto& [name, value] : metadata) annotation.recordUserMetadata(name, value);
  const std::scoped_lock lock(mutex_);
  if (annotations_.size() < annotations_kept) annotations_.push_back(std::move(annotation));
}

void History::push_compile_context(const std::string& metadata) { compile_contexts.push_back(metadata); }
void History::pop_compile_context() {
  if (!compile_contexts.empty()) compile_contexts.pop_back();
}
void History::set_user_metadata(const std::string& metadata) { metadata_of_user = metadata; }
std::string History::user_metadata() const { return metadata_of_user; }

std::vector<std::vector<History::Entry>> History::entries(int devices) const {
  c10::ApproximateClockToUnixTimeConverter converter;
  const auto to_ns = converter.makeConverter();
  std::vector<std::vector<Entry>> out(static_cast<size_t>(devices));
  const std::scoped_lock lock(mutex_);
  for (size_t device = 0; device < rings_.size() && device < out.size(); ++device) {
    const Ring& ring = rings_[device];
    out[device].reserve(ring.entries.size());
    for (size_t i = 0; i < ring.entries.size(); ++i) {
      out[device].push_back(ring.entries[(ring.next + i) % ring.entries.size()]);
      auto& time = out[device].back().time_;
      time.t_ = to_ns(time.approx_t_) / 1000;
    }
  }
  return out;
}

std::vector<History::Annotation> History::annotations() const {
  c10::ApproximateClockToUnixTimeConverter converter;
  const auto to_ns = converter.makeConverter();
  const std::scoped_lock lock(mutex_);
  std::vector<Annotation> out = annotations_;
  for (Annotation& each : out) each.time_.t_ = to_ns(each.time_.approx_t_) / 1000;
  return out;
}

}  // namespace reprieve::torch_adapter
