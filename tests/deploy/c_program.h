// Networks in C, compiled and run.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "src/deploy/c_source.h"
#include "src/deploy/formats.h"
#include "tests/data/support.h"
#include "tests/deploy/trained.h"

namespace octet {

// Reads images from standard input until it ends, and prints the logits of each in a line.
inline constexpr char c_driver[] = R"(#include <stdio.h>
#include "net.h"
static uint8_t pixels[NET_HEIGHT * NET_WIDTH * 3], buffer[NET_BUFFER_BYTES];
static int32_t logits[NET_CLASSES];
int main(void) {
  while (fread(pixels, 1, sizeof pixels, stdin) == sizeof pixels) {
    int i;
    net_run(pixels, buffer, logits);
    for (i = 0; i < NET_CLASSES; ++i) printf("%ld ", (long)logits[i]);
    printf("\n");
  }
  return 0;
}
)";

// A compiler of C and what runs its programs.
struct CTarget {
  const char *tools, *compile, *run;  // tools: what the names of its programs begin with
};
inline constexpr CTarget this_machine = {"", "cc -std=c11 -Wall -Wextra -Wpedantic -Werror -O2", ""};

inline std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error("popen");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += char(c);
  EXPECT_EQ(pclose(pipe), 0) << command << '\n' << text;
  return text;
}

// Images of random bytes.
inline std::vector<uint8_t> random_bytes(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = uint8_t(philox(uint32_t(i), 3, 5, 7).word[0] >> 24);
  return bytes;
}

// A network as a program that prints the logits of images.
class CProgram {
 public:
  CProgram(const IntegerNetwork& network, const CTarget& target) : target_(target) {
    for (const NamedText& of : write_c({network, {{"classes", R"(["a \"b\"", "c??/"])"}}}, "net"))
      if (of.ending != example_ending)
        write_file(folder_.path() / ("net" + of.ending), {of.text.begin(), of.text.end()});
    write_file(folder_.path() / "driver.c", {std::begin(c_driver), std::end(c_driver) - 1});
    output_of(say("cd ", folder_.path().string(), " && ", target.compile, " -o net net.c driver.c 2>&1"));
  }
  std::vector<int64_t> logits(const std::vector<uint8_t>& images) const {
    write_file(folder_.path() / "images", images);
    const std::string path = folder_.path().string();
    std::istringstream text(output_of(say(target_.run, " ", path, "/net < ", path, "/images 2>&1")));
    return {std::istream_iterator<int64_t>(text), {}};
  }
  // The network's object file asks for no function but of memory, and has no instruction on floating point.
  void expect_no_floats() const {
    const std::string in = say("cd ", folder_.path().string(), " && ");
    output_of(say(in, target_.compile, " -c net.c 2>&1"));
    EXPECT_EQ(output_of(say(in, target_.tools,
                            "nm -u net.o | grep -v -E ' "
                            "(mem(cpy|set)|__aeabi_l[a-z]+|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_)$' || true")),
              "");
    // Arm's begin with v, those of x86 end with the type.
    EXPECT_EQ(
        output_of(say(in, target_.tools,
                      "objdump -d net.o | grep -E '\\s(v[a-z]|(add|sub|mul|div|cvt[a-z0-9]*)[sp][sd]\\s)' || true")),
        "");
  }

 private:
  TemporaryFolder folder_;
  const CTarget target_;
};

// What the arithmetic of docs/integer-network.md says of real logits: sums times factors of the last layer.
inline std::vector<int64_t> integer_logits_of(const IntegerNetwork& network, const std::vector<float>& real) {
  const IntegerOperation& last = network.operations.back();
  const CFactors by = c_logits(last).factors;
  std::vector<int64_t> logits;
  for (size_t i = 0; i < real.size(); ++i) {
    const size_t c = i % by.factor.size();
    const double sum = std::nearbyint(real[i] / last.layer.factor[c]);
    EXPECT_LT(std::abs(sum), 0x1p23) << "the real logit does not tell the sum";
    logits.push_back(int64_t(std::nearbyint(std::ldexp(sum * by.factor[c], -by.shift[c]))));
  }
  return logits;
}

// The harness's images become these bytes.
inline void set_images(Harness& harness, const std::vector<uint8_t>& bytes) {
  for (size_t i = 0; i < bytes.size(); ++i)
    harness.images[i] = float(bytes[i]) * of_photographs.scale(int64_t(i % 3)) + of_photographs.shift(int64_t(i % 3));
}

}  // namespace octet
