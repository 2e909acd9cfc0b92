// A training loop in C++ on libtorch alone. Prints the native allocator's figures as one line of JSON, in figures.py's names.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstdio>
#include <map>

namespace {

using c10::CachingAllocator::StatType;

struct Net : torch::nn::Module {
  torch::nn::Embedding embed{register_module("embed", torch::nn::Embedding(500, 256))};
  torch::nn::Linear up{register_module("up", torch::nn::Linear(256, 1024))};
  torch::nn::Linear down{register_module("down", torch::nn::Linear(1024, 256))};
  torch::nn::LayerNorm norm{register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({256})))};
  torch::nn::Linear head{register_module("head", torch::nn::Linear(256, 500))};

  torch::Tensor forward(const torch::Tensor& tokens) {
    auto hidden = embed(tokens);
    hidden = norm(hidden + down(torch::gelu(up(hidden))));
    return head(hidden);
  }
};

void print(const char* name, std::int64_t value) { std::printf("\"%s\": %lld, ", name, static_cast<long long>(value)); }

void print_figures() {
  torch::cuda::synchronize();
  auto* allocator = c10::cuda::CUDACachingAllocator::get();
  const auto stats = allocator->getDeviceStats(0);
  const auto all = static_cast<std::size_t>(StatType::AGGREGATE);
  const auto large = static_cast<std::size_t>(StatType::LARGE_POOL);
  std::printf("{");
  print("allocated_peak", stats.allocated_bytes[all].peak);
  print("allocated_end", stats.allocated_bytes[all].current);
  print("active_peak", stats.active_bytes[all].peak);
  print("requested_peak", stats.requested_bytes[all].peak);
  print("reserved_peak", stats.reserved_bytes[all].peak);
  print("reserved_end", stats.reserved_bytes[all].current);
  print("allocations", stats.allocation[all].allocated);
  print("allocations_large", stats.allocation[large].allocated);
  print("segments_made", stats.segment[all].allocated);
  print("segments_freed", stats.segment[all].freed);
  print("segments_peak", stats.segment[all].peak);
  print("inactive_split_peak", stats.inactive_split_bytes[all].peak);
  print("retries", stats.num_alloc_retries);
  print("out_of_memory", stats.num_ooms);
  std::map<std::size_t, int> sizes;
  for (const auto& segment : allocator->snapshot().segments) ++sizes[segment.total_size];
  std::printf("\"segment_sizes\": [");
  const char* comma = "";
  for (const auto& [size, count] : sizes) {
    std::printf("%s[%zu, %d]", comma, size, count);
    comma = ", ";
  }
  std::printf("]}\n");
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Net net;
  net.to(torch::kCUDA);
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-3));
  for (const std::int64_t length : {100, 700, 350, 900, 512, 64}) {
    const auto tokens = torch::randint(500, {3, length}).to(torch::kCUDA);
    const auto loss = torch::nn::functional::cross_entropy(net.forward(tokens).flatten(0, 1), tokens.flatten());
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  print_figures();
  return 0;
}
