#include "src/weights/digest.h"

#include <fmt/ranges.h>
#define OPENSSL_SUPPRESS_DEPRECATED  // the newer functions bring all of OpenSSL into a static program
#include <openssl/sha.h>
#include <xxhash.h>

#include <array>

#include "kernels/base/error.h"

namespace octet {
namespace {

class Sha256 {
 public:
  Sha256() { check(SHA256_Init(&context_) == 1); }

  void bytes(const void* data, size_t size) { check(SHA256_Update(&context_, data, size) == 1); }
  void number(uint64_t number) { bytes(&number, sizeof number); }
  void text(const std::string& text) {  // with its length, so that different lists of texts never give the same bytes
    number(text.size());
    bytes(text.data(), text.size());
  }
  void tensors(std::span<const NamedTensor> tensors) {
    for (const NamedTensor& tensor : tensors) {
      text(tensor.name);
      number(tensor.shape.size());
      for (const int64_t extent : tensor.shape) number(static_cast<uint64_t>(extent));
      bytes(tensor.values.data(), tensor.values.size_bytes());
    }
  }
  std::string hex() {
    std::array<unsigned char, 32> digest{};
    check(SHA256_Final(digest.data(), &context_) == 1);
    return fmt::format("{:02x}", fmt::join(digest, ""));
  }

 private:
  static void check(bool ok) { REQUIRE(ok, "check the installation of OpenSSL", "OpenSSL computes no SHA-256"); }

  SHA256_CTX context_{};
};

constexpr const char* digest_key = "sha256";

}  // namespace

std::string weights_sha256(std::span<const NamedTensor> tensors) {
  Sha256 sha;
  sha.tensors(tensors);
  return sha.hex();
}

std::string content_sha256(std::span<const NamedTensor> tensors, const std::map<std::string, std::string>& metadata) {
  Sha256 sha;
  sha.number(metadata.size());
  for (const auto& [name, value] : metadata) {
    sha.text(name);
    sha.text(value);
  }
  sha.tensors(tensors);
  return sha.hex();
}

void add_digest(std::span<const NamedTensor> tensors, std::map<std::string, std::string>& metadata) {
  metadata.erase(digest_key);
  metadata[digest_key] = content_sha256(tensors, metadata);
}

bool has_digest(const SafetensorsFile& file) { return file.metadata().contains(digest_key); }

void require_unchanged(const SafetensorsFile& file, const std::string& path) {
  auto metadata = file.metadata();
  const auto digest = metadata.extract(digest_key);
  if (digest.empty()) return;
  const auto tensors = file.f32_tensors();
  REQUIRE_USAGE(tensors.size() == file.names().size() && digest.mapped() == content_sha256(tensors, metadata),
                "use another copy; if the change is intended, remove `sha256` from the file's metadata", "'", path,
                "' has changed since it was saved: its SHA-256 differs");
}

uint64_t xxh3(std::span<const float> values) { return XXH3_64bits(values.data(), values.size_bytes()); }

}  // namespace octet
