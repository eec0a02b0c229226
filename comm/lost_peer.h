// Another rank or the network was lost. Exit code 84.
#pragma once
#include "kernels/base/error.h"

namespace octet {

class LostPeer : public Error {
 public:
  using Error::Error;
};

}  // namespace octet
