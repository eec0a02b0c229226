// Writes what must not be lost.
#pragma once
#include <functional>

#include "comm/heart.h"

namespace octet {

// Calls write() again and again while it throws a FileError, for example because the disk is full, for up to `patience`
// seconds; then throws the last error. Warns once, tells the heart, and gives up earlier if gives_up() says so.
void write_patiently(const std::function<void()>& write, double patience, const std::function<bool()>& gives_up,
                     Heart&);

}  // namespace octet
