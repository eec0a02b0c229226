// A second order of work on a device, beside the one in which the backend's own calls run. The gradient exchange works
// there while backward goes on. Nothing here waits on the host.
#pragma once
#include <memory>

#include "kernels/block_codec.h"

namespace octet {

class SideStream {
 public:
  virtual ~SideStream() = default;
  // The stream, as libraries of the device take it: a cudaStream_t.
  virtual void* handle() = 0;
  // What this stream is asked next comes after all that the backend was asked so far.
  virtual void follow() = 0;
  // What the backend is asked next comes after all that this stream was asked so far.
  virtual void join() = 0;
  // All that the backend was asked so far is done, and with it all that was joined.
  virtual bool backend_idle() = 0;
  // Works on this stream. The problem's values lie in the device's memory and must outlive it.
  virtual std::unique_ptr<BlockCodec> make_codec(CodecProblem) = 0;
};

}  // namespace octet
