// What people are told of an error.
#pragma once
#include <exception>
#include <string>

namespace octet {

// What std::thread throws. A write throws system errors too.
bool lacks_threads(const std::exception&);
// What is wrong and how to fix it, also for errors of the C++ library. Control characters are shown as \x1b.
std::string message_of(const std::exception&);

}  // namespace octet
