// Collectives on device memory. A call returns as soon as its work is enqueued in the stream. A lost peer is found
// later, in wait_until().
#pragma once
#include <functional>

#include "comm/collectives.h"

namespace octet {

class DeviceCollectives : public Collectives {
 public:
  // Waits until done() returns true. Error: a call has failed or the deadline has passed; the message names this rank
  // and the last call. After an Error no work of the collectives runs on the device.
  virtual void wait_until(const std::function<bool()>& done) = 0;
};

}  // namespace octet
