// What holds of the models whatever is asked of them. Each case names its seed, which is all that it depends on.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "replay/models/torch_model.hpp"

namespace reprieve::replay::models {
namespace {

constexpr std::uint64_t card_bytes = 2048 * MiB;

constexpr const char* confs[] = {
    "",
    "max_split_size_mb:64",
    "max_split_size_mb:20,max_non_split_rounding_mb:40,garbage_collection_threshold:0.4",
    "garbage_collection_threshold:0.7",
    "roundup_power2_divisions:[1:2,64:8,>:16]",
    "large_segment_size_mb:40,roundup_power2_divisions:4",
};

struct Answers {
  std::vector<std::uint64_t> addresses;  // 0: no memory
  std::uint64_t peak = 0, ns = 0;
};

// Random requests from a few streams and pools, under a random limit, with every record recounted on the way.
class Play {
 public:
  Play(unsigned seed, Segments segments) : random_(seed), segments_(segments) {
    std::string error;
    EXPECT_TRUE(parse_alloc_conf(confs[draw(std::size(confs))], conf_, error)) << error;
    limit_ = draw(3) == 0 ? 0 : (256 + draw(1500)) * MiB;
    streams_ = 1 + draw(4);
    pools_ = 1 + draw(3);
  }

  Answers run() {
    Card card(card_bytes);
    TorchModel model(conf_, segments_, card, limit_, pools_);
    Answers out;
    std::vector<Block*> live;
    for (int i = 0; i < 3000; ++i) {
      if (!live.empty() && draw(20) < 9) {
        const std::size_t which = draw(3) == 0 ? draw(live.size()) : live.size() - 1;
        Block& block = *live[which];
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
        if (draw(5) == 0) model.record_use(block, static_cast<std::uint16_t>(draw(streams_)));
        model.free(block);
      } else {
        const std::uint64_t bytes = size();
        const std::size_t pool = draw(4) == 0 ? draw(pools_) : 0;
        Block* const block = model.allocate(bytes, static_cast<std::uint16_t>(draw(streams_)), pool);
        out.addresses.push_back(block == nullptr ? 0 : block->address);
        if (block != nullptr) {
          EXPECT_GE(block->bytes, bytes);
          live.push_back(block);
        } else if (!live.empty()) {
          for (int more = 0; more < 20 && !live.empty(); ++more) {
            model.free(*live.front());
            live.erase(live.begin());
          }
        }
      }
      check(model, card, i % 50 == 0);
      if (testing::Test::HasFailure()) return out;
    }
    out.peak = model.peak_reserved();
    out.ns = card.costs().ns;
    for (Block* const block : live) model.free(*block);
    model.empty_cache();
    check(model, card, true);
    // A private pool lives as long as the trace, and its memory with it.
    if (pools_ == 1) {
      EXPECT_EQ(model.reserved(), 0u);
      EXPECT_EQ(model.block_count(), 0u);
    }
    return out;
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }

  std::uint64_t size() {
    switch (draw(4)) {
      case 0: return 1 + draw(MiB);
      case 1: return MiB + draw(9 * MiB);
      case 2: return (1 + draw(8)) * 8 * MiB;
      default: return 10 * MiB + draw(150 * MiB);
    }
  }

  void check(const TorchModel& model, const Card& card, bool recount) const {
    EXPECT_EQ(model.reserved(), card.used());
    EXPECT_LE(card.used(), card_bytes);
    // PyTorch holds the limit against a block's size in multiples of 2 MiB, and maps whole chunks.
    const std::uint64_t over = segments_ == Segments::expandable ? conf_.large_segment - 2 * MiB : 0;
    EXPECT_LE(model.reserved(), limit_ == 0 ? card_bytes : limit_ + over);
    if (!recount) return;
    std::string error;
    EXPECT_TRUE(model.validate(error)) << error;
  }

  std::mt19937_64 random_;
  Segments segments_;
  AllocConf conf_;
  std::uint64_t limit_ = 0;
  std::uint64_t streams_ = 1, pools_ = 1;
};

class ModelProperties : public testing::TestWithParam<Segments> {};

TEST_P(ModelProperties, NoByteIsLostAndNoLimitExceeded) {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Answers first = Play(seed, GetParam()).run();
    const Answers second = Play(seed, GetParam()).run();
    EXPECT_EQ(first.addresses, second.addresses) << "the same requests are answered alike";
    EXPECT_EQ(first.peak, second.peak);
    EXPECT_EQ(first.ns, second.ns);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, ModelProperties, testing::Values(Segments::plain, Segments::expandable),
                         [](const testing::TestParamInfo<Segments>& segments) {
                           return segments.param == Segments::plain ? "Native" : "Expandable";
                         });

}  // namespace
}  // namespace reprieve::replay::models
