// Where the library's messages go.
#pragma once

namespace octet::library {

// Warnings and errors to standard error, unless the process has given spdlog a default logger of its own.
void show_warnings();

}  // namespace octet::library
