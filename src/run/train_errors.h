// Ends of a training that cannot be helped by starting it again, each with an exit code of its own.
#pragma once
#include "kernels/base/error.h"

namespace octet {

class NonFiniteError : public Error {  // loss or gradient
 public:
  using Error::Error;
};

class NoCheckpointError : public Error {  // there are some, but none can be used
 public:
  using Error::Error;
};

}  // namespace octet
