#include "src/graph/encodings.h"

#include <algorithm>

#include "kernels/shared/sums.h"

namespace octet {
namespace {

// An edge carries codes if the policy quantizes activations and no consumer needs f32 values. A consumer that keeps the
// encoding of its input passes on what the consumers of its output need. Of a value that is f32 for any consumer, it
// makes f32 values. Outputs have larger ids than inputs, so the edges are decided from the last to the first.
std::vector<bool> coded_edges(const Policy& policy, const std::vector<std::unique_ptr<Node>>& nodes,
                              const std::vector<int>& producer, const std::vector<std::vector<int>>& consumers) {
  std::vector<bool> codes(producer.size());
  if (!policy.encoding(Role::activation).quantized()) return codes;
  const auto keeps_real = [&](Edge edge) {
    const Node& node = *nodes[producer[edge.id]];
    return node.keeps_encoding() && std::ranges::any_of(node.inputs(), [&](Edge input) {
             return !node.reads_real(policy, input) && nodes[producer[input.id]]->writes_real();
           });
  };
  for (size_t edge = codes.size(); edge-- > 0;) {
    bool real = nodes[producer[edge]]->writes_real();
    for (int consumer : consumers[edge]) {
      const Node& node = *nodes[consumer];
      real = real || node.reads_real(policy, Edge{int(edge)}) || (node.keeps_encoding() && !codes[node.output().id]);
    }
    codes[edge] = !real && !keeps_real(Edge{int(edge)});
  }
  return codes;
}

// Codes are unsigned if two conditions hold: no value is negative, and the 32-bit sums of a weight gradient, which an
// integer network does not have, can hold the products of one image. A node that keeps the encoding of its inputs needs
// the same signedness on all its edges, except those that it reads real.
std::vector<bool> unsigned_edges(const Policy& policy, const std::vector<std::unique_ptr<Node>>& nodes,
                                 const std::vector<Shape>& shapes, const std::vector<int>& producer) {
  std::vector<bool> positive(shapes.size());
  for (size_t edge = 0; edge < shapes.size(); ++edge) {
    const Node& node = *nodes[producer[edge]];
    const bool fits = policy.integers() || shapes[edge].h * shapes[edge].w <= products_per_sum(DType::u8);
    positive[edge] = node.keeps_encoding() || (node.never_negative() && fits);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& node : nodes) {
      if (!node->keeps_encoding()) continue;
      std::vector<Edge> edges{node->output()};
      std::ranges::copy_if(node->inputs(), std::back_inserter(edges),
                           [&](Edge edge) { return !node->reads_real(policy, edge); });
      const bool agreed = std::all_of(edges.begin(), edges.end(), [&](Edge edge) { return positive[edge.id]; });
      for (Edge edge : edges)
        if (!agreed && positive[edge.id]) positive[edge.id] = false, changed = true;
    }
  }
  return positive;
}

}  // namespace

std::vector<Encoding> choose_encodings(const Policy& policy, const std::vector<std::unique_ptr<Node>>& nodes,
                                       const std::vector<Shape>& shapes, const std::vector<int>& producer,
                                       const std::vector<std::vector<int>>& consumers) {
  const std::vector<bool> codes = coded_edges(policy, nodes, producer, consumers);
  const std::vector<bool> positive = unsigned_edges(policy, nodes, shapes, producer);
  std::vector<Encoding> encodings;
  for (size_t edge = 0; edge < shapes.size(); ++edge)
    encodings.push_back(!codes[edge]     ? Encoding{}
                        : positive[edge] ? policy.encoding(Role::positive_activation)
                                         : policy.encoding(Role::activation));
  return encodings;
}

}  // namespace octet
