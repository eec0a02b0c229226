// Collectives over the memory of devices. Calls return as soon as their work stands in the stream; that a peer is lost
// shows later, while the host waits.
#pragma once
#include <functional>

#include "comm/collectives.h"

namespace octet {

class DeviceCollectives : public Collectives {
 public:
  // Waits until done() says true; throws an Error that names this rank and the last call when a call has failed or the
  // deadline passes, after which nothing of the collectives runs on the device any more.
  virtual void wait_until(const std::function<bool()>& done) = 0;
};

}  // namespace octet
