// Replays corpus files, and every prefix of each, through a fuzz target.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  // A longer seed is cut at so many places at most; chosen to keep the replay under a second.
  constexpr size_t kMaxCuts = 2000;
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(in), {}};
      const size_t step = std::max<size_t>(1, text.size() / kMaxCuts);
      for (size_t cut = 0; cut < text.size(); cut += step) {
        // A copy of its own, so that the address sanitizer sees reads past the end.
        const std::string prefix = text.substr(0, cut);
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(prefix.data()), prefix.size());
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
      ++files;
    }
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
