#include "src/graph/layout.h"

#include <algorithm>
#include <ranges>

#include "src/graph/encodings.h"

namespace octet {
namespace {

// With n nodes, node i runs forward at time i and backward at time 2 n - 1 - i. A block's lifetime is a pair of these
// times.
class Builder final : public Declare {
 public:
  Builder(Layout& layout, Graph& graph, Parameters& parameters, const Policy& policy, const HeldRanges& held,
          const PlanOptions& options)
      : layout_(layout),
        parameters_(parameters),
        policy_(policy),
        held_(held),
        options_(options),
        nodes_(graph.nodes()),
        producer_(size_t(graph.edges()), -1),
        read_backward_(size_t(graph.edges()), -1),
        consumers_(size_t(graph.edges())) {
    layout_.shapes.resize(size_t(graph.edges()));
    layout_.memory.even.resize(size_t(graph.edges()));
    layout_.node_bytes.resize(nodes_.size());
  }

  void build(int64_t batch) {
    const int64_t group = options_.training && options_.norm_group > 0 ? options_.norm_group : batch;
    REQUIRE(batch % group == 0, "let the norm group divide the batch of a rank", "a batch of ", batch,
            " images in norm groups of ", group);
    norm_groups_ = batch / group;
    images_ = batch;
    infer_shapes(batch);
    layout_.encodings = choose_encodings(policy_, nodes_, layout_.shapes, producer_, consumers_);
    choose_pixel_edge();
    parameters_.begin_plan(norm_groups_);
    for (auto& node : nodes_) {
      current_ = node->index();
      check_encodings(*node);
      node->declare(*this);
    }
    parameters_.end_plan();
    for (size_t edge = 0; edge < layout_.shapes.size(); ++edge) place_edge(int(edge));
    for (const Layout::Shared& shared : layout_.shared | std::views::reverse) join_gradients(shared);
    layout_.memory.written.resize(layout_.shapes.size());
    layout_.memory.masks.resize(layout_.shapes.size());
    layout_.memory.sums.resize(layout_.shapes.size());
    layout_.arena_bytes = place_blocks(layout_.blocks, options_.own_slots);
  }

  const Policy& policy() const override { return policy_; }
  Parameters& parameters() const override { return parameters_; }
  bool training() const override { return options_.training; }
  int64_t images() const override { return images_; }
  int64_t norm_groups() const override { return norm_groups_; }
  DType storage() const override { return options_.storage; }
  const PixelScale* pixels() const override { return options_.pixels ? &*options_.pixels : nullptr; }
  bool is_pixels(Edge edge) const override { return edge.id == layout_.pixel_edge; }
  Shape shape(Edge edge) const override { return layout_.shapes[size_t(edge.id)]; }
  const Encoding& encoding(Edge edge) const override { return layout_.encodings[size_t(edge.id)]; }
  bool needs_gradient(Edge edge) const override { return layout_.needs_backward[size_t(producer_[size_t(edge.id)])]; }
  bool needs_backward() const override { return layout_.needs_backward[size_t(current_)]; }
  void reads_in_backward(Edge edge) override {
    int& last = read_backward_[size_t(edge.id)];
    if (options_.training && needs_backward()) last = std::max(last, backward_time(current_));
  }
  // Backward visits the nodes from the last to the first.
  bool writes_last(Edge edge) const override { return consumers_[size_t(edge.id)].front() == current_; }
  bool shares_gradient(Edge input, Slot mask) override {
    const Edge sum = nodes_[size_t(current_)]->output();
    const int next = next_to_take_part(input);
    if (next < 0 || norm_groups_ > 1 || consumers_[size_t(sum.id)].empty() ||
        encoding(input).quantized() != encoding(sum).quantized())
      return false;
    layout_.shared.push_back({input, sum, mask});
    if (mask.id >= 0) layout_.blocks[layout_.slot_block[size_t(mask.id)]].last = backward_time(next);
    return true;
  }
  bool leaves_gaps(Edge input) override {
    const int next = next_to_take_part(input);
    if (next < 0 || next == producer_[size_t(input.id)]) return false;
    layout_.memory.even[size_t(input.id)] = true;
    return true;
  }
  Slot keep(Shape shape, DType dtype, Need need) override {
    layout_.memory.slots.push_back({nullptr, shape, dtype});
    layout_.slot_block.push_back(Layout::no_block);
    const bool runs_backward = options_.training && needs_backward();
    if (runs_backward || need != Need::backward) {
      const bool outlives_forward = runs_backward && need != Need::forward;
      MemoryBlock block{.bytes = layout_.memory.slots.back().bytes()};
      block.first = need == Need::backward ? backward_time(current_) : current_;
      block.last = outlives_forward ? backward_time(current_) : current_;
      layout_.slot_block.back() = add(block);
    }
    return {int(layout_.slot_block.size()) - 1};
  }
  int input(size_t bytes) override {
    layout_.input_bytes.push_back(bytes);
    return int(layout_.input_bytes.size()) - 1;
  }
  int clip_layer(const std::string& name, int weight_param) override {
    if (!held_.gradients) return -1;
    const int layer = held_.gradients->add_layer(name);
    parameters_.scale_learning_rate(weight_param, held_.gradients->lr_scale(layer));
    return layer;
  }
  int activation_range(const std::string& name, Edge output, const Encoding& encoding) override {
    if (!encoding.quantized() || encoding.range != Range::held || encoding.held) return -1;
    REQUIRE(held_.activations, "give ActivationRanges to the plan", "nothing holds the range of '", name, "'");
    parameters_.declare_statistic({.name = range_name(name),
                                   .tensor = {nullptr, {1, 1, 1, 1}, DType::f32},
                                   .range = true,
                                   .unread = !this->encoding(output).quantized()});
    const int layer = held_.activations->add_layer(name);
    if (layout_.range_elements.size() <= size_t(layer)) layout_.range_elements.resize(size_t(layer) + 1);
    layout_.range_elements[size_t(layer)] += layout_.shapes[size_t(output.id)].elements();
    return layer;
  }
  int loss(const LossOptions& options) override {
    layout_.losses.push_back(options);
    return int(layout_.losses.size()) - 1;
  }

 private:
  // If this node writes the first part of the input's gradient: the node that reads or writes it next, if it takes
  // parts; else -1.
  int next_to_take_part(Edge input) const {
    const std::vector<int>& readers = consumers_[size_t(input.id)];
    if (!options_.gradients_in_parts || readers.back() != current_ || std::ranges::count(readers, current_) > 1)
      return -1;
    const int next = readers.size() > 1 ? readers[readers.size() - 2] : producer_[size_t(input.id)];
    return nodes_[size_t(next)]->takes_parts(input) ? next : -1;
  }

  int backward_time(int node) const { return 2 * int(nodes_.size()) - 1 - node; }

  void infer_shapes(int64_t batch) {
    for (auto& node : nodes_) {
      std::vector<Shape> inputs;
      for (Edge edge : node->inputs()) {
        inputs.push_back(layout_.shapes[size_t(edge.id)]);
        consumers_[size_t(edge.id)].push_back(node->index());
      }
      const bool passes_gradient = node->differentiable() &&
                                   std::ranges::any_of(node->inputs(), [&](Edge edge) { return needs_gradient(edge); });
      layout_.needs_backward.push_back(node->trains() || passes_gradient);
      Shape shape = node->output_shape(inputs);
      if (node->index() == 0) shape.n = batch;
      if (node->output().id < 0) continue;
      layout_.shapes[size_t(node->output().id)] = shape;
      producer_[size_t(node->output().id)] = node->index();
    }
  }

  void choose_pixel_edge() {
    const Edge images = nodes_.front()->output();
    const std::vector<int>& readers = consumers_[size_t(images.id)];
    const auto takes = [&](int reader) {
      const Node& node = *nodes_[size_t(reader)];
      return node.inputs()[0].id == images.id && node.reads_pixels(policy_);
    };
    if (options_.pixels && std::ranges::all_of(readers, takes)) layout_.pixel_edge = images.id;
  }

  void check_encodings(const Node& node) const {
    for (const Edge edge : node.inputs())
      REQUIRE(!node.keeps_encoding() || node.reads_real(policy_, edge) ||
                  encoding(edge).dtype == encoding(node.output()).dtype,
              "let the policy quantize all readers of that value or none", "'", node.name(),
              "' would change its values' encoding");
  }

  size_t add(const MemoryBlock& block) {
    layout_.node_bytes[size_t(current_)] += block.bytes;
    layout_.blocks.push_back(block);
    return layout_.blocks.size() - 1;
  }

  void place_edge(int edge) {
    const Shape& shape = layout_.shapes[size_t(edge)];
    const Encoding& encoding = layout_.encodings[size_t(edge)];
    const std::vector<int>& consumers = consumers_[size_t(edge)];
    current_ = producer_[size_t(edge)];
    if (edge == layout_.pixel_edge) {
      layout_.memory.values.push_back({{nullptr, {shape.n, shape.h, shape.w, pixel_channels}, DType::u8}});
      layout_.memory.gradients.push_back({nullptr, shape, DType::f32});
      layout_.value_block.push_back(Layout::no_block);
      layout_.gradient_block.push_back(Layout::no_block);
      return;
    }
    layout_.memory.values.push_back({{nullptr, shape, encoding.dtype}});
    const int last_consumer = consumers.empty() ? current_ : consumers.back();
    layout_.value_block.push_back(add({.bytes = layout_.memory.values.back().values.bytes(),
                                       .first = current_,
                                       .last = std::max(last_consumer, read_backward_[size_t(edge)])}));

    const DType narrow = options_.storage == DType::s8 ? DType::bf16 : options_.storage;
    layout_.memory.gradients.push_back({nullptr, shape, encoding.quantized() ? narrow : DType::f32});
    layout_.gradient_block.push_back(Layout::no_block);
    const auto shared = [&](const Layout::Shared& of) { return of.input.id == edge; };
    if (!options_.training || !needs_gradient(Edge{edge}) || consumers.empty() ||
        std::ranges::any_of(layout_.shared, shared))
      return;
    int first = backward_time(current_);
    for (const int consumer : consumers)
      first = std::min(first, nodes_[size_t(consumer)]->writes_gradient_forward() ? consumer : backward_time(consumer));
    layout_.gradient_block.back() = layout_.blocks.size();
    layout_.blocks.push_back(
        {.bytes = layout_.memory.gradients.back().bytes(), .first = first, .last = backward_time(current_)});
  }

  // The sum's gradient has its block already, and is needed until the input's is.
  void join_gradients(const Layout::Shared& shared) {
    const size_t block = layout_.gradient_block[size_t(shared.sum.id)];
    layout_.gradient_block[size_t(shared.input.id)] = block;
    layout_.blocks[block].last = backward_time(producer_[size_t(shared.input.id)]);
  }

  Layout& layout_;
  Parameters& parameters_;
  const Policy& policy_;
  HeldRanges held_;
  PlanOptions options_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  int64_t norm_groups_ = 1, images_ = 1;
  int current_ = 0;
  std::vector<int> producer_, read_backward_;  // by edge
  std::vector<std::vector<int>> consumers_;    // by edge
};

}  // namespace

Layout::Layout(Graph& graph, Parameters& parameters, const Policy& policy, const HeldRanges& held, int64_t batch,
               const PlanOptions& options) {
  Builder(*this, graph, parameters, policy, held, options).build(batch);
}

void Layout::bind(Memory& bound, std::byte* arena, float* scales) const {
  bound = memory;
  const auto address = [&](size_t block) -> void* {
    return block == no_block ? nullptr : arena + blocks[block].offset;
  };
  for (size_t slot = 0; slot < slot_block.size(); ++slot) bound.slots[slot].data = address(slot_block[slot]);
  for (size_t edge = 0; edge < shapes.size(); ++edge) {
    bound.values[edge].values.data = address(value_block[edge]);
    if (encodings[edge].quantized()) bound.values[edge].scale = scales + edge;
    bound.gradients[edge].data = address(gradient_block[edge]);
  }
  const auto slot = [&](Slot of) { return of.id < 0 ? Tensor{} : bound.slots[size_t(of.id)]; };
  for (const auto& [input, sum, mask] : shared) bound.masks[size_t(input.id)] = slot(mask);
}

}  // namespace octet
