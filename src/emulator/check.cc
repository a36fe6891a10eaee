#include "emulator/check.h"

#include <link.h>

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "emulator/race.h"
#include "emulator/source_line.h"
#include "emulator/traffic.h"

namespace sparkpilot::emulator {
namespace {

constexpr size_t kMostFindings = 20, kMostShared = 256 << 10;

uintptr_t number(const void* address) { return reinterpret_cast<uintptr_t>(address); }

// Tables in a kernel's source lie among the program's constants.
bool is_constant_data(uintptr_t at) {
  struct Range {
    uintptr_t begin, end;
  };
  static const std::vector<Range> ranges = [] {
    std::vector<Range> out;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* context) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& segment = info->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W)) continue;
            const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
            static_cast<std::vector<Range>*>(context)->push_back({begin, begin + segment.p_memsz});
          }
          return 0;
        },
        &out);
    return out;
  }();
  return std::any_of(ranges.begin(), ranges.end(), [at](const Range& r) { return at >= r.begin && at < r.end; });
}

const char* verb(Access kind) {
  switch (kind) {
    case Access::read: return "read";
    case Access::write: return "write";
    case Access::atomic: return "atomic access";
    case Access::matrix_read: return "ldmatrix";
  }
  return "";
}

}  // namespace

struct Checker::State {
  struct Memory {
    uintptr_t end;
    bool writable;
    Shadow shadow;
  };
  // Two places in the code; their lines are looked up later, for which a kernel's stack is too small.
  struct Finding {
    std::string what, other_what;
    uint32_t code = 0, other_code = 0;
    bool operator==(const Finding&) const = default;
  };
  struct CodeOrder {
    bool operator()(const Code& a, const Code& b) const {
      return std::tie(a.address, a.place.file, a.place.line) < std::tie(b.address, b.place.file, b.place.line);
    }
  };

  std::map<uintptr_t, Memory> memory;
  Shadow shared{kMostShared};
  std::map<Code, uint32_t, CodeOrder> numbers;
  std::vector<Code> codes;
  std::vector<Finding> findings;
  TrafficCounter traffic;
  SourceLines lines;
  const Block* block = nullptr;
  uint32_t launches = 0, blocks = 0;
  bool counts_traffic = false;

  uint32_t number_of(const Code& code) {
    const auto [at, is_new] = numbers.emplace(code, static_cast<uint32_t>(codes.size()));
    if (is_new) codes.push_back(code);
    return at->second;
  }
  std::string line_of(uint32_t code) {
    const Code& c = codes[code];
    return c.address ? lines.of(c.address) : text(c.place);
  }
  void report(std::string what, uint32_t code, std::string other_what = "", uint32_t other_code = 0) {
    const Finding found{std::move(what), std::move(other_what), code, other_code};
    if (findings.size() == kMostFindings || std::find(findings.begin(), findings.end(), found) != findings.end())
      return;
    findings.push_back(found);
  }
  void report_race(const char* where, uint32_t code, Access kind, const Stamp& before) {
    const char* const earlier = before.atomic ? verb(Access::atomic) : before.write ? "write" : "read";
    report(fmt::format("race in {} memory: {}", where, verb(kind)), code, earlier, before.code);
  }
  void shared_access(const Stamp& stamp, size_t offset, size_t bytes, Access kind, int thread);
  void global_access(const Stamp& stamp, uintptr_t at, size_t bytes, Access kind, int thread);
};

void Checker::State::shared_access(const Stamp& stamp, size_t offset, size_t bytes, Access kind, int thread) {
  const bool inside = std::any_of(block->pieces.begin(), block->pieces.end(), [&](const SharedPiece& piece) {
    return offset >= piece.offset && offset + bytes <= piece.offset + piece.bytes;
  });
  if (!inside) return report(fmt::format("{} outside of shared memory", verb(kind)), stamp.code);
  if (const auto before = shared.note(offset, bytes, stamp)) report_race("shared", stamp.code, kind, *before);
  if (counts_traffic) {
    traffic.note(stamp.code, thread, offset, bytes, true, kind == Access::write, kind == Access::matrix_read);
  }
}

void Checker::State::global_access(const Stamp& stamp, uintptr_t at, size_t bytes, Access kind, int thread) {
  auto found = memory.upper_bound(at);
  if (found == memory.begin() || at + bytes > (--found)->second.end) {
    if (!stamp.write && is_constant_data(at)) return;
    return report(fmt::format("{} of {} bytes outside of global memory", verb(kind), bytes), stamp.code);
  }
  Memory& piece = found->second;
  if (stamp.write && !piece.writable) return report("write to an input", stamp.code);
  if (const auto before = piece.shadow.note(at - found->first, bytes, stamp)) {
    report_race("global", stamp.code, kind, *before);
  }
  if (counts_traffic) traffic.note(stamp.code, thread, at, bytes, false, stamp.write, false);
}

Checker::Checker() : state_(std::make_unique<State>()) {}
Checker::~Checker() = default;

void Checker::add_memory(const void* data, size_t bytes, bool writable) {
  state_->memory.insert_or_assign(number(data), State::Memory{number(data) + bytes, writable, Shadow(bytes)});
}
void Checker::remove_memory(const void* data) { state_->memory.erase(number(data)); }
void Checker::count_traffic(bool on) { state_->counts_traffic = on; }
void Checker::begin_launch() { ++state_->launches; }
void Checker::begin_block(const Block& block) {
  state_->block = &block;
  ++state_->blocks;
}
void Checker::end_block() {
  state_->traffic.end_block();
  state_->block = nullptr;
}

std::vector<std::string> Checker::take_findings() {
  std::vector<std::string> out;
  for (const State::Finding& f : std::exchange(state_->findings, {})) {
    std::string text = fmt::format("{} at {}", f.what, state_->line_of(f.code));
    if (!f.other_what.empty()) text += fmt::format(" and {} at {}", f.other_what, state_->line_of(f.other_code));
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(std::move(text));
  }
  return out;
}

std::vector<Checker::Traffic> Checker::take_traffic() {
  std::vector<Traffic> out;
  for (const auto& [code, t] : state_->traffic.take()) {
    out.push_back({state_->line_of(code), t.shared, t.write, t.requests, t.bytes, t.sectors, t.worst_bank});
  }
  return out;
}

void Checker::access(const Thread& thread, const void* address, size_t bytes, Access kind, const Code& code) {
  State& s = *state_;
  const uintptr_t at = number(address), shared_begin = number(s.block->shared_begin);
  if (is_on_stack_of_kernel(address)) return;
  Stamp stamp{.launch = s.launches,
              .block = s.blocks,
              .epoch = static_cast<uint32_t>(thread.block->epoch),
              .warp_epoch = static_cast<uint32_t>(thread.warp->epoch),
              .code = s.number_of(code),
              .thread = static_cast<int16_t>(thread.number),
              .write = kind == Access::write || kind == Access::atomic,
              .atomic = kind == Access::atomic};
  if (at % std::bit_floor(bytes) != 0) {
    s.report(fmt::format("{} of {} bytes at an address that is no multiple of it", verb(kind), bytes), stamp.code);
  }
  if (at >= shared_begin && at < shared_begin + kMostShared) {
    stamp.launch = s.blocks;  // every block has its own
    s.shared_access(stamp, at - shared_begin, bytes, kind, thread.number);
  } else if (!s.memory.empty()) {
    s.global_access(stamp, at, bytes, kind, thread.number);
  }
}

}  // namespace sparkpilot::emulator
