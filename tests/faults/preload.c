// Loaded before the C library: disks that are slow or fail, and clocks that jump.
//   FAULT_FSYNC  seconds that fsync of a checkpoint takes, or "fail": it returns EIO
//   FAULT_CLOCK  seconds by which the time of day jumps, two seconds after the start
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int fsync(int file) {
  char link[64], path[4096] = "";
  const char* fault = getenv("FAULT_FSYNC");
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  if (fault && readlink(link, path, sizeof path - 1) > 0 && strstr(path, "/checkpoints/step-")) {
    if (!strcmp(fault, "fail")) {
      errno = EIO;
      return -1;
    }
    usleep((useconds_t)(1e6 * atof(fault)));
  }
  return (int)syscall(SYS_fsync, file);
}

static struct timespec start;
__attribute__((constructor)) static void begin(void) { syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &start); }

int clock_gettime(clockid_t clock, struct timespec* now) {
  const char* jump = getenv("FAULT_CLOCK");
  struct timespec monotonic;
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic);
  if (jump && clock == CLOCK_REALTIME && monotonic.tv_sec - start.tv_sec >= 2) now->tv_sec += atol(jump);
  return result;
}

time_t time(time_t* at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}

int gettimeofday(struct timeval* at, void* zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  *at = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
  return 0;
}
