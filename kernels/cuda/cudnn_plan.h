// Plans of f32 convolutions by cuDNN's graph interface. They are made for a description of a device, so they can be
// made without the device, but not run.
#pragma once
#include <optional>
#include <string>

#include "kernels/cuda/cudnn_library.h"
#include "kernels/cuda/library_convolution.h"

namespace octet::cuda {

// Owns one of cuDNN's descriptors. Errors are thrown, except those of finalize().
class CudnnDescriptor {
 public:
  CudnnDescriptor(const CudnnLibrary&, cudnnBackendDescriptorType_t);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&&) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const CudnnLibrary& library() const { return *library_; }
  void set(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, int64_t count, const void* values);
  void set(cudnnBackendAttributeName_t, const CudnnDescriptor&);
  void set(cudnnBackendAttributeName_t, int64_t);
  void set(cudnnBackendAttributeName_t, cudnnDataType_t);
  void set(cudnnBackendAttributeName_t, float);
  // False if cuDNN does not support the description.
  [[nodiscard]] bool finalize();

 private:
  const CudnnLibrary* library_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

// The GPU of this number, or the one that cuDNN's JSON describes.
CudnnDescriptor describe_device(const CudnnLibrary&, int index);
CudnnDescriptor describe_device(const CudnnLibrary&, const std::string& json);

// "forward 32x56x56x64 to 32x56x56x64, kernel 3x3, stride 1x1, pad 1x1, dilation 1x1, groups 1"; shapes are NHWC
std::string describe(ConvPass, const ConvProblem&, bool add);

class CudnnPlan {
 public:
  // The first suggestion of the heuristics that is deterministic, multiplies and adds in f32 and needs at most
  // most_workspace bytes; nothing if there is none.
  static std::optional<CudnnPlan> build(const CudnnDescriptor& device, ConvPass, const ConvProblem&, bool add,
                                        size_t most_workspace);
  // The plan that json() wrote for such a device; nothing if cuDNN refuses it.
  static std::optional<CudnnPlan> load(const CudnnDescriptor& device, const std::string& json);
  std::string json() const;
  size_t workspace_bytes() const { return workspace_bytes_; }
  int64_t engine() const;  // its number among those of the pass; -1 if cuDNN does not tell
  void run(cudnnHandle_t, float* x, float* w, float* y, void* workspace) const;

 private:
  explicit CudnnPlan(CudnnDescriptor plan);
  CudnnDescriptor plan_;
  size_t workspace_bytes_ = 0;
};

}  // namespace octet::cuda
