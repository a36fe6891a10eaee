#include "stack/audit.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "hw/probe.h"
#include "stack/python.h"
#include "stack/text.h"
#include "stack/tree.h"
#include "stack/wheel.h"

namespace sparkpilot::stack {
namespace fs = std::filesystem;
namespace {

constexpr std::array kLibraryFolders{
    "/usr/lib",
    "/usr/lib/*-linux-gnu",
    "/usr/lib/*-linux-gnu/nvidia*",
    "/usr/lib/*-linux-gnu/libcusparseLt*/*",
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/lib",
    "/usr/local/lib/*-linux-gnu",
    "/usr/local/cuda*/lib",
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/*/lib",
    "/usr/local/cuda*/bin",
    "/usr/local/tensorrt*/lib",
    "/usr/local/TensorRT*/lib",
    "/opt/nvidia/*/lib",
    "/opt/tensorrt*/lib",
    "/opt/cuda*/lib64",
};

bool is_of_interest(std::string_view name) { return is_library_name(name) || is_compiler_name(name); }
bool is_wanted(std::string_view name) { return is_of_interest(name) || name.ends_with(".whl") || name == "METADATA"; }
bool is_known(std::string_view name) { return !component_of_file(name).empty(); }

// A header next to the libraries that contains their version.
struct HeaderVersion {
  std::string_view component, header;
  std::array<std::string_view, 4> macros;
};
constexpr std::array kHeaders{
    HeaderVersion{"cuDNN", "cudnn_version.h", {"CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL", ""}},
    HeaderVersion{
        "cuBLASLt", "cublas_api.h", {"CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"}},
    HeaderVersion{
        "cuBLAS", "cublas_api.h", {"CUBLAS_VER_MAJOR", "CUBLAS_VER_MINOR", "CUBLAS_VER_PATCH", "CUBLAS_VER_BUILD"}},
    HeaderVersion{"cuFFT", "cufft.h", {"CUFFT_VER_MAJOR", "CUFFT_VER_MINOR", "CUFFT_VER_PATCH", "CUFFT_VER_BUILD"}},
    HeaderVersion{"cuSPARSE",
                  "cusparse.h",
                  {"CUSPARSE_VER_MAJOR", "CUSPARSE_VER_MINOR", "CUSPARSE_VER_PATCH", "CUSPARSE_VER_BUILD"}},
    HeaderVersion{
        "cuSPARSELt", "cusparseLt.h", {"CUSPARSELT_VER_MAJOR", "CUSPARSELT_VER_MINOR", "CUSPARSELT_VER_PATCH", ""}},
    HeaderVersion{"cuSOLVER",
                  "cusolver_common.h",
                  {"CUSOLVER_VER_MAJOR", "CUSOLVER_VER_MINOR", "CUSOLVER_VER_PATCH", "CUSOLVER_VER_BUILD"}},
    HeaderVersion{
        "cuRAND", "curand.h", {"CURAND_VER_MAJOR", "CURAND_VER_MINOR", "CURAND_VER_PATCH", "CURAND_VER_BUILD"}},
    HeaderVersion{"TensorRT", "NvInferVersion.h", {"NV_TENSORRT_MAJOR", "NV_TENSORRT_MINOR", "NV_TENSORRT_PATCH", ""}},
};

// Without a record, the folder's name is used: it usually is the package's.
PythonPackage guessed_package(const fs::path& file, const PythonPackages& packages) {
  for (const fs::path& part : file.parent_path()) {
    if (component_of_package(part.native()).empty()) continue;
    const auto known = packages.by_name.find(package_name(part.native()));
    return known != packages.by_name.end() ? known->second : PythonPackage{part.string(), ""};
  }
  return {};
}

class Auditor {
 public:
  explicit Auditor(const AuditOptions& options) : options_(options), tree_(options.root) {}
  Audit run();

 private:
  struct Found {
    fs::path path;
    PythonPackage package;
    int64_t bytes = 0;
  };
  void take(const fs::path& path, const PythonPackage& package = {});
  void take_everywhere();
  void take_folder(const fs::path& folder);
  void take_site(const fs::path& site);
  void take_below(const fs::path& folder);
  void take_path(const fs::path& path);
  // Reports progress: this file is next, and this many of its bytes are done.
  void tell(const std::string& file, double bytes_of_it) const;
  void read(const Found& found);
  void read_wheel(const Found& found, const InputFile& file);
  void keep(Library library, const PythonPackage& package);
  std::string header_version(const Library& library) const;
  void take_machine();

  const AuditOptions& options_;
  Tree tree_;
  std::set<fs::path> seen_;  // resolved paths
  std::vector<Found> found_;
  int64_t total_ = 0, done_ = 0;  // bytes
  Audit audit_;
};

void Auditor::take(const fs::path& path, const PythonPackage& package) {
  const auto resolved = tree_.resolve(path);
  if (!resolved) return;  // a dangling link
  if (!seen_.insert(*resolved).second) return;
  // The file's own name contains the version even if the link's does not.
  found_.push_back({is_of_interest(resolved->filename().native()) ? *resolved : path, package, 0});
}

void Auditor::take_folder(const fs::path& folder) {
  if (!tree_.is_folder(folder)) return;
  bool any = false;
  for (const std::string& name : tree_.names(folder, &audit_.notes)) {
    if (!is_known(name) || tree_.is_folder(folder / name)) continue;
    any = true;
    take(folder / name);
  }
  if (any) audit_.places.push_back(folder.string());
}

void Auditor::take_site(const fs::path& site) {
  take_below(site);
  for (const fs::path& folder : conda_folders(tree_, site)) take_folder(folder);
}

void Auditor::take_below(const fs::path& folder) {
  audit_.places.push_back(folder.string());
  std::vector<fs::path> files = tree_.files_below(folder, is_wanted, &audit_.notes);
  PythonPackages packages;
  fs::path last;
  for (const fs::path& file : files) {
    const fs::path site = file.parent_path().parent_path();
    if (file.filename() != "METADATA" || site == last) continue;
    read_packages(tree_, site, packages);
    last = site;
  }
  for (const fs::path& file : files) {
    if (file.filename() == "METADATA") continue;
    const auto owner = packages.by_file.find(file.string());
    take(file,
         owner != packages.by_file.end() ? owner->second : guessed_package(file.lexically_relative(folder), packages));
  }
}

void Auditor::take_path(const fs::path& path) {
  if (!tree_.has(path)) fail("{}: no such file or folder", path.string());
  if (tree_.is_folder(path)) return take_below(path);
  audit_.places.push_back(path.string());
  take(path);
}

// The folders of the dynamic linker's configuration.
std::vector<fs::path> configured_folders(const Tree& tree) {
  std::vector<fs::path> folders;
  std::vector<fs::path> files{"/etc/ld.so.conf"};
  for (const fs::path& file : tree.find("/etc/ld.so.conf.d/*.conf")) files.push_back(file);
  for (const fs::path& file : files) {
    const std::string text = tree.text(file, 1 << 20);
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
      if (line.starts_with('/')) folders.emplace_back(line);
      at = end + 1;
    }
  }
  return folders;
}

void Auditor::take_everywhere() {
  std::set<fs::path> folders;  // resolved, since many are links to one another
  const auto take_once = [&](const fs::path& folder) {
    const auto resolved = tree_.resolve(folder);
    if (resolved && folders.insert(*resolved).second) take_folder(*resolved);
  };
  for (const char* pattern : kLibraryFolders) {
    for (const fs::path& folder : tree_.find(pattern)) take_once(folder);
  }
  for (const fs::path& folder : configured_folders(tree_)) take_once(folder);
  for (const fs::path& folder : options_.library_folders) take_once(folder);
  for (const fs::path& site : find_sites(tree_, options_.here, options_.home)) take_site(site);
}

std::string Auditor::header_version(const Library& library) const {
  const auto rule =
      std::find_if(kHeaders.begin(), kHeaders.end(), [&](const auto& r) { return r.component == library.component; });
  const fs::path folder = fs::path(library.path).parent_path();
  if (rule == kHeaders.end() || library.path.find('!') != std::string::npos) return {};
  const std::string text = tree_.text(folder.parent_path() / "include" / rule->header);
  std::string version;
  for (const std::string_view name : rule->macros) {
    if (name.empty()) break;
    const std::string number = macro(text, name);
    if (number.empty()) return {};
    version += (version.empty() ? "" : ".") + number;
  }
  return version;
}

void Auditor::keep(Library library, const PythonPackage& package) {
  const bool own_package = library.component.empty() || component_of_package(package.name) == library.component ||
                           package_name(package.name).starts_with("nvidia-");
  if (library.component.empty()) library.component = component_of_package(package.name);
  if (library.component.empty() && library.code.empty()) {
    if (library.trouble.empty()) ++audit_.others;
    else audit_.notes.push_back(library.path + ": " + library.trouble);
    return;
  }
  library.package = package.name;
  if (own_package && !package.version.empty() && library.version_from != "its text") {
    library.version = package.version;
    library.version_from = "package";
  }
  if (library.version.empty() && !(library.version = header_version(library)).empty()) library.version_from = "header";
  if (library.version.empty() && library.soname.find(".so.") != std::string::npos) {
    library.version = library.soname.substr(library.soname.find(".so.") + 4);
    library.version_from = "SONAME";
  }
  audit_.libraries.push_back(std::move(library));
}

void Auditor::tell(const std::string& file, double bytes_of_it) const {
  if (!options_.progress) return;
  const double done = static_cast<double>(done_) + bytes_of_it;
  options_.progress(done / static_cast<double>(std::max<int64_t>(total_, 1)), file);
}

void Auditor::read_wheel(const Found& found, const InputFile& file) {
  const Wheel wheel(file);
  PythonPackage package;
  for (const Wheel::Member& member : wheel.members()) {
    if (!member.name.ends_with(".dist-info/METADATA")) continue;
    const std::string metadata = wheel.text(member, 16 << 20);
    package = {field(metadata, "Name"), field(metadata, "Version")};
  }
  std::vector<Wheel::Member> wanted;
  uint64_t bytes = 0, before = 0;
  for (const Wheel::Member& member : wheel.members()) {
    if (!is_of_interest(fs::path(member.name).filename().native())) continue;
    wanted.push_back(member);
    bytes += member.bytes;
  }
  for (const Wheel::Member& member : wanted) {
    const std::string path = found.path.string() + "!" + member.name;
    tell(path, static_cast<double>(before) / static_cast<double>(std::max<uint64_t>(bytes, 1)) *
                   static_cast<double>(found.bytes));
    before += member.bytes;
    try {
      keep(inspect(*wheel.unpack(member), path), package);
    } catch (const Error& error) {
      audit_.notes.emplace_back(error.what());
    }
  }
}

void Auditor::read(const Found& found) {
  try {
    InputFile file = tree_.open(found.path);
    if (found.path.extension() == ".whl") return read_wheel(found, file);
    const FileSource source(std::move(file));
    // Linker scripts and shell stubs have such names, too.
    if (!is_elf(source)) {
      if (!component_of_file(found.path.filename().native()).empty()) {
        audit_.notes.push_back(found.path.string() + ": no ELF file");
      }
      return;
    }
    keep(inspect(source, found.path.string()), found.package);
  } catch (const Error& error) {
    audit_.notes.emplace_back(error.what());
  }
}

void Auditor::take_machine() {
  const auto source = system_source({options_.root});
  audit_.machine = source->architecture();
  const Machine here = options_.root == "/" ? machine() : probe(*source);
  const Gpu* gpu = best_gpu(here);
  if (!gpu && !here.gpus.empty()) gpu = &here.gpus.front();
  if (!gpu) return;
  // The driver of another tree cannot be asked.
  const auto capability = is_gb10(*gpu) ? ComputeCapability{12, 1} : gpu->capability;
  if (capability) audit_.gpu = NamedGpu{gpu->name.empty() ? "GB10" : gpu->name, *capability, audit_.machine};
}

Audit Auditor::run() {
  take_machine();
  if (options_.paths.empty() && options_.environments.empty()) take_everywhere();
  for (const fs::path& named : options_.environments) {
    for (const fs::path& site : sites_of(tree_, named)) take_site(site);
  }
  for (const fs::path& path : options_.paths) take_path(path);
  for (Found& found : found_) {
    try {
      found.bytes = tree_.open(found.path).size();
    } catch (const Error&) {  // reported when it is read
    }
    total_ += found.bytes;
  }
  for (const Found& found : found_) {
    tell(found.path.string(), 0);
    read(found);
    done_ += found.bytes;
  }
  std::sort(audit_.libraries.begin(), audit_.libraries.end(), [](const Library& a, const Library& b) {
    return std::tie(a.component, a.path) < std::tie(b.component, b.path);
  });
  return std::move(audit_);
}

}  // namespace

Audit audit(const AuditOptions& options) { return Auditor(options).run(); }

}  // namespace sparkpilot::stack
