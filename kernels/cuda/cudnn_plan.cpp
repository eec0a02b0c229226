#include "kernels/cuda/cudnn_plan.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace octet::cuda {
namespace {

enum Name : int64_t { name_x = 1, name_w, name_y };  // of the tensors in a plan

// cuDNN orders extents (n, c, h, w); the memory is NHWC.
CudnnDescriptor tensor(const CudnnLibrary& library, Name name, Shape s) {
  CudnnDescriptor result(library, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::array<int64_t, 4> extents{s.n, s.c, s.h, s.w}, steps{s.h * s.w * s.c, 1, s.w * s.c, s.c};
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, name);
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  result.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
  result.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, extents.data());
  result.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, steps.data());
  return result;
}

CudnnDescriptor convolution(const CudnnLibrary& library, const ConvProblem& p) {
  CudnnDescriptor result(library, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const auto set_pair = [&](cudnnBackendAttributeName_t name, int64_t h, int64_t w) {
    const std::array<int64_t, 2> pair{h, w};
    result.set(name, CUDNN_TYPE_INT64, 2, pair.data());
  };
  result.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2});
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  result.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  set_pair(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p.pad_h, p.pad_w);
  set_pair(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
           end_padding(p.x.h, p.y.h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h),
           end_padding(p.x.w, p.y.w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w));
  set_pair(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p.stride_h, p.stride_w);
  set_pair(CUDNN_ATTR_CONVOLUTION_DILATIONS, p.dilation_h, p.dilation_w);
  return result;
}

// cuDNN's names of a pass and its operands.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, x, w, y, alpha, beta;
};
Operation operation_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::backward_weight:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

// The engine of configuration `config`; nothing if cuDNN does not tell.
std::optional<CudnnDescriptor> engine_of(const CudnnDescriptor& config) {
  const CudnnLibrary& library = config.library();
  CudnnDescriptor engine(library, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t to = engine.get();
  int64_t count = 0;
  if (library.get_attribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &to) !=
      CUDNN_STATUS_SUCCESS)
    return {};
  return engine;
}

// Whether the engine gives the same bits every time and shortens no operand: tensor cores would read f32 as TF32.
bool is_faithful(const CudnnDescriptor& config) {
  const std::optional<CudnnDescriptor> engine = engine_of(config);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes;
  int64_t count = 0;
  if (!engine ||
      config.library().get_attribute(engine->get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                     static_cast<int64_t>(notes.size()), &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  return std::none_of(notes.begin(), notes.begin() + count, [](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
           note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
  });
}

// Engine configurations in the heuristics' order, best first.
std::vector<CudnnDescriptor> suggestions(const CudnnDescriptor& device, const CudnnDescriptor& graph,
                                         cudnnBackendHeurMode_t mode) {
  const CudnnLibrary& library = device.library();
  CudnnDescriptor heuristics(library, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  std::vector<CudnnDescriptor> configs;
  if (!heuristics.finalize()) return configs;
  const auto ask = [&](int64_t most, cudnnBackendDescriptor_t* to) {
    int64_t count = 0;
    library.check(library.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                        most, &count, to),
                  "asking for engine configurations");
    return count;
  };
  const int64_t found = ask(0, nullptr);
  std::vector<cudnnBackendDescriptor_t> to;
  for (int64_t i = 0; i < found; ++i) {
    configs.emplace_back(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    to.push_back(configs.back().get());
  }
  const int64_t given = found > 0 ? ask(found, to.data()) : 0;
  while (static_cast<int64_t>(configs.size()) > given) configs.pop_back();
  return configs;
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(const CudnnLibrary& library, cudnnBackendDescriptorType_t type) : library_(&library) {
  library.check(library.create_descriptor(type, &descriptor_), "making a descriptor");
}
CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) library_->destroy_descriptor(descriptor_);
}
CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& from) noexcept
    : library_(from.library_), descriptor_(std::exchange(from.descriptor_, nullptr)) {}

void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  library_->check(library_->set_attribute(descriptor_, name, type, count, values),
                  say("setting attribute ", static_cast<int>(name), " of a descriptor"));
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, int64_t value) { set(name, CUDNN_TYPE_INT64, 1, &value); }
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, float value) { set(name, CUDNN_TYPE_FLOAT, 1, &value); }
bool CudnnDescriptor::finalize() { return library_->finalize(descriptor_) == CUDNN_STATUS_SUCCESS; }

CudnnDescriptor describe_device(const CudnnLibrary& library, int index) {
  CudnnDescriptor device(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const int32_t number = index;
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &number);
  library.check(library.finalize(device.get()), "describing the GPU");
  return device;
}
CudnnDescriptor describe_device(const CudnnLibrary& library, const std::string& json) {
  CudnnDescriptor device(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(json.size()),
             json.data());
  library.check(library.finalize(device.get()), "describing a GPU");
  return device;
}

std::string describe(ConvPass pass, const ConvProblem& p, bool add) {
  constexpr const char* names[] = {"forward", "backward_data", "backward_weight"};
  const auto shape = [](Shape s) { return say(s.n, "x", s.h, "x", s.w, "x", s.c); };
  return say(names[static_cast<int>(pass)], " ", shape(p.x), " to ", shape(p.y), ", kernel ", p.kernel_h, "x",
             p.kernel_w, ", stride ", p.stride_h, "x", p.stride_w, ", pad ", p.pad_h, "x", p.pad_w, ", dilation ",
             p.dilation_h, "x", p.dilation_w, ", groups ", p.groups, add ? ", added" : "");
}

std::optional<CudnnPlan> CudnnPlan::build(const CudnnDescriptor& device, ConvPass pass, const ConvProblem& p, bool add,
                                          size_t most_workspace) {
  const CudnnLibrary& library = device.library();
  CudnnDescriptor x = tensor(library, name_x, p.x), w = tensor(library, name_w, p.weight()),
                  y = tensor(library, name_y, p.y), conv = convolution(library, p);
  const Operation names = operation_of(pass);
  CudnnDescriptor operation(library, names.type), graph(library, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (!x.finalize() || !w.finalize() || !y.finalize() || !conv.finalize()) return {};
  operation.set(names.convolution, conv);
  operation.set(names.x, x);
  operation.set(names.w, w);
  operation.set(names.y, y);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, add ? 1.0f : 0.0f);
  if (!operation.finalize()) return {};
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  if (!graph.finalize()) return {};

  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const CudnnDescriptor& config : suggestions(device, graph, mode)) {
      if (!is_faithful(config)) continue;
      CudnnDescriptor descriptor(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      descriptor.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
      if (!descriptor.finalize()) continue;
      CudnnPlan plan(std::move(descriptor));
      if (plan.workspace_bytes() <= most_workspace) return plan;
    }
  return {};
}

std::optional<CudnnPlan> CudnnPlan::load(const CudnnDescriptor& device, const std::string& json) {
  const CudnnLibrary& library = device.library();
  CudnnDescriptor plan(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
  if (library.set_attribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                            static_cast<int64_t>(json.size()), json.data()) != CUDNN_STATUS_SUCCESS ||
      !plan.finalize())
    return {};
  return CudnnPlan(std::move(plan));
}

CudnnPlan::CudnnPlan(CudnnDescriptor plan) : plan_(std::move(plan)) {
  int64_t count = 0, bytes = 0;
  plan_.library().check(plan_.library().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                      CUDNN_TYPE_INT64, 1, &count, &bytes),
                        "asking for a plan's workspace");
  workspace_bytes_ = static_cast<size_t>(bytes);
}

std::string CudnnPlan::json() const {
  std::string text;
  const auto ask = [&](int64_t most, char* to) {
    int64_t count = 0;
    plan_.library().check(plan_.library().get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                                        CUDNN_TYPE_CHAR, most, &count, to),
                          "asking for a plan's JSON");
    return static_cast<size_t>(count);
  };
  text.resize(ask(0, nullptr));
  text.resize(ask(static_cast<int64_t>(text.size()), text.data()));
  return text;
}

int64_t CudnnPlan::engine() const {
  const CudnnLibrary& library = plan_.library();
  CudnnDescriptor config(library, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  cudnnBackendDescriptor_t to = config.get();
  int64_t count = 0, number = -1;
  if (library.get_attribute(plan_.get(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &count, &to) != CUDNN_STATUS_SUCCESS)
    return -1;
  const std::optional<CudnnDescriptor> engine = engine_of(config);
  if (!engine || library.get_attribute(engine->get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                       &number) != CUDNN_STATUS_SUCCESS)
    return -1;
  return number;
}

void CudnnPlan::run(cudnnHandle_t handle, float* x, float* w, float* y, void* workspace) const {
  const CudnnLibrary& library = plan_.library();
  CudnnDescriptor pack(library, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const std::array<int64_t, 3> names{name_x, name_w, name_y};
  const std::array<void*, 3> tensors{x, w, y};
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, tensors.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  library.check(library.finalize(pack.get()), "naming a plan's operands");
  library.check(library.execute(handle, plan_.get(), pack.get()), "running a plan");
}

}  // namespace octet::cuda
