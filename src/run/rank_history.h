// On how many ranks a run was trained, as text: "1 from step 0, 4 from step 500".
#pragma once
#include <cstdint>
#include <string>

namespace octet {

// Adds the present number of ranks to the history of a run that is resumed at `step`, if it is another one, and warns
// if this changes the weights (exact: the exchange keeps them). An empty history stays empty.
void continue_on_ranks(std::string& history, int ranks, int64_t step, bool exact);

}  // namespace octet
