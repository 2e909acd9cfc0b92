#include "simgpu/graph.hpp"

#include <algorithm>
#include <utility>

#include "simgpu/physical.hpp"

namespace reprieve::simgpu {

std::uint32_t Graph::index_of(NodeId id) const {
  // Nodes are numbered as they are added.
  const auto found = std::lower_bound(nodes.begin(), nodes.end(), id,
                                      [](const Node& node, NodeId wanted) { return node.id < wanted; });
  if (found == nodes.end() || found->id != id) return none;
  return static_cast<std::uint32_t>(found - nodes.begin());
}

std::uint32_t Graph::add(Node node, std::vector<std::uint32_t> after) {
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  node.id = next_number();
  node.after = std::move(after);
  nodes.push_back(std::move(node));
  return static_cast<std::uint32_t>(nodes.size() - 1);
}

void Graph::assign_lanes() {
  std::vector<bool> followed(nodes.size(), false);
  lanes = 0;
  for (Node& node : nodes) {
    // Of several, the earliest: it is where the node's own branch came from.
    const auto free = std::find_if(node.after.begin(), node.after.end(), [&](std::uint32_t i) { return !followed[i]; });
    if (free == node.after.end()) {
      node.lane = lanes++;
      continue;
    }
    followed[*free] = true;
    node.lane = nodes[*free].lane;
  }
  lanes = std::max(lanes, std::uint32_t{1});
}

std::vector<bool> Graph::before(const std::vector<std::uint32_t>& ends) const {
  std::vector<bool> reached(nodes.size(), false);
  for (const std::uint32_t end : ends) reached[end] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const std::uint32_t earlier : nodes[i].after) reached[earlier] = true;
  }
  return reached;
}

}  // namespace reprieve::simgpu
