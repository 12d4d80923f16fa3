// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace int8tune {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void Update(const void* data, size_t size);
  Digest Finish();

 private:
  void Block(const uint8_t* block);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t buffer_[64];
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
};

Digest Sha256Of(const void* data, size_t size);
std::string Hex(const uint8_t* data, size_t size);

}  // namespace int8tune
