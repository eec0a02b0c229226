// Appends nodes and constants to the graph of an ONNX model.
#pragma once
#include <string>
#include <vector>

#include "onnx/onnx.pb.h"

namespace octet {

class OnnxGraph {
 public:
  explicit OnnxGraph(onnx::GraphProto& graph) : graph_(graph) {}

  // Appends a node, of the name of its first output, which is returned.
  std::string node(const char* type, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
    last_ = graph_.add_node();
    last_->set_op_type(type);
    last_->set_name(outputs[0]);
    for (const std::string& of : inputs) last_->add_input(of);
    for (const std::string& of : outputs) last_->add_output(of);
    return outputs[0];
  }
  std::string node(const char* type, const std::vector<std::string>& inputs, const std::string& output) {
    return node(type, inputs, std::vector{output});
  }
  // Attributes of the node that was appended last.
  void set(const char* name, int64_t value) { attribute(name, onnx::AttributeProto::INT).set_i(value); }
  void set(const char* name, const std::string& value) { attribute(name, onnx::AttributeProto::STRING).set_s(value); }
  void set(const char* name, const std::vector<int64_t>& values) {
    onnx::AttributeProto& to = attribute(name, onnx::AttributeProto::INTS);
    for (const int64_t value : values) to.add_ints(value);
  }
  onnx::NodeProto& last() { return *last_; }

  template <class T>
  std::string constant(const std::string& name, const std::vector<int64_t>& dims, const std::vector<T>& of) {
    auto* const added = graph_.add_initializer();
    added->set_name(name);
    added->set_data_type(type_of(T{}));
    for (const int64_t dim : dims) added->add_dims(dim);
    added->set_raw_data(of.data(), of.size() * sizeof(T));
    return name;
  }
  template <class T>
  std::string number(const std::string& name, T value) {
    return constant<T>(name, {}, {value});
  }

  // Declares an input or an output of the model. dims: 0 is the batch, of any size.
  static void describe(onnx::ValueInfoProto& info, const std::string& name, const std::vector<int64_t>& dims,
                       int type = onnx::TensorProto::FLOAT) {
    info.set_name(name);
    auto* const tensor = info.mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    for (const int64_t dim : dims) {
      auto* const to = tensor->mutable_shape()->add_dim();
      dim == 0 ? to->set_dim_param("N") : to->set_dim_value(dim);
    }
  }
  onnx::ValueInfoProto& add_input() { return *graph_.add_input(); }
  onnx::ValueInfoProto& add_output() { return *graph_.add_output(); }

 private:
  static int type_of(float) { return onnx::TensorProto::FLOAT; }
  static int type_of(int64_t) { return onnx::TensorProto::INT64; }
  static int type_of(int32_t) { return onnx::TensorProto::INT32; }
  static int type_of(uint8_t) { return onnx::TensorProto::UINT8; }
  static int type_of(int8_t) { return onnx::TensorProto::INT8; }

  onnx::AttributeProto& attribute(const char* name, onnx::AttributeProto::AttributeType type) {
    auto* const added = last_->add_attribute();
    added->set_name(name), added->set_type(type);
    return *added;
  }

  onnx::GraphProto& graph_;
  onnx::NodeProto* last_ = nullptr;
};

}  // namespace octet
