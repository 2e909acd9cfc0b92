// A model on a card of its own, recounted after every request.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "replay/models/torch_model.hpp"

namespace reprieve::replay::models {

class Models : public testing::Test {
 protected:
  void start(Segments segments, const std::string& conf = "", std::uint64_t limit = 0,
             std::uint64_t card = 4096 * MiB) {
    AllocConf parsed;
    std::string error;
    ASSERT_TRUE(parse_alloc_conf(conf, parsed, error)) << error;
    card_ = std::make_unique<Card>(card);
    model_ = std::make_unique<TorchModel>(parsed, segments, *card_, limit, 3);
  }

  void TearDown() override { valid(); }

  void valid() {
    std::string error;
    EXPECT_TRUE(model_->validate(error)) << error;
    EXPECT_EQ(card_->used(), model_->reserved());
  }

  Block* get(std::uint64_t bytes, std::uint16_t stream = 0, std::size_t pool = 0) {
    Block* const block = model_->allocate(bytes, stream, pool);
    valid();
    return block;
  }
  void put(Block* block) {
    model_->free(*block);
    valid();
  }
  std::uint64_t reserved_mib() const { return model_->reserved() / MiB; }

  std::unique_ptr<Card> card_;
  std::unique_ptr<TorchModel> model_;
};

}  // namespace reprieve::replay::models
