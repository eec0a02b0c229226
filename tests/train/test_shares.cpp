// Which cores and how much memory a rank takes.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/train/host_limits.h"
#include "src/train/shares.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

CoreSet cores(size_t first, size_t last) {
  CoreSet set;
  for (size_t core = first; core <= last; ++core) set.set(core);
  return set;
}

// A rank of a host with 16 cores.
Allowance on(const std::string& host, const CoreSet& allowed) {
  Allowance rank;
  std::ranges::copy(host, rank.host.begin());
  rank.allowed = allowed;
  rank.possible = cores(0, 15);
  return rank;
}

std::vector<int> threads_of(const std::vector<Allowance>& ranks) {
  std::vector<int> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) threads.push_back(JobShares(ranks, int(rank)).threads());
  return threads;
}

using Threads = std::vector<int>;

TEST(Shares, OfARankAlone) {
  EXPECT_EQ(threads_of({on("a", cores(0, 15))}), Threads({16}));
  EXPECT_EQ(threads_of({on("a", cores(3, 3))}), Threads({1}));
  EXPECT_EQ(threads_of({on("a", cores(8000, 8191))}), Threads({192}));
}

TEST(Shares, OfItsOwn) { EXPECT_EQ(threads_of({on("a", cores(0, 7)), on("a", cores(8, 15))}), Threads({8, 8})); }

TEST(Shares, SharedByAll) {
  EXPECT_EQ(threads_of(std::vector(4, on("a", cores(0, 15)))), Threads(4, 4));
  EXPECT_EQ(threads_of(std::vector(3, on("a", cores(0, 2)))), Threads(3, 1));  // thirds add up to 1
  EXPECT_EQ(threads_of(std::vector(4, on("a", cores(0, 1)))), Threads(4, 1));  // at least 1
  EXPECT_EQ(threads_of(std::vector(3, on("a", cores(0, 15)))), Threads(3, 5));
}

TEST(Shares, SharedByTwoOfFourRanks) {
  EXPECT_EQ(threads_of({on("a", cores(0, 7)), on("a", cores(0, 7)), on("a", cores(8, 15)), on("a", cores(8, 15))}),
            Threads(4, 4));
  EXPECT_EQ(threads_of({on("a", cores(0, 7)), on("a", cores(4, 11))}), Threads({6, 6}));
  EXPECT_EQ(threads_of({on("a", cores(0, 1)), on("a", cores(0, 15))}), Threads({1, 15}));
}

TEST(Shares, OfAnotherHostAreNotShared) {
  EXPECT_EQ(threads_of({on("a", cores(0, 15)), on("b", cores(0, 15)), on("a", cores(0, 15))}), Threads({8, 16, 8}));
}

TEST(Shares, NoMoreThreadsThanAControlGroupKeepsBusy) {
  const auto limited = [](double cpus, uint64_t group) {
    Allowance rank = on("a", cores(0, 15));
    rank.cpus = cpus, rank.group = group;
    return rank;
  };
  EXPECT_EQ(threads_of({limited(1, 7)}), Threads({1}));
  EXPECT_EQ(threads_of({limited(0.5, 7)}), Threads({1}));
  EXPECT_EQ(threads_of({limited(1.5, 7)}), Threads({2}));  // one would leave a third of the time unused
  EXPECT_EQ(threads_of({limited(100, 7)}), Threads({16}));
  EXPECT_EQ(threads_of({limited(4, 7), limited(4, 7)}), Threads({2, 2}));  // of one container
  EXPECT_EQ(threads_of({limited(4, 7), limited(4, 8)}), Threads({4, 4}));  // each of its own
}

TEST(Shares, TheRecipeMaySetThreads) {
  Allowance rank = on("a", cores(0, 3));
  rank.set = 7;
  EXPECT_EQ(threads_of({rank, rank}), Threads({7, 7}));
}

// By rank: the cores where each of its threads stays.
using Places = std::vector<std::vector<std::string>>;
Places places_of(const std::vector<Allowance>& ranks, const std::vector<CoreSet>& nodes) {
  Places all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    all.emplace_back();
    for (const CoreSet& place : JobShares(ranks, int(rank)).places(nodes)) all.back().push_back(list_of(place));
  }
  return all;
}

TEST(Shares, ThreadsStayAtTheirMemory) {
  const std::vector<CoreSet> nodes = {cores_of("0-3,8-11"), cores_of("4-7,12-15")};
  const Allowance all = on("a", cores(0, 15)), four = on("a", cores(2, 5));
  const std::string first = "0-3,8-11", second = "4-7,12-15";
  EXPECT_EQ(places_of({four}, nodes), Places({{"2-3", "2-3", "4-5", "4-5"}}));
  std::vector<std::string> halves(16, first);
  std::fill(halves.begin() + 8, halves.end(), second);
  EXPECT_EQ(places_of({all}, nodes), Places({halves}));
  const std::vector<std::string> one(8, first), other(8, second), half(4, first), other_half(4, second);
  EXPECT_EQ(places_of({all, all}, nodes), Places({one, other}));
  EXPECT_EQ(places_of(std::vector(4, all), nodes), Places({half, half, other_half, other_half}));
  EXPECT_EQ(places_of({on("b", cores(0, 15)), all}, nodes), Places({halves, halves}));  // of other hosts
  // Linux decides.
  EXPECT_EQ(places_of({all}, {cores(0, 15)}), Places({{}}));
  EXPECT_EQ(places_of({all}, {}), Places({{}}));
  EXPECT_EQ(places_of(std::vector(3, all), nodes), Places({{}, {}, {}}));
  EXPECT_EQ(places_of({on("a", cores(0, 7)), on("a", cores(8, 15))}, nodes), Places({{}, {}}));  // the launcher did
  Allowance fewer = all;
  fewer.set = 5;
  EXPECT_EQ(places_of({fewer}, nodes), Places({{}}));
}

TEST(Shares, NodesOfMemoryAreRead) {
  const TemporaryDirectory directory;
  for (const auto& [node, list] : {std::pair("node0", "0-3,8-11\n"), {"node1", "4-7,12-15\n"}, {"node3", "99\n"}}) {
    std::filesystem::create_directory(directory / node);
    std::ofstream(directory / node + "/cpulist") << list;
  }
  const std::vector<CoreSet> nodes = memory_nodes(directory.path());
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(list_of(nodes[0]), "0-3,8-11");
  EXPECT_EQ(list_of(nodes[1]), "4-7,12-15");
  EXPECT_TRUE(memory_nodes(directory / "missing").empty());
  EXPECT_EQ(list_of(cores_of("7,9-8200")), "7,9-8191");
  EXPECT_TRUE(cores_of("none").none());
}

TEST(Shares, ThreadsOfLoopsStay) {
  const CoreSet before = allowed_now();
  if (before.count() < 2) GTEST_SKIP() << "this machine has one core";
  std::vector<CoreSet> places;
  for (size_t core = 0; core < before.size() && places.size() < 2; ++core)
    if (before[core]) places.push_back(CoreSet().set(core));
  std::jthread([&] {  // a thread of its own, whose teams end with it
    stay_at({});
    EXPECT_EQ(allowed_now(), before);
    stay_at(places);
    EXPECT_EQ(allowed_now(), places[0] | places[1]);
    CoreSet of_other;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) of_other = allowed_now();
    EXPECT_EQ(of_other, places[1]);
  })
      .join();
}

TEST(Shares, TextNamesHostsThatAreAlikeTogether) {
  Allowance limited = on("d", cores(0, 15));
  limited.cpus = 1.5;
  const std::vector<Allowance> ranks = {on("a", cores(0, 7)),  on("a", cores(8, 15)), on("b", cores(0, 7)),
                                        on("b", cores(8, 15)), on("c", cores(2, 2)),  limited};
  EXPECT_EQ(JobShares(ranks, 0).text(),
            "a, b: 2 ranks of 8 threads on 16 cores; c: 1 rank of 1 thread on 1 of 16 cores; d: 1 rank of 2 threads on "
            "16 cores, of which a control group leaves the time of 1.5");
  EXPECT_EQ(JobShares({on("a", cores(0, 0)), on("a", cores(1, 15))}, 0).text(),
            "a: 2 ranks of 1 to 15 threads on 16 cores");
}

TEST(Shares, WarnsOfSharedCoresWhileOthersIdle) {
  const auto warnings = [](const std::vector<Allowance>& ranks) { return JobShares(ranks, 0).warnings(); };
  EXPECT_TRUE(warnings({on("a", cores(0, 15)), on("a", cores(0, 15))}).empty());
  EXPECT_TRUE(warnings({on("a", cores(0, 0))}).empty());  // as taskset says
  EXPECT_TRUE(warnings({on("a", cores(0, 3)), on("a", cores(4, 7))}).empty());
  const auto found =
      warnings({on("b", cores(0, 15)), on("a", cores(0, 3)), on("a", cores(2, 3)), on("a", cores(8, 8))});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(
      found[0],
      "a: its ranks share cores 0-3,8, while cores 4-7,9-15 idle; fix: mpirun --bind-to none, without taskset and "
      "without mpirun's --cpu-set");
  Allowance many = on("a", cores(0, 3));
  many.set = 5;
  EXPECT_EQ(
      warnings({many}),
      std::vector<std::string>{"a: 5 threads of a rank take turns on cores 0-3; fix: lower backend.threads, or leave "
                               "it out"});
  many.set = 4;
  EXPECT_TRUE(warnings({many}).empty());
  std::vector<Allowance> in_slurm = {on("a", cores(0, 0)), on("a", cores(0, 0))};
  for (Allowance& rank : in_slurm) rank.under_slurm = true;
  EXPECT_TRUE(warnings(in_slurm).at(0).ends_with("fix: give each rank cores of its own: srun --cpus-per-task=N"));
}

TEST(Shares, WarnsOfFewerThreadsThanGranted) {
  const auto warns = [](Allowance rank, int granted, int on_host, int set = 0) {
    rank.granted = granted, rank.granted_on_host = on_host, rank.set = set;
    return !JobShares({rank}, 0).warnings().empty();
  };
  EXPECT_TRUE(warns(on("a", cores(0, 0)), 2, 0));
  EXPECT_TRUE(warns(on("a", cores(0, 0)), 0, 2));
  EXPECT_FALSE(warns(on("a", cores(0, 1)), 2, 2));
  EXPECT_FALSE(warns(on("a", cores(0, 0)), 0, 0));
  EXPECT_FALSE(warns(on("a", cores(0, 0)), 2, 0, 1));  // by the recipe
  Allowance limited = on("a", cores(0, 15));
  limited.cpus = 1;
  EXPECT_FALSE(warns(limited, 16, 16));  // no setting of Slurm gives it more
  const std::vector<Allowance> three(3, [] {
    Allowance rank = on("a", cores(0, 15));
    rank.granted_on_host = 16;
    return rank;
  }());
  EXPECT_TRUE(JobShares(three, 0).warnings().empty());  // 16 cores are not divided evenly
}

TEST(Shares, WarnsWhereMpirunBindsToFewCores) {
  const auto warnings = [](std::vector<Allowance> ranks) {
    for (Allowance& rank : ranks) rank.bound_by_mpirun = true;
    return JobShares(std::move(ranks), 0).warnings();
  };
  const auto found = warnings({on("a", cores(0, 0))});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("a: mpirun leaves room for 1 thread of a rank on cores 0, and could for 16; fix:"))
      << found[0];
  EXPECT_TRUE(warnings({on("a", cores(0, 7)), on("a", cores(8, 15))}).empty());
}

TEST(Shares, MemoryIsDividedAmongTheRanksOfAHost) {
  std::vector<Allowance> ranks = {on("a", cores(0, 15)), on("b", cores(0, 15)), on("a", cores(0, 15))};
  for (Allowance& rank : ranks) rank.memory = 600;
  EXPECT_EQ(JobShares(ranks, 0).memory(), 300);
  EXPECT_EQ(JobShares(ranks, 1).memory(), 600);
}

// A host's files under a folder.
class Host {
 public:
  explicit Host(const std::string& mounts, const std::string& groups) {
    write("/proc/meminfo", "MemTotal: 16000000 kB\nMemFree: 1 kB\nMemAvailable: 12000000 kB\n");
    write("/proc/self/mountinfo", mounts);
    write("/proc/self/cgroup", groups);
  }
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = directory_.path() + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  HostLimits limits() const { return host_limits(directory_.path()); }

 private:
  TemporaryDirectory directory_;
};

const char* const second = "25 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const char* const first =
    "31 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 25 0:29 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,memory\n";
constexpr int64_t mega = 1 << 20;

TEST(HostLimits, WithoutControlGroups) {
  const HostLimits limits = Host("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n", "").limits();
  EXPECT_TRUE(std::isinf(limits.cpus));
  EXPECT_EQ(limits.memory, 16000000 * 1024ll);
  EXPECT_EQ(limits.memory_left, 12000000 * 1024ll);
  EXPECT_FALSE(limits.memory_group);
}

TEST(HostLimits, OfVersion2) {
  Host host(second, "0::/jobs/7/step\n");
  host.write("/sys/fs/cgroup/jobs/cpu.max", "800000 100000\n");
  host.write("/sys/fs/cgroup/jobs/7/cpu.max", "150000 100000\n");
  host.write("/sys/fs/cgroup/jobs/7/step/cpu.max", "max 100000\n");
  host.write("/sys/fs/cgroup/jobs/7/memory.max", std::to_string(800 * mega) + "\n");
  host.write("/sys/fs/cgroup/jobs/7/memory.current", std::to_string(300 * mega) + "\n");
  host.write("/sys/fs/cgroup/jobs/7/memory.stat", "anon 1\nactive_file " + std::to_string(60 * mega) +
                                                      "\ninactive_file " + std::to_string(40 * mega) + "\n");
  host.write("/sys/fs/cgroup/jobs/7/step/memory.max", "max\n");
  host.write("/sys/fs/cgroup/other/cpu.max", "10000 100000\n");
  const HostLimits limits = host.limits();
  EXPECT_DOUBLE_EQ(limits.cpus, 1.5);
  EXPECT_NE(limits.cpu_group, 0u);
  EXPECT_EQ(limits.memory, 800 * mega);
  EXPECT_EQ(limits.memory_left, 600 * mega);
  EXPECT_TRUE(limits.memory_group);
  host.write("/sys/fs/cgroup/jobs/memory.high", std::to_string(500 * mega) + "\n");
  EXPECT_EQ(host.limits().memory, 500 * mega);
}

TEST(HostLimits, OfVersion1) {
  Host host(first, "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n0::/\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us", "100000\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_quota_us", "50000\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/docker/cpu.cfs_period_us", "50000\n");
  host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("/sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", std::to_string(800 * mega) + "\n");
  host.write("/sys/fs/cgroup/memory/docker/ab/memory.usage_in_bytes", std::to_string(700 * mega) + "\n");
  host.write("/sys/fs/cgroup/memory/docker/ab/memory.stat",
             "inactive_file 0\ntotal_inactive_file " + std::to_string(200 * mega) + "\n");
  const HostLimits limits = host.limits();
  EXPECT_DOUBLE_EQ(limits.cpus, 1);
  EXPECT_EQ(limits.memory, 800 * mega);
  EXPECT_EQ(limits.memory_left, 300 * mega);
}

// Docker mounts the container's group, and names it as the host does or, with a namespace, as the root.
TEST(HostLimits, OfAContainerThatSeesItsOwnGroupAlone) {
  for (const char* const own : {"4:cpu,cpuacct:/docker/ab\n", "4:cpu,cpuacct:/\n", "4:cpu,cpuacct:/../ef\n"}) {
    Host host("31 25 0:28 /docker/ab /sys/fs/cgroup/cpu\\040time rw master:9 - cgroup cgroup rw,cpu,cpuacct\n", own);
    host.write("/sys/fs/cgroup/cpu time/cpu.cfs_quota_us", "250000\n");
    host.write("/sys/fs/cgroup/cpu time/cpu.cfs_period_us", "100000\n");
    EXPECT_DOUBLE_EQ(host.limits().cpus, 2.5) << own;
  }
  Host host(second, "0::/\n");
  host.write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(host.limits().cpus, 0.5);
}

}  // namespace
}  // namespace octet
