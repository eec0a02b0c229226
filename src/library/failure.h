// How errors leave the library.
#pragma once
#include "include/octet/octet.h"
#include "src/config/message.h"

namespace octet::library {

// What `call` returns. Failure: it has thrown an exception of the C++ library or of octet.
template <class Call>
auto with_failures(const Call& call) {
  try {
    return call();
  } catch (const Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw Failure(message_of(error));
  }
}

}  // namespace octet::library
