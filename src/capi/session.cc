// The C interface of sessions: what crosses it is checked, no exception does.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "capi/fault.h"
#include "passes/precision.h"
#include "sparkpilot/onnx.h"
#include "sparkpilot/session.h"
#include "sparkpilot/sparkpilot.h"

using namespace sparkpilot;  // NOLINT: the names of the C interface are global

struct sparkpilot_session {
  Session session;
  std::atomic<bool> in_use = false;
  bool ran = false;  // its outputs have values
};

namespace {

// Kept by hand: a thread's text has to outlive its last call.
thread_local std::string last_error;

int32_t failed(int32_t kind, const char* text) {
  try {
    last_error = text;
  } catch (const std::exception&) {
    last_error.clear();
  }
  return kind;
}

// Runs `work`, or keeps what was wrong.
template <class Work>
int32_t guarded(const Work& work) {
  try {
    work();
    return SPARKPILOT_DONE;
  } catch (const std::exception& error) {
    const capi::Fault fault = capi::fault_of(error);
    return failed(fault.kind, fault.text);
  }
}

template <class T>
T* given(T* pointer, const char* what) {
  if (!pointer) fail("{} is NULL", what);
  return pointer;
}

// Holds a session for a call; fails (user) if another thread does.
class Hold {
 public:
  explicit Hold(sparkpilot_session* session) : session_(given(session, "the session")) {
    if (session_->in_use.exchange(true, std::memory_order_acquire))
      fail("the session is in use by another thread: open one for each thread, or take turns");
  }
  ~Hold() {
    if (session_) session_->in_use.store(false, std::memory_order_release);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  Session* operator->() const { return &session_->session; }
  bool& ran() const { return session_->ran; }
  void close() { delete std::exchange(session_, nullptr); }

 private:
  sparkpilot_session* session_;
};

void check_size(size_t size) {
  if (size < offsetof(sparkpilot_options, threads) + sizeof(int32_t) || size > 4096)
    fail("options of {} bytes, this library has {}: sparkpilot_default_options() sets the size", size,
         sizeof(sparkpilot_options));
}

sparkpilot_options default_options() {
  return {.size = sizeof(sparkpilot_options),
          .device = "cpu",
          .precision = "fp32",
          .tune = "auto",
          .tuning_file = "",
          .threads = 0};
}

SessionOptions session_options(const sparkpilot_options* given_options) {
  sparkpilot_options from = default_options();
  if (given_options) {
    check_size(given_options->size);
    const auto* bytes = reinterpret_cast<const unsigned char*>(given_options);
    if (std::any_of(bytes + std::min(given_options->size, sizeof from), bytes + given_options->size,
                    [](unsigned char byte) { return byte != 0; }))
      fail("an option is set that this library, version {}, does not have", SPARKPILOT_VERSION);
    std::memcpy(&from, given_options, std::min(given_options->size, sizeof from));
  }
  SessionOptions options;
  options.device = given(from.device, "the option device");
  const std::string precision = given(from.precision, "the option precision");
  const auto known = parse_precision(precision);
  if (!known) fail("no precision is named \"{}\": expected auto, fp32, fp16, bf16, fp8, fp4 or model", precision);
  options.passes.precision = *known;
  const std::string tune = given(from.tune, "the option tune");
  if (tune != "off" && tune != "auto" && tune != "full") fail("tune is \"{}\", expected off, auto or full", tune);
  options.tune = tune == "off" ? Tune::off : tune == "full" ? Tune::full : Tune::automatic;
  options.tuning_file = given(from.tuning_file, "the option tuning_file");
  options.threads = from.threads;
  return options;
}

template <class Read>
int32_t load(const Read& read, const sparkpilot_options* options, sparkpilot_session** session) {
  if (session) *session = nullptr;
  return guarded([&] {
    given(session, "the place of the session");
    SessionOptions chosen = session_options(options);
    *session = new sparkpilot_session{.session = Session(read(), std::move(chosen))};
  });
}

const TensorInfo& info_at(const std::vector<TensorInfo>& all, int32_t i, const char* what) {
  if (i < 0 || i >= std::ssize(all)) fail("no {} {}, the model has {}", what, i, all.size());
  return all[static_cast<size_t>(i)];
}

const TensorInfo& info_of(const std::vector<TensorInfo>& all, const char* name, const char* what) {
  const std::string wanted = given(name, "the name");
  std::vector<std::string> names;
  for (const TensorInfo& info : all) {
    if (info.name == wanted) return info;
    names.push_back(info.name);
  }
  fail("the model has no {} \"{}\"{}", what, wanted, did_you_mean(wanted, names));
}

// What is known without memory: the names and sizes that the model declares.
sparkpilot_tensor described(const TensorInfo& info) {
  sparkpilot_tensor tensor{.name = info.name.c_str(), .dtype = static_cast<int32_t>(onnx_code(info.dtype))};
  // An output without dimensions may be a number, or have no declared shape.
  tensor.rank = info.shape ? info.shape->rank() : info.dims.empty() ? -1 : static_cast<int32_t>(info.dims.size());
  for (int axis = 0; axis < std::min(tensor.rank, SPARKPILOT_MOST_DIMENSIONS); ++axis)
    tensor.shape[axis] = info.shape ? (*info.shape)[axis] : info.dims[static_cast<size_t>(axis)].size;
  return tensor;
}

void show(sparkpilot_tensor& tensor, const ConstView& view) {
  tensor.dtype = static_cast<int32_t>(onnx_code(view.dtype));
  tensor.rank = view.shape.rank();
  std::copy(view.shape.begin(), view.shape.end(), tensor.shape);
  tensor.data = const_cast<void*>(view.data);  // NOLINT: of an output, whose memory is the session's
  tensor.bytes = static_cast<size_t>(view.bytes());
}

sparkpilot_tensor input_of(const Hold& session, const TensorInfo& info) {
  sparkpilot_tensor tensor = described(info);
  if (info.shape) show(tensor, session->input(info.name));
  return tensor;
}

sparkpilot_tensor output_of(const Hold& session, const TensorInfo& info) {
  sparkpilot_tensor tensor = described(info);
  if (session.ran()) show(tensor, session->output(info.name));
  return tensor;
}

void check_bytes(const sparkpilot_tensor& tensor, const char* what, size_t bytes) {
  if (tensor.bytes != bytes) fail("the {} \"{}\" has {} bytes, {} are given", what, tensor.name, tensor.bytes, bytes);
}

}  // namespace

extern "C" {

int32_t sparkpilot_api_version(void) { return SPARKPILOT_API_VERSION; }
const char* sparkpilot_version(void) { return SPARKPILOT_VERSION; }
const char* sparkpilot_error(void) { return last_error.c_str(); }

int32_t sparkpilot_default_options(sparkpilot_options* options, size_t size) {
  return guarded([&] {
    given(options, "the place of the options");
    check_size(size);
    sparkpilot_options defaults = default_options();
    std::memset(static_cast<void*>(options), 0, size);
    std::memcpy(options, &defaults, std::min(size, sizeof defaults));
    options->size = size;
  });
}

int32_t sparkpilot_load(const char* file, const sparkpilot_options* options, sparkpilot_session** session) {
  return load([&] { return load_onnx(given(file, "the file's name")); }, options, session);
}

int32_t sparkpilot_load_bytes(const void* model, size_t bytes, const char* name, const sparkpilot_options* options,
                              sparkpilot_session** session) {
  return load(
      [&] {
        given(model, "the model");
        return parse_onnx({static_cast<const std::byte*>(model), bytes}, given(name, "the model's name"));
      },
      options, session);
}

int32_t sparkpilot_close(sparkpilot_session* session) {
  return guarded([&] {
    if (session) Hold(session).close();
  });
}

int32_t sparkpilot_input_count(const sparkpilot_session* session) {
  return session ? static_cast<int32_t>(session->session.inputs().size()) : 0;
}
int32_t sparkpilot_output_count(const sparkpilot_session* session) {
  return session ? static_cast<int32_t>(session->session.outputs().size()) : 0;
}

int32_t sparkpilot_input(sparkpilot_session* session, int32_t i, sparkpilot_tensor* tensor) {
  return guarded([&] {
    const Hold held(session);
    *given(tensor, "the place of the tensor") = input_of(held, info_at(held->inputs(), i, "input"));
  });
}
int32_t sparkpilot_find_input(sparkpilot_session* session, const char* name, sparkpilot_tensor* tensor) {
  return guarded([&] {
    const Hold held(session);
    *given(tensor, "the place of the tensor") = input_of(held, info_of(held->inputs(), name, "input"));
  });
}
int32_t sparkpilot_output(sparkpilot_session* session, int32_t i, sparkpilot_tensor* tensor) {
  return guarded([&] {
    const Hold held(session);
    *given(tensor, "the place of the tensor") = output_of(held, info_at(held->outputs(), i, "output"));
  });
}
int32_t sparkpilot_find_output(sparkpilot_session* session, const char* name, sparkpilot_tensor* tensor) {
  return guarded([&] {
    const Hold held(session);
    *given(tensor, "the place of the tensor") = output_of(held, info_of(held->outputs(), name, "output"));
  });
}

int32_t sparkpilot_set_shape(sparkpilot_session* session, const char* name, const int64_t* shape, int32_t rank) {
  return guarded([&] {
    const Hold held(session);
    if (rank < 0) fail("a shape of rank {}", rank);
    if (rank > 0) given(shape, "the shape");
    const Shape wanted(std::span<const int64_t>(shape, static_cast<size_t>(rank)));
    if (info_of(held->inputs(), name, "input").shape == wanted) return;
    held->set_shape(name, wanted);
    held.ran() = false;
  });
}

int32_t sparkpilot_write(sparkpilot_session* session, const char* input, const void* from, size_t bytes) {
  return guarded([&] {
    const Hold held(session);
    const sparkpilot_tensor tensor = input_of(held, info_of(held->inputs(), input, "input"));
    if (!tensor.data) fail("the input \"{}\" has an open dimension: sparkpilot_set_shape() comes first", tensor.name);
    check_bytes(tensor, "input", bytes);
    if (bytes > 0) std::memcpy(tensor.data, given(from, "the values"), bytes);
  });
}
int32_t sparkpilot_read(sparkpilot_session* session, const char* output, void* to, size_t bytes) {
  return guarded([&] {
    const Hold held(session);
    const sparkpilot_tensor tensor = output_of(held, info_of(held->outputs(), output, "output"));
    if (!tensor.data) fail("the output \"{}\" has no values: sparkpilot_run() comes first", tensor.name);
    check_bytes(tensor, "output", bytes);
    if (bytes > 0) std::memcpy(given(to, "the place of the values"), tensor.data, bytes);
  });
}

int32_t sparkpilot_run(sparkpilot_session* session) {
  return guarded([&] {
    const Hold held(session);
    held.ran() = false;
    held->run();
    held.ran() = true;
  });
}

}  // extern "C"
