// What a program recorded on the emulated device is made of, and which streams take part in it. A GPU would run at once
// what a stream is asked that does not; the emulation refuses it.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "kernels/base/error.h"

namespace octet::emulation {

class Program {
 public:
  explicit Program(const void* origin) { streams_[origin] = {.origin = true}; }

  void add(const std::function<void()>& call) { calls_.push_back(call); }
  void play() const {
    for (const auto& call : calls_) call();
  }

  bool holds(const void* stream) const { return streams_.contains(stream); }
  void use(const void* stream) {
    REQUIRE(holds(stream), "make it wait for an event of a stream that is recorded",
            "a stream that takes no part is used while a program is recorded");
    ++streams_[stream].uses;
  }
  int uses(const void* stream) const { return streams_.at(stream).uses; }
  // `stream` waits for the first `uses` uses of `other`.
  void wait(const void* stream, const void* other, int uses) {
    streams_[stream];
    use(stream);
    if (streams_[stream].origin) streams_[other].joined = uses;
  }
  void require_joined() const {
    for (const auto& [handle, stream] : streams_)
      REQUIRE(stream.origin || stream.joined == stream.uses, "make it wait for an event of every other stream",
              "the stream whose program ends has not waited for all that others were asked");
  }

 private:
  struct Stream {
    bool origin = false;
    int uses = 0, joined = 0;
  };
  std::vector<std::function<void()>> calls_;
  std::map<const void*, Stream> streams_;
};

extern thread_local Program* recording;  // null: nothing is recorded
// Whether a program is recorded, which then keeps the call for later.
bool record(const std::function<void()>& call);
// The same for what one stream is asked.
bool record(const void* stream, const std::function<void()>& call);

}  // namespace octet::emulation
