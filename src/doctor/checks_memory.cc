// Memory: how much is really available, and what uses it.
#include <algorithm>
#include <cstdlib>

#include "doctor/check.h"

namespace sparkpilot::doctor {
namespace {

constexpr int64_t kGib = int64_t{1} << 30;

void available(const Patient& patient, Says& says) {
  const Memory& memory = patient.machine.memory;
  const std::optional<int64_t> left = memory.allocatable();
  if (!left || !memory.total) return says.skip("the system does not say");
  std::string seen = fmt::format("{} of {}", human_bytes(*left), human_bytes(*memory.total));
  if (memory.swap_total.value_or(0) > 0) seen += fmt::format(" and {} of swap space", human_bytes(*memory.swap_total));
  const bool group = memory.group_left == *left, huge = memory.unified && memory.huge_pages.value_or(0) > 0;
  if (*left >= std::min(4 * kGib, *memory.total / 8)) return says.good("{} can still be taken", seen);
  says.bad("{} can still be taken{}", seen,
           group  ? ": a control group sets a limit"
           : huge ? ": huge pages are set aside, and CUDA takes no other memory then"
                  : "");
  if (group) {
    says.fix("end what else runs in this container or unit, or give it more: docker run --memory, systemd's MemoryMax");
  } else if (huge) {
    says.fix("sudo sysctl vm.nr_hugepages=0, unless a program here is set up to use them");
  }
}

// cudaMemGetInfo reports MemFree there, so cached files look like used GPU memory.
void page_cache(const Patient& patient, Says& says) {
  const Memory& memory = patient.machine.memory;
  if (!memory.unified) return says.skip("no unified memory");
  if (!memory.free || !memory.total || !memory.page_cache) return says.skip("the system does not say");
  if (*memory.free < *memory.total / 8 && *memory.page_cache > *memory.total / 4) {
    says.bad("cached files fill {}, {} are free", human_bytes(*memory.page_cache), human_bytes(*memory.free));
  } else {
    says.good("{} free, {} of cached files", human_bytes(*memory.free), human_bytes(*memory.page_cache));
  }
}

void huge_pages(const Patient& patient, Says& says) {
  const Memory& memory = patient.machine.memory;
  if (!memory.huge_pages || !memory.huge_page_size || !memory.huge_pages_free)
    return says.skip("the system does not say");
  if (*memory.huge_pages == 0) return says.good("none are set aside");
  const int64_t size = *memory.huge_page_size;
  const int64_t idle =
      *memory.huge_pages_free > INT64_MAX / std::max<int64_t>(size, 1) ? 0 : *memory.huge_pages_free * size;
  if (memory.total && idle > *memory.total / 16 && idle <= *memory.total) {
    says.bad("{} are set aside as huge pages that nothing uses", human_bytes(idle));
  } else {
    says.good("{} huge pages, {} of them unused", *memory.huge_pages, human_bytes(idle));
  }
}

void swapping(const Patient& patient, Says& says) {
  const Memory& memory = patient.machine.memory;
  if (!memory.swap_total || !memory.swap_free) return says.skip("the system does not say");
  const int64_t used = *memory.swap_total - *memory.swap_free;
  if (*memory.swap_total == 0) return says.good("no swap space");
  if (used > 2 * kGib && used > *memory.swap_total / 4) {
    says.bad("{} of {} swap space are in use", human_bytes(used), human_bytes(*memory.swap_total));
  } else {
    says.good("{} of {} swap space are in use", human_bytes(std::max<int64_t>(used, 0)),
              human_bytes(*memory.swap_total));
  }
}

// "some avg10=0.00 avg60=12.34 ...": the share of the last minute in which a program waited for memory.
void pressure(const Patient& patient, Says& says) {
  const std::optional<std::string> text = patient.source.read("/proc/pressure/memory");
  const size_t at = text ? text->find("some ") : std::string::npos;
  const size_t minute = at == std::string::npos ? at : text->find("avg60=", at);
  if (minute == std::string::npos) return says.skip("the kernel does not measure it");
  const double percent = std::strtod(text->c_str() + minute + 6, nullptr);
  if (percent > 10 && percent <= 100) {
    says.bad("programs waited for memory in {:.0f} % of the last minute", percent);
  } else {
    says.good("programs do not wait for memory");
  }
}

void killed(const Patient& patient, Says& says) {
  const auto lines =
      patient.source.kernel_log({"Out of memory: Killed process", "oom-kill:", "Memory cgroup out of memory"});
  if (!lines) return says.skip("the kernel's log is not readable here (sudo dmesg)");
  size_t kills = 0;
  for (const std::string& line : *lines) kills += line.find("Killed process") != std::string::npos ? 1 : 0;
  if (kills > 0) return says.bad("the kernel ended {} program{} for want of memory", kills, kills == 1 ? "" : "s");
  says.good("no program was ended for want of memory");
}

constexpr Check kMemoryChecks[] = {
    {{"memory.available", "Memory is free", Impact::slow,
      "Models and routes need some gigabytes. On unified memory a program that takes more than there is does not fail: "
      "the "
      "whole machine stops answering.",
      "end the programs that use it (sparkpilot monitor shows them)"},
     available},
    {{"memory.page_cache", "Cached files leave the GPU room", Impact::slow,
      "On unified memory CUDA reports only what is entirely free: programs refuse to start though the cache would be "
      "given "
      "back.",
      "sync && echo 3 | sudo tee /proc/sys/vm/drop_caches"},
     page_cache},
    {{"memory.huge_pages", "No memory is locked away as huge pages", Impact::slow,
      "Nothing else can use huge pages that are reserved but unused, and NVIDIA's count of free memory includes only "
      "them.",
      "sudo sysctl vm.nr_hugepages=0, unless a program here is set up to use them"},
     huge_pages},
    {{"memory.swap", "Programs are in memory, not in swap space", Impact::slow,
      "What is in swap space is read back from the disk.",
      "end programs that use much memory, then: sudo swapoff -a && sudo swapon -a"},
     swapping},
    {{"memory.pressure", "Programs do not wait for memory", Impact::slow,
      "Every measurement now says more about the disk than about a model.",
      "end programs that use much memory (sparkpilot monitor shows them)"},
     pressure},
    {{"memory.oom_kills", "No program was killed for lack of memory", Impact::slow,
      "A run that ended without any message was killed by the kernel.",
      "run fewer things at once; smaller batches; on a DGX Spark also: sudo apt install earlyoom"},
     killed},
};

}  // namespace

std::span<const Check> memory_checks() { return kMemoryChecks; }

}  // namespace sparkpilot::doctor
