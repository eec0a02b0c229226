// Messages for people, on standard error through spdlog: spdlog::info("epoch {}", 3) reads
// "octet: 2026-11-26 18:00:00 host: epoch 3".
#pragma once

namespace octet {

// Rank 0 prints every message; the others print warnings and errors with their rank. Call once, before the first
// message.
void setup_log(int rank);

}  // namespace octet
