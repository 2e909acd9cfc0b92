#include "replay/models/torch_model.hpp"

#include <algorithm>
#include <utility>

namespace reprieve::replay::models {
namespace {

std::uint64_t effective_limit(const AllocConf& conf, const Card& card, std::uint64_t limit) {
  std::uint64_t allowed = limit == 0 ? AllocConf::unlimited : limit;
  if (conf.memory_fraction < 1) {
    const double part = conf.memory_fraction * static_cast<double>(card.capacity());
    allowed = std::min(allowed, static_cast<std::uint64_t>(part));
  }
  return allowed >= card.capacity() ? AllocConf::unlimited : allowed;
}

}  // namespace

TorchModel::TorchModel(const AllocConf& conf, Segments segments, Card& card, std::uint64_t limit, std::size_t pools)
    : conf_(conf), segments_(segments), card_(card), limit_(effective_limit(conf, card, limit)) {
  for (std::size_t i = 0; i < pools; ++i) {
    pools_.push_back(std::make_unique<Pool>());
    pools_.back()->small.small = true;
  }
}

TorchModel::~TorchModel() = default;

void TorchModel::grow(std::uint64_t bytes) {
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

// While a private pool is allocated from, a capture is taken to be under way, or its like: events may not be asked
// about then, and cached memory is not released.
Block* TorchModel::allocate(std::uint64_t bytes, std::uint16_t stream, std::size_t pool) {
  if (bytes > largest_request) return nullptr;
  const bool capturing = pool != 0;
  if (!capturing) finish_waiting();

  const std::uint64_t block_bytes = conf_.block_bytes(bytes);
  Pool& pools = *pools_[pool];
  const Request request{block_bytes, conf_.segment_bytes(block_bytes), stream,
                        block_bytes <= largest_small_block ? pools.small : pools.large};
  Block* block = find(request);
  if (block == nullptr) {
    collect_garbage();
    block = take_new(request);
    if (block == nullptr && release_oversize(request)) block = take_new(request);
    if (block == nullptr && !capturing) {
      release_cached();
      ++retries_;
      block = take_new(request);
    }
  }
  if (block == nullptr) return nullptr;
  block->allocated = true;
  if (is_split_for(*block, request)) heap_.insert_free(heap_.split(*block, request.bytes));
  return block;
}

// Takes the smallest free block that is large enough, and of these the one at the lowest address.
Block* TorchModel::find(const Request& request) {
  BlockPool& pool = request.pool;
  if (conf_.garbage_collection_threshold > 0 && limit_ != AllocConf::unlimited) ++pool.searches;
  Block key;
  key.stream = request.stream;
  key.bytes = request.bytes;
  auto found = pool.free.lower_bound(&key);
  if (found == pool.free.end() || (*found)->stream != request.stream) return nullptr;
  if (segments_ == Segments::expandable) found = best_expandable(pool, found);
  Block* const block = *found;
  // Oversize blocks are never split, so they are kept for requests of about their size.
  const bool oversize_request = request.bytes >= conf_.max_split_size;
  if (!oversize_request && block->bytes >= conf_.max_split_size) return nullptr;
  if (oversize_request && block->bytes - request.bytes >= conf_.max_non_split_rounding) return nullptr;
  pool.free.erase(found);
  return block;
}

bool TorchModel::is_split_for(const Block& block, const Request& request) const {
  const std::uint64_t rest = block.bytes - request.bytes;
  if (request.pool.small || segments_ == Segments::expandable) return rest >= smallest_block;
  return request.bytes < conf_.max_split_size && rest > largest_small_block;
}

// With expandable segments as well, the limit is held against the size of a segment of its own: less may be mapped, or
// up to a chunk more.
Block* TorchModel::take_new(const Request& request) {
  if (limit_ != AllocConf::unlimited && reserved_ + request.segment_bytes > limit_) return nullptr;
  return segments_ == Segments::expandable ? expand(request) : new_segment(request);
}

Block* TorchModel::new_segment(const Request& request) {
  const std::uint64_t address = card_.allocate(request.segment_bytes);
  if (address == 0) return nullptr;
  grow(request.segment_bytes);
  return &heap_.make(request.pool, request.stream, address, request.segment_bytes);
}

void TorchModel::record_use(Block& block, std::uint16_t stream) {
  if (stream == block.stream) return;
  auto& uses = block.other_uses;
  if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
}

void TorchModel::free(Block& block) {
  block.allocated = false;
  if (block.other_uses.empty()) {
    heap_.set_free(block);
    return;
  }
  block.waiting = true;
  for ([[maybe_unused]] const std::uint16_t stream : block.other_uses) card_.event_recorded_and_queried();
  block.other_uses.clear();
  waiting_.push_back(&block);
}

// No kernel runs, so other streams' work is always found done when it is asked about, which is at the next allocation.
void TorchModel::finish_waiting() {
  for (Block* const block : std::exchange(waiting_, {})) {
    block->waiting = false;
    heap_.set_free(*block);
  }
}

void TorchModel::empty_cache() { release_cached(); }

bool TorchModel::validate(std::string& error) const {
  if (reserved_ > peak_reserved_) {
    error = "more is reserved than at the peak";
    return false;
  }
  return heap_.validate(reserved_, error);
}

}  // namespace reprieve::replay::models
