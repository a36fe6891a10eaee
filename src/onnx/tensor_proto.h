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
// fails (user) for a number that is not a type.
DType read_dtype(int type);

// A file with one serialised TensorProto, such as the conformance cases' data. `name`, if given, receives its name.
Tensor load_tensor_proto(const std::filesystem::path& path, std::string* name = nullptr);

// Reads TensorProto messages of one model. Private to the room.
class TensorReader {
 public:
  // `folder` is searched for external data; empty: external data is refused.
  TensorReader(ByteSource& source, std::filesystem::path folder) : source_(source), folder_(std::move(folder)) {}
  struct Named {
    std::string name;
    Tensor tensor;
  };
  // The bytes are read from the file straight into the tensor's buffer, which is made only when the file is known to
  // hold them. Fails (user) if dims and data disagree. A tensor at a position that was read before is shared, because
  // functions are imported for each call but should hold their weights once.
  const Named& read(Range range);
  // The locations of the external data that was read.
  const std::set<std::string>& locations() const { return locations_; }

 private:
  struct External {
    InputFile file;
    std::map<int64_t, std::shared_ptr<Buffer>> read = {}, bools = {};  // by offset; sanitize() changes bools
    int64_t bytes = 0;                                                 // read so far
  };
  Tensor read_data(const onnx::TensorProto& proto, const std::optional<Range>& raw);
  Tensor read_external(const onnx::TensorProto& proto, DType dtype, const Shape& shape);
  ByteSource& source_;
  std::filesystem::path folder_;
  std::map<std::string, External> files_;  // open ones
  std::set<std::string> locations_;
  std::map<int64_t, Named> done_;  // by position
};

}  // namespace sparkpilot
