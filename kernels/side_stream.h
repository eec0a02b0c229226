// A second stream of work on a device, beside the stream of the backend. The gradient exchange runs on it while
// backward continues. No function makes the host wait.
#pragma once
#include <memory>

#include "kernels/block_codec.h"

namespace octet {

class SideStream {
 public:
  virtual ~SideStream() = default;
  // The stream in the form that libraries of the device take: a cudaStream_t.
  virtual void* handle() = 0;
  // Later work of this stream starts after all work that the backend has been asked for so far.
  virtual void follow() = 0;
  // Later work of the backend starts after all work that this stream has been asked for so far.
  virtual void join() = 0;
  // Whether all work of the backend so far is done, including the joined work of this stream.
  virtual bool backend_idle() = 0;
  // The codec works on this stream. The values of the problem lie in the memory of the device and must outlive it.
  virtual std::unique_ptr<BlockCodec> make_codec(CodecProblem) = 0;
};

}  // namespace octet
