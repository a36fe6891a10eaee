#include "comm/comm.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/mpi_module.h"

namespace sparkpilot {
namespace fs = std::filesystem;
namespace {

// Next to the program (build folder), and where it is installed.
std::vector<fs::path> module_places() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const char* name = "libsparkpilot_mpi.so";
  return {folder / name, folder / "../lib/sparkpilot" / name};
}

}  // namespace

struct Comm::Mpi {
  void* library = nullptr;
  SparkpilotMpi calls{};
};

namespace {

int number_in(std::initializer_list<const char*> variables) {
  for (const char* name : variables) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return 0;
}

}  // namespace

int launcher_rank() { return number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}); }
int launcher_local_rank() {
  return number_in({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"});
}

void let_first_process_tell() {
  if (launcher_rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
}

std::string launcher_variable() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"}) {
    if (const char* value = std::getenv(name)) return std::string(name) + "=" + value;
  }
  return {};
}

Comm::Comm() {
  const std::string launcher = launcher_variable();
  if (launcher.empty()) return;
  auto mpi = std::make_unique<Mpi>();
  std::string why = "it was built without MPI";
  for (const fs::path& place : module_places()) {
    if (!fs::exists(place)) continue;
    // MPI looks for its own plug-ins among the symbols of the whole process.
    mpi->library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (mpi->library != nullptr) break;
    why = ::dlerror();
  }
  if (mpi->library == nullptr) fail("started by a launcher ({}), but {}", launcher, why);
  auto* entry = reinterpret_cast<SparkpilotMpi (*)()>(::dlsym(mpi->library, "sparkpilot_mpi"));
  if (entry == nullptr) fail("started by a launcher ({}), but its MPI module is of another version", launcher);
  mpi->calls = entry();
  mpi->calls.join(&rank_, &size_);
  mpi_ = std::move(mpi);
}

Comm::~Comm() {
  if (mpi_) mpi_->calls.leave();  // the library stays loaded: MPI cannot be unloaded
}

void Comm::barrier() {
  if (mpi_) mpi_->calls.barrier();
}

int Comm::max(int value) { return mpi_ ? mpi_->calls.max(value) : value; }

void Comm::sum(std::span<float> values) {
  constexpr size_t kAtOnce = size_t{1} << 28;  // MPI counts in int
  while (mpi_ && !values.empty()) {
    const std::span<float> part = values.first(std::min(values.size(), kAtOnce));
    mpi_->calls.sum(part.data(), static_cast<int>(part.size()));
    values = values.subspan(part.size());
  }
}

std::string Comm::share(std::string text, int from) {
  if (!mpi_) return text;
  text.resize(static_cast<size_t>(max(rank_ == from ? static_cast<int>(text.size()) : 0)));
  mpi_->calls.share(text.data(), static_cast<int>(text.size()), from);
  return text;
}

void Comm::expect_alike(const std::string& what, const std::string& text) {
  const bool alike = share(text) == text;
  together([&] {
    if (!alike) fail("process {} has another {} than process 0", rank_, what);
  });
}

std::vector<std::string> Comm::gather(std::string text) {
  if (!mpi_) return {std::move(text)};
  const auto own = static_cast<int>(std::min(text.size(), size_t{INT_MAX}));
  std::vector<int> counts(rank_ == 0 ? static_cast<size_t>(size_) : 0);
  mpi_->calls.gather_counts(own, counts.data());
  int64_t together = 0;
  for (const int count : counts) together += count;
  if (max(together >= INT_MAX || own == INT_MAX ? 1 : 0) != 0) fail("texts of {} processes have 2 GiB or more", size_);
  std::string all(static_cast<size_t>(together), '\0');
  mpi_->calls.gather(text.data(), own, counts.data(), all.data());
  std::vector<std::string> texts;
  size_t at = 0;
  for (const int count : counts) {
    texts.push_back(all.substr(at, static_cast<size_t>(count)));
    at += static_cast<size_t>(count);
  }
  return texts;
}

int Comm::first_with(bool trouble) { return size_ - max(trouble ? size_ - rank_ : 0); }

std::string Comm::first_problem(const std::function<void()>& work) {
  std::string problem;
  try {
    work();
  } catch (const std::exception& error) {
    problem = fmt::format("process {}: {}", rank_, error.what());
  }
  const int first = first_with(!problem.empty());
  return first == size_ ? std::string() : share(problem, first);
}

void Comm::together(const std::function<void()>& work) {
  std::exception_ptr trouble;
  auto kind = ErrorKind::internal;
  try {
    work();
  } catch (const Error& error) {
    trouble = std::current_exception();
    kind = error.kind();
  } catch (...) {
    trouble = std::current_exception();
  }
  const int first = first_with(trouble != nullptr);
  if (first == size_) return;
  const int told = max(first == rank_ ? static_cast<int>(kind) : 0);
  if (first == rank_) std::rethrow_exception(trouble);
  throw FailedElsewhere(static_cast<ErrorKind>(told), "another process of this run failed");
}

}  // namespace sparkpilot
