// Tensors of ONNX files: TensorProto messages, inline or with external data.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/file.h"
#include "onnx/wire.h"
#include "tensor/tensor.h"

namespace onnx {
class TensorProto;
}

namespace sparkpilot {

// The element type with that number. Throws Unsupported for strings, complex numbers and types newer than the table,
// fails (user) for a number that is no type.
DType read_dtype(int type);

// A file with one serialised TensorProto, such as the conformance cases' data. `name`, where given, receives its name.
Tensor load_tensor_proto(const std::filesystem::path& path, std::string* name = nullptr);

// Reads TensorProto messages of one model. Private to the room.
class TensorReader {
 public:
  // `folder` is where external data is looked for; empty: external data is refused.
  TensorReader(ByteSource& source, std::filesystem::path folder) : source_(source), folder_(std::move(folder)) {}
  struct Named {
    std::string name;
    Tensor tensor;
  };
  // The bytes go from the file straight into the tensor's buffer, which is made only when the file is known to hold
  // them. Fails (user) where dims and data disagree. What was read before at the same place is shared: functions are
  // imported once a call, and hold their weights once.
  const Named& read(Range range);
  // Of the external data that was read.
  const std::set<std::string>& locations() const { return locations_; }

 private:
  struct External {
    InputFile file;
    std::map<int64_t, std::shared_ptr<Buffer>> read;  // by offset
    int64_t bytes = 0;                                // read so far
  };
  Tensor read_data(const onnx::TensorProto& proto, const std::optional<Range>& raw);
  Tensor read_external(const onnx::TensorProto& proto, DType dtype, const Shape& shape);
  ByteSource& source_;
  std::filesystem::path folder_;
  std::map<std::string, External> files_;  // those that are open
  std::set<std::string> locations_;
  std::map<int64_t, Named> done_;  // by place
};

}  // namespace sparkpilot
