// Any bytes as a library and as a compiler: their contents and a verdict, or an error; never anything else.
#include <cstddef>
#include <cstdint>

#include "stack/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using sparkpilot::stack::CodeMix, sparkpilot::stack::Library, sparkpilot::stack::MemorySource,
      sparkpilot::stack::Verdict;
  const MemorySource source({reinterpret_cast<const std::byte*>(data), size});
  for (const char* path : {"/usr/lib/libnccl.so.2", "/usr/local/cuda/bin/ptxas"}) {
    const Library library = inspect(source, path);
    int64_t containers = 0;
    for (const CodeMix& mix : library.code.mixes) containers += mix.containers;
    const Verdict verdict = judge(library, {12, 1}, "aarch64");
    if (library.trouble.empty() && verdict.native + verdict.family + verdict.jit + verdict.none != containers)
      __builtin_trap();
  }
  return 0;
}
