// Runs the same calls on the CUDA backend and on the CPU's, each in memory of its own, and compares every byte.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/cases.h"

namespace octet::test {

// Copies of tensors in a backend's memory, and the results.
class Place {
 public:
  explicit Place(Backend& b) : backend(b) {}
  Backend& backend;

  void* room(size_t bytes) {
    buffers_.push_back(backend.allocate(bytes));
    return buffers_.back()->data();
  }
  template <class T>
  const T* copy(const T* values, size_t count) {
    void* const to = room(count * sizeof(T));
    backend.to_device(to, values, count * sizeof(T));
    return static_cast<const T*>(to);
  }
  Encoding copy(Encoding encoding) {
    if (encoding.held != nullptr) encoding.held = copy(encoding.held, 1);
    return encoding;
  }
  Tensor copy(Tensor from) {
    if (!from) return {};
    Tensor to = from;
    to.data = room(from.bytes());
    backend.to_device(to.data, from.data, from.bytes());
    return to;
  }
  QTensor copy(QTensor from) {
    QTensor to = from;
    to.values = copy(from.values);
    if (from.scale != nullptr) {
      to.scale = static_cast<float*>(room(sizeof(float)));
      backend.to_device(to.scale, from.scale, sizeof(float));
    }
    return to;
  }
  Tensor zeros(Shape shape, DType type = DType::f32) {
    Tensor to{nullptr, shape, type};
    to.data = room(to.bytes());
    return to;
  }
  QTensor zeros_for(const Encoding& encoding, Shape shape) {
    QTensor to{zeros(shape, encoding.dtype)};
    if (encoding.quantized()) to.scale = zeros({1, 1, 1, 1}).f32();
    return to;
  }
  // Copies, with room for codes where there are none.
  Convolved copy(const OwnedConvolved& from) {
    const Shape shape = from.real.view().shape;
    const Tensor units = from.units.view() ? copy(from.units.view()) : zeros({1, 1, 2, shape.c});
    return {copy(from.real.view()), from.codes.view() ? copy(from.codes.view()) : zeros(shape, DType::s8), units.f32(),
            units.f32() + shape.c};
  }
  AffineParameters parameters(const NormOperands& norm) {
    return {copy(norm.gamma.view()).f32(), copy(norm.beta.view()).f32()};
  }
  Moments moments(int64_t channels) {
    float* const all = zeros({1, 1, 4, channels}).f32();
    return {all, all + channels, all + 2 * channels, all + 3 * channels};
  }
  Moments copy(Moments from, int64_t channels) {
    const Moments to = moments(channels);
    const size_t bytes = static_cast<size_t>(channels) * sizeof(float);
    backend.to_device(to.mean, from.mean, bytes), backend.to_device(to.variance, from.variance, bytes);
    backend.to_device(to.min, from.min, bytes), backend.to_device(to.max, from.max, bytes);
    return to;
  }
  // Results, in the order in which they are kept.
  void keep(std::string name, Tensor tensor) { kept_.push_back({std::move(name), tensor}); }
  void keep(const std::string& name, QTensor tensor) {
    keep(name, tensor.values);
    if (!tensor.real()) keep(name + " scale", Tensor{tensor.scale, {1, 1, 1, 1}});
  }
  void keep(const std::string& name, Moments m, int64_t channels) {
    const Shape shape{1, 1, 1, channels};
    keep(name + " mean", Tensor{m.mean, shape});
    keep(name + " variance", Tensor{m.variance, shape});
    keep(name + " min", Tensor{m.min, shape});
    keep(name + " max", Tensor{m.max, shape});
  }
  struct Kept {
    std::string name;
    Tensor tensor;
  };
  const std::vector<Kept>& kept() const { return kept_; }

 private:
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Kept> kept_;
};

inline Backend& cuda_backend() {
  static const std::unique_ptr<Backend> backend = make_cuda_backend({});
  return *backend;
}
inline Backend& cpu_backend() {
  static const std::unique_ptr<Backend> backend = make_cpu_backend({best_isa(), 1, RealConvolution::fixed_order});
  return *backend;
}

// want is the host's. -0 and +0 are told apart.
inline void expect_equal(Backend& backend, const Tensor& on_device, const Tensor& want, const std::string& what) {
  ASSERT_EQ(on_device.bytes(), want.bytes()) << what;
  std::vector<char> bytes(want.bytes());
  backend.to_host(bytes.data(), on_device.data, bytes.size());
  if (memcmp(bytes.data(), want.data, want.bytes()) == 0) return;
  const Tensor got{bytes.data(), want.shape, want.dtype};
  int shown = 0;
  for (int64_t i = 0; i < want.elements() && shown < 5; ++i) {
    const auto value = [&](const Tensor& t) { return reference::read(t, i); };
    if (bits_of(value(got)) == bits_of(value(want))) continue;
    ADD_FAILURE() << what << " at " << i << ": " << value(got) << ", the CPU has " << value(want);
    ++shown;
  }
}

inline void expect_same(const std::string& what, const std::function<void(Place&)>& run, Backend& backend) {
  const NamedCase scope(what);
  Place cuda(backend), cpu(cpu_backend());
  run(cuda);
  run(cpu);
  ASSERT_EQ(cuda.kept().size(), cpu.kept().size());
  for (size_t i = 0; i < cpu.kept().size(); ++i)
    expect_equal(cuda.backend, cuda.kept()[i].tensor, cpu.kept()[i].tensor, what + ": " + cpu.kept()[i].name);
}
// On a backend of its own: scratch memory that has grown would hide what is too little.
inline void expect_same(const std::string& what, const std::function<void(Place&)>& run) {
  const std::unique_ptr<Backend> backend = make_cuda_backend({});
  expect_same(what, run, *backend);
}

}  // namespace octet::test
