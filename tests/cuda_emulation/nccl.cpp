// NCCL of the emulated device: libnccl.so.2 with the functions that octet calls. Ranks are threads or processes of one
// machine that meet in shared memory; every call is over when it returns, or kept by the program that is recorded, but
// says "in progress" until it was asked twice, and refuses whoever does not ask. Sums are made in the order of ranks. A
// communicator may not end before the programs that hold its calls: NCCL would wait for them without end.
#include <fcntl.h>
#include <nccl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "tests/cuda_emulation/device_memory.h"
#include "tests/cuda_emulation/recording.h"

namespace {

constexpr int most_ranks = 16;
constexpr size_t slot_bytes = 64 << 10;

struct Meeting {  // in shared memory, zeros at first
  std::atomic<int> arrived, round;
  char slots[most_ranks][slot_bytes];
};

}  // namespace

struct ncclComm {
  Meeting* meeting;
  int rank, ranks;
  int questions = 0;                                          // until the last call is not "in progress" any more
  std::shared_ptr<char> recorded = std::make_shared<char>();  // shared with every recorded call

  void meet() {
    const int round = meeting->round;
    if (++meeting->arrived == ranks) {
      meeting->arrived = 0;
      ++meeting->round;
    }
    while (meeting->round == round) sched_yield();
  }
  // Shows bytes to all ranks, as many at a time as a slot holds: fill(slot, offset, count), then read(offset, count).
  template <class Fill, class Read>
  void show(size_t bytes, size_t most, const Fill& fill, const Read& read) {
    for (size_t at = 0; at < bytes; at += most) {
      const octet::cuda::OpenDeviceMemory open;
      fill(meeting->slots[rank], at, std::min(most, bytes - at));
      meet();
      read(at, std::min(most, bytes - at));
      meet();
    }
  }
  ncclResult_t accept() {
    if (questions > 0) return ncclInvalidUsage;
    questions = 2;
    return ncclInProgress;
  }
  ncclResult_t accept(cudaStream_t stream, const std::function<void()>& call) {
    const ncclResult_t result = accept();
    if (result == ncclInProgress && !octet::emulation::record(stream, [call, held = recorded] { call(); })) call();
    return result;
  }
};

namespace {

struct Message {
  ncclComm* communicator;
  const char* from;  // null: it receives
  char* to;
  size_t bytes;
  int peer;
  cudaStream_t stream;
};
thread_local std::vector<Message> group;


template <class Number>
ncclResult_t all_reduce(const void* from, void* to, size_t count, ncclRedOp_t operation, ncclComm_t communicator,
                        cudaStream_t stream) {
  return communicator->accept(stream, [=] {
    communicator->show(
        count * sizeof(Number), slot_bytes,
        [&](char* slot, size_t at, size_t bytes) { std::memcpy(slot, static_cast<const char*>(from) + at, bytes); },
        [&](size_t at, size_t bytes) {
          Number* const sums = static_cast<Number*>(to) + at / sizeof(Number);
          std::memcpy(sums, communicator->meeting->slots[0], bytes);
          for (int rank = 1; rank < communicator->ranks; ++rank) {
            const Number* const other = reinterpret_cast<const Number*>(communicator->meeting->slots[rank]);
            for (size_t i = 0; i < bytes / sizeof(Number); ++i)
              sums[i] = operation == ncclSum ? sums[i] + other[i] : std::max(sums[i], other[i]);
          }
        });
  });
}
}  // namespace

ncclResult_t ncclGetVersion(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> made = 0;
  std::snprintf(id->internal, sizeof id->internal, "/octet-nccl-%d-%d", static_cast<int>(getpid()), made++);
  const int file = shm_open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) return ncclSystemError;
  const bool sized = ftruncate(file, sizeof(Meeting)) == 0;
  close(file);
  return sized ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks > most_ranks || config->blocking != 0) return ncclInvalidArgument;
  const int file = shm_open(id.internal, O_RDWR, 0600);
  void* const mapped = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (mapped == MAP_FAILED) return ncclSystemError;
  *communicator = new ncclComm{static_cast<Meeting*>(mapped), rank, ranks};
  (*communicator)->meet();
  if (rank == 0) shm_unlink(id.internal);  // all have it
  return (*communicator)->accept();
}
ncclResult_t ncclCommFinalize(ncclComm_t communicator) { return communicator->accept(); }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (communicator->recorded.use_count() > 1) {
    std::fputs("emulated NCCL: a communicator ends before a recorded program that uses it\n", stderr);
    std::abort();
  }
  munmap(communicator->meeting, sizeof(Meeting));
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) { return ncclCommDestroy(communicator); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  if (communicator->questions > 0) --communicator->questions;
  *state = communicator->questions > 0 ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of the emulated NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum && operation != ncclMax) return ncclInvalidArgument;
  if (type == ncclInt64) return all_reduce<int64_t>(from, to, count, operation, communicator, stream);
  return type == ncclFloat32 ? all_reduce<float>(from, to, count, operation, communicator, stream)
                             : ncclInvalidArgument;
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  if (type != ncclInt8) return ncclInvalidArgument;
  return communicator->accept(stream, [=] {
    communicator->show(
        count, slot_bytes,
        [&](char* slot, size_t at, size_t bytes) { std::memcpy(slot, static_cast<const char*>(from) + at, bytes); },
        [&](size_t at, size_t bytes) {
          for (int rank = 0; rank < communicator->ranks; ++rank)
            std::memcpy(static_cast<char*>(to) + static_cast<size_t>(rank) * count + at,
                        communicator->meeting->slots[rank], bytes);
        });
  });
}

ncclResult_t ncclGroupStart() { return group.clear(), ncclSuccess; }
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  group.push_back({communicator, static_cast<const char*>(from), nullptr, count, peer, stream});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t, int peer, ncclComm_t communicator, cudaStream_t stream) {
  group.push_back({communicator, nullptr, static_cast<char*>(to), count, peer, stream});
  return ncclSuccess;
}
// An all-to-all is the only group there is: one message to and one from every rank, all of one size.
ncclResult_t ncclGroupEnd() {
  if (group.empty()) return ncclSuccess;
  ncclComm* const communicator = group.front().communicator;
  const size_t ranks = static_cast<size_t>(communicator->ranks), bytes = group.front().bytes;
  std::vector<const char*> from(ranks);
  std::vector<char*> to(ranks);
  for (const Message& message : group) {
    if (message.communicator != communicator || message.bytes != bytes) return ncclInvalidUsage;
    const size_t peer = static_cast<size_t>(message.peer);
    if (message.from != nullptr) from[peer] = message.from;
    if (message.to != nullptr) to[peer] = message.to;
  }
  if (group.size() != 2 * ranks || std::ranges::count(from, nullptr) + std::ranges::count(to, nullptr) > 0)
    return ncclInvalidUsage;
  return communicator->accept(group.front().stream, [=] {
    const size_t part = slot_bytes / ranks;
    communicator->show(
        bytes, part,
        [&](char* slot, size_t at, size_t count) {
          for (size_t rank = 0; rank < ranks; ++rank) std::memcpy(slot + rank * part, from[rank] + at, count);
        },
        [&](size_t at, size_t count) {
          for (size_t rank = 0; rank < ranks; ++rank)
            std::memcpy(to[rank] + at,
                        communicator->meeting->slots[rank] + static_cast<size_t>(communicator->rank) * part, count);
        });
  });
}
