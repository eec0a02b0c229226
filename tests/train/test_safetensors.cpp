#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/base/error.h"
#include "src/weights/digest.h"
#include "src/weights/safetensors.h"
#include "tests/train/temporary_directory.h"

namespace octet {
namespace {

const std::vector<float> kWeight = {1, -2.5f, 3, 4, 5, 6}, kBias = {0.125f};

std::vector<NamedTensor> tensors() {
  return {{"conv.weight", {2, 3}, kWeight}, {"empty", {0, 7}, {}}, {"scalar \"é\"", {}, kBias}};
}

class Safetensors : public ::testing::Test {
 protected:
  // What open() says about a file of this header and data.
  std::string opened(const std::string& header, const std::string& data, uint64_t header_size) const {
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &header_size, 8);
    return opened(bytes + header + data);
  }
  std::string opened(const std::string& header, const std::string& data) const {
    return opened(header, data, header.size());
  }
  std::string opened(const std::string& bytes) const {
    write_file(directory / "file", bytes);
    return refusal([&] { SafetensorsFile::open(directory / "file"); });
  }
  TemporaryDirectory directory;
};

TEST_F(Safetensors, RoundTrip) {
  const std::map<std::string, std::string> metadata = {{"step", "12"}, {"text", "a \"b\"\n\\ \x01 é"}};
  write_safetensors(directory / "file", tensors(), metadata);
  const SafetensorsFile file = SafetensorsFile::open(directory / "file");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"conv.weight", "empty", "scalar \"é\""}));
  EXPECT_EQ(file.shape("conv.weight"), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(file.floats("conv.weight"), kWeight));
  EXPECT_TRUE(std::ranges::equal(file.floats("scalar \"é\""), kBias));
  EXPECT_TRUE(file.floats("empty").empty());
  EXPECT_TRUE(file.contains("empty"));
  EXPECT_FALSE(file.contains("conv.bias"));
  EXPECT_EQ(weights_sha256(file.f32_tensors()), weights_sha256(tensors()));
  EXPECT_NO_THROW(file.require_finite());
  EXPECT_PART(refusal([&] { file.floats("conv.bias"); }), "has no tensor `conv.bias`");
}

TEST_F(Safetensors, HeaderIsTheStandardOne) {
  write_safetensors(directory / "file", tensors(), {{"step", "12"}});
  const std::string bytes = read_file(directory / "file");
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), 8);
  EXPECT_EQ(size % 8, 0u);
  const auto header = nlohmann::json::parse(bytes.substr(8, size));
  EXPECT_EQ(header["__metadata__"]["step"], "12");
  EXPECT_EQ(header["conv.weight"], nlohmann::json::parse(R"({"dtype":"F32","shape":[2,3],"data_offsets":[0,24]})"));
  EXPECT_EQ(header["empty"]["data_offsets"], nlohmann::json({24, 24}));
  EXPECT_EQ(bytes.size(), 8 + size + 28);
}

TEST_F(Safetensors, LeavesIntegersAlone) {
  std::string data(16, '\0');
  const std::string header = R"({"n":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})";
  EXPECT_EQ(opened(header, data), "accepted");
  const SafetensorsFile file = SafetensorsFile::open(directory / "file");
  EXPECT_PART(refusal([&] { file.floats("n"); }), "tensor `n` is I64, no floating-point type");
  EXPECT_NO_THROW(file.require_finite());
  EXPECT_TRUE(file.f32_tensors().empty());
}

TEST_F(Safetensors, TruncationAtEveryByte) {
  write_safetensors(directory / "whole", tensors(), {{"step", "12"}});
  const std::string bytes = read_file(directory / "whole");
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(opened(bytes.substr(0, size)), "accepted") << size;
  EXPECT_EQ(opened(bytes), "accepted");
  EXPECT_PART(opened(bytes + "x"), "the tensors end at byte 28 of 29");
}

TEST_F(Safetensors, FlippedHeaderBitsNeverReachBeyondTheFile) {
  write_safetensors(directory / "whole", tensors(), {});
  const std::string bytes = read_file(directory / "whole");
  for (size_t bit = 0; bit < 8 * (bytes.size() - 28); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    if (opened(flipped) != "accepted") continue;  // accepted: a letter of a name, or sizes that agree all the same
    const SafetensorsFile file = SafetensorsFile::open(directory / "file");
    size_t values = 0;
    for (const NamedTensor& tensor : file.f32_tensors()) values += tensor.values.size();
    EXPECT_LE(values, 7u) << bit;
  }
}

TEST_F(Safetensors, HeaderLengthIsCheckedBeforeItIsAllocated) {
  EXPECT_PART(opened("{}", "", uint64_t{1} << 60), "more than 100 MB");
  EXPECT_PART(opened("{}", "", 100'000'001), "more than 100 MB");
  EXPECT_PART(opened("{}", "", 99'999'999), "in a file of 10");
  EXPECT_PART(opened("{}", "", 3), "in a file of 10");
  EXPECT_PART(opened("", "", 0), "header of 0 bytes");
  EXPECT_PART(opened("1234567"), "shorter than 8 bytes");
  EXPECT_EQ(opened("{}", ""), "accepted");
}

TEST_F(Safetensors, OffsetsMustTileTheData) {
  const auto two = [](int a, int b, int c, int d) {
    return say(R"({"a":{"dtype":"F32","shape":[)", (b - a) / 4, R"(],"data_offsets":[)", a, ",", b,
               R"(]},"b":{"dtype":"F32","shape":[)", (d - c) / 4, R"(],"data_offsets":[)", c, ",", d, "]}}");
  };
  const std::string data(16, '\0');
  EXPECT_EQ(opened(two(0, 8, 8, 16), data), "accepted");
  EXPECT_EQ(opened(two(8, 16, 0, 8), data), "accepted");
  EXPECT_PART(opened(two(0, 8, 4, 16), data), "tensor `b` at bytes 4 to 16 overlaps");
  EXPECT_PART(opened(two(0, 4, 8, 16), data), "tensor `b` at bytes 8 to 16 overlaps another, leaves a gap");
  EXPECT_PART(opened(two(4, 8, 8, 16), data), "tensor `a` at bytes 4 to 8 overlaps another, leaves a gap");
  EXPECT_PART(opened(two(0, 8, 8, 20), data), "exceeds the 16 bytes");
  EXPECT_PART(opened(two(0, 8, 8, 12), data), "the tensors end at byte 12 of 16");
}

TEST_F(Safetensors, ShapesMustFitTheBytes) {
  const auto one = [](const std::string& dtype, const std::string& shape, int bytes) {
    return say(R"({"a":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":[0,)", bytes, "]}}");
  };
  const std::string data(8, '\0');
  EXPECT_EQ(opened(one("F32", "[2]", 8), data), "accepted");
  EXPECT_EQ(opened(one("F64", "[]", 8), data), "accepted");
  EXPECT_PART(opened(one("F32", "[3]", 8), data), "which does not match its shape and dtype");
  EXPECT_PART(opened(one("F16", "[2]", 8), data), "which does not match its shape and dtype");
  EXPECT_PART(opened(one("F32", "[4611686018427387904,4,2]", 8), data), "which does not match its shape and dtype");
  EXPECT_PART(opened(one("F32", "[4611686018427387906]", 8), data), "which does not match its shape and dtype");
  EXPECT_PART(opened(one("F32", "[18446744073709551615]", 8), data), "`shape` is too large");
  EXPECT_PART(opened(one("F32", "[99999999999999999999]", 8), data), "not an integer");
  EXPECT_PART(opened(one("F32", "[-2]", 8), data), "a negative number");
  EXPECT_PART(opened(one("F32", "[2.0]", 8), data), "not an integer");
  EXPECT_PART(opened(one("F32", "[1,1,1,1,1,1,1,1,2]", 8), data), "`shape` is too large");
  EXPECT_PART(opened(one("C64", "[2]", 8), data), "unknown dtype `C64`");
}

TEST_F(Safetensors, HeaderGrammar) {
  const auto refused = [&](const std::string& header) { return opened(header, std::string(4, '\0')); };
  const std::string good = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  EXPECT_EQ(refused("{" + good + "}   "), "accepted");
  EXPECT_PART(refused("[" + good + "]"), "the header is not a JSON object");
  EXPECT_PART(refused(" {" + good + "}"), "the header is not a JSON object");
  EXPECT_PART(refused("{" + good + "} x"), "invalid JSON at byte");
  EXPECT_PART(refused("{" + good + "}" + std::string(1, '\0') + "hidden"), "a zero byte in the header");
  EXPECT_PART(refused("{" + good), "invalid JSON at byte");
  EXPECT_PART(refused("{" + good + "," + good + "}"), "overlaps");  // the same bytes twice
  EXPECT_PART(opened(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],)"
                     R"("data_offsets":[0,0]}})",
                     ""),
              "tensor `a` appears twice");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})"), "has `dtype` twice");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":[1]}})"), "lacks dtype, shape or data_offsets");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})"), "does not have two data_offsets");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})"), "an unexpected number");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})"), "`shape` is not a list");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})"), "an unexpected list");
  EXPECT_PART(refused(R"({"a":{"dtype":null,"shape":[1],"data_offsets":[0,4]}})"), "a null");
  EXPECT_PART(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})"), "unknown field `x`");
  EXPECT_PART(refused(R"({"a":1})"), "an unexpected number");
  EXPECT_PART(refused(R"({"a":"b"})"), "unexpected text");
  EXPECT_PART(refused(R"({"__metadata__":{"a":1}})"), "an unexpected number");
  EXPECT_PART(refused(R"({"__metadata__":{"a":"1","a":"1"}})"), "metadata `a` appears twice");
  EXPECT_PART(refused(R"({"__metadata__":{},"__metadata__":{}})"), "`__metadata__` appears twice");
  EXPECT_PART(refused("{\"\xff\":{}}"), "invalid JSON at byte");
  std::string deep = R"({"a":)";
  for (int i = 0; i < 1'000'000; ++i) deep += R"({"a":)";
  EXPECT_PART(refused(deep), "header: ");
  EXPECT_PART(refused("{\"a\":" + std::string(1'000'000, '[')), "an unexpected list");
}

TEST_F(Safetensors, ValuesMayLieAtAnyAddress) {
  const std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  EXPECT_EQ(opened(header, std::string("x\0\0\xc0\x3f", 5)), "accepted");
  EXPECT_EQ(SafetensorsFile::open(directory / "file").floats("b"), (std::vector<float>{1.5f}));
}

// Values and bits from IEEE 754 binary16 and from bfloat16, which is the upper half of a float.
TEST_F(Safetensors, OtherFloatingPointTypesAreConverted) {
  const struct {
    const char* type;
    std::string bytes;
    std::vector<float> values;
  } cases[] = {
      {"F16",
       std::string("\x00\x3c\x00\xc0\xff\x7b\x01\x00\xff\x83\x00\x04\x00\x80", 14),
       {1, -2, 65504, 0x1p-24f, -1023 * 0x1p-24f, 0x1p-14f, -0.0f}},
      {"BF16", std::string("\x80\x3f\x49\x40\x01\x80", 6), {1, 3.140625f, -0x1p-133f}},
      {"F64", std::string("\x9a\x99\x99\x99\x99\x99\xb9\x3f", 8), {0.1f}},
  };
  for (const auto& of : cases) {
    const std::string header = say(R"({"n":{"dtype":")", of.type, R"(","shape":[)", of.values.size(),
                                   R"(],"data_offsets":[0,)", of.bytes.size(), "]}}");
    EXPECT_EQ(opened(header, of.bytes), "accepted");
    const SafetensorsFile file = SafetensorsFile::open(directory / "file");
    EXPECT_EQ(file.floats("n"), of.values) << of.type;
    EXPECT_EQ(std::signbit(file.floats("n").back()), std::signbit(of.values.back())) << of.type;
    EXPECT_NO_THROW(file.require_finite());
  }
  for (const char* infinite : {"\x00\x7c", "\x01\xfe"}) {
    EXPECT_EQ(opened(R"({"n":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", std::string(infinite, 2)),
              "accepted");
    const std::string message = refusal([&] { SafetensorsFile::open(directory / "file").require_finite(); });
    EXPECT_PART(message, "tensor `n` holds");
    EXPECT_PART(message, infinite[0] == 0 ? "F16 ends at 65504" : "before the training diverged");
  }
}

TEST_F(Safetensors, PicklesAreNamed) {
  for (const std::string& begin : {std::string("PK\3\4\24\0\0\0\10\10", 10), std::string("\x80\2\x8a\nl\xfc\x9c"
                                                                                         "F\xf9 j",
                                                                                         11)})
    EXPECT_PART(opened(begin), "is a file of PyTorch");
}

TEST_F(Safetensors, ChangedFilesAreNoticed) {
  std::map<std::string, std::string> metadata = {{"step", "12"}};
  add_digest(tensors(), metadata);
  write_safetensors(directory / "file", tensors(), metadata);
  const auto checked = [&] {
    return refusal([&] { require_unchanged(SafetensorsFile::open(directory / "file"), "file"); });
  };
  EXPECT_EQ(checked(), "accepted");
  std::string bytes = read_file(directory / "file");
  bytes.back() = char(bytes.back() ^ 1);
  write_file(directory / "file", bytes);
  EXPECT_PART(checked(), "'file' has changed since it was saved");
  write_safetensors(directory / "file", tensors(), {});  // a file of another program
  EXPECT_EQ(checked(), "accepted");
}

TEST_F(Safetensors, NonFiniteWeightsAreNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> values = {1, bad};
    const std::vector<NamedTensor> list = {{"good", {1}, kBias}, {"fc.weight", {2}, values}};
    write_safetensors(directory / "file", list, {});
    const SafetensorsFile file = SafetensorsFile::open(directory / "file");
    EXPECT_PART(refusal([&] { file.require_finite(); }), "tensor `fc.weight` holds ");
    EXPECT_PART(refusal([&] { file.require_finite(); }), "at element 1");
  }
}

TEST_F(Safetensors, WriterRefusesWhatNoReaderTakes) {
  const auto written = [&](const std::vector<NamedTensor>& list) {
    return refusal([&] { write_safetensors(directory / "file", list, {}); });
  };
  EXPECT_PART(written({{"a", {2}, kBias}}), "tensor `a` has 1 values");
  EXPECT_PART(written({{"a", {-1}, kBias}}), "tensor `a` has 1 values");
  EXPECT_PART(written({{"a", {1}, kBias}, {"a", {1}, kBias}}), "tensor `a` twice");
  EXPECT_PART(written({{"__metadata__", {1}, kBias}}), "twice");
  EXPECT_FALSE(std::filesystem::exists(directory / "file"));
  EXPECT_FALSE(std::filesystem::exists(directory / "file.tmp"));
}

TEST_F(Safetensors, NoFileAndNoRegularFile) {
  EXPECT_PART(refusal([&] { SafetensorsFile::open(directory / "none"); }), "cannot be read");
  EXPECT_PART(refusal([&] { SafetensorsFile::open(directory.path()); }), "cannot be read");
}

// A hostile header may not make the reader ask for memory: 64 MiB of address space more than now must do.
TEST_F(Safetensors, HugeShapesAllocateNothing) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer needs the address space";
#endif
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlimit tight{pages * 4096 + (64u << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &tight);
  const std::string message =
      opened(R"({"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})", "");
  setrlimit(RLIMIT_AS, &before);
  EXPECT_PART(message, "exceeds the 0 bytes");
}

TEST(Digest, IsSha256OfTheDocumentedBytes) {
  // printf '\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\x3e' | sha256sum
  const std::vector<NamedTensor> list = {{"a", {1}, kBias}};
  EXPECT_EQ(weights_sha256(list), "cc913f33e642382ba1bea5722be6353b58252a33a5d7c800c1808a6bb3c8942d");
  EXPECT_EQ(weights_sha256({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Digest, ChangesWithNameShapeValueAndMetadata) {
  const std::vector<float> values = {1, 2, 3, 4}, other = {1, 2, 3, -4};
  const auto digest = [&](const std::string& name, std::vector<int64_t> shape, const std::vector<float>& data) {
    const std::vector<NamedTensor> list = {{name, std::move(shape), data}};
    return weights_sha256(list);
  };
  const std::string base = digest("a", {4}, values);
  EXPECT_EQ(base, digest("a", {4}, values));
  EXPECT_NE(base, digest("b", {4}, values));
  EXPECT_NE(base, digest("a", {2, 2}, values));
  EXPECT_NE(base, digest("a", {4}, other));
  EXPECT_NE(content_sha256({}, {{"a", "bc"}}), content_sha256({}, {{"ab", "c"}}));
  EXPECT_NE(xxh3(values), xxh3(other));
  EXPECT_EQ(xxh3({}), 0x2d06800538d394c2u);  // the published value of XXH3_64bits of nothing
}

}  // namespace
}  // namespace octet
