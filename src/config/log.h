// Messages for people, on standard error through spdlog: spdlog::info("epoch {}", 3) reads
// "octet: 2026-11-26 18:00:00 host: epoch 3".
#pragma once

namespace octet {

// Rank 0 prints every message; the others print warnings and errors with their rank. Every process begins as rank 0,
// and calls this again when it knows better.
void setup_log(int rank);

}  // namespace octet
