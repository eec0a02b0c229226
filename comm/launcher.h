// What the launcher's environment says, before the MPI library is started.
#pragma once
#include <string>

namespace octet {

struct Launched {
  const char* variable = nullptr;  // from which the number of ranks is; none: nothing was launched
  int rank = 0, ranks = 1;
  std::string host_directory;  // of this job on this host, removed by the launcher; empty: unknown
  std::string hosts;           // names, separated by spaces, if octet's launch scripts started the job
};
Launched launched();

}  // namespace octet
