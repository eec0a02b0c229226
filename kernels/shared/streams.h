// Who draws which random bits. Streams of random bits are numbered, see RngKey::layer_id. The ranges below divide the
// numbers, so no two draws read the same bits. Weights depend on the numbers: a change of one changes every training.
#pragma once
#include <cstdint>

#include "kernels/base/error.h"

namespace octet::streams {

struct Ids {
  uint32_t first = 0, last = 0;
  constexpr uint64_t count() const { return uint64_t{last} - first + 1; }
  constexpr uint32_t at(uint64_t index) const { return first + static_cast<uint32_t>(index); }
};

// Eight streams for each node, one for each Role (src/quant/policy.h). No node draws in the role `exchange`: these
// streams belong to the ranks, in place of nodes, for the exchange of gradients.
inline constexpr uint32_t roles = 8, exchange = 3;
inline constexpr Ids nodes_and_ranks{0, 0x3FFFFFFF};
inline constexpr Ids updates{0x40000000, 0x7FFFFFFF};         // by parameter, in the order of the backward pass
inline constexpr Ids initial_values{0x80000000, 0xDA79FFFF};  // by parameter, in the order of names
inline constexpr Ids data{0xDA7A0000, 0xDA7AFFFF};            // by DrawStream (src/data/draws.h)
inline constexpr Ids exchange_sum{0xFFFFFFFB, 0xFFFFFFFB};    // the sum over ranks, rounded by its owner

// Each range begins behind the one before it, so no two overlap.
static_assert(nodes_and_ranks.last < updates.first && updates.last < initial_values.first &&
              initial_values.last < data.first && data.last < exchange_sum.first);
static_assert(nodes_and_ranks.count() % roles == 0 && exchange < roles);

constexpr uint32_t of_node(int node, uint32_t role) {
  return nodes_and_ranks.at(static_cast<uint32_t>(node) * roles + role);
}
constexpr uint32_t of_rank(int rank) { return of_node(rank, exchange); }

inline constexpr uint64_t most_nodes = nodes_and_ranks.count() / roles;  // and ranks

// Error: there are more than `most`. what: "nodes"
inline void require_room(uint64_t count, uint64_t most, const char* what) {
  REQUIRE_USAGE(count <= most, "use a smaller network, or fewer ranks", count, " ", what,
                " would share random bits; at most ", most, " have their own");
}

}  // namespace octet::streams
