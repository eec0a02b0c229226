// Views of memory. An arena owns the bytes, so a Tensor is as cheap to pass as a pointer.
#pragma once
#include <cstddef>
#include <cstdint>

namespace octet {

// f32 and bf16 hold real numbers. s8 and u8 hold codes; u8 holds the codes of values that are never negative.
enum class DType : uint8_t { f32, bf16, s8, u8 };
constexpr bool is_real(DType type) { return type == DType::f32 || type == DType::bf16; }
constexpr size_t size_of(DType type) { return type == DType::f32 ? 4 : type == DType::bf16 ? 2 : 1; }
constexpr const char* name_of(DType type) {
  return type == DType::f32 ? "f32" : type == DType::bf16 ? "bf16" : type == DType::s8 ? "int8" : "uint8";
}

struct Shape {  // activations (N, H, W, C); weights (output, kernel height, kernel width, input)
  int64_t n = 1, h = 1, w = 1, c = 1;
  constexpr int64_t elements() const { return n * h * w * c; }
  constexpr int64_t pixels() const { return n * h * w; }
  bool operator==(const Shape&) const = default;
};

struct Tensor {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  float* f32() const { return as<float>(); }
  int8_t* s8() const { return as<int8_t>(); }
  uint8_t* u8() const { return as<uint8_t>(); }
  int64_t elements() const { return shape.elements(); }
  size_t bytes() const { return static_cast<size_t>(elements()) * size_of(dtype); }
  explicit operator bool() const { return data != nullptr; }
  // The images [first, first + count).
  Tensor images(int64_t first, int64_t count) const {
    const size_t image = bytes() / static_cast<size_t>(shape.n);
    return {data == nullptr ? data : as<std::byte>() + static_cast<size_t>(first) * image,
            {count, shape.h, shape.w, shape.c},
            dtype};
  }
};

// real value = code * scale. `scale` is one float on the device.
// A null scale means that `values` holds real numbers (f32 or bf16), not codes.
struct QTensor {
  Tensor values;
  float* scale = nullptr;

  bool real() const { return scale == nullptr; }
  QTensor images(int64_t first, int64_t count) const { return {values.images(first, count), scale}; }
  explicit operator bool() const { return static_cast<bool>(values); }
};

// Where a gradient goes. add: another reader of the same value has already written it (a fork, shared weights).
// A data gradient of codes without groups also takes parts. With a stride of 1 it adds to a part of what is there: the
// elements that the mask lets pass, see mask_shape(), and with `even` those of pixels in even rows and columns. `even`
// without `add`, of one tap with a stride of 2: only these pixels are written.
struct Into {
  Tensor tensor;
  bool add = false;
  Tensor mask = {};
  bool even = false;
  Into images(int64_t first, int64_t count) const { return {tensor.images(first, count), add}; }
  explicit operator bool() const { return static_cast<bool>(tensor); }
};

}  // namespace octet
